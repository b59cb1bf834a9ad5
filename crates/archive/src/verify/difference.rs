//! What differs between a member of an archive and the file of its name in a tree.

use std::ffi::CStr;

use mounts::WarningReason;
use ondisk::Dev;
use ondisk::Time;

/// A difference. `is` is the value in the tree, `was` the one in the archive.
#[derive(Clone, Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are explained above")]
pub enum Difference {
    /// The member's name contains `..`.
    #[error("its name leads out of the tree, and is not looked for")]
    LeadsOut,
    /// There is no file of its name.
    #[error("it is not in the tree")]
    NotInTree,
    /// There is no member of its name.
    #[error("it is not in the archive")]
    NotInArchive,
    /// It is not a hard link to this file.
    #[error("it is not the same file as '{}'", .0.escape_ascii())]
    NotLinkedTo(Vec<u8>),
    /// Types, by name.
    #[error("it is a {is}, and was a {was}")]
    Type { is: &'static str, was: &'static str },
    /// Permission bits.
    #[error("its mode is {is:04o}, and was {was:04o}")]
    Mode { is: u32, was: u32 },
    /// User and group ids.
    #[error("it belongs to {}:{}, and belonged to {}:{}", is.0, is.1, was.0, was.1)]
    Owner { is: (u32, u32), was: (u32, u32) },
    /// Sizes in bytes.
    #[error("it has {is} bytes, and had {was}")]
    Size { is: u64, was: u64 },
    /// Numbers of a device file.
    #[error("it is the device {is}, and was {was}")]
    Device { is: Dev, was: Dev },
    /// Times of the last modification.
    #[error("it was last written at {is}, and had been at {was} (seconds since 1970)")]
    ModificationTime { is: Time, was: Time },
    /// Targets of a symlink.
    #[error("it leads to '{}', and led to '{}'", is.escape_ascii(), was.escape_ascii())]
    Target { is: Vec<u8>, was: Vec<u8> },
    /// The first byte of the data that differs.
    #[error("its contents differ from byte {from} on")]
    Contents { from: u64 },
    /// An extended attribute that only the tree has.
    #[error("it has an extended attribute '{}', and had none", .0.escape_ascii())]
    XattrAdded(Vec<u8>),
    /// An extended attribute with another value.
    #[error("its extended attribute '{}' is another", .0.escape_ascii())]
    XattrChanged(Vec<u8>),
    /// An extended attribute that only the archive has.
    #[error("it has no extended attribute '{}' any more", .0.escape_ascii())]
    XattrRemoved(Vec<u8>),
    /// Another access control list, by the name of its attribute.
    #[error("its access control list ({}) is another", .0.to_bytes().escape_ascii())]
    Acl(&'static CStr),
    /// The archive's access control list names users that do not exist here.
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
pub enum TreeAccess {
    /// To the directory of a file.
    #[error("cannot reach it in the tree")]
    Reach,
    /// To the attributes of a file.
    #[error("cannot read its attributes in the tree")]
    ReadAttributes,
    /// To the target of a symlink.
    #[error("cannot read the symlink in the tree")]
    ReadSymlink,
    /// To a file, to read it.
    #[error("cannot open it in the tree")]
    Open,
    /// To the data of a file.
    #[error("cannot read it in the tree")]
    Read,
    /// To the names in a directory.
    #[error("cannot list the directory in the tree")]
    ListDirectory,
    /// To the names of extended attributes.
    #[error("cannot list its extended attributes in the tree")]
    ListXattrs,
    /// To an extended attribute.
    #[error("cannot read an extended attribute in the tree")]
    ReadXattr,
    /// To an access control list.
    #[error("cannot read an access control list in the tree")]
    ReadAcl,
}

impl WarningReason for TreeAccess {}
