//! Tests of archives of GNU tar and bsdtar in all their formats: the list equals the archived tree.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::build::{dir, disk, file, name};

use crate::support::run::{args, exact};
use crate::support::tool::tool;
use crate::support::{Need, fathom, in_namespace, require, run};

/// The metadata that an archive format can store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Rich {
    /// The metadata of the tar of Unix V7.
    Old,
    /// Devices and fifos.
    Devices,
    /// Names and numbers of any size.
    Large,
    /// Times before 1970, too.
    Past,
    /// Extended attributes and access control lists.
    Attributes,
}

/// A tree with all types of files and attributes.
fn tree(top: &Path, rich: Rich) {
    dir(top.join("d/empty"));
    file(top.join("d/file"), 1000);
    file(top.join("d/two names"), 3);
    file(top.join("nothing"), 0);
    file(top.join(name(b"odd \xff\n\\ name")), 1);
    fs::hard_link(top.join("d/two names"), top.join("another name")).unwrap();
    symlink("nowhere", top.join("symlink")).unwrap();
    let sparse = fs::File::create(top.join("sparse")).unwrap();
    sparse.set_len(3 << 20).unwrap();
    for n in 0..40 {
        std::os::unix::fs::FileExt::write_all_at(&sparse, b"data", n << 16).unwrap();
    }
    fs::File::create(top.join("hole"))
        .unwrap()
        .set_len(200_000)
        .unwrap();
    tool(
        Command::new("touch")
            .args(["-d", "2001-02-03 04:05:06.789"])
            .arg(top.join("d/file")),
    );
    tool(Command::new("chmod").arg("4750").arg(top.join("d/file")));
    if rich >= Rich::Devices {
        tool(Command::new("mkfifo").arg(top.join("fifo")));
        tool(
            Command::new("mknod")
                .arg(top.join("char"))
                .args(["c", "1", "3"]),
        );
        tool(
            Command::new("mknod")
                .arg(top.join("block"))
                .args(["b", "8", "1000"]),
        );
    }
    if rich >= Rich::Large {
        let part = "p".repeat(90);
        file(
            top.join(&part)
                .join(&part)
                .join(&part)
                .join("f".repeat(200)),
            5,
        );
        symlink("t".repeat(300), top.join("long symlink")).unwrap();
        fs::hard_link(top.join("nothing"), top.join(&part).join("l".repeat(150))).unwrap();
        std::os::unix::fs::chown(file(top.join("owner"), 1), Some(3_000_000), Some(4_000_000))
            .unwrap();
    }
    if rich >= Rich::Past {
        tool(
            Command::new("touch")
                .args(["-d", "1950-01-01 00:00:00"])
                .arg(file(top.join("before 1970"), 1)),
        );
    }
    if rich >= Rich::Attributes {
        for (attribute, value) in [("user.a", &b"\0\n=\xff"[..]), ("user.b c", b"x")] {
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::lsetxattr(top.join("d/file"), attribute, value, flags).unwrap();
        }
        tool(
            Command::new("setfacl")
                .args(["-m", "u:12345:rw,g:54321:r"])
                .arg(top.join("d/two names")),
        );
        tool(
            Command::new("setfacl")
                .args(["-d", "-m", "u:12345:rx"])
                .arg(top.join("d")),
        );
    }
}

/// The names of a directory and everything below it, as tar stores them.
fn names(top: &Path) -> BTreeMap<Vec<u8>, fs::Metadata> {
    let mut found = BTreeMap::new();
    let mut unread = vec![(b"top/".to_vec(), top.to_owned())];
    while let Some((below, at)) = unread.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let entry = entry.unwrap();
            let mut path = [&below[..], entry.file_name().as_bytes()].concat();
            let meta = entry.path().symlink_metadata().unwrap();
            if meta.is_dir() {
                path.push(b'/');
                unread.push((path.clone(), entry.path()));
            }
            found.insert(path, meta);
        }
        found.insert(below, at.symlink_metadata().unwrap());
    }
    found
}

/// Compares a row of the list with the file.
fn is_right(row: &Value, meta: &fs::Metadata, at: &Path, is_fine: bool) {
    let what = &row["path"];
    let kind = meta.file_type();
    let expected = match row["type"].as_str().unwrap() {
        "file" => kind.is_file(),
        "directory" => kind.is_dir(),
        "symlink" => kind.is_symlink(),
        "link" => meta.nlink() > 1,
        "fifo" => kind.is_fifo(),
        "char" => kind.is_char_device(),
        "block" => kind.is_block_device(),
        _ => false,
    };
    assert!(expected, "{row}");
    if row["type"] == "link" {
        return assert_eq!(
            meta.ino(),
            fs::metadata(at.join(name(&exact(row, "link"))))
                .unwrap()
                .ino(),
            "{what}"
        );
    }
    // If there is an access control list, bsdtar stores the group's own bits, and the kernel
    // returns those of the mask.
    let bits = |mode: u32| mode & if row["acl"] == true { 0o7707 } else { 0o7777 };
    assert_eq!(
        bits(u32::from_str_radix(row["mode"].as_str().unwrap(), 8).unwrap()),
        bits(meta.mode()),
        "{what}"
    );
    assert_eq!(
        (row["uid"].as_u64(), row["gid"].as_u64()),
        (Some(meta.uid().into()), Some(meta.gid().into())),
        "{what}"
    );
    assert_eq!(
        row["size"],
        if kind.is_file() { meta.len() } else { 0 },
        "{what}"
    );
    let fine = format!("{}.{:09}", meta.mtime(), meta.mtime_nsec());
    let said = row["mtime"].as_str().unwrap();
    if is_fine {
        assert_eq!(said, fine, "{what}");
    } else {
        assert_eq!(said.split('.').next(), fine.split('.').next(), "{what}");
    }
    if kind.is_symlink() {
        let target = fs::read_link(at.join(name(&exact(row, "path")))).unwrap();
        assert_eq!(exact(row, "link"), target.as_os_str().as_bytes(), "{what}");
    }
    if kind.is_char_device() || kind.is_block_device() {
        assert_eq!(
            row["rdev"],
            format!("{}:{}", libc::major(meta.rdev()), libc::minor(meta.rdev())),
            "{what}"
        );
    }
}

/// Archives one tree with each command, and compares each archive with the tree.
fn check_lists(rich: Rich, is_fine: bool, commands: &[&str]) {
    let needs = ["tar", "bsdtar", "setfacl", "mkfs.ext4"].map(Need::Program);
    if require(&[&[Need::Root, Need::Loop], &needs[..]].concat()) {
        in_namespace(|ground| {
            let at = disk("ext4", &ground.join("disk"));
            tree(&at.join("top"), rich);
            let there = names(&at.join("top"));
            for (nth, line) in commands.iter().enumerate() {
                let archive = ground.join(format!("{nth}.tar"));
                let snapshot = ground
                    .join(format!("{nth}.snapshot"))
                    .into_os_string()
                    .into_string()
                    .unwrap();
                let mut words = line
                    .split(' ')
                    .map(|word| if word == "SNAPSHOT" { &snapshot } else { word });
                let mut command = Command::new(words.next().unwrap());
                // In pax format, bsdtar exits with 1 if a name is not UTF-8, but archives it.
                let made = command
                    .args(words)
                    .arg("-cf")
                    .arg(&archive)
                    .arg("-C")
                    .arg(&at)
                    .arg("top")
                    .output()
                    .unwrap();
                assert!(
                    made.status.success() || line.starts_with("bsdtar"),
                    "{line}: {made:?}"
                );
                let listed = run(&mut fathom(args!["list", &archive, "--json"]))
                    .exits(0)
                    .json();
                let rows = listed["result"]["members"].as_array().unwrap();
                let found: BTreeMap<_, _> =
                    rows.iter().map(|row| (exact(row, "path"), row)).collect();
                assert!(found.keys().eq(there.keys()), "{line}: {:?}", found.keys());
                found
                    .iter()
                    .for_each(|(path, row)| is_right(row, &there[path], &at, is_fine));
                if line.contains("sparse") || line.contains("-S") {
                    let sparse = |path: &[u8]| {
                        found[path]["sparse"] == true
                            && found[path]["stored"].as_u64() < Some(1 << 20)
                    };
                    assert!(sparse(b"top/sparse") && sparse(b"top/hole"), "{line}");
                }
                let verified = run(&mut fathom(args![
                    "verify",
                    &archive,
                    "--against",
                    &at,
                    "--json"
                ]))
                .exits(0)
                .json();
                assert_eq!(verified["result"]["compared"], there.len(), "{line}");
            }
        });
    }
}

#[test]
fn old_formats_are_listed() {
    check_lists(Rich::Old, false, &["tar --format=v7", "bsdtar --format=v7"]);
    check_lists(
        Rich::Devices,
        false,
        &["tar --format=ustar", "bsdtar --format=ustar"],
    );
}

#[test]
fn gnu_tar_archives_are_listed() {
    let gnu = [
        "tar --format=gnu",
        "tar --format=oldgnu",
        "tar --format=gnu -S",
        "tar --format=oldgnu -S",
    ];
    check_lists(Rich::Past, false, &gnu);
    check_lists(
        Rich::Past,
        false,
        &[
            "tar --format=gnu -g SNAPSHOT",
            "tar --format=oldgnu -S -g SNAPSHOT",
        ],
    );
    check_lists(
        Rich::Past,
        true,
        &[
            "tar --format=posix",
            "tar --format=posix -S --sparse-version=0.0",
            "tar --format=posix -S --sparse-version=0.1",
            "tar --format=posix -S --sparse-version=1.0",
            "tar --format=posix -g SNAPSHOT",
        ],
    );
    check_lists(
        Rich::Attributes,
        true,
        &[
            "tar --format=posix --numeric-owner --xattrs --acls",
            "tar --xattrs --acls -S --format=posix",
        ],
    );
}

#[test]
fn bsdtar_archives_are_listed() {
    check_lists(Rich::Large, false, &["bsdtar --format=gnutar"]);
    check_lists(
        Rich::Attributes,
        true,
        &[
            "bsdtar --format=pax --acls --xattrs",
            "bsdtar --format=pax --acls --xattrs --read-sparse",
        ],
    );
}
