//! Resource usage of processes: I/O, CPU time of children, context switches.

use std::ffi::CString;
use std::time::Duration;

use libc::c_int;

use crate::file::{kernel_field, read_kernel};
use crate::fs::{CWD, Open, openat, pread64};
use crate::long::c_string;
use crate::process::ended;
use crate::{Fd, Result};

/// Bytes of disk I/O caused by a process and by the children that it has waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoBytes {
    /// Bytes read from disk.
    pub read: u64,
    /// Bytes written to disk, including dirty pages that the kernel has not written yet.
    pub written: u64,
}

impl IoBytes {
    /// Sum of the bytes read and written.
    pub fn sum(self) -> u64 {
        self.read.saturating_add(self.written)
    }

    /// The difference between this reading and an earlier one.
    pub fn since(self, before: IoBytes) -> IoBytes {
        IoBytes {
            read: self.read.saturating_sub(before.read),
            written: self.written.saturating_sub(before.written),
        }
    }
}

/// The disk I/O of the process `pid`, or of this one; `None` without /proc, or if the kernel has no
/// I/O accounting. [proc_pid_io(5)](https://man7.org/linux/man-pages/man5/proc_pid_io.5.html)
pub fn io_bytes(pid: Option<i32>) -> Option<IoBytes> {
    let name = match pid {
        None => c"/proc/self/io".to_owned(),
        Some(pid) => CString::new(format!("/proc/{pid}/io")).ok()?,
    };
    parse_io(&read_kernel(&name).ok()?)
}

fn parse_io(text: &[u8]) -> Option<IoBytes> {
    let value = |key| kernel_field(text, key)?.parse().ok();
    Some(IoBytes {
        read: value("read_bytes:")?,
        written: value("write_bytes:")?,
    })
}

/// Number of 512-byte blocks that this process has read from disks, including directories and
/// inodes. [getrusage(2)](https://man7.org/linux/man-pages/man2/getrusage.2.html)
pub fn blocks_read() -> u64 {
    usage(libc::RUSAGE_SELF).ru_inblock.unsigned_abs()
}

/// User and system CPU time of all descendants that have been waited for.
/// [getrusage(2)](https://man7.org/linux/man-pages/man2/getrusage.2.html)
pub fn children_time() -> (Duration, Duration) {
    let all = ended(0, &usage(libc::RUSAGE_CHILDREN));
    (all.user, all.sys)
}

/// Involuntary context switches of the calling thread.
/// [getrusage(2)](https://man7.org/linux/man-pages/man2/getrusage.2.html), `ru_nivcsw`
pub fn preemptions() -> i64 {
    usage(libc::RUSAGE_THREAD).ru_nivcsw
}

/// The time that a thread has waited for a processor, although it was ready to run.
/// [proc_pid_schedstat(5)](https://man7.org/linux/man-pages/man5/proc_pid_schedstat.5.html)
#[derive(Debug)]
pub struct RunDelay(Fd);

impl RunDelay {
    /// Opens the run delay of a thread; without a number, that of the calling thread.
    ///
    /// # Errors
    /// `ENOENT` if the thread has ended, or the kernel was built without schedstat.
    pub fn open(tid: Option<u32>) -> Result<RunDelay> {
        let thread = tid.map_or("thread-self".to_owned(), |tid| tid.to_string());
        let name = c_string(format!("/proc/{thread}/schedstat").as_bytes())?;
        openat(CWD, &name, Open::empty()).map(RunDelay)
    }

    /// Run delay in nanoseconds, until the thread last began to run; `None` after the thread has
    /// ended.
    pub fn nanos(&self) -> Option<u64> {
        let mut text = [0; 64];
        let len = pread64(&self.0, &mut text, 0).ok()?;
        let text = str::from_utf8(text.get(..len)?).ok()?;
        text.split_ascii_whitespace().nth(1)?.parse().ok()
    }
}

fn usage(whose: c_int) -> libc::rusage {
    // SAFETY: zero is a valid rusage, and the pointer is to a live one.
    unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(whose, &raw mut usage);
        usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_io_file_of_proc_is_parsed() {
        let text =
            b"rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 5\n";
        let io = parse_io(text).unwrap();
        let bytes = |read, written| IoBytes { read, written };
        assert_eq!((io, io.sum()), (bytes(4096, 8192), 12_288));
        assert_eq!(io.since(bytes(96, 9000)), bytes(4000, 0));
        for bad in [
            &b""[..],
            b"read_bytes: 1\n",
            b"read_bytes: x\nwrite_bytes: 1\n",
        ] {
            assert_eq!(parse_io(bad), None);
        }
    }
}
