//! Text fragments that several parts of the report share.

use account::ledger::Sum;
use show::table::{TableStyle, wrap};
use show::units::{duration, plural};

/// The mean time of a call.
pub(super) fn average(sum: &Sum) -> String {
    match sum.calls {
        0 => "-".to_owned(),
        _ => duration(sum.ms_per_call() / 1e3),
    }
}

pub(super) fn line(style: TableStyle, text: &str) -> String {
    wrap(text, style.width.unwrap_or(80)) + "\n"
}

pub(super) fn call_count(calls: u64) -> String {
    plural(calls, "call", "calls")
}
