//! The flag that limits the wait for servers which do not answer.

use std::time::Duration;

use clap::Args;

use super::values::duration;

#[derive(Args, Clone, Debug)]
pub(crate) struct DeadlineArgs {
    /// Skip a network or FUSE mount that is silent for so long [default: 30s]
    ///
    /// A child process touches each such mount first. What does not answer is skipped with a warning, and
    /// does not count as removed. With -x such mounts are not entered, and get 2 seconds.
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Selection")]
    deadline: Option<Duration>,
}

impl DeadlineArgs {
    pub(crate) fn get(&self) -> Duration {
        self.deadline.unwrap_or(walk::DEADLINE)
    }
}
