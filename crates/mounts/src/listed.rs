//! Whether a directory still lists a name. An error such as `ENOENT` comes when a file was removed after its
//! directory was read; but a faulty server or disk gives it for files that exist.

use std::collections::HashSet;
use std::os::fd::AsFd;

use base::directory::each_entry;
use base::path::split;
use gate::fs::{At, FileType, Open, Want, statx};
use gate::long::{c_string, open_long, statx_long};
use gate::{Errno, Fd};

/// Whether an error says that a file does not exist, or is of another type than its directory said. `ESRCH`: a
/// process, in /proc. `ENOTDIR`, `ELOOP`: a directory was replaced by another file.
pub fn is_gone(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::ENOENT | Errno::ESRCH | Errno::ENOTDIR | Errno::ELOOP
    )
}

/// Whether an open directory was removed: then getdents64(2) fails with `ENOENT`.
pub fn is_unlinked(dir: &Fd) -> bool {
    let seen = statx(dir, c"", At::EMPTY_PATH, Want::NLINK);
    seen.is_ok_and(|seen| seen.nlink == 0)
}

/// Whether a file that was not found by a path, a directory if `is_dir`, was removed or replaced, or a directory above
/// it was: the nearest one that can be opened does not list it, or has a file of another type in its place.
pub fn is_removed(path: &[u8], is_dir: bool) -> bool {
    is_removed_from(path, is_dir, |dir| match dir {
        b"" if path.first() == Some(&b'/') => open_long(b"/", Open::SCAN),
        b"" => open_long(b".", Open::SCAN),
        dir => open_long(dir, Open::SCAN),
    })
}

/// The same, where `open` opens a directory by its path, which is empty for that where paths begin.
pub fn is_removed_from(
    mut path: &[u8],
    mut is_dir: bool,
    open: impl Fn(&[u8]) -> Result<Fd, Errno>,
) -> bool {
    while let [rest @ .., b'/'] = path {
        path = rest;
    }
    while !path.is_empty() {
        let (dir, name) = split(path);
        match open(dir).and_then(|fd| has(&fd, name, is_dir)) {
            Ok(has) => return !has,
            Err(errno) if is_gone(errno) => (path, is_dir) = (dir, true),
            Err(_) => return false,
        }
    }
    false
}

/// Whether a file is of a type.
pub fn is_still(path: &[u8], kind: FileType) -> bool {
    let seen = statx_long(path, At::SYMLINK_NOFOLLOW | At::NO_AUTOMOUNT, Want::TYPE);
    seen.is_ok_and(|seen| FileType::from_mode(seen.mode) == kind)
}

/// Whether a directory lists a name, which is that of a directory if `is_dir`.
fn has(dir: &Fd, name: &[u8], is_dir: bool) -> Result<bool, Errno> {
    if listed(dir, &HashSet::from([name]))?.is_empty() {
        return Ok(false);
    }
    let at = At::SYMLINK_NOFOLLOW | At::NO_AUTOMOUNT;
    let seen = || statx(dir, &c_string(name)?, at, Want::TYPE);
    Ok(!is_dir || seen().map_or(true, |seen| seen.file_type == FileType::Directory))
}

/// Those of some names that a directory lists.
///
/// # Errors
/// Those of getdents64(2).
pub fn listed(dir: impl AsFd, wanted: &HashSet<&[u8]>) -> Result<HashSet<Vec<u8>>, Errno> {
    let mut found = HashSet::new();
    each_entry(dir, |entry| {
        let name = entry.name.to_bytes();
        found.extend(wanted.contains(name).then(|| name.to_vec()));
    })?;
    Ok(found)
}
