//! Warnings of other ranks of an MPI job, which arrive in words.

use std::borrow::Cow;

use gate::{Errno, Gate};
use mounts::{Warning, WarningReason};
use serde::{Deserialize, Serialize};

/// A warning, as one rank sends it to another.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RankWarning {
    path: Option<Vec<u8>>,
    /// Its place in [`Gate::ALL`].
    gate: Option<usize>,
    errno: Option<i32>,
    reason: Reason,
}

/// The reason of a warning of another rank.
#[derive(Clone, Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Reason {
    text: String,
    consequence: Option<String>,
    explains_errno: bool,
    includes_errno: bool,
    pub(crate) hint: Option<String>,
}

impl WarningReason for Reason {
    fn consequence(&self) -> Option<Cow<'_, str>> {
        self.consequence.as_deref().map(Cow::Borrowed)
    }

    fn explains_errno(&self) -> bool {
        self.explains_errno
    }

    fn includes_errno(&self) -> bool {
        self.includes_errno
    }
}

impl RankWarning {
    /// A warning and what to do about it.
    pub(crate) fn new(warning: &Warning, hint: Option<Cow<'_, str>>) -> RankWarning {
        let reason = &warning.reason;
        let place = |gate| Gate::ALL.iter().position(|it| *it == gate);
        RankWarning {
            path: warning.path.clone(),
            gate: warning.gate.and_then(place),
            errno: warning.errno.map(|errno| errno.0),
            reason: Reason {
                text: reason.to_string(),
                consequence: reason.consequence().map(Cow::into_owned),
                explains_errno: reason.explains_errno(),
                includes_errno: reason.includes_errno(),
                hint: hint.map(Cow::into_owned),
            },
        }
    }
}

impl From<RankWarning> for Warning {
    fn from(warning: RankWarning) -> Warning {
        Warning {
            path: warning.path,
            gate: warning.gate.and_then(|nth| Gate::ALL.get(nth).copied()),
            errno: warning.errno.map(Errno),
            ..Warning::general(warning.reason)
        }
    }
}
