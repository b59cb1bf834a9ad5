//! Reasons why entries were skipped or found wrong.

use std::cmp::Ordering;

use base::path::shown;
use base::{Warning, WarningReason};
use gate::Errno;
use mounts::listed::{is_removed, is_still};
use walk::FileType;

use crate::error::ErrorKind;

/// The reason for a warning of a dump, a listing or a verification.
#[derive(Clone, Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each one means")]
pub enum WarningKind {
    #[error("deleted before it could be read; skipped")]
    Vanished,
    #[error("replaced before it could be read; skipped")]
    ReplacedAndSkipped,
    #[error("replaced before it could be read")]
    Replaced,
    /// A different file has the path of a SRC, or of a listed directory.
    #[error("another file has its path now; skipped")]
    OtherSource,
    #[error("cannot read, skipped")]
    Unreadable,
    /// A listed name does not exist.
    #[error("does not exist, skipped")]
    DoesNotExist,
    #[error("'{}' is a symbolic link; skipped", shown(.0))]
    BehindSymlink(Vec<u8>),
    #[error("a {0} cannot be archived; skipped")]
    UnsupportedType(&'static str),
    #[error("has more than 32 MiB of names: a restore does not remove the entries deleted from it")]
    TooManyNames,
    #[error("shrank from {before} to {now} bytes while it was read; the rest is filled with zeros")]
    Shrunk { before: u64, now: u64 },
    /// The file ends before the size that the file system reports, before and after reading.
    #[error(
        "shrank: it ends after {end} of {size} bytes{}",
        if *.is_padded { "; the rest is filled with zeros" } else { "" }
    )]
    EndsEarly {
        end: u64,
        size: u64,
        is_padded: bool,
    },
    #[error("grew from {before} to {now} bytes while it was read; the rest is skipped")]
    Grown { before: u64, now: u64 },
    #[error("cannot read from byte {at} on; the archive has zeros instead")]
    ZerosFrom { at: u64 },
    #[error("cannot check whether it changed while it was read")]
    NotCheckedAfterwards,
    #[error("cannot read extended attributes, skipped")]
    XattrsUnreadable,
    #[error("cannot read extended attribute '{}', skipped", shown(.0))]
    XattrUnreadable(Vec<u8>),
    #[error("extended attribute '{}' skipped: its name is not UTF-8, as names in a repository are", shown(.0))]
    XattrNotUtf8(Vec<u8>),
    #[error("the name is longer than 4 MiB; skipped")]
    LongName,
    #[error("has more than 64 MiB of extended attributes: {0} of them skipped")]
    TooManyXattrs(u64),
    #[error("changed while it was read; its data in the archive may be inconsistent")]
    ChangedWhileRead,
    #[error("cannot remove dumps that are no longer needed: {0}")]
    NotPruned(ErrorKind),
    #[error("cannot keep the catalog of this dump, so that list --state finds no file in it: {0}")]
    CatalogNotKept(ErrorKind),
    #[error("cannot write the catalog, so that the next snapshot reads all files again: {0}")]
    SnapshotCatalogNotKept(ErrorKind),
    #[error("no catalog of this dump is kept; fathom list prints what is in its archive")]
    NoCatalog,
    /// Number of dumps without a catalog, of all dumps.
    #[error("the catalogs of {dumps} of {all} dumps do not exist, so their files are not found")]
    NoCatalogs { dumps: usize, all: usize },
    #[error("no dump has a file of this name")]
    InNoDump,
    #[error("not found in the dumps whose catalogs can be read")]
    InNoCatalog,
    #[error("the archive does not exist")]
    ArchiveMissing,
    #[error("another file has the path of the archive")]
    ArchiveReplaced,
    #[error("the path of the archive is unknown: it was written to standard output or a pipe")]
    ArchiveStreamed,
    #[error("it is based on another archive than is recorded")]
    OtherBase,
    #[error("cannot be restored: an archive that it is based on is missing or damaged")]
    NotRestorable,
    #[error("cannot record which archives are damaged: {0}")]
    DamageNotRecorded(ErrorKind),
    #[error("not removed: it is not the archive that the dump has written")]
    OtherArchive,
    /// The record of the dump is in an object store, but the archive is not in the same bucket, so
    /// the store must not decide about it.
    #[error("not removed: a record in a store decides about objects of its bucket only")]
    ArchiveElsewhere,
    #[error("no member has this name")]
    NoSuchMember,
    #[error("not found in the undamaged part of the archive")]
    NotInUndamagedPart,
    #[error("cannot read the rest of the archive")]
    ArchiveUnreadable,
    #[error("cannot read the rest of the archive: {0}")]
    ArchiveEnds(ErrorKind),
    #[error("{0}")]
    Damaged(ErrorKind),
    /// A member of the dump's catalog that was in a damaged frame of zstd.
    #[error("lost: it was in the damaged frame")]
    Lost,
    #[error("checksum mismatch: the data is damaged (member at byte {at})")]
    WrongChecksum { at: u64 },
    #[error("and {0} more warnings")]
    MoreOfThese(u64),
}

impl WarningKind {
    /// The warning about a file of the given type that could not be opened or examined by name. The
    /// errno alone does not prove that the file was deleted or replaced: a faulty server or disk
    /// may return it.
    pub fn not_opened(errno: Errno, path: &[u8], kind: FileType) -> WarningKind {
        match errno {
            Errno::ENOENT | Errno::ESTALE | Errno::ENOTDIR
                if is_removed(path, kind == FileType::Directory) =>
            {
                WarningKind::Vanished
            }
            Errno::ELOOP | Errno::ENXIO | Errno::EINVAL | Errno::EISDIR
                if !is_still(path, kind) =>
            {
                WarningKind::ReplacedAndSkipped
            }
            _ => WarningKind::Unreadable,
        }
    }

    /// The warning about a file that changed while it was read, from its sizes.
    pub fn changed(before: u64, now: u64) -> WarningKind {
        match now.cmp(&before) {
            Ordering::Less => WarningKind::Shrunk { before, now },
            Ordering::Greater => WarningKind::Grown { before, now },
            Ordering::Equal => WarningKind::ChangedWhileRead,
        }
    }

    /// Whether a dump lacks something that exists. Files that vanish, are replaced or change while
    /// being read do not count: they no longer exist as they were.
    fn is_loss(&self) -> bool {
        !matches!(
            self,
            WarningKind::Vanished
                | WarningKind::ReplacedAndSkipped
                | WarningKind::Replaced
                | WarningKind::DoesNotExist
                | WarningKind::BehindSymlink(_)
                | WarningKind::TooManyNames
                | WarningKind::Shrunk { .. }
                | WarningKind::Grown { .. }
                | WarningKind::ChangedWhileRead
        )
    }
}

/// Whether a warning of a dump says that the archive lacks something that exists.
pub(crate) fn is_loss(warning: &Warning) -> bool {
    if let Some(kind) = warning.reason::<WarningKind>() {
        return kind.is_loss();
    }
    let of_walk = warning.reason::<walk::WarningKind>();
    of_walk.is_none_or(WarningReason::hides_entries)
}

impl WarningReason for WarningKind {
    fn hides_entries(&self) -> bool {
        matches!(self, WarningKind::MoreOfThese(_) | WarningKind::OtherSource)
    }

    fn explains_errno(&self) -> bool {
        !matches!(
            self,
            WarningKind::Unreadable
                | WarningKind::ZerosFrom { .. }
                | WarningKind::NotCheckedAfterwards
                | WarningKind::XattrsUnreadable
                | WarningKind::XattrUnreadable(_)
                | WarningKind::ArchiveUnreadable
        )
    }
}
