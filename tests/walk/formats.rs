//! Tests of the output formats: exact names, right figures, and the same results as find and du.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::engines::still;
use super::right::{census_of, entry, objects, same, summary, walk};
use crate::support::build::{dir, file, name, odd_names};
use crate::support::fuse::{Manner, serve};
use crate::support::reference::census;
use crate::support::run::{args, fathom_path, path};
use crate::support::terminal::at_terminal;
use crate::support::tool::tool;
use crate::support::trees::grow;
use crate::support::{Need, fathom, in_namespace, require, run};

/// A tree with every odd name, and more.
fn odd(base: &Path) -> PathBuf {
    let top = still(&base.join("odd")).to_owned();
    grow(&top, 1, 200);
    for odd in odd_names() {
        file(top.join("all").join(name(&odd)), 1);
    }
    top
}

fn find(top: &Path, how: &str) -> BTreeSet<Vec<u8>> {
    let end = if how == "-print0" { 0 } else { b'\n' };
    split(&tool(Command::new("find").arg(top).arg(how)), end)
}

fn split(bytes: &[u8], end: u8) -> BTreeSet<Vec<u8>> {
    assert_eq!(bytes.last(), Some(&end));
    bytes[..bytes.len() - 1]
        .split(|&b| b == end)
        .map(<[u8]>::to_vec)
        .collect()
}

#[test]
fn paths_equal_those_of_find() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let top = odd(base);
            for engine in ["stat", "threads"] {
                let ran = walk(&top, engine, &["--format", "paths0"]).exits(0);
                assert!(
                    ran.stdout
                        .starts_with(&[top.as_os_str().as_bytes(), b"\0"].concat()),
                    "{ran}"
                );
                assert!(
                    split(&ran.stdout, 0) == find(&top, "-print0"),
                    "{engine} --format paths0"
                );
                let ran = walk(&top, engine, &["--format", "paths"]).exits(0);
                assert!(
                    split(&ran.stdout, b'\n') == find(&top, "-print"),
                    "{engine} --format paths"
                );
            }
        });
    }
}

/// A parser of CSV (RFC 4180) on bytes.
pub(crate) fn records(text: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let (mut all, mut record, mut field) = (Vec::new(), Vec::new(), Vec::new());
    let mut rest = text.iter().copied().peekable();
    let mut quoted = false;
    while let Some(byte) = rest.next() {
        match byte {
            b'"' if quoted && rest.peek() == Some(&b'"') => field.extend(rest.next()),
            b'"' => quoted = !quoted,
            b',' if !quoted => record.push(std::mem::take(&mut field)),
            b'\n' if !quoted => {
                if field.last() == Some(&b'\r') {
                    field.pop();
                }
                record.push(std::mem::take(&mut field));
                all.push(std::mem::take(&mut record));
            }
            _ => field.push(byte),
        }
    }
    assert!(
        !quoted && field.is_empty() && record.is_empty(),
        "the last line has no end"
    );
    all
}

#[test]
fn csv_equals_ndjson() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let top = odd(base);
            let lines = objects(&walk(&top, "stat", &["--format", "ndjson"]).exits(0));
            same(&census_of(&lines), &census(&top), "ndjson");
            let ran = walk(&top, "stat", &["--format", "csv"]).exits(0);
            let mut rows = records(&ran.stdout).into_iter();
            let head: Vec<String> = rows
                .next()
                .unwrap()
                .into_iter()
                .map(|field| String::from_utf8(field).unwrap())
                .collect();
            let expected: BTreeSet<&str> = lines
                .iter()
                .flat_map(|line| line.as_object().unwrap().keys().map(String::as_str))
                .collect();
            assert_eq!(
                head.iter().map(String::as_str).collect::<BTreeSet<_>>(),
                expected
            );
            let by_ino = |ino: &str| {
                let ino: u64 = ino.parse().unwrap();
                lines
                    .iter()
                    .filter(|line| line["ino"] == ino)
                    .collect::<Vec<_>>()
            };
            let mut count = 0;
            for row in rows {
                count += 1;
                assert_eq!(row.len(), head.len());
                let row: BTreeMap<&str, String> = head
                    .iter()
                    .map(String::as_str)
                    .zip(
                        row.iter()
                            .map(|field| String::from_utf8_lossy(field).into_owned()),
                    )
                    .collect();
                let matching = by_ino(&row["ino"]).into_iter().any(|line| {
                    row.iter().all(|(field, text)| match &line[*field] {
                        Value::Null => text.is_empty(),
                        Value::String(value) => value == text,
                        Value::Array(values) => {
                            let words: BTreeSet<&str> = text
                                .split([' ', ',', '|', ';'])
                                .filter(|word| !word.is_empty())
                                .collect();
                            words == values.iter().map(|value| value.as_str().unwrap()).collect()
                        }
                        other => {
                            serde_json::from_str::<Value>(text).is_ok_and(|value| value == *other)
                        }
                    })
                });
                assert!(matching, "{row:?}\n{:#?}", by_ino(&row["ino"]));
            }
            assert_eq!(count, lines.len());
        });
    }
}

/// The allocated bytes of each directory by du(1); with `--inodes`, the number of inodes.
fn du(top: &Path, option: &str) -> BTreeMap<PathBuf, u64> {
    let printed = tool(Command::new("du").args(["-0", option]).arg(top));
    let line = |line: &[u8]| {
        let tab = line.iter().position(|&b| b == b'\t').unwrap();
        let figure = std::str::from_utf8(&line[..tab]).unwrap().parse().unwrap();
        (PathBuf::from(name(&line[tab + 1..])), figure)
    };
    split(&printed, 0).iter().map(|found| line(found)).collect()
}

/// Directories whose names are chosen so that the hashes of their paths collide, below one DIR or
/// two.
#[test]
fn directories_with_colliding_names_are_told_apart() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let top = still(&base.join("tree")).to_owned();
            file(top.join("aaaaaaaa/eszycidp/file"), 3000);
            let empty = dir(top.join("bbbbbbbb").join(name(b"\x92-\xf5V#2\xd2\xa3")));
            for n in 0..10 {
                file(top.join("p/d10/f"), 10);
                dir(top.join(format!("q/d1{n}")));
            }
            let dirs = [top.join("p"), top.join("q"), top.clone()];
            for engine in ["stat", "threads"] {
                let mut command = fathom(args!["walk", "-q", "--engine", engine, "--type", "e"]);
                let ran = run(command.args(&dirs).args(["--format", "paths0"])).exits(0);
                let expected = tool(Command::new("find").args(&dirs).args(["-empty", "-print0"]));
                assert_eq!(split(&ran.stdout, 0), split(&expected, 0), "{engine}");
                let value = summary(&top, engine, &["--format", "du"]);
                let lines = value["result"]["du"].as_array().unwrap();
                let paths: BTreeSet<PathBuf> = lines.iter().map(|it| path(it, "path")).collect();
                let expected = du(&top, "--block-size=1").into_keys().collect();
                assert_eq!(paths, expected, "{engine}");
                let mut command = fathom(args!["walk", "--engine", engine, "--format", "du"]);
                let value = run(command.args(&dirs[..2]).arg("--json")).exits(0).json();
                assert_eq!(
                    value["result"]["du"].as_array().unwrap().len(),
                    13,
                    "{value}"
                );
                let ncdu = walk(&top, engine, &["--format", "ncdu"]).exits(0);
                let names = ncdu.stdout.windows(8).filter(|it| *it == b"\"name\":\"");
                assert_eq!(names.count() as u64, entries_of(&top), "{engine}");
            }
            // A directory is removed, and a directory whose path has the same hash appears.
            let catalog = base.join("catalog");
            let moved = top.join("aaaaaaaa/eszycidp");
            std::fs::remove_dir(&empty).unwrap();
            walk(&top, "stat", &["--catalog", catalog.to_str().unwrap()]).exits(0);
            std::fs::remove_dir_all(&moved).unwrap();
            file(empty.join("file"), 3000);
            let mut changed = fathom(args!["changed", &top, "--since", &catalog, "--json"]);
            let value = run(&mut changed).json();
            let counts = ["added", "removed"].map(|it| value["result"][it].as_u64().unwrap());
            assert_eq!(counts, [2, 2], "{value}");
        });
    }
}

/// The number of entries, by find(1).
fn entries_of(top: &Path) -> u64 {
    find(top, "-print0").len() as u64
}

#[test]
fn du_format_equals_du() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let plain = still(&base.join("plain")).to_owned();
            for n in 0..40 {
                file(
                    plain.join(format!("d{}/d{}/file {n}", n % 3, n % 7)),
                    n * 3000,
                );
            }
            for (engine, top) in [("stat", &plain), ("threads", &plain), ("stat", &odd(base))] {
                let value = walk(top, engine, &["--format", "du", "--json"])
                    .exits(0)
                    .json();
                let lines = value["result"]["du"].as_array().unwrap();
                let figures = |field: &str| -> BTreeMap<PathBuf, u64> {
                    let figure = |line| (path(line, "path"), line[field].as_u64().unwrap());
                    lines.iter().map(figure).collect()
                };
                let (sums, inodes) = (figures("allocated"), figures("inodes"));
                assert_eq!(sums.len(), lines.len(), "each directory is listed once");
                let expected = du(top, "--block-size=1");
                let expected_inodes = du(top, "--inodes");
                // Hard links are counted once, but du may count them in a different directory.
                if top == &plain {
                    assert_eq!(sums, expected, "{engine}");
                    assert_eq!(inodes, expected_inodes, "{engine}");
                }
                assert_eq!(inodes[top], expected_inodes[top], "{engine}");
                assert_eq!(sums[top], expected[top], "{engine}");
                assert!(sums.keys().eq(expected.keys()), "{engine}");
                let mut once = BTreeSet::new();
                let files = census(top)
                    .into_values()
                    .filter(|entry| ["file", "symlink"].contains(&&*entry.kind));
                let apparent: u64 = files
                    .filter(|entry| once.insert(entry.ino))
                    .map(|entry| entry.size)
                    .sum();
                let root = value["result"]["du"].as_array().unwrap().last().unwrap();
                assert_eq!(
                    (path(root, "path"), root["apparent"].as_u64()),
                    (top.clone(), Some(apparent)),
                    "{engine}"
                );
                let text = walk(top, engine, &["--format", "du"]).exits(0);
                let lines = text.lines();
                assert_eq!(
                    lines.len(),
                    sums.len() + 1,
                    "a heading, and a line each: {text}"
                );
                let heads: Vec<&str> = lines[0].split_whitespace().collect();
                assert_eq!(heads, ["ALLOCATED", "SIZE", "INODES", "PATH"]);
                let last = lines.last().unwrap();
                let ending = format!(" {} {}", inodes[top], top.display());
                assert!(last.ends_with(&ending), "{last}");
            }
        });
    }
}

#[test]
fn du_format_is_sorted_by_the_field() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let top = still(&base.join("top")).to_owned();
            file(top.join("a/large"), 300_000);
            for n in 0..20 {
                file(top.join(format!("b/many/{n}")), 10);
            }
            let sparse = std::fs::File::create(file(top.join("c/sparse"), 0)).unwrap();
            sparse.set_len(1 << 30).unwrap();
            let sorted = |options: &[&str]| -> Vec<String> {
                let options = [&["--format", "du", "--json"], options].concat();
                let value = walk(&top, "stat", &options).exits(0).json();
                let lines = value["result"]["du"].as_array().unwrap().iter();
                let relative = |line| path(line, "path").strip_prefix(&top).unwrap().to_owned();
                lines
                    .map(|line| relative(line).display().to_string())
                    .collect()
            };
            let as_du = ["a", "b/many", "b", "c", ""];
            assert_eq!(sorted(&[]), as_du);
            assert_eq!(sorted(&["--sort", "name"]), ["", "a", "b", "b/many", "c"]);
            assert_eq!(sorted(&["--sort", "bytes"])[..3], ["", "c", "a"]);
            assert_eq!(sorted(&["--sort", "count"])[..3], ["", "b", "b/many"]);
            assert_eq!(sorted(&["--sort", "allocated"])[..2], ["", "a"]);
            assert_eq!(sorted(&["--top", "2"]), ["", "a"]);
            assert_eq!(sorted(&["--top", "2", "--sort", "bytes"]), ["", "c"]);
            assert_eq!(sorted(&["--top", "2", "--sort", "name"]), ["", "a"]);
            let refused = run(&mut fathom(args!["walk", &top, "--sort", "name"])).refused();
            assert!(refused.stderr.contains("requires --format du"), "{refused}");
        });
    }
}

#[test]
fn names_are_escaped_on_a_terminal_and_exact_elsewhere() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let top = still(&base.join("top")).to_owned();
            let red = top.join(name(b"\x1b[31mred\xff"));
            file(red.join("big"), 100_000);
            for more in [
                &["--format", "summary", "--top", "3"][..],
                &["--format", "du", "--top", "3"],
                &["--explain"],
            ] {
                let ran = walk(&red, "stat", more).exits(0);
                assert!(
                    !ran.stdout.contains(&0x1b) && !ran.stderr.contains('\x1b'),
                    "{more:?}: {ran}"
                );
            }
            let lines = objects(&walk(&red, "stat", &["--format", "ndjson"]).exits(0));
            assert_eq!(path(&lines[0], "path"), red);
        });
    }
}

#[test]
fn top_lists_the_largest() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let top = still(&base.join("top")).to_owned();
            for n in 1..=30 {
                file(top.join(format!("d{}/file {n}", n % 3)), n * 10_000);
            }
            for engine in ["stat", "threads"] {
                let value = summary(&top, engine, &["--top", "5"]);
                let largest = value["result"]["top"].as_array().unwrap();
                assert_eq!(largest.len(), 5, "{value}");
                let sizes: Vec<u64> = largest
                    .iter()
                    .map(|file| file["bytes"].as_u64().unwrap())
                    .collect();
                assert_eq!(
                    sizes,
                    [300_000, 290_000, 280_000, 270_000, 260_000],
                    "{value}"
                );
                assert_eq!(path(&largest[0], "path"), top.join("d0/file 30"));
            }
            assert_eq!(summary(&top, "stat", &[])["result"]["top"], Value::Null);
            // A sparse file is the largest by size, and takes no space.
            let sparse = std::fs::File::create(top.join("sparse")).unwrap();
            sparse.set_len(1 << 30).unwrap();
            for (sort, first) in [("bytes", "sparse"), ("allocated", "d0/file 30")] {
                let value = summary(&top, "threads", &["--top", "2", "--sort", sort]);
                let largest = &value["result"]["top"];
                assert_eq!(path(&largest[0], "path"), top.join(first), "{sort}");
            }
        });
    }
}

#[test]
fn top_lists_the_largest_in_each_format() {
    let place = tempfile::tempdir().unwrap();
    let at = |n: u64| place.path().join(format!("d{}/file {n}", n % 3));
    for n in 1..=9 {
        file(at(n), n as usize * 10_000);
    }
    let walk = |format: &str| {
        let words = args![
            "walk",
            place.path(),
            "--top",
            "2",
            "--sort",
            "bytes",
            "--format",
            format
        ];
        String::from_utf8(run(&mut fathom(words)).exits(0).stdout).unwrap()
    };
    let paths = [9, 8].map(|n| at(n).display().to_string());
    assert_eq!(walk("paths"), format!("{}\n{}\n", paths[0], paths[1]));
    assert_eq!(walk("paths0"), format!("{}\0{}\0", paths[0], paths[1]));
    let ndjson = walk("ndjson");
    let lines: Vec<Value> = ndjson
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2, "{ndjson}");
    for (line, (name, size)) in lines.iter().zip(paths.iter().zip([90_000, 80_000])) {
        assert_eq!((&line["path"], &line["size"]), (&json!(name), &json!(size)));
        assert_eq!(line["type"], "file");
    }
    let csv = walk("csv");
    assert!(
        csv.starts_with("path,") && csv.lines().count() == 3,
        "{csv}"
    );
}

#[test]
fn summary_has_all_totals() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let top = still(&base.join("top")).to_owned();
            grow(&top, 1, 100);
            let result = &summary(&top, "stat", &[])["result"];
            let text = String::from_utf8(walk(&top, "stat", &[]).exits(0).stdout).unwrap();
            let bare = text.replace([',', '_', '\u{202f}'], "");
            for field in ["entries", "directories"] {
                assert!(
                    bare.contains(&result[field].to_string()),
                    "no {field} in\n{text}"
                );
            }
        });
    }
}

#[test]
fn profile_works_with_every_format() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let top = still(&base.join("top")).to_owned();
            grow(&dir(top.join("tree")), 1, 20);
            for format in ["summary", "du", "paths", "paths0", "ndjson", "csv"] {
                let plain = walk(&top, "stat", &["--format", format]).exits(0);
                let ran = run(&mut fathom(args![
                    "walk",
                    &top,
                    "--engine",
                    "stat",
                    "--format",
                    format,
                    "--profile"
                ]))
                .exits(0);
                assert!(
                    ran.stderr.contains("%Time") && ran.stderr.contains("statx"),
                    "{format}: {ran}"
                );
                assert!(
                    format == "summary" || ran.stdout == plain.stdout,
                    "{format}: {ran}"
                );
            }
            let lines = objects(&walk(&top, "threads", &["--format", "ndjson"]).exits(0));
            assert!(
                lines
                    .iter()
                    .map(entry)
                    .all(|(_, entry)| entry.btime.is_some())
            );
        });
    }
}

/// A name with escape sequences has no effect on the terminal, in any format.
#[test]
fn terminal_obeys_no_name() {
    let at = tempfile::tempdir().unwrap();
    let at = at.path();
    let tree = dir(at.join("tree"));
    let hostile = "a\x1b[31m\x1b]0;title\x07b\u{9b}1m";
    file(tree.join(hostile), 10);
    let [old, new] = ["old", "new"].map(|name| at.join(name));
    run(&mut fathom(args!["walk", "-q", "--catalog", old, tree])).exits(0);
    file(tree.join(format!("{hostile}2")), 10);
    run(&mut fathom(args!["walk", "-q", "--catalog", new, tree])).exits(0);
    let mut commands = Vec::new();
    for format in ["paths", "paths0", "csv", "ndjson", "du", "ncdu", "summary"] {
        commands.push(args!["walk", tree, "--format", format].to_vec());
    }
    for format in ["paths", "paths0", "csv", "ndjson"] {
        commands.push(args!["query", new, "--format", format].to_vec());
    }
    for format in [
        "table", "paths", "paths0", "rsync", "tar", "restic", "borg", "ndjson",
    ] {
        commands.push(args!["changed", "--since", old, tree, "--format", format].to_vec());
    }
    for format in ["table", "csv", "ndjson"] {
        commands.push(args!["walk", tree, "--group-by", "ext", "--format", format].to_vec());
    }
    for words in commands {
        let (text, _) = at_terminal(fathom(words.clone()).arg("--color=never"), 80);
        assert!(
            !text.contains(['\x1b', '\x07', '\u{9b}']),
            "{words:?}: {text:?}"
        );
    }
    let raw = run(&mut fathom(args!["walk", tree, "--format", "paths", "-q"])).exits(0);
    assert!(String::from_utf8_lossy(&raw.stdout).contains(hostile));
}

/// If a server answers with EPERM or ENOSYS, the call is still used in the rest of the tree.
#[test]
fn server_cannot_switch_calls_off() {
    let needs = [Need::Root, Need::Fuse, Need::Program("strace")];
    if !require(&needs) {
        return;
    }
    // With the second behaviour, the directory can be opened by a different call.
    for (manner, name) in [
        (Manner::Fails(libc::EPERM), "EPERM"),
        (Manner::Fails(libc::ENOSYS), "ENOSYS"),
        (Manner::FailsFirst(libc::EPERM), "EPERM"),
    ] {
        in_namespace(|base| {
            let tree = dir(base.join("tree"));
            let _servers = ["a", "b", "c"].map(|name| serve(manner, tree.join(name)));
            (0..20).for_each(|n| drop(file(tree.join(format!("d{n}/e/f")), 1)));
            let log = base.join("log");
            let mut words = args!["walk", "-q", "-j1", "--engine", "threads", tree].to_vec();
            words.extend(args!["--catalog", base.join("catalog")]);
            let mut strace = std::process::Command::new("strace");
            strace.args(["-f", "-e", "trace=openat,openat2,statx,newfstatat", "-o"]);
            strace.arg(&log).arg(fathom_path()).args(words);
            run(&mut strace).exits(1);
            let log = std::fs::read_to_string(&log).unwrap();
            assert!(log.contains(name), "{log}");
            // Openat2 is used for the tree, each d and each e.
            assert!(log.matches("openat2(").count() >= 40, "{log}");
            // The dynamic linker opens absolute paths, or passes an open file.
            let of_linker = |line: &&str| {
                line.contains(", \"\", ")
                    || line.contains("(AT_FDCWD, \"/") && !line.contains("/tree")
            };
            let older = log.lines().filter(|line| line.contains("newfstatat("));
            assert_eq!(older.filter(|line| !of_linker(line)).count(), 0, "{log}");
        });
    }
}
