//! The commands that the ranks of an MPI job share, with the feature `mpi`.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the tests build and check past the gate"
)]

#[path = "../support/mod.rs"]
mod support;

mod dump;
mod pathwalk;
mod resume;
mod together;
mod walk;

use std::ffi::OsString;
use std::process::Command;
use std::sync::Mutex;

use support::run::Ran;
use support::{Need, run};

const NEEDS: [Need; 1] = [Need::Program("mpirun")];

/// Runs fathom with this many ranks. What mpirun itself prints about a failed job is ignored.
fn mpirun(many: usize, words: impl IntoIterator<Item = OsString>) -> Ran {
    run_job(launcher().args(ranks(many, words)))
}

/// Runs mpirun. One job runs at a time: Open MPI creates and removes the same directory for all of them.
fn run_job(command: &mut Command) -> Ran {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    run(command)
}

fn launcher() -> Command {
    mpirun_by("mpirun", &[])
}

/// The same with a time limit: mpirun of Open MPI 4.1 sometimes waits for ever when a rank was killed.
fn launcher_of_killed() -> Command {
    mpirun_by("timeout", &["--kill-after=2", "40", "mpirun"])
}

fn mpirun_by(program: &str, words: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(words);
    // The transport that Open MPI would choose here: looking for others takes a third of a short run.
    command.env("OMPI_MCA_pml", "ob1");
    if rustix::process::geteuid().is_root() {
        command.arg("--allow-run-as-root");
    }
    command.arg("--oversubscribe").env("LC_ALL", "C.UTF-8");
    command
}

/// The arguments of mpirun for some ranks that run fathom.
fn ranks(many: usize, words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let many = many.to_string();
    let head = ["-np", &many, env!("CARGO_BIN_EXE_fathom")].map(OsString::from);
    head.into_iter().chain(words).collect()
}
