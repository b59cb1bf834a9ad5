//! Data that readers and the writer of an archive share, and the archive chunks that readers pass
//! to the writer.

use catalog::rows::Rows;
use ondisk::pax::{self, Member};
use walk::{Diagnostics, Meta};

use super::users::Users;
use crate::plan::Plan;

/// The rows and plan of the dump in progress.
#[derive(Clone, Copy)]
pub(crate) struct DumpInput<'a> {
    pub(crate) rows: &'a Rows,
    pub(crate) plan: &'a Plan,
    pub(crate) users: &'a Users,
    pub(crate) diagnostics: &'a Diagnostics,
    /// Number of directories that each reader keeps open.
    pub(crate) open_directories: usize,
}

/// Size in bytes at which a reader passes an archive chunk to the writer.
pub(crate) const PIECE: usize = 1 << 20;

/// A range of bytes of the archive, passed from a reader to the writer.
#[derive(Default)]
pub(crate) struct ArchiveChunk {
    pub(crate) bytes: Vec<u8>,
    /// Rows whose headers begin in this chunk, and the offsets of the headers.
    pub(crate) begun: Vec<(usize, u64)>,
    /// Rows whose members end in this chunk.
    pub(crate) done: Vec<DumpedRow>,
    /// A hard link to write after this chunk: the writer decides, because only the writer knows
    /// whether the link's target was written.
    pub(crate) link: Option<usize>,
}

/// Placeholder for a checksum in a header. All checksums have the same length.
pub(super) const NO_CHECKSUM: [u8; 32] = [0; 32];

impl ArchiveChunk {
    /// Appends the headers of a row. Returns the offset of its checksum.
    pub(crate) fn begin(&mut self, row: usize, member: &Member) -> Option<usize> {
        self.begun.push((row, self.bytes.len() as u64));
        pax::header(member, &mut self.bytes)
    }

    /// Truncates the chunk to before the headers of the last row.
    pub(super) fn take_back(&mut self) {
        if let Some((_, at)) = self.begun.pop() {
            self.bytes.truncate(at as usize);
        }
    }

    /// An empty chunk that reuses a buffer.
    pub(crate) fn reuse(mut bytes: Vec<u8>) -> ArchiveChunk {
        bytes.clear();
        ArchiveChunk {
            bytes,
            ..ArchiveChunk::default()
        }
    }
}

/// The outcome of dumping one row.
pub(crate) struct DumpedRow {
    pub(crate) row: usize,
    pub(crate) outcome: RowOutcome,
    /// The current metadata of the file, if it differs from that of the row.
    pub(crate) meta: Option<Box<Meta>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowOutcome {
    /// Dumped: the size of the file, and the checksum of its data as stored.
    Member(u64, Option<[u8; 32]>),
    /// Dumped with wrong contents: the next increment must dump the file again.
    Spoiled(u64),
    /// Dumped as a hard link to a different row's file.
    Link,
    /// The file type cannot be stored in an archive.
    NoMember,
    /// The file could not be dumped.
    Missing,
}

/// The writer has failed, so readers stop.
pub(crate) struct WriterStopped;

/// Passes a full archive chunk to the writer, and returns an empty one.
pub(crate) type EmitChunk<'h> =
    &'h mut dyn FnMut(ArchiveChunk) -> Result<ArchiveChunk, WriterStopped>;
