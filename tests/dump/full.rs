//! Tests that GNU tar and bsdtar restore a full dump exactly.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::everything::everything;
use crate::support::build::{dir, tmpfs};
use crate::support::disks::{BTRFS, EXT4, Make, XFS, mounted};
use crate::support::run::{Ran, args};
use crate::support::snapshot::{Snapshot, alike, kept, same, snapshot};
use crate::support::tool::tool;
use crate::support::trees::grow;
use crate::support::{Need, fathom, in_namespace, require, run};

/// The requirements of tests of dumps.
pub(crate) const NEEDS: [Need; 6] = [
    Need::Root,
    Need::Loop,
    Need::Program("tar"),
    Need::Program("bsdtar"),
    Need::Program("setfacl"),
    Need::Program("setcap"),
];

/// Dumps `source` as `tree`, with more arguments.
pub(crate) fn dump(source: &Path, archive: &Path, more: &[&str]) -> Ran {
    let mut arguments = args!["dump", source.file_name().unwrap(), "-o", archive].to_vec();
    arguments.extend(more.iter().map(OsString::from));
    run(fathom(arguments).current_dir(source.parent().unwrap()))
}

/// Restores an archive by GNU tar into a new directory.
pub(crate) fn by_gnu_tar(archive: &Path, to: &Path) -> PathBuf {
    // Turn off warnings about unusual times, and about the pax keyword that tells bsdtar that names
    // are not UTF-8.
    let options = [
        "--warning=no-timestamp",
        "--warning=no-unknown-keyword",
        "--xattrs",
        "--xattrs-include=*",
        "--acls",
        "-p",
        "--same-owner",
        "--numeric-owner",
    ];
    let mut tar = Command::new("tar");
    tar.args(options)
        .arg("-xf")
        .arg(archive)
        .arg("-C")
        .arg(dir(to));
    quiet(&mut tar);
    to.to_owned()
}

/// Restores an archive by bsdtar into a new directory.
pub(crate) fn by_bsdtar(archive: &Path, to: &Path) -> PathBuf {
    quiet(
        Command::new("bsdtar")
            .arg("--numeric-owner")
            .arg("-xpf")
            .arg(archive)
            .arg("-C")
            .arg(dir(to)),
    );
    to.to_owned()
}

/// The names in an archive by GNU tar, whose only message may be that a name is not UTF-8.
pub(crate) fn listed(archive: &Path) -> Vec<u8> {
    quiet(
        Command::new("tar")
            .args([
                "--warning=no-unknown-keyword",
                "--quoting-style=escape",
                "-tf",
            ])
            .arg(archive),
    )
}

/// Runs a tool that must print nothing.
pub(crate) fn quiet(command: &mut Command) -> Vec<u8> {
    let out = command
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(
        out.status.success() && said.is_empty(),
        "{command:?}: {}: {said}",
        out.status
    );
    out.stdout
}

/// Dumps and restores the tree with everything on a file system (`None`: tmpfs).
fn comes_through(make: Option<Make>, is_large: bool) {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        let at = ground.join("disk");
        match make {
            Some(make) => assert!(mounted(make, &at)),
            None => drop(tmpfs(&at)),
        }
        let tree = dir(at.join("tree"));
        everything(&tree, is_large);
        let expected = kept(&tree);
        let archive = ground.join("archive.tar");
        let ran = dump(&tree, &archive, &["--json"]).exits(0);
        let note = "'tree/kinds/socket' is a socket, and is skipped";
        assert!(ran.stderr.contains(note), "{ran}");
        assert_eq!(ran.json()["warnings"].as_array().unwrap().len(), 0, "{ran}");
        let listed = listed(&archive);
        assert_eq!(listed.split(|&b| b == b'\n').count() - 1, expected.len());
        quiet(Command::new("bsdtar").arg("-tf").arg(&archive));
        same(
            &expected,
            &snapshot(&by_gnu_tar(&archive, &at.join("gnu")).join("tree")),
            "GNU tar",
        );
        tool(Command::new("rm").arg("-rf").arg(at.join("gnu")));
        let mut restored = snapshot(&by_bsdtar(&archive, &at.join("bsd")).join("tree"));
        forgive_bsdtar(&expected, &mut restored);
        same(&expected, &restored, "bsdtar");
        // The dump does not change the tree, not even access times, except those of symlinks:
        // readlink(2) updates them.
        alike(&expected, &kept(&tree), "the tree itself", |_, seen| {
            if seen.kind == 'l' {
                seen.atime = (0, 0);
            }
        });
    });
}

/// Ignores an error of bsdtar: it restores fractions of seconds before 1970 wrong.
pub(crate) fn forgive_bsdtar(expected: &Snapshot, restored: &mut Snapshot) {
    for (name, seen) in restored {
        if let Some(expected) = expected
            .get(name)
            .filter(|seen| seen.mtime.0 < 0 && seen.mtime.1 > 0)
        {
            seen.mtime = expected.mtime;
        }
    }
}

#[test]
fn everything_is_dumped_and_restored_on_ext4() {
    comes_through(Some(EXT4[0]), true);
}

#[test]
fn everything_is_dumped_and_restored_on_xfs() {
    comes_through(Some(XFS[0]), true);
}

/// XFS also lists an access control list as `trusted.SGI_ACL_FILE`, which has no meaning on other
/// file systems.
#[test]
fn lists_of_xfs_are_archived_once() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        let at = ground.join("disk");
        assert!(mounted(XFS[0], &at));
        let tree = dir(at.join("tree"));
        std::fs::write(tree.join("file"), "data").unwrap();
        quiet(
            Command::new("setfacl")
                .args(["-m", "u:1000:rw"])
                .arg(tree.join("file")),
        );
        quiet(
            Command::new("setfacl")
                .args(["-d", "-m", "u:1000:rwx"])
                .arg(&tree),
        );
        let archive = ground.join("archive.tar");
        assert_eq!(dump(&tree, &archive, &[]).code(), 0);
        let bytes = std::fs::read(&archive).unwrap();
        assert!(!bytes.windows(7).any(|some| some == b"SGI_ACL"));
        for at in [dir(ground.join("elsewhere")), dir(at.join("here"))] {
            quiet(
                Command::new("tar")
                    .args(["-xp", "--acls", "-C"])
                    .arg(&at)
                    .arg("-f")
                    .arg(&archive),
            );
            let ran = run(&mut fathom(args!["verify", &archive, "--against", &at]));
            assert_eq!(ran.code(), 0, "{ran}");
        }
    });
}

#[test]
fn everything_is_dumped_and_restored_on_btrfs() {
    comes_through(Some(BTRFS[0]), true);
}

#[test]
fn everything_is_dumped_and_restored_on_tmpfs() {
    comes_through(None, true);
}

#[test]
fn random_trees_are_dumped_and_restored() {
    if require(&NEEDS) {
        for seed in 1..=3 {
            in_namespace(|ground| {
                let at = ground.join("disk");
                assert!(mounted([EXT4[0], XFS[0], BTRFS[0]][seed % 3], &at));
                let tree = dir(at.join("tree"));
                grow(&tree, seed as u64, 300);
                let expected = kept(&tree);
                let archive = ground.join("archive.tar");
                let ran = dump(&tree, &archive, &[]);
                assert!(ran.code() < 2, "{ran}");
                quiet(Command::new("bsdtar").arg("-tf").arg(&archive));
                let restored = by_gnu_tar(&archive, &at.join("gnu")).join("tree");
                same(
                    &expected,
                    &snapshot(&restored),
                    &format!("GNU tar, seed {seed}"),
                );
            });
        }
    }
}

#[test]
fn archive_is_the_same_compressed_or_on_standard_output() {
    if require(&NEEDS) && require(&["zstd", "gzip", "xz"].map(Need::Program)) {
        in_namespace(|ground| {
            let tree = dir(ground.join("tree"));
            everything(&tree, false);
            let plain = ground.join("plain.tar");
            dump(&tree, &plain, &[]).exits(0);
            let plain = std::fs::read(plain).unwrap();
            assert_eq!(plain.len() % 10_240, 0);
            let piped = run(fathom(args!["dump", "tree", "-o", "-"]).current_dir(ground))
                .exits(0)
                .stdout;
            assert!(piped == plain, "standard output");
            let programs = [
                ("zst", "zstd", "--zstd"),
                ("gz", "gzip", "-z"),
                ("xz", "xz", "-J"),
            ];
            for (suffix, program, option) in programs {
                let packed = ground.join(format!("packed.tar.{suffix}"));
                dump(&tree, &packed, &[]).exits(0);
                tool(Command::new(program).arg("-t").arg(&packed));
                assert!(
                    tool(Command::new(program).args(["-dc"]).arg(&packed)) == plain,
                    "{program}"
                );
                assert!(std::fs::metadata(&packed).unwrap().len() < plain.len() as u64);
                quiet(
                    Command::new("tar")
                        .args(["--warning=no-unknown-keyword", option, "-tf"])
                        .arg(&packed),
                );
                run(&mut fathom(args!["verify", &packed])).exits(0);
                // For standard output, the option chooses the compression.
                let piped = run(
                    fathom(args!["dump", "tree", "-o", "-", "--compress", program])
                        .current_dir(ground),
                );
                assert!(piped.exits(0).stdout == std::fs::read(&packed).unwrap());
            }
            // The archive can also be a fifo.
            let fifo = ground.join("fifo");
            tool(Command::new("mkfifo").arg(&fifo));
            let reader = std::thread::spawn({
                let fifo = fifo.clone();
                move || std::fs::read(fifo).unwrap()
            });
            dump(&tree, &fifo, &[]).exits(0);
            assert!(reader.join().unwrap() == plain, "a fifo");
        });
    }
}

#[test]
fn member_names_are_those_of_the_sources() {
    if require(&NEEDS) {
        in_namespace(|ground| {
            let top = dir(ground.join("a"));
            std::fs::write(dir(top.join("b")).join("f"), b"x").unwrap();
            std::fs::write(top.join("g"), b"x").unwrap();
            let listed = |here: &Path, sources: &[&str]| {
                let archive = ground.join("archive.tar");
                let mut arguments = args!["dump", "-o", &archive].to_vec();
                arguments.extend(sources.iter().map(OsString::from));
                run(fathom(arguments).current_dir(here)).exits(0);
                let ours = quiet(Command::new("tar").arg("-tf").arg(&archive));
                // GNU tar reports on stderr which prefixes it strips.
                let script = r#"tar --sort=name -cf - "$@" 2>/dev/null | tar -tf -"#;
                let theirs = tool(
                    Command::new("sh")
                        .args(["-c", script, "sh"])
                        .args(sources)
                        .current_dir(here),
                );
                let (ours, theirs) = (
                    String::from_utf8(ours).unwrap(),
                    String::from_utf8(theirs).unwrap(),
                );
                assert_eq!(ours, theirs, "{sources:?}");
            };
            listed(ground, &["a"]);
            listed(ground, &["a/"]);
            listed(ground, &["./a"]);
            listed(ground, &["a/g", "a/b"]);
            listed(&top, &["."]);
            listed(&top, &["b", "g"]);
            listed(&top.join("b"), &["../g", "../b"]);
            listed(&top.join("b"), &["../../a"]);
            listed(ground, &[top.to_str().unwrap()]);
        });
    }
}

/// Paths longer than PATH_MAX: GNU tar and bsdtar can list them, and cannot restore them.
#[test]
fn paths_longer_than_path_max() {
    if require(&NEEDS) {
        in_namespace(|ground| {
            let tree = dir(ground.join("tree"));
            let last = crate::support::build::deep(&tree, &"d".repeat(200), 40);
            let how = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
            let file =
                rustix::fs::openat(&last, "file", how, rustix::fs::Mode::from(0o600)).unwrap();
            rustix::io::write(&file, b"far down").unwrap();
            let archive = ground.join("archive.tar");
            dump(&tree, &archive, &[]).exits(0);
            for tool in ["tar", "bsdtar"] {
                let listed = quiet(Command::new(tool).arg("-tf").arg(&archive));
                let name = listed
                    .split(|&b| b == b'\n')
                    .find(|line| line.ends_with(b"/file"))
                    .unwrap();
                assert!(name.len() > 8000, "{tool}");
                let content = quiet(Command::new(tool).arg("-xOf").arg(&archive));
                assert_eq!(content, b"far down", "{tool}");
            }
        });
    }
}
