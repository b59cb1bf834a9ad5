//! Why something was skipped or found wrong.

use std::borrow::Cow;

use mounts::WarningReason;

use crate::error::ErrorKind;
use crate::shown;

/// The reason of a warning of a dump, a restore, a listing or a verification.
#[derive(Clone, Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant explains its fields")]
pub enum WarningKind {
    /// The file was removed before it could be read.
    #[error("has vanished before it could be read; it is left out")]
    Vanished,
    /// Its name belongs to a file of another type, and it is skipped.
    #[error("has become something else before it could be read; it is left out, dump it again")]
    ReplacedAndSkipped,
    /// The name of a directory belongs to another file; its entries may have been reached.
    #[error("has become something else before it could be read; dump it again")]
    Replaced,
    /// A system call on it failed.
    #[error("cannot be read, and is left out")]
    Unreadable,
    /// No archive can hold a file of this type.
    #[error("is of the kind '{0}', which no archive can hold; it is left out")]
    UnsupportedType(&'static str),
    /// Its list of names (`GNU.dumpdir`) would be longer than a restore accepts.
    #[error(
        "has more names in it than a restore takes (32 MiB): what was removed from it stays there; \
         make a full dump"
    )]
    TooManyNames,
    /// The file became shorter while it was read; sizes in bytes.
    #[error("has shrunk from {before} to {now} bytes while it was read; the rest is zeros")]
    Shrunk { before: u64, now: u64 },
    /// The file became longer while it was read; sizes in bytes.
    #[error("has grown from {before} to {now} bytes while it was read; the rest is left out")]
    Grown { before: u64, now: u64 },
    /// A read failed at this byte.
    #[error("cannot be read from byte {at} on: the archive has zeros there")]
    ZerosFrom { at: u64 },
    /// Whether it was written while it was read is unknown.
    #[error("cannot be looked at after it was read")]
    NotCheckedAfterwards,
    /// The names of its extended attributes cannot be read.
    #[error("its extended attributes cannot be read, and are left out")]
    XattrsUnreadable,
    /// An extended attribute of this name cannot be read.
    #[error("its extended attribute '{}' cannot be read, and is left out", shown(.0))]
    XattrUnreadable(Vec<u8>),
    /// The file was written while it was read.
    #[error("was changed while it was read, and may be neither as before nor as after")]
    ChangedWhileRead,
    /// Directories were moved during the walk, so that this many entries have no path.
    #[error(
        "{0} entries are left out: the directories that they are in were moved meanwhile; dump \
         again"
    )]
    EntriesLost(u64),
    /// There are more entries than a dump can hold.
    #[error("more than {0} entries cannot be dumped at once; the rest is left out")]
    TooManyEntries(usize),
    /// No member has this name.
    #[error("no member has this name, nor is any under it")]
    NoSuchMember,
    /// A read of the archive failed.
    #[error("cannot read the archive any further")]
    ArchiveUnreadable,
    /// The archive is damaged, or is none, from here on.
    #[error("cannot read the archive any further: {0}")]
    ArchiveEnds(ErrorKind),
    /// A part of the archive is damaged.
    #[error("{0}")]
    Damaged(ErrorKind),
    /// The data of the member whose headers begin at this byte does not match its checksum.
    #[error("its data is not what was archived: the checksum is wrong (member at byte {at})")]
    WrongChecksum { at: u64 },
    /// There are bytes after the end of the archive.
    #[error(
        "something follows the end, and is no part of the archive: two archives, one after the \
         other?"
    )]
    DataAfterEnd,
    /// Warnings beyond the limit.
    #[error("and {0} more of these warnings")]
    MoreOfThese(u64),
    /// Warnings of a restore for which there was no memory.
    #[error("and {0} more warnings, for which there was no room")]
    MoreThanFit(u64),
    /// A directory that an increment renames kept its name, and what follows from it.
    #[error("cannot rename '{}' to this", shown(.from))]
    NotRenamed { from: Vec<u8>, consequence: String },
    /// A member, or a part of it, was not restored.
    #[error("{0}")]
    NotRestored(Cow<'static, str>),
}

impl WarningReason for WarningKind {
    fn consequence(&self) -> Option<Cow<'_, str>> {
        match self {
            WarningKind::ZerosFrom { .. } | WarningKind::NotCheckedAfterwards => {
                Some("dump it again".into())
            }
            WarningKind::NotRenamed { consequence, .. } => Some(consequence.into()),
            _ => None,
        }
    }

    fn explains_errno(&self) -> bool {
        !matches!(
            self,
            WarningKind::Unreadable
                | WarningKind::ZerosFrom { .. }
                | WarningKind::NotCheckedAfterwards
                | WarningKind::ArchiveUnreadable
                | WarningKind::NotRenamed { .. }
        )
    }
}
