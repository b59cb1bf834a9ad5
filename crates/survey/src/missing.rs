//! The reasons why a section is missing, and the results that more privilege would have added.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use base::child::NoRun;

/// The reason why a section is missing.
#[derive(Clone, Debug)]
pub enum Missing {
    /// The survey was interrupted before the step of the section.
    Interrupted,
    /// The survey was interrupted during the step of the section.
    InterruptedMidway,
    /// The step needs the mounts, which are unknown.
    NoMounts,
    /// The step needs a walk, which is missing, too.
    NoWalk,
    /// The step needs the directories of PATH, which are missing, too.
    NoPath,
    /// The step takes longer than this limit, or more I/O than its limit.
    TooLong(Duration),
    /// The step was stopped at its limit of I/O.
    TooMuchIo(NoRun),
    /// The server of the surveyed directory does not respond.
    SilentServer,
    /// The server of the surveyed directory might not respond, so it was not contacted.
    RemoteServer,
    /// No method to find mounts finished.
    NoMethod,
    /// There is no PATH, and no program could be started.
    NothingToStart,
    /// A directory of PATH does not respond.
    SilentPath,
    /// The home directory does not respond, so no program was started.
    SilentHome,
    /// The excluded network mounts exceed the length of a command line.
    TooManyExcludes,
    /// The walk ended early.
    WalkEnded,
    /// Reading the metadata failed.
    GatherFailed,
    /// The process of the step was killed by a signal.
    Killed(i32),
    /// The process of the step failed.
    ProcessFailed,
    /// The process of the step was killed at its limit of time.
    Overdue(Duration),
    /// No writable local disk is mounted.
    NoDisk,
    /// There is nothing to measure.
    Nothing,
    /// A task of the step failed.
    Failed(Failure),
    /// The step was skipped because a task failed.
    Skipped(Failure),
}

impl Missing {
    /// Creates the reason from the error of a task.
    pub(crate) fn failed(task: Task, cause: impl Error + Send + Sync + 'static) -> Missing {
        Missing::Failed(Failure::new(task, cause))
    }

    /// Whether an error is the reason, rather than a deliberate omission or a limit of time.
    pub fn is_wrong(&self) -> bool {
        use Missing::*;
        matches!(
            self,
            SilentServer
                | SilentPath
                | SilentHome
                | GatherFailed
                | Killed(_)
                | ProcessFailed
                | Overdue(_)
                | Failed(_)
        )
    }

    /// Whether the step was stopped, rather than not started.
    pub fn is_stopped(&self) -> bool {
        self.is_wrong() || matches!(self, Missing::TooLong(_))
    }
}

/// An error in a task of a step.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The task that failed.
    pub task: Task,
    /// The cause of the failure.
    pub cause: Arc<dyn Error + Send + Sync>,
}

impl Failure {
    /// Creates a failure of a task.
    pub fn new(task: Task, cause: impl Error + Send + Sync + 'static) -> Failure {
        Failure {
            task,
            cause: Arc::new(cause),
        }
    }
}

/// A task of a step, which can fail.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Task {
    FindMounts,
    CheckMounts,
    RunMethod,
    Walk,
    Gather,
    TraceStart,
    /// Probing a directory.
    Probe(Vec<u8>),
    /// Any other task: the cause explains it.
    Other,
}

/// Results that more privilege would have added.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PrivilegedResult {
    /// The contents of directories that this user cannot read.
    UnreadableDirectories,
    /// Experiments on a file system where this user cannot create files, by its directory.
    Experiments(Vec<u8>),
    /// Engines that read many inodes at a time, or the tables of the file system.
    BulkEngines,
    /// The meter with the lowest overhead, `bpf`.
    BpfMeter,
}
