//! Tests that the sums of groups equal those that awk computes from the output of find.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::engines::{mounted_or_still, still};
use super::predicates::odd_tree;
use super::right::{engines, summary, walk};
use crate::support::build::{dir, file};
use crate::support::disks::EXT4;
use crate::support::reference::settle;
use crate::support::run::{args, exact, fathom, run};
use crate::support::tool::tool;
use crate::support::{Need, in_namespace, require};

/// Entries, bytes and allocated bytes.
pub(crate) type Sums = (u64, u64, u64);

/// An entry as find prints it.
struct Found {
    path: Vec<u8>,
    kind: String,
    owner: String,
    group: String,
    size: u64,
    blocks: u64,
    links: u64,
    inode: String,
    depth: usize,
}

fn find(top: &Path, tests: &[&str]) -> Vec<Found> {
    let format = r"%p\0%y\0%u\0%g\0%s\0%b\0%n\0%D:%i\0%d\0";
    let printed = tool(
        Command::new("find")
            .arg(top)
            .args(tests)
            .args(["-printf", format]),
    );
    let fields: Vec<&[u8]> = printed.split(|&b| b == 0).collect();
    let entry = |fields: &[&[u8]]| {
        let text = |at: usize| String::from_utf8(fields[at].to_vec()).unwrap();
        let number = |at: usize| text(at).parse().unwrap();
        Found {
            path: fields[0].to_vec(),
            kind: text(1),
            owner: text(2),
            group: text(3),
            size: number(4),
            blocks: number(5),
            links: number(6),
            inode: text(7),
            depth: number(8) as usize,
        }
    };
    fields.chunks_exact(9).map(entry).collect()
}

fn name(path: &[u8]) -> &[u8] {
    path.rsplit(|&b| b == b'/').next().unwrap()
}

/// The key of an entry.
fn key(by: &str, top: &Path, entry: &Found) -> Vec<u8> {
    match by {
        "owner" => entry.owner.clone().into(),
        "group" => entry.group.clone().into(),
        "links" => entry.links.to_string().into(),
        "type" => match &entry.kind[..] {
            "f" => "file",
            "d" => "directory",
            "l" => "symlink",
            "p" => "fifo",
            "s" => "socket",
            "b" => "block",
            "c" => "char",
            other => panic!("{other}"),
        }
        .into(),
        "size" => {
            let mut bucket = u64::from(entry.size > 0);
            while bucket > 0 && bucket.checked_mul(4).is_some_and(|next| next <= entry.size) {
                bucket *= 4;
            }
            bucket.to_string().into()
        }
        "ext" => {
            let name = name(&entry.path);
            match name.iter().rposition(|&b| b == b'.') {
                Some(at) if at > 0 => name[at + 1..].to_ascii_lowercase(),
                _ => Vec::new(),
            }
        }
        _ => {
            let most: usize = by.strip_prefix("dir:").unwrap_or("1").parse().unwrap();
            let is_dir = entry.kind == "d";
            let depth = if is_dir { entry.depth } else { entry.depth - 1 };
            let base = top.to_str().unwrap().matches('/').count() + 1;
            let parts = entry.path.split(|&b| b == b'/');
            let kept: Vec<&[u8]> = parts.take(base + depth.min(most)).collect();
            kept.join(&b'/')
        }
    }
}

/// The groups of some entries; a file with several names is in the first of its groups.
fn groups(by: &str, top: &Path, entries: &[Found]) -> BTreeMap<Vec<u8>, Sums> {
    let mut least: HashMap<&str, Vec<u8>> = HashMap::new();
    let is_linked = |entry: &&Found| entry.links > 1 && entry.kind != "d";
    for entry in entries.iter().filter(is_linked) {
        let key = key(by, top, entry);
        let slot = least.entry(&entry.inode).or_insert_with(|| key.clone());
        *slot = key.min(slot.clone());
    }
    let mut sums: BTreeMap<Vec<u8>, Sums> = BTreeMap::new();
    for entry in entries {
        let key = match is_linked(&entry) {
            true => match least.remove(&entry.inode[..]) {
                Some(key) => key,
                None => continue,
            },
            false => key(by, top, entry),
        };
        let (entries, bytes, allocated) = sums.entry(key).or_default();
        (*entries, *bytes) = (*entries + 1, *bytes + entry.size);
        *allocated += entry.blocks * 512;
    }
    sums
}

/// The groups in a JSON result.
pub(crate) fn given(value: &serde_json::Value) -> BTreeMap<Vec<u8>, Sums> {
    let groups = value["result"]["groups"].as_array().unwrap().iter();
    let group = |group: &serde_json::Value| {
        let number = |field: &str| group[field].as_u64().unwrap();
        (
            exact(group, "key"),
            (number("entries"), number("bytes"), number("allocated")),
        )
    };
    groups.map(group).collect()
}

pub(crate) const FIELDS: [&str; 10] = [
    "owner", "group", "ext", "type", "dir", "dir:0", "dir:2", "dir:9", "size", "links",
];

/// Compares the groups that a command prints with those from find.
pub(crate) fn check_groups(top: &Path, print: impl Fn(&[&str]) -> serde_json::Value) {
    let sets: [(&[&str], &[&str]); 2] = [
        (&[], &[]),
        (
            &["--type", "f", "--size", "+1"],
            &["-type", "f", "-size", "+1"],
        ),
    ];
    for (ours, finds) in sets {
        let entries = find(top, finds);
        for by in FIELDS {
            let value = print(&[ours, &["--group-by", by, "--json"]].concat());
            assert!(
                given(&value) == groups(by, top, &entries),
                "{by} {ours:?}: {value}"
            );
        }
    }
}

#[test]
fn groups_equal_sums_over_what_find_prints() {
    if !require(&[Need::Root, Need::Loop]) {
        return;
    }
    in_namespace(|base| {
        for make in [Some(EXT4[0]), None] {
            let at = dir(base.join(if make.is_some() { "disk" } else { "memory" }));
            mounted_or_still(make, &at);
            let top = dir(at.join("odd"));
            odd_tree(&top, 77);
            settle(&at);
            for engine in engines(make.map_or("tmpfs", |make| make.fstype)) {
                check_groups(&top, |args| {
                    let args: Vec<&str> =
                        args.iter().copied().filter(|it| *it != "--json").collect();
                    summary(&top, engine, &args)
                });
            }
        }
    });
}

/// The size and the allocated space in the summary, the last line of a table of groups, and the
/// largest file.
#[test]
fn totals_count_each_file_once_as_du_does() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|base| {
        let top = still(&base.join("top")).to_owned();
        file(top.join("a/large"), 300_000);
        file(top.join("b/small"), 5_000);
        let names = ["a/large", "a/more", "b/again", "b/small"].map(|name| top.join(name));
        std::fs::hard_link(&names[0], &names[1]).unwrap();
        std::fs::hard_link(&names[0], &names[2]).unwrap();
        let du = |options: &[&str], paths: &[PathBuf]| -> u64 {
            let mut du = Command::new("du");
            let printed = tool(du.arg("--block-size=1").args(options).args(paths));
            let printed = String::from_utf8(printed).unwrap();
            let last = printed.lines().last().unwrap();
            last.split_whitespace().next().unwrap().parse().unwrap()
        };
        let summary = |args: &[&str], field: &str| -> u64 {
            let ran = walk(&top, "threads", args).exits(0);
            let line = ran.lines().into_iter().find(|it| it.starts_with(field));
            let exact = line.unwrap().split(['(', ')']).nth(1).unwrap();
            let exact = exact.strip_suffix(" bytes").unwrap();
            exact.replace(',', "").parse().unwrap()
        };
        assert_eq!(
            summary(&[], "allocated"),
            du(&["-s"], std::slice::from_ref(&top))
        );
        let files = ["--type", "f"];
        assert_eq!(summary(&files, "allocated"), du(&["-c"], &names));
        let apparent = du(&["-c", "--apparent-size"], &names);
        assert_eq!((apparent, summary(&files, "size")), (305_000, apparent));

        let catalog = base.join("catalog");
        let write = ["--catalog", catalog.to_str().unwrap(), "-q"];
        walk(&top, "threads", &write).exits(0);
        for more in [&[][..], &["--top", "1"]] {
            let groups = [
                &files[..],
                &["--group-by", "dir:1", "--sort", "count"],
                more,
            ]
            .concat();
            let mut query = args!["query", &catalog].to_vec();
            query.extend(groups.iter().map(OsString::from));
            for ran in [walk(&top, "threads", &groups), run(&mut fathom(query))] {
                let ran = ran.exits(0);
                let last: Vec<&str> = ran.lines().last().unwrap().split_whitespace().collect();
                assert_eq!(last, ["2", "298", "KiB", "304", "KiB", "total"], "{ran}");
            }
        }
        let largest = walk(&top, "threads", &["--top", "1"]).exits(0);
        let first = format!(" {} (3 names)", names[0].display());
        assert!(
            largest.lines().iter().any(|line| line.ends_with(&first)),
            "{largest}"
        );
    });
}

#[test]
fn groups_are_sorted_limited_and_in_every_format() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|base| {
        let top = still(&base.join("top")).to_owned();
        file(top.join("a/one.txt"), 100_000);
        file(top.join("b/two.TXT"), 5);
        file(top.join("b/three.log"), 70_000);
        let now = std::time::SystemTime::now();
        let old = now - std::time::Duration::from_secs(40 * 86_400);
        std::fs::File::open(top.join("b/three.log"))
            .unwrap()
            .set_modified(old)
            .unwrap();
        let csv = |more: &[&str]| {
            let files = ["--type", "f", "--format", "csv"];
            let ran = walk(&top, "threads", &[&files, more].concat()).exits(0);
            let lines = ran.lines();
            assert_eq!(lines[0], "key,key_b64,entries,bytes,allocated");
            lines[1..]
                .iter()
                .map(|line| (*line).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            csv(&["--group-by", "ext"]),
            ["txt,,2,100005,106496", "log,,1,70000,73728"]
        );
        assert_eq!(
            csv(&["--group-by", "ext", "--sort", "name", "--top", "1"]),
            ["log,,1,70000,73728"]
        );
        assert_eq!(
            csv(&["--group-by", "age"]),
            ["day,,2,100005,106496", "quarter,,1,70000,73728"]
        );
        let ran = walk(
            &top,
            "threads",
            &["--group-by", "type", "--format", "ndjson"],
        )
        .exits(0);
        let first: serde_json::Value = serde_json::from_str(ran.lines()[0]).unwrap();
        assert_eq!(
            (&first["key"], &first["entries"]),
            (&"file".into(), &3.into()),
            "{ran}"
        );
        let ran = walk(&top, "threads", &["--group-by", "size", "--type", "f"]).exits(0);
        assert!(
            ran.lines()[0].contains("ENTRIES") && ran.lines()[2].contains("64 KiB - 256 KiB"),
            "{ran}"
        );
        let top = ["--group-by", "size", "--type", "f", "--top", "1"];
        let largest = walk(&base.join("top"), "threads", &top).exits(0);
        assert!(largest.lines()[1].contains("64 KiB - 256 KiB"), "{largest}");
        assert!(!ran.lines()[1].contains('█'), "no bars in a pipe: {ran}");
    });
}
