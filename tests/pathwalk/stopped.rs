//! Signals: no incomplete tree is left, and no complete one is removed unless -r asks for it.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{listing, pathwalk};
use crate::support::build::tmpfs;
use crate::support::run::args;
use crate::support::{Need, fathom, in_namespace, require};

/// Starts a run, waits until `ready`, sends a signal, and returns what the run printed on standard
/// error. It must end by that signal.
fn stop(flags: &str, root: &Path, signal: Signal, ready: impl Fn() -> bool) -> String {
    stop_or_not(flags, root, signal, ready).unwrap_or_else(|| panic!("{flags}: it had ended"))
}

/// The same, but `None` if the run was complete before the signal came.
fn stop_or_not(
    flags: &str,
    root: &Path,
    signal: Signal,
    ready: impl Fn() -> bool,
) -> Option<String> {
    let mut command = fathom(args!["pathwalk", root]);
    command
        .args(flags.split_whitespace())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    if !until(&mut child, ready) {
        return None;
    }
    kill_process(Pid::from_child(&child), signal).unwrap();
    let started = Instant::now();
    let status = child.wait().unwrap();
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "{flags}: {signal:?} had no effect"
    );
    if status.success() {
        return None;
    }
    assert_eq!(status.signal(), Some(signal.as_raw()), "{flags}: {status}");
    Some(std::io::read_to_string(child.stderr.take().unwrap()).unwrap())
}

/// Waits until `ready`, and returns `false` if the run ends before.
fn until(child: &mut Child, ready: impl Fn() -> bool) -> bool {
    let started = Instant::now();
    while !ready() {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "it did not become ready"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

#[test]
fn an_incomplete_tree_is_removed() {
    if require(&[Need::Root]) {
        in_namespace(|scratch| {
            let root = tmpfs(scratch.join("at")).join("x");
            for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
                for (flags, file) in [
                    ("-c -l 4 -f 20000", "0/0.500"),
                    ("-ctr -l 4 -f 20000", "1/1.500"),
                ] {
                    let early = || {
                        let stderr = stop_or_not(flags, &root, signal, || root.join(file).exists());
                        // On a loaded machine it may be complete before this process sees it begin.
                        if stderr.is_none() {
                            let _ = fs::remove_dir_all(&root);
                        }
                        stderr
                    };
                    let stderr = (0..20).find_map(|_| early()).unwrap();
                    assert!(!root.exists(), "{flags}");
                    assert!(
                        stderr.ends_with("x': interrupted; the tree was removed again\n"),
                        "{stderr}"
                    );
                }
            }
        });
    }
}

#[test]
fn a_tree_that_is_created_for_one_run_is_removed() {
    if require(&[Need::Root]) {
        in_namespace(|scratch| {
            let root = tmpfs(scratch.join("at")).join("x");
            let is_complete = || root.join("3/3.499").exists();
            for more in ["", "-j 2", "--latency"] {
                let stderr = stop(
                    &format!("-ctr -l 4 -f 500 --repeat 10000 {more}"),
                    &root,
                    Signal::INT,
                    is_complete,
                );
                assert!(!root.exists(), "{more}");
                assert_eq!(
                    stderr,
                    format!("fathom: cannot search '{}': interrupted\n", root.display())
                );
            }
            // Without -r, the tree is kept.
            stop("-ct -l 4 -f 500 --repeat 10000", &root, Signal::INT, || {
                std::thread::sleep(Duration::from_millis(50));
                is_complete()
            });
            assert_eq!(listing(&root).len(), 1 + 4 + 2000);
            let before = listing(&root);
            stop("-t -l 4 -f 500 --repeat 10000", &root, Signal::INT, || {
                std::thread::sleep(Duration::from_millis(50));
                true
            });
            assert_eq!(listing(&root), before);
        });
    }
}

#[test]
fn a_removal_can_be_continued() {
    if require(&[Need::Root]) {
        in_namespace(|scratch| {
            let root = tmpfs(scratch.join("at")).join("x");
            pathwalk("-c -l 4 -f 20000", &root).exits(0);
            let stderr = stop("-r -l 4 -f 20000", &root, Signal::INT, || {
                !root.join("0/0.0").exists()
            });
            assert!(
                stderr.contains("interrupted; ") && stderr.ends_with(" files were removed\n"),
                "{stderr}"
            );
            assert!(root.join("3/3.19999").exists());
            let ran = pathwalk("-r -l 4 -f 20000", &root).exits(1);
            assert!(ran.stderr.contains("did not exist"), "{ran}");
            assert!(!root.exists());
            assert_eq!(fs::read_dir(scratch.join("at")).unwrap().count(), 0);
        });
    }
}
