//! What the steps of a survey are given: the directory, the flags, and what each may use up.

use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use base::child::Bounds;
use mounts::root::Root;
use survey::{Found, Missing, Mounted};

use super::args::Survey as Args;
use crate::out::Out;
use crate::progress::Progress;

pub(super) struct SurveyContext<'a> {
    pub(super) args: &'a Args,
    pub(super) out: &'a Out,
    pub(super) root: Root,
}

impl SurveyContext<'_> {
    pub(super) fn dir(&self) -> &[u8] {
        self.args.dir().as_bytes()
    }

    /// The mounts, unless the server of the directory might not respond.
    pub(super) fn local<'a>(&self, found: &'a Found) -> Result<&'a Mounted, Missing> {
        match found.responding()? {
            mounted if mounted.is_remote && !self.args.network => Err(Missing::RemoteServer),
            mounted => Ok(mounted),
        }
    }
}

/// What one turn of a step may use up.
pub(super) struct Ration {
    /// Time for one run of what is run several times.
    pub(super) each: Duration,
    pub(super) until: Instant,
    /// Bytes that it may read from disks and write to them.
    pub(super) bytes: u64,
    /// Whether progress is shown.
    pub(super) has_progress: bool,
    /// What the progress line says of the step.
    pub(super) stage: String,
}

impl Ration {
    pub(super) fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// The limits of runs in processes of their own, which need no time to clean up.
    pub(super) fn bounds(&self) -> Bounds {
        Bounds {
            each: self.each,
            until: Some(self.until),
            bytes: Some(self.bytes.into()),
            grace: Duration::ZERO,
        }
    }

    pub(super) fn progress(&self) -> Progress {
        Progress::stage(self.has_progress, self.stage.clone())
    }
}
