//! A command that is forked, but waits before its execve(2) until its meter is ready.
//!
//! The command gets the environment, descriptors, terminal, process group, signal mask and
//! dispositions that this process was started with. Between [`HeldCommand::go`] and its execve(2)
//! the child makes no file-system call, so that a meter need not subtract any. The system calls of
//! this module are not counted: they are not file-system work.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use libc::{c_char, c_int, c_void};

use crate::process::{self, ProcessEnd, SharedWords, StateChange};
use crate::signals::{HandledSignals, disposition, forget_handlers, set_disposition};
use crate::{Errno, Result};

// Indices of the words in shared memory by which parent and child communicate.
const GO: usize = 0;
const UNPREPARED: usize = 1;
const NOT_RUN: usize = 2;
const WORDS: usize = 3;

/// Why the program of a command did not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartError {
    /// The function `prepare` failed in the child.
    Unprepared(Errno),
    /// execve(2) failed.
    NotRun(Errno),
}

/// A forked process that waits for [`HeldCommand::go`] to become the command. Dropping this value
/// kills the child process, which also exits when its parent ends.
pub struct HeldCommand(Option<Running>);

impl HeldCommand {
    /// Forks. After [`HeldCommand::go`] the child runs `prepare`, and then execve(2) with these
    /// arguments.
    ///
    /// `prepare` runs in the fork of a process that may have several threads: it may make system
    /// calls, but must not allocate, take a lock, or panic.
    pub fn fork(
        program: &CStr,
        args: &[CString],
        prepare: impl FnOnce() -> Result<()>,
    ) -> Result<HeldCommand> {
        let words = SharedWords::new(WORDS)?;
        let mut argv: Vec<*const c_char> = args.iter().map(|arg| arg.as_ptr()).collect();
        argv.push(std::ptr::null());
        // SAFETY: getpid cannot fail and touches no memory.
        let parent = unsafe { libc::getpid() };
        // Block signals: a handler of this process could run in the child and remove the parent's
        // files.
        let mask = Mask::block_all();
        let pid = process::fork()?; // the child never returns from the block below
        if pid == 0 {
            forget_handlers(1..=64); // as execve(2) does
            drop(mask);
            let child = std::panic::AssertUnwindSafe(|| {
                become_command(&words, parent, program, &argv, prepare)
            });
            let _ = std::panic::catch_unwind(child);
            process::leave(101);
        }
        let signals = Signals::pass_on_to(pid);
        drop(mask);
        Ok(HeldCommand(Some(Running {
            pid,
            words,
            signals,
        })))
    }

    /// Process id of the held child.
    pub fn id(&self) -> i32 {
        self.0.as_ref().map_or(0, |running| running.pid)
    }

    /// Lets the child execute the program.
    pub fn go(mut self) -> Result<Running> {
        let running = self.0.take().ok_or(Errno::ESRCH)?;
        let go = &running.words[GO];
        go.store(u64::MAX, Ordering::SeqCst);
        // SAFETY: the word is mapped and aligned. A child that does not sleep yet finds it changed.
        unsafe { libc::syscall(libc::SYS_futex, go.as_ptr(), libc::FUTEX_WAKE, 1, 0, 0, 0) };
        Ok(running)
    }
}

impl Drop for HeldCommand {
    fn drop(&mut self) {
        if let Some(mut running) = self.0.take() {
            // SAFETY: no pointers; it has not been reaped, so the id is still its own.
            unsafe { libc::kill(running.pid, libc::SIGKILL) };
            let _ = running.wait();
        }
    }
}

/// In the child: waits for [`HeldCommand::go`] and executes the program. Returns only if execve(2)
/// failed or the parent ended.
fn become_command(
    words: &SharedWords,
    parent: libc::pid_t,
    program: &CStr,
    argv: &[*const c_char],
    prepare: impl FnOnce() -> Result<()>,
) {
    restore_signals();
    restore_closed();
    // Wait on a futex, because a meter would see the read and close of a pipe.
    let timeout = libc::timespec {
        tv_sec: 0,
        tv_nsec: 50_000_000,
    };
    while words[GO].load(Ordering::SeqCst) == 0 {
        // SAFETY: the word is mapped and aligned, its 64 bits are all set or all clear, and
        // `timeout` lives.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                words[GO].as_ptr(),
                libc::FUTEX_WAIT,
                0,
                &raw const timeout,
                0,
                0,
            )
        };
        // SAFETY: no pointers.
        if unsafe { libc::getppid() } != parent {
            return;
        }
    }
    let (word, errno) = match prepare() {
        Err(errno) => (UNPREPARED, errno),
        Ok(()) => {
            // SAFETY: `program` and what `argv` points to are NUL-terminated, and `argv` ends with
            // a null pointer; so does `environ`, which no other thread of the child can change.
            unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), environ) };
            (NOT_RUN, Errno::last())
        }
    };
    words[word].store(errno.0 as u64, Ordering::SeqCst);
}

unsafe extern "C" {
    /// The environment of this process:
    /// [environ(7)](https://man7.org/linux/man-pages/man7/environ.7.html)
    static environ: *const *const c_char;
}

/// A running command. Dropping this leaves it running.
pub struct Running {
    pid: libc::pid_t,
    words: SharedWords,
    signals: Option<Signals>,
}

impl Running {
    /// Why the child ended before executing the program; valid after its end.
    pub fn unstarted(&self) -> Option<StartError> {
        let errno = |word: usize| Errno(self.words[word].load(Ordering::SeqCst) as i32);
        match (errno(UNPREPARED), errno(NOT_RUN)) {
            (Errno(0), Errno(0)) => None,
            (Errno(0), errno) => Some(StartError::NotRun(errno)),
            (errno, _) => Some(StartError::Unprepared(errno)),
        }
    }

    /// Waits for the end of the command, also after signals; stops when the command stops
    /// ([`Running::stopped`]). A tracer waits with [`crate::ptrace::wait`] instead.
    ///
    /// # Errors
    /// `ECHILD` if the command has been reaped before.
    pub fn wait(&mut self) -> Result<ProcessEnd> {
        loop {
            match self.change(0) {
                Err(Errno::EINTR) | Ok(None) => {}
                other => return other.and_then(|ended| ended.ok_or(Errno::ECHILD)),
            }
        }
    }

    /// How the command ended, if it has; does not wait. Stops when the command has stopped
    /// ([`Running::stopped`]).
    ///
    /// # Errors
    /// `ECHILD` if the command has been reaped before.
    pub fn try_wait(&mut self) -> Result<Option<ProcessEnd>> {
        self.change(libc::WNOHANG)
    }

    /// Handles the next state change of the command, if any; `options` are those of wait4(2), such
    /// as `WNOHANG`. Returns how the command ended, if it has; stops this process if the command
    /// has stopped.
    fn change(&mut self, options: c_int) -> Result<Option<ProcessEnd>> {
        let changed = process::wait4(self.pid, options | libc::WUNTRACED)?;
        if let Some(StateChange::Stopped(signal)) = changed {
            self.stopped(signal);
        }
        let Some(StateChange::Ended(ended)) = changed else {
            return Ok(None);
        };
        self.ended();
        Ok(Some(ended))
    }

    /// Handles a stop of the command by `signal`. Stops this process, too: the shell that started
    /// it sees only this process, and takes the terminal back. When SIGCONT continues this process,
    /// the command continues, with the terminal if it had it. Returns at once if nothing would
    /// continue this process.
    pub fn stopped(&self, signal: c_int) {
        let handled = disposition(signal);
        if self.signals.is_none() || handled.sa_sigaction == libc::SIG_IGN {
            return;
        }
        // SAFETY: the only pointers are to a live sigaction that sigaction filled in, or null where
        // that is allowed; SIG_DFL is always valid. The command has not been reaped.
        unsafe {
            let (own, group) = (libc::getpgrp(), libc::getpgid(self.pid));
            let terminal = terminal();
            let foreground = || terminal.as_ref().map(|fd| libc::tcgetpgrp(fd.as_raw_fd()));
            let had = foreground();
            let has_shell = libc::getsid(libc::getppid()) == libc::getsid(0);
            let is_job = has_shell && (had == Some(own) || had == Some(group));
            if signal == libc::SIGSTOP && !is_job {
                return;
            }
            SUSPENDED.store(true, Ordering::SeqCst);
            libc::signal(signal, libc::SIG_DFL); // fails for SIGSTOP, which has no handler
            // The kernel ignores a terminal's stop signals in an orphaned process group, which no
            // shell controls.
            libc::kill(libc::getpid(), signal);
            libc::sigaction(signal, &raw const handled, std::ptr::null_mut());
            // A different thread may handle SIGCONT, so wait until a thread has handled the signal.
            for _ in 0..10 {
                if SUSPENDED.load(Ordering::SeqCst) {
                    libc::usleep(1000);
                }
            }
            if SUSPENDED.swap(false, Ordering::SeqCst) {
                return;
            }
            if had == Some(group)
                && foreground() == Some(own)
                && let Some(terminal) = terminal
            {
                libc::tcsetpgrp(terminal.as_raw_fd(), group);
            }
            libc::kill(self.pid, libc::SIGCONT);
        }
    }

    /// Must be called after the command has been reaped in a different way: its id may belong to
    /// another process, so signals are recorded instead of passed on.
    pub fn ended(&mut self) {
        if self.signals.is_some() {
            TARGET.store(0, Ordering::SeqCst);
        }
    }

    /// Whether SIGINT, SIGQUIT, SIGTERM or SIGHUP has arrived since [`Running::ended`]. Do not wait
    /// then for processes that the command left behind.
    pub fn asked_to_stop(&self) -> bool {
        self.signals.is_some() && STOP.load(Ordering::SeqCst)
    }
}

/// Id of the command that signals are passed on to; 0 if no command runs.
static TARGET: AtomicI32 = AtomicI32::new(0);
/// Whether a signal in [`ENDING`] has arrived while there was no command.
static STOP: AtomicBool = AtomicBool::new(false);
/// Whether this process stops with its command ([`Running::stopped`]), until SIGCONT.
static SUSPENDED: AtomicBool = AtomicBool::new(false);
/// Whether a [`Signals`] exists: only one command at a time gets signals.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Signals that ask a process to end: the command, or this process if no command runs.
const ENDING: [c_int; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];

/// A signal handler that passes signals on to a command until this value is dropped: those in
/// [`ENDING`], SIGTSTP, SIGCONT, SIGUSR1, SIGUSR2 and SIGWINCH, if another process sent them; the
/// command gets signals of the terminal itself. The signals have no effect on this process, except
/// that SIGTSTP stops this process if no command runs. Ignored signals stay ignored.
struct Signals(HandledSignals<9>);

impl Signals {
    /// Installs the handler; `None` if this process runs a different command already.
    fn pass_on_to(pid: libc::pid_t) -> Option<Signals> {
        if TAKEN.swap(true, Ordering::SeqCst) {
            return None;
        }
        STOP.store(false, Ordering::SeqCst);
        TARGET.store(pid, Ordering::SeqCst);
        let [int, quit, term, hup] = ENDING;
        let (usr1, usr2, winch) = (libc::SIGUSR1, libc::SIGUSR2, libc::SIGWINCH);
        let (tstp, cont) = (libc::SIGTSTP, libc::SIGCONT);
        let all = [int, quit, term, hup, usr1, usr2, winch, tstp, cont];
        // SAFETY: the handler stores words and sends a signal, and restores errno. Without
        // SA_RESTART a signal interrupts the wait for the command.
        Some(Signals(unsafe { HandledSignals::new(all, on_signal, 0) }))
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.0.put_back();
        TARGET.store(0, Ordering::SeqCst);
        TAKEN.store(false, Ordering::SeqCst);
    }
}

extern "C" fn on_signal(signal: c_int, info: *const libc::siginfo_t, _: *const c_void) {
    let target = TARGET.load(Ordering::SeqCst);
    // SAFETY: the kernel passes a live siginfo to a handler with SA_SIGINFO, with the sender of a
    // signal from a process; errno is restored.
    unsafe {
        let errno = *libc::__errno_location();
        let is_from_process = (*info).si_code <= 0;
        // An editor that suspends itself sends SIGTSTP to its whole process group, so the command
        // already has it.
        let is_for_group = signal == libc::SIGTSTP
            && is_from_process
            && libc::getpgid((*info).si_pid()) == libc::getpgrp();
        match target {
            0 if ENDING.contains(&signal) => STOP.store(true, Ordering::SeqCst),
            0 if signal == libc::SIGTSTP => drop(libc::kill(libc::getpid(), libc::SIGSTOP)),
            0 => {}
            _ if signal == libc::SIGCONT && SUSPENDED.swap(false, Ordering::SeqCst) => {}
            _ if is_from_process && !is_for_group => drop(libc::kill(target, signal)),
            _ => {}
        }
        *libc::__errno_location() = errno;
    }
}

/// The controlling terminal of this process.
fn terminal() -> Option<OwnedFd> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NOCTTY;
    // SAFETY: the name is NUL-terminated, and the new descriptor is nobody else's.
    unsafe {
        let terminal = libc::open(c"/dev/tty".as_ptr(), flags);
        (terminal >= 0).then(|| OwnedFd::from_raw_fd(terminal))
    }
}

/// Blocks all signals of the calling thread until this value is dropped.
struct Mask(libc::sigset_t);

impl Mask {
    fn block_all() -> Mask {
        let mut all = MaybeUninit::<libc::sigset_t>::zeroed();
        let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: sigfillset fills in `all`, pthread_sigmask `before`; a zeroed sigset_t is an
        // empty one.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            Mask(before.assume_init())
        }
    }
}

impl Drop for Mask {
    fn drop(&mut self) {
        // SAFETY: the set is one that pthread_sigmask filled in.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut())
        };
    }
}

/// Signals whose disposition this program changes: Rust's runtime ignores SIGPIPE before `main`; a
/// parent that waits must not ignore SIGCHLD; SIGXFSZ is ignored, so that write(2) returns the
/// error. A command must get the dispositions that this process inherited.
const OUR_OWN: [c_int; 3] = [libc::SIGPIPE, libc::SIGCHLD, libc::SIGXFSZ];
/// By index in [`OUR_OWN`]: whether the signal was ignored when the program started.
static WERE_IGNORED: [AtomicBool; OUR_OWN.len()] =
    [const { AtomicBool::new(false) }; OUR_OWN.len()];
/// Bits of the standard streams that were closed when the program started. Rust's runtime opens
/// /dev/null in their place.
static WERE_CLOSED: AtomicI32 = AtomicI32::new(0);

extern "C" fn record_inherited() {
    for (was_ignored, signal) in WERE_IGNORED.iter().zip(OUR_OWN) {
        let is_ignored = disposition(signal).sa_sigaction == libc::SIG_IGN;
        was_ignored.store(is_ignored, Ordering::SeqCst);
    }
    for fd in 0..3 {
        // SAFETY: no pointers.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            WERE_CLOSED.fetch_or(1 << fd, Ordering::SeqCst);
        }
    }
}

/// Runs before Rust's runtime: the loader calls the functions in `.init_array`.
#[used]
// SAFETY: the section holds pointers to functions; this one needs nothing of the runtime.
#[unsafe(link_section = ".init_array")]
static RECORD_INHERITED: extern "C" fn() = record_inherited;

/// Whether a standard stream was closed when this program started; a command must inherit it
/// closed.
pub fn was_closed(fd: u32) -> bool {
    fd < 3 && WERE_CLOSED.load(Ordering::SeqCst) & 1 << fd != 0
}

fn restore_closed() {
    for fd in (0..3).filter(|fd| was_closed(*fd)) {
        // SAFETY: no pointers; Rust's runtime opened the descriptor, and nothing in this process, which
        // becomes another program, uses it.
        unsafe { libc::close(fd as c_int) };
    }
}

fn restore_signals() {
    for (was_ignored, signal) in WERE_IGNORED.iter().zip(OUR_OWN) {
        let was_ignored = was_ignored.load(Ordering::SeqCst);
        set_disposition(
            signal,
            if was_ignored {
                libc::SIG_IGN
            } else {
                libc::SIG_DFL
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(args: &[&str], prepare: impl FnOnce() -> Result<()>) -> HeldCommand {
        let args: Vec<CString> = args.iter().map(|arg| CString::new(*arg).unwrap()).collect();
        HeldCommand::fork(&args[0], &args, prepare).unwrap()
    }

    /// Whether a process sleeps in the kernel: a held child has nothing to wait for except `go`.
    #[allow(clippy::disallowed_methods, reason = "the test looks past the gate")]
    fn is_asleep(pid: i32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('S')
    }

    #[test]
    fn a_held_command_runs_after_go() {
        let word = SharedWords::new(1).unwrap();
        let held = held(&["/bin/sh", "-c", "exit 7"], || {
            word[0].store(1, Ordering::SeqCst);
            Ok(())
        });
        while !is_asleep(held.id()) {
            std::thread::yield_now();
        }
        assert_eq!(word[0].load(Ordering::SeqCst), 0);
        let mut running = held.go().unwrap();
        let ended = running.wait().unwrap();
        assert_eq!(
            (ended.status, ended.signal, running.unstarted()),
            (Some(7), None, None)
        );
        assert_eq!(
            (word[0].load(Ordering::SeqCst), running.try_wait().err()),
            (1, Some(Errno::ECHILD))
        );
    }

    #[test]
    fn a_command_that_cannot_run_returns_why() {
        for (args, prepared, why) in [
            (
                ["/no/such/program"],
                Ok(()),
                StartError::NotRun(Errno::ENOENT),
            ),
            (["/"], Ok(()), StartError::NotRun(Errno::EACCES)),
            (
                ["/bin/true"],
                Err(Errno::EPERM),
                StartError::Unprepared(Errno::EPERM),
            ),
        ] {
            let mut running = held(&args, || prepared).go().unwrap();
            running.wait().unwrap();
            assert_eq!(running.unstarted(), Some(why));
        }
    }

    #[test]
    fn a_dropped_command_is_killed() {
        let held = held(&["/bin/true"], || Ok(()));
        let pid = held.id();
        drop(held);
        // SAFETY: no pointers.
        assert_eq!(unsafe { libc::kill(pid, 0) }, -1);
    }

    #[test]
    fn the_signal_that_ended_a_command_is_returned() {
        let mut running = held(&["/bin/sh", "-c", "kill -TERM $$"], || Ok(()))
            .go()
            .unwrap();
        let ended = running.wait().unwrap();
        assert_eq!((ended.status, ended.signal), (None, Some(libc::SIGTERM)));
    }

    #[test]
    fn a_command_inherits_neither_descriptors_nor_the_signal_mask() {
        let own = crate::fs::openat(crate::fs::CWD, c"/", crate::fs::Open::DIRECTORY).unwrap();
        let script =
            "test ! -e /proc/self/fd/$0 && grep -q 'SigBlk:.0000000000000000' /proc/self/status";
        let number = std::os::fd::AsRawFd::as_raw_fd(&own).to_string();
        let mut running = held(&["/bin/sh", "-c", script, &number], || Ok(()))
            .go()
            .unwrap();
        assert_eq!(running.wait().unwrap().status, Some(0));
    }
}
