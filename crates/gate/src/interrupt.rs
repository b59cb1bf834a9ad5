//! Being asked to stop, by one that has something to put away first.

use std::sync::atomic::{AtomicI32, Ordering};

use libc::{c_int, c_void};

use crate::signals::{Handled, forget_handlers};

/// The signals that are noted.
const NOTED: [c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
/// The signal that has come; 0 while there was none.
static CAME: AtomicI32 = AtomicI32::new(0);

/// To be said by one who has nothing left to put away, in the place of dropping [`Guard`]: the next
/// signal ends the process. But if one has come, SIGTERM does not: another process may be about to
/// pass on the same once more ([`crate::process::Child::ask_to_stop`]).
pub fn let_go(guard: Guard) {
    if asked().is_some() {
        // SAFETY: to ignore is always a valid disposition.
        unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
    }
    heed();
    std::mem::forget(guard);
}

/// In a child that has nothing to put away: what the parent would only note ends it, as if [`hold`]
/// had not been called.
pub fn heed() {
    forget_handlers(NOTED);
}

/// From now until [`Guard`] is dropped, the first SIGINT, SIGTERM or SIGHUP is only noted, for
/// [`asked`]; a second one ends the process at once. What is ignored stays ignored.
pub fn hold() -> Guard {
    extern "C" fn on_signal(signal: c_int, _: *const libc::siginfo_t, _: *const c_void) {
        CAME.store(signal, Ordering::SeqCst);
    }
    // SAFETY: the handler stores one word.
    Guard(unsafe { Handled::new(NOTED, on_signal, libc::SA_RESETHAND) })
}

/// In a child that has something to put away, and whose parent passes on what it is asked: what
/// [`hold`] had noted only the first time is noted however often it comes, since a terminal asks
/// both.
pub fn note() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: zero is a valid sigaction, all pointers are to live ones, and of the handler no
        // more is changed than how often it is called.
        unsafe {
            let mut now: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &raw mut now);
            now.sa_flags &= !libc::SA_RESETHAND;
            libc::sigaction(signal, &raw const now, std::ptr::null_mut());
        }
    }
}

/// The signal that asks this process to stop, if one has come.
pub fn asked() -> Option<i32> {
    Some(CAME.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
}

/// What signals did before [`hold`]; they do it again when this is dropped, and the one that has
/// come does it then.
pub struct Guard(Handled<3>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.put_back();
        let came = CAME.swap(0, Ordering::SeqCst);
        if came != 0 {
            // SAFETY: no pointers. As a rule this ends the process.
            unsafe { libc::raise(came) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_noted_and_then_does_what_it_did() {
        let status = crate::process::Child::fork(|| {
            let guard = hold();
            // SAFETY: no pointers.
            unsafe { libc::raise(libc::SIGTERM) };
            if asked() == Some(libc::SIGTERM) {
                drop(guard);
            }
        })
        .unwrap()
        .wait(std::time::Duration::from_secs(5));
        assert_eq!(
            status.unwrap().status,
            None,
            "a signal should have ended it"
        );
    }
}
