//! Tests that the counts are exact, and decrease from each method to the next as in the papers.

use std::collections::BTreeMap;
use std::path::Path;

use super::methods::whole;
use crate::support::build::{bush, dir, tmpfs};
use crate::support::run::{args, calls};
use crate::support::strace::{agree, less_start};
use crate::support::{Need, fathom, in_namespace, require, run};

/// The methods of the papers, costliest first.
const ORDER: [&str; 5] = ["naive", "getmnt1", "getmnt2", "getmnt3", "search"];

fn gates(root: &Path, by: &str) -> BTreeMap<String, u64> {
    calls(&run(&mut fathom(whole(root, by))).exits(0).json()["gates"])
}

fn stats(gates: &BTreeMap<String, u64>) -> u64 {
    ["statx", "newfstatat"]
        .iter()
        .filter_map(|gate| gates.get(*gate))
        .sum()
}

/// Checks that each method makes fewer calls than the previous one. Returns the calls of each.
fn fall(root: &Path) -> [BTreeMap<String, u64>; 5] {
    let each = ORDER.map(|by| gates(root, by));
    let counts = each.each_ref().map(stats);
    assert!(
        counts.is_sorted_by(|more, fewer| more >= fewer),
        "{ORDER:?}: {counts:?}"
    );
    each
}

/// Creates the tree of the papers' Figure: leaves near the root, and a bushy directory before the
/// last mount.
fn figure(root: &Path) {
    for (at, files) in [("u1", 8), ("u2/smith", 30), ("usr/font", 40), ("bin", 10)] {
        bush(&root.join(at), 6, files);
    }
    tmpfs(root.join("usr/src"));
    bush(&root.join("usr/src"), 10, 20);
    tmpfs(root.join("usr/spool/news"));
    bush(&root.join("usr/spool/news"), 20, 20);
    for at in ["u3", "u4"] {
        bush(&tmpfs(root.join(at)), 10, 30);
    }
}

#[test]
fn each_method_makes_fewer_stat_calls_than_its_predecessor() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            figure(base);
            fall(base);
        });
    }
}

#[test]
fn breadth_first_skips_deep_directories() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            for n in 0..10 {
                bush(&base.join(format!("a/{n}/b/c")), 10, 10);
            }
            tmpfs(base.join("z"));
            let [_, _, second, third, _] = fall(base);
            assert!(stats(&second) > 10 * stats(&third), "{second:?} {third:?}");
        });
    }
}

/// A tree like the papers' S16: 38 mounts, five of them at depth two, tens of thousands of files,
/// and a bushy directory that is read before the last mount.
#[test]
fn call_counts_on_a_tree_like_s16() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            bush(&base.join("bin"), 1, 100);
            bush(&base.join("usr/font"), 40, 5);
            for n in 0..5 {
                let outer = dir(tmpfs(base.join(format!("i{n}"))).join("home"));
                bush(&tmpfs(outer.join("jms")), 5, 100);
            }
            for n in 0..24 {
                bush(&tmpfs(base.join(format!("u{n}"))), 40, 40);
            }
            for at in ["usr/spool/news", "usr/spool/uucp", "usr/src"] {
                bush(&tmpfs(base.join(at)), 20, 40);
            }
            let [naive, _, _, third, search] = fall(base);
            assert!(
                stats(&naive) >= 40 * stats(&third),
                "{} against {}",
                stats(&naive),
                stats(&third)
            );
            let total = |gates: &BTreeMap<String, u64>| gates.values().sum::<u64>();
            assert!(total(&search) < total(&third), "{search:?}\n{third:?}");
            assert!(
                stats(&search) <= 38 + 10,
                "one for each mount, and a few more: {search:?}"
            );
        });
    }
}

#[test]
fn call_counts_equal_strace() {
    if require(&[Need::Root, Need::Program("strace")]) {
        in_namespace(|base| {
            let (log, base) = (base.join("log"), &dir(base.join("tree")));
            figure(base);
            for by in ORDER.into_iter().chain(["kernel", "mountinfo", "auto"]) {
                let traced = less_start(&log, whole(base, by));
                agree(&traced.ran.json()["gates"], &traced.counts, by);
            }
            for more in [
                &["--beneath"][..],
                &["--boundaries"],
                &["--names", "dev"],
                &["--names", "sys"],
            ] {
                let traced = less_start(
                    &log,
                    args!["mounts", base, "--json"]
                        .into_iter()
                        .chain(more.iter().map(Into::into)),
                );
                agree(
                    &traced.ran.json()["gates"],
                    &traced.counts,
                    &format!("{more:?}"),
                );
            }
        });
    }
}

#[test]
fn call_counts_equal_the_profile() {
    if require(&[Need::Root, Need::Program("strace")]) {
        in_namespace(|base| {
            let (log, base) = (base.join("log"), &dir(base.join("tree")));
            figure(base);
            for by in ["search", "getmnt1"] {
                let arguments = whole(base, by).into_iter().chain(args!["--profile"]);
                let traced = less_start(&log, arguments);
                let value = traced.ran.json();
                agree(&value["gates"], &traced.counts, by);
                assert!(
                    value["gates"]
                        .as_object()
                        .unwrap()
                        .values()
                        .all(|gate| gate["seconds"].is_number())
                );
                assert_eq!(profile(&traced.ran.stderr), calls(&value["gates"]));
            }
        });
    }
}

/// The calls in the table on stderr, which must have the papers' columns, costliest first.
pub(crate) fn profile(stderr: &str) -> BTreeMap<String, u64> {
    let mut lines = stderr.lines().skip_while(|line| !line.contains("%Time"));
    let head: Vec<&str> = lines.next().expect("no table").split_whitespace().collect();
    assert_eq!(
        head,
        ["%Time", "Seconds", "Cumsecs", "#Calls", "msec/call", "Name"]
    );
    let rows: Vec<Vec<&str>> = lines
        .map(|line| line.split_whitespace().collect())
        .take_while(|row: &Vec<_>| row.len() == 6)
        .collect();
    assert!(
        rows.is_sorted_by_key(|row| -row[1].parse::<f64>().unwrap()),
        "{stderr}"
    );
    rows.iter()
        .map(|row| (row[5].to_owned(), row[3].parse().unwrap()))
        .collect()
}
