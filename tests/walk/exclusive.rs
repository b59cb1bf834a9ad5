//! Tests of `--format du --exclusive`: the space that the kernel frees when a directory is deleted.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::build::{chmod, dir, name};

use crate::support::disks::{BTRFS, EXT4, XFS_WITH_OWNERS, XFS_WITHOUT_OWNERS, mounted, subvolume};
use crate::support::restrict::fathom_as_nobody;
use crate::support::run::{args, calls};
use crate::support::tool::tool;
use crate::support::{Need, fathom, in_namespace, require, run};

const MIB: u64 = 1 << 20;

/// EXCLUSIVE by directory, relative to DIR without a leading slash; and the warnings.
fn exclusive(top: &Path, engine: &str) -> (BTreeMap<String, u64>, Vec<String>) {
    let arguments = args![
        "walk",
        top,
        "--engine",
        engine,
        "--format",
        "du",
        "--exclusive",
        "--json"
    ];
    let value = run(&mut fathom(arguments)).json();
    let prefix = top.to_str().unwrap();
    let by_path = value["result"]["du"].as_array().unwrap().iter().map(|row| {
        let path = row["path"].as_str().unwrap().strip_prefix(prefix).unwrap();
        let path = path.trim_start_matches('/').to_owned();
        assert!(
            row["exclusive"].as_u64() <= row["allocated"].as_u64(),
            "{row}"
        );
        (path, row["exclusive"].as_u64().unwrap())
    });
    let warnings = value["warnings"].as_array().unwrap().iter();
    let messages = warnings.map(|it| it["message"].as_str().unwrap().to_owned());
    (by_path.collect(), messages.collect())
}

/// Creates a file whose blocks differ from those of all other files, but can be compressed.
fn unique(path: &Path, bytes: u64) {
    let seed = path.as_os_str().len() as u64 + bytes;
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let data: Vec<u8> = (0..bytes / 64)
        .flat_map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            [state.to_le_bytes(); 8].concat()
        })
        .collect();
    let mut file = fs::File::create(path).unwrap();
    file.write_all(&data).unwrap();
    file.sync_all().unwrap();
}

fn reflink(from: &Path, to: &Path) {
    tool(Command::new("cp").arg("--reflink=always").args([from, to]));
}

/// The used space, after it has stopped changing.
fn used(top: &Path) -> u64 {
    let started = Instant::now();
    let measure = || {
        tool(Command::new("sync").arg("-f").arg(top));
        let now = rustix::fs::statvfs(top).unwrap();
        (now.f_blocks - now.f_bfree) * now.f_frsize
    };
    let mut last = measure();
    loop {
        std::thread::sleep(Duration::from_millis(50));
        let now = measure();
        if now == last || started.elapsed() > Duration::from_secs(20) {
            return now;
        }
        last = now;
    }
}

/// Directories whose files share extents, inside and outside of `t`.
fn grow(base: &Path) {
    let t = dir(base.join("t"));
    for at in ["a", "b", "c", "d", "e/f", "e/g"] {
        dir(t.join(at));
    }
    unique(&t.join("a/own"), MIB);
    unique(&t.join("b/original"), 2 * MIB);
    reflink(&t.join("b/original"), &t.join("b/twin"));
    reflink(&t.join("b/original"), &t.join("a/copy"));
    unique(&base.join("outside"), 4 * MIB);
    reflink(&base.join("outside"), &t.join("c/inside"));
    unique(&t.join("d/first"), 8 * MIB);
    fs::hard_link(t.join("d/first"), t.join("d/second")).unwrap();
    unique(&t.join("e/f/one"), 16 * MIB);
    fs::hard_link(t.join("e/f/one"), t.join("e/g/two")).unwrap();
    reflink(&t.join("e/f/one"), &t.join("e/g/copy"));
    unique(&t.join("c/linked"), 32 * MIB);
    fs::hard_link(t.join("c/linked"), base.join("elsewhere")).unwrap();
    tool(Command::new("sync").arg("-f").arg(base));
}

/// Whether two numbers of bytes differ by less than the metadata of a deletion.
fn near(a: u64, b: u64) -> bool {
    a.abs_diff(b) < MIB / 2
}

#[test]
fn extents_count_in_the_nearest_directory_of_all_their_files() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|base| {
            for (make, engine) in [(XFS_WITH_OWNERS, "bulkstat"), (BTRFS[0], "btrfs")] {
                let at = base.join(make.fstype);
                assert!(mounted(make, &at));
                grow(&at);
                for engine in ["stat", "threads", engine] {
                    let (found, warnings) = exclusive(&at.join("t"), engine);
                    assert_eq!(warnings, [""; 0], "{make:?} {engine}");
                    let mebibytes = |path: &str| found[path] / MIB;
                    assert_eq!(mebibytes("a"), 1, "{make:?} {engine}: {found:?}");
                    assert_eq!(mebibytes("b"), 0, "{make:?} {engine}: {found:?}");
                    assert_eq!(mebibytes("c"), 0, "{make:?} {engine}: {found:?}");
                    assert_eq!(mebibytes("d"), 8, "{make:?} {engine}: {found:?}");
                    assert_eq!(mebibytes("e/f"), 0, "{make:?} {engine}: {found:?}");
                    assert_eq!(mebibytes("e"), 16, "{make:?} {engine}: {found:?}");
                    assert_eq!(
                        mebibytes(""),
                        1 + 2 + 8 + 16,
                        "{make:?} {engine}: {found:?}"
                    );
                }
                // Two DIRs together contain all copies, but deleting one of them does not free the
                // shared extents.
                let both = args![
                    "walk",
                    at.join("t/a"),
                    at.join("t/b"),
                    "--format",
                    "du",
                    "--exclusive",
                    "--json"
                ];
                let both = run(&mut fathom(both)).exits(0).json();
                let of =
                    |nth: usize| both["result"]["du"][nth]["exclusive"].as_u64().unwrap() / MIB;
                assert_eq!((of(0), of(1)), (1, 0), "{both}");
                for path in ["d", "a", "e", ""] {
                    let expected = exclusive(&at.join("t"), "threads").0[path];
                    let before = used(&at);
                    fs::remove_dir_all(at.join("t").join(path)).unwrap();
                    let freed = before - used(&at);
                    assert!(
                        near(freed, expected),
                        "{make:?} {path}: {freed}, {expected}"
                    );
                }
            }
        });
    }
}

#[test]
fn extents_in_snapshots_are_freed_with_the_last() {
    if require(&[Need::Root, Need::Loop, Need::Program("btrfs")]) {
        in_namespace(|base| {
            for make in [BTRFS[0], BTRFS[1]] {
                let at = base.join(make.name);
                assert!(mounted(make, &at));
                let t = dir(at.join("t"));
                let volume = subvolume(&t.join("volume"), None);
                unique(&volume.join("file"), 4 * MIB);
                let inside = subvolume(&t.join("inside"), Some(&volume));
                unique(&inside.join("more"), MIB);
                let found = exclusive(&t, "auto").0;
                let mebibytes = |found: &BTreeMap<String, u64>, path: &str| found[path] / MIB;
                assert_eq!(mebibytes(&found, "volume"), 0, "{make:?} {found:?}");
                assert_eq!(mebibytes(&found, "inside"), 1, "{make:?} {found:?}");
                assert_eq!(mebibytes(&found, ""), 5, "{make:?} {found:?}");
                subvolume(&at.join("outside"), Some(&volume));
                tool(Command::new("sync").arg("-f").arg(&at));
                let found = exclusive(&t, "auto").0;
                assert_eq!(mebibytes(&found, ""), 1, "{make:?} {found:?}");
            }
        });
    }
}

/// Files that share random extents with each other. XFS frees each block with its last reference;
/// btrfs frees only whole extents, so fathom's figure is a lower bound.
#[test]
fn what_is_promised_is_freed() {
    if require(&[Need::Root, Need::Loop, Need::Program("xfs_io")]) {
        in_namespace(|base| {
            for make in [XFS_WITH_OWNERS, BTRFS[0], BTRFS[1]] {
                let at = base.join(format!("{}-{}", make.fstype, make.name));
                assert!(mounted(make, &at));
                let mut state = 0x2545_f491_4f6c_dd1d_u64;
                let mut random = |below: u64| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    state % below
                };
                let mut files = Vec::new();
                for number in 0..40_u64 {
                    let parent = dir(at.join(format!("{}/{}", number % 5, number % 3)));
                    let path = parent.join(format!("file-{number}"));
                    unique(&path, (1 + random(4)) * MIB);
                    for _ in 0..random(4) {
                        let Some(from) = files.get(random(files.len() as u64 + 1) as usize) else {
                            continue;
                        };
                        let offset = |unit: u64, value: u64| (value * unit).to_string();
                        let part = format!(
                            "reflink {} {} {} {}",
                            Path::new(from).display(),
                            offset(65536, random(8)),
                            offset(65536, random(48)),
                            offset(65536, 1 + random(8)),
                        );
                        tool(Command::new("xfs_io").args(["-c", &part]).arg(&path));
                    }
                    files.push(path);
                }
                tool(Command::new("sync").arg("-f").arg(&at));
                for path in ["0/1", "3", "1/2", "2", "4", ""] {
                    let (found, warnings) = exclusive(&at, "auto");
                    assert_eq!(warnings, [""; 0], "{make:?}");
                    let before = used(&at);
                    for entry in fs::read_dir(at.join(path)).unwrap() {
                        let entry = entry.unwrap().path();
                        match entry.is_dir() {
                            true => fs::remove_dir_all(entry).unwrap(),
                            false => fs::remove_file(entry).unwrap(),
                        }
                    }
                    let freed = before.saturating_sub(used(&at));
                    let promised = found[path];
                    assert!(
                        promised <= freed + MIB / 2 || make.name == "compressed",
                        "{make:?} {path}: {promised} {freed}"
                    );
                    if make.fstype == "xfs" {
                        assert!(near(promised, freed), "{path}: {promised} {freed}");
                    }
                }
            }
        });
    }
}

#[test]
fn what_cannot_be_known_is_said() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|base| {
            // Without reverse mappings, only the shared flag of each extent is known.
            let at = base.join("xfs");
            assert!(mounted(XFS_WITHOUT_OWNERS, &at));
            grow(&at);
            let (found, warnings) = exclusive(&at.join("t"), "auto");
            assert_eq!(found["a"] / MIB, 1);
            assert_eq!(found[""] / MIB, 9, "{found:?}");
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            assert!(warnings[0].contains("18 MiB"), "{warnings:?}");

            // The same for ordinary users, and for files that they cannot open.
            let at = base.join("btrfs");
            assert!(mounted(BTRFS[0], &at));
            grow(&at);
            let closed = at.join("t/a/own");
            chmod(&closed, 0o600);
            let line = args!["walk", at.join("t"), "--format", "du", "--exclusive"];
            let mut command = fathom_as_nobody(base, line);
            let ran = run(&mut command).exits(1);
            assert!(ran.stdout.starts_with(b"EXCLUSIVE ALLOCATED"), "{ran}");
            let lines = [
                "cannot tell whether other files share 18 MiB of the extents",
                "t/a/own': cannot read the extents",
            ];
            for line in lines {
                assert!(ran.stderr.contains(line), "{line}: {ran}");
            }
        });
    }
}

#[test]
fn files_that_cannot_share_are_not_opened() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|base| {
            let at = base.join("ext4");
            assert!(mounted(EXT4[0], &at));
            unique(&dir(at.join("t")).join("file"), MIB);
            fs::write(at.join("t").join(name(b"\xff\n")), vec![1; 5000]).unwrap();
            let arguments = args![
                "walk",
                at.join("t"),
                "--engine",
                "stat",
                "--format",
                "du",
                "--exclusive",
                "--json"
            ];
            let value = run(&mut fathom(arguments)).exits(0).json();
            let row = &value["result"]["du"][0];
            assert_eq!(row["exclusive"], row["allocated"]);
            let calls = calls(&value["gates"]);
            assert!(calls.contains_key("statx") && !calls.contains_key("ioctl:FS_IOC_FIEMAP"));
        });
    }
}
