//! Data that readers and the writer of an archive share, and the loads that readers pass to the
//! writer.

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

/// Size at which a reader passes a load to the writer.
pub(crate) const PIECE: usize = 1 << 20;

/// A piece of the archive, passed from a reader to the writer.
#[derive(Default)]
pub(crate) struct ArchiveChunk {
    pub(crate) bytes: Vec<u8>,
    /// Rows whose headers begin in this load, and their offsets.
    pub(crate) begun: Vec<(usize, u64)>,
    /// Rows whose members end in this load.
    pub(crate) done: Vec<DumpedRow>,
    /// A hard link to write after this load: the writer decides, because only it knows whether the
    /// link's target was written.
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

    /// Truncates the load to before the headers of the last row.
    pub(super) fn take_back(&mut self) {
        if let Some((_, at)) = self.begun.pop() {
            self.bytes.truncate(at as usize);
        }
    }

    /// An empty load that reuses a buffer.
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
    /// The metadata of the file now, if it differs from that of the row.
    pub(crate) meta: Option<Box<Meta>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowOutcome {
    /// Dumped: the size of the file, and the checksum of its data as stored.
    Member(u64, Option<[u8; 32]>),
    /// Dumped with wrong contents: the next increment must dump it again.
    Spoiled(u64),
    /// Dumped as a hard link to a different row's file.
    Link,
    /// The file type cannot be stored in an archive.
    NoMember,
    /// Failed to dump.
    Missing,
}

/// The writer has failed, so readers stop.
pub(crate) struct WriterStopped;

/// Passes a full load to the writer, and returns an empty one.
pub(crate) type EmitChunk<'h> =
    &'h mut dyn FnMut(ArchiveChunk) -> Result<ArchiveChunk, WriterStopped>;
