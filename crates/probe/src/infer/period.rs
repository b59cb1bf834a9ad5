//! A period of a series.

/// A period of a series, in samples; `low` and `high` are the same where it is a whole number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Period {
    /// The shortest distance that was seen.
    pub low: f64,
    /// The longest.
    pub high: f64,
    /// Index of the peaks within the period.
    pub phase: usize,
    /// How sure it is: 1 less the chance that noise looks like that.
    pub confidence: f64,
}
