//! The entries of a directory of /proc or of a cgroup file system.

use base::directory::each_entry;
use gate::Fd;
use gate::fs::{CWD, Open, openat};
use ondisk::dirent::Entry;

/// Passes the opened directory and each of its entries to `show`.
///
/// # Errors
/// The errors of openat(2) and getdents64(2).
pub(crate) fn list(dir: &[u8], mut show: impl FnMut(&Fd, &Entry<'_>)) -> gate::Result<()> {
    let dir = openat(CWD, &gate::long::c_string(dir)?, Open::DIRECTORY)?;
    each_entry(&dir, |entry| show(&dir, entry))
}

/// The entries of a directory of /proc whose names are numbers; none if it is unreadable.
pub(crate) fn numbers_in(dir: &str) -> Vec<u32> {
    let mut numbers = Vec::new();
    let number = |entry: &Entry<'_>| entry.name.to_str().ok()?.parse::<u32>().ok();
    let _ = list(dir.as_bytes(), |_, entry| numbers.extend(number(entry)));
    numbers
}
