//! What matters most of a survey, and what to do about it.

use super::{Point, Survey};

/// Five findings, or fewer where there is less to say; what matters most first.
pub fn of(_survey: &Survey<'_>) -> Vec<Point> {
    Vec::new()
}

/// Five pieces of advice, or fewer.
pub fn advice(_survey: &Survey<'_>) -> Vec<Point> {
    Vec::new()
}
