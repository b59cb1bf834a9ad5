//! Flags of the process for the treatment of each call besides counting it: timing, charging,
//! delaying. Each call reads the flags once.

use std::sync::atomic::{AtomicU8, Ordering};

static WATCHED: AtomicU8 = AtomicU8::new(0);
const PROFILING: u8 = 1;
const ATTRIBUTING: u8 = 2;
const LIMITING: u8 = 4;

#[inline]
pub(crate) fn only_counting() -> bool {
    WATCHED.load(Ordering::Relaxed) == 0
}

/// Whether calls are timed.
#[inline]
pub fn profiling() -> bool {
    WATCHED.load(Ordering::Relaxed) & PROFILING != 0
}

/// Whether calls are charged to an attribution, with their CPU time.
#[inline]
pub(crate) fn attributing() -> bool {
    WATCHED.load(Ordering::Relaxed) & ATTRIBUTING != 0
}

/// Whether calls are delayed by a limit of the calls per second.
#[inline]
pub(crate) fn limiting() -> bool {
    WATCHED.load(Ordering::Relaxed) & LIMITING != 0
}

/// Starts or stops timing each call.
pub fn set_profiling(on: bool) {
    set(PROFILING, on);
}

pub(crate) fn set_attributing(on: bool) {
    set(ATTRIBUTING, on);
}

pub(crate) fn set_limiting() {
    set(LIMITING, true);
}

fn set(flag: u8, on: bool) {
    if on {
        WATCHED.fetch_or(flag, Ordering::Relaxed)
    } else {
        WATCHED.fetch_and(!flag, Ordering::Relaxed)
    };
}
