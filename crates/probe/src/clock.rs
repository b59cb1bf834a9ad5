//! The clock that times system calls.

use gate::clock::{monotonic_raw, rdtscp};
use serde::{Deserialize, Serialize};

/// A clock, and the conversion of its readings to nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub enum Clock {
    /// `CLOCK_MONOTONIC_RAW`.
    #[default]
    Raw,
    /// The processor's time-stamp counter, with the nanoseconds per tick.
    Tsc(f64),
}

impl Clock {
    #[inline]
    pub(crate) fn now(self) -> u64 {
        match self {
            Clock::Raw => monotonic_raw(),
            Clock::Tsc(_) => rdtscp(),
        }
    }

    /// Nanoseconds since an earlier reading.
    #[inline]
    pub(crate) fn since(self, earlier: u64) -> f64 {
        let passed = self.now().wrapping_sub(earlier) as f64;
        match self {
            Clock::Raw => passed,
            Clock::Tsc(tick) => passed * tick,
        }
    }

    /// The name of the clock in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Clock::Raw => "clock-monotonic-raw",
            Clock::Tsc(_) => "tsc",
        }
    }
}
