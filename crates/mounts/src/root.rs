//! The directory where a search begins.

use std::os::fd::{AsFd, AsRawFd};

use base::path::join;
use gate::fs::{AtFlags, Attributes, CWD, Open, StatxMask, newfstatat, statx};
use gate::long::{c_string, open_long, reach, split_path};
use gate::{Errno, Fd, Gate};
use ondisk::Dev;

use crate::error::{Error, ErrorKind};
use crate::namespace::other_namespace;

/// The directory where a search begins, held open.
#[derive(Debug)]
pub struct Root {
    /// Absolute path of the directory, without symlinks.
    pub path: Vec<u8>,
    /// Descriptor of the directory, opened with `O_PATH`.
    pub fd: Fd,
    /// Device number of the directory (`st_dev`).
    pub dev: Dev,
    /// Id of the mount that contains the directory; `None` if the kernel does not report it (before
    /// 5.8, or if statx is refused).
    pub anchor: Option<u64>,
    /// Whether the directory is itself the root of a mount; `None` if the kernel does not report
    /// it.
    pub is_mount_root: Option<bool>,
}

impl Root {
    /// Opens `given` with `O_PATH`, and finds its absolute path. With statx(2), waits for no
    /// server.
    pub fn open(given: &[u8]) -> Result<Root, Error> {
        let failed = |kind: ErrorKind| move |(gate, errno)| Error::at(kind, given, gate, errno);
        let fd = open_long(given, Open::PATH | Open::DIRECTORY)
            .map_err(|e| failed(ErrorKind::OpenDirectory)((Gate::Openat, e)))?;
        let seen = DirectoryIdentity::at(&fd, b"").map_err(failed(ErrorKind::ReadAttributes))?;
        let path = match given {
            b"/" => b"/".to_vec(),
            _ => absolute_name(&fd, &seen).map_err(|errno| match other_namespace(&fd) {
                Some(other) => Error {
                    path: Some(given.to_vec()),
                    ..Error::from(ErrorKind::OtherNamespace(other))
                },
                None => failed(ErrorKind::FindName)((Gate::Getcwd, errno)),
            })?,
        };
        Ok(Root {
            path,
            fd,
            dev: seen.dev,
            anchor: seen.mount,
            is_mount_root: seen.is_mount_root,
        })
    }

    /// Opens the root of a mount by its path in the mount table, without triggering an automount.
    pub fn open_mount(target: &[u8]) -> Result<Root, Error> {
        let failed = |(gate, errno)| Error::at(ErrorKind::OpenDirectory, target, gate, errno);
        let fd = open_long(target, Open::PATH | Open::NOFOLLOW)
            .map_err(|e| failed((Gate::Openat, e)))?;
        let seen = DirectoryIdentity::at(&fd, b"").map_err(failed)?;
        Ok(Root {
            path: target.to_vec(),
            fd,
            dev: seen.dev,
            anchor: seen.mount,
            is_mount_root: None,
        })
    }

    /// Closes the directory, and returns its path.
    pub fn into_path(self) -> Vec<u8> {
        self.path
    }

    /// Checks whether the directory can be read; waits for its server.
    pub fn check_readable(&self) -> Result<(), Error> {
        gate::fs::openat(&self.fd, c".", Open::SCAN)
            .map(drop)
            .map_err(|errno| Error::at(ErrorKind::ReadDirectory, &self.path, Gate::Openat, errno))
    }
}

struct DirectoryIdentity {
    dev: Dev,
    ino: u64,
    mount: Option<u64>,
    is_mount_root: Option<bool>,
}

impl DirectoryIdentity {
    /// Calls statx(2) for a path relative to `dir`; an empty path means `dir` itself. Waits for no
    /// server, except in a fallback without statx(2).
    fn at(dir: impl AsFd, name: &[u8]) -> Result<DirectoryIdentity, (Gate, Errno)> {
        let reach = reach(dir.as_fd(), name).map_err(|e| (Gate::Openat, e))?;
        let at = AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT;
        let (dir, name) = (reach.dir(), reach.rest());
        match statx(dir, name, at | AtFlags::STATX_DONT_SYNC, StatxMask::empty()) {
            Ok(s) => {
                let known = s.attributes_known.contains(Attributes::MOUNT_ROOT);
                Ok(DirectoryIdentity {
                    dev: s.dev,
                    ino: s.ino,
                    mount: s.mnt_id,
                    is_mount_root: known.then(|| s.attributes.contains(Attributes::MOUNT_ROOT)),
                })
            }
            Err(Errno::ENOSYS | Errno::EPERM) => {
                let s = newfstatat(dir, name, at).map_err(|e| (Gate::Newfstatat, e))?;
                Ok(DirectoryIdentity {
                    dev: s.dev,
                    ino: s.ino,
                    mount: None,
                    is_mount_root: None,
                })
            }
            Err(e) => Err((Gate::Statx, e)),
        }
    }

    /// Whether a path leads to this directory. (For a removed directory, the kernel returns the
    /// path with ` (deleted)` appended, and another mount may cover the path by now.)
    fn is_at(&self, name: &[u8]) -> bool {
        let same = |other: DirectoryIdentity| {
            (self.dev, self.ino, self.mount) == (other.dev, other.ino, other.mount)
        };
        name.first() == Some(&b'/') && DirectoryIdentity::at(CWD, name).is_ok_and(same)
    }
}

/// The absolute path of an open directory.
///
/// # Errors
/// `ENOENT` if it has none: the directory was removed, or no path from this process's root leads to
/// it.
pub fn name_of(dir: &Fd) -> gate::Result<Vec<u8>> {
    let seen = DirectoryIdentity::at(dir, b"").map_err(|(_, errno)| errno)?;
    absolute_name(dir, &seen)
}

/// Implements [`name_of`] by the link in /proc/self/fd, or else by fchdir(2) and getcwd(2).
fn absolute_name(dir: &Fd, seen: &DirectoryIdentity) -> gate::Result<Vec<u8>> {
    let link = c_string(format!("/proc/self/fd/{}", dir.as_raw_fd()).as_bytes())?;
    if let Ok(name) = gate::fs::readlinkat(CWD, &link)
        && seen.is_at(&name)
    {
        return Ok(name);
    }
    let here = gate::fs::openat(CWD, c".", Open::PATH | Open::DIRECTORY)?;
    gate::fs::fchdir(dir.as_fd())?;
    let name = gate::fs::getcwd();
    gate::fs::fchdir(here.as_fd())?;
    Some(name?)
        .filter(|name| seen.is_at(name))
        .ok_or(Errno::ENOENT)
}

/// The absolute path of a file; `None` if its directory has no path.
pub fn absolute_file(path: &[u8]) -> Option<Vec<u8>> {
    let (dir, name) = split_path(path);
    Some(join(&absolute(dir)?, name))
}

/// The absolute path of a directory; `None` if it has none.
pub fn absolute(dir: &[u8]) -> Option<Vec<u8>> {
    name_of(&open_long(dir, Open::PATH | Open::DIRECTORY).ok()?).ok()
}
