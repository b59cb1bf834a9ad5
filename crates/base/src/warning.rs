//! Warnings about something skipped or inconsistent, with a typed reason.

use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

use gate::{Errno, Gate};

/// The reason of a [`Warning`]: each crate defines its own, as an enum `WarningKind`.
///
/// `Display` says what could not be done ("cannot open the directory") or was found, and
/// [`consequence`](WarningReason::consequence) the effect ("its contents are skipped"). The command
/// line adds a hint: a library does not know the options.
pub trait WarningReason: std::error::Error + Any + Send + Sync {
    /// The effect on the result, in words.
    fn consequence(&self) -> Option<Cow<'_, str>> {
        None
    }

    /// Whether `Display` explains the errno, and is printed after it: `Stale file handle: its
    /// server is gone`. Otherwise the errno comes last: `cannot open the directory: Permission
    /// denied`.
    fn explains_errno(&self) -> bool {
        false
    }

    /// Whether entries may exist that were not found: at the path of the warning or below it, or
    /// anywhere if the warning has no path.
    fn hides_entries(&self) -> bool {
        false
    }

    /// Whether `Display` includes the errno, or explains it well enough to omit it.
    fn includes_errno(&self) -> bool {
        false
    }
}

/// Something skipped or found wrong: an element of `warnings` in the JSON.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Warning {
    pub path: Option<Vec<u8>>,
    /// The system call that failed.
    pub gate: Option<Gate>,
    pub errno: Option<Errno>,
    pub reason: Arc<dyn WarningReason>,
}

/// A bounded list of warnings: an untrusted tree may cause any number, with paths of any length.
#[derive(Debug, Default)]
pub struct Warnings {
    kept: Vec<Warning>,
    /// The total bytes of the paths.
    bytes: usize,
    more: u64,
}

impl Warnings {
    /// The maximum total bytes of paths.
    const BYTES: usize = 8 << 20;

    /// Adds a warning. If there are `most` already, or its path does not fit, the warning is only
    /// counted.
    pub fn push(&mut self, warning: Warning, most: usize) {
        let bytes = self.bytes + warning.path.as_ref().map_or(0, Vec::len);
        if self.kept.len() < most && bytes <= Warnings::BYTES {
            self.bytes = bytes;
            self.kept.push(warning);
        } else {
            self.more += 1;
        }
    }

    /// The kept warnings, in order of arrival.
    pub fn kept(&self) -> &[Warning] {
        &self.kept
    }

    /// Puts warnings back that were taken, in front of those that were added since then.
    pub fn put_back(&mut self, mut taken: Vec<Warning>) {
        let lengths = taken
            .iter()
            .map(|warning| warning.path.as_ref().map_or(0, Vec::len));
        self.bytes += lengths.sum::<usize>();
        taken.append(&mut self.kept);
        self.kept = taken;
    }

    /// Takes all kept warnings, with one about the number of dropped ones, if any.
    pub fn take_all<R: WarningReason>(&mut self, of_others: impl FnOnce(u64) -> R) -> Vec<Warning> {
        let (mut all, more) = self.take();
        if more > 0 {
            all.push(Warning::general(of_others(more)));
        }
        all
    }

    /// Takes all kept warnings, and the number of dropped ones.
    fn take(&mut self) -> (Vec<Warning>, u64) {
        let Warnings { kept, more, .. } = std::mem::take(self);
        (kept, more)
    }
}

impl Warning {
    /// A warning about a failed system call on `path`.
    pub fn failed(path: &[u8], gate: Gate, errno: Errno, reason: impl WarningReason) -> Warning {
        Warning {
            gate: Some(gate),
            errno: Some(errno),
            ..Warning::about(path, reason)
        }
    }

    /// A warning about `path` without a failed system call.
    pub fn about(path: &[u8], reason: impl WarningReason) -> Warning {
        Warning {
            path: Some(path.to_vec()),
            ..Warning::general(reason)
        }
    }

    /// A warning about the operation as a whole.
    pub fn general(reason: impl WarningReason) -> Warning {
        Warning {
            path: None,
            gate: None,
            errno: None,
            reason: Arc::new(reason),
        }
    }

    /// Whether entries may exist that were not found: at the path of the warning or below it, or
    /// anywhere if the warning has no path.
    pub fn hides_entries(&self) -> bool {
        self.gate.is_some() || self.reason.hides_entries()
    }

    /// The reason, if its type is `T`.
    pub fn reason<T: WarningReason>(&self) -> Option<&T> {
        let reason: &dyn Any = &*self.reason;
        reason.downcast_ref()
    }

    /// The reason and its consequence in words, without path, errno and hint.
    pub fn message(&self) -> String {
        match self.reason.consequence() {
            Some(consequence) => format!("{}; {consequence}", self.reason),
            None => self.reason.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot open the directory")]
    struct OpenFailure;

    impl WarningReason for OpenFailure {
        fn consequence(&self) -> Option<Cow<'_, str>> {
            Some("its contents are skipped".into())
        }
    }

    #[derive(Debug, thiserror::Error)]
    #[error("its server is gone")]
    struct ServerGone;

    impl WarningReason for ServerGone {}

    #[test]
    fn reason_is_downcast_by_type() {
        let warning = Warning::failed(b"/x", Gate::Openat, Errno::EACCES, OpenFailure);
        assert!(
            warning.reason::<OpenFailure>().is_some() && warning.reason::<ServerGone>().is_none()
        );
        let message = "cannot open the directory; its contents are skipped";
        assert_eq!(warning.message(), message);
        assert_eq!(Warning::general(ServerGone).message(), "its server is gone");
    }

    #[test]
    fn warnings_that_do_not_fit_are_counted() {
        let mut warnings = Warnings::default();
        let long = vec![b'x'; Warnings::BYTES / 4];
        (0..6).for_each(|_| warnings.push(Warning::about(&long, ServerGone), 100));
        let (kept, more) = warnings.take();
        assert_eq!((kept.len(), more), (4, 2));
        warnings.put_back(kept);
        warnings.push(Warning::about(&long, ServerGone), 100);
        warnings.push(Warning::general(ServerGone), 100);
        assert_eq!((warnings.kept().len(), warnings.take().1), (5, 1));
        (0..6).for_each(|_| warnings.push(Warning::about(b"x", ServerGone), 4));
        assert_eq!((warnings.kept().len(), warnings.take().1), (4, 2));
    }
}
