//! Why a section was not gathered, and what more privilege would have shown.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use base::child::NoRun;

/// Why a section was not gathered.
#[derive(Clone, Debug)]
pub enum Missing {
    /// The survey was interrupted before it.
    Interrupted,
    /// The survey was interrupted while it was gathered.
    InterruptedMidway,
    /// It needs the mounts, which are unknown.
    NoMounts,
    /// It needs a walk, which is missing too.
    NoWalk,
    /// It needs the directories of PATH, which are missing too.
    NoPath,
    /// It takes longer than this limit, or more I/O than its own.
    TooLong(Duration),
    /// It was stopped at its limit of I/O.
    TooMuchIo(NoRun),
    /// The server behind the directory does not respond.
    SilentServer,
    /// The server behind the directory might not respond, and was not asked.
    RemoteServer,
    /// No way to find the mounts finished.
    NoMethod,
    /// There is no PATH, and no program could be started.
    NothingToStart,
    /// A directory of PATH does not respond.
    SilentPath,
    /// There are more network mounts to exclude than a command line can name.
    TooManyExcludes,
    /// The walk ended early.
    WalkEnded,
    /// Gathering failed.
    GatherFailed,
    /// The process of the step was killed by a signal.
    Killed(i32),
    /// The process of the step failed.
    ProcessFailed,
    /// The process of the step was stopped after so long.
    Overdue(Duration),
    /// No local disk that can be written to is mounted.
    NoDisk,
    /// There is nothing to gather.
    Nothing,
    /// Something else failed.
    Failed(Failure),
    /// It was skipped because something else failed.
    Skipped(Failure),
}

impl Missing {
    /// Because something failed.
    pub(crate) fn failed(task: Task, cause: impl Error + Send + Sync + 'static) -> Missing {
        Missing::Failed(Failure::new(task, cause))
    }

    /// Whether something is wrong, rather than left out on purpose or for lack of time.
    pub fn is_wrong(&self) -> bool {
        use Missing::*;
        matches!(
            self,
            SilentServer
                | SilentPath
                | GatherFailed
                | Killed(_)
                | ProcessFailed
                | Overdue(_)
                | Failed(_)
        )
    }

    /// Whether it was stopped, rather than not tried.
    pub fn is_stopped(&self) -> bool {
        self.is_wrong() || matches!(self, Missing::TooLong(_))
    }
}

/// An error in gathering a section.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What failed.
    pub task: Task,
    /// Why.
    pub cause: Arc<dyn Error + Send + Sync>,
}

impl Failure {
    /// An error in a task.
    pub fn new(task: Task, cause: impl Error + Send + Sync + 'static) -> Failure {
        Failure {
            task,
            cause: Arc::new(cause),
        }
    }
}

/// What can fail in gathering a section.
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
    /// Any other: the cause says it.
    Other,
}

/// What more privilege would have shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unseen {
    /// What is in directories that this user cannot read.
    UnreadableDirectories,
    /// Experiments on the file system at a directory where this user can create no files.
    Experiments(Vec<u8>),
    /// Engines that read many inodes at a time, or the tables of the file system.
    BulkEngines,
    /// The meter with the least overhead.
    BpfMeter,
}
