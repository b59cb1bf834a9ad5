//! From samples to what made them: pure functions, that say nothing rather than guess.
//!
//! | room | what is in it |
//! |---|---|
//! | [`robust`] | quantiles, spreads, and the odds that chance does as well |
//! | [`fold`](mod@fold) | blocks in a series of small calls |
//! | [`comb`](mod@comb) | the period of a long series |
//! | [`peaks`](mod@peaks) | peaks, and the distance at which they come |
//! | [`knee`](mod@knee) | where a level series begins to rise |
//! | [`windows`](mod@windows) | readahead's windows, from how much of a file is in memory after each read |
//! | [`series`] | each of the paper's series, judged |

pub mod comb;
pub mod fold;
pub mod knee;
pub mod peaks;
pub mod robust;
pub mod series;
pub mod windows;

/// A period of a series, in samples; `low` and `high` are the same where it is a whole number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Period {
    /// The shortest distance that was seen.
    pub low: f64,
    /// The longest.
    pub high: f64,
    /// Place of the peaks within the period.
    pub phase: usize,
    /// How sure it is: 1 less the chance that noise does as well.
    pub confidence: f64,
}

#[cfg(test)]
mod tests;
