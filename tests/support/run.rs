//! The program under test.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use base64::Engine;
use serde_json::Value;

use super::schema;

/// The time limit of a run: a test fails rather than hangs.
const PATIENCE: Duration = Duration::from_secs(60);

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

/// The same for a program at another path.
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
/// SIGQUIT ignored, and nohup(1) ignores SIGHUP. Descendants inherit that, and a test that
/// interrupts the program would hang.
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
    let shown = format!("{command:?}");
    let started = Instant::now();
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = drain(child.stdout.take().unwrap());
    let stderr = drain(child.stderr.take().unwrap());
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("{shown} has not ended after {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let elapsed = started.elapsed();
    let patience = Duration::from_secs(20);
    let whole = |pipe: Receiver<Vec<u8>>| {
        pipe.recv_timeout(patience)
            .expect("something still holds the output open")
    };
    let stderr = String::from_utf8_lossy(&whole(stderr)).into_owned();
    let ran = Ran {
        status,
        stdout: whole(stdout),
        stderr,
        elapsed,
        command: shown,
    };
    assert!(!ran.stderr.contains("panicked at"), "{ran}");
    ran
}

fn drain(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut all = Vec::new();
        let _ = pipe.read_to_end(&mut all);
        let _ = sender.send(all);
    });
    receiver
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
