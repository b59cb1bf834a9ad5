//! What differs between a member of an archive and the file of its name in a tree.

use std::ffi::CStr;

use mounts::WarningReason;
use ondisk::Dev;
use ondisk::Time;
use walk::Type;

/// A difference. Of two values, the first is that of the tree, the second that of the archive.
#[derive(Clone, Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each one means")]
pub enum Difference {
    /// The member's name contains `..`.
    #[error("its name leads out of the tree, and is not looked for")]
    LeadsOut,
    #[error("it is not in the tree")]
    NotInTree,
    #[error("it is not in the archive")]
    NotInArchive,
    #[error("it is not the same file as '{}'", .0.escape_ascii())]
    NotLinkedTo(Vec<u8>),
    #[error("it is a {}, and was a {}", .0.name(), .1.name())]
    Type(Type, Type),
    #[error("its mode is {0:04o}, and was {1:04o}")]
    Mode(u32, u32),
    /// User and group ids.
    #[error("it belongs to {}:{}, and belonged to {}:{}", .0.0, .0.1, .1.0, .1.1)]
    Owner((u32, u32), (u32, u32)),
    #[error("it has {0} bytes, and had {1}")]
    Size(u64, u64),
    #[error("it is the device {0}, and was {1}")]
    Device(Dev, Dev),
    #[error("it was last written at {0}, and had been at {1} (seconds since 1970)")]
    ModificationTime(Time, Time),
    /// Targets of a symlink.
    #[error("it leads to '{}', and led to '{}'", .0.escape_ascii(), .1.escape_ascii())]
    Target(Vec<u8>, Vec<u8>),
    #[error("its contents differ from byte {from} on")]
    Contents { from: u64 },
    #[error("it has an extended attribute '{}', and had none", .0.escape_ascii())]
    XattrAdded(Vec<u8>),
    #[error("its extended attribute '{}' is another", .0.escape_ascii())]
    XattrChanged(Vec<u8>),
    #[error("it has no extended attribute '{}' any more", .0.escape_ascii())]
    XattrRemoved(Vec<u8>),
    #[error("its access control list ({}) is another", .0.to_bytes().escape_ascii())]
    Acl(&'static CStr),
    #[error("its access control list has names that cannot be compared")]
    AclWithUnknownNames,
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
    #[error("cannot reach it in the tree")]
    Reach,
    #[error("cannot read its attributes in the tree")]
    ReadAttributes,
    #[error("cannot read the symlink in the tree")]
    ReadSymlink,
    #[error("cannot open it in the tree")]
    Open,
    #[error("cannot read it in the tree")]
    Read,
    #[error("cannot list the directory in the tree")]
    ListDirectory,
    #[error("cannot list its extended attributes in the tree")]
    ListXattrs,
    #[error("cannot read an extended attribute in the tree")]
    ReadXattr,
    #[error("cannot read an access control list in the tree")]
    ReadAcl,
}

impl WarningReason for TreeAccess {}
