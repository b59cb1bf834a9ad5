//! Whether a directory still lists a name. A file that was removed after its directory was read
//! causes an error such as `ENOENT`; but a faulty server or disk returns the same error for files
//! that exist.

use std::collections::HashSet;
use std::os::fd::AsFd;

use base::directory::each_entry;
use base::path::split;
use gate::fs::{FileType, Open, StatxMask, fstat, lstatat};
use gate::long::{c_string, lstat_long, open_long};
use gate::{Errno, Fd};

/// Whether an error means that a file does not exist, or is of a different type than its directory
/// lists. `ESRCH`: a process, in /proc. `ENOTDIR`, `ELOOP`: a directory was replaced by a different
/// file.
pub fn is_gone(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::ENOENT | Errno::ESRCH | Errno::ENOTDIR | Errno::ELOOP
    )
}

/// Whether an open directory was removed: getdents64(2) then fails with `ENOENT`.
pub fn is_unlinked(dir: &Fd) -> bool {
    let seen = fstat(dir, StatxMask::NLINK);
    seen.is_ok_and(|seen| seen.nlink == 0)
}

/// Whether a file that was not found by its path, a directory if `is_dir`, or a directory above it,
/// was removed or replaced: the nearest directory that can be opened does not list the next name,
/// or lists it with a different type.
pub fn is_removed(path: &[u8], is_dir: bool) -> bool {
    is_removed_from(path, is_dir, |dir| match dir {
        b"" if path.first() == Some(&b'/') => open_long(b"/", Open::SCAN),
        b"" => open_long(b".", Open::SCAN),
        dir => open_long(dir, Open::SCAN),
    })
}

/// Like [`is_removed`], but `open` opens directories by path; an empty path is the directory that
/// paths are relative to.
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

/// Whether a path still leads to a file of this type.
pub fn is_still(path: &[u8], kind: FileType) -> bool {
    let seen = lstat_long(path, StatxMask::TYPE);
    seen.is_ok_and(|seen| FileType::from_mode(seen.mode) == kind)
}

/// Whether a directory lists `name`, as a directory if `is_dir`.
fn has(dir: &Fd, name: &[u8], is_dir: bool) -> Result<bool, Errno> {
    if listed(dir, &HashSet::from([name]))?.is_empty() {
        return Ok(false);
    }
    let seen = || lstatat(dir, &c_string(name)?, StatxMask::TYPE);
    Ok(!is_dir || seen().map_or(true, |seen| seen.file_type == FileType::Directory))
}

/// The names among `wanted` that a directory lists.
///
/// # Errors
/// The errors of getdents64(2).
pub fn listed(dir: impl AsFd, wanted: &HashSet<&[u8]>) -> Result<HashSet<Vec<u8>>, Errno> {
    let mut found = HashSet::new();
    each_entry(dir, |entry| {
        let name = entry.name.to_bytes();
        found.extend(wanted.contains(name).then(|| name.to_vec()));
    })?;
    Ok(found)
}
