//! Tests of locks, and of signals and kills during a snapshot.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Pid, Signal, kill_process};

use crate::restic::{
    NEEDS, check, dump, dump_command, init, restic, restic_command, restored, trees,
};
use crate::support::build::{dir, file};
use crate::support::effort::effort;
use crate::support::hold::{Hold, Stop};
use crate::support::run::args;
use crate::support::snapshot::{kept, same};
use crate::support::{in_namespace, require, run};

/// Holds the next process (or its server) that lists the indexes: at that moment, the repository
/// has the lock of the process.
pub(crate) fn hold_with_lock(repository: &Path) -> Hold {
    Hold::new(Stop::Open(&repository.join("index")))
}

/// Sends a signal to a held process, and releases it. Returns its exit status.
pub(crate) fn end_held(mut child: Child, hold: Hold, signal: Signal) -> ExitStatus {
    kill_process(Pid::from_child(&child), signal).unwrap();
    drop(hold);
    child.wait().unwrap()
}

/// Kills snapshots at the moment when they open a file of the repository or of the state directory,
/// each at a later file, so that the moments are spread over a whole snapshot. `make` changes the
/// tree, and returns the command of the snapshot with this number: even numbers use a state
/// directory.
pub(crate) fn kill_snapshots(at: &Path, repository: &Path, mut make: impl FnMut(u64) -> Command) {
    let watched = [repository.to_owned(), at.join("state")];
    let opens = [0, 1].map(|nth| {
        let (hold, opens) = hold_at_open(&watched, u64::MAX);
        run(&mut make(nth)).exits(0);
        drop(hold);
        opens.load(Ordering::SeqCst)
    });
    let (rounds, mut killed) = (effort(4, 150) as u64, 0);
    for round in 0..rounds {
        let nth = opens[round as usize % 2] * (2 * round + 1) / (2 * rounds);
        let (hold, _) = hold_at_open(&watched, nth);
        let mut child = quiet(make(round + 2));
        let has_ended = || child.try_wait().unwrap().is_some();
        // Snapshots may differ in the number of files that they open.
        if hold.wait_unless(has_ended).is_some() {
            let status = end_held(child, hold, Signal::KILL);
            assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "{status}");
            killed += 1;
        }
    }
    assert!(4 * killed >= 3 * rounds, "{killed} of {rounds}, {opens:?}");
}

/// Holds the process that opens the file or directory number `nth` below `watched`. Also returns
/// the number of files opened so far.
fn hold_at_open(watched: &[PathBuf; 2], nth: u64) -> (Hold, Arc<AtomicU64>) {
    let (watched, opens) = (watched.clone(), Arc::new(AtomicU64::new(0)));
    let count = Arc::clone(&opens);
    let hold = Hold::when(Stop::OpenOnMount(&watched[0].clone()), move |path| {
        let is_below = watched.iter().any(|top| path.starts_with(top));
        is_below && count.fetch_add(1, Ordering::SeqCst) == nth
    });
    (hold, opens)
}

pub(crate) fn quiet(mut command: Command) -> Child {
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn locks_are_respected_both_ways() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        file(dir(ground.join("tree")).join("file"), 100);
        dump(ground, args!["tree"]);

        let (repository, locks) = (ground.join("repo"), ground.join("repo/locks"));
        let count = || fs::read_dir(&locks).unwrap().count();
        let hold = hold_with_lock(&repository);
        let mut prune = quiet(restic_command(ground, args!["prune"]));
        assert_eq!((hold.wait(&mut prune), count()), (prune.id(), 1));
        let said = run(&mut dump_command(ground, args!["tree"]))
            .exits(2)
            .stderr;
        assert!(said.contains("locked by process"), "{said}");
        drop(hold);
        assert!(prune.wait().unwrap().success());
        assert_eq!(trees(ground).len(), 1);

        let hold = hold_with_lock(&repository);
        let mut ours = quiet(dump_command(ground, args!["tree"]));
        assert_eq!((hold.wait(&mut ours), count()), (ours.id(), 1));
        let said = restic(ground, args!["prune"]);
        assert_ne!(said.code(), 0, "{said}");
        assert!(said.stderr.contains("locked"), "{said}");
        drop(hold);
        assert!(ours.wait().unwrap().success());

        // After a signal, the lock is removed. A lock left by kill -9 does not prevent the next
        // snapshot.
        for (signal, left) in [(Signal::TERM, 0), (Signal::KILL, 1)] {
            let hold = hold_with_lock(&repository);
            let mut ours = quiet(dump_command(ground, args!["tree"]));
            assert_eq!((hold.wait(&mut ours), count()), (ours.id(), 1));
            let status = end_held(ours, hold, signal);
            assert_eq!(status.signal(), Some(signal.as_raw()), "{status}");
            assert_eq!(count(), left, "{signal:?}");
        }
        dump(ground, args!["tree"]);
        restic(ground, args!["unlock"]).exits(0);
        check(ground);
    });
}

#[test]
fn kills_leave_a_sound_repository_and_lose_nothing() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        let tree = dir(ground.join("tree"));
        fs::create_dir(ground.join("state")).unwrap();
        kill_snapshots(ground, &ground.join("repo"), |round| {
            for nth in 0..40_u64 {
                let path = tree.join(format!("d{}/{round}-{nth}", nth % 5));
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                let text = format!("{round} {nth} ").repeat(20_000);
                fs::write(path, text).unwrap();
            }
            // Every second snapshot uses a catalog, which must not be newer than its snapshot.
            let words = [&args!["tree"][..], &args!["--state", "state"]].concat();
            let words = words.into_iter().take(if round % 2 == 0 { 3 } else { 1 });
            dump_command(ground, words)
        });
        // A new process may have the PID of a killed one, so that restic does not take its lock for
        // stale.
        restic(ground, args!["unlock", "--remove-all"]).exits(0);
        check(ground);
        dump(ground, args!["tree", "--state", "state"]);
        check(ground);
        let copy = restored(ground, "copy").join("tree");
        same(&kept(&tree), &kept(&copy), "after the kills");
    });
}
