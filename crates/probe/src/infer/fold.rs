//! Finds the block size in a series of small consecutive calls, of which the first in each block
//! costs more.
//!
//! The series is folded at each power of two. If blocks are p calls long, the first call of every
//! group of p calls stands out; with groups of p / 2 calls, only half of the first calls do. So the
//! block size is the smallest p at which the first calls stand out. This needs no threshold on any
//! single time, and is robust against single outliers.

use super::peaks::Period;
use super::robust::{chance, quantile, sorted};

/// Minimum number of groups of calls; in fewer groups, noise too often looks like a block.
const FEWEST: usize = 7;
/// Minimum ratio of the times of first calls to the times of the other calls.
const STANDS_OUT: f64 = 1.02;
/// Minimum rise of the lower quartile of the first calls' times, as a share of their median rise;
/// decides if there are few groups. In groups of half the block size, half of the first calls do
/// not rise at all. (The first call of a block may rise less than the first call of a page that
/// contains two blocks.)
const TOGETHER: f64 = 1.0 / 3.0;

/// The smallest power of two at which the first call of each group stands out; `None` if no power
/// of two has this property.
pub(crate) fn fold(samples: &[f64]) -> Option<Period> {
    let candidates = (1..usize::BITS)
        .map(|k| 1_usize << k)
        .take_while(|p| samples.len().div_ceil(*p) >= FEWEST);
    let tested = candidates.clone().count() as f64;
    candidates.into_iter().find_map(|p| {
        let calls = |first: bool| {
            let calls = samples.iter().enumerate();
            sorted(calls.filter(|(i, _)| (i % p == 0) == first).map(|(_, v)| v))
        };
        let (firsts, rest) = (calls(true), calls(false));
        let line = quantile(&rest, 0.75);
        let above = |of: &[f64]| of.iter().filter(|v| **v > line).count();
        let level = quantile(&rest, 0.5);
        let (low, most) = (quantile(&firsts, 0.25), quantile(&firsts, 0.6));
        let lower = &firsts[..firsts.len() / 2];
        let together = low - level >= TOGETHER * (most - level)
            || chance(lower.len(), above(lower), 0.25) * tested < 1e-4 && low >= STANDS_OUT * level;
        let far = low > line && most >= STANDS_OUT * level && together;
        let odds = chance(firsts.len(), above(&firsts), 0.25) * tested;
        (far && odds < 0.01).then_some(Period {
            low: p as f64,
            high: p as f64,
            phase: 0,
            confidence: 1.0 - odds,
        })
    })
}
