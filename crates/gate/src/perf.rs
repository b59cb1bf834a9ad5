//! Clocks of the CPU time of other threads.
//! [perf_event_open(2)](https://man7.org/linux/man-pages/man2/perf_event_open.2.html)
//!
//! A clock lives as long as its descriptor: nothing is left when the process ends. These calls are
//! not file-system work, so only closing is counted.

use std::os::fd::AsRawFd;

use libc::{c_long, syscall};

use crate::errno::check;
use crate::{Fd, Result};

/// `struct perf_event_attr`, first version.
#[repr(C)]
#[derive(Default)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    bp_addr: u64,
}

/// A clock of the CPU time of a thread and of all threads and processes that it starts.
#[derive(Debug)]
pub struct TaskClock(Fd);

impl TaskClock {
    /// Counts the CPU time of a thread and of all threads and processes that it starts from now on,
    /// including those that have ended.
    ///
    /// # Errors
    /// `ESRCH` if the thread has ended; `EACCES` if /proc/sys/kernel/perf_event_paranoid or a
    /// seccomp filter forbids it; `EMFILE` if too many descriptors are open.
    pub fn open(tid: u32) -> Result<TaskClock> {
        const SOFTWARE: u32 = 1;
        const TASK_CLOCK: u64 = 1;
        const INHERIT: u64 = 1 << 1;
        /// Lets unprivileged users open the event. This clock still counts time in the kernel.
        const EXCLUDE_KERNEL: u64 = 1 << 5;
        const ANY_PROCESSOR: c_long = -1;
        const NO_GROUP: c_long = -1;
        const FD_CLOEXEC: c_long = 1 << 3;
        let attr = Attr {
            kind: SOFTWARE,
            size: size_of::<Attr>() as u32,
            config: TASK_CLOCK,
            flags: INHERIT | EXCLUDE_KERNEL,
            ..Attr::default()
        };
        let (attr, tid) = (&raw const attr, c_long::from(tid.cast_signed()));
        // SAFETY: `attr` is a live perf_event_attr that says how long it is.
        check(unsafe {
            syscall(
                libc::SYS_perf_event_open,
                attr,
                tid,
                ANY_PROCESSOR,
                NO_GROUP,
                FD_CLOEXEC,
            )
        })
        .map(|fd| TaskClock(Fd::take(fd)))
    }

    /// CPU time that the clock has counted so far, in nanoseconds.
    pub fn nanos(&self) -> Result<u64> {
        let mut nanos: u64 = 0;
        let (fd, len) = (self.0.as_raw_fd(), size_of::<u64>());
        // SAFETY: the kernel writes at most 8 bytes.
        check(unsafe { syscall(libc::SYS_read, fd, &raw mut nanos, len) })?;
        Ok(nanos)
    }
}
