//! Why something was skipped or found wrong.

use std::borrow::Cow;

use mounts::WarningReason;

use crate::error::ErrorKind;
use crate::shown;

/// The reason of a warning of a dump, a listing or a verification.
#[derive(Clone, Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each one means")]
pub enum WarningKind {
    #[error("has vanished before it could be read; it is left out")]
    Vanished,
    #[error("has become something else before it could be read; it is left out, dump it again")]
    ReplacedAndSkipped,
    #[error("has become something else before it could be read; dump it again")]
    Replaced,
    #[error("cannot be read, and is left out")]
    Unreadable,
    #[error("is of the kind '{0}', which no archive can hold; it is left out")]
    UnsupportedType(&'static str),
    #[error(
        "has more names in it than a restore takes (32 MiB): what was removed from it stays there; \
         make a full dump"
    )]
    TooManyNames,
    #[error("has shrunk from {before} to {now} bytes while it was read; the rest is zeros")]
    Shrunk { before: u64, now: u64 },
    #[error("has grown from {before} to {now} bytes while it was read; the rest is left out")]
    Grown { before: u64, now: u64 },
    #[error("cannot be read from byte {at} on: the archive has zeros there")]
    ZerosFrom { at: u64 },
    #[error("cannot be looked at after it was read")]
    NotCheckedAfterwards,
    #[error("its extended attributes cannot be read, and are left out")]
    XattrsUnreadable,
    #[error("its extended attribute '{}' cannot be read, and is left out", shown(.0))]
    XattrUnreadable(Vec<u8>),
    #[error("was changed while it was read, and may be neither as before nor as after")]
    ChangedWhileRead,
    /// Directories were moved during the walk, so that this many entries have no path.
    #[error(
        "{0} entries are left out: the directories that they are in were moved meanwhile; dump \
         again"
    )]
    EntriesLost(u64),
    #[error("more than {0} entries cannot be dumped at once; the rest is left out")]
    TooManyEntries(usize),
    #[error("no member has this name, nor is any under it")]
    NoSuchMember,
    #[error("cannot read the archive any further")]
    ArchiveUnreadable,
    #[error("cannot read the archive any further: {0}")]
    ArchiveEnds(ErrorKind),
    #[error("{0}")]
    Damaged(ErrorKind),
    #[error("its data is not what was archived: the checksum is wrong (member at byte {at})")]
    WrongChecksum { at: u64 },
    #[error(
        "something follows the end, and is no part of the archive: two archives, one after the \
         other?"
    )]
    DataAfterEnd,
    #[error("and {0} more of these warnings")]
    MoreOfThese(u64),
}

impl WarningReason for WarningKind {
    fn consequence(&self) -> Option<Cow<'_, str>> {
        match self {
            WarningKind::ZerosFrom { .. } | WarningKind::NotCheckedAfterwards => {
                Some("dump it again".into())
            }
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
        )
    }
}
