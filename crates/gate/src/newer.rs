//! Calls that not every kernel has, or that a sandbox forbids.
//!
//! What a call returns for a file is no proof: a file server may answer with `ENOSYS` or `EPERM` as it
//! likes. So the call is made once more on a descriptor that is not open, which reaches no file system: the
//! kernel returns `EBADF` if it has the call.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::{Errno, Result};

/// A descriptor that is never open.
pub(crate) const NOT_OPEN: i32 = -1;
/// A name in [`NOT_OPEN`]. With an absolute one, no descriptor would be used.
pub(crate) const ANY_NAME: &CStr = c"none";

const UNKNOWN: u8 = 0;
const PRESENT: u8 = 1;
const MISSING: u8 = 2;

/// What is known of a call.
pub(crate) struct NewerCall(AtomicU8);

impl NewerCall {
    pub(crate) const fn new() -> NewerCall {
        NewerCall(AtomicU8::new(UNKNOWN))
    }

    /// Whether the call was found missing.
    pub(crate) fn is_missing(&self) -> bool {
        self.0.load(Relaxed) == MISSING
    }

    /// Whether an error of the call means that it is missing. `ask` makes the call on [`NOT_OPEN`], at most once in a
    /// process (by each thread, if several find out at the same time).
    pub(crate) fn explains<T>(&self, errno: Errno, ask: impl FnOnce() -> Result<T>) -> bool {
        let is_refusal = |errno| matches!(errno, Errno::ENOSYS | Errno::EPERM);
        if !is_refusal(errno) {
            return false;
        }
        if self.0.load(Relaxed) == UNKNOWN {
            let is_missing = ask().is_err_and(is_refusal);
            self.0
                .store(if is_missing { MISSING } else { PRESENT }, Relaxed);
        }
        self.is_missing()
    }

    #[cfg(test)]
    pub(crate) fn pretend(&self, is_missing: bool) {
        self.0
            .store(if is_missing { MISSING } else { UNKNOWN }, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::NewerCall;
    use crate::Errno;

    #[test]
    fn only_the_kernel_says_that_a_call_is_missing() {
        let call = NewerCall::new();
        let refuse = |errno| move || Err::<(), _>(errno);
        assert!(!call.explains(Errno::EACCES, || -> crate::Result<()> { unreachable!() }));
        // A server's answer; the kernel has the call.
        assert!(!call.explains(Errno::ENOSYS, refuse(Errno::EBADF)));
        assert!(
            !call.explains(Errno::EPERM, refuse(Errno::ENOSYS)),
            "asked once"
        );
        assert!(!call.is_missing());
        for errno in [Errno::ENOSYS, Errno::EPERM] {
            let call = NewerCall::new();
            assert!(call.explains(errno, refuse(errno)));
            assert!(call.is_missing());
        }
    }
}
