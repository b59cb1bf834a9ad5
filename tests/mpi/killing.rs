//! Helpers for jobs in which a rank is killed while the same or a different rank is held.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{MPIRUN, RANK, configure, run_job};
use crate::support::fathom_path;
use crate::support::hold::Hold;
use crate::support::run::{Ran, args};
use crate::support::tool::tool;

/// A rank of a job that is about to be killed.
pub(super) struct Victim {
    at: PathBuf,
    rank: usize,
    /// FIFOs: a line in `kill` kills the rank, and a line in `killed` reports that. Both are open
    /// for reading and writing, so that opening them does not block.
    kill: File,
    killed: File,
}

impl Victim {
    /// Makes the FIFOs in a directory.
    pub(super) fn new(rank: usize, at: &Path) -> Victim {
        let at = tempfile::tempdir_in(at).unwrap().keep();
        let fifo = |name: &str| {
            let path = at.join(name);
            tool(Command::new("mkfifo").arg(&path));
            let both = OpenOptions::new().read(true).write(true).open(path);
            both.unwrap()
        };
        let (kill, killed) = (fifo("kill"), fifo("killed"));
        Victim {
            at,
            rank,
            kill,
            killed,
        }
    }

    /// A command that starts a job by this program: mpirun, or a command that starts mpirun.
    pub(super) fn launcher(&self, program: impl Into<OsString>) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", r#"echo $$ >"$0"; exec "$@""#]);
        command.arg(self.at.join("job")).arg(program.into());
        command
    }

    /// The command of each rank; append the arguments of fathom.
    pub(super) fn rank(&self) -> [OsString; 5] {
        let script = format!(
            "if [ {RANK} = {} ]; then \
               (read -r line <{at}/kill && kill -KILL $$ && echo >{at}/killed) >/dev/null 2>&1 & \
             fi; exec \"$@\"",
            self.rank,
            at = self.at.display()
        );
        args!["sh", "-c", script, "sh", fathom_path()]
    }

    /// Runs a job, and kills the rank when a process is held, before any rank has ended.
    pub(super) fn kill(mut self, command: &mut Command, hold: Hold) -> Ran {
        /// mpirun of Open MPI 4.1 sometimes waits forever after a rank was killed. After this time,
        /// the test kills mpirun.
        const PATIENCE: Duration = Duration::from_secs(40);
        thread::scope(|scope| {
            let job = scope.spawn(|| run_job(command));
            if hold.wait_unless(|| job.is_finished()).is_none() {
                panic!("no rank was held: {}", job.join().unwrap());
            }
            self.kill.write_all(b"\n").unwrap();
            self.killed.read_exact(&mut [0]).unwrap();
            drop(hold);
            let killed = Instant::now();
            while !job.is_finished() && killed.elapsed() < PATIENCE {
                thread::sleep(Duration::from_millis(5));
            }
            if !job.is_finished() {
                let process = fs::read_to_string(self.at.join("job")).unwrap();
                let process = Pid::from_raw(process.trim().parse().unwrap()).unwrap();
                kill_process(process, Signal::KILL).unwrap();
            }
            let ran = job.join().unwrap();
            assert!(!ran.status.success(), "{ran}");
            ran
        })
    }
}

/// Runs fathom with four ranks on this host, and kills one when a process is held.
pub(super) fn kill_one(victim: usize, at: &Path, words: &[OsString], hold: Hold) -> Ran {
    let victim = Victim::new(victim, at);
    let mut command = victim.launcher(&*MPIRUN);
    configure(&mut command);
    command.args(["-np", "4"]).args(victim.rank()).args(words);
    victim.kill(&mut command, hold)
}
