//! What `fathom account -p` counts of processes that run already is what `strace -f -c -p` counts,
//! and they do not notice it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::counts::is_metered;
use crate::support::run::program;
use crate::support::{Need, fathom, require, run};

/// The meters that attach.
const ATTACHING: [&str; 1] = ["bpf"];

/// How long a process may take to do what it does at once.
const PATIENCE: Duration = Duration::from_secs(30);

type Counts = BTreeMap<String, (u64, u64)>;

/// A shell that waits until [`Workload::go`], and then works. While it waits it makes no call that
/// is counted: a child waits at the FIFO.
struct Workload {
    child: Child,
    fifo: PathBuf,
}

impl Workload {
    /// `$1` is the directory of the work.
    fn start(at: &Path, work: &str) -> Workload {
        Workload::after(":", at, work)
    }

    /// It does something before it waits.
    fn after(preparation: &str, at: &Path, work: &str) -> Workload {
        let fifo = at.join("fifo");
        let _ = std::fs::remove_file(&fifo);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        let script = format!("{preparation}; cat \"$1/fifo\" & echo waiting; wait; {work}");
        let mut command = program(Path::new("sh"), ["-c", &script, "sh"]);
        command.arg(at).current_dir(at).stdin(Stdio::null());
        command.stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap();
        let pid = child.id();
        let mut line = [0; 8];
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut line)
            .unwrap();
        assert_eq!(&line, b"waiting\n");
        let waiting = [libc::SYS_wait4, libc::SYS_rt_sigsuspend].map(|call| call.to_string());
        let is_waiting = || {
            let call = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap();
            waiting
                .iter()
                .any(|waiting| call.split(' ').next() == Some(waiting))
        };
        let start = Instant::now();
        while !is_waiting() {
            assert!(start.elapsed() < PATIENCE, "the shell does not wait");
            std::thread::sleep(Duration::from_millis(1));
        }
        Workload { child, fifo }
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    fn go(&self) {
        drop(
            std::fs::OpenOptions::new()
                .write(true)
                .open(&self.fifo)
                .unwrap(),
        );
    }

    /// Its output and status.
    fn end(self) -> (String, Option<i32>) {
        let output = self.child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (text, output.status.code())
    }
}

/// Waits for a line on standard error with these words.
fn wait_for(stderr: &mut BufReader<ChildStderr>, words: &str) {
    let mut line = String::new();
    while !line.contains(words) {
        line.clear();
        assert!(
            stderr.read_line(&mut line).unwrap() > 0,
            "no line with: {words}"
        );
    }
}

/// Starts a tracer of these processes, and waits until it has attached.
fn attach(mut command: Command) -> (Child, BufReader<ChildStderr>) {
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    wait_for(&mut stderr, "ttached");
    (child, stderr)
}

fn attach_fathom(meter: &str, pids: &str, report: &Path) -> (Child, BufReader<ChildStderr>) {
    let _ = std::fs::remove_file(report);
    let options = ["account", "--meter", meter, "-p", pids, "--json", "-o"];
    let mut command = fathom(options);
    command.arg(report);
    attach(command)
}

fn interrupt(child: &Child) {
    let pid = Pid::from_raw(child.id() as i32).unwrap();
    kill_process(pid, Signal::INT).unwrap();
}

fn report(at: &Path) -> Value {
    let value: Value = serde_json::from_slice(&std::fs::read(at).unwrap()).unwrap();
    crate::support::schema::check(&value);
    value["result"].clone()
}

fn counts(result: &Value) -> Counts {
    let gates = result["gates"].as_object().unwrap().iter();
    let number = |value: &Value| value.as_u64().unwrap();
    gates
        .map(|(name, gate)| {
            (
                name.clone(),
                (number(&gate["calls"]), number(&gate["errors"])),
            )
        })
        .collect()
}

fn strace_counts(log: &Path) -> Counts {
    let text = std::fs::read_to_string(log).unwrap();
    let row = |row: &str| {
        let mut fields = row.split_whitespace();
        let name = fields
            .next()
            .filter(|name| is_metered(name) && *name != "total")?;
        let calls = fields.next()?.parse().ok()?;
        let errors = fields.next().map_or(0, |errors| errors.parse().unwrap());
        Some((name.to_owned(), (calls, errors)))
    };
    text.lines().filter_map(row).collect()
}

/// Every meter counts what strace counts of this work, and finds these files.
fn agree(work: &str, pids_of: impl Fn(&Workload) -> String, files: &[&str]) {
    let at = tempfile::tempdir().unwrap();
    let (log, json) = (at.path().join("log"), at.path().join("report"));
    std::fs::write(at.path().join("input"), "a\nb\n").unwrap();
    let workload = Workload::start(at.path(), work);
    let mut strace = program(
        Path::new("strace"),
        ["-f", "-c", "-U", "name,calls,errors", "-o"],
    );
    strace.arg(&log).args(["-p", &pids_of(&workload)]);
    let (mut tracer, _stderr) = attach(strace);
    workload.go();
    let expected = workload.end();
    tracer.wait().unwrap();
    let traced = strace_counts(&log);
    assert!(!traced.is_empty());
    for meter in ATTACHING {
        let workload = Workload::start(at.path(), work);
        let (mut child, mut stderr) = attach_fathom(meter, &pids_of(&workload), &json);
        workload.go();
        let ended = workload.end();
        let status = child.wait().unwrap();
        let mut text = String::new();
        stderr.read_to_string(&mut text).unwrap();
        assert_eq!((status.code(), &text[..]), (Some(0), ""), "{meter}");
        assert_eq!(ended, expected, "{meter}");
        let result = report(&json);
        assert_eq!(
            (&result["lost"], &result["attached"]),
            (&0.into(), &1.into()),
            "{meter}"
        );
        assert_eq!(counts(&result), traced, "{meter}: here and by strace");
        let paths = result["per_file"].as_array().unwrap();
        for file in files {
            let name = at.path().join(file);
            assert!(
                paths
                    .iter()
                    .any(|row| Path::new(row["path"].as_str().unwrap()) == name),
                "{meter}: no {file}: {paths:?}"
            );
        }
    }
}

#[test]
fn a_shell_loop_that_runs_already_is_counted_as_strace_does() {
    if require(&[Need::Root, Need::Program("strace")]) {
        agree(
            "exec 3<input; for i in 1 2 3 4 5; do read -r line <&3; cat input; test -e none; done; exit 3",
            Workload::pid,
            &["input", "none"],
        );
    }
}

#[test]
fn files_that_were_open_before_have_names() {
    if require(&[Need::Root]) {
        // The shell's working directory and its descriptor 4 are from before.
        let at = tempfile::tempdir().unwrap();
        let json = at.path().join("report");
        std::fs::write(at.path().join("early"), "a\nb\n").unwrap();
        for meter in ATTACHING {
            let workload = Workload::after("exec 4<early", at.path(), "read -r x <&4; cat <&4");
            let (mut tracer, _stderr) = attach_fathom(meter, &workload.pid(), &json);
            workload.go();
            assert_eq!(workload.end(), ("b\n".to_owned(), Some(0)), "{meter}");
            tracer.wait().unwrap();
            let result = report(&json);
            let early = at.path().join("early");
            let rows = result["per_file"].as_array().unwrap();
            let row = rows
                .iter()
                .find(|row| Path::new(row["path"].as_str().unwrap()) == early);
            // By the shell, and by the cat that it starts.
            assert!(
                row.unwrap()["gates"]["read"].as_u64().unwrap() >= 3,
                "{rows:?}"
            );
        }
    }
}

#[test]
fn attaching_many_times_changes_nothing() {
    if !require(&[Need::Root]) {
        return;
    }
    let at = tempfile::tempdir().unwrap();
    let json = at.path().join("report");
    // It is busy until the FIFO is opened and closed.
    let work = "cat \"$1/fifo\" & i=0; while kill -0 $! 2>/dev/null; do test -e \"$1\"; i=$((i+1)); done; \
                test $i -gt 0 && echo done; exit 5";
    for meter in ATTACHING {
        let workload = Workload::start(at.path(), work);
        workload.go();
        for _ in 0..ATTACHMENTS {
            let options = ["account", "--meter", meter, "-p", &workload.pid()];
            let mut command = fathom(options);
            command
                .args(["--duration", "1ms", "--json", "-o"])
                .arg(&json);
            run(&mut command).exits(0);
            assert_eq!(report(&json)["lost"], 0);
        }
        workload.go();
        assert_eq!(workload.end(), ("done\n".to_owned(), Some(5)), "{meter}");
    }
}

/// How many times to attach and detach.
const ATTACHMENTS: usize = 25;

#[test]
fn ctrl_c_ends_with_a_report_and_a_kill_leaves_nothing() {
    if !require(&[Need::Root]) {
        return;
    }
    let at = tempfile::tempdir().unwrap();
    let json = at.path().join("report");
    for meter in ATTACHING {
        let workload = Workload::start(at.path(), "echo done; exit 6");
        let (mut child, _stderr) = attach_fathom(meter, &workload.pid(), &json);
        interrupt(&child);
        assert_eq!(child.wait().unwrap().code(), Some(0), "{meter}");
        assert_eq!(report(&json)["attached"], 1);
        let (mut child, _stderr) = attach_fathom(meter, &workload.pid(), &json);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!json.exists(), "{meter}");
        let status = std::fs::read_to_string(format!("/proc/{}/status", workload.pid())).unwrap();
        assert!(status.contains("TracerPid:\t0\n"), "{meter}: {status}");
        assert!(!status.contains("State:\tt"), "{meter}: {status}");
        workload.go();
        assert_eq!(workload.end(), ("done\n".to_owned(), Some(6)), "{meter}");
    }
}

#[test]
fn processes_that_cannot_be_metered_are_refused() {
    let refused = |options: &[&str], words: &str| {
        let options = ["account"].iter().chain(options).copied();
        let ran = run(&mut fathom(options)).refused();
        assert!(ran.stderr.contains(words), "{words}: {ran}");
    };
    let mut ended = Command::new("true").spawn().unwrap();
    let zombie = ended.id().to_string();
    let state = || std::fs::read_to_string(format!("/proc/{zombie}/stat")).unwrap();
    while !state().contains(") Z ") {
        std::thread::sleep(Duration::from_millis(1));
    }
    refused(
        &["-p", &zombie],
        &format!("process {zombie} does not exist"),
    );
    ended.wait().unwrap();
    refused(&["-p", "4194305"], "process 4194305 does not exist");
    refused(&["-p", "0"], "0");
    refused(&["-p", "x"], "x");
    refused(&["-p", "1", "true"], "cannot be used with");
    refused(&["--duration", "1s", "true"], "--duration requires -p");
    refused(&["--duration", "5", "-p", "1"], "a duration needs a unit");
    let kernel = std::fs::read_to_string("/proc/2/comm").unwrap_or_default();
    if kernel == "kthreadd\n" {
        refused(&["-p", "2"], "process 2 is a kernel thread");
    }
    // The shell becomes fathom.
    let mut itself = program(Path::new("sh"), ["-c", "exec \"$0\" account -p $$"]);
    let ran = run(itself.arg(env!("CARGO_BIN_EXE_fathom"))).refused();
    assert!(ran.stderr.contains("is fathom itself"), "{ran}");
}
