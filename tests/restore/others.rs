//! Tests that archives of GNU tar and bsdtar are restored exactly.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::build::{bind, chmod, dir, file, tmpfs};

use crate::support::disks::{BTRFS, EXT4, XFS, mounted};
use crate::support::restrict::fathom_as_nobody;
use crate::support::run::args;
use crate::support::snapshot::{Seen, alike, kept};
use crate::support::tool::tool;
use crate::support::trees::grow;
use crate::support::{Need, fathom, in_namespace, require, run};

/// The archive formats of the tools, and the metadata that each keeps.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Maker {
    GnuPax,
    Gnu,
    Bsd,
    Fathom,
}

/// Archives the contents of `top`.
fn archive(maker: Maker, top: &Path, to: &Path) {
    if maker == Maker::Fathom {
        let ran = run(fathom(args!["dump", ".", "-o", to]).current_dir(top));
        assert!(
            ran.stderr
                .lines()
                .all(|line| !line.starts_with("fathom: ") || line.contains("socket")),
            "{ran}"
        );
        return;
    }
    let mut command = Command::new(if maker == Maker::Bsd { "bsdtar" } else { "tar" });
    match maker {
        Maker::GnuPax => command.args([
            "--format=posix",
            "--xattrs",
            "--xattrs-include=*",
            "--acls",
            "--sparse",
            "--warning=none",
        ]),
        Maker::Gnu => command.args(["--format=gnu", "--sparse", "--warning=none"]),
        Maker::Bsd | Maker::Fathom => command.args(["--format=pax", "--xattrs", "--acls"]),
    };
    tool(command.arg("-cf").arg(to).arg("-C").arg(top).arg("."));
}

/// Removes metadata that an archive of this program does not contain.
fn less(maker: Maker) -> impl Fn(&[u8], &mut Seen) {
    move |_, seen| {
        seen.atime = (0, 0); // tools read what they archive
        // Both programs archive each hard link to a device as a separate device; GNU tar does so
        // with fifos, too.
        let is_device = ['c', 'b'].contains(&seen.kind);
        match maker {
            Maker::Gnu | Maker::GnuPax if is_device || seen.kind == 'p' => seen.twin = None,
            Maker::Bsd if is_device => seen.twin = None,
            _ => {}
        }
        if maker == Maker::Bsd && seen.mtime.0 < 0 {
            seen.mtime = (0, 0); // bsdtar writes -1 s and 1 ns as -1.000000001
        }
        if maker == Maker::Gnu {
            seen.mtime.1 = 0;
            seen.attributes.clear();
        }
    }
}

/// A tree with all types of files and attributes.
fn tree(top: &Path) {
    grow(top, 7, 400);
    // Sockets are not archived, but bsdtar archives a hard link to a socket, as a link without a
    // target.
    let _ = Command::new("find")
        .arg(top)
        .args(["-type", "s", "-delete"])
        .output();
    let able = file(top.join("able"), 10);
    tool(Command::new("setcap").arg("cap_net_raw=ep").arg(&able));
    chmod(file(top.join("set"), 1), 0o6755);
    dir(top.join("inherits"));
    tool(
        Command::new("setfacl")
            .args(["-d", "-m", "u:1234:rwx,g:77:r"])
            .arg(top.join("inherits")),
    );
    tool(
        Command::new("setfacl")
            .args(["-m", "u:1234:rwx"])
            .arg(file(top.join("inherits/with a list"), 3)),
    );
    let bare = file(top.join("inherits/bare"), 3);
    tool(Command::new("setfacl").arg("-b").arg(&bare));
    chmod(&bare, 0o644);
    dir(top.join("inherits/child"));
    tool(
        Command::new("setfacl")
            .arg("-b")
            .arg(top.join("inherits/child")),
    );
    for n in 0..3 {
        file(top.join("many names/one"), 100);
        fs::hard_link(
            top.join("many names/one"),
            top.join(format!("many names/{n}")),
        )
        .unwrap();
        fs::hard_link(
            top.join("many names/one"),
            top.join(format!("0 is before {n}")),
        )
        .unwrap();
    }
}

fn restored(archive: &Path, to: &Path) -> PathBuf {
    run(&mut fathom(args!["restore", archive, "-C", dir(to)])).exits(0);
    to.to_owned()
}

#[test]
fn everything_is_restored_on_tmpfs() {
    if require(&[
        Need::Root,
        Need::Program("bsdtar"),
        Need::Program("setcap"),
        Need::Program("setfacl"),
    ]) {
        for maker in [Maker::GnuPax, Maker::Gnu, Maker::Bsd, Maker::Fathom] {
            in_namespace(|ground| {
                let top = tmpfs(ground.join("top"));
                tree(&top);
                if maker == Maker::Bsd {
                    // bsdtar truncates the names of sparse files to the length of the header field.
                    for (name, _) in kept(&top)
                        .iter()
                        .filter(|(name, seen)| seen.size > 1 << 19 && name.len() > 90)
                    {
                        let _ = fs::remove_file(top.join(OsStr::from_bytes(name)));
                    }
                }
                archive(maker, &top, &ground.join("archive"));
                let copy = restored(&ground.join("archive"), &ground.join("copy"));
                alike(
                    &kept(&top),
                    &kept(&copy),
                    &format!("{maker:?}"),
                    less(maker),
                );
                // Restore once more, over the restored tree.
                let copy = restored(&ground.join("archive"), &ground.join("copy"));
                alike(
                    &kept(&top),
                    &kept(&copy),
                    &format!("{maker:?}"),
                    less(maker),
                );
            });
        }
    }
}

#[test]
fn everything_is_restored_on_disks() {
    if require(&[
        Need::Root,
        Need::Loop,
        Need::Program("setcap"),
        Need::Program("setfacl"),
    ]) {
        for make in [EXT4[0], EXT4[1], XFS[0], BTRFS[0]] {
            in_namespace(|ground| {
                mounted(make, &ground.join("disk"));
                let top = dir(ground.join("disk/top"));
                tree(&top);
                for maker in [Maker::GnuPax, Maker::Fathom] {
                    archive(maker, &top, &ground.join("archive"));
                    let copy = restored(
                        &ground.join("archive"),
                        &ground.join(format!("disk/{maker:?}")),
                    );
                    alike(
                        &kept(&top),
                        &kept(&copy),
                        &format!("{maker:?}"),
                        less(maker),
                    );
                }
            });
        }
    }
}

/// For data that is not yet written, XFS reserves more blocks than it will need. While the
/// reservation exceeds the free space, creating an `O_TMPFILE` fails, but creating a file with a
/// name does not.
#[test]
fn reserved_blocks_are_not_a_full_disk() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|ground| {
            const FILES: usize = 25_000;
            const ROOM: u64 = 220 << 20; // twice the size of the files, and half of the reservation
            let disk = ground.join("disk");
            mounted(XFS[0], &disk);
            let free = rustix::fs::statvfs(&disk).unwrap();
            let free = free.f_bavail * free.f_frsize;
            let mut fill = Command::new("fallocate");
            let length = (free - ROOM).to_string();
            tool(fill.args(["-l", &length]).arg(disk.join("rest")));
            let top = dir(ground.join("top"));
            for nth in 0..FILES {
                file(top.join(format!("{}/{nth}", nth % 20)), 1000);
            }
            archive(Maker::GnuPax, &top, &ground.join("archive"));
            let copy = restored(&ground.join("archive"), &disk.join("copy"));
            assert_eq!(fs::read_dir(copy.join("19")).unwrap().count(), FILES / 20);
        });
    }
}

#[test]
fn ordinary_user_restores_what_is_permitted() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let top = tmpfs(ground.join("top"));
            file(top.join("d/plain"), 10);
            chmod(top.join("d/plain"), 0o444);
            tool(
                Command::new("setfattr")
                    .args(["-n", "user.kept", "-v", "x"])
                    .arg(top.join("d/plain")),
            );
            chmod(file(top.join("set"), 1), 0o6755);
            symlink("d", top.join("link")).unwrap();
            chmod(top.join("d"), 0o555);
            archive(Maker::GnuPax, &top, &ground.join("archive"));
            let own = dir(ground.join("own"));
            chown(&own, Some(1000), Some(1000)).unwrap();
            let mut restore =
                fathom_as_nobody(ground, args!["restore", ground.join("archive"), "-C", &own]);
            for _ in 0..2 {
                let ran = run(&mut restore).exits(0);
                assert_eq!(ran.stderr.matches("belong to you").count(), 1, "{ran}");
                alike(&kept(&top), &kept(&own), "as a user", |_, seen| {
                    seen.atime = (0, 0);
                    seen.owner = (1000, 1000);
                    seen.mode &= !0o6000;
                });
            }
            // Only root can create a device; everything else is restored.
            tool(
                Command::new("mknod")
                    .arg(top.join("device"))
                    .args(["c", "1", "3"]),
            );
            archive(Maker::GnuPax, &top, &ground.join("archive"));
            let ran = run(restore.arg("--json"));
            let value = ran.json();
            assert_eq!(ran.code(), 1, "{ran}");
            assert_eq!(
                (
                    value["warnings"][0]["gate"].as_str(),
                    value["result"]["skipped"].as_u64()
                ),
                (Some("mknodat"), Some(1))
            );
            assert_eq!(value["result"]["files"], 2);
        });
    }
}

#[test]
fn owners_are_set_by_name_unless_numeric() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let top = tmpfs(ground.join("top"));
            for (name, line) in [
                ("passwd", "root:x:0:0::/:\nsomebody:x:4321:1::/:\n"),
                ("group", "root:x:0:\n"),
            ] {
                fs::write(ground.join(name), line).unwrap();
                bind(ground.join(name), Path::new("/etc").join(name));
            }
            file(top.join("file"), 1);
            let to = ground.join("archive");
            let owned = |arg: &[&str]| {
                let mut tar = Command::new("tar");
                tool(
                    tar.args([
                        "--owner=somebody:54321",
                        "--group=nobody-knows:54322",
                        "-cf",
                    ])
                    .arg(&to)
                    .arg("-C")
                    .arg(&top)
                    .arg("file"),
                );
                let copy = dir(ground.join("copy"));
                run(fathom(args!["restore", &to, "-C", &copy]).args(arg)).exits(0);
                let seen = copy.join("file").symlink_metadata().unwrap();
                (seen.uid(), seen.gid())
            };
            assert_eq!(owned(&[]), (4321, 54322));
            assert_eq!(owned(&["--numeric-owner"]), (54321, 54322));
        });
    }
}

#[test]
fn all_archive_formats_are_restored() {
    if require(&[Need::Root, Need::Program("zstd"), Need::Program("bsdtar")]) {
        in_namespace(|ground| {
            let top = tmpfs(ground.join("top"));
            let far = [
                &"d/".repeat(20),
                "file with a name that is long enough for more than one header of the oldest kind of archive",
                &"x".repeat(60),
            ]
            .concat();
            file(top.join("short"), 5000);
            symlink("short", top.join("link")).unwrap();
            let to = ground.join("archive");
            for form in [
                "--format=v7",
                "--format=oldgnu",
                "--format=gnu",
                "--format=ustar",
                "--format=posix",
            ] {
                let name = if matches!(form, "--format=v7" | "--format=ustar") {
                    "d/file"
                } else {
                    &far
                };
                let _ = fs::remove_dir_all(top.join("d"));
                file(top.join(name), 70_000);
                tool(
                    Command::new("tar")
                        .arg(form)
                        .arg("-cf")
                        .arg(&to)
                        .arg("-C")
                        .arg(&top)
                        .args([".", "--sort=name"]),
                );
                tool(Command::new("zstd").args(["-qf"]).arg(&to));
                for archive in [to.clone(), to.with_extension("zst")] {
                    let copy = restored(
                        &archive,
                        &ground
                            .join(form)
                            .join(archive.extension().unwrap_or_default()),
                    );
                    alike(&kept(&top), &kept(&copy), form, |_, seen| {
                        (seen.atime, seen.mtime.1) = ((0, 0), 0)
                    });
                }
            }
        });
    }
}

/// A volume label is not a file: it is not restored, and no warning is printed.
#[test]
fn volume_label_is_not_restored() {
    if !require(&[Need::Program("tar")]) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    file(place.path().join("tree/f"), 100);
    let (archive, to) = (place.path().join("a.tar"), dir(place.path().join("to")));
    tool(
        Command::new("tar")
            .args(["--format=gnu", "-V", "label", "-cf"])
            .arg(&archive)
            .arg("-C")
            .arg(place.path())
            .arg("tree"),
    );
    let tried = run(&mut fathom(args![
        "restore",
        archive,
        "-C",
        to,
        "--dry-run"
    ]))
    .exits(0);
    assert_eq!(tried.stdout, b"directory tree\nfile tree/f\n", "{tried}");
    let ran = run(&mut fathom(args!["restore", archive, "-C", to, "--json"])).exits(0);
    assert_eq!(ran.json()["result"]["skipped"], 0);
    assert!(to.join("tree/f").is_file() && !to.join("label").exists());
    run(&mut fathom(args!["verify", archive, "--against", to])).exits(0);
}

/// GNU tar writes names without numbers in access control lists, also with `--numeric-owner`.
#[test]
fn names_in_access_control_lists_are_looked_up_like_gnu_tar() {
    if !require(&[Need::Root, Need::Program("tar"), Need::Program("setfacl")]) {
        return;
    }
    in_namespace(|ground| {
        let top = dir(tmpfs(ground.join("tmpfs")).join("top"));
        chmod(ground, 0o755);
        file(top.join("f"), 3);
        let mut acl = Command::new("setfacl");
        tool(acl.args(["-m", "u:daemon:rw,g:bin:r"]).arg(top.join("f")));
        let archive = top.with_extension("tar");
        let mut pack = Command::new("tar");
        tool(
            pack.args(["--acls", "-cf"])
                .arg(&archive)
                .arg("-C")
                .arg(&top)
                .arg("f"),
        );
        let list = |file: PathBuf| {
            let mut list = Command::new("getfacl");
            let printed = list
                .args(["-n", "-c", "--absolute-names"])
                .arg(file)
                .output();
            String::from_utf8(printed.unwrap().stdout).unwrap()
        };
        let expected = list(top.join("f"));
        assert!(
            expected.contains("user:1:rw-\ngroup::r--\ngroup:2:r--\n"),
            "{expected}"
        );
        for options in [&[][..], &["--numeric-owner"]] {
            for is_root in [true, false] {
                let name = format!("to {} {is_root}", options.len());
                let to = dir(top.with_file_name(name));
                chmod(&to, 0o777);
                let restore = args!["restore", archive, "-C", to];
                let mut command = match is_root {
                    true => fathom(restore),
                    false => fathom_as_nobody(top.parent().unwrap(), restore),
                };
                run(command.args(options)).exits(0);
                assert_eq!(list(to.join("f")), expected, "{options:?}, root: {is_root}");
            }
        }
    });
}
