//! Tests of Ctrl-C during a survey: the results so far are shown. A killed survey leaves nothing
//! behind.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

use super::{PATIENT, names};
use crate::support::build::{bush, dir, tmpfs};
use crate::support::effort::effort;
use crate::support::run::args;
use crate::support::wait::wait_until;
use crate::support::{Need, fathom, in_namespace, require};

const PAGE: &str = "fathom-survey.html";

/// Starts a survey whose page goes to `here`, in its own process group, and calls `stop` when the
/// step with this number, counted from 1, has begun. A survey that ended before it was stopped is
/// started again. Returns its exit status, its output, and the messages after the stop.
fn stop_at(
    step: usize,
    root: &Path,
    here: &Path,
    stop: impl Fn(&mut Child),
) -> (ExitStatus, Vec<u8>, String) {
    let mut command = fathom(args!["survey", root, "--json", "--verbose"]);
    command
        .args(PATIENT)
        .current_dir(here)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let attempt = || {
        let mut child = command.spawn().unwrap();
        let mut messages = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = messages.find(|line| line.as_ref().unwrap().starts_with(&format!("{step} of ")));
        assert!(line.is_some(), "no step {step}");
        stop(&mut child);
        let mut out = Vec::new();
        let mut printed = child.stdout.take().unwrap();
        printed.read_to_end(&mut out).unwrap();
        let messages: Vec<String> = messages.map(Result::unwrap).collect();
        (child.wait().unwrap(), out, messages.join("\n"))
    };
    let mut attempts = std::iter::repeat_with(attempt).take(100);
    let stopped = attempts.find(|(status, ..)| status.code() != Some(0));
    stopped.unwrap_or_else(|| panic!("no survey was stopped at step {step}"))
}

#[test]
fn interrupt_writes_the_page_of_what_was_found() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let root = tmpfs(ground.join("root"));
            bush(&root, 20, 50);
            for step in 1..=8 {
                let here = dir(ground.join(format!("here{step}")));
                let (status, out, messages) = stop_at(step, &root, &here, |child| {
                    // A terminal sends the signal to the whole process group, kill(1) to the first
                    // process only.
                    let id = Pid::from_child(child);
                    match step % 2 {
                        0 => kill_process_group(id, Signal::INT).unwrap(),
                        _ => kill_process(id, Signal::INT).unwrap(),
                    }
                });
                assert!(!out.is_empty(), "step {step}: {status}\n{messages}");
                let value: Value = serde_json::from_slice(&out).unwrap();
                crate::support::schema::check(&value);
                assert_eq!(status.code(), Some(1), "{step}");
                assert_eq!(value["result"]["ended"], "interrupted", "{step}");
                let warning = value["warnings"][0]["message"].as_str().unwrap();
                assert!(warning.starts_with("interrupted"), "{warning}");
                // Earlier steps have results, and the last step has none.
                let steps = value["result"]["steps"].as_array().unwrap();
                let state = |step: usize| steps[step - 1]["state"].as_str().unwrap();
                assert!((1..step).all(|step| state(step) == "done"), "{steps:?}");
                assert!(!value["result"]["skipped"]["gates"].is_null(), "{step}");
                let page = fs::read_to_string(here.join(PAGE)).unwrap();
                assert!(page.contains("</html>"));
                assert_eq!(names(&here), [PAGE]);
                assert_eq!(names(&root).len(), 20);
            }
        });
    }
}

/// A survey that has ended before the second signal is run again.
#[test]
fn second_interrupt_exits_at_once() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let (root, here) = (tmpfs(ground.join("root")), dir(ground.join("here")));
            bush(&root, 20, 50);
            let is_hit = || {
                let (status, ..) = stop_at(3, &root, &here, |child| {
                    let group = Pid::from_child(child);
                    kill_process_group(group, Signal::INT).unwrap();
                    // A second signal before the delivery of the first would be merged with it.
                    wait_until("the first signal has come", || {
                        !catches_interrupt(child.id()) || child.try_wait().unwrap().is_some()
                    });
                    let _ = kill_process_group(group, Signal::INT);
                });
                let mut names = names(&here);
                names.retain(|name| name != PAGE);
                assert_eq!(names, [""; 0]);
                wait_until_gone(&root);
                match status.signal() {
                    Some(signal) => assert_eq!(signal, libc::SIGINT),
                    None => assert_eq!(status.code(), Some(1)),
                }
                status.signal().is_some()
            };
            assert!(
                (0..20).any(|_| is_hit()),
                "the second signal never came in time"
            );
        });
    }
}

/// Whether a process has a handler for SIGINT.
fn catches_interrupt(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let caught = status
        .lines()
        .find_map(|line| line.strip_prefix("SigCgt:\t"));
    let caught = caught.and_then(|set| u64::from_str_radix(set, 16).ok());
    caught.is_some_and(|set| set & 1 << (libc::SIGINT - 1) != 0)
}

#[test]
fn kill_leaves_no_files() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let root = tmpfs(ground.join("root"));
            bush(&root, 20, 50);
            for step in [4, 1, 8].into_iter().take(effort(1, 3)) {
                let here = dir(ground.join(format!("here{step}")));
                let (status, ..) = stop_at(step, &root, &here, |child| child.kill().unwrap());
                assert_eq!(status.signal(), Some(libc::SIGKILL), "{status}");
                wait_until_gone(&root);
                assert_eq!(names(&here), [""; 0], "{step}");
                assert_eq!(names(&root).len(), 20);
            }
        });
    }
}

/// Waits until no process is left that was started with `root` among its arguments.
fn wait_until_gone(root: &Path) {
    let root = root.to_str().unwrap();
    wait_until("no process is left", || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let mut lines = processes.flat_map(|process| fs::read(process.path().join("cmdline")));
        !lines.any(|line| String::from_utf8_lossy(&line).contains(root))
    });
}
