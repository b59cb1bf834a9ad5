//! The directory where the walk of one mount begins, and the properties of that mount.

use std::sync::Arc;

use gate::fs::{Attributes, Open, Statfs, Time, fstat, fstatfs, has_statx};
use gate::long::open_long;
use gate::mount::mount_id;
use gate::{Errno, Fd, Gate};
use mounts::ErrorKind;
use mounts::table::read_either;
use ondisk::{Dev, Mount, split_options};
use team::{Team, share};

use crate::entry::Meta;
use crate::error::{EngineRefusal, Error};
use crate::key::DirKey;
use crate::kind::EngineKind;

/// The directory at which a job begins.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Top {
    /// Open for reading.
    pub fd: Arc<Fd>,
    /// Path, beginning with DIR as given.
    pub path: Vec<u8>,
    pub meta: Meta,
    pub is_mount_root: bool,
    /// Identifies the directory in this walk.
    pub key: DirKey,
}

impl Top {
    /// Reads the metadata of an open directory.
    ///
    /// # Errors
    /// The errors of statx(2).
    pub fn new(fd: Fd, path: Vec<u8>, key: DirKey) -> Result<Top, Errno> {
        let seen = fstat(&fd, Meta::WANT)?;
        let mut meta = Meta::from_statx(&seen);
        if seen.mnt_id.is_none() {
            // Before Linux 5.8, statx(2) returns no mount id, without which the mount table has no
            // entry for the mount.
            meta.mount = mount_id(&fd).unwrap_or(0);
        }
        Ok(Top {
            fd: Arc::new(fd),
            path,
            meta,
            is_mount_root: seen.attributes.contains(Attributes::MOUNT_ROOT),
            key,
        })
    }

    pub(crate) fn open_again(&self) -> Result<Fd, Errno> {
        let fd = open_long(&self.path, Open::SCAN)?;
        let seen = fstat(&fd, Meta::WANT)?;
        let is_same = (seen.ino, seen.dev) == (self.meta.ino, self.meta.dev);
        is_same.then_some(fd).ok_or(Errno::EACCES)
    }

    pub(crate) fn identity(&self) -> Identity {
        let created = |Time { sec, nsec }| (sec, nsec);
        (self.meta.ino, self.meta.btime.map(created))
    }

    /// The entry of a mount table for the directory's mount.
    pub fn mount<'a>(&self, mounts: &'a [Mount]) -> Option<&'a Mount> {
        mounts.iter().find(|mount| mount.id == self.meta.mount)
    }
}

/// Identifies a directory on all hosts: its inode number and time of creation.
pub(crate) type Identity = (u64, Option<(i64, u32)>);

/// Opens a DIR, following it if it is a symlink.
///
/// # Errors
/// The errors of openat(2) and statx(2).
pub fn open_top(path: &[u8], nth: usize) -> Result<Top, mounts::Error> {
    let failed = |kind, gate| move |errno| mounts::Error::at(kind, path, gate, errno);
    let how = Open::DIRECTORY | Open::NONBLOCK;
    let fd = open_long(path, how).map_err(failed(ErrorKind::OpenDirectory, Gate::Openat))?;
    Top::new(fd, path.to_vec(), DirKey::top(nth))
        .map_err(failed(ErrorKind::ReadAttributes, Gate::Statx))
}

pub(crate) fn open_tops(dirs: &[Vec<u8>]) -> Result<Vec<Top>, mounts::Error> {
    let dirs = dirs.iter().enumerate();
    dirs.map(|(nth, path)| open_top(path, nth)).collect()
}

/// Opens each directory, which must be the same one on all ranks, and the one whose device and
/// inode number are in `known`, if given.
pub(crate) fn open_same(
    dirs: &[Vec<u8>],
    known: &[(Dev, u64)],
    team: &dyn Team,
) -> Result<Vec<Top>, Error> {
    let opened = open_tops(dirs).map_err(Error::from);
    let own = opened.as_deref().unwrap_or_default();
    let first = share(team, own.iter().map(Top::identity).collect::<Vec<_>>()).swap_remove(0);
    let same = opened.and_then(|tops| {
        for (nth, top) in tops.iter().enumerate() {
            let is_other = |known: &(Dev, u64)| *known != (top.meta.dev, top.meta.ino);
            // Without statx(2), an earlier examination did not enter an automount, so `known` may
            // differ.
            if known.get(nth).is_some_and(is_other) && has_statx() {
                return Err(Error::Replaced(top.path.clone()));
            }
            if first.get(nth).is_some_and(|first| *first != top.identity()) {
                return Err(Error::OtherDirectory(top.path.clone()));
            }
        }
        Ok(tops)
    });
    let all = share(team, same.is_ok());
    match same {
        Ok(_) if all.contains(&false) => Err(Error::OtherRank),
        same => same,
    }
}

/// Checks that a directory is the same one on all ranks.
///
/// # Errors
/// The directory cannot be opened, or is a different one than on rank 0; [`Error::OtherRank`] if
/// this is so on another rank.
pub fn check_same_directory(path: &[u8], team: &dyn Team) -> Result<(), Error> {
    open_same(&[path.to_vec()], &[], team).map(drop)
}

/// The mount table, if it is readable and has the mount of the directory `top`; else an empty one.
pub fn mounts_around(top: Option<&Top>) -> Vec<Mount> {
    let anchor = top.map(|top| top.meta.mount).filter(|&id| id != 0);
    read_either(false, anchor).map_or(Vec::new(), |(table, _)| table.mounts)
}

/// The properties of a mount that an engine is chosen by, before the walk.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct MountContext<'a> {
    pub top: &'a Top,
    /// The entry of the mount table, if there is a table.
    pub mount: Option<&'a Mount>,
    pub statfs: Statfs,
    /// Whether this process is the superuser.
    pub is_root: bool,
    /// Whether access times must be kept.
    pub noatime: bool,
    /// Approximate number of entries below the directory, if known.
    pub expected: Option<u64>,
    /// Whether the sink calls syncfs(2) before any metadata is read, whichever engine is chosen.
    pub sink_syncs_first: bool,
    /// Whether the sink needs names and types only.
    pub names_suffice: bool,
}

impl<'a> MountContext<'a> {
    /// Collects the properties of a mount; calls statfs(2).
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

    /// Whether an engine below the file API can work on the type of file system and on the mount's
    /// options. Returns the entry of the mount table.
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
