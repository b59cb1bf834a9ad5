//! A sink that prints entries as lines on stdout.

use std::sync::atomic::{AtomicBool, Ordering};

use gate::sync::Mutex;
use walk::{Dir, Entry, Fields, Sink, Worker};

use super::lines::{Lines, fields, head};
use crate::args::output::Format;
use crate::error::Error;
use crate::out::Out;

/// A sink that requests paths, which the progress line shows, and ignores the entries.
pub(super) struct ProgressSink;

impl Sink for ProgressSink {
    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(ProgressSink)
    }

    fn fields(&self) -> Fields {
        Fields::empty()
    }
}

impl Worker for ProgressSink {
    fn take(&mut self, _dir: &Dir<'_>, _entries: &[Entry<'_>]) {}
}

/// Prints entries as lines on stdout. Each thread fills its own buffer, so that threads wait for
/// each other only while writing.
pub(super) struct LineOutput<'a> {
    format: Format,
    out: &'a Out,
    /// A thread writes its buffer when the buffer has at least this number of bytes.
    enough: usize,
    state: Mutex<OutputState>,
    is_closed: AtomicBool,
}

struct OutputState {
    /// Complete lines: first the header, later the rest of the buffers of ended threads.
    kept: Vec<u8>,
    failed: Option<Error>,
}

impl<'a> LineOutput<'a> {
    /// The length in bytes at which a buffer is written, except on a terminal.
    const PIECE: usize = 128 << 10;

    pub(super) fn new(format: Format, out: &'a Out) -> LineOutput<'a> {
        let kept = head(format).to_vec();
        LineOutput {
            format,
            out,
            // On a terminal, print each entry at once.
            enough: if out.on_terminal() {
                1
            } else {
                LineOutput::PIECE
            },
            state: Mutex::new(OutputState { kept, failed: None }),
            is_closed: AtomicBool::new(false),
        }
    }

    fn write(&self, state: &mut OutputState, lines: &[u8]) {
        if state.failed.is_none()
            && let Err(failed) = self.out.names(|to| to.write_all(lines))
        {
            state.failed = Some(failed);
            self.is_closed.store(true, Ordering::Relaxed);
        }
    }

    fn put(&self, lines: &mut Vec<u8>) {
        let mut state = self.state.lock();
        self.write_kept(&mut state, 1);
        self.write(&mut state, lines);
        lines.clear();
    }

    fn write_kept(&self, state: &mut OutputState, enough: usize) {
        if state.kept.len() >= enough {
            let kept = std::mem::take(&mut state.kept);
            self.write(state, &kept);
        }
    }

    fn keep(&self, lines: &[u8]) {
        let mut state = self.state.lock();
        state.kept.extend_from_slice(lines);
        self.write_kept(&mut state, self.enough);
    }

    /// Writes the rest of the buffers. The returned error can be that of an earlier write.
    pub(super) fn end(self) -> Result<(), Error> {
        let OutputState { kept, failed } = self.state.into_inner();
        match failed {
            Some(failed) => Err(failed),
            None => self.out.names(|to| to.write_all(&kept)),
        }
    }
}

impl Sink for LineOutput<'_> {
    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(LineWriter {
            lines: Lines::new(self.format),
            to: self,
        })
    }

    fn fields(&self) -> Fields {
        fields(self.format)
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }
}

struct LineWriter<'a> {
    lines: Lines,
    to: &'a LineOutput<'a>,
}

impl Worker for LineWriter<'_> {
    fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        let mut is_entered = false;
        for entry in entries {
            if entry.name.is_empty() {
                self.lines.top(dir.path, &entry.meta);
                continue;
            }
            if !is_entered {
                self.lines.enter(dir.path);
                is_entered = true;
            }
            self.lines.entry(entry.name, &entry.meta);
            if self.lines.buffer.len() >= LineOutput::PIECE {
                self.to.put(&mut self.lines.buffer);
            }
        }
        if self.lines.buffer.len() >= self.to.enough {
            self.to.put(&mut self.lines.buffer);
        }
    }

    fn flush(&mut self) {
        if !self.lines.buffer.is_empty() {
            self.to.put(&mut self.lines.buffer);
        }
    }
}

impl Drop for LineWriter<'_> {
    fn drop(&mut self) {
        self.to.keep(&self.lines.buffer);
    }
}
