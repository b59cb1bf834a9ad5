//! The directory at which a question begins.

use std::os::fd::{AsFd, AsRawFd};

use gate::fs::{At, Attributes, CWD, Open, Want, newfstatat, statx};
use gate::long::{newfstatat_long, statx_long};
use gate::{Errno, Fd, Gate};
use ondisk::Dev;

/// Why a directory cannot be the root of a question.
#[derive(Clone, Debug)]
pub struct Unusable {
    /// What was being done, in words.
    pub doing: &'static str,
    /// The name that was given.
    pub path: Vec<u8>,
    /// The call that failed.
    pub gate: Gate,
    /// How.
    pub errno: Errno,
}

/// The directory at which a question begins, held open.
#[derive(Debug)]
pub struct Root {
    /// Its absolute name, without symlinks.
    pub path: Vec<u8>,
    /// A descriptor of it, good as a place in the tree only.
    pub fd: Fd,
    /// Its `st_dev`.
    pub dev: Dev,
    /// The mount that it is on; `None` where the kernel does not say (before 5.8, or statx refused).
    pub anchor: Option<u64>,
    /// Whether it is itself the root of a mount; `None` likewise.
    pub is_mount_root: Option<bool>,
}

impl Root {
    /// Opens `given` as a place, and finds its absolute name. Waits for no server where the kernel can help it.
    pub fn open(given: &[u8]) -> Result<Root, Unusable> {
        let unusable = |doing, gate| move |errno| Unusable { doing, path: given.to_vec(), gate, errno };
        let fd = gate::long::open_long(given, Open::PATH | Open::DIRECTORY)
            .map_err(unusable("cannot open directory", Gate::Openat))?;
        let path = match given {
            b"/" => b"/".to_vec(),
            _ => absolute_name(&fd).map_err(unusable("cannot find the absolute name of", Gate::Getcwd))?,
        };
        let at = At::EMPTY_PATH | At::NO_AUTOMOUNT | At::STATX_DONT_SYNC;
        match gate::fs::statx(&fd, c"", at, Want::empty()) {
            Ok(s) => {
                let known = s.attributes_known.contains(Attributes::MOUNT_ROOT);
                let is_mount_root = known.then(|| s.attributes.contains(Attributes::MOUNT_ROOT));
                Ok(Root { path, fd, dev: s.dev.into(), anchor: s.mnt_id, is_mount_root })
            }
            Err(Errno::ENOSYS | Errno::EPERM) => {
                let s = gate::fs::newfstatat(&fd, c"", At::EMPTY_PATH)
                    .map_err(unusable("cannot read the attributes of", Gate::Newfstatat))?;
                Ok(Root { path, fd, dev: s.dev.into(), anchor: None, is_mount_root: None })
            }
            Err(e) => Err(unusable("cannot read the attributes of", Gate::Statx)(e)),
        }
    }

    /// Goes to the root of a mount, by its name in the mount table. Has nothing mounted there.
    pub fn of_mount(target: &[u8]) -> Result<Root, Unusable> {
        let unusable =
            |gate| move |errno| Unusable { doing: "cannot open directory", path: target.to_vec(), gate, errno };
        let fd = gate::long::open_long(target, Open::PATH | Open::NOFOLLOW).map_err(unusable(Gate::Openat))?;
        let at = At::EMPTY_PATH | At::NO_AUTOMOUNT | At::STATX_DONT_SYNC;
        let seen = gate::fs::statx(&fd, c"", at, Want::empty()).map_err(unusable(Gate::Statx))?;
        Ok(Root { path: target.to_vec(), fd, dev: seen.dev.into(), anchor: seen.mnt_id, is_mount_root: None })
    }

    /// Closes the directory; its name remains.
    pub fn into_path(self) -> Vec<u8> {
        self.path
    }

    /// Sees whether the directory can be read; a dead server makes this wait.
    pub fn check_readable(&self) -> Result<(), Unusable> {
        gate::fs::openat(&self.fd, c".", Open::SCAN).map(drop).map_err(|errno| Unusable {
            doing: "cannot read directory",
            path: self.path.clone(),
            gate: Gate::Openat,
            errno,
        })
    }
}

/// The absolute name of an open directory: from /proc, or else by going there and asking where we are.
///
/// # Errors
/// `ENOENT` when it has none: it was removed, or no path from this process's root leads to it.
fn absolute_name(dir: &Fd) -> gate::Result<Vec<u8>> {
    let link = gate::long::c_string(format!("/proc/self/fd/{}", dir.as_raw_fd()).as_bytes())?;
    if let Ok(name) = gate::fs::readlinkat(CWD, &link)
        && leads_to(&name, dir)
    {
        return Ok(name);
    }
    let here = gate::fs::openat(CWD, c".", Open::PATH | Open::DIRECTORY)?;
    gate::fs::fchdir(dir.as_fd())?;
    let name = gate::fs::getcwd();
    gate::fs::fchdir(here.as_fd())?;
    name.and_then(|name| if leads_to(&name, dir) { Ok(name) } else { Err(Errno::ENOENT) })
}

/// Whether a name leads to an open directory. (The kernel gives ` (deleted)` behind the name of one that was removed,
/// and names over which another mount has come to lie.) Waits for no server, where there is statx.
fn leads_to(name: &[u8], dir: &Fd) -> bool {
    let at = At::NO_AUTOMOUNT | At::STATX_DONT_SYNC;
    let same = match (statx_long(name, at, Want::empty()), statx(dir, c"", at | At::EMPTY_PATH, Want::empty())) {
        (Ok(a), Ok(b)) => (a.dev, a.ino, a.mnt_id) == (b.dev, b.ino, b.mnt_id),
        (Err(Errno::ENOSYS | Errno::EPERM), _) => {
            let named = newfstatat_long(CWD, name, At::NO_AUTOMOUNT);
            let open = newfstatat(dir, c"", At::EMPTY_PATH);
            matches!((named, open), (Ok(a), Ok(b)) if (a.dev, a.ino) == (b.dev, b.ino))
        }
        _ => false,
    };
    same && name.first() == Some(&b'/')
}
