//! strace: counts of system calls to compare with fathom's, and faults at a chosen call.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use serde_json::Value;

use super::run::{Ran, fathom_path, run};

/// A run of the program, with the number of calls and errors of each system call, by strace's
/// names.
pub(crate) struct Traced {
    pub(crate) ran: Ran,
    pub(crate) counts: BTreeMap<String, (u64, u64)>,
}

/// Runs the program under `strace -f -C`. Its table omits calls that strace does not know by name,
/// such as listmount: those are counted in the lines of the log.
pub(crate) fn trace<A: Into<OsString>>(log: &Path, args: impl IntoIterator<Item = A>) -> Traced {
    let mut command = Command::new("strace");
    command
        .args(["-f", "-C", "-U", "name,calls,errors", "-s", "0", "-o"])
        .arg(log);
    command
        .arg("--")
        .arg(fathom_path())
        .args(args.into_iter().map(Into::into));
    let ran = run(&mut command);
    let log = String::from_utf8_lossy(&std::fs::read(log).unwrap()).into_owned();
    let (lines, table) = log
        .rsplit_once("syscall  ")
        .unwrap_or_else(|| panic!("no table in the log: {ran}"));

    let mut counts = BTreeMap::new();
    for row in table.lines() {
        let fields: Vec<&str> = row.split_whitespace().collect();
        if let [name, calls, errors @ ..] = &fields[..]
            && *name != "total"
            && let Ok(calls) = calls.parse()
        {
            counts.insert(
                (*name).to_owned(),
                (
                    calls,
                    errors.first().map_or(0, |errors| errors.parse().unwrap()),
                ),
            );
        }
    }
    let unknown = [
        ("0x1c3", "cachestat"),
        ("0x1c9", "statmount"),
        ("0x1ca", "listmount"),
        ("0x1d0", "getxattrat"),
        ("0x1d1", "listxattrat"),
    ];
    for (number, name) in unknown {
        let begins = format!("syscall_{number}(");
        let resumes = format!("syscall_{number} resumed");
        let calls = lines.lines().filter(|line| line.contains(&begins)).count() as u64;
        let ours = |line: &&str| line.contains(&begins) || line.contains(&resumes);
        let errors = lines
            .lines()
            .filter(ours)
            .filter(|line| line.contains("= -1 "))
            .count() as u64;
        if calls > 0 {
            counts.insert((*name).to_owned(), (calls, errors));
        }
    }
    // isatty(3) is not file-system work.
    let asked = lines.lines().filter(|line| {
        line.contains("ioctl(") && (line.contains("TCGETS") || line.contains("TIOCGWINSZ"))
    });
    let (asked, failed) = asked.fold((0, 0), |(n, f), line| {
        (n + 1, f + u64::from(line.contains("= -1 ")))
    });
    if let Some((calls, errors)) = counts.get_mut("ioctl") {
        (*calls, *errors) = (*calls - asked, *errors - failed);
    }
    // The standard library writes to standard output and standard error.
    let told = lines
        .lines()
        .filter(|line| line.contains(" write(1, ") || line.contains(" write(2, "))
        .count() as u64;
    if let Some((calls, _)) = counts.get_mut("write") {
        *calls -= told;
    }
    Traced { ran, counts }
}

/// The calls of a run minus those of `--version`.
pub(crate) fn less_start<A: Into<OsString>>(
    log: &Path,
    args: impl IntoIterator<Item = A>,
) -> Traced {
    let idle = trace(log, ["--version"]).counts;
    let mut traced = trace(log, args);
    for (name, (calls, errors)) in &mut traced.counts {
        let (fewer, fewer_errors) = idle.get(name).copied().unwrap_or_default();
        *calls = calls.saturating_sub(fewer);
        *errors = errors.saturating_sub(fewer_errors);
    }
    traced
}

/// System calls for file-system work: each must go through the gate.
const WATCHED: [&str; 60] = [
    "statx",
    "newfstatat",
    "stat",
    "lstat",
    "fstat",
    "getdents64",
    "getdents",
    "open",
    "openat",
    "openat2",
    "close",
    "chdir",
    "fchdir",
    "getcwd",
    "readlink",
    "readlinkat",
    "pread64",
    "preadv",
    "statfs",
    "fstatfs",
    "syncfs",
    "fsync",
    "sync_file_range",
    "rename",
    "renameat2",
    "listmount",
    "statmount",
    "ioctl",
    "read",
    "open_tree",
    "access",
    "faccessat",
    "listxattrat",
    "getxattrat",
    "llistxattr",
    "lgetxattr",
    "flistxattr",
    "fgetxattr",
    "mkdirat",
    "mknodat",
    "symlinkat",
    "linkat",
    "unlinkat",
    "fchownat",
    "fchmod",
    "fchmodat",
    "utimensat",
    "lsetxattr",
    "fsetxattr",
    "fremovexattr",
    "lremovexattr",
    "ftruncate",
    "pwrite64",
    "umask",
    "cachestat",
    "fadvise64",
    "fallocate",
    "flock",
    "lseek",
    "mincore",
];

/// Checks that strace and the gates counted the same calls. strace counts all ioctls as `ioctl`.
pub(crate) fn agree(gates: &Value, traced: &BTreeMap<String, (u64, u64)>, what: &str) {
    let mut counted: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (name, gate) in gates.as_object().unwrap() {
        let name = if name.starts_with("ioctl:") {
            "ioctl"
        } else {
            name
        };
        let sum = counted.entry(name).or_default();
        *sum = (
            sum.0 + gate["calls"].as_u64().unwrap(),
            sum.1 + gate["errors"].as_u64().unwrap(),
        );
    }
    for name in counted.keys().copied().chain(WATCHED) {
        let witness = traced.get(name).copied().unwrap_or_default();
        assert_eq!(
            counted.get(name).copied().unwrap_or_default(),
            witness,
            "{what}: {name} (calls, errors)"
        );
    }
}

/// A command that runs `command` under strace, with options and a log file.
fn strace(command: &Command, options: &[String], log: &Path) -> Command {
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-qq", "-s0", "-o"])
        .arg(log)
        .args(options);
    strace.arg(command.get_program()).args(command.get_args());
    if let Some(at) = command.get_current_dir() {
        strace.current_dir(at);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => strace.env(name, value),
            None => strace.env_remove(name),
        };
    }
    // cargo sets LD_LIBRARY_PATH: searching its directories for libraries adds some dozen calls.
    strace.env_remove("LD_LIBRARY_PATH");
    strace
}

/// Runs `command` with a fault, such as `signal=KILL` or `error=EIO`, at the `nth` call of this
/// name in each of its threads. A signal that ends the command also ends strace, so the returned
/// status is that of the command. Also returns whether the fault occurred.
pub(crate) fn with_fault(
    command: &Command,
    (call, fault): (&str, &str),
    nth: usize,
) -> (ExitStatus, bool) {
    let log = tempfile::NamedTempFile::new().unwrap();
    let options = [
        format!("-etrace={call}"),
        format!("-einject={call}:{fault}:when={nth}"),
    ];
    let mut strace = strace(command, &options, log.path());
    let quiet = strace.stdin(Stdio::null()).stdout(Stdio::null());
    let status = quiet.stderr(Stdio::null()).status().unwrap();
    let log = std::fs::read_to_string(log.path()).unwrap();
    (
        status,
        status.signal().is_some() || log.contains("(INJECTED)"),
    )
}

/// Runs `command`, which must succeed. Returns, for each of these calls, the maximum number that
/// one of its threads made.
pub(crate) fn calls_in_a_thread(command: &Command, calls: &[&str]) -> BTreeMap<String, usize> {
    let log = tempfile::NamedTempFile::new().unwrap();
    let options = [format!("-etrace={}", calls.join(","))];
    run(&mut strace(command, &options, log.path())).exits(0);
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let log = std::fs::read_to_string(log.path()).unwrap();
    for line in log.lines() {
        // A call that was interrupted by output of other threads has two lines; the second one has
        // no parenthesis after the name.
        if let Some((thread, line)) = line.split_once(' ')
            && let Some((call, _)) = line.trim_start().split_once('(')
        {
            *counts.entry((call, thread)).or_default() += 1;
        }
    }
    let mut most = BTreeMap::new();
    for ((call, _), count) in counts {
        let most: &mut usize = most.entry(call.to_owned()).or_default();
        *most = count.max(*most);
    }
    most
}
