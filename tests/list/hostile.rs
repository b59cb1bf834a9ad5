//! Tests of damaged and hostile archives: errors contain a position, memory use stays small, and
//! nothing panics.

use std::fs;
use std::path::Path;
use std::process::Command;

use ondisk::pax::{BLOCK, Member, MemberKind, header};

use super::written;
use crate::support::pack::{end, pack, plain, push};
use crate::support::run::args;
use crate::support::tool::tool;
use crate::support::{Need, fathom, require, run};

/// Runs a command on an archive; returns its exit status and its peak memory in MiB. The peak
/// includes the memory of the process before exec(2), so a small process starts the command.
fn memory(command: &str, archive: &Path) -> (i32, u64) {
    const SCRIPT: &str = "
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
print(status, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)
";
    let program = env!("CARGO_BIN_EXE_fathom");
    let printed = tool(
        Command::new("python3")
            .args(["-c", SCRIPT, program, command, "--json"])
            .arg(archive),
    );
    let printed = String::from_utf8(printed).unwrap();
    let (status, most) = printed.trim().split_once(' ').unwrap();
    (status.parse().unwrap(), most.parse().unwrap())
}

/// An extended header with this text, and the member that it describes.
fn with_records(text: &[u8]) -> Vec<u8> {
    // The headers of a member with a comment of the right length; the text then replaces the
    // comment.
    let mut own = Vec::new();
    header(&plain("f", b""), &mut own);
    let file = own.split_off(own.len() - BLOCK);
    own.truncate(BLOCK);
    own[124..135].copy_from_slice(format!("{:011o}", text.len()).as_bytes());
    own[148..156].fill(b' ');
    let sum: u32 = own.iter().map(|&byte| u32::from(byte)).sum();
    own[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    let mut archive = [&own[..], text].concat();
    archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    archive.extend(file);
    end(&mut archive);
    archive
}

#[test]
fn memory_stays_small() {
    if !require(&[Need::Program("python3")]) {
        return;
    }
    let record = |key: &str, value: &[u8]| {
        let rest = key.len() + value.len() + 3;
        let len = (1..12)
            .map(|digits| rest + digits)
            .find(|len| len.to_string().len() + rest == *len)
            .unwrap();
        [format!("{len} {key}=").as_bytes(), value, b"\n"].concat()
    };
    let names = b"Nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn\0".repeat((32 << 20) / 32 - 1);
    let dumpdir = Member {
        kind: MemberKind::Directory,
        dumpdir: Some([&names[..], b"\0"].concat()),
        ..plain("d/", b"")
    };
    let attributes = record("SCHILY.xattr.a", b"").repeat((113 << 20) / 18);
    let few = (0..40_000)
        .flat_map(|n| record(&format!("SCHILY.xattr.{n}"), b""))
        .collect::<Vec<u8>>();
    let pair = [
        record("GNU.sparse.offset", b"1"),
        record("GNU.sparse.numbytes", b"0"),
    ]
    .concat();
    let pairs = [record("GNU.sparse.size", b"9"), pair.repeat(20_000)].concat();
    let mut map = b"1048576\n".to_vec();
    (0..1 << 20).for_each(|n| map.extend(format!("{}\n1\n", 2 * n).bytes()));
    map.resize(map.len().next_multiple_of(BLOCK), 0);
    let mut sparse = Vec::new();
    let said = [
        record("GNU.sparse.major", b"1"),
        record("GNU.sparse.realsize", b"9000000000"),
    ]
    .concat();
    sparse.extend(&with_records(&said)[..2 * BLOCK]);
    push(
        &mut sparse,
        &Member {
            mode: 0,
            ..plain("s", &[])
        },
        &[],
    );
    let place = tempfile::tempdir().unwrap();
    let archive = place.path().join("archive");
    for (what, bytes, code) in [
        ("a long dumpdir", pack(&[(dumpdir, b"")]), 0),
        ("a million attributes", with_records(&attributes), 1),
        ("many attributes", with_records(&few), 0),
        ("many extents", with_records(&pairs), 0),
        (
            "a size that lies",
            with_records(b"28 size=9223372036854775807\n"),
            1,
        ),
        ("a map of a map", sparse, 1),
        (
            "nothing but extended headers",
            with_records(b"").repeat(1)[..BLOCK].repeat(10_000),
            1,
        ),
    ] {
        fs::write(&archive, bytes).unwrap();
        for command in ["list", "verify"] {
            let (status, most) = memory(command, &archive);
            assert!(
                status == code && most < 64,
                "{command} of {what}: exit status {status}, {most} MiB"
            );
        }
    }
}

#[test]
fn truncated_archives_are_reported() {
    let whole = written::archive();
    let place = tempfile::tempdir().unwrap();
    let archive = place.path().join("archive");
    // The last record is padded with zeros; two blocks of zeros are the end of the archive.
    let end = whole
        .iter()
        .rposition(|&byte| byte != 0)
        .unwrap()
        .next_multiple_of(BLOCK)
        + 2 * BLOCK;
    for len in (BLOCK..end).step_by(997).chain([end - 1]) {
        fs::write(&archive, &whole[..len]).unwrap();
        for command in ["list", "verify"] {
            let ran = run(&mut fathom(args![command, &archive, "--json"])).exits(1);
            let warnings = ran.json()["warnings"].as_array().unwrap().clone();
            let message = warnings.last().unwrap()["message"].as_str().unwrap();
            assert!(
                message.contains("truncated") && message.contains("at byte "),
                "{len}: {message}"
            );
        }
    }
    fs::write(&archive, &whole[..end]).unwrap();
    run(&mut fathom(args!["verify", &archive])).exits(0);
}

#[test]
fn invalid_pax_records_are_reported() {
    let place = tempfile::tempdir().unwrap();
    let archive = place.path().join("archive");
    for text in [
        &b"10 path=\0\n"[..],
        b"9 path=\0\n",
        b"99 path=a\n",
        b"0 path=a\n",
        b"13 mtime=now\n",
        b"99999999999999999999 a=b\n",
        b"28 size=9999999999999999999\n",
        b"18 uid=99999999999\n",
        b"24 SCHILY.xattr.=nothing\n",
        b"27 LIBARCHIVE.xattr.a=\x00\xff!\n",
        b"22 GNU.sparse.major=7\n",
    ] {
        fs::write(&archive, with_records(text)).unwrap();
        let ran = run(&mut fathom(args!["list", &archive])).exits(1);
        assert!(ran.stderr.contains("at byte "), "{ran}");
    }
}
