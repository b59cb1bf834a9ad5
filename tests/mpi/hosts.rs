//! Tests of MPI jobs with ranks on two hosts. The hosts are simulated by network namespaces with
//! host names; see `two-hosts`.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::killing::Victim;
use super::walk::{names, refused, result};
use super::{IS_OPEN_MPI, MPIRUN, NEEDS, RANK, configure, run_job};
use crate::support::build::{bush, dir};
use crate::support::hold::{Hold, Stop};
use crate::support::run::{Ran, args};
use crate::support::snapshot::{kept, same, snapshot};
use crate::support::synthetic::{SyntheticTree, serve_synthetic};
use crate::support::{Need, fathom, fathom_path, in_namespace, require, run};

const HOSTS: [Need; 5] = [
    NEEDS[0],
    Need::Root,
    Need::Fuse,
    Need::Program("ip"),
    Need::Program("nsenter"),
];

/// Runs a command by four ranks: 0 and 2 on host `one`, 1 and 3 on host `two`.
fn on_two_hosts(base: &Path, words: impl IntoIterator<Item = OsString>) -> Ran {
    let mut command = Command::new("unshare");
    run_job(two_hosts(&mut command, base).args(words))
}

/// Adds the arguments of unshare(1) for two hosts, without those of the ranks.
fn two_hosts<'a>(command: &'a mut Command, base: &Path) -> &'a mut Command {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/mpi/two-hosts");
    command.args(["--net", "--uts", "--mount", "--pid", "--fork"]);
    command.args(["--kill-child", "--mount-proc", script]);
    command.arg(dir(base.join("hosts"))).arg(&*MPIRUN);
    configure(command);
    command.args(match *IS_OPEN_MPI {
        true => &["--host", "one:2,two:2", "--map-by", "node"][..],
        false => &["-hosts", "one,two"],
    });
    command.args(["-np", "4"])
}

fn program(words: impl IntoIterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    let program = OsString::from(fathom_path());
    std::iter::once(program).chain(words)
}

fn shell(
    script: &str,
    words: impl IntoIterator<Item = OsString>,
) -> impl Iterator<Item = OsString> {
    let head = ["sh", "-c", script, "sh"].map(OsString::from);
    head.into_iter().chain(words)
}

#[test]
fn ranks_on_two_hosts_share_the_work() {
    if !require(&HOSTS) {
        return;
    }
    in_namespace(|base| {
        let at = base.join("remote");
        let server = SyntheticTree {
            directories: 80,
            files: 40,
            latency: Duration::from_millis(1),
            shared_by: Some((4, 90)),
            ..SyntheticTree::default()
        };
        let _server = serve_synthetic(server, &at);
        let words = args!["walk", &at, "--json", "-j", "2"];
        let found = result(&on_two_hosts(base, program(words.clone())).exits(0));
        let whole = run(&mut fathom(words)).exits(0).json();
        assert_eq!(found["digest"], whole["result"]["digest"]);
        let each = found["ranks"].as_array().unwrap();
        for (rank, host) in each.iter().zip(["one", "two", "one", "two"]) {
            assert_eq!(rank["host"], host, "{found}");
            assert!(rank["entries"].as_u64().unwrap() > 80, "{found}");
        }
        // Ranks on both hosts write archives, and restore them.
        let tree = dir(base.join("tree"));
        bush(&tree, 30, 30);
        let (out, to) = (base.join("out"), dir(base.join("to")));
        on_two_hosts(base, program(args!["dump", &tree, "-o", &out])).exits(0);
        on_two_hosts(base, program(args!["restore", &out, "-C", &to])).exits(0);
        let restored = to.join(tree.strip_prefix("/").unwrap());
        same(&kept(&tree), &snapshot(&restored), "two hosts");
    });
}

#[test]
fn a_host_that_fails_is_named_and_leaves_no_part() {
    if !require(&HOSTS) {
        return;
    }
    in_namespace(|base| {
        let (tree, out) = (dir(base.join("tree")), dir(base.join("out")));
        bush(&tree, 40, 40);
        let words = args![fathom_path(), "walk", &tree, "--catalog", &out];
        let read_only = format!(
            "if [ {RANK} = 1 ]; then mount --bind {0} {0} && mount -o remount,bind,ro {0}; fi; \
             if [ {RANK} = 3 ]; then until [ ! -w {0} ]; do sleep 0.1; done; fi; exec \"$@\"",
            out.display()
        );
        let ran = on_two_hosts(base, shell(&read_only, words));
        refused(&ran, "Read-only file system");
        assert!(ran.stderr.contains("fathom: rank 1 on two: "), "{ran}");
        assert_eq!(names(&out), Vec::<String>::new());
        // A rank on the other host is killed.
        let victim = Victim::new(3, base);
        let mut command = victim.launcher("unshare");
        two_hosts(&mut command, base).args(victim.rank());
        command.args(args!["walk", &tree, "-j", "1", "--catalog", &out]);
        victim.kill(&mut command, Hold::new(Stop::Open(&tree.join("d20"))));
        assert_eq!(names(&out), Vec::<String>::new());
    });
}
