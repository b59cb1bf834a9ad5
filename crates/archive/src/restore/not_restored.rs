//! Why a member, or a part of it, is not restored.

use std::borrow::Cow;

use gate::{Errno, Gate};
use mounts::WarningReason;

use crate::error::{BadName, Error};
use crate::shown;

/// The reason of a warning of a restore.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each one means")]
pub enum NotRestored {
    #[error("its contents are not what was dumped, by their checksum: the archive is damaged")]
    WrongChecksum,
    #[error("it is of a kind that cannot be restored")]
    UnknownKind,
    #[error("no archive has a member of this name; fathom list gives the names that there are")]
    NoSuchMember,
    #[error("not restored: {0}")]
    BadName(BadName),
    #[error("it has no possible name")]
    ImpossibleName,
    #[error("it has the name of the directory to restore into, and is none")]
    NotDirectory,
    #[error("not restored: a directory above it cannot be made")]
    AboveNotMade,
    #[error("not restored: a directory above it cannot be opened")]
    AboveNotOpened,
    #[error("not restored: a directory above it may not be entered; run as root")]
    AboveNotEntered,
    #[error(
        "not restored: what is above it is no directory here; a symlink is not followed, so move it away first"
    )]
    AboveNotDirectory,
    #[error("not restored: what has its name cannot be taken away")]
    InTheWay,
    #[error(
        "not restored: a directory that is not empty has its name; move it away, and restore again"
    )]
    DirectoryInTheWay,
    #[error("not restored: somebody else keeps making something of its name")]
    NameTaken,
    #[error("not restored: the directory that is there cannot be opened")]
    DirectoryNotOpened,
    #[error("the new directory cannot be opened")]
    NewDirectoryNotOpened,
    #[error("the directory cannot be made")]
    DirectoryNotMade,
    #[error("the file cannot be made")]
    FileNotMade,
    #[error("no file can be as large here as the archive says")]
    TooLarge,
    #[error("not restored: it cannot be written")]
    NotWritten,
    #[error("it cannot be made")]
    NotMade,
    #[error("not restored: only root can make devices")]
    DeviceTakesRoot,
    #[error("there is a NUL in its target")]
    BadTarget,
    #[error("not restored: of the name that it is another one of, {0}")]
    BadLink(BadName),
    #[error(
        "not restored: it is another name of '{}', which is not there; restore that one too", shown(.0)
    )]
    NoSuchTarget(Vec<u8>),

    #[error("its owner cannot be set, so that it has no set-user-id bits either")]
    Owner,
    #[error("its mode cannot be set")]
    Mode,
    #[error("its times cannot be set")]
    Times,
    /// Those of a namespace.
    #[error("its extended attributes {0}* cannot be set")]
    Xattrs(&'static str),
    #[error("extended attributes that it has no more cannot be taken away")]
    StaleXattrs,
    #[error("its access control list cannot be set")]
    Acl,
    #[error("its access control list cannot be read, and is left out")]
    BadAcl,

    /// An increment renames a directory, and it kept its name; and what follows from it.
    #[error("cannot rename '{}' to this", shown(.from))]
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
    #[error("there is no name free for a directory to be renamed to meanwhile")]
    NoFreeName,
    #[error("what the archive says of its entries cannot be read: nothing in it is taken away")]
    BadDumpdir,
    #[error("its entries cannot be read: nothing in it is taken away")]
    NotListed,
    #[error("{} should be in it from an earlier archive of the chain: is one missing?", missing(.first, *.others))]
    MissingEntries { first: Vec<u8>, others: u64 },
    #[error("it is not in the archive any more, and cannot be taken away")]
    NotRemoved,
    #[error("it is not in the archive any more, and may not be taken away; run as root")]
    RemovalTakesRoot,
    #[error("not taken away: something is mounted there")]
    MountPoint,

    /// Warnings for which there was no memory.
    #[error("and {0} more warnings, for which there was no room")]
    MoreThanFit(u64),
}

fn missing(first: &[u8], others: u64) -> String {
    let first = shown(first);
    match others {
        0 => format!("'{first}'"),
        others => format!("'{first}' and {others} others"),
    }
}

impl NotRestored {
    /// Whether there is one warning for all members with the same reason and errno.
    pub(super) fn is_warned_of_once(&self) -> bool {
        use NotRestored::{Acl, Mode, Owner, StaleXattrs, Times, Xattrs};
        matches!(self, Owner | Mode | Times | Xattrs(_) | StaleXattrs | Acl)
    }
}

impl WarningReason for NotRestored {
    fn consequence(&self) -> Option<Cow<'_, str>> {
        match self {
            NotRestored::NotRenamed { consequence, .. } => Some((*consequence).into()),
            once if once.is_warned_of_once() => {
                Some("of others for which the same holds, nothing is said".into())
            }
            _ => None,
        }
    }

    fn explains_errno(&self) -> bool {
        !matches!(self, NotRestored::NotRenamed { .. })
    }
}

/// A reason, and the system call that failed.
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

    /// A directory above a member that cannot be opened.
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

/// What stops everything, or one member only.
pub(super) enum Halt {
    All(Error),
    One(Failure),
}

impl From<Failure> for Halt {
    fn from(failure: Failure) -> Halt {
        Halt::One(failure)
    }
}

impl From<Error> for Halt {
    fn from(error: Error) -> Halt {
        Halt::All(error)
    }
}
