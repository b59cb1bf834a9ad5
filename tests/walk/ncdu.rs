//! Tests that ncdu loads the output of `--format ncdu`, and exports the same tree again.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::engines::still;
use super::query::with_catalog;
use super::right::walk;
use crate::support::build::file;
use crate::support::run::args;
use crate::support::tool::tool;
use crate::support::{Need, fathom, in_namespace, require, run};

/// Sizes by path. ncdu writes raw bytes that are not UTF-8; here they are replaced.
fn sizes(json: &[u8]) -> BTreeMap<String, (u64, u64, bool)> {
    let text = String::from_utf8_lossy(json);
    let value: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    let mut sizes = BTreeMap::new();
    let mut pending = vec![(String::new(), &value[3])];
    while let Some((above, item)) = pending.pop() {
        let (own, children) = match item.as_array() {
            Some(items) => (&items[0], &items[1..]),
            None => (item, &[][..]),
        };
        let path = format!("{above}/{}", own["name"].as_str().unwrap());
        let number = |field: &str| own[field].as_u64().unwrap_or(0);
        let is_other = own["notreg"] == true;
        sizes.insert(path.clone(), (number("asize"), number("dsize"), is_other));
        pending.extend(children.iter().map(|child| (path.clone(), child)));
    }
    sizes
}

/// Loads a file into ncdu, and returns its export.
fn by_ncdu(json: &[u8], beside: &Path) -> Vec<u8> {
    let file = beside.join("tree.json");
    fs::write(&file, json).unwrap();
    tool(
        Command::new("ncdu")
            .arg("-0")
            .arg("-f")
            .arg(&file)
            .args(["-o", "-"]),
    )
}

#[test]
fn ncdu_loads_the_tree_of_walk_and_query() {
    if !require(&[Need::Root, Need::Program("ncdu")]) {
        return;
    }
    in_namespace(|base| {
        let (top, catalog) = with_catalog(base, 41);
        for predicates in [&[][..], &["--type", "f", "--size", "+1"], &["--type", "e"]] {
            let format = [predicates, &["--format", "ncdu"]].concat();
            let walked = walk(&top, "threads", &format).exits(0).stdout;
            let queried = run(fathom(args!["query", &catalog]).args(&format))
                .exits(0)
                .stdout;
            let (ours, theirs) = (sizes(&walked), sizes(&by_ncdu(&walked, base)));
            assert_eq!(ours, theirs, "{predicates:?}");
            assert_eq!(ours, sizes(&queried), "{predicates:?}");
            assert!(ours.len() > 5, "{ours:?}");
        }
    });
}

/// Names and allocated bytes of the entries of a tree, as gdu lists them; the names of directories
/// begin with a slash.
fn by_gdu(json: &[u8], beside: &Path) -> BTreeMap<String, u64> {
    let file = beside.join("tree.json");
    fs::write(&file, json).unwrap();
    let mut gdu = Command::new("gdu");
    gdu.args(["-n", "-p", "-c", "--no-prefix", "-f"]).arg(&file);
    let printed = String::from_utf8(tool(gdu.env("HOME", beside))).unwrap();
    let line = |line: &str| {
        let (size, name) = line.trim_start().split_once(' ').unwrap();
        (name.trim_start().to_owned(), size.parse().unwrap())
    };
    printed.lines().map(line).collect()
}

#[test]
fn gdu_loads_the_tree_of_walk_and_query() {
    if !require(&[Need::Root, Need::Program("gdu")]) {
        return;
    }
    in_namespace(|base| {
        let top = still(&base.join("disk")).to_owned();
        for (name, size) in [
            ("a/b/c", 5000),
            ("a/d", 100_000),
            ("e/\u{e9} \"f\"", 1),
            ("g", 9000),
        ] {
            file(top.join(name), size);
        }
        fs::hard_link(top.join("a/d"), top.join("a/b/again")).unwrap();
        let catalog = base.join("c.parquet");
        let write = args!["walk", &top, "--catalog", &catalog, "-q"];
        run(&mut fathom(write)).exits(0);
        let walked = walk(&top, "threads", &["--format", "ncdu"]).exits(0);
        let queried = run(&mut fathom(args!["query", &catalog, "--format", "ncdu"])).exits(0);
        let listed = by_gdu(&walked.stdout, base);
        assert_eq!(listed, by_gdu(&queried.stdout, base));
        // gdu counts 4,096 bytes for every directory, although directories on tmpfs have no blocks.
        let expected = [("/a", 2), ("/e", 1), ("g", 0)].map(|(name, directories)| {
            let mut du = Command::new("du");
            du.args(["-s", "-B1", name.trim_start_matches('/')]);
            let printed = String::from_utf8(tool(du.current_dir(&top))).unwrap();
            let size: u64 = printed.split_whitespace().next().unwrap().parse().unwrap();
            (name.to_owned(), size + 4096 * directories)
        });
        assert_eq!(listed, BTreeMap::from(expected));
    });
}

#[test]
fn export_is_of_one_directory() {
    let ran = run(&mut fathom(args![
        "walk",
        "/etc/apt",
        "/etc/dpkg",
        "--format",
        "ncdu"
    ]))
    .refused();
    assert!(ran.stderr.contains("several DIRs"), "{ran}");
}
