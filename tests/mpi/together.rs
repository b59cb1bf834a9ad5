//! Tests that apply to every command of the ranks: raw engines, and hosts that differ.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::walk::{names, refused};
use super::{NEEDS, RANK, launcher, mpirun, run_job};
use crate::support::build::{bush, chmod, dir, tmpfs};
use crate::support::disks::{BTRFS, EXT4, XFS, mounted};
use crate::support::run::{Ran, args};
use crate::support::snapshot::{kept, same, snapshot};
use crate::support::tool::tool;
use crate::support::trees::grow;
use crate::support::{Need, fathom, fathom_path, in_namespace, require, run};

/// With an engine that reads a whole file system or has one thread, one rank finds all entries of a
/// mount. Together, the ranks still find the entries that one process finds, and dump them.
#[test]
fn raw_engines_find_the_same() {
    if !require(&[NEEDS[0], Need::Root, Need::Loop]) {
        return;
    }
    for (make, engine, gather) in [
        (EXT4[0], "ext4", "raw"),
        (XFS[0], "bulkstat", "batched"),
        (BTRFS[0], "btrfs", "batched"),
        (EXT4[0], "stat", "percall"),
    ] {
        in_namespace(|base| {
            assert!(mounted(make, &base.join("disk")));
            let top = dir(base.join("disk/tree"));
            grow(&dir(top.join("odd")), 5, 40);
            bush(&tmpfs(dir(top.join("mount"))), 3, 9);
            run(Command::new("sync").arg("-f").arg(&top)).exits(0);
            let walk = args!["walk", &top, "--json", "-x", "--engine", engine].to_vec();
            let whole = run(&mut fathom(walk.clone())).exits(0).json();
            let ran = mpirun(3, walk).exits(0);
            let found: Value = serde_json::from_slice(&ran.stdout).unwrap();
            assert_eq!(found["result"]["engine"], engine, "{ran}");
            for field in ["digest", "entries", "bytes"] {
                assert_eq!(found["result"][field], whole["result"][field], "{engine}");
            }
            let out = base.join("out");
            let dump = args!["dump", &top, "-o", &out, "--gather", gather, "--json"];
            let ran = mpirun(2, dump);
            let dumped: Value = serde_json::from_slice(&ran.stdout).unwrap();
            assert_eq!(dumped["result"]["gather"], gather, "{ran}");
            let to = dir(base.join("disk/to"));
            run(&mut fathom(args!["restore", &out, "-C", &to, "-q"])).exits(0);
            let name = top.strip_prefix("/").unwrap();
            same(&kept(&top), &snapshot(&to.join(name)), engine);
        });
    }
}

/// Runs two ranks of `fathom WORDS`; for rank 1, the script `mount` changes `at` (`$0`) before.
fn with_other_mount(at: &Path, mount: &str, words: &str) -> Ran {
    let script = format!(
        "if [ {RANK} = 1 ]; then \
           exec unshare --mount --propagation private sh -c '{mount} && exec {0} {words}' \"$0\"; \
         fi; exec {0} {words}",
        fathom_path().display()
    );
    let mut command = launcher();
    run_job(command.args(["-np", "2", "sh", "-c", &script]).arg(at))
}

const READ_ONLY: &str = r#"mount --bind "$0" "$0" && mount -o remount,bind,ro "$0""#;
const ANOTHER: &str = r#"mount -t tmpfs none "$0""#;

#[test]
fn an_output_that_differs_on_one_rank_is_refused() {
    if !require(&[NEEDS[0], Need::Root]) {
        return;
    }
    in_namespace(|base| {
        let top = dir(base.join("tree"));
        bush(&top, 5, 5);
        let out = dir(base.join("out"));
        let (archives, whole) = (base.join("archives"), base.join("whole"));
        mpirun(2, args!["dump", &top, "-o", &whole]).exits(0);
        let (top, to) = (top.display(), out.display());
        let restore = format!("restore {} -C {to}", whole.display());
        for words in [
            format!("walk {top} --catalog {to}"),
            format!("dump {top} -o {to}"),
            format!("dump {top} -o {} --catalog {to}", archives.display()),
        ] {
            let mounts = [
                (READ_ONLY, "Read-only file system"),
                (ANOTHER, "it is another directory here than on rank 0"),
            ];
            for (mount, message) in mounts {
                let ran = with_other_mount(&out, mount, &words);
                refused(&ran, message);
                assert!(ran.stderr.contains("fathom: rank 1 on "), "{ran}");
                assert!(names(&out).is_empty() && names(&archives).is_empty());
            }
        }
        let ran = with_other_mount(&out, ANOTHER, &restore);
        refused(&ran, "is another directory here than on rank 0");
        assert!(ran.stderr.contains("fathom: rank 1 on "), "{ran}");
        assert_eq!(names(&out), Vec::<String>::new());
        let ran = with_other_mount(&out, READ_ONLY, &restore);
        refused(&ran, "Read-only file system");
        assert!(ran.stderr.contains("fathom: rank 1 on "), "{ran}");
        // No rank can write the catalog.
        let sealed = tmpfs(base.join("sealed"));
        let flags = rustix::mount::MountFlags::RDONLY;
        rustix::mount::mount_remount(&sealed, flags, c"").unwrap();
        let words = args!["walk", base.join("tree"), "--catalog", sealed.join("new")];
        refused(&mpirun(2, words), "Read-only file system");
    });
}

/// Invalid input, which each command of the ranks refuses.
#[test]
fn ranks_that_differ_and_parts_that_are_no_whole_are_refused() {
    if !require(&NEEDS) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let at = scratch.path();
    let (top, to) = (dir(at.join("tree")), dir(at.join("to")));
    bush(&top, 5, 5);
    let [parts, other, catalog] = ["parts", "other", "catalog"].map(|name| at.join(name));
    for out in [&parts, &other] {
        mpirun(3, args!["dump", &top, "-o", out]).exits(0);
    }
    let together = |one: (&Path, &[OsString]), rest: (&Path, &[OsString])| {
        let mut command = launcher();
        command.args(["-np", "1"]).arg(one.0).args(one.1).arg(":");
        run_job(command.args(["-np", "2"]).arg(rest.0).args(rest.1))
    };
    // Programs of two versions: in a copy of the program, every occurrence of the version number is
    // replaced.
    let program = fathom_path();
    let (older, version) = (at.join("older"), env!("CARGO_PKG_VERSION"));
    let pattern = format!(
        "s/{}/{}x/g",
        version.replace('.', "\\."),
        &version[..version.len() - 1]
    );
    let mut sed = Command::new("sed");
    let patched = tool(sed.env("LC_ALL", "C").arg(pattern).arg(program));
    fs::write(&older, patched).unwrap();
    chmod(&older, 0o755);
    let walk = |top: &Path| args!["walk", top, "--catalog", &catalog].to_vec();
    let dump = |top: &Path| args!["dump", top, "-o", at.join("new")].to_vec();
    let restore = |parts: &Path| args!["restore", parts, "-C", &to].to_vec();
    for words in [walk(&top), dump(&top), restore(&parts)] {
        let ran = together((program, &words), (&older, &words));
        refused(&ran, "rank 1 runs fathom 0");
    }
    for (one, two) in [(dump(&top), dump(&to)), (restore(&parts), restore(&other))] {
        refused(&together((program, &one), (program, &two)), "rank 1 on ");
    }
    // A part is missing, or belongs to a different run.
    let part = parts.join("part-1-of-3.tar.zst");
    fs::remove_file(&part).unwrap();
    refused(
        &mpirun(2, restore(&parts)),
        "1 part of 3 missing: part-1-of-3",
    );
    fs::copy(other.join("part-1-of-3.tar.zst"), &part).unwrap();
    refused(&mpirun(2, restore(&parts)), "not a part of the same run");
    for left in [to, at.join("new"), catalog] {
        assert_eq!(names(&left), Vec::<String>::new(), "{left:?}");
    }
}
