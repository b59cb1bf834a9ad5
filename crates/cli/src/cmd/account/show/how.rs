//! How the changes are done that would save calls.

use account::patterns::Spare;
use account::whatif::ChangeKind;

/// How a change is done, or why it cannot be.
pub(crate) fn how(kind: ChangeKind) -> String {
    let how = match kind {
        ChangeKind::Spare(Spare::CombineStat) => {
            "one statx for stat, open and fstat: ask what is open, or ask by name and do not open (that it was mapped is not seen)"
        }
        ChangeKind::Spare(Spare::CombineXattr) => {
            "one listxattr for all attributes of a file, and listxattrat and getxattrat by name in place of an open for them"
        }
        ChangeKind::Spare(Spare::KeepStat) => "remember what stat said",
        ChangeKind::Spare(Spare::CacheMisses) => {
            "remember what is not there, or list the directory once"
        }
        ChangeKind::Spare(Spare::Buffer) => "read and write a page at least",
        ChangeKind::Spare(Spare::SyncOnce) => {
            "one fsync for all that is written to a file; what it saves is waiting"
        }
        ChangeKind::Spare(Spare::DirectoryFd) => {
            "open the directory once, and look names up from there"
        }
        ChangeKind::Bulkstat { .. } => {
            "many inodes a call, on XFS, as root (fathom walk --engine bulkstat): fewer calls, but hardly less CPU time"
        }
        ChangeKind::Uring { ring, stat } => {
            return format!(
                "statx by io_uring: fewer calls, but each goes to a worker thread and costs {ring:.0} ns of CPU time in place of {stat:.0}; do not"
            );
        }
        ChangeKind::RawTables { .. } => {
            "read the inodes from the device, on ext4, as root (fathom walk --engine ext4): for whole trees"
        }
    };
    match kind {
        ChangeKind::Bulkstat { is_asked: false } | ChangeKind::RawTables { is_asked: false } => {
            format!("nothing was asked of such a file system; {how}")
        }
        _ => how.to_owned(),
    }
}
