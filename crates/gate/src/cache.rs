//! The page cache: which pages of a file are in memory.

use std::os::fd::{AsFd, AsRawFd};

use crate::gates::Gate;
use crate::memory::Mapped;
use crate::syscall::syscall;
use crate::{Errno, Result};

pub use crate::memory::page_size;

/// Number of pages of a file in memory, by state: `struct cachestat`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Cached {
    pub pages: u64,
    pub dirty: u64,
    pub writeback: u64,
}

/// Counts the pages in memory of `len` bytes of a file from `offset` on; a `len` of 0 means up to
/// the end. [cachestat(2)](https://docs.kernel.org/filesystems/api-summary.html), since Linux 6.5
///
/// # Errors
/// `ENOSYS` on older kernels; `EOPNOTSUPP` for huge pages; `EPERM` for a file that the caller may
/// neither write nor owns.
pub fn cachestat(fd: impl AsFd, offset: u64, len: u64) -> Result<Cached> {
    let range = [offset, len]; // struct cachestat_range
    let mut cached = [0_u64; 5]; // struct cachestat: cache, dirty, writeback, evicted, recently evicted
    let (from, to) = (range.as_ptr(), cached.as_mut_ptr());
    // SAFETY: `range` and `cached` are laid out as the two structs, and outlive the call.
    unsafe { syscall!(Gate::Cachestat, fd.as_fd(), from, to, 0) }?;
    let [pages, dirty, writeback, ..] = cached;
    Ok(Cached {
        pages,
        dirty,
        writeback,
    })
}

/// A mapping of a file, only for [`FileMapping::mincore`]: the mapped memory is never accessed.
#[derive(Debug)]
pub struct FileMapping(Mapped);

impl FileMapping {
    /// Maps the first `len` bytes of a file.
    ///
    /// # Errors
    /// `EINVAL` for a length of 0; `ENODEV` if the file system does not support mmap(2).
    pub fn new(fd: impl AsFd, len: usize) -> Result<FileMapping> {
        let fd = fd.as_fd().as_raw_fd();
        Mapped::new(fd, 0, len, libc::PROT_NONE, libc::MAP_SHARED).map(FileMapping)
    }

    /// Determines which pages of a range of the file are in memory: the lowest bit of each byte of
    /// `pages`, which is resized. `offset` must be on a page boundary; the range is cut off at the
    /// mapping's end. [mincore(2)](https://man7.org/linux/man-pages/man2/mincore.2.html)
    ///
    /// # Errors
    /// `EINVAL` for an `offset` that is not on a page boundary. If the caller may neither write nor
    /// owns the file, the kernel reports every page as in memory.
    pub fn mincore(&self, offset: usize, len: usize, pages: &mut Vec<u8>) -> Result<()> {
        let offset = offset.min(self.0.len());
        let len = len.min(self.0.len() - offset);
        pages.clear();
        pages.resize(len.div_ceil(page_size()), 0);
        let at = self.0.place::<u8>(offset, len).ok_or(Errno::EINVAL)?;
        // SAFETY: the part is inside the mapping, and `pages` has a byte for each of its pages.
        unsafe { syscall!(Gate::Mincore, at, len, pages.as_mut_ptr()) }.map(drop)
    }
}

/// Memory aligned to 4096 bytes for `O_DIRECT`; or misaligned, to test whether `O_DIRECT` needs
/// alignment.
#[derive(Debug)]
pub struct Aligned {
    memory: Vec<u8>,
    from: usize,
    len: usize,
}

impl Aligned {
    /// Allocates `len` zero bytes, `misalignment` bytes after a multiple of 4096.
    pub fn new(len: usize, misalignment: usize) -> Aligned {
        const GRAIN: usize = 4096;
        let memory = vec![0; len + GRAIN + misalignment];
        let from = memory.as_ptr().align_offset(GRAIN).min(GRAIN) + misalignment;
        Aligned { memory, from, len }
    }

    /// The bytes at the requested alignment.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.from..self.from + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::{CWD, Open, openat};

    #[test]
    fn mincore_and_cachestat_work_on_a_running_program() {
        let own = openat(CWD, c"/proc/self/exe", Open::empty()).unwrap();
        let map = FileMapping::new(&own, page_size() * 4).unwrap();
        let mut pages = Vec::new();
        map.mincore(0, page_size() * 9, &mut pages).unwrap();
        assert_eq!(pages.len(), 4);
        match cachestat(&own, 0, page_size() as u64 * 4) {
            Ok(cached) => assert!(cached.pages <= 4),
            Err(e) => assert!(matches!(e, Errno::ENOSYS | Errno::EPERM), "{e}"),
        }
    }

    #[test]
    fn memory_is_aligned() {
        for misalignment in [0, 1, 512] {
            let mut memory = Aligned::new(100, misalignment);
            assert_eq!(
                (
                    memory.bytes().as_ptr() as usize % 4096,
                    memory.bytes().len()
                ),
                (misalignment, 100)
            );
        }
    }
}
