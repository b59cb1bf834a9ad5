//! What holds for every command of the ranks: raw engines, and hosts that differ.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::walk::{names, refused};
use super::{NEEDS, RANK, launcher, mpirun, run_job};
use crate::support::build::{bush, dir, tmpfs};
use crate::support::disks::{BTRFS, EXT4, XFS, mounted};
use crate::support::run::{Ran, args};
use crate::support::snapshot::{kept, same, snapshot};
use crate::support::trees::grow;
use crate::support::{Need, fathom, in_namespace, require, run};

/// With an engine that reads a whole file system, one rank finds all of a mount; the ranks still find what one
/// process finds, and dump it.
#[test]
fn raw_engines_find_the_same() {
    if !require(&[NEEDS[0], Need::Root, Need::Loop]) {
        return;
    }
    for (make, engine, gather) in [
        (EXT4[0], "ext4", "raw"),
        (XFS[0], "bulkstat", "batched"),
        (BTRFS[0], "btrfs", "batched"),
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

/// Runs two ranks; for rank 1, `out` is read-only.
fn with_read_only_rank(out: &Path, words: &str) -> Ran {
    let script = format!(
        "if [ {RANK} = 1 ]; then \
           exec unshare --mount --propagation private sh -c ' \
             mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && exec {0} {words}' \"$0\"; \
         fi; exec {0} {words}",
        env!("CARGO_BIN_EXE_fathom")
    );
    let mut command = launcher();
    run_job(command.args(["-np", "2", "sh", "-c", &script]).arg(out))
}

#[test]
fn an_output_that_is_read_only_on_one_rank_is_refused() {
    if !require(&[NEEDS[0], Need::Root]) {
        return;
    }
    in_namespace(|base| {
        let top = dir(base.join("tree"));
        bush(&top, 5, 5);
        let out = dir(base.join("out"));
        let archives = base.join("archives");
        let (top, to) = (top.display(), out.display());
        for words in [
            format!("walk {top} --catalog {to}"),
            format!("dump {top} -o {to}"),
            format!("dump {top} -o {} --catalog {to}", archives.display()),
        ] {
            let ran = with_read_only_rank(&out, &words);
            refused(&ran, "Read-only file system");
            assert!(ran.stderr.contains("fathom: rank 1 on "), "{ran}");
            assert!(names(&out).is_empty() && names(&archives).is_empty());
        }
        // On no rank can it be written.
        let sealed = tmpfs(base.join("sealed"));
        let flags = rustix::mount::MountFlags::RDONLY;
        rustix::mount::mount_remount(&sealed, flags, c"").unwrap();
        let words = args!["walk", base.join("tree"), "--catalog", sealed.join("new")];
        refused(&mpirun(2, words), "Read-only file system");
    });
}
