//! Tests of `fathom dump`, `restore`, `verify`, `list` and `changed` under the profiles: the same
//! archives, trees and changes.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::profiles::walks::WITHOUT_STATX;
use crate::profiles::{compare, file_systems, places};
use crate::support::build::{bind, dir, file, tmpfs, unmount};
use crate::support::profile::Profile;
use crate::support::run::{Ran, args};
use crate::support::snapshot::{Snapshot, alike, ignore_inherited, kept};
use crate::support::tool::tool;
use crate::support::trees::{Dice, mutate};
use crate::support::{Need, fathom, in_namespace, require, run};

/// Runs fathom under a profile; it must end with status 0, or only warn of sockets.
fn done(place: &Profile, command: &mut Command) -> Ran {
    place.apply(command);
    let ran = run(command);
    let is_expected = |line: &str| {
        line.contains("socket")
            || line.contains("statx(2) is missing")
            || !line.starts_with("fathom: ")
    };
    assert!(
        ran.code() < 2 && ran.stderr.lines().all(is_expected),
        "{}: {ran}",
        place.name
    );
    ran
}

#[test]
fn every_way_of_gathering_writes_the_same_archive() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|base| {
            let out = tmpfs(base.join("out"));
            for (fstype, top) in file_systems(base, 150) {
                let archive = |place: &Profile, how: &str| {
                    let archive = out.join("archive.tar");
                    let words = args!["dump", ".", "--gather", how, "-q", "-o", &archive];
                    done(place, fathom(words).current_dir(&top));
                    fs::read(archive).unwrap()
                };
                let usual = archive(&Profile::none(), "auto");
                for place in places(&base.join("disks"), &out) {
                    for how in ["auto", "percall", "combined", "batched", "raw"] {
                        let is_same = archive(&place, how) == usual;
                        assert!(is_same, "{fstype} by {how}, {}", place.name);
                    }
                }
            }
        });
    }
}

/// Makes, verifies and restores a full dump and an increment under a profile. GNU tar must restore
/// the same.
fn round_trip(place: &Profile, top: &Path, out: &Path, seed: u64) {
    let [full, increment, state] = ["0.tar.zst", "1.tar.zst", "state"].map(|name| out.join(name));
    dir(&state);
    let dump = |level: &str, archive: &Path| {
        let words = args![
            "dump", ".", "--level", level, "--state", &state, "-q", "-o", archive
        ];
        done(place, fathom(words).current_dir(top));
    };
    dump("0", &full);
    mutate(top, &mut Dice::new(seed), 60);
    dump("1", &increment);
    for archive in [&full, &increment] {
        done(place, &mut fathom(args!["verify", archive, "-q"])).exits(0);
        done(place, &mut fathom(args!["list", archive, "-q"])).exits(0);
    }
    let expected = kept(top);
    let restored = dir(out.join("restored"));
    let words = args!["restore", &full, &increment, "-q", "-C", &restored];
    let mut restore = fathom(words);
    let has_proc = place.name != "no /proc";
    if has_proc {
        place.apply(&mut restore);
        let ran = run(&mut restore);
        // The archive is restored to a tmpfs, which does not support btrfs properties.
        let is_told = |line: &str| line.contains("cannot set extended attributes btrfs.*");
        assert!(ran.stderr.lines().all(is_told), "{}: {ran}", place.name);
    } else {
        place.apply(&mut restore);
        let ran = run(&mut restore).exits(1);
        let is_told = |line: &str| {
            line.contains("extended attributes")
                || line.contains("access control list")
                || line == "hint: mount /proc"
        };
        assert!(ran.stderr.lines().all(is_told), "{ran}");
    }
    // File systems differ in allocated blocks, and only btrfs has btrfs properties.
    let same = |restored: &Snapshot, what: &str| {
        alike(restored, &expected, what, |_, seen| {
            seen.atime = (0, 0);
            seen.data.clear();
            seen.attributes
                .retain(|name, _| !name.starts_with(b"btrfs."));
            if !has_proc {
                seen.attributes.clear();
                seen.mode &= !0o070; // if there is an access control list, these bits are its mask
            }
        });
    };
    same(&kept(&restored), place.name);
    let by_tar = dir(out.join("by tar"));
    for archive in [&full, &increment] {
        let mut tar = Command::new("tar");
        let options = [
            "--listed-incremental=/dev/null",
            "--xattrs",
            "--xattrs-include=*",
            "--acls",
        ];
        let tar = tar.args(options).args(["--warning=none", "--zstd", "-xf"]);
        tool(tar.arg(archive).arg("-C").arg(&by_tar));
    }
    let mut by_tar = kept(&by_tar);
    ignore_inherited(&expected, &mut by_tar);
    same(&by_tar, &format!("{} by GNU tar", place.name));
}

#[test]
fn increments_are_restored_exactly() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|base| {
            for (n, (_, top)) in file_systems(base, 60).iter().enumerate() {
                let out = tmpfs(base.join("out"));
                for (seed, place) in places(&base.join("disks"), &out).iter().enumerate() {
                    round_trip(
                        place,
                        top,
                        &dir(out.join(place.name)),
                        (n * 100 + seed) as u64,
                    );
                }
            }
        });
    }
}

#[test]
fn changes_are_the_same() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|base| {
            let out = tmpfs(base.join("out"));
            for (fstype, top) in file_systems(base, 150) {
                let catalog = out.join("catalog");
                done(
                    &Profile::none(),
                    &mut fathom(args!["walk", &top, "--catalog", &catalog, "-q"]),
                );
                mutate(&top, &mut Dice::new(7), 60);
                // Without birth times, every entry differs from a catalog with birth times.
                let mut places = places(&base.join("disks"), &out);
                places.retain(|place| !WITHOUT_STATX.contains(&place.name));
                let words = args![
                    "changed", &top, "--since", &catalog, "--format", "ndjson", "-q"
                ];
                let lines = |ran: &Ran, _: &Profile| {
                    let mut lines: Vec<String> =
                        ran.lines().into_iter().map(String::from).collect();
                    lines.sort();
                    (ran.code(), lines)
                };
                compare(&places, fstype, &[], || fathom(words.clone()), lines);
            }
        });
    }
}

#[test]
fn restore_empties_no_other_mount() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let (out, tree) = (tmpfs(base.join("out")), dir(base.join("tree")));
            let full = out.join("0.tar");
            let increment = out.join("1.tar");
            let state = dir(out.join("state"));
            file(tree.join("gone/mounted/file"), 10);
            for (level, archive) in [("0", &full), ("1", &increment)] {
                let words = args![
                    "dump", ".", "--level", level, "--state", &state, "-q", "-o", archive
                ];
                done(&Profile::none(), fathom(words).current_dir(&tree));
                let _ = fs::remove_dir_all(tree.join("gone"));
            }
            let precious = file(out.join("precious/other"), 10);
            for place in places(&tree, &out) {
                let restored = dir(out.join(place.name));
                let restore = |archives: &[&Path]| {
                    let mut command = fathom(args!["restore", "-q", "-C", &restored]);
                    command.args(archives);
                    place.apply(&mut command);
                    run(&mut command)
                };
                restore(&[&full]).exits(0);
                // The mount is on the same device, so only the mount id shows it.
                let mounted = bind(out.join("precious"), restored.join("gone/mounted"));
                let overwrite = Path::new("--overwrite");
                let ran = restore(&[&full, &increment, overwrite]).exits(1);
                assert!(ran.stderr.contains("gone/mounted"), "{}: {ran}", place.name);
                assert!(precious.exists(), "{}: {ran}", place.name);
                unmount(mounted);
            }
        });
    }
}
