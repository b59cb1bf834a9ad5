//! What readers and the writer share, and what goes from the ones to the other.

use catalog::rows::Rows;
use ondisk::pax::{self, Member};
use walk::{Diagnostics, Meta};

use super::users::Users;
use crate::plan::Plan;

/// What is being dumped.
#[derive(Clone, Copy)]
pub(crate) struct Work<'a> {
    pub(crate) rows: &'a Rows,
    pub(crate) plan: &'a Plan,
    pub(crate) users: &'a Users,
    pub(crate) diagnostics: &'a Diagnostics,
    /// How many directories each reader keeps open.
    pub(crate) open_directories: usize,
}

/// The size at which a load is handed over.
pub(crate) const PIECE: usize = 1 << 20;

/// A piece of the archive.
#[derive(Default)]
pub(crate) struct Load {
    pub(crate) bytes: Vec<u8>,
    /// The rows whose headers begin in it, and where.
    pub(crate) begun: Vec<(usize, u64)>,
    /// The rows that end in it.
    pub(crate) done: Vec<Done>,
    /// A link that follows it: only the writer knows the outcome of its target.
    pub(crate) link: Option<usize>,
}

/// Stands in a header until the checksum is known. All checksums have the same length.
pub(super) const NO_CHECKSUM: [u8; 32] = [0; 32];

impl Load {
    /// Adds the headers of a row. Returns where its checksum is.
    pub(crate) fn begin(&mut self, row: usize, member: &Member) -> Option<usize> {
        self.begun.push((row, self.bytes.len() as u64));
        pax::header(member, &mut self.bytes)
    }

    /// Takes back everything since the headers of the last row.
    pub(super) fn take_back(&mut self) {
        if let Some((_, at)) = self.begun.pop() {
            self.bytes.truncate(at as usize);
        }
    }

    /// An empty load in used memory.
    pub(crate) fn reuse(mut bytes: Vec<u8>) -> Load {
        bytes.clear();
        Load {
            bytes,
            ..Load::default()
        }
    }
}

/// The outcome of a row.
pub(crate) struct Done {
    pub(crate) row: usize,
    pub(crate) outcome: LoadOutcome,
    /// The metadata of the file now, if it is not that of the row.
    pub(crate) meta: Option<Box<Meta>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoadOutcome {
    /// In the archive: the size of the file, and the checksum of its data as stored.
    Member(u64, Option<[u8; 32]>),
    /// In the archive, but not correct: it must be dumped again.
    Spoiled(u64),
    /// In the archive, as another name of the file of another row.
    Link,
    /// Of a type that no archive can hold.
    NoMember,
    /// Not in the archive.
    Missing,
}

/// The writer has failed, so nothing more is to be read.
pub(crate) struct Stopped;

/// Takes a load that is full, and gives an empty one.
pub(crate) type Emit<'h> = &'h mut dyn FnMut(Load) -> Result<Load, Stopped>;
