//! The warnings of a survey.

use ::base::WarningReason;
use survey::Missing;

use super::show::missing::text;
use crate::error::Error;

#[derive(Debug, thiserror::Error)]
pub(crate) enum WarningKind {
    /// A step failed; this command tries it alone.
    #[error("{step}: {}; to retry: {command}", text(.missing))]
    Step {
        step: &'static str,
        missing: Missing,
        command: String,
    },
    #[error("full: users have no space or no inodes left on it")]
    Full,
    #[error("hidden: another mount covers it")]
    Hidden,
    #[error("interrupted: the sections that were not measured are named")]
    Interrupted,
    #[error("{0}")]
    Page(Error),
    #[error("{0}")]
    Plot(Error),
}

impl WarningReason for WarningKind {}
