//! Tests that `--check` reports which mounts answer, and always returns.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::fs::CWD;
use rustix::mount::{
    FsPickFlags, MountFlags, fsconfig_reconfigure, fsconfig_set_flag, fspick, mount_remount,
};
use serde_json::Value;

use super::methods::{BY_DEVICE, whole};
use super::stuck::{Stuck, left};
use crate::support::build::{bind, dir, file, tmpfs};
use crate::support::clock::{CC, Clock};
use crate::support::disks::{BTRFS, EXT4, image, mount_image, mounted, overlay};
use crate::support::fuse::Manner::{
    Denies, Fails, File, Held, Hung, LongName, Silent, Stale, Works,
};
use crate::support::fuse::{Server, serve};
use crate::support::reference::table;
use crate::support::restrict::{fail_calls, fathom_as_nobody, fathom_in};
use crate::support::run::{Ran, args, mount_at, path, targets};
use crate::support::wait::wait_until;
use crate::support::{Need, fathom, in_namespace, require, run};

/// A mount that takes longer than a tenth of the deadline is slow.
const DEADLINE: Duration = Duration::from_secs(3600);

/// Checks mounts, each of which answers or fails.
fn check(root: &Path) -> Ran {
    run(&mut checking(root))
}

fn checking(root: &Path) -> Command {
    fathom(args![
        "mounts",
        root,
        "--check",
        "--deadline",
        "60m",
        "--json"
    ])
}

#[test]
fn every_verdict() {
    if require(&[Need::Root, Need::Fuse, CC]) {
        in_namespace(|base| {
            let clock = Clock::new(base);
            let tree = base.join("tree");
            let at = |name: &str| tree.join(name);
            let (slow, slower) = (serve(Held, at("slow")), serve(Held, at("slower")));
            let _servers = [
                serve(Hung, at("hung")),
                serve(Stale, at("stale")),
                serve(Denies, at("denied")),
            ];
            tmpfs(at("tmpfs"));
            bind(file(at("data"), 1), at("file"));
            tmpfs(at("covered/deeper"));
            tmpfs(at("covered"));
            // The mounts are checked in this order: when the last one is checked, the others have
            // answered.
            let works = serve(Works, at("works"));

            let mut stuck = Stuck::start(&mut checking(&tree), &clock, &tree);
            stuck.wait_for([at("slow"), at("slower"), at("hung")], Some(&works));
            clock.advance(DEADLINE * 2 / 3);
            slow.release(100);
            slower.release(1); // and then stops answering
            stuck.wait_for_requests(&slower, 2);
            stuck.wait_for([at("slower"), at("hung")], None);
            clock.advance(DEADLINE);
            stuck.wait_for_kill();
            drop(slower); // the client of the server could not end otherwise
            let ran = stuck.end().exits(1);
            let value = ran.json();
            let expected = [
                ("works", "ok"),
                ("slow", "slow"),
                ("slower", "slow"),
                ("hung", "hung"),
                ("stale", "stale"),
                ("denied", "denied"),
                ("tmpfs", "ok"),
                ("file", "ok"),
                ("covered", "ok"),
                ("covered/deeper", "hidden"),
            ];
            for (name, verdict) in expected {
                assert_eq!(
                    mount_at(&value, &at(name))["verdict"],
                    verdict,
                    "{name}: {ran}"
                );
            }
            assert_eq!(
                warned(&value),
                ["denied", "hung", "slow", "slower", "stale"].map(at)
            );
            assert_eq!(left(&tree), [0; 0]);
        });
    }
}

/// The paths of the warnings, sorted.
fn warned(value: &Value) -> Vec<PathBuf> {
    let warnings = value["warnings"].as_array().unwrap();
    let mut paths: Vec<_> = warnings.iter().map(|w| path(w, "path")).collect();
    paths.sort();
    paths
}

fn count(value: &Value, verdict: &str) -> usize {
    let mounts = value["result"]["mounts"].as_array().unwrap();
    mounts.iter().filter(|m| m["verdict"] == verdict).count()
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
    if require(&[Need::Root, Need::Fuse, CC]) {
        in_namespace(|base| {
            let clock = Clock::new(base);
            let (tree, silent) = (base.join("tree"), base.join("tree/silent"));
            let server = serve(Silent, &silent);
            let mut stuck = Stuck::start(&mut checking(&tree), &clock, &tree);
            stuck.wait_for([silent.clone()], Some(&server));
            clock.advance(DEADLINE * 2);
            // While the server handles a request of a process, the process cannot be killed. It
            // ends when the server ends.
            let ran = stuck.end_after_kill().exits(1);
            let value = ran.json();
            assert_eq!(mount_at(&value, &silent)["verdict"], "hung");
            assert!(!left(&tree).is_empty(), "the server has not answered");
            assert_eq!(
                warned(&value),
                [&*silent, &silent],
                "hung, cannot be killed: {ran}"
            );
            drop(server);
            wait_until("no process is left", || left(&tree).is_empty());
        });
    }
}

/// A process that waits for a server cannot be killed, so each check that touches the mount would
/// leave one more process.
#[test]
fn later_checks_leave_no_further_process() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|base| {
            let (tree, silent) = (base.join("tree"), base.join("tree/silent"));
            let server = serve(Silent, &silent);
            let checked = |by: &str| {
                let words = args![
                    "mounts",
                    &tree,
                    "--check",
                    "--deadline",
                    "200ms",
                    "--by",
                    by
                ];
                run(&mut fathom(words)).exits(1)
            };
            checked("kernel");
            let waiting = left(&tree);
            assert_eq!(waiting.len(), 1);
            for by in ["kernel", "mountinfo", "search"] {
                let ran = checked(by);
                let told = "hung: a process that an earlier check has left there still waits";
                assert!(ran.stderr.contains(told), "{by}: {ran}");
                assert_eq!(left(&tree), waiting, "{by}");
            }
            let walked = run(&mut fathom(args!["walk", &tree, "--deadline", "200ms"])).exits(1);
            assert!(walked.stderr.contains("does not answer"), "{walked}");
            assert_eq!(left(&tree), waiting);
            drop(server);
            wait_until("no process is left", || left(&tree).is_empty());
            let ran = run(&mut fathom(args!["mounts", &tree, "--check"])).exits(1);
            assert!(ran.stderr.contains("stale: "), "{ran}");
        });
    }
}

#[test]
fn search_does_not_wait_for_what_is_mounted_below_a_stopped_server() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|base| {
            let tree = base.join("tree");
            let server = serve(LongName, tree.join("far"));
            let inside = tree.join("far/short");
            tmpfs(&inside);
            server.stop();
            // A search would look up the entries of `far`, and the stopped server does not answer.
            let expected = [tree.join("far"), inside];
            for hints in ["auto", "ids"] {
                let words = args![
                    "mounts", &tree, "--json", "--by", "search", "--hints", hints
                ];
                let ran = run(&mut fathom(words)).exits(1);
                let value = ran.json();
                mount_at(&value, &expected[0]);
                assert!(ran.stderr.contains("it was not searched"), "{hints}: {ran}");
                if hints == "auto" {
                    mount_at(&value, &expected[1]);
                }
            }
        });
    }
}

#[test]
fn two_hundred_hung_mounts_take_one_deadline() {
    if require(&[Need::Root, Need::Fuse, CC]) {
        in_namespace(|base| {
            let clock = Clock::new(base);
            let tree = base.join("tree");
            let hung: Vec<PathBuf> = (0..200).map(|n| tree.join(format!("hung{n}"))).collect();
            let _servers: Vec<Server> = hung.iter().map(|at| serve(Hung, at)).collect();
            let works = serve(Works, tree.join("works"));
            let mut stuck = Stuck::start(&mut checking(&tree), &clock, &tree);
            stuck.wait_for(hung.clone(), Some(&works));
            clock.advance(DEADLINE + Duration::from_secs(1));
            let value = stuck.end().exits(1).json();
            assert_eq!(count(&value, "hung"), hung.len());
            assert_eq!(mount_at(&value, &tree.join("works"))["verdict"], "ok");
            assert_eq!(left(&tree), [0; 0]);
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
    if require(&[Need::Root, Need::Fuse, CC]) {
        in_namespace(|base| {
            let clock = Clock::new(base);
            let tree = base.join("tree");
            let (hung, works) = (tree.join("hung"), tree.join("works"));
            let _hung = serve(Hung, &hung);
            let server = serve(Works, &works);
            let options = args!["mounts", &tree, "--check", "--deadline", "60m", "--json"];
            let mut command = fathom_as_nobody(base, options);
            let mut stuck = Stuck::start(&mut command, &clock, &tree);
            stuck.wait_for([hung.clone()], Some(&server));
            clock.advance(DEADLINE * 2);
            let value = stuck.end().exits(1).json();
            assert_eq!(mount_at(&value, &hung)["verdict"], "hung");
            assert_eq!(mount_at(&value, &works)["verdict"], "ok");
        });
    }
}

#[test]
fn any_other_errno_is_stale() {
    if require(&[Need::Root, Need::Fuse, CC]) {
        in_namespace(|base| {
            let clock = Clock::new(base);
            let tree = base.join("tree");
            let bad = [
                libc::ENOENT,
                libc::EINVAL,
                libc::ENOSYS,
                libc::ENOTDIR,
                libc::ELOOP,
            ];
            let at = |errno: i32| tree.join(format!("errno{errno}"));
            let _servers = bad.map(|errno| serve(Fails(errno), at(errno)));
            let value = check(&tree).exits(1).json();
            for errno in bad {
                assert_eq!(
                    mount_at(&value, &at(errno))["verdict"],
                    "stale",
                    "{errno}: {value}"
                );
            }

            // A slow mount can be backed up; hung and failing ones cannot.
            let slow = serve(Held, tree.join("slow"));
            let mut command = fathom(args!["mounts", &tree, "--format", "exclude"]);
            command.args(["--deadline", "60m"]);
            let mut stuck = Stuck::start(&mut command, &clock, &tree);
            stuck.wait_for([tree.join("slow")], None);
            clock.advance(DEADLINE / 2);
            slow.release(100);
            let ran = stuck.end().exits(1);
            assert!(ran.stderr.contains("slow"), "{ran}");
            let given: BTreeSet<PathBuf> = ran.lines().into_iter().map(PathBuf::from).collect();
            assert_eq!(given, bad.map(at).into());
        });
    }
}

#[test]
fn an_overlay_fails_with_the_file_system_of_its_upper_layer() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|base| {
            let disk = base.join("disk");
            assert!(mounted(EXT4[0], &disk));
            let tree = dir(base.join("tree"));
            let merged = overlay(&disk, &tree.join("merged"));
            assert_eq!(
                mount_at(&check(&tree).exits(0).json(), &merged)["verdict"],
                "ok"
            );
            let all = table(base);
            let mount = all.iter().find(|mount| mount.target == disk).unwrap();
            let name = str::from_utf8(&mount.source).unwrap();
            let name = name.trim_start_matches("/dev/");
            fs::write(format!("/sys/fs/ext4/{name}/trigger_fs_error"), "damaged").unwrap();
            let ran = check(&tree).exits(1);
            assert_eq!(
                mount_at(&ran.json(), &merged)["verdict"],
                "failing",
                "{ran}"
            );
        });
    }
}

#[test]
fn server_of_the_root_is_not_contacted() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|base| {
            let silent = base.join("silent");
            let server = serve(Silent, &silent);
            for by in ["auto", "kernel", "mountinfo", "search"] {
                let ran = run(&mut fathom(args!["mounts", &silent, "--json", "--by", by])).exits(0);
                assert_eq!(targets(&ran.json()), std::slice::from_ref(&silent), "{by}");
            }
            assert_eq!(server.requests(), 0);
        });
    }
}

#[test]
fn root_below_a_hung_mount_is_refused() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|base| {
            let hung = base.join("hung");
            let _server = serve(Hung, &hung);
            let below = hung.join("sub");
            let deadline = ["--check", "--deadline", "100ms"];
            let all: [&[&str]; 4] = [&[], &["--watch"], &["--by", "search"], &deadline];
            for options in all {
                let ran = run(fathom(args!["mounts", &below]).args(options)).exits(2);
                let named = format!(" from '{}'", hung.display());
                assert!(ran.stderr.contains("no answer within "), "{ran}");
                assert!(ran.stderr.contains(&named), "{ran}");
                assert!(ran.stderr.contains("fathom mounts --check"), "{ran}");
            }
            let ran = run(&mut fathom(args!["mounts", "--assert", &below])).exits(1);
            assert!(ran.stderr.contains("no answer within "), "{ran}");
            run(&mut fathom(args!["mounts", "--assert", &hung])).exits(0);
            let path = format!("{}:/usr/bin:/bin", below.display());
            let pathsearch = args!["pathsearch", "/bin/true"];
            let ran = run(fathom(pathsearch).env("PATH", path)).exits(0);
            assert!(ran.stderr.contains("PATH is not examined"), "{ran}");
            let network = args!["pathsearch", "--network", &below, "true"];
            let ran = run(&mut fathom(network)).exits(2);
            assert!(ran.stderr.contains("no answer within "), "{ran}");
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
    if require(&[Need::Root, Need::Fuse, Need::Program("prlimit"), CC]) {
        in_namespace(|base| {
            const NOBODY_ELSE: u32 = 54_321; // the limit is on all the processes of a user
            const CHILDREN: usize = 5;
            let clock = Clock::new(base);
            let here = fathom_in(&base.join("bin"));
            let tree = base.join("tree");
            let hung: Vec<PathBuf> = (0..25).map(|n| tree.join(format!("hung{n}"))).collect();
            let _servers: Vec<Server> = hung.iter().map(|at| serve(Hung, at)).collect();
            let fine = tmpfs(tree.join("fine"));
            let mut command = Command::new("prlimit");
            command
                .arg(format!("--nproc={}", 1 + CHILDREN))
                .arg("--")
                .arg(here)
                .arg("mounts")
                .arg(&tree);
            command
                .args(["--check", "--deadline", "60m", "--json"])
                .uid(NOBODY_ELSE)
                .gid(NOBODY_ELSE);
            let mut stuck = Stuck::start(&mut command, &clock, &tree);
            for group in hung.chunks(CHILDREN) {
                stuck.wait_for(group.to_vec(), None);
                clock.advance(DEADLINE * 2);
            }
            let value = stuck.end().exits(1).json();
            assert_eq!(count(&value, "hung"), hung.len(), "{value}");
            assert_eq!(mount_at(&value, &fine)["verdict"], "ok");
            assert_eq!(left(&tree), [0; 0]);
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

#[test]
fn a_visible_mount_over_others_has_metrics() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|base| {
            let tree = base.join("tree");
            let (stacked, covered) = (tree.join("stacked"), tree.join("covered"));
            tmpfs(&stacked);
            tmpfs(&covered);
            tmpfs(&covered);
            let _server = serve(Hung, &stacked);
            let metrics = base.join("mounts.prom");
            let words = args![
                "mounts",
                &tree,
                "--check",
                "--deadline",
                "500ms",
                "--metrics",
                &metrics
            ];
            run(&mut fathom(words)).exits(1);
            let text = fs::read_to_string(&metrics).unwrap();
            let lines = |name: &str, mount: &Path| -> Vec<String> {
                let start = format!("fathom_mounts_{name}{{mount=\"{}\"", mount.display());
                let lines = text.lines().filter_map(|line| line.strip_prefix(&start));
                lines.map(str::to_owned).collect()
            };
            assert_eq!(lines("mount_ok", &stacked), ["} 0"], "{text}");
            assert_eq!(
                lines("mount_verdict", &stacked),
                [",verdict=\"hung\"} 1"],
                "{text}"
            );
            assert_eq!(lines("mount_ok", &covered), ["} 1"], "{text}");
            assert_eq!(lines("mount_verdict", &covered).len(), 1, "{text}");
        });
    }
}

/// The oldest mount of a file system tells how it was mounted: bind mounts have a `ro` of their own.
#[test]
fn a_file_system_fails_if_it_was_mounted_writable() {
    if require(&[Need::Root, Need::Loop, Need::Program("mkfs.btrfs")]) {
        in_namespace(|base| {
            let verdict = |at: &Path| {
                let value = run(&mut checking(at)).json();
                mount_at(&value, at)["verdict"].as_str().unwrap().to_owned()
            };
            let (meant, failed) = (base.join("meant"), base.join("failed"));
            image(BTRFS[0], 1200, &meant.with_extension("image"));
            dir(&meant);
            let file = meant.with_extension("image");
            assert!(mount_image(BTRFS[0], &file, &meant, MountFlags::RDONLY));
            let writable = bind(&meant, base.join("writable"));
            mount_remount(&writable, MountFlags::BIND, "").unwrap();
            assert_eq!([verdict(&meant), verdict(&writable)], ["ok", "ok"]);

            assert!(mounted(BTRFS[0], &failed));
            let restricted = bind(&failed, base.join("restricted"));
            mount_remount(&restricted, MountFlags::BIND | MountFlags::RDONLY, "").unwrap();
            assert_eq!([verdict(&failed), verdict(&restricted)], ["ok", "ok"]);
            let picked = fspick(CWD, &failed, FsPickFlags::empty()).unwrap();
            fsconfig_set_flag(picked.as_fd(), "ro").unwrap();
            fsconfig_reconfigure(picked.as_fd()).unwrap();
            assert_eq!(
                [verdict(&failed), verdict(&restricted)],
                ["failing", "failing"]
            );
        });
    }
}
