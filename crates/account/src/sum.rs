//! A number of calls, and the time in them.

use meter::call::{Call, Total};

/// Numbers of calls and errors, and their time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// The number of calls.
    pub calls: u64,
    /// The number of failed calls.
    pub errors: u64,
    /// Time of the calls, in nanoseconds.
    pub nanos: u64,
}

impl Sum {
    /// Milliseconds per call.
    pub fn ms_per_call(&self) -> f64 {
        self.nanos as f64 / 1e6 / self.calls.max(1) as f64
    }

    /// The time as a percentage of `nanos`.
    pub fn percent_of(&self, nanos: u64) -> f64 {
        match nanos {
            0 => 0.0,
            nanos => 100.0 * self.nanos as f64 / nanos as f64,
        }
    }

    pub(crate) fn add(&mut self, call: &Call<'_>) {
        self.calls += 1;
        self.errors += u64::from(call.errno().is_some());
        self.nanos += call.nanos;
    }

    pub(crate) fn join(&mut self, other: &Sum) {
        self.calls += other.calls;
        self.errors += other.errors;
        self.nanos += other.nanos;
    }
}

impl From<&Total> for Sum {
    fn from(total: &Total) -> Sum {
        Sum {
            calls: total.calls,
            errors: total.errors.iter().map(|(_, times)| times).sum(),
            nanos: total.nanos,
        }
    }
}
