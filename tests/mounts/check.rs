//! `--check` tells which mounts answer, and always comes back.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::build::{bind, file, tmpfs};
use crate::support::fuse::Manner::{Denies, Hung, Silent, Slow, Stale, Works};
use crate::support::fuse::{Server, serve};
use crate::support::jail::{as_nobody, fathom_in};
use crate::support::reference::table;
use crate::support::run::{Ran, args, mount_at, path, program};
use crate::support::{Need, fathom, in_namespace, require, run};

const DEADLINE: Duration = Duration::from_secs(1);
const GRACE: Duration = Duration::from_secs(1);

fn check(root: &Path) -> Ran {
    let ran = run(&mut fathom(args!["mounts", root, "--check", "--deadline", "1s", "--json"]));
    assert!(ran.elapsed < DEADLINE + GRACE, "{:?}: {ran}", ran.elapsed);
    ran
}

/// The processes that were started with `root` among their arguments and have not gone.
fn left(root: &Path) -> Vec<String> {
    let root = root.to_str().unwrap();
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(root) {
            all.push(line);
        }
    }
    all
}

#[test]
fn every_verdict() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|ground| {
            let at = |name: &str| ground.join(name);
            let _servers = [
                serve(Works, at("works")),
                serve(Slow(300), at("slow")),
                serve(Hung, at("hung")),
                serve(Stale, at("stale")),
                serve(Denies, at("denied")),
            ];
            tmpfs(at("tmpfs"));
            bind(file(at("data"), 1), at("file"));
            tmpfs(at("covered/deeper"));
            tmpfs(at("covered"));
            let value = check(ground).exits(1).json();
            let expected = [
                ("works", "ok"),
                ("slow", "slow"),
                ("hung", "hung"),
                ("stale", "stale"),
                ("denied", "denied"),
                ("tmpfs", "ok"),
                ("file", "ok"),
                ("covered", "ok"),
                ("covered/deeper", "hidden"),
            ];
            for (name, verdict) in expected {
                assert_eq!(mount_at(&value, &at(name))["verdict"], verdict, "{name}");
            }
            let mut named: Vec<_> = value["warnings"].as_array().unwrap().iter().map(|w| path(w, "path")).collect();
            named.sort();
            assert_eq!(named, ["denied", "hung", "slow", "stale"].map(at));
            assert_eq!(left(ground), [""; 0]);
        });
    }
}

#[test]
fn nothing_wrong_is_status_0() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|ground| {
            let _server = serve(Works, ground.join("works"));
            tmpfs(ground.join("tmpfs"));
            let value = check(ground).exits(0).json();
            assert!(value["result"]["mounts"].as_array().unwrap().iter().all(|mount| mount["verdict"] == "ok"));
        });
    }
}

#[test]
fn a_server_that_reads_and_never_answers() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|ground| {
            let silent = ground.join("silent");
            let server = serve(Silent, &silent);
            let value = check(ground).exits(1).json();
            assert_eq!(mount_at(&value, &silent)["verdict"], "hung");
            // Linux lets nobody kill who waits for a request that the server has taken. It goes when the server does.
            drop(server);
            let since = Instant::now();
            while !left(ground).is_empty() {
                assert!(since.elapsed() < Duration::from_secs(10), "{:?}", left(ground));
                std::thread::sleep(Duration::from_millis(10));
            }
        });
    }
}

#[test]
fn two_hundred_hung_mounts_at_once() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|ground| {
            let servers: Vec<Server> = (0..200).map(|n| serve(Hung, ground.join(format!("hung{n}")))).collect();
            let works = tmpfs(ground.join("works"));
            let value = check(ground).exits(1).json();
            let mounts = value["result"]["mounts"].as_array().unwrap();
            assert_eq!(mounts.iter().filter(|mount| mount["verdict"] == "hung").count(), servers.len());
            assert_eq!(mount_at(&value, &works)["verdict"], "ok");
            assert_eq!(left(ground), [""; 0]);
        });
    }
}

#[test]
fn dead_mounts_hang_no_table_and_no_search() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|ground| {
            let _servers =
                [Hung, Silent, Stale, Denies].map(|manner| serve(manner, ground.join(format!("{manner:?}"))));
            let expected: Vec<_> = table(ground).into_iter().map(|mount| mount.target).collect();
            for by in ["kernel", "mountinfo", "search", "auto"] {
                let value = run(&mut fathom(args!["mounts", ground, "--json", "--by", by])).exits(0).json();
                for target in &expected {
                    mount_at(&value, target);
                }
            }
        });
    }
}

#[test]
fn a_search_without_hints_says_which_mounts_it_could_not_read() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|ground| {
            let _servers = [Stale, Denies].map(|manner| serve(manner, ground.join(format!("{manner:?}"))));
            let command = args!["mounts", ground, "--json", "--by", "search", "--hints", "none"];
            let value = run(&mut fathom(command)).exits(1).json();
            let errors: Vec<_> = value["warnings"].as_array().unwrap().iter().map(|w| w["errno"].clone()).collect();
            assert!(errors.contains(&"EACCES".into()) && errors.contains(&"ENOTCONN".into()), "{value}");
            assert_eq!(value["result"]["mounts"].as_array().unwrap().len(), 3);
        });
    }
}

#[test]
fn an_ordinary_user_may_check() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|ground| {
            let here = fathom_in(&ground.join("bin"));
            let _server = serve(Hung, ground.join("tree/hung"));
            tmpfs(ground.join("tree/fine"));
            let mut command =
                program(&here, args!["mounts", ground.join("tree"), "--check", "--deadline", "500ms", "--json"]);
            as_nobody(&mut command);
            let value = run(&mut command).exits(1).json();
            assert_eq!(mount_at(&value, &ground.join("tree/hung"))["verdict"], "hung");
            assert_eq!(mount_at(&value, &ground.join("tree/fine"))["verdict"], "ok");
        });
    }
}
