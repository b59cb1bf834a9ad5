//! Tests that the same tree gives the same archive, byte for byte: with every method of gathering,
//! any number of threads, and at any time.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::mount::MountFlags;

use super::everything::everything;
use super::full::{NEEDS, dump};
use super::written::mounted_again;
use crate::support::build::{bush, dir, file, tmpfs, unmount_whole};
use crate::support::disks::{BTRFS, EXT4, XFS, mount_image, mounted, overlay, set_inode_field};
use crate::support::effort::effort;
use crate::support::run::args;
use crate::support::snapshot::same_bytes;
use crate::support::tool::tool;
use crate::support::trees::grow;
use crate::support::{Need, fathom, in_namespace, require, run};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

const WAYS: [&str; 5] = ["percall", "combined", "batched", "raw", "auto"];

/// Dumps with some arguments, and returns the archive.
fn archive(tree: &Path, out: &Path, more: &[&str]) -> Vec<u8> {
    let ran = dump(tree, out, more);
    assert!(ran.code() < 2, "{ran}");
    std::fs::read(out).unwrap()
}

/// btrfs creates the placeholder of a subvolume in a snapshot at each lookup.
#[test]
fn subvolume_placeholders_give_the_same_archive() {
    if require(&NEEDS) && require(&[Need::Program("btrfs")]) {
        in_namespace(|ground| {
            let (at, out) = (
                ground.join("btrfs"),
                dir(ground.join("out")).join("archive.tar"),
            );
            assert!(mounted(BTRFS[0], &at));
            let tree = dir(at.join("tree"));
            (0..50).for_each(|n| drop(file(tree.join(format!("{n}")), 300)));
            tool(
                Command::new("btrfs")
                    .args(["-q", "subvolume", "create"])
                    .arg(tree.join("subvolume")),
            );
            tool(
                Command::new("btrfs")
                    .args(["-q", "subvolume", "snapshot"])
                    .arg(&at)
                    .arg(tree.join("snapshot")),
            );
            all_the_same(&tree, &out, "a snapshot of what has a subvolume in it");
        });
    }
}

/// Checks that all methods give the same archive.
fn all_the_same(tree: &Path, out: &Path, what: &str) {
    let first = archive(tree, out, &[]);
    assert!(first.len() > 10_240, "{what}");
    for (nth, way) in WAYS.into_iter().enumerate() {
        // With the default effort, alternate between one thread and four.
        for jobs in ["1", "4", "1"].into_iter().skip(nth % 2).take(effort(1, 2)) {
            let other = archive(tree, out, &["--gather", way, "-j", jobs]);
            same_bytes(&first, &other, &format!("{what}: {way} -j {jobs}"));
        }
    }
}

/// Checks that all methods give the same increment after a full dump by `first_way` and a change.
/// Returns the increment.
fn all_the_same_since(
    tree: &Path,
    ground: &Path,
    first_way: &str,
    change: impl Fn(),
    before_each: impl Fn(),
) -> Vec<u8> {
    let base = ground.join("base.parquet");
    let option = base.to_str().unwrap();
    let out = ground.join("full.tar");
    dump(tree, &out, &["--catalog", option, "--gather", first_way]).exits(0);
    change();
    let increment = |way: &str| {
        before_each();
        archive(
            tree,
            &ground.join("increment.tar"),
            &["--since", option, "--gather", way],
        )
    };
    let first = increment(WAYS[0]);
    for way in &WAYS[1..] {
        assert!(
            increment(way) == first,
            "the increment by {way} is another one"
        );
    }
    first
}

/// Placeholders of all snapshots share one device number, and methods of gathering meet them in
/// different orders.
#[test]
fn subvolume_placeholders_give_the_same_increment() {
    if require(&NEEDS) && require(&[Need::Program("btrfs")]) {
        in_namespace(|ground| {
            let at = ground.join("btrfs");
            assert!(mounted(BTRFS[0], &at));
            let tree = dir(at.join("tree"));
            let subvolume = |action: &[&str], paths: &[&str]| {
                let mut btrfs = Command::new("btrfs");
                btrfs.args(["-q", "subvolume"]).args(action);
                tool(btrfs.args(paths).current_dir(&tree));
            };
            subvolume(&["create"], &["a"]);
            (0..50).for_each(|n| drop(file(tree.join(format!("a/{n}")), 300)));
            dir(tree.join("a/d"));
            subvolume(&["create"], &["a/b"]);
            subvolume(&["create"], &["a/d/e"]);
            for (from, to) in [("a", "s"), ("a", "t"), ("s", "u")] {
                subvolume(&["snapshot"], &[from, to]);
            }
            let change = || drop(file(tree.join("t/new"), 300));
            let mount_again = || {
                unmount_whole(&at);
                let image = at.with_extension("image");
                assert!(mount_image(BTRFS[0], &image, &at, MountFlags::NOATIME));
            };
            for way in ["percall", "batched"] {
                let increment = all_the_same_since(&tree, ground, way, change, mount_again);
                assert_eq!(members(&increment), ["tree/", "tree/t/", "tree/t/new"]);
                std::fs::remove_file(tree.join("t/new")).unwrap();
            }
        });
    }
}

/// An entry whose ctime is not before the dump may have changed since it was read. It is dumped
/// again, even if the token of the file system is unchanged.
#[test]
fn racy_files_give_the_same_increment() {
    if require(&NEEDS) && require(&[Need::Program("debugfs")]) {
        let small_inodes = EXT4.into_iter().find(|make| make.mkfs == "-I 128");
        let tomorrow = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + DAY;
        let all: &[&str] = &["tree/", "tree/d/", "tree/d/f", "tree/g"];
        for make in [small_inodes.unwrap(), EXT4[0]] {
            for (ctime, expected) in [(tomorrow, all), (tomorrow - 2 * DAY, &all[..1])] {
                in_namespace(|ground| {
                    let at = ground.join("disk");
                    assert!(mounted(make, &at));
                    let tree = dir(at.join("tree"));
                    file(tree.join("d/f"), 300);
                    file(tree.join("g"), 300);
                    mounted_again(make, &at, MountFlags::NOATIME, |image| {
                        let ctime = format!("@{}", ctime.as_secs());
                        for name in all {
                            set_inode_field(image, name, "ctime", &ctime);
                        }
                    });
                    let increment = all_the_same_since(&tree, ground, "auto", || {}, || {});
                    assert_eq!(members(&increment), expected, "{make:?}");
                });
            }
        }
    }
}

/// The names of the members of an archive, by `tar -t`.
fn members(archive: &[u8]) -> Vec<String> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(archive).unwrap();
    let listed = tool(Command::new("tar").arg("-tf").arg(file.path()));
    let listed = String::from_utf8(listed).unwrap();
    listed.lines().map(str::to_owned).collect()
}

#[test]
fn archive_is_the_same_by_all_ways_and_numbers_of_threads() {
    if require(&NEEDS) {
        in_namespace(|ground| {
            let out = dir(ground.join("out")).join("archive.tar");
            for name in ["ext4", "xfs", "btrfs", "tmpfs", "overlay"] {
                let at = ground.join(name);
                match [EXT4[0], XFS[0], BTRFS[0]]
                    .into_iter()
                    .find(|make| make.fstype == name)
                {
                    Some(make) => assert!(mounted(make, &at)),
                    None if name == "tmpfs" => drop(tmpfs(&at)),
                    None => {
                        let parts = tmpfs(ground.join("parts"));
                        grow(&dir(parts.join("lower/tree/lower")), 8, effort(100, 300));
                        overlay(&parts, &at);
                    }
                }
                let tree = dir(at.join("tree"));
                everything(&dir(tree.join("everything")), false);
                grow(&dir(tree.join("grown")), 7, effort(100, 300));
                bush(&dir(tree.join("bush")), effort(10, 20), effort(40, 100));
                // A mount below the tree.
                file(tmpfs(tree.join("everything/empty")).join("f"), 10);
                all_the_same(&tree, &out, name);
            }
        });
    }
}

#[test]
fn requested_way_of_gathering_is_used() {
    if require(&NEEDS) {
        in_namespace(|ground| {
            let out = ground.join("archive.tar");
            for (make, raw, batched) in [
                (EXT4[0], "raw", "combined"),
                (XFS[0], "batched", "batched"),
                (BTRFS[0], "batched", "batched"),
            ] {
                let at = ground.join(make.fstype);
                assert!(mounted(make, &at));
                bush(&at, 5, 20);
                for (asked, got) in [
                    ("percall", "percall"),
                    ("combined", "combined"),
                    ("batched", batched),
                    ("raw", raw),
                ] {
                    let value = dump(
                        &at,
                        &out,
                        &["--gather", asked, "--json", "--exclude", "lost+found"],
                    )
                    .exits(0)
                    .json();
                    assert_eq!(value["result"]["gather"], got, "{asked} on {}", make.fstype);
                    assert!(!value["result"]["why"].as_str().unwrap().is_empty());
                }
                let explained = run(&mut fathom(args!["dump", &at, "--explain", "--json"]))
                    .exits(0)
                    .json();
                let rows = explained["result"]["explain"].as_array().unwrap();
                assert_eq!(rows.len(), 4, "{explained}");
                let is_possible = |way: &str| {
                    rows.iter()
                        .any(|row| row["gather"] == way && row["possible"] == true)
                };
                assert!(
                    is_possible("percall") && is_possible("combined"),
                    "{explained}"
                );
                assert_eq!(is_possible("raw"), raw == "raw", "{explained}");
                let text = run(&mut fathom(args!["dump", &at, "--explain"])).exits(0);
                assert!(
                    WAYS[..4]
                        .iter()
                        .all(|way| text.lines().iter().any(|line| line.contains(way))),
                    "{text:?}"
                );
            }
        });
    }
}

#[test]
fn excluded_files_are_not_dumped() {
    if require(&NEEDS) {
        in_namespace(|ground| {
            let tree = dir(ground.join("tree"));
            for name in ["keep/a", "keep/a.o", "build/x", "other/deep/build/y"] {
                file(tree.join(name), 10);
            }
            file(tmpfs(tree.join("mounted")).join("f"), 10);
            let listed = |more: &[&str]| {
                let out = ground.join("archive.tar");
                dump(&tree, &out, more).exits(0);
                String::from_utf8(tool(Command::new("tar").arg("-tf").arg(&out))).unwrap()
            };
            let all = listed(&[]);
            assert!(
                all.contains("tree/mounted/f\n")
                    && all.contains("tree/keep/a.o\n")
                    && all.contains("tree/build/x\n")
            );
            let less = listed(&["--exclude", "*.o", "--exclude", "tree/build", "-x"]);
            let expected = [
                "tree/",
                "tree/keep/",
                "tree/keep/a",
                "tree/mounted/",
                "tree/other/",
                "tree/other/deep/",
                "tree/other/deep/build/",
                "tree/other/deep/build/y",
            ];
            assert_eq!(less.lines().collect::<Vec<_>>(), expected);
        });
    }
}

#[test]
fn archive_does_not_contain_itself() {
    if require(&[Need::Root, Need::Program("tar")]) {
        in_namespace(|ground| {
            let tree = dir(ground.join("tree"));
            file(tree.join("f"), 100);
            for round in 0..3 {
                let out = tree.join("own.tar");
                let map = tree.join("own.map");
                let catalog = tree.join("own.parquet");
                let more = [
                    "--map",
                    map.to_str().unwrap(),
                    "--catalog",
                    catalog.to_str().unwrap(),
                ];
                let ran = dump(&tree, &out, &more).exits(0);
                assert_eq!(
                    ran.stderr.contains("own.tar' is an output of this dump"),
                    round > 0,
                    "{ran}"
                );
                let listed = tool(Command::new("tar").arg("-tf").arg(&out));
                assert_eq!(String::from_utf8(listed).unwrap(), "tree/\ntree/f\n");
            }
        });
    }
}

#[test]
fn map_lists_the_members_of_the_archive() {
    if require(&NEEDS) {
        in_namespace(|ground| {
            let tree = dir(ground.join("tree"));
            everything(&tree, false);
            let (out, map) = (ground.join("archive.tar"), ground.join("map"));
            let text = map.to_str().unwrap();
            dump(&tree, &out, &["--map", text]).exits(0);
            let listed = tool(
                Command::new("tar")
                    .args(["--quoting-style=escape", "-tf"])
                    .arg(&out),
            );
            let lines = std::fs::read_to_string(&map).unwrap();
            assert_eq!(
                lines.lines().count(),
                listed.split(|&b| b == b'\n').count() - 1
            );
            let has = |end: &str, begin: &str| {
                let line = lines
                    .lines()
                    .find(|line| line.ends_with(end))
                    .unwrap_or_else(|| panic!("{end} in\n{lines}"));
                assert!(line.starts_with(begin), "{line}");
            };
            has(
                " 1969-12-31T23:59:59.999999999Z tree/owners/time -1",
                "- 0644 0/0 3 ",
            );
            has(" tree/owners/4294967294", "- 0644 4294967294/4294967294 6 ");
            has(" tree/kinds/null", "c 0640 0/0 1,3 ");
            has(" tree/kinds/fifo", "p 0640 ");
            has(" tree/kinds/symlink", "l 0777 ");
            has(" tree/links/a", "d 0755 ");
            has(" tree/links/b/first", "h 0644 0/0 5000 ");
            has(" tree/names/new\\nline", "- 0644 ");
            std::fs::remove_file(&map).unwrap();
            dump(&tree, &out, &["--map", text, "--no-map"]).exits(0);
            assert!(!map.exists());
            let said = dump(&tree, &out, &["--map", "-", "-q"]).exits(0).stderr;
            assert!(
                lines
                    .lines()
                    .all(|line| said.lines().any(|other| other == line))
            );
        });
    }
}
