//! The entries of a directory.

use std::os::fd::AsFd;

use gate::Errno;
use gate::fs::getdents64;
use ondisk::dirent::{Entry, entries};

/// Calls `visit` for each entry of an open directory, without `.` and `..`, beginning at the
/// current offset of the descriptor.
///
/// # Errors
/// Those of getdents64(2).
pub fn each_entry(dir: impl AsFd, mut visit: impl FnMut(&Entry<'_>)) -> Result<(), Errno> {
    try_each_entry(dir, |entry| {
        visit(entry);
        Ok(())
    })
}

/// Calls `visit` for each entry of an open directory like [`each_entry`], until `visit` fails.
///
/// # Errors
/// Those of getdents64(2), and that of `visit`.
pub fn try_each_entry<E: From<Errno>>(
    dir: impl AsFd,
    mut visit: impl FnMut(&Entry<'_>) -> Result<(), E>,
) -> Result<(), E> {
    const BUFFER: usize = 64 << 10;
    let mut buffer = vec![0; BUFFER];
    loop {
        let n = getdents64(&dir, &mut buffer)?;
        let Some(read) = buffer.get(..n).filter(|read| !read.is_empty()) else {
            return Ok(());
        };
        entries(read).try_for_each(|entry| visit(&entry))?;
    }
}

/// The entries of an open directory whose names are numbers.
///
/// # Errors
/// Those of getdents64(2).
pub fn numbers(dir: impl AsFd) -> Result<Vec<u32>, Errno> {
    let mut numbers = Vec::new();
    let number = |entry: &Entry<'_>| entry.name.to_str().ok()?.parse::<u32>().ok();
    each_entry(dir, |entry| numbers.extend(number(entry)))?;
    Ok(numbers)
}
