//! Tests of additional hard links that are restored without the first one: they get the contents
//! that the archive stores for the first name.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::{TempDir, tempdir};

use crate::support::build::{chmod, dir, file};
use crate::support::pack::{end, pack, plain, push};
use crate::support::restrict::fathom_as_nobody;
use crate::support::run::{Ran, args};
use crate::support::snapshot::{kept, same};
use crate::support::tool::tool;
use crate::support::{Need, fathom, in_namespace, require, run};
use ondisk::pax::{Member, MemberKind};

struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, words: &[&str]) -> Ran {
        run(fathom(words).current_dir(self.0.path()))
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap()
    }

    fn inode(&self, name: &str) -> u64 {
        self.at(name).symlink_metadata().unwrap().ino()
    }
}

/// At the first name, there is a different file now.
#[test]
fn a_further_name_is_not_linked_to_a_file_that_was_there() {
    for archive in ["h.tar", "h.tar.zst", "h.tar.gz"] {
        for size in [4, 100_000, 3 << 20] {
            let place = Place::new();
            let good = "good".repeat(size / 4);
            fs::write(dir(place.at("s/deep")).join("../a"), &good).unwrap();
            for name in ["b", "c", "deep/d"] {
                fs::hard_link(place.at("s/a"), place.at("s").join(name)).unwrap();
            }
            file(place.at("s/other"), 10);
            place.run(&["dump", "s", "-q", "-o", archive]).exits(0);
            // verify compares the link with the current file, which differs.
            fs::write(place.at("s/a"), "BAD").unwrap();
            let verify = ["verify", archive, "--against", ".", "--", "s/b"];
            let ran = place.run(&verify).exits(1);
            assert!(ran.stderr.contains("'s/b': size differs"), "{ran}");
            let restore = ["restore", archive, "--json", "--", "s/b", "s/deep"];
            let dry = place
                .run(&[&restore[..2], &["-n"], &restore[2..]].concat())
                .exits(0)
                .json();
            let ran = place.run(&restore).exits(0).json();
            for count in ["files", "links", "directories", "bytes", "skipped"] {
                assert_eq!(dry["result"][count], ran["result"][count], "{count}");
            }
            assert_eq!(
                (&ran["result"]["files"], &ran["result"]["links"]),
                (&1.into(), &1.into())
            );
            assert_eq!(place.read("s/a"), "BAD");
            assert_eq!(place.read("s/b"), good);
            assert_eq!(place.inode("s/b"), place.inode("s/deep/d"));
            assert_eq!(place.inode("s/c"), place.inode("s/a"));
            place
                .run(&["verify", archive, "--against", ".", "--", "s/b", "s/deep"])
                .exits(0);
            place.run(&["verify", archive, "--against", "."]).exits(1);
            let ran = place
                .run(&["verify", archive, "--against", ".", "--", "s/c"])
                .exits(1);
            assert!(ran.stderr.contains("s/c"), "{ran}");
            // Restore into an empty directory, and only one name.
            dir(place.at("new"));
            place
                .run(&["restore", archive, "-C", "new", "--", "s/deep/d"])
                .exits(0);
            assert_eq!(place.read("new/s/deep/d"), good);
            assert!(!place.at("new/s/a").exists());
            // After a restore of all names, they are hard links to one file.
            place.run(&["restore", archive]).exits(0);
            let all = ["s/a", "s/b", "s/c", "s/deep/d"].map(|name| place.inode(name));
            assert!(all.iter().all(|inode| *inode == all[0]) && place.read("s/c") == good);
        }
    }
}

/// Additional hard links to files of every type.
#[test]
fn further_names_of_all_kinds_of_files() {
    if !require(&[Need::Root]) {
        return;
    }
    let place = Place::new();
    let tree = dir(place.at("s/a"));
    let sparse = fs::File::create(tree.join("sparse")).unwrap();
    sparse.set_len(5 << 20).unwrap();
    sparse.write_all_at(b"data", 1 << 20).unwrap();
    symlink("nowhere", tree.join("symlink")).unwrap();
    tool(Command::new("mkfifo").arg(tree.join("fifo")));
    tool(
        Command::new("mknod")
            .arg(tree.join("device"))
            .args(["c", "1", "3"]),
    );
    file(tree.join("empty"), 0);
    let others = dir(place.at("s/b"));
    for entry in fs::read_dir(&tree).unwrap() {
        let name = entry.unwrap().file_name();
        fs::hard_link(tree.join(&name), others.join(&name)).unwrap();
    }
    place.run(&["dump", "s", "-q", "-o", "h.tar"]).exits(0);
    for entry in fs::read_dir(&tree).unwrap() {
        let path = entry.unwrap().path();
        fs::remove_file(&path).unwrap();
        fs::write(path, "BAD").unwrap();
    }
    let before = kept(&tree);
    dir(place.at("to"));
    fs::rename(place.at("s"), place.at("to/s")).unwrap();
    let kept_of = |name: &str| kept(&place.at(name));
    place.run(&["restore", "h.tar", "-C", "to", "s/b"]).exits(0);
    same(&before, &kept_of("to/s/a"), "what was there");
    place
        .run(&["verify", "h.tar", "--against", "to", "--", "s/b"])
        .exits(0);
    dir(place.at("whole"));
    place.run(&["restore", "h.tar", "-C", "whole"]).exits(0);
    same(
        &kept_of("whole/s/b"),
        &kept_of("to/s/b"),
        "the further names",
    );
}

/// The contents are in an earlier archive of the chain, in a directory that was renamed since.
#[test]
fn contents_come_from_earlier_archives() {
    let place = Place::new();
    fs::write(dir(place.at("s/d")).join("a"), "good").unwrap();
    file(place.at("s/d/other"), 10);
    let dump = |archive: &str, more: &[&str]| {
        let words = [&["dump", "s", "-q", "-o", archive, "--catalog", "c"], more].concat();
        place.run(&words).exits(0);
    };
    dump("0.tar", &[]);
    fs::rename(place.at("s/d"), place.at("s/e")).unwrap();
    dump("1.tar", &["--since", "c"]);
    fs::hard_link(place.at("s/e/a"), place.at("s/b")).unwrap();
    dump("2.tar", &["--since", "c"]);
    fs::remove_file(place.at("s/b")).unwrap();
    for name in ["c", "x"] {
        fs::hard_link(place.at("s/e/a"), place.at("s").join(name)).unwrap();
    }
    dump("3.tar", &["--since", "c"]);
    let restored = |archives: &[&str], names: &[&str], code: i32| {
        let to = tempfile::tempdir_in(place.0.path()).unwrap().keep();
        fs::write(dir(to.join("s")).join("other"), "").unwrap();
        let to_name = to.to_str().unwrap();
        let words = ["restore", "--overwrite", "-C", to_name];
        let words = [&words[..], archives, &["--"], names].concat();
        place.run(&words).exits(code);
        to
    };
    let to = restored(&["0.tar", "1.tar", "2.tar"], &["s/b"], 0);
    assert_eq!(fs::read_to_string(to.join("s/b")).unwrap(), "good");
    let to = restored(&["0.tar", "1.tar", "2.tar", "3.tar"], &["s/c", "s/x"], 0);
    assert_eq!(fs::read_to_string(to.join("s/c")).unwrap(), "good");
    let inode = |name: &str| fs::metadata(to.join(name)).unwrap().ino();
    assert_eq!(inode("s/c"), inode("s/x"));
    // The contents change under both names.
    fs::write(place.at("s/c"), "better").unwrap();
    dump("4.tar", &["--since", "c"]);
    let all = ["0.tar", "1.tar", "2.tar", "3.tar", "4.tar"];
    let to = restored(&all, &["s/c", "s/x"], 0);
    assert_eq!(fs::read_to_string(to.join("s/x")).unwrap(), "better");
    // The name with the restored contents is removed, and the file gets a new name.
    fs::rename(place.at("s/c"), place.at("s/y")).unwrap();
    fs::remove_file(place.at("s/x")).unwrap();
    dump("5.tar", &["--since", "c"]);
    let all = [&all[..], &["5.tar"]].concat();
    let to = restored(&all, &["s/[cxy]"], 0);
    assert_eq!(fs::read_to_string(to.join("s/y")).unwrap(), "better");
    assert!(!to.join("s/c").exists() && !to.join("s/x").exists());
}

/// A handmade increment: it has a new hard link to an unchanged file, whose directory it renames.
#[test]
fn contents_come_from_an_archive_before_a_rename() {
    let place = Place::new();
    let directory = |path: &str, list: Option<&[u8]>| Member {
        kind: MemberKind::Directory,
        mode: 0o755,
        dumpdir: list.map(<[u8]>::to_vec),
        ..plain(path, b"")
    };
    let link = |path: &str, to: &str| Member {
        kind: MemberKind::Link,
        link: to.as_bytes().to_vec(),
        ..plain(path, b"")
    };
    let data = b"good";
    let full = [
        (directory("s/", None), &b""[..]),
        (directory("s/d/", None), b""),
        (plain("s/d/a", data), data),
    ];
    let list: &[u8] = b"Rs/d\0Ts/e\0Yb\0Yc\0De\0\0";
    let next = [
        (directory("s/", Some(list)), &b""[..]),
        (link("s/b", "s/e/a"), b""),
        (link("s/c", "s/e/a"), b""),
    ];
    fs::write(place.at("0.tar"), pack(&full)).unwrap();
    fs::write(place.at("1.tar"), pack(&next)).unwrap();
    let both = ["restore", "0.tar", "1.tar", "--json"];
    for names in [&["s/b", "s/c"][..], &["s/[bc]"]] {
        for more in [&["--dry-run"][..], &[]] {
            let words = [&both[..], more, &["-C", "to", "--"], names].concat();
            fs::write(dir(place.at("to/s/e")).join("a"), "BAD").unwrap();
            let ran = place
                .run(&[&["restore", "--overwrite"], &words[1..]].concat())
                .exits(0)
                .json();
            let counts = [&ran["result"]["files"], &ran["result"]["links"]];
            assert_eq!(counts, [1, 1], "{ran}");
        }
        assert_eq!(place.read("to/s/b"), "good");
        assert_eq!(place.inode("to/s/b"), place.inode("to/s/c"));
        assert_eq!(place.read("to/s/e/a"), "BAD");
        fs::remove_dir_all(place.at("to")).unwrap();
    }
    // Without the archive that has the contents, the existing file cannot be trusted.
    fs::write(dir(place.at("to/s/e")).join("a"), "BAD").unwrap();
    let ran = place.run(&["restore", "1.tar", "-C", "to"]).exits(1);
    assert!(
        ran.stderr
            .contains("'s/b': not restored: hard link to 's/e/a'"),
        "{ran}"
    );
    assert!(!place.at("to/s/b").exists());
    assert_eq!(fs::metadata(place.at("to/s/e/a")).unwrap().nlink(), 1);
    // With both archives and without PATHs, the names are hard links.
    dir(place.at("whole"));
    place
        .run(&["restore", "0.tar", "1.tar", "-C", "whole"])
        .exits(0);
    assert_eq!(place.inode("whole/s/b"), place.inode("whole/s/e/a"));
}

/// Standard input cannot be read twice, so the contents for an additional hard link are
/// unavailable.
#[test]
fn further_names_from_standard_input_are_reported() {
    let place = Place::new();
    fs::write(dir(place.at("s")).join("a"), "good").unwrap();
    fs::hard_link(place.at("s/a"), place.at("s/b")).unwrap();
    place.run(&["dump", "s", "-q", "-o", "h.tar"]).exits(0);
    fs::write(place.at("s/a"), "BAD").unwrap();
    fs::remove_file(place.at("s/b")).unwrap();
    for (command, more) in [
        ("restore", &[][..]),
        ("verify", &[]),
        ("verify", &["--against", "."]),
    ] {
        let input = fs::File::open(place.at("h.tar")).unwrap();
        let mut cat = Command::new("cat")
            .stdin(input)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let words = [&[command, "-"], more, &["--", "s/b"]].concat();
        let mut command = fathom(words);
        let ran = run(command
            .current_dir(place.0.path())
            .stdin(cat.stdout.take().unwrap()));
        cat.wait().unwrap();
        let ran = ran.exits(1);
        assert!(ran.stderr.contains("hard link to 's/a'"), "{ran}");
    }
    assert!(!place.at("s/b").exists());
}

/// A link member whose target is not in the archive, or comes only after it.
#[test]
fn a_link_without_a_file_before_it_is_not_made() {
    let place = Place::new();
    let link = Member {
        kind: MemberKind::Link,
        link: b"a".to_vec(),
        ..plain("b", b"")
    };
    let data = b"good";
    let behind = pack(&[(link.clone(), b""), (plain("a", data), data)]);
    let mut alone = Vec::new();
    push(&mut alone, &link, b"");
    end(&mut alone);
    for archive in [alone, behind] {
        fs::write(place.at("x.tar"), archive).unwrap();
        let _ = fs::remove_file(place.at("a"));
        fs::write(place.at("a"), "BAD").unwrap();
        for paths in [&[][..], &["--", "b"]] {
            let ran = place.run(&[&["restore", "x.tar"], paths].concat()).exits(1);
            assert!(
                ran.stderr.contains("'b': not restored: hard link to 'a'"),
                "{ran}"
            );
            assert!(!place.at("b").exists(), "{ran}");
        }
    }
}

/// If the first name cannot be restored, the existing file at that name must not get hard links.
#[test]
fn a_link_to_a_file_that_could_not_be_replaced_is_not_made() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|ground| {
        chmod(ground, 0o755);
        let tree = dir(ground.join("tree"));
        fs::write(dir(tree.join("a")).join("f"), "good").unwrap();
        fs::hard_link(tree.join("a/f"), tree.join("a/g")).unwrap();
        fs::hard_link(tree.join("a/f"), dir(tree.join("b")).join("f")).unwrap();
        let words = args!["dump", "tree", "-q", "-o", "h.tar", "--mode", "644"];
        run(fathom(words).current_dir(ground)).exits(0);
        for jobs in ["-j1", "-j4"] {
            let to = dir(ground.join(jobs));
            let bad = dir(to.join("tree/a")).join("f");
            fs::write(&bad, "BAD").unwrap();
            dir(to.join("tree/b"));
            let own = |path: &Path| chown(path, Some(1000), Some(1000)).unwrap();
            own(&to);
            ["tree", "tree/b", "tree/a/f"]
                .iter()
                .for_each(|name| own(&to.join(name)));
            let restore = args!["restore", ground.join("h.tar"), "-C", &to, jobs];
            let ran = run(&mut fathom_as_nobody(ground, restore)).exits(1);
            assert!(
                ran.stderr
                    .contains("hard link to 'tree/a/f', which was not restored"),
                "{ran}"
            );
            assert!(!to.join("tree/b/f").exists(), "{ran}");
            assert_eq!(fs::metadata(&bad).unwrap().nlink(), 1, "{ran}");
        }
    });
}

/// A later member with the same name replaces an additional hard link.
#[test]
fn a_later_member_replaces_a_further_name() {
    let place = Place::new();
    fs::write(dir(place.at("s")).join("a"), "one").unwrap();
    fs::hard_link(place.at("s/a"), place.at("s/b")).unwrap();
    let tar = |line: &str| {
        tool(
            Command::new("tar")
                .args(line.split(' '))
                .current_dir(place.at(".")),
        )
    };
    tar("cf x.tar s/a s/b");
    fs::remove_file(place.at("s/b")).unwrap();
    fs::write(place.at("s/b"), "two").unwrap();
    tar("rf x.tar s/b");
    dir(place.at("out"));
    place
        .run(&["restore", "-q", "x.tar", "-C", "out", "--", "s/b"])
        .exits(0);
    assert_eq!(place.read("out/s/b"), "two");
}
