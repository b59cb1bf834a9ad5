//! The destination of an archive: a file or an object that gets its name atomically, or a stream or a device
//! (standard output, a fifo, a tape); compressed, if its name or the user says so.

use std::io::{self, Write};
use std::num::NonZeroU64;

use catalog::destination::Destination;
use flate2::write::GzEncoder;
use gate::attribution::{self, Function};
use gate::fs::Statx;
use gate::machine::processors;
use lzma_rust2::{XzOptions, XzWriterMt};
use ondisk::members::{IndexWriter, Indexed};
use ondisk::pax::{Lineage, lineage_header};

use super::frames::Frames;
use super::sink::{RECORD, Sink};
use crate::compression::Compression;
use crate::error::{Action, Error};

/// xz compresses blocks of this size by themselves, in several threads: as `xz -T` at its usual level.
const XZ_BLOCK: u64 = 24 << 20;

/// The size of an archive whose members have so many bytes.
pub(crate) fn end_of_archive(bytes: u64) -> u64 {
    const BLOCK: u64 = 512;
    let end = bytes.saturating_add(2 * BLOCK);
    end.checked_next_multiple_of(RECORD as u64)
        .unwrap_or(u64::MAX)
}

/// An archive being written.
pub(crate) struct Output {
    path: Vec<u8>,
    to: To,
    seen: Option<Statx>,
    /// Bytes before compression.
    bytes: u64,
    /// Where members begin, for an archive that a reader can seek in.
    index: Option<MemberIndex>,
}

enum To {
    /// `--no-output`
    Nowhere,
    Plain(Sink),
    Compressed(Box<dyn Encoder>),
    Frames(Frames<Sink>),
}

/// The index that is being made. It names a few members, at some distance.
struct MemberIndex {
    writer: IndexWriter,
    /// The offset from which the next member is named.
    next: u64,
    /// All members were named that had to be.
    is_complete: bool,
}

/// The least distance of two members in the index: some 10 bytes for each, so 40 bytes for a MiB of content.
const INDEX_DISTANCE: u64 = 256 << 10;

/// Compresses what is written into a file.
trait Encoder: Write {
    /// Writes the end of the compressed data.
    fn finish(self: Box<Self>) -> io::Result<Sink>;
}

impl Encoder for GzEncoder<Sink> {
    fn finish(self: Box<Self>) -> io::Result<Sink> {
        (*self).finish()
    }
}

impl Encoder for XzWriterMt<Sink> {
    fn finish(self: Box<Self>) -> io::Result<Sink> {
        (*self).finish()
    }
}

impl Output {
    /// Creates an archive: `-` is standard output, `None` discards everything.
    pub(crate) fn create(
        path: Option<&[u8]>,
        format: Option<(Compression, u32)>,
    ) -> Result<Output, Error> {
        let mut output = Output {
            path: path.unwrap_or_default().to_vec(),
            to: To::Nowhere,
            seen: None,
            bytes: 0,
            index: None,
        };
        if let Some(path) = path {
            let writer = Destination::create(path)
                .map_err(|kind| Error::new(Action::WriteArchive, path, kind))?;
            output.seen = writer.statx();
            let sink = Sink::new(writer, output.seen);
            output.to = To::new(sink, format).map_err(|e| error(path, e))?;
        }
        if let To::Frames(_) = output.to {
            output.index = Some(MemberIndex {
                writer: IndexWriter::default(),
                next: 0,
                is_complete: true,
            });
        }
        Ok(output)
    }

    /// statx(2) of the destination.
    pub(crate) fn statx(&self) -> Option<Statx> {
        self.seen
    }

    /// Notes that a member begins so many bytes after what was written so far. `is_source` says that it
    /// is a SRC, where the order of names begins anew.
    pub(crate) fn note_member(
        &mut self,
        after: u64,
        is_source: bool,
        name: impl FnOnce() -> Vec<u8>,
    ) {
        let at = self.bytes + after;
        let Some(index) = self
            .index
            .as_mut()
            .filter(|index| is_source || at >= index.next)
        else {
            return;
        };
        let is_noted = index.writer.push(Indexed {
            at,
            begins_order: is_source,
            name: &name(),
        });
        match is_noted {
            true => index.next = at + INDEX_DISTANCE,
            // Readers take the first one in the index for the first of the archive.
            false => index.is_complete &= !is_source && index.next > 0,
        }
    }

    /// Writes what precedes all members.
    pub(crate) fn begin(&mut self, lineage: &Lineage) -> Result<(), Error> {
        let mut header = Vec::new();
        lineage_header(lineage, &mut header);
        self.write(&header)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.bytes += bytes.len() as u64;
        let written = match &mut self.to {
            To::Nowhere => Ok(()),
            To::Plain(sink) => sink.write_all(bytes),
            To::Compressed(encoder) => encoder.write_all(bytes),
            To::Frames(frames) => frames.write_all(bytes),
        };
        written.map_err(|e| error(&self.path, e))
    }

    /// Writes the end of the archive, and waits until all of it is on the disk.
    pub(crate) fn finish(mut self) -> Result<Whole, Error> {
        let end = end_of_archive(self.bytes);
        self.write(&vec![0; (end - self.bytes) as usize])?;
        let Output {
            path,
            to,
            bytes,
            index,
            ..
        } = self;
        let index = index.filter(|index| index.is_complete);
        let index = index.map(|index| index.writer.finish(bytes));
        let to = to.finish(index.as_deref()).map_err(|e| error(&path, e))?;
        Ok(Whole { path, to, bytes })
    }
}

impl To {
    fn new(sink: Sink, format: Option<(Compression, u32)>) -> io::Result<To> {
        Ok(To::Compressed(match format {
            None => return Ok(To::Plain(sink)),
            Some((Compression::Gzip, level)) => {
                Box::new(GzEncoder::new(sink, flate2::Compression::new(level)))
            }
            Some((Compression::Xz, level)) => {
                let mut options = XzOptions::with_preset(level);
                options.set_block_size(NonZeroU64::new(XZ_BLOCK));
                Box::new(XzWriterMt::new(sink, options, processors() as u32)?)
            }
            Some((Compression::Zstd, level)) => {
                return Ok(To::Frames(Frames::new(sink, level as i32, processors())));
            }
            Some((Compression::Bzip2 | Compression::Lz4, _)) => {
                return Err(io::ErrorKind::Unsupported.into());
            }
        }))
    }

    fn finish(self, index: Option<&[u8]>) -> io::Result<Option<Sink>> {
        let mut sink = match self {
            To::Nowhere => return Ok(None),
            To::Plain(sink) => sink,
            To::Compressed(encoder) => encoder.finish()?,
            To::Frames(frames) => frames.finish(index)?,
        };
        sink.sync()?;
        Ok(Some(sink))
    }
}

/// An archive that is on the disk, and has no name yet.
pub(crate) struct Whole {
    path: Vec<u8>,
    to: Option<Sink>,
    bytes: u64,
}

impl Whole {
    /// Gives the archive its name, atomically, and returns its size.
    pub(crate) fn publish(self) -> Result<u64, Error> {
        let published = match self.to {
            None => Ok(self.bytes),
            Some(sink) => sink.publish(),
        };
        attribution::set_phase(Function::Other);
        published.map_err(|e| error(&self.path, e))
    }
}

fn error(path: &[u8], error: io::Error) -> Error {
    Error::new(Action::WriteArchive, path, error)
}
