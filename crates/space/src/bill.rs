//! The result of `fathom space`: items of a file system, none of which share a byte, and their
//! sums.

use base::{Capacity, Warning};
use ondisk::Time;
use walk::EngineKind;

base::named! {
    /// The kind of an item.
    #[derive(PartialOrd, Ord, Hash)]
    ItemKind {
        /// Files in one directory of the file system's root, or in the root itself.
        Files "files",
        /// Files beneath a mount, which covers them.
        Hidden "hidden",
        /// A file without a name, held open by a process, a loop device or the kernel.
        Deleted "deleted",
        /// The extents that only one btrfs subvolume refers to.
        Subvolume "subvolume",
        /// The extents that only one btrfs snapshot refers to: deleting the snapshot frees them.
        Snapshot "snapshot",
        /// Extents, or blocks with extended attributes, that several files share. The size is negative if several items count the same
        /// ones.
        Shared "shared",
        /// Metadata of the file system.
        Metadata "metadata",
        /// The journal.
        Journal "journal",
        /// Space that only root, or only the file system itself, may use.
        Reserved "reserved",
    }
}

base::named! {
    /// The part of metadata, of a reserve or of shared extents.
    ItemPart {
        /// ext4: superblocks, group descriptors, bitmaps and inode tables.
        Tables "tables",
        /// XFS: headers of allocation groups.
        Headers "headers",
        /// XFS: inodes.
        Inodes "inodes",
        /// B-trees: on XFS, the trees of inodes, owners and reference counts; on btrfs, all trees
        /// except the chunk tree.
        Trees "trees",
        /// btrfs: system block groups (the chunk tree).
        System "system",
        /// XFS: copy-on-write blocks that are not yet in a file.
        CopyOnWrite "copy_on_write",
        /// Blocks reserved for root.
        Root "root",
        /// ext4: blocks reserved for the user or group of the mount options `resuid=` and
        /// `resgid=`.
        User "user",
        /// Blocks reserved for the file system itself.
        FileSystem "file_system",
        /// btrfs: free space that data cannot use, because metadata has more copies.
        ForMetadata "for_metadata",
        /// A lower bound: the exact number of shared bytes is unknown.
        AtLeast "at_least",
        /// Extents shared within one subvolume.
        Within "within",
        /// Extents shared between subvolumes or snapshots.
        Between "between",
    }
}

/// A process, or a loop device, that holds a deleted file open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    /// The id of a process that holds the file open. `None` for a loop device.
    pub pid: Option<u32>,
    /// The name of the process (`comm`), or the path of the loop device.
    pub program: Vec<u8>,
    /// Number of processes that hold the file open.
    pub processes: usize,
    /// A file descriptor of the process, through which the file can be emptied. `None` if the file
    /// is also mapped: a process that reads a mapping of an empty file is killed by SIGBUS.
    pub fd: Option<u32>,
    /// The systemd unit of the process.
    pub unit: Option<Unit>,
}

/// A systemd service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unit {
    /// The name of the unit: `nginx.service`.
    pub name: Vec<u8>,
    /// Whether the service belongs to a user's systemd manager.
    pub is_of_user: bool,
}

/// A way to free space, or to reach a hidden file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Remedy {
    /// Restart a service.
    Restart(Unit),
    /// Detach a loop device, after its file systems are unmounted.
    Detach {
        /// The path of the loop device.
        device: Vec<u8>,
        /// The mount points of the file system on the device.
        mount_points: Vec<Vec<u8>>,
        /// Whether the kernel detaches the device when it is unmounted.
        is_autoclear: bool,
    },
    /// Lower the reserve of ext4 for root to 1 %.
    LowerReserve {
        /// The block device of the file system.
        device: Vec<u8>,
    },
    /// Delete a snapshot.
    DeleteSnapshot {
        /// The path of the snapshot, if a mount shows it.
        path: Option<Vec<u8>>,
        /// The id of the snapshot's tree.
        id: u64,
        /// A mount point of the file system.
        mount_point: Vec<u8>,
    },
    /// Mount the file system a second time, in a private mount namespace, to see the files beneath a mount.
    LookBeneath {
        /// The mount point of the file system whose files are covered.
        mount_point: Vec<u8>,
        /// An existing directory, on which the file system can be mounted.
        target: Vec<u8>,
        /// The covered path, relative to `mount_point`.
        rel: Vec<u8>,
    },
    /// A command that empties a cache, such as `apt-get clean`.
    Clean(&'static str),
}

/// A part of the space of a file system; items do not overlap.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    /// The kind of the item.
    pub kind: ItemKind,
    /// Which of several items of this kind it is; `None` if a bill has only one.
    pub part: Option<ItemPart>,
    /// The size on the device, in bytes; negative only for [`ItemKind::Shared`].
    pub bytes: i64,
    /// Whether df(1) counts the item as used.
    pub is_in_used: bool,
    /// Whether the size is exact: neither an estimate nor a minimum.
    pub is_exact: bool,
    /// The path of the directory, file or snapshot.
    pub path: Option<Vec<u8>>,
    /// The inode number of a deleted file.
    pub ino: Option<u64>,
    /// The user who owns the directory or the file.
    pub owner: Option<u32>,
    /// The process or loop device that holds a deleted file open.
    pub holder: Option<Holder>,
    /// When a snapshot was created, or a deleted file lost its last name.
    pub since: Option<Time>,
    /// A way to free the bytes.
    pub remedy: Option<Remedy>,
    /// The bytes that the remedy frees, if fewer than all bytes of the item.
    pub freeable: Option<u64>,
}

impl Item {
    /// Creates an item that df(1) counts as used.
    pub fn new(kind: ItemKind, bytes: i64) -> Item {
        Item {
            kind,
            part: None,
            bytes,
            is_in_used: true,
            is_exact: true,
            path: None,
            ino: None,
            owner: None,
            holder: None,
            since: None,
            remedy: None,
            freeable: None,
        }
    }

    /// Sets the part within the kind.
    #[must_use]
    pub fn part(self, part: ItemPart) -> Item {
        Item {
            part: Some(part),
            ..self
        }
    }
}

/// The inodes of a directory and all below it, or of the deleted files that a process holds open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InodeSums {
    /// [`ItemKind::Files`], [`ItemKind::Hidden`] or [`ItemKind::Deleted`].
    pub kind: ItemKind,
    /// The path of the directory; `None` for deleted files.
    pub path: Option<Vec<u8>>,
    /// The process that holds the deleted files open.
    pub holder: Option<Holder>,
    /// Number of inodes; a file that several processes hold open counts once.
    pub inodes: u64,
}

/// The sums of the files of one owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct OwnerSums {
    pub owner: u32,
    pub files: u64,
    pub bytes: u64,
}

/// The sums of files of similar age, by modification time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AgeSums {
    /// The index in [`walk::group::AGES`].
    pub age: usize,
    /// Number of files.
    pub files: u64,
    /// The allocated space of the files.
    pub bytes: u64,
}

/// A directory whose contents a command can free. Its bytes are also in other items.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CacheSums {
    /// The path of the directory.
    pub path: Vec<u8>,
    /// The allocated space of the files in it, in bytes.
    pub bytes: u64,
    /// An upper bound of the bytes that the remedy frees.
    pub freeable: u64,
    /// The modification time of the oldest file.
    pub since: Option<Time>,
    /// The command that frees the space.
    pub remedy: Remedy,
}

/// The space of a file system, by item.
#[derive(Clone, Debug)]
pub struct Bill {
    /// The mount point of the file system's root, or of the largest visible part.
    pub mount_point: Vec<u8>,
    /// The type of the file system.
    pub fstype: Vec<u8>,
    /// The device of the file system.
    pub source: Option<Vec<u8>>,
    /// The space and inodes reported by df(1); the size is 0 if the file system reports none.
    pub capacity: Capacity,
    /// The engine that read the files.
    pub engine: EngineKind,
    /// The number of files and directories.
    pub files: u64,
    /// The items, largest first.
    pub items: Vec<Item>,
    /// The inodes by directory and by process, most first. Without directories on btrfs, which has no
    /// fixed number of inodes.
    pub inodes: Vec<InodeSums>,
    /// The files by owner, largest first: another division of the same bytes.
    pub owners: Vec<OwnerSums>,
    /// The files by age, youngest first: another division of the same bytes.
    pub ages: Vec<AgeSums>,
    /// Caches, largest first: parts of the items.
    pub caches: Vec<CacheSums>,
    /// Warnings about data that is missing.
    pub warnings: Vec<Warning>,
}

impl Bill {
    /// The used bytes that no item accounts for. Negative if the items exceed the used bytes,
    /// because files changed during the reading or share blocks. `None` if the size of an item is an
    /// estimate or a minimum, because that item then absorbs missing bytes.
    pub fn unaccounted(&self) -> Option<i64> {
        let items = self.items.iter().filter(|item| item.is_in_used);
        self.inexact()
            .is_none()
            .then(|| signed(i128::from(self.capacity.used) - exact_sum(items)))
    }

    /// The largest used item whose size is an estimate or a minimum.
    pub fn inexact(&self) -> Option<&Item> {
        let items = self
            .items
            .iter()
            .filter(|item| item.is_in_used && !item.is_exact);
        items.max_by_key(|item| item.bytes.unsigned_abs())
    }
}

/// The sum of the sizes of items, in bytes.
pub fn sum<'a>(items: impl IntoIterator<Item = &'a Item>) -> i64 {
    signed(exact_sum(items))
}

fn exact_sum<'a>(items: impl IntoIterator<Item = &'a Item>) -> i128 {
    items.into_iter().map(|item| i128::from(item.bytes)).sum()
}

fn signed(bytes: i128) -> i64 {
    bytes.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}
