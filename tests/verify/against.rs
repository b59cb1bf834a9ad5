//! Tests of archives compared with their trees: each difference is reported, and nothing else.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, chown, symlink};
use std::path::Path;
use std::process::Command;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use serde_json::Value;

use crate::support::build::{bind, chmod, dir, disk, file, name, tmpfs, unmount_whole};

use crate::support::disks::{BTRFS, EXT4, mounted};
use crate::support::fuse::Manner::Hung;
use crate::support::fuse::serve;
use crate::support::pack::{pack, plain};
use crate::support::run::args;
use crate::support::synthetic::{SyntheticTree, serve_synthetic};
use crate::support::tool::tool;
use crate::support::{Need, fathom, in_namespace, require, run};

fn tree(top: &Path) {
    file(top.join("d/file"), 100_000);
    file(top.join(name(b"d/\xff")), 10);
    fs::hard_link(top.join("d/file"), top.join("link")).unwrap();
    symlink("nowhere", top.join("symlink")).unwrap();
    let sparse = fs::File::create(top.join("sparse")).unwrap();
    sparse.set_len(1 << 20).unwrap();
    sparse.write_all_at(b"data", 500_000).unwrap();
    tool(Command::new("mkfifo").arg(top.join("fifo")));
    tool(
        Command::new("mknod")
            .arg(top.join("device"))
            .args(["c", "1", "3"]),
    );
    tool(
        Command::new("setfattr")
            .args(["-n", "user.a", "-v", "1"])
            .arg(top.join("d/file")),
    );
    tool(
        Command::new("setfacl")
            .args(["-m", "u:12345:r,u:nobody:x"])
            .arg(top.join(name(b"d/\xff"))),
    );
}

fn verify(at: &Path, code: i32) -> Value {
    run(&mut fathom(args![
        "verify",
        at.join("archive.tar"),
        "--against",
        at.join("tree"),
        "--json"
    ]))
    .exits(code)
    .json()
}

/// Makes a change, checks that only this change is reported, and reverts it.
fn told(at: &Path, path: &str, message: &str, change: impl FnOnce(&Path)) {
    let (tree, kept) = (at.join("tree"), at.join("kept"));
    tool(Command::new("cp").arg("-a").arg(&tree).arg(&kept));
    change(&tree.join("top"));
    let value = verify(at, 1);
    let warnings = value["warnings"].as_array().unwrap();
    let found = |warning: &Value| {
        warning["path"] == path
            && warning["message"]
                .as_str()
                .is_some_and(|said| said.contains(message))
    };
    assert!(
        warnings.iter().any(found),
        "{path}, {message}: {warnings:#?}"
    );
    // A change also affects entries below the path, modification times of directories and of
    // changed files, and other hard links.
    let is_beside = |warning: &&Value| {
        let said = warning["message"].as_str().unwrap();
        let is_below = warning["path"]
            .as_str()
            .is_some_and(|other| other.starts_with(path));
        !is_below && !said.contains("modification time") && !said.contains("not a hard link")
    };
    assert!(
        warnings.iter().find(is_beside).is_none(),
        "{path}, {message}: {warnings:#?}"
    );
    fs::remove_dir_all(&tree).unwrap();
    fs::rename(&kept, &tree).unwrap();
}

#[test]
fn changed_files_are_reported() {
    let programs = ["tar", "setfattr", "setfacl", "mkfs.ext4"].map(Need::Program);
    if require(&[&[Need::Root, Need::Loop], &programs[..]].concat()) {
        in_namespace(|ground| {
            // Names in access control lists are looked up.
            let passwd = ground.join("passwd");
            fs::write(
                &passwd,
                "root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n",
            )
            .unwrap();
            bind(&passwd, "/etc/passwd");
            let at = disk("ext4", &ground.join("disk"));
            let top = dir(at.join("tree/top"));
            tree(&top);
            let mut tar = Command::new("tar");
            tar.args([
                "--format=posix",
                "--sort=name",
                "-S",
                "--xattrs",
                "--acls",
                "-cf",
            ])
            .arg(at.join("archive.tar"));
            tool(tar.arg("-C").arg(at.join("tree")).arg("top"));
            let same = verify(&at, 0);
            assert_eq!(
                (&same["result"]["compared"], &same["result"]["different"]),
                (&9.into(), &0.into())
            );

            let told = |path: &str, message: &str, change: &dyn Fn(&Path)| {
                told(&at, path, message, change)
            };
            told("top/sparse", "does not exist", &|top| {
                fs::remove_file(top.join("sparse")).unwrap()
            });
            told(
                "top/sparse",
                "type differs: directory, in the archive file",
                &|top| {
                    fs::remove_file(top.join("sparse")).unwrap();
                    dir(top.join("sparse"));
                },
            );
            told("top/d/file", "contents differ from byte 70001 on", &|top| {
                fs::OpenOptions::new()
                    .write(true)
                    .open(top.join("d/file"))
                    .unwrap()
                    .write_all_at(b"y", 70_000)
                    .unwrap();
            });
            for place in [500_002, 0, 1_048_575] {
                // Bytes are counted from 1, as by cmp(1).
                let message = format!("contents differ from byte {} on", place + 1);
                told("top/sparse", &message, &|top| {
                    fs::OpenOptions::new()
                        .write(true)
                        .open(top.join("sparse"))
                        .unwrap()
                        .write_all_at(b"y", place)
                        .unwrap();
                });
            }
            told(
                "top/d/file",
                "size differs: 5 bytes, in the archive 100000",
                &|top| {
                    fs::OpenOptions::new()
                        .write(true)
                        .open(top.join("d/file"))
                        .unwrap()
                        .set_len(5)
                        .unwrap();
                },
            );
            told("top/d/", "mode differs: 0700", &|top| {
                chmod(top.join("d"), 0o700);
            });
            told(
                "top/fifo",
                "owner differs: 1:2, in the archive 0:0",
                &|top| chown(top.join("fifo"), Some(1), Some(2)).unwrap(),
            );
            told(
                "top/symlink",
                "symlink target differs: 'elsewhere', in the archive 'nowhere'",
                &|top| {
                    fs::remove_file(top.join("symlink")).unwrap();
                    symlink("elsewhere", top.join("symlink")).unwrap();
                },
            );
            told(
                "top/device",
                "device number differs: 1:5, in the archive 1:3",
                &|top| {
                    fs::remove_file(top.join("device")).unwrap();
                    tool(
                        Command::new("mknod")
                            .arg(top.join("device"))
                            .args(["c", "1", "5"]),
                    );
                },
            );
            told(
                "top/d/file",
                "extended attribute 'user.a' differs",
                &|top| {
                    tool(
                        Command::new("setfattr")
                            .args(["-n", "user.a", "-v", "2"])
                            .arg(top.join("d/file")),
                    );
                },
            );
            told(
                "top/d/file",
                "extended attribute 'user.a' is missing",
                &|top| {
                    tool(
                        Command::new("setfattr")
                            .args(["-x", "user.a"])
                            .arg(top.join("d/file")),
                    );
                },
            );
            told(
                "top/symlink",
                "extended attribute 'trusted.b' is not in the archive",
                &|top| {
                    tool(
                        Command::new("setfattr")
                            .args(["-h", "-n", "trusted.b", "-v", "2"])
                            .arg(top.join("symlink")),
                    );
                },
            );
            told(
                "top/d/",
                "access control list (system.posix_acl_default) differs",
                &|top| {
                    tool(
                        Command::new("setfacl")
                            .args(["-d", "-m", "u:1:r"])
                            .arg(top.join("d")),
                    );
                },
            );
            told(
                "top/sparse",
                "modification time differs: 1970-01-01T00:00:05.000000000, in the archive",
                &|top| {
                    tool(
                        Command::new("touch")
                            .args(["-d", "@5"])
                            .arg(top.join("sparse")),
                    );
                },
            );
            told(
                "top/d/",
                "type differs: symlink, in the archive directory",
                &|top| {
                    fs::remove_dir_all(top.join("d")).unwrap();
                    symlink("/", top.join("d")).unwrap();
                },
            );
        });
    }
}

/// Dumps the directory `tree` in `at`, with more arguments.
fn dump(at: &Path, archive: &str, more: &[&str]) {
    run(fathom(args!["dump", "tree", "-o", archive])
        .args(more)
        .current_dir(at))
    .exits(0);
}

/// The names that are reported as missing in the archive when it is compared with `at`.
fn not_in_it(at: &Path, archive: &str, more: &[&str]) -> Vec<String> {
    let mut command = fathom(args!["verify", archive, "--against", ".", "--json"]);
    let value = run(command.args(more).current_dir(at)).json();
    let warnings = value["warnings"].as_array().unwrap().iter();
    let those = warnings.filter(|warning| warning["message"] == "not in the archive");
    let names: Vec<String> = those
        .map(|warning| warning["path"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(value["result"]["unknown"], names.len(), "{value}");
    names
}

#[test]
fn files_that_the_archive_lacks_are_reported() {
    if require(&[Need::Root, Need::Program("tar")]) {
        in_namespace(|ground| {
            let at = tmpfs(ground.join("at"));
            let tree = dir(at.join("tree"));
            for path in ["a", "d/file", "d/e/deep", "kept/file"] {
                file(tree.join(path), 10);
            }
            dump(&at, "archive.tar", &[]);
            tool(
                Command::new("tar")
                    .args(["-cf", "gnu.tar", "tree/d/file", "tree/d/e", "tree/d"])
                    .current_dir(&at),
            );
            tool(
                Command::new("tar")
                    .args(["-cf", "dot.tar", "--exclude=*.tar", "."])
                    .current_dir(&at),
            );
            for archive in ["archive.tar", "gnu.tar"] {
                assert!(not_in_it(&at, archive, &[]).is_empty(), "{archive}");
            }
            assert_eq!(not_in_it(&at, "dot.tar", &[]), ["archive.tar", "gnu.tar"]);
            // New files outside the dumped tree, in it, and in new directories.
            file(at.join("beside"), 1);
            file(tree.join("d/e/new"), 1);
            file(tree.join("d/new/with/more"), 1);
            file(tree.join("z\nz"), 1);
            symlink("/", tree.join("d/link")).unwrap();
            std::os::unix::net::UnixListener::bind(tree.join("socket")).unwrap();
            fs::hard_link(at.join("archive.tar"), tree.join("archive")).unwrap();
            let all = ["tree/z\nz", "tree/d/link", "tree/d/new", "tree/d/e/new"];
            assert_eq!(not_in_it(&at, "archive.tar", &[]), all);
            assert_eq!(
                not_in_it(
                    &at,
                    "archive.tar",
                    &["--exclude", "new", "--exclude", "tree/d/l*"]
                ),
                all[..1]
            );
            // A glob with a slash at its beginning matches the whole name.
            let exclude = ["--exclude", "/tree/d/n*", "--exclude", "/d/link"];
            assert_eq!(
                not_in_it(&at, "archive.tar", &exclude),
                [all[0], all[1], all[3]]
            );
            assert_eq!(not_in_it(&at, "gnu.tar", &[]), all[1..]);
            let said =
                run(fathom(["verify", "archive.tar", "--against", "."]).current_dir(&at)).exits(1);
            assert!(
                said.lines()[1].ends_with(", 4 files not in the archive"),
                "{said}"
            );
            run(fathom(["verify", "archive.tar", "--exclude", "x"]).current_dir(&at)).refused();
        });
    }
}

#[test]
fn files_that_an_increment_does_not_list_are_reported() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let at = tmpfs(ground.join("at"));
            let tree = dir(at.join("tree"));
            for path in ["a", "b", "d/file", "same/file"] {
                file(tree.join(path), 10);
            }
            dump(&at, "0.tar", &["--catalog", "catalog"]);
            file(tree.join("b"), 20);
            file(tree.join("d/other"), 20);
            dump(&at, "1.tar", &["--since", "catalog"]);
            assert!(not_in_it(&at, "1.tar", &[]).is_empty());
            file(tree.join("new"), 1);
            file(tree.join("d/new"), 1);
            // The increment contains neither an unchanged directory nor its entries.
            file(tree.join("same/new"), 1);
            assert_eq!(not_in_it(&at, "1.tar", &[]), ["tree/new", "tree/d/new"]);
        });
    }
}

/// The increment contains nothing but SRC, with its dumpdir.
#[test]
fn increment_without_changes_equals_its_tree() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|ground| {
            for make in [Some(EXT4[0]), Some(BTRFS[0]), None] {
                let at = ground.join(make.map_or("tmpfs", |make| make.fstype));
                match make {
                    Some(make) => assert!(mounted(make, &at)),
                    None => drop(tmpfs(&at)),
                }
                let tree = dir(at.join("tree"));
                for path in ["a", "b", "d/file", "d/e/file"] {
                    file(tree.join(path), 10);
                }
                dir(tree.join("empty"));
                std::thread::sleep(std::time::Duration::from_millis(50));
                dump(&at, "0.tar", &["--catalog", "catalog"]);
                dump(&at, "1.tar", &["--since", "catalog"]);
                let listed = run(fathom(["list", "1.tar"]).current_dir(&at)).exits(0);
                assert_eq!(listed.lines().len(), 1, "{listed}");
                assert!(not_in_it(&at, "1.tar", &[]).is_empty(), "{make:?}");
                file(tree.join("new"), 1);
                file(tree.join("empty/new"), 1);
                assert_eq!(not_in_it(&at, "1.tar", &[]), ["tree/new"], "{make:?}");
            }
        });
    }
}

#[test]
fn files_on_skipped_mounts_are_not_reported() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let at = tmpfs(ground.join("at"));
            let tree = dir(at.join("tree"));
            file(tmpfs(tree.join("mounted")).join("file"), 1);
            dump(&at, "without.tar", &["-x"]);
            dump(&at, "with.tar", &[]);
            file(tree.join("mounted/new"), 1);
            assert!(not_in_it(&at, "without.tar", &[]).is_empty());
            assert_eq!(not_in_it(&at, "with.tar", &[]), ["tree/mounted/new"]);
        });
    }
}

#[test]
fn against_must_be_a_directory() {
    let place = tempfile::tempdir().unwrap();
    let archive = place.path().join("a.tar");
    fs::write(&archive, pack(&[])).unwrap();
    run(&mut fathom(args![
        "verify",
        &archive,
        "--against",
        place.path().join("missing")
    ]))
    .refused();
    run(&mut fathom(args![
        "verify",
        &archive,
        "--against",
        &archive
    ]))
    .refused();
    run(&mut fathom(args![
        "verify",
        &archive,
        "--against",
        place.path()
    ]))
    .exits(0);
}

/// An archive of /srv has members srv/..., so it must be compared with /.
#[test]
fn directory_at_the_wrong_level_is_an_error_with_the_right_one() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path().canonicalize().unwrap();
    let top = dir(place.join("a/top"));
    file(top.join("sub/f"), 1);
    let dump = |from: &str, to: &str, source: &str| {
        run(fathom(args!["dump", source, "-q", "-o", place.join(to)]).current_dir(place.join(from)))
            .exits(0);
    };
    dump("a", "top.tar", "top");
    dump("a", "deep.tar", "top/sub");
    dump("a/top", "dot.tar", ".");
    let verify = |archive: &str, against: &str| {
        let against = place.join(against);
        let archive = place.join(archive);
        run(&mut fathom(args!["verify", archive, "--against", against]))
    };
    for (archive, against, right) in [
        ("top.tar", "a/top", "a"),
        ("top.tar", "", "a"),
        ("deep.tar", "a/top/sub", "a"),
        ("deep.tar", "a/top", "a"),
        ("dot.tar", "a", "a/top"),
    ] {
        let ran = verify(archive, against).refused();
        let right = format!("use --against '{}'", place.join(right).display());
        assert!(ran.stderr.contains(&right), "{archive} {against}: {ran}");
    }
    verify("top.tar", "a").exits(0);
    // A different directory with the same entries.
    file(dir(place.join("other/sub")).join("f"), 1);
    for (archive, against, prefix) in [
        ("top.tar", "other", "top"),
        ("deep.tar", "other", "top"),
        ("deep.tar", "other/sub", "top/sub"),
    ] {
        let ran = verify(archive, against).refused();
        let command = format!("(cd '{prefix}' && fathom dump . -o ARCHIVE)");
        assert!(ran.stderr.contains(&command), "{archive} {against}: {ran}");
    }
    fs::remove_dir_all(place.join("other")).unwrap();
    // Without a better directory, each missing member is reported.
    fs::remove_dir_all(&top).unwrap();
    let ran = verify("top.tar", "a").exits(1);
    assert!(ran.stderr.contains("does not exist"), "{ran}");
}

/// A directory above listed names that are all excluded is not dumped, and need not be in the archive.
#[test]
fn directories_above_excluded_names_are_not_missed() {
    let place = tempfile::tempdir().unwrap();
    let at = place.path();
    for name in [
        "s/kept/f",
        "s/cache/deep/x",
        "s/other/x",
        "s/other/y",
        "s/own/z",
    ] {
        file(at.join(name), 1);
    }
    let names = [
        "s",
        "s/kept",
        "s/cache/deep/x",
        "s/other/x",
        "s/other/y",
        "s/none",
    ];
    for (listed, excluded) in [
        (&names[1..], "x"),
        (&names[1..], "cache"),
        (&names[1..], "s/cache"),
        (&names[1..], "deep"),
        (&names[..], "x"),
    ] {
        fs::write(at.join("list"), listed.join("\n")).unwrap();
        let options = ["--files-from", "list", "--exclude", excluded];
        let words = [&["dump", "-q", "-o", "a.tar"], &options[..]].concat();
        run(fathom(words).current_dir(at));
        let words = [&["verify", "a.tar", "--against", "."], &options[..]].concat();
        let ran = run(fathom(words).current_dir(at)).exits(1);
        let lost = "'s/none': listed, but neither in the archive nor in the tree";
        assert!(
            ran.stderr.contains(lost) && !ran.stderr.contains("'s/own"),
            "{ran}"
        );
    }
    // A list with CRLF line ends: its names are neither in the archive nor in the tree. A name that
    // was not dumped is in the tree only.
    for (listed, lost, hint) in [
        ("s/kept\r\ns/own\r\n", "listed, but neither", true),
        ("s/kept\ns/own/z\ns/other", "not in the archive", false),
    ] {
        fs::write(at.join("list"), "s/kept\n").unwrap();
        run(fathom(["dump", "-q", "-o", "a.tar", "--files-from", "list"]).current_dir(at)).exits(0);
        fs::write(at.join("list"), listed).unwrap();
        let words = ["verify", "a.tar", "--against", ".", "--files-from", "list"];
        let ran = run(fathom(words).current_dir(at)).exits(1);
        assert_eq!(ran.stderr.matches(lost).count(), 2, "{ran}");
        assert_eq!(ran.stderr.contains("tr -d"), hint, "{ran}");
    }
}

/// Files on a mount that was not entered need not be in an increment either.
#[test]
fn mounts_that_were_not_entered_are_not_missed() {
    if require(&[Need::Root]) {
        in_namespace(|at| {
            file(at.join("s/a"), 1);
            let disk = tmpfs(at.join("s/disk"));
            dir(at.join("state"));
            for level in ["0", "1", "1"] {
                file(disk.join(level), 1);
                file(at.join("s/b").join(level), 1);
                let archive = format!("{level}.tar");
                let words = [
                    "dump", "s", "-x", "-o", &archive, "--level", level, "--state", "state",
                ];
                run(fathom(words).current_dir(at)).exits(0);
                run(fathom(["verify", &archive, "--against", "."]).current_dir(at)).exits(0);
            }
        });
    }
}

/// A directory exists, but its server reports ENOENT.
#[test]
fn directories_that_cannot_be_listed_are_named() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|at| {
        let far = at.join("far");
        let serve = |unopened: &[(&'static str, i32)], unreadable: &[(&'static str, i32)]| {
            let tree = SyntheticTree {
                directories: 2,
                files: 2,
                unopened: unopened.to_vec(),
                unreadable: unreadable.to_vec(),
                ..SyntheticTree::default()
            };
            serve_synthetic(tree, &far)
        };
        let verify = |code| {
            let words = ["verify", "archive.tar", "--against", "."];
            let ran = run(fathom(words).current_dir(at)).exits(code);
            unmount_whole(&far);
            ran
        };
        let server = serve(&[], &[]);
        run(fathom(["dump", "far", "-q", "-o", "archive.tar"]).current_dir(at)).exits(0);
        verify(0);
        drop(server);
        for errno in [libc::ENOENT, libc::ENOTDIR, libc::ESTALE, libc::EIO] {
            for faults in [(&[("d1", errno)][..], &[][..]), (&[], &[("d1", errno)])] {
                let server = serve(faults.0, faults.1);
                let ran = verify(1);
                assert!(
                    ran.stderr.contains("'far/d1': cannot list the directory"),
                    "{ran}"
                );
                drop(server);
            }
        }
    });
}

/// A symlink above the SRC is followed, as the dump did; a symlink in place of a member is not.
#[test]
fn symlinks_above_all_members_are_followed() {
    in_namespace(|at| {
        for name in ["p/s/f", "p/s/d/g", "real/deep/x", "beside/f"] {
            file(at.join(name), 1);
        }
        symlink("p", at.join("link")).unwrap();
        symlink(at.join("real"), at.join("p/absolute")).unwrap();
        let verify = |sources: &[&str], code: i32| {
            let words = [&["dump", "-q", "-o", "a.tar"], sources].concat();
            if code == 0 {
                run(fathom(words).current_dir(at)).exits(0);
            }
            run(fathom(["verify", "a.tar", "--against", "."]).current_dir(at)).exits(code)
        };
        verify(&["p/s", "link/absolute/deep"], 0);
        verify(&["link/s/f"], 0);
        verify(&["link/s"], 0);
        file(at.join("p/s/new"), 1);
        let ran = verify(&["link/s"], 1);
        assert!(
            ran.stderr.contains("'link/s/new': not in the archive"),
            "{ran}"
        );
        fs::remove_file(at.join("p/s/new")).unwrap();
        fs::rename(at.join("p/s/d"), at.join("moved")).unwrap();
        symlink("../../moved", at.join("p/s/d")).unwrap();
        let ran = verify(&["link/s"], 1);
        assert!(ran.stderr.contains("'link/s/d/g': cannot open"), "{ran}");
    });
}

/// The files were last read before their last change, so a read without O_NOATIME would update
/// their access times.
#[test]
fn access_times_do_not_change() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|ground| {
        let at = tmpfs(ground.join("at"));
        let tree = dir(at.join("tree"));
        file(tree.join("d/file"), 10_000);
        let sparse = fs::File::create(tree.join("sparse")).unwrap();
        sparse.set_len(1 << 20).unwrap();
        sparse.write_all_at(b"data", 500_000).unwrap();
        let paths = ["tree/d/file", "tree/sparse", "tree/d", "tree"].map(|path| at.join(path));
        let time = |tv_sec| Timespec { tv_sec, tv_nsec: 7 };
        let times = Timestamps {
            last_access: time(1_000_000_000),
            last_modification: time(1_100_000_000),
        };
        for path in &paths {
            utimensat(CWD, path, &times, AtFlags::empty()).unwrap();
        }
        dir(at.join("state"));
        dump(&at, "archive.tar", &["--level", "0", "--state", "state"]);
        for archive in [&["archive.tar"][..], &["--state", "state"]] {
            let mut command = fathom(args!["verify", "--against", "."]);
            run(command.args(archive).current_dir(&at)).exits(0);
            for path in &paths {
                let seen = path.metadata().unwrap().atime();
                assert_eq!(seen, 1_000_000_000, "{path:?}, {archive:?}");
            }
        }
        fs::read(&paths[0]).unwrap();
        assert_ne!(paths[0].metadata().unwrap().atime(), 1_000_000_000);
    });
}

#[test]
fn ignored_metadata_is_not_compared() {
    let programs = ["setfattr", "mkfs.ext4"].map(Need::Program);
    if !require(&[&[Need::Root, Need::Loop], &programs[..]].concat()) {
        return;
    }
    in_namespace(|ground| {
        let at = disk("ext4", &ground.join("disk"));
        let (one, other) = (dir(at.join("one")), dir(at.join("other")));
        for top in [&one, &other] {
            file(top.join("owner"), 10);
            file(top.join("mode"), 10);
            file(top.join("xattr"), 10);
            file(top.join("a"), 300_000);
        }
        fs::hard_link(one.join("a"), one.join("link")).unwrap();
        fs::copy(other.join("a"), other.join("link")).unwrap();
        chown(other.join("owner"), Some(12345), None).unwrap();
        chmod(other.join("mode"), 0o600);
        chmod(one.join("mode"), 0o640);
        let mut attribute = Command::new("setfattr");
        tool(
            attribute
                .args(["-n", "user.a", "-v", "1"])
                .arg(other.join("xattr")),
        );
        let time = |tv_sec| Timespec { tv_sec, tv_nsec: 7 };
        for (top, sec) in [(&one, 1_000_000_000), (&other, 1_100_000_000)] {
            for name in ["owner", "mode", "xattr", "a", "link", "."] {
                let times = Timestamps {
                    last_access: time(sec),
                    last_modification: time(sec),
                };
                utimensat(CWD, top.join(name), &times, AtFlags::empty()).unwrap();
            }
        }
        let archive = at.join("archive.tar");
        let dump = args!["dump", ".", "-q", "-o", &archive];
        run(fathom(dump).current_dir(&one)).exits(0);
        let differences = |ignored: &str, code: i32| -> String {
            let mut command = fathom(args!["verify", &archive, "--against", &other, "--json"]);
            if !ignored.is_empty() {
                command.args(["--ignore", ignored]);
            }
            let value = run(&mut command).exits(code).json();
            let warnings = value["warnings"].as_array().unwrap().iter();
            let messages = warnings.map(|it| it["message"].as_str().unwrap().to_owned());
            messages.collect::<Vec<_>>().join("\n")
        };
        let all = ["mtime", "owner", "mode", "xattrs", "links"];
        let words = [
            "modification time differs",
            "owner differs",
            "mode differs",
            "extended attribute 'user.a'",
            "not a hard link",
        ];
        let found = differences("", 1);
        for (nth, word) in words.iter().enumerate() {
            assert!(found.contains(word), "{word}: {found}");
            let others: Vec<&str> = all.iter().copied().filter(|it| *it != all[nth]).collect();
            let found = differences(&others.join(","), 1);
            let mut lines = found.lines();
            assert!(lines.all(|line| line.contains(word)), "{word}: {found}");
        }
        let all = all.join(",");
        assert_eq!(differences(&all, 0), "");
        // The contents of hard links are compared all the same.
        let link = fs::OpenOptions::new().write(true).open(other.join("link"));
        link.unwrap().write_all_at(b"y", 290_000).unwrap();
        assert_eq!(differences(&all, 1), "contents differ from byte 290001 on");
        file(other.join("a"), 5);
        assert!(differences(&all, 1).contains("size differs"));
        fs::remove_file(other.join("link")).unwrap();
        dir(other.join("link"));
        assert!(differences(&all, 1).contains("type differs: directory"));
    });
}

/// Members on a mount that does not answer are skipped, by any path that leads there.
#[test]
fn mounts_that_do_not_answer_are_skipped() {
    if !require(&[Need::Root, Need::Fuse]) {
        return;
    }
    in_namespace(|at| {
        for name in ["far/x", "far/y", "near"] {
            file(at.join("tree").join(name), 10);
        }
        fs::hard_link(at.join("tree/far/x"), at.join("tree/link")).unwrap();
        symlink("tree", at.join("symlink")).unwrap();
        fs::write(at.join("list"), "tree/far/none\ntree/near\n").unwrap();
        dir(at.join("state"));
        let dump = |source: &str, archive: &str, more: &[&str]| {
            let words = [&["dump", "-q", source, "-o", archive], more].concat();
            run(fathom(words).current_dir(at)).exits(0);
        };
        dump("tree", "a.tar", &[]);
        dump("symlink/far", "symlink.tar", &[]);
        dump("tree/far/x", "x.tar", &[]);
        dump("tree", "0.tar", &["--level", "0", "--state", "state"]);
        let verify = |words: &str| {
            let mut command = fathom(args!["verify", "--deadline", "1s", "--json"]);
            run(command.args(words.split(' ')).current_dir(at))
        };
        let _server = serve(Hung, at.join("tree/far"));
        // Of the members tree, far, x, y, link and near, three are on the mount.
        let state = "--state state --against .";
        for (words, path, compared) in [
            ("a.tar --against .", "./tree/far", 3),
            ("a.tar --against . --exclude far", "./tree/far", 3),
            ("a.tar --against . --files-from list", "./tree/far", 3),
            ("a.tar --against . --ignore links", "./tree/far", 3),
            ("symlink.tar --against .", "./symlink/far", 0),
            (state, "./tree/far", 3),
        ] {
            let value = verify(words).exits(1).json();
            let [warning] = &value["warnings"].as_array().unwrap()[..] else {
                panic!("{words}: {value}");
            };
            assert_eq!(warning["path"], path, "{words}: {value}");
            let message = warning["message"].as_str().unwrap();
            assert!(message.contains("does not answer within 1.00 s"), "{value}");
            let result = &value["result"];
            for (field, expected) in [("compared", compared), ("different", 0), ("unknown", 0)] {
                assert_eq!(result[field], expected, "{words}, {field}: {value}");
            }
        }
        // The mount does not matter to members beside it.
        verify("a.tar --against . -- tree/near tree/link").exits(0);
        // The search for the right directory does not enter the mount.
        verify("x.tar --against tree").exits(1);
        let refused = verify("a.tar --against tree/far").exits(2);
        let message = "'tree/far' does not answer within 1.00 s";
        assert!(refused.stderr.contains(message), "{refused}");
        verify("a.tar").exits(2);
        // A mount point that is not in the archive.
        let _other = serve(Hung, at.join("tree/new"));
        for words in [
            "a.tar --against . --ignore mtime",
            &format!("{state} --ignore mtime"),
        ] {
            let value = verify(words).exits(1).json();
            let warnings = value["warnings"].as_array().unwrap().iter();
            let paths: Vec<&str> = warnings.map(|it| it["path"].as_str().unwrap()).collect();
            assert_eq!(paths, ["./tree/far", "./tree/new"], "{value}");
            assert_eq!(value["result"]["unknown"], 0, "{value}");
        }
    });
}

#[test]
fn a_relative_source_is_compared_below_the_root() {
    let place = tempfile::tempdir().unwrap();
    let at = place.path();
    file(dir(at.join("tree/sub")).join("f"), 7);
    dir(at.join("state"));
    let words = "dump -q tree/sub -o 0.tar --level 0 --state state";
    run(fathom(words.split(' ')).current_dir(at)).exits(0);
    let words = "verify --state state --against /";
    run(fathom(words.split(' ')).current_dir(at)).exits(0);
    run(fathom("verify --state state --against .".split(' ')).current_dir(at)).exits(0);
    std::fs::write(at.join("tree/sub/f"), "changed").unwrap();
    let ran = run(fathom(words.split(' ')).current_dir(at)).exits(1);
    let member = at.join("tree/sub/f");
    let member = member.strip_prefix("/").unwrap();
    assert!(ran.stderr.contains(member.to_str().unwrap()), "{ran}");
}

/// Each archive of a chain is compared by itself; `--state` compares the tree of the newest dump.
#[test]
fn archives_are_compared_one_by_one_and_chains_by_state() {
    let place = tempfile::tempdir().unwrap();
    let at = place.path();
    let fathom = |words: &str| run(fathom(words.split(' ')).current_dir(at));
    dir(at.join("state"));
    for level in 0..2 {
        file(at.join("tree/f"), 7 + level);
        fathom(&format!(
            "dump -q tree -o {level}.tar --level {level} --state state"
        ))
        .exits(0);
    }
    let ran = fathom("verify 0.tar 1.tar --against .").exits(1);
    assert!(ran.stderr.contains("'tree/f': size differs"), "{ran}");
    fathom("verify --state state --against .").exits(0);
    let help = String::from_utf8(fathom("verify --help").exits(0).stdout).unwrap();
    let words: Vec<&str> = help.split_whitespace().collect();
    assert!(
        words.join(" ").contains("verify --state DIR checks chains"),
        "{help}"
    );
}

/// A search for the right directory must not cost a call for each pair of components.
#[test]
fn deep_names_of_another_tree_are_compared_soon() {
    let place = tempfile::tempdir().unwrap();
    let name = |nth: u8| format!("n{nth}/{}", "a/".repeat(60_000));
    let members = [0, 1].map(|nth| (plain(name(nth) + "f", b"data"), &b"data"[..]));
    let archive = place.path().join("deep.tar");
    fs::write(&archive, pack(&members)).unwrap();
    let empty = dir(place.path().join("empty"));
    let words = args!["verify", &archive, "--against", &empty, "--json"];
    let calls = run(&mut fathom(words)).exits(1).json()["gates"]["openat2"]["calls"].clone();
    assert!(calls.as_u64().unwrap() < 1000, "{calls}");
}
