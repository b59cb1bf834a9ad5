//! The warnings of a survey.

use base::WarningReason;

use crate::missing::Missing;
use crate::step::StepKind;

/// A warning of a survey.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WarningKind {
    /// A file system is full.
    #[error("full: users have no space or no inodes left on it")]
    Full,
    /// A mount is hidden.
    #[error("hidden: another mount covers it")]
    Hidden,
}

impl WarningReason for WarningKind {}

/// A step that failed, as the reason of a warning.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}: it failed", .step.name())]
#[allow(missing_docs, reason = "the names say it")]
pub struct FailedStep {
    pub step: StepKind,
    pub missing: Missing,
}

impl WarningReason for FailedStep {}
