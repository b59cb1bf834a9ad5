//! Tests that `threads` prints the same entries without statx(2), where names and types suffice.

use std::path::Path;
use std::process::Command;

use super::boundaries::mountains;
use super::engines::mounted_or_still;
use super::predicates::{found, same_paths};
use super::right::{summary, walk};
use crate::support::build::{bush, dir};
use crate::support::disks::{BTRFS, EXT4, XFS, mounted, subvolume};
use crate::support::effort::effort;
use crate::support::run::args;
use crate::support::strace::less_start;
use crate::support::{Need, fathom, in_namespace, require, run};

/// Predicates that need only names and types, and the equivalent ones of find.
const SETS: [(&[&str], &[&str]); 7] = [
    (&[], &[]),
    (&["--type", "l,d"], &["-type", "l,d"]),
    (&["--name", "*1*"], &["-name", "*1*"]),
    (&["--type", "d"], &["-type", "d"]),
    (
        &["--regex", "[0-9]$", "--min-depth", "2"],
        &["-mindepth", "2", "-regex", ".*[0-9]"],
    ),
    (
        &["--iname", "F*", "--type", "f", "--max-depth", "2"],
        &["-maxdepth", "2", "-iname", "F*", "-type", "f"],
    ),
    (&["-x", "--name", "*"], &["-xdev", "-name", "*"]),
];

fn statx_calls(base: &Path, top: &Path, more: &[&str]) -> u64 {
    let arguments = args!["walk", top, "--engine", "threads", "--format", "paths0"];
    let all = arguments.into_iter().chain(more.iter().map(Into::into));
    let traced = less_start(&base.join("log"), all);
    traced.ran.exits(0);
    traced.counts.get("statx").map_or(0, |(calls, _)| *calls)
}

#[test]
fn statx_is_called_only_where_metadata_is_needed() {
    if !require(&[Need::Root, Need::Loop, Need::Program("strace")]) {
        return;
    }
    let makes = [Some(EXT4[0]), None, Some(XFS[0]), Some(BTRFS[0])];
    for make in makes.into_iter().take(effort(2, 4)) {
        in_namespace(|base| {
            let at = base.join("disk");
            mounted_or_still(make, &at);
            let top = dir(at.join("tree"));
            bush(&top, 30, 40);
            let entries = summary(&top, "threads", &[])["result"]["entries"].as_u64();
            let entries = entries.unwrap();
            for (ours, finds) in SETS {
                let ran = walk(&top, "threads", &[&["--format", "paths0"], ours].concat()).exits(0);
                let expected = found(Command::new("find").arg(&top).args(finds).arg("-print0"));
                same_paths(&ran, &expected, &format!("{ours:?}"));
                let calls = statx_calls(base, &top, ours);
                // With -x, statx(2) is needed for the devices of directories.
                let most = if ours.contains(&"-x") { 40 } else { 8 };
                assert!(calls <= most, "{ours:?}: {calls} calls of statx");
            }
            let needed: [&[&str]; 3] = [
                &["--size", "+9G"],
                &["--type", "e"],
                &["--name", "*", "--perm", "/111"],
            ];
            for more in needed {
                let calls = statx_calls(base, &top, more);
                assert!(calls >= entries, "{more:?}: {calls} calls of statx");
            }
        });
    }
}

#[test]
fn mounts_and_subvolumes_are_found_without_statx() {
    if !require(&[Need::Root, Need::Loop]) {
        return;
    }
    in_namespace(|base| {
        let top = mountains(base);
        let volume = subvolume(&base.join("btrfs/tree/volume"), None);
        bush(&volume, 3, 3);
        let devices: (&[&str], &[&str]) = (&["--type", "c"], &[]);
        for (ours, _) in SETS.into_iter().chain([devices]) {
            let lines = |engine| walk(&top, engine, &[&["--format", "paths0"], ours].concat());
            let expected = lines("stat").exits(0);
            let expected = expected.stdout.split(|&b| b == 0);
            let expected = expected.filter(|path| !path.is_empty()).map(<[u8]>::to_vec);
            for engine in ["threads", "auto"] {
                let ran = lines(engine).exits(0);
                same_paths(
                    &ran,
                    &expected.clone().collect(),
                    &format!("{engine} {ours:?}"),
                );
            }
        }
    });
}

/// The plan estimates the cost of the fields that the output needs.
#[test]
fn plan_knows_what_the_output_needs() {
    if !require(&[Need::Root, Need::Loop]) {
        return;
    }
    in_namespace(|base| {
        let at = base.join("disk");
        assert!(mounted(XFS[0], &at));
        bush(&at, 300, 60);
        let explained = |more: &[&str]| {
            let explain = args!["walk", &at, "--explain"];
            let ran = run(fathom(explain).args(more)).exits(0);
            String::from_utf8(ran.stdout).unwrap()
        };
        let (names, sizes) = (
            explained(&["--format", "paths", "--name", "x"]),
            explained(&["--format", "paths", "--size", "+1G"]),
        );
        assert!(names.contains("names suffice"), "{names}");
        assert!(!sizes.contains("names suffice"), "{sizes}");
    });
}
