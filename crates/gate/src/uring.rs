//! io_uring, as far as it takes to find out what it costs: statx(2) through a ring.
//!
//! No engine uses it: the kernel hands each statx to a worker thread, and that is dearer than the
//! call.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_long, c_void, syscall};

use crate::errno::check;
use crate::gates::Gate;
use crate::meter::pass;
use crate::{Errno, Fd, Result};

/// `struct io_uring_params`, in 32-bit words, and what is where in it.
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
const OFFSET_SQES: i64 = 0x1000_0000;
const OP_STATX: u8 = 21;
const ENTER_GETEVENTS: c_long = 1;

/// `struct io_uring_sqe`, as far as statx goes.
#[repr(C)]
#[derive(Clone, Copy)]
struct Request {
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
struct Answer {
    user_data: u64,
    result: i32,
    flags: u32,
}

/// Memory shared with the kernel.
struct Map {
    at: *mut c_void,
    len: usize,
}

impl Map {
    fn new(fd: &Fd, offset: i64, len: usize) -> Result<Map> {
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_POPULATE,
        );
        // SAFETY: a fresh mapping touches no other memory.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                protection,
                flags,
                fd.as_raw_fd(),
                offset,
            )
        };
        if at == libc::MAP_FAILED {
            Err(Errno::last())
        } else {
            Ok(Map { at, len })
        }
    }

    /// Where so many things of a type begin; `None` when they are not all inside.
    fn place<T>(&self, offset: u32, count: u32) -> Option<*mut T> {
        let (offset, bytes) = (
            offset as usize,
            (count as usize).checked_mul(size_of::<T>())?,
        );
        let inside = offset.checked_add(bytes)? <= self.len && offset % align_of::<T>() == 0;
        inside.then(|| self.at.wrapping_byte_add(offset).cast())
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this size; nothing points there any more.
        unsafe { libc::munmap(self.at, self.len) };
    }
}

/// A ring.
pub struct Ring {
    fd: Fd,
    params: Params,
    rings: Map,
    requests: Map,
}

impl Ring {
    /// Makes one for so many requests at a time.
    /// [io_uring_setup(2)](https://man7.org/linux/man-pages/man2/io_uring_setup.2.html)
    ///
    /// # Errors
    /// `ENOSYS`, `EPERM` where there is none, or not for everybody.
    pub fn new(requests: u32) -> Result<Ring> {
        let mut params: Params = [0; 30];
        let fd = pass(Gate::IoUringSetup, || {
            // SAFETY: `params` is as long as a struct io_uring_params.
            check(unsafe {
                syscall(
                    libc::SYS_io_uring_setup,
                    c_long::from(requests),
                    params.as_mut_ptr(),
                )
            })
        })
        .map(Fd::take)?;
        if params[FEATURES] & SINGLE_MMAP == 0 {
            return Err(Errno::ENOSYS);
        }
        let sent = params[SQ_ARRAY] as usize + params[SQ_ENTRIES] as usize * size_of::<u32>();
        let answered = params[CQ_CQES] as usize + params[CQ_ENTRIES] as usize * size_of::<Answer>();
        let rings = Map::new(&fd, 0, sent.max(answered))?;
        let requests = Map::new(
            &fd,
            OFFSET_SQES,
            params[SQ_ENTRIES] as usize * size_of::<Request>(),
        )?;
        Ok(Ring {
            fd,
            params,
            rings,
            requests,
        })
    }

    /// Asks for the metadata of a name so many times, as many at once as the ring takes, and waits
    /// for all answers.
    /// [io_uring_enter(2)](https://man7.org/linux/man-pages/man2/io_uring_enter.2.html),
    /// `IORING_OP_STATX`
    ///
    /// # Errors
    /// The ring's, or that of a statx.
    pub fn statx(&mut self, dir: impl AsFd, name: &CStr, times: u32) -> Result<()> {
        const BASIC_STATS: u32 = libc::STATX_BASIC_STATS;
        let p = &self.params;
        let sq = self.params[SQ_ENTRIES];
        let mut buffers = vec![[0_u64; 32]; sq as usize]; // struct statx is 256 bytes long
        let (words, entries) = (
            |offset: usize| self.rings.place::<AtomicU32>(p[offset], 1),
            p[CQ_ENTRIES],
        );
        let places = (
            self.requests.place::<Request>(0, sq),
            self.rings.place::<u32>(p[SQ_ARRAY], sq),
            self.rings.place::<Answer>(p[CQ_CQES], entries),
            (words(SQ_TAIL), words(CQ_HEAD), words(CQ_TAIL)),
            (words(SQ_MASK), words(CQ_MASK)),
        );
        let (
            Some(requests),
            Some(array),
            Some(answers),
            (Some(tail), Some(head), Some(end)),
            (Some(sent), Some(got)),
        ) = places
        else {
            return Err(Errno::EIO);
        };
        // SAFETY: all of them lie in the mappings, which live as long as `self`; the kernel changes
        // these words as atomics.
        let (tail, head, end, sent, got) = unsafe { (&*tail, &*head, &*end, &*sent, &*got) };
        let (sent, got) = (
            sent.load(Ordering::Relaxed).min(sq - 1),
            got.load(Ordering::Relaxed).min(entries - 1),
        );
        let mut left = times;
        let mut done = Ok(());
        while left > 0 && done.is_ok() {
            let batch = left.min(sq);
            let mut at = tail.load(Ordering::Relaxed);
            for buffer in buffers.iter_mut().take(batch as usize) {
                let slot = at & sent;
                let request = Request {
                    opcode: OP_STATX,
                    flags: 0,
                    ioprio: 0,
                    fd: dir.as_fd().as_raw_fd(),
                    buffer: buffer.as_mut_ptr() as u64,
                    name: name.as_ptr() as u64,
                    want: BASIC_STATS,
                    at: 0,
                    rest: [0; 4],
                };
                // SAFETY: `slot` is below the number of entries of both; the kernel does not read
                // them before the tail has passed.
                unsafe {
                    requests.add(slot as usize).write(request);
                    array.add(slot as usize).write(slot);
                }
                at = at.wrapping_add(1);
            }
            tail.store(at, Ordering::Release);
            let mut waiting = batch;
            let mut unsent = batch;
            // Until all have been answered: the kernel writes to `buffers`, whatever else fails.
            while waiting > 0 {
                let entered = pass(Gate::IoUringEnter, || {
                    let (fd, unsent, waiting) = (
                        self.fd.as_raw_fd(),
                        c_long::from(unsent),
                        c_long::from(waiting),
                    );
                    // SAFETY: what the requests point to, `name` and `buffers`, lives until they
                    // have been answered.
                    check(unsafe {
                        syscall(
                            libc::SYS_io_uring_enter,
                            fd,
                            unsent,
                            waiting,
                            ENTER_GETEVENTS,
                            0_usize,
                            0_usize,
                        )
                    })
                });
                match entered {
                    Ok(taken) => unsent = unsent.saturating_sub(taken as u32),
                    Err(Errno::EINTR) => {}
                    Err(_) if unsent == batch => return entered.map(drop), // none was taken
                    Err(e) => done = Err(e),
                }
                let mut from = head.load(Ordering::Relaxed);
                while from != end.load(Ordering::Acquire) && waiting > 0 {
                    // SAFETY: the index is below the number of entries, and the kernel has written
                    // this one.
                    let result = unsafe { answers.add((from & got) as usize).read() }.result;
                    let asked = pass(Gate::UringStatx, || {
                        if result < 0 {
                            Err(Errno(-result))
                        } else {
                            Ok(())
                        }
                    });
                    done = done.and(asked);
                    (from, waiting) = (from.wrapping_add(1), waiting - 1);
                }
                head.store(from, Ordering::Release);
            }
            left -= batch;
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::CWD;

    #[test]
    fn a_ring_answers_as_often_as_it_is_asked() {
        let Ok(mut ring) = Ring::new(8) else { return };
        assert_eq!(ring.statx(CWD, c"/", 50), Ok(()));
        assert_eq!(ring.statx(CWD, c"/no/such/file", 3), Err(Errno::ENOENT));
        assert_eq!(ring.statx(CWD, c"/", 9), Ok(()));
    }
}
