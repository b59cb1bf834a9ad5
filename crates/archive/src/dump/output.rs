//! The destination of an archive: a file or object, created atomically, or a stream or device
//! (standard output, a FIFO, a tape), with compression by its name or by option.

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

/// Size of independent xz blocks, for compression in threads: as `xz -T` uses at level 6.
const XZ_BLOCK: u64 = 24 << 20;

/// The size of an archive whose members have this many bytes, with end-of-archive blocks and
/// padding.
pub(crate) fn end_of_archive(bytes: u64) -> u64 {
    const BLOCK: u64 = 512;
    let end = bytes.saturating_add(2 * BLOCK);
    end.checked_next_multiple_of(RECORD as u64)
        .unwrap_or(u64::MAX)
}

pub(crate) struct Output {
    path: Vec<u8>,
    to: OutputTarget,
    seen: Option<Statx>,
    /// Number of bytes written, before compression.
    bytes: u64,
    /// Offsets of members, for an archive in which a reader can seek.
    index: Option<MemberIndex>,
}

enum OutputTarget {
    /// Discards all data (`--no-output`).
    Nowhere,
    Plain(Sink),
    Gzip(Box<GzEncoder<Sink>>),
    Xz(Box<XzWriterMt<Sink>>),
    Frames(Frames<Sink>),
}

/// The index under construction. It lists only a few members, at a minimum distance.
struct MemberIndex {
    writer: IndexWriter,
    /// The next member at or after this offset is added to the index.
    next: u64,
    /// Whether the index lists the members that it must: the first one, and each SRC.
    is_complete: bool,
}

/// Minimum distance of two members in the index, in bytes of the archive. With about 10 bytes per
/// member, the index has 40 bytes per MiB of the archive.
const INDEX_DISTANCE: u64 = 256 << 10;

impl Output {
    /// Creates an archive: `-` is standard output, `None` discards everything.
    pub(crate) fn create(
        path: Option<&[u8]>,
        format: Option<(Compression, u32)>,
    ) -> Result<Output, Error> {
        let mut output = Output {
            path: path.unwrap_or_default().to_vec(),
            to: OutputTarget::Nowhere,
            seen: None,
            bytes: 0,
            index: None,
        };
        if let Some(path) = path {
            let writer = Destination::create(path)
                .map_err(|kind| Error::new(Action::WriteArchive, path, kind))?;
            output.seen = writer.statx();
            let sink = Sink::new(writer, output.seen);
            output.to = OutputTarget::new(sink, format).map_err(|e| error(path, e))?;
        }
        if let OutputTarget::Frames(_) = output.to {
            output.index = Some(MemberIndex {
                writer: IndexWriter::default(),
                next: 0,
                is_complete: true,
            });
        }
        Ok(output)
    }

    pub(crate) fn statx(&self) -> Option<Statx> {
        self.seen
    }

    /// Adds a member to the index, unless the previous indexed member is too near. The member
    /// begins `after` bytes after the current offset. For a SRC (`is_source`), the index restarts
    /// the order of names.
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
            // An incomplete index is not written: readers take its first member for the first of
            // the archive.
            false => index.is_complete &= !is_source && index.next > 0,
        }
    }

    /// Writes the lineage header, before all members.
    pub(crate) fn begin(&mut self, lineage: &Lineage) -> Result<(), Error> {
        let mut header = Vec::new();
        lineage_header(lineage, &mut header);
        self.write(&header)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.bytes += bytes.len() as u64;
        let written = match &mut self.to {
            OutputTarget::Nowhere => Ok(()),
            OutputTarget::Plain(sink) => sink.write_all(bytes),
            OutputTarget::Gzip(encoder) => encoder.write_all(bytes),
            OutputTarget::Xz(encoder) => encoder.write_all(bytes),
            OutputTarget::Frames(frames) => frames.write_all(bytes),
        };
        written.map_err(|e| error(&self.path, e))
    }

    /// Writes the end-of-archive blocks, and syncs the archive to disk.
    pub(crate) fn finish(mut self) -> Result<SyncedArchive, Error> {
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
        Ok(SyncedArchive { path, to, bytes })
    }
}

impl OutputTarget {
    fn new(sink: Sink, format: Option<(Compression, u32)>) -> io::Result<OutputTarget> {
        Ok(match format {
            None => OutputTarget::Plain(sink),
            Some((Compression::Gzip, level)) => {
                let level = flate2::Compression::new(level);
                OutputTarget::Gzip(Box::new(GzEncoder::new(sink, level)))
            }
            Some((Compression::Xz, level)) => {
                let mut options = XzOptions::with_preset(level);
                options.set_block_size(NonZeroU64::new(XZ_BLOCK));
                let encoder = XzWriterMt::new(sink, options, processors() as u32)?;
                OutputTarget::Xz(Box::new(encoder))
            }
            Some((Compression::Zstd, level)) => {
                OutputTarget::Frames(Frames::new(sink, level as i32, processors()))
            }
            Some((Compression::Bzip2 | Compression::Lz4, _)) => {
                return Err(io::ErrorKind::Unsupported.into());
            }
        })
    }

    fn finish(self, index: Option<&[u8]>) -> io::Result<Option<Sink>> {
        let mut sink = match self {
            OutputTarget::Nowhere => return Ok(None),
            OutputTarget::Plain(sink) => sink,
            OutputTarget::Gzip(encoder) => (*encoder).finish()?,
            OutputTarget::Xz(encoder) => (*encoder).finish()?,
            OutputTarget::Frames(frames) => frames.finish(index)?,
        };
        sink.sync()?;
        Ok(Some(sink))
    }
}

/// An archive synced to disk, but not yet renamed into place.
pub(crate) struct SyncedArchive {
    path: Vec<u8>,
    to: Option<Sink>,
    bytes: u64,
}

impl SyncedArchive {
    /// Renames the archive into place, and returns its size.
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
