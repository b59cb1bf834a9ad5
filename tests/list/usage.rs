//! Tests of the options and output of `fathom list`.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use ondisk::Time;
use ondisk::pax::{Member, MemberKind};

use super::written;
use crate::support::build::file;
use crate::support::pack::{pack, plain};
use crate::support::run::{args, path};
use crate::support::tool::tool;
use crate::support::{Need, fathom, require, run};

/// An archive of four members.
fn small() -> Vec<u8> {
    let mtime = Time {
        sec: 1_700_000_000,
        nsec: 5,
    };
    let of = |path: &str, kind, mode, link: &str| {
        let link = link.into();
        Member {
            path: path.into(),
            kind,
            mode,
            link,
            mtime,
            uname: b"joe".to_vec(),
            gname: b"staff".to_vec(),
            ..Member::default()
        }
    };
    let file = Member {
        mtime,
        mode: 0o4755,
        uid: 7,
        gid: 70000,
        ..plain("d/a\x1b[2J", b"data")
    };
    pack(&[
        (of("d/", MemberKind::Directory, 0o1777, ""), b""),
        (file, b"data"),
        (of("d/s", MemberKind::Symlink, 0o777, "to\nwhere"), b""),
        (of("d/l", MemberKind::Link, 0o644, "d/a\x1b[2J"), b""),
    ])
}

/// The names of the members that a PATH selects.
fn names_of(archive: &Path, path: &str) -> Vec<String> {
    let json = run(&mut fathom(args!["list", "--json", archive, "--", path]))
        .exits(0)
        .json();
    let members = json["result"]["members"].as_array().unwrap().iter();
    members
        .map(|member| member["path"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn each_member_is_printed_on_a_line() {
    let place = tempfile::tempdir().unwrap();
    let archive = place.path().join("a.tar");
    fs::write(&archive, small()).unwrap();
    // Times are local, like those of ls and tar.
    let expected = "drwxrwxrwt joe/staff            0 2023-11-14 23:13:20 d/\n\
                    -rwsr-xr-x 7/70000              4 2023-11-14 23:13:20 d/a\\x1b[2J\n\
                    lrwxrwxrwx joe/staff            0 2023-11-14 23:13:20 d/s -> to\\nwhere\n\
                    hrw-r--r-- joe/staff            0 2023-11-14 23:13:20 d/l link to d/a\\x1b[2J\n";
    let listed = run(fathom(args!["list", &archive]).env("TZ", "XXX-1")).exits(0);
    assert_eq!(String::from_utf8_lossy(&listed.stdout), expected);
    let listed = run(&mut fathom(args!["list", &archive])).exits(0);
    assert_eq!(listed.stderr, "");
    let from_stdin = run(fathom(["list", "-"]).stdin(fs::File::open(&archive).unwrap())).exits(0);
    assert_eq!(from_stdin.stdout, listed.stdout);
    let twice = run(&mut fathom(args!["list", &archive, &archive])).exits(0);
    assert_eq!(twice.stdout, [&listed.stdout[..], &listed.stdout].concat());
}

#[test]
fn only_requested_members_are_listed() {
    let place = tempfile::tempdir().unwrap();
    let archive = place.path().join("a.tar");
    fs::write(&archive, small()).unwrap();
    let count = |paths: &[&str], code| {
        let ran = run(fathom(args!["list", "--json", &archive, "--"]).args(paths)).exits(code);
        ran.json()["result"]["count"].as_u64().unwrap()
    };
    let all = count(&[], 0);
    for (paths, code, expected) in [
        (&["d"][..], 0, 4),
        (&["d/"], 0, 4),
        (&["d/s", "d/l"], 0, 2),
        (&["d/", "nothing"], 1, 4),
        (&["nothing", "d/s/x"], 1, 0),
        // `./`, doubled and leading slashes in a PATH are ignored, as in restore.
        (&["./d/s", "d//l/"], 0, 2),
        (&["/d/./s"], 0, 1),
        (&["."], 0, all),
    ] {
        assert_eq!(count(paths, code), expected, "{paths:?}");
    }
    let verified = run(&mut fathom(args![
        "verify", "--json", &archive, "--", "./d"
    ]));
    assert_eq!(verified.exits(0).json()["result"]["members"], 4);
}

#[test]
fn wildcards_match_as_in_other_tar_programs() {
    if !require(&[Need::Program("bsdtar"), Need::Program("zstd")]) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    for name in [
        "t/a.c",
        "t/a1.c",
        "t/d/a.c",
        "t/d/e/b.h",
        "t/dd/f",
        "t/x-y",
        "u/a.c",
    ] {
        file(place.path().join(name), 1);
    }
    let archive = place.path().join("a.tar");
    let frames = place.path().join("a.tar.zst");
    for to in [&archive, &frames] {
        let mut dump = fathom(args!["dump", "-q", "t", "u", "-o", to]);
        run(dump.current_dir(place.path())).exits(0);
    }
    let names = |stdout: &[u8]| {
        let text = String::from_utf8_lossy(stdout).into_owned();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    for pattern in [
        "*.c",
        "t/*.c",
        "t/?.c",
        "t/d*",
        "t/d/*",
        "*/a.c",
        "t/a[0-9].c",
        "t/[!a]*",
        "?/d",
        "*",
        "./t/*",
        "t/x\\-?",
        "*/e",
        "t?d",
        "t/d/",
    ] {
        let by = |program: &str, args: &[&str]| {
            let mut tar = Command::new(program);
            let tar = tar.args(args).arg("-tf").arg(&archive).arg(pattern);
            names(&tar.output().unwrap().stdout)
        };
        let mut expected = by("bsdtar", &[]);
        if let Some((dir, [_, ..])) = pattern
            .rsplit_once('/')
            .map(|(dir, last)| (dir, last.as_bytes()))
        {
            // In bsdtar, `t/*` and `t/[!a]*` also match `t/`.
            let dir = format!("{}/", dir.trim_start_matches("./"));
            expected.retain(|name| *name != dir);
        }
        assert!(!expected.is_empty(), "{pattern}");
        // GNU tar does not ignore the `./` of a PATH.
        if !pattern.starts_with("./") {
            assert_eq!(by("tar", &["--wildcards"]), expected, "{pattern}");
        }
        for archive in [&archive, &frames] {
            assert_eq!(names_of(archive, pattern), expected, "{pattern}");
            let verified = run(&mut fathom(args![
                "verify", "--json", archive, "--", pattern
            ]))
            .exits(0);
            assert_eq!(
                verified.json()["result"]["members"],
                expected.len(),
                "{pattern}"
            );
        }
    }
    let ran = run(&mut fathom(args![
        "list", "--json", &frames, "--", "*.c", "*.d"
    ]))
    .exits(1);
    assert_eq!(ran.json()["result"]["count"], 4);
    assert_eq!(ran.json()["warnings"].as_array().unwrap().len(), 1, "{ran}");
}

#[test]
fn name_with_wildcards_means_that_member_too() {
    let place = tempfile::tempdir().unwrap();
    let archive = place.path().join("a.tar");
    let members = ["a[1]/f", "a1/f", "b*", "bc"].map(|name| (plain(name, b""), &b""[..]));
    fs::write(&archive, pack(&members)).unwrap();
    for (path, expected) in [
        ("a[1]", &["a[1]/f", "a1/f"][..]),
        ("a[[]1]", &["a[1]/f"]),
        ("b*", &["b*", "bc"]),
        ("b\\*", &["b*"]),
    ] {
        assert_eq!(names_of(&archive, path), expected, "{path}");
        let to = tempfile::tempdir().unwrap();
        run(&mut fathom(args![
            "restore",
            &archive,
            "-C",
            to.path(),
            "--",
            path
        ]))
        .exits(0);
        let is_restored = |name: &&str| to.path().join(name).exists();
        let all = ["a[1]/f", "a1/f", "b*", "bc"];
        let restored: Vec<_> = all.into_iter().filter(is_restored).collect();
        assert_eq!(restored, expected, "{path}");
    }
}

#[test]
fn standard_input_is_read_to_its_end() {
    let place = tempfile::tempdir().unwrap();
    let archive = place.path().join("a.tar");
    fs::write(&archive, [small(), vec![0; 200 << 10]].concat()).unwrap();
    let mut cat = Command::new("cat")
        .arg(&archive)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    run(fathom(["list", "-"]).stdin(cat.stdout.take().unwrap())).exits(0);
    assert!(cat.wait().unwrap().success());
}

#[test]
fn attribute_names_are_exact() {
    let of = |path: &str, names: &[&[u8]]| {
        let xattrs = names
            .iter()
            .map(|name| (name.to_vec(), b"1".to_vec()))
            .collect();
        (
            Member {
                xattrs,
                ..plain(path, b"")
            },
            &b""[..],
        )
    };
    let place = tempfile::tempdir().unwrap();
    let archive = place.path().join("a.tar");
    fs::write(
        &archive,
        pack(&[
            of("text", &[b"user.a\\b\n"]),
            of("other", &[b"user.a", b"user.\xff"]),
        ]),
    )
    .unwrap();
    let json = run(&mut fathom(args!["list", &archive, "--json"]))
        .exits(0)
        .json();
    let [text, other] = [0, 1].map(|nth| &json["result"]["members"][nth]);
    assert_eq!(
        (&text["xattrs"], text.get("xattrs_b64")),
        (&serde_json::json!(["user.a\\b\n"]), None)
    );
    assert_eq!(
        other["xattrs"],
        serde_json::json!(["user.a", "user.\u{fffd}"])
    );
    assert_eq!(
        other["xattrs_b64"],
        serde_json::json!(["dXNlci5h", "dXNlci7/"])
    );
}

#[test]
fn files_that_are_no_archive_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str, content: &[u8]| {
        fs::write(place.path().join(name), content).unwrap();
        place.path().join(name)
    };
    for command in ["list", "verify"] {
        for (file, says) in [
            (
                place.path().join("missing"),
                "No such file or directory (os error 2)",
            ),
            (
                place.path().to_owned(),
                "no file in it is named part-*.tar*",
            ),
            (at("empty", b""), "the file is empty"),
            (at("short", b"x"), "not a tar archive"),
            (at("text", &[b'x'; 2000]), "not a tar archive"),
            (at("catalog", b"PAR1"), "not an archive"),
            (
                at("age", b"age-encryption.org/v1\n-> X25519 abc\n"),
                "it is encrypted with age",
            ),
            (
                at("gpg", b"\x85\x01\x8c\x03\x01\x02\x03\x04"),
                "gpg' | fathom restore - -C DIR",
            ),
            (
                at("gz", b"\x1f\x8b\x08\0\0\0\0\0"),
                "the gzip stream is truncated",
            ),
            (at("xz", b"\xfd7zXZ\0\0\0"), "the xz stream is truncated"),
            (
                at("zst", b"\x28\xb5\x2f\xfdxxxx"),
                "the zstd stream is damaged",
            ),
        ] {
            let ran = run(&mut fathom(args![command, &file])).refused();
            assert!(
                ran.stderr.contains(says) && ran.stderr.contains(file.to_str().unwrap()),
                "{ran}"
            );
        }
    }
    run(&mut fathom(["list"])).refused();
    run(&mut fathom(["verify", "a", "b"])).refused();
}

#[test]
fn zstd_archives_are_listed() {
    if require(&[Need::Program("zstd")]) {
        let place = tempfile::tempdir().unwrap();
        let (plain, named) = (place.path().join("a.tar"), place.path().join("any name"));
        fs::write(&plain, written::archive()).unwrap();
        let expected = run(&mut fathom(args!["list", &plain])).exits(0).stdout;
        for level in ["-1", "-19", "--ultra", "--long=27"] {
            let compressed = tool(Command::new("zstd").args(["-q", level, "-c"]).arg(&plain));
            fs::write(&named, &compressed).unwrap();
            assert_eq!(
                run(&mut fathom(args!["list", &named])).exits(0).stdout,
                expected,
                "{level}"
            );
            assert_eq!(
                run(fathom(["list", "-"]).stdin(fs::File::open(&named).unwrap()))
                    .exits(0)
                    .stdout,
                expected
            );
            // Without its last byte, the archive is reported as truncated.
            fs::write(&named, &compressed[..compressed.len() - 1]).unwrap();
            let cut = run(&mut fathom(args!["verify", &named])).exits(1);
            assert!(cut.stderr.contains("the zstd stream is truncated"), "{cut}");
        }
        // A zstd window that needs more memory than the limit for archives.
        let from_stdin = fs::File::open(&plain).unwrap();
        fs::write(
            &named,
            tool(
                Command::new("zstd")
                    .args(["-q", "--long=27", "-c"])
                    .stdin(from_stdin),
            ),
        )
        .unwrap();
        let refused = run(&mut fathom(args!["list", &named])).refused();
        assert!(refused.stderr.contains("zstd -dc --long=31"), "{refused}");
    }
}

#[test]
fn fifos_are_read() {
    let place = tempfile::tempdir().unwrap();
    let fifo = place.path().join("fifo");
    tool(Command::new("mkfifo").arg(&fifo));
    let from = fifo.clone();
    let writer = std::thread::spawn(move || {
        fs::OpenOptions::new()
            .write(true)
            .open(from)
            .unwrap()
            .write_all(&small())
    });
    let listed = run(&mut fathom(args!["list", &fifo, "--json"]))
        .exits(0)
        .json();
    assert_eq!(
        path(&listed["result"]["members"][0], "path").to_str(),
        Some("d/")
    );
    assert!(writer.join().unwrap().is_ok());
}

#[cfg(not(feature = "cloud"))]
#[test]
fn a_build_without_object_stores_says_so() {
    let commands: [&[&str]; 4] = [
        &["list", "s3://bucket/a.tar"],
        &["query", "s3://bucket/c.parquet"],
        &["dump", "/proc/self/status", "-o", "s3://bucket/a.tar"],
        &[
            "dump",
            "/proc/self/status",
            "-o",
            "/dev/null",
            "--level",
            "0",
            "--state",
            "s3://bucket/s/",
        ],
    ];
    for command in commands {
        let ran = run(&mut fathom(command.iter().copied())).refused();
        assert!(
            ran.stderr
                .contains("this build does not support object stores"),
            "{ran}"
        );
        assert!(
            ran.stderr
                .contains("hint: use a build with --features cloud"),
            "{ran}"
        );
    }
}

/// A name that was copied from the output has escapes instead of bytes.
#[test]
fn an_escaped_name_gets_a_hint() {
    let place = tempfile::tempdir().unwrap();
    let archive = place.path().join("a.tar");
    fs::write(&archive, small()).unwrap();
    let told = |name: &str| run(&mut fathom(args!["list", &archive, "--", name])).exits(1);
    let ran = told(r"d/a\x1b[2J");
    assert!(ran.stderr.contains(r"$'d/a\x1b[2J'"), "{ran}");
    let ran = told(r"d/a\xyz");
    assert!(!ran.stderr.contains("$'"), "{ran}");
}
