//! Tests of the effects of a survey on the machine: it only reads, keeps within its limits, waits
//! for no hung server, and leaves nothing behind.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value;

use super::{PATIENT, names, survey, survey_within};
use crate::support::build::{bush, tmpfs};
use crate::support::disks::{EXT4, mounted};
use crate::support::fuse::Manner::{Hung, Silent};
use crate::support::fuse::{serve, serve_as};
use crate::support::run::{args, targets};
use crate::support::synthetic::{SyntheticTree, serve_synthetic};
use crate::support::wait::wait_until;
use crate::support::{Need, fathom, in_namespace, require, run};

/// The lines of a strace log in which a file is created, written to or removed by name. Files
/// without a name, and files of /dev and /proc, do not count.
fn written(log: &Path) -> Vec<String> {
    let log = fs::read_to_string(log).unwrap();
    let is_change = |line: &&str| {
        let opens = line.contains("open(") || line.contains("openat(") || line.contains("openat2(");
        let writes = ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"]
            .iter()
            .any(|flag| line.contains(flag));
        let made_up = ["\"/dev/null\"", "\"/dev/tty\"", "\"/proc/"]
            .iter()
            .any(|place| line.contains(place));
        line.contains("(")
            && !line.contains("resumed>")
            && !line.contains("syscall_0x")
            && !line.contains("???(")
            && (!opens || writes && !made_up && !line.contains("O_TMPFILE"))
    };
    log.lines().filter(is_change).map(str::to_owned).collect()
}

#[test]
fn only_unnamed_files_are_written() {
    if require(&[Need::Root, Need::Loop, Need::Program("strace")]) {
        in_namespace(|ground| {
            let (disk, log) = (ground.join("disk"), ground.join("log"));
            assert!(mounted(EXT4[0], &disk));
            bush(&disk, 3, 3);
            let calls = "trace=open,openat,openat2,creat,mkdir,mkdirat,mknod,mknodat,unlink,unlinkat,rmdir,rename,renameat,renameat2,\
                         link,linkat,symlink,symlinkat,truncate,chmod,fchmodat,chown,fchownat,setxattr,lsetxattr,mount,umount2";
            let mut command = Command::new("strace");
            command
                .args(["-f", "-e", calls, "-o"])
                .arg(&log)
                .arg("--")
                .arg(env!("CARGO_BIN_EXE_fathom"));
            command
                .args(args!["survey", &disk, "--no-page", "--json"])
                .args(PATIENT)
                .stdin(std::process::Stdio::null());
            let value = run(&mut command).json();
            assert_eq!(written(&log), [""; 0]);
            assert!(
                fs::read_to_string(&log).unwrap().contains("O_TMPFILE"),
                "no experiments"
            );
            assert_eq!(names(&disk), ["d0", "d1", "d2", "lost+found"]);
            let machine = &value["result"]["machine"];
            let moved = machine["bytes_read"].as_u64().unwrap()
                + machine["bytes_written"].as_u64().unwrap();
            assert!(
                moved <= machine["limit_bytes"].as_u64().unwrap() && moved <= 256 << 20,
                "{machine}"
            );
            let asked: u64 = [&value["result"]["probe"][0], &value["result"]["gates"]]
                .into_iter()
                .map(asked_for)
                .sum();
            assert!(0 < asked && asked <= 256 << 20, "{asked}");
        });
    }
}

/// Bytes that experiments have read and written, from a disk or from the cache.
fn asked_for(probe: &Value) -> u64 {
    let of = |finding: &Value| {
        let bytes = |member: &str| finding[member].as_u64().unwrap();
        (
            finding["experiment"].as_str().unwrap().to_owned(),
            bytes("bytes_read") + bytes("bytes_written"),
        )
    };
    let each: std::collections::BTreeMap<_, _> = probe["experiments"]
        .as_array()
        .unwrap()
        .iter()
        .map(of)
        .collect();
    each.values().sum()
}

#[test]
fn network_mounts_are_not_entered() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|ground| {
            let root = tmpfs(ground.join("root"));
            bush(&root, 3, 3);
            let far = SyntheticTree::of(5, 5);
            let network = serve_synthetic(far, &root.join("d0/a far one"));
            let _servers = [
                serve(Hung, root.join("d1/hung")),
                serve(Silent, root.join("silent")),
            ];
            let requests = || network.load.requests.load(Ordering::Relaxed);
            wait_until("the kernel has sent INIT", || requests() > 0);
            // Two mounts do not answer.
            let value = run(&mut survey(args![&root, "--json"])).exits(1).json();
            let all: Vec<Value> = value["result"]["mounts"]["mounts"]
                .as_array()
                .unwrap()
                .clone();
            let verdicts: Vec<&Value> = all.iter().map(|mount| &mount["verdict"]).collect();
            assert_eq!(verdicts, ["ok", "ok", "hung", "hung"]);
            // The check and the sizes take some calls on the root; the tree has 5 directories with 5 files each.
            assert!(requests() < 15, "{}", requests());
            let result = &value["result"];
            assert_eq!(
                targets(&serde_json::json!({"result": result["mounts"]})).len(),
                4
            );
            let compare = &result["mounts"]["compare"];
            let found: Vec<_> = compare["methods"]
                .as_array()
                .unwrap()
                .iter()
                .map(|method| &method["by"])
                .collect();
            assert_eq!(found, ["search", "mountinfo", "kernel"]);
            for left in compare["left_out"].as_array().unwrap() {
                assert!(
                    left["why"].as_str().unwrap().contains("--network"),
                    "{left}"
                );
            }
            let walk = &result["walk"]["compare"];
            assert_eq!(walk["left_out"].as_array().unwrap().len(), 3, "{walk}");
            for engine in walk["engines"].as_array().unwrap() {
                assert_eq!(engine["entries"], 1 + 3 + 9, "{engine}");
            }
            assert!(
                result["account"].is_object() && result["dump"].is_object(),
                "{}",
                result["skipped"]
            );
        });
    }
}

#[test]
fn the_machine_behind_a_network_mount_is_named() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|ground| {
            let root = tmpfs(ground.join("root"));
            let _server = serve_as(Silent, &root.join("far"), "nas1:/media", "fuse.sshfs");
            let value = run(&mut survey(args![&root, "--json"])).exits(1).json();
            let mounts = value["result"]["mounts"]["mounts"].as_array().unwrap();
            let servers: Vec<_> = mounts.iter().map(|mount| &mount["server"]).collect();
            assert_eq!(servers, [&Value::Null, &"nas1".into()]);
        });
    }
}

#[test]
fn network_option_includes_mounts_that_answer() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|ground| {
            let root = tmpfs(ground.join("root"));
            let _network = serve_synthetic(SyntheticTree::of(2, 2), &root.join("far"));
            let value = run(&mut survey(args![&root, "--network", "--json"])).json();
            // On a loaded machine the server is slow to answer.
            let warnings = value["warnings"].as_array().unwrap();
            let is_slow = |one: &Value| one["message"].as_str().unwrap().starts_with("slow:");
            assert!(warnings.iter().all(is_slow), "{warnings:?}");
            assert_eq!(
                value["result"]["mounts"]["compare"]["methods"]
                    .as_array()
                    .unwrap()
                    .len(),
                7
            );
            let _hung = serve(Hung, root.join("hung"));
            let value = run(&mut survey(args![&root, "--network", "--json"]))
                .exits(1)
                .json();
            let left = &value["result"]["mounts"]["compare"]["left_out"];
            assert!(
                left[0]["why"].as_str().unwrap().contains("does not answer"),
                "{left}"
            );
        });
    }
}

#[test]
fn directory_on_a_server_that_does_not_answer() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|ground| {
            let at = ground.join("hung");
            let _server = serve(Hung, &at);
            let value = run(&mut survey(args![&at, "--json"])).exits(1).json();
            assert_eq!(
                value["result"]["mounts"]["mounts"]
                    .as_array()
                    .unwrap()
                    .len(),
                1
            );
            assert!(
                value["result"]["skipped"]["walk"]["why"]
                    .as_str()
                    .unwrap()
                    .contains("does not answer"),
                "{value}"
            );
        });
    }
}

#[test]
fn slow_steps_are_skipped_and_named() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let root = tmpfs(ground.join("root"));
            bush(&root, 100, 300);
            // No machine can examine 30,000 files in a millisecond.
            let ran = run(&mut survey_within("1ms", args![&root, "--json"]));
            let value = ran.json();
            let result = &value["result"];
            assert!(
                result["machine"]["limit_seconds"].as_f64().unwrap() < 12.0 * 0.001,
                "{}",
                result["machine"]
            );
            assert!(
                result["dump"].is_null() && result["account"].is_null(),
                "{value}"
            );
            assert!(
                result["skipped"]["dump"]["why"]
                    .as_str()
                    .unwrap()
                    .contains("--limit"),
                "{}",
                result["skipped"]
            );
        });
    }
}

#[test]
fn large_tree_is_walked_in_part_and_estimated() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|ground| {
            // Examining the whole tree would take hours. Its top level takes some 15 requests, and
            // may take 1.3 s.
            let root = ground.join("far");
            let far = SyntheticTree {
                directories: 10,
                files: 1_000_000,
                latency: Duration::from_millis(5),
                ..SyntheticTree::default()
            };
            let _server = serve_synthetic(far, &root);
            let value = run(&mut survey_within("20s", args![&root, "--json"])).json();
            let (walk, skipped) = (&value["result"]["walk"], &value["result"]["skipped"]);
            let bounded = &walk["bounded"];
            let (entries, seconds) = (
                bounded["entries"].as_u64().unwrap(),
                bounded["seconds"].as_f64().unwrap(),
            );
            assert!(
                (12..10_000_000).contains(&entries) && seconds >= 20.0,
                "{bounded}"
            );
            assert_eq!(
                (&bounded["levels"], &bounded["inodes"]),
                (&1.into(), &Value::Null),
                "{bounded}"
            );
            assert_eq!(walk["compare"]["agree"], true);
            let engines = walk["compare"]["engines"].as_array().unwrap();
            assert_eq!(
                engines
                    .iter()
                    .map(|engine| &engine["engine"])
                    .collect::<Vec<_>>(),
                ["threads", "stat"]
            );
            let single = run(&mut fathom(args![
                "walk",
                &root,
                "-x",
                "--max-depth",
                "1",
                "--json"
            ]))
            .exits(0)
            .json();
            for engine in engines {
                assert_eq!(engine["entries"], 1 + 10, "{engine}");
                assert_eq!(engine["digest"], single["result"]["digest"], "{engine}");
            }
            assert!(
                value["result"]["dump"].is_null() && skipped["dump"]["why"].is_string(),
                "{skipped}"
            );
            let all = ["findings", "advice"]
                .map(|what| value["result"][what].to_string())
                .concat();
            for part in [
                "exceeds the limits of a survey",
                "entries a second",
                "the upper level (11 entries)",
            ] {
                assert!(all.contains(part), "no {part}: {all}");
            }
            // The cost of a complete walk is unknown, so no catalog is advised.
            assert!(!all.contains("--catalog"), "{all}");
        });
    }
}
