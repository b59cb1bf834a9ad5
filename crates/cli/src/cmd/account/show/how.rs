//! How the changes are done that would save calls.

use account::patterns::{Pattern, Spare};
use account::whatif::ChangeKind;
use meter::call::Metered;
use show::name::printable;
use show::units::duration;

/// What a pattern is.
pub(crate) fn explain_pattern(pattern: Pattern) -> String {
    let text = match pattern {
        Pattern::StatOpenFstat => "stat, open and fstat of the same file",
        Pattern::RepeatedStat => "another stat of a file that has not changed",
        Pattern::Miss => "a lookup by name fails (ENOENT, ENOTDIR)",
        Pattern::NoXattr => "a file is asked for extended attributes, and has none",
        Pattern::TinyDirectory => {
            "a second getdents64, which only finds the end of a small directory"
        }
        Pattern::SmallReads => "consecutive reads of less than 4 KiB",
        Pattern::SmallWrites => "consecutive writes of less than 4 KiB",
        Pattern::SmallSyncs => "an fsync after each few bytes",
        Pattern::LongNames => {
            "many lookups in one directory by long paths, whose leading components are looked up again"
        }
    };
    format!("{}: {text}", pattern.name())
}

/// What to do for a change, in so few words that it fits a row.
pub(crate) fn advice(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Spare(Spare::CombineStat) => "one statx instead of stat, open and fstat",
        ChangeKind::Spare(Spare::CombineXattr) => "listxattr once per file, getxattr by name",
        ChangeKind::Spare(Spare::SkipXattr) => "no xattrs: ls without -l, tar without --xattrs",
        ChangeKind::Spare(Spare::KeepStat) => "cache stat results; on NFS, a longer actimeo",
        ChangeKind::Spare(Spare::CacheMisses) => "cache failed lookups, or list the directory once",
        ChangeKind::Spare(Spare::Buffer) => "read and write at least 4 KiB at a time",
        ChangeKind::Spare(Spare::SyncOnce) => "call fsync once per open file",
        ChangeKind::Spare(Spare::DirectoryFd) => "look names up relative to an open directory",
        ChangeKind::Bulkstat { .. } => "on XFS, as root: fathom walk --engine bulkstat",
        ChangeKind::Uring { .. } => "statx through io_uring: not recommended",
        ChangeKind::RawTables { .. } => "on ext4, as root: fathom walk --engine ext4",
    }
}

/// Why the meter was chosen.
pub(crate) fn explain_meter(metered: &Metered) -> String {
    let why = metered.why();
    format!("Meter {}: {}.", metered.meter, printable(why.as_bytes()))
}

/// How a change is done, or why it cannot be.
pub(crate) fn how(kind: ChangeKind) -> String {
    let how = match kind {
        ChangeKind::Spare(Spare::CombineStat) => {
            "use one statx instead of stat, open and fstat (not for files that are mapped)"
        }
        ChangeKind::Spare(Spare::CombineXattr) => {
            "call listxattr once per file, and getxattr by name instead of opening the file"
        }
        ChangeKind::Spare(Spare::SkipXattr) => {
            "do not ask for extended attributes (ls without -l, tar without --xattrs and --acls, rsync without -X and -A)"
        }
        ChangeKind::Spare(Spare::KeepStat) => {
            "cache the result of stat; on NFS, mount with a longer actimeo"
        }
        ChangeKind::Spare(Spare::CacheMisses) => "cache failed lookups, or list the directory once",
        ChangeKind::Spare(Spare::Buffer) => "read and write at least 4 KiB at a time",
        ChangeKind::Spare(Spare::SyncOnce) => {
            "call fsync once per open file; this saves waiting rather than CPU time"
        }
        ChangeKind::Spare(Spare::DirectoryFd) => {
            "open the directory once, and look names up relative to it (openat, fstatat)"
        }
        ChangeKind::Bulkstat { .. } => {
            "on XFS, as root, read many inodes per call (fathom walk --engine bulkstat); fewer calls, but hardly less CPU time"
        }
        ChangeKind::Uring { ring, stat } => {
            let [ring, stat] = [ring, stat].map(|ns| duration(ns / 1e9));
            return format!(
                "statx through io_uring: fewer calls, but each takes {ring} of CPU time instead of {stat}; not recommended"
            );
        }
        ChangeKind::RawTables { .. } => {
            "on ext4, as root, read the inode tables from the device (fathom walk --engine ext4); for whole file systems"
        }
    };
    match kind {
        ChangeKind::Bulkstat { is_asked: false } | ChangeKind::RawTables { is_asked: false } => {
            format!("not applicable, no call was on such a file system; {how}")
        }
        _ => how.to_owned(),
    }
}
