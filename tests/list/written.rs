//! Tests of our archives with other programs: names, sizes, times, owners, links, attributes and
//! holes are exact.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::process::Command;

use ondisk::pax::sparse::Map;
use ondisk::pax::{Member, MemberKind, trailer};
use ondisk::{Dev, Time};

use crate::support::build::{disk, name};

use crate::support::pack::{end, plain, push, sum};
use crate::support::run::{args, exact};
use crate::support::tool::tool;
use crate::support::{Need, fathom, in_namespace, require, run};

/// A member of every type with all metadata, and its data.
pub(super) fn members() -> Vec<(Member, Vec<u8>)> {
    let time = |sec, nsec| Time { sec, nsec };
    let of = |path: &[u8], kind| Member {
        mode: 0o755,
        kind,
        mtime: time(1_700_000_000, 1),
        ..plain(path, b"")
    };
    let long = |byte: u8| [b"d/", &vec![byte; 60][..], b"/", &[byte; 200][..]].concat();
    let deep = [&b"n"[..]; 100].join(&b"/"[..]);
    let mut map = Map::default();
    map.add(1 << 20, 4096);
    map.add(8 << 20, 100);
    let mut all = vec![
        (of(b"d/", MemberKind::Directory), &b""[..]),
        (
            Member {
                mtime: time(-1, 500_000_000),
                ..plain("d/before 1970", b"old")
            },
            b"old",
        ),
        (
            Member {
                mode: 0o6751,
                mtime: time(1 << 33, 999_999_999),
                ..plain("d/far from now", b"new")
            },
            b"new",
        ),
        (
            Member {
                uid: 3_000_000,
                gid: u32::MAX - 2,
                ..plain("d/owner", b"")
            },
            b"",
        ),
        (
            Member {
                uname: vec![0xff; 40],
                gname: vec![b'g'; 32],
                ..plain("d/names", b"")
            },
            b"",
        ),
        (
            of(
                &[b"d/", &[b'l'; 60][..], b"/"].concat(),
                MemberKind::Directory,
            ),
            b"",
        ),
        (plain(long(b'l'), b"long"), b"long"),
        (
            of(
                &[b"d/", &[0xfe; 60][..], b"/"].concat(),
                MemberKind::Directory,
            ),
            b"",
        ),
        (plain(long(0xfe), b"no UTF-8"), b"no UTF-8"),
        (plain(b"d/new\nline \x80\xff", b"x"), b"x"),
        (plain("d/caf\u{e9}", b"y"), b"y"),
        (
            Member {
                link: b"nowhere".to_vec(),
                ..of(b"d/symlink", MemberKind::Symlink)
            },
            b"",
        ),
        (
            Member {
                link: vec![0xfe; 150],
                ..of(b"d/long symlink", MemberKind::Symlink)
            },
            b"",
        ),
        (
            Member {
                link: long(b'l'),
                ..of(b"d/hard", MemberKind::Link)
            },
            b"",
        ),
        (of(b"d/fifo", MemberKind::Fifo), b""),
        (
            Member {
                rdev: Dev { major: 1, minor: 3 },
                ..of(b"d/char", MemberKind::Char)
            },
            b"",
        ),
        (
            Member {
                rdev: Dev {
                    major: 8,
                    minor: 300_000,
                },
                ..of(b"d/block", MemberKind::Block)
            },
            b"",
        ),
    ]
    .into_iter()
    .map(|(member, data)| (member, data.to_vec()))
    .collect::<Vec<_>>();
    let xattrs = [
        (&b"user.a"[..], &b"\0\n=\xff"[..]),
        (b"user.empty", b""),
        (b"user.x=y%3D", b"z"),
    ];
    let xattrs = xattrs
        .map(|(name, value)| (name.to_vec(), value.to_vec()))
        .to_vec();
    let list = |text: &str| Some(text.as_bytes().to_vec());
    all.push((
        Member {
            xattrs,
            acl_access: list("user::rw-\nuser:12345:r--\ngroup::r--\nmask::r--\nother::r--\n"),
            ..plain("d/attributes", b"")
        },
        Vec::new(),
    ));
    all.push((
        Member {
            acl_default: list(
                "user::rwx\nuser::r-x\ngroup:54321:rwx\nmask::rwx\nother::---\n"
                    .replace("user::r-x", "group::r-x")
                    .as_str(),
            ),
            ..of(b"d/default/", MemberKind::Directory)
        },
        Vec::new(),
    ));
    for path in ["d/sparse", "d/\u{fffd}holes at the end"] {
        let data = vec![7; map.data() as usize];
        let mut text = Vec::new();
        map.encode(10 << 20, &mut text);
        let stored = text.len() as u64 + map.data();
        all.push((
            Member {
                size: 10 << 20,
                stored,
                sparse: Some(map.clone()),
                ..plain(path, b"")
            },
            data,
        ));
    }
    let hole = Member {
        size: 1 << 20,
        stored: 512,
        sparse: Some(Map::default()),
        ..plain("d/nothing but a hole", b"")
    };
    all.push((hole, Vec::new()));
    let mut walked = Vec::new();
    for part in deep.split_inclusive(|&byte| byte == b'/') {
        walked.extend_from_slice(part);
        if part.ends_with(b"/") {
            all.push((of(&walked, MemberKind::Directory), Vec::new()));
        }
    }
    all.push((plain(&deep, b"deep"), b"deep".to_vec()));
    for (member, data) in &mut all {
        if member.mtime == Time::default() {
            member.mtime = time(1_600_000_000, 123_456_789);
        }
        if matches!(member.kind, MemberKind::File | MemberKind::Directory) {
            member.atime = Some(time(1_500_000_000, 5));
        }
        member.ctime = Some(time(1_400_000_000, 100));
        if member.kind == MemberKind::File {
            let mut stored = Vec::new();
            member
                .sparse
                .iter()
                .for_each(|map| map.encode(member.size, &mut stored));
            stored.extend_from_slice(data);
            member.blake3 = Some(sum(&stored));
        }
    }
    all
}

/// The archive of [`members`].
pub(super) fn archive() -> Vec<u8> {
    let mut archive = Vec::new();
    for (mut member, data) in members() {
        let is_large = member.path == b"d/far from now";
        let blake3 = if is_large { member.blake3.take() } else { None };
        push(&mut archive, &member, &data);
        if let Some(blake3) = blake3 {
            trailer(&blake3, &mut archive);
        }
    }
    end(&mut archive);
    archive
}

/// Compares a tree with [`members`].
fn is_there(top: &Path, is_bsdtar: bool) {
    for (member, data) in members() {
        let path = top.join(name(member.path.strip_suffix(b"/").unwrap_or(&member.path)));
        let what = path.display();
        let is = fs::symlink_metadata(&path).unwrap_or_else(|error| panic!("{what}: {error}"));
        let kind = is.file_type();
        let is_right = match member.kind {
            MemberKind::File => kind.is_file(),
            MemberKind::Link => {
                is.ino() == fs::metadata(top.join(name(&member.link))).unwrap().ino()
            }
            MemberKind::Symlink => {
                fs::read_link(&path).unwrap().as_os_str().as_bytes() == member.link
            }
            MemberKind::Char => kind.is_char_device(),
            MemberKind::Block => kind.is_block_device(),
            MemberKind::Directory => kind.is_dir(),
            MemberKind::Fifo => kind.is_fifo(),
            MemberKind::Label | MemberKind::Continuation => false,
        };
        assert!(is_right, "{what}: {is:?}");
        if member.kind == MemberKind::Link {
            continue;
        }
        if member.kind != MemberKind::Symlink {
            assert_eq!(is.mode() & 0o7777, member.mode, "{what}");
        }
        assert_eq!((is.uid(), is.gid()), (member.uid, member.gid), "{what}");
        let rdev = (libc::major(is.rdev()), libc::minor(is.rdev()));
        assert_eq!(rdev, (member.rdev.major, member.rdev.minor), "{what}");
        // libarchive rounds negative times with fractions to a different second.
        let is_mistaken = is_bsdtar && member.mtime.sec < 0;
        if !is_mistaken {
            assert_eq!(
                (is.mtime(), is.mtime_nsec()),
                (member.mtime.sec, member.mtime.nsec.into()),
                "{what}"
            );
        }
        if member.kind == MemberKind::File {
            let content = fs::read(&path).unwrap();
            let mut expected = vec![0; member.size as usize];
            match &member.sparse {
                None => expected.copy_from_slice(&data),
                Some(map) => {
                    let mut rest = &data[..];
                    for extent in map.extents() {
                        let (now, later) = rest.split_at(extent.len as usize);
                        expected[extent.offset as usize..extent.end() as usize]
                            .copy_from_slice(now);
                        rest = later;
                    }
                    assert!(
                        is.blocks() * 512 < member.size / 2,
                        "{what}: its holes are filled"
                    );
                }
            }
            assert!(content == expected, "{what}");
        }
        // bsdtar does not decode an escaped equals sign in the names of attributes.
        for (attribute, value) in member
            .xattrs
            .iter()
            .filter(|(name, _)| !(is_bsdtar && name.contains(&b'=')))
        {
            let mut is = [0; 100];
            let len = rustix::fs::lgetxattr(&path, &attribute[..], &mut is[..]);
            assert_eq!(
                len.map(|len| &is[..len]),
                Ok(&value[..]),
                "{what}: {}",
                attribute.escape_ascii()
            );
        }
        for (text, which) in [(&member.acl_access, "-a"), (&member.acl_default, "-d")] {
            if let Some(text) = text {
                let is = tool(
                    Command::new("getfacl")
                        .args(["-c", "-n", "-E", which])
                        .arg(&path),
                );
                assert_eq!(
                    String::from_utf8_lossy(&is).trim(),
                    String::from_utf8_lossy(text).trim(),
                    "{what}"
                );
            }
        }
    }
}

fn extracted_by(command: &[&str]) {
    if require(&[
        Need::Root,
        Need::Loop,
        Need::Program(command[0].to_owned().leak()),
        Need::Program("getfacl"),
    ]) {
        in_namespace(|ground| {
            let out = disk("ext4", &ground.join("out"));
            fs::write(ground.join("archive.tar"), archive()).unwrap();
            let mut tar = Command::new(command[0]);
            tar.args(&command[1..])
                .arg("-xpf")
                .arg(ground.join("archive.tar"))
                .arg("-C")
                .arg(&out)
                .env("LC_ALL", "C.UTF-8");
            let done = tar.output().unwrap();
            // GNU tar does not know the pax keyword that marks names as not UTF-8. It warns, and
            // extracts them.
            let expected = [
                "implausibly old time stamp",
                "in the future",
                "unknown extended header keyword 'hdrcharset'",
            ];
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            let unexpected = said
                .lines()
                .find(|line| !expected.iter().any(|expected| line.contains(expected)));
            assert_eq!(unexpected, None);
            assert!(done.status.success());
            is_there(&out, command[0] == "bsdtar");
        });
    }
}

#[test]
fn gnu_tar_extracts_it() {
    extracted_by(&["tar", "--numeric-owner", "--xattrs", "--acls"]);
}

#[test]
fn bsdtar_extracts_it() {
    extracted_by(&["bsdtar", "--numeric-owner", "--xattrs", "--acls", "-S"]);
}

#[test]
fn python_lists_it() {
    const SCRIPT: &str = "
import os, sys, tarfile
for m in tarfile.open(sys.argv[1], errorlevel=2):
    name = os.fsencode(m.name).hex()
    print(name, m.size if m.isreg() else 0, int(m.uid), int(m.gid), m.mode, os.fsencode(m.linkname).hex() or '-')
";
    if require(&[Need::Program("python3")]) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("archive.tar");
        fs::write(&path, archive()).unwrap();
        let printed = tool(Command::new("python3").args(["-c", SCRIPT]).arg(path));
        let hex = |bytes: &[u8]| {
            bytes
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>()
        };
        let expected = members().into_iter().map(|(member, _)| {
            let path = hex(member.path.strip_suffix(b"/").unwrap_or(&member.path));
            let link = if member.link.is_empty() {
                "-".to_owned()
            } else {
                hex(&member.link)
            };
            let Member {
                size,
                uid,
                gid,
                mode,
                ..
            } = member;
            format!("{path} {size} {uid} {gid} {mode} {link}")
        });
        let printed = String::from_utf8(printed).unwrap();
        assert!(printed.lines().eq(expected), "{printed}");
    }
}

#[test]
fn our_archives_are_listed() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("archive.tar");
    fs::write(&path, archive()).unwrap();
    let listed = run(&mut fathom(args!["list", &path, "--json"]))
        .exits(0)
        .json();
    let found: Vec<_> = listed["result"]["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| exact(row, "path"))
        .collect();
    let expected: Vec<_> = members()
        .into_iter()
        .map(|(member, _)| member.path)
        .collect();
    assert_eq!(found, expected);
    let files = members()
        .iter()
        .filter(|(member, _)| member.kind == MemberKind::File)
        .count();
    let verified = run(&mut fathom(args!["verify", &path, "--json"]))
        .exits(0)
        .json();
    assert_eq!(verified["result"]["right"], files);
    assert_eq!(verified["result"]["whole"], true);
}
