//! Archives: POSIX pax, which is ustar with extended headers, and older formats of tar programs.
//! docs/archive.md describes the archives that fathom writes to the byte.
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
    /// A hard link to an earlier member.
    Link,
    Symlink,
    Char,
    Block,
    Directory,
    Fifo,
    /// A volume label, which is not a file.
    Label,
    /// The rest of a file that begins on a different volume.
    Continuation,
}

/// The place of an archive in a dump by several processes, each of which writes one archive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartOfRun {
    /// Number of this archive, from 0.
    pub number: u32,
    /// Number of archives in the dump.
    pub of: u32,
    /// Name of the run. Archives of different runs do not form a dump.
    pub run: String,
}

/// Identifies the files that an archive restores, as planned by its dump. The ids of the parts of a
/// dump add up to the id that a single process would have used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ArchiveId(pub u128);

impl ArchiveId {
    /// The id of two parts of a dump together.
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

/// The archive that must be restored before this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Base {
    /// No base: the archive is a full dump.
    Nothing,
    /// An archive that has no id.
    Unknown,
    /// The archive with this id.
    Archive(ArchiveId),
}

/// The place of an archive in a chain of increments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lineage {
    /// Id of the archive. If nothing has changed since the base, equal to the base's id.
    pub id: ArchiveId,
    /// The archive that this one is based on.
    pub base: Base,
}

/// A member of an archive: the result of all its headers. Fields without a comment are those of
/// `struct stat`, without the prefix `st_`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "stat(2) describes the fields")]
pub struct Member {
    /// Name in the archive; that of a directory ends with a slash.
    pub path: Vec<u8>,
    pub kind: MemberKind,
    /// Target of a symlink; for [`MemberKind::Link`], the path of the earlier member; otherwise
    /// empty.
    pub link: Vec<u8>,
    /// Permission bits, including set-user-id, set-group-id and sticky: at most 0o7777.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Name of the owner; empty if unknown.
    pub uname: Vec<u8>,
    /// Name of the group; empty if unknown.
    pub gname: Vec<u8>,
    /// Size of the file in bytes, including holes.
    pub size: u64,
    /// Bytes of data after the headers, without padding: [`Member::size`] for a regular file; the
    /// text of the map and the extents for a sparse one; 0 for other types.
    pub stored: u64,
    pub mtime: Time,
    pub atime: Option<Time>,
    pub ctime: Option<Time>,
    pub rdev: Dev,
    /// Access control list as text ([`acl`]); none if it adds nothing to the mode.
    pub acl_access: Option<Vec<u8>>,
    /// A directory's default access control list as text.
    pub acl_default: Option<Vec<u8>>,
    /// Names and values of extended attributes, sorted by name if they come from a [`Decoder`].
    /// Writers store access control lists only in the fields above.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Data extents of a sparse file; `None` for a file that is stored whole.
    pub sparse: Option<sparse::Map>,
    /// Content of a directory in an increment ([`dumpdir`]).
    pub dumpdir: Option<Vec<u8>>,
    /// BLAKE3 checksum of the stored data, if the member's own header has it.
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

/// A fault in an archive, with its offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what}, at byte {at}")]
pub struct Fault {
    /// Offset of the header or record in the archive.
    pub at: u64,
    /// Description of the fault.
    pub what: &'static str,
}

/// A length padded to whole blocks.
pub fn padded(len: u64) -> Option<u64> {
    len.checked_next_multiple_of(BLOCK as u64)
}

/// Prefix of a comment record (pax `comment`) with a checksum.
const CHECKSUM: &[u8] = b"blake3=";

/// Prefix of a comment record (pax `comment`) with the number of the archive in a dump by several
/// processes.
const PART: &str = "part=";

/// Maximum size of a member's extended attributes, names and values, in bytes. Writers store no
/// more. The kernel's limit is above 600 MiB: 64 KiB for all names, and 64 KiB for each value.
pub const MOST_ATTRIBUTES: usize = 64 << 20;

/// Maximum length of a name in bytes. Writers skip files with longer names: more than 16,000 nested
/// directories. A restore takes memory for each level.
pub const MOST_NAME: usize = 4 << 20;

/// Maximum size of a member's records in bytes: attributes, access control lists of 8,000 entries,
/// and three names. `GNU.dumpdir` and the map of a sparse file have their own limits.
const MOST_RECORDS: usize = MOST_ATTRIBUTES + (16 << 20);

/// Maximum length of a global header, and of a Solaris access control list, in bytes.
const MOST_OTHER: usize = 1 << 20;

/// Prefixes in a comment record of a global header: of the archive's id, and of the base's id.
const ARCHIVE: &str = "archive=";
const BASE: &str = " base=";
/// Text in a comment record in place of the base's id, if the base has no id.
const UNKNOWN: &str = "unknown";
