//! Reads files at any offset.

use std::ffi::CStr;
use std::sync::Arc;

use crate::fs::{CWD, FileType, Open, StatxMask, fstat, openat, pread64, read};
use crate::long::{c_string, open_long};
use crate::{Errno, Fd, Result};

/// A file that is open for reading, with its length when it was opened.
#[derive(Clone, Debug)]
pub struct Reader {
    fd: Arc<Fd>,
    len: u64,
}

impl Reader {
    /// Opens a file by a name of any length. The length of a device or pipe is 0.
    ///
    /// # Errors
    /// `EISDIR` for a directory; the errors of openat(2).
    pub fn open(path: &[u8]) -> Result<Reader> {
        let fd = open_long(path, Open::NONBLOCK)?;
        let seen = fstat(&fd, StatxMask::BASIC_STATS)?;
        if seen.file_type == FileType::Directory {
            return Err(Errno::EISDIR);
        }
        Ok(Reader::new(Arc::new(fd), seen.size))
    }

    /// Wraps an open file with its length.
    pub fn new(fd: Arc<Fd>, len: u64) -> Reader {
        Reader { fd, len }
    }

    /// The open file.
    pub fn fd(&self) -> &Arc<Fd> {
        &self.fd
    }

    /// Length of the file in bytes, when it was opened.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the file was empty when it was opened.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads at an offset until the buffer is full or the file ends.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        read_full_at(&self.fd, offset, buffer)
    }
}

/// Reads from an offset until the buffer is full or the file ends.
pub fn read_full_at(fd: &Fd, mut offset: u64, buffer: &mut [u8]) -> Result<usize> {
    let mut have = 0;
    while have < buffer.len() {
        match pread64(fd, &mut buffer[have..], offset) {
            Ok(0) => break,
            Ok(n) => {
                have += n;
                offset += n as u64;
            }
            Err(Errno::EINTR) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(have)
}

/// Reads a file of /proc or /sys, up to 64 KiB.
pub fn read_kernel(name: &CStr) -> Result<Vec<u8>> {
    read_kernel_up_to(name, 64 << 10)
}

/// Reads a file of /proc or /sys up to `limit` bytes, which must be a power of two and at least
/// 4096.
pub fn read_kernel_up_to(name: &CStr, limit: usize) -> Result<Vec<u8>> {
    let fd = openat(CWD, name, Open::NONBLOCK)?;
    let (mut text, mut have) = (vec![0; 4096], 0);
    loop {
        let n = read(&fd, &mut text[have..])?;
        have += n;
        if n == 0 || have == limit {
            text.truncate(have);
            return Ok(text);
        }
        if have == text.len() {
            text.resize(have * 2, 0);
        }
    }
}

/// The first word of a field in a file with lines such as `Tgid: 7`; `name` is the field's name
/// with its colon.
/// [proc_pid_status(5)](https://man7.org/linux/man-pages/man5/proc_pid_status.5.html)
pub fn kernel_field<'t>(text: &'t [u8], name: &str) -> Option<&'t str> {
    let mut lines = text.split(|&byte| byte == b'\n');
    let value = lines.find_map(|line| line.strip_prefix(name.as_bytes()))?;
    str::from_utf8(value).ok()?.split_ascii_whitespace().next()
}

/// Reads a file of a directory in /proc or /sys, up to 64 KiB.
pub fn read_kernel_in(dir: &[u8], name: &[u8]) -> Result<Vec<u8>> {
    read_kernel(&c_string(&[dir, b"/", name].concat())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_reads_to_the_end() {
        let reader = Reader::open(b"/proc/self/exe").unwrap();
        let mut tail = [0; 16];
        assert_eq!(reader.read_at(reader.len() - 4, &mut tail).unwrap(), 4);
        assert_eq!(Reader::open(b"/").unwrap_err(), Errno::EISDIR);
        assert!(
            read_kernel(c"/proc/sys/kernel/random/boot_id")
                .unwrap()
                .len()
                > 30
        );
    }
}
