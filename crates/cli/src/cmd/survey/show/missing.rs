//! Why sections are missing, in words.

use ::survey::{Failure, Missing, Task, Unseen};
use show::name::printable;

/// Why a section is missing: a sentence without a full stop, beginning with a small letter.
pub(crate) fn text(missing: &Missing) -> String {
    let text = match missing {
        Missing::Interrupted => "the survey was interrupted before it came to this",
        Missing::InterruptedMidway => "the survey was interrupted in the middle of it",
        Missing::NoMounts => "what is mounted is not known",
        Missing::NoWalk => "walking was not done either",
        Missing::NoPath => "PATH was not looked at either",
        Missing::SilentServer => {
            "the server behind the directory does not answer; see fathom mounts --check"
        }
        Missing::RemoteServer => {
            "the server behind the directory might not answer; --network asks it all the same"
        }
        Missing::NoMethod => "no method could be run to its end",
        Missing::NothingToStart => "there is no PATH, and nothing could be started",
        Missing::SilentPath => "a directory of PATH does not answer; see fathom mounts --check",
        Missing::TooManyExcludes => "there are too many network mounts to be kept out of",
        Missing::WalkEnded => "the walk was ended before it was done",
        Missing::GatherFailed => "gathering has failed",
        Missing::ProcessFailed => "its process has failed",
        Missing::Nothing => "there is nothing to be found",
        Missing::NoDisk => {
            "no local disk that can be written to is mounted here; --network takes in those of servers"
        }
        Missing::TooLong(limit) => {
            return format!(
                "it takes longer than {} s, or more disk reads than it may; --limit gives it longer, --deep more of both",
                limit.as_secs_f64()
            );
        }
        Missing::TooMuchIo(why) => {
            return format!("{why}, which is all that it may; --deep lets it do more");
        }
        Missing::Killed(signal) => return format!("its process was ended by signal {signal}"),
        Missing::Overdue(limit) => {
            return format!(
                "it was not done within {:.1} s, and was stopped",
                limit.as_secs_f64()
            );
        }
        Missing::Failed(failure) | Missing::Skipped(failure) => return failed(failure),
    };
    text.to_owned()
}

fn failed(Failure { task, cause }: &Failure) -> String {
    let task = match task {
        Task::FindMounts => "cannot find the mounts",
        Task::CheckMounts => "cannot make a process to check the mounts",
        Task::ExcludeMounts => "cannot keep out of network mounts",
        Task::Walk => "cannot make a process to walk in",
        Task::Gather => "cannot make a process to gather in",
        Task::TraceStart => "cannot watch programs start",
        Task::Probe(dir) => return format!("'{}': {cause}", printable(dir)),
        Task::Other => return cause.to_string(),
    };
    format!("{task}: {cause}")
}

pub(crate) fn unseen(unseen: &Unseen) -> String {
    let text = match unseen {
        Unseen::UnreadableDirectories => {
            "what is in directories that this user may not read is missing from walks and dumps"
        }
        Unseen::Experiments(dir) => {
            return format!(
                "experiments on the file system at '{}', where this user can make no files",
                printable(dir)
            );
        }
        Unseen::BulkEngines => {
            "engines that ask a file system for many files at a time, or read its tables: only root may"
        }
        Unseen::BpfMeter => "the meter bpf, which holds a command up least: only root may",
    };
    text.to_owned()
}
