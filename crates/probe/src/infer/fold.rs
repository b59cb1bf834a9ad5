//! Blocks in a series of small calls in order through a file: the first call in each block costs
//! more.
//!
//! The series is folded at each power of two. Where the blocks are p calls long, all the first
//! calls of p stand out from the others; at p / 2 only half of them do, so that the smallest p at
//! which they stand out is the block. This needs no threshold on any single time, and one wild
//! sample moves nothing.

use super::peaks::Period;
use super::robust::{chance, quantile, sorted};

/// With fewer firsts than this, chance looks like that too often.
const FEWEST: usize = 7;
/// How much longer than the others the firsts must take, at least.
const STANDS_OUT: f64 = 1.02;
/// How far the lower ones of the firsts must rise, as a share of how far most of them do, where
/// there are too few to tell it otherwise: half of the firsts of half a block do not rise at all.
/// (Those of a block may rise less than those of a page that is two blocks long.)
const TOGETHER: f64 = 1.0 / 3.0;

/// The smallest power of two at which the first of each group stands out; `None` where there is
/// none.
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
