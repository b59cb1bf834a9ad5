//! The flag that limits the wait for servers which do not answer.

use std::time::Duration;

use clap::Args;

use super::values::duration;

#[derive(Args, Clone, Debug)]
pub(crate) struct DeadlineArgs {
    /// Skip network and FUSE mounts that do not answer within this time [default: 30s]
    ///
    /// A child process accesses each of these mounts first. If a mount does not answer, a warning
    /// names it, and its entries do not count as removed. With -x, fathom does not enter these
    /// mounts, and waits 2 seconds for each.
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Selection")]
    deadline: Option<Duration>,
}

impl DeadlineArgs {
    pub(crate) fn get(&self) -> Duration {
        self.deadline.unwrap_or(walk::DEADLINE)
    }
}
