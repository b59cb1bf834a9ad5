//! `--check` tells which mounts answer, and always comes back.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::methods::{BY_DEVICE, whole};
use crate::support::build::{bind, dir, file, tmpfs};
use crate::support::fuse::Manner::{
    Denies, Fails, File, Hung, LongName, Silent, Slow, Stale, Works,
};
use crate::support::fuse::{Server, serve};
use crate::support::reference::table;
use crate::support::restrict::{as_nobody, fail_calls, fathom_in};
use crate::support::run::{Ran, args, mount_at, path, program, targets};
use crate::support::{Need, fathom, in_namespace, require, run};

const DEADLINE: Duration = Duration::from_secs(1);
const GRACE: Duration = Duration::from_secs(1);

fn check(root: &Path) -> Ran {
    let ran = run(&mut fathom(args![
        "mounts",
        root,
        "--check",
        "--deadline",
        "1s",
        "--json"
    ]));
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
            let mut named: Vec<_> = value["warnings"]
                .as_array()
                .unwrap()
                .iter()
                .map(|w| path(w, "path"))
                .collect();
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
            assert!(
                value["result"]["mounts"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .all(|mount| mount["verdict"] == "ok")
            );
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
            // Linux lets nobody kill who waits for a request that the server has taken. It goes
            // when the server does.
            drop(server);
            let since = Instant::now();
            while !left(ground).is_empty() {
                assert!(
                    since.elapsed() < Duration::from_secs(10),
                    "{:?}",
                    left(ground)
                );
                std::thread::sleep(Duration::from_millis(10));
            }
        });
    }
}

#[test]
fn two_hundred_hung_mounts_at_once() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|ground| {
            let servers: Vec<Server> = (0..200)
                .map(|n| serve(Hung, ground.join(format!("hung{n}"))))
                .collect();
            let works = tmpfs(ground.join("works"));
            let value = check(ground).exits(1).json();
            let mounts = value["result"]["mounts"].as_array().unwrap();
            assert_eq!(
                mounts
                    .iter()
                    .filter(|mount| mount["verdict"] == "hung")
                    .count(),
                servers.len()
            );
            assert_eq!(mount_at(&value, &works)["verdict"], "ok");
            assert_eq!(left(ground), [""; 0]);
        });
    }
}

#[test]
fn dead_mounts_hang_no_table_and_no_search() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|ground| {
            let _servers = [Hung, Silent, Stale, Denies]
                .map(|manner| serve(manner, ground.join(format!("{manner:?}"))));
            let expected: Vec<_> = table(ground)
                .into_iter()
                .map(|mount| mount.target)
                .collect();
            for by in ["kernel", "mountinfo", "search", "auto"] {
                let value = run(&mut fathom(args!["mounts", ground, "--json", "--by", by]))
                    .exits(0)
                    .json();
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
            let _servers =
                [Stale, Denies].map(|manner| serve(manner, ground.join(format!("{manner:?}"))));
            let command = args![
                "mounts", ground, "--json", "--by", "search", "--hints", "none"
            ];
            let value = run(&mut fathom(command)).exits(1).json();
            let errors: Vec<_> = value["warnings"]
                .as_array()
                .unwrap()
                .iter()
                .map(|w| w["errno"].clone())
                .collect();
            assert!(
                errors.contains(&"EACCES".into()) && errors.contains(&"ENOTCONN".into()),
                "{value}"
            );
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
            let mut command = program(
                &here,
                args![
                    "mounts",
                    ground.join("tree"),
                    "--check",
                    "--deadline",
                    "500ms",
                    "--json"
                ],
            );
            as_nobody(&mut command);
            let value = run(&mut command).exits(1).json();
            assert_eq!(
                mount_at(&value, &ground.join("tree/hung"))["verdict"],
                "hung"
            );
            assert_eq!(mount_at(&value, &ground.join("tree/fine"))["verdict"], "ok");
        });
    }
}

#[test]
fn whatever_error_it_answers_with_it_is_stale() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|ground| {
            let bad = [
                libc::ENOENT,
                libc::EINVAL,
                libc::ENOSYS,
                libc::ENOTDIR,
                libc::ELOOP,
            ];
            let at = |errno: i32| ground.join(format!("errno{errno}"));
            let _servers = bad.map(|errno| serve(Fails(errno), at(errno)));
            let _slow = serve(Slow(150), ground.join("slow"));
            let value = check(ground).exits(1).json();
            for errno in bad {
                assert_eq!(
                    mount_at(&value, &at(errno))["verdict"],
                    "stale",
                    "{errno}: {value}"
                );
            }
            assert_eq!(mount_at(&value, &ground.join("slow"))["verdict"], "slow");

            // A slow one can be backed up; the others cannot.
            let more = ["--deadline", "1s", "--format", "exclude"];
            let ran = run(fathom(args!["mounts", ground]).args(more)).exits(1);
            let given: BTreeSet<PathBuf> = ran.lines().into_iter().map(PathBuf::from).collect();
            assert_eq!(given, bad.map(at).into());
        });
    }
}

#[test]
fn a_root_that_hangs_is_answered_for_at_once() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|ground| {
            let hung = ground.join("hung");
            let _server = serve(Hung, &hung);
            for by in ["auto", "kernel", "mountinfo", "search"] {
                let ran = run(&mut fathom(args!["mounts", &hung, "--json", "--by", by])).exits(0);
                assert!(
                    ran.elapsed < Duration::from_secs(1),
                    "{:?}: {ran}",
                    ran.elapsed
                );
                assert_eq!(targets(&ran.json()), std::slice::from_ref(&hung), "{by}");
            }
        });
    }
}

#[test]
fn a_plain_file_for_the_root_of_a_file_system() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|ground| {
            let at = ground.join("file");
            let _server = serve(File, &at);
            for by in ["kernel", "mountinfo", "search"] {
                let value = run(&mut fathom(args!["mounts", ground, "--json", "--by", by]))
                    .exits(0)
                    .json();
                assert_eq!(mount_at(&value, &at)["kind"], "file", "{by}");
            }
            assert_eq!(
                mount_at(&check(ground).exits(0).json(), &at)["verdict"],
                "ok"
            );
        });
    }
}

#[test]
fn a_name_of_600_bytes_hides_nothing_beside_it() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|ground| {
            let top = ground.join("top");
            let _server = serve(LongName, &top);
            let beside = tmpfs(top.join("short"));
            let longest = tmpfs(top.join("n".repeat(600)));
            let expected = BTreeSet::from([ground.to_owned(), top, beside, longest]);
            for by in BY_DEVICE.into_iter().chain(["search"]) {
                let value = run(fathom(whole(ground, by)).args(if by == "search" {
                    &["--hints", "none"][..]
                } else {
                    &[]
                }));
                let found: BTreeSet<PathBuf> =
                    targets(&value.exits(0).json()).into_iter().collect();
                assert_eq!(found, expected, "{by}");
            }
        });
    }
}

#[test]
fn few_processes_are_enough_for_many_verdicts() {
    if require(&[Need::Root, Need::Fuse, Need::Program("prlimit")]) {
        in_namespace(|ground| {
            const NOBODY_ELSE: u32 = 54_321; // the limit is on all the processes of a user
            let here = fathom_in(&ground.join("bin"));
            let tree = ground.join("tree");
            let servers: Vec<Server> = (0..25)
                .map(|n| serve(Hung, tree.join(format!("hung{n}"))))
                .collect();
            let fine = tmpfs(tree.join("fine"));
            let mut command = Command::new("prlimit");
            command
                .args(["--nproc=6", "--"])
                .arg(here)
                .arg("mounts")
                .arg(&tree);
            command
                .args(["--check", "--deadline", "200ms", "--json"])
                .uid(NOBODY_ELSE)
                .gid(NOBODY_ELSE);
            let value = run(&mut command).exits(1).json();
            let mounts = value["result"]["mounts"].as_array().unwrap();
            assert_eq!(
                mounts
                    .iter()
                    .filter(|mount| mount["verdict"] == "hung")
                    .count(),
                servers.len(),
                "{value}"
            );
            assert_eq!(mount_at(&value, &fine)["verdict"], "ok");
            assert_eq!(left(&tree), [""; 0]);
        });
    }
}

#[test]
fn a_mount_answers_also_where_statx_is_refused() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            for errno in [libc::ENOSYS, libc::EPERM] {
                let mut command = fathom(args!["mounts", ground, "--check", "--json"]);
                fail_calls(
                    &mut command,
                    &[u32::try_from(libc::SYS_statx).unwrap()],
                    errno,
                );
                let value: serde_json::Value =
                    serde_json::from_slice(&run(&mut command).stdout).unwrap();
                assert_eq!(
                    mount_at(&value, ground)["verdict"],
                    "ok",
                    "{errno}: {value}"
                );
            }
        });
    }
}

#[test]
fn what_has_been_removed_has_no_server_to_look_at() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let at = bind(dir(ground.join("source")), ground.join("at"));
            fs::remove_dir(ground.join("source")).unwrap();
            let value = check(ground).exits(1).json();
            assert_eq!(mount_at(&value, &at)["verdict"], "stale");
            let warning = &value["warnings"][0];
            assert_eq!(
                (&warning["errno"], path(warning, "path")),
                (&"ENOENT".into(), at)
            );
            assert!(
                warning["message"].as_str().unwrap().contains("removed"),
                "{warning}"
            );
        });
    }
}
