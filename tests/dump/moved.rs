//! Tests of increments of a tree on a different file system than its base: a snapshot, or a new
//! disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::full::NEEDS;
use super::rounds::{by_gnu_tar, grown, on};
use crate::support::build::{bind, dir, file, tmpfs, unmount};
use crate::support::disks::{BTRFS, subvolume};
use crate::support::reference::settle;
use crate::support::run::{Ran, args};
use crate::support::snapshot::{kept, same, snapshot};
use crate::support::tool::tool;
use crate::support::trees::{Dice, shuffle};
use crate::support::{fathom, in_namespace, require, run};

fn btrfs(words: &[&str], paths: &[&Path]) {
    tool(Command::new("btrfs").args(words).args(paths));
}

/// Makes a read-only snapshot.
fn freeze(of: &Path, at: &Path) -> PathBuf {
    btrfs(&["subvolume", "snapshot", "-r"], &[of, at]);
    at.to_owned()
}

/// Dumps of `tonight` to a state directory, and their restores, each over the last.
struct Nights<'a> {
    at: &'a Path,
    ground: &'a Path,
    number: usize,
}

impl Nights<'_> {
    fn dump(&self, level: &str) -> Ran {
        let archive = self.ground.join(format!("{}.tar", self.number));
        let state = dir(self.ground.join("state"));
        let words = args![
            "dump", "tonight", "-o", archive, "--level", level, "--state", state, "--json"
        ];
        run(fathom(words).current_dir(self.at))
    }

    /// Dumps, restores, and compares the restored tree.
    fn night(&mut self, level: &str) -> Ran {
        let ran = self.dump(level).exits(0);
        let restored = dir(self.ground.join("restored"));
        by_gnu_tar(&self.ground.join(format!("{}.tar", self.number)), &restored);
        let tree = kept(&self.at.join("tonight"));
        let what = format!("night {}: {ran}", self.number);
        same(&tree, &snapshot(&restored.join("tonight")), &what);
        let again = dir(self.ground.join("again"));
        let state = self.ground.join("state");
        let words = args!["restore", "--state", state, "--numeric-owner", "-C", again];
        run(&mut fathom(words)).exits(0);
        same(&tree, &snapshot(&again.join("tonight")), &what);
        fs::remove_dir_all(again).unwrap();
        self.number += 1;
        ran
    }

    /// Runs [`Nights::night`], and returns the result.
    fn round(&mut self, level: &str) -> Value {
        self.night(level).json()["result"].clone()
    }
}

/// The increment of a snapshot contains the changes since the last snapshot.
#[test]
fn increments_of_btrfs_snapshots_are_small() {
    if !require(&NEEDS) {
        return;
    }
    on(Some(BTRFS[0]), |at, ground| {
        let live = subvolume(&at.join("live"), None);
        (0..50).for_each(|n| drop(file(live.join(format!("d{}/{n}", n % 5)), 100)));
        fs::hard_link(live.join("d1/1"), live.join("d2/twin")).unwrap();
        settle(at);
        let tonight = freeze(&live, &at.join("tonight"));
        let mut nights = Nights {
            at,
            ground,
            number: 0,
        };
        assert_eq!(nights.round("0")["files"], 50);
        let replace = |by: &dyn Fn()| {
            btrfs(&["subvolume", "delete"], &[&tonight]);
            by();
        };
        for n in 0..3 {
            file(live.join(format!("d1/new {n}")), 100);
            fs::rename(live.join(format!("d{}", n + 2)), live.join(format!("e{n}"))).unwrap();
            settle(at);
            replace(&|| drop(freeze(&live, &tonight)));
            let result = nights.round(&format!("{}", n + 1));
            assert_eq!(
                (&result["files"], &result["renamed"]),
                (&1.into(), &1.into()),
                "{result}"
            );
            assert!(
                result["why"].as_str().unwrap().contains("btrfs"),
                "{result}"
            );
        }
        // A snapshot without changes.
        replace(&|| drop(freeze(&live, &tonight)));
        let result = nights.round("4");
        assert_eq!(
            (&result["files"], &result["directories"]),
            (&0.into(), &1.into()),
            "{result}"
        );
        // The base is a dump of a snapshot, and the next dump is of the subvolume itself; then the
        // reverse.
        file(live.join("d1/live"), 100);
        settle(at);
        replace(&|| fs::rename(&live, &tonight).unwrap());
        assert_eq!(nights.round("5")["files"], 1);
        fs::rename(&tonight, &live).unwrap();
        file(live.join("d1/snapshot"), 100);
        settle(at);
        freeze(&live, &tonight);
        assert_eq!(nights.round("6")["files"], 1);
        // `changed` accepts a snapshot as well.
        let catalog = ground.join("walked");
        run(&mut fathom(args![
            "walk",
            tonight,
            "--catalog",
            catalog,
            "-q"
        ]))
        .exits(0);
        file(live.join("d1/changed"), 1);
        settle(at);
        replace(&|| drop(freeze(&live, &tonight)));
        let value = run(&mut fathom(args![
            "changed", tonight, "--since", catalog, "--json"
        ]));
        let value = value.exits(0).json();
        assert_eq!(
            value["result"]["entries"].as_array().unwrap().len(),
            2,
            "{value}"
        );
        // Snapshots received with btrfs receive: each is a snapshot of the previous one.
        btrfs(&["subvolume", "delete"], &[&tonight]);
        let (stream, received) = (ground.join("stream"), dir(at.join("received")));
        let mut parent: Option<PathBuf> = None;
        for n in 0..3 {
            file(live.join(format!("d1/received {n}")), 100);
            let sent = freeze(&live, &at.join(format!("sent {n}")));
            let mut send = Command::new("btrfs");
            send.args(["send", "-q", "-f"]).arg(&stream);
            if let Some(parent) = &parent {
                send.arg("-p").arg(parent);
            }
            tool(send.arg(&sent));
            let mut receive = Command::new("btrfs");
            tool(
                receive
                    .args(["receive", "-q", "-f"])
                    .arg(&stream)
                    .arg(&received),
            );
            bind(received.join(sent.file_name().unwrap()), &tonight);
            // The last dump is based on the first.
            let result = nights.round(["0", "1", "1"][n]);
            assert!(n == 0 || result["files"] == n, "{result}");
            unmount(&tonight);
            parent = Some(sent);
        }
    });
}

/// Snapshots rotated within SRC: no file becomes a hard link to a file of a different snapshot.
#[test]
fn rotated_snapshots_within_the_tree() {
    if !require(&NEEDS) {
        return;
    }
    on(Some(BTRFS[0]), |at, ground| {
        let live = subvolume(&at.join("live"), None);
        grown(&live, 7);
        // Compressed files have an attribute that would not be restored on other file systems.
        let mut chattr = Command::new("chattr");
        let _ = chattr.args(["-R", "-f", "-c"]).arg(&live).output();
        let top = dir(at.join("tonight"));
        settle(at);
        let mut nights = Nights {
            at,
            ground,
            number: 0,
        };
        let mut dice = Dice::new(3);
        subvolume(&top.join("daily.0"), Some(&live));
        nights.round("0");
        for night in 1..4 {
            for n in (0..night).rev() {
                let name = |n: usize| top.join(format!("daily.{n}"));
                fs::rename(name(n), name(n + 1)).unwrap();
            }
            shuffle(&live, &mut dice, 3);
            subvolume(&top.join("daily.0"), Some(&live));
            settle(at);
            nights.round(&night.to_string());
        }
    });
}

/// The base is of a different file system. With a level, everything is dumped, and later increments
/// are based on that dump.
#[test]
fn new_file_system_makes_a_full_dump_of_a_level() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        let at = dir(ground.join("at"));
        let tree = at.join("tonight");
        let renew = || {
            tmpfs(&tree);
            (0..5).for_each(|n| drop(file(tree.join(format!("d/{n}")), 100)));
            settle(&tree);
        };
        renew();
        let mut nights = Nights {
            at: &at,
            ground,
            number: 0,
        };
        let catalog = ground.join("catalog");
        let words = args![
            "dump",
            "tonight",
            "-o",
            "/dev/null",
            "--catalog",
            catalog,
            "-q"
        ];
        run(fathom(words).current_dir(&at)).exits(0);
        nights.round("0");
        file(tree.join("d/new"), 100);
        settle(&tree);
        assert_eq!(nights.round("1")["files"], 1);
        unmount(&tree);
        renew();
        let estimates = |more: &[&str]| {
            let words = args![
                "dump",
                "tonight",
                "-n",
                "--state",
                ground.join("state"),
                "--json"
            ];
            let value = run(fathom(words).args(more).current_dir(&at))
                .exits(0)
                .json();
            let estimates = value["result"]["estimates"].as_array().unwrap().clone();
            estimates
                .into_iter()
                .map(|it| it["files"].clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (estimates(&[]), estimates(&["--level", "1"])),
            (vec![5.into(); 3], vec![5.into()])
        );
        // The dump is full, so restoring it needs no older archives.
        fs::remove_dir_all(ground.join("restored")).unwrap();
        let ran = nights.night("1");
        let note =
            "'tonight' is now on another file system: everything is dumped, and counts as level 0";
        assert!(ran.stderr.contains(note), "{ran}");
        let result = &ran.json()["result"];
        assert_eq!(
            (&result["files"], &result["since"]),
            (&5.into(), &Value::Null),
            "{result}"
        );
        file(tree.join("d/newer"), 100);
        settle(&tree);
        let result = nights.round("1");
        assert_eq!(result["files"], 1, "{result}");
        assert!(
            result["since"]
                .as_str()
                .unwrap()
                .ends_with("/level-0.parquet"),
            "{result}"
        );
        // Without a level, such a base is refused.
        let words = args![
            "dump",
            "tonight",
            "-o",
            ground.join("x.tar"),
            "--since",
            catalog
        ];
        let ran = run(fathom(words).current_dir(&at)).refused();
        assert!(
            ran.stderr.contains("is now on another file system"),
            "{ran}"
        );
    });
}
