//! Child processes that can be killed, and properties of this process: priority, limits, owner,
//! signals.
//!
//! A call that waits for a dead server has no time limit, but a process that makes it can be
//! killed. Calls of this module are not counted, being no file-system work. A child returns its own
//! counts through [`SharedWords`] memory ([`crate::Tally::publish`]) or in its output.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use libc::{c_int, c_long};

use crate::errno::check;
use crate::fs::{AtFlags, CWD, StatxMask, statx};
use crate::meter;
use crate::notify::{Event, poll};
use crate::signals::{block, set_disposition};
use crate::{Errno, Fd, Result};

pub use crate::memory::SharedWords;

/// How a process ended, and the CPU time that it used.
#[derive(Clone, Copy, Debug)]
pub struct ProcessEnd {
    /// Exit status; `None` if a signal ended the process.
    pub status: Option<i32>,
    /// The signal that ended the process; `None` if it exited.
    pub signal: Option<i32>,
    /// CPU time of the process in user mode.
    pub user: Duration,
    /// CPU time of the process in the kernel.
    pub sys: Duration,
}

/// Whether [`expect_one_thread`] was called, so that [`Child::fork`] refuses with several threads.
static MUST_HAVE_ONE_THREAD: AtomicBool = AtomicBool::new(false);

/// From now on, [`Child::fork`] refuses to fork a process with several threads. Do not call this in
/// test programs, whose tests are threads, or in programs with a library that has its own threads.
pub fn expect_one_thread() {
    MUST_HAVE_ONE_THREAD.store(true, Relaxed);
}

/// Whether this process has only one thread, now or within the time `longest`.
pub fn has_one_thread(longest: Duration) -> bool {
    let until = Instant::now() + longest;
    while threads().is_some_and(|threads| threads > 1) {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// Number of threads of this process, by the links of /proc/self/task; `None` without /proc.
fn threads() -> Option<u32> {
    let seen = statx(CWD, c"/proc/self/task", AtFlags::empty(), StatxMask::NLINK).ok()?;
    Some(seen.nlink.saturating_sub(2))
}

/// A forked process. Dropping this value kills the child, and reaps it if it is dead by then;
/// otherwise init reaps it after this process has ended.
#[derive(Debug)]
pub struct Child {
    pid: libc::pid_t,
    ended: Option<ProcessEnd>,
}

impl Child {
    /// Forks, and runs `work` in the child, which ends when `work` returns (status 0) or panics
    /// (status 101). The child dies with its parent.
    ///
    /// The calling process must have one thread: `work` would wait forever for a lock that another
    /// thread held. (The lock of the total counts is free.)
    ///
    /// # Errors
    /// The errors of fork(2); `EBUSY` if there are several threads and [`expect_one_thread`] was
    /// called.
    pub fn fork(work: impl FnOnce()) -> Result<Child> {
        if let Some(child) = Child::split()? {
            return Ok(child);
        }
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        leave(if done.is_ok() { 0 } else { 101 })
    }

    /// Forks, and returns in both processes: in the parent with the child, in the child with
    /// `None`. The child dies with its parent. As with [`Child::fork`], the calling process must
    /// have one thread. [fork(2)](https://man7.org/linux/man-pages/man2/fork.2.html)
    pub fn split() -> Result<Option<Child>> {
        /// Timeout: the kernel may need some time to remove a thread that was just joined.
        const LONGEST: Duration = Duration::from_secs(10);
        if MUST_HAVE_ONE_THREAD.load(Relaxed) && !has_one_thread(LONGEST) {
            return Err(Errno::EBUSY);
        }
        // SAFETY: getpid cannot fail and touches no memory.
        let parent = unsafe { libc::getpid() };
        let pid = fork()?;
        if pid != 0 {
            return Ok(Some(Child { pid, ended: None }));
        }
        // SAFETY: no pointers. If the parent died before prctl, another process is the parent now.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if libc::getppid() != parent {
                libc::_exit(102);
            }
        }
        Ok(None)
    }

    /// Forks a child that may never end, like [`Child::fork`]: the child first closes all inherited
    /// descriptors, so that no process waits for it, for example at the other end of a pipe. `work`
    /// cannot use any descriptor that was open before.
    /// [close_range(2)](https://man7.org/linux/man-pages/man2/close_range.2.html)
    pub fn fork_detached(work: impl FnOnce()) -> Result<Child> {
        Child::fork(|| {
            // SAFETY: this process owns its copies of the descriptors. An inherited `Fd` that is
            // dropped later fails to close, which is ignored.
            if unsafe { libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, 0) } != 0 {
                (0..4096).for_each(|fd| {
                    // SAFETY: as above: this process owns its copies of the descriptors.
                    unsafe { libc::close(fd) };
                });
            }
            work();
        })
    }

    /// Process id of the child.
    pub fn id(&self) -> i32 {
        self.pid
    }

    /// How the child ended, if it has; does not wait.
    pub fn try_wait(&mut self) -> Option<ProcessEnd> {
        if self.ended.is_none()
            && let Ok(Some(StateChange::Ended(ended))) = wait4(self.pid, libc::WNOHANG)
        {
            self.ended = Some(ended);
        }
        self.ended
    }

    /// Waits for the end of the child, for at most `limit`.
    pub fn wait(&mut self, limit: Duration) -> Option<ProcessEnd> {
        let until = Instant::now() + limit;
        // SAFETY: no pointers. If the kernel has no pidfd_open (before 5.3), the loop below polls
        // every millisecond.
        let pidfd =
            check(unsafe { libc::syscall(libc::SYS_pidfd_open, self.pid, 0) }).map(Fd::take);
        loop {
            if let Some(ended) = self.try_wait() {
                return Some(ended);
            }
            let left = until
                .checked_duration_since(Instant::now())
                .filter(|left| !left.is_zero())?;
            match &pidfd {
                Ok(fd) => drop(poll([(fd.as_fd(), Event::Readable)], Some(left))),
                Err(_) => std::thread::sleep(left.min(Duration::from_millis(1))),
            }
        }
    }

    /// CPU time of the child in nanoseconds; 0 after its end. The value grows whenever the child
    /// runs, and so distinguishes a slow child from one that is blocked in the kernel.
    /// [clock_getcpuclockid(3)](https://man7.org/linux/man-pages/man3/clock_getcpuclockid.3.html)
    pub fn cpu_time(&self) -> u64 {
        /// The kernel's `CPUCLOCK_SCHED`, of all threads of a process.
        const SCHEDULED: libc::clockid_t = 2;
        crate::cpu_time::nanoseconds(!self.pid << 3 | SCHEDULED)
    }

    /// Sends SIGKILL. A process that is blocked in the kernel until a server handles its request
    /// dies only after that.
    pub fn kill(&mut self) {
        self.send(libc::SIGKILL);
    }

    /// Sends SIGTERM, so that the child can clean up first.
    pub fn ask_to_stop(&mut self) {
        self.send(libc::SIGTERM);
    }

    fn send(&mut self, signal: c_int) {
        if self.try_wait().is_none() {
            // SAFETY: no pointers; the child has not been reaped, so the id is still its own.
            unsafe { libc::kill(self.pid, signal) };
        }
    }
}

/// Forks; returns the id of the child, and in the child 0.
/// [fork(2)](https://man7.org/linux/man-pages/man2/fork.2.html)
pub(crate) fn fork() -> Result<libc::pid_t> {
    // SAFETY: the child runs on a copy of this thread's memory, in which it holds the same lock.
    meter::fork_locked(|| check(c_long::from(unsafe { libc::fork() })))
        .map(|pid| pid as libc::pid_t)
}

/// A state change of a child, from wait4(2).
pub(crate) enum StateChange {
    /// The child has ended.
    Ended(ProcessEnd),
    /// This signal has stopped the child; reported with `WUNTRACED`, and for a traced child.
    Stopped(c_int),
}

/// The next state change of a child; with `WNOHANG`, `None` if there is none.
/// [wait4(2)](https://man7.org/linux/man-pages/man2/wait4.2.html)
pub(crate) fn wait4(pid: libc::pid_t, options: c_int) -> Result<Option<StateChange>> {
    let mut status: c_int = 0;
    // SAFETY: zero is a valid rusage.
    let mut usage = unsafe { std::mem::zeroed::<libc::rusage>() };
    // SAFETY: both pointers are to live variables.
    let pid = unsafe { libc::wait4(pid, &raw mut status, options, &raw mut usage) };
    if check(c_long::from(pid))? == 0 {
        return Ok(None);
    }
    Ok(Some(match libc::WIFSTOPPED(status) {
        true => StateChange::Stopped(libc::WSTOPSIG(status)),
        false => StateChange::Ended(ended(status, &usage)),
    }))
}

/// Converts the status and usage of wait4(2) for a process that has ended.
pub(crate) fn ended(status: c_int, usage: &libc::rusage) -> ProcessEnd {
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    ProcessEnd {
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

/// Makes SIGALRM end this process after `limit`.
/// [setitimer(2)](https://man7.org/linux/man-pages/man2/setitimer.2.html)
pub fn end_after(limit: Duration) {
    // SAFETY: zero is a valid itimerval, and means no interval.
    let mut timer = unsafe { std::mem::zeroed::<libc::itimerval>() };
    timer.it_value.tv_sec = limit.as_secs().try_into().unwrap_or(c_long::MAX);
    timer.it_value.tv_usec = limit.subsec_micros().max(1).into();
    set_disposition(libc::SIGALRM, libc::SIG_DFL);
    // SAFETY: `timer` is a live itimerval.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) };
}

/// Ends this process at once, without destructors and exit handlers.
/// [_exit(2)](https://man7.org/linux/man-pages/man2/_exit.2.html)
pub fn leave(status: u8) -> ! {
    // SAFETY: _exit does not return.
    unsafe { libc::_exit(c_int::from(status)) }
}

/// Lowers the priority of this process and its future children: the CPU priority to nice 10, unless
/// lower already, and the I/O priority to the lowest best-effort level.
/// [setpriority(2)](https://man7.org/linux/man-pages/man2/setpriority.2.html),
/// [ioprio_set(2)](https://man7.org/linux/man-pages/man2/ioprio_set.2.html)
pub fn yield_to_others() {
    const NICE: c_long = 10;
    const WHO_PROCESS: c_int = 1;
    const BEST_EFFORT_LAST: c_int = 2 << 13 | 7;
    set_nice(NICE.max(nice())); // a failure is ignored
    // SAFETY: no pointers; 0 is the calling thread.
    unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, BEST_EFFORT_LAST) };
}

/// A raised priority of the calling thread, until it is dropped. Keeps the previous nice value.
#[derive(Debug)]
pub struct RaisedPriority(c_long);

impl RaisedPriority {
    /// Raises the priority; `None` without `CAP_SYS_NICE`. Children that were forked before keep
    /// their priority. [setpriority(2)](https://man7.org/linux/man-pages/man2/setpriority.2.html)
    pub fn get() -> Option<RaisedPriority> {
        const AHEAD: c_long = -15;
        let before = nice();
        set_nice(AHEAD.min(before)).then_some(RaisedPriority(before))
    }
}

impl Drop for RaisedPriority {
    fn drop(&mut self) {
        set_nice(self.0);
    }
}

fn nice() -> c_long {
    // SAFETY: no pointers. The call returns 20 minus the value, so that it is never negative.
    20 - unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, 0) }
}

fn set_nice(nice: c_long) -> bool {
    // SAFETY: no pointers; 0 is the calling thread.
    unsafe { libc::syscall(libc::SYS_setpriority, libc::PRIO_PROCESS, 0, nice) == 0 }
}

/// Raises the soft limit on open descriptors to the hard limit, and returns the new limit.
/// [getrlimit(2)](https://man7.org/linux/man-pages/man2/getrlimit.2.html)
pub fn raise_open_files() -> usize {
    // SAFETY: zero is a valid rlimit.
    let mut limit = unsafe { std::mem::zeroed::<libc::rlimit>() };
    // SAFETY: `limit` is a live rlimit.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return 256;
    }
    let before = std::mem::replace(&mut limit.rlim_cur, limit.rlim_max);
    // SAFETY: `limit` is a live rlimit.
    let raised = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } == 0;
    (if raised { limit.rlim_cur } else { before }) as usize
}

/// Number of descriptors that may be held open besides those that every command needs (standard
/// streams, archives, catalogs, devices), after raising the limit as far as possible.
pub fn spare_open_files() -> usize {
    const NEEDED: usize = 20;
    raise_open_files().saturating_sub(NEEDED)
}

/// Whether this process runs as root, at least in its user namespace.
pub fn is_root() -> bool {
    is_me(0)
}

/// Effective user and group id of this process, which own the files that it creates.
pub fn ids() -> (u32, u32) {
    // SAFETY: neither call can fail or touches memory.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// Whether `uid` is the effective user id of this process.
pub fn is_me(uid: u32) -> bool {
    ids().0 == uid
}

/// Resets SIGCHLD to its default: if it stays ignored through execve(2), the kernel discards the
/// statuses of children.
pub fn reset_sigchld() {
    set_disposition(libc::SIGCHLD, libc::SIG_DFL);
}

/// Resets SIGPIPE, which Rust ignores at start-up: writing to a closed pipe then ends the process,
/// as in other command-line tools.
pub fn restore_sigpipe() {
    set_disposition(libc::SIGPIPE, libc::SIG_DFL);
}

/// Blocks SIGPIPE in the calling thread and threads that it starts: writing to a closed socket
/// returns `EPIPE`.
pub fn block_sigpipe() {
    block(&[libc::SIGPIPE]);
}

/// Protects the memory of this process, which may hold a password, from core dumps and from
/// debuggers of the same user. Programs that it starts are not protected.
/// [PR_SET_DUMPABLE(2const)](https://man7.org/linux/man-pages/man2/PR_SET_DUMPABLE.2const.html)
pub fn hide_memory() {
    // SAFETY: no pointers. The call cannot fail for this value.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
    dump_no_core();
}

/// Disables core dumps of this process, and of the programs that it starts.
/// [setrlimit(2)](https://man7.org/linux/man-pages/man2/getrlimit.2.html), `RLIMIT_CORE`
pub fn dump_no_core() {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `none` is a live rlimit. The call cannot fail for these values.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) };
}

/// Ignores SIGXFSZ: a write beyond the file size limit (`ulimit -f`) then fails with EFBIG, which
/// the process can report, and clean up.
pub fn ignore_sigxfsz() {
    set_disposition(libc::SIGXFSZ, libc::SIG_IGN);
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::disallowed_methods,
        reason = "the tests need no counts of their threads"
    )]
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Timeout of the test, which only a hang exceeds.
    const LIMIT: Duration = Duration::from_secs(600);

    fn sleep_forever() {
        loop {
            std::thread::sleep(LIMIT);
        }
    }

    #[test]
    fn a_child_writes_into_shared_memory_and_is_reaped() {
        let shared = SharedWords::new(2).unwrap();
        let mut child = Child::fork(|| shared[1].store(42, Ordering::Relaxed)).unwrap();
        assert_eq!(child.wait(LIMIT).unwrap().status, Some(0));
        assert_eq!(shared[1].load(Ordering::Relaxed), 42);
    }

    #[test]
    fn split_returns_in_both_processes() {
        let shared = SharedWords::new(1).unwrap();
        match Child::split().unwrap() {
            None => {
                shared[0].store(7, Ordering::Relaxed);
                leave(3);
            }
            Some(mut child) => {
                assert_eq!(child.wait(LIMIT).unwrap().status, Some(3))
            }
        }
        assert_eq!(shared[0].load(Ordering::Relaxed), 7);
    }

    #[test]
    fn threads_are_counted_as_the_kernel_counts_them() {
        let waiting = std::thread::spawn(std::thread::park);
        assert!(threads().unwrap() >= 2);
        // Run the test in a child process, which has one thread: `expect_one_thread` cannot be
        // undone.
        let mut child = Child::fork(|| {
            expect_one_thread();
            assert!(has_one_thread(LIMIT) && Child::fork(|| {}).is_ok());
            let another = std::thread::spawn(std::thread::park);
            assert!(!has_one_thread(Duration::from_millis(1)));
            assert_eq!(Child::fork(|| {}).err(), Some(Errno::EBUSY));
            another.thread().unpark();
        });
        let ended = child.as_mut().unwrap().wait(LIMIT).unwrap();
        assert_eq!(ended.status, Some(0));
        waiting.thread().unpark();
        waiting.join().unwrap();
    }

    #[test]
    fn a_raised_priority_is_restored() {
        let before = nice();
        if let Some(ahead) = RaisedPriority::get() {
            assert!(nice() <= before.min(-15));
            drop(ahead);
        }
        assert_eq!(nice(), before);
    }

    #[test]
    fn end_after_ends_the_process() {
        let mut child = Child::fork(|| {
            end_after(Duration::from_millis(20));
            sleep_forever();
        })
        .unwrap();
        assert_eq!(child.wait(LIMIT).unwrap().status, None);
    }

    #[test]
    fn a_child_counts_while_other_threads_of_its_parent_do() {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let counting = || {
                while !done.load(Ordering::Relaxed) {
                    meter::tally();
                }
            };
            (0..2).for_each(|_| drop(scope.spawn(counting)));
            let forks = |_| Child::fork(|| _ = meter::tally()).unwrap();
            let ended = (0..100)
                .map(forks)
                .all(|mut child| child.wait(LIMIT).is_some());
            done.store(true, Ordering::Relaxed);
            assert!(
                ended,
                "a child waits for a lock that was held when it was made"
            );
        });
    }

    #[test]
    fn a_child_that_hangs_is_waited_for_until_the_limit_and_killed() {
        let mut child = Child::fork(sleep_forever).unwrap();
        assert!(child.wait(Duration::from_millis(20)).is_none());
        child.kill();
        assert_eq!(child.wait(LIMIT).unwrap().status, None);
    }
}
