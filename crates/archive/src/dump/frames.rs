//! Compresses with zstd in independent frames of a fixed size, so that a reader can start at any
//! frame. Threads compress; frames are written in order. The output does not depend on the number
//! of threads.
//!
//! ```text
//!           next 2 MiB      ┌ worker ┐  in order
//! write ──► chunk ──► jobs ─┤ worker ├─► pending ──► sink
//!                           └ worker ┘
//! ```

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use gate::sync::Mutex;
use ondisk::seekable::{SeekTable, index_frame};
use zstd::bulk::Compressor;

/// Uncompressed size of a frame. To reach a member, a reader decompresses half a frame on average.
/// At level 3, frames of 1, 2 and 4 MiB made an archive of documents and programs 5, 3 and 2 %
/// larger than a single frame.
const CHUNK: usize = 2 << 20;
const LARGE_CHUNK: usize = 4 << 20;
/// The first zstd level with larger frames: from this level on, time is traded for size.
const LARGE_FROM: i32 = 10;
/// Number of chunks queued per worker.
const AHEAD: usize = 2;

type Compressed = io::Result<Vec<u8>>;

/// A chunk to compress, and the channel for the resulting frame.
struct Job {
    chunk: Vec<u8>,
    done: SyncSender<(Vec<u8>, Compressed)>,
}

/// Writes zstd frames and, at the end, the index of members and the seek table.
pub(super) struct Frames<W> {
    to: W,
    level: i32,
    chunk: Vec<u8>,
    chunk_size: usize,
    /// Queue of chunks for the compressing threads. `None` if no thread could be started: then the
    /// writer compresses the chunks itself.
    jobs: Option<SyncSender<Job>>,
    /// Frames still being compressed, in order.
    pending: VecDeque<Receiver<(Vec<u8>, Compressed)>>,
    most_pending: usize,
    spare: Vec<Vec<u8>>,
    table: SeekTable,
}

impl<W: Write> Frames<W> {
    pub(super) fn new(to: W, level: i32, workers: usize) -> Frames<W> {
        let (jobs, queue) = sync_channel::<Job>(workers * AHEAD);
        let queue = Arc::new(Mutex::new(queue));
        let spawn = || {
            let queue = Arc::clone(&queue);
            let work = move || compress_jobs(level, &queue);
            thread::Builder::new().spawn(work).is_ok()
        };
        let started = (0..workers).take_while(|_| spawn()).count();
        Frames {
            to,
            level,
            chunk: Vec::new(),
            chunk_size: if level < LARGE_FROM {
                CHUNK
            } else {
                LARGE_CHUNK
            },
            jobs: (started > 0).then_some(jobs),
            pending: VecDeque::new(),
            most_pending: started * AHEAD,
            spare: Vec::new(),
            table: SeekTable::default(),
        }
    }

    /// Sends the current chunk to a worker; if enough chunks are queued, first writes the oldest
    /// frame.
    fn end_chunk(&mut self) -> io::Result<()> {
        if self.pending.len() >= self.most_pending.max(1) {
            self.write_oldest()?;
        }
        let chunk = std::mem::replace(&mut self.chunk, self.spare.pop().unwrap_or_default());
        let (done, frame) = sync_channel(1);
        self.pending.push_back(frame);
        let job = Job { chunk, done };
        match &self.jobs {
            // Sending cannot fail: workers live as long as this sender.
            Some(jobs) => jobs.send(job).map_err(|_| io::ErrorKind::BrokenPipe.into()),
            None => {
                compress_job(&mut compressor(self.level), job);
                Ok(())
            }
        }
    }

    fn write_oldest(&mut self) -> io::Result<()> {
        let Some(frame) = self.pending.pop_front() else {
            return Ok(());
        };
        let done = frame.recv();
        let (mut chunk, frame) = done.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        let frame = frame?;
        self.to.write_all(&frame)?;
        self.table.push(frame.len() as u32, chunk.len() as u32);
        chunk.clear();
        self.spare.push(chunk);
        Ok(())
    }

    /// Writes the remaining frames, the index of members, and the seek table.
    pub(super) fn finish(mut self, index: Option<&[u8]>) -> io::Result<W> {
        if !self.chunk.is_empty() {
            self.end_chunk()?;
        }
        while !self.pending.is_empty() {
            self.write_oldest()?;
        }
        if let Some(index) = index {
            let content = compressor(self.level)?.compress(index)?;
            if let Some(frame) = index_frame::encode(&content) {
                self.to.write_all(&frame)?;
                self.table.push(frame.len() as u32, 0);
            }
        }
        if let Some(table) = self.table.encode() {
            self.to.write_all(&table)?;
        }
        Ok(self.to)
    }
}

impl<W: Write> Write for Frames<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.chunk_size - self.chunk.len());
        self.chunk.extend_from_slice(&bytes[..taken]);
        if self.chunk.len() == self.chunk_size {
            self.end_chunk()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn compressor(level: i32) -> io::Result<Compressor<'static>> {
    let mut compressor = Compressor::new(level)?;
    compressor.include_checksum(true)?;
    Ok(compressor)
}

/// The main loop of a worker thread.
fn compress_jobs(level: i32, queue: &Mutex<Receiver<Job>>) {
    let mut compressor = compressor(level);
    loop {
        let job = queue.lock().recv();
        match job {
            Ok(job) => compress_job(&mut compressor, job),
            Err(_) => return,
        }
    }
}

fn compress_job(compressor: &mut io::Result<Compressor<'static>>, job: Job) {
    let frame = match compressor {
        Ok(compressor) => compressor.compress(&job.chunk),
        Err(e) => Err(io::Error::new(e.kind(), e.to_string())),
    };
    // Sending fails only if the writer has failed, and then the frame is not needed.
    let _ = job.done.send((job.chunk, frame));
}
