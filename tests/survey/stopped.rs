//! Ctrl-C, at any time: what was found until then is shown. Whoever is killed leaves nothing.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

use super::names;
use crate::support::build::{bush, dir, tmpfs};
use crate::support::run::args;
use crate::support::{Need, fathom, in_namespace, require};

const PAGE: &str = "fathom-survey.html";

/// Starts a survey whose page goes to `here`, in a process group of its own.
fn started(root: &Path, here: &Path) -> Child {
    let mut command = fathom(args!["survey", root, "--json"]);
    command
        .current_dir(here)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap()
}

fn ended(mut child: Child) -> (Option<i32>, Vec<u8>) {
    let since = Instant::now();
    let mut out = Vec::new();
    std::io::Read::read_to_end(&mut child.stdout.take().unwrap(), &mut out).unwrap();
    let status = child.wait().unwrap();
    assert!(
        since.elapsed() < Duration::from_secs(20),
        "the signal was not heeded"
    );
    (status.code(), out)
}

#[test]
fn interrupt_writes_the_page_of_what_was_found() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let root = tmpfs(ground.join("root"));
            bush(&root, 20, 50);
            let mut stopped = 0;
            for (n, delay) in [50, 300, 700, 1100, 1500, 1900].into_iter().enumerate() {
                let here = dir(ground.join(format!("here{n}")));
                let child = started(&root, &here);
                std::thread::sleep(Duration::from_millis(delay));
                // From a terminal it goes to all of them, from kill(1) to the first one.
                let _ = match n % 2 {
                    0 => kill_process_group(Pid::from_child(&child), Signal::INT),
                    _ => kill_process(Pid::from_child(&child), Signal::INT),
                };
                let (status, out) = ended(child);
                if status == Some(0) {
                    continue; // it was done already
                }
                if out.is_empty() {
                    assert!(status.is_none(), "{delay} ms: {status:?}"); // it had not begun
                    continue;
                }
                stopped += 1;
                let value: Value = serde_json::from_slice(&out).unwrap();
                crate::support::schema::check(&value);
                assert_eq!(status, Some(1), "{delay} ms");
                assert_eq!(value["result"]["ended"], "interrupted", "{delay} ms");
                assert!(
                    value["warnings"][0]["message"]
                        .as_str()
                        .unwrap()
                        .starts_with("interrupted")
                );
                assert!(
                    fs::read_to_string(here.join(PAGE))
                        .unwrap()
                        .contains("</html>")
                );
                assert_eq!(names(&here), [PAGE]);
                assert_eq!(names(&root).len(), 20);
            }
            assert!(stopped >= 3, "only {stopped} were stopped in time");
        });
    }
}

#[test]
fn second_interrupt_exits_at_once() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let (root, here) = (tmpfs(ground.join("root")), dir(ground.join("here")));
            bush(&root, 20, 50);
            let child = started(&root, &here);
            std::thread::sleep(Duration::from_millis(800));
            let group = Pid::from_child(&child);
            kill_process_group(group, Signal::INT).unwrap();
            let _ = kill_process_group(group, Signal::INT);
            let (_, _) = ended(child);
            let mut names = names(&here);
            names.retain(|name| name != PAGE);
            assert_eq!(names, [""; 0]);
            gone(&root);
        });
    }
}

#[test]
fn kill_leaves_no_files() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let root = tmpfs(ground.join("root"));
            bush(&root, 20, 50);
            for delay in [200, 900, 1600] {
                let here = dir(ground.join(format!("here{delay}")));
                let mut child = started(&root, &here);
                std::thread::sleep(Duration::from_millis(delay));
                child.kill().unwrap();
                child.wait().unwrap();
                assert_eq!(names(&here), [""; 0], "{delay} ms");
                assert_eq!(names(&root).len(), 20);
                gone(&root);
            }
        });
    }
}

/// No process is left that was started with `root` among its arguments.
fn gone(root: &Path) {
    let root = root.to_str().unwrap();
    let since = Instant::now();
    let is_left = || {
        let lines = fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .map(|entry| fs::read(entry.path().join("cmdline")));
        lines
            .flatten()
            .any(|line| String::from_utf8_lossy(&line).contains(root))
    };
    while is_left() {
        assert!(
            since.elapsed() < Duration::from_secs(10),
            "a process is left"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}
