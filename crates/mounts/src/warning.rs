//! Something that was skipped or found wrong, with a typed reason.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use gate::{Errno, Gate};

/// The reason of a [`Warning`]: each crate defines its own, as an enum `WarningKind`.
///
/// A reason has up to two parts. `Display` says what could not be done ("cannot open the
/// directory") or what was found. [`consequence`](WarningReason::consequence) says what follows
/// ("what is in it is left out"). The command line adds a hint, which depends on the reason and
/// the errno; a library knows no flag to hint at.
pub trait WarningReason: std::error::Error + Any + Send + Sync {
    /// What follows from it.
    fn consequence(&self) -> Option<Cow<'_, str>> {
        None
    }

    /// Whether `Display` explains the errno, and is to be read after it: `Stale file handle: its
    /// server is gone`. By default `Display` names an action that failed, and the errno comes
    /// after it: `cannot open the directory: Permission denied`.
    fn explains_errno(&self) -> bool {
        false
    }
}

/// Something that was skipped or found wrong: one of `warnings` in the JSON.
#[derive(Clone, Debug)]
pub struct Warning {
    /// The file that it is about.
    pub path: Option<Vec<u8>>,
    /// The system call that failed.
    pub gate: Option<Gate>,
    /// How it failed.
    pub errno: Option<Errno>,
    /// Why.
    pub reason: Arc<dyn WarningReason>,
}

impl Warning {
    /// A system call on `path` that failed.
    pub fn failed(path: &[u8], gate: Gate, errno: Errno, reason: impl IntoReason) -> Warning {
        Warning {
            gate: Some(gate),
            errno: Some(errno),
            ..Warning::about(path, reason)
        }
    }

    /// Something about `path`, where no system call failed.
    pub fn about(path: &[u8], reason: impl IntoReason) -> Warning {
        Warning {
            path: Some(path.to_vec()),
            ..Warning::general(reason)
        }
    }

    /// Something about the operation as a whole.
    pub fn general(reason: impl IntoReason) -> Warning {
        Warning {
            path: None,
            gate: None,
            errno: None,
            reason: reason.into_reason(),
        }
    }

    /// The reason, if it is a `T`.
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

/// What a [`Warning`] can be made with: a typed reason, or for the time being a text.
pub trait IntoReason {
    /// The reason.
    fn into_reason(self) -> Arc<dyn WarningReason>;
}

impl<R: WarningReason> IntoReason for R {
    fn into_reason(self) -> Arc<dyn WarningReason> {
        Arc::new(self)
    }
}

impl IntoReason for String {
    fn into_reason(self) -> Arc<dyn WarningReason> {
        Arc::new(Text(self))
    }
}

impl IntoReason for &str {
    fn into_reason(self) -> Arc<dyn WarningReason> {
        self.to_owned().into_reason()
    }
}

/// A reason that is only a text. It goes away once every crate has its own `WarningKind`.
#[derive(Debug)]
pub struct Text(pub String);

impl Text {
    /// The action that failed and its consequence; or everything.
    fn parts(&self) -> (&str, Option<&str>) {
        match self.0.split_once("; ") {
            Some((action, consequence)) if !self.explains_errno() => (action, Some(consequence)),
            _ => (&self.0, None),
        }
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.parts().0)
    }
}

impl std::error::Error for Text {}

impl WarningReason for Text {
    fn consequence(&self) -> Option<Cow<'_, str>> {
        self.parts().1.map(Cow::Borrowed)
    }

    fn explains_errno(&self) -> bool {
        !self.0.starts_with("cannot ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot open the directory")]
    struct Unopened;

    impl WarningReason for Unopened {
        fn consequence(&self) -> Option<Cow<'_, str>> {
            Some("what is in it is left out".into())
        }
    }

    #[test]
    fn a_reason_is_found_by_its_type() {
        let warning = Warning::failed(b"/x", Gate::Openat, Errno::EACCES, Unopened);
        assert!(warning.reason::<Unopened>().is_some() && warning.reason::<Text>().is_none());
        let message = "cannot open the directory; what is in it is left out";
        assert_eq!(warning.message(), message);
        let text = Warning::failed(b"/x", Gate::Openat, Errno::EACCES, message);
        assert_eq!(text.message(), message);
        assert_eq!(text.reason.to_string(), Unopened.to_string());
    }
}
