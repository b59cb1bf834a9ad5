//! Tests that a metered command does not notice the meter, and that no BPF program, mount or
//! process is left behind.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::account::counts::METERS;
use crate::support::effort::effort;
use crate::support::run::{args, program};
use crate::support::wait::{children, times_asleep, wait_until, wait_until_blocked};
use crate::support::{fathom, run};

fn metered(meter: &str, words: &[&str]) -> Command {
    let args = [
        "account",
        "--meter",
        meter,
        "--json",
        "-o",
        "/dev/null",
        "--",
    ]
    .into_iter()
    .chain(words.iter().copied());
    fathom(args.map(OsString::from))
}

/// Checks that a command prints the same without a meter and with each meter. Returns the output.
fn unchanged(words: &[&str], prepare: impl Fn(&mut Command)) -> String {
    let mut plain = program(Path::new(words[0]), &words[1..]);
    prepare(&mut plain);
    let plain = run(&mut plain);
    for meter in METERS {
        let mut command = metered(meter, words);
        prepare(&mut command);
        let ran = run(&mut command);
        assert_eq!(
            (ran.code(), &ran.stdout),
            (plain.code(), &plain.stdout),
            "{meter}: {ran}\n{plain}"
        );
    }
    String::from_utf8(plain.stdout).unwrap()
}

#[test]
fn command_keeps_environment_descriptors_and_arguments() {
    let shown = unchanged(
        &[
            "sh",
            "-c",
            "env | sort; ls -l /proc/self/fd | wc -l; echo \"$0\" \"$@\"",
            "a b",
            "-x",
            "",
        ],
        |command| {
            command.env("SOMETHING", "el\nse").stdin(Stdio::null());
        },
    );
    assert!(
        shown.contains("SOMETHING=el") && shown.contains("a b -x"),
        "{shown}"
    );
}

#[test]
fn signal_dispositions_are_inherited() {
    let words = ["grep", "-E", "^Sig(Blk|Ign|Cgt):", "/proc/self/status"];
    let before = unchanged(&words, |_| {});
    // Rust's runtime ignores SIGPIPE. The meter restores the disposition for the command, but
    // signals that the caller has ignored must stay ignored.
    let ignoring = unchanged(&words, |command| {
        // SAFETY: one system call between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGPIPE, libc::SIG_IGN);
                libc::signal(libc::SIGHUP, libc::SIG_IGN);
                // With SIGCHLD ignored, a process cannot wait for a child.
                libc::signal(libc::SIGCHLD, libc::SIG_IGN);
                libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
                Ok(())
            })
        };
    });
    assert_ne!(before, ignoring);
}

#[test]
fn closed_standard_streams_stay_closed() {
    let script = "[ -e /proc/$$/fd/0 ]; in=$?; [ -e /proc/$$/fd/1 ]; out=$?; [ -e /proc/$$/fd/2 ]; exit $((in + 2 * out + 4 * $?))";
    for closed in 0..8 {
        for meter in METERS {
            let mut command = metered(meter, &["sh", "-c", script]);
            // SAFETY: system calls between fork and exec.
            unsafe {
                command.pre_exec(move || {
                    for fd in (0..3).filter(|fd| closed & 1 << fd != 0) {
                        libc::close(fd);
                    }
                    Ok(())
                })
            };
            assert_eq!(run(&mut command).code(), closed, "{meter}");
        }
    }
}

/// Starts a command, and waits until it prints that it is ready. Its standard input is a pipe.
fn begin(command: &mut Command) -> Child {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut word = [0; 6];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut word)
        .unwrap();
    assert_eq!(&word, b"ready\n");
    child
}

fn id(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// Waits until a process has ended.
fn ends(child: &mut Child) -> std::process::ExitStatus {
    let mut status = None;
    wait_until("the process has ended", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}

#[test]
fn signals_to_fathom_are_forwarded_to_the_command() {
    for meter in METERS {
        let signals = [
            Signal::TERM,
            Signal::HUP,
            Signal::INT,
            Signal::USR1,
            Signal::USR2,
            Signal::WINCH,
        ];
        for (signal, code) in signals.into_iter().zip(41..) {
            let script = "code=41; for signal in TERM HUP INT USR1 USR2 WINCH; do trap \"exit $code\" $signal; code=$((code + 1)); done
                echo ready; while :; do sleep 0.05; done";
            let mut child = begin(&mut metered(meter, &["sh", "-c", script]));
            kill_process(id(&child), signal).unwrap();
            assert_eq!(ends(&mut child).code(), Some(code), "{meter} {signal:?}");
        }
        let mut child = begin(&mut metered(
            meter,
            &["sh", "-c", "echo ready; exec sleep 600"],
        ));
        kill_process(id(&child), Signal::TERM).unwrap();
        assert_eq!(ends(&mut child).code(), Some(128 + 15), "{meter}");
    }
}

#[test]
fn second_signal_stops_waiting_for_descendants() {
    for meter in METERS {
        let mut child = begin(&mut metered(
            meter,
            &["sh", "-c", "sleep 600 >/dev/null 2>&1 & echo ready"],
        ));
        // The command itself ends at once. fathom waits for its child until a signal interrupts
        // that.
        wait_until("the command has ended", || children(child.id()).is_empty());
        wait_until_read(meter, child.id());
        assert!(child.try_wait().unwrap().is_none(), "{meter}");
        kill_process(id(&child), Signal::INT).unwrap();
        assert_eq!(ends(&mut child).code(), Some(0), "{meter}");
    }
}

/// Ids of all BPF programs that are loaded on this machine. The test asks the kernel itself, so
/// that it does not share a fault of the tested code.
pub(crate) fn loaded() -> BTreeSet<u32> {
    const PROG_GET_NEXT_ID: libc::c_long = 11;
    let mut ids = BTreeSet::new();
    let mut attr = [0u32; 3];
    // SAFETY: the command takes and fills in three numbers, without addresses.
    while unsafe {
        libc::syscall(
            libc::SYS_bpf,
            PROG_GET_NEXT_ID,
            &raw mut attr,
            size_of_val(&attr),
        )
    } == 0
    {
        ids.insert(attr[1]);
        attr[0] = attr[1];
    }
    ids
}

/// Waits until all these programs are unloaded. Programs of other tests end with their tests.
pub(crate) fn wait_until_unloaded(programs: &BTreeSet<u32>) {
    wait_until("the programs are unloaded", || {
        loaded().is_disjoint(programs)
    });
}

/// Waits until a meter has read the records of all calls so far.
pub(crate) fn wait_until_read(meter: &str, fathom: u32) {
    if meter == "ptrace" {
        // The ptrace meter learns of each event before the process continues.
        return wait_until_blocked(fathom, &[libc::SYS_wait4, libc::SYS_waitid]);
    }
    // The meter reads all records each time before it sleeps: after the third time, all of them are
    // read.
    let before = times_asleep(fathom);
    wait_until("the meter waits", || times_asleep(fathom) >= before + 3);
}

#[test]
fn kill_9_leaves_no_bpf_program_and_no_mount() {
    let mounts = || std::fs::read("/proc/self/mountinfo").unwrap();
    let (before, mounts_before) = (loaded(), mounts());
    let mut child = begin(&mut metered("bpf", &["sh", "-c", "echo ready; exec cat"]));
    let meanwhile: BTreeSet<u32> = loaded().difference(&before).copied().collect();
    assert!(meanwhile.len() >= 5, "{meanwhile:?}");
    child.kill().unwrap();
    assert_eq!(ends(&mut child).signal(), Some(9));
    wait_until_unloaded(&meanwhile);
    assert_eq!(mounts(), mounts_before);
}

/// The anonymous memory of a process, in KiB: without the pages of its program file and of the rings
/// that it maps, which do not depend on the number of calls. 0 once it has ended.
fn anonymous_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mut lines = status.lines();
    let kib = lines.find_map(|line| line.strip_prefix("RssAnon:"));
    kib.map_or(0, |kib| kib.trim_end_matches("kB").trim().parse().unwrap())
}

#[test]
fn memory_does_not_grow_with_the_number_of_calls() {
    let at = tempfile::tempdir().unwrap();
    let (busy, report) = (
        crate::account::counts::busy(at.path()),
        at.path().join("report"),
    );
    let many = effort(1_000_000, 5_000_000);
    let number = many.to_string();
    let mut command = fathom(args![
        "account", "--meter", "bpf", "--json", "-o", &report, "--", &busy, "many", number
    ]);
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let mut most = 0;
    let ended = loop {
        most = most.max(anonymous_kib(child.id()));
        if let Some(ended) = child.try_wait().unwrap() {
            break ended;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(
        ended.code().is_some() && (1..8 << 10).contains(&most),
        "{ended}, {most} KiB"
    );
    let value: Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
    let result = &value["result"];
    let gate = if result["gates"]["open"].is_null() {
        "openat"
    } else {
        "open"
    };
    let (calls, lost) = (
        result["gates"][gate]["calls"].as_u64().unwrap(),
        result["lost"].as_u64().unwrap(),
    );
    // The totals are complete, even if the details of some calls are lost.
    assert!(calls >= many as u64, "{calls} calls, {lost} lost");
    assert!(
        lost == 0 || !value["warnings"].as_array().unwrap().is_empty(),
        "{value}"
    );
}

/// Runs a command to its end, and returns the peak of its resident memory in KiB.
#[expect(clippy::zombie_processes, reason = "wait4 waits for it")]
fn peak_kib(command: &mut Command) -> i64 {
    let child = command.stderr(Stdio::null()).spawn().unwrap();
    let (mut status, pid) = (0, child.id().cast_signed());
    // SAFETY: rusage is made of numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills both in.
    let waited = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
    assert_eq!((waited, status), (pid, 0));
    usage.ru_maxrss
}

#[test]
fn memory_is_bounded_however_many_names_and_processes_there_are() {
    const MOST: i64 = 64 << 10;
    let at = tempfile::tempdir().unwrap();
    let (busy, report) = (
        crate::account::counts::busy(at.path()),
        at.path().join("report"),
    );
    let options = ["account", "--calls", "1000000", "--json", "--meter", "bpf"];
    let mut command = fathom(options);
    command.arg("-o").arg(&report).arg(&busy);
    let peak = peak_kib(command.args(["many-names", "500"]));
    let value: Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
    let detail = &value["result"]["detail"];
    // 20 MB of names, of which 6 MiB are held. On a busy machine the details of some calls are lost.
    let [files, unheld, lost] = [
        &detail["files"],
        &detail["unheld"]["calls"],
        &value["result"]["lost"],
    ]
    .map(|number| number.as_u64().unwrap());
    assert!(
        files > 30_000 && unheld > 0 && files + unheld + lost >= 100_000 && peak < MOST,
        "{files} files, {unheld} calls on others, {lost} lost, {peak} KiB"
    );
}

#[test]
fn kill_9_detaches_from_the_command() {
    for meter in METERS {
        let script = "echo ready; while read -r line; do ls / >/dev/null; echo $$; done";
        let mut child = begin(&mut metered(meter, &["sh", "-c", script]));
        let mut stdin = child.stdin.take().unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap());
        let mut answer = || {
            let mut line = String::new();
            let is_asked = stdin.write_all(b"\n").is_ok();
            answers.read_line(&mut line).unwrap();
            (is_asked && !line.is_empty()).then_some(line)
        };
        let before = answer().expect("the command works");
        child.kill().unwrap();
        assert_eq!(ends(&mut child).signal(), Some(9), "{meter}");
        // Without its ptrace tracer, each call of the process fails.
        let expected = (meter != "ptrace").then_some(before);
        assert_eq!(answer(), expected, "{meter}");
    }
}

#[test]
fn commands_that_cannot_run_give_an_error_and_126_or_127() {
    for meter in METERS {
        for (word, code) in [
            ("/no/such/program", 127),
            ("no-such-program-as-this", 127),
            ("/", 126),
            ("/etc/passwd", 126),
        ] {
            let ran = run(&mut metered(meter, &[word]));
            assert_eq!((ran.code(), ran.stdout.len()), (code, 0), "{meter}: {ran}");
            assert!(
                ran.stderr.starts_with("fathom: ") && ran.stderr.trim_end().lines().count() <= 2,
                "{meter}: {ran}"
            );
        }
    }
}

#[test]
fn refused_ptrace_is_an_error_with_a_hint() {
    let mut command = metered("ptrace", &["true"]);
    crate::support::restrict::fail_calls(&mut command, &[libc::SYS_ptrace as u32], libc::EPERM);
    let ran = run(&mut command).refused();
    assert!(
        ran.stderr.contains("ptrace is not permitted") && ran.stderr.contains("SYS_PTRACE"),
        "{ran}"
    );
}

#[test]
fn with_few_descriptors_the_next_meter_is_used() {
    let report = tempfile::NamedTempFile::new().unwrap();
    let words = [
        "-c",
        "ulimit -n 8; exec \"$0\" account --json -o \"$1\" -- sh -c 'exit 3'",
        env!("CARGO_BIN_EXE_fathom"),
    ];
    run(program(Path::new("sh"), words).arg(report.path())).exits(3);
    let value: Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
    assert_eq!(value["result"]["meter"], "ptrace", "{value}");
    // Without root, the reason is that BPF is not permitted.
    if rustix::process::geteuid().is_root() {
        let why = value["result"]["why"].as_str().unwrap();
        assert_eq!(why.matches("Too many open files").count(), 1, "{why}");
        assert_eq!(why.matches("ulimit -n").count(), 1, "{why}");
    }
}
