//! Interruption by signals, for code that must clean up first.

use std::sync::atomic::{AtomicI32, Ordering};

use libc::{c_int, c_void};

use crate::signals::{HandledSignals, disposition, forget_handlers, set_disposition};

/// The signals that ask this process to stop.
const SIGNALS: [c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
/// The first signal that has arrived; 0 for none.
static ARRIVED: AtomicI32 = AtomicI32::new(0);

/// Until [`Guard`] is dropped, the first SIGINT, SIGTERM or SIGHUP is only recorded, for
/// [`pending_signal`]; a second signal ends the process at once. Ignored signals stay ignored.
pub fn defer_signals() -> Guard {
    extern "C" fn on_signal(signal: c_int, _: *const libc::siginfo_t, _: *const c_void) {
        ARRIVED.store(signal, Ordering::SeqCst);
    }
    // SAFETY: the handler stores one word.
    Guard(unsafe { HandledSignals::new(SIGNALS, on_signal, libc::SA_RESETHAND) })
}

/// The recorded signal that asks this process to stop, if any.
pub fn pending_signal() -> Option<i32> {
    Some(ARRIVED.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
}

/// Records a signal that ended another process, as if the signal had arrived here, if it is SIGINT,
/// SIGTERM or SIGHUP and no signal is recorded yet. Raising the signal instead would end this
/// process if the same signal also arrives here, as it does for a whole process group.
pub fn record(signal: i32) {
    if SIGNALS.contains(&signal) {
        let _ = ARRIVED.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
    }
}

/// Ends [`defer_signals`] in a child that has nothing to clean up: SIGINT, SIGTERM and SIGHUP end
/// the child.
pub fn end_hold() {
    forget_handlers(SIGNALS);
}

/// Changes [`defer_signals`] in a child that must clean up, so that repeated signals are recorded,
/// too: the child gets both the terminal's signal and the one that its parent passes on.
pub fn record_all() {
    for signal in SIGNALS {
        let mut action = disposition(signal);
        action.sa_flags &= !libc::SA_RESETHAND;
        // SAFETY: the pointer is to a live sigaction, whose handler stays the same.
        unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    }
}

/// Ends [`defer_signals`] when nothing is left to clean up, instead of dropping [`Guard`]: the next
/// signal ends the process. If a signal has arrived, SIGTERM is ignored, since another process may
/// be about to pass the same signal on ([`crate::process::Child::ask_to_stop`]).
pub fn let_go(guard: Guard) {
    if pending_signal().is_some() {
        set_disposition(libc::SIGTERM, libc::SIG_IGN);
    }
    end_hold();
    std::mem::forget(guard);
}

/// Calls `start`, which starts a command that must ignore SIGINT, SIGTERM and SIGHUP, so that this
/// process can use the command to clean up: a child inherits ignored signals. A signal that arrives
/// during `start` is lost.
pub fn ignored_by_child<T>(start: impl FnOnce() -> T) -> T {
    extern "C" fn never(_: c_int, _: *const libc::siginfo_t, _: *const c_void) {}
    // SAFETY: the handler does nothing; it records the dispositions, and is replaced at once.
    let before = unsafe { HandledSignals::new(SIGNALS, never, 0) };
    for signal in SIGNALS {
        set_disposition(signal, libc::SIG_IGN);
    }
    let started = start();
    drop(before);
    started
}

/// Keeps the signal dispositions from before [`defer_signals`]. Dropping the guard restores them,
/// and raises the recorded signal.
pub struct Guard(HandledSignals<3>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.put_back();
        let arrived = ARRIVED.swap(0, Ordering::SeqCst);
        if arrived != 0 {
            // SAFETY: no pointers. Usually this ends the process.
            unsafe { libc::raise(arrived) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_signal_is_recorded_and_raised_again() {
        let status = crate::process::Child::fork(|| {
            let guard = defer_signals();
            // SAFETY: no pointers.
            unsafe { libc::raise(libc::SIGTERM) };
            if pending_signal() == Some(libc::SIGTERM) {
                drop(guard);
            }
        })
        .unwrap()
        .wait(std::time::Duration::from_secs(600));
        assert_eq!(
            status.unwrap().status,
            None,
            "a signal should have ended it"
        );
    }

    #[test]
    fn a_signal_can_arrive_after_it_was_recorded() {
        let status = crate::process::Child::fork(|| {
            let guard = defer_signals();
            let asked_after = |signal| {
                record(signal);
                pending_signal()
            };
            // Only the first signal that asks to stop is recorded.
            let signals = [libc::SIGKILL, libc::SIGINT, libc::SIGHUP];
            let is_first =
                signals.map(asked_after) == [None, Some(libc::SIGINT), Some(libc::SIGINT)];
            // SAFETY: no pointers.
            unsafe { libc::raise(libc::SIGINT) };
            if !is_first || pending_signal() != Some(libc::SIGINT) {
                crate::process::leave(1);
            }
            drop(guard);
        })
        .unwrap()
        .wait(std::time::Duration::from_secs(600));
        assert_eq!(status.unwrap().status, None, "SIGINT should have ended it");
    }
}
