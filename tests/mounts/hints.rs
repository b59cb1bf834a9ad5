//! Tests of missing, refused or false hints: the result is right, or reported as incomplete.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mount::{MountFlags, mount};
use serde_json::Value;

use super::methods::whole;
use crate::support::build::{bind, bush, dir, file, tmpfs, unmount};
use crate::support::concurrent::{Done, with_threads};
use crate::support::reference::{device_changes, inside, table, visible};
use crate::support::restrict::{
    self, LISTMOUNT, STATMOUNT, as_nobody, fathom_as_nobody, fathom_in, in_chroot, populate_chroot,
};
use crate::support::run::{Ran, args, mount_at, path};
use crate::support::{Need, fathom, in_namespace, require, run};

const SEARCHES: [&str; 5] = ["search", "getmnt3", "getmnt2", "getmnt1", "naive"];
const HINTED: [&str; 3] = ["search", "getmnt3", "getmnt2"];

/// The mounts that a method must find, computed while everything is visible.
struct Expected {
    visible: BTreeSet<PathBuf>,
    devices: BTreeSet<PathBuf>,
}

impl Expected {
    fn new(root: &Path) -> Expected {
        Expected {
            visible: visible(root),
            devices: device_changes(root),
        }
    }

    fn by(&self, by: &str) -> &BTreeSet<PathBuf> {
        if ["auto", "kernel", "mountinfo", "search"].contains(&by) {
            &self.visible
        } else {
            &self.devices
        }
    }

    /// Checks that a method found all mounts.
    fn met(&self, by: &str, ran: &Ran) {
        assert_eq!(&seen(&ran.json()), self.by(by), "{by}: {ran}");
    }

    /// Checks that a method found all mounts, reported an incomplete result, or refused.
    fn met_or_honest(&self, by: &str, ran: &Ran) {
        if ran.code() == 2 {
            assert!(
                ran.stdout.is_empty() && ran.stderr.starts_with("fathom: "),
                "{ran}"
            );
            return;
        }
        let value = ran.json();
        if value["result"]["complete"] == true {
            self.met(by, ran);
        } else {
            assert!(
                seen(&value).is_subset(self.by(by)),
                "{by} made something up: {ran}"
            );
        }
    }
}

fn seen(value: &Value) -> BTreeSet<PathBuf> {
    let mounts = value["result"]["mounts"].as_array().unwrap().iter();
    mounts
        .filter(|mount| mount["hidden"] == false)
        .map(|mount| path(mount, "target"))
        .collect()
}

/// A tree with all kinds of mounts: bushy directories, nested and covered mounts, a bind, a mount on a
/// file.
fn plant(root: &Path) -> PathBuf {
    bush(root, 4, 4);
    let usr = dir(root.join("usr"));
    bush(&usr.join("font"), 10, 2);
    tmpfs(usr.join("src"));
    let spool = tmpfs(usr.join("spool"));
    tmpfs(spool.join("d/e/news"));
    tmpfs(tmpfs(root.join("u1")).join("jms"));
    tmpfs(root.join("u2"));
    tmpfs(root.join("covered/below"));
    tmpfs(root.join("covered"));
    bind(usr.join("font"), root.join("bound"));
    bind(file(root.join("data"), 3), root.join("file"));
    root.to_owned()
}

fn without_proc() {
    tmpfs("/proc");
}

#[test]
fn without_proc_only_mountinfo_fails() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let expected = Expected::new(&plant(base));
            without_proc();
            for by in SEARCHES.into_iter().chain(["kernel", "auto"]) {
                expected.met(by, &run(&mut fathom(whole(base, by))));
            }
            run(&mut fathom(whole(base, "mountinfo"))).refused();
        });
    }
}

#[test]
fn without_listmount_only_kernel_fails() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let expected = Expected::new(&plant(base));
            for errno in [libc::ENOSYS, libc::EPERM] {
                let refused = |by| {
                    let mut command = fathom(whole(base, by));
                    restrict::fail_calls(&mut command, &[LISTMOUNT, STATMOUNT], errno);
                    run(&mut command)
                };
                for by in SEARCHES.into_iter().chain(["mountinfo", "auto"]) {
                    expected.met(by, &refused(by));
                }
                refused("kernel").refused();
            }
        });
    }
}

#[test]
fn searches_find_all_without_a_mount_table() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let expected = Expected::new(&plant(base));
            without_proc();
            for by in SEARCHES.into_iter().chain(["auto"]) {
                let mut command = fathom(whole(base, by));
                restrict::fail_calls(&mut command, &[LISTMOUNT, STATMOUNT], libc::ENOSYS);
                expected.met(by, &run(&mut command));
            }
        });
    }
}

#[test]
fn searches_find_all_with_hints_none() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let expected = Expected::new(&plant(base));
            for by in HINTED {
                let ran = run(fathom(whole(base, by)).args(["--hints", "none"]));
                expected.met(by, &ran);
                let why = ran.json()["result"]["why"].as_str().unwrap().to_owned();
                assert!(
                    by == "search" || why.contains("getmnt1"),
                    "{by} does not say what it has become: {why}"
                );
            }
            expected.met(
                "search",
                &run(fathom(whole(base, "search")).args(["--hints", "ids"])),
            );
        });
    }
}

#[test]
fn without_statx_no_false_mounts_are_reported() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let expected = Expected::new(&plant(base));
            for by in SEARCHES.into_iter().chain(["kernel", "mountinfo", "auto"]) {
                let mut command = fathom(whole(base, by));
                restrict::fail_calls(
                    &mut command,
                    &[u32::try_from(libc::SYS_statx).unwrap()],
                    libc::EPERM,
                );
                expected.met_or_honest(by, &run(&mut command));
            }
        });
    }
}

#[test]
fn inside_a_chroot() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let jail = dir(base.join("jail"));
            tmpfs(base.join("outside"));
            let tree = plant(&dir(jail.join("tree")));
            populate_chroot(&jail);
            mount(
                "proc",
                dir(jail.join("proc")),
                "proc",
                MountFlags::empty(),
                None,
            )
            .unwrap();

            let from_within =
                |found: BTreeSet<PathBuf>| found.iter().map(|path| inside(&jail, path)).collect();
            let expected = Expected {
                visible: from_within(visible(&tree)),
                devices: from_within(device_changes(&tree)),
            };
            for by in SEARCHES.into_iter().chain(["kernel", "mountinfo", "auto"]) {
                expected.met(
                    by,
                    &run(in_chroot(&jail).args(whole(Path::new("/tree"), by))),
                );
            }

            // Mounts outside the chroot are not listed; "/" is a directory here, not a mount.
            let all: BTreeSet<PathBuf> =
                from_within(table(&jail).into_iter().map(|mount| mount.target).collect());
            for by in ["kernel", "mountinfo"] {
                let value = run(in_chroot(&jail).args(whole(Path::new("/"), by))).json();
                let given: BTreeSet<PathBuf> = value["result"]["mounts"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|mount| path(mount, "target"))
                    .collect();
                assert_eq!(given, all, "{by}");
            }
        });
    }
}

#[test]
fn inside_an_unprivileged_user_namespace() {
    if require(&[Need::Root, Need::UserNamespaces]) {
        in_namespace(|base| {
            let here = fathom_in(&base.join("bin"));
            let tree = plant(&dir(base.join("tree")));
            let expected = Expected::new(&tree);
            for own_mounts in [&[][..], &["--mount", "--propagation", "unchanged"]] {
                for by in SEARCHES.into_iter().chain(["kernel", "mountinfo", "auto"]) {
                    let mut command = Command::new("unshare");
                    command.args(["--user", "--map-root-user"]).args(own_mounts);
                    command.arg("--").arg(&here).args(whole(&tree, by));
                    as_nobody(&mut command);
                    expected.met(by, &run(&mut command));
                }
            }
        });
    }
}

#[test]
fn unprivileged_user_finds_the_same() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let tree = plant(&dir(base.join("tree")));
            let expected = Expected::new(&tree);
            for by in SEARCHES.into_iter().chain(["kernel", "mountinfo", "auto"]) {
                let mut command = fathom_as_nobody(base, whole(&tree, by));
                expected.met(by, &run(&mut command));
            }
        });
    }
}

/// Files of mostly false hints.
fn false_hints(root: &Path) -> Vec<(&'static str, Vec<u8>)> {
    let real = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    let fields = |change: &dyn Fn(&mut Vec<String>)| -> Vec<u8> {
        let changed = real.lines().map(|line| {
            let mut fields = line.split(' ').map(str::to_owned).collect();
            change(&mut fields);
            fields.join(" ") + "\n"
        });
        changed.collect::<String>().into()
    };
    let root = root.display();
    vec![
        ("empty", Vec::new()),
        ("bytes", (0..=255).cycle().take(10_000).collect()),
        ("one endless line", vec![b'/'; 1 << 20]),
        (
            "no such paths",
            format!("{root}/nothing\n{root}/here/either\n/nowhere\nrelative\n..\n\n").into(),
        ),
        (
            "directories that are no mounts",
            format!("{root}/usr\n{root}/usr/font\n{root}/d0\n{root}/data\n").into(),
        ),
        (
            "the root is a leaf",
            format!("1 0 0:1 / {root} rw - tmpfs t rw\n").into(),
        ),
        (
            "an old mnttab",
            format!("/dev/sda1 {root}/usr ext4 rw 0 0\ngone {root}/d1/gone nfs rw 0 0\n").into(),
        ),
        (
            "everything backwards",
            real.lines()
                .rev()
                .map(|line| format!("{line}\n"))
                .collect::<String>()
                .into(),
        ),
        ("every id is another", fields(&|f| f[0] += "1")),
        ("every device is another", fields(&|f| f[2] += "1")),
        (
            "every device is its neighbour's",
            fields(&|f| f[2] = format!("0:{}", f[0])),
        ),
        (
            "every mount is on one device",
            fields(&|f| f[2] = "0:1".into()),
        ),
        ("every mount is at the top", fields(&|f| f[1] = "1".into())),
        (
            "every mount is elsewhere",
            fields(&|f| f[4] = "/elsewhere".into()),
        ),
        ("every mount is a leaf", fields(&|f| f[1] = "0".into())),
    ]
}

#[test]
fn false_hints_do_not_change_the_result() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let tree = plant(&dir(base.join("tree")));
            let expected = Expected::new(&tree);
            for (what, text) in false_hints(&tree) {
                let hints = base.join("hints");
                fs::write(&hints, text).unwrap();
                for by in HINTED {
                    eprintln!("{by} with hints: {what}");
                    expected.met(
                        by,
                        &run(fathom(whole(&tree, by)).arg("--hints").arg(&hints)),
                    );
                }
            }
        });
    }
}

#[test]
fn inconsistent_table_of_the_kernel_is_detected() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let expected = Expected::new(&plant(base));
            let lies: [(&[u32], i32); 4] = [
                (&[LISTMOUNT], 0),
                (&[STATMOUNT], 0),
                (&[STATMOUNT], libc::ENOENT),
                (&[LISTMOUNT, STATMOUNT], 0),
            ];
            for (calls, errno) in lies {
                let lied_to = |by| {
                    let mut command = fathom(whole(base, by));
                    restrict::fail_calls(&mut command, calls, errno);
                    run(&mut command)
                };
                expected.met("search", &lied_to("search"));
                for by in ["getmnt3", "getmnt2", "kernel", "auto"] {
                    expected.met_or_honest(by, &lied_to(by));
                }
            }
        });
    }
}

#[test]
fn false_mountinfo_does_not_change_a_search() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let tree = plant(&dir(base.join("tree")));
            let expected = Expected::new(&tree);
            let hints = false_hints(&tree);
            let own = dir(tmpfs("/proc").join("self"));
            dir("/proc/thread-self");
            for (what, text) in hints {
                for place in [
                    own.join("mountinfo"),
                    "/proc/thread-self/mountinfo".into(),
                    "/proc/mounts".into(),
                ] {
                    fs::write(place, &text).unwrap();
                }
                for by in HINTED {
                    eprintln!("{by} with mountinfo: {what}");
                    let mut command = fathom(whole(&tree, by));
                    restrict::fail_calls(&mut command, &[LISTMOUNT, STATMOUNT], libc::ENOSYS);
                    let ran = run(&mut command);
                    if by == "search" {
                        expected.met(by, &ran)
                    } else {
                        expected.met_or_honest(by, &ran)
                    }
                }
            }
        });
    }
}

#[test]
fn endless_hints_are_refused() {
    if require(&[Need::Program("prlimit")]) {
        let mut command = Command::new("prlimit");
        command.args(["--as=536870912", "--", env!("CARGO_BIN_EXE_fathom")]);
        let ran =
            run(command.args(["mounts", "/", "--by", "search", "--hints", "/dev/zero"])).refused();
        assert!(ran.stderr.contains("larger than 64 MiB"), "{ran}");
    }
}

#[test]
fn names_in_hints_are_escaped_on_a_terminal() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let odd = tmpfs(base.join("\x1b[31mred\u{9b}"));
            let hints = base.join("\x1b]0;title\x07");
            fs::write(
                &hints,
                [odd.as_os_str().as_bytes(), b"\n/no\x1b[2J/such\n"].concat(),
            )
            .unwrap();
            let ask = |hints: &Path, by: &str| {
                let mut command = fathom(args!["mounts", base, "-v", "--by", by, "--hints", hints]);
                let ran = run(&mut command);
                let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &ran.stderr;
                assert!(
                    !said.contains(|c: char| c.is_control() && c != '\n'),
                    "{said:?}"
                );
                ran
            };
            ask(&hints, "search").exits(0);
            ask(&base.join("\x1b[2Jmissing"), "search").refused();
            ask(&hints, "kernel").refused();
        });
    }
}

#[test]
fn changes_of_other_mounts_leave_a_search_complete() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let tree = plant(&dir(base.join("tree")));
            let expected = Expected::new(&tree);
            let elsewhere = dir(base.join("elsewhere"));
            let changes = AtomicU64::new(0);
            let come_and_go = |_, done: &Done| {
                while !done.is_set() {
                    unmount(tmpfs(&elsewhere));
                    changes.fetch_add(1, Ordering::SeqCst);
                }
            };
            let count = || changes.load(Ordering::SeqCst);
            with_threads(1, come_and_go, || {
                let (mut searches, mut disturbed) = (0, 0);
                while searches < 50 || disturbed < 5 {
                    let before = count();
                    let ran = run(&mut fathom(whole(&tree, "search"))).exits(0);
                    expected.met("search", &ran);
                    searches += 1;
                    disturbed += u32::from(count() > before);
                }
            });
        });
    }
}

#[test]
fn search_without_hints_reports_the_device_of_its_root() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let ran = run(fathom(whole(base, "search")).args(["--hints", "none"])).exits(0);
            let dev = fs::metadata(base).unwrap().dev();
            let expected = format!("{}:{}", rustix::fs::major(dev), rustix::fs::minor(dev));
            assert_eq!(mount_at(&ran.json(), base)["dev"], expected);
        });
    }
}
