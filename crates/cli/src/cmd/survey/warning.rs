//! The warnings of a survey, in words.

use ::base::{Warning, WarningReason};
use survey::{FailedStep, Missing};

use super::command::Commands;
use super::show::missing::text;
use crate::error::Error;

#[derive(Debug, thiserror::Error)]
pub(crate) enum WarningKind {
    /// A step failed; `command` measures it separately.
    #[error("{step}: {}; to retry: {command}", text(.missing))]
    Step {
        step: &'static str,
        missing: Missing,
        command: String,
    },
    #[error("interrupted: the sections that were not measured are named")]
    Interrupted,
    #[error("{0}")]
    Page(Error),
    #[error("{0}")]
    Plot(Error),
}

impl WarningReason for WarningKind {}

/// Adds the command to retry to the warning of a failed step; returns other warnings unchanged.
pub(super) fn with_retry(warning: Warning, commands: &Commands) -> Warning {
    match warning.reason() {
        Some(FailedStep { step, missing }) => Warning::general(WarningKind::Step {
            step: step.name(),
            missing: missing.clone(),
            command: commands.gather(step.section()),
        }),
        None => warning,
    }
}
