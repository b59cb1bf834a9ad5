//! Tests of archives compressed with gzip, bzip2, xz, lz4 and zstd: fathom reads them like these
//! programs, and reports damage.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::written;
use crate::support::build::dir;
use crate::support::run::args;
use crate::support::snapshot::{kept, same};
use crate::support::tool::tool;
use crate::support::{Need, fathom, require, run};

/// The commands that compress archives.
const PROGRAMS: [&[&str]; 7] = [
    &["gzip", "-c"],
    &["bzip2", "-c"],
    &["xz", "-c"],
    &["xz", "-9", "-C", "sha256", "-c"],
    &["lz4", "-c"],
    &["lz4", "-BD", "-c"],
    &["zstd", "-q", "-c"],
];

fn needs() -> [Need; 5] {
    ["gzip", "bzip2", "xz", "lz4", "zstd"].map(Need::Program)
}

fn compressed(by: &[&str], content: &[u8], at: &Path) -> Vec<u8> {
    fs::write(at, content).unwrap();
    let from = fs::File::open(at).unwrap();
    tool(Command::new(by[0]).args(&by[1..]).stdin(from))
}

#[test]
fn compressed_archives_are_listed_and_restored() {
    if require(&needs()) {
        let place = tempfile::tempdir().unwrap();
        let (archive, part) = (place.path().join("no suffix"), place.path().join("part"));
        let plain = written::archive();
        fs::write(&archive, &plain).unwrap();
        let expected = run(&mut fathom(args!["list", &archive])).exits(0).stdout;
        let restored = |to: &str| {
            let to = dir(place.path().join(to));
            let ran = run(&mut fathom(args!["restore", &archive, "-C", &to]));
            let mut tree = kept(&to);
            tree.remove(&b""[..]);
            (ran.code(), tree)
        };
        let (code, tree) = restored("plain");
        for (n, program) in PROGRAMS.iter().enumerate() {
            let whole = compressed(program, &plain, &part);
            // Two streams one after the other, as when two compressed files are concatenated.
            let (first, second) = plain.split_at(plain.len() / 2);
            let both = [first, second].map(|half| compressed(program, half, &part));
            let padded = [&whole[..], &[0; 2000]].concat();
            // A skippable frame, which contains no data of the archive.
            let skipped = b"\x53\x2a\x4d\x18\x05\0\0\0hello";
            let has_frames = ["lz4", "zstd"].contains(&program[0]);
            let skipped: &[u8] = if has_frames { skipped } else { b"" };
            let between = [skipped, &whole, skipped].concat();
            for bytes in [&whole, &both.concat(), &padded, &between] {
                fs::write(&archive, bytes).unwrap();
                let listed = run(&mut fathom(args!["list", &archive])).exits(0);
                assert_eq!(listed.stdout, expected, "{program:?}");
                run(&mut fathom(args!["verify", &archive])).exits(0);
            }
            let from = fs::File::open(&archive).unwrap();
            let listed = run(fathom(["list", "-"]).stdin(from)).exits(0);
            assert_eq!(listed.stdout, expected, "{program:?}");
            let (their_code, theirs) = restored(&n.to_string());
            assert_eq!(their_code, code);
            same(&theirs, &tree, program[0]);
            // Like gzip, ignore data after the stream with a warning.
            fs::write(&archive, [&whole[..], b"more"].concat()).unwrap();
            let listed = run(&mut fathom(args!["list", &archive])).exits(1);
            assert_eq!(listed.stdout, expected, "{program:?}");
            assert_eq!(listed.stderr.matches("ignored data after the").count(), 1);
        }
    }
}

#[test]
fn truncated_and_damaged_streams_are_reported() {
    if require(&needs()) {
        let place = tempfile::tempdir().unwrap();
        let (archive, part) = (place.path().join("archive"), place.path().join("part"));
        let plain = written::archive();
        fs::write(&archive, &plain).unwrap();
        let expected = run(&mut fathom(args!["list", &archive])).exits(0).stdout;
        for program in PROGRAMS {
            let whole = compressed(program, &plain, &part);
            let lens = (1..8).map(|n| whole.len() * n / 8);
            for len in lens.chain([whole.len() - 9, whole.len() - 1]) {
                fs::write(&archive, &whole[..len]).unwrap();
                for command in ["list", "verify"] {
                    let ran = run(&mut fathom(args![command, &archive]));
                    let what = format!("{program:?}, {len} bytes: {ran}");
                    assert!([1, 2].contains(&ran.code()), "{what}");
                    let says = format!("the {} stream is truncated", program[0]);
                    assert_eq!(ran.stderr.matches(&says).count(), 1, "{what}");
                }
            }
            for at in (4..whole.len()).step_by(whole.len() / 40) {
                let mut damaged = whole.clone();
                damaged[at] ^= 0x10;
                fs::write(&archive, damaged).unwrap();
                let ran = run(&mut fathom(args!["list", &archive]));
                // The time and the name in the header of gzip mean nothing.
                let is_same = ran.code() == 0 && ran.stdout == expected;
                let what = format!("{program:?}, byte {at}: {ran}");
                assert!(is_same || [1, 2].contains(&ran.code()), "{what}");
                assert!(is_same || ran.stderr.contains("fathom: "), "{what}");
                assert!(!ran.stderr.contains("panicked"), "{what}");
            }
        }
    }
}

/// The hint says to copy the file again: `fathom verify` would find no more.
#[test]
fn archives_of_which_nothing_can_be_read_are_to_be_copied_again() {
    let place = tempfile::tempdir().unwrap();
    let at = place.path();
    fs::write(at.join("file"), "data").unwrap();
    for suffix in ["gz", "xz", "zst"] {
        let name = format!("a.tar.{suffix}");
        let dump = args!["dump", "-q", "file", "-o", &name];
        run(fathom(dump).current_dir(at)).exits(0);
        let whole = fs::read(at.join(&name)).unwrap();
        fs::write(at.join(&name), &whole[..30]).unwrap();
        for command in ["list", "verify", "restore"] {
            let ran = run(fathom([command, &name]).current_dir(at)).exits(2);
            assert!(ran.stderr.contains("stream is truncated"), "{ran}");
            assert!(ran.stderr.contains("copy the file again"), "{ran}");
        }
    }
}

#[test]
fn other_compressed_formats_are_named() {
    let place = tempfile::tempdir().unwrap();
    let archive = place.path().join("archive");
    for (magic, name, command) in [
        (&b"\x1f\x9d\x90"[..], "compress", "gzip -dc"),
        (b"LZIP\x01", "lzip", "lzip -dc"),
        (b"\x89LZO\0\r\n\x1a\n", "lzop", "lzop -dc"),
        (b"\x5d\0\0\x80\0\xff\xff", "lzma", "xz -dc"),
        (b"\x02\x21\x4c\x18\0", "an old lz4", "lz4 -dc"),
    ] {
        fs::write(&archive, [magic, &[7; 600]].concat()).unwrap();
        for command_name in ["list", "verify", "restore"] {
            let ran = run(fathom([command_name]).arg(&archive)).refused();
            assert!(
                ran.stderr.contains(&format!("compressed with {name},")),
                "{ran}"
            );
            assert!(ran.stderr.contains(command), "{ran}");
        }
    }
}
