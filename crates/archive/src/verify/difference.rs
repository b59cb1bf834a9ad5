//! Differences between a member of an archive and the file of the same name in a tree.

use std::ffi::CStr;

use base::WarningReason;
use ondisk::{Dev, Time, utc};
use walk::FileType;

/// A difference. Of two values, the first is from the tree, the second from the archive.
#[derive(Clone, Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each one means")]
pub enum Difference {
    /// The member's name contains `..`.
    #[error("its name contains '..'; skipped")]
    LeadsOut,
    #[error("does not exist")]
    NotInTree,
    #[error("not in the archive")]
    NotInArchive,
    #[error("listed, but neither in the archive nor in the tree")]
    OnlyListed,
    #[error("not a hard link to '{}'", .0.escape_ascii())]
    NotLinkedTo(Vec<u8>),
    #[error("hard link to '{}', which no PATH selects: its data was not read", .0.escape_ascii())]
    LinkNotRead(Vec<u8>),
    #[error("type differs: {}, in the archive {}", .0.name(), .1.name())]
    Type(FileType, FileType),
    #[error("mode differs: {0:04o}, in the archive {1:04o}")]
    Mode(u32, u32),
    /// User and group ids of a file.
    #[error("owner differs: {}:{}, in the archive {}:{}", .0.0, .0.1, .1.0, .1.1)]
    Owner((u32, u32), (u32, u32)),
    #[error("size differs: {0} bytes, in the archive {1}")]
    Size(u64, u64),
    #[error("device number differs: {0}, in the archive {1}")]
    Device(Dev, Dev),
    #[error("modification time differs: {}, in the archive {} (UTC)", exact(.0), exact(.1))]
    ModificationTime(Time, Time),
    /// Targets of a symlink.
    #[error("symlink target differs: '{}', in the archive '{}'", .0.escape_ascii(), .1.escape_ascii())]
    Target(Vec<u8>, Vec<u8>),
    /// The offset of the first different byte. The message counts bytes from 1, as cmp(1) does.
    #[error("contents differ from byte {} on", .from.saturating_add(1))]
    Contents { from: u64 },
    #[error("contents differ: their checksum is not that of the dump")]
    Checksum,
    /// The checksum of a sparse file also covers its map of holes.
    #[error("contents or holes differ: their checksum is not that of the dump")]
    SparseChecksum,
    #[error("extended attribute '{}' is not in the archive", .0.escape_ascii())]
    XattrAdded(Vec<u8>),
    #[error("extended attribute '{}' differs", .0.escape_ascii())]
    XattrChanged(Vec<u8>),
    #[error("extended attribute '{}' is missing", .0.escape_ascii())]
    XattrRemoved(Vec<u8>),
    #[error("access control list ({}) differs", .0.to_bytes().escape_ascii())]
    Acl(&'static CStr),
    #[error("access control list has unknown users or groups; not compared")]
    AclWithUnknownNames,
}

/// Metadata that a comparison can ignore.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IgnoredMetadata {
    /// The modification time.
    Mtime,
    /// The user and group id.
    Owner,
    /// The permission bits.
    Mode,
    /// Extended attributes and access control lists.
    Xattrs,
    /// Which names are hard links of one file.
    Links,
}

impl Difference {
    /// The metadata that differs, if a comparison can ignore it.
    pub(super) fn metadata(&self) -> Option<IgnoredMetadata> {
        use Difference::*;
        Some(match self {
            ModificationTime(..) => IgnoredMetadata::Mtime,
            Owner(..) => IgnoredMetadata::Owner,
            Mode(..) => IgnoredMetadata::Mode,
            XattrAdded(_) | XattrChanged(_) | XattrRemoved(_) | Acl(_) | AclWithUnknownNames => {
                IgnoredMetadata::Xattrs
            }
            NotLinkedTo(_) => IgnoredMetadata::Links,
            _ => return None,
        })
    }
}

fn exact(time: &Time) -> String {
    format!("{}.{:09}", utc(time.sec), time.nsec)
}

impl WarningReason for Difference {
    fn explains_errno(&self) -> bool {
        true
    }
}

/// An access to the tree that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each one means")]
pub enum TreeAccess {
    #[error("cannot open its parent directory")]
    Reach,
    #[error("cannot read its attributes")]
    ReadAttributes,
    #[error("cannot read the symlink")]
    ReadSymlink,
    #[error("cannot open")]
    Open,
    #[error("cannot read")]
    Read,
    #[error("cannot list the directory")]
    ListDirectory,
    #[error("cannot list extended attributes")]
    ListXattrs,
    #[error("cannot read an extended attribute")]
    ReadXattr,
    #[error("cannot read an access control list")]
    ReadAcl,
}

impl WarningReason for TreeAccess {}
