//! The input of a step of a survey: the directory, the options, and the limits.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use base::child::Bounds;
use mounts::method::SearchProgress;
use mounts::root::Root;
use walk::EngineKind;

use crate::found::{SurveyResults, SurveyedMounts};
use crate::missing::Missing;
use crate::step::StepKind;

/// The options of a survey.
pub struct SurveyOptions {
    /// The directory as given by the user.
    pub dir: Vec<u8>,
    /// The directory, resolved and opened.
    pub root: Root,
    /// The time limit of one run of repeated work, such as a walk by one engine. All steps together
    /// take at most twelve times as long.
    pub limit: Duration,
    /// Measure longer, write more, and measure every local file system.
    pub deep: bool,
    /// Include network mounts that answer.
    pub network: bool,
    /// Builds the command line of a process that calls
    /// [`walk_call_by_call`](crate::walk_call_by_call).
    pub walk_command: fn(&CallByCallWalk<'_>) -> Vec<OsString>,
}

/// A walk with one call at a time, like that of find(1), which ends itself after `limit`.
#[allow(missing_docs, reason = "the names say it")]
pub struct CallByCallWalk<'a> {
    pub dir: &'a [u8],
    pub excludes: &'a [String],
    pub limit: Duration,
}

impl SurveyOptions {
    /// The mounts, unless the server of the surveyed directory might not respond.
    pub(super) fn local<'a>(
        &self,
        found: &'a SurveyResults,
    ) -> Result<&'a SurveyedMounts, Missing> {
        match found.responding()? {
            mounted if mounted.is_remote && !self.network => Err(Missing::RemoteServer),
            mounted => Ok(mounted),
        }
    }
}

/// A run of a step; some steps run several times, for each program or file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepRun {
    /// The step that runs.
    pub step: StepKind,
    /// The index of this run of the step.
    pub nth: usize,
    /// Number of runs of the step.
    pub turns: usize,
}

/// The current activity of a survey.
pub enum Activity<'a> {
    /// The process is about to fork for this run of the step.
    Announced,
    /// The run of the step has begun, in this process.
    Begun,
    /// The progress of a search for mounts, and the directory that it has reached.
    Searching(&'a SearchProgress, &'a [u8]),
    /// The number of mounts that have answered, and the number of all mounts.
    Checking(usize, usize),
    /// A method to find mounts, and the number of its run; run 0 is profiled.
    Method(&'a str, usize),
    /// A walk by this engine, which tells whether the whole tree can be walked within the limits.
    Scouting(EngineKind),
    /// A walk of this many levels of the tree.
    Levels(u32),
    /// An engine, and the number of its run; run 0 warms the caches.
    Engine(&'a str, usize),
    /// The program that is started.
    Starting(&'a str),
    /// The directory of an experiment, and what the experiment does.
    Probing(&'a [u8], probe::Activity),
    /// The run of the step has ended, in this process or in a child that was killed.
    Ended,
}

/// A function that is called at each step and activity.
pub type Observer<'a> = dyn FnMut(&StepRun, Activity<'_>) + 'a;

/// The input of one run of a step.
pub(super) struct StepContext<'a> {
    pub(super) options: &'a SurveyOptions,
    pub(super) turn: StepRun,
    pub(super) until: Instant,
    /// Maximum bytes that the run may read from and write to disks.
    pub(super) bytes: u64,
    pub(super) observer: &'a mut Observer<'a>,
}

impl StepContext<'_> {
    pub(super) fn report(&mut self, activity: Activity<'_>) {
        (self.observer)(&self.turn, activity);
    }

    pub(super) fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// The limits for measurements in child processes, which need no time to clean up.
    pub(super) fn bounds(&self) -> Bounds {
        Bounds {
            each: self.options.limit,
            until: Some(self.until),
            bytes: Some(self.bytes.into()),
            grace: Duration::ZERO,
        }
    }
}
