//! Archives: POSIX pax, which is ustar with extended headers, and older formats of tar programs.
//! docs/archive.md describes our archives to the byte.
//! [pax](https://pubs.opengroup.org/onlinepubs/9799919799/utilities/pax.html),
//! [tar(5)](https://man.archlinux.org/man/tar.5)

use std::fmt;
use std::str::FromStr;

use crate::{Dev, Time};

pub mod acl;
mod decode;
pub mod dumpdir;
mod encode;
mod field;
mod record;
pub mod sparse;

pub use decode::{Decoder, Event, begins_archive};
pub use encode::{header, lineage_header, part_header, set_checksum, trailer};
pub use field::BLOCK;

/// The type of a member.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub enum MemberKind {
    #[default]
    File,
    /// A hard link to a member before.
    Link,
    Symlink,
    Char,
    Block,
    Directory,
    Fifo,
    /// The label of a volume, which is no file.
    Label,
    /// The rest of a file that begins on another volume.
    Continuation,
}

/// The part of a dump that an archive is: one process of several wrote it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartOfRun {
    /// Its number, from 0.
    pub number: u32,
    /// How many parts the dump has.
    pub of: u32,
    /// The name of the run. Parts of different runs make no dump.
    pub run: String,
}

/// Identifies what an archive restores, as its maker has planned it. The ids of the parts of a dump add up to the id
/// that one process would have given it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ArchiveId(pub u128);

impl ArchiveId {
    /// The id of two parts together.
    #[must_use]
    pub fn plus(self, other: ArchiveId) -> ArchiveId {
        ArchiveId(self.0.wrapping_add(other.0))
    }
}

impl fmt::Display for ArchiveId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for ArchiveId {
    type Err = ();

    fn from_str(text: &str) -> Result<ArchiveId, ()> {
        let is_plain = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let id = is_plain.then(|| u128::from_str_radix(text, 16).ok());
        id.flatten().map(ArchiveId).ok_or(())
    }
}

/// What must be restored before an archive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Base {
    /// Nothing: it is a full dump.
    Nothing,
    /// An archive that has no id.
    Unknown,
    /// The archive with this id.
    Archive(ArchiveId),
}

/// What an archive says of its place in a chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lineage {
    /// The archive's own id. If nothing has changed since the base, it is that of the base.
    pub id: ArchiveId,
    /// What the archive is based on.
    pub base: Base,
}

/// A member of an archive: the result of all its headers. Fields without a comment are those of
/// `struct stat`, without their `st_`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "stat(2) describes the fields")]
pub struct Member {
    /// Its name; that of a directory ends in a slash.
    pub path: Vec<u8>,
    pub kind: MemberKind,
    /// The target of a symlink; for [`MemberKind::Link`], the path of the other member. Otherwise empty.
    pub link: Vec<u8>,
    /// Permission bits, with set-user-id, set-group-id and sticky: at most 0o7777.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Name of the owner; empty if unknown.
    pub uname: Vec<u8>,
    /// Name of the group; empty if unknown.
    pub gname: Vec<u8>,
    /// Size of the file in bytes, holes included.
    pub size: u64,
    /// Bytes of data after the headers, without padding: [`Member::size`] for a plain file; for a
    /// sparse one, the text of its map and its extents; 0 for other types.
    pub stored: u64,
    pub mtime: Time,
    pub atime: Option<Time>,
    pub ctime: Option<Time>,
    pub rdev: Dev,
    /// The access control list as text ([`acl`]); none if it says no more than the mode.
    pub acl_access: Option<Vec<u8>>,
    /// A directory's default access control list as text.
    pub acl_default: Option<Vec<u8>>,
    /// Names and values of extended attributes, sorted by name if they come from a [`Decoder`]. We
    /// write access control lists only in the fields above.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// The data extents of a sparse file; `None` for a file that is stored whole.
    pub sparse: Option<sparse::Map>,
    /// The content of a directory in an increment ([`dumpdir`]).
    pub dumpdir: Option<Vec<u8>>,
    /// BLAKE3 of the stored data, if it is in the member's own header.
    pub blake3: Option<[u8; 32]>,
}

impl Member {
    /// Whether members of this kind have data in an archive.
    fn has_data(kind: MemberKind) -> bool {
        matches!(
            kind,
            MemberKind::File | MemberKind::Label | MemberKind::Continuation
        )
    }
}

/// What is wrong with an archive, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what}, at byte {at}")]
pub struct Fault {
    /// Offset in the archive of the header or record.
    pub at: u64,
    /// What is wrong.
    pub what: &'static str,
}

/// A length padded to whole blocks.
pub fn padded(len: u64) -> Option<u64> {
    len.checked_next_multiple_of(BLOCK as u64)
}

/// The prefix of a comment that is a checksum.
const CHECKSUM: &[u8] = b"blake3=";

/// The prefix of a comment that says which part of a dump the archive is.
const PART: &str = "part=";

/// Bytes of extended attributes of a member, names and values, at most. Writers store no more. The kernel sets
/// no limit below 600 MiB: 64 KiB for all names, and 64 KiB for each value.
pub const MOST_ATTRIBUTES: usize = 64 << 20;

/// Bytes of a name, at most. Writers skip files with longer ones: a tree in which 16,000 directories are below one
/// another. A restore takes memory for each level.
pub const MOST_NAME: usize = 4 << 20;

/// Bytes of the records of a member, at most: attributes, access control lists of 8,000 entries, and three
/// names. What is counted in `GNU.dumpdir` and the map of a sparse file has limits of its own.
const MOST_RECORDS: usize = MOST_ATTRIBUTES + (16 << 20);

/// The longest global header, and list of Solaris, that is accepted, in bytes.
const MOST_OTHER: usize = 1 << 20;

/// The prefix of a comment with the id of the archive, and the one before the id of its base.
const ARCHIVE: &str = "archive=";
const BASE: &str = " base=";
/// In place of the id of a base that has none.
const UNKNOWN: &str = "unknown";
