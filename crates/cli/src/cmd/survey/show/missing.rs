//! The reasons why sections are missing, in words.

use show::name::printable;
use show::units::duration;
use survey::{ComparedMethods, Failure, Missing, PrivilegedResult, SkippedMethods, Task};

use crate::cmd::mounts::methods::{self, LeftOut};
use crate::cmd::probe::show::hinted;
use crate::error::Error;

/// The reason why a section is missing: a clause without a capital and a full stop.
pub(crate) fn text(missing: &Missing) -> String {
    let text = match missing {
        Missing::Interrupted => "the survey was interrupted before this step",
        Missing::InterruptedMidway => "the survey was interrupted during this step",
        Missing::NoMounts => "the mounts are unknown",
        Missing::NoWalk => "the walk was skipped",
        Missing::NoPath => "PATH could not be read",
        Missing::SilentServer => {
            "the server of the directory does not answer; see fathom mounts --check"
        }
        Missing::RemoteServer => {
            "the server of the directory might not answer; --network includes it"
        }
        Missing::NoMethod => "no method finished",
        Missing::NothingToStart => "there is no PATH, and no program could be started",
        Missing::SilentPath => "a directory of PATH does not answer; see fathom mounts --check",
        Missing::SilentHome => "the home directory does not answer; see fathom mounts --check",
        Missing::TooManyExcludes => "there are too many network mounts to exclude",
        Missing::WalkEnded => "the walk ended early",
        Missing::GatherFailed => "gathering failed",
        Missing::ProcessFailed => "its process failed",
        Missing::Nothing => "nothing was found",
        Missing::NoDisk => {
            "no writable local disk is mounted here; --network includes network mounts"
        }
        Missing::TooLong(limit) => {
            return format!(
                "it takes more than {} s, or too many disk reads; raise --limit, or use --deep",
                limit.as_secs_f64()
            );
        }
        Missing::TooMuchIo(why) => {
            return format!("{why}; --deep allows more");
        }
        Missing::Killed(signal) => return format!("its process was killed by signal {signal}"),
        Missing::Overdue(limit) => {
            return format!("it was stopped after {}", duration(limit.as_secs_f64()));
        }
        Missing::Failed(failure) | Missing::Skipped(failure) => return failed(failure),
    };
    text.to_owned()
}

fn failed(Failure { task, cause }: &Failure) -> String {
    let task = match task {
        Task::FindMounts => "cannot find the mounts",
        Task::CheckMounts => "cannot start a process to check the mounts",
        Task::Walk => "cannot start a process to walk",
        Task::Gather => "cannot start a process to gather",
        Task::TraceStart => "cannot trace programs",
        Task::RunMethod => "cannot create a process to run a method",
        Task::Probe(dir) => {
            let cause = match cause.downcast_ref() {
                Some(why) => hinted(why),
                None => cause.to_string(),
            };
            return format!("'{}': {cause}", printable(dir));
        }
        Task::Other => {
            return match cause.downcast_ref::<walk::Error>() {
                Some(why) => Error::from(why.clone()).to_string(),
                None => cause.to_string(),
            };
        }
    };
    format!("{task}: {cause}")
}

pub(crate) fn unseen(unseen: &PrivilegedResult) -> String {
    let text = match unseen {
        PrivilegedResult::UnreadableDirectories => "directories that this user cannot read",
        PrivilegedResult::Experiments(dir) => {
            return format!(
                "experiments at '{}', where this user cannot create files",
                printable(dir)
            );
        }
        PrivilegedResult::BulkEngines => "the engines bulkstat, btrfs and ext4",
        PrivilegedResult::BpfMeter => "the meter bpf, which has the lowest overhead",
    };
    text.to_owned()
}

/// The methods of finding mounts that have no result.
pub(crate) fn left_out(compared: &ComparedMethods) -> Vec<LeftOut> {
    let mut all = compared.skipped.as_ref().map_or(Vec::new(), skipped);
    all.extend(methods::left_out(&compared.comparison.left_out));
    all
}

fn skipped(skipped: &SkippedMethods) -> Vec<LeftOut> {
    let target = printable(&skipped.target);
    let more = match skipped.others {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let why = match skipped.was_checked {
        true => format!("it would wait for '{target}'{more}, which does not answer"),
        false => format!(
            "it would enter '{target}'{more}, whose server might not answer; --network allows it"
        ),
    };
    let left_out = skipped.methods.iter().map(|method| LeftOut {
        by: method.name(),
        why: why.clone(),
    });
    left_out.collect()
}
