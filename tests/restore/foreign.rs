//! Tests of odd and damaged archives, written byte by byte: members that GNU tar and bsdtar extract
//! are restored in the same way.

use std::fs;
use std::path::Path;
use std::process::Command;

use ondisk::pax::BLOCK;

use crate::support::build::dir;

use crate::support::pack::{extended, member, raw};
use crate::support::run::args;
use crate::support::snapshot::{Snapshot, kept};
use crate::support::tool::tool;
use crate::support::{Need, fathom, require, run};

/// An archive, the exit status of list, restore and verify, a part of their warnings, and the
/// programs that extract the same tree.
struct Case {
    what: &'static str,
    archive: Vec<u8>,
    status: i32,
    says: &'static str,
    like: &'static [&'static str],
}

const BOTH: &[&str] = &["tar", "bsdtar"];

/// An archive of the parts, a last member, and the end blocks.
fn with_next(parts: &[&[u8]]) -> Vec<u8> {
    let end: &[u8] = &[0; 2 * BLOCK];
    [&parts.concat(), &member("next", b'0', b"data")[..], end].concat()
}

/// The tree that a program extracts from an archive.
fn extracted(program: &str, archive: &Path, to: &Path) -> Snapshot {
    let mut command = Command::new(program);
    command.arg("-xpf").arg(archive).arg("-C").arg(dir(to));
    // The status is ignored: tar and bsdtar exit with 1 or 2 after some of these archives.
    command.output().unwrap();
    entries(to)
}

/// The entries below a directory, without access times, and without times of directories.
fn entries(top: &Path) -> Snapshot {
    let mut all = kept(top);
    all.remove(&b""[..]);
    for seen in all.values_mut() {
        seen.atime = (0, 0);
        seen.data.clear();
    }
    all
}

fn check(cases: Vec<Case>) {
    if !require(&[Need::Root, Need::Program("tar"), Need::Program("bsdtar")]) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let archive = place.path().join("archive.tar");
    for (n, case) in cases.into_iter().enumerate() {
        let what = case.what;
        fs::write(&archive, &case.archive).unwrap();
        let to = dir(place.path().join(format!("{n}")));
        for command in [
            &["list"][..],
            &["verify"],
            &["restore", "-C", to.to_str().unwrap()],
        ] {
            let ran = run(fathom(command).arg(&archive));
            assert_eq!(ran.code(), case.status, "{what}: {ran}");
            assert!(ran.stderr.contains(case.says), "{what}: {ran}");
        }
        let restored = entries(&to);
        for program in case.like {
            let theirs = extracted(
                program,
                &archive,
                &place.path().join(format!("{n} {program}")),
            );
            assert!(!theirs.is_empty(), "{what}: {program} extracted nothing");
            assert_eq!(restored, theirs, "{what}: {program}");
        }
    }
}

fn case(
    what: &'static str,
    archive: Vec<u8>,
    status: i32,
    says: &'static str,
    like: &'static [&'static str],
) -> Case {
    Case {
        what,
        archive,
        status,
        says,
        like,
    }
}

#[test]
fn directories_with_a_size_have_no_data() {
    let v7: (usize, &[u8]) = (257, &[0; 8]);
    let mut cases = Vec::new();
    for (name, letter) in [("d", b'5'), ("d/", b'0'), ("d/", 0), ("d/", b'7')] {
        for replaced in [&[][..], &[v7]] {
            // If the header of the next member were taken for data, that member would be lost
            // without a message.
            let directory = raw(name, letter, BLOCK, replaced);
            let empty = member("empty", b'0', b"");
            cases.push(case(
                "a directory",
                with_next(&[&directory, &empty]),
                0,
                "",
                BOTH,
            ));
        }
    }
    let listed = member("d/", b'D', b"Yname\0\0");
    cases.push(case("a dumpdir", with_next(&[&listed]), 0, "", BOTH));
    check(cases);
}

#[test]
fn members_after_damage_are_restored() {
    let first = member("first", b'0', b"data");
    let mut spoilt = member("spoilt", b'0', &[b'x'; 700]);
    spoilt[0] ^= 1;
    let noise = [0x55; 3 * BLOCK];
    let field = |at, bytes| with_next(&[&first, &raw("f", b'0', 0, &[(at, bytes)])]);
    let records = |records: &[(&str, &[u8])]| {
        with_next(&[
            &first,
            &extended(b'x', records),
            &member("f", b'0', b"data"),
        ])
    };
    let lone = [&first[..], &[0; BLOCK], &member("not read", b'0', b"")].concat();
    check(vec![
        case(
            "a damaged header",
            with_next(&[&first, &spoilt]),
            1,
            "wrong header checksum",
            BOTH,
        ),
        case(
            "a damaged first header",
            with_next(&[&spoilt]),
            1,
            "wrong header checksum",
            &["tar"],
        ),
        case(
            "noise",
            with_next(&[&first, &noise]),
            1,
            "wrong header checksum",
            BOTH,
        ),
        case("a size", field(124, b"9x"), 1, "invalid size", &["tar"]),
        case(
            "a negative owner",
            field(108, b"\xff\xff\xff\xff\xff\xff\xff\xfe"),
            0,
            "",
            &["bsdtar"],
        ),
        case("an owner", field(108, b"9x"), 1, "invalid owner", &[]),
        case("a mode", field(100, b"9x"), 1, "invalid mode", &[]),
        case(
            "a record",
            records(&[("gid", b"7"), ("mtime", b"z")]),
            1,
            "invalid time",
            &["tar"],
        ),
        case(
            "a NUL in a name",
            records(&[("path", b"a\0b")]),
            1,
            "contains a NUL",
            &[],
        ),
        case("no end", first.clone(), 1, "no end-of-archive blocks", BOTH),
        case(
            "half an end",
            [&first[..], &[0; BLOCK]].concat(),
            1,
            "single block of zeros",
            BOTH,
        ),
        case("a block of zeros", lone, 1, "single block of zeros", BOTH),
        case(
            "a truncated member",
            [&first[..], &spoilt[..0], &first[..700]].concat(),
            1,
            "truncated",
            &[],
        ),
    ]);
}

#[test]
fn rare_members_are_restored() {
    let file = member("f", b'0', b"data");
    let acl = b"1000005\0user::rw-,user:4321:r--:4321,group::r--,mask:r--,other:---\0";
    let star = "user: :rw- , user:4321 :R--:4321,group::r--,mask:r--,other::---";
    let list = |text: &str| extended(b'x', &[("SCHILY.acl.access", text.as_bytes())]);
    let global = [
        extended(b'g', &[("uid", b"77"), ("gid", b"78")]),
        member("a", b'0', b""),
        extended(b'g', &[("uid", b"")]),
    ]
    .concat();
    // Leading zeros make the header longer than a MiB.
    let extents = 32_000;
    let map: Vec<String> = (0..extents)
        .map(|n| format!("{:030},512", n * 4096))
        .collect();
    let (map, size) = (map.join(","), (extents * 4096 - 3584).to_string());
    let map = [
        ("GNU.sparse.size", size.as_bytes()),
        ("GNU.sparse.numblocks", b"32000"),
        ("GNU.sparse.name", b"s"),
        ("GNU.sparse.map", map.as_bytes()),
    ];
    let data = vec![b'd'; extents * 512];
    let sparse = [extended(b'x', &map), member("s", b'0', &data)].concat();
    let binary = extended(b'x', &[("hdrcharset", b"BINARY"), ("path", b"\xff\xe9")]);
    let device = raw("d", b'3', 0, &[(257, &[0; 8]), (329, b"garbage!garbage!")]);
    check(vec![
        case(
            "an unknown type",
            with_next(&[&member("q", b'Q', b"data")]),
            1,
            "unknown member type",
            BOTH,
        ),
        case(
            "a list of Solaris",
            with_next(&[&member("acl", b'A', acl), &file]),
            0,
            "",
            &["bsdtar"],
        ),
        case(
            "a list of star",
            with_next(&[&list(star), &file]),
            0,
            "",
            &["bsdtar"],
        ),
        case(
            "a list of NFSv4",
            with_next(&[
                &extended(b'x', &[("SCHILY.acl.ace", b"owner@:r::allow")]),
                &file,
            ]),
            1,
            "NFSv4",
            &["tar"],
        ),
        case("global headers", with_next(&[&global, &file]), 0, "", &[]),
        case("a long map", with_next(&[&sparse]), 0, "", &["tar"]),
        case(
            "a name in no character set",
            with_next(&[&binary, &file]),
            0,
            "",
            BOTH,
        ),
        case(
            "a device of an old tar",
            with_next(&[&member("f", b'0', b""), &device]),
            0,
            "",
            BOTH,
        ),
    ]);
}

/// A sparse file in star's format: 24 KiB with `extents` extents of one block each. In the oldest
/// format, the first extents are in the header.
fn sparse_of_star(extents: usize, are_in_header: bool) -> Vec<u8> {
    let number = |n: usize| format!("{n:011o} ").into_bytes();
    let size = number(extents * 8192);
    let mut pairs: Vec<Vec<u8>> = (0..extents)
        .map(|n| [number(n * 8192), number(BLOCK)].concat())
        .collect();
    pairs.push([&size[..], &number(0)].concat());
    let rest = pairs.split_off(if are_in_header { 4.min(pairs.len()) } else { 0 });
    let mut content = Vec::new();
    for (n, piece) in rest.chunks(21).enumerate() {
        content.extend(piece.concat());
        content.resize((n + 1) * BLOCK, 0);
        content[n * BLOCK + 504] = u8::from(n + 1 < rest.len().div_ceil(21));
    }
    let is_extended = [u8::from(!rest.is_empty() && are_in_header)];
    let blocks = content.len();
    (0..extents).for_each(|n| content.resize(blocks + (n + 1) * BLOCK, b'a' + n as u8));
    let (pairs, time) = (pairs.concat(), number(1_000_000_000));
    let fields: [(usize, &[u8]); 6] = [
        (355, &is_extended),
        (356, &pairs),
        (452, &size),
        (476, &time),
        (488, &time),
        (508, b"tar\0"),
    ];
    [raw("s", b'S', content.len(), &fields), content].concat()
}

#[test]
fn sparse_files_of_star_are_restored() {
    let mut cases = Vec::new();
    for (extents, are_in_header) in [(1, true), (3, true), (9, true), (1, false), (50, false)] {
        let file = sparse_of_star(extents, are_in_header);
        cases.push(case("a file of star", with_next(&[&file]), 0, "", &["tar"]));
    }
    // A real size without a sparse map is ignored.
    let size = extended(b'x', &[("SCHILY.realsize", b"99")]);
    let file = [size, member("f", b'0', b"data")].concat();
    cases.push(case("a size of star", with_next(&[&file]), 0, "", &["tar"]));
    check(cases);
}

#[test]
fn continuations_of_files_are_named() {
    let place = tempfile::tempdir().unwrap();
    let archive = place.path().join("archive.tar");
    fs::write(&archive, with_next(&[&member("m", b'M', b"data")])).unwrap();
    let listed = run(&mut fathom(args!["list", &archive, "--json"])).exits(0);
    assert_eq!(
        listed.json()["result"]["members"][0]["type"],
        "continuation"
    );
    let to = place.path();
    let ran = run(&mut fathom(args!["restore", &archive, "-C", to])).exits(1);
    assert!(
        ran.stderr.contains("continues a file of another volume"),
        "{ran}"
    );
    assert!(to.join("next").exists() && !to.join("m").exists());
}

#[test]
fn truncated_archives_are_restored_as_far_as_they_go() {
    if !require(&[Need::Program("gzip")]) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (first, next) = (place.path().join("0.tar"), place.path().join("1.tar"));
    // Data that gzip compresses little.
    let mut state = 1_u32;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    })
    .take(300_000)
    .collect();
    let archive = with_next(&[
        &member("whole", b'0', b"data"),
        &member("half", b'0', &noise),
    ]);
    fs::write(&first, &archive).unwrap();
    fs::write(&next, with_next(&[&member("later", b'0', b"data")])).unwrap();
    let compressed = tool(Command::new("gzip").arg("-c").arg(&first));
    for bytes in [&archive[..100_000], &compressed[..100_000]] {
        fs::write(&first, bytes).unwrap();
        let to = dir(place.path().join("to"));
        let ran = run(&mut fathom(args!["restore", &first, "-C", &to])).exits(1);
        assert_eq!(
            ran.stderr.matches("cannot read the rest").count(),
            1,
            "{ran}"
        );
        assert!(ran.stderr.contains("truncated"), "{ran}");
        assert!(to.join("whole").exists() && !to.join("half").exists());
        // The increment is not restored over an incomplete dump.
        let ran = run(&mut fathom(args!["restore", &first, &next, "-C", &to])).exits(2);
        assert!(
            ran.stderr.contains("what was restored so far remains"),
            "{ran}"
        );
        assert!(!to.join("later").exists());
        fs::remove_dir_all(&to).unwrap();
    }
}

#[test]
fn images_are_not_archives_without_members() {
    let place = tempfile::tempdir().unwrap();
    let image = place.path().join("image.iso");
    fs::write(
        &image,
        [&[0; 64 * BLOCK][..], b"\x01CD001", &[b'x'; 9000]].concat(),
    )
    .unwrap();
    let to = place.path().to_str().unwrap();
    for command in [&["list"][..], &["verify"], &["restore", "-C", to]] {
        let ran = run(fathom(command).arg(&image)).exits(1);
        assert!(ran.stderr.contains("no members"), "{ran}");
    }
    // GNU tar writes an archive without members as blocks of zeros.
    fs::write(&image, [0; 20 * BLOCK]).unwrap();
    run(&mut fathom(args!["list", &image])).exits(0);
}
