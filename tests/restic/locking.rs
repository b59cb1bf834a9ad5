//! Tests of locks: fathom respects other locks, and makes no snapshot after it has lost its own
//! lock.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::restic::interruptions::{hold_with_lock, quiet};
use crate::restic::{NEEDS, check, dump, dump_command, init, restic, restic_command, trees};
use crate::support::build::{chmod, dir, file};
use crate::support::clock::{CC, Clock};
use crate::support::effort::effort;
use crate::support::hold::{Hold, Stop};
use crate::support::run::{Ran, args};
use crate::support::trees::Dice;
use crate::support::wait::wait_until;
use crate::support::{Need, in_namespace, require, run};

/// The exit status and messages of a process, after it was released.
fn ended(child: Child) -> (Option<i32>, String) {
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    (ended.status.code(), said)
}

fn told(mut command: Command) -> Child {
    command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// During a snapshot, its lock is removed, or is not renewed for half an hour.
#[test]
fn no_snapshot_outlives_its_lock() {
    if !require(&NEEDS) || !require(&[CC]) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        let tree = dir(ground.join("tree"));
        file(tree.join("file"), 100);
        dump(ground, args!["tree"]);
        let repository = ground.join("repo");
        for is_removed in [true, false] {
            file(tree.join(format!("{is_removed}")), 1000);
            let clock = Clock::of_the_day(&dir(ground.join(format!("clock-{is_removed}"))));
            let mut command = dump_command(ground, args!["tree"]);
            clock.given_to(&mut command);
            let hold = hold_with_lock(&repository);
            let mut child = told(command);
            hold.wait(&mut child);
            let why = match is_removed {
                true => {
                    restic(ground, args!["unlock", "--remove-all"]).exits(0);
                    restic(ground, args!["prune", "--max-unused", "0"]).exits(0);
                    "was removed meanwhile"
                }
                false => {
                    clock.advance(Duration::from_secs(31 * 60));
                    "was not renewed for 31 minutes"
                }
            };
            drop(hold);
            let (code, said) = ended(child);
            assert_eq!(code, Some(2), "{said}");
            assert!(said.contains(why) && said.contains("\nhint: "), "{said}");
            assert_eq!(trees(ground).len(), 1, "{said}");
            assert_eq!(fs::read_dir(repository.join("locks")).unwrap().count(), 0);
        }
        dump(ground, args!["tree"]);
        check(ground);
    });
}

/// The lock is removed at a random moment, even just after the snapshot was written.
#[test]
fn a_lock_that_is_lost_at_any_moment_leaves_no_snapshot() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        let tree = dir(ground.join("tree"));
        file(tree.join("file"), 100);
        dump(ground, args!["tree"]);
        let (mut known, mut lost) = (trees(ground).len(), 0);
        for nth in 0.. {
            file(tree.join(format!("{nth}")), 100 + nth);
            let opens = Arc::new(AtomicU64::new(0));
            let snapshots = ground.join("repo/snapshots");
            let hold = Hold::when(Stop::Open(&snapshots), move |_| {
                opens.fetch_add(1, Ordering::SeqCst) == nth as u64
            });
            let mut child = told(dump_command(ground, args!["tree"]));
            let held = hold.wait_unless(|| child.try_wait().unwrap().is_some());
            if held.is_some() {
                let locks = ground.join("repo/locks");
                for lock in fs::read_dir(locks).unwrap() {
                    fs::remove_file(lock.unwrap().path()).unwrap();
                }
            }
            drop(hold);
            let (code, said) = ended(child);
            let now = trees(ground).len();
            match code {
                Some(0) => assert_eq!(now, known + 1, "{nth}: {said}"),
                Some(2) => {
                    assert_eq!(now, known, "{nth}: {said}");
                    assert!(said.contains("was removed meanwhile"), "{nth}: {said}");
                    lost += 1;
                }
                _ => panic!("{nth}: {code:?} {said}"),
            }
            known = now;
            if held.is_none() {
                break;
            }
        }
        assert!(lost > 1, "{lost}");
        check(ground);
    });
}

/// restic holds an exclusive lock in a different PID namespace, with a clock that is half an hour
/// ahead. Only restic unlock may decide that such a lock is stale.
#[test]
fn an_exclusive_lock_is_respected_whatever_its_age() {
    if !require(&NEEDS) || !require(&[CC, Need::Program("unshare")]) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        let tree = dir(ground.join("tree"));
        file(tree.join("file"), 100);
        dump(ground, args!["tree"]);
        let clock = Clock::of_the_day(&dir(ground.join("clock")));
        clock.advance(Duration::from_secs(31 * 60));
        let hold = hold_with_lock(&ground.join("repo"));
        let mut prune = Command::new("unshare");
        let inner = restic_command(ground, args!["prune"]);
        prune
            .args(["-pf"])
            .arg(inner.get_program())
            .args(inner.get_args());
        prune.envs(
            inner
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        let mut prune = quiet(prune);
        hold.wait(&mut prune);
        for is_ahead in [false, true] {
            let mut command = dump_command(ground, args!["tree"]);
            if is_ahead {
                clock.given_to(&mut command);
            }
            let said = run(&mut command).exits(2).stderr;
            assert!(said.contains("locked by process"), "{said}");
        }
        // A dry run writes nothing, so it needs no lock.
        let planned = run(&mut dump_command(ground, args!["tree", "-n", "--json"]))
            .exits(0)
            .json();
        assert_eq!(planned["result"]["snapshot"], serde_json::Value::Null);
        // The process that holds the lock ends while fathom waits for it.
        let mut waiting = dump_command(ground, args!["tree", "--retry-lock", "10m"]);
        let mut waiting = waiting
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stderr = std::io::BufReader::new(waiting.stderr.take().unwrap());
        std::io::BufRead::read_line(&mut stderr, &mut line).unwrap();
        assert!(line.contains("waiting for up to 10"), "{line}");
        drop(hold);
        assert!(prune.wait().unwrap().success());
        assert!(waiting.wait().unwrap().success());
        assert_eq!(trees(ground).len(), 2);
        check(ground);
    });
}

#[test]
fn a_lock_that_cannot_be_read_is_a_lock() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        file(dir(ground.join("tree")).join("file"), 100);
        let lock = dir(ground.join("repo/locks")).join("ab".repeat(32));
        fs::write(&lock, [7; 100]).unwrap();
        let said = run(&mut dump_command(ground, args!["tree"]))
            .refused()
            .stderr;
        assert!(
            said.contains("cannot be read") && said.contains("unlock --remove-all"),
            "{said}"
        );
        // An interrupted program may leave an empty lock file, which restic ignores, too.
        fs::write(&lock, "").unwrap();
        // Other programs leave files and directories with other names.
        fs::write(lock.with_file_name(".DS_Store"), "x").unwrap();
        let partial = format!("{}-restic-temp-1", "cd".repeat(32));
        fs::write(lock.with_file_name(partial), "{").unwrap();
        dir(lock.with_file_name("@eaDir"));
        dump(ground, args!["tree"]);
    });
}

/// Snapshots run beside prune, forget and unlock, a few times each: an endless loop might prevent a
/// snapshot from ever getting a lock. Some snapshots lose their lock, and some are stopped until
/// their lock is stale.
#[test]
fn snapshots_beside_prunes_rely_on_nothing_that_is_gone() {
    if !require(&NEEDS) || !require(&[CC]) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        let tree = dir(ground.join("tree"));
        dump(ground, args!["tree"]);
        const PRUNES: usize = 3;
        let (rounds, is_over) = (effort(4, 100), AtomicBool::new(false));
        let (begun, pruned) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (mut made, mut lost) = (0, 0);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut nth = 0;
                while !is_over.load(Ordering::SeqCst) {
                    if nth >= PRUNES * begun.load(Ordering::SeqCst) {
                        thread::sleep(Duration::from_millis(5));
                        continue;
                    }
                    // prune fails while the repository is locked. In every second round, the lock
                    // is then removed.
                    let ran = restic(
                        ground,
                        args!["forget", "--keep-last", "2", "--prune", "--max-unused", "0"],
                    );
                    if ran.code() != 0 && nth % (2 * PRUNES) == 0 {
                        restic(ground, args!["unlock", "--remove-all"]);
                    }
                    nth += 1;
                    pruned.store(nth, Ordering::SeqCst);
                }
            });
            let mut dice = Dice::new(7);
            for round in 0..rounds {
                for nth in 0..20 {
                    let text = format!("{round} {nth} ").repeat(1 + dice.below(20_000));
                    fs::write(tree.join(format!("{nth}")), text).unwrap();
                }
                let clock = Clock::of_the_day(&dir(ground.join(format!("clock-{round}"))));
                let mut command = dump_command(ground, args!["tree", "--retry-lock", "10m"]);
                clock.given_to(&mut command);
                begun.fetch_add(1, Ordering::SeqCst);
                let child = told(command);
                let process = Pid::from_child(&child);
                if round % 2 == 0 {
                    thread::sleep(Duration::from_millis(dice.below(400) as u64));
                    if kill_process(process, Signal::STOP).is_ok() {
                        clock.advance(Duration::from_secs(31 * 60));
                        thread::sleep(Duration::from_millis(dice.below(1500) as u64));
                        kill_process(process, Signal::CONT).unwrap();
                    }
                }
                let (code, said) = ended(child);
                match code {
                    Some(0) => made += 1,
                    Some(2) => {
                        assert!(said.contains("hint: "), "{said}");
                        lost += 1;
                    }
                    _ => panic!("{code:?}: {said}"),
                }
                wait_until("all is pruned", || {
                    pruned.load(Ordering::SeqCst) == PRUNES * begun.load(Ordering::SeqCst)
                });
                is_sound(ground);
            }
            is_over.store(true, Ordering::SeqCst);
        });
        check(ground);
        assert!(made > 0, "{made} made, {lost} lost");
    });
}

/// Checks the repository between two prunes: all data of its snapshots exists.
fn is_sound(ground: &Path) {
    let check = || -> Ran { restic(ground, args!["check", "--read-data"]) };
    wait_until("the repository is not locked", || {
        let ran = check();
        let is_locked = ran.stderr.contains("already locked");
        assert!(is_locked || ran.code() == 0, "{ran}");
        !is_locked
    });
}

/// New files have the same modes as those of restic, independent of the umask.
#[test]
fn files_of_a_repository_are_for_whom_its_configuration_is() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        let tree = dir(ground.join("tree"));
        for (config, expected) in [(0o600, 0o400), (0o640, 0o440)] {
            file(tree.join(format!("{config}")), 1000);
            chmod(ground.join("repo/config"), config);
            let (before, inner) = (all_files(ground), dump_command(ground, args!["tree"]));
            let mut command = Command::new("sh");
            command.args(["-c", "umask 077; exec \"$@\"", "sh"]);
            command.arg(inner.get_program()).args(inner.get_args());
            command.envs(
                inner
                    .get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            );
            run(command.current_dir(ground)).exits(0);
            let new = all_files(ground);
            let new: Vec<_> = new.iter().filter(|path| !before.contains(path)).collect();
            assert!(new.len() >= 3, "{new:?}");
            for path in new {
                let mode = path.metadata().unwrap().mode() & 0o777;
                assert_eq!(mode, expected, "{}", path.display());
            }
        }
    });
}

fn all_files(ground: &Path) -> Vec<std::path::PathBuf> {
    let mut find = Command::new("find");
    find.arg(ground.join("repo"))
        .args(["-type", "f", "-print0"]);
    let found = run(&mut find).exits(0).stdout;
    let names = found
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty());
    let path = |name: &[u8]| String::from_utf8(name.to_vec()).unwrap().into();
    names.map(path).collect()
}
