//! Tests of the options that select entries, compared with those of GNU tar.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::changes::change;
use super::full::{NEEDS, dump, quiet};
use super::rounds::{by_gnu_tar, grown, on};
use crate::support::build::{dir, file, tmpfs};
use crate::support::disks::{BTRFS, EXT4, XFS, subvolume};
use crate::support::effort::effort;
use crate::support::reference::settle;
use crate::support::run::{args, calls, exact};
use crate::support::snapshot::{Snapshot, alike, ignore_inherited, kept, snapshot};
use crate::support::tool::tool;
use crate::support::trees::Dice;
use crate::support::{Need, fathom, in_namespace, require, run};

const SIGNATURE: &str = "Signature: 8a477f597d28d172789f06886806bc55";
const TAG: &str = ".nobackup";

/// Puts tags and files that look like tags into random directories, and removes others. No
/// directory gets two tags: GNU tar then keeps only one of them.
fn tag(tree: &Path, dice: &mut Dice) {
    let found = tool(
        Command::new("find")
            .arg(tree)
            .args(["-type", "d", "-print0"]),
    );
    for path in found.split(|&b| b == 0).filter(|path| !path.is_empty()) {
        let path = PathBuf::from(crate::support::build::name(path));
        let (cache, tag) = (path.join("CACHEDIR.TAG"), path.join(TAG));
        match dice.below(12) {
            0 => drop(fs::write(cache, format!("{SIGNATURE}\nmore\n"))),
            1 => drop(fs::write(cache, &SIGNATURE[..40])),
            2 => drop(fs::create_dir(cache)),
            3 => drop(fs::write(tag, "")),
            4 => drop(fs::create_dir(&tag).and_then(|()| fs::write(tag.join("in it"), "x"))),
            5 => drop(fs::remove_file(cache)),
            6 => drop(fs::remove_file(tag)),
            _ => {}
        }
        let has_both = path.join("CACHEDIR.TAG").exists() && path.join(TAG).exists();
        if has_both {
            let _ = fs::remove_file(path.join("CACHEDIR.TAG"));
            let _ = fs::remove_dir_all(path.join("CACHEDIR.TAG"));
        }
    }
}

/// Removes tags that are neither files nor directories; a random change may have renamed any entry.
/// GNU tar opens tags: it follows symlinks, ignores devices without a driver, and waits for a FIFO.
fn remove_special_tags(tree: &Path) {
    let mut find = Command::new("find");
    find.arg(tree).args(["!", "-type", "f,d"]);
    find.args([
        "(",
        "-name",
        TAG,
        "-o",
        "-name",
        "CACHEDIR.TAG",
        ")",
        "-delete",
    ]);
    tool(&mut find);
}

/// Options of fathom, and those of GNU tar with the same meaning.
const OPTIONS: [(&[&str], &[&str]); 4] = [
    (&[], &[]),
    (&["--exclude-caches"], &["--exclude-caches"]),
    (&["--exclude-if-present", TAG], &["--exclude-tag=.nobackup"]),
    (
        &["--exclude-caches", "--exclude-if-present", TAG],
        &["--exclude-caches", "--exclude-tag=.nobackup"],
    ),
];

/// Archives a tree by GNU tar in full.
fn by_tar(tree: &Path, archive: &Path, options: &[&str]) {
    let mut tar = Command::new("tar");
    tar.args(["--xattrs", "--xattrs-include=*", "--acls", "--format=pax"]);
    tar.args([
        "--warning=no-cachedir",
        "--atime-preserve=system",
        "--sparse",
    ]);
    tar.args(options).arg("-cf").arg(archive);
    quiet(
        tar.arg("-C")
            .arg(tree.parent().unwrap())
            .arg(tree.file_name().unwrap()),
    );
}

/// The names of the members of an archive, sorted: GNU tar does not sort directories.
fn names(archive: &Path) -> Vec<Vec<u8>> {
    let mut tar = Command::new("tar");
    tar.args(["--quoting-style=escape", "-tf"]).arg(archive);
    let listed = tool(&mut tar);
    let mut names: Vec<Vec<u8>> = listed.split(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
    names.sort();
    names
}

/// The entries that GNU tar has selected, with the metadata of the tree and the hard links among
/// the selection: a directory that tar creates in a set-group-ID directory inherits that bit.
pub(crate) fn of_names(mut tree: Snapshot, selected: Snapshot) -> Snapshot {
    let entries = selected.into_iter().map(|(name, seen)| {
        let mut entry = tree.remove(&name).unwrap();
        entry.twin = seen.twin;
        (name, entry)
    });
    entries.collect()
}

/// Checks that two trees are equal. GNU tar archives hard links of regular files only.
#[track_caller]
pub(crate) fn same_data(a: &Snapshot, b: &Snapshot, what: &str) {
    alike(a, b, what, |_, seen| {
        seen.atime = (0, 0);
        if seen.kind != 'f' {
            seen.twin = None;
        }
    });
}

#[test]
fn tagged_directories_are_those_of_gnu_tar() {
    if !require(&NEEDS) {
        return;
    }
    let makes = [
        ("ext4", Some(EXT4[0]), "raw"),
        ("xfs", Some(XFS[0]), "batched"),
        ("btrfs", Some(BTRFS[0]), "batched"),
        ("tmpfs", None, "combined"),
    ];
    for (seed, (name, make, best)) in (70..).zip(makes.into_iter().cycle().take(effort(8, 50))) {
        on(make, |at, ground| {
            let (tree, mut dice) = (dir(at.join("tree")), Dice::new(seed));
            grown(&tree, seed);
            tag(&tree, &mut dice);
            // A tag on a different file system.
            let mounted = tmpfs(tree.join("mounted"));
            file(mounted.join("cache/f"), 10);
            fs::write(mounted.join("cache/CACHEDIR.TAG"), SIGNATURE).unwrap();
            // The tag is a FIFO: opening it for reading would block.
            let queue = dir(tree.join("queue"));
            tool(Command::new("mkfifo").arg(queue.join(TAG)));
            file(queue.join("f"), 10);
            // A tag may exclude a mounted file system or a subvolume.
            fs::write(dir(tree.join("tagged")).join("CACHEDIR.TAG"), SIGNATURE).unwrap();
            file(tmpfs(tree.join("tagged/mounted")).join("f"), 10);
            if name == "btrfs" {
                file(
                    subvolume(&tree.join("tagged/subvolume"), None).join("f"),
                    10,
                );
            }
            let (out, other) = (ground.join("a.tar"), ground.join("b.tar"));
            for (ours, theirs) in OPTIONS {
                by_tar(&tree, &other, theirs);
                let expected = names(&other);
                let mut first = None;
                for way in ["percall", "combined", "batched", "raw", "auto"] {
                    let options = [ours, &["--json", "--gather", way]].concat();
                    let report = dump(&tree, &out, &options).exits(0).json();
                    if way == "raw" {
                        assert_eq!(report["result"]["gather"], best, "{ours:?}, seed {seed}");
                    }
                    let bytes = fs::read(&out).unwrap();
                    if first.is_none() {
                        assert_eq!(names(&out), expected, "{ours:?}, seed {seed}");
                    }
                    assert!(
                        *first.get_or_insert_with(|| bytes.clone()) == bytes,
                        "{way} {ours:?}, seed {seed}"
                    );
                }
            }
        });
    }
}

/// Tags are added and removed between dumps, and the options change.
#[test]
fn increments_with_changing_selections_restore_what_gnu_tar_selects() {
    if !require(&NEEDS) {
        return;
    }
    for (seed, make) in [
        (81, Some(EXT4[0])),
        (82, Some(XFS[0])),
        (83, Some(BTRFS[0])),
        (84, None),
    ] {
        on(make, |at, ground| {
            let (tree, mut dice) = (dir(at.join("tree")), Dice::new(seed));
            let [tars, fathoms] = ["by tar", "by fathom"].map(|to| dir(at.join(to)));
            grown(&tree, seed);
            let catalog = ground.join("catalog");
            let mut archives: Vec<PathBuf> = Vec::new();
            for round in 0..effort(8, 50) {
                tag(&tree, &mut dice);
                change(&tree, &mut dice, [1, 10, 30][round % 3]);
                remove_special_tags(&tree);
                if dice.one_in(2) {
                    settle(at);
                }
                let (ours, theirs) = *dice.pick(&OPTIONS);
                let archive = ground.join(format!("{round}.tar"));
                let option = catalog.to_str().unwrap();
                let since: &[&str] = if round > 0 { &["--since", option] } else { &[] };
                dump(
                    &tree,
                    &archive,
                    &[&["--catalog", option], since, ours].concat(),
                )
                .exits(0);
                by_gnu_tar(&archive, &tars);
                archives.push(archive);

                let reference = ground.join("reference.tar");
                by_tar(&tree, &reference, theirs);
                let expected = dir(at.join("expected"));
                by_gnu_tar(&reference, &expected);
                let expected_tree = of_names(kept(&tree), snapshot(&expected.join("tree")));
                let what = format!("round {round} of {seed}, {ours:?}");
                let mut is = snapshot(&tars.join("tree"));
                ignore_inherited(&expected_tree, &mut is);
                same_data(&expected_tree, &is, &what);
                run(fathom(args!["restore", "--numeric-owner", "-C", &fathoms]).args(&archives))
                    .exits(0);
                let is = snapshot(&fathoms.join("tree"));
                same_data(&expected_tree, &is, &what);
                fs::remove_dir_all(&expected).unwrap();
                fs::remove_dir_all(&fathoms).unwrap();
                dir(&fathoms);
            }
        });
    }
}

#[test]
fn excluded_directories_are_not_read() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let tree = dir(tmpfs(ground.join("at")).join("tree"));
            (0..50).for_each(|n| drop(file(tree.join(format!("cache/{n}/f")), 10)));
            fs::write(tree.join("cache/CACHEDIR.TAG"), SIGNATURE).unwrap();
            let out = ground.join("a.tar");
            let gates = |more: &[&str]| {
                let options = [&["--json", "-j", "1"], more].concat();
                calls(&dump(&tree, &out, &options).exits(0).json()["gates"])
            };
            let (all, less) = (gates(&[]), gates(&["--exclude-caches"]));
            assert_eq!(all["getdents64"] - less["getdents64"], 100, "{less:?}");
            // `less` examines the tree, cache and CACHEDIR.TAG, and the tag of each of the two
            // directories.
            assert!(all["statx"] > less["statx"] + 90, "{all:?} {less:?}");
        });
    }
}

#[test]
fn patterns_are_read_from_files() {
    let place = tempfile::tempdir().unwrap();
    let at = place.path();
    for path in [
        "tree/a.o",
        "tree/b",
        "tree/build/x",
        "tree/d/build",
        "tree/# c",
    ] {
        file(at.join(path), 1);
    }
    fs::write(at.join("one"), "*.o\n\ntree/build\n").unwrap();
    fs::write(at.join("two"), "# c").unwrap();
    let dump = |more: &[&str]| {
        let arguments = [&["dump", "tree", "-o", "a.tar", "-q"], more].concat();
        run(fathom(arguments).current_dir(at))
    };
    dump(&[
        "--exclude-from",
        "one",
        "--exclude-from",
        "two",
        "--exclude",
        "b",
    ])
    .exits(0);
    let listed = run(fathom(["list", "a.tar"]).current_dir(at)).exits(0);
    let expected = ["tree/", "tree/d/", "tree/d/build"];
    let listed = listed.lines();
    let names = listed.iter().map(|line| line.rsplit(' ').next().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), expected);

    fs::write(at.join("bad"), b"a\n\0\n").unwrap();
    for (more, message) in [
        (["--exclude-from", "bad"], "line 2 contains a NUL"),
        (["--exclude-from", "nowhere"], "'nowhere': No such file"),
        (["--exclude-from", "tree"], "'tree': Is a directory"),
        (["--exclude-if-present", "a/b"], "without slashes"),
        (["--resume", "--catalog=c"], "--resume requires mpirun"),
        (["--shard", "0/2"], "--shard cannot be used with dump"),
    ] {
        let ran = dump(&more).refused();
        assert!(ran.stderr.contains(message), "{ran}");
    }
}

/// `verify --against` and `changed` apply the same selection.
#[test]
fn excluded_files_are_neither_missing_nor_new() {
    let place = tempfile::tempdir().unwrap();
    let at = place.path();
    for path in ["tree/a", "tree/cache/b", "tree/skip/c", "tree/skip/no"] {
        file(at.join(path), 1);
    }
    fs::write(at.join("tree/cache/CACHEDIR.TAG"), SIGNATURE).unwrap();
    let tags = ["--exclude-caches", "--exclude-if-present", "no"];
    let fathom = |line: &str, more: &[&str]| {
        run(fathom(line.split(' ').chain(more.iter().copied())).current_dir(at))
    };
    std::thread::sleep(std::time::Duration::from_millis(50));
    fathom("dump tree -o 0.tar --catalog c", &tags).exits(0);
    fathom("verify 0.tar --against .", &tags).exits(0);
    fathom("verify 0.tar", &tags).refused();
    let ran = fathom("verify 0.tar --against .", &[]).exits(1);
    assert!(
        ran.stderr.contains("tree/cache/b") && ran.stderr.contains("tree/skip/c"),
        "{ran}"
    );
    let value = fathom("changed tree --since c --json", &[]).exits(0).json();
    assert_eq!(
        value["result"]["entries"].as_array().map(Vec::len),
        Some(0),
        "{value}"
    );
    file(at.join("tree/cache/new"), 1);
    file(at.join("tree/new"), 1);
    let value = fathom("changed tree --since c --format paths", &[]).exits(0);
    let lines = value.lines();
    assert!(
        lines.contains(&"new") && !lines.contains(&"cache/new"),
        "{value}"
    );
    fathom("dump tree -o 1.tar --since c", &tags).exits(0);
    let listed = fathom("list 1.tar", &[]).exits(0);
    assert!(
        !listed
            .lines()
            .iter()
            .any(|line| line.ends_with("cache/new")),
        "{listed}"
    );
}

/// Patterns and tags that are not UTF-8, on the command line and in a file. A catalog records them
/// for the commands that read it.
#[test]
fn names_that_are_not_utf8_are_excluded() {
    let place = tempfile::tempdir().unwrap();
    let at = place.path();
    let odd = |path: &[u8]| at.join(crate::support::build::name(path));
    for path in [
        &b"tree/\xff.o"[..],
        b"tree/a/\xfe/b",
        b"tree/c/\xfd",
        b"tree/c/d",
        b"tree/e",
    ] {
        file(odd(path), 1);
    }
    fs::write(at.join("list"), b"a/\xfe\n").unwrap();
    let excludes = ["--exclude", "--exclude-from", "--exclude-if-present"].map(OsString::from);
    let values = [&b"\xff*"[..], b"list", b"\xfd"].map(|value| OsString::from_vec(value.to_vec()));
    let words = |command: &[&str]| {
        let words = command.iter().map(OsString::from);
        let pairs = excludes
            .iter()
            .zip(&values)
            .flat_map(|(option, value)| [option, value]);
        words.chain(pairs.cloned()).collect::<Vec<OsString>>()
    };
    let fathom_here = |words: Vec<OsString>| run(fathom(words).current_dir(at)).exits(0);
    fathom_here(words(&[
        "dump",
        "tree",
        "-o",
        "a.tar",
        "--catalog",
        "c.parquet",
    ]));
    let listed = fathom_here(args!["list", "a.tar", "--json"].to_vec()).json();
    let members = listed["result"]["members"].as_array().unwrap();
    let names: Vec<Vec<u8>> = members.iter().map(|member| exact(member, "path")).collect();
    let expected = [
        &b"tree"[..],
        b"tree/a",
        b"tree/c",
        b"tree/c/\xfd",
        b"tree/e",
    ];
    let names: Vec<&[u8]> = names
        .iter()
        .map(|name| name.strip_suffix(b"/").unwrap_or(name))
        .collect();
    assert_eq!(names, expected);
    fathom_here(words(&["verify", "a.tar", "--against", "."]));
    let changed = args!["changed", "tree", "--since", "c.parquet", "--json"];
    assert_eq!(
        fathom_here(changed.to_vec()).json()["result"]["unchanged"],
        true
    );
    let walk = [
        args!["walk", "tree", "--json", "--exclude"].to_vec(),
        vec![values[0].clone()],
    ];
    assert_eq!(fathom_here(walk.concat()).json()["result"]["entries"], 8);
}
