//! The directory at which a question begins.

use std::os::fd::{AsFd, AsRawFd};

use gate::fs::{At, Attributes, CWD, Open, Want, newfstatat, statx};
use gate::long::{open_long, reach};
use gate::{Errno, Fd, Gate};
use ondisk::Dev;

use crate::error::{Error, ErrorKind};

/// The directory at which a question begins, held open.
#[derive(Debug)]
pub struct Root {
    /// Its absolute name, without symlinks.
    pub path: Vec<u8>,
    /// A descriptor of it, good as a place in the tree only.
    pub fd: Fd,
    /// Its `st_dev`.
    pub dev: Dev,
    /// The mount that it is on; `None` where the kernel does not say (before 5.8, or statx
    /// refused).
    pub anchor: Option<u64>,
    /// Whether it is itself the root of a mount; `None` likewise.
    pub is_mount_root: Option<bool>,
}

impl Root {
    /// Opens `given` as a place, and finds its absolute name. Waits for no server where the kernel
    /// can help it.
    pub fn open(given: &[u8]) -> Result<Root, Error> {
        let failed = |kind: ErrorKind| move |(gate, errno)| Error::at(kind, given, gate, errno);
        let fd = open_long(given, Open::PATH | Open::DIRECTORY)
            .map_err(|e| failed(ErrorKind::OpenDirectory)((Gate::Openat, e)))?;
        let seen = Seen::at(&fd, b"").map_err(failed(ErrorKind::ReadAttributes))?;
        let path = match given {
            b"/" => b"/".to_vec(),
            _ => absolute_name(&fd, &seen)
                .map_err(|e| failed(ErrorKind::FindName)((Gate::Getcwd, e)))?,
        };
        Ok(Root {
            path,
            fd,
            dev: seen.dev.into(),
            anchor: seen.mount,
            is_mount_root: seen.is_mount_root,
        })
    }

    /// Goes to the root of a mount, by its name in the mount table. Has nothing mounted there.
    pub fn open_mount(target: &[u8]) -> Result<Root, Error> {
        let failed = |(gate, errno)| Error::at(ErrorKind::OpenDirectory, target, gate, errno);
        let fd = open_long(target, Open::PATH | Open::NOFOLLOW)
            .map_err(|e| failed((Gate::Openat, e)))?;
        let seen = Seen::at(&fd, b"").map_err(failed)?;
        Ok(Root {
            path: target.to_vec(),
            fd,
            dev: seen.dev.into(),
            anchor: seen.mount,
            is_mount_root: None,
        })
    }

    /// Closes the directory; its name remains.
    pub fn into_path(self) -> Vec<u8> {
        self.path
    }

    /// Sees whether the directory can be read; a dead server makes this wait.
    pub fn check_readable(&self) -> Result<(), Error> {
        gate::fs::openat(&self.fd, c".", Open::SCAN)
            .map(drop)
            .map_err(|errno| Error::at(ErrorKind::ReadDirectory, &self.path, Gate::Openat, errno))
    }
}

/// What tells one directory from another.
struct Seen {
    dev: (u32, u32),
    ino: u64,
    mount: Option<u64>,
    is_mount_root: Option<bool>,
}

impl Seen {
    /// Looks at a name, as seen from `dir`; an empty one means `dir` itself. Waits for no server,
    /// where there is statx.
    fn at(dir: impl AsFd, name: &[u8]) -> Result<Seen, (Gate, Errno)> {
        let reach = reach(dir.as_fd(), name).map_err(|e| (Gate::Openat, e))?;
        let at = At::EMPTY_PATH | At::NO_AUTOMOUNT;
        match statx(
            reach.dir(),
            reach.rest(),
            at | At::STATX_DONT_SYNC,
            Want::empty(),
        ) {
            Ok(s) => {
                let known = s.attributes_known.contains(Attributes::MOUNT_ROOT);
                let is_mount_root = known.then(|| s.attributes.contains(Attributes::MOUNT_ROOT));
                Ok(Seen {
                    dev: s.dev,
                    ino: s.ino,
                    mount: s.mnt_id,
                    is_mount_root,
                })
            }
            Err(Errno::ENOSYS | Errno::EPERM) => {
                let s =
                    newfstatat(reach.dir(), reach.rest(), at).map_err(|e| (Gate::Newfstatat, e))?;
                Ok(Seen {
                    dev: s.dev,
                    ino: s.ino,
                    mount: None,
                    is_mount_root: None,
                })
            }
            Err(e) => Err((Gate::Statx, e)),
        }
    }

    /// Whether a name leads there. (The kernel gives ` (deleted)` behind the name of a directory
    /// that was removed, and names over which another mount has come to lie.)
    fn is_at(&self, name: &[u8]) -> bool {
        let same =
            |other: Seen| (self.dev, self.ino, self.mount) == (other.dev, other.ino, other.mount);
        name.first() == Some(&b'/') && Seen::at(CWD, name).is_ok_and(same)
    }
}

/// The absolute name of an open directory.
///
/// # Errors
/// `ENOENT` when it has none: it was removed, or no path from this process's root leads to it.
pub fn name_of(dir: &Fd) -> gate::Result<Vec<u8>> {
    let seen = Seen::at(dir, b"").map_err(|(_, errno)| errno)?;
    absolute_name(dir, &seen)
}

/// The absolute name of an open directory: from /proc, or else by going there and asking where we
/// are.
///
/// # Errors
/// `ENOENT` when it has none: it was removed, or no path from this process's root leads to it.
fn absolute_name(dir: &Fd, seen: &Seen) -> gate::Result<Vec<u8>> {
    let link = gate::long::c_string(format!("/proc/self/fd/{}", dir.as_raw_fd()).as_bytes())?;
    if let Ok(name) = gate::fs::readlinkat(CWD, &link)
        && seen.is_at(&name)
    {
        return Ok(name);
    }
    let here = gate::fs::openat(CWD, c".", Open::PATH | Open::DIRECTORY)?;
    gate::fs::fchdir(dir.as_fd())?;
    let name = gate::fs::getcwd();
    gate::fs::fchdir(here.as_fd())?;
    name.and_then(|name| {
        if seen.is_at(&name) {
            Ok(name)
        } else {
            Err(Errno::ENOENT)
        }
    })
}
