//! Tests that `--beneath` counts the files under mount points, and changes nothing.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::mount::{MountFlags, mount};
use serde_json::{Value, json};

use super::stuck::Stuck;
use crate::support::build::{bind, chmod, dir, file, tmpfs};
use crate::support::clock::{CC, Clock};
use crate::support::fuse::Manner::{Hung, Silent, Works};
use crate::support::fuse::serve;
use crate::support::restrict::{fathom_as_nobody, in_chroot, populate_chroot};
use crate::support::run::{args, mount_at, path};
use crate::support::terminal::at_terminal;
use crate::support::{Need, fathom, in_namespace, require, run};

#[test]
fn requested_columns_stay_on_a_narrow_terminal() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            tmpfs(base.join("a directory with a name of more than 40 characters"));
            for columns in [50, 60] {
                let mut command = fathom(args!["mounts", base, "--check", "--beneath", "-q"]);
                let (text, _) = at_terminal(command.env("NO_COLOR", "1"), columns);
                let head: Vec<&str> = text.lines().next().unwrap().split_whitespace().collect();
                assert_eq!(
                    head.join(" "),
                    "TARGET STATUS HIDDEN FILES HIDDEN SIZE",
                    "{columns}: {text}"
                );
                assert!(
                    text.lines()
                        .all(|line| line.chars().count() <= columns.into()),
                    "{text}"
                );
            }
        });
    }
}

#[test]
fn files_and_bytes_under_a_mount_are_exact() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let full = dir(base.join("full"));
            let linked = file(full.join("a"), 1000);
            fs::hard_link(linked, full.join("the same")).unwrap();
            file(full.join("deep/er/b"), 2003);
            file(full.join("empty"), 0);
            symlink("nowhere", full.join("symlink")).unwrap();
            tmpfs(&full);
            tmpfs(full.join("inside"));
            let bare = tmpfs(base.join("bare"));
            let over_file = bind("/dev/null", file(base.join("file"), 77));

            let before = fs::read("/proc/thread-self/mountinfo").unwrap();
            let value = run(&mut fathom(args!["mounts", base, "--beneath", "--json"]))
                .exits(0)
                .json();
            assert_eq!(fs::read("/proc/thread-self/mountinfo").unwrap(), before);

            assert_eq!(
                mount_at(&value, &full)["beneath"],
                json!({"files": 4, "bytes": 3003})
            );
            assert_eq!(
                mount_at(&value, &full.join("inside"))["beneath"],
                json!({"files": 0, "bytes": 0})
            );
            assert_eq!(
                mount_at(&value, &bare)["beneath"],
                json!({"files": 0, "bytes": 0})
            );
            assert_eq!(
                mount_at(&value, &over_file)["beneath"],
                json!({"files": 1, "bytes": 77})
            );
        });
    }
}

#[test]
fn mount_on_a_mount_covers_the_files_of_that_mount() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let place = dir(base.join("place"));
            file(place.join("first"), 1);
            file(tmpfs(&place).join("second"), 20);
            file(tmpfs(&place).join("third"), 300);
            let value = run(&mut fathom(args![
                "mounts",
                &place,
                "--by",
                "kernel",
                "--beneath",
                "--json"
            ]))
            .exits(0)
            .json();
            let beneath = |hidden: bool| {
                let mut mounts = value["result"]["mounts"].as_array().unwrap().iter();
                mounts.find(|mount| mount["hidden"] == hidden).unwrap()["beneath"].clone()
            };
            assert_eq!(beneath(false), json!({"files": 1, "bytes": 20}));
            assert_eq!(beneath(true), json!({"files": 1, "bytes": 1}));
        });
    }
}

#[test]
fn unprivileged_user_gets_a_hint() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let place = dir(base.join("tree/place"));
            file(place.join("below"), 1);
            tmpfs(&place);
            let mut command = fathom_as_nobody(
                base,
                args!["mounts", base.join("tree"), "--beneath", "--json"],
            );
            let ran = run(&mut command).exits(1);
            let value = ran.json();
            assert!(mount_at(&value, &place)["beneath"].is_null());
            assert_eq!(value["warnings"][0]["errno"], "EPERM");
            assert!(
                value["warnings"][0]["message"]
                    .as_str()
                    .unwrap()
                    .contains("CAP_SYS_ADMIN"),
                "{ran}"
            );
        });
    }
}

#[test]
fn unreadable_directories_under_a_covered_mount_are_reported() {
    if require(&[Need::Root, Need::Program("setpriv")]) {
        in_namespace(|base| {
            let place = |name: &str| {
                let at = dir(base.join(name).join("place"));
                let closed = dir(at.join("closed"));
                file(closed.join("unseen"), 1);
                file(at.join("seen"), 20);
                chown(&closed, Some(1000), Some(1000)).unwrap();
                chmod(&closed, 0o700);
                tmpfs(at)
            };
            let open = place("open");
            tmpfs(base.join("covered"));
            let covered = place("covered");
            tmpfs(base.join("covered"));

            // A user who may mount file systems, but reads files with the permissions of an
            // ordinary user.
            let mut command = Command::new("setpriv");
            command.args([
                "--bounding-set=-dac_override,-dac_read_search",
                "--",
                env!("CARGO_BIN_EXE_fathom"),
            ]);
            command.args(args![
                "mounts",
                base,
                "--by",
                "kernel",
                "--beneath",
                "--json"
            ]);
            let ran = run(&mut command).exits(1);
            let value = ran.json();
            let warned: Vec<_> = value["warnings"]
                .as_array()
                .unwrap()
                .iter()
                .map(|w| path(w, "path"))
                .collect();
            for at in [open, covered] {
                assert_eq!(
                    mount_at(&value, &at)["beneath"],
                    json!({"files": 1, "bytes": 20}),
                    "{ran}"
                );
                assert!(warned.iter().any(|path| path.starts_with(&at)), "{ran}");
            }
        });
    }
}

#[test]
fn chroot_that_is_no_mount_reports_what_is_missing() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let jail = dir(base.join("jail"));
            populate_chroot(&jail);
            mount(
                "proc",
                dir(jail.join("proc")),
                "proc",
                MountFlags::empty(),
                None,
            )
            .unwrap();
            file(jail.join("tree/m/below"), 3);
            tmpfs(tmpfs(jail.join("tree/m")).join("inner"));
            let ran =
                run(in_chroot(&jail).args(["mounts", "/tree", "--beneath", "--json"])).exits(1);
            let value = ran.json();
            let warned: Vec<_> = value["warnings"]
                .as_array()
                .unwrap()
                .iter()
                .map(|w| path(w, "path"))
                .collect();
            assert!(mount_at(&value, Path::new("/tree/m"))["beneath"].is_null());
            assert_eq!(warned, [Path::new("/tree/m")], "{ran}");
            assert_eq!(
                mount_at(&value, Path::new("/tree/m/inner"))["beneath"],
                json!({"files": 0, "bytes": 0})
            );
        });
    }
}

#[test]
fn mount_on_a_hung_mount_does_not_block() {
    if require(&[Need::Root, Need::Fuse, CC]) {
        in_namespace(|base| {
            let clock = Clock::new(base);
            let tree = base.join("tree");
            let [hung, silent, fine] = ["hung", "silent", "fine"].map(|name| tree.join(name));
            let servers = [
                serve(Hung, &hung),
                serve(Silent, &silent),
                serve(Works, &fine),
            ];
            for at in [&hung, &silent, &fine] {
                // Cover the root of the server's file system, so that no path leads to it.
                mount("tmpfs", at, "tmpfs", MountFlags::empty(), c"").unwrap();
            }
            let mut command = fathom(args!["mounts", &tree, "--beneath", "--json"]);
            let mut stuck = Stuck::start(&mut command, &clock, &tree);
            // One child process examines the mounts one after another.
            stuck.wait_for_call(libc::SYS_statx);
            clock.advance(Duration::from_secs(3));
            stuck.wait_for_requests(&servers[1], 1);
            clock.advance(Duration::from_secs(3));
            // This child cannot end until the server does.
            let value = stuck.end_after_kill().exits(1).json();
            let visible: Vec<&Value> = value["result"]["mounts"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|mount| mount["hidden"] == false)
                .collect();
            let beneath = |at: &Path| {
                &visible
                    .iter()
                    .find(|mount| path(mount, "target") == at)
                    .unwrap()["beneath"]
            };
            assert_eq!(
                [beneath(&hung), beneath(&silent)],
                [&Value::Null; 2],
                "{value}"
            );
            assert_eq!(beneath(&fine), &json!({"files": 0, "bytes": 0}));
            let warnings = value["warnings"].as_array().unwrap();
            let mut named: Vec<_> = warnings
                .iter()
                .map(|warning| path(warning, "path"))
                .collect();
            named.sort();
            assert_eq!(named, [hung, silent]);
            assert!(
                warnings
                    .iter()
                    .all(|warning| warning["errno"] == "ETIMEDOUT"),
                "{value}"
            );
        });
    }
}
