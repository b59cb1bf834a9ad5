//! The path searches of a command, as the survey prints them.

use ::show::name::printable;
use ::show::table::TableStyle;
use ::show::units::{duration, plural};
use serde::Serialize;

/// Look-ups of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Count {
    /// `PATH`, `ld.so`, ...
    pub(crate) kind: &'static str,
    /// The name was there, or could not be asked for.
    pub(crate) hits: u64,
    /// It was not there.
    pub(crate) misses: u64,
}

/// Sums.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Totals {
    /// Look-ups.
    pub(crate) lookups: u64,
    /// Those that missed.
    pub(crate) misses: u64,
    /// Seconds in them.
    pub(crate) seconds: f64,
}

/// What would help.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Fix {
    /// What it is about.
    pub(crate) kind: &'static str,
    /// What to do.
    pub(crate) change: String,
    /// Misses that the same start would not make.
    pub(crate) saves_misses: u64,
    /// Requests that it would not make on the network file system.
    pub(crate) saves_requests: u64,
    /// Seconds that these take there.
    pub(crate) saves_seconds: f64,
    /// Seconds that those misses took here.
    pub(crate) saves_seconds_here: f64,
}

/// What would help, for people; `rtt` is what a request takes that nothing is known of.
pub(crate) fn fixes_text(fixes: &[Fix], rtt: f64, style: TableStyle) -> String {
    let mut text = style.heading("What would help");
    if fixes.is_empty() {
        text.push_str("Nothing: no search of it misses.\n");
    }
    for fix in fixes {
        text.push_str(&style.wrapped(&format!("- {}", fix.sentence(rtt))));
    }
    text
}

impl Fix {
    /// What to do, and what it saves.
    pub(crate) fn sentence(&self, rtt: f64) -> String {
        let change = printable(self.change.as_bytes());
        let each = if self.saves_requests > 0 {
            self.saves_seconds / self.saves_requests as f64
        } else {
            rtt
        };
        format!(
            "{change}: {}, {} at {} each.",
            self.saves(),
            duration(self.saves_seconds),
            duration(each)
        )
    }

    /// What it saves.
    pub(crate) fn saves(&self) -> String {
        let requests = plural(self.saves_requests, "request", "requests");
        match self.saves_misses {
            0 => format!("saves {requests}"),
            n => format!(
                "saves {} ({} here), {requests}",
                plural(n, "miss", "misses"),
                duration(self.saves_seconds_here)
            ),
        }
    }
}
