//! Tests of parts in a store.

use std::fs;

use serde_json::Value;

use super::{NEEDS, launcher, ranks, run_job};
use crate::server::{Server, change, needs, small_tree, url};
use crate::support::run::{Ran, args};
use crate::support::snapshot::{kept, same};
use crate::support::{require, run};

fn job(server: &Server, many: usize, words: Vec<std::ffi::OsString>) -> Ran {
    let mut command = launcher();
    server.prepare(&mut command);
    run_job(command.args(ranks(many, words)))
}

/// The parts below a prefix are restored, listed, verified and compared from there.
#[test]
fn parts_of_all_ranks_are_kept_in_a_store() {
    if !require(&NEEDS) || !require(&needs()) {
        return;
    }
    let server = Server::start();
    let tree = server.place().join("tree");
    small_tree(&tree);
    let words = args![
        "dump",
        "tree",
        "-o",
        url("parts"),
        "--catalog",
        url("catalogs")
    ];
    job(&server, 3, words.to_vec()).exits(0);
    assert!(!server.place().join("s3:").exists());
    for name in [url("parts"), url("parts/")] {
        let to = format!("to-{}", name.len());
        fs::create_dir(server.place().join(&to)).unwrap();
        run(&mut server.fathom(args!["restore", "-q", name, "-C", to])).exits(0);
        same(
            &kept(&tree),
            &kept(&server.place().join(&to).join("tree")),
            &name,
        );
        run(&mut server.fathom(args!["verify", name])).exits(0);
        run(&mut server.fathom(args!["verify", name, "--against", "."])).exits(0);
        let listed = run(&mut server.fathom(args!["list", name])).exits(0);
        assert!(listed.to_string().contains("tree/d0"), "{listed}");
    }
    let to = server.place().join("by-ranks");
    fs::create_dir(&to).unwrap();
    job(
        &server,
        2,
        args!["restore", url("parts"), "-C", "by-ranks"].to_vec(),
    )
    .exits(0);
    same(&kept(&tree), &kept(&to.join("tree")), "restored by ranks");
    let changed = || run(&mut server.fathom(args!["changed", "tree", "--since", url("catalogs")]));
    assert!(changed().exits(0).stdout.is_empty());
    fs::write(tree.join("new"), "new").unwrap();
    assert!(!changed().exits(0).stdout.is_empty());
    // Parts of a different run are not mixed with these.
    let refused = job(&server, 2, words.to_vec());
    assert!(refused.stderr.contains("of another run"), "{refused}");
}

/// With --resume, the same command keeps the existing parts.
#[test]
fn a_run_with_parts_in_a_store_is_continued() {
    if !require(&NEEDS) || !require(&needs()) {
        return;
    }
    let server = Server::start();
    let tree = server.place().join("tree");
    small_tree(&tree);
    let dump = |kept: &str| {
        let words = args!["dump", "tree", "-o", url("parts"), "--resume", "--json"];
        let ran = job(&server, 2, words.to_vec()).exits(0);
        let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!(report["result"]["kept"].to_string(), kept, "{ran}");
    };
    dump("0");
    dump("32");
    let name = fs::read_dir(server.object("parts"))
        .unwrap()
        .flatten()
        .find_map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            name.starts_with("part-3-").then_some(name)
        });
    server.remove(&format!("parts/{}", name.unwrap()));
    dump("30");
    fs::create_dir(server.place().join("to")).unwrap();
    run(&mut server.fathom(args!["restore", "-q", url("parts"), "-C", "to"])).exits(0);
    same(
        &kept(&tree),
        &kept(&server.place().join("to/tree")),
        "after both runs",
    );
    let walk = args!["walk", "-q", "tree", "--catalog", url("walked"), "--resume"].to_vec();
    job(&server, 2, walk.clone()).exits(0);
    change(&tree, 1);
    job(&server, 2, walk).exits(0);
    run(&mut server.fathom(args!["query", url("walked")])).exits(0);
}
