//! The bill of a file system: items that share no byte, and their sums.

use base::Warning;
use ondisk::Time;
use walk::EngineKind;

/// What an item of a bill is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// Files: those in a directory in the root of the file system, or those in the root itself.
    Files,
    /// Files that a mount covers.
    Hidden,
    /// A file without a name that a process, a loop device or the kernel holds open.
    Deleted,
    /// A subvolume of btrfs.
    Subvolume,
    /// A subvolume of btrfs that is a snapshot of another: what deleting it would free.
    Snapshot,
    /// Extents that several items share. Negative if the files in other items count them more than once.
    Shared,
    /// Tables of the file system.
    Metadata,
    /// The journal.
    Journal,
    /// Space that only root, or only the file system itself, may use.
    Reserved,
}

impl Kind {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Files => "files",
            Kind::Hidden => "hidden",
            Kind::Deleted => "deleted",
            Kind::Subvolume => "subvolume",
            Kind::Snapshot => "snapshot",
            Kind::Shared => "shared",
            Kind::Metadata => "metadata",
            Kind::Journal => "journal",
            Kind::Reserved => "reserved",
        }
    }
}

/// Which metadata or reserve an item is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// ext4: superblocks, group descriptors, bitmaps and inode tables.
    Tables,
    /// XFS: headers of allocation groups.
    Headers,
    /// XFS: inodes.
    Inodes,
    /// Trees: of XFS those of inodes, owners and reference counts; of btrfs all.
    Trees,
    /// btrfs: the tree of chunks.
    System,
    /// Blocks that are being copied.
    CopyOnWrite,
    /// For root.
    Root,
    /// For the file system itself.
    FileSystem,
    /// btrfs: what data cannot use, because metadata needs copies.
    ForMetadata,
    /// At least: how much exactly is unknown.
    AtLeast,
    /// Of one subvolume.
    Within,
    /// Of several subvolumes or snapshots.
    Between,
}

impl Part {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Part::Tables => "tables",
            Part::Headers => "headers",
            Part::Inodes => "inodes",
            Part::Trees => "trees",
            Part::System => "system",
            Part::CopyOnWrite => "copy_on_write",
            Part::Root => "root",
            Part::FileSystem => "file_system",
            Part::ForMetadata => "for_metadata",
            Part::AtLeast => "at_least",
            Part::Within => "within",
            Part::Between => "between",
        }
    }
}

/// A process, or a loop device, that holds a deleted file open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    /// The process; one of them if there are several. `None` for a loop device.
    pub pid: Option<u32>,
    /// Its name: `comm`, or the path of the loop device.
    pub program: Vec<u8>,
    /// How many processes hold the file.
    pub processes: usize,
    /// The systemd unit that it belongs to.
    pub unit: Option<Unit>,
}

/// A service of systemd.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unit {
    /// Its name: `nginx.service`.
    pub name: Vec<u8>,
    /// Whether it belongs to the manager of a user.
    pub is_of_user: bool,
}

/// How space can be freed, or a hidden file reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Remedy {
    /// Restart a service.
    Restart(Unit),
    /// Detach a loop device.
    Detach {
        /// Its path.
        device: Vec<u8>,
    },
    /// Lower the reserve of ext4 to 1 %.
    LowerReserve {
        /// Its device.
        device: Vec<u8>,
    },
    /// Delete a snapshot.
    DeleteSnapshot {
        /// Its path, if a path leads to it.
        path: Option<Vec<u8>>,
        /// The number of its tree.
        id: u64,
        /// Where its file system is mounted.
        mount_point: Vec<u8>,
    },
    /// Mount the file system once more to see what is beneath a mount.
    LookBeneath {
        /// The mount that is covered.
        mount_point: Vec<u8>,
        /// The covered path, relative to it.
        rel: Vec<u8>,
    },
    /// A command of the program that fills a directory.
    Clean(&'static str),
}

/// Some bytes of a file system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    /// What it is.
    pub kind: Kind,
    /// Which of its kind; `None` where the kind says all.
    pub part: Option<Part>,
    /// Bytes on the device; negative only for [`Kind::Shared`].
    pub bytes: i64,
    /// Whether it counts in what df(1) reports as used.
    pub is_in_used: bool,
    /// Where it is.
    pub path: Option<Vec<u8>>,
    /// The inode number of a deleted file.
    pub ino: Option<u64>,
    /// The user who owns the directory or the file.
    pub owner: Option<u32>,
    /// Who holds a deleted file open.
    pub holder: Option<Holder>,
    /// Since when: when a snapshot was created, or a deleted file lost its last name.
    pub since: Option<Time>,
    /// How to free it.
    pub remedy: Option<Remedy>,
    /// What the remedy frees, in bytes, if that is not all of it.
    pub freeable: Option<u64>,
}

impl Item {
    /// An item that counts in what is used.
    pub fn new(kind: Kind, bytes: i64) -> Item {
        Item {
            kind,
            part: None,
            bytes,
            is_in_used: true,
            path: None,
            ino: None,
            owner: None,
            holder: None,
            since: None,
            remedy: None,
            freeable: None,
        }
    }

    /// The same, as a part of its kind.
    #[must_use]
    pub fn part(self, part: Part) -> Item {
        Item {
            part: Some(part),
            ..self
        }
    }
}

/// The files of an owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct OwnerSums {
    pub owner: u32,
    pub files: u64,
    pub bytes: u64,
}

/// The files whose contents changed at about the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AgeSums {
    /// The number of the age in [`walk::group::AGES`].
    pub age: usize,
    /// How many.
    pub files: u64,
    /// Their allocated space.
    pub bytes: u64,
}

/// A directory whose contents a command frees. It is a part of other items.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CacheSums {
    /// Its path.
    pub path: Vec<u8>,
    /// Allocated space.
    pub bytes: u64,
    /// What the remedy frees at most, in bytes.
    pub freeable: u64,
    /// The last change of the oldest file.
    pub since: Option<Time>,
    /// How to free it.
    pub remedy: Remedy,
}

/// Where the bytes of a file system are.
#[derive(Clone, Debug)]
pub struct Bill {
    /// The path of the file system's root, as far as it is mounted.
    pub mount_point: Vec<u8>,
    /// The type of the file system.
    pub fstype: Vec<u8>,
    /// Its device.
    pub source: Option<Vec<u8>>,
    /// As df(1) reports it, in bytes; 0 if the file system does not.
    pub size: u64,
    /// As df(1) reports it, in bytes.
    pub used: u64,
    /// As df(1) reports it, in bytes.
    pub available: u64,
    /// How the files were read.
    pub engine: EngineKind,
    /// The number of files and directories.
    pub files: u64,
    /// What is known, largest first.
    pub items: Vec<Item>,
    /// The files by owner, largest first: another division of the same bytes.
    pub owners: Vec<OwnerSums>,
    /// The files by age, youngest first: another division of the same bytes.
    pub ages: Vec<AgeSums>,
    /// Caches, largest first: parts of the items.
    pub caches: Vec<CacheSums>,
    /// What is missing.
    pub warnings: Vec<Warning>,
}

impl Bill {
    /// What is used, but in no item, in bytes. Negative if the items have more than is used: files changed meanwhile, or
    /// share blocks.
    pub fn unaccounted(&self) -> i64 {
        let items = self.items.iter().filter(|item| item.is_in_used);
        signed(i128::from(self.used) - exact_sum(items))
    }
}

/// The bytes of items.
pub fn sum<'a>(items: impl IntoIterator<Item = &'a Item>) -> i64 {
    signed(exact_sum(items))
}

fn exact_sum<'a>(items: impl IntoIterator<Item = &'a Item>) -> i128 {
    items.into_iter().map(|item| i128::from(item.bytes)).sum()
}

fn signed(bytes: i128) -> i64 {
    bytes.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}
