//! Explanations of redundant call patterns, and of changes that avoid redundant calls.

use account::patterns::{Pattern, PatternFix};
use account::whatif::ChangeKind;
use base::path::split;
use meter::call::Metered;
use show::name::printable;
use show::units::duration;

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
        Pattern::RepeatedOpen => "a process opens the same file again and again",
    };
    format!("{}: {text}", pattern.name())
}

/// Advice that fits in one table row: if possible, the command line by which the program avoids
/// redundant calls.
pub(crate) fn advice(kind: ChangeKind, program: &[u8]) -> &'static str {
    let name = split(program).1;
    match kind {
        ChangeKind::Spare(PatternFix::CombineStat) => "one statx instead of stat, open and fstat",
        ChangeKind::Spare(PatternFix::CombineXattr) => "listxattr once per file, getxattr by name",
        ChangeKind::Spare(PatternFix::SkipXattr) => match name {
            b"ls" | b"dir" | b"vdir" => "no xattrs: ls without -l",
            b"cp" | b"mv" => "no xattrs: cp -r --preserve=ownership,timestamps",
            b"tar" => "no xattrs: tar without --xattrs, --acls, --selinux",
            b"bsdtar" => "no xattrs: bsdtar --no-xattrs --no-acls --no-fflags",
            b"rsync" => "no xattrs: rsync without -X and -A",
            _ => "do not ask for extended attributes",
        },
        ChangeKind::Spare(PatternFix::KeepStat) => "cache stat results; on NFS, a longer actimeo",
        ChangeKind::Spare(PatternFix::CacheMisses) => {
            "cache failed lookups, or list the directory once"
        }
        ChangeKind::Spare(PatternFix::Buffer) => match name {
            b"dd" => "dd with larger blocks: bs=64K",
            _ => "read and write at least 4 KiB at a time",
        },
        ChangeKind::Spare(PatternFix::SyncOnce) => "call fsync once per open file",
        ChangeKind::Spare(PatternFix::DirectoryFd) => {
            "cd to the directory first, or open it (openat)"
        }
        ChangeKind::Bulkstat { .. } => match name {
            b"tar" | b"bsdtar" | b"rsync" => "on XFS, as root: fathom dump DIR -o ARCHIVE",
            b"cp" => "on XFS, as root: read many inodes per call (bulkstat)",
            _ => "on XFS, as root: fathom walk DIR",
        },
        ChangeKind::Uring { .. } => "statx through io_uring: not recommended",
        ChangeKind::RawTables { .. } => match name {
            b"du" => "on ext4, as root: fathom walk DIR --format du",
            b"tar" | b"bsdtar" | b"rsync" => "on ext4, as root: fathom dump DIR -o ARCHIVE",
            b"cp" => "on ext4, as root: read the inode tables",
            _ => "on ext4, as root: fathom walk DIR",
        },
    }
}

pub(crate) fn explain_meter(metered: &Metered) -> String {
    let why = metered.choice.to_string();
    format!("Meter {}: {}.", metered.meter, printable(why.as_bytes()))
}

/// How to make a change, or why it is impossible.
pub(crate) fn how(kind: ChangeKind) -> String {
    let how = match kind {
        ChangeKind::Spare(PatternFix::CombineStat) => {
            "use one statx instead of stat, open and fstat (not for files that are mapped)"
        }
        ChangeKind::Spare(PatternFix::CombineXattr) => {
            "call listxattr once per file, and getxattr by name instead of opening the file"
        }
        ChangeKind::Spare(PatternFix::SkipXattr) => {
            "do not ask for extended attributes (ls without -l, cp without -a and -p, tar without --xattrs and --acls, bsdtar with --no-xattrs and --no-acls, rsync without -X and -A)"
        }
        ChangeKind::Spare(PatternFix::KeepStat) => {
            "cache the result of stat; on NFS, mount with a longer actimeo"
        }
        ChangeKind::Spare(PatternFix::CacheMisses) => {
            "cache failed lookups, or list the directory once"
        }
        ChangeKind::Spare(PatternFix::Buffer) => "read and write at least 4 KiB at a time",
        ChangeKind::Spare(PatternFix::SyncOnce) => {
            "call fsync once per open file; this saves waiting rather than CPU time"
        }
        ChangeKind::Spare(PatternFix::DirectoryFd) => {
            "open the directory once, and look names up relative to it (openat, fstatat)"
        }
        ChangeKind::Bulkstat { .. } => {
            "on XFS, as root, read many inodes per call (fathom walk DIR --engine bulkstat); fewer calls, but hardly less CPU time"
        }
        ChangeKind::Uring { ring, stat } => {
            let [ring, stat] = [ring, stat].map(|ns| duration(ns / 1e9));
            return format!(
                "statx through io_uring: fewer calls, but each takes {ring} of CPU time instead of {stat}; not recommended"
            );
        }
        ChangeKind::RawTables { .. } => {
            "on ext4, as root, read the inode tables from the device (fathom walk DIR --engine ext4); for whole file systems"
        }
    };
    match kind {
        ChangeKind::Bulkstat { is_asked: false } | ChangeKind::RawTables { is_asked: false } => {
            format!("not applicable, no call was on such a file system; {how}")
        }
        _ => how.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_the_command_of_the_program() {
        let skip = ChangeKind::Spare(PatternFix::SkipXattr);
        let tables = ChangeKind::RawTables { is_asked: true };
        for (kind, program, words) in [
            (skip, "/usr/bin/ls", "ls without -l"),
            (skip, "/usr/bin/cp", "cp -r --preserve=ownership,timestamps"),
            (skip, "/opt/bin/tar", "tar without --xattrs"),
            (skip, "bsdtar", "bsdtar --no-xattrs"),
            (skip, "/usr/bin/x", "do not ask"),
            (skip, "", "do not ask"),
            (tables, "/usr/bin/du", "fathom walk DIR --format du"),
            (tables, "/usr/bin/tar", "fathom dump DIR -o ARCHIVE"),
            (tables, "/usr/bin/find", "fathom walk DIR"),
            (
                ChangeKind::Spare(PatternFix::Buffer),
                "/usr/bin/dd",
                "bs=64K",
            ),
        ] {
            let shown = advice(kind, program.as_bytes());
            assert!(shown.contains(words), "{program}: {shown}");
            // A row with the advice fits a terminal of 80 columns.
            assert!(shown.len() <= 52, "{shown}");
        }
    }
}
