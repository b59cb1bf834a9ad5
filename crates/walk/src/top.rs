//! The directory at which a job begins, and what is known of its mount.

use gate::fs::{At, Attributes, Open, Statfs, fstatfs, statx};
use gate::long::open_long;
use gate::mount::mount_id;
use gate::{Errno, Fd};
use mounts::table::read_either;
use ondisk::{Mount, split_options};

use crate::entry::Meta;
use crate::error::EngineRefusal;
use crate::key::DirKey;
use crate::kind::EngineKind;

/// The directory at which a job begins.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Top {
    /// Open for reading.
    pub fd: Fd,
    /// The path, beginning with DIR as it was given.
    pub path: Vec<u8>,
    pub meta: Meta,
    pub is_mount_root: bool,
    /// What identifies it.
    pub key: DirKey,
}

impl Top {
    /// An open directory.
    ///
    /// # Errors
    /// Those of statx(2).
    pub fn new(fd: Fd, path: Vec<u8>, key: DirKey) -> Result<Top, Errno> {
        let seen = statx(&fd, c"", At::EMPTY_PATH, Meta::WANT)?;
        let mut meta = Meta::from_statx(&seen);
        if seen.mnt_id.is_none() {
            // Before Linux 5.8. Without the id, the mount would be missing from the table.
            meta.mount = mount_id(&fd).unwrap_or(0);
        }
        Ok(Top {
            fd,
            path,
            meta,
            is_mount_root: seen.attributes.contains(Attributes::MOUNT_ROOT),
            key,
        })
    }

    /// Opens the directory once more, by its path.
    pub(crate) fn open_again(&self) -> Result<Fd, Errno> {
        let fd = open_long(&self.path, Open::SCAN)?;
        let seen = statx(&fd, c"", At::EMPTY_PATH, Meta::WANT)?;
        let is_same = (seen.ino, seen.dev) == (self.meta.ino, self.meta.dev);
        is_same.then_some(fd).ok_or(Errno::EACCES)
    }

    /// The row of a mount table for the mount that it is on.
    pub fn mount<'a>(&self, mounts: &'a [Mount]) -> Option<&'a Mount> {
        mounts.iter().find(|mount| mount.id == self.meta.mount)
    }
}

/// The mount table, if it can be read and has the mount of a directory; else an empty one.
pub fn mounts_around(top: Option<&Top>) -> Vec<Mount> {
    let anchor = top.map(|top| top.meta.mount).filter(|&id| id != 0);
    read_either(false, anchor).map_or(Vec::new(), |(table, _)| table.mounts)
}

/// What is known of a mount before it is walked.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct MountContext<'a> {
    pub top: &'a Top,
    /// The row of the mount table, if there is a table.
    pub mount: Option<&'a Mount>,
    pub statfs: Statfs,
    /// Whether this process is the superuser.
    pub is_root: bool,
    /// Whether access times must not change.
    pub noatime: bool,
    /// The approximate number of entries below the directory, if it is known.
    pub expected: Option<u64>,
    /// Whether syncfs(2) is called before anything is read, whichever engine is chosen.
    pub sink_syncs_first: bool,
    /// Whether the sink needs names and types only.
    pub names_suffice: bool,
}

impl<'a> MountContext<'a> {
    /// Calls statfs(2) for the file system of a directory.
    pub fn new(top: &'a Top, mount: Option<&'a Mount>) -> MountContext<'a> {
        MountContext {
            top,
            mount,
            statfs: fstatfs(&top.fd).unwrap_or_default(),
            is_root: gate::process::is_root(),
            noatime: false,
            expected: None,
            sink_syncs_first: false,
            names_suffice: false,
        }
    }

    /// Whether an engine below the file API can work on the type of the file system and on the way
    /// it is mounted. Returns the row of the mount table.
    pub(crate) fn check(&self, engine: EngineKind, magic: u64) -> Result<&'a Mount, EngineRefusal> {
        if self.statfs.magic != magic {
            return Err(EngineRefusal::WrongFileSystem(engine));
        }
        let mount = self.mount.ok_or(EngineRefusal::UnknownMount(engine))?;
        let mut options = split_options(&mount.content.options);
        if options.any(|option| option == b"idmapped") {
            return Err(EngineRefusal::Idmapped(engine));
        }
        Ok(mount)
    }
}
