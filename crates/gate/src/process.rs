//! Children that can be killed, memory shared with them, and how this process stands: whose it is,
//! what comes before it, how it ends.
//!
//! A call that waits for a dead server cannot be given a time limit; a process that makes the call
//! can. None of this is file-system work, so none of it is counted. What a child does at the gates,
//! the child itself hands over, through [`Shared`] memory ([`crate::Tally::publish`]) or in what it
//! writes.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use libc::{c_int, c_long};

use crate::errno::check;
use crate::meter;
use crate::notify::{Event, poll};
use crate::{Fd, Result};

pub use crate::memory::Shared;

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

/// A forked process. Dropping it kills it, and reaps it if it is dead already; else init does when
/// this process ends.
#[derive(Debug)]
pub struct Child {
    pid: libc::pid_t,
    ended: Option<Ended>,
}

impl Child {
    /// Forks, and runs `work` in the child, which ends when `work` returns (status 0) or panics
    /// (status 101). The child dies with its parent.
    ///
    /// The calling process should be single-threaded, or `work` may wait for ever for a lock that
    /// nobody will release. (That of what the gates count is free.)
    pub fn fork(work: impl FnOnce()) -> Result<Child> {
        if let Some(child) = Child::split()? {
            return Ok(child);
        }
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        leave(if done.is_ok() { 0 } else { 101 })
    }

    /// Forks, and returns in both processes: in the parent with the child, in the child with
    /// `None`. The child dies with its parent. As with [`Child::fork`], the calling process should
    /// be single-threaded. [fork(2)](https://man7.org/linux/man-pages/man2/fork.2.html)
    pub fn split() -> Result<Option<Child>> {
        // SAFETY: getpid cannot fail and touches no memory.
        let parent = unsafe { libc::getpid() };
        let pid = fork()?;
        if pid != 0 {
            return Ok(Some(Child { pid, ended: None }));
        }
        // SAFETY: these calls take and leave no memory. A parent that died before prctl has left us
        // to another.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if libc::getppid() != parent {
                libc::_exit(102);
            }
        }
        Ok(None)
    }

    /// [`Child::fork`] for a child that may never end: first it lets go of everything that it has
    /// inherited and that somebody could wait for, above all the other end of a pipe. `work` can
    /// use no descriptor that was open before.
    /// [close_range(2)](https://man7.org/linux/man-pages/man2/close_range.2.html)
    pub fn fork_detached(work: impl FnOnce()) -> Result<Child> {
        Child::fork(|| {
            // SAFETY: this process owns the copies of the descriptors; a wrapper of one that is
            // dropped later fails to close it, which is ignored, and what `work` opens is its own.
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
        // SAFETY: no pointers. Where the kernel has no pidfd_open (before 5.3), the loop below
        // looks every millisecond.
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

    /// Sends SIGKILL. A process that waits in the kernel for a server that has taken its request
    /// dies only when that wait ends.
    pub fn kill(&mut self) {
        if self.try_wait().is_none() {
            // SAFETY: no pointers; the process has not been reaped, so the id is still its own.
            unsafe { libc::kill(self.pid, libc::SIGKILL) };
        }
    }

    /// Sends SIGTERM: a process that has something to put away does so first.
    pub fn ask_to_stop(&mut self) {
        if self.try_wait().is_none() {
            // SAFETY: no pointers; the process has not been reaped, so the id is still its own.
            unsafe { libc::kill(self.pid, libc::SIGTERM) };
        }
    }

    fn wait4(&self, options: c_int) -> Option<Ended> {
        wait4(self.pid, options)
            .ok()
            .filter(|(pid, _)| *pid == self.pid)
            .map(|(_, ended)| ended)
    }
}

/// The id of the child; in the child, 0.
/// [fork(2)](https://man7.org/linux/man-pages/man2/fork.2.html)
pub(crate) fn fork() -> Result<libc::pid_t> {
    // SAFETY: the child runs on a copy of this thread's memory; the lock that this thread holds is
    // there held by it, too.
    meter::fork_locked(|| check(c_long::from(unsafe { libc::fork() })))
        .map(|pid| pid as libc::pid_t)
}

/// The process (0 when none has ended, and nobody was to wait), and how it ended.
/// [wait4(2)](https://man7.org/linux/man-pages/man2/wait4.2.html)
pub(crate) fn wait4(pid: libc::pid_t, options: c_int) -> Result<(libc::pid_t, Ended)> {
    let mut status: c_int = 0;
    // SAFETY: zero is a valid rusage, and both pointers are to live variables.
    let (pid, usage) = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        (
            libc::wait4(pid, &raw mut status, options, &raw mut usage),
            usage,
        )
    };
    Ok((
        check(c_long::from(pid))? as libc::pid_t,
        ended(status, &usage),
    ))
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

/// Has SIGALRM end this process after so long, whatever it does then.
/// [setitimer(2)](https://man7.org/linux/man-pages/man2/setitimer.2.html)
pub fn end_after(limit: Duration) {
    let never = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    let after = libc::timeval {
        tv_sec: limit.as_secs().try_into().unwrap_or(c_long::MAX),
        tv_usec: limit.subsec_micros().max(1).into(),
    };
    let timer = libc::itimerval {
        it_interval: never,
        it_value: after,
    };
    // SAFETY: the default action is always a valid one, and `timer` is a live itimerval.
    unsafe {
        libc::signal(libc::SIGALRM, libc::SIG_DFL);
        libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut());
    }
}

/// Ends this process at once, and runs nothing of what would otherwise run at its end.
/// [_exit(2)](https://man7.org/linux/man-pages/man2/_exit.2.html)
pub fn leave(status: u8) -> ! {
    // SAFETY: _exit does not return.
    unsafe { libc::_exit(c_int::from(status)) }
}

/// Sends this process a signal. [raise(3)](https://man7.org/linux/man-pages/man3/raise.3.html)
pub fn raise(signal: i32) {
    // SAFETY: no pointers.
    unsafe { libc::raise(signal) };
}

/// Lets others go first, from now on, and in all processes that this one makes: at the processors
/// (nice 10, unless it was more already) and at the disks (the lowest of the priorities at which
/// one is served at all, and not only while nobody else wants anything).
/// [setpriority(2)](https://man7.org/linux/man-pages/man2/setpriority.2.html),
/// [ioprio_set(2)](https://man7.org/linux/man-pages/man2/ioprio_set.2.html)
pub fn yield_to_others() {
    const NICE: c_long = 10;
    const WHO_PROCESS: c_int = 1;
    const BEST_EFFORT_LAST: c_int = 2 << 13 | 7;
    set_nice(NICE.max(nice())); // what is refused is left as it is
    // SAFETY: no pointers; it is about the calling thread.
    unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, BEST_EFFORT_LAST) };
}

/// As long as this lives, the thread that has made it comes before others that want its processor.
#[derive(Debug)]
pub struct Ahead {
    /// What it had before.
    nice: c_long,
}

impl Ahead {
    /// `None` for who may not: it takes `CAP_SYS_NICE`. Children that were forked before are left
    /// as they were. [setpriority(2)](https://man7.org/linux/man-pages/man2/setpriority.2.html)
    pub fn get() -> Option<Ahead> {
        const AHEAD: c_long = -15;
        let nice = nice();
        set_nice(AHEAD.min(nice)).then_some(Ahead { nice })
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        set_nice(self.nice);
    }
}

fn nice() -> c_long {
    // SAFETY: no pointers. The call itself answers 20 less the value, so that it is no error
    // number.
    20 - unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, 0) }
}

fn set_nice(nice: c_long) -> bool {
    // SAFETY: no pointers; 0 is the calling thread.
    unsafe { libc::syscall(libc::SYS_setpriority, libc::PRIO_PROCESS, 0, nice) == 0 }
}

/// Raises the limit on open descriptors as far as it goes, and gives what it is then.
/// [getrlimit(2)](https://man7.org/linux/man-pages/man2/getrlimit.2.html)
pub fn raise_open_files() -> usize {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a live rlimit.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return 256;
    }
    let raised = libc::rlimit {
        rlim_cur: limit.rlim_max,
        ..limit
    };
    // SAFETY: `raised` is a live rlimit.
    let done = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0;
    (if done {
        raised.rlim_cur
    } else {
        limit.rlim_cur
    }) as usize
}

/// Whether this is the superuser, as far as that may be said of a process in a user namespace.
pub fn is_root() -> bool {
    is_me(0)
}

/// The user and the group that files made by this process belong to.
pub fn ids() -> (u32, u32) {
    // SAFETY: neither call can fail or touches memory.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// Whether files of this owner are this process's own.
pub fn is_me(uid: u32) -> bool {
    ids().0 == uid
}

/// Has the kernel keep the statuses of children that have ended until they are waited for, also
/// where whoever began this process did not want to know of his: SIGCHLD stays ignored through
/// execve(2), and then nobody can be waited for.
pub fn heed_children() {
    // SAFETY: the default action is always a valid one.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Lets a closed pipe end the process, as it ends other command-line tools: Rust ignores SIGPIPE at
/// start-up.
pub fn restore_sigpipe() {
    // SAFETY: the default action is always a valid one.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Has what would make a file larger than this process may (`ulimit -f`) fail, with EFBIG, so that
/// it can say so and leave nothing behind: without that, SIGXFSZ would end it.
pub fn outlive_file_limit() {
    // SAFETY: to ignore is always a valid disposition.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_child_writes_into_shared_memory_and_is_reaped() {
        let shared = Shared::new(2).unwrap();
        let mut child = Child::fork(|| shared[1].store(42, Ordering::Relaxed)).unwrap();
        assert_eq!(child.wait(Duration::from_secs(5)).unwrap().status, Some(0));
        assert_eq!(shared[1].load(Ordering::Relaxed), 42);
    }

    #[test]
    fn a_process_splits_in_two() {
        let shared = Shared::new(1).unwrap();
        match Child::split().unwrap() {
            None => {
                shared[0].store(7, Ordering::Relaxed);
                leave(3);
            }
            Some(mut child) => {
                assert_eq!(child.wait(Duration::from_secs(5)).unwrap().status, Some(3))
            }
        }
        assert_eq!(shared[0].load(Ordering::Relaxed), 7);
    }

    #[test]
    fn who_was_ahead_is_back_in_line() {
        let before = nice();
        if let Some(ahead) = Ahead::get() {
            assert!(nice() <= before.min(-15));
            drop(ahead);
        }
        assert_eq!(nice(), before);
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
                .all(|mut child| child.wait(Duration::from_secs(10)).is_some());
            done.store(true, Ordering::Relaxed);
            assert!(
                ended,
                "a child waits for a lock that was held when it was made"
            );
        });
    }

    #[test]
    fn a_child_that_hangs_is_killed_in_time() {
        let mut child = Child::fork(|| std::thread::sleep(Duration::from_secs(60))).unwrap();
        assert!(child.wait(Duration::from_millis(20)).is_none());
        child.kill();
        assert_eq!(child.wait(Duration::from_secs(5)).unwrap().status, None);
    }
}
