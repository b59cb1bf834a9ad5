//! Runs of the program whose child processes wait for servers that do not answer, with a clock that
//! the test sets forward.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::support::clock::Clock;
use crate::support::fuse::Server;
use crate::support::run::{Ran, Running, start};
use crate::support::wait::wait_until;

/// A run on the mounts below `root`, which is one of its arguments.
pub(crate) struct Stuck<'a> {
    running: Running,
    clock: &'a Clock,
    root: PathBuf,
}

impl<'a> Stuck<'a> {
    pub(crate) fn start(command: &mut Command, clock: &'a Clock, root: &Path) -> Stuck<'a> {
        Stuck {
            running: start(clock.given_to(command)),
            clock,
            root: root.to_owned(),
        }
    }

    /// Waits until a server has received this many requests.
    pub(crate) fn wait_for_requests(&mut self, server: &Server, count: u64) {
        wait_until("a server has its requests", || {
            self.running.assert_running();
            server.requests() >= count
        });
    }

    /// Waits until the run has a child at each of `mounts` and no others, and until the server
    /// `last`, if given, has received a request. Sets the clock forward by a little more than 10
    /// ms, after which a child counts as stuck, whenever all children wait at such mounts.
    pub(crate) fn wait_for(
        &mut self,
        mounts: impl IntoIterator<Item = PathBuf>,
        last: Option<&Server>,
    ) {
        let mounts: BTreeSet<PathBuf> = mounts.into_iter().collect();
        wait_until(&format!("children are at {mounts:?}"), || {
            self.running.assert_running();
            let is_asked = last.is_none_or(|server| server.requests() > 0);
            let children = self.children();
            let at: BTreeSet<PathBuf> = children
                .iter()
                .filter_map(|child| mount_of(*child, &mounts))
                .collect();
            let all_wait = !at.is_empty() && children.len() == at.len();
            let is_there = all_wait && is_asked && at == mounts;
            if all_wait && !is_there {
                self.clock.advance(Duration::from_millis(11));
            }
            is_there
        });
    }

    /// Waits until a child, or a child of a child, is blocked in a system call.
    pub(crate) fn wait_for_call(&mut self, number: libc::c_long) {
        let begins = format!("{number} ");
        let is_in_it = |child: &u32| {
            fs::read_to_string(format!("/proc/{child}/syscall"))
                .is_ok_and(|call| call.starts_with(&begins))
        };
        wait_until(&format!("a child is blocked in call {number}"), || {
            self.running.assert_running();
            self.children().iter().any(is_in_it)
        });
    }

    /// Waits until a child, or a child of a child, has been sent SIGKILL. A child whose request the
    /// server is handling does not end.
    pub(crate) fn wait_for_kill(&self) {
        let is_killed = |child: &u32| {
            let Ok(status) = fs::read_to_string(format!("/proc/{child}/status")) else {
                return false; // it has ended
            };
            let pending = |line: &str| {
                let sets = line
                    .strip_prefix("ShdPnd:\t")
                    .or(line.strip_prefix("SigPnd:\t"))?;
                u64::from_str_radix(sets, 16).ok()
            };
            let pending = status.lines().filter_map(pending);
            pending.fold(0, |all, set| all | set) & 1 << (libc::SIGKILL - 1) != 0
        };
        wait_until("a child is killed", || {
            self.children().iter().any(is_killed)
        });
    }

    pub(crate) fn end(self) -> Ran {
        self.running.end()
    }

    /// The same for a run that has sent SIGKILL and waits a while for the end of the child. The run
    /// may read the clock only afterwards, so the clock goes on until the run has ended.
    pub(crate) fn end_after_kill(self) -> Ran {
        self.wait_for_kill();
        wait_until("the run has ended", || {
            self.clock.advance(Duration::from_millis(100));
            self.running.has_ended()
        });
        self.running.end()
    }

    fn children(&self) -> Vec<u32> {
        let mut all = left(&self.root);
        all.retain(|process| *process != self.running.id());
        all
    }
}

/// The mount, one of `mounts`, that a process has open.
fn mount_of(process: u32, mounts: &BTreeSet<PathBuf>) -> Option<PathBuf> {
    let open = fs::read_dir(format!("/proc/{process}/fd")).ok()?;
    let open = open.filter_map(|fd| fs::read_link(fd.ok()?.path()).ok());
    open.into_iter().find(|path| mounts.contains(path))
}

/// The running processes with `root` among their arguments.
pub(crate) fn left(root: &Path) -> Vec<u32> {
    let root = root.to_str().unwrap();
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let mut arguments = line.split(|&b| b == 0);
        if arguments.any(|argument| argument == root.as_bytes()) {
            all.extend(entry.file_name().to_str().unwrap().parse::<u32>());
        }
    }
    all
}
