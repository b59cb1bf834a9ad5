//! Tests that `--watch` reports attached and detached mounts.

use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::build::{dir, name, tmpfs, unmount};
use crate::support::restrict::fathom_as_nobody;
use crate::support::run::{args, exact, path};
use crate::support::wait::{LIMIT, is_asleep, wait_until};
use crate::support::{Need, fathom, in_namespace, require, schema};

/// A running watcher, after its first message.
struct Watch {
    child: Child,
    lines: Receiver<String>,
    source: String,
}

impl Watch {
    fn start(command: &mut Command) -> Watch {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            stdout
                .lines()
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut source = String::new();
        stderr.read_line(&mut source).unwrap();
        assert!(source.contains("watching"), "{source}");
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Watch {
            child,
            lines,
            source,
        }
    }

    fn next(&self) -> String {
        self.lines.recv_timeout(LIMIT).expect("no event")
    }

    /// Ends the watcher with `signal`. Returns its exit status and the remaining lines.
    fn end(mut self, signal: Signal) -> (ExitStatus, Vec<String>) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let status = self.child.wait().unwrap();
        (status, self.lines.iter().collect())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn comes_and_goes(watch: &Watch, at: &Path) {
    tmpfs(at);
    assert_eq!(
        watch.next(),
        format!("attach {} some\\040tmpfs tmpfs", at.display())
    );
    unmount(at);
    assert_eq!(watch.next(), format!("detach {}", at.display()));
}

#[test]
fn attach_and_detach_are_reported() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let tree = dir(base.join("tree"));
            let watch = Watch::start(&mut fathom(args!["mounts", &tree, "--watch"]));
            tmpfs(base.join("not under the root"));
            comes_and_goes(&watch, &tree.join("here"));
            let (status, rest) = watch.end(Signal::INT);
            assert_eq!((status.code(), rest), (Some(0), vec![]));
        });
    }
}

#[test]
fn existing_mounts_are_reported_only_when_detached() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let old = tmpfs(base.join("old"));
            let watch = Watch::start(&mut fathom(args!["mounts", base, "--watch"]));
            unmount(&old);
            assert_eq!(watch.next(), format!("detach {}", old.display()));
            assert_eq!(watch.end(Signal::TERM).0.code(), Some(0));
        });
    }
}

#[test]
fn unprivileged_user_polls_mountinfo() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let mut command = fathom_as_nobody(base, args!["mounts", base, "--watch"]);
            let watch = Watch::start(&mut command);
            assert!(watch.source.contains("mountinfo"), "{}", watch.source);
            comes_and_goes(&watch, &base.join("here"));
            assert_eq!(watch.end(Signal::INT).0.code(), Some(0));
        });
    }
}

#[test]
fn moved_mounts_have_their_new_paths_as_what_is_on_them_has() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            for command in [
                fathom(args!["mounts", base, "--watch"]),
                fathom_as_nobody(base, args!["mounts", base, "--watch"]),
            ] {
                let (old, new) = (tmpfs(base.join("old")), dir(base.join("new")));
                tmpfs(old.join("child"));
                let mut command = command;
                let watch = Watch::start(&mut command);
                rustix::mount::mount_move(&old, &new).unwrap();
                let mut seen: Vec<String> = (0..4).map(|_| watch.next()).collect();
                seen.sort();
                let of =
                    |event: &str, at: &Path, rest: &str| format!("{event} {}{rest}", at.display());
                let expected = [
                    of("attach", &new, " some\\040tmpfs tmpfs"),
                    of("attach", &new.join("child"), " some\\040tmpfs tmpfs"),
                    of("detach", &old, ""),
                    of("detach", &old.join("child"), ""),
                ];
                assert_eq!(seen, expected, "{}", watch.source);
                unmount(new.join("child"));
                assert_eq!(watch.next(), of("detach", &new.join("child"), ""));
                unmount(&new);
                assert_eq!(watch.next(), of("detach", &new, ""));
                assert_eq!(watch.end(Signal::INT).1, Vec::<String>::new());
            }
        });
    }
}

#[test]
fn json_lines_are_exact_for_any_name() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            for json in [&["--json"][..], &["--format", "json"]] {
                any_name(base, json);
            }
        });
    }
}

fn any_name(base: &Path, json: &[&str]) {
    let odd = base.join(name(b"new\nline \xff \\"));
    let watch = Watch::start(fathom(args!["mounts", base, "--watch"]).args(json));
    let event = || {
        let event: Value = serde_json::from_str(&watch.next()).unwrap();
        schema::check(&event);
        (event["event"].as_str().unwrap().to_owned(), event)
    };
    tmpfs(&odd);
    let (what, attached) = event();
    assert_eq!(
        (what.as_str(), path(&attached, "target")),
        ("attach", odd.clone())
    );
    assert_eq!(
        (exact(&attached, "source"), attached["fstype"].as_str()),
        (b"some tmpfs".to_vec(), Some("tmpfs"))
    );
    unmount(&odd);
    let (what, detached) = event();
    assert_eq!((what.as_str(), path(&detached, "target")), ("detach", odd));
    assert_eq!(attached["id"], detached["id"]);
}

#[test]
fn hundred_quick_mounts_and_unmounts_are_all_reported() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let watch = Watch::start(&mut fathom(args!["mounts", base, "--watch", "--json"]));
            let by_polling = watch.source.contains("mountinfo");
            for n in 0..100 {
                let at = base.join(format!("m{n}"));
                tmpfs(&at);
                unmount(&at);
            }
            // The events are in order: after the last mount, all others were reported.
            let last = tmpfs(base.join("last"));
            let (mut attached, mut detached, mut overflowed) = (0, 0, false);
            loop {
                let event: Value = serde_json::from_str(&watch.next()).unwrap();
                schema::check(&event);
                match event["event"].as_str().unwrap() {
                    "attach" if event["target"] == last.to_str().unwrap() => break,
                    "attach" => attached += 1,
                    "detach" => detached += 1,
                    _ => overflowed = true,
                }
            }
            // Polling finds only mounts that exist for a while, and none of these did.
            let is_right = match () {
                () if by_polling => attached == detached,
                () => (attached, detached) == (100, 100) || overflowed,
            };
            assert!(
                is_right,
                "{}: {attached} attached, {detached} detached",
                watch.source
            );
        });
    }
}

#[test]
fn signal_ends_it_while_stdout_is_blocked() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            // A line may be longer than the buffer of the pipe.
            for name in ["m".to_owned(), "\u{1b}".repeat(250)] {
                let (reader, writer) = std::io::pipe().unwrap();
                // SAFETY: the call takes plain numbers.
                assert!(unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) } > 0);
                let mut child = fathom(args!["mounts", base, "--watch"])
                    .stdout(writer.try_clone().unwrap())
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap();
                BufReader::new(child.stderr.take().unwrap())
                    .read_line(&mut String::new())
                    .unwrap();
                let at = dir(base.join([name.as_str(); 8].join("/")));
                for _ in 0..50 {
                    tmpfs(&at); // and the mount stays, to be described
                }
                let has_room = || {
                    let mut fds = [PollFd::new(&writer, PollFlags::OUT)];
                    poll(&mut fds, Some(&Timespec::default())).unwrap() > 0
                };
                // For poll(2), a pipe of one page is not writable once it contains any data.
                wait_until("the pipe is full, and its writer sleeps", || {
                    !has_room() && is_asleep(child.id())
                });
                kill_process(Pid::from_child(&child), Signal::INT).unwrap();
                let mut ended = None;
                wait_until("the signal ends it", || {
                    ended = child.try_wait().unwrap();
                    ended.is_some()
                });
                drop(reader);
                assert_eq!(
                    ended.and_then(|status| status.code()),
                    Some(0),
                    "names of {} bytes",
                    name.len()
                );
            }
        });
    }
}
