//! Children that can be killed, memory shared with them, and what they used.
//!
//! A call that waits for a dead server cannot be given a time limit; a process that makes the call can. None of this is
//! file-system work, so none of it is counted. What a child does at the gates, the child itself hands over, through
//! [`Shared`] memory ([`crate::Tally::publish`]) or in what it writes.

use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use libc::{c_int, c_long};

use crate::meter::answer;
use crate::notify::{Event, poll};
use crate::{Errno, Fd, Result};

/// Memory that stays shared between a process and the children that it forks: 64-bit words, all 0 at first.
#[derive(Debug)]
pub struct Shared {
    words: *mut AtomicU64,
    len: usize,
}

impl Shared {
    /// Maps `len` words (at least one).
    pub fn new(len: usize) -> Result<Shared> {
        let len = len.max(1);
        let bytes = len.checked_mul(size_of::<AtomicU64>()).ok_or(Errno::ENOMEM)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh anonymous mapping touches no other memory.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if at == libc::MAP_FAILED { Err(Errno::last()) } else { Ok(Shared { words: at.cast(), len }) }
    }
}

impl Deref for Shared {
    type Target = [AtomicU64];
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: the mapping holds `len` aligned words, zero is a valid value, and it lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.words, self.len) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this size; no borrow outlives `self`.
        unsafe { libc::munmap(self.words.cast(), self.len * size_of::<AtomicU64>()) };
    }
}

/// What a process that has ended used, and how it ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// Its exit status; `None` when a signal ended it.
    pub status: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// CPU time in the program.
    pub user: Duration,
    /// CPU time in the kernel for it.
    pub sys: Duration,
}

/// A forked process. Dropping it kills it, and reaps it if it is dead already; else init does when this process ends.
#[derive(Debug)]
pub struct Child {
    pid: libc::pid_t,
    ended: Option<Ended>,
}

impl Child {
    /// Forks, and runs `work` in the child, which ends when `work` returns (status 0) or panics (status 101). The child
    /// dies with its parent.
    ///
    /// The calling process should be single-threaded, or `work` may wait for ever for a lock that nobody will release.
    pub fn fork(work: impl FnOnce()) -> Result<Child> {
        // SAFETY: getpid cannot fail and touches no memory.
        let parent = unsafe { libc::getpid() };
        // SAFETY: the child runs on a copy of this thread's memory; it never returns from here.
        let pid = answer(c_long::from(unsafe { libc::fork() }))? as libc::pid_t;
        if pid != 0 {
            return Ok(Child { pid, ended: None });
        }
        // SAFETY: these calls take and leave no memory. A parent that died before prctl has left us to another.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if libc::getppid() != parent {
                libc::_exit(102);
            }
        }
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        // SAFETY: _exit does not return, and runs nothing of the parent's that was copied into this process.
        unsafe { libc::_exit(if done.is_ok() { 0 } else { 101 }) }
    }

    /// [`Child::fork`] for a child that may never end: first it lets go of everything that it has inherited and that
    /// somebody could wait for, above all the other end of a pipe. `work` can use no descriptor that was open before.
    /// [close_range(2)](https://man7.org/linux/man-pages/man2/close_range.2.html)
    pub fn fork_detached(work: impl FnOnce()) -> Result<Child> {
        Child::fork(|| {
            // SAFETY: this process owns the copies of the descriptors; a wrapper of one that is dropped later fails to
            // close it, which is ignored, and what `work` opens is its own.
            if unsafe { libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, 0) } != 0 {
                (0..4096).for_each(|fd| {
                    // SAFETY: as above.
                    unsafe { libc::close(fd) };
                });
            }
            work();
        })
    }

    /// Its process id.
    pub fn id(&self) -> i32 {
        self.pid
    }

    /// How it ended, if it has; does not wait.
    pub fn try_wait(&mut self) -> Option<Ended> {
        if self.ended.is_none() {
            self.ended = self.wait4(libc::WNOHANG);
        }
        self.ended
    }

    /// Waits for its end, for at most `limit`.
    pub fn wait(&mut self, limit: Duration) -> Option<Ended> {
        let until = Instant::now() + limit;
        // SAFETY: no pointers. Where the kernel has no pidfd_open (before 5.3), the loop below looks every millisecond.
        let pidfd = answer(unsafe { libc::syscall(libc::SYS_pidfd_open, self.pid, 0) }).map(Fd::take);
        loop {
            if let Some(ended) = self.try_wait() {
                return Some(ended);
            }
            let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
            match &pidfd {
                Ok(fd) => drop(poll([(fd.as_fd(), Event::Readable)], Some(left))),
                Err(_) => std::thread::sleep(left.min(Duration::from_millis(1))),
            }
        }
    }

    /// Sends SIGKILL. A process that waits in the kernel for a server that has taken its request dies only when that
    /// wait ends.
    pub fn kill(&mut self) {
        if self.try_wait().is_none() {
            // SAFETY: no pointers; the process has not been reaped, so the id is still its own.
            unsafe { libc::kill(self.pid, libc::SIGKILL) };
        }
    }

    fn wait4(&self, options: c_int) -> Option<Ended> {
        wait4(self.pid, options).ok().filter(|(pid, _)| *pid == self.pid).map(|(_, ended)| ended)
    }
}

/// The process (0 when none has ended, and nobody was to wait), and how it ended.
/// [wait4(2)](https://man7.org/linux/man-pages/man2/wait4.2.html)
pub(crate) fn wait4(pid: libc::pid_t, options: c_int) -> Result<(libc::pid_t, Ended)> {
    let mut status: c_int = 0;
    // SAFETY: zero is a valid rusage, and both pointers are to live variables.
    let (pid, usage) = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        (libc::wait4(pid, &raw mut status, options, &raw mut usage), usage)
    };
    Ok((answer(c_long::from(pid))? as libc::pid_t, ended(status, &usage)))
}

/// What wait4(2) says of a process that has ended.
pub(crate) fn ended(status: c_int, usage: &libc::rusage) -> Ended {
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    Ended {
        status: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
        signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
        user: time(usage.ru_utime),
        sys: time(usage.ru_stime),
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
        self.try_wait();
    }
}

/// Has SIGALRM end this process after so long, whatever it does then. [setitimer(2)](https://man7.org/linux/man-pages/man2/setitimer.2.html)
pub fn end_after(limit: Duration) {
    let never = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let seconds = libc::time_t::try_from(limit.as_secs()).unwrap_or(libc::time_t::MAX);
    let after = libc::timeval { tv_sec: seconds, tv_usec: limit.subsec_micros().max(1).into() };
    let timer = libc::itimerval { it_interval: never, it_value: after };
    // SAFETY: the default action is always a valid one, and `timer` is a live itimerval.
    unsafe {
        libc::signal(libc::SIGALRM, libc::SIG_DFL);
        libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut());
    }
}

/// CPU time that all threads of this process have used, in the program and in the kernel.
pub fn cpu_time() -> Duration {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Blocks of 512 bytes that this process has had read from disks so far, those of directories and inodes among them.
/// [getrusage(2)](https://man7.org/linux/man-pages/man2/getrusage.2.html)
pub fn blocks_read() -> u64 {
    // SAFETY: zero is a valid rusage, and the pointer is to a live one.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    usage.ru_inblock.unsigned_abs()
}

/// CPU time of the processes that this one has waited for, as their parent, and of those that they have waited for: in the
/// programs, and in the kernel. [getrusage(2)](https://man7.org/linux/man-pages/man2/getrusage.2.html)
pub fn children_time() -> (Duration, Duration) {
    // SAFETY: zero is a valid rusage, and the pointer is to a live one.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let all = ended(0, &usage);
    (all.user, all.sys)
}

/// CPU time that the calling thread has used.
pub(crate) fn thread_cpu_time() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock(which: libc::clockid_t) -> Duration {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a live timespec. The clocks of CPU time are always there.
    unsafe { libc::clock_gettime(which, &raw mut t) };
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// Processors that this process may run on; at least 1.
pub fn processors() -> usize {
    // SAFETY: zero is a valid cpu_set_t.
    let mut set = unsafe { std::mem::zeroed::<libc::cpu_set_t>() };
    // SAFETY: `set` is a live cpu_set_t of the size given.
    let known = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) } == 0;
    // SAFETY: `set` is a live cpu_set_t.
    if known { (unsafe { libc::CPU_COUNT(&set) } as usize).max(1) } else { 1 }
}

/// Raises the limit on open descriptors as far as it goes, and gives what it is then.
/// [getrlimit(2)](https://man7.org/linux/man-pages/man2/getrlimit.2.html)
pub fn raise_open_files() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a live rlimit.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return 256;
    }
    let raised = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
    // SAFETY: `raised` is a live rlimit.
    let done = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0;
    (if done { raised.rlim_cur } else { limit.rlim_cur }) as usize
}

/// Whether this is the superuser, as far as that may be said of a process in a user namespace.
pub fn is_root() -> bool {
    // SAFETY: geteuid cannot fail and touches no memory.
    unsafe { libc::geteuid() == 0 }
}

/// The user and the group that files made by this process belong to.
pub fn ids() -> (u32, u32) {
    // SAFETY: neither call can fail or touches memory.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// Whether files of this owner are this process's own.
pub fn is_me(uid: u32) -> bool {
    // SAFETY: geteuid cannot fail and touches no memory.
    unsafe { libc::geteuid() == uid }
}

/// Has the C library keep memory that was freed, as it does anyway while there is little of it. To give some back it would
/// first read `/proc/sys/vm/overcommit_memory`, past every gate. To say so ends its own finding of what is large enough for a
/// mapping of its own, which begins at 128 KiB: buffers of a row group would be mapped and unmapped, each page of them a
/// fault, over and over. [mallopt(3)](https://man7.org/linux/man-pages/man3/mallopt.3.html)
#[cfg(target_env = "gnu")]
pub fn keep_freed_memory() {
    // SAFETY: no pointers; -1 turns trimming off.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 4 << 20);
    }
}

/// Other C libraries do nothing of the kind.
#[cfg(not(target_env = "gnu"))]
pub fn keep_freed_memory() {}

/// Lets a closed pipe end the process, as it ends other command-line tools: Rust ignores SIGPIPE at start-up.
pub fn restore_sigpipe() {
    // SAFETY: the default action is always a valid one.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Width of the terminal that a descriptor is connected to, in columns; `None` when it is none, or does not say.
/// [ioctl_tty(2)](https://man7.org/linux/man-pages/man2/TIOCGWINSZ.2const.html)
pub fn terminal_width(fd: impl AsFd) -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: `size` is a live winsize.
    let known = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) } == 0;
    (known && size.ws_col > 0).then_some(usize::from(size.ws_col))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_child_writes_into_shared_memory_and_is_reaped() {
        let shared = Shared::new(2).unwrap();
        let mut child = Child::fork(|| shared[1].store(42, Ordering::Relaxed)).unwrap();
        assert_eq!(child.wait(Duration::from_secs(5)).unwrap().status, Some(0));
        assert_eq!(shared[1].load(Ordering::Relaxed), 42);
    }

    #[test]
    fn a_process_ends_itself_in_time() {
        let mut child = Child::fork(|| {
            end_after(Duration::from_millis(20));
            std::thread::sleep(Duration::from_secs(60));
        })
        .unwrap();
        assert_eq!(child.wait(Duration::from_secs(5)).unwrap().status, None);
    }

    #[test]
    fn a_child_that_hangs_is_killed_in_time() {
        let mut child = Child::fork(|| std::thread::sleep(Duration::from_secs(60))).unwrap();
        assert!(child.wait(Duration::from_millis(20)).is_none());
        child.kill();
        assert_eq!(child.wait(Duration::from_secs(5)).unwrap().status, None);
    }
}
