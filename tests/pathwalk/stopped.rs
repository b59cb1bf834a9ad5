//! Being stopped: no half-made tree stays, and no whole one is lost that was not to be removed.

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

/// Starts a run, waits until `ready`, sends it a signal, and waits for its end, which must be by
/// that signal. Gives what it said.
fn stop(flags: &str, root: &Path, signal: Signal, ready: impl Fn() -> bool) -> String {
    stop_or_not(flags, root, signal, ready).unwrap_or_else(|| panic!("{flags}: it had ended"))
}

/// The same, but `None` if it had done all it was to do before the signal came.
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
        "{flags}: {signal:?} was not heeded"
    );
    if status.success() {
        return None;
    }
    assert_eq!(status.signal(), Some(signal.as_raw()), "{flags}: {status}");
    Some(std::io::read_to_string(child.stderr.take().unwrap()).unwrap())
}

/// Waits until `ready`; `false` if it has ended before.
fn until(child: &mut Child, ready: impl Fn() -> bool) -> bool {
    let started = Instant::now();
    while !ready() {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "it does not begin"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

#[test]
fn a_tree_that_is_being_made_goes() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let root = tmpfs(ground.join("at")).join("x");
            for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
                for (flags, file) in [
                    ("-c -l 4 -f 20000", "0/0.500"),
                    ("-ctr -l 4 -f 20000", "1/1.500"),
                ] {
                    let early = || {
                        let said = stop_or_not(flags, &root, signal, || root.join(file).exists());
                        // On a busy machine it may have been made before this process saw it begin.
                        if said.is_none() {
                            let _ = fs::remove_dir_all(&root);
                        }
                        said
                    };
                    let said = (0..20).find_map(|_| early()).unwrap();
                    assert!(!root.exists(), "{flags}");
                    assert!(
                        said.ends_with("x': interrupted; nothing of the tree is left\n"),
                        "{said}"
                    );
                }
            }
        });
    }
}

#[test]
fn a_tree_that_is_made_for_one_run_goes_with_it() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let root = tmpfs(ground.join("at")).join("x");
            let whole = || root.join("3/3.499").exists();
            for more in ["", "-j 2", "--latency"] {
                let said = stop(
                    &format!("-ctr -l 4 -f 500 --repeat 10000 {more}"),
                    &root,
                    Signal::INT,
                    whole,
                );
                assert!(!root.exists(), "{more}");
                assert_eq!(
                    said,
                    format!("fathom: cannot search '{}': interrupted\n", root.display())
                );
            }
            // Without -r it is not for one run, and whole.
            stop("-ct -l 4 -f 500 --repeat 10000", &root, Signal::INT, || {
                std::thread::sleep(Duration::from_millis(50));
                whole()
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
fn a_removal_that_is_stopped_can_go_on() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let root = tmpfs(ground.join("at")).join("x");
            pathwalk("-c -l 4 -f 20000", &root).exits(0);
            let said = stop("-r -l 4 -f 20000", &root, Signal::INT, || {
                !root.join("0/0.0").exists()
            });
            assert!(
                said.contains("interrupted; ") && said.ends_with(" files were removed before\n"),
                "{said}"
            );
            assert!(root.join("3/3.19999").exists());
            let ran = pathwalk("-r -l 4 -f 20000", &root).exits(1);
            assert!(ran.stderr.contains("were not there"), "{ran}");
            assert!(!root.exists());
            assert_eq!(fs::read_dir(ground.join("at")).unwrap().count(), 0);
        });
    }
}
