//! Archives: POSIX pax, which is ustar with extended headers, and the older forms that tar programs
//! write. docs/archive.md says what is in ours to the byte.
//! [pax](https://pubs.opengroup.org/onlinepubs/9799919799/utilities/pax.html),
//! [tar(5)](https://man.archlinux.org/man/tar.5)
//!
//! | room | what is in it |
//! |---|---|
//! | [`header`], [`trailer`] | a member's headers, written |
//! | [`Decoder`] | blocks in, members out |
//! | [`sparse`] | where in a sparse file there is data |
//! | [`dumpdir`] | what was in a directory when an increment was made |
//! | [`acl`] | access control lists, as the kernel and as archives have them |
//! | `field` | the fields of a header |
//! | `record` | the records of an extended header |

use crate::{Dev, Time};

pub mod acl;
mod decode;
pub mod dumpdir;
mod encode;
mod field;
mod record;
pub mod sparse;

pub use decode::{Decoder, Event, Fault};
pub use encode::{header, trailer};

/// Bytes in a block: headers are blocks, and data is filled up to whole ones.
pub const BLOCK: usize = 512;

/// The end of an archive is filled up with zeros to a multiple of this: the record of twenty blocks
/// that tar programs write.
pub const RECORD: usize = 20 * BLOCK;

/// What kind of file a member is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Kind {
    /// A plain file.
    #[default]
    File,
    /// Another name of a member before.
    Link,
    /// A symbolic link.
    Symlink,
    /// A character device.
    Char,
    /// A block device.
    Block,
    /// A directory.
    Directory,
    /// A fifo.
    Fifo,
    /// Something else, by its letter: a volume's label, the rest of a file from another volume.
    Unknown(u8),
}

impl Kind {
    /// A volume's label, which is about the archive, and no file.
    pub const LABEL: Kind = Kind::Unknown(b'V');
}

/// A member of an archive: what all its headers say, taken together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Member {
    /// Its name; that of a directory ends in a slash.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Where a symlink leads; for [`Kind::Link`], the name of the member that it is another name
    /// of. Else empty.
    pub link: Vec<u8>,
    /// Permission bits, with set-user-id, set-group-id and sticky: at most 0o7777.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Name of the owner; empty where it is not known.
    pub uname: Vec<u8>,
    /// Name of the group; empty where it is not known.
    pub gname: Vec<u8>,
    /// Size of the file in bytes, holes included.
    pub size: u64,
    /// Bytes of data that follow the headers, without what fills them up to whole blocks:
    /// [`Member::size`] for a plain file; for a sparse one the text of its map and what is in its
    /// extents; 0 for what is no file.
    pub stored: u64,
    /// Last change of the contents.
    pub mtime: Time,
    /// Last read.
    pub atime: Option<Time>,
    /// Last change of contents or attributes.
    pub ctime: Option<Time>,
    /// What a device file stands for; 0:0 for any other file.
    pub rdev: Dev,
    /// The access control list, as text ([`acl`]); none for one that says no more than the mode.
    pub acl_access: Option<Vec<u8>>,
    /// For a directory, the one that what is made in it begins with, as text.
    pub acl_default: Option<Vec<u8>>,
    /// Extended attributes, names and values, in the order of their names when they come from a
    /// [`Decoder`]. POSIX access control lists are not among those that we write.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Where there is data; `None` for a file that is stored whole.
    pub sparse: Option<sparse::Map>,
    /// For a directory in an increment, what was in it ([`dumpdir`]).
    pub dumpdir: Option<Vec<u8>>,
    /// BLAKE3 of the stored data, where it stands in the member's own header.
    pub blake3: Option<[u8; 32]>,
}

impl Member {
    /// Whether members of this kind have data in an archive.
    fn has_data(kind: Kind) -> bool {
        matches!(kind, Kind::File | Kind::Unknown(_))
    }
}

/// What a length grows to when it is filled up to whole blocks.
pub fn padded(len: u64) -> Option<u64> {
    len.checked_next_multiple_of(BLOCK as u64)
}

/// What a comment begins with that is a checksum.
const CHECKSUM: &[u8] = b"blake3=";

/// The longest map, name, or set of records other than a dumpdir that is taken from others, in
/// bytes.
const MOST: usize = 1 << 20;

/// One digit of a hexadecimal number.
fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}
