//! Tests of the contents of each section.

use std::path::Path;

use serde_json::Value;

use super::{survey, survey_within};
use crate::support::build::{dir, file, name, tmpfs};
use crate::support::disks::{EXT4, Make, mounted};
use crate::support::reference::visible;
use crate::support::run::{args, calls as calls_of, path, targets};
use crate::support::{Need, fathom, in_namespace, require, run};

/// 200 files of 1,000 bytes in four directories, a hard link, and mounts.
fn tree(ground: &Path) {
    (0..200).for_each(|n| drop(file(ground.join(format!("d{}/f{n}", n % 4)), 1000)));
    std::fs::hard_link(ground.join("d0/f0"), ground.join("d1/again")).unwrap();
    tmpfs(tmpfs(ground.join("a")).join("b"));
    tmpfs(ground.join("c"));
}

#[test]
fn every_section_of_a_tree() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let top = tmpfs(ground.join("top"));
            tree(&top);
            let path = "/nowhere:/usr/local/bin:/usr/bin:/bin:relative";
            let value = run(survey(args![&top, "--json"]).env("PATH", path))
                .exits(0)
                .json();
            let result = &value["result"];
            every_method_finds_the_mounts(result, &top);
            starts_search_the_path(result, path);
            walk_is_accounted(result);
            dump_has_a_cost(&result["dump"], &top, &ground.join("catalog"));
            let ran = run(survey(args![&top, "--full"]).env("PATH", path)).exits(0);
            let text = String::from_utf8(ran.stdout.clone()).unwrap();
            for word in [
                "Mounts",
                "kernel",
                "mountinfo",
                "search",
                "getmnt3",
                "getmnt2",
                "getmnt1",
                "naive",
                "env true",
                "missing",
                "nothing changed",
                "System calls of a walk",
                top.join("a/b").to_str().unwrap(),
            ] {
                assert!(text.contains(word), "no {word}: {ran}");
            }
        });
    }
}

/// Checks that the section accounts for at least one statx(2) of every entry.
fn walk_is_accounted(result: &Value) {
    let account = &result["account"];
    let skipped = &result["account_skipped"];
    assert!(account.is_object() && skipped.is_null(), "{skipped}");
    let calls = account["gates"]["statx"]["calls"].as_u64().unwrap();
    assert!(calls >= 205, "{account}");
    assert_eq!(account["exit"], 0);
}

/// Checks that a first dump makes more calls than a dump without changes, by the number that `dump`
/// predicts.
fn dump_has_a_cost(dump: &Value, top: &Path, catalog: &Path) {
    assert_eq!(
        (&dump["gather"], &dump["files"], &dump["bytes"]),
        (&"combined".into(), &200.into(), &200_000.into())
    );
    let calls = |what: &str| dump[what]["calls"].as_u64().unwrap();
    let estimated = calls("first") - calls("unchanged");
    let made = |flag: &str| {
        let line = args![
            "dump",
            top,
            "-x",
            flag,
            catalog,
            "-o",
            "/dev/null",
            "--json"
        ];
        let value = run(&mut fathom(line)).exits(0).json();
        calls_of(&value["gates"]).values().sum::<u64>()
    };
    let (first, unchanged) = (made("--catalog"), made("--since"));
    let ratio = estimated as f64 / (first - unchanged) as f64;
    assert!((0.75..=1.25).contains(&ratio), "{ratio}: {dump}");
    assert_eq!(
        (&dump["changed"]["files"], &dump["changed"]["bytes"]),
        (&2.into(), &2000.into()),
        "{dump}"
    );
}

fn every_method_finds_the_mounts(result: &Value, ground: &Path) {
    assert_eq!(path(result, "root"), ground);
    let section = serde_json::json!({"result": result["mounts"]});
    assert!(targets(&section).into_iter().eq(visible(ground)));
    for method in result["mounts"]["compare"]["methods"].as_array().unwrap() {
        assert_eq!(method["found"], 4, "{method}");
        assert!(
            method["gates"]
                .as_object()
                .is_some_and(|gates| !gates.is_empty()),
            "{method}"
        );
    }
}

fn starts_search_the_path(result: &Value, path: &str) {
    let startup = &result["startup"];
    let elements = startup["path"].as_array().unwrap();
    let states: Vec<_> = elements
        .iter()
        .map(|element| element["state"].as_str().unwrap())
        .collect();
    let bin = if Path::new("/bin").is_symlink() {
        "again"
    } else {
        "live"
    };
    assert_eq!(
        states,
        ["dead", "live", "live", bin, "unknown"],
        "{startup}"
    );
    let env = &startup["started"][0];
    assert_eq!(env["command"], "env true");
    // env tries to execute `true` in each directory of PATH before the one that contains it.
    let before = path.split(':').map(|dir| Path::new(dir).join("true"));
    let before = before.take_while(|file| !file.exists()).count();
    let kinds = env["kinds"].as_array().unwrap();
    let along_path = kinds.iter().find(|kind| kind["kind"] == "PATH").unwrap();
    assert_eq!(along_path["misses"], before, "{env}");
    let costs = result["costs"].as_array().unwrap();
    let cost = costs.iter().find(|cost| cost["name"] == "program start");
    let (cost, started) = (cost.unwrap(), startup["started"].as_array().unwrap());
    let named = started
        .iter()
        .find(|start| start["command"] == cost["command"]);
    assert_eq!(cost["now"], named.unwrap()["elapsed"]["median"], "{cost}");
    assert!(
        env["fixes"]
            .as_array()
            .unwrap()
            .iter()
            .any(|fix| fix["kind"] == "PATH"),
        "{env}"
    );
}

#[test]
fn summary_fits_on_one_screen() {
    let ran = run(&mut survey_within("5s", args!["/"]));
    let text = String::from_utf8(ran.stdout.clone()).unwrap();
    assert!(text.lines().count() <= 30, "{ran}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{ran}"
    );
    for word in [
        "Survey of /",
        "FILE SYSTEM",
        "scan ",
        "fsync ",
        "--full prints everything",
    ] {
        assert!(text.contains(word), "no {word}: {ran}");
    }
}

#[test]
fn directory_has_the_file_system_that_it_is_on() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let root = tmpfs(ground.join("a"));
            file(root.join("f"), 1 << 20);
            let sub = dir(root.join("sub"));
            let value = run(&mut survey(args![&sub, "--json"])).exits(0).json();
            let stat = rustix::fs::statvfs(&root).unwrap();
            let [system] = &value["result"]["file_systems"].as_array().unwrap()[..] else {
                panic!("{value}");
            };
            assert_eq!(path(system, "target"), root);
            assert_eq!(system["size"], stat.f_blocks * stat.f_frsize);
            assert_eq!(
                system["used"],
                (stat.f_blocks - stat.f_bfree) * stat.f_frsize
            );
            assert_eq!(system["available"], stat.f_bavail * stat.f_frsize);
            assert_eq!(system["inodes"], stat.f_files);
            assert_eq!(system["state"], "ok");
            let fsync = &value["result"]["costs"][4];
            assert!(fsync["now"].as_f64() > Some(0.0), "{fsync}");
            let ran = run(&mut survey(args![&sub])).exits(0);
            let text = String::from_utf8(ran.stdout.clone()).unwrap();
            assert!(text.contains("FILE SYSTEM"), "{ran}");
            // Mounts below the directory are listed as well, and do not replace its own mount.
            tmpfs(dir(sub.join("below")));
            let value = run(&mut survey(args![&sub, "--json"])).exits(0).json();
            let systems = value["result"]["file_systems"].as_array().unwrap();
            let targets: Vec<_> = systems.iter().map(|one| path(one, "target")).collect();
            assert_eq!(targets, [root, sub.join("below")]);
        });
    }
}

#[test]
fn hostile_names_are_escaped() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let root = tmpfs(ground.join(name(b"\x1b[31mred \xff")));
            tmpfs(root.join("\x1b]0;title\x07\u{9b}2J"));
            let ran = run(&mut survey(args![&root, "--full", "--profile"])).exits(0);
            let text = String::from_utf8(ran.stdout).expect("not UTF-8") + &ran.stderr;
            assert!(
                !text.contains(|c: char| c.is_control() && c != '\n'),
                "{text:?}"
            );

            let value = run(&mut survey(args![&root, "--json"])).exits(0).json();
            assert!(value["result"]["root_b64"].is_string(), "{value}");
            assert_eq!(path(&value["result"], "root"), root);
        });
    }
}

#[test]
fn experiments_on_each_file_system() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|ground| {
            let (disk, figures) = (ground.join("disk"), ground.join("figures"));
            assert!(mounted(
                Make {
                    mkfs: "-b 1024",
                    ..EXT4[0]
                },
                &disk
            ));
            std::fs::create_dir(&figures).unwrap();
            let value = run(&mut survey(args![ground, "--json", "--plot", &figures]))
                .exits(0)
                .json();
            let probed = value["result"]["probe"].as_array().unwrap();
            // The tmpfs that contains the tree is not on a disk.
            assert_eq!(
                probed
                    .iter()
                    .map(|one| path(one, "dir"))
                    .collect::<Vec<_>>(),
                [disk.as_path()]
            );
            let found = probed[0]["experiments"].as_array().unwrap();
            let block = found
                .iter()
                .find(|finding| finding["name"] == "allocation-block")
                .unwrap();
            assert_eq!(block["inferred"], 1024);
            assert!(figures.join("1-block-writes-256.svg").exists());
            assert_eq!(
                std::fs::read_dir(&disk).unwrap().count(),
                1,
                "something was left behind"
            );
        });
    }
}
