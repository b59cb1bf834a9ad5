//! Functions that mount file systems and create trees.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, mkdirat, openat};
use rustix::mount::{self, MountFlags, UnmountFlags};

use super::disks::attach;
use super::tool::tool;
use super::wait::wait_until;

/// Mounts an empty tmpfs on `at`, creating the directory if it is missing.
pub(crate) fn tmpfs(at: impl AsRef<Path>) -> PathBuf {
    let at = at.as_ref();
    fs::create_dir_all(at).unwrap();
    mount::mount("some tmpfs", at, "tmpfs", MountFlags::empty(), c"mode=755").unwrap();
    at.to_owned()
}

/// Bind-mounts `from` on `to`, creating `to` if it is missing: a directory for a directory, a file
/// for anything else.
pub(crate) fn bind(from: impl AsRef<Path>, to: impl AsRef<Path>) -> PathBuf {
    let (from, to) = (from.as_ref(), to.as_ref());
    if from.is_dir() {
        fs::create_dir_all(to).unwrap();
    } else if !to.exists() {
        fs::write(to, "").unwrap();
    }
    mount::mount_bind(from, to).unwrap();
    to.to_owned()
}

/// Unmounts the topmost mount of `at`.
pub(crate) fn unmount(at: impl AsRef<Path>) {
    mount::unmount(at.as_ref(), UnmountFlags::DETACH).unwrap();
}

/// Detaches the mount of `at` (MNT_DETACH): a command of a concurrent test may briefly hold a
/// descriptor on it.
pub(crate) fn unmount_whole(at: &Path) {
    wait_until(&format!("unmounted {}", at.display()), || {
        mount::unmount(at, UnmountFlags::empty()).is_ok()
    });
}

/// Creates a directory and its parents.
pub(crate) fn dir(path: impl AsRef<Path>) -> PathBuf {
    fs::create_dir_all(path.as_ref()).unwrap();
    path.as_ref().to_owned()
}

/// Sets the permissions of a file or directory.
pub(crate) fn chmod(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Creates a file of `size` bytes, and its parent directories.
pub(crate) fn file(path: impl AsRef<Path>, size: usize) -> PathBuf {
    let path = path.as_ref();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, vec![b'x'; size]).unwrap();
    path.to_owned()
}

/// Fills `under` with `directories` directories of `files` empty files each.
pub(crate) fn bush(under: &Path, directories: usize, files: usize) {
    for d in 0..directories {
        let place = dir(under.join(format!("d{d}")));
        for f in 0..files {
            fs::File::create(place.join(format!("f{f}"))).unwrap();
        }
    }
}

/// A name from bytes.
pub(crate) fn name(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

/// Unusual directory names that make many programs fail.
pub(crate) fn odd_names() -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = [
        &b"plain"[..],
        b"two words",
        b" leading and trailing ",
        b"new\nline",
        b"tab\ttab",
        b"back\\slash",
        b"back\\040slash",
        b"\xff\xfe not UTF-8 \x80",
        b"-rf",
        b"--",
        b"#comment",
        b"quote\"s 'and' `ticks`",
        b"star*[q]?",
        b"\x1b[31mred\x07",
        b"caf\xc3\xa9",
        b"(deleted)",
    ]
    .map(<[u8]>::to_vec)
    .to_vec();
    names.push(vec![b'n'; 200]);
    names.push(vec![0xf0; 255]);
    names
}

/// Creates `depth` nested directories called `name` below `top`. Returns the last one, open: its
/// path may be longer than PATH_MAX.
pub(crate) fn deep(top: &Path, name: &str, depth: usize) -> OwnedFd {
    let how = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut here = rustix::fs::open(top, how, Mode::empty()).unwrap();
    for _ in 0..depth {
        mkdirat(&here, name, Mode::from(0o755)).unwrap();
        here = openat(&here, name, how, Mode::empty()).unwrap();
    }
    here
}

/// Mounts a tmpfs on an open directory, however long its path is. Changes the working directory of
/// the thread, so it must run in the thread of a namespace.
pub(crate) fn tmpfs_on(directory: &OwnedFd) {
    rustix::process::fchdir(directory).unwrap();
    mount::mount("deep tmpfs", ".", "tmpfs", MountFlags::empty(), c"mode=755").unwrap();
    rustix::process::chdir("/").unwrap();
}

/// The id (as in mountinfo) of the mount that `path` is on.
pub(crate) fn mount_id(path: &Path) -> Option<u64> {
    let how = AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC | AtFlags::SYMLINK_NOFOLLOW;
    let found = rustix::fs::statx(rustix::fs::CWD, path, how, StatxFlags::MNT_ID).ok()?;
    Some(found.stx_mnt_id)
}

/// Creates a file system of type `kind` (ext4, xfs, btrfs) in a sparse file next to `at`, and
/// mounts it there.
pub(crate) fn disk(kind: &str, at: &Path) -> PathBuf {
    let image = at.with_extension("image");
    fs::create_dir_all(at).unwrap();
    fs::File::create(&image)
        .unwrap()
        .set_len(400 << 20)
        .unwrap();
    tool(Command::new(format!("mkfs.{kind}")).arg("-q").arg(&image));
    let device = attach(&image);
    mount::mount(&device.0, at, kind, MountFlags::empty(), None).unwrap();
    at.to_owned()
}
