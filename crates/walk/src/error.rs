//! Why a walk was not begun, why an engine cannot work somewhere, and the reasons of warnings.

use std::borrow::Cow;

use gate::Errno;
use mounts::WarningReason;
use ondisk::Dev;
use ondisk::ext4;

use crate::kind::EngineKind;

/// Why a walk was not begun.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A directory cannot be walked.
    #[error(transparent)]
    Directory(#[from] mounts::Error),
    /// A pattern of the [`Filter`](crate::Filter) is malformed.
    #[error("{0}")]
    Pattern(globset::Error),
    /// The requested engine cannot work in a directory.
    #[error("cannot walk '{}' by {}: {refusal}", String::from_utf8_lossy(path), engine.name())]
    Refused {
        /// The directory.
        path: Vec<u8>,
        /// The engine.
        engine: EngineKind,
        /// Why.
        refusal: EngineRefusal,
    },
    /// No process can be made to walk in, for a comparison.
    #[error("cannot make a process to walk in: {0}")]
    Process(Errno),
}

/// Why an engine cannot work on a mount. It has emitted no entry yet.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EngineRefusal {
    /// The engine is for file systems of other types.
    #[error("it is for {} only", file_systems(*.0))]
    WrongFileSystem(EngineKind),
    /// The mount table has no row for this mount.
    #[error("{}", match .0 {
        EngineKind::Bulkstat => "without a mount table it cannot tell what is mounted on files; mount /proc",
        EngineKind::Btrfs => "the mount table does not have this mount, so that mounts below it would go unseen",
        _ => "the mount table does not say how it is mounted",
    })]
    UnknownMount(EngineKind),
    /// The mount shows other owners than are stored.
    #[error("{}", match .0 {
        EngineKind::Bulkstat => "owners are mapped on this mount, and XFS has no bulkstat there; walk where they are as stored",
        EngineKind::Btrfs => "the mount is idmapped: it shows other owners than are stored; walk another mount of it",
        _ => "the mount shows other owners than those that are stored (it is idmapped)",
    })]
    Idmapped(EngineKind),
    /// The user namespace of this process shows other owners than are stored.
    #[error("in this user namespace, owners are shown otherwise than they are stored")]
    UserNamespace,
    /// The engine needs privileges that this process has not.
    #[error("{}", match .0 {
        EngineKind::Bulkstat => "XFS_IOC_BULKSTAT needs CAP_SYS_ADMIN; run as root",
        EngineKind::Btrfs => "searching btrfs's trees takes CAP_SYS_ADMIN; run as root, outside of containers",
        _ => "only root may read the device; run as root",
    })]
    NotRoot(EngineKind),
    /// The kernel is older than a call that the engine needs.
    #[error("{call} is not there; it needs Linux {since}")]
    KernelTooOld {
        /// The ioctl.
        call: &'static str,
        /// The version that has it.
        since: &'static str,
    },
    /// A system call failed.
    #[error("{action}: {errno}")]
    Failed {
        /// What it was for.
        action: EngineAction,
        /// How.
        errno: Errno,
    },
    /// XFS_IOC_FSGEOMETRY returned nonsense.
    #[error("XFS_IOC_FSGEOMETRY gives nonsense")]
    InvalidGeometry,
    /// The superblock of ext4 shows that its tables cannot be read.
    #[error("{0}")]
    Superblock(ext4::Error),
    /// The mount option nouid32 hides the upper half of owners.
    #[error("it is mounted with nouid32, so that owners are not what is stored")]
    Nouid32,
    /// The kernel's driver for ext2 keeps directories where the device's cache does not show them.
    #[error("it is mounted by the kernel's driver for ext2, not by that for ext4")]
    Ext2Driver,
    /// A map of user or group ids in /proc cannot be read.
    #[error("cannot read {0}")]
    UnreadableIdMap(&'static str),
    /// No name leads to the device that the file system is on.
    #[error("no name leads to its device, {0}")]
    NoDevice(Dev),
}

/// The file systems that an engine is for.
fn file_systems(engine: EngineKind) -> &'static str {
    match engine {
        EngineKind::Bulkstat => "XFS",
        EngineKind::Btrfs => "btrfs",
        EngineKind::Ext4 => "ext2, ext3 and ext4",
        EngineKind::Threads | EngineKind::Stat | EngineKind::PerCall => "nothing",
    }
}

/// What an engine was doing when a system call failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EngineAction {
    /// syncfs(2), before anything is read.
    #[error("cannot write out what has changed")]
    Sync,
    /// XFS_IOC_BULKSTAT.
    #[error("XFS_IOC_BULKSTAT fails")]
    Bulkstat,
    /// XFS_IOC_FSGEOMETRY.
    #[error("XFS_IOC_FSGEOMETRY fails")]
    Geometry,
    /// BTRFS_IOC_TREE_SEARCH_V2.
    #[error("cannot search the tree")]
    SearchTree,
    /// BTRFS_IOC_GET_SUBVOL_INFO and what else tells of a subvolume.
    #[error("cannot ask about the subvolume")]
    SubvolumeInfo,
    /// Opening the device of ext4, by this name.
    #[error("cannot open {0}, the device that it is on")]
    OpenDevice(String),
    /// Reading the superblock of ext4 from the device of this name.
    #[error("cannot read {0}, the device that it is on")]
    ReadDevice(String),
    /// Reading the group descriptors of ext4.
    #[error("cannot read the group descriptors")]
    GroupDescriptors,
}

impl EngineAction {
    /// The refusal of an engine that this has failed for.
    pub(crate) fn failed(self, errno: Errno) -> EngineRefusal {
        EngineRefusal::Failed {
            action: self,
            errno,
        }
    }
}

/// What a walk has skipped, or found wrong.
#[derive(Debug, thiserror::Error)]
pub enum WarningKind {
    /// A directory cannot be opened.
    #[error("cannot open the directory")]
    OpenDirectory,
    /// A directory cannot be read to its end.
    #[error("cannot read the directory")]
    ReadDirectory,
    /// statx(2) of an entry failed.
    #[error("cannot read the attributes")]
    ReadAttributes,
    /// The directory in which a mount point lies cannot be opened.
    #[error("cannot open the directory that a mount is in")]
    OpenMountParent,
    /// statx(2) of the root of a mount failed.
    #[error("cannot read the attributes of what is mounted here")]
    ReadMountAttributes,
    /// Something was mounted on a directory during the walk.
    #[error("was mounted on while the tree was being walked")]
    MountedMeanwhile,
    /// Neither the chosen engine nor `threads` can walk a mount.
    #[error("cannot be walked: {0}")]
    NotWalked(EngineRefusal),
    /// A directory of ext4 is damaged on the device.
    #[error("has {0}")]
    Damaged(ext4::Error),
    /// A directory of ext4 has two names.
    #[error("is a directory that has another name as well")]
    SecondName,
    /// The tree of tree roots of btrfs cannot be read.
    #[error("cannot read where subvolumes lie")]
    ReadSubvolumes,
    /// The parents of a btrfs directory cannot be read.
    #[error("cannot read where a directory lies")]
    ReadParent {
        /// The directory's inode number.
        ino: u64,
    },
    /// The directories of btrfs make a circle.
    #[error("directories seem to lie in one another (inode {ino})")]
    Circle {
        /// One of them.
        ino: u64,
    },
    /// A part of a btrfs tree cannot be read.
    #[error("a part of the tree cannot be read")]
    UnreadableTree {
        /// The tree.
        tree: u64,
        /// The first inode whose items cannot be read.
        ino: u64,
    },
    /// An inode of btrfs has a name that no file can have.
    #[error("a name of inode {ino} in tree {tree} is none")]
    InvalidName {
        /// The inode.
        ino: u64,
        /// The tree.
        tree: u64,
    },
    /// There were more warnings than are kept.
    #[error("and {0} more of the kind")]
    More(u64),
}

impl WarningReason for WarningKind {
    fn consequence(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            WarningKind::OpenDirectory => "what is in it is left out".into(),
            WarningKind::ReadDirectory => "the rest of it is left out".into(),
            WarningKind::ReadAttributes
            | WarningKind::OpenMountParent
            | WarningKind::ReadMountAttributes
            | WarningKind::InvalidName { .. } => "it is left out".into(),
            WarningKind::MountedMeanwhile => "what is in it is left out, walk it again".into(),
            WarningKind::Damaged(_) => {
                "what the kernel makes of it is given, and fsck should see to it".into()
            }
            WarningKind::SecondName => "it is not entered again".into(),
            WarningKind::ReadSubvolumes => "some may be left out".into(),
            WarningKind::ReadParent { ino } => {
                format!("what is in it is left out (inode {ino})").into()
            }
            WarningKind::Circle { .. } => "they are left out".into(),
            WarningKind::UnreadableTree { tree, ino } => {
                format!("what it tells of is left out (tree {tree}, from inode {ino})").into()
            }
            WarningKind::NotWalked(_) | WarningKind::More(_) => return None,
        })
    }

    fn explains_errno(&self) -> bool {
        matches!(self, WarningKind::UnreadableTree { .. })
    }
}
