//! Errors, why an engine cannot work on a mount, and the reasons of warnings.

use std::borrow::Cow;

use gate::Errno;
use mounts::WarningReason;
use ondisk::Dev;
use ondisk::ext4;

use crate::kind::EngineKind;

/// Why a walk was not begun.
#[derive(Clone, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum Error {
    #[error(transparent)]
    Directory(#[from] mounts::Error),
    #[error("{0}")]
    Pattern(globset::Error),
    #[error("cannot walk '{}' by {}: {refusal}", String::from_utf8_lossy(path), engine.name())]
    Refused {
        path: Vec<u8>,
        engine: EngineKind,
        refusal: EngineRefusal,
    },
    #[error("cannot make a process to walk in: {0}")]
    Process(Errno),
}

/// Why an engine cannot work on a mount. It has not emitted any entry then.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum EngineRefusal {
    #[error("it is for {} only", file_systems(*.0))]
    WrongFileSystem(EngineKind),
    #[error("{}", match .0 {
        EngineKind::Bulkstat => "without a mount table it cannot tell what is mounted on files; mount /proc",
        EngineKind::Btrfs => "the mount table does not have this mount, so that mounts below it would go unseen",
        _ => "the mount table does not say how it is mounted",
    })]
    UnknownMount(EngineKind),
    #[error("{}", match .0 {
        EngineKind::Bulkstat => "owners are mapped on this mount, and XFS has no bulkstat there; walk where they are as stored",
        EngineKind::Btrfs => "the mount is idmapped: it shows other owners than are stored; walk another mount of it",
        _ => "the mount shows other owners than those that are stored (it is idmapped)",
    })]
    Idmapped(EngineKind),
    #[error("in this user namespace, owners are shown otherwise than they are stored")]
    UserNamespace,
    #[error("{}", match .0 {
        EngineKind::Bulkstat => "XFS_IOC_BULKSTAT needs CAP_SYS_ADMIN; run as root",
        EngineKind::Btrfs => "searching btrfs's trees takes CAP_SYS_ADMIN; run as root, outside of containers",
        _ => "only root may read the device; run as root",
    })]
    NotRoot(EngineKind),
    #[error("{call} is not there; it needs Linux {since}")]
    KernelTooOld {
        call: &'static str,
        since: &'static str,
    },
    #[error("{action}: {errno}")]
    Failed { action: EngineAction, errno: Errno },
    #[error("XFS_IOC_FSGEOMETRY gives nonsense")]
    InvalidGeometry,
    #[error("{0}")]
    Superblock(ext4::Error),
    #[error("it is mounted with nouid32, so that owners are not what is stored")]
    Nouid32,
    #[error("it is mounted by the kernel's driver for ext2, not by that for ext4")]
    Ext2Driver,
    #[error("cannot read {0}")]
    UnreadableIdMap(&'static str),
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
#[allow(missing_docs, reason = "the messages say it")]
pub enum EngineAction {
    #[error("cannot write out what has changed")]
    Sync,
    #[error("XFS_IOC_BULKSTAT fails")]
    Bulkstat,
    #[error("XFS_IOC_FSGEOMETRY fails")]
    Geometry,
    #[error("cannot search the tree")]
    SearchTree,
    #[error("cannot ask about the subvolume")]
    SubvolumeInfo,
    #[error("cannot open {0}, the device that it is on")]
    OpenDevice(String),
    #[error("cannot read {0}, the device that it is on")]
    ReadDevice(String),
    #[error("cannot read the group descriptors")]
    GroupDescriptors,
}

impl EngineAction {
    /// A refusal because this has failed.
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
    #[error("cannot open the directory that a mount is in")]
    OpenMountParent,
    #[error("cannot read the attributes of what is mounted here")]
    ReadMountAttributes,
    #[error("was mounted on while the tree was being walked")]
    MountedMeanwhile,
    #[error("cannot be walked: {0}")]
    NotWalked(EngineRefusal),
    #[error("has {0}")]
    Damaged(ext4::Error),
    #[error("is a directory that has another name as well")]
    SecondName,
    #[error("cannot read where subvolumes lie")]
    ReadSubvolumes,
    #[error("cannot read where a directory lies")]
    ReadParent { ino: u64 },
    #[error("directories seem to lie in one another (inode {ino})")]
    Circle { ino: u64 },
    #[error("a part of the tree cannot be read")]
    UnreadableTree { tree: u64, ino: u64 },
    #[error("a name of inode {ino} in tree {tree} is none")]
    InvalidName { ino: u64, tree: u64 },
    #[error("and {0} more of the kind")]
    More(u64),
}

impl WarningReason for WarningKind {
    fn consequence(&self) -> Option<Cow<'_, str>> {
        let text = match self {
            WarningKind::OpenDirectory => "what is in it is left out",
            WarningKind::ReadDirectory => "the rest of it is left out",
            WarningKind::ReadAttributes
            | WarningKind::OpenMountParent
            | WarningKind::ReadMountAttributes
            | WarningKind::InvalidName { .. } => "it is left out",
            WarningKind::MountedMeanwhile => "what is in it is left out, walk it again",
            WarningKind::Damaged(_) => {
                "what the kernel makes of it is given, and fsck should see to it"
            }
            WarningKind::SecondName => "it is not entered again",
            WarningKind::ReadSubvolumes => "some may be left out",
            WarningKind::ReadParent { ino } => {
                return Some(format!("what is in it is left out (inode {ino})").into());
            }
            WarningKind::Circle { .. } => "they are left out",
            WarningKind::UnreadableTree { tree, ino } => {
                let text = "what it tells of is left out";
                return Some(format!("{text} (tree {tree}, from inode {ino})").into());
            }
            WarningKind::NotWalked(_) | WarningKind::More(_) => return None,
        };
        Some(text.into())
    }

    fn explains_errno(&self) -> bool {
        matches!(self, WarningKind::UnreadableTree { .. })
    }
}
