//! Why a member, or an attribute of one, was not restored.

use std::borrow::Cow;

use base::path::shown;
use base::{Warning, WarningReason};
use gate::{Errno, Gate};

use crate::error::{BadName, Damage, Error};

/// The reason for a warning of a restore.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each one means")]
pub enum NotRestored {
    #[error("restored, but its data is damaged: checksum mismatch")]
    WrongChecksum,
    #[error("not restored: it continues a file of another volume")]
    Continuation,
    #[error("{damage}, at byte {at}{}", .damage.offset_base())]
    Damaged { at: u64, damage: Damage },
    #[error("cannot read the rest of the archive: {damage}, at byte {at}{}", .damage.offset_base())]
    ArchiveEnds { at: u64, damage: Damage },
    #[error("no archive has a member of this name")]
    NoSuchMember,
    /// A later archive removed or renamed the file.
    #[error("the tree of the last archive has no file of this name")]
    NotInLastTree,
    /// Without `--overwrite`, increments remove nothing that existed before the restore.
    #[error("left as it is: the tree of the last archive has no file of this name")]
    KeptExisting,
    #[error("not found in the undamaged part of the archives")]
    NotInUndamagedPart,
    #[error("not restored: its data is damaged")]
    DamagedData,
    #[error("not restored: {0}")]
    BadName(BadName),
    #[error("not restored: its mount does not answer")]
    SilentMount,
    #[error("not restored: invalid name")]
    ImpossibleName,
    #[error("not restored: its name is that of the target directory, but it is not a directory")]
    NotDirectory,
    #[error("not restored: cannot create its parent directory")]
    AboveNotMade,
    #[error("not restored: cannot open its parent directory")]
    AboveNotOpened,
    #[error("not restored: cannot enter its parent directory")]
    AboveNotEntered,
    #[error("not restored: its parent is a symlink or not a directory")]
    AboveNotDirectory,
    #[error("not restored: cannot remove the existing file")]
    InTheWay,
    #[error("not restored: a directory that is not empty has its name")]
    DirectoryInTheWay,
    #[error("not restored: another process keeps creating a file of its name")]
    NameTaken,
    #[error("not restored: cannot open the existing directory")]
    DirectoryNotOpened,
    #[error("cannot open the new directory")]
    NewDirectoryNotOpened,
    #[error("cannot create the directory")]
    DirectoryNotMade,
    #[error("cannot create the file")]
    FileNotMade,
    #[error("not restored: too large for this file system")]
    TooLarge,
    #[error("not restored: cannot write")]
    NotWritten,
    #[error("cannot create")]
    NotMade,
    #[error("not restored: only root can create devices")]
    DeviceTakesRoot,
    #[error("not restored: Linux has no device {major}:{minor}")]
    ImpossibleDevice { major: u32, minor: u32 },
    #[error("not restored: the target of the symlink contains a NUL")]
    BadTarget,
    #[error("not restored: bad target of a hard link: {0}")]
    BadLink(BadName),
    #[error("not restored: hard link to '{}', which does not exist", shown(.0))]
    NoSuchTarget(Vec<u8>),
    /// Like [`NotRestored::NoSuchTarget`], after members of an archive were lost.
    #[error("not restored: hard link to '{}', which may be in the damaged part of the archive", shown(.0))]
    LostTarget(Vec<u8>),
    #[error("not restored: hard link to '{}', which was not restored", shown(.0))]
    LinkTarget(Vec<u8>),

    #[error("cannot set the owner, so set-user-ID bits are not set either")]
    Owner,
    #[error("cannot set the mode")]
    Mode,
    #[error("cannot set the times")]
    Times,
    /// Extended attributes of one namespace.
    #[error("cannot set extended attributes {0}*")]
    Xattrs(&'static str),
    #[error("cannot remove extended attributes that the archive does not have")]
    StaleXattrs,
    #[error("cannot set the access control list")]
    Acl,
    #[error("invalid access control list in the archive; skipped")]
    BadAcl,

    /// An increment renames a directory, but renaming failed; with the consequence.
    #[error("cannot rename '{}' to this name", shown(.from))]
    NotRenamed {
        from: Vec<u8>,
        consequence: &'static str,
    },
    #[error("not renamed: {0}")]
    BadRename(BadName),
    #[error("not renamed: it is the directory to restore into")]
    RenamedRoot,
    #[error("not renamed: the archive names no temporary directory")]
    NoTemporary,
    #[error("not renamed: no free temporary name")]
    NoFreeName,
    #[error("invalid list of entries in the archive; nothing is removed from this directory")]
    BadDumpdir,
    #[error("cannot list the directory; nothing is removed from it")]
    NotListed,
    #[error("{} should exist from an earlier archive: is an archive missing?", missing(.first, *.others))]
    MissingEntries { first: Vec<u8>, others: u64 },
    /// Like [`NotRestored::MissingEntries`], after members of an archive were lost.
    #[error("{} should exist from an earlier archive, and may be in its damaged part", missing(.first, *.others))]
    LostEntries { first: Vec<u8>, others: u64 },
    #[error("not removed, because a directory could not be renamed before")]
    KeptAfterRename,
    /// The list of renames was in the damaged part of an increment.
    #[error("the list of renamed directories may be lost: nothing is removed from now on")]
    RenamesLost,
    #[error("cannot remove it, though the archive no longer lists it")]
    NotRemoved,
    #[error("no permission to remove it, though the archive no longer lists it")]
    RemovalTakesRoot,
    #[error("not removed: it is a mount point")]
    MountPoint,

    #[error("restored, but the disk may not have all of it")]
    NotSynced,

    /// Number of warnings dropped for lack of memory.
    #[error("and {0} more warnings")]
    MoreThanFit(u64),
}

impl NotRestored {
    /// Whether one warning covers all members with the same reason and errno.
    pub(super) fn is_warned_of_once(&self) -> bool {
        use NotRestored::{Acl, KeptAfterRename, Mode, Owner, StaleXattrs, Times, Xattrs};
        matches!(
            self,
            Owner | Mode | Times | Xattrs(_) | StaleXattrs | Acl | KeptAfterRename
        )
    }
}

fn missing(first: &[u8], others: u64) -> String {
    let first = shown(first);
    match others {
        0 => format!("'{first}'"),
        1 => format!("'{first}' and 1 other"),
        others => format!("'{first}' and {others} others"),
    }
}

impl WarningReason for NotRestored {
    fn consequence(&self) -> Option<Cow<'_, str>> {
        match self {
            NotRestored::NotRenamed { consequence, .. } => Some((*consequence).into()),
            once if once.is_warned_of_once() => {
                Some("further warnings of this kind are not printed".into())
            }
            _ => None,
        }
    }
}

/// A reason, with the system call that failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) call: Option<(Gate, Errno)>,
    pub(super) reason: NotRestored,
}

impl Failure {
    pub(super) fn call(gate: Gate, errno: Errno, reason: NotRestored) -> Failure {
        let call = Some((gate, errno));
        Failure { call, reason }
    }

    pub(super) fn into_warning(self, path: &[u8]) -> Warning {
        let (gate, errno) = self.call.unzip();
        Warning {
            gate,
            errno,
            ..Warning::about(path, self.reason)
        }
    }

    /// The failure of opening a parent directory of a member.
    pub(super) fn above(errno: Errno) -> Failure {
        let reason = match errno {
            Errno::ELOOP | Errno::ENOTDIR => NotRestored::AboveNotDirectory,
            Errno::EACCES => NotRestored::AboveNotEntered,
            _ => NotRestored::AboveNotOpened,
        };
        Failure::call(Gate::Openat2, errno, reason)
    }
}

impl From<NotRestored> for Failure {
    fn from(reason: NotRestored) -> Failure {
        Failure { call: None, reason }
    }
}

/// An error that stops the restore, or only one member.
pub(super) enum RestoreFailure {
    All(Error),
    One(Failure),
}

impl From<Failure> for RestoreFailure {
    fn from(failure: Failure) -> RestoreFailure {
        RestoreFailure::One(failure)
    }
}

impl From<Error> for RestoreFailure {
    fn from(error: Error) -> RestoreFailure {
        RestoreFailure::All(error)
    }
}
