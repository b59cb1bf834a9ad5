//! Tests of levels as in dump(8).

use std::fs;
use std::path::{Path, PathBuf};

use super::chains::restores;
use super::full::NEEDS;
use super::rounds::{by_gnu_tar, on};
use crate::support::build::{dir, file};
use crate::support::disks::EXT4;
use crate::support::reference::settle;
use crate::support::run::{Ran, args};
use crate::support::snapshot::{kept, same, snapshot};
use crate::support::{fathom, require, run};

fn level(at: &Path, state: &Path, archive: &Path, number: usize) -> Ran {
    let arguments = args![
        "dump",
        "tree",
        "-o",
        archive,
        "--level",
        number.to_string(),
        "--state",
        state,
        "--json"
    ];
    run(fathom(arguments).current_dir(at))
}

fn catalogs(state: &Path) -> Vec<usize> {
    let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    let number = |name: String| {
        name.strip_prefix("level-")?
            .strip_suffix(".parquet")?
            .parse()
            .ok()
    };
    let mut all: Vec<usize> = fs::read_dir(state)
        .unwrap()
        .filter_map(|entry| number(name(entry.unwrap())))
        .collect();
    all.sort_unstable();
    all
}

/// The archives of a chain.
fn archives(ground: &Path, chain: &[(usize, usize)]) -> Vec<PathBuf> {
    let numbers = chain.iter().map(|(_, number)| number);
    numbers
        .map(|number| ground.join(format!("{number}.tar")))
        .collect()
}

/// `changed` takes a catalog, and names the newest one of a state directory.
#[test]
fn changed_names_the_newest_catalog_of_a_state_directory() {
    let temporary = tempfile::tempdir().unwrap();
    let at = temporary.path();
    let state = dir(at.join("state"));
    file(dir(at.join("tree")).join("f"), 10);
    for number in 0..2 {
        level(at, &state, &at.join(format!("{number}.tar")), number).exits(0);
    }
    for option in ["--state", "--since"] {
        let ran = run(fathom(args!["changed", "tree", option, "state"]).current_dir(at)).refused();
        assert!(ran.stderr.contains("'state/level-1.parquet'"), "{ran}");
    }
    let newest = "state/level-1.parquet";
    run(fathom(args!["changed", "tree", "--since", newest]).current_dir(at)).exits(0);
}

/// A full dump does not replace the base of another tree's increments.
#[test]
fn state_directory_serves_one_tree() {
    let temporary = tempfile::tempdir().unwrap();
    let at = temporary.path();
    let state = dir(at.join("state"));
    for tree in ["tree", "other", "more"] {
        file(dir(at.join(tree)).join("f"), 10);
    }
    let full = |sources: &[&str]| {
        let arguments = args!["dump", "-o", "0.tar", "--level", "0", "--state", &state];
        run(fathom(arguments).args(sources).current_dir(at))
    };
    full(&["tree"]).exits(0);
    let before = fs::read(state.join("level-0.parquet")).unwrap();
    let ran = full(&["other"]).refused();
    assert!(
        ran.stderr
            .contains("it describes 'tree', not the given SRC"),
        "{ran}"
    );
    assert!(ran.stderr.contains("a state directory of its own"), "{ran}");
    assert_eq!(fs::read(state.join("level-0.parquet")).unwrap(), before);
    // SRCs may be added and removed.
    full(&["tree", "more"]).exits(0);
    full(&["more"]).exits(0);
}

/// Restoring the last dump of each lower level, and then the dump itself, gives the tree.
#[test]
fn levels_are_based_on_lower_levels() {
    if !require(&NEEDS) {
        return;
    }
    on(Some(EXT4[0]), |at, ground| {
        let (tree, state) = (dir(at.join("tree")), dir(ground.join("state")));
        (0..30).for_each(|n| drop(file(tree.join(format!("d{}/f{n}", n % 3)), 100)));
        settle(at);
        // The archives needed for the next restore: level and number, with rising levels.
        let mut chain: Vec<(usize, usize)> = Vec::new();
        for (number, wanted) in [0, 5, 3, 7, 6, 9, 3, 5, 5, 1, 9, 0, 4]
            .into_iter()
            .enumerate()
        {
            fs::write(tree.join(format!("d1/new {number}")), b"new").unwrap();
            let _ = fs::remove_file(tree.join(format!("d2/f{}", number * 3 + 2)));
            let _ = fs::rename(
                tree.join(format!("r{}", number / 2)),
                tree.join(format!("r{}", number / 2 + 1)),
            );
            file(tree.join(format!("r{}/x{number}", number.div_ceil(2))), 10);
            let archive = ground.join(format!("{number}.tar"));
            let value = level(at, &state, &archive, wanted).exits(0).json();
            chain.retain(|(level, _)| *level < wanted);
            let since = &value["result"]["since"];
            match chain.last() {
                Some((below, _)) => {
                    assert!(
                        since
                            .as_str()
                            .unwrap()
                            .ends_with(&format!("level-{below}.parquet")),
                        "{since}"
                    )
                }
                None => assert!(since.is_null()),
            }
            assert_eq!(value["result"]["level"], wanted);
            chain.push((wanted, number));
            assert_eq!(restores(&state, number), archives(ground, &chain));
            assert_eq!(
                catalogs(&state),
                chain.iter().map(|(level, _)| *level).collect::<Vec<_>>()
            );
            let restored = dir(at.join(format!("restored {number}")));
            chain.iter().for_each(|(_, number)| {
                by_gnu_tar(&ground.join(format!("{number}.tar")), &restored)
            });
            same(
                &kept(&tree),
                &snapshot(&restored.join("tree")),
                &format!("dump {number}, of level {wanted}"),
            );
        }
    });
}

/// Without a dump of a lower level, everything is dumped. A missing state directory is created if the
/// directory above it exists. With an invalid level, nothing is dumped.
#[test]
fn level_without_lower_levels_is_a_full_dump() {
    if !require(&NEEDS) {
        return;
    }
    on(Some(EXT4[0]), |at, ground| {
        file(at.join("tree/f"), 1);
        let archive = ground.join("a.tar");
        level(at, &ground.join("none/deep"), &archive, 1).refused();
        assert!(!archive.exists());
        let new = ground.join("new");
        let words = args!["dump", "tree", "--dry-run", "--level", "1", "--state", &new];
        run(fathom(words).current_dir(at)).exits(0);
        assert!(!new.exists());
        let ran = level(at, &new, &ground.join("first.tar"), 1).exits(0);
        assert!(
            ran.stderr.contains("state directory '") && ran.stderr.contains("' created"),
            "{ran}"
        );
        assert_eq!(catalogs(&new), [0]);
        let state = dir(ground.join("state"));
        let ran = level(at, &state, &archive, 4).exits(0);
        assert!(ran.json()["result"]["since"].is_null());
        assert_eq!(ran.json()["result"]["level"], 0);
        assert!(
            ran.stderr.contains("everything is dumped, as level 0"),
            "{ran}"
        );
        assert_eq!(catalogs(&state), [0]);
        let ran = level(at, &state, &ground.join("b.tar"), 4).exits(0);
        assert!(ran.json()["result"]["since"].is_string());
        assert_eq!(catalogs(&state), [0, 4]);
        level(at, &state, &archive, 10).refused();
        run(&mut fathom(args![
            "dump",
            at.join("tree"),
            "-o",
            archive,
            "--level",
            "1"
        ]))
        .refused();
    });
}
