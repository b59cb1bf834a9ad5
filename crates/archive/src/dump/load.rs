//! What goes from the readers to the writer: pieces of the archive, with what came of each row.

use walk::Meta;

/// Bytes that a reader hands over at a time.
pub(crate) const PIECE: usize = 1 << 20;

/// A piece of the archive on its way.
#[derive(Debug, Default)]
pub(crate) struct Load {
    pub(crate) bytes: Vec<u8>,
    /// The rows that end in it.
    pub(crate) done: Vec<Done>,
    /// A row that is to follow: a link to another, of which only the writer knows what came of it.
    pub(crate) link: Option<usize>,
}

impl Load {
    /// An empty load, in memory that was used before.
    pub(crate) fn reuse(spare: Option<Vec<u8>>) -> Load {
        let mut bytes = spare.unwrap_or_default();
        bytes.clear();
        Load {
            bytes,
            ..Load::default()
        }
    }
}

/// What came of a row.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) row: usize,
    pub(crate) what: What,
    /// What is known of the file now, if that is not what the row says.
    pub(crate) meta: Option<Box<Meta>>,
}

/// See [`Done`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    /// It is in the archive: the bytes of its data, and the checksum of what is stored of a file.
    Member(u64, Option<[u8; 32]>),
    /// It is in the archive, but not as it ought to be: it must be dumped again.
    Spoiled(u64),
    /// Another name of what another row has.
    Link,
    /// No archive can hold it.
    NoMember,
    /// It is not in the archive.
    Missing,
}

/// The writer has failed: nothing more is to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopped;

/// Takes a load that is full, and gives an empty one.
pub(crate) type Hand<'h> = &'h mut dyn FnMut(Load) -> Result<Load, Stopped>;
