//! A command that is started, but held before its program until the one who watches it is ready.
//!
//! The command is to notice nothing: it has the environment, descriptors, terminal, process group,
//! signal mask and dispositions that this process was given itself. Between [`Held::go`] and its
//! execve(2) it makes no call that does file-system work, so that whoever counts need leave nothing
//! out. None of this is file-system work of ours, and none of it is counted.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use libc::{c_char, c_int, c_void};

use crate::process::{self, Ended, Shared};
use crate::signals::{Handled, disposition, forget_handlers};
use crate::{Errno, Result};

/// Words that the two processes share.
const GO: usize = 0;
const UNPREPARED: usize = 1;
const NOT_RUN: usize = 2;
const WORDS: usize = 3;

/// Why a command has not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unstarted {
    /// What was to be done before it failed.
    Unprepared(Errno),
    /// execve(2) failed.
    NotRun(Errno),
}

/// A forked process that waits for [`Held::go`] to become the command. Dropping it ends it; if this
/// process ends, it ends by itself.
pub struct Held(Option<Running>);

impl Held {
    /// Forks. After [`Held::go`] the child runs `prepare`, and then execve(2) with these arguments.
    ///
    /// `prepare` runs in a copy of what may be a process of several threads: it may make system
    /// calls, but must not allocate, take a lock, or panic.
    pub fn fork(
        program: &CStr,
        args: &[CString],
        prepare: impl FnOnce() -> Result<()>,
    ) -> Result<Held> {
        let words = Shared::new(WORDS)?;
        let mut argv: Vec<*const c_char> = args.iter().map(|arg| arg.as_ptr()).collect();
        argv.push(std::ptr::null());
        // SAFETY: getpid cannot fail and touches no memory.
        let parent = unsafe { libc::getpid() };
        // No handler of this process may run in the child: it might take away what is the parent's.
        let mask = Mask::block_all();
        let pid = process::fork()?; // the child never returns from the block below
        if pid == 0 {
            forget_handlers(1..=64); // as execve(2) does anyway
            drop(mask);
            let child = std::panic::AssertUnwindSafe(|| {
                become_command(&words, parent, program, &argv, prepare)
            });
            let _ = std::panic::catch_unwind(child);
            // SAFETY: _exit does not return, and runs nothing of the parent's that was copied into
            // this process.
            unsafe { libc::_exit(101) }
        }
        let signals = Signals::pass_on_to(pid);
        drop(mask);
        Ok(Held(Some(Running {
            pid,
            words,
            signals,
        })))
    }

    /// Its process id.
    pub fn id(&self) -> i32 {
        self.0.as_ref().map_or(0, |running| running.pid)
    }

    /// Lets it become the command.
    pub fn go(mut self) -> Result<Running> {
        let running = self.0.take().ok_or(Errno::ESRCH)?;
        let go = &running.words[GO];
        go.store(u64::MAX, Ordering::SeqCst);
        // SAFETY: the word is mapped and aligned. Who does not sleep there yet finds it changed.
        unsafe { libc::syscall(libc::SYS_futex, go.as_ptr(), libc::FUTEX_WAKE, 1, 0, 0, 0) };
        Ok(running)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(mut running) = self.0.take() {
            // SAFETY: no pointers; it has not been waited for, so the id is its own.
            unsafe { libc::kill(running.pid, libc::SIGKILL) };
            let _ = running.wait();
        }
    }
}

/// The child's way to its program. It returns only when there is nobody to let it go.
fn become_command(
    words: &Shared,
    parent: libc::pid_t,
    program: &CStr,
    argv: &[*const c_char],
    prepare: impl FnOnce() -> Result<()>,
) {
    give_back_signals();
    give_back_closed();
    // Not by a pipe: reading and closing it would be file-system work that a meter sees.
    let moment = libc::timespec {
        tv_sec: 0,
        tv_nsec: 50_000_000,
    };
    while words[GO].load(Ordering::SeqCst) == 0 {
        // SAFETY: the word is mapped and aligned, of its 64 bits all or none are set, and `moment`
        // lives.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                words[GO].as_ptr(),
                libc::FUTEX_WAIT,
                0,
                &raw const moment,
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
            // a null pointer; so does `environ`, which nobody else can change in this copy.
            unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), environ) };
            (NOT_RUN, Errno::last())
        }
    };
    words[word].store(errno.0 as u64, Ordering::SeqCst);
}

unsafe extern "C" {
    /// [environ(7)](https://man7.org/linux/man-pages/man7/environ.7.html)
    static environ: *const *const c_char;
}

/// The command. Dropping this leaves it alone.
pub struct Running {
    pid: libc::pid_t,
    words: Shared,
    signals: Option<Signals>,
}

impl Running {
    /// Its process id.
    pub fn id(&self) -> i32 {
        self.pid
    }

    /// Why it ended before its program began; to be asked when it has ended.
    pub fn unstarted(&self) -> Option<Unstarted> {
        let errno = |word: usize| match self.words[word].load(Ordering::SeqCst) {
            0 => None,
            errno => Some(Errno(errno as i32)),
        };
        errno(UNPREPARED)
            .map(Unstarted::Unprepared)
            .or_else(|| errno(NOT_RUN).map(Unstarted::NotRun))
    }

    /// Waits for its end, whatever else happens, as its parent. Who traces it waits with
    /// [`crate::ptrace::wait`] instead.
    ///
    /// # Errors
    /// `ECHILD` when it has been waited for before.
    pub fn wait(&mut self) -> Result<Ended> {
        loop {
            match process::wait4(self.pid, 0) {
                Err(Errno::EINTR) => {}
                // Traced processes also tell of their stops.
                Ok((
                    _,
                    Ended {
                        status: None,
                        signal: None,
                        ..
                    },
                )) => {}
                other => {
                    self.ended();
                    return other.map(|(_, ended)| ended);
                }
            }
        }
    }

    /// How it ended, if it has; does not wait.
    ///
    /// # Errors
    /// `ECHILD` when it has been waited for before.
    pub fn try_wait(&mut self) -> Result<Option<Ended>> {
        let (pid, ended) = process::wait4(self.pid, libc::WNOHANG)?;
        if pid == 0 {
            return Ok(None);
        }
        self.ended();
        Ok(Some(ended))
    }

    /// To be said when it has been waited for in another way: from now on its id may be somebody
    /// else's, and signals that come are not passed on, but noted.
    pub fn ended(&mut self) {
        if let Some(signals) = &self.signals {
            signals.pass_on_no_more();
        }
    }

    /// Whether SIGINT, SIGQUIT, SIGTERM or SIGHUP has come since [`Running::ended`]: nobody need
    /// wait for what the command left behind.
    pub fn asked_to_stop(&self) -> bool {
        self.signals.is_some() && STOP.load(Ordering::SeqCst)
    }
}

/// The process that signals are passed on to; 0 when there is none.
static TARGET: AtomicI32 = AtomicI32::new(0);
/// A signal has come when there was none.
static STOP: AtomicBool = AtomicBool::new(false);
/// The dispositions are somebody's.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Signals by which a process is asked to end; when there is no command any more, this one is
/// meant.
const ENDING: [c_int; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];

/// Until this is dropped, the signals of [`ENDING`], SIGUSR1, SIGUSR2 and SIGWINCH do nothing to
/// this process. What somebody sent goes on to the command; what the terminal sent, it has sent to
/// the command too. What was ignored stays ignored.
struct Signals(Handled<7>);

impl Signals {
    /// `None` when another command has them already: this process runs several.
    fn pass_on_to(pid: libc::pid_t) -> Option<Signals> {
        if TAKEN.swap(true, Ordering::SeqCst) {
            return None;
        }
        STOP.store(false, Ordering::SeqCst);
        TARGET.store(pid, Ordering::SeqCst);
        let [int, quit, term, hup] = ENDING;
        let all = [
            int,
            quit,
            term,
            hup,
            libc::SIGUSR1,
            libc::SIGUSR2,
            libc::SIGWINCH,
        ];
        // SAFETY: the handler stores words and sends a signal, and leaves errno as it was. No
        // SA_RESTART: who waits is to look.
        Some(Signals(unsafe { Handled::new(all, on_signal, 0) }))
    }

    fn pass_on_no_more(&self) {
        TARGET.store(0, Ordering::SeqCst);
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
    if target == 0 {
        if ENDING.contains(&signal) {
            STOP.store(true, Ordering::SeqCst);
        }
        return;
    }
    // SAFETY: the kernel hands a live siginfo to a handler that asks for one; errno is put back as
    // it was.
    unsafe {
        let sent_by_somebody = (*info).si_code <= 0;
        if sent_by_somebody {
            let errno = *libc::__errno_location();
            libc::kill(target, signal);
            *libc::__errno_location() = errno;
        }
    }
}

/// All signals blocked for the calling thread, until this is dropped.
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

/// Signals that this program treats in a way of its own: Rust's runtime ignores SIGPIPE always, and
/// before `main`; who waits for children cannot ignore SIGCHLD; and a file that may not be larger
/// is an error, not the end.
const OUR_OWN: [c_int; 3] = [libc::SIGPIPE, libc::SIGCHLD, libc::SIGXFSZ];
/// Which of them were ignored when it began.
static WERE_IGNORED: [AtomicBool; OUR_OWN.len()] =
    [const { AtomicBool::new(false) }; OUR_OWN.len()];
/// Which of standard input, output and error were closed then, as bits. Rust's runtime opens
/// /dev/null in their place.
static WERE_CLOSED: AtomicI32 = AtomicI32::new(0);

extern "C" fn look_at_beginning() {
    for (was, signal) in WERE_IGNORED.iter().zip(OUR_OWN) {
        was.store(
            disposition(signal).sa_sigaction == libc::SIG_IGN,
            Ordering::SeqCst,
        );
    }
    for fd in 0..3 {
        // SAFETY: no pointers.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            WERE_CLOSED.fetch_or(1 << fd, Ordering::SeqCst);
        }
    }
}

/// Run by the loader, before the runtime.
#[used]
// SAFETY: the section holds pointers to functions; this one needs nothing that is not there at that
// time.
#[unsafe(link_section = ".init_array")]
static LOOK_AT_BEGINNING: extern "C" fn() = look_at_beginning;

/// Whether a descriptor is standard input, output or error, and was closed when this program began:
/// a command has it closed, too.
pub fn was_closed(fd: u32) -> bool {
    fd < 3 && WERE_CLOSED.load(Ordering::SeqCst) & 1 << fd != 0
}

fn give_back_closed() {
    for fd in (0..3).filter(|fd| was_closed(*fd)) {
        // SAFETY: no pointers; what is open there is the runtime's, and nobody in this process,
        // which becomes another program, uses it.
        unsafe { libc::close(fd as c_int) };
    }
}

fn give_back_signals() {
    for (was, signal) in WERE_IGNORED.iter().zip(OUR_OWN) {
        let was = if was.load(Ordering::SeqCst) {
            libc::SIG_IGN
        } else {
            libc::SIG_DFL
        };
        // SAFETY: both are valid dispositions.
        unsafe { libc::signal(signal, was) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(args: &[&str], prepare: impl FnOnce() -> Result<()>) -> Held {
        let args: Vec<CString> = args.iter().map(|arg| CString::new(*arg).unwrap()).collect();
        Held::fork(&args[0], &args, prepare).unwrap()
    }

    #[test]
    fn it_waits_and_then_runs() {
        let word = Shared::new(1).unwrap();
        let held = held(&["/bin/sh", "-c", "exit 7"], || {
            word[0].store(1, Ordering::SeqCst);
            Ok(())
        });
        std::thread::sleep(std::time::Duration::from_millis(20));
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
    fn what_cannot_run_is_said() {
        for (args, prepared, why) in [
            (
                ["/no/such/program"],
                Ok(()),
                Unstarted::NotRun(Errno::ENOENT),
            ),
            (["/"], Ok(()), Unstarted::NotRun(Errno::EACCES)),
            (
                ["/bin/true"],
                Err(Errno::EPERM),
                Unstarted::Unprepared(Errno::EPERM),
            ),
        ] {
            let mut running = held(&args, || prepared).go().unwrap();
            running.wait().unwrap();
            assert_eq!(running.unstarted(), Some(why));
        }
    }

    #[test]
    fn one_that_is_let_go_of_without_a_word_ends() {
        let held = held(&["/bin/true"], || Ok(()));
        let pid = held.id();
        drop(held);
        // SAFETY: no pointers.
        assert_eq!(unsafe { libc::kill(pid, 0) }, -1);
    }

    #[test]
    fn a_signal_ends_it_and_is_named() {
        let mut running = held(&["/bin/sh", "-c", "kill -TERM $$"], || Ok(()))
            .go()
            .unwrap();
        let ended = running.wait().unwrap();
        assert_eq!((ended.status, ended.signal), (None, Some(libc::SIGTERM)));
    }

    #[test]
    fn descriptors_and_mask_are_its_own() {
        let mine = crate::fs::openat(crate::fs::CWD, c"/", crate::fs::Open::DIRECTORY).unwrap();
        let script =
            "test ! -e /proc/self/fd/$0 && grep -q 'SigBlk:.0000000000000000' /proc/self/status";
        let number = std::os::fd::AsRawFd::as_raw_fd(&mine).to_string();
        let mut running = held(&["/bin/sh", "-c", script, &number], || Ok(()))
            .go()
            .unwrap();
        assert_eq!(running.wait().unwrap().status, Some(0));
    }
}
