//! Tests of signals: no incomplete tree is left, and no complete tree is removed unless -r requests
//! it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{listing, pathwalk};
use crate::support::build::tmpfs;
use crate::support::hold::{Hold, Stop};
use crate::support::run::args;
use crate::support::{Need, fathom, in_namespace, require};

/// Starts a run, waits for an event, sends a signal, and returns the messages of the run. The
/// signal must end the run. The value that `wait` returns is dropped after the signal has been
/// sent.
fn stop<T>(flags: &str, root: &Path, signal: Signal, wait: impl FnOnce(&mut Child) -> T) -> String {
    let mut command = fathom(args!["pathwalk", root]);
    command
        .args(flags.split_whitespace())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let held = wait(&mut child);
    assert!(child.try_wait().unwrap().is_none(), "{flags}: it had ended");
    kill_process(Pid::from_child(&child), signal).unwrap();
    drop(held);
    let ran = child.wait_with_output().unwrap();
    let status = ran.status;
    assert_eq!(status.signal(), Some(signal.as_raw()), "{flags}: {status}");
    String::from_utf8(ran.stderr).unwrap()
}

/// Holds the run where it opens or creates `path`.
fn held_at(path: &Path) -> impl FnOnce(&mut Child) -> Hold + use<> {
    let wanted = path.to_owned();
    let above = path.ancestors().find(|above| above.exists()).unwrap();
    let hold = Hold::when(Stop::OpenOnMount(above), move |path| path == wanted);
    move |child| {
        assert_eq!(hold.wait(child), child.id());
        hold
    }
}

/// Options with so many repetitions that the output does not fit into a pipe: the run cannot end
/// before the test reads it.
const REPEATEDLY: &str = "-l 4 -f 500 --repeat 10000";

/// Waits until a search is complete.
fn searching(child: &mut Child) {
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("pathwalk: Found ") {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "no search");
    }
    child.stdout = Some(output.into_inner());
}

#[test]
fn an_incomplete_tree_is_removed() {
    if require(&[Need::Root]) {
        in_namespace(|scratch| {
            let root = tmpfs(scratch.join("at")).join("x");
            for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
                for (flags, file) in [
                    ("-c -l 4 -f 2000", "0/0.500"),
                    ("-ctr -l 4 -f 2000", "1/1.500"),
                ] {
                    let stderr = stop(flags, &root, signal, held_at(&root.join(file)));
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
            for more in ["", "-j 2", "--latency"] {
                let flags = format!("-ctr {REPEATEDLY} {more}");
                let stderr = stop(&flags, &root, Signal::INT, searching);
                assert!(!root.exists(), "{more}");
                assert_eq!(
                    stderr,
                    format!("fathom: cannot search '{}': interrupted\n", root.display())
                );
            }
            // Without -r, the tree is kept.
            stop(&format!("-ct {REPEATEDLY}"), &root, Signal::INT, searching);
            assert_eq!(listing(&root).len(), 1 + 4 + 2000);
            let before = listing(&root);
            stop(&format!("-t {REPEATEDLY}"), &root, Signal::INT, searching);
            assert_eq!(listing(&root), before);
        });
    }
}

#[test]
fn a_removal_can_be_continued() {
    if require(&[Need::Root]) {
        in_namespace(|scratch| {
            let root = tmpfs(scratch.join("at")).join("x");
            pathwalk("-c -l 4 -f 2000", &root).exits(0);
            // The files of the first directory are gone.
            let second = held_at(&root.join("1"));
            let stderr = stop("-r -l 4 -f 2000", &root, Signal::INT, second);
            assert!(
                stderr.ends_with("interrupted; 2000 files were removed\n"),
                "{stderr}"
            );
            assert!(!root.join("0").exists() && root.join("1/1.0").exists());
            let ran = pathwalk("-r -l 4 -f 2000", &root).exits(1);
            assert!(ran.stderr.contains("did not exist"), "{ran}");
            assert!(!root.exists());
            assert_eq!(fs::read_dir(scratch.join("at")).unwrap().count(), 0);
        });
    }
}
