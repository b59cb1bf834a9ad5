//! Marks: numbers that a process carries as long as it exists, even while it is blocked in a call
//! and cannot be killed, and that other processes find by reading one file.
//!
//! A mark is a lock on one byte of a memory file of the process; the offset encodes the mark.
//! [proc_locks(5)](https://man7.org/linux/man-pages/man5/proc_locks.5.html) lists all locks of the
//! machine, with their processes and offsets.

use std::collections::HashSet;
use std::ffi::CString;
use std::os::fd::AsFd;

use libc::{c_int, off_t};

use crate::errno::check;
use crate::fd::Fd;
use crate::file::{kernel_field, read_kernel, read_kernel_up_to};
use crate::syscall::syscall;
use crate::{Gate, Result, process};

/// The upper half of a mark's offset, which other locks hardly ever have.
const MARK: u64 = 0x6661_7468 << 32;
/// Maximum number of bytes of /proc/locks that are read.
const MOST: usize = 4 << 20;
/// The kernel returns at least this many bytes of /proc/locks, if there are so many, by one
/// read(2), whose entries are those of one moment.
const ONE_READ: usize = 4096 - 256;
/// Maximum number of times that /proc/locks is read for one list.
const READS: usize = 8;

/// The memory file with the marks of this process.
#[derive(Debug)]
pub struct Marks(Fd);

impl Marks {
    /// Creates a memory file without marks.
    /// [memfd_create(2)](https://man7.org/linux/man-pages/man2/memfd_create.2.html), which is not
    /// counted
    pub fn new() -> Result<Marks> {
        // SAFETY: the name is NUL-terminated.
        let fd = unsafe { libc::memfd_create(c"fathom".as_ptr(), libc::MFD_CLOEXEC) };
        check(fd.into()).map(|fd| Marks(Fd::take(fd)))
    }

    /// Replaces all marks of this process by this one.
    pub fn set(&self, mark: u32) -> Result<()> {
        self.lock(libc::F_UNLCK, 0, 0)?;
        self.lock(libc::F_WRLCK, MARK | u64::from(mark), 1)
    }

    fn lock(&self, kind: c_int, start: u64, len: off_t) -> Result<()> {
        // SAFETY: zero is a valid flock, and the pointer is to a live one.
        unsafe {
            let mut lock: libc::flock = std::mem::zeroed();
            (lock.l_type, lock.l_start, lock.l_len) = (kind as _, start.cast_signed(), len);
            syscall!(Gate::Fcntl, self.0.as_fd(), libc::F_SETLK, &raw const lock).map(drop)
        }
    }
}

/// Marks of processes of this user, or of root, that were killed and have not ended. A killed
/// process that is not blocked in a call ends within milliseconds.
pub fn marks_of_killed() -> Vec<u32> {
    let killed = all_marks().into_iter().filter(|(pid, _)| is_killed(*pid));
    killed.map(|(_, mark)| mark).collect()
}

/// All marks of the machine, with their processes. Between two reads of a part of /proc/locks the
/// list becomes shorter where locks are released, and an entry that moves is in neither part; so a
/// long list is read until nothing new is found.
fn all_marks() -> HashSet<(u32, u32)> {
    let mut found = HashSet::new();
    for read in 0..READS {
        let locks = read_kernel_up_to(c"/proc/locks", MOST).unwrap_or_default();
        let known = found.len();
        found.extend(locks.split(|&byte| byte == b'\n').filter_map(mark_in));
        if locks.len() < ONE_READ || read > 0 && found.len() == known {
            break;
        }
    }
    found
}

/// Parses the process id and the mark from a line such as `1: POSIX  ADVISORY  WRITE 77 00:01:9
/// START END`.
fn mark_in(line: &[u8]) -> Option<(u32, u32)> {
    let fields: Vec<&str> = str::from_utf8(line)
        .ok()?
        .split_ascii_whitespace()
        .collect();
    let [_, "POSIX", _, "WRITE", pid, _, start, end] = fields[..] else {
        return None;
    };
    let start: u64 = start.parse().ok().filter(|_| start == end)?;
    let mark = (start & !0xffff_ffff == MARK).then_some(start as u32)?;
    Some((pid.parse().ok()?, mark))
}

/// Whether a process of this user or of root has SIGKILL pending.
fn is_killed(pid: u32) -> bool {
    let name = CString::new(format!("/proc/{pid}/status")).unwrap_or_default();
    let status = read_kernel(&name).unwrap_or_default();
    let pending = |name| {
        let set = kernel_field(&status, name).and_then(|set| u64::from_str_radix(set, 16).ok());
        set.is_some_and(|set| set & 1 << (libc::SIGKILL - 1) != 0)
    };
    let owner = kernel_field(&status, "Uid:").and_then(|uid| uid.parse().ok());
    owner.is_some_and(|uid: u32| uid == 0 || uid == process::ids().0)
        && (pending("ShdPnd:") || pending("SigPnd:"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn only_locks_at_marks_are_marks() {
        for (line, found) in [
            (
                &b"1: POSIX  ADVISORY  WRITE 77 00:01:9 7377862877421993991 7377862877421993991"[..],
                None,
            ),
            (
                b"2: POSIX  ADVISORY  WRITE 77 00:01:9 7377872677399560197 7377872677399560197",
                None,
            ),
            (b"3: FLOCK  ADVISORY  WRITE 77 00:01:9 0 EOF", None),
            (b"", None),
        ] {
            assert_eq!(mark_in(line), found);
        }
        let at = MARK | 0x2d;
        let line = |end: u64| format!("1: POSIX  ADVISORY  WRITE 77 00:01:9 {at} {end}");
        assert_eq!(mark_in(line(at).as_bytes()), Some((77, 0x2d)));
        assert_eq!(mark_in(line(at + 1).as_bytes()), None);
    }

    #[test]
    fn a_process_has_its_last_mark_and_lives() {
        let marks = Marks::new().unwrap();
        marks.set(7).unwrap();
        marks.set(0xfa71_0001).unwrap();
        let all = all_marks().into_iter();
        let mine: Vec<_> = all.filter(|(pid, _)| *pid == std::process::id()).collect();
        assert_eq!(mine, [(std::process::id(), 0xfa71_0001)]);
        assert!(!marks_of_killed().contains(&0xfa71_0001));
    }

    #[test]
    fn mark_is_found_while_locks_come_and_go() {
        let marks_of_this = Marks::new().unwrap();
        marks_of_this.set(9).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let churn = || {
                while !is_over.load(Relaxed) {
                    let others: Vec<Marks> = (0..200).map(|_| Marks::new().unwrap()).collect();
                    for (at, other) in others.iter().enumerate() {
                        other.lock(libc::F_WRLCK, at as u64, 1).unwrap();
                    }
                }
            };
            crate::meter::spawn_scoped(scope, std::thread::Builder::new(), churn).unwrap();
            let is_found = || all_marks().contains(&(std::process::id(), 9));
            let missed = (0..300).filter(|_| !is_found()).count();
            is_over.store(true, Relaxed);
            assert_eq!(missed, 0, "of 300 lists");
        });
    }
}
