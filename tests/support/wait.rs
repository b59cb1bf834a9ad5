//! Waiting for an event. Only a hang exceeds the limit.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// The time limit of every wait: a test fails rather than hangs.
pub(crate) const LIMIT: Duration = Duration::from_secs(600);

/// Waits until `ready` returns true. `what` is a clause: "the server has two requests".
pub(crate) fn wait_until(what: &str, mut ready: impl FnMut() -> bool) {
    let started = Instant::now();
    while !ready() {
        assert!(started.elapsed() < LIMIT, "not after {LIMIT:?}: {what}");
        sleep(Duration::from_millis(5));
    }
}

/// Whether a process sleeps in the kernel until an event.
pub(crate) fn is_asleep(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name of the program, in parentheses, can contain any character.
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with('S'))
}
