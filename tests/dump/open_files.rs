//! Tests that a low limit of open files (RLIMIT_NOFILE) changes neither archives nor restored
//! trees.

use std::fs::{self, File};
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};

use super::full::NEEDS;
use crate::support::build::{bush, deep, dir, file};
use crate::support::disks::{BTRFS, EXT4, XFS, mounted};
use crate::support::restrict::limit_open_files;
use crate::support::run::args;
use crate::support::snapshot::{kept, same};
use crate::support::{fathom, in_namespace, require, run};

/// Makes a full dump, and an increment with removed, renamed and new trees.
fn dump_chain(tree: &Path, out: &Path, limit: Option<u64>, change: impl Fn()) -> [Vec<u8>; 2] {
    let (archives, catalog) = (["0.tar", "1.tar"].map(|name| out.join(name)), out.join("c"));
    let base = args!["--catalog", catalog];
    let since = args!["--since", catalog];
    for (archive, more) in archives.iter().zip([&base[..], &since[..]]) {
        let mut command = fathom(args!["dump", tree, "-o", archive, "-q", "-j", "64"]);
        command.args(more);
        if let Some(limit) = limit {
            limit_open_files(&mut command, limit);
        }
        run(&mut command).exits(0);
        change();
    }
    archives.map(|archive| fs::read(archive).unwrap())
}

fn check(at: &Path, ground: &Path, what: &str) {
    let tree = dir(at.join("tree"));
    let plant = || {
        let _ = fs::remove_dir_all(&tree);
        bush(&dir(&tree), 200, 3);
        let last = deep(&tree, "l", 120);
        let how = OFlags::CREATE | OFlags::WRONLY;
        drop(File::from(
            openat(&last, "f", how, Mode::from(0o644)).unwrap(),
        ));
        deep(&dir(tree.join("moved")), "m", 100);
        file(tree.join("moved/f"), 70_000);
        fs::hard_link(tree.join("moved/f"), tree.join("zz")).unwrap();
    };
    plant();
    let change = || {
        if fs::rename(tree.join("moved"), tree.join("a new name")).is_ok() {
            fs::remove_dir_all(tree.join("l")).unwrap();
            deep(&dir(tree.join("new")), "n", 100);
        }
    };
    let out = dir(ground.join("out"));
    let full = dump_chain(&tree, &out, None, change);
    let after = kept(&tree);
    for limit in [32, 64] {
        for jobs in ["1", "2", "64"] {
            let to = dir(ground.join(format!("{limit}-{jobs}")));
            let mut command = fathom(args![
                "restore",
                out.join("0.tar"),
                out.join("1.tar"),
                "-C",
                to,
                "-q",
                "-j",
                jobs
            ]);
            run(limit_open_files(&mut command, limit)).exits(0);
            let member = tree.strip_prefix("/").unwrap();
            let what = format!("{what}: -j {jobs} with {limit} open files");
            same(&after, &kept(&to.join(member)), &what);
        }
        let again = dump_chain(&tree, &out, Some(limit), || {});
        let [unlimited, _] = dump_chain(&tree, &out, None, || {});
        assert!(again[0] == unlimited, "{what}: {limit} open files");
        assert!(full[0] != unlimited);
        fs::write(out.join("0.tar"), &full[0]).unwrap();
        fs::write(out.join("1.tar"), &full[1]).unwrap();
    }
}

#[test]
fn few_open_files_are_enough() {
    if require(&NEEDS) {
        in_namespace(|ground| {
            for make in [EXT4[0], XFS[0], BTRFS[0]] {
                let at = ground.join(make.fstype);
                assert!(mounted(make, &at));
                check(
                    &at,
                    &dir(ground.join(format!("{}.out", make.fstype))),
                    make.fstype,
                );
            }
        });
    }
}
