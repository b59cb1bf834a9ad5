//! Tests of deleted files that are still open or mapped.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use super::{Holder, MIB, bytes, check, file, item, space};
use crate::support::build::{dir, name, tmpfs};
use crate::support::disks::{BTRFS, EXT4, XFS_WITH_OWNERS, XFS_WITHOUT_OWNERS, attach, mounted};
use crate::support::run::args;
use crate::support::tool::tool;
use crate::support::wait::wait_until;
use crate::support::{Need, fathom, in_namespace, require, run};

#[test]
fn deleted_files_are_those_of_lsof() {
    if require(&[Need::Root, Need::Program("lsof")]) {
        in_namespace(|base| {
            let at = tmpfs(base.join("tmpfs"));
            let one = file(&at.join(name(b"o\xffdd\n'")), MIB);
            let two = file(&at.join("two (deleted)"), 2 * MIB);
            let kept = file(&at.join("kept"), MIB);
            fs::hard_link(&kept, at.join("second")).unwrap();
            let holders = [&one, &one, &two, &kept].map(|path| Holder::of(path));
            for path in [&one, &two, &kept] {
                fs::remove_file(path).unwrap();
            }
            let result = space(&at);
            check(&result, &at, 0);
            let items = result["items"].as_array().unwrap();
            let deleted: Vec<_> = items.iter().filter(|it| it["kind"] == "deleted").collect();
            assert_eq!(deleted.len(), 2, "{result:#}");
            assert_eq!(
                [bytes(deleted[0]), bytes(deleted[1])],
                [2, 1].map(|n| n * MIB.cast_signed())
            );
            assert_eq!(
                (&deleted[1]["pid"], &deleted[1]["processes"]),
                (&holders[0].id().into(), &2.into())
            );
            assert!(
                deleted[0]["path"]
                    .as_str()
                    .unwrap()
                    .ends_with("/two (deleted)")
            );
            // Only of these processes: of others, lsof would wait for dead mounts.
            let pids = holders.each_ref().map(|holder| holder.id().to_string());
            let pids = pids.join(",");
            let mut lsof = Command::new("lsof");
            let listed = tool(lsof.args(["-nP", "-a", "+L1", "-p", &pids, "-Fp"]));
            let listed = String::from_utf8(listed).unwrap();
            for holder in &holders[..3] {
                assert!(
                    listed
                        .lines()
                        .any(|line| line == format!("p{}", holder.id())),
                    "{listed}"
                );
            }
        });
    }
}

#[test]
fn a_deleted_file_that_is_only_mapped_is_found() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let at = tmpfs(base.join("tmpfs"));
            // The executable of a running program: only the kernel holds it open.
            let program = at.join("program");
            fs::copy("/bin/cat", &program).unwrap();
            let mut cat = Command::new(&program);
            let mut cat = cat
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            // When the program answers, it is running.
            cat.stdin.as_mut().unwrap().write_all(b"x").unwrap();
            let mut answer = [0];
            std::io::Read::read_exact(cat.stdout.as_mut().unwrap(), &mut answer).unwrap();
            fs::remove_file(&program).unwrap();
            let result = space(&at);
            check(&result, &at, 0);
            let deleted = item(&result, "deleted", Some(&program));
            assert_eq!(deleted["pid"], u64::from(cat.id()));
            drop(cat.stdin.take());
            cat.wait().unwrap();
        });
    }
}

#[test]
fn a_process_in_a_mount_namespace_of_its_own_is_found() {
    if require(&[Need::Root, Need::Program("unshare")]) {
        in_namespace(|base| {
            let at = tmpfs(base.join("tmpfs"));
            let gone = file(&at.join("gone"), MIB);
            let holder = Holder::elsewhere(&gone);
            fs::remove_file(&gone).unwrap();
            let result = space(&at);
            check(&result, &at, 0);
            let deleted = item(&result, "deleted", Some(&gone));
            assert_eq!(deleted["pid"], holder.id());
        });
    }
}

#[test]
fn many_deleted_files_of_a_process_are_one_line() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let at = tmpfs(base.join("tmpfs"));
            // This process holds the files open.
            let files: Vec<fs::File> = (0..30)
                .map(|nth| {
                    let path = file(&at.join(format!("f{nth}")), MIB);
                    let file = fs::File::open(&path).unwrap();
                    fs::remove_file(path).unwrap();
                    file
                })
                .collect();
            let result = space(&at);
            check(&result, &at, 0);
            let items = result["items"].as_array().unwrap();
            assert_eq!(
                items.iter().filter(|it| it["kind"] == "deleted").count(),
                30
            );
            let ran = run(&mut fathom(args!["space", at.as_os_str()])).exits(0);
            let text = String::from_utf8(ran.stdout).unwrap();
            assert!(
                text.contains(" 30 files ") && text.contains(": 30 deleted files, since"),
                "{text}"
            );
            drop(files);
        });
    }
}

/// A loop device holds its file open in the kernel, without a process.
#[test]
fn a_deleted_image_of_a_loop_device_is_found() {
    if require(&[Need::Root, Need::Loop, Need::Program("losetup")]) {
        in_namespace(|base| {
            for nth in [0, 12, 14, 17, 24, 31] {
                let at = base.join(format!("ext4-{nth}"));
                if !mounted(EXT4[nth], &at) {
                    continue;
                }
                let image = file(&at.join("image"), 6 * MIB);
                let attached = attach(&image);
                let device = attached.0.to_str().unwrap();
                let ino = std::os::unix::fs::MetadataExt::ino(&fs::metadata(&image).unwrap());
                let _holder = Holder::of(&file(&at.join("other"), 2 * MIB));
                fs::remove_file(&image).unwrap();
                fs::remove_file(at.join("other")).unwrap();
                tool(Command::new("sync").arg("-f").arg(&at));
                let result = space(&at);
                check(&result, &at, 5);
                let items = result["items"].as_array().unwrap().iter();
                let deleted: Vec<_> = items.filter(|it| it["kind"] == "deleted").collect();
                assert_eq!(deleted.len(), 2, "{result:#}");
                assert_eq!(
                    (
                        &deleted[0]["program"],
                        &deleted[0]["inode"],
                        &deleted[0]["command"]
                    ),
                    (
                        &device.into(),
                        &ino.into(),
                        &format!("losetup -d {device}").into()
                    )
                );
                assert!(
                    deleted[0]["pid"].is_null() && deleted[1]["pid"].is_u64(),
                    "{result:#}"
                );
                assert!(
                    (6 * MIB.cast_signed()..7 * MIB.cast_signed()).contains(&bytes(deleted[0]))
                );
            }
        });
    }
}

/// losetup -d of a mounted device exits with 0, and frees nothing.
#[test]
fn a_mounted_image_is_unmounted_first() {
    let needs = [
        Need::Root,
        Need::Loop,
        Need::Program("losetup"),
        Need::Program("unshare"),
    ];
    if require(&needs) {
        in_namespace(|base| {
            let at = tmpfs(base.join("tmpfs"));
            let image = file(&at.join("image"), 6 * MIB);
            tool(
                Command::new("mkfs.ext4")
                    .args(["-q", "-F", "-E", "nodiscard"])
                    .arg(&image),
            );
            let attached = attach(&image);
            let device = attached.0.to_str().unwrap();
            fs::remove_file(&image).unwrap();
            let command = || {
                let value = space(&at);
                item(&value, "deleted", Some(&image))["command"].clone()
            };
            let detach = format!("losetup -d {device}");
            assert_eq!(command(), detach);
            let on = dir(base.join("on it"));
            tool(Command::new("mount").arg(device).arg(&on));
            let mounted = command();
            let expected = format!("umount '{}' && {detach}", on.display());
            assert_eq!(mounted, expected);
            // A mount in a different namespace is not in the mount table of this one.
            let other = Holder::shell_elsewhere(":", &on);
            tool(Command::new("umount").arg(&on));
            assert!(command().is_null());
            let ran = run(&mut fathom(args!["space", at.as_os_str()])).exits(0);
            let text = String::from_utf8(ran.stdout).unwrap();
            assert!(
                text.contains(&format!("find what uses {device} (")),
                "{text}"
            );
            drop(other);
            tool(Command::new("mount").arg(device).arg(&on));
            tool(Command::new("sh").args(["-c", mounted.as_str().unwrap()]));
            // The mount of the other namespace ends some time after its process.
            wait_until("the image is freed", || {
                let items = space(&at)["items"].clone();
                let mut items = items.as_array().unwrap().iter();
                items.all(|it| it["kind"] != "deleted")
            });
        });
    }
}

/// Without inode tables on the device, the size comes from the file system, or is an estimate.
#[test]
fn a_deleted_image_is_found_on_every_file_system() {
    if require(&[Need::Root, Need::Loop, Need::Program("losetup")]) {
        in_namespace(|base| {
            for (make, most) in [
                (Some(XFS_WITH_OWNERS), 0),
                (Some(XFS_WITHOUT_OWNERS), 10),
                (Some(BTRFS[0]), 20),
                (None, 0),
            ] {
                let at = base.join(make.map_or("tmpfs", |make| make.name));
                match make {
                    Some(make) => assert!(mounted(make, &at)),
                    None => drop(tmpfs(&at)),
                }
                let image = file(&at.join("image"), 6 * MIB);
                let attached = attach(&image);
                let device = attached.0.to_str().unwrap();
                let ino = std::os::unix::fs::MetadataExt::ino(&fs::metadata(&image).unwrap());
                fs::remove_file(&image).unwrap();
                tool(Command::new("sync").arg("-f").arg(&at));
                let result = space(&at);
                check(&result, &at, most);
                let deleted = item(&result, "deleted", Some(&image));
                assert_eq!(
                    (&deleted["program"], &deleted["inode"], &deleted["command"]),
                    (
                        &device.into(),
                        &ino.into(),
                        &format!("losetup -d {device}").into()
                    )
                );
                assert_eq!(deleted["exact"], make.is_some(), "{result:#}");
                let more = bytes(deleted) - 6 * MIB.cast_signed();
                assert!((0..128 << 10).contains(&more), "{more}: {result:#}");
            }
        });
    }
}

#[test]
fn a_minimum_of_shared_blocks_does_not_hide_a_deleted_image() {
    if require(&[Need::Root, Need::Loop, Need::Program("losetup")]) {
        in_namespace(|base| {
            let at = base.join("xfs");
            assert!(mounted(XFS_WITHOUT_OWNERS, &at));
            let first = file(&at.join("first"), 10 * MIB);
            let mut cp = Command::new("cp");
            let cp = cp.arg("--reflink=always").arg(first);
            tool(cp.arg(at.join("second")));
            let image = file(&at.join("image"), 6 * MIB);
            let _attached = attach(&image);
            fs::remove_file(&image).unwrap();
            tool(Command::new("sync").arg("-f").arg(&at));
            let result = space(&at);
            check(&result, &at, 10);
            let shared = item(&result, "shared", None);
            assert_eq!(
                (&shared["part"], &shared["exact"]),
                (&"at_least".into(), &false.into())
            );
            let size = bytes(item(&result, "deleted", Some(&image)));
            assert!(size >= 6 * MIB.cast_signed(), "{result:#}");
            assert!(
                bytes(shared) < -9 * MIB.cast_signed(),
                "the image reduces the excess: {result:#}"
            );
            let ran = run(&mut fathom(args!["space", at.as_os_str()])).exits(0);
            let text = String::from_utf8(ran.stdout).unwrap();
            assert!(
                text.contains("how much is not accounted for is unknown: ")
                    && !text.contains("all of it is accounted for"),
                "{text}"
            );
        });
    }
}

#[test]
fn a_deleted_file_can_be_emptied_through_its_descriptor() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let at = tmpfs(base.join("tmpfs"));
            let gone = file(&at.join("gone"), 2 * MIB);
            let holder = Holder::of(&gone);
            fs::remove_file(&gone).unwrap();
            let result = space(&at);
            assert_eq!(item(&result, "deleted", Some(&gone))["fd"], 0);
            let command = format!(": > /proc/{}/fd/0", holder.id());
            let ran = run(&mut fathom(args!["space", at.as_os_str()])).exits(0);
            let text = String::from_utf8(ran.stdout).unwrap();
            assert!(text.contains(&format!(", or {command}  # ")), "{text}");
            tool(Command::new("sh").args(["-c", &command]));
            let result = space(&at);
            check(&result, &at, 0);
            let items = result["items"].as_array().unwrap();
            assert!(items.iter().all(|it| it["kind"] != "deleted"), "{result:#}");
        });
    }
}
