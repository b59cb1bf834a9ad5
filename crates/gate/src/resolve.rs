//! Opens names so that concurrent changes cannot redirect them: by openat2(2), or component by
//! component.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use crate::fs::{CWD, Dev, FileType, Open, Resolve, StatxMask, fstat, openat};
use crate::gates::Gate;
use crate::mount_id::mount_id_in_proc;
use crate::newer::{ANY_NAME, NOT_OPEN, NewerCall};
use crate::syscall::syscall;
use crate::{Errno, Fd, Result};

static OPENAT2: NewerCall = NewerCall::new();

/// Opens a name of several components so that a concurrent change of the tree cannot redirect it:
/// no symlink is followed. [openat2(2)](https://man7.org/linux/man-pages/man2/openat2.2.html);
/// before Linux 5.6, which lacks this call, the components are opened one after the other.
pub fn openat2(dir: impl AsFd, name: &CStr, how: Open, resolve: Resolve) -> Result<Fd> {
    let (dir, resolve) = (dir.as_fd(), resolve | Resolve::NO_SYMLINKS);
    let call = |dir: RawFd, name: &CStr| {
        let request = [(how.bits() | libc::O_CLOEXEC) as u64, 0, resolve.bits()]; // struct open_how
        let size = size_of_val(&request);
        // SAFETY: `name` is NUL-terminated and `request` is a valid open_how.
        unsafe { syscall!(Gate::Openat2, dir, name, request.as_ptr(), size) }
    };
    if !OPENAT2.is_missing() {
        match call(dir.as_raw_fd(), name) {
            Err(errno) if OPENAT2.explains(errno, || call(NOT_OPEN, ANY_NAME)) => {}
            opened => return opened.map(Fd::take),
        }
    }
    open_by_components(dir, name.to_bytes(), how, resolve)
}

/// Opens a name component by component, never following symlinks.
///
/// # Errors
/// `ELOOP` or `ENOTDIR` for a symlink. With [`Resolve::BENEATH`], `EXDEV` for an absolute name and
/// for `..`. With [`Resolve::NO_XDEV`], `EXDEV` for a file on a different mount; without /proc
/// before Linux 5.8, on a different device.
fn open_by_components(dir: BorrowedFd<'_>, name: &[u8], how: Open, resolve: Resolve) -> Result<Fd> {
    let is_beneath = resolve.contains(Resolve::BENEATH);
    let is_absolute = name.starts_with(b"/");
    let parts = || {
        name.split(|&b| b == b'/')
            .filter(|part| !matches!(*part, b"" | b"."))
    };
    if is_beneath && (is_absolute || parts().any(|part| part == b"..")) {
        return Err(Errno::EXDEV);
    }
    if name.is_empty() {
        return Err(Errno::ENOENT);
    }
    let place = Open::PATH | Open::DIRECTORY | Open::NOFOLLOW;
    let root = is_absolute.then(|| openat(CWD, c"/", place)).transpose()?;
    let top = root.as_ref().map_or(dir, |fd| fd.as_fd());
    let mount = match resolve.contains(Resolve::NO_XDEV) {
        true => Some(mount_of(top)?),
        false => None,
    };
    let ends_in_directory = name.ends_with(b"/") || name.ends_with(b"/.") || name == b".";
    let how = match ends_in_directory {
        true => how | Open::DIRECTORY,
        false => how,
    };
    let asked = how;
    let mut parts = parts().peekable();
    let mut here: Option<Fd> = None;
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        let how = if is_last { how | Open::NOFOLLOW } else { place };
        let at = here.as_ref().map_or(top, |fd| fd.as_fd());
        let next = openat(at, &CString::new(part).map_err(|_| Errno::EINVAL)?, how)?;
        // Check only the last component: only `..` could leave a mount, and the callers pass no
        // `..`.
        if is_last
            && let Some(mount) = mount
            && !is_on(next.as_fd(), mount)?
        {
            return Err(Errno::EXDEV);
        }
        // `O_PATH | O_NOFOLLOW` opens a symlink itself, which is an error unless the caller
        // requested it.
        if is_last && is_path_of_symlink(&next, asked)? {
            return Err(Errno::ELOOP);
        }
        here = Some(next);
    }
    here.map_or_else(|| openat(top, c".", how), Ok)
}

fn is_path_of_symlink(fd: &Fd, asked: Open) -> Result<bool> {
    if !asked.contains(Open::PATH) || asked.intersects(Open::NOFOLLOW | Open::DIRECTORY) {
        return Ok(false);
    }
    let seen = fstat(fd, StatxMask::TYPE)?;
    Ok(seen.file_type == FileType::Symlink)
}

/// The mount id of an open file, if the kernel reports it, and the device.
fn mount_of(fd: BorrowedFd<'_>) -> Result<(Option<u64>, Dev)> {
    let seen = fstat(fd, StatxMask::BASIC_STATS | StatxMask::MNT_ID)?;
    let id = seen.mnt_id.or_else(|| mount_id_in_proc(fd.as_raw_fd()));
    Ok((id, seen.dev))
}

/// Whether an open file is on a mount: by mount id if known, since one btrfs mount has several
/// devices.
fn is_on(fd: BorrowedFd<'_>, (id, device): (Option<u64>, Dev)) -> Result<bool> {
    let (own_id, own_device) = mount_of(fd)?;
    Ok(match (own_id, id) {
        (Some(own), Some(id)) => own == id,
        _ => own_device == device,
    })
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tests look past the gate")]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    /// Compares both implementations: the kernel that runs the tests must have openat2(2).
    #[test]
    fn names_are_resolved_as_by_openat2() {
        let top = std::env::temp_dir().join(format!("fathom-gate-{}-names", std::process::id()));
        std::fs::create_dir_all(top.join("a/b")).unwrap();
        std::fs::write(top.join("a/file"), "x").unwrap();
        for (target, link) in [("a", "link"), ("/", "root"), ("none", "a/dangling")] {
            std::os::unix::fs::symlink(target, top.join(link)).unwrap();
        }
        let place = Open::PATH | Open::DIRECTORY;
        let c_string = |name: &[u8]| CString::new(name).unwrap();
        let dir = openat(CWD, &c_string(top.as_os_str().as_bytes()), place).unwrap();
        let root = openat(CWD, c"/", place).unwrap();
        let scan = Open::SCAN;
        let identity = |opened: Result<Fd>| {
            let seen = opened.and_then(|fd| fstat(&fd, StatxMask::BASIC_STATS));
            match seen.map(|seen| (seen.dev, seen.ino)) {
                // openat(2) with O_DIRECTORY returns ENOTDIR for a symlink, and reaches a symlink
                // on another mount before the check.
                Err(Errno::ELOOP | Errno::EXDEV) => Err(Errno::ENOTDIR),
                other => other,
            }
        };
        let all = Resolve::NO_SYMLINKS | Resolve::BENEATH | Resolve::NO_XDEV;
        for resolve in [
            Resolve::NO_SYMLINKS,
            Resolve::NO_SYMLINKS | Resolve::NO_XDEV,
            all,
        ] {
            for (from, name) in [
                (&dir, &b"a"[..]),
                (&dir, b"a/b"),
                (&dir, b"./a//b/"),
                (&dir, b"a/b/."),
                (&dir, b"."),
                (&dir, b""),
                (&dir, b"a/file"),
                (&dir, b"a/file/"),
                (&dir, b"a/file/x"),
                (&dir, b"none"),
                (&dir, b"none/x"),
                (&dir, b"link"),
                (&dir, b"link/"),
                (&dir, b"link/b"),
                (&dir, b"root/tmp"),
                (&dir, b"a/dangling"),
                (&root, b"proc"),
                (&root, b"proc/self"),
                (&root, b"proc/sys/kernel"),
                (&root, b"tmp/../proc"),
                (&root, b"/proc"),
                (&root, b"/"),
            ] {
                for how in [place, scan, Open::PATH, Open::PATH | Open::NOFOLLOW] {
                    let own = open_by_components(from.as_fd(), name, how, resolve);
                    let kernels = openat2(from, &c_string(name), how, resolve);
                    let name = String::from_utf8_lossy(name);
                    assert_eq!(
                        identity(own),
                        identity(kernels),
                        "{name} {how:?} {resolve:?}"
                    );
                }
            }
        }
        std::fs::remove_dir_all(top).unwrap();
    }
}
