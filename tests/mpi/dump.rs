//! Tests of `fathom dump` by the ranks of an MPI job: all parts together restore the tree.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::walk::{names, refused};
use super::{NEEDS, launcher, mpirun, ranks, run_job};
use crate::support::build::{bush, dir, file, name, odd_names, tmpfs};
use crate::support::hold::{Hold, Stop};
use crate::support::run::{Ran, args};
use crate::support::snapshot::{Snapshot, kept, same, snapshot};
use crate::support::tool::tool;
use crate::support::trees::grow;
use crate::support::{Need, fathom, in_namespace, require, run, schema};

fn dump(many: usize, tree: &Path, out: &Path, more: &[&str]) -> Ran {
    let words = args!["dump", tree.file_name().unwrap(), "-o", out];
    let words = words.into_iter().chain(more.iter().map(OsString::from));
    let mut command = launcher();
    command.args(ranks(many, words));
    run_job(command.current_dir(tree.parent().unwrap()))
}

/// A tree with odd names, extended attributes, sparse files, a mount, and hard links between directories.
fn plant(top: &Path) {
    grow(&dir(top.join("odd")), 31, 250);
    bush(&dir(top.join("wide")), 30, 9);
    bush(&tmpfs(top.join("wide/mount")), 4, 9);
    for nth in 0..60 {
        let (from, to) = (nth % 7, nth % 11);
        let file = dir(top.join(format!("links/from{from}"))).join("file");
        if !file.exists() {
            fs::write(&file, format!("{nth}")).unwrap();
        }
        let other = dir(top.join(format!("links/to{to}/deeper"))).join(format!("name {nth}\n"));
        fs::hard_link(&file, other).unwrap();
    }
    let sparse = fs::File::create(top.join("wide/d3/sparse")).unwrap();
    sparse.write_all_at(b"data", 3 << 20).unwrap();
    for odd in odd_names() {
        fs::write(dir(top.join("names").join(name(&odd))).join("x"), "x").unwrap();
    }
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o555);
    fs::set_permissions(top.join("wide/d5"), mode).unwrap();
}

fn restored(out: &Path, to: PathBuf) -> Snapshot {
    let restore = args!["restore", out, "-C", dir(&to), "-q"];
    run(&mut fathom(restore)).exits(0);
    snapshot(&to.join("tree"))
}

fn by_gnu_tar(archives: &[PathBuf], to: PathBuf) -> Snapshot {
    dir(&to);
    for archive in archives {
        let mut tar = Command::new("tar");
        tar.args([
            "--warning=no-timestamp",
            "--warning=no-unknown-keyword",
            "--xattrs",
            "--xattrs-include=*",
            "--acls",
        ]);
        tar.args(["-p", "--same-owner", "--numeric-owner", "-xf"]);
        let out = tar.arg(archive).arg("-C").arg(&to).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(
            out.status.success() && said.is_empty(),
            "{archive:?}: {said}"
        );
    }
    snapshot(&to.join("tree"))
}

/// The names of members that are not directories.
fn members(out: &Path) -> Vec<String> {
    names_of(&[out.as_os_str(), "--json".as_ref()])
}

/// The names of members at or below a path that are not directories.
fn members_below(out: &Path, path: &str) -> Vec<String> {
    names_of(&[out.as_os_str(), path.as_ref(), "--json".as_ref()])
}

fn names_of(list: &[&OsStr]) -> Vec<String> {
    let list = ["list".as_ref()].into_iter().chain(list.iter().copied());
    let listed = run(&mut fathom(list)).exits(0).json();
    let members = listed["result"]["members"].as_array().unwrap().iter();
    let others = members.filter(|it| it["type"] != "directory");
    let name = |it: &Value| format!("{} {}", it["path"], it["path_b64"]);
    others.map(name).collect()
}

#[test]
fn parts_restore_the_tree() {
    if !require(&[NEEDS[0], Need::Root, Need::Program("tar")]) {
        return;
    }
    in_namespace(|base| {
        let base = tmpfs(base.join("disk"));
        let tree = dir(base.join("tree"));
        plant(&tree);
        let expected = kept(&tree);
        let walked = run(&mut fathom(args!["walk", &tree, "--json"]))
            .exits(0)
            .json();
        for (many, compress) in [(3, "zstd"), (2, "none")] {
            let (out, catalog) = (
                base.join(format!("out{many}")),
                base.join(format!("catalog{many}")),
            );
            let into = [
                "--compress",
                compress,
                "--catalog",
                catalog.to_str().unwrap(),
                "--json",
            ];
            let ran = dump(many, &tree, &out, &into);
            assert_eq!(ran.code(), 0, "{ran}");
            let value: Value =
                serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("{ran}"));
            schema::check(&value);
            assert!(value["warnings"].as_array().unwrap().is_empty(), "{ran}");
            // List a PATH by the index of a part, without reading the whole part.
            let all = members(&out);
            for path in ["tree/links", "tree/wide/d3/sparse", "tree/wide/mount"] {
                let found = members_below(&out, path);
                let below = |name: &&String| name.starts_with(&format!("\"{path}"));
                assert!(!found.is_empty());
                assert_eq!(found, all.iter().filter(below).cloned().collect::<Vec<_>>());
            }
            let result = &value["result"];
            assert_eq!(result["entries"], walked["result"]["entries"]);
            let each = result["ranks"].as_array().unwrap().iter();
            let each: Vec<u64> = each.map(|it| it["entries"].as_u64().unwrap()).collect();
            assert_eq!(
                (each.len(), each.iter().sum::<u64>()),
                (many, result["entries"].as_u64().unwrap())
            );
            let suffix = if compress == "none" { "" } else { ".zst" };
            let part = |rank| format!("part-{rank}-of-{many}.tar{suffix}");
            assert_eq!(names(&out), (0..many).map(part).collect::<Vec<_>>());
            // Each entry is in one part, and so is each row of the catalog.
            let all = members(&out);
            assert_eq!(all.len(), all.iter().collect::<BTreeSet<_>>().len());
            let queried = run(&mut fathom(args!["query", &catalog, "--json"]))
                .exits(0)
                .json();
            for field in ["entries", "bytes", "files", "directories"] {
                assert_eq!(queried["result"][field], walked["result"][field], "{field}");
            }
            let changed = args!["changed", &tree, "--since", &catalog, "--format", "paths0"];
            let ran = run(&mut fathom(changed)).exits(0);
            assert!(ran.stdout.is_empty(), "{ran}");
            let to = base.join("restored");
            same(&expected, &restored(&out, to.clone()), "fathom restore");
            // Restore with several ranks, also into existing directories.
            for ranks in [2, 5].into_iter().filter(|_| many == 3) {
                let words = args!["restore", &out, "-C", &to, "--json"];
                let ran = mpirun(ranks, words).exits(0);
                let value: Value = serde_json::from_slice(&ran.stdout).unwrap();
                schema::check(&value);
                let each = &value["result"]["ranks"];
                assert_eq!(each.as_array().unwrap().len(), ranks, "{ran}");
                same(&expected, &snapshot(&to.join("tree")), "ranks restore");
                if ranks == 2 {
                    tool(Command::new("rm").arg("-rf").arg(&to));
                    dir(&to);
                }
            }
            // The times of directories are those in the parts, and not those of the restore.
            same(
                &expected,
                &restored(&out, to.clone()),
                "fathom restore, again",
            );
            tool(Command::new("rm").arg("-rf").arg(&to));
            let verify = args!["verify", &out, "--against", &base];
            run(&mut fathom(verify)).exits(0);
            if compress == "none" {
                let mut parts: Vec<_> = (0..many).map(|rank| out.join(part(rank))).collect();
                for order in ["forwards", "backwards"] {
                    same(&expected, &by_gnu_tar(&parts, to.clone()), order);
                    tool(Command::new("rm").arg("-rf").arg(&to));
                    parts.reverse();
                }
            }
        }
        // A directory with parts of a different run, or with a missing part.
        let (out, other) = (base.join("out3"), base.join("out2"));
        for many in [1, 3] {
            let ran = dump(many, &tree, &out, &[]);
            refused(&ran, "part-0-of-3.tar.zst of another run");
        }
        let moved = base.join("moved");
        fs::rename(out.join("part-1-of-3.tar.zst"), &moved).unwrap();
        for command in ["restore", "list", "verify"] {
            let ran = run(&mut fathom(args![command, &out])).refused();
            assert!(
                ran.stderr.contains("1 part of 3 missing: part-1-of-3"),
                "{ran}"
            );
        }
        fs::rename(other.join("part-1-of-2.tar"), out.join("part-1-of-3.tar")).unwrap();
        let ran = run(&mut fathom(args!["list", &out])).refused();
        assert!(ran.stderr.contains("not a part of the same run"), "{ran}");
        let ran = run(&mut fathom(args!["list", &tree])).refused();
        assert!(ran.stderr.contains("no file in it is named part-"), "{ran}");
    });
}

/// Plans and estimates are printed once, by rank 0.
#[test]
fn plans_are_printed_once() {
    if !require(&NEEDS) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let (tree, out) = (dir(scratch.path().join("tree")), scratch.path().join("out"));
    bush(&tree, 3, 3);
    dump(2, &tree, &out, &[]).exits(0);
    let to = dir(scratch.path().join("to"));
    for words in [
        args!["restore", &out, "-C", &to, "--dry-run"].to_vec(),
        args!["dump", &tree, "--dry-run"].to_vec(),
        args!["dump", &tree, "--explain"].to_vec(),
    ] {
        let alone = run(&mut fathom(words.clone())).exits(0);
        let ran = mpirun(2, words).exits(0);
        // The output of mpirun may be a terminal, for which tables are wrapped and colored.
        let shown = |ran: &Ran| String::from_utf8_lossy(&ran.stdout).into_owned();
        let first = shown(&alone).lines().next().unwrap().to_owned();
        let count = |ran| shown(ran).matches(&first).count();
        assert_eq!(count(&ran), count(&alone), "{ran} {alone}");
    }
    assert_eq!(names(&to), Vec::<String>::new());
}

/// The ids of archives and of their bases.
fn ids(archives: &Path) -> Vec<(u128, Option<u128>)> {
    let listed = run(&mut fathom(args!["list", archives, "--json"]))
        .exits(0)
        .json();
    let number = |value: &Value| u128::from_str_radix(value.as_str()?, 16).ok();
    let archives = listed["result"]["archives"].as_array().unwrap().iter();
    archives
        .map(|archive| (number(&archive["id"]).unwrap(), number(&archive["base"])))
        .collect()
}

/// The ids of the parts add up to the id of a dump by one process, and the base of an increment is
/// all of them.
#[test]
fn parts_have_the_id_of_the_whole_dump() {
    if !require(&[NEEDS[0], Need::Root]) {
        return;
    }
    in_namespace(|base| {
        let (tree, whole) = (dir(base.join("tree")), base.join("whole.tar"));
        bush(&tree, 30, 9);
        for nth in 0..20 {
            let to = dir(tree.join(format!("links/{}", nth % 3))).join(format!("{nth}"));
            fs::hard_link(tree.join(format!("d{}/f0", nth % 7)), to).unwrap();
        }
        for (many, more) in [(1, &[][..]), (3, &[]), (2, &["--resume"])] {
            let words = args!["dump", "tree", "-q", "-o", &whole];
            run(fathom(words).current_dir(base)).exits(0);
            let all = ids(&whole);
            let (out, catalog) = (
                base.join(format!("out {many}")),
                base.join(format!("c {many}")),
            );
            let more = [&["--catalog", catalog.to_str().unwrap()], more].concat();
            dump(many, &tree, &out, &more).exits(0);
            let sum = || {
                ids(&out)
                    .iter()
                    .fold(0_u128, |sum, (id, _)| sum.wrapping_add(*id))
            };
            assert_eq!((sum(), None), all[0], "{many} ranks");
            if more.contains(&"--resume") {
                let parts: Vec<_> = names(&out);
                parts[..3]
                    .iter()
                    .for_each(|part| fs::remove_file(out.join(part)).unwrap());
                dump(many, &tree, &out, &more).exits(0);
                assert_eq!(sum(), all[0].0, "resumed");
            }
            let (increment, to) = (base.join("1.tar"), dir(base.join(format!("to {many}"))));
            fs::write(tree.join("new"), format!("{many}")).unwrap();
            let words = args!["dump", "tree", "-q", "-o", &increment, "--since", &catalog];
            run(fathom(words).current_dir(base)).exits(0);
            assert_eq!(ids(&increment)[0].1, Some(all[0].0));
            let parts = names(&out).into_iter().filter(|name| name.contains(".tar"));
            let parts: Vec<PathBuf> = parts.map(|name| out.join(name)).collect();
            let restore = |parts: &[PathBuf]| {
                let mut command = fathom(args!["restore", "-C", &to, &increment]);
                run(command.args(parts))
            };
            if parts.len() > 1 {
                let ran = restore(&parts[1..]).refused();
                assert!(ran.stderr.contains("missing: part-0-of-"), "{ran}");
            }
            assert!(
                restore(&parts)
                    .exits(0)
                    .stderr
                    .contains("in which they were made")
            );
            same(
                &kept(&tree),
                &kept(&to.join("tree")),
                "parts and an increment",
            );
        }
    });
}

#[test]
fn a_rank_that_fails_leaves_no_archive() {
    if !require(&[NEEDS[0], Need::Root]) {
        return;
    }
    in_namespace(|base| {
        let tree = dir(base.join("tree"));
        bush(&tree, 40, 40);
        let full = base.join("full");
        fs::create_dir(&full).unwrap();
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("full", &full, "tmpfs", flags, c"size=4k").unwrap();
        let ran = dump(3, &tree, &full, &["--compress", "none"]);
        refused(&ran, "No space left on device");
        assert!(ran.stderr.contains("fathom: rank "), "{ran}");
        assert_eq!(names(&full), Vec::<String>::new());
        let out = base.join("out");
        let since = base.join("since");
        refused(
            &dump(2, &tree, &out, &["--since", since.to_str().unwrap()]),
            "--since cannot",
        );
        refused(&dump(2, &tree.join("d0/f0"), &out, &[]), "Not a directory");
        let archive = base.join("x.tar");
        run(&mut fathom(args!["dump", &tree, "-o", &archive, "-q"])).exits(0);
        let restore = args!["restore", &archive, "-C", &base];
        refused(&mpirun(2, restore), "a single archive cannot be restored");
        let restore = args!["restore", "--state", &base, "-C", &base];
        refused(&mpirun(2, restore), "--state cannot be used");
        assert_eq!(names(&out), Vec::<String>::new());
    });
}

/// While ranks walk the tree, its owner replaces it by a symlink to a different tree. Metadata that
/// a rank adds to files of other ranks must still be that of the original tree.
#[test]
fn source_that_is_swapped_meanwhile_is_not_examined() {
    if !require(&NEEDS) || !require(&[Need::Root]) {
        return;
    }
    in_namespace(|ground| {
        let (tree, secret) = (dir(ground.join("tree")), dir(ground.join("secret")));
        for nth in 0..40 {
            for (top, size) in [(&tree, 1), (&secret, 77)] {
                let first = file(top.join(format!("a{nth}")), size);
                fs::create_dir_all(top.join("d")).unwrap();
                fs::hard_link(first, top.join(format!("d/b{nth}"))).unwrap();
            }
        }
        let last = dir(tree.join("d/last"));
        dir(secret.join("d/last"));
        let hold = Hold::new(Stop::Open(&last));
        let mut command = launcher();
        command.args(ranks(
            2,
            args!["dump", "tree", "-o", "parts", "--catalog", "catalogs"],
        ));
        let mut child = command
            .current_dir(ground)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        hold.wait(&mut child);
        fs::rename(&tree, ground.join("moved")).unwrap();
        std::os::unix::fs::symlink(&secret, &tree).unwrap();
        drop(hold);
        child.wait().unwrap();
        let words = args!["query", "--format", "ndjson", ground.join("catalogs")];
        let found = run(&mut fathom(words)).exits(0);
        let text = String::from_utf8_lossy(&found.stdout);
        assert!(text.contains("\"size\":1,"), "{text}");
        assert!(!text.contains("\"size\":77,"), "{text}");
    });
}
