//! Mapped memory. Mapping memory is not file-system work, so these calls are not counted.

use std::ops::Deref;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::AtomicU64;

use libc::{c_int, c_void};

use crate::{Errno, Fd, Result};

pub(crate) const READ_WRITE: c_int = libc::PROT_READ | libc::PROT_WRITE;

/// Page size of the machine in bytes.
pub fn page_size() -> usize {
    // SAFETY: no pointers.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// A memory mapping, which is unmapped when it is dropped.
/// [mmap(2)](https://man7.org/linux/man-pages/man2/mmap.2.html)
#[derive(Debug)]
pub(crate) struct Mapped {
    at: *mut c_void,
    len: usize,
}

// SAFETY: a mapping belongs to the process; any of its threads may use and remove it.
unsafe impl Send for Mapped {}

impl Mapped {
    /// Maps `len` bytes of an open file (-1: anonymous memory) from `offset` on; `protection` and
    /// `flags` are those of mmap(2).
    pub(crate) fn new(
        fd: RawFd,
        offset: usize,
        len: usize,
        protection: c_int,
        flags: c_int,
    ) -> Result<Mapped> {
        let (at, offset) = (std::ptr::null_mut(), offset as libc::off_t);
        // SAFETY: a new mapping at an address that the kernel chooses touches no other memory.
        let at = unsafe { libc::mmap(at, len, protection, flags, fd, offset) };
        if at == libc::MAP_FAILED {
            Err(Errno::last())
        } else {
            Ok(Mapped { at, len })
        }
    }

    /// Excludes the mapping from children: fork(2) then does not copy its page table. A failure is
    /// ignored.
    fn leave_out_of_children(&self) {
        // SAFETY: the range is this mapping, whose contents do not change.
        unsafe { libc::madvise(self.at, self.len, libc::MADV_DONTFORK) };
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// A pointer to `count` values of a type; `None` unless it is aligned and all values are inside
    /// the mapping.
    pub(crate) fn place<T>(&self, offset: usize, count: usize) -> Option<*mut T> {
        let end = offset.checked_add(count.checked_mul(size_of::<T>())?)?;
        (end <= self.len && offset.is_multiple_of(align_of::<T>()))
            .then(|| self.at.wrapping_byte_add(offset).cast())
    }

    /// The integer at an offset, which the kernel may change at any time.
    pub(crate) fn atomic<T: Atomic>(&self, offset: usize) -> Option<&T> {
        // SAFETY: the pointer is aligned and inside the mapping, which lives as long as `self`, and
        // any bits are a value of an atomic integer.
        self.place(offset, 1).map(|place| unsafe { &*place })
    }

    /// Bytes of the mapping; `None` unless all are inside.
    ///
    /// # Safety
    /// The bytes must not be written while the slice lives.
    pub(crate) unsafe fn bytes(&self, from: usize, len: usize) -> Option<&[u8]> {
        // SAFETY: the bytes are inside the mapping, and the caller promises that they are not
        // written.
        self.place(from, len)
            .map(|place| unsafe { std::slice::from_raw_parts(place, len) })
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; no borrow outlives `self`.
        unsafe { libc::munmap(self.at, self.len) };
    }
}

/// Types of which any bits are a valid value, even if the kernel changes them.
///
/// # Safety
/// Only atomic integers may implement this trait.
pub(crate) unsafe trait Atomic {}
// SAFETY: an atomic integer.
unsafe impl Atomic for std::sync::atomic::AtomicU32 {}
// SAFETY: an atomic integer.
unsafe impl Atomic for AtomicU64 {}

/// 64-bit words that this process shares with the children that it forks, or with a BPF program.
#[derive(Debug)]
pub struct SharedWords(Mapped);

impl SharedWords {
    /// Maps `len` 64-bit words (at least one), all 0, which this process and the children that it
    /// forks share.
    pub fn new(len: usize) -> Result<SharedWords> {
        let bytes = len.max(1).checked_mul(size_of::<AtomicU64>());
        let (bytes, flags) = (
            bytes.ok_or(Errno::ENOMEM)?,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
        );
        Mapped::new(-1, 0, bytes, READ_WRITE, flags).map(SharedWords)
    }

    /// Maps the first `bytes` bytes of a BPF array.
    pub(crate) fn of_array(map: &Fd, bytes: usize) -> Result<SharedWords> {
        Mapped::new(map.as_raw_fd(), 0, bytes, READ_WRITE, libc::MAP_SHARED).map(SharedWords)
    }
}

impl Deref for SharedWords {
    type Target = [AtomicU64];
    fn deref(&self) -> &[AtomicU64] {
        let len = self.0.len / size_of::<AtomicU64>();
        // SAFETY: the mapping holds `len` aligned words, any bits are a value, and it lives as long
        // as `self`.
        unsafe { std::slice::from_raw_parts(self.0.at.cast(), len) }
    }
}

/// The mapping of a ring buffer that the kernel writes and this process reads: a page with
/// positions, and the data.
#[derive(Debug)]
pub(crate) struct RingMemory {
    mapped: Mapped,
    page: usize,
    size: usize,
    /// Buffer for a record that wraps around at the end of the data.
    whole: Vec<u8>,
}

impl RingMemory {
    /// Maps a page and `size` bytes of data; `size` must be a power of two.
    pub(crate) fn new(fd: &Fd, offset: usize, size: usize) -> Result<RingMemory> {
        let page = page_size();
        let mapped = Mapped::new(
            fd.as_raw_fd(),
            offset,
            page + size,
            libc::PROT_READ,
            libc::MAP_SHARED,
        )?;
        mapped.leave_out_of_children();
        Ok(RingMemory {
            mapped,
            page,
            size,
            whole: Vec::new(),
        })
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// The read or the write position of the ring buffer, which is in the first page at `offset`.
    pub(crate) fn position(&self, offset: usize) -> Option<&AtomicU64> {
        self.mapped.atomic(offset)
    }

    /// The first word of the record at a position.
    pub(crate) fn head<T: Atomic>(&self, at: u64) -> Option<&T> {
        self.mapped
            .atomic(self.page + (at as usize & (self.size - 1)))
    }

    /// `len` bytes at a position. A range that wraps around is copied into one buffer.
    ///
    /// # Safety
    /// The kernel must not write there before the slice is dropped.
    pub(crate) unsafe fn record(&mut self, at: u64, len: usize) -> Option<&[u8]> {
        let from = at as usize & (self.size - 1);
        let first = len.min(self.size - from);
        // SAFETY: the caller promises that the kernel does not write there.
        let (first, rest) = unsafe {
            (
                self.mapped.bytes(self.page + from, first)?,
                self.mapped.bytes(self.page, len - first)?,
            )
        };
        if rest.is_empty() {
            return Some(first);
        }
        self.whole.clear();
        self.whole.extend_from_slice(first);
        self.whole.extend_from_slice(rest);
        Some(&self.whole)
    }
}
