//! Tests of Ctrl-Z and `fg` with a metered command: the command, its meter and their shell.

use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::account::counts::METERS;
use crate::support::effort::effort;
use crate::support::run::{args, program};
use crate::support::wait::{LIMIT, children, wait_until};
use crate::support::{Need, fathom, require, run};

/// vim restores the terminal and stops its process group, top restores it and stops itself alone, and
/// bash stops its own process group, which has the terminal.
#[test]
fn suspended_commands_give_the_terminal_back() {
    let programs = ["vim", "top", "bash"];
    let mut needs = programs.map(Need::Program).to_vec();
    needs.push(Need::Program("python3"));
    if !require(&needs) {
        return;
    }
    let rounds = effort(3, 25).to_string();
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/account/suspend.py"
    );
    for meter in METERS {
        for program_of in programs {
            let dir = tempfile::tempdir().unwrap();
            let fathom = fathom::<&str>([]).get_program().to_owned();
            let words = args![
                script, program_of, rounds, fathom, "account", "--meter", meter, "-o", "report",
                "--"
            ];
            let mut driver = program(Path::new("python3"), &words);
            let ran = run(driver.current_dir(dir.path()));
            assert_eq!(ran.code(), 0, "{meter}: {ran}");
        }
    }
}

/// Without a terminal nothing would continue the meter, so it does not stop with the command.
#[test]
fn commands_that_others_stop_and_continue_end() {
    let dir = tempfile::tempdir().unwrap();
    for meter in METERS {
        let report = dir.path().join(meter);
        let words = args!["account", "--meter", meter, "-o", report, "--", "cat"];
        let mut fathom = fathom(words);
        let mut fathom = fathom
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let state_is = |pid: u32, wanted: char| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit_once(") ")
                .is_some_and(|(_, rest)| rest.starts_with(wanted))
        };
        let is_stopped = |pid| state_is(pid, 'T') || state_is(pid, 't');
        // Before the child becomes the command, it has fathom's handlers of signals.
        let is_cat = |pid: u32| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "cat\n")
        };
        wait_until("the command sleeps", || {
            children(fathom.id())
                .into_iter()
                .any(|child| is_cat(child) && state_is(child, 'S'))
        });
        let cat = children(fathom.id())[0];
        let signal =
            |signal| kill_process(Pid::from_raw(cat.cast_signed()).unwrap(), signal).unwrap();
        for stop in [Signal::STOP, Signal::TSTP] {
            signal(stop);
            wait_until("the command is stopped", || is_stopped(cat));
            signal(Signal::CONT);
            wait_until("the command goes on", || !is_stopped(cat));
        }
        drop(fathom.stdin.take());
        assert_eq!(fathom.wait().unwrap().code(), Some(0), "{meter}");
    }
}

/// fathom may replace a process by exec. The children of that process do not belong to the command.
#[test]
fn inherited_children_are_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let fathom = fathom::<&str>([]).get_program().to_owned();
    for meter in METERS {
        let script = format!(
            "sleep {} >/dev/null 2>&1 & echo $! >{meter}; exec \"$@\" account --meter {meter} -o report -- true",
            2 * LIMIT.as_secs()
        );
        let words = args!["-c", script, "sh", fathom];
        run(program(Path::new("sh"), &words).current_dir(dir)).exits(0);
        let sleep: i32 = std::fs::read_to_string(dir.join(meter))
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let sleep = Pid::from_raw(sleep).unwrap();
        kill_process(sleep, Signal::KILL).expect("it still sleeps");
    }
}

const UNTRACED: &str = r#"
import ctypes, os, platform, sys
CLONE_UNTRACED, SIGCHLD, WALL = 0x800000, 17, 0x40000000
libc = ctypes.CDLL(None)
clone = {"x86_64": 56, "aarch64": 220}[platform.machine()]
args = (ctypes.c_uint64 * 8)(CLONE_UNTRACED, 0, 0, 0, SIGCHLD, 0, 0, 0)
for make in [lambda: libc.syscall(clone, CLONE_UNTRACED | SIGCHLD, 0, 0, 0, 0), lambda: libc.syscall(435, args, 64)]:
    pid = make()
    if pid == 0:
        try:
            os.stat(sys.argv[1])
            os._exit(0)
        except OSError as error:
            os._exit(error.errno)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, WALL)[1]))
"#;

/// A child that asks not to be traced still works, and its calls are counted.
#[test]
fn untraced_children_make_their_calls() {
    if !require(&[Need::Program("python3")]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (report, file) = (dir.path().join("report"), dir.path().join("file"));
    std::fs::write(&file, "").unwrap();
    let file = file.canonicalize().unwrap();
    for meter in METERS {
        let words = args![
            "account", "--meter", meter, "--json", "-o", report, "--", "python3", "-c", UNTRACED,
            file
        ];
        let ran = run(&mut fathom(words)).exits(0);
        assert_eq!(ran.stdout, b"0\n0\n", "{meter}: {ran}");
        let value = crate::account::attach::report(&report);
        let row = crate::account::command::row(&value["per_file"], &file).unwrap();
        assert_eq!(row["calls"], 2, "{meter}: {value}");
    }
}
