//! Inference from samples: pure functions that return nothing rather than guess.
//!
//! | module | what it infers |
//! |---|---|
//! | [`robust`] | quantiles, spreads, and the odds of chance |
//! | [`period`] | the type of a period |
//! | [`fold`](mod@fold) | blocks in a series of small calls |
//! | [`comb`](mod@comb) | the period of a long series |
//! | [`peaks`](mod@peaks) | peaks, and their distance |
//! | [`knee`](mod@knee) | where a level series begins to rise |
//! | [`windows`](mod@windows) | readahead's windows, from how much of a file is in memory after each read |
//! | [`series`] | each of the paper's series |

pub mod comb;
pub mod fold;
pub mod knee;
pub mod peaks;
pub mod period;
pub mod robust;
pub mod series;
pub mod windows;

#[cfg(test)]
mod tests;
