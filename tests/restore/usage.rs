//! Tests of the command line, interrupted restores, and full disks.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::IFlags;
use rustix::mount::{MountFlags, mount, mount_remount};
use serde_json::Value;

use crate::support::build::{bush, dir, file, tmpfs, unmount};

use crate::support::disks::{EXT4, mounted};
use crate::support::restrict::fail_calls;
use crate::support::run::{args, exact};
use crate::support::snapshot::{Seen, alike, kept, same};
use crate::support::strace::{agree, less_start};
use crate::support::tool::tool;
use crate::support::trees::{flag, grow};
use crate::support::{Need, fathom, in_namespace, require, run};

fn archived(top: &Path, to: &Path) -> PathBuf {
    tool(
        Command::new("tar")
            .args(["--format=posix", "--sparse", "-cf"])
            .arg(to)
            .arg("-C")
            .arg(top)
            .arg("."),
    );
    to.to_owned()
}

#[test]
fn a_directory_in_place_of_a_path_gets_a_hint() {
    let place = tempfile::tempdir().unwrap();
    let top = dir(place.path().join("top"));
    file(top.join("f"), 3);
    let archive = archived(&top, &place.path().join("archive"));
    dir(place.path().join("an out"));
    let words = args!["restore", &archive, "--", "an out"];
    let ran = run(fathom(words).current_dir(place.path())).exits(1);
    let told = "hint: to restore below it, use -C 'an out'";
    assert!(ran.stderr.contains(told), "{ran}");
}

#[test]
fn only_selected_paths_are_restored() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let top = tmpfs(ground.join("top"));
            bush(&top, 3, 3);
            file(top.join("d0/deep/er/file"), 3);
            let archive = archived(&top, &ground.join("archive"));
            let names = |to: &Path| kept(to).len() - 1;
            for (paths, count) in [
                (&["d0/deep/er"][..], 4),
                (&["./d1/", "d2/f0"], 6),
                (&["--", "d0"], 7),
                (&["d1", "./d1", "d1"], 4),
                (&["."], 15),
            ] {
                let to = tempfile::tempdir_in(ground).unwrap();
                run(fathom(args!["restore", &archive, "-C", to.path()]).args(paths)).exits(0);
                assert_eq!(names(to.path()), count, "{paths:?}");
            }
            let to = dir(ground.join("to"));
            let ran = run(&mut fathom(args![
                "restore", &archive, "-C", &to, "--", "d1", "d9"
            ]))
            .exits(1);
            assert!(ran.stderr.contains("'d9'"), "{ran}");
            assert_eq!(names(&to), 4);
            run(&mut fathom(args!["restore", &archive, "-C", &to, "../x"])).refused();
        });
    }
}

#[test]
fn wildcards_select_the_same_as_with_bsdtar() {
    if require(&[Need::Root, Need::Program("bsdtar")]) {
        in_namespace(|ground| {
            let top = tmpfs(ground.join("top"));
            bush(&top, 3, 3);
            file(top.join("d0/deep/er/file"), 3);
            let archive = archived(&top, &ground.join("archive"));
            for pattern in ["d*/f0", "d[12]", "*/deep", "d?/f[!0]", "*er/f*", "./d1/*"] {
                let (to, by_bsd) = (dir(ground.join("to")), dir(ground.join("by_bsd")));
                let mut bsdtar = Command::new("bsdtar");
                tool(
                    bsdtar
                        .arg("-xpf")
                        .arg(&archive)
                        .arg("-C")
                        .arg(&by_bsd)
                        .arg(pattern),
                );
                run(&mut fathom(args!["restore", &archive, "-C", &to, pattern])).exits(0);
                // Both programs create the directories above a PATH.
                let names = |to: &Path| kept(to).into_keys().collect::<Vec<_>>();
                assert_eq!(names(&to), names(&by_bsd), "{pattern}");
                for to in [to, by_bsd] {
                    fs::remove_dir_all(to).unwrap();
                }
            }
            let to = dir(ground.join("to"));
            let missed = args!["restore", &archive, "-C", &to, "d1", "x*"];
            run(&mut fathom(missed)).refused();
            assert_eq!(kept(&to).len(), 1);
            let missed = args!["restore", &archive, "-C", &to, "--", "d1", "*1", "x*"];
            let ran = run(&mut fathom(missed)).exits(1);
            assert!(
                ran.stderr.contains("'x*'") && !ran.stderr.contains("'*1'"),
                "{ran}"
            );
        });
    }
}

#[test]
fn files_that_are_no_archive_are_refused() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let to = dir(ground.join("to"));
            let text = file(ground.join("text"), 2000);
            let empty = file(ground.join("empty"), 0);
            for bad in [ground.join("nowhere"), text, empty, to.clone()] {
                run(&mut fathom(args!["restore", bad, "-C", &to])).refused();
            }
            bush(&ground.join("top"), 1, 1);
            let archive = archived(&ground.join("top"), &ground.join("archive"));
            let ran = run(&mut fathom(args![
                "restore",
                &archive,
                "-C",
                ground.join("missing")
            ]))
            .refused();
            assert!(ran.stderr.contains("create it first"), "{ran}");
            run(&mut fathom(args![
                "restore",
                &archive,
                ground.join("nowhere"),
                "-C",
                &to,
                "--",
                "d0"
            ]))
            .refused();
            assert_eq!(kept(&to).len(), 1);
        });
    }
}

#[test]
fn archive_on_standard_input() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let top = tmpfs(ground.join("top"));
            bush(&top, 3, 3);
            file(top.join("large"), 3 << 20);
            let archive = fs::read(archived(&top, &ground.join("archive"))).unwrap();
            let to = dir(ground.join("to"));
            let mut child = fathom(args!["restore", "-", "-C", &to])
                .stdin(Stdio::piped())
                .spawn()
                .unwrap();
            child.stdin.take().unwrap().write_all(&archive).unwrap();
            assert!(child.wait().unwrap().success());
            assert_eq!(kept(&to).len(), kept(&top).len());
            // A truncated archive: its complete members are restored, and nothing else.
            let to = dir(ground.join("half"));
            let mut restore = fathom(args!["restore", "-", "-C", &to]);
            let mut child = restore
                .stdin(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            child
                .stdin
                .take()
                .unwrap()
                .write_all(&archive[..archive.len() / 2])
                .unwrap();
            let out = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            assert_eq!(
                (out.status.code(), said.contains("truncated")),
                (Some(1), true),
                "{said}"
            );
            assert!(!to.join("large").exists());
        });
    }
}

#[test]
fn interrupted_restore_leaves_no_partial_file() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let top = tmpfs(ground.join("top"));
            file(top.join("large"), 3 << 20);
            let archive = fs::read(archived(&top, &ground.join("archive"))).unwrap();
            for signal in ["INT", "TERM", "KILL"] {
                let to = dir(ground.join(signal));
                let mut child = fathom(args!["restore", "-", "-C", &to])
                    .stdin(Stdio::piped())
                    .spawn()
                    .unwrap();
                let mut pipe = child.stdin.take().unwrap();
                pipe.write_all(&archive[..2 << 20]).unwrap();
                tool(
                    Command::new("kill")
                        .arg(format!("-{signal}"))
                        .arg(child.id().to_string()),
                );
                assert!(!child.wait().unwrap().success());
                assert_eq!(kept(&to).len(), 1, "{signal}");
            }
        });
    }
}

#[test]
fn gates_count_the_calls_that_strace_counts() {
    if require(&[Need::Root, Need::Program("strace")]) {
        in_namespace(|ground| {
            let top = tmpfs(ground.join("top"));
            bush(&top, 5, 20);
            fs::hard_link(top.join("d0/f0"), top.join("d1/link")).unwrap();
            let archive = archived(&top, &ground.join("archive"));
            let traced = less_start(
                &ground.join("log"),
                args![
                    "restore",
                    &archive,
                    "-C",
                    dir(ground.join("to")),
                    "--json",
                    "--sync"
                ],
            );
            let gates = &traced.ran.json()["gates"];
            agree(gates, &traced.counts, "restore");
            let calls: u64 = gates
                .as_object()
                .unwrap()
                .values()
                .map(|gate| gate["calls"].as_u64().unwrap())
                .sum();
            // For an empty file: openat, utimensat, linkat, close. For a directory, one statx finds
            // the owner of new entries in it.
            assert!(calls < 100 * 4 + 6 * 13 + 60, "{calls} calls: {gates}");
            assert!(gates["fchownat"]["calls"].as_u64() <= Some(7), "{gates}");
            assert_eq!(gates["syncfs"]["calls"], 1, "{gates}");
        });
    }
}

/// Writes an archive `A` with a Python script.
fn by_python(script: &str, to: &Path) -> PathBuf {
    let head = "import io, sys, tarfile\nA = sys.argv[1]\n";
    tool(
        Command::new("python3")
            .args(["-c", &format!("{head}{script}")])
            .arg(to),
    );
    to.to_owned()
}

#[test]
fn times_are_exact() {
    if require(&[Need::Root, Need::Program("python3")]) {
        in_namespace(|ground| {
            let script = r#"
with tarfile.open(A, "w", format=tarfile.PAX_FORMAT) as t:
    for name, kind in ("d", tarfile.DIRTYPE), ("d/f", tarfile.REGTYPE), ("d/l", tarfile.SYMTYPE), ("d/p", tarfile.FIFOTYPE):
        m = tarfile.TarInfo(name)
        m.type, m.linkname, m.mode, m.pax_headers = kind, "x", 0o755, {"mtime": "-1.5", "atime": "1234567890.123456789"}
        t.addfile(m)"#;
            let archive = by_python(script, &ground.join("archive"));
            for _ in 0..2 {
                let to = dir(ground.join("to"));
                run(&mut fathom(args!["restore", &archive, "-C", &to])).exits(0);
                for name in ["d", "d/f", "d/l", "d/p"] {
                    // Use lstat(2) instead of a snapshot, which would read the directory and update
                    // its access time.
                    let seen = to.join(name).symlink_metadata().unwrap();
                    let times = (
                        (seen.mtime(), seen.mtime_nsec()),
                        (seen.atime(), seen.atime_nsec()),
                    );
                    assert_eq!(
                        times,
                        ((-2, 500_000_000), (1_234_567_890, 123_456_789)),
                        "{name}"
                    );
                }
            }
        });
    }
}

#[test]
fn directory_entered_twice_keeps_its_times() {
    if require(&[Need::Root, Need::Loop, Need::Program("python3")]) {
        in_namespace(|ground| {
            let script = r#"
with tarfile.open(A, "w") as t:
    for name, kind in ("a", tarfile.DIRTYPE), ("b", tarfile.DIRTYPE), ("a/f", tarfile.REGTYPE), ("b/g", tarfile.REGTYPE), ("a/h", tarfile.REGTYPE):
        m = tarfile.TarInfo(name)
        m.type, m.mode, m.mtime = kind, 0o755, 1000
        t.addfile(m)"#;
            let archive = by_python(script, &ground.join("archive"));
            // If the file system stores whole seconds only, a file created in this run has a time
            // before the start of the run.
            let small_inodes = EXT4.into_iter().find(|make| make.mkfs == "-I 128").unwrap();
            assert!(mounted(small_inodes, &ground.join("disk")));
            for to in [ground.join("to"), ground.join("disk/to")] {
                run(&mut fathom(args!["restore", &archive, "-C", dir(&to)])).exits(0);
                for name in ["a", "b"] {
                    assert_eq!(to.join(name).metadata().unwrap().mtime(), 1000, "{name}");
                }
            }
        });
    }
}

#[test]
fn damaged_contents_are_reported() {
    if require(&[Need::Root, Need::Program("python3")]) {
        in_namespace(|ground| {
            let script = r#"
with tarfile.open(A, "w", format=tarfile.PAX_FORMAT) as t:
    for name, sum in ("right", "c2e7b03a3c9f4ed5ccfbfd24a4a5a2bfd7a1bf4f3cd5d9c1d7c4d0e1e5a0b0c1"), ("unsaid", None):
        m = tarfile.TarInfo(name)
        m.size = 4
        m.pax_headers = {"comment": "blake3=" + sum} if sum else {}
        t.addfile(m, io.BytesIO(b"abcd"))"#;
            let archive = by_python(script, &ground.join("archive"));
            let ran = run(&mut fathom(args![
                "restore",
                &archive,
                "-C",
                dir(ground.join("to"))
            ]))
            .exits(1);
            assert!(
                ran.stderr.contains("'right'") && !ran.stderr.contains("'unsaid'"),
                "{ran}"
            );
        });
    }
}

#[test]
fn restore_without_openat2() {
    const OPENAT2: u32 = 437;
    if require(&[Need::Root, Need::Program("python3")]) {
        in_namespace(|ground| {
            let top = tmpfs(ground.join("top"));
            grow(&top, 3, 100);
            // An archive contains no sockets.
            let archive = archived(&top, &ground.join("archive"));
            let outside = dir(ground.join("outside"));
            let script = r#"
with tarfile.open(A, "w") as t:
    for name, kind in ("l", tarfile.SYMTYPE), ("l/evil", tarfile.REGTYPE), ("l/d", tarfile.DIRTYPE), ("d/e/f", tarfile.REGTYPE):
        m = tarfile.TarInfo(name)
        m.type, m.linkname = kind, "../outside"
        t.addfile(m)"#;
            let evil = by_python(script, &ground.join("evil"));
            for (errno, place) in [(libc::ENOSYS, "one"), (libc::EPERM, "two")] {
                let to = dir(ground.join(place));
                let restore = |archive: &Path| {
                    let mut restore = fathom(args!["restore", archive, "-C", &to]);
                    fail_calls(&mut restore, &[OPENAT2], errno);
                    run(&mut restore)
                };
                restore(&archive).exits(0);
                alike(&kept(&top), &kept(&to), place, |_, seen| {
                    (seen.atime, seen.twin) = ((0, 0), None);
                    seen.attributes.clear();
                    seen.data.clear();
                });
                restore(&evil).exits(1);
                assert!(kept(&outside).len() == 1 && to.join("d/e/f").is_file());
            }
        });
    }
}

/// Files that fit are complete; a warning names each file that does not fit, and no part of it is
/// left. With more space, a second restore completes the tree.
#[test]
fn full_disk() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let top = tmpfs(ground.join("top"));
            (0..60).for_each(|n| drop(file(top.join(format!("d{}/f{n:02}", n % 3)), 30_000)));
            file(top.join("large"), 900_000);
            let archive = archived(&top, &ground.join("archive"));
            let small = dir(ground.join("small"));
            for (what, options) in [("bytes", c"size=1m"), ("inodes", c"nr_inodes=20")] {
                mount("small", &small, "tmpfs", MountFlags::empty(), options).unwrap();
                let to = dir(small.join("to"));
                let ran =
                    run(&mut fathom(args!["restore", &archive, "-C", &to, "--json"])).exits(1);
                let value = ran.json();
                let warnings = value["warnings"].as_array().unwrap();
                let is_named = |name: &[u8]| {
                    let is_it = |warning: &Value| {
                        let says_next = warning["message"]
                            .as_str()
                            .unwrap()
                            .ends_with("; free some space, and restore again");
                        warning["errno"] == "ENOSPC"
                            && says_next
                            && exact(warning, "path").ends_with(name)
                    };
                    warnings.iter().any(is_it)
                };
                let (is, wanted) = (kept(&to), kept(&top));
                let bare = |seen: &Seen| Seen {
                    atime: (0, 0),
                    ..seen.clone()
                };
                for (name, seen) in wanted.iter().filter(|(_, seen)| seen.kind == '-') {
                    match is.get(name) {
                        None => {
                            assert!(is_named(name), "{what}: {name:?} is missing, and not named")
                        }
                        Some(found) => {
                            assert_eq!(bare(found), bare(seen), "{what}: {name:?} is not whole")
                        }
                    }
                }
                let sizes = is
                    .values()
                    .filter(|seen| seen.kind == '-')
                    .map(|seen| seen.size)
                    .sum::<u64>();
                assert_eq!(
                    value["result"]["bytes"], sizes,
                    "{what}: of what is not there nothing is restored"
                );
                assert!(
                    is.keys().all(|name| wanted.contains_key(name)),
                    "{what}: something else is there"
                );
                assert!(
                    is.len() > 5 && is.len() < wanted.len(),
                    "{what}: {} of {}",
                    is.len(),
                    wanted.len()
                );
                // The error is printed once, with the number of files that it concerns.
                let ran = run(&mut fathom(args!["restore", &archive, "-C", &to])).exits(1);
                let lines = ran.stderr.matches("No space left on device").count();
                assert!(lines == 2 && ran.stderr.contains(" more warning"), "{ran}");
                let more = if what == "bytes" {
                    c"size=8m"
                } else {
                    c"nr_inodes=200"
                };
                mount_remount(&small, MountFlags::empty(), more).unwrap();
                run(&mut fathom(args!["restore", &archive, "-C", &to])).exits(0);
                same(&kept(&to), &wanted, what);
                unmount(&small);
            }
        });
    }
}

/// An immutable file is not changed, and everything else is restored.
#[test]
fn immutable_file_is_reported_and_the_rest_restored() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|ground| {
            let top = dir(ground.join("top"));
            for name in ["a", "b"] {
                file(top.join(name), 10);
            }
            let archive = archived(&top, &ground.join("archive"));
            let disk = ground.join("disk");
            assert!(mounted(EXT4[0], &disk));
            let to = dir(disk.join("to"));
            run(&mut fathom(args!["restore", &archive, "-C", &to])).exits(0);
            fs::write(to.join("a"), "kept").unwrap();
            flag(&to.join("a"), IFlags::IMMUTABLE);
            let ran = run(&mut fathom(args!["restore", &archive, "-C", &to])).exits(1);
            assert!(
                ran.stderr.contains("lsattr shows whether it is immutable"),
                "{ran}"
            );
            assert_eq!(
                (
                    fs::read(to.join("a")).unwrap(),
                    fs::read(to.join("b")).unwrap().len()
                ),
                (b"kept".to_vec(), 10)
            );
        });
    }
}

/// A directory is dumped twice, as a SRC and inside a second SRC, so in the second copy a hard link
/// refers to itself.
#[test]
fn dry_run_has_the_counts_of_the_restore() {
    if require(&[Need::Root]) {
        let place = tempfile::tempdir().unwrap();
        let (archive, to) = (place.path().join("a.tar"), dir(place.path().join("to")));
        file(place.path().join("a/b/f"), 3);
        fs::hard_link(place.path().join("a/b/f"), place.path().join("a/g")).unwrap();
        run(fathom(args!["dump", "a", "a/b", "-o", archive]).current_dir(place.path())).exits(0);
        let restored = |more: &[&str]| {
            let ran =
                run(fathom(args!["restore", &archive, "-C", &to, "--json"]).args(more)).exits(0);
            let result = ran.json()["result"].clone();
            ["files", "directories", "links", "bytes"].map(|what| result[what].clone())
        };
        assert_eq!(restored(&["--dry-run"]), restored(&[]));
        assert_eq!(fs::metadata(to.join("a/g")).unwrap().nlink(), 2);
    }
}

/// A file in the working directory may have the name of a member.
#[test]
fn file_that_is_no_archive_is_refused_before_anything_is_written() {
    if require(&[Need::Root]) {
        let place = tempfile::tempdir().unwrap();
        let to = dir(place.path().join("to"));
        file(place.path().join("a/f"), 3);
        file(place.path().join("a/g"), 3);
        run(fathom(args!["dump", "a", "-o", "a.tar"]).current_dir(place.path())).exits(0);
        let restore = |words: &[&str]| {
            run(fathom(args!["restore", "a.tar", "-C", &to])
                .args(words)
                .current_dir(place.path()))
        };
        for more in [&["a/f"][..], &["a/f", "--dry-run"]] {
            let ran = restore(more).refused();
            assert!(
                ran.stderr.contains("put -- before it") && !to.join("a").exists(),
                "{ran}"
            );
        }
        restore(&["--", "a/f"]).exits(0);
        assert!(to.join("a/f").exists() && !to.join("a/g").exists());
    }
}

/// Without `--`, a PATH that is in no archive may be a mistyped archive name, so nothing is
/// restored.
#[test]
fn mistyped_archive_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    file(at("tree/f"), 3);
    let run_in = |words: &[&str]| run(fathom(words).current_dir(place.path()));
    run_in(&["dump", "tree", "-q", "-o", "0.tar", "--catalog", "c"]).exits(0);
    fs::create_dir(at("tree/old")).unwrap();
    run_in(&["dump", "tree", "-q", "-o", "1.tar.zst", "--since", "c"]).exits(0);
    fs::rename(at("tree"), at("aside")).unwrap();
    fs::create_dir(at("o")).unwrap();
    for (words, missing, hint) in [
        (
            &["0.tar", "1.tra"][..],
            "1.tra",
            "check the name of the archive",
        ),
        (&["0.tar", "1.tra", "2.tar"], "1.tra", "check the name"),
        (&["0.tar", "1.tra", "tree/f"], "1.tra", "check the name"),
        (
            &["0.tar", "1.tar.zst", "tree/f", "x"],
            "x",
            "check the name",
        ),
        (&["0.tar", "1.tra", "--dry-run"], "1.tra", "check the name"),
        (&["0.tar", "o"], "o", "use -C"),
    ] {
        let ran = run_in(&[&["restore", "-C", "o"], words].concat()).refused();
        let error = format!("cannot restore '{missing}': ");
        assert!(
            ran.stderr.contains(&error) && ran.stderr.contains(hint),
            "{ran}"
        );
        assert_eq!(fs::read_dir(at("o")).unwrap().count(), 0, "{words:?}");
    }
    run_in(&["restore", "0.tar", "-C", "o", "--", "1.tra"]).exits(1);
    run_in(&[
        "restore",
        "0.tar",
        "1.tar.zst",
        "-C",
        "o",
        "tree/f",
        "tree/old/",
    ])
    .exits(0);
    assert!(at("o/tree/f").is_file() && at("o/tree/old").is_dir());
}

/// The working directory of a shell may have been removed.
#[test]
fn removed_directory_is_refused() {
    let place = tempfile::tempdir().unwrap();
    file(place.path().join("s/f"), 1);
    let archive = archived(&place.path().join("s"), &place.path().join("archive"));
    let gone = dir(place.path().join("gone"));
    let mut shell = Command::new("sh");
    shell.args(["-c", "rmdir ../gone && exec \"$0\" restore \"$1\""]);
    shell.arg(env!("CARGO_BIN_EXE_fathom")).arg(archive);
    let ran = run(shell.current_dir(gone)).refused();
    assert!(
        ran.stderr.contains("cannot restore into '.': No such file"),
        "{ran}"
    );
}
