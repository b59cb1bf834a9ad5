//! The ring buffer for records that BPF programs submit.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::map::create;
use crate::memory::{Mapped, READ_WRITE, RingMemory, page_size};
use crate::{Fd, Result};

/// A ring buffer: the records that programs submit to user space, in order. `BPF_MAP_TYPE_RINGBUF`
/// (since Linux 5.8)
#[derive(Debug)]
pub struct Ring {
    fd: Fd,
    /// The position up to which user space has read, in the only page that user space may write.
    consumer: Mapped,
    /// The position up to which programs have written, and the data.
    data: RingMemory,
}

/// Length of a record's header: the record's length with two flags, and a number for the kernel.
const HEADER: usize = 8;
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;

impl Ring {
    /// Creates a ring of `size` bytes, which must be a power of two and whole pages.
    ///
    /// # Errors
    /// The errors of [`Map::new`](super::Map::new); `EINVAL` before Linux 5.8.
    pub fn new(name: &str, size: u32) -> Result<Ring> {
        const RINGBUF: u32 = 27;
        let fd = create(RINGBUF, 0, name, [0, 0, size])?;
        let page = page_size();
        Ok(Ring {
            consumer: Mapped::new(fd.as_raw_fd(), 0, page, READ_WRITE, libc::MAP_SHARED)?,
            // A double mapping, in which no record wraps around, is possible. But the data would
            // count twice as memory of this process.
            data: RingMemory::new(&fd, page, size as usize)?,
            fd,
        })
    }

    /// Calls `show` with every complete record, and returns their number.
    pub fn drain(&mut self, mut show: impl FnMut(&[u8])) -> usize {
        let (Some(consumer), Some(producer)) =
            (self.consumer.atomic::<AtomicU64>(0), self.data.position(0))
        else {
            return 0;
        };
        let size = self.data.size();
        let end = producer.load(Ordering::Acquire);
        let mut at = consumer.load(Ordering::Relaxed);
        let mut released = at;
        let mut shown = 0;
        while at < end {
            let Some(header) = self.data.head::<AtomicU32>(at) else {
                break;
            };
            let header = header.load(Ordering::Acquire);
            let len = (header & !(BUSY | DISCARDED)) as usize;
            if header & BUSY != 0 || len > size - HEADER {
                break;
            }
            if header & DISCARDED == 0 {
                // SAFETY: the record is complete; no program writes there before `consumer` has
                // passed it.
                let Some(record) = (unsafe { self.data.record(at + HEADER as u64, len) }) else {
                    break;
                };
                show(record);
                shown += 1;
            }
            at += (HEADER + len).next_multiple_of(8) as u64;
            // Publish the read position only for every 1/16 of the ring: programs read it for each
            // record, and writing it as often would move its cache line between processors.
            if at - released > size as u64 / 16 {
                consumer.store(at, Ordering::Release);
                released = at;
            }
        }
        consumer.store(at, Ordering::Release);
        shown
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Ring {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}
