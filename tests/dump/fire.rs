//! Tests that no change is lost: with clocks that stand still or are set back, new device numbers,
//! and kills.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::mount::MountFlags;

use super::changes::{change, overwrite_unseen};
use super::full::{NEEDS, dump};
use super::rounds::{Series, by_gnu_tar, on};
use super::written::mounted_again;
use crate::support::build::{dir, file, unmount_whole};
use crate::support::concurrent::{Done, while_rewriting, with_threads};
use crate::support::disks::{
    BTRFS, EXT4, XFS, image, mount_elsewhere, mount_image, set_back, set_inode_field,
};
use crate::support::effort::effort;
use crate::support::reference::settle;
use crate::support::repeat::{repeat_until, second_of};
use crate::support::run::args;
use crate::support::snapshot::{Snapshot, kept, same, snapshot};
use crate::support::strace::with_fault;
use crate::support::trees::Dice;
use crate::support::{Need, fathom, in_namespace, require, run};

#[test]
fn change_that_keeps_mtime_and_size_is_dumped() {
    if require(&NEEDS) {
        for make in [Some(EXT4[0]), Some(XFS[0]), Some(BTRFS[0]), None] {
            on(make, |at, ground| {
                let mut series = Series::new(at, ground);
                let path = file(series.tree.join("d/f"), 3000);
                series.round("the full dump");
                for n in 1..5 {
                    // Overwrite the file at once: the change may fall into the tick of the dump.
                    overwrite_unseen(&path, n);
                    series.round(&format!("change {n}"));
                }
            });
        }
    }
}

#[test]
fn changes_within_the_clock_tick_of_the_dump_are_dumped() {
    if require(&NEEDS) {
        for make in [Some(EXT4[0]), Some(XFS[0]), Some(BTRFS[0]), None] {
            on(make, |at, ground| {
                let mut series = Series::new(at, ground);
                let hot = file(series.tree.join("hot"), 10);
                file(series.tree.join("cold"), 10);
                for round in 0..effort(3, 8) {
                    let ran = while_rewriting(&hot, || series.dump(&[]));
                    assert!(ran.code() < 2, "{ran}");
                    series.restore();
                    series.round(&format!("round {round}"));
                }
            });
        }
    }
}

/// On ext4 with inodes of 128 bytes, times have whole seconds: a change in the second in which the
/// dump began may leave the ctime unchanged.
#[test]
fn changes_within_the_second_of_the_dump_are_dumped() {
    if require(&NEEDS) && require(&[Need::Program("debugfs")]) {
        let small_inodes = EXT4.into_iter().find(|make| make.mkfs == "-I 128");
        let small_inodes = small_inodes.unwrap();
        on(Some(small_inodes), |at, ground| {
            let mut series = Series::new(at, ground);
            let path = file(series.tree.join("d/f"), 3000);
            let ctime = || path.metadata().unwrap().ctime();
            for round in 0..3 {
                let second = repeat_until("a dump that begins in the second of a change", || {
                    overwrite_unseen(&path, 2 * round);
                    let second = ctime();
                    series.dump(&[]).exits(0);
                    series.restore();
                    (second_of(&series.catalog) == second).then_some(second)
                });
                overwrite_unseen(&path, 2 * round + 1);
                mounted_again(small_inodes, at, MountFlags::NOATIME, |image| {
                    set_inode_field(image, "tree/d/f", "ctime", &format!("@{second}"));
                });
                assert_eq!(ctime(), second);
                series.round(&format!("second {round}"));
            }
        });
    }
}

/// If the tree changes during a dump, the restored tree mixes several moments. The first increment
/// after the changes restores the tree correctly.
#[test]
fn changes_during_dumps_are_in_the_last_increment() {
    if require(&NEEDS) {
        for make in [Some(EXT4[0]), Some(BTRFS[0]), None] {
            on(make, |at, ground| {
                let mut series = Series::new(at, ground);
                let tree = series.tree.clone();
                change(&tree, &mut Dice::new(3), 100);
                series.round("the full dump");
                for round in 0..effort(1, 50) as u64 {
                    let changes = |_, done: &Done| {
                        let mut dice = Dice::new(round);
                        while !done.is_set() {
                            change(&tree, &mut dice, 1);
                        }
                    };
                    with_threads(1, changes, || {
                        for _ in 0..3 {
                            let ran = series.dump(&[]);
                            assert!(ran.code() < 2, "{ran}");
                            is_sound(&series.archive());
                            series.restore();
                        }
                    });
                    series.dump(&[]).exits(0);
                    series.restore();
                    let (is, wanted) = (snapshot(&series.restored.join("tree")), kept(&tree));
                    same(
                        &without_attributes(wanted),
                        &without_attributes(is),
                        &format!("round {round}"),
                    );
                }
            });
        }
    }
}

/// GNU tar does not remove extended attributes of directories, so they are not compared.
fn without_attributes(mut tree: Snapshot) -> Snapshot {
    tree.values_mut()
        .filter(|seen| seen.kind == 'd')
        .for_each(|seen| seen.attributes.clear());
    tree
}

/// Files written after the clock was set back have times years before the catalog.
#[test]
fn changes_after_the_clock_was_set_back_are_dumped() {
    if !require(&NEEDS) || !require(&[Need::Program("debugfs")]) {
        return;
    }
    in_namespace(|ground| {
        let (disk, at) = (ground.join("image"), dir(ground.join("disk")));
        image(EXT4[0], 64, &disk);
        let mount = || assert!(mount_image(EXT4[0], &disk, &at, MountFlags::NOATIME));
        mount();
        for name in ["first", "second", "third"] {
            file(at.join("tree").join(name), 100);
        }
        settle(&at);
        let (catalog, restored) = (ground.join("catalog"), dir(ground.join("restored")));
        let catalog = catalog.to_str().unwrap();
        dump(
            &at.join("tree"),
            &ground.join("0.tar"),
            &["--catalog", catalog],
        )
        .exits(0);
        by_gnu_tar(&ground.join("0.tar"), &restored);
        fs::write(at.join("tree/second"), [7; 100]).unwrap();
        unmount_whole(&at);
        set_back(&disk, "/tree/second");
        mount();
        let more = ["--since", catalog, "--json"];
        let value = dump(&at.join("tree"), &ground.join("1.tar"), &more)
            .exits(0)
            .json();
        assert_eq!(value["result"]["files"], 1, "{value}");
        by_gnu_tar(&ground.join("1.tar"), &restored);
        same(
            &kept(&at.join("tree")),
            &snapshot(&restored.join("tree")),
            "after the clock went back",
        );
    });
}

/// The same image on a different loop device: the device number and the mount id differ.
#[test]
fn increment_after_the_device_number_changed() {
    if !require(&NEEDS) {
        return;
    }
    for make in [EXT4[0], XFS[0], BTRFS[0]] {
        in_namespace(|ground| {
            let (disk, at) = (ground.join("image"), dir(ground.join("disk")));
            image(make, 400, &disk);
            assert!(mount_image(make, &disk, &at, MountFlags::NOATIME));
            (0..100).for_each(|n| drop(file(at.join(format!("tree/d{}/f{n}", n % 7)), 100)));
            settle(&at);
            let (catalog, restored) = (ground.join("catalog"), dir(ground.join("restored")));
            let catalog = catalog.to_str().unwrap();
            dump(
                &at.join("tree"),
                &ground.join("0.tar"),
                &["--catalog", catalog],
            )
            .exits(0);
            by_gnu_tar(&ground.join("0.tar"), &restored);
            unmount_whole(&at);
            mount_elsewhere(make, &disk, &at);
            fs::rename(at.join("tree/d1"), at.join("tree/elsewhere")).unwrap();
            fs::write(at.join("tree/d2/f2"), b"changed").unwrap();
            let more = ["--since", catalog, "--json"];
            let value = dump(&at.join("tree"), &ground.join("1.tar"), &more)
                .exits(0)
                .json();
            assert_eq!(
                (&value["result"]["files"], &value["result"]["renamed"]),
                (&1.into(), &1.into()),
                "{value}"
            );
            by_gnu_tar(&ground.join("1.tar"), &restored);
            same(
                &kept(&at.join("tree")),
                &snapshot(&restored.join("tree")),
                make.fstype,
            );
        });
    }
}

/// The names in a directory.
pub(super) fn names(at: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(at)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

pub(super) fn is_sound(archive: &Path) {
    let listed = Command::new("tar")
        .arg("-tf")
        .arg(archive)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(
        listed.status.success(),
        "{}: {}",
        archive.display(),
        String::from_utf8_lossy(&listed.stderr)
    );
    run(&mut fathom(args!["verify", archive, "-q"])).exits(0);
}

/// A tree that is dumped repeatedly by dumps that may be killed; each is based on the last complete
/// catalog.
struct Perils<'a> {
    at: &'a Path,
    tree: PathBuf,
    out: PathBuf,
    catalog: PathBuf,
    restored: PathBuf,
    number: usize,
    /// Dumps that completed before the kill, and dumps that were killed after the archive and
    /// before the catalog.
    whole: usize,
    between: usize,
    /// Dumps that left temporary files.
    left: usize,
}

impl Perils<'_> {
    fn new(at: &Path) -> Perils<'_> {
        let (tree, out) = (dir(at.join("tree")), dir(at.join("out")));
        (0..100).for_each(|n| drop(file(tree.join(format!("d{}/f{n}", n % 9)), 3000)));
        let (catalog, restored) = (out.join("catalog"), dir(at.join("restored")));
        Perils {
            at,
            tree,
            out,
            catalog,
            restored,
            number: 0,
            whole: 0,
            between: 0,
            left: 0,
        }
    }

    fn archive(&self) -> PathBuf {
        self.out.join(format!("{}.tar", self.number))
    }

    /// The command of the next dump.
    fn dump(&self) -> Command {
        let mut command = fathom(args![
            "dump",
            "tree",
            "-o",
            self.archive(),
            "--catalog",
            self.catalog,
            "-q"
        ]);
        if self.catalog.exists() {
            command.args(args!["--since", self.catalog]);
        }
        command.current_dir(self.at);
        command
    }

    /// Runs a dump that may be killed. Checks that an archive with its final name is complete, and
    /// that all entries of the catalog are in archives.
    fn killed(&mut self, what: &str, run: impl FnOnce(Command)) {
        let before = fs::read(&self.catalog).ok();
        run(self.dump());
        let archive = self.archive();
        let is_there = archive.exists();
        if is_there {
            is_sound(&archive);
        }
        if fs::read(&self.catalog).ok() == before {
            // The catalog is unchanged, so the dump does not count: the next one has the same base
            // and the same archive name.
            self.between += usize::from(is_there);
            let _ = fs::remove_file(archive);
        } else {
            assert!(
                is_there,
                "{what}: the catalog goes on from an archive that is not there"
            );
            by_gnu_tar(&archive, &self.restored);
            self.whole += 1;
        }
        // Replacing a file takes two calls. In between, the new file has a temporary name; the next
        // dump removes it.
        let left: Vec<String> = self
            .others()
            .into_iter()
            .filter(|name| name != "catalog")
            .collect();
        assert!(
            left.is_empty() || left.len() == 1 && left[0].starts_with(".fathom-"),
            "{what}: {left:?} are left"
        );
        self.left += left.len();
        self.number += 1;
    }

    /// The files other than archives.
    fn others(&self) -> Vec<String> {
        names(&self.out)
            .into_iter()
            .filter(|name| !name.ends_with(".tar"))
            .collect()
    }

    /// Runs a dump without a kill, and checks that nothing is missing.
    fn well(&mut self, what: &str) -> Duration {
        let start = Instant::now();
        run(&mut self.dump()).exits(0);
        let takes = start.elapsed();
        by_gnu_tar(&self.archive(), &self.restored);
        same(
            &kept(&self.tree),
            &snapshot(&self.restored.join("tree")),
            what,
        );
        assert_eq!(self.others(), ["catalog"], "{what}");
        fs::remove_file(self.archive()).unwrap();
        self.number += 1;
        takes
    }
}

/// Kills at random moments of a dump.
#[test]
fn kill_at_a_random_moment_loses_no_change() {
    if !require(&NEEDS) {
        return;
    }
    on(Some(EXT4[0]), |at, ground| {
        let mut perils = Perils::new(at);
        let mut dice = Dice::new(5);
        let whole = args!["dump", "tree", "-q", "-o", ground.join("whole.tar")];
        let mut takes = run(fathom(whole).current_dir(at)).exits(0).elapsed;
        for round in 0..effort(20, 300) {
            let what = format!("round {round}");
            repeat_until("a dump that is still running when it is killed", || {
                let wait = takes.mul_f64(dice.below(1200) as f64 / 1000.0);
                let mut status = None;
                perils.killed(&what, |mut dump| {
                    let quiet = dump.stdout(Stdio::null()).stderr(Stdio::null());
                    let mut child = quiet.spawn().unwrap();
                    std::thread::sleep(wait);
                    let _ = child.kill();
                    status = Some(child.wait().unwrap());
                });
                change(&perils.tree, &mut dice, 3);
                status.unwrap().signal()
            });
            if round % 20 == 19 {
                takes = perils.well(&what);
            }
        }
        let (whole, between, left) = (perils.whole, perils.between, perils.left);
        eprintln!("{whole} came through, {between} without the catalog, {left} left something");
    });
}

/// Kills just before each call that creates, renames, removes or syncs a file.
#[test]
fn kill_before_each_modifying_call_loses_no_change() {
    const EFFECTS: [&str; 6] = [
        "openat",
        "write",
        "fsync",
        "linkat",
        "renameat2",
        "unlinkat",
    ];
    /// No thread makes more calls of one kind than this.
    const MOST: usize = 200;
    if !require(&NEEDS) || !require(&[Need::Program("strace")]) {
        return;
    }
    on(Some(EXT4[0]), |at, _| {
        let mut perils = Perils::new(at);
        perils.well("the full dump");
        let mut dice = Dice::new(6);
        for call in EFFECTS {
            let before = perils.whole;
            // Change the tree only once per call: each change adds calls, so that the dump would
            // never complete.
            change(&perils.tree, &mut dice, 3);
            for nth in 1.. {
                assert!(nth < MOST, "{call}: it never came through");
                perils.killed(&format!("{call} {nth}"), |dump| {
                    with_fault(&dump, (call, "signal=KILL"), nth);
                });
                if perils.whole > before {
                    break;
                }
            }
            perils.well(call);
        }
        assert!(
            perils.between > 0 && perils.left > 0,
            "none was killed between archive and catalog"
        );
    });
}
