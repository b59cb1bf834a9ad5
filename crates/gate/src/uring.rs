//! statx(2) through io_uring, to measure its cost.
//!
//! No engine uses io_uring: the kernel hands each statx to a worker thread, which costs more than
//! the system call.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use libc::c_int;

use crate::gates::Gate;
use crate::memory::{Mapped, READ_WRITE};
use crate::meter::pass;
use crate::syscall::syscall;
use crate::{Errno, Fd, Result};

/// `struct io_uring_params` in 32-bit words; the constants are the indices of its fields.
type Params = [u32; 30];
const SQ_ENTRIES: usize = 0;
const CQ_ENTRIES: usize = 1;
const FEATURES: usize = 5;
const SQ_TAIL: usize = 11;
const SQ_MASK: usize = 12;
const SQ_ARRAY: usize = 16;
const CQ_HEAD: usize = 20;
const CQ_TAIL: usize = 21;
const CQ_MASK: usize = 22;
const CQ_CQES: usize = 25;
/// `IORING_FEAT_SINGLE_MMAP` (Linux 5.4)
const SINGLE_MMAP: u32 = 1;
const OFFSET_SQES: usize = 0x1000_0000;
const OP_STATX: u8 = 21;
const ENTER_GETEVENTS: c_int = 1;

/// `struct io_uring_sqe`, with the fields of statx.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct StatxRequest {
    opcode: u8,
    flags: u8,
    ioprio: u16,
    fd: RawFd,
    buffer: u64,
    name: u64,
    want: u32,
    at: u32,
    rest: [u64; 4],
}

/// `struct io_uring_cqe`
#[repr(C)]
#[derive(Clone, Copy)]
struct Completion {
    user_data: u64,
    result: i32,
    flags: u32,
}

/// An io_uring instance.
pub struct Ring {
    fd: Fd,
    params: Params,
    rings: Mapped,
    requests: Mapped,
}

impl Ring {
    /// Creates a ring for `requests` requests at a time.
    /// [io_uring_setup(2)](https://man7.org/linux/man-pages/man2/io_uring_setup.2.html)
    ///
    /// # Errors
    /// `ENOSYS` if the kernel has no io_uring, `EPERM` if it is not permitted.
    pub fn new(requests: u32) -> Result<Ring> {
        let mut params: Params = [0; 30];
        // SAFETY: `params` is as long as a struct io_uring_params.
        let fd =
            unsafe { syscall!(Gate::IoUringSetup, requests, params.as_mut_ptr()) }.map(Fd::take)?;
        if params[FEATURES] & SINGLE_MMAP == 0 {
            return Err(Errno::ENOSYS);
        }
        let entries = params[SQ_ENTRIES] as usize;
        let submissions = params[SQ_ARRAY] as usize + entries * size_of::<u32>();
        let completions =
            params[CQ_CQES] as usize + params[CQ_ENTRIES] as usize * size_of::<Completion>();
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        let map = |offset, len| Mapped::new(fd.as_raw_fd(), offset, len, READ_WRITE, flags);
        let rings = map(0, submissions.max(completions))?;
        let requests = map(OFFSET_SQES, entries * size_of::<StatxRequest>())?;
        Ok(Ring {
            fd,
            params,
            rings,
            requests,
        })
    }

    /// Makes `times` statx calls for a name, as many at once as the ring holds, and waits for all.
    /// [io_uring_enter(2)](https://man7.org/linux/man-pages/man2/io_uring_enter.2.html),
    /// `IORING_OP_STATX`
    ///
    /// # Errors
    /// The errors of io_uring_enter(2) and statx(2).
    pub fn statx(&mut self, dir: impl AsFd, name: &CStr, times: u32) -> Result<()> {
        let queues = self.queues()?;
        let mut buffers = vec![[0_u64; 32]; queues.size as usize]; // struct statx has 256 bytes
        let mut left = times;
        let mut done = Ok(());
        while left > 0 && done.is_ok() {
            let batch = left.min(queues.size);
            queues.submit(&dir, name, &mut buffers[..batch as usize]);
            done = self.complete(&queues, batch)?;
            left -= batch;
        }
        done
    }

    /// The queues of the ring, in the memory shared with the kernel.
    fn queues(&self) -> Result<Queues<'_>> {
        let size = self.params[SQ_ENTRIES];
        let completions = self.params[CQ_ENTRIES];
        let at = |field: usize| self.params[field] as usize;
        let word = |field| self.rings.atomic::<AtomicU32>(at(field)).ok_or(Errno::EIO);
        let mask = |field, entries: u32| {
            word(field).map(|mask| mask.load(Ordering::Relaxed).min(entries - 1))
        };
        let array = self.rings.place(at(SQ_ARRAY), size as usize);
        let entries = self.rings.place(at(CQ_CQES), completions as usize);
        Ok(Queues {
            size,
            requests: self.requests.place(0, size as usize).ok_or(Errno::EIO)?,
            array: array.ok_or(Errno::EIO)?,
            submission_tail: word(SQ_TAIL)?,
            submission_mask: mask(SQ_MASK, size)?,
            completions: entries.ok_or(Errno::EIO)?,
            completion_head: word(CQ_HEAD)?,
            completion_tail: word(CQ_TAIL)?,
            completion_mask: mask(CQ_MASK, completions)?,
        })
    }

    /// Enters the kernel until `batch` requests have completed, even after an error: the kernel
    /// writes to their buffers. Returns how the requests ended.
    ///
    /// # Errors
    /// The errors of io_uring_enter(2), if the kernel has taken none of the requests.
    fn complete(&self, queues: &Queues<'_>, batch: u32) -> Result<Result<()>> {
        let (mut waiting, mut unsent) = (batch, batch);
        let mut done = Ok(());
        while waiting > 0 {
            let (fd, flags) = (self.fd.as_fd(), ENTER_GETEVENTS);
            // SAFETY: the name and the buffers that the requests point to live until all requests
            // have completed.
            match unsafe { syscall!(Gate::IoUringEnter, fd, unsent, waiting, flags, 0, 0) } {
                Ok(taken) => unsent = unsent.saturating_sub(taken as u32),
                Err(Errno::EINTR) => {}
                Err(e) if unsent == batch => return Err(e),
                Err(e) => done = Err(e),
            }
            let mut completed = 0;
            let results = queues.take_completed(waiting, |result| {
                completed += 1;
                pass(Gate::UringStatx, || match result {
                    0.. => Ok(()),
                    _ => Err(Errno(-result)),
                })
            });
            waiting -= completed;
            done = done.and(results);
        }
        Ok(done)
    }
}

/// The submission and the completion queue of a ring, in the memory shared with the kernel.
struct Queues<'a> {
    /// Number of entries of the submission queue.
    size: u32,
    requests: *mut StatxRequest,
    array: *mut u32,
    submission_tail: &'a AtomicU32,
    submission_mask: u32,
    completions: *const Completion,
    completion_head: &'a AtomicU32,
    completion_tail: &'a AtomicU32,
    completion_mask: u32,
}

impl Queues<'_> {
    /// Queues a request for each buffer; `buffers` must not be longer than the submission queue.
    fn submit(&self, dir: &impl AsFd, name: &CStr, buffers: &mut [[u64; 32]]) {
        let mut tail = self.submission_tail.load(Ordering::Relaxed);
        for buffer in buffers {
            let slot = tail & self.submission_mask;
            let request = StatxRequest {
                opcode: OP_STATX,
                fd: dir.as_fd().as_raw_fd(),
                buffer: buffer.as_mut_ptr() as u64,
                name: name.as_ptr() as u64,
                want: libc::STATX_BASIC_STATS,
                ..StatxRequest::default()
            };
            // SAFETY: `slot` is below the number of entries of both; the kernel does not read them
            // before the tail has passed them.
            unsafe {
                self.requests.add(slot as usize).write(request);
                self.array.add(slot as usize).write(slot);
            }
            tail = tail.wrapping_add(1);
        }
        self.submission_tail.store(tail, Ordering::Release);
    }

    /// Calls `each` with the results of up to `limit` completed requests, and returns the first
    /// error of `each`.
    fn take_completed(&self, limit: u32, mut each: impl FnMut(i32) -> Result<()>) -> Result<()> {
        let mut head = self.completion_head.load(Ordering::Relaxed);
        let mut done = Ok(());
        for _ in 0..limit {
            if head == self.completion_tail.load(Ordering::Acquire) {
                break;
            }
            let slot = head & self.completion_mask;
            // SAFETY: the slot is below the number of entries, and the kernel has written it.
            let result = unsafe { self.completions.add(slot as usize).read() }.result;
            done = done.and(each(result));
            head = head.wrapping_add(1);
        }
        self.completion_head.store(head, Ordering::Release);
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::CWD;

    #[test]
    fn all_requests_complete_and_errors_are_returned() {
        let Ok(mut ring) = Ring::new(8) else { return };
        assert_eq!(ring.statx(CWD, c"/", 50), Ok(()));
        assert_eq!(ring.statx(CWD, c"/no/such/file", 3), Err(Errno::ENOENT));
        assert_eq!(ring.statx(CWD, c"/", 9), Ok(()));
    }
}
