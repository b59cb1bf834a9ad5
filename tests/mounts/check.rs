//! `--check` reports which mounts answer, and always returns.

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
/// The allowance for a machine under load. A command that waited for a server would never end.
const GRACE: Duration = Duration::from_secs(10);

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

/// The processes with `root` among their arguments that are still running.
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
        in_namespace(|base| {
            let at = |name: &str| base.join(name);
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
            let value = check(base).exits(1).json();
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
            assert_eq!(left(base), [""; 0]);
        });
    }
}

#[test]
fn healthy_mounts_give_status_0() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|base| {
            let _server = serve(Works, base.join("works"));
            tmpfs(base.join("tmpfs"));
            let value = check(base).exits(0).json();
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
fn server_that_never_answers_is_hung() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|base| {
            let silent = base.join("silent");
            let server = serve(Silent, &silent);
            let value = check(base).exits(1).json();
            assert_eq!(mount_at(&value, &silent)["verdict"], "hung");
            // A process cannot be killed while the server handles its request. It ends with the
            // server.
            drop(server);
            let since = Instant::now();
            while !left(base).is_empty() {
                assert!(
                    since.elapsed() < Duration::from_secs(10),
                    "{:?}",
                    left(base)
                );
                std::thread::sleep(Duration::from_millis(10));
            }
        });
    }
}

#[test]
fn two_hundred_hung_mounts_take_one_deadline() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|base| {
            let servers: Vec<Server> = (0..200)
                .map(|n| serve(Hung, base.join(format!("hung{n}"))))
                .collect();
            let works = tmpfs(base.join("works"));
            let value = check(base).exits(1).json();
            let mounts = value["result"]["mounts"].as_array().unwrap();
            assert_eq!(
                mounts
                    .iter()
                    .filter(|mount| mount["verdict"] == "hung")
                    .count(),
                servers.len()
            );
            assert_eq!(mount_at(&value, &works)["verdict"], "ok");
            assert_eq!(left(base), [""; 0]);
        });
    }
}

#[test]
fn dead_mounts_block_neither_table_nor_search() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|base| {
            let _servers = [Hung, Silent, Stale, Denies]
                .map(|manner| serve(manner, base.join(format!("{manner:?}"))));
            let expected: Vec<_> = table(base).into_iter().map(|mount| mount.target).collect();
            for by in ["kernel", "mountinfo", "search", "auto"] {
                let value = run(&mut fathom(args!["mounts", base, "--json", "--by", by]))
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
fn search_without_hints_names_unreadable_mounts() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|base| {
            let _servers =
                [Stale, Denies].map(|manner| serve(manner, base.join(format!("{manner:?}"))));
            let command = args![
                "mounts", base, "--json", "--by", "search", "--hints", "none"
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
fn unprivileged_user_can_check() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|base| {
            let here = fathom_in(&base.join("bin"));
            let _server = serve(Hung, base.join("tree/hung"));
            tmpfs(base.join("tree/fine"));
            let mut command = program(
                &here,
                args![
                    "mounts",
                    base.join("tree"),
                    "--check",
                    "--deadline",
                    "500ms",
                    "--json"
                ],
            );
            as_nobody(&mut command);
            let value = run(&mut command).exits(1).json();
            assert_eq!(mount_at(&value, &base.join("tree/hung"))["verdict"], "hung");
            assert_eq!(mount_at(&value, &base.join("tree/fine"))["verdict"], "ok");
        });
    }
}

#[test]
fn any_other_errno_is_stale() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|base| {
            let bad = [
                libc::ENOENT,
                libc::EINVAL,
                libc::ENOSYS,
                libc::ENOTDIR,
                libc::ELOOP,
            ];
            let at = |errno: i32| base.join(format!("errno{errno}"));
            let _servers = bad.map(|errno| serve(Fails(errno), at(errno)));
            let _slow = serve(Slow(150), base.join("slow"));
            let value = check(base).exits(1).json();
            for errno in bad {
                assert_eq!(
                    mount_at(&value, &at(errno))["verdict"],
                    "stale",
                    "{errno}: {value}"
                );
            }
            assert_eq!(mount_at(&value, &base.join("slow"))["verdict"], "slow");

            // A slow one can be backed up; the others cannot.
            let more = ["--deadline", "1s", "--format", "exclude"];
            let ran = run(fathom(args!["mounts", base]).args(more)).exits(1);
            let given: BTreeSet<PathBuf> = ran.lines().into_iter().map(PathBuf::from).collect();
            assert_eq!(given, bad.map(at).into());
        });
    }
}

#[test]
fn hung_root_is_reported_at_once() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|base| {
            let hung = base.join("hung");
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
fn regular_file_as_root_of_a_file_system() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|base| {
            let at = base.join("file");
            let _server = serve(File, &at);
            for by in ["kernel", "mountinfo", "search"] {
                let value = run(&mut fathom(args!["mounts", base, "--json", "--by", by]))
                    .exits(0)
                    .json();
                assert_eq!(mount_at(&value, &at)["kind"], "file", "{by}");
            }
            assert_eq!(mount_at(&check(base).exits(0).json(), &at)["verdict"], "ok");
        });
    }
}

#[test]
fn name_of_600_bytes_does_not_hide_other_entries() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|base| {
            let top = base.join("top");
            let _server = serve(LongName, &top);
            let beside = tmpfs(top.join("short"));
            let longest = tmpfs(top.join("n".repeat(600)));
            let expected = BTreeSet::from([base.to_owned(), top, beside, longest]);
            for by in BY_DEVICE.into_iter().chain(["search"]) {
                let value = run(fathom(whole(base, by)).args(if by == "search" {
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
fn low_limit_of_processes_suffices() {
    if require(&[Need::Root, Need::Fuse, Need::Program("prlimit")]) {
        in_namespace(|base| {
            const NOBODY_ELSE: u32 = 54_321; // the limit is on all the processes of a user
            let here = fathom_in(&base.join("bin"));
            let tree = base.join("tree");
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
fn mount_is_ok_where_seccomp_refuses_statx() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            for errno in [libc::ENOSYS, libc::EPERM] {
                let mut command = fathom(args!["mounts", base, "--check", "--json"]);
                fail_calls(
                    &mut command,
                    &[u32::try_from(libc::SYS_statx).unwrap()],
                    errno,
                );
                let value: serde_json::Value =
                    serde_json::from_slice(&run(&mut command).stdout).unwrap();
                assert_eq!(mount_at(&value, base)["verdict"], "ok", "{errno}: {value}");
            }
        });
    }
}

#[test]
fn removed_mount_root_is_stale_without_a_server() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let at = bind(dir(base.join("source")), base.join("at"));
            fs::remove_dir(base.join("source")).unwrap();
            let value = check(base).exits(1).json();
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
