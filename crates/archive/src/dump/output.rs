//! Where an archive goes: a file that appears when it is whole and durable, or something that is
//! written straight (standard output, a fifo, a device); compressed, if its name ends in `.zst`.

use std::io::{self, Write};

use crate::attribution::{self, Function};
use gate::file::Writer;
use gate::fs::Statx;
use zstd::stream::write::Encoder;

use crate::error::{Action, Error};

/// What GNU tar and others write at a time, and read: 20 blocks. An archive is padded to a multiple
/// of it, and a character device, which may be a tape, gets each in a write of its own.
pub(crate) const RECORD: usize = 10_240;

/// An archive being written.
pub(crate) struct Output {
    path: Vec<u8>,
    to: To,
    /// Before they were compressed.
    bytes: u64,
}

enum To {
    /// `--no-output`
    Nowhere,
    Plain(Sink),
    Zstd(Box<Encoder<'static, Sink>>),
}

impl Output {
    /// Makes ready to write an archive: `-` is standard output; without a path, everything is done
    /// but to write.
    ///
    /// # Errors
    /// It cannot be written there.
    pub(crate) fn create(path: Option<&[u8]>) -> Result<Output, Error> {
        let Some(path) = path else {
            return Ok(Output {
                path: Vec::new(),
                to: To::Nowhere,
                bytes: 0,
            });
        };
        let create = || {
            let writer = if path == b"-" {
                Writer::stdout()
            } else {
                Writer::create(path)
            };
            let sink = Sink::new(writer.map_err(|e| io::Error::from_raw_os_error(e.0))?);
            if !path.ends_with(b".zst") {
                return Ok(To::Plain(sink));
            }
            let mut encoder = Encoder::new(sink, zstd::DEFAULT_COMPRESSION_LEVEL)?;
            // With workers the bytes do not depend on how many there are; without any, they are
            // others.
            encoder.multithread(u32::try_from(gate::machine::processors()).unwrap_or(1))?;
            encoder.include_checksum(true)?;
            Ok(To::Zstd(Box::new(encoder)))
        };
        let to = create().map_err(|e| error(path, e))?;
        Ok(Output {
            path: path.to_vec(),
            to,
            bytes: 0,
        })
    }

    /// What statx(2) says of what is being written.
    pub(crate) fn statx(&self) -> Option<Statx> {
        match &self.to {
            To::Nowhere => None,
            To::Plain(sink) => sink.writer.statx().ok(),
            To::Zstd(encoder) => encoder.get_ref().writer.statx().ok(),
        }
    }

    /// Writes on.
    ///
    /// # Errors
    /// Those of write(2).
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.bytes += bytes.len() as u64;
        let written = match &mut self.to {
            To::Nowhere => Ok(()),
            To::Plain(sink) => sink.write_all(bytes),
            To::Zstd(encoder) => encoder.write_all(bytes),
        };
        written.map_err(|e| error(&self.path, e))
    }

    /// Writes the end of the archive, and waits until all is on the disk.
    ///
    /// # Errors
    /// It could not be done.
    pub(crate) fn finish(mut self) -> Result<Whole, Error> {
        const BLOCK: u64 = 512;
        let end = (self.bytes + 2 * BLOCK).next_multiple_of(RECORD as u64) - self.bytes;
        self.write(&vec![0; usize::try_from(end).unwrap_or(RECORD)])?;
        let Output { path, to, bytes } = self;
        let finish = || {
            let mut sink = match to {
                To::Nowhere => return Ok(None),
                To::Plain(sink) => sink,
                To::Zstd(encoder) => encoder.finish()?,
            };
            sink.settle()?;
            Ok(Some(sink))
        };
        let to = finish().map_err(|e| error(&path, e))?;
        Ok(Whole { path, to, bytes })
    }
}

/// An archive that is on the disk, and has no name yet.
pub(crate) struct Whole {
    path: Vec<u8>,
    to: Option<Sink>,
    bytes: u64,
}

impl Whole {
    /// Gives it its name. Gives its size.
    ///
    /// # Errors
    /// It could not be done; what had the name has it still.
    pub(crate) fn publish(self) -> Result<u64, Error> {
        let published = self
            .to
            .map_or(Ok(self.bytes), Sink::publish)
            .map_err(|e| error(&self.path, e));
        attribution::set_phase(Function::Other);
        published
    }
}

fn error(path: &[u8], error: io::Error) -> Error {
    Error::new(Action::WriteArchive, path, error)
}

/// Writes in large pieces.
struct Sink {
    writer: Writer,
    piece: Vec<u8>,
    /// How much is written at a time.
    enough: usize,
    /// Whether each write is to be just so much.
    is_exact: bool,
    written: u64,
}

impl Sink {
    fn new(writer: Writer) -> Sink {
        const S_IFMT: u32 = 0o170_000;
        const S_IFCHR: u32 = 0o020_000;
        let is_exact = writer
            .statx()
            .is_ok_and(|seen| seen.mode & S_IFMT == S_IFCHR);
        let enough = if is_exact { RECORD } else { 50 * RECORD };
        Sink {
            writer,
            piece: Vec::new(),
            enough,
            is_exact,
            written: 0,
        }
    }

    fn flush_piece(&mut self) -> io::Result<()> {
        self.writer.write_all(&self.piece)?;
        self.written += self.piece.len() as u64;
        self.piece.clear();
        Ok(())
    }

    /// Writes the rest, and waits until all is on the disk.
    fn settle(&mut self) -> io::Result<()> {
        if !self.piece.is_empty() {
            self.flush_piece()?;
        }
        self.writer
            .sync()
            .map_err(|e| io::Error::from_raw_os_error(e.0))
    }

    /// Gives it its name.
    fn publish(self) -> io::Result<u64> {
        self.writer
            .publish()
            .map_err(|e| io::Error::from_raw_os_error(e.0))?;
        Ok(self.written)
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.piece.is_empty() && bytes.len() >= self.enough && !self.is_exact {
            self.writer.write_all(bytes)?;
            self.written += bytes.len() as u64;
            return Ok(bytes.len());
        }
        let taken = bytes.len().min(self.enough - self.piece.len());
        self.piece.extend_from_slice(&bytes[..taken]);
        if self.piece.len() == self.enough {
            self.flush_piece()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
