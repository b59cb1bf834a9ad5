//! Locks, and what ends a process while it makes a snapshot.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::restic::{
    NEEDS, check, dump, dump_command, init, restic, restic_command, restored, trees,
};
use crate::support::build::{dir, file};
use crate::support::run::args;
use crate::support::snapshot::{kept, same};
use crate::support::{in_namespace, require, run};

/// Waits until the repository has a lock, and stops the process that holds it.
fn stop_when_locked(at: &Path, child: &Child) {
    stop_at_lock(&at.join("repo"), child);
}

pub(crate) fn stop_at_lock(repository: &Path, child: &Child) {
    let begun = Instant::now();
    // restic writes a lock under a longer name first.
    let is_lock = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().len() == 64;
    let has_lock = || fs::read_dir(repository.join("locks")).is_ok_and(|mut all| all.any(is_lock));
    while !has_lock() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no lock");
        sleep(Duration::from_millis(1));
    }
    signal(child, Signal::STOP);
}

pub(crate) fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
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

        let mut prune = quiet(restic_command(ground, args!["prune"]));
        stop_when_locked(ground, &prune);
        let said = run(&mut dump_command(ground, args!["tree"]))
            .exits(2)
            .stderr;
        assert!(said.contains("locked by process"), "{said}");
        signal(&prune, Signal::CONT);
        assert!(prune.wait().unwrap().success());
        assert_eq!(trees(ground).len(), 1);

        let mut ours = quiet(dump_command(ground, args!["tree"]));
        stop_when_locked(ground, &ours);
        let said = restic(ground, args!["prune"]);
        assert_ne!(said.code(), 0, "{said}");
        assert!(said.stderr.contains("locked"), "{said}");
        signal(&ours, Signal::CONT);
        assert!(ours.wait().unwrap().success());

        // A signal takes the lock away; what only kill -9 leaves does not stop the next snapshot.
        let mut ended = quiet(dump_command(ground, args!["tree"]));
        stop_when_locked(ground, &ended);
        signal(&ended, Signal::TERM);
        signal(&ended, Signal::CONT);
        assert!(!ended.wait().unwrap().success());
        assert_eq!(fs::read_dir(ground.join("repo/locks")).unwrap().count(), 0);
        let mut killed = quiet(dump_command(ground, args!["tree"]));
        stop_when_locked(ground, &killed);
        killed.kill().unwrap();
        killed.wait().unwrap();
        assert_eq!(fs::read_dir(ground.join("repo/locks")).unwrap().count(), 1);
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
        let rounds = std::env::var("FATHOM_KILLS").map_or(4, |many| many.parse().unwrap());
        init(ground);
        let tree = dir(ground.join("tree"));
        fs::create_dir(ground.join("state")).unwrap();
        for round in 0..rounds {
            for nth in 0..40_u64 {
                let path = tree.join(format!("d{}/{round}-{nth}", nth % 5));
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                let text = format!("{round} {nth} ").repeat(20_000);
                fs::write(path, text).unwrap();
            }
            // Every other one with a catalog, which must not outrun its snapshot.
            let words = [&args!["tree"][..], &args!["--state", "state"]].concat();
            let words = words.into_iter().take(if round % 2 == 0 { 3 } else { 1 });
            let mut child = quiet(dump_command(ground, words));
            sleep(Duration::from_millis(400 + 2600 * round / rounds));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        restic(ground, args!["unlock"]).exits(0);
        check(ground);
        dump(ground, args!["tree", "--state", "state"]);
        check(ground);
        let copy = restored(ground, "copy").join("tree");
        same(&kept(&tree), &kept(&copy), "after the kills");
    });
}
