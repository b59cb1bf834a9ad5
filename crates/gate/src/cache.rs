//! The page cache: what of a file is in memory, asked two ways.

use std::os::fd::{AsFd, AsRawFd};

use libc::{c_long, syscall};

use crate::errno::check;
use crate::gates::Gate;
use crate::meter::pass;
use crate::{Errno, Result};

/// How much of a file is in memory, in pages: `struct cachestat`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cached {
    /// In memory.
    pub pages: u64,
    /// Of them, not yet written.
    pub dirty: u64,
    /// Of them, being written.
    pub writeback: u64,
}

/// How much of `len` bytes of a file from `offset` on is in memory; a `len` of 0 means up to the
/// end. [cachestat(2)](https://docs.kernel.org/filesystems/api-summary.html), since Linux 6.5
///
/// # Errors
/// `ENOSYS` before that; `EOPNOTSUPP` for huge pages; `EPERM` for a file that one may neither write
/// nor owns.
pub fn cachestat(fd: impl AsFd, offset: u64, len: u64) -> Result<Cached> {
    const SYS_CACHESTAT: c_long = 451;
    let range = [offset, len]; // struct cachestat_range
    let mut said = [0_u64; 5]; // struct cachestat: cache, dirty, writeback, evicted, recently evicted
    pass(Gate::Cachestat, || {
        // SAFETY: `range` and `said` are laid out as the two structs, and outlive the call.
        check(unsafe {
            syscall(
                SYS_CACHESTAT,
                fd.as_fd().as_raw_fd(),
                range.as_ptr(),
                said.as_mut_ptr(),
                0,
            )
        })
    })?;
    Ok(Cached {
        pages: said[0],
        dirty: said[1],
        writeback: said[2],
    })
}

/// A file's place in memory, never looked into: only for asking which of its pages are there.
#[derive(Debug)]
pub struct Mapping {
    at: *mut libc::c_void,
    len: usize,
}

impl Mapping {
    /// Maps `len` bytes of a file from its beginning. Not counted: it is memory that is asked for.
    /// [mmap(2)](https://man7.org/linux/man-pages/man2/mmap.2.html)
    ///
    /// # Errors
    /// `EINVAL` for a length of 0; `ENODEV` where files cannot be mapped.
    pub fn new(fd: impl AsFd, len: usize) -> Result<Mapping> {
        let fd = fd.as_fd().as_raw_fd();
        // SAFETY: a fresh mapping at a place of the kernel's choice touches no other memory.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_NONE,
                libc::MAP_SHARED,
                fd,
                0,
            )
        };
        if at == libc::MAP_FAILED {
            Err(Errno::last())
        } else {
            Ok(Mapping { at, len })
        }
    }

    /// Which pages of a part of the file are in memory: the lowest bit of each byte of `pages`,
    /// which is made as long as it must be. The part begins with a page, and ends with the mapping
    /// at the latest. [mincore(2)](https://man7.org/linux/man-pages/man2/mincore.2.html)
    ///
    /// # Errors
    /// `EINVAL` for a part that does not begin with a page. For a file that one may neither write
    /// nor owns, every page is said to be there.
    pub fn mincore(&self, offset: usize, len: usize, pages: &mut Vec<u8>) -> Result<()> {
        let len = len.min(self.len.saturating_sub(offset));
        pages.clear();
        pages.resize(len.div_ceil(page_size()), 0);
        pass(Gate::Mincore, || {
            // SAFETY: the part lies within the mapping, and `pages` has a byte for each of its
            // pages.
            check(unsafe {
                syscall(
                    libc::SYS_mincore,
                    self.at.byte_add(offset.min(self.len)),
                    len,
                    pages.as_mut_ptr(),
                )
            })
        })
        .map(drop)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; nothing has ever looked into it.
        unsafe { libc::munmap(self.at, self.len) };
    }
}

/// Bytes in a page of memory.
pub fn page_size() -> usize {
    // SAFETY: no pointers. The C library always knows it.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Memory at a place that is a multiple of 4096, as `O_DIRECT` wants it; or a little beside one, to
/// see whether it is wanted.
#[derive(Debug)]
pub struct Aligned {
    words: Vec<u8>,
    from: usize,
    len: usize,
}

impl Aligned {
    /// So many bytes, all 0, `beside` bytes after a multiple of 4096.
    pub fn new(len: usize, beside: usize) -> Aligned {
        const GRAIN: usize = 4096;
        let words = vec![0; len + GRAIN + beside];
        let from = words.as_ptr().align_offset(GRAIN).min(GRAIN) + beside;
        Aligned { words, from, len }
    }

    /// The bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.words[self.from..self.from + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::{CWD, Open, openat};

    #[test]
    fn both_ways_agree_on_a_file_that_is_being_run() {
        let own = openat(CWD, c"/proc/self/exe", Open::empty()).unwrap();
        let map = Mapping::new(&own, page_size() * 4).unwrap();
        let mut pages = Vec::new();
        map.mincore(0, page_size() * 9, &mut pages).unwrap();
        assert_eq!(pages.len(), 4);
        match cachestat(&own, 0, page_size() as u64 * 4) {
            Ok(cached) => assert!(cached.pages <= 4),
            Err(e) => assert!(matches!(e, Errno::ENOSYS | Errno::EPERM), "{e}"),
        }
    }

    #[test]
    fn aligned_memory_is() {
        for beside in [0, 1, 512] {
            let mut memory = Aligned::new(100, beside);
            assert_eq!(
                (
                    memory.bytes().as_ptr() as usize % 4096,
                    memory.bytes().len()
                ),
                (beside, 100)
            );
        }
    }
}
