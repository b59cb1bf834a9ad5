//! What was skipped or found wrong.

use gate::{Errno, Gate};

/// Something that was skipped or found wrong: one of `warnings` in the JSON.
#[derive(Clone, Debug)]
pub struct Warning {
    /// The name it is about.
    pub path: Option<Vec<u8>>,
    /// The call that failed.
    pub gate: Option<Gate>,
    /// How it failed.
    pub errno: Option<Errno>,
    /// What it means, and what to do next.
    pub message: String,
}

impl Warning {
    /// A call on `path` that failed; `message` says what was being done and what to do next.
    pub fn failed(path: &[u8], gate: Gate, errno: Errno, message: impl Into<String>) -> Warning {
        Warning {
            path: Some(path.to_vec()),
            gate: Some(gate),
            errno: Some(errno),
            message: message.into(),
        }
    }

    /// Something about `path` that is no failed call.
    pub fn about(path: &[u8], message: impl Into<String>) -> Warning {
        Warning {
            path: Some(path.to_vec()),
            gate: None,
            errno: None,
            message: message.into(),
        }
    }

    /// Something about the whole.
    pub fn general(message: impl Into<String>) -> Warning {
        Warning {
            path: None,
            gate: None,
            errno: None,
            message: message.into(),
        }
    }
}
