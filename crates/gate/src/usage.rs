//! What processes have used: CPU time, bytes from disks and to them.

use std::ffi::CString;
use std::time::Duration;

use libc::c_int;

use crate::file::read_kernel;
use crate::process::ended;

/// Bytes that a process and those that it has waited for have had read from disks and written to
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Read.
    pub read: u64,
    /// Written, or about to be: what lies in memory until the kernel writes it counts already.
    pub written: u64,
}

impl Moved {
    /// Both together.
    pub fn sum(self) -> u64 {
        self.read.saturating_add(self.written)
    }

    /// What came after an earlier look.
    pub fn since(self, before: Moved) -> Moved {
        Moved {
            read: self.read.saturating_sub(before.read),
            written: self.written.saturating_sub(before.written),
        }
    }
}

/// What a process has moved, or this one, where none is given; `None` where the kernel does not say
/// (it keeps no such account, or there is no /proc).
/// [proc_pid_io(5)](https://man7.org/linux/man-pages/man5/proc_pid_io.5.html)
pub fn moved(pid: Option<i32>) -> Option<Moved> {
    let name = match pid {
        None => c"/proc/self/io".to_owned(),
        Some(pid) => CString::new(format!("/proc/{pid}/io")).ok()?,
    };
    moved_in(&read_kernel(&name).ok()?)
}

fn moved_in(text: &[u8]) -> Option<Moved> {
    let value = |key: &str| {
        let line = text
            .split(|b| *b == b'\n')
            .find_map(|line| line.strip_prefix(key.as_bytes()))?;
        std::str::from_utf8(line.trim_ascii()).ok()?.parse().ok()
    };
    Some(Moved {
        read: value("read_bytes:")?,
        written: value("write_bytes:")?,
    })
}

/// Blocks of 512 bytes that this process has had read from disks so far, those of directories and
/// inodes among them. [getrusage(2)](https://man7.org/linux/man-pages/man2/getrusage.2.html)
pub fn blocks_read() -> u64 {
    usage(libc::RUSAGE_SELF).ru_inblock.unsigned_abs()
}

/// CPU time of the processes that this one has waited for, as their parent, and of those that they
/// have waited for: in the programs, and in the kernel.
/// [getrusage(2)](https://man7.org/linux/man-pages/man2/getrusage.2.html)
pub fn children_time() -> (Duration, Duration) {
    let all = ended(0, &usage(libc::RUSAGE_CHILDREN));
    (all.user, all.sys)
}

/// How often the calling thread had to leave its processor to somebody else before it was done.
/// [getrusage(2)](https://man7.org/linux/man-pages/man2/getrusage.2.html), `ru_nivcsw`
pub fn preemptions() -> i64 {
    usage(libc::RUSAGE_THREAD).ru_nivcsw
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
    fn what_was_moved_is_read_from_what_the_kernel_says() {
        let text =
            b"rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 5\n";
        let moved = moved_in(text).unwrap();
        assert_eq!(
            (moved, moved.sum()),
            (
                Moved {
                    read: 4096,
                    written: 8192
                },
                12_288
            )
        );
        assert_eq!(
            moved.since(Moved {
                read: 96,
                written: 9000
            }),
            Moved {
                read: 4000,
                written: 0
            }
        );
        for bad in [
            &b""[..],
            b"read_bytes: 1\n",
            b"read_bytes: x\nwrite_bytes: 1\n",
        ] {
            assert_eq!(moved_in(bad), None);
        }
    }
}
