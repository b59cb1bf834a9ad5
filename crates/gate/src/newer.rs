//! Calls that older kernels lack, or that a sandbox forbids.
//!
//! The error of a call for some file is no proof that the kernel lacks the call: a file server may
//! return `ENOSYS` or `EPERM` as it likes. So the call is made again on a descriptor that is not
//! open, which reaches no file system: a kernel with the call returns `EBADF`.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::{Errno, Result};

/// A file descriptor that is never open.
pub(crate) const NOT_OPEN: i32 = -1;
/// A file name for [`NOT_OPEN`]. It must be relative: with an absolute name, the kernel would
/// ignore the descriptor.
pub(crate) const ANY_NAME: &CStr = c"none";

const UNKNOWN: u8 = 0;
const PRESENT: u8 = 1;
const MISSING: u8 = 2;

/// Whether the kernel has a call: unknown, present or missing.
pub(crate) struct NewerCall(AtomicU8);

impl NewerCall {
    pub(crate) const fn new() -> NewerCall {
        NewerCall(AtomicU8::new(UNKNOWN))
    }

    /// Whether the kernel was found to lack the call.
    pub(crate) fn is_missing(&self) -> bool {
        self.0.load(Relaxed) == MISSING
    }

    /// Whether an error means that the kernel lacks the call. `ask` makes the call on [`NOT_OPEN`],
    /// at most once in a process (or by each thread, if several check at the same time).
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
        // The error came from a server; the kernel has the call.
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
