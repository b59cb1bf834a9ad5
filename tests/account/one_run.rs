//! Several counters of one run: `fathom account -p` counts the same calls of a process as strace
//! and perf that are attached to it at the same time. So the process need not make the same calls
//! in every run. `make -j2`, for example, does not: whether it writes a token to the pipe of its
//! job server, reads it back, and gives a job a different standard input by dup2(2), depends on the
//! order in which jobs end.

use std::io::{BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::account::attach::{
    Counts, Workload, attach, attach_fathom, counts, report, strace, strace_counts,
};
use crate::account::counts::METERS;
use crate::account::seconds::perf_trace_rows;
use crate::support::run::program;
use crate::support::tool::tool;
use crate::support::wait::{blocked_in, wait_until, wait_until_blocked};
use crate::support::{Need, require};

const NEEDS: [Need; 2] = [Need::Root, Need::Program("strace")];

/// Pairs of counters that can be attached to a process at the same time: a process has only one
/// tracer.
const TOGETHER: [[&str; 2]; 2] = [["bpf", "strace"], ["ptrace", "bpf"]];

/// A program that counts the calls of a process, from its attachment until the process ends.
struct Counter {
    name: &'static str,
    child: Child,
    /// Kept open, so that the counter can still write to it.
    _stderr: Option<BufReader<ChildStderr>>,
    result: PathBuf,
}

impl Counter {
    fn attach(name: &'static str, pid: &str, at: &Path) -> Counter {
        let result = at.join(name);
        let (child, stderr) = match name {
            "strace" => attach(strace(&result, pid)),
            "perf trace" => {
                let child = attach_perf_trace(pid, &result);
                return Counter {
                    name,
                    child,
                    _stderr: None,
                    result,
                };
            }
            meter => attach_fathom(meter, pid, &result),
        };
        Counter {
            name,
            child,
            _stderr: Some(stderr),
            result,
        }
    }

    /// Waits for the end of the counter. Returns its counts.
    fn counts(mut self) -> Counts {
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{}", self.name);
        match self.name {
            "strace" => return strace_counts(&self.result),
            "perf trace" => return perf_trace_counts(&self.result),
            _ => {}
        }
        let result = report(&self.result);
        assert_eq!(result["meter"], self.name, "{result}");
        assert_eq!(result["lost"], 0, "{}: {result}", self.name);
        counts(&result)
    }
}

/// Attaches `perf trace -s`, and waits until it is ready. Mounts a tracefs if there is none.
pub(crate) fn attach_perf_trace(pid: &str, result: &Path) -> Child {
    let namespace = ["--mount", "--propagation", "private"];
    let mut command = program(Path::new("unshare"), namespace);
    command
        .args(["perf", "trace", "-s", "-o"])
        .arg(result)
        .args(["-p", pid]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().unwrap();
    wait_until_blocked(child.id(), WAITING);
    child
}

/// The counts of `perf trace -s`, over all threads. Calls may be missing: perf 6.1 loses one in
/// 2,000 without a message, even if a process makes few calls a second.
fn perf_trace_counts(summary: &Path) -> Counts {
    let text = std::fs::read_to_string(summary).unwrap();
    let mut all = Counts::new();
    for row in perf_trace_rows(&text) {
        let sum = all.entry(row.name.to_owned()).or_default();
        *sum = (sum.0 + row.calls, sum.1 + row.errors);
    }
    all
}

/// Lets all counters count the calls of a process, in which `work` triggers its work and its end.
/// The counts must agree; only `perf trace` may have fewer calls, and then the result is `None`.
fn try_to_count<const N: usize>(
    counters: [&'static str; N],
    pid: &str,
    work: impl FnOnce(),
) -> Option<Counts> {
    let at = tempfile::tempdir().unwrap();
    let counters = counters.map(|name| Counter::attach(name, pid, at.path()));
    let names = counters.each_ref().map(|counter| counter.name);
    work();
    let counted = counters.map(Counter::counts);
    let mut counted = names.into_iter().zip(counted);
    let (first, counts) = counted.next().unwrap();
    assert!(!counts.is_empty());
    let mut complete = true;
    for (name, others) in counted {
        if name == "perf trace" && lacks_calls(&others, &counts) {
            eprintln!("perf trace has lost calls: {others:?}");
            complete = false;
        } else {
            assert_eq!(others, counts, "{name} and {first}");
        }
    }
    complete.then_some(counts)
}

/// Whether `some` has fewer calls than `all` somewhere, and nowhere more.
fn lacks_calls(some: &Counts, all: &Counts) -> bool {
    let no_more = |(name, some): (&String, &(u64, u64))| {
        all.get(name)
            .is_some_and(|all| some.0 <= all.0 && some.1 <= all.1)
    };
    some != all && some.iter().all(no_more)
}

/// The same, with counters that lose no calls silently.
fn counted_by<const N: usize>(
    counters: [&'static str; N],
    pid: &str,
    work: impl FnOnce(),
) -> Counts {
    try_to_count(counters, pid, work).expect("no perf trace")
}

/// The threads of a process.
fn threads(pid: &str) -> usize {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    threads.map_or(0, Iterator::count)
}

/// System calls in which a process waits for events.
const WAITING: &[libc::c_long] = &[
    libc::SYS_ppoll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
];

/// A web server in Python, which serves each request in a new thread.
struct WebServer {
    child: Child,
    port: u16,
}

impl WebServer {
    fn start(at: &Path) -> WebServer {
        let options = ["-u", "-m", "http.server", "--bind", "127.0.0.1", "0"];
        let mut command = program(Path::new("python3"), options);
        command.current_dir(at).stdin(Stdio::null());
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Serving HTTP on 127.0.0.1 port 40001 (http://127.0.0.1:40001/) ...
        let mut line = String::new();
        let stdout = child.stdout.as_mut().unwrap();
        std::io::BufRead::read_line(&mut BufReader::new(stdout), &mut line).unwrap();
        let port = line.split(' ').nth(5).and_then(|port| port.parse().ok());
        let server = WebServer {
            child,
            port: port.unwrap_or_else(|| panic!("no port: {line}")),
        };
        server.wait_until_idle();
        server
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// Waits until the server is serving no request.
    fn wait_until_idle(&self) {
        wait_until("the server waits", || {
            threads(&self.pid()) == 1
                && blocked_in(self.child.id()).is_some_and(|(call, _)| WAITING.contains(&call))
        });
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_requests_to_a_web_server_are_counted_as_by_its_tracer() {
    const REQUESTS: u64 = 10;
    if !require(&[NEEDS[0], NEEDS[1], Need::Program("python3")]) {
        return;
    }
    let at = tempfile::tempdir().unwrap();
    std::fs::write(at.path().join("page"), "hello").unwrap();
    for counters in TOGETHER {
        let server = WebServer::start(at.path());
        let counted = counted_by(counters, &server.pid(), || {
            for _ in 0..REQUESTS {
                assert!(server.get("/page").ends_with("\r\nhello"));
                assert!(server.get("/none").contains(" 404 "));
            }
            server.wait_until_idle();
            let pid = Pid::from_child(&server.child);
            kill_process(pid, Signal::TERM).unwrap();
        });
        // Each request opens its file, found or not.
        let (opens, errors) = counted["openat"];
        assert!(
            opens >= 2 * REQUESTS && errors >= REQUESTS && errors < opens,
            "{counted:?}"
        );
    }
}

#[test]
fn a_parallel_build_is_counted_as_by_its_tracer() {
    if !require(&[NEEDS[0], NEEDS[1], Need::Program("make")]) {
        return;
    }
    let at = tempfile::tempdir().unwrap();
    let rule = "all: 1.o 2.o 3.o 4.o 5.o 6.o\n%.o:\n\t@test -e $@ || cp Makefile $@\n";
    std::fs::write(at.path().join("Makefile"), rule).unwrap();
    for counters in TOGETHER {
        let workload = Workload::start(at.path(), "make -rj2; rm *.o; exit 4");
        let pid = workload.pid();
        let mut ended = None;
        counted_by(counters, &pid, || {
            workload.go();
            ended = Some(workload.end().1);
        });
        assert_eq!(ended, Some(Some(4)));
    }
}

/// An attached `perf trace` counts the existing threads of a process, and none that begin later. In
/// one of a few runs it loses no calls.
#[test]
fn the_calls_of_a_shell_are_counted_as_by_perf_trace() {
    const RUNS: usize = 4;
    if !require(&[NEEDS[0], NEEDS[1], Need::Program("perf")]) {
        return;
    }
    let at = tempfile::tempdir().unwrap();
    std::fs::write(at.path().join("input"), "a\nb\n").unwrap();
    let work = "for i in 1 2 3 4 5; do read -r line <input; test -e none; echo $line >>output; done; \
                cd /; exit 3";
    for counters in [
        ["bpf", "strace", "perf trace"],
        ["ptrace", "perf trace", "bpf"],
    ] {
        let run = || {
            let workload = Workload::start(at.path(), work);
            let pid = workload.pid();
            let mut ended = None;
            let counted = try_to_count(counters, &pid, || {
                workload.go();
                ended = Some(workload.end().1);
            });
            assert_eq!(ended, Some(Some(3)));
            counted
        };
        let counted = std::iter::repeat_with(run).take(RUNS).flatten().next();
        let counted = counted.expect("perf trace has lost calls in every run");
        assert!(counted["openat"].0 >= 10, "{counted:?}");
    }
}

/// Starts `tasks.c` with this argument.
fn tasks(at: &Path, way: &str) -> Child {
    let built = at.join("tasks");
    let source = at.join("tasks.c");
    std::fs::write(&source, include_str!("tasks.c")).unwrap();
    let mut compiler = Command::new("cc");
    tool(
        compiler
            .args(["-O1", "-w", "-pthread", "-o"])
            .args([&built, &source]),
    );
    let mut command = program(&built, [way]);
    // Without this, the C library would read the number of processors as soon as threads have
    // created more than eight arenas.
    command.env("MALLOC_ARENA_MAX", "1");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0; 6];
    let stdout = child.stdout.as_mut().unwrap();
    stdout.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"ready\n");
    child
}

#[test]
fn threads_that_begin_and_end_while_we_attach_are_counted() {
    // CHAINS x GENERATIONS x CALLS of tasks.c
    const CALLS: u64 = 4 * 25 * 4;
    if !require(&[Need::Root, Need::Program("cc")]) {
        return;
    }
    let at = tempfile::tempdir().unwrap();
    let calls = std::iter::once(("access".to_owned(), (CALLS, CALLS)));
    let calls: Counts = calls.collect();
    // strace lists the threads once, and misses whole chains of threads (100 or 300 calls of 400).
    for counters in [["bpf", "ptrace"], ["ptrace", "bpf"]] {
        let mut child = tasks(at.path(), "chains");
        wait_until_blocked(child.id(), &[libc::SYS_rt_sigtimedwait]);
        let counted = counted_by(counters, &child.id().to_string(), || {
            kill_process(Pid::from_child(&child), Signal::USR1).unwrap();
        });
        assert_eq!(child.wait().unwrap().code(), Some(3));
        let counted: Counts = counted
            .into_iter()
            .map(|(name, calls)| (name.replace("faccessat", "access"), calls))
            .collect();
        assert_eq!(counted, calls, "{counters:?}");
    }
}

#[test]
fn a_thread_that_cannot_be_interrupted_is_counted_when_it_goes_on() {
    // CALLS of tasks.c
    const CALLS: u64 = 4;
    if !require(&[Need::Root, Need::Program("cc")]) {
        return;
    }
    let at = tempfile::tempdir().unwrap();
    for meter in METERS {
        let mut child = tasks(at.path(), "uninterruptible");
        let pid = child.id().to_string();
        let status = format!("/proc/{pid}/status");
        wait_until("the thread waits", || {
            std::fs::read_to_string(&status)
                .unwrap()
                .contains("State:\tD")
        });
        let mut counter = Counter::attach(meter, &pid, at.path());
        assert_eq!(counter.child.try_wait().unwrap(), None, "{meter}");
        drop(child.stdin.take());
        assert_eq!(child.wait().unwrap().code(), Some(3), "{meter}");
        let counted = counter.counts();
        let (name, calls) = counted.first_key_value().unwrap();
        assert!(name.contains("access") && counted.len() == 1, "{counted:?}");
        assert_eq!(*calls, (CALLS, CALLS), "{meter}");
    }
}
