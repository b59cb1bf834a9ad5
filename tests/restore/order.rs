//! Tests of the ids in archives, by which chains are restored in the right order, or not at all.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::{TempDir, tempdir};

use crate::support::build::{chmod, dir, file};
use crate::support::restrict::fail_calls;
use crate::support::run::{Ran, args, fathom_path};
use crate::support::snapshot::{Snapshot, kept, same, snapshot};
use crate::support::tool::tool;
use crate::support::trees::Dice;
use crate::support::{Need, fathom, in_namespace, require, run};

/// A tree, and archives of it.
struct Chain {
    place: TempDir,
    /// The tree at each dump.
    trees: Vec<Snapshot>,
    archives: Vec<PathBuf>,
}

impl Chain {
    /// A full dump and increments, each of which adds, changes, renames and removes.
    fn new(suffix: &str, count: usize) -> Chain {
        let place = tempdir().unwrap();
        let mut chain = Chain {
            place,
            trees: Vec::new(),
            archives: Vec::new(),
        };
        let tree = dir(chain.at("tree"));
        for n in 0..count {
            if n > 0 {
                fs::rename(tree.join(format!("d{}", n - 1)), tree.join(format!("d{n}"))).unwrap();
                fs::remove_file(tree.join(format!("f{}", n - 1))).unwrap();
            }
            file(tree.join(format!("d{n}/in{n}")), 10);
            file(tree.join(format!("f{n}")), n);
            chain.dump(&format!("inc{n}{suffix}"), "c", n > 0);
        }
        chain
    }

    fn at(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Dumps the tree, since a catalog or in full, and replaces the catalog.
    fn dump(&mut self, archive: &str, catalog: &str, is_increment: bool) {
        let since = ["--since", catalog];
        let more = if is_increment { &since[..] } else { &[] };
        let words = [
            &["dump", "tree", "-q", "-o", archive, "--catalog", catalog],
            more,
        ]
        .concat();
        run(fathom(words).current_dir(self.place.path())).exits(0);
        self.archives.push(self.at(archive));
        self.trees.push(kept(&self.at("tree")));
    }

    fn restore(&self, archives: &[&Path], more: &[&str]) -> (Ran, PathBuf) {
        let to = tempfile::tempdir_in(self.place.path()).unwrap().keep();
        let mut command = fathom(args!["restore", "-C", &to]);
        (run(command.args(archives).args(more)), to)
    }

    /// Checks that some archives are refused before anything is touched.
    fn refused(&self, archives: &[&Path], words: &[&str]) {
        for more in [
            &[][..],
            &["--overwrite"],
            &["--dry-run"],
            &["--", "tree/d2"],
        ] {
            let (ran, to) = self.restore(archives, more);
            let ran = ran.refused();
            for word in words {
                assert!(ran.stderr.contains(word), "{word}: {ran}");
            }
            assert_eq!(fs::read_dir(to).unwrap().count(), 0, "{ran}");
        }
    }
}

const NOTE: &str = "in the order in which they were made";

/// The id of an archive, and that of its base.
fn ids(archive: &Path) -> (String, Option<String>) {
    let listed = run(&mut fathom(args!["list", archive, "--json"]))
        .exits(0)
        .json();
    let archives = listed["result"]["archives"].as_array().unwrap();
    assert_eq!(archives.len(), 1, "{listed}");
    let text = |value: &Value| value.as_str().map(str::to_owned);
    (
        text(&archives[0]["id"]).unwrap(),
        text(&archives[0]["base"]),
    )
}

/// Replaces an archive by one without ids, as older versions wrote them.
fn without_ids(archive: &Path) {
    let bytes = fs::read(archive).unwrap();
    assert!(bytes.starts_with(b"GlobalHead/archive"));
    fs::write(archive, &bytes[1024..]).unwrap();
}

#[test]
fn a_wrong_order_is_put_right() {
    for suffix in [".tar", ".tar.zst"] {
        let chain = Chain::new(suffix, 12);
        let right: Vec<&Path> = chain.archives.iter().map(PathBuf::as_path).collect();
        let mut orders = vec![right.clone()];
        // The order in which a shell expands a pattern.
        let mut sorted = right.clone();
        sorted.sort();
        assert!(sorted[2].ends_with(format!("inc10{suffix}")));
        orders.push(sorted);
        orders.push(right.iter().rev().copied().collect());
        let mut dice = Dice::new(7);
        for _ in 0..3 {
            let mut order = right.clone();
            (1..order.len()).for_each(|n| order.swap(n, dice.below(n + 1)));
            orders.push(order);
        }
        // An archive is given twice.
        let mut twice = right.clone();
        twice.insert(0, right[5]);
        orders.push(twice);
        for order in orders {
            let is_right = order == right;
            let (ran, to) = chain.restore(&order, &[]);
            let ran = ran.exits(0);
            let is_noted = ran.stderr.contains(NOTE) || ran.stderr.contains("is the same archive");
            assert_eq!(is_noted, !is_right, "{ran}");
            same(
                &chain.trees[11],
                &snapshot(&to.join("tree")),
                "the last tree",
            );
            let (dry, _) = chain.restore(&order, &["--dry-run"]);
            assert_eq!(
                dry.exits(0).stderr.contains(NOTE),
                ran.stderr.contains(NOTE)
            );
            // A PATH is traced through the renames in the right order.
            let (ran, to) = chain.restore(&order, &["--", "tree/d11/in0"]);
            ran.exits(0);
            assert!(to.join("tree/d11/in0").exists());
        }
    }
}

#[test]
fn a_missing_archive_is_named() {
    let chain = Chain::new(".tar", 5);
    let all: Vec<&Path> = chain.archives.iter().map(PathBuf::as_path).collect();
    for missing in 1..4 {
        let mut some = all.clone();
        some.remove(missing);
        let between = format!("inc{}.tar' and it", missing - 1);
        let after = format!("inc{}.tar'", missing + 1);
        chain.refused(&some, &["is missing", &between, &after]);
        some.reverse();
        chain.refused(&some, &["is missing", &between, &after]);
    }
    // The last archive may be missing.
    let (ran, to) = chain.restore(&all[..4], &[]);
    ran.exits(0);
    same(
        &chain.trees[3],
        &snapshot(&to.join("tree")),
        "without the last",
    );
    chain.refused(
        &[all[4], all[2], all[0]],
        &["is missing", "inc0.tar' and it"],
    );
    // With --overwrite, a restore may begin with an increment.
    let ran = chain.restore(&[all[2], all[1]], &[]).0.refused();
    assert!(
        ran.stderr
            .contains("inc1.tar': the archive that it is based on is missing"),
        "{ran}"
    );
    let (ran, _) = chain.restore(&[all[2], all[1]], &["--overwrite"]);
    let is_noted = ran.stderr.contains("the first archive is an increment");
    assert!(is_noted && ran.stderr.contains(NOTE), "{ran}");
    assert!(chain.restore(&[all[1]], &[]).0.code() < 2);
}

#[test]
fn archives_of_several_chains_are_refused() {
    let mut chain = Chain::new(".tar", 2);
    let at = |name: &str| chain.place.path().join(name);
    let (full, first, other) = (at("inc0.tar"), at("inc1.tar"), at("other.tar"));
    let again = at("again.tar");
    // Two increments have the same base, as after a dump that was killed.
    fs::copy(at("c"), at("then")).unwrap();
    file(at("tree/x"), 1);
    chain.dump("inc2.tar", "c", true);
    file(chain.at("tree/y"), 1);
    chain.dump("other.tar", "then", true);
    let second = chain.at("inc2.tar");
    let words = ["other.tar'", "inc2.tar'", "inc1.tar'", "only one of them"];
    chain.refused(&[&full, &first, &second, &other], &words);
    chain.refused(&[&second, &other, &full, &first], &["only one of them"]);
    chain.restore(&[&full, &first, &other], &[]).0.exits(0);
    // An additional full dump, and so a second chain.
    chain.dump("again.tar", "d", false);
    let words = ["again.tar'", "inc0.tar'", "another chain"];
    chain.refused(&[&full, &first, &again], &words);
    // Full dumps, and increments together with dumps of other trees, can be restored.
    chain.restore(&[&full, &again], &[]).0.exits(0);
    file(chain.at("beside/f"), 1);
    let words = ["dump", "beside", "-q", "-o", "beside.tar"];
    run(fathom(words).current_dir(chain.place.path())).exits(0);
    let beside = chain.at("beside.tar");
    let (ran, to) = chain.restore(&[&beside, &full, &first], &[]);
    assert!(!ran.exits(0).stderr.contains(NOTE));
    assert!(to.join("beside/f").exists() && to.join("tree/f1").exists());
}

/// The id of an archive depends on its contents, not on its file and compression.
#[test]
fn ids_are_those_of_the_dump() {
    let chain = Chain::new(".tar", 2);
    let place = chain.place.path();
    let (full, base) = ids(&chain.archives[0]);
    assert_eq!(base, None);
    let (first, base) = ids(&chain.archives[1]);
    assert_eq!(base.as_ref(), Some(&full));
    assert_ne!(first, full);
    let made = |out: &str, more: &[&str]| {
        let words = [&["dump", "tree", "-q", "-o", out], more].concat();
        run(fathom(words).current_dir(place)).exits(0);
        ids(&place.join(out))
    };
    let all = made("a.tar", &[]);
    for gather in ["percall", "combined", "batched", "raw"] {
        for (out, jobs) in [
            ("a.tar", "1"),
            ("a.tar.zst", "4"),
            ("a.tar.gz", "2"),
            ("a.tar.xz", "1"),
        ] {
            assert_eq!(
                made(out, &["--gather", gather, "-j", jobs]),
                all,
                "{gather} {out}"
            );
        }
        let next = made("b.tar", &["--gather", gather, "--since", "c"]);
        assert_eq!(
            next,
            (first.clone(), Some(first.clone())),
            "nothing has changed"
        );
    }
    let script = "\"$0\" dump tree -q -o - | cat >piped.tar";
    tool(
        Command::new("sh")
            .args(["-c", script])
            .arg(fathom_path())
            .current_dir(place),
    );
    assert_eq!(ids(&place.join("piped.tar")), all);
    assert_ne!(made("a.tar", &["--exclude", "in0"]), all);
    // These two selections differ only in dumpdirs.
    let some = |name: &str| made("b.tar", &["--since", "c", "--exclude", name]);
    assert_ne!(some("in0"), some("in1"));
    file(place.join("tree/d1/in1"), 11);
    assert_ne!(made("a.tar", &[]), all);
    let next = made("b.tar", &["--since", "c"]);
    assert_eq!(next.1, Some(first));
}

/// If an increment has no changes, the next increment can follow either it or its base, whichever
/// method found that nothing had changed.
#[test]
fn dumps_without_changes_can_be_omitted() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|_| {
        for gather in ["auto", "percall"] {
            let mut chain = Chain::new(".tar", 2);
            let words = [
                "dump",
                "tree",
                "-q",
                "-o",
                "idle.tar",
                "--since",
                "c",
                "--catalog",
                "c",
                "--gather",
                gather,
            ];
            run(fathom(words).current_dir(chain.place.path())).exits(0);
            file(chain.at("tree/x"), 1);
            chain.dump("inc2.tar", "c", true);
            let idle = chain.at("idle.tar");
            let made = <[PathBuf; 3]>::try_from(chain.archives.clone()).unwrap();
            let [zero, one, two] = &made;
            for some in [
                &[zero, one, two][..],
                &[zero, one, &idle, two],
                &[&idle, zero, two, one],
                &[zero, one, two, &idle, &idle],
            ] {
                let some: Vec<&Path> = some.iter().map(|path| path.as_path()).collect();
                let (ran, to) = chain.restore(&some, &[]);
                ran.exits(0);
                same(&chain.trees[2], &snapshot(&to.join("tree")), gather);
            }
            // Each increment contains SRC itself, so a change of its metadata gives a new id.
            let idle = [0o700, 0o750, 0o705].map(|mode| {
                let sources = chain.at("tree");
                let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
                fs::set_permissions(&sources, mode).unwrap();
                chain.dump(&format!("mode{}.tar", chain.trees.len()), "c", true);
                chain.archives.last().unwrap().clone()
            });
            let [a, b, c] = &idle;
            for order in [[a, b, c], [c, b, a], [b, c, a]] {
                let some = [&[zero, one, two][..], &order].concat();
                let some: Vec<&Path> = some.iter().map(|path| path.as_path()).collect();
                let (ran, to) = chain.restore(&some, &[]);
                ran.exits(0);
                same(&chain.trees[5], &snapshot(&to.join("tree")), gather);
            }
            file(chain.at("tree/y"), 1);
            chain.dump("inc4.tar", "c", true);
            let last = chain.at("inc4.tar");
            let some = [zero, one, two, c, &last, a, b].map(|path| path.as_path());
            let (ran, to) = chain.restore(&some, &[]);
            ran.exits(0);
            same(&chain.trees[6], &snapshot(&to.join("tree")), gather);
            let some = [zero, one, two, a, b, &last].map(|path| path.as_path());
            chain.restore(&some, &[]).0.refused();
        }
    });
}

/// Archives without ids are restored in the order in which they are given; archives with ids among
/// them are checked.
#[test]
fn archives_of_older_versions_are_restored_as_they_are_given() {
    let chain = Chain::new(".tar", 4);
    let all: Vec<&Path> = chain.archives.iter().map(PathBuf::as_path).collect();
    without_ids(all[0]);
    chain.restore(&all, &[]).0.exits(0);
    let (ran, to) = chain.restore(&[all[0], all[3], all[1], all[2]], &[]);
    assert!(ran.exits(0).stderr.contains(NOTE));
    same(&chain.trees[3], &snapshot(&to.join("tree")), "put right");
    chain.refused(
        &[all[0], all[1], all[3]],
        &["is missing", "inc1.tar' and it"],
    );
    // The position of an archive without an id is unknown.
    chain.refused(
        &[all[3], all[2], all[0], all[1]],
        &["inc3.tar'", "inc2.tar', which comes after"],
    );
    without_ids(all[1]);
    without_ids(all[2]);
    without_ids(all[3]);
    let (ran, to) = chain.restore(&all, &[]);
    ran.exits(0);
    same(&chain.trees[3], &snapshot(&to.join("tree")), "without ids");
}

/// A catalog of an older version, or of a walk, has no id of an archive.
#[test]
fn a_base_without_an_id_is_unknown() {
    let mut chain = Chain::new(".tar", 1);
    let walk = ["walk", "tree", "--catalog", "c", "-q"];
    run(fathom(walk).current_dir(chain.place.path())).exits(0);
    file(chain.at("tree/x"), 1);
    chain.dump("inc1.tar", "c", true);
    file(chain.at("tree/y"), 1);
    chain.dump("inc2.tar", "c", true);
    let [zero, one, two] = &chain.archives[..] else {
        panic!()
    };
    assert_eq!(ids(one).1.as_deref(), Some("unknown"));
    assert_eq!(ids(two).1, Some(ids(one).0));
    for order in [[zero, one, two], [two, one, zero]] {
        let order = order.map(PathBuf::as_path);
        let (ran, to) = chain.restore(&order, &[]);
        ran.exits(0);
        same(&chain.trees[2], &snapshot(&to.join("tree")), "a walk's");
    }
}

/// Standard input is checked before anything is touched, and a FIFO when its turn comes.
#[test]
fn streams_are_checked() {
    let chain = Chain::new(".tar", 3);
    let [zero, one, two] = &chain.archives[..] else {
        panic!()
    };
    let piped = |archives: &[&Path], input: &Path| {
        let to = tempfile::tempdir_in(chain.place.path()).unwrap().keep();
        let mut command = fathom(args!["restore", "-C", &to]);
        let input = fs::File::open(input).unwrap();
        let mut cat = Command::new("cat")
            .stdin(input)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        command.stdin(cat.stdout.take().unwrap());
        let ran = run(command.args(archives));
        cat.wait().unwrap();
        (ran, to)
    };
    let dash = Path::new("-");
    for (order, input) in [
        ([zero, one, dash], two),
        ([zero, dash, two], one),
        ([dash, one, two], zero),
    ] {
        let (ran, to) = piped(&order, input);
        ran.exits(0);
        same(&chain.trees[2], &snapshot(&to.join("tree")), "by a pipe");
    }
    let (ran, to) = piped(&[zero, dash], two);
    let ran = ran.refused();
    assert!(
        ran.stderr.contains("'-'") && ran.stderr.contains("is missing"),
        "{ran}"
    );
    assert_eq!(fs::read_dir(to).unwrap().count(), 0);
    let fifo = chain.at("fifo");
    tool(Command::new("mkfifo").arg(&fifo));
    let mut cat = Command::new("sh");
    let mut cat = cat
        .args(["-c", "cat \"$0\" >\"$1\""])
        .arg(two)
        .arg(&fifo)
        .spawn()
        .unwrap();
    let (ran, to) = chain.restore(&[zero, &fifo], &[]);
    cat.wait().unwrap();
    assert_eq!(ran.code(), 2, "{ran}");
    assert!(
        ran.stderr.contains("is missing") && ran.stderr.contains("so far remains"),
        "{ran}"
    );
    same(
        &chain.trees[0],
        &snapshot(&to.join("tree")),
        "the full dump",
    );
}

/// Other programs take no notice of the ids.
#[test]
fn other_programs_read_archives_with_ids() {
    if !require(&[Need::Program("tar"), Need::Program("bsdtar")]) {
        return;
    }
    let chain = Chain::new(".tar.zst", 3);
    for archive in &chain.archives {
        for words in [&["tar", "-I", "zstd", "-tvf"][..], &["bsdtar", "-tvf"]] {
            let ran = run(Command::new(words[0]).args(&words[1..]).arg(archive)).exits(0);
            assert!(ran.stderr.is_empty() && !ran.stdout.is_empty(), "{ran}");
        }
    }
    let to = dir(chain.at("by tar"));
    for archive in &chain.archives {
        let mut tar = Command::new("tar");
        tar.args(["-I", "zstd", "--listed-incremental=/dev/null", "-xpf"]);
        let ran = run(tar.arg(archive).arg("-C").arg(&to)).exits(0);
        assert!(ran.stderr.is_empty(), "{ran}");
    }
    same(&chain.trees[2], &kept(&to.join("tree")), "by GNU tar");
}

/// The tree as of a time is not restored into a non-empty directory, whether the restore needs one
/// archive or several.
#[test]
fn dumps_of_a_state_directory_are_restored_into_empty_directories() {
    let place = tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    dir(at("state"));
    for level in ["0", "1"] {
        file(at("tree/f"), 1);
        file(at("tree").join(level), 1);
        let archive = format!("{level}.tar");
        let words = [
            "dump", "tree", "-q", "-o", &archive, "--level", level, "--state", "state",
        ];
        run(fathom(words).current_dir(place.path())).exits(0);
        let to = dir(at("to").join(level));
        file(to.join("beside"), 1);
        let restore = |more: &[&str]| {
            let words = args!["restore", "--state", "state", "-C", &to];
            run(fathom(words).args(more).current_dir(place.path()))
        };
        restore(&[]).exits(0);
        file(to.join("tree/own"), 1);
        for more in [&[][..], &["--dry-run"], &["tree"], &["--", "tree"]] {
            let ran = restore(more).exits(2);
            assert!(
                ran.stderr.contains("'tree' exists and is not empty"),
                "{ran}"
            );
        }
        if level == "0" {
            // With its first component stripped, the tree would be mixed with the contents of DIR
            // itself.
            let ran = restore(&["--strip-components", "1"]).exits(2);
            assert!(
                ran.stderr
                    .contains("the target directory exists and is not empty"),
                "{ran}"
            );
            assert!(ran.stderr.contains("--overwrite -n shows first"), "{ran}");
        }
        // Existing files are replaced if a single file is selected, with --overwrite, or if the
        // archive is given by name.
        restore(&["tree/f"]).exits(0);
        restore(&["--overwrite"]).exits(0);
        assert!(to.join("beside").exists());
        assert_eq!(to.join("tree/own").exists(), level == "0");
    }
    let to = at("to/0");
    let words = args!["restore", at("0.tar"), "-C", &to];
    run(&mut fathom(words)).exits(0);
}

/// Existing entries that no archive has, or that an increment has removed, are left as they are.
#[test]
fn existing_entries_that_the_dump_lacks_are_not_removed() {
    let place = tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    dir(at("state"));
    file(at("tree/f"), 1);
    file(at("tree/early"), 1);
    for level in ["0", "1"] {
        let archive = format!("{level}.tar");
        let words = [
            "dump", "tree", "-q", "-o", &archive, "--level", level, "--state", "state",
        ];
        run(fathom(words).current_dir(place.path())).exits(0);
        if level == "0" {
            fs::remove_file(at("tree/early")).unwrap();
            file(at("tree/late"), 1);
        }
    }
    let to = at("to");
    let restore = |how: &[&str], paths: &[&str]| {
        let mut command = fathom(args!["restore", "-C", &to]);
        run(command
            .args(how)
            .arg("--")
            .args(paths)
            .current_dir(place.path()))
    };
    let own = ["early", "own", "empty"].map(|name| format!("tree/{name}"));
    let own: Vec<&str> = own.iter().map(|name| &name[..]).collect();
    let is_left = |ran: &Ran| {
        assert_eq!(ran.stderr.matches("left as it is").count(), 3, "{ran}");
        for name in ["tree/early", "tree/own"] {
            assert_eq!(
                fs::metadata(to.join(name)).unwrap().len(),
                9,
                "{name}: {ran}"
            );
        }
        assert!(to.join("tree/empty").exists(), "{ran}");
    };
    for how in [&["--state", "state"][..], &["0.tar", "1.tar"]] {
        let _ = fs::remove_dir_all(&to);
        file(to.join("tree/early"), 9);
        file(to.join("tree/own"), 9);
        dir(to.join("tree/empty"));
        for more in [&["--dry-run"][..], &[]] {
            let how = [how, more].concat();
            is_left(&restore(&how, &[&own[..], &["tree/f"]].concat()).exits(1));
            assert_eq!(to.join("tree/f").exists(), more.is_empty());
        }
        // A replaced file is no removed one.
        file(to.join("tree/late"), 9);
        restore(how, &["tree/late"]).exits(0);
        assert_eq!(fs::metadata(to.join("tree/late")).unwrap().len(), 1);
        let ran = restore(how, &["tree/e*"]).exits(2);
        assert!(
            ran.stderr.contains("'tree' exists and is not empty"),
            "{ran}"
        );
        restore(&[how, &["--overwrite"]].concat(), &["tree/own"]).exits(1);
        assert!(!to.join("tree/own").exists());
    }
    // A pipe cannot be read before the restore.
    file(to.join("tree/own"), 9);
    let mut command = fathom(args!["restore", "0.tar", "-", "-C", &to, "--", "tree/own"]);
    let archive = fs::File::open(at("1.tar")).unwrap();
    let mut cat = Command::new("cat");
    let mut cat = cat.stdin(archive).stdout(Stdio::piped()).spawn().unwrap();
    let ran = run(command
        .current_dir(place.path())
        .stdin(cat.stdout.take().unwrap()));
    cat.wait().unwrap();
    assert!(ran.exits(1).stderr.contains("left as it is"));
    assert!(to.join("tree/own").exists());
}

/// A PATH whose wildcards match only files is restored beside existing entries, unless an increment
/// would remove an entry that the wildcards match.
#[test]
fn wildcards_for_files_do_not_need_an_empty_directory() {
    let place = tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    dir(at("state"));
    file(at("tree/sub/g"), 1);
    for level in ["0", "1"] {
        file(at("tree/f.log"), 1);
        file(at("tree").join(format!("{level}.log")), 1);
        let archive = format!("{level}.tar");
        let words = [
            "dump", "tree", "-q", "-o", &archive, "--level", level, "--state", "state",
        ];
        run(fathom(words).current_dir(place.path())).exits(0);
        let to = dir(at("to").join(level));
        let restore = |path: &str| {
            let words = args!["restore", "--state", "state", "-C", &to, "--", path];
            run(fathom(words).current_dir(place.path()))
        };
        file(to.join("tree/own"), 1);
        file(to.join("tree/f.log"), 9);
        restore("tree/*.log").exits(0);
        assert!(to.join("tree/own").exists() && to.join("tree/0.log").exists());
        assert_eq!(fs::metadata(to.join("tree/f.log")).unwrap().len(), 1);
        file(to.join("tree/sub/own"), 1);
        let ran = restore("tree/s*").exits(2);
        assert!(
            ran.stderr.contains("'tree/sub' exists and is not empty"),
            "{ran}"
        );
        file(to.join("tree/own.log"), 1);
        let ran = restore("tree/*.log").exits(if level == "0" { 0 } else { 2 });
        assert_eq!(
            ran.stderr.contains("'tree' exists and is not empty"),
            level == "1",
            "{ran}"
        );
        assert!(to.join("tree/own.log").exists());
    }
}

/// The id does not include files that could not be read: an archive and its complete repetition can
/// both be restored.
#[test]
fn a_repetition_that_could_read_more_is_restored() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|base| {
        let tree = dir(base.join("s"));
        file(tree.join("a"), 10);
        file(tree.join("x"), 20);
        let dump = |archive: &str, calls: &[u32]| {
            let mut command = fathom(["dump", "s", "-q", "-o", archive]);
            if !calls.is_empty() {
                // Failed reads of extended attributes do not matter here; failed reads of files do.
                fail_calls(&mut command, calls, libc::EIO);
            }
            run(command.current_dir(base))
        };
        let reads = [libc::SYS_pread64 as u32, libc::SYS_read as u32];
        dump("1.tar", &reads);
        dump("2.tar", &[]).exits(0);
        if base.join("1.tar").exists() {
            let out = dir(base.join("out"));
            let words = ["restore", "-q", "1.tar", "2.tar", "-C", "out"];
            run(fathom(words).current_dir(base)).exits(0);
            same(&kept(&tree), &snapshot(&out.join("s")), "both");
        }
    });
}

/// If the metadata of a SRC changes, the id changes; with several SRCs, that applies to each.
#[test]
fn changes_of_each_source_have_an_order() {
    let place = tempdir().unwrap();
    let at = place.path();
    for tree in ["p", "q"] {
        file(at.join(tree).join("f"), 1);
    }
    let fathom = |line: &str| run(fathom(line.split(' ')).current_dir(at)).exits(0);
    fathom("dump p q -q -o 0.tar --catalog c");
    for (archive, mode) in [("inc2.tar", 0o700), ("inc10.tar", 0o777)] {
        chmod(at.join("q"), mode);
        fathom(&format!("dump p q -q -o {archive} --since c --catalog c"));
    }
    dir(at.join("out"));
    fathom("restore -q 0.tar inc10.tar inc2.tar -C out");
    same(
        &kept(&at.join("q")),
        &snapshot(&at.join("out/q")),
        "in order",
    );
}
