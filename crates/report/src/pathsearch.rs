//! The path searches of a command, as the survey prints them.

use serde::Serialize;
use show::name::printable;
use show::table::TableStyle;
use show::units::{duration, plural};

/// Look-ups of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Count {
    /// `PATH`, `ld.so`, ...
    pub kind: &'static str,
    /// The name was there, or could not be asked for.
    pub hits: u64,
    /// It was not there.
    pub misses: u64,
}

/// Sums.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Totals {
    /// Look-ups.
    pub lookups: u64,
    /// Those that missed.
    pub misses: u64,
    /// Seconds in them.
    pub seconds: f64,
}

/// What would help.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fix {
    /// What it is about.
    pub kind: &'static str,
    /// What to do.
    pub change: String,
    /// Misses that the same start would not make.
    pub saves_misses: u64,
    /// Requests that it would not make on the network file system.
    pub saves_requests: u64,
    /// Seconds that these take there.
    pub saves_seconds: f64,
    /// Seconds that those misses took here.
    pub saves_seconds_here: f64,
}

/// What would help, for people; `rtt` is what a request takes that nothing is known of.
pub fn fixes_text(fixes: &[Fix], rtt: f64, style: TableStyle) -> String {
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
    pub fn sentence(&self, rtt: f64) -> String {
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
    pub fn saves(&self) -> String {
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
