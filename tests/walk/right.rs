//! Checks of an engine: the same entries as the reference, the same digest, and totals that match.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde_json::Value;

use crate::support::reference::{Census, Entry, census, depth, settle};
use crate::support::run::{Ran, args, exact};
use crate::support::{fathom, run};

/// The engines that must work on a file system of this type, for root. The first is the plain one.
pub(crate) fn engines(fstype: &str) -> &'static [&'static str] {
    match fstype {
        "ext2" | "ext3" | "ext4" => &["stat", "threads", "ext4"],
        "xfs" => &["stat", "threads", "bulkstat"],
        "btrfs" => &["stat", "threads", "btrfs"],
        _ => &["stat", "threads"],
    }
}

/// A run of `walk` in NDJSON or in a different format.
pub(crate) fn walk(top: &Path, engine: &str, more: &[&str]) -> Ran {
    let mut arguments = args!["walk", top, "--engine", engine].to_vec();
    arguments.extend(more.iter().map(OsString::from));
    run(&mut fathom(arguments))
}

/// The complete JSON of a run with `--json`.
pub(crate) fn summary(top: &Path, engine: &str, more: &[&str]) -> Value {
    let more: Vec<&str> = more.iter().copied().chain(["--json"]).collect();
    walk(top, engine, &more).exits(0).json()
}

/// The fields of a line of `--format ndjson`.
const FIELDS: [&str; 20] = [
    "path",
    "type",
    "ino",
    "mode",
    "nlink",
    "uid",
    "gid",
    "size",
    "blocks",
    "rdev",
    "dev",
    "mount",
    "atime",
    "mtime",
    "ctime",
    "btime",
    "attributes",
    "generation",
    "xattrs",
    "path_b64",
];

/// Parses an entry from a line of `--format ndjson`.
pub(crate) fn entry(line: &Value) -> (Vec<u8>, Entry) {
    let fields: BTreeSet<&str> = line
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let expected = FIELDS
        .into_iter()
        .filter(|field| *field != "path_b64" || line.get("path_b64").is_some())
        .collect();
    assert_eq!(fields, expected, "{line}");
    let number = |field: &str| {
        line[field]
            .as_u64()
            .unwrap_or_else(|| panic!("{field} in {line}"))
    };
    let text = |field: &str| {
        line[field]
            .as_str()
            .unwrap_or_else(|| panic!("{field} in {line}"))
            .to_owned()
    };
    let either = |field: &str| (!line[field].is_null()).then(|| text(field));
    let attributes = line["attributes"].as_array().unwrap();
    let entry = Entry {
        kind: text("type"),
        ino: number("ino"),
        mode: text("mode"),
        nlink: number("nlink"),
        uid: number("uid"),
        gid: number("gid"),
        size: number("size"),
        blocks: number("blocks"),
        rdev: either("rdev"),
        dev: text("dev"),
        mount: number("mount"),
        atime: text("atime"),
        mtime: text("mtime"),
        ctime: text("ctime"),
        btime: either("btime"),
        attributes: attributes
            .iter()
            .map(|name| name.as_str().unwrap().to_owned())
            .collect(),
    };
    (exact(line, "path"), entry)
}

/// The JSON objects on the lines of a run, one for each entry.
pub(crate) fn objects(ran: &Ran) -> Vec<Value> {
    let lines = ran.stdout.split_inclusive(|&b| b == b'\n');
    lines
        .map(|line| {
            serde_json::from_slice(line).unwrap_or_else(|e| panic!("{e}: {}", line.escape_ascii()))
        })
        .collect()
}

/// The entries of a run. Checks that each occurs once.
pub(crate) fn census_of(lines: &[Value]) -> Census {
    let mut found = Census::new();
    for line in lines {
        let (path, entry) = entry(line);
        let again = found.insert(path, entry);
        assert!(again.is_none(), "given twice: {line}");
    }
    found
}

/// Fails with the missing, superfluous or wrong entries.
#[track_caller]
pub(crate) fn same(given: &Census, expected: &Census, what: &str) {
    if given == expected {
        return;
    }
    let show = |path: &[u8]| {
        path.escape_ascii()
            .to_string()
            .chars()
            .take(300)
            .collect::<String>()
    };
    let mut faults = Vec::new();
    for (path, entry) in expected {
        match given.get(path) {
            None => faults.push(format!("missing: {} {entry:?}", show(path))),
            Some(reported) if reported != entry => faults.push(format!(
                "{}:\n   is {entry:?}\n reported {reported:?}",
                show(path)
            )),
            Some(_) => {}
        }
    }
    faults.extend(
        given
            .keys()
            .filter(|path| !expected.contains_key(*path))
            .map(|path| format!("made up: {}", show(path))),
    );
    let first: Vec<_> = faults.iter().take(6).cloned().collect();
    panic!(
        "{what}: {} faults in {} entries\n{}",
        faults.len(),
        expected.len(),
        first.join("\n")
    );
}

/// Compares the totals of a run with the entries.
#[track_caller]
pub(crate) fn totals(result: &Value, top: &Path, expected: &Census, what: &str) {
    let kind = |kind: &str| expected.values().filter(|entry| entry.kind == kind).count() as u64;
    let root = top.as_os_str().as_bytes();
    let entries = expected.len() as u64;
    let figures = [
        ("entries", entries),
        ("files", kind("file")),
        ("directories", kind("directory")),
        ("symlinks", kind("symlink")),
        (
            "other",
            entries - kind("file") - kind("directory") - kind("symlink"),
        ),
        ("bytes", expected.values().map(|entry| entry.size).sum()),
        ("blocks", expected.values().map(|entry| entry.blocks).sum()),
        (
            "max_depth",
            expected.keys().map(|path| depth(root, path)).max().unwrap(),
        ),
    ];
    for (field, figure) in figures {
        assert_eq!(result[field], figure, "{what}: {field}");
    }
    let digest = result["digest"].as_str().unwrap();
    assert!(
        digest.len() == 32 && digest.bytes().all(|b| b"0123456789abcdef".contains(&b)),
        "{digest}"
    );
}

/// Compares the fields that statx(2) does not return with those of the file system.
fn extras(lines: &[Value]) {
    for line in lines {
        let path = exact(line, "path");
        if path.len() > 4000 {
            continue;
        }
        let path = Path::new(OsStr::from_bytes(&path));
        if line["xattrs"] == false {
            // `false` is exact; `true` may only mean that the inode has room for attributes.
            let size = rustix::fs::llistxattr(path, &mut [0_u8; 0]);
            assert_eq!(size, Ok(0), "has extended attributes: {line}");
        }
        if let (Some(given), Some(actual)) = (line["generation"].as_u64(), generation(line, path)) {
            assert_eq!(given, actual, "{line}");
        }
    }
}

/// The generation of a file or directory, where an ioctl returns it.
fn generation(line: &Value, path: &Path) -> Option<u64> {
    const FS_IOC_GETVERSION: libc::c_ulong = 0x8008_7601;
    if line["type"] != "file" && line["type"] != "directory" {
        return None;
    }
    let how = libc::O_NOFOLLOW | libc::O_NOATIME;
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(how)
        .open(path)
        .ok()?;
    let mut generation: u32 = 0;
    // SAFETY: in spite of its declared type, this ioctl writes an int.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_GETVERSION, &raw mut generation) };
    (done == 0).then_some(generation.into())
}

/// A snapshot has an empty directory in place of a nested subvolume. btrfs creates its inode at
/// each lookup with new times, so they are excluded here, and in the digest.
fn steady(mut census: Census) -> Census {
    for entry in census.values_mut() {
        if entry.ino == 2 && entry.dev.starts_with("0:") && entry.btime.is_none() {
            for time in [&mut entry.atime, &mut entry.mtime, &mut entry.ctime] {
                time.clear();
            }
        }
    }
    census
}

/// Compares each engine with the reference and with the others.
#[track_caller]
pub(crate) fn every_engine_is_right(top: &Path, engines: &[&str], what: &str) {
    settle(top);
    let expected = steady(census(top));
    for engine in engines {
        let what = format!("{engine} on {what}");
        let lines = objects(&walk(top, engine, &["--format", "ndjson"]).exits(0));
        assert_eq!(
            exact(&lines[0], "path"),
            top.as_os_str().as_bytes(),
            "{what}: DIR comes first"
        );
        same(&steady(census_of(&lines)), &expected, &what);
        extras(&lines);
    }
    all_agree(top, &expected, engines, what);
}

/// The same for large trees: compares the last engine in full, the others by totals and digest.
#[track_caller]
pub(crate) fn every_engine_agrees(top: &Path, engines: &[&str], what: &str) {
    settle(top);
    let expected = steady(census(top));
    let last = engines.last().unwrap();
    let lines = objects(&walk(top, last, &["--format", "ndjson"]).exits(0));
    same(
        &steady(census_of(&lines)),
        &expected,
        &format!("{last} on {what}"),
    );
    all_agree(top, &expected, engines, what);
}

#[track_caller]
fn all_agree(top: &Path, expected: &Census, engines: &[&str], what: &str) {
    let digests: BTreeSet<String> = engines
        .iter()
        .map(|engine| {
            let value = summary(top, engine, &[]);
            assert_eq!(value["result"]["engine"], *engine, "{what}");
            totals(
                &value["result"],
                top,
                expected,
                &format!("{engine} on {what}"),
            );
            value["result"]["digest"].to_string()
        })
        .collect();
    assert_eq!(digests.len(), 1, "{what}: {digests:?}");
}
