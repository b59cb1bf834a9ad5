//! Warnings as text: those of other ranks of an MPI job, and those with a hint of their own.

use std::borrow::Cow;

use base::{Warning, WarningReason};
use gate::{Errno, Gate};
use serde::{Deserialize, Serialize};

/// A warning in the form in which a rank sends it to rank 0.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RankWarning {
    path: Option<Vec<u8>>,
    /// The index of the system call in [`Gate::ALL`].
    gate: Option<usize>,
    errno: Option<i32>,
    reason: Reason,
}

/// The reason of a warning, as text.
#[derive(Clone, Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Reason {
    text: String,
    consequence: Option<String>,
    explains_errno: bool,
    hides_entries: bool,
    includes_errno: bool,
    pub(crate) hint: Option<String>,
}

impl Reason {
    /// A reason with its hint.
    pub(crate) fn new(text: String, hint: Option<String>) -> Reason {
        Reason {
            text,
            consequence: None,
            explains_errno: false,
            hides_entries: false,
            includes_errno: false,
            hint,
        }
    }
}

impl WarningReason for Reason {
    fn consequence(&self) -> Option<Cow<'_, str>> {
        self.consequence.as_deref().map(Cow::Borrowed)
    }

    fn explains_errno(&self) -> bool {
        self.explains_errno
    }

    fn hides_entries(&self) -> bool {
        self.hides_entries
    }

    fn includes_errno(&self) -> bool {
        self.includes_errno
    }
}

impl RankWarning {
    /// Converts a warning and its hint into the form that is sent to rank 0.
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
                hides_entries: reason.hides_entries(),
                includes_errno: reason.includes_errno(),
                hint: hint.map(Cow::into_owned),
            },
        }
    }

    /// The warning as rank 0 reports it. `place`, the rank and its host, is appended to the reason,
    /// because the cause may be on that host.
    pub(crate) fn at_place(mut self, place: &str) -> Warning {
        self.reason.text = format!("{} ({place})", self.reason.text);
        Warning {
            path: self.path,
            gate: self.gate.and_then(|nth| Gate::ALL.get(nth).copied()),
            errno: self.errno.map(Errno),
            ..Warning::general(self.reason)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_of_another_rank_names_it() {
        let kind = walk::WarningKind::ReadDirectory;
        let warning = Warning::failed(b"/a", Gate::Getdents64, Errno::EIO, kind);
        let sent = RankWarning::new(&warning, Some("see the log".into()));
        let shown = sent.at_place("rank 1 on node7");
        let message = "cannot read the directory (rank 1 on node7); the rest of it is skipped";
        assert_eq!(shown.message(), message);
        assert_eq!((shown.gate, shown.errno), (warning.gate, warning.errno));
        let reason = shown.reason::<Reason>().unwrap();
        assert_eq!(reason.hint.as_deref(), Some("see the log"));
    }
}
