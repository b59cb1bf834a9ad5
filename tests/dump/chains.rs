//! Tests of the recorded dumps of a state directory: `list --state`, `restore --state`, `dump
//! --prune`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::tempdir;

use crate::support::build::{dir, file};
use crate::support::clock::{CC, Clock};
use crate::support::effort::effort;
use crate::support::recipe::{search_path, service};
use crate::support::run::{Ran, args};
use crate::support::schema::check;
use crate::support::snapshot::{kept, same, snapshot};
use crate::support::trees::{Dice, shuffle};
use crate::support::{fathom, fathom_path, require, run};

/// A tree, and a state directory with its dumps.
struct Dumps {
    at: PathBuf,
}

impl Dumps {
    fn new(at: &Path) -> Dumps {
        dir(at.join("state"));
        dir(at.join("tree"));
        Dumps { at: at.to_owned() }
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        run(fathom(arguments).current_dir(&self.at))
    }

    fn dump(&self, archive: &str, level: usize) -> Ran {
        let level = level.to_string();
        let arguments = [
            "dump", "tree", "-o", archive, "--level", &level, "--state", "state",
        ];
        self.run(&arguments)
    }

    fn list(&self) -> Vec<Value> {
        dumps(&self.at.join("state"))
    }

    fn prune(&self, keep: usize, more: &[&str]) -> Value {
        prune(&self.at, keep, more)
    }

    /// Restores the last dump that began by a time into a new directory.
    fn restore(&self, time: &str, to: &str) -> Ran {
        fs::create_dir(self.at.join(to)).unwrap();
        self.run(&["restore", "--state", "state", "--at", time, "-C", to])
    }
}

/// Prunes the directory `state` in `at` except for the last full dumps, and returns the result.
pub(super) fn prune(at: &Path, keep: usize, more: &[&str]) -> Value {
    let keep = keep.to_string();
    let words = [
        "dump",
        "--state",
        "state",
        "--prune",
        "--json",
        "--keep-full",
        &keep,
    ];
    let value = run(fathom(words).args(more).current_dir(at))
        .exits(0)
        .json();
    check(&value);
    value["result"].clone()
}

fn dumps(state: &Path) -> Vec<Value> {
    let value = run(&mut fathom(args!["list", "--state", state, "--json"]))
        .exits(0)
        .json();
    check(&value);
    value["result"]["dumps"].as_array().unwrap().clone()
}

/// The archives that are needed to restore a dump.
pub(super) fn restores(state: &Path, dump: usize) -> Vec<PathBuf> {
    let dumps = dumps(state);
    let archives = dumps[dump]["restore"].as_array().unwrap().iter();
    archives
        .map(|archive| archive.as_str().unwrap().into())
        .collect()
}

/// After any pruning, every remaining dump restores its tree, and the archives of the others are
/// gone.
#[test]
fn kept_dumps_are_restored_after_pruning() {
    for seed in 0..effort(1, 50) as u64 {
        let temporary = tempdir().unwrap();
        let dumps = Dumps::new(temporary.path());
        let (tree, mut dice) = (dumps.at.join("tree"), Dice::new(seed));
        let mut trees = BTreeMap::new();
        for number in 0..15 {
            (0..3).for_each(|_| shuffle(&tree, &mut dice, 4));
            file(tree.join(format!("f{number}")), 10);
            let level = if number == 0 {
                0
            } else {
                *dice.pick(&[0, 0, 1, 1, 2, 3, 5, 9])
            };
            let archive = format!("{number}.tar");
            dumps.dump(&archive, level).exits(0);
            trees.insert(dumps.at.join(archive), kept(&tree));
            if dice.one_in(4) {
                dumps.prune(1 + dice.below(2), &["--yes"]);
            }
        }
        let before = dumps.list();
        let dry = dumps.prune(1, &[]);
        assert_eq!(dumps.list(), before);
        let pruned = dumps.prune(1, &["--yes"]);
        assert_eq!(pruned["dumps"], dry["dumps"], "seed {seed}");
        let archive = |dump: &Value| PathBuf::from(dump["archive"].as_str().unwrap());
        for dump in pruned["dumps"].as_array().unwrap() {
            assert!(!archive(dump).exists(), "seed {seed}: {dump}");
        }
        let kept = dumps.list();
        assert_eq!(kept.iter().filter(|dump| dump["level"] == 0).count(), 1);
        for (number, dump) in kept.iter().enumerate() {
            let restored = dir(dumps.at.join(format!("restored {number}")));
            let archives = restores(&dumps.at.join("state"), number);
            let mut command = fathom(args!["restore", "-C", &restored]);
            run(command.args(archives)).exits(0);
            let what = format!("seed {seed}: {dump}");
            same(
                &trees[&archive(dump)],
                &snapshot(&restored.join("tree")),
                &what,
            );
        }
    }
}

/// `--at` restores the last dump that had begun by then.
#[test]
fn trees_are_restored_as_of_a_time() {
    let temporary = tempdir().unwrap();
    let dumps = Dumps::new(temporary.path());
    for (number, level) in [0, 1, 2].into_iter().enumerate() {
        fs::write(dumps.at.join("tree/f"), number.to_string()).unwrap();
        dumps.dump(&format!("{number}.tar"), level).exits(0);
        std::thread::sleep(std::time::Duration::from_millis(1100));
    }
    for (number, dump) in dumps.list().iter().enumerate() {
        let to = number.to_string();
        dumps.restore(dump["date"].as_str().unwrap(), &to).exits(0);
        let restored = fs::read_to_string(dumps.at.join(&to).join("tree/f")).unwrap();
        assert_eq!(restored, to);
    }
    let ran = dumps.restore("2001-01-01", "early").refused();
    assert!(ran.stderr.contains("no dump began by that time"), "{ran}");
    dumps.restore("yesterday", "bad").refused();
    let empty = dir(temporary.path().join("empty"));
    let ran = run(&mut fathom(args!["restore", "--state", empty])).refused();
    assert!(ran.stderr.contains("no dump is recorded in it"), "{ran}");
}

/// `list --state` prints local times, as date(1) does, and `restore --at` reads them.
#[test]
fn times_of_dumps_are_local() {
    let temporary = tempdir().unwrap();
    let dumps = Dumps::new(temporary.path());
    file(dumps.at.join("tree/f"), 10);
    dumps.dump("0.tar", 0).exits(0);
    let began = dumps.list()[0]["date"].as_str().unwrap().to_owned();
    for (n, zone) in ["UTC", "Asia/Kathmandu", "America/New_York", "XXX3"]
        .iter()
        .enumerate()
    {
        let local = |time: &str| {
            let date = ["-d", time, "+%Y-%m-%d %H:%M:%S"];
            let out = Command::new("date")
                .args(date)
                .env("TZ", zone)
                .output()
                .unwrap();
            String::from_utf8(out.stdout).unwrap().trim().to_owned()
        };
        let state = ["list", "--state", "state"];
        let listed = run(fathom(state).current_dir(&dumps.at).env("TZ", zone)).exits(0);
        let table = String::from_utf8(listed.stdout).unwrap();
        assert!(table.contains(&local(&began)), "{zone}: {table}");
        let restore = |time: &str, to: &str| {
            fs::create_dir(dumps.at.join(to)).unwrap();
            let arguments = ["restore", "--state", "state", "--at", time, "-C", to];
            run(fathom(arguments).current_dir(&dumps.at).env("TZ", zone))
        };
        restore(&local(&began), &format!("by{n}")).exits(0);
        let before = local(&format!("{began} - 1 second"));
        restore(&before, &format!("before{n}")).refused();
    }
}

/// A missing or replaced archive is named, and nothing is restored. Pruning does not remove a file
/// that replaced an archive.
#[test]
fn archives_that_are_gone_are_named() {
    let temporary = tempdir().unwrap();
    let dumps = Dumps::new(temporary.path());
    let tree = dumps.at.join("tree");
    for (number, level) in [0, 1, 0, 1].into_iter().enumerate() {
        file(tree.join(number.to_string()), 10);
        dumps.dump(&format!("{number}.tar"), level).exits(0);
    }
    fs::write(dumps.at.join("1.tar"), "another file").unwrap();
    fs::rename(dumps.at.join("2.tar"), dumps.at.join("elsewhere.tar")).unwrap();
    let status: Vec<Value> = dumps
        .list()
        .iter()
        .map(|dump| dump["status"].clone())
        .collect();
    assert_eq!(status, ["ok", "replaced", "missing", "no base"]);
    let ran = dumps.restore("2100-01-01", "a").refused();
    assert!(ran.stderr.contains("2.tar' does not exist"), "{ran}");
    assert_eq!(fs::read_dir(dumps.at.join("a")).unwrap().count(), 0);
    // The full dump whose archive is missing does not count.
    assert_eq!(dumps.prune(1, &["--yes"])["kept"], 4);
    fs::rename(dumps.at.join("elsewhere.tar"), dumps.at.join("2.tar")).unwrap();
    assert_eq!(dumps.prune(1, &["--yes"])["kept"], 2);
    assert!(!dumps.at.join("0.tar").exists());
    assert_eq!(
        fs::read_to_string(dumps.at.join("1.tar")).unwrap(),
        "another file"
    );
    dumps.restore("2100-01-01", "b").exits(0);
    same(
        &kept(&tree),
        &snapshot(&dumps.at.join("b/tree")),
        "restored",
    );
}

/// The timer of docs/backup.md, for thirty days: each remaining dump restores the tree of its day.
/// The dumps of the last seven days remain, and one for each of the weeks before.
#[test]
fn nightly_dumps_of_the_book_keep_their_days() {
    if !require(&[CC]) {
        return;
    }
    let (temporary, clocks) = (tempdir().unwrap(), tempdir().unwrap());
    let clock = Clock::of_the_day(clocks.path());
    let at = temporary.path().canonicalize().unwrap();
    let [tree, backup] = ["tree", "backup"].map(|name| dir(at.join(name)));
    let state = backup.join("srv");
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let paths = [
        ("dump /srv ", &format!("dump {} ", path(&tree))[..]),
        ("/backup", &path(&backup)),
    ];
    let programs = search_path(&[fathom_path()]);
    let mut trees = BTreeMap::new();
    let nights = effort(20, 60);
    for day in 0..nights {
        file(tree.join(format!("d{}/f{day}", day % 3)), 10);
        let _ = fs::remove_file(tree.join(format!("d{}/f{}", (day + 1) % 3, day.wrapping_sub(2))));
        for mut command in service("dump.md", "fathom-dump.service", &paths, &programs) {
            run(clock.given_to(command.env("TZ", "UTC"))).exits(0);
        }
        let last = dumps(&state).pop().unwrap();
        assert_eq!(last["level"] == 0, day % 7 == 0, "{last}");
        trees.insert(last["archive"].as_str().unwrap().to_owned(), kept(&tree));
        clock.advance(Duration::from_secs(86_400));
    }
    let left = dumps(&state);
    let listed: Vec<&str> = left
        .iter()
        .map(|dump| dump["archive"].as_str().unwrap())
        .collect();
    for (day, archive) in trees.keys().enumerate() {
        assert!(
            day + 7 < nights || listed.contains(&&archive[..]),
            "{archive} {listed:?}"
        );
    }
    assert!(left.len() < nights, "{listed:?}");
    for (nth, dump) in left.iter().enumerate() {
        let to = dir(at.join(nth.to_string()));
        run(fathom(["restore", "-C"])
            .arg(&to)
            .args(restores(&state, nth)))
        .exits(0);
        let restored = kept(&to.join(tree.strip_prefix("/").unwrap()));
        let expected = &trees[dump["archive"].as_str().unwrap()];
        same(expected, &restored, &format!("{dump}"));
    }
}

/// An archive written to a pipe can only be listed. An increment does not overwrite an archive of
/// its own chain.
#[test]
fn archives_of_a_chain_are_not_overwritten() {
    let temporary = tempdir().unwrap();
    let dumps = Dumps::new(temporary.path());
    file(dumps.at.join("tree/f"), 10);
    dumps.dump("0.tar", 0).exits(0);
    let before = fs::read(dumps.at.join("0.tar")).unwrap();
    let ran = dumps.dump("0.tar", 1).refused();
    assert!(ran.stderr.contains("that this one is based on"), "{ran}");
    assert_eq!(fs::read(dumps.at.join("0.tar")).unwrap(), before);
    // A full dump may overwrite the archive.
    file(dumps.at.join("tree/f"), 20);
    dumps.dump("0.tar", 0).exits(0);
    assert_eq!(dumps.list()[0]["status"], "replaced");
    dumps.dump("-", 1).exits(0);
    let last = dumps.list().pop().unwrap();
    assert_eq!(
        (&last["status"], &last["archive"]),
        (&"streamed".into(), &Value::Null)
    );
    // The size of a streamed archive is unknown.
    let table = dumps.run(&["list", "--state", "state"]).exits(0).stdout;
    let table = String::from_utf8(table).unwrap();
    let streamed = table.lines().find(|line| line.contains("streamed"));
    let cells: Vec<&str> = streamed.unwrap().split_whitespace().collect();
    assert!(cells.ends_with(&["-", "-"]), "{table}");
    let ran = dumps.restore("2100-01-01", "a").refused();
    assert!(
        ran.stderr.contains("written to standard output or a pipe"),
        "{ran}"
    );
}

/// Two dumps do not use one state directory at the same time, and a damaged record makes both fail.
#[test]
fn state_directory_in_use_or_damaged() {
    let temporary = tempdir().unwrap();
    let dumps = Dumps::new(temporary.path());
    file(dumps.at.join("tree/f"), 10);
    // Without a child process, which would inherit the lock.
    let mut holder = Command::new("flock");
    let mut holder = holder
        .arg("--no-fork")
        .arg(dumps.at.join("state/lock"))
        .args(["sleep", "60"])
        .spawn()
        .unwrap();
    let in_use = (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        let ran = dumps.dump("0.tar", 0);
        ran.stderr.contains("another dump is using it")
    });
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(in_use);
    fs::write(dumps.at.join("state/dumps.ndjson"), "{\"level\":0}\n").unwrap();
    let ran = dumps.run(&["list", "--state", "state"]).refused();
    assert!(
        ran.stderr.contains("line 1 is not the record of a dump"),
        "{ran}"
    );
    dumps
        .run(&["dump", "--state", "state", "--prune", "--keep-full", "1"])
        .refused();
    dumps
        .run(&["dump", "--state", "state", "--prune", "--keep-full", "0"])
        .refused();
    dumps
        .run(&["dump", "--state", "state", "--prune"])
        .refused();
    dumps.run(&["list", "--state", "absent"]).refused();
    dumps.run(&["restore", "--at", "2026-01-01"]).refused();
}
