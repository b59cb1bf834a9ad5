//! Tests of reading a few members of an archive that is compressed with zstd: little is read, and
//! the result equals that of reading the whole archive.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use ondisk::members::{IndexWriter, Indexed};
use ondisk::seekable::{SeekTable, index_frame};
use serde_json::Value;

use super::changes::change;
use super::full::dump;
use crate::support::build::{dir, file};
use crate::support::effort::effort;
use crate::support::run::{Ran, args};
use crate::support::snapshot::{alike, kept, same};
use crate::support::tool::tool;
use crate::support::trees::Dice;
use crate::support::{Need, fathom, require, run};

const WRONG_INDEX: &str = "wrong index: the archive is read from its beginning";

/// Data that does not compress.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut dice = Dice::new(seed);
    (0..len / 8)
        .flat_map(|_| dice.roll().to_le_bytes())
        .collect()
}

/// A tree of files of 256 KiB, and a small one among them.
fn large_tree(at: &Path, files: usize) -> PathBuf {
    let tree = dir(at.join("tree"));
    for n in 0..files {
        let within = dir(tree.join(format!("d{:02}", n / 16)));
        fs::write(within.join(format!("f{n:03}")), noise(256 << 10, n as u64)).unwrap();
    }
    fs::write(dir(tree.join("d01")).join("small"), "small").unwrap();
    tree
}

/// The number of read calls on the archive in a run, and their bytes.
fn reads(command: &[&str], at: &Path) -> (u64, u64) {
    let log = at.join("log");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-s", "0", "-e", "trace=read,pread64", "-o"]);
    strace
        .arg(&log)
        .arg(env!("CARGO_BIN_EXE_fathom"))
        .args(command);
    run(strace.current_dir(at)).exits(0);
    let log = fs::read_to_string(&log).unwrap();
    let of_archive = log.lines().filter(|line| line.contains("a.tar.zst>"));
    let bytes = of_archive.filter_map(|line| line.rsplit_once(" = ")?.1.parse::<u64>().ok());
    bytes.fold((0, 0), |(calls, sum), bytes| (calls + 1, sum + bytes))
}

/// Reading one file from an archive twice as large takes no more calls, and hardly more bytes: the
/// seek table and the index. The constant part is less than 1 % of 400 MiB.
#[test]
fn one_file_takes_the_same_reads_whatever_the_size_of_the_archive() {
    if require(&[Need::Program("strace")]) {
        let commands: [&[&str]; 4] = [
            &["list", "a.tar.zst", "--", "tree/d01/small"],
            &["restore", "a.tar.zst", "-C", "out", "--", "tree/d01/small"],
            &["verify", "a.tar.zst", "--", "tree/d01/small"],
            &["list", "a.tar.zst", "--", "tree/d01/not there"],
        ];
        let [small, large] = [48, 96].map(|files| {
            let place = tempfile::tempdir().unwrap();
            let tree = large_tree(place.path(), files);
            let archive = place.path().join("a.tar.zst");
            dump(&tree, &archive, &[]).exits(0);
            let size = archive.metadata().unwrap().len();
            assert!(size > (files as u64) << 18, "{size}");
            let measured = commands[..3].iter().map(|command| {
                dir(place.path().join("out"));
                reads(command, place.path())
            });
            let measured: Vec<(u64, u64)> = measured.collect();
            let got = fs::read(place.path().join("out/tree/d01/small")).unwrap();
            assert_eq!(got, b"small");
            assert!(!place.path().join("out/tree/d02").exists());
            let missing = run(fathom(commands[3]).current_dir(place.path())).exits(1);
            assert!(
                missing.stderr.contains("no member has this name"),
                "{missing}"
            );
            measured
        });
        for ((calls, bytes), (more_calls, more_bytes)) in small.into_iter().zip(large) {
            assert!(
                calls < 70 && bytes < 4 << 20,
                "{calls} calls, {bytes} bytes"
            );
            assert_eq!(more_calls, calls);
            // The larger archive has 12 MiB more.
            assert!(more_bytes - bytes < 2000, "{bytes}, {more_bytes} bytes");
        }
    }
}

#[test]
fn other_programs_read_archives_with_an_index() {
    if require(&["zstd", "tar", "bsdtar"].map(Need::Program)) {
        let place = tempfile::tempdir().unwrap();
        let tree = large_tree(place.path(), 20);
        let [plain, archive] = ["a.tar", "a.tar.zst"].map(|name| place.path().join(name));
        dump(&tree, &plain, &[]).exits(0);
        dump(&tree, &archive, &[]).exits(0);
        let decompressed = tool(Command::new("zstd").arg("-qdc").arg(&archive));
        assert!(decompressed == fs::read(&plain).unwrap());
        tool(Command::new("zstd").arg("-qt").arg(&archive));
        let names = |program, archive: &Path| tool(Command::new(program).arg("-tf").arg(archive));
        for program in ["tar", "bsdtar"] {
            assert_eq!(
                names(program, &archive),
                names(program, &plain),
                "{program}"
            );
        }
        let bytes = fs::read(&archive).unwrap();
        let (table, end) = table_of(&bytes);
        assert_eq!(table.end().file, end);
        assert_eq!(table.end().content, decompressed.len() as u64);
        // The archive has 5 MiB in frames of 2 MiB.
        assert_eq!(table.find(3 << 20).content, 2 << 20);
        let listed = run(&mut fathom(args!["list", &archive, "--json"])).exits(0);
        assert_eq!(listed.json()["result"]["count"], 24);
    }
}

/// The seek table of an archive, and its offset.
pub(super) fn table_of(archive: &[u8]) -> (SeekTable, u64) {
    let footer = archive.last_chunk().unwrap();
    let len = SeekTable::frame_len(footer).unwrap();
    let at = archive.len() as u64 - len;
    (SeekTable::parse(&archive[at as usize..]).unwrap(), at)
}

/// The archive with a different index, or without one.
fn with_index(archive: &[u8], index: Option<&[u8]>) -> Vec<u8> {
    let (table, _) = table_of(archive);
    let (at, _) = table.last_skippable().unwrap();
    let mut changed = archive[..at as usize].to_vec();
    let mut new = SeekTable::default();
    let mut start = table.find(0);
    while start.content < table.end().content {
        // The next frame begins where the content of this frame ends.
        let mut end = start.content + 1;
        while end < table.end().content && table.find(end) == start {
            end += 1 << 20;
        }
        let next = match end < table.end().content {
            true => table.find(end),
            false => ondisk::seekable::FrameStart {
                file: at,
                content: table.end().content,
            },
        };
        new.push(
            (next.file - start.file) as u32,
            (next.content - start.content) as u32,
        );
        start = next;
    }
    if let Some(index) = index {
        let frame = index_frame::encode(index).unwrap();
        new.push(frame.len() as u32, 0);
        changed.extend(frame);
    }
    changed.extend(new.encode().unwrap());
    changed
}

/// An index that names these members, compressed.
fn index(members: &[(u64, bool, &str)], archive_len: u64) -> Vec<u8> {
    let mut writer = IndexWriter::default();
    for &(at, begins_order, name) in members {
        let name = name.as_bytes();
        writer.push(Indexed {
            at,
            begins_order,
            name,
        });
    }
    let mut child = Command::new("zstd");
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("index");
    fs::write(&path, writer.finish(archive_len)).unwrap();
    tool(child.args(["-q", "-c"]).arg(&path))
}

/// The index of an archive, compressed.
fn index_of(archive: &[u8]) -> &[u8] {
    let (at, len) = table_of(archive).0.last_skippable().unwrap();
    index_frame::parse(&archive[at as usize..(at + u64::from(len)) as usize]).unwrap()
}

/// Archives like `good`, but with a wrong index.
fn with_wrong_indexes(good: &[u8], other: &[u8]) -> Vec<(String, Vec<u8>)> {
    let (table, _) = table_of(good);
    let (index_at, index_len) = table.last_skippable().unwrap();
    let mut flipped = good.to_vec();
    flipped[(index_at + u64::from(index_len) / 2) as usize] ^= 1;
    let lies: [&[(u64, bool, &str)]; 6] = [
        &[(0, true, "tree"), (5 << 20, false, "tree/d01/s")],
        &[(0, true, "tree"), (5 << 20, false, "tree/d01/small")],
        &[(0, true, "tree"), (1024, false, "tree/d01/small")],
        &[(0, true, "tree/d01/small")],
        &[
            (0, true, "tree"),
            (600, false, "tree/b"),
            (700, false, "tree/a"),
        ],
        &[],
    ];
    let lies = lies.map(|lie| {
        let index = index(lie, table.end().content);
        (format!("{lie:?}"), with_index(good, Some(&index)))
    });
    let others = [
        (
            "of another archive",
            with_index(good, Some(index_of(other))),
        ),
        ("a bit flipped", flipped),
        ("no index at all", with_index(good, Some(b"nothing"))),
    ];
    let others = others.map(|(what, archive)| (what.to_owned(), archive));
    others.into_iter().chain(lies).collect()
}

/// With any wrong byte in the seek table, the restored files are right, or an error is reported.
#[test]
fn a_wrong_seek_table_costs_no_data() {
    let place = tempfile::tempdir().unwrap();
    let tree = large_tree(place.path(), 34);
    let good = place.path().join("good.tar.zst");
    dump(&tree, &good, &[]).exits(0);
    let good = fs::read(good).unwrap();
    let begin = table_of(&good).1 as usize;
    let path = place.path().join("changed.tar.zst");
    let out = dir(place.path().join("out"));
    let mut right = 0;
    for at in (begin..good.len()).step_by(3) {
        let mut wrong = good.clone();
        wrong[at] ^= 1 << (at % 8);
        fs::write(&path, wrong).unwrap();
        let restore = args!["restore", &path, "-C", &out, "--", "tree/d01/small"];
        let ran = run(&mut fathom(restore));
        let what = format!("byte {} of the table: {ran}", at - begin);
        let small = fs::read(out.join("tree/d01/small")).ok();
        match small {
            Some(small) => assert_eq!(small, b"small", "{what}"),
            None => assert_eq!(ran.code(), 1, "{what}"),
        }
        assert!([0, 1].contains(&ran.code()), "{what}");
        right += usize::from(ran.code() == 0);
        let warnings = ran
            .stderr
            .lines()
            .filter(|line| line.starts_with("fathom: "));
        assert!(warnings.count() <= 2, "{what}");
        fs::remove_dir_all(out.join("tree")).unwrap();
    }
    assert!(right > 0, "no wrong table was recognized");
}

#[test]
fn a_wrong_index_costs_time_and_no_data() {
    if require(&[Need::Program("zstd")]) {
        let place = tempfile::tempdir().unwrap();
        let tree = large_tree(place.path(), 34);
        let good = place.path().join("good.tar.zst");
        dump(&tree, &good, &[]).exits(0);
        let other = place.path().join("other.tar.zst");
        fs::write(tree.join("d00/f000"), "shorter").unwrap();
        dump(&tree, &other, &[]).exits(0);
        let [good, other] = [good, other].map(|path| fs::read(path).unwrap());
        let begin = table_of(&good).1 as usize;
        let silent = [
            ("good", good.clone()),
            ("the same index", with_index(&good, Some(index_of(&good)))),
            ("without an index", with_index(&good, None)),
            ("without a seek table", good[..begin].to_vec()),
        ];
        let silent = silent.map(|(what, archive)| (what.to_owned(), archive, 0));
        let wrong = with_wrong_indexes(&good, &other).into_iter();
        let wrong = wrong.map(|(what, archive)| (what, archive, 1));
        for (n, (what, archive, code)) in wrong.chain(silent).enumerate() {
            let path = place.path().join("changed.tar.zst");
            fs::write(&path, archive).unwrap();
            let out = dir(place.path().join(format!("out {n}")));
            let names = ["tree/d01/small", "tree/d02"];
            let restored = run(fathom(args!["restore", &path, "-C", &out, "--"]).args(names));
            let ran = restored.exits(code);
            assert_eq!(ran.stderr.contains(WRONG_INDEX), code == 1, "{what}: {ran}");
            let small = fs::read(out.join("tree/d01/small")).unwrap();
            assert_eq!(small, b"small", "{what}");
            let [made, theirs] = [&out, place.path()].map(|at| kept(&at.join("tree/d02")));
            same(&made, &theirs, &what);
            let listed = run(fathom(args!["list", &path, "--"]).args(names)).exits(code);
            assert_eq!(listed.lines().len(), 1 + 3, "{what}: {listed}");
            let verified = run(fathom(args!["verify", &path, "--json", "--"]).args(names));
            assert_eq!(verified.exits(code).json()["result"]["right"], 3, "{what}");
        }
    }
}

#[test]
fn damaged_data_is_reported_when_a_file_is_restored() {
    if require(&[]) {
        let place = tempfile::tempdir().unwrap();
        let tree = large_tree(place.path(), 16);
        let archive = place.path().join("a.tar");
        dump(&tree, &archive, &[]).exits(0);
        let mut bytes = fs::read(&archive).unwrap();
        let data = noise(512, 7);
        let at = bytes
            .chunks(512)
            .position(|block| block == data)
            .map(|block| 512 * block);
        bytes[at.unwrap() + 1000] ^= 1;
        fs::write(&archive, bytes).unwrap();
        let out = dir(place.path().join("out"));
        let restore = |name: &str| {
            run(&mut fathom(args![
                "restore", &archive, "-C", &out, "--", name
            ]))
        };
        restore("tree/d00/f006").exits(0);
        restore("tree/d00/f008").exits(0);
        let ran = restore("tree/d00/f007").exits(1);
        assert!(ran.stderr.contains("checksum"), "{ran}");
        let verify = |name: &str| run(&mut fathom(args!["verify", &archive, "--", name]));
        verify("tree/d00/f006").exits(0);
        verify("tree/d00/f007").exits(1);
        let missing = verify("tree/d00/f99").exits(1);
        assert!(
            missing.stderr.contains("no member has this name"),
            "{missing}"
        );
    }
}

/// Verification names the member with the damage, and continues in the next frame in which the
/// index has a member.
#[test]
fn verify_continues_after_a_damaged_frame() {
    let place = tempfile::tempdir().unwrap();
    let tree = large_tree(place.path(), 20);
    let archive = place.path().join("a.tar.zst");
    dump(&tree, &archive, &[]).exits(0);
    let whole = fs::read(&archive).unwrap();
    let (table, _) = table_of(&whole);
    let start = table.find(3 << 20);
    assert_eq!(start.content, 2 << 20);
    let frame = start.file as usize;
    let verify = |status| {
        let ran = run(&mut fathom(args!["verify", &archive, "--json"])).exits(status);
        ran.json()
    };
    let all = verify(0)["result"]["members"].as_u64().unwrap();
    // A reserved bit of the frame header; and the magic, so that the frame is not recognized.
    for (offset, bit, damaged) in [(4, 8, 1), (0, 1, 2)] {
        let mut bytes = whole.clone();
        bytes[frame + offset] ^= bit;
        fs::write(&archive, bytes).unwrap();
        let value = verify(1);
        let result = &value["result"];
        let members = result["members"].as_u64().unwrap();
        // The first and the third frame have at least 11 members.
        assert!((11..all).contains(&members), "{result}");
        assert_eq!(result["damaged"], damaged, "{result}");
        let text = run(&mut fathom(args!["verify", &archive])).exits(1);
        for expected in ["tree/d00/f00", CONTINUED] {
            assert!(text.stderr.contains(expected), "{expected}: {text}");
        }
    }
}

const CONTINUED: &str = "members in the damaged frame are lost; reading continues with 'tree/d01";
const NOT_FOUND: &str = "not found in the undamaged part of the archive";

/// Damages the frame of an archive that contains an offset of the uncompressed archive: sets a
/// reserved bit in the header of the frame.
fn damage_frame(archive: &Path, content: u64) {
    let mut bytes = fs::read(archive).unwrap();
    let start = table_of(&bytes).0.find(content);
    bytes[start.file as usize + 4] ^= 8;
    fs::write(archive, bytes).unwrap();
}

/// The names of the members that `list` prints, without slashes at their ends.
fn names_of(archive: &Path, code: i32) -> BTreeSet<String> {
    let listed = run(&mut fathom(args!["list", archive, "--json"])).exits(code);
    let value = listed.json();
    let members = value["result"]["members"].as_array().unwrap();
    let name = |member: &Value| {
        member["path"]
            .as_str()
            .unwrap()
            .trim_end_matches('/')
            .to_owned()
    };
    members.iter().map(name).collect()
}

/// The regular files below a directory, by their paths in it.
fn files_in(at: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let found = tool(
        Command::new("find")
            .args([".", "-type", "f"])
            .current_dir(at),
    );
    let found = String::from_utf8(found).unwrap();
    let file = |name: &str| (PathBuf::from(name), fs::read(at.join(name)).unwrap());
    found.lines().map(file).collect()
}

/// Restores archives into a new directory.
fn restore_into(out: &Path, archives: &[&Path], paths: &[&str], code: i32) -> Ran {
    dir(out);
    let mut command = fathom(args!["restore", "-C", out]);
    command.args(archives).arg("--").args(paths);
    run(&mut command).exits(code)
}

#[test]
fn restore_and_list_continue_after_a_damaged_frame() {
    let place = tempfile::tempdir().unwrap();
    let tree = large_tree(place.path(), 20);
    let archive = place.path().join("a.tar.zst");
    dump(&tree, &archive, &[]).exits(0);
    let all = names_of(&archive, 0);
    damage_frame(&archive, 3 << 20);
    let rest = names_of(&archive, 1);
    assert!(rest.len() > 10 && rest.len() < all.len(), "{rest:?}");
    assert!(rest.is_subset(&all) && rest.contains("tree/d01/small"));
    let verified = run(&mut fathom(args!["verify", &archive, "--json"])).exits(1);
    let right = verified.json()["result"]["right"].as_u64().unwrap();
    for jobs in ["1", "4"] {
        let out = dir(place.path().join(jobs));
        let ran = run(&mut fathom(args![
            "restore", &archive, "-C", &out, "-j", jobs
        ]));
        let ran = ran.exits(1);
        assert!(ran.stderr.contains(CONTINUED), "{ran}");
        let (made, whole) = (files_in(&out.join("tree")), files_in(&tree));
        assert_eq!(made.len() as u64, right, "{ran}");
        assert!(made.iter().all(|(name, data)| whole[name] == *data));
    }
    // PATHs after the damage are found, and no PATH is said to be in no archive.
    let out = place.path().join("wild");
    let ran = restore_into(&out, &[&archive], &["tree/d0*/f01*"], 1);
    assert!(!ran.stderr.contains(NOT_FOUND), "{ran}");
    assert!(out.join("tree/d01/f019").exists() && !out.join("tree/d01/small").exists());
    let lost = "tree/d00/f010";
    for command in [
        args!["restore", &archive, "-C", &out, "--", lost].to_vec(),
        args!["restore", &archive, lost, "-C", &out].to_vec(),
        args!["restore", &archive, "--dry-run", "--", lost].to_vec(),
        args!["list", &archive, "--", lost].to_vec(),
        args!["verify", &archive, "--", lost].to_vec(),
    ] {
        let ran = run(fathom(command).current_dir(&out)).exits(1);
        assert!(ran.stderr.contains(NOT_FOUND), "{ran}");
    }
    let whole = restore_into(
        &place.path().join("one"),
        &[&archive],
        &["tree/d00/f001"],
        0,
    );
    assert!(whole.stderr.contains("1 file"), "{whole}");
}

/// The last frame has no successor: what follows the damage is lost, and the archive counts as
/// read to its end.
#[test]
fn damage_of_the_last_frame_ends_the_archive() {
    let place = tempfile::tempdir().unwrap();
    let tree = large_tree(place.path(), 20);
    let [full, increment] = ["0.tar.zst", "1.tar.zst"].map(|name| place.path().join(name));
    dump(&tree, &full, &["--catalog", "c.parquet"]).exits(0);
    fs::write(tree.join("d01/new"), "new").unwrap();
    dump(&tree, &increment, &["--since", "c.parquet"]).exits(0);
    damage_frame(&full, 9 << 19);
    let out = place.path().join("out");
    let ran = restore_into(&out, &[&full, &increment], &[], 1);
    let expected = "members in the damaged frame are lost, up to the end of the archive";
    assert!(ran.stderr.contains(expected), "{ran}");
    assert!(out.join("tree/d00/f000").exists());
    assert_eq!(fs::read(out.join("tree/d01/new")).unwrap(), b"new");
}

/// An increment is applied to what is left of a damaged full dump, and removes only what was
/// removed from the tree.
#[test]
fn increments_follow_a_damaged_full_dump() {
    let place = tempfile::tempdir().unwrap();
    let tree = large_tree(place.path(), 20);
    let [full, increment] = ["0.tar.zst", "1.tar.zst"].map(|name| place.path().join(name));
    dump(&tree, &full, &["--catalog", "c.parquet"]).exits(0);
    fs::write(tree.join("d00/f000"), "changed").unwrap();
    fs::write(tree.join("d01/new"), "new").unwrap();
    fs::remove_file(tree.join("d01/f019")).unwrap();
    dump(&tree, &increment, &["--since", "c.parquet"]).exits(0);
    damage_frame(&full, 3 << 20);
    let alone = place.path().join("alone");
    restore_into(&alone, &[&full], &[], 1);
    let out = place.path().join("out");
    let ran = restore_into(&out, &[&full, &increment], &[], 1);
    assert!(ran.stderr.contains(CONTINUED), "{ran}");
    assert!(
        ran.stderr
            .contains("should exist from an earlier archive, and may be in its damaged part"),
        "{ran}"
    );
    let [before, made, whole] =
        [alone.join("tree"), out.join("tree"), tree].map(|at| files_in(&at));
    let mut expected = whole;
    let new = ["./d00/f000", "./d01/new"].map(PathBuf::from);
    expected.retain(|name, _| before.contains_key(name) || new.contains(name));
    assert!(made == expected, "{:?}", made.keys());
}

/// If the contents of a file with two names are damaged, the warnings say so, and not that an archive
/// of the chain is missing.
#[test]
fn hard_links_to_a_damaged_file_are_not_of_a_missing_archive() {
    let place = tempfile::tempdir().unwrap();
    let tree = large_tree(place.path(), 20);
    for n in [10, 12] {
        let name = format!("d00/f{n:03}");
        fs::hard_link(tree.join(&name), tree.join(format!("d01/link{n:03}"))).unwrap();
        let [full, increment] = ["0.tar.zst", "1.tar.zst"].map(|name| place.path().join(name));
        dump(&tree, &full, &["--catalog", "c.parquet"]).exits(0);
        fs::write(tree.join("d00/new"), "new").unwrap();
        fs::write(tree.join("d01/new"), format!("{n}")).unwrap();
        dump(&tree, &increment, &["--since", "c.parquet"]).exits(0);
        damage_frame(&full, 3 << 20);
        let out = place.path().join(format!("out{n}"));
        let ran = restore_into(&out, &[&full, &increment], &[], 1);
        assert!(ran.stderr.contains("damaged"), "{ran}");
        assert!(!ran.stderr.contains("is an archive missing"), "{ran}");
        assert!(!ran.stderr.contains("does not exist"), "{ran}");
        fs::remove_file(tree.join("d00/new")).unwrap();
    }
}

/// Sets the type of the second block of the first frame to the reserved one: only the first 512
/// bytes of the archive can be read from this frame.
fn damage_second_block(archive: &Path) {
    let mut bytes = fs::read(archive).unwrap();
    let descriptor = usize::from(bytes[4]);
    let is_single = descriptor & 0x20 != 0;
    let size_len = [usize::from(is_single), 2, 4, 8][descriptor >> 6];
    let dictionary_len = [0, 1, 2, 4][descriptor & 3];
    let first = 5 + usize::from(!is_single) + dictionary_len + size_len;
    let header = u32::from_le_bytes([bytes[first], bytes[first + 1], bytes[first + 2], 0]);
    let is_run = header >> 1 & 3 == 1;
    let len = if is_run { 1 } else { header as usize >> 3 };
    bytes[first + 3 + len] |= 6;
    fs::write(archive, bytes).unwrap();
}

/// An increment renames directories by the list of its first directory. Without this list, it would
/// remove the directories by their old names.
#[test]
fn nothing_is_removed_if_the_renames_are_lost() {
    let place = tempfile::tempdir().unwrap();
    let tree = dir(place.path().join("tree"));
    for name in ["a/file", "m/file", "zz/gone", "zz/stays"] {
        file(tree.join(name), 9);
    }
    let [full, increment] = ["0.tar.zst", "1.tar.zst"].map(|name| place.path().join(name));
    dump(&tree, &full, &["--catalog", "c.parquet"]).exits(0);
    fs::rename(tree.join("a"), tree.join("b")).unwrap();
    fs::remove_file(tree.join("zz/gone")).unwrap();
    for n in 0..12 {
        fs::write(tree.join(format!("m/n{n:02}")), noise(256 << 10, n)).unwrap();
    }
    dump(&tree, &increment, &["--since", "c.parquet"]).exits(0);
    damage_second_block(&increment);
    let out = place.path().join("out");
    let ran = restore_into(&out, &[&full, &increment], &[], 1);
    let expected = "the list of renamed directories may be lost: nothing is removed from now on";
    assert!(ran.stderr.contains(expected), "{ran}");
    for kept in ["a/file", "m/file", "m/n11", "zz/gone", "zz/stays"] {
        assert!(out.join("tree").join(kept).exists(), "{kept}: {ran}");
    }
}

/// The catalog of a full dump has the names of the members that the damaged archive lacks.
#[test]
fn verify_names_the_lost_members() {
    let place = tempfile::tempdir().unwrap();
    let tree = large_tree(place.path(), 20);
    dir(place.path().join("state"));
    let archive = place.path().join("a.tar.zst");
    dump(&tree, &archive, &["--level", "0", "--state", "state"]).exits(0);
    let all = names_of(&archive, 0);
    damage_frame(&archive, 3 << 20);
    let expected: BTreeSet<String> = &all - &names_of(&archive, 1);
    let state = place.path().join("state");
    let ran = run(&mut fathom(args!["verify", "--state", &state, "-v"])).exits(1);
    let lost = ran.stderr.lines();
    let lost = lost.filter(|line| line.ends_with("lost: it was in the damaged frame"));
    let lost = lost.map(|line| line.split('\'').nth(1).unwrap().to_owned());
    assert_eq!(lost.collect::<BTreeSet<_>>(), expected, "{ran}");
}

/// Restores PATHs from archives by these names in a directory.
fn restored(at: &Path, archives: &[String], paths: &[String]) -> (i32, String, PathBuf) {
    let out = at.join("out");
    let _ = fs::remove_dir_all(&out);
    dir(&out);
    let command = args!["restore", "--numeric-owner", "-C", "out"];
    let mut command = fathom(command);
    command.args(archives).arg("--").args(paths);
    let ran: Ran = run(command.current_dir(at));
    let times = |line: &&str| !line.contains(" restored in ");
    let said: Vec<&str> = ran.stderr.lines().filter(times).collect();
    (ran.code(), said.join("\n"), out)
}

/// A tree with enough data that its archive has several members in the index.
fn mixed_tree(at: &Path) -> PathBuf {
    let tree = dir(at.join("tree"));
    for n in 0..60 {
        let name = format!("d{}/e{}/f{n}", n % 7, n % 3);
        file(tree.join(name), 150_000 + n);
    }
    file(tree.join("n".repeat(200)).join("m".repeat(200)), 10);
    fs::hard_link(tree.join("d0/e0/f0"), tree.join("d6/a link")).unwrap();
    symlink("../d0", tree.join("d3/symlink")).unwrap();
    let sparse = fs::File::create(tree.join("d5/sparse")).unwrap();
    sparse.set_len(9 << 20).unwrap();
    tree
}

/// Pairs of PATHs in the tree, and some PATHs that do not exist.
fn some_paths(at: &Path, dice: &mut Dice) -> Vec<Vec<String>> {
    let found = tool(Command::new("find").arg("tree").current_dir(at));
    let found = String::from_utf8_lossy(&found);
    let found: Vec<&str> = found.lines().collect();
    let owned = |paths: [&str; 2]| paths.map(str::to_owned).to_vec();
    let pairs = (0..8).map(|_| owned([*dice.pick(&found), *dice.pick(&found)]));
    let mut paths: Vec<Vec<String>> = pairs.collect();
    paths
        .iter_mut()
        .step_by(2)
        .for_each(|pair| pair.truncate(1));
    paths.push(owned(["tree/d0", "tree/gone"]));
    paths.push(owned(["tree/d5/sparse", "tree/d6"]));
    paths
}

/// Compares a restore of some PATHs by the index with one without the index.
fn compare_restored(by_index: &Path, without: &Path, archives: &[String], paths: &[String]) {
    let what = format!("{archives:?}: {paths:?}");
    let (code, said, out) = restored(by_index, archives, paths);
    let (expected, expected_said, other) = restored(without, archives, paths);
    assert_eq!((code, said), (expected, expected_said), "{what}");
    // Parent directories of the PATHs have the time of the restore.
    let is_chosen = |path: &[u8]| {
        let path = str::from_utf8(path).unwrap_or("");
        paths.iter().any(|one| Path::new(path).starts_with(one))
    };
    alike(&kept(&out), &kept(&other), &what, |path, seen| {
        seen.atime = (0, 0);
        if !is_chosen(path) {
            seen.mtime = (0, 0);
        }
    });
}

/// PATHs of a chain of increments are restored the same with and without indexes.
#[test]
fn paths_of_chains_are_restored_as_without_an_index() {
    if require(&[Need::Root, Need::Program("zstd")]) {
        let place = tempfile::tempdir().unwrap();
        let tree = mixed_tree(place.path());
        let [by_index, without] = ["by index", "without"].map(|name| dir(place.path().join(name)));
        let catalog = place.path().join("catalog");
        let catalog = catalog.to_str().unwrap();
        let (mut dice, mut archives) = (Dice::new(11), Vec::new());
        for round in 0..effort(4, 50) {
            let name = format!("{round}.tar.zst");
            let archive = by_index.join(&name);
            let since = ["--since", catalog, "--catalog", catalog];
            dump(
                &tree,
                &archive,
                if round == 0 { &since[2..] } else { &since },
            );
            let mut bytes = fs::read(&archive).unwrap();
            bytes.truncate(table_of(&bytes).1 as usize);
            fs::write(without.join(&name), bytes).unwrap();
            archives.push(name);
            for paths in some_paths(place.path(), &mut dice) {
                compare_restored(&by_index, &without, &archives, &paths);
            }
            change(&tree, &mut dice, [3, 10, 25][round % 3]);
            let from = tree.join(format!("d{}", round % 7));
            let to = tree.join(format!("d{}/moved{round}", (round + 3) % 7));
            let _ = fs::rename(from, to);
        }
    }
}
