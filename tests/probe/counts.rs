//! Tests that the counts of system calls equal those of strace.

use crate::support::disks::{EXT4, mounted};
use crate::support::run::args;
use crate::support::strace::{agree, less_start};
use crate::support::{Need, in_namespace, require};

#[test]
fn strace_counts_the_same() {
    if require(&[Need::Root, Need::Loop, Need::Program("strace")]) {
        in_namespace(|ground| {
            let at = ground.join("at");
            assert!(mounted(EXT4[0], &at));
            for experiments in [&["timer"][..], &["block"], &["cache", "extent"]] {
                let arguments = args!["probe", &at, "--json", "--max-bytes", "64M"].into_iter();
                let traced = less_start(
                    &ground.join("log"),
                    arguments.chain(experiments.iter().map(Into::into)),
                );
                // The findings depend on the load of the machine, and do not matter here.
                assert!(traced.ran.code() < 2, "{}", traced.ran);
                agree(
                    &traced.ran.json()["gates"],
                    &traced.counts,
                    &format!("{experiments:?}"),
                );
            }
        });
    }
}
