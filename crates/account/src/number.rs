//! Bounds of what can have been measured.

/// A picosecond. No clock resolves less, and no call takes less.
const SHORTEST: f64 = 1e-12;
/// Thirty million years. More is not a time.
const LONGEST: f64 = 1e15;

/// Whether a number can be a time or a count.
pub(crate) fn is_sane(value: f64) -> bool {
    (0.0..=LONGEST).contains(&value)
}

/// Whether a time or a count is not 0, or next to it.
pub(crate) fn is_measurable(value: f64) -> bool {
    value >= SHORTEST
}
