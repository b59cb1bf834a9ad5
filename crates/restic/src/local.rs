//! Reads local files and directories.

use gate::file::Reader;
use gate::fs::getdents64;
use gate::{Errno, Fd};
use ondisk::dirent::entries;

/// The names in a directory that are UTF-8, without `.` and `..`.
pub(crate) fn names(dir: &Fd) -> Result<Vec<String>, Errno> {
    let (mut buffer, mut found) = (vec![0; 32 << 10], Vec::new());
    loop {
        let len = getdents64(dir, &mut buffer)?;
        if len == 0 {
            return Ok(found);
        }
        let names = entries(&buffer[..len]).map(|entry| entry.name.to_str().map(str::to_owned));
        found.extend(names.flatten());
    }
}

/// Reads a part of a file; all of it without a range.
pub(crate) fn read_file(path: &[u8], range: Option<(u64, usize)>) -> Result<Vec<u8>, Errno> {
    let file = Reader::open(path)?;
    let (offset, len) = range.unwrap_or((0, file.len() as usize));
    let mut bytes = vec![0; len];
    match file.read_at(offset, &mut bytes)? {
        have if have == len => Ok(bytes),
        _ => Err(Errno::EIO),
    }
}
