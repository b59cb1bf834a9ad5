//! Tests of damaged and crafted file systems: readable entries are emitted, the others give
//! warnings, and nothing panics, hangs, or takes gigabytes. Mainly ext4, whose device is read, and
//! btrfs, whose trees are searched.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::MountFlags;
use serde_json::Value;

use super::right::{census_of, objects, same, walk};
use crate::support::build::{bush, dir, unmount, unmount_whole};
use crate::support::disks::{BTRFS, EXT4, Loop, Make, attach, image, mount_image};
use crate::support::effort::effort;
use crate::support::restrict::limit_memory;
use crate::support::run::{Ran, args, calls};
use crate::support::tool::tool;
use crate::support::trees::{Dice, grow};
use crate::support::{Need, fathom, in_namespace, require, run};

const DISK: [Need; 3] = [Need::Root, Need::Loop, Need::Program("debugfs")];

fn ext4(name: &str) -> Make {
    *EXT4.iter().find(|make| make.name == name).unwrap()
}

/// An image of 24 MiB with a tree in it, not mounted.
fn whole(make: Make, base: &Path) -> PathBuf {
    let (file, at) = (base.join("whole"), dir(base.join("whole at")));
    image(make, 24, &file);
    assert!(mount_image(make, &file, &at, MountFlags::NOATIME));
    grow(&dir(at.join("tree")), 1, 200);
    bush(&dir(at.join("bush")), 20, 20);
    dir(at.join("a/b/c"));
    unmount_whole(&at);
    file
}

/// Runs an engine with a memory limit of 256 MiB. It must end with entries, or with a one-line
/// error.
fn ends_well(at: &Path, engine: &str, what: &str) -> Option<Value> {
    let mut command = fathom(args!["walk", at, "--engine", engine, "--json"]);
    limit_memory(&mut command, 256);
    let ran: Ran = run(&mut command);
    if ran.code() == 2 {
        ran.refused();
        return None;
    }
    assert!(ran.code() <= 1, "{what}: {ran}");
    Some(ran.json())
}

/// Compares the engine with `stat`: without warnings, both must find the same.
fn no_worse_than_stat(at: &Path, what: &str) {
    let plain = ends_well(at, "stat", what);
    let special = ends_well(at, "ext4", what);
    if let (Some(plain), Some(special)) = (plain, special)
        && [&plain, &special]
            .iter()
            .all(|value| value["warnings"].as_array().unwrap().is_empty())
        && special["result"]["digest"] != plain["result"]["digest"]
    {
        let entries = |engine| census_of(&objects(&walk(at, engine, &["--format", "ndjson"])));
        let (mut given, expected) = (entries("ext4"), entries("stat"));
        // A damaged name is listed, but the kernel cannot look it up, because its hash belongs to a
        // different block.
        given.retain(|path, _| expected.contains_key(path));
        same(&given, &expected, what);
    }
}

/// Mounts a copy of an image after `harm`, and runs the engines. False if the kernel refuses to
/// mount it.
fn after(make: Make, whole: &Path, what: &str, harm: impl FnOnce(&Path)) -> bool {
    let (copy, at) = (
        whole.with_extension("copy"),
        dir(whole.with_extension("at")),
    );
    tool(
        Command::new("cp")
            .arg("--sparse=always")
            .arg(whole)
            .arg(&copy),
    );
    harm(&copy);
    let device = attach(&copy);
    let mounted = rustix::mount::mount(
        &device.0,
        &at,
        make.fstype,
        MountFlags::RDONLY,
        c"noload,errors=continue",
    )
    .or_else(|_| {
        rustix::mount::mount(
            &device.0,
            &at,
            make.fstype,
            MountFlags::RDONLY,
            c"errors=continue",
        )
    });
    if mounted.is_ok() {
        no_worse_than_stat(&at, what);
        unmount(&at);
    }
    mounted.is_ok()
}

/// Overwrites some bytes that are in use, except in the first 4 KiB, which contain the superblock.
fn random_bytes(image: &Path, dice: &mut Dice, places: usize) {
    let bytes = fs::read(image).unwrap();
    let used: Vec<usize> = (4..bytes.len() / 1024)
        .filter(|n| bytes[n * 1024..][..1024].iter().any(|&b| b != 0))
        .collect();
    let file = OpenOptions::new().write(true).open(image).unwrap();
    for _ in 0..places {
        let at = dice.pick(&used) * 1024 + dice.below(1024);
        let value = match dice.below(4) {
            0 => vec![0; 1 + dice.below(8)],
            1 => vec![0xff; 1 + dice.below(8)],
            _ => dice.roll().to_le_bytes()[..1 + dice.below(8)].to_vec(),
        };
        file.write_at(&value, at as u64).unwrap();
    }
}

fn rounds_of_random_bytes(make: Make, seed: u64, rounds: u64) {
    in_namespace(|base| {
        let whole = whole(make, base);
        let mut mounted = 0;
        for seed in seed..seed + rounds {
            let mut dice = Dice::new(seed);
            let places = [1, 10, 100, 1000][dice.below(4)];
            let what = format!(
                "{} with random bytes in {places} places, seed {seed}",
                make.name
            );
            mounted += u64::from(after(make, &whole, &what, |copy| {
                random_bytes(copy, &mut dice, places)
            }));
        }
        assert!(
            mounted >= rounds / 3,
            "only {mounted} of {rounds} could be mounted"
        );
    });
}

#[test]
fn random_damage_with_checksums() {
    if require(&DISK) {
        rounds_of_random_bytes(EXT4[0], 1000, effort(3, 24) as u64);
        rounds_of_random_bytes(ext4("much at once"), 2000, effort(2, 12) as u64);
    }
}

#[test]
fn random_damage_without_checksums() {
    if require(&DISK) {
        for (make, seed) in [
            ("ext3 with 1K blocks", 3000),
            ("ext2", 4000),
            ("^metadata_csum", 5000),
        ] {
            rounds_of_random_bytes(ext4(make), seed, effort(2, 16) as u64);
        }
    }
}

fn debugfs(image: &Path, request: &str) -> String {
    let out = Command::new("debugfs")
        .args(["-w", "-R", request])
        .arg(image)
        .output()
        .unwrap();
    assert!(out.status.success(), "{request}: {out:?}");
    String::from_utf8(out.stdout).unwrap()
}

/// Damage by debugfs, which updates the checksums, causes no harm.
#[test]
fn crafted_file_systems() {
    if require(&DISK) {
        let lies: [(&str, &[&str]); 24] = [
            ("a loop of directories", &["link /a /a/b/c/loop"]),
            ("a directory in itself", &["link /a/b /a/b/itself"]),
            ("the root in the tree", &["link <2> /a/b/root"]),
            ("one directory twice", &["link /bush /a/again"]),
            (
                "loops within loops",
                &[
                    "link /a /a/b/one",
                    "link /a/b /a/b/c/two",
                    "link /a/b/c /a/three",
                    "link <2> /a/b/c/four",
                ],
            ),
            ("an inode that nobody has", &["link <5000> /a/nobody"]),
            (
                "an inode beyond the last",
                &["ln <4294967295> /a/beyond", "link <999999> /a/beyond too"],
            ),
            (
                "inodes of the file system's own",
                &[
                    "link <8> /a/journal",
                    "link <7> /a/resize",
                    "link <1> /a/bad",
                    "link <3> /a/quota",
                ],
            ),
            ("an extent out of range", &["sif /bush block[5] 0xfffffff0"]),
            (
                "an extent of great length",
                &["sif /bush block[4] 0x00007fff"],
            ),
            ("an extent far in", &["sif /bush block[3] 0xffffff00"]),
            ("too many extents", &["sif /bush block[0] 0xfffff30a"]),
            (
                "a tree of extents without end",
                &["sif /bush block[1] 0x0000ffff"],
            ),
            ("no magic in the extents", &["sif /bush block[0] 0"]),
            ("a huge directory", &["sif /bush size 0x7ffffffffffff000"]),
            (
                "a huge directory that is an even number of blocks",
                &["sif /a size 0x1000000000"],
            ),
            ("an empty directory", &["sif /bush size 0"]),
            ("a directory of an odd size", &["sif /bush size 1025"]),
            ("a directory of no type", &["sif /bush mode 0"]),
            (
                "a directory that says it is a file",
                &["sif /bush mode 0100644"],
            ),
            (
                "a file that says it is a directory",
                &["sif /tree/wide mode 0100755", "sif /bush/d0/f0 mode 040755"],
            ),
            (
                "a deleted directory",
                &["sif /a/b links_count 0", "sif /a/b dtime 1"],
            ),
            ("another inode's flags", &["sif /bush flags 0xffffffff"]),
            (
                "blocks beyond counting",
                &[
                    "sif /bush/d0/f0 blocks 0xffffffff",
                    "sif /bush/d0/f0 block_count 0xffffffffffff",
                ],
            ),
        ];
        for make in [
            EXT4[0],
            ext4("1K blocks"),
            ext4("ext3 with 1K blocks"),
            ext4("inline_data"),
        ] {
            in_namespace(|base| {
                let whole = whole(make, base);
                for (lie, requests) in lies {
                    let what = format!("{} with {lie}", make.name);
                    let mounted = after(make, &whole, &what, |copy| {
                        for request in requests {
                            debugfs(copy, request);
                        }
                    });
                    assert!(mounted, "{what}");
                }
            });
        }
    }
}

/// The first block of a directory in an image.
fn block_of(image: &Path, directory: &str, size: u64) -> u64 {
    let blocks = debugfs(image, &format!("blocks {directory}"));
    blocks
        .split_whitespace()
        .next()
        .unwrap()
        .parse::<u64>()
        .unwrap()
        * size
}

/// Names that no kernel would write, in a directory block without a checksum.
#[test]
fn invalid_names_on_disk() {
    if require(&DISK) {
        // The offset in the directory's block, and the bytes to write: `struct ext4_dir_entry_2` is
        // inode, rec_len, name_len, file_type, name.
        let crooked: [(&str, u64, &[u8]); 12] = [
            ("a length of nothing", 4 + 24, &[0, 0]),
            ("a length that leads out", 4 + 24, &[0xff, 0xff]),
            ("a length that is odd", 4 + 24, &[13, 0]),
            ("a name longer than its place", 6 + 24, &[255]),
            ("a name of no length", 6 + 24, &[0]),
            ("a slash", 8 + 24, b"/"),
            ("a name of zeros", 8 + 24, &[0, 0]),
            ("dot again", 6 + 24, b"\x01\x02."),
            ("dot dot again", 6 + 24, b"\x02\x02.."),
            ("no type", 7 + 24, &[0]),
            ("a type that there is not", 7 + 24, &[99]),
            ("no dot", 8, b"x"),
        ];
        for name in ["^metadata_csum", "ext3 with 1K blocks", "ext2"] {
            let make = ext4(name);
            in_namespace(|base| {
                let whole = whole(make, base);
                let size = if name.contains("1K") {
                    1024
                } else {
                    block_size(&whole)
                };
                for (what, offset, bytes) in crooked {
                    after(make, &whole, &format!("{name} with {what}"), |copy| {
                        for directory in ["/bush/d1", "/a", "/bush"] {
                            let at = block_of(copy, directory, size);
                            OpenOptions::new()
                                .write(true)
                                .open(copy)
                                .unwrap()
                                .write_at(bytes, at + offset)
                                .unwrap();
                        }
                    });
                }
            });
        }
    }
}

fn block_size(image: &Path) -> u64 {
    let mut field = [0; 4];
    File::open(image)
        .unwrap()
        .read_exact_at(&mut field, 1024 + 24)
        .unwrap();
    1024 << u32::from_le_bytes(field)
}

/// The superblock and the group descriptors are changed on the device of a mounted file system: the
/// kernel has its own copy, but an engine that reads the device does not.
#[test]
fn superblock_changed_after_the_mount() {
    if require(&DISK) {
        // Offsets and sizes of fields of `struct ext4_super_block`.
        let fields = [
            ("s_inodes_count", 0, 4),
            ("s_blocks_count_lo", 4, 4),
            ("s_first_data_block", 20, 4),
            ("s_log_block_size", 24, 4),
            ("s_log_cluster_size", 28, 4),
            ("s_blocks_per_group", 32, 4),
            ("s_inodes_per_group", 40, 4),
            ("s_magic", 56, 2),
            ("s_rev_level", 76, 4),
            ("s_inode_size", 88, 2),
            ("s_feature_compat", 92, 4),
            ("s_feature_incompat", 96, 4),
            ("s_feature_ro_compat", 100, 4),
            ("s_reserved_gdt_blocks", 206, 2),
            ("s_desc_size", 254, 2),
            ("s_first_meta_bg", 260, 4),
            ("s_blocks_count_hi", 336, 4),
            ("s_log_groups_per_flex", 372, 1),
        ];
        for make in [EXT4[0], ext4("ext3 with 1K blocks")] {
            in_namespace(|base| {
                let (whole, at) = (whole(make, base), dir(base.join("at")));
                let device: Loop = attach(&whole);
                rustix::mount::mount(&device.0, &at, make.fstype, MountFlags::RDONLY, None)
                    .unwrap();
                let raw = OpenOptions::new()
                    .read(true)
                    .write(true)
                    .open(&device.0)
                    .unwrap();
                let mut dice = Dice::new(7);
                for (field, offset, length) in fields {
                    for value in [0, 1, 0xff, u64::from(u32::MAX), dice.roll(), 0x8000_0000] {
                        lie(&raw, 1024 + offset, &value.to_le_bytes()[..length], || {
                            ends_well(
                                &at,
                                "ext4",
                                &format!("{} with {field} {value:#x}", make.name),
                            );
                        });
                    }
                }
                let descriptors = block_size(&whole).max(2048);
                for _ in 0..40 {
                    let bytes = dice.roll().to_le_bytes();
                    lie(
                        &raw,
                        descriptors + 4 * dice.below(32) as u64,
                        &bytes[..4],
                        || {
                            ends_well(
                                &at,
                                "ext4",
                                &format!("{} with other descriptors", make.name),
                            );
                        },
                    );
                }
                unmount(&at);
            });
        }
    }
}

/// Overwrites some bytes at `at` while `look` runs.
fn lie(file: &File, at: u64, bytes: &[u8], look: impl FnOnce()) {
    let mut truth = vec![0; bytes.len()];
    file.read_exact_at(&mut truth, at).unwrap();
    file.write_all_at(bytes, at).unwrap();
    look();
    file.write_all_at(&truth, at).unwrap();
}

/// The offsets of the leaves of a btrfs tree in its image, in order. The image has one copy of
/// each.
fn leaves(image: &Path) -> Vec<usize> {
    const PLACE: usize = 48; // `struct btrfs_header` is csum[32], fsid[16], bytenr, flags, chunk_tree_uuid[16], generation, ...
    const GENERATION: usize = 80;
    const SECTOR: usize = 4096;
    const SUPERBLOCK: usize = 64 << 10;
    let tree = tool(
        Command::new("btrfs")
            .args(["inspect-internal", "dump-tree", "-t", "5"])
            .arg(image),
    );
    let tree = String::from_utf8_lossy(&tree);
    let places = tree.lines().filter_map(|line| {
        line.strip_prefix("leaf ")?
            .split(' ')
            .next()?
            .parse::<u64>()
            .ok()
    });
    let bytes = fs::read(image).unwrap();
    let number = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().unwrap());
    let headers: Vec<usize> = (SUPERBLOCK + SECTOR..bytes.len())
        .step_by(SECTOR)
        .filter(|at| bytes[at + 32..at + 48] == bytes[SUPERBLOCK + 32..SUPERBLOCK + 48])
        .collect();
    let newest = |place: u64| {
        let here = headers.iter().filter(|&&at| number(at + PLACE) == place);
        *here.max_by_key(|&&at| number(at + GENERATION)).unwrap()
    };
    places.map(newest).collect()
}

/// Leaves with wrong checksums are skipped, and the entries of others emitted.
#[test]
fn unreadable_leaves_of_btrfs() {
    if require(&[Need::Root, Need::Loop, Need::Program("btrfs")]) {
        in_namespace(|base| {
            let make = Make {
                mkfs: "-m single",
                ..BTRFS[0]
            };
            let (whole, at) = (base.join("whole"), dir(base.join("at")));
            image(make, 200, &whole);
            assert!(mount_image(make, &whole, &at, MountFlags::NOATIME));
            bush(&dir(at.join("bush")), 60, 60);
            let all = census_of(&objects(
                &walk(&at, "stat", &["--format", "ndjson"]).exits(0),
            ));
            unmount_whole(&at);
            let leaves = leaves(&whole);
            let end = leaves.len();
            assert!(end > 20, "{leaves:?}");
            for broken in [
                end / 2..end / 2 + 1,
                end / 3..end / 3 + 1,
                end / 4..end / 4 + 3,
                end / 8..end / 8 + 9,
            ] {
                let (copy, what) = (base.join("copy"), format!("leaves {broken:?} of {end}"));
                tool(
                    Command::new("cp")
                        .arg("--sparse=always")
                        .arg(&whole)
                        .arg(&copy),
                );
                let file = OpenOptions::new().write(true).open(&copy).unwrap();
                leaves[broken.clone()]
                    .iter()
                    .for_each(|&leaf| file.write_all_at(&[0xff; 32], leaf as u64).unwrap());
                assert!(
                    mount_image(make, &copy, &at, MountFlags::NOATIME | MountFlags::RDONLY),
                    "{what}"
                );
                let lines = |engine| {
                    census_of(&objects(
                        &walk(&at, engine, &["--format", "ndjson"]).exits(1),
                    ))
                };
                let (plain, special) = (lines("stat"), lines("btrfs"));
                let is_known = |path: &Vec<u8>| all.contains_key(path);
                assert!(
                    plain.keys().all(is_known) && special.keys().all(is_known),
                    "{what}: something is made up"
                );
                let missing: Vec<_> = plain
                    .keys()
                    .filter(|path| !special.contains_key(*path))
                    .collect();
                let show = missing
                    .iter()
                    .take(5)
                    .map(|path| path.escape_ascii().to_string())
                    .collect::<Vec<_>>();
                // An inode may be at the end of a leaf, and its name at the beginning of the next
                // leaf.
                assert!(
                    missing.len() <= broken.len(),
                    "{what}: {} entries are missing: {show:?}",
                    missing.len()
                );
                let value = ends_well(&at, "btrfs", &what).unwrap();
                let calls: u64 = calls(&value["gates"]).values().sum();
                assert!(calls < 1000, "{what}: {calls} calls");
                unmount(&at);
            }
        });
    }
}
