//! Tests of `fathom account -p`: for running processes it counts the calls that `strace -f -c -p`
//! counts, and the processes do not notice the meter.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

use crate::account::counts::{METERS, is_metered};
use crate::account::meter::{loaded, wait_until_unloaded};
use crate::support::effort::effort;
use crate::support::run::program;
use crate::support::wait::{wait_until, wait_until_blocked};
use crate::support::{Need, fathom, require, run};

pub(crate) type Counts = BTreeMap<String, (u64, u64)>;

/// A shell that waits until [`Workload::go`], and then works. While the shell waits it makes no
/// call that is counted: a child waits at the FIFO.
pub(crate) struct Workload {
    child: Child,
    fifo: PathBuf,
}

impl Workload {
    /// Starts the shell. In `work`, `$1` is the directory of the test.
    pub(crate) fn start(at: &Path, work: &str) -> Workload {
        Workload::after(":", at, work)
    }

    /// The same, but the shell first runs `preparation`, and waits after that.
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
        let mut line = [0; 8];
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut line)
            .unwrap();
        assert_eq!(&line, b"waiting\n");
        wait_until_blocked(child.id(), &[libc::SYS_wait4, libc::SYS_rt_sigsuspend]);
        Workload { child, fifo }
    }

    pub(crate) fn pid(&self) -> String {
        self.child.id().to_string()
    }

    pub(crate) fn go(&self) {
        drop(
            std::fs::OpenOptions::new()
                .write(true)
                .open(&self.fifo)
                .unwrap(),
        );
    }

    /// Waits for the end of the shell. Returns its output and exit status.
    pub(crate) fn end(mut self) -> (String, Option<i32>) {
        let (mut text, mut stdout) = (String::new(), self.child.stdout.take().unwrap());
        stdout.read_to_string(&mut text).unwrap();
        (text, self.child.wait().unwrap().code())
    }
}

/// If a test fails, the shell must not wait forever: it would keep the output of the tests open.
impl Drop for Workload {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
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
pub(crate) fn attach(mut command: Command) -> (Child, BufReader<ChildStderr>) {
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    wait_for(&mut stderr, "ttached");
    (child, stderr)
}

pub(crate) fn attach_fathom(
    meter: &str,
    pids: &str,
    report: &Path,
) -> (Child, BufReader<ChildStderr>) {
    attach_fathom_to(&["--meter", meter, "-p", pids], report)
}

fn attach_fathom_to(options: &[&str], report: &Path) -> (Child, BufReader<ChildStderr>) {
    let _ = std::fs::remove_file(report);
    let mut command = fathom(["account", "--json", "-o"]);
    command.arg(report).args(options);
    attach(command)
}

fn interrupt(child: &Child) {
    let pid = Pid::from_raw(child.id() as i32).unwrap();
    kill_process(pid, Signal::INT).unwrap();
}

pub(crate) fn report(at: &Path) -> Value {
    let value: Value = serde_json::from_slice(&std::fs::read(at).unwrap()).unwrap();
    crate::support::schema::check(&value);
    value["result"].clone()
}

pub(crate) fn counts(result: &Value) -> Counts {
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

pub(crate) fn strace_counts(log: &Path) -> Counts {
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

/// strace that attaches to a process, and writes its counts to `log`.
pub(crate) fn strace(log: &Path, pid: &str) -> Command {
    let options = ["-f", "-c", "-U", "name,calls,errors", "-o"];
    let mut strace = program(Path::new("strace"), options);
    strace.arg(log).args(["-p", pid]);
    strace
}

/// The calls that strace counts of this work, and the output and status of the shell.
fn traced(at: &Path, work: &str) -> (Counts, (String, Option<i32>)) {
    let log = at.join("log");
    let workload = Workload::start(at, work);
    let (mut tracer, _stderr) = attach(strace(&log, &workload.pid()));
    workload.go();
    let ended = workload.end();
    tracer.wait().unwrap();
    let counts = strace_counts(&log);
    assert!(!counts.is_empty());
    (counts, ended)
}

/// Checks that every meter counts the calls that strace counts of this work, and finds these files.
fn agree(work: &str, files: &[&str]) {
    let at = tempfile::tempdir().unwrap();
    let json = at.path().join("report");
    std::fs::write(at.path().join("input"), "a\nb\n").unwrap();
    let (traced, expected) = traced(at.path(), work);
    for meter in METERS {
        let workload = Workload::start(at.path(), work);
        let (mut child, mut stderr) = attach_fathom(meter, &workload.pid(), &json);
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
            &["input", "none"],
        );
    }
}

#[test]
fn processes_of_another_pid_namespace_are_counted_as_strace_does() {
    if require(&[
        Need::Root,
        Need::Program("strace"),
        Need::Program("unshare"),
    ]) {
        let inside = "cat input; test -e none; exit 4";
        agree(
            &format!("unshare --pid --fork sh -c '{inside}'; exit 5"),
            &["input", "none"],
        );
    }
}

#[test]
fn files_that_were_open_before_have_names() {
    if require(&[Need::Root]) {
        // The shell's working directory and its descriptor 4 were opened before the meter attached.
        let at = tempfile::tempdir().unwrap();
        let json = at.path().join("report");
        std::fs::write(at.path().join("early"), "a\nb\n").unwrap();
        for meter in METERS {
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
            // The file is read by the shell, and by the cat that the shell starts.
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
    // The shell is busy until the FIFO is opened and closed.
    let work = "cat \"$1/fifo\" & i=0; while kill -0 $! 2>/dev/null; do test -e \"$1\"; i=$((i+1)); done; \
                test $i -gt 0 && echo done; exit 5";
    for meter in METERS {
        let workload = Workload::start(at.path(), work);
        workload.go();
        for _ in 0..effort(10, 1000) {
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

/// CPU time also counts for a child that its parent does not wait for.
#[test]
fn cpu_time_of_processes_that_end_is_counted() {
    if !require(&[Need::Root]) {
        return;
    }
    let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; times";
    let work = format!("({busy} >\"$1/child\") & {busy} >\"$1/parent\"");
    for meter in METERS {
        let at = tempfile::tempdir().unwrap();
        let json = at.path().join("report");
        let workload = Workload::start(at.path(), &work);
        let used_before = run_time(&workload.pid());
        let stolen_before = stolen_time();
        let (mut child, _stderr) = attach_fathom(meter, &workload.pid(), &json);
        workload.go();
        workload.end();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{meter}");
        let stolen = stolen_time() - stolen_before;
        let times = ["child", "parent"].map(|name| shell_time(&at.path().join(name)));
        let used = times.iter().sum::<f64>() - used_before;
        let result = report(&json);
        let [user, sys] = ["user", "sys"].map(|field| result[field].as_f64().unwrap());
        let counted = user + sys;
        // The process clocks lack a part of each context switch, and go on in interrupts and while
        // a hypervisor gives the processor to others. The shell truncates its times to ticks.
        assert!(
            used > 0.0 && counted >= 0.8 * used && counted <= 1.5 * used + stolen + 0.05,
            "{meter}: {counted} s, {times:?} s of which {used_before} before, {stolen} s stolen"
        );
    }
}

/// CPU time of the first thread of a process, in seconds.
fn run_time(pid: &str) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    let nanos: f64 = text.split(' ').next().unwrap().parse().unwrap();
    nanos / 1e9
}

/// Seconds that processors have spent in interrupts, or that a hypervisor has given to others.
fn stolen_time() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap();
    // user, nice, system, idle, iowait, irq, softirq, steal
    let fields = text.lines().next().unwrap().split_whitespace().skip(1);
    let ticks = fields.map(|field| field.parse::<f64>().unwrap());
    ticks.skip(5).take(3).sum::<f64>() / 100.0
}

/// User and system time of a shell, from the output of its builtin `times`, in seconds.
fn shell_time(file: &Path) -> f64 {
    let text = std::fs::read_to_string(file).unwrap();
    // The format is 0m0.120s. The second line has the times of children, which write to their own
    // file.
    let words = text.lines().next().unwrap().split_whitespace();
    let times = words.map(|word| {
        let (minutes, seconds) = word.strip_suffix('s').unwrap().split_once('m').unwrap();
        60.0 * minutes.parse::<f64>().unwrap() + seconds.parse::<f64>().unwrap()
    });
    times.sum()
}

#[test]
fn a_report_without_calls_has_no_tables() {
    if require(&[Need::Root]) {
        let at = tempfile::tempdir().unwrap();
        let workload = Workload::start(at.path(), ":");
        for more in [&[][..], &["--full"]] {
            let mut command = fathom(["account", "--duration", "1ms", "-p", &workload.pid()]);
            let ran = run(command.args(more)).exits(0);
            let lines: Vec<&str> = ran.stderr.lines().skip(1).collect();
            assert!(lines[0].starts_with("Attached to 1 process; "), "{ran}");
            assert_eq!(lines[1..], ["No calls on files; metered by bpf."], "{ran}");
        }
        workload.go();
        workload.end();
    }
}

#[test]
fn a_line_per_interval_and_one_for_the_rest_add_up_to_the_report() {
    if !require(&[Need::Root]) {
        return;
    }
    let at = tempfile::tempdir().unwrap();
    let json = at.path().join("report");
    let work = "for i in 1 2 3; do test -e none; done; cat \"$1/fifo\"";
    for meter in METERS {
        let workload = Workload::start(at.path(), work);
        let pid = workload.pid();
        let options = ["--meter", meter, "-n", "1", "-p", &pid];
        let (mut child, mut stderr) = attach_fathom_to(&options, &json);
        workload.go();
        let mut heading = String::new();
        stderr.read_line(&mut heading).unwrap();
        assert!(heading.trim_start().starts_with("CALLS"), "{heading}");
        let mut calls: u64 = 0;
        while calls == 0 {
            let mut line = String::new();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "{meter}");
            let fields: Vec<&str> = line.split_whitespace().collect();
            calls = fields[0].replace(',', "").parse().unwrap();
        }
        // A shell has its background jobs ignore SIGINT: SIGTERM ends it with the report, too.
        let fathom = Pid::from_raw(child.id() as i32).unwrap();
        kill_process(fathom, Signal::TERM).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{meter}");
        let counted = counts(&report(&json));
        let counted: u64 = counted.values().map(|(calls, _)| calls).sum();
        for line in stderr.lines() {
            let line = line.unwrap();
            let first = line.split_whitespace().next().unwrap_or_default();
            calls += first.replace(',', "").parse().unwrap_or(0);
        }
        assert_eq!(calls, counted, "{meter}");
        workload.go();
        workload.end();
    }
}

#[test]
fn a_process_that_is_traced_is_refused_by_ptrace() {
    if require(&[Need::Program("strace")]) {
        let at = tempfile::tempdir().unwrap();
        let workload = Workload::start(at.path(), "exit 7");
        let mut strace = program(Path::new("strace"), ["-o", "/dev/null", "-p"]);
        strace.arg(workload.pid());
        let (mut tracer, _stderr) = attach(strace);
        let options = ["account", "--meter", "ptrace", "-p", &workload.pid()];
        let ran = run(&mut fathom(options)).refused();
        assert!(ran.stderr.contains("is traced by process"), "{ran}");
        workload.go();
        assert_eq!(workload.end().1, Some(7));
        tracer.wait().unwrap();
    }
}

#[test]
fn ctrl_c_ends_with_a_report_and_a_kill_leaves_nothing() {
    if !require(&[Need::Root]) {
        return;
    }
    let at = tempfile::tempdir().unwrap();
    let json = at.path().join("report");
    for meter in METERS {
        let workload = Workload::start(at.path(), "echo done; exit 6");
        let (mut child, _stderr) = attach_fathom(meter, &workload.pid(), &json);
        interrupt(&child);
        assert_eq!(child.wait().unwrap().code(), Some(0), "{meter}");
        assert_eq!(report(&json)["attached"], 1);
        let before = loaded();
        let (mut child, _stderr) = attach_fathom(meter, &workload.pid(), &json);
        // The set includes BPF programs of other tests, which end, too.
        let meanwhile: BTreeSet<u32> = loaded().difference(&before).copied().collect();
        assert!(meter != "bpf" || meanwhile.len() >= 5, "{meanwhile:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        wait_until_unloaded(&meanwhile);
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
    wait_until("the child is a zombie", || state().contains(") Z "));
    refused(
        &["-p", &zombie],
        &format!("process {zombie} does not exist"),
    );
    // fathom ignores ended processes in a list of several: they may have ended since they were
    // listed.
    let mut alive = Command::new("cat");
    let mut alive = alive.stdin(Stdio::piped()).spawn().unwrap();
    for meter in METERS {
        let both = format!("{},{zombie}", alive.id());
        let options = [
            "account",
            "-p",
            &both,
            "--meter",
            meter,
            "--duration",
            "20ms",
        ];
        let ran = run(&mut fathom(options));
        let warning = format!("process {zombie} does not exist, or ended before");
        assert!(ran.stderr.contains(&warning), "{meter}: {ran}");
        assert_eq!(ran.code(), 0, "{meter}: {ran}");
    }
    alive.kill().unwrap();
    alive.wait().unwrap();
    ended.wait().unwrap();
    refused(&["-p", "4194305"], "process 4194305 does not exist");
    refused(&["-p", "0"], "0");
    refused(&["-p", "x"], "x");
    refused(&["-p", "1", "true"], "cannot be used with");
    refused(&["--duration", "1s", "true"], "--duration requires -p");
    refused(&["--system", "-p", "1"], "cannot be used with");
    refused(&["--system", "true"], "cannot be used with");
    refused(&["--cgroup", "/proc"], "'/proc' is not a cgroup");
    refused(&["--cgroup", "/proc/stat"], "'/proc/stat' is not a cgroup");
    refused(&["--cgroup", "/no/such"], "cannot open '/no/such'");
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

/// A cgroup that is removed in the end.
struct TestCgroup(PathBuf);

impl TestCgroup {
    /// Creates one cgroup of version 2 and one of version 1, where the machine allows it.
    fn of_each_version() -> Vec<(&'static str, TestCgroup)> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let make = |fstype: &'static str| {
            mounts.lines().find_map(|line| {
                let fields: Vec<&str> = line.split(' ').collect();
                // A new cgroup of the cpuset controller accepts no processes.
                if fields[2] != fstype || fields[3].contains("cpuset") {
                    return None;
                }
                let name = format!("fathom-test-{}-attach", std::process::id());
                let path = Path::new(fields[1]).join(name);
                std::fs::create_dir_all(path.join("below")).ok()?;
                Some((fstype, TestCgroup(path)))
            })
        };
        ["cgroup2", "cgroup"].into_iter().filter_map(make).collect()
    }

    fn enter(&self, below: &str, pid: &str) {
        std::fs::write(self.0.join(below).join("cgroup.procs"), pid).unwrap();
    }
}

impl Drop for TestCgroup {
    fn drop(&mut self) {
        for dir in [self.0.join("below"), self.0.clone()] {
            // The last process may be about to end. After a panic, processes may be left in the
            // cgroup.
            wait_until("the cgroup is empty", || {
                std::fs::remove_dir(&dir).is_ok() || std::thread::panicking()
            });
        }
    }
}

#[test]
fn the_processes_of_a_cgroup_are_counted_as_strace_does() {
    if !require(&[Need::Root, Need::Program("strace")]) {
        return;
    }
    let at = tempfile::tempdir().unwrap();
    let json = at.path().join("report");
    std::fs::write(at.path().join("input"), "a\nb\n").unwrap();
    let work = "for i in 1 2 3; do cat input; test -e none; done; exit 3";
    let (expected, ended) = traced(at.path(), work);
    let cgroups = TestCgroup::of_each_version();
    assert!(!cgroups.is_empty(), "no cgroup can be made");
    for (version, cgroup) in &cgroups {
        // The meter polls a cgroup of version 1, so it finds a process that joins later with a
        // delay.
        for comes_later in [false, true]
            .into_iter()
            .take(1 + usize::from(*version == "cgroup2"))
        {
            let other = tempfile::tempdir().unwrap();
            let outside = Workload::start(other.path(), work);
            let inside = Workload::start(at.path(), work);
            let enter = || cgroup.enter("below", &inside.pid());
            if !comes_later {
                enter();
            }
            let path = cgroup.0.to_str().unwrap();
            let (mut child, _stderr) = attach_fathom_to(&["--cgroup", path], &json);
            if comes_later {
                enter();
            }
            outside.go();
            outside.end();
            inside.go();
            assert_eq!(inside.end(), ended, "{version}");
            interrupt(&child);
            assert_eq!(child.wait().unwrap().code(), Some(0), "{version}");
            let result = report(&json);
            assert_eq!(result["lost"], 0, "{version}: {result}");
            assert_eq!(counts(&result), expected, "{version}, later: {comes_later}");
            if comes_later {
                continue; // its working directory is unknown
            }
            let is_named = |row: &Value| {
                let path = Path::new(row["path"].as_str().unwrap());
                path == Path::new("/etc/ld.so.cache") || path.ends_with("input")
            };
            let rows = result["per_file"].as_array().unwrap();
            assert_eq!(
                rows.iter().filter(|row| is_named(row)).count(),
                2,
                "{rows:?}"
            );
        }
    }
}

#[test]
fn all_processes_of_the_machine_are_counted_but_fathom() {
    if !require(&[Need::Root]) {
        return;
    }
    let at = tempfile::tempdir().unwrap();
    let json = at.path().join("report");
    // No other process on the machine runs a program of this name.
    let tool = at
        .path()
        .join(format!("fathom-test-{}", std::process::id()));
    std::fs::copy("/bin/cat", &tool).unwrap();
    std::fs::write(at.path().join("input"), "a\n").unwrap();
    let named = |result: &Value| {
        let rows = result["programs"].as_array().unwrap().clone();
        let is_it = |row: &Value| Path::new(row["program"].as_str().unwrap()) == tool;
        rows.into_iter().find(is_it).map(|row| row["gates"].clone())
    };
    let mut alone = fathom(["account", "--json", "--meter", "bpf", "-o"]);
    alone.arg(&json).arg(&tool).arg(at.path().join("input"));
    run(&mut alone).exits(0);
    let expected = named(&report(&json)).unwrap();
    // The program waits for input, and is metered from its next call on.
    let mut running = program(&tool, ["-"]);
    running.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut running = running.spawn().unwrap();
    let options = ["--system", "--calls", "1000000", "--by", "process"];
    let (mut child, _stderr) = attach_fathom_to(&options, &json);
    let mut later = program(&tool, [at.path().join("input")]);
    let started = later.stdout(Stdio::null()).spawn().unwrap();
    let later = started.id();
    started.wait_with_output().unwrap();
    drop(running.stdin.take());
    running.wait().unwrap();
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let result = report(&json);
    let gates = |pid: u32| {
        let rows = result["processes"].as_array().unwrap();
        let row = rows.iter().find(|row| row["pid"] == pid);
        row.map(|row| (row["program"].clone(), row["gates"].clone()))
    };
    // The execve(2) of the later process counts for the program that called it, so `tool` has the
    // expected calls.
    let (_, counted) = gates(later).unwrap();
    assert_eq!(counted, expected, "{result}");
    let (name, counted) = gates(running.id()).unwrap();
    assert_eq!(Path::new(name.as_str().unwrap()), tool);
    assert_eq!(counted["read"].as_u64(), None, "{counted}");
    assert!(counted["close"].as_u64() > Some(0), "{counted}");
    assert_eq!(gates(child.id()), None);
}
