//! Tests of files that change, disappear or cannot be read during a snapshot.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::mount::MountFlags;
use serde_json::Value;

use crate::restic::interruptions::quiet;
use crate::restic::{NEEDS, check, dump, dump_command, init, restic, tracked};
use crate::support::build::{chmod, dir, file, unmount_whole};
use crate::support::concurrent::{harass, prey, with_threads};
use crate::support::disks::{EXT4, image, mount_image, set_inode_field};
use crate::support::hold::{Hold, Stop};
use crate::support::run::{Ran, args};
use crate::support::snapshot::{Seen, Snapshot, alike, kept, same};
use crate::support::synthetic::{SyntheticTree, serve_hung, serve_synthetic};
use crate::support::tool::tool;
use crate::support::trees::Dice;
use crate::support::{Need, in_namespace, require, run};

/// The size of a file that needs more than one read(2).
const LARGE: usize = 24 << 20;

/// Restores the last snapshot, and lets restic verify the restored files.
fn verified(at: &Path, name: &str) -> std::path::PathBuf {
    check(at);
    let to = at.join(name);
    let words = args!["restore", "latest", "--target", &to, "--verify"];
    restic(at, words).exits(0);
    to
}

/// Makes a snapshot, and calls `act` while a file is being read. Returns exit status and JSON.
fn with_open(
    at: &Path,
    words: impl IntoIterator<Item = OsString>,
    path: &Path,
    act: impl FnOnce(),
) -> (Option<i32>, Value) {
    // At this moment, a part of the file has been read, and its size is known.
    let mut reads = 0;
    let hold = Hold::when(Stop::Read(path), move |_| {
        reads += 1;
        reads == 2
    });
    let mut command = dump_command(at, words.into_iter().chain(args!["--json"]));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    assert_eq!(hold.wait(&mut child), child.id());
    act();
    drop(hold);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let json = serde_json::from_slice(&output.stdout);
    (output.status.code(), json.expect(&text))
}

/// The messages of warnings by the ends of their paths.
fn warnings(json: &Value) -> Vec<(&str, &str)> {
    let all = json["warnings"].as_array().unwrap().iter();
    let mut all: Vec<_> = all
        .map(|it| {
            let path = it["path"].as_str().unwrap();
            let message = it["message"].as_str().unwrap();
            (path.rsplit('/').next().unwrap(), message)
        })
        .collect();
    all.sort_unstable();
    all
}

fn append(path: &Path, bytes: &[u8]) {
    let file = OpenOptions::new().append(true).open(path);
    file.unwrap().write_all(bytes).unwrap();
}

fn set_len(path: &Path, len: u64) {
    let file = OpenOptions::new().write(true).open(path);
    file.unwrap().set_len(len).unwrap();
}

/// The snapshot stores the size that the file had when it was opened, and a warning names the file.
/// The next snapshot stores its size at that time.
#[test]
fn a_file_that_changes_while_it_is_read_has_its_first_size() {
    if !require(&NEEDS) {
        return;
    }
    type Change = fn(&Path);
    let changes: [(&str, Change); 3] = [
        ("grew from 25165824 to 25170824 bytes", |path| {
            append(path, &[b'+'; 5000]);
        }),
        ("shrank from 25165824 to 1000 bytes", |path| {
            set_len(path, 1000);
        }),
        ("changed while it was read", |path| {
            let file = OpenOptions::new().write(true).open(path);
            file.unwrap().write_all(b"overwritten").unwrap();
        }),
    ];
    for (nth, (message, change)) in changes.into_iter().enumerate() {
        in_namespace(|ground| {
            init_with_state(ground);
            let tree = dir(ground.join("tree"));
            let large = tree.join("large");
            let bytes = Dice::new(nth as u64).bytes(LARGE);
            fs::write(&large, &bytes).unwrap();
            file(tree.join("d/f"), 100);
            let words = args!["tree", "--state", "state"];
            let (status, json) = with_open(ground, words, &large, || change(&large));
            assert_eq!(status, Some(1), "{json}");
            let [("large", told)] = warnings(&json)[..] else {
                panic!("{json}");
            };
            assert!(told.starts_with(message), "{told}");
            let stored = fs::read(verified(ground, "first").join("tree/large")).unwrap();
            assert_eq!(stored.len(), LARGE);
            let differing = stored.iter().zip(&bytes).position(|(a, b)| a != b);
            let zeros = &stored[differing.unwrap_or(LARGE)..];
            match nth {
                1 => assert!(zeros.iter().all(|&byte| byte == 0)),
                _ => assert!(differing.is_none_or(|at| at < 20), "{differing:?}"),
            }
            // The catalog describes all other files.
            let (made, _) = tracked(ground, args!["tree"]);
            assert_eq!(
                (&made["files_changed"], &made["files_unmodified"]),
                (&1.into(), &1.into())
            );
            let again = verified(ground, "again").join("tree");
            same(&kept(&tree), &kept(&again), message);
            assert_eq!(tracked(ground, args!["tree"]).0["files_unmodified"], 2);
        });
    }
}

/// Makes a repository, and a directory for catalogs.
fn init_with_state(ground: &Path) {
    init(ground);
    fs::create_dir(ground.join("state")).unwrap();
}

/// Files that change between the walk and their reading, like in `fathom dump -o`.
#[test]
fn files_that_changed_before_they_are_read_are_stored_as_they_are() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init_with_state(ground);
        let tree = dir(ground.join("tree"));
        // The entries of a directory are read in order of their names.
        let first = tree.join("a first");
        fs::write(&first, Dice::new(9).bytes(LARGE)).unwrap();
        let path = |name: &str| tree.join(name);
        for name in [
            "fifo", "gone", "grown", "lost", "mode", "moved", "other", "shrunk",
        ] {
            file(path(name), 5000);
        }
        file(path("large"), 3 << 20);
        symlink("target", path("symlink")).unwrap();
        let words = args!["tree", "--state", "state"];
        let (status, json) = with_open(ground, words, &first, || {
            append(&path("grown"), b"and more");
            append(&path("large"), b"and more");
            set_len(&path("shrunk"), 7);
            chmod(path("mode"), 0o600);
            let mut attribute = Command::new("setfattr");
            tool(
                attribute
                    .args(["-n", "user.a", "-v", "1"])
                    .arg(path("mode")),
            );
            file(path("new"), 77);
            fs::rename(path("new"), path("moved")).unwrap();
            fs::remove_file(path("gone")).unwrap();
            fs::remove_file(path("symlink")).unwrap();
            fs::remove_file(path("lost")).unwrap();
            symlink("grown", path("lost")).unwrap();
            fs::remove_file(path("other")).unwrap();
            dir(path("other"));
            fs::remove_file(path("fifo")).unwrap();
            tool(Command::new("mkfifo").arg(path("fifo")));
        });
        assert_eq!(status, Some(1), "{json}");
        let deleted = "deleted before it could be read; skipped";
        let replaced = "replaced before it could be read; skipped; dump it again";
        assert_eq!(
            warnings(&json),
            [
                ("fifo", replaced),
                ("gone", deleted),
                ("lost", replaced),
                ("other", replaced),
                ("symlink", deleted),
            ]
        );
        let stored = kept(&verified(ground, "first").join("tree"));
        let mut expected = kept(&tree);
        expected.retain(|path, _| {
            let skipped = [&b"fifo"[..], b"lost", b"other"];
            !skipped.iter().any(|name| path.ends_with(name))
        });
        // The metadata of the directory is that of the walk.
        let without_top = |mut tree: Snapshot| {
            tree.retain(|path, _| !path.is_empty());
            tree
        };
        same(&without_top(expected), &without_top(stored), "as they are");
        assert_eq!(tracked(ground, args!["tree"]).0["files_new"], 2);
        let again = verified(ground, "again").join("tree");
        same(&kept(&tree), &kept(&again), "the next snapshot");
    });
}

/// A FUSE server fails reads: those files are skipped, and are in the next snapshot.
#[test]
fn files_with_read_errors_are_in_the_next_snapshot() {
    if !require(&NEEDS) || !require(&[Need::Fuse]) {
        return;
    }
    in_namespace(|ground| {
        init_with_state(ground);
        let whole = SyntheticTree {
            directories: 2,
            files: 7,
            unit: 1 << 20,
            ..SyntheticTree::default()
        };
        let broken = SyntheticTree {
            broken: vec![("d1/f3", libc::EIO)],
            broken_from: Some(("d0/f5", 3 << 20, libc::EIO)),
            ..whole.clone()
        };
        let dump = |tree: &SyntheticTree| -> Ran {
            let server = serve_synthetic(tree.clone(), &ground.join("far"));
            let words = args!["far", "--state", "state", "--json"];
            let ran = run(&mut dump_command(ground, words));
            unmount_whole(&ground.join("far"));
            drop(server);
            ran
        };
        let json = dump(&broken).exits(1).json();
        let [("f3", one), ("f5", other)] = warnings(&json)[..] else {
            panic!("{json}");
        };
        for told in [one, other] {
            assert!(told.starts_with("cannot read, skipped"), "{told}");
        }
        let stored = verified(ground, "first").join("far");
        assert!(!stored.join("d1/f3").exists() && !stored.join("d0/f5").exists());
        assert_eq!(fs::read(stored.join("d0/f3")).unwrap(), vec![3; 3 << 20]);
        let made = &dump(&whole).exits(0).json()["result"];
        assert_eq!(made["files_new"], 2, "{made}");
        let stored = verified(ground, "again").join("far");
        for d in 0..2 {
            for f in 0..7_u8 {
                let bytes = fs::read(stored.join(format!("d{d}/f{f}"))).unwrap();
                assert!(bytes == vec![f; usize::from(f) << 20], "d{d}/f{f}");
            }
        }
    });
}

/// A mount whose server stopped after the last snapshot is skipped.
#[test]
fn mount_that_stopped_answering_is_skipped() {
    if !require(&NEEDS) || !require(&[Need::Fuse]) {
        return;
    }
    in_namespace(|ground| {
        init_with_state(ground);
        let far = ground.join("tree/far");
        let server = serve_synthetic(SyntheticTree::default(), &far);
        let words = || args!["tree", "--state", "state", "--deadline", "1s", "--json"];
        run(&mut dump_command(ground, words())).exits(0);
        unmount_whole(&far);
        drop(server);
        let _server = serve_hung(&far);
        let json = run(&mut dump_command(ground, words())).exits(1).json();
        let [("far", message)] = warnings(&json)[..] else {
            panic!("{json}");
        };
        assert!(message.contains("does not answer within"), "{message}");
    });
}

/// A file that ends before the size that stat reports is stored up to its end, and read again by
/// each snapshot.
#[test]
fn files_that_end_before_their_size_are_named() {
    if !require(&NEEDS) || !require(&[Need::Fuse]) {
        return;
    }
    in_namespace(|ground| {
        init_with_state(ground);
        for (unit, path, end) in [(1000_u64, "d0/f3", 2500_u64), (1 << 20, "d0/f5", 3 << 20)] {
            for _ in 0..2 {
                let tree = SyntheticTree {
                    directories: 1,
                    files: 7,
                    unit,
                    broken_from: Some((path, end, 0)), // no error: the end
                    ..SyntheticTree::default()
                };
                let server = serve_synthetic(tree, &ground.join("far"));
                let words = args!["far", "--state", "state", "--json"];
                let ran = run(&mut dump_command(ground, words)).exits(1);
                unmount_whole(&ground.join("far"));
                drop(server);
                let json = ran.json();
                let [(name, message)] = warnings(&json)[..] else {
                    panic!("{ran}");
                };
                assert!(
                    path.ends_with(name) && message.starts_with("shrank: it ends after"),
                    "{ran}"
                );
            }
            let stored = verified(ground, &format!("of {unit}"))
                .join("far")
                .join(path);
            assert_eq!(fs::metadata(stored).unwrap().len(), end);
        }
    });
}

#[test]
fn snapshots_are_sound_while_files_change() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init_with_state(ground);
        let tree = dir(ground.join("tree"));
        prey(&tree);
        let (mut wrong, words) = (0, args!["tree", "--state", "state"]);
        with_threads(
            2,
            |seed, until| harass(&tree, until, seed),
            || {
                // At least eight snapshots, and until a file has changed while it was read.
                let (started, mut nth) = (Instant::now(), 0);
                while nth < 8 || wrong == 0 {
                    assert!(started.elapsed() < Duration::from_secs(600));
                    let words = words.iter().take(if nth % 2 == 0 { 3 } else { 1 });
                    let words = words.cloned().chain(args!["--jobs", ["1", "8"][nth % 2]]);
                    let ran = run(&mut dump_command(ground, words));
                    assert!(ran.code() < 2, "{ran}");
                    wrong += ran.code();
                    verified(ground, &format!("restored {nth}"));
                    nth += 1;
                }
            },
        );
        tracked(ground, args!["tree"]);
        let copy = verified(ground, "after").join("tree");
        // Old versions of restic restore sparse files with all their zeros.
        let without_holes = |_: &[u8], seen: &mut Seen| {
            (seen.data, seen.atime) = (Vec::new(), (0, 0));
        };
        let (tree, copy) = (kept(&tree), kept(&copy));
        alike(&tree, &copy, "after the changes", without_holes);
    });
}

/// On ext4 with inodes of 128 bytes, times have whole seconds: a file that is written twice within
/// a second may keep its times.
#[test]
fn changes_within_the_second_of_a_snapshot_are_in_the_next_one() {
    let tools = ["mkfs.ext4", "debugfs"].map(Need::Program);
    if !require(&NEEDS) || !require(&[Need::Loop]) || !require(&tools) {
        return;
    }
    for state in [&[][..], &args!["--state", "state"]] {
        in_namespace(|ground| {
            init_with_state(ground);
            let (disk, at) = (ground.join("image"), dir(ground.join("disk")));
            let small_inodes = EXT4.into_iter().find(|make| make.mkfs == "-I 128");
            let small_inodes = small_inodes.unwrap();
            image(small_inodes, 64, &disk);
            let mount = || assert!(mount_image(small_inodes, &disk, &at, MountFlags::NOATIME));
            mount();
            let path = file(at.join("tree/d/f"), 3000);
            file(at.join("tree/e/settled"), 3000);
            let words = || args!["disk/tree"].into_iter().chain(state.iter().cloned());
            // The walk has begun, but has not reached the file.
            let hold = Hold::new(Stop::Open(path.parent().unwrap()));
            let mut child = quiet(dump_command(ground, words()));
            assert_eq!(hold.wait(&mut child), child.id());
            fs::write(&path, [1; 3000]).unwrap();
            let seen = path.metadata().unwrap();
            drop(hold);
            assert!(child.wait().unwrap().success());
            // Write the file a second time, and set its times back to those of the first write.
            fs::write(&path, [2; 3000]).unwrap();
            unmount_whole(&at);
            for (field, time) in [("ctime", seen.ctime()), ("mtime", seen.mtime())] {
                set_inode_field(&disk, "/tree/d/f", field, &format!("@{time}"));
            }
            mount();
            let times = |seen: &fs::Metadata| (seen.ctime(), seen.mtime());
            assert_eq!(times(&path.metadata().unwrap()), times(&seen));
            let made = dump(ground, words());
            assert_eq!(made["files_changed"], 1, "{made}");
            let copy = verified(ground, "copy").join("disk/tree");
            same(&kept(&at.join("tree")), &kept(&copy), "the last change");
            assert_eq!(dump(ground, words())["files_unmodified"], 2);
        });
    }
}
