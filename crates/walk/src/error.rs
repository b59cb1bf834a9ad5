//! Errors of a walk, why an engine cannot work on a mount, and the kinds of warnings.

use std::borrow::Cow;
use std::time::Duration;

use base::WarningReason;
use base::runs::time_text;
use gate::Errno;
use ondisk::Dev;
use ondisk::ext4;

use crate::kind::EngineKind;

/// Why a walk could not begin.
#[derive(Clone, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum Error {
    #[error(transparent)]
    Directory(#[from] mounts::Error),
    #[error("cannot walk '{}' by {}: {refusal}", String::from_utf8_lossy(path), engine.name())]
    Refused {
        path: Vec<u8>,
        engine: EngineKind,
        refusal: EngineRefusal,
    },
    #[error("cannot create a process for the walk: {0}")]
    Process(Errno),
    #[error("cannot start a thread for the walk: {0}")]
    Thread(Errno),
    #[error("'{}' is another directory here than on rank 0", String::from_utf8_lossy(.0))]
    OtherDirectory(Vec<u8>),
    /// DIR is a different file than when it was examined: see
    /// [`WalkOptions::identities`](crate::WalkOptions::identities).
    #[error("'{}' has been replaced meanwhile", String::from_utf8_lossy(.0))]
    Replaced(Vec<u8>),
    /// DIR does not answer within this timeout.
    #[error("'{}' does not answer within {}", String::from_utf8_lossy(.0), time_text(*.1))]
    Silent(Vec<u8>, Duration),
    #[error("another rank has failed")]
    OtherRank,
}

/// Why an engine cannot work on a mount. The engine has not emitted any entry then.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum EngineRefusal {
    #[error("it supports only {}", file_systems(*.0))]
    WrongFileSystem(EngineKind),
    #[error("{}", match .0 {
        EngineKind::Bulkstat => "it needs the mount table, to find mounts on files: mount /proc",
        EngineKind::Btrfs => "the mount table has no entry for this mount, so mounts below it would be missed",
        _ => "the mount table has no entry for this mount",
    })]
    UnknownMount(EngineKind),
    #[error("{}", match .0 {
        EngineKind::Bulkstat => "XFS does not support bulkstat on an idmapped mount",
        _ => "the mount is idmapped: owners differ from those on disk",
    })]
    Idmapped(EngineKind),
    #[error("in this user namespace, owners differ from those on disk")]
    UserNamespace,
    #[error("{}", match .0 {
        EngineKind::Bulkstat => "XFS_IOC_BULKSTAT requires CAP_SYS_ADMIN: run as root",
        EngineKind::Btrfs => "BTRFS_IOC_TREE_SEARCH requires CAP_SYS_ADMIN: run as root, outside of containers",
        _ => "reading the device requires root",
    })]
    NotRoot(EngineKind),
    #[error("{call} requires Linux {since}")]
    KernelTooOld {
        call: &'static str,
        since: &'static str,
    },
    #[error("{action}: {errno}")]
    Failed { action: EngineAction, errno: Errno },
    #[error("XFS_IOC_FSGEOMETRY returns invalid values")]
    InvalidGeometry,
    #[error("{0}")]
    Superblock(ext4::Error),
    #[error("its inodes have no checksums (metadata_csum)")]
    NoChecksums,
    #[error("it is mounted with nouid32: owners differ from those on disk")]
    Nouid32,
    #[error("it is mounted with the ext2 driver, not with the ext4 driver")]
    Ext2Driver,
    #[error("cannot read {0}")]
    UnreadableIdMap(&'static str),
    #[error("/dev has no node for its device {0}")]
    NoDevice(Dev),
}

fn file_systems(engine: EngineKind) -> &'static str {
    match engine {
        EngineKind::Bulkstat => "XFS",
        EngineKind::Btrfs => "btrfs",
        EngineKind::Ext4 => "ext2, ext3 and ext4",
        EngineKind::Threads | EngineKind::Stat | EngineKind::PerCall => "nothing",
    }
}

/// The operation of an engine in which a system call failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum EngineAction {
    #[error("cannot write dirty data to disk (syncfs)")]
    Sync,
    #[error("XFS_IOC_BULKSTAT failed")]
    Bulkstat,
    #[error("XFS_IOC_FSGEOMETRY failed")]
    Geometry,
    #[error("cannot search the btrfs tree")]
    SearchTree,
    #[error("cannot read the attributes of the subvolume")]
    SubvolumeInfo,
    #[error("cannot open its device {0}")]
    OpenDevice(String),
    #[error("cannot read its device {0}")]
    ReadDevice(String),
    #[error("cannot read the group descriptors")]
    GroupDescriptors,
}

impl EngineAction {
    pub(crate) fn failed(self, errno: Errno) -> EngineRefusal {
        EngineRefusal::Failed {
            action: self,
            errno,
        }
    }
}

/// What a walk has skipped, or found wrong.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum WarningKind {
    #[error("cannot open the directory")]
    OpenDirectory,
    #[error("cannot read the directory")]
    ReadDirectory,
    #[error("cannot read the attributes")]
    ReadAttributes,
    #[error("cannot open the parent directory of a mount")]
    OpenMountParent,
    #[error("cannot read the attributes of the mount")]
    ReadMountAttributes,
    #[error("does not answer within {}", time_text(*.0))]
    Silent(Duration),
    #[error("was mounted over during the walk")]
    MountedMeanwhile,
    #[error("was moved or removed during the walk")]
    Moved,
    #[error("has {0}")]
    Damaged(ext4::Error),
    #[error("is a directory with a second name")]
    SecondName,
    #[error("cannot read the paths of subvolumes")]
    ReadSubvolumes,
    #[error("cannot find the path of a directory")]
    ReadParent { ino: u64 },
    #[error("directory loop (inode {ino})")]
    Circle { ino: u64 },
    #[error("a part of the btrfs tree cannot be read")]
    UnreadableTree { tree: u64, ino: u64 },
    #[error("inode {ino} in tree {tree} has an invalid name")]
    InvalidName { ino: u64, tree: u64 },
    #[error("statx(2) is missing here, or forbidden by a seccomp filter")]
    NoStatx,
    #[error("{0} more names of directories cannot be found")]
    NotFound(u64),
    #[error("{0} more warnings of this kind")]
    More(u64),
}

impl WarningReason for WarningKind {
    fn consequence(&self) -> Option<Cow<'_, str>> {
        let text = match self {
            WarningKind::OpenDirectory => "its contents are skipped",
            WarningKind::ReadDirectory => "the rest of it is skipped",
            WarningKind::NotFound(_) => "they are skipped",
            WarningKind::ReadAttributes
            | WarningKind::OpenMountParent
            | WarningKind::ReadMountAttributes
            | WarningKind::Silent(_)
            | WarningKind::InvalidName { .. } => "it is skipped",
            WarningKind::MountedMeanwhile | WarningKind::Moved => "its contents are skipped",
            WarningKind::Damaged(_) => "entries are listed as the kernel reads them",
            WarningKind::SecondName => "it is listed once",
            WarningKind::ReadSubvolumes => "some may be skipped",
            WarningKind::ReadParent { ino } => {
                return Some(format!("its contents are skipped (inode {ino})").into());
            }
            WarningKind::Circle { .. } => "they are skipped",
            WarningKind::UnreadableTree { tree, ino } => {
                let text = "the entries in it are skipped";
                return Some(format!("{text} (tree {tree}, from inode {ino})").into());
            }
            WarningKind::NoStatx => "birth times and attributes of files are not read",
            WarningKind::More(_) => return None,
        };
        Some(text.into())
    }

    fn hides_entries(&self) -> bool {
        !matches!(
            self,
            WarningKind::Damaged(_) | WarningKind::SecondName | WarningKind::NoStatx
        )
    }

    fn explains_errno(&self) -> bool {
        matches!(self, WarningKind::UnreadableTree { .. })
    }
}
