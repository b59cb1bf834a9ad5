//! The program under test.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::Value;

use super::schema;
use super::wait::LIMIT;

/// Turns a mixed list of strings and paths into arguments.
macro_rules! args {
    ($($arg:expr),* $(,)?) => { [$(::std::ffi::OsString::from(&$arg)),*] };
}
pub(crate) use args;

/// The path of the program under test.
pub(crate) fn fathom_path() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_fathom"))
}

/// The program with empty standard input and a minimal environment.
pub(crate) fn fathom<A: Into<OsString>>(args: impl IntoIterator<Item = A>) -> Command {
    program(fathom_path(), args)
}

/// The same for the program at `path`.
pub(crate) fn program<A: Into<OsString>>(
    path: &Path,
    args: impl IntoIterator<Item = A>,
) -> Command {
    let mut command = Command::new(path);
    command
        .args(args.into_iter().map(Into::into))
        .stdin(Stdio::null())
        .env("LC_ALL", "C.UTF-8")
        .env_remove("NO_COLOR");
    heeding_signals(&mut command);
    command
}

/// Resets the signal dispositions of a command to those of a command at a terminal. A shell without
/// job control starts background commands (`cargo test & wait`, common in CI) with SIGINT and
/// SIGQUIT ignored, and nohup(1) ignores SIGHUP. Child processes inherit that, and tests that
/// interrupt the program would hang.
fn heeding_signals(command: &mut Command) {
    let heed = || {
        for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP] {
            // SAFETY: no pointers; the default is no handler.
            if unsafe { libc::signal(signal, libc::SIG_DFL) } == libc::SIG_ERR {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: between fork and exec it makes system calls, and allocates nothing.
    unsafe { command.pre_exec(heed) };
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    pub(crate) elapsed: Duration,
    command: String,
}

/// Runs `command` to its end, and to the end of its output.
pub(crate) fn run(command: &mut Command) -> Ran {
    start(command).end()
}

/// A command that was started. Its output waits in pipes, so only little fits before
/// [`Running::end`].
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    started: Instant,
    command: String,
}

/// Starts `command`.
pub(crate) fn start(command: &mut Command) -> Running {
    let started = Instant::now();
    let spawned = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    Running {
        child: spawned.unwrap_or_else(|error| panic!("{command:?}: {error}")),
        started,
        command: format!("{command:?}"),
    }
}

impl Running {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Fails the test, with the output of the command, if it has ended.
    pub(crate) fn assert_running(&mut self) {
        if self.child.try_wait().unwrap().is_some() {
            let (mut out, mut err) = (String::new(), String::new());
            let _ = self.child.stdout.as_mut().unwrap().read_to_string(&mut out);
            let _ = self.child.stderr.as_mut().unwrap().read_to_string(&mut err);
            panic!("{} has ended: {out}\n{err}", self.command);
        }
    }

    /// Whether the command has ended: it is a zombie until [`Running::end`].
    pub(crate) fn has_ended(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('Z')
    }

    /// Waits for the end of the command and of its output.
    pub(crate) fn end(mut self) -> Ran {
        let child = &mut self.child;
        let (mut stdout, mut stderr) = (child.stdout.take(), child.stderr.take());
        let mut end = Some(pidfd_open(Pid::from_child(child), PidfdFlags::empty()).unwrap());
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut elapsed = Duration::ZERO;
        while stdout.is_some() || stderr.is_some() || end.is_some() {
            let left = LIMIT.saturating_sub(self.started.elapsed());
            let [out_ready, err_ready, ended] = await_any(
                [
                    stdout.as_ref().map(AsFd::as_fd),
                    stderr.as_ref().map(AsFd::as_fd),
                    end.as_ref().map(AsFd::as_fd),
                ],
                left,
            );
            if out_ready {
                read_some(&mut stdout, &mut out);
            }
            if err_ready {
                read_some(&mut stderr, &mut err);
            }
            if ended {
                (end, elapsed) = (None, self.started.elapsed());
            }
            if left.is_zero() {
                let _ = child.kill();
                let what = if end.is_some() {
                    "has not ended"
                } else {
                    "has ended, but another process holds its output open"
                };
                panic!("{} {what} after {LIMIT:?}", self.command);
            }
        }
        let ran = Ran {
            status: child.wait().unwrap(),
            stdout: out,
            stderr: String::from_utf8_lossy(&err).into_owned(),
            elapsed,
            command: std::mem::take(&mut self.command),
        };
        assert!(!ran.stderr.contains("panicked at"), "{ran}");
        ran
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sleeps until at least one of the descriptors is readable, at end of file or in error, for at
/// most `limit`. Returns which.
fn await_any<const N: usize>(fds: [Option<BorrowedFd<'_>>; N], limit: Duration) -> [bool; N] {
    let watched = fds.iter().flatten();
    let mut polled: Vec<PollFd<'_>> = watched
        .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
        .collect();
    match poll(&mut polled, Some(&Timespec::try_from(limit).unwrap())) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => panic!("poll: {error}"),
    }
    let mut results = polled.iter();
    fds.map(|fd| fd.is_some() && !results.next().unwrap().revents().is_empty())
}

/// Reads once from a pipe; at its end closes it.
fn read_some(pipe: &mut Option<impl Read>, all: &mut Vec<u8>) {
    let mut piece = [0; 1 << 16];
    match pipe.as_mut().unwrap().read(&mut piece) {
        Ok(0) => *pipe = None,
        Ok(n) => all.extend(&piece[..n]),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
        Err(error) => panic!("{error}"),
    }
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let stdout = String::from_utf8_lossy(&self.stdout);
        let start: String = stdout.chars().take(4000).collect();
        write!(
            f,
            "{}\n{}\nstdout: {start}\nstderr: {}",
            self.command, self.status, self.stderr
        )
    }
}

impl Ran {
    /// The exit status; fails the test if a signal ended the run.
    pub(crate) fn code(&self) -> i32 {
        self.status
            .code()
            .unwrap_or_else(|| panic!("ended by signal {:?}: {self}", self.status.signal()))
    }

    /// Checks the exit status, and returns the run.
    pub(crate) fn exits(self, code: i32) -> Ran {
        assert_eq!(self.code(), code, "{self}");
        self
    }

    /// Checks that the command was refused: status 2, nothing on stdout, one line on stderr and at
    /// most one hint.
    pub(crate) fn refused(self) -> Ran {
        let ran = self.exits(2);
        assert!(ran.stdout.is_empty(), "{ran}");
        let lines: Vec<&str> = ran.stderr.trim_end().lines().collect();
        let is_message = match lines[..] {
            [message] => message.starts_with("fathom: "),
            [message, hint] => message.starts_with("fathom: ") && hint.starts_with("hint: "),
            _ => false,
        };
        assert!(is_message, "{ran}");
        ran
    }

    /// The object on stdout, after checking its schema, and that the exit status matches its
    /// warnings.
    pub(crate) fn json(&self) -> Value {
        let value: Value =
            serde_json::from_slice(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self}"));
        schema::check(&value);
        let warned = value["warnings"]
            .as_array()
            .is_some_and(|warnings| !warnings.is_empty());
        match value["result"]["exit"].as_i64() {
            Some(exit) => assert_eq!(
                i64::from(self.code()),
                exit,
                "the status is the command's: {self}"
            ),
            None => assert_eq!(
                self.code() == 1,
                warned,
                "status 1 goes with warnings: {self}"
            ),
        }
        if value["result"]["complete"] == false {
            assert!(warned, "incomplete without a reason: {self}");
        }
        value
    }

    /// The lines on stdout.
    pub(crate) fn lines(&self) -> Vec<&str> {
        std::str::from_utf8(&self.stdout).unwrap().lines().collect()
    }
}

/// The exact bytes of a name in JSON: `<field>_b64` where there is one.
pub(crate) fn exact(object: &Value, field: &str) -> Vec<u8> {
    match object[format!("{field}_b64")].as_str() {
        Some(coded) => base64::engine::general_purpose::STANDARD
            .decode(coded)
            .unwrap(),
        None => object[field]
            .as_str()
            .unwrap_or_else(|| panic!("no {field} in {object}"))
            .into(),
    }
}

/// A path in JSON.
pub(crate) fn path(object: &Value, field: &str) -> PathBuf {
    PathBuf::from(OsString::from_vec(exact(object, field)))
}

/// The targets of `result.mounts`, in order.
pub(crate) fn targets(value: &Value) -> Vec<PathBuf> {
    value["result"]["mounts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|mount| path(mount, "target"))
        .collect()
}

/// The only mount at `target`.
pub(crate) fn mount_at<'a>(value: &'a Value, target: &Path) -> &'a Value {
    let mounts = value["result"]["mounts"].as_array().unwrap();
    let mut here = mounts
        .iter()
        .filter(|mount| path(mount, "target") == target);
    match (here.next(), here.next()) {
        (Some(mount), None) => mount,
        _ => panic!("not one mount at {}: {value}", target.display()),
    }
}

/// The number of calls of each gate.
pub(crate) fn calls(gates: &Value) -> BTreeMap<String, u64> {
    let gates = gates.as_object().unwrap();
    gates
        .iter()
        .map(|(name, gate)| (name.clone(), gate["calls"].as_u64().unwrap()))
        .collect()
}
