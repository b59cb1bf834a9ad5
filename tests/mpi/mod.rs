//! Tests of the commands that the ranks of an MPI job share, with the feature `mpi`.

mod dump;
mod hosts;
mod killing;
mod pathwalk;
mod resume;
mod single;
#[cfg(feature = "cloud")]
mod store;
mod together;
mod walk;

use std::env;
use std::ffi::OsString;
use std::process::Command;
use std::sync::LazyLock;

use crate::support::run::{Ran, args};
use crate::support::{Need, fathom_path, run};

const NEEDS: [Need; 1] = [Need::Program("mpirun")];

/// Runs fathom with this number of ranks. Messages of mpirun itself about a failed job are ignored.
fn mpirun(many: usize, words: impl IntoIterator<Item = OsString>) -> Ran {
    run_job(launcher().args(ranks(many, words)))
}

/// Runs mpirun. Open MPI keeps files of all jobs of a user in one directory, which the first job
/// that ends removes; so each job has its own directory.
fn run_job(command: &mut Command) -> Ran {
    let session = tempfile::tempdir_in("/dev/shm").unwrap();
    command.env("TMPDIR", session.path());
    // The names of these files depend on process ids, which are the same in several PID namespaces.
    command.env("OMPI_MCA_btl_vader_backing_directory", session.path());
    run(command)
}

fn launcher() -> Command {
    let mut command = Command::new(MPIRUN.as_os_str());
    configure(&mut command);
    command
}

/// The launcher of the MPI that fathom was built with: FATHOM_MPIRUN, or `mpirun`.
static MPIRUN: LazyLock<OsString> =
    LazyLock::new(|| env::var_os("FATHOM_MPIRUN").unwrap_or_else(|| "mpirun".into()));

static IS_OPEN_MPI: LazyLock<bool> = LazyLock::new(|| {
    let version = run(Command::new(MPIRUN.as_os_str()).arg("--version"));
    String::from_utf8_lossy(&version.stdout).contains("Open MPI")
});

/// The shell expression for the number of a rank, with either MPI.
const RANK: &str = "${OMPI_COMM_WORLD_RANK-$PMI_RANK}";

fn configure(command: &mut Command) {
    command.env("LC_ALL", "C.UTF-8");
    if *IS_OPEN_MPI {
        // Set the transport that Open MPI would choose here: probing the others takes a third of a
        // short run.
        command.env("OMPI_MCA_pml", "ob1").arg("--oversubscribe");
        if rustix::process::geteuid().is_root() {
            command.arg("--allow-run-as-root");
        }
    }
}

/// The arguments of mpirun for some ranks that run fathom.
fn ranks(many: usize, words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let many = many.to_string();
    let head = args!["-np", &many, fathom_path()];
    head.into_iter().chain(words).collect()
}
