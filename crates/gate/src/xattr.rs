//! Extended attributes, among which POSIX ACLs and file capabilities are.
//!
//! The kernel gives no more than 64 KiB of names, nor of a value. What it gives goes into a buffer
//! of the caller's, which grows as it must and is best used again.
//!
//! Of a name in an open directory, listxattrat and getxattrat (since Linux 6.13) tell. Before that
//! the name is put together through /proc, for llistxattr and lgetxattr: which it is, is found out
//! once for each.

use std::borrow::Cow;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use libc::{c_int, c_long, syscall};

use crate::errno::check;
use crate::gates::Gate;
use crate::meter::pass;
use crate::{Errno, Result};

const SYS_GETXATTRAT: c_long = 464;
const SYS_LISTXATTRAT: c_long = 465;

/// `struct xattr_args` of linux/xattr.h.
#[repr(C)]
struct XattrArgs {
    value: u64,
    size: u32,
    flags: u32,
}

/// Makes a call that writes into a buffer: where, and how many bytes there is room for. What was in
/// the buffer is gone.
///
/// # Safety
/// The call writes no more bytes than it is told, and says how many they are.
unsafe fn fill(buffer: &mut Vec<u8>, call: impl Fn(*mut u8, usize) -> Result<usize>) -> Result<()> {
    const FEW: usize = 1 << 10;
    const MOST: usize = 64 << 10; // XATTR_SIZE_MAX, XATTR_LIST_MAX
    buffer.clear();
    loop {
        buffer.reserve(FEW);
        let room = buffer.capacity();
        match call(buffer.as_mut_ptr(), room) {
            Ok(n) => {
                // SAFETY: there was room for `room` bytes, and the call has written `n` of them.
                unsafe { buffer.set_len(n.min(room)) };
                return Ok(());
            }
            Err(Errno::ERANGE) if room < MOST => buffer.reserve(MOST),
            Err(e) => return Err(e),
        }
    }
}

/// The names of the extended attributes of an open file, each ended by NUL.
/// [flistxattr(2)](https://man7.org/linux/man-pages/man2/listxattr.2.html)
///
/// # Errors
/// `EOPNOTSUPP` where the file system has none; `EBADF` for a descriptor that was opened with
/// `O_PATH`.
pub fn flistxattr(fd: impl AsFd, names: &mut Vec<u8>) -> Result<()> {
    let fd = fd.as_fd().as_raw_fd();
    let call = |to: *mut u8, room: usize| {
        pass(Gate::Flistxattr, || {
            // SAFETY: the kernel writes at most `room` bytes to `to`, which has room for them.
            check(unsafe { syscall(libc::SYS_flistxattr, fd, to, room) })
        })
    };
    // SAFETY: the kernel keeps to what it is told.
    unsafe { fill(names, call) }
}

/// An extended attribute of an open file.
/// [fgetxattr(2)](https://man7.org/linux/man-pages/man2/getxattr.2.html)
///
/// # Errors
/// `ENODATA` where it has no such attribute; `EOPNOTSUPP` where the file system has none of the
/// kind.
pub fn fgetxattr(fd: impl AsFd, attribute: &CStr, value: &mut Vec<u8>) -> Result<()> {
    let fd = fd.as_fd().as_raw_fd();
    let call = |to: *mut u8, room: usize| {
        pass(Gate::Fgetxattr, || {
            // SAFETY: `attribute` is NUL-terminated, and the kernel writes at most `room` bytes to
            // `to`, which has room.
            check(unsafe { syscall(libc::SYS_fgetxattr, fd, attribute.as_ptr(), to, room) })
        })
    };
    // SAFETY: the kernel keeps to what it is told.
    unsafe { fill(value, call) }
}

/// The names of the extended attributes of what a name stands for, a symlink itself, each ended by
/// NUL. [llistxattr(2)](https://man7.org/linux/man-pages/man2/listxattr.2.html)
///
/// # Errors
/// As [`flistxattr`].
pub fn llistxattr(path: &CStr, names: &mut Vec<u8>) -> Result<()> {
    let call = |to: *mut u8, room: usize| {
        pass(Gate::Llistxattr, || {
            // SAFETY: `path` is NUL-terminated, and the kernel writes at most `room` bytes to `to`,
            // which has room.
            check(unsafe { syscall(libc::SYS_llistxattr, path.as_ptr(), to, room) })
        })
    };
    // SAFETY: the kernel keeps to what it is told.
    unsafe { fill(names, call) }
}

/// An extended attribute of what a name stands for, a symlink itself.
/// [lgetxattr(2)](https://man7.org/linux/man-pages/man2/getxattr.2.html)
///
/// # Errors
/// As [`fgetxattr`].
pub fn lgetxattr(path: &CStr, attribute: &CStr, value: &mut Vec<u8>) -> Result<()> {
    let call = |to: *mut u8, room: usize| {
        pass(Gate::Lgetxattr, || {
            let (path, attribute) = (path.as_ptr(), attribute.as_ptr());
            // SAFETY: both names are NUL-terminated, and the kernel writes at most `room` bytes to
            // `to`, which has room.
            check(unsafe { syscall(libc::SYS_lgetxattr, path, attribute, to, room) })
        })
    };
    // SAFETY: the kernel keeps to what it is told.
    unsafe { fill(value, call) }
}

/// Whether there is no listxattrat(2) here.
static NO_LISTXATTRAT: AtomicBool = AtomicBool::new(false);
/// Whether there is no getxattrat(2) here.
static NO_GETXATTRAT: AtomicBool = AtomicBool::new(false);

/// The names of the extended attributes of a name in an open directory, of a symlink itself, each
/// ended by NUL. [listxattrat(2)](https://man7.org/linux/man-pages/man2/listxattr.2.html), or
/// [`llistxattr`] where the kernel lacks it.
///
/// # Errors
/// As [`flistxattr`].
pub fn listxattrat(dir: impl AsFd, name: &CStr, names: &mut Vec<u8>) -> Result<()> {
    let dir = dir.as_fd().as_raw_fd();
    let call = |to: *mut u8, room: usize| {
        pass(Gate::Listxattrat, || {
            // SAFETY: `name` is NUL-terminated, and the kernel writes at most `room` bytes to `to`,
            // which has room.
            check(unsafe {
                syscall(
                    SYS_LISTXATTRAT,
                    dir,
                    name.as_ptr(),
                    libc::AT_SYMLINK_NOFOLLOW,
                    to,
                    room,
                )
            })
        })
    };
    // SAFETY: the kernel keeps to what it is told.
    or_by_path(&NO_LISTXATTRAT, || unsafe { fill(names, call) }).unwrap_or_else(|refused| {
        let listed = llistxattr(&path(dir, name)?, names);
        settle(&NO_LISTXATTRAT, refused, listed)
    })
}

/// An extended attribute of a name in an open directory, of a symlink itself.
/// [getxattrat(2)](https://man7.org/linux/man-pages/man2/getxattr.2.html), or [`lgetxattr`] where
/// the kernel lacks it.
///
/// # Errors
/// As [`fgetxattr`].
pub fn getxattrat(
    dir: impl AsFd,
    name: &CStr,
    attribute: &CStr,
    value: &mut Vec<u8>,
) -> Result<()> {
    let dir = dir.as_fd().as_raw_fd();
    let call = |to: *mut u8, room: usize| {
        let args = XattrArgs {
            value: to.expose_provenance() as u64,
            size: u32::try_from(room).unwrap_or(u32::MAX),
            flags: 0,
        };
        pass(Gate::Getxattrat, || {
            let (name, attribute) = (name.as_ptr(), attribute.as_ptr());
            let (at, size) = (libc::AT_SYMLINK_NOFOLLOW, size_of::<XattrArgs>());
            // SAFETY: both names are NUL-terminated, `args` is as long as is said, and the kernel
            // writes at most `room` bytes to `to`, which has room.
            check(unsafe {
                syscall(
                    SYS_GETXATTRAT,
                    dir,
                    name,
                    at,
                    attribute,
                    &raw const args,
                    size,
                )
            })
        })
    };
    // SAFETY: the kernel keeps to what it is told.
    or_by_path(&NO_GETXATTRAT, || unsafe { fill(value, call) }).unwrap_or_else(|refused| {
        let got = lgetxattr(&path(dir, name)?, attribute, value);
        settle(&NO_GETXATTRAT, refused, got)
    })
}

/// Makes a call that newer kernels have. `Err` when the older one is to be asked, and what the
/// newer one has answered, if it was.
fn or_by_path(
    missing: &AtomicBool,
    call: impl FnOnce() -> Result<()>,
) -> std::result::Result<Result<()>, Option<Errno>> {
    if missing.load(Relaxed) {
        return Err(None);
    }
    match call() {
        // A filter that does not know the call answers EPERM.
        Err(e @ (Errno::ENOSYS | Errno::EPERM)) => Err(Some(e)),
        other => Ok(other),
    }
}

/// What the older call has answered; if that is something else, the newer one is not there.
fn settle(missing: &AtomicBool, refused: Option<Errno>, by_path: Result<()>) -> Result<()> {
    if refused == Some(Errno::ENOSYS) || refused.is_some() && by_path != Err(Errno::EPERM) {
        missing.store(true, Relaxed);
    }
    by_path
}

/// A name in an open directory, as calls take it that know of no directories.
fn path(dir: c_int, name: &CStr) -> Result<Cow<'_, CStr>> {
    if dir == libc::AT_FDCWD || name.to_bytes().starts_with(b"/") {
        return Ok(Cow::Borrowed(name));
    }
    let path = [format!("/proc/self/fd/{dir}/").as_bytes(), name.to_bytes()].concat();
    CString::new(path)
        .map(Cow::Owned)
        .map_err(|_| Errno::EINVAL)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tests look past the gate")]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;
    use crate::fs::{Open, openat};
    use crate::long::open_long;

    fn set(path: &CStr, attribute: &CStr, value: &[u8]) -> bool {
        // SAFETY: both names are NUL-terminated, and `value` is as long as is said.
        unsafe {
            libc::lsetxattr(
                path.as_ptr(),
                attribute.as_ptr(),
                value.as_ptr().cast(),
                value.len(),
                0,
            ) == 0
        }
    }

    #[test]
    fn by_name_and_by_descriptor() {
        let top = std::env::temp_dir().join(format!("fathom-gate-{}-xattr", std::process::id()));
        std::fs::create_dir(&top).unwrap();
        std::fs::write(top.join("file"), b"").unwrap();
        std::os::unix::fs::symlink("file", top.join("link")).unwrap();
        let whole = |name: &str| CString::new(top.join(name).as_os_str().as_bytes()).unwrap();
        let large = vec![7; 3000];
        let file = whole("file");
        if !set(&file, c"user.one", b"1") || !set(&file, c"user.large", &large) {
            eprintln!(
                "SKIPPED: {} has no room for extended attributes",
                top.display()
            );
            return std::fs::remove_dir_all(&top).unwrap();
        }
        let dir = open_long(top.as_os_str().as_bytes(), Open::DIRECTORY).unwrap();
        let fd = openat(&dir, c"file", Open::NONBLOCK).unwrap();
        let own = |names: &[u8]| {
            let mut own: Vec<_> = names
                .split(|&b| b == 0)
                .filter(|name| name.starts_with(b"user."))
                .collect();
            own.sort();
            own.concat()
        };
        for is_missing in [false, true] {
            NO_LISTXATTRAT.store(is_missing, Relaxed);
            NO_GETXATTRAT.store(is_missing, Relaxed);
            let mut buffer = Vec::new();
            listxattrat(&dir, c"file", &mut buffer).unwrap();
            assert_eq!(own(&buffer), b"user.largeuser.one");
            listxattrat(&dir, c"link", &mut buffer).unwrap();
            assert_eq!(own(&buffer), b"");
            getxattrat(&dir, c"file", c"user.large", &mut buffer).unwrap();
            assert_eq!(buffer, large);
            getxattrat(&dir, c"file", c"user.one", &mut buffer).unwrap();
            assert_eq!(buffer, b"1");
            assert_eq!(
                getxattrat(&dir, c"file", c"user.two", &mut buffer),
                Err(Errno::ENODATA)
            );
            assert_eq!(
                getxattrat(&dir, c"gone", c"user.one", &mut buffer),
                Err(Errno::ENOENT)
            );
            assert_eq!(listxattrat(&dir, c"gone", &mut buffer), Err(Errno::ENOENT));
            listxattrat(crate::fs::CWD, &file, &mut buffer).unwrap();
            assert_eq!(own(&buffer), b"user.largeuser.one");
        }
        let mut buffer = Vec::new();
        flistxattr(&fd, &mut buffer).unwrap();
        assert_eq!(own(&buffer), b"user.largeuser.one");
        fgetxattr(&fd, c"user.large", &mut buffer).unwrap();
        assert_eq!(buffer, large);
        std::fs::remove_dir_all(&top).unwrap();
    }
}
