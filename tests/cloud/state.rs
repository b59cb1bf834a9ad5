//! Tests of state directories in a store.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::Signal;

use super::server::{Server, change, needs, small_tree, url};
use crate::support::effort::effort;
use crate::support::proxy::{Fault, kill};
use crate::support::run::{Ran, args};
use crate::support::snapshot::{kept, same};
use crate::support::{require, run};

fn state() -> String {
    url("state/")
}

fn dump(server: &Server, level: u32, key: &str) -> Ran {
    let level = level.to_string();
    let args = args![
        "dump",
        "tree",
        "-o",
        url(key),
        "--level",
        level,
        "--state",
        state()
    ];
    run(&mut server.fathom(args))
}

/// Restores the last dump, and compares it with the tree.
fn is_restored(server: &Server, what: &str) {
    let out = server.place().join("out");
    fs::create_dir(&out).unwrap();
    run(&mut server.fathom(["restore", "--state", &state(), "-C", "out"])).exits(0);
    same(
        &kept(&server.place().join("tree")),
        &kept(&out.join("tree")),
        what,
    );
    fs::remove_dir_all(&out).unwrap();
}

#[test]
fn levels_are_kept_in_a_store() {
    if !require(&needs()) {
        return;
    }
    let server = Server::start();
    let tree = server.place().join("tree");
    small_tree(&tree);
    for (level, key) in [(0, "0.tar"), (1, "1.tar"), (2, "2.tar"), (1, "1b.tar.zst")] {
        fs::write(tree.join(key), key).unwrap();
        dump(&server, level, key).exits(0);
        is_restored(&server, key);
    }
    let listed = run(&mut server.fathom(["list", "--state", &state()])).exits(0);
    assert_eq!(listed.lines().len(), 5, "{listed}");
    assert_eq!(server.content("state/level-2.parquet"), None);
    server.remove("2.tar");
    let listed = run(&mut server.fathom(["list", "--state", &state(), "--json"])).exits(0);
    let listed = listed.json();
    let statuses = listed["result"]["dumps"].as_array().unwrap().iter();
    let statuses: Vec<_> = statuses
        .map(|dump| dump["status"].as_str().unwrap())
        .collect();
    assert_eq!(statuses, ["ok", "ok", "missing", "ok"]);
    // An archive that later dumps need is not replaced.
    let replacing = dump(&server, 1, "0.tar").refused();
    assert!(
        replacing
            .stderr
            .contains("an earlier dump that this one is based on"),
        "{replacing}"
    );
    dump(&server, 0, "new.tar").exits(0);
    let prune = [
        "dump",
        "--state",
        &state(),
        "--prune",
        "--keep-full",
        "1",
        "--yes",
    ];
    run(&mut server.fathom(prune)).exits(0);
    assert!(server.content("0.tar").is_none() && server.content("new.tar").is_some());
    is_restored(&server, "after --prune");
    // Nothing has changed: the catalog of the base is copied.
    dump(&server, 1, "same.tar").exits(0);
    is_restored(&server, "unchanged");
}

/// A dump is killed at each of its requests in turn. The next dump loses no change.
#[test]
fn a_state_in_a_store_survives_kills() {
    if !require(&needs()) {
        return;
    }
    let rounds = effort(8, 150);
    let server = Server::start();
    let tree = server.place().join("tree");
    small_tree(&tree);
    dump(&server, 0, "0.tar.zst").exits(0);
    let (mut killed, mut nth) = (0, 0);
    for round in 0..rounds {
        change(&tree, round);
        let process = Arc::new(AtomicU32::new(0));
        let shared = Arc::clone(&process);
        // The kill comes before the server gets the request, or after it.
        let passes = round % 2 == 0;
        server.proxy.take();
        server.proxy.plan(move |request| {
            if request.nth != nth {
                return Fault::Pass;
            }
            kill(&shared, Signal::KILL);
            match passes {
                true => Fault::Pass,
                false => Fault::CutRequest(0),
            }
        });
        let (level, key) = ((round % 3).to_string(), url(&format!("k{round}.tar.zst")));
        let args = args![
            "dump",
            "tree",
            "-o",
            key,
            "--level",
            level,
            "--state",
            state()
        ];
        let mut command = server.fathom(args);
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        process.store(child.id(), Ordering::SeqCst);
        let is_killed = child.wait().unwrap().code().is_none();
        killed += usize::from(is_killed);
        // After the last request, begin again with the first.
        nth = if is_killed { nth + 1 } else { 0 };
        server.proxy.plan(|_| Fault::Pass);
        run(&mut server.fathom(["list", "--state", &state()])).exits(0);
        if round % 4 == 3 {
            dump(&server, 1 + round as u32 % 2, &format!("r{round}.tar.zst")).exits(0);
            is_restored(&server, &format!("round {round}"));
        }
    }
    assert!(killed > rounds / 2, "{killed} of {rounds}");
    dump(&server, 2, "last.tar.zst").exits(0);
    is_restored(&server, "the last dump");
    // Every archive that exists is complete.
    for name in fs::read_dir(server.object("")).unwrap() {
        let name = name.unwrap().file_name().into_string().unwrap();
        if Path::new(&name).extension().is_some_and(|it| it == "zst") {
            run(&mut server.fathom(["verify", &url(&name)])).exits(0);
        }
    }
}

/// Records in a store must not name local files: a user who may write to the bucket could have any
/// file of this machine removed or restored.
#[test]
fn records_in_a_store_name_no_local_files() {
    if !require(&needs()) {
        return;
    }
    let server = Server::start();
    let tree = server.place().join("tree");
    small_tree(&tree);
    for (nth, level) in [0, 0].into_iter().enumerate() {
        fs::write(tree.join("new"), nth.to_string()).unwrap();
        dump(&server, level, &format!("{nth}.tar")).exits(0);
    }
    // fathom makes no such dump either.
    let local = server.place().join("local.tar");
    let words = args![
        "dump",
        "tree",
        "-o",
        local,
        "--level",
        "1",
        "--state",
        state()
    ];
    let refused = run(&mut server.fathom(words)).refused();
    assert!(refused.stderr.contains("is not in a store"), "{refused}");
    assert!(!local.exists());

    let victim = server.place().join("victim");
    fs::write(&victim, "precious").unwrap();
    let records = server.object("state/dumps.ndjson");
    let text = fs::read_to_string(&records).unwrap();
    let forge = |name: &str| {
        let forged = text.replace(&url(name), victim.to_str().unwrap());
        assert_ne!(forged, text);
        fs::write(&records, forged).unwrap();
    };
    let prune = args![
        "dump",
        "--prune",
        "--yes",
        "--keep-full",
        "1",
        "--state",
        state()
    ];
    forge("1.tar");
    let restored = run(&mut server.fathom(args!["restore", "--state", state()])).refused();
    assert!(restored.stderr.contains("is not in a store"), "{restored}");
    forge("0.tar");
    let pruned = run(&mut server.fathom(prune)).exits(1);
    assert!(pruned.stderr.contains("not removed"), "{pruned}");
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
}

/// Without an id, an archive is recognized by its size and time, which a different object can have,
/// too.
#[test]
fn records_without_ids_decide_about_their_bucket_only() {
    if !require(&needs()) {
        return;
    }
    let server = Server::start();
    let tree = server.place().join("tree");
    small_tree(&tree);
    for nth in 0..2 {
        fs::write(tree.join("new"), nth.to_string()).unwrap();
        dump(&server, 0, &format!("{nth}.tar")).exits(0);
    }
    let archive = server.object("0.tar");
    let other = server.object("").parent().unwrap().join("other");
    fs::create_dir(&other).unwrap();
    let victim = other.join("precious");
    fs::copy(&archive, &victim).unwrap();
    let times = fs::FileTimes::new().set_modified(archive.metadata().unwrap().modified().unwrap());
    let opened = fs::File::options().write(true).open(&victim).unwrap();
    opened.set_times(times).unwrap();
    let records = server.object("state/dumps.ndjson");
    let text = fs::read_to_string(&records).unwrap();
    let forged = text.lines().map(|line| {
        let mut record: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(record.as_object_mut().unwrap().remove("id").is_some());
        record.to_string() + "\n"
    });
    let without_ids: String = forged.collect();
    let prune = args![
        "dump",
        "--prune",
        "--yes",
        "--keep-full",
        "1",
        "--state",
        state()
    ];
    fs::write(
        &records,
        without_ids.replace(&url("0.tar"), "s3://other/precious"),
    )
    .unwrap();
    let pruned = run(&mut server.fathom(prune.clone())).exits(1);
    assert!(pruned.stderr.contains("not removed"), "{pruned}");
    assert!(victim.exists() && archive.exists());
    fs::write(&records, without_ids).unwrap();
    run(&mut server.fathom(prune)).exits(0);
    assert!(!archive.exists());
}

/// One command for every night also works with a store: it chooses names and levels, and prunes.
#[test]
fn nights_are_named_and_pruned_in_a_store() {
    if !require(&needs()) {
        return;
    }
    let server = Server::start();
    let tree = server.place().join("tree");
    small_tree(&tree);
    let nightly = |state: &str, more: &[&str]| {
        let words = [
            "dump",
            "tree",
            "--state",
            state,
            "--full-every",
            "3",
            "--json",
        ];
        let ran = run(&mut server.fathom([&words[..], more].concat()));
        ran.exits(0).json()["result"].clone()
    };
    for (night, level) in [0, 1, 1, 0, 1, 1, 0].into_iter().enumerate() {
        change(&tree, night);
        let result = nightly(&url("nights"), &["--keep-last", "2"]);
        assert_eq!(result["level"], level, "{result}");
        let archive = result["archive"].as_str().unwrap();
        assert!(archive.starts_with(&url("nights/tree-")), "{archive}");
        let out = server.place().join("out");
        fs::create_dir(&out).unwrap();
        let words = ["restore", "--state", &url("nights"), "-C", "out"];
        run(&mut server.fathom(words)).exits(0);
        same(&kept(&tree), &kept(&out.join("tree")), archive);
        fs::remove_dir_all(&out).unwrap();
    }
    // The last two dumps, and the full dump of the first of them; each with its catalog.
    let dumps = |state: &str| {
        let listed = run(&mut server.fathom(["list", "--state", state, "--json"])).exits(0);
        listed.json()["result"]["dumps"].as_array().unwrap().clone()
    };
    let left = dumps(&url("nights"));
    assert_eq!(left.len(), 3, "{left:?}");
    let names = || {
        let all = fs::read_dir(server.object("nights")).unwrap();
        let mut all: Vec<_> = all.map(|it| it.unwrap().file_name()).collect();
        all.retain(|name| name.to_str().unwrap().starts_with("tree-"));
        all.len()
    };
    assert_eq!(names(), 6);
    run(&mut server.fathom(["verify", "--state", &url("nights")])).exits(0);
    let found = run(&mut server.fathom(["list", "--state", &url("nights"), "--", "tree"]));
    assert!(!found.exits(0).stderr.contains("no catalog"));
    // A copy of the objects has archives of its own: removing them does not touch the original.
    let copy = server.object("nights").with_file_name("copy");
    crate::support::tool::tool(
        std::process::Command::new("cp")
            .arg("-a")
            .args([&server.object("nights"), &copy]),
    );
    let moved = dumps(&url("copy"));
    let archive = moved[0]["archive"].as_str().unwrap();
    assert!(archive.starts_with(&url("copy/tree-")), "{archive}");
    let pruned = nightly(&url("copy"), &["--keep-last", "1"]);
    assert_ne!(pruned["pruned"]["dumps"].as_array().unwrap().len(), 0);
    assert_eq!(names(), 6);
    assert_eq!(dumps(&url("nights")), left);
    // A store that refuses requests is no reason for a full dump.
    server
        .proxy
        .plan(|request| match request.target.contains("level-0") {
            true => Fault::Denied,
            false => Fault::Pass,
        });
    let words = ["dump", "tree", "--state", &url("nights")];
    let refused = run(&mut server.fathom(words)).refused();
    server.proxy.plan(|_| Fault::Pass);
    assert!(refused.stderr.contains("access denied"), "{refused}");
    assert_eq!(dumps(&url("nights")), left);
}
