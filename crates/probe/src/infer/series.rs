//! Evaluates the paper's series, both measured and replayed ones.

use super::comb::comb;
use super::fold::fold;
use super::knee::knee;
use super::peaks::{Period, peaks, spacing};
use super::robust::{combine_runs, median, spread};
use super::windows::readahead;
use crate::error::Error;
use crate::finding::{Finding, Method, PeriodBy, Value};
use crate::names::{Kind, Quantity};
use crate::samples::Series;

/// The samples to evaluate and draw: for each run, the minimum of all trials for times of calls,
/// and the median for other samples.
pub fn combined(series: &Series) -> Vec<f64> {
    match series.kind {
        Kind::Reads | Kind::ReadsAhead | Kind::Writes | Kind::Blocks => {
            // Other load only makes a call longer, so take the minimum.
            let least = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
            combine_runs(&series.trials, least)
        }
        _ => combine_runs(&series.trials, |values| median(values)),
    }
}

/// The indices of the samples to mark in a figure.
pub fn marks(series: &Series) -> Vec<usize> {
    let samples = combined(series);
    match series.kind {
        Kind::Cached => {
            let cached: Vec<u64> = samples.iter().map(|v| *v as u64).collect();
            let windows = super::windows::windows(&cached);
            windows.iter().map(|window| window.at as usize).collect()
        }
        Kind::Passes => knee(&samples).into_iter().map(|knee| knee.at).collect(),
        Kind::Filled => full(&samples, series.step)
            .into_iter()
            .map(|(_, at)| at)
            .collect(),
        _ => peaks(&samples),
    }
}

/// Evaluates a series; returns at least one finding.
pub fn evaluate(series: &Series) -> Vec<Finding> {
    let samples = combined(series);
    let mut found = match series.kind {
        Kind::Reads => vec![small_calls(
            series,
            &samples,
            Quantity::PageCacheGranuleByTime,
        )],
        Kind::ReadsAhead => vec![small_calls(series, &samples, Quantity::PaperReads)],
        Kind::Writes => vec![small_calls(
            series,
            &samples,
            Quantity::AllocationBlockByTime,
        )],
        Kind::Blocks => blocks(series, &samples),
        Kind::Cached => windows(series, &samples),
        Kind::Passes => vec![passes(series, &samples)],
        Kind::Filled => vec![filled(series, &samples)],
        Kind::Syncs => vec![syncs(series, &samples)],
    };
    let by_time = !matches!(series.kind, Kind::Cached | Kind::Filled);
    for finding in &mut found {
        finding.by_time = by_time;
        finding.trials = u32::try_from(series.trials.len()).unwrap_or(u32::MAX);
    }
    found
}

fn small_calls(series: &Series, samples: &[f64], quantity: Quantity) -> Finding {
    let Some(period) = fold(samples) else {
        return Finding::unknown(quantity, Error::NoBlock(series.count()));
    };
    let (samples, runs) = (series.count(), period.low as u64);
    let method = Method::FirstOfGroup { samples, runs };
    Finding::known(quantity, runs * series.step, period.confidence, method)
}

/// The period of a long series by the comb, of a short one by its peaks.
fn period(series: &Series, samples: &[f64]) -> Option<(Period, PeriodBy)> {
    let by_comb = agreed(series, samples).map(|period| (period, PeriodBy::Comb));
    by_comb.or_else(|| spacing(&peaks(samples)).map(|period| (period, PeriodBy::Peaks)))
}

/// The period that the comb finds most often in the trials and in the minimum of the trials. If
/// windows begin at different pages in each trial, the minimum has no period.
fn agreed(series: &Series, samples: &[f64]) -> Option<Period> {
    let trials = series.trials.iter().filter(|_| series.trials.len() > 1);
    let all = [samples].into_iter().chain(trials.map(Vec::as_slice));
    let found: Vec<Period> = all.filter_map(comb).collect();
    let votes = |period: &Period| found.iter().filter(|other| other.low == period.low).count();
    // Of periods with equal votes, take the first.
    found
        .iter()
        .rev()
        .max_by_key(|period| votes(period))
        .copied()
}

fn blocks(series: &Series, samples: &[f64]) -> Vec<Finding> {
    let both = [Quantity::FetchedAtOnce, Quantity::Prefetched];
    let Some((period, by)) = period(series, samples) else {
        let unknown = |quantity| Finding::unknown(quantity, Error::NoPeriod(series.count()));
        return both.map(unknown).into();
    };
    let n = period.low as u64;
    let peaks = peaks(samples);
    let distances: Vec<usize> = peaks.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let first = match &distances[..] {
        [first, rest @ ..] if *first as u64 != n && rest.iter().all(|d| *d as u64 == n) => {
            Some(*first)
        }
        _ => None,
    };
    let each_nth = Method::EachNth {
        reads: series.count(),
        by,
        n,
        first,
    };
    let prefetched = Method::AllButFirst { fetched: n };
    both.into_iter()
        .zip([(n, each_nth), (n - 1, prefetched)])
        .map(|(quantity, (value, how))| Finding::known(quantity, value, period.confidence, how))
        .collect()
}

fn windows(series: &Series, samples: &[f64]) -> Vec<Finding> {
    let cached: Vec<u64> = samples.iter().map(|v| v.max(0.0) as u64).collect();
    let quantities = Quantity::READAHEAD_WINDOWS;
    let fetches = super::windows::windows(&cached).len();
    let unknown = |why: Error| {
        let of = |quantity| Finding::unknown(quantity, why.clone());
        quantities.map(of).into()
    };
    // If every read fetches pages, there is no readahead.
    if fetches >= cached.len() && fetches > 0 {
        return unknown(Error::NoReadahead);
    }
    let Some(seen) = readahead(&cached, cached.len() as u64) else {
        let (reads, windows) = (cached.len(), fetches);
        return unknown(Error::NoSteadyWindow { reads, windows });
    };
    let (alike, windows) = seen.agree;
    let sure = alike as f64 / windows.max(1) as f64;
    let bytes = |pages: u64| pages.saturating_mul(series.step);
    let ramp = seen.ramp.iter().map(|pages| bytes(*pages)).collect();
    let values: [(Value, Method); 4] = [
        (bytes(seen.initial).into(), Method::AfterFirstRead),
        (Value::List(ramp), Method::EachRead),
        (
            bytes(seen.steady).into(),
            Method::LaterWindows { alike, windows },
        ),
        (bytes(seen.trigger).into(), Method::UnreadAtFetch),
    ];
    quantities
        .into_iter()
        .zip(values)
        .map(|(quantity, (value, method))| Finding::known(quantity, value, sure, method))
        .collect()
}

fn passes(series: &Series, samples: &[f64]) -> Finding {
    let Some(knee) = knee(samples) else {
        let lengths = samples.len();
        return Finding::unknown(Quantity::CacheCapacity, Error::NoKnee { lengths });
    };
    let bytes = series.bytes_before(knee.at);
    let method = Method::SecondPass {
        bytes,
        step: series.step,
        run: series.runs.get(knee.at).copied().unwrap_or(0),
    };
    Finding::known(Quantity::CacheCapacity, bytes, knee.confidence, method)
}

/// The maximum of cached bytes, and the index of the first sample within 2 % of it.
fn full(filled: &[f64], step: u64) -> Option<(f64, usize)> {
    let most = filled.iter().copied().fold(0.0, f64::max);
    let at = filled.iter().position(|v| *v >= most * 0.98)?;
    // The cache stopped growing if at least a quarter more was read than stayed in memory.
    let read = filled.len() as f64 * step as f64;
    (most > 0.0 && read >= most * 1.25).then_some((most, at))
}

fn filled(series: &Series, samples: &[f64]) -> Finding {
    let steps = series.count();
    let Some((most, at)) = full(samples, series.step) else {
        return Finding::unknown(Quantity::CacheCapacity, Error::NotFilled(steps));
    };
    let later = &samples[at..];
    let level = median(later);
    let sure = 1.0 - (spread(later) / level.max(1.0)).min(1.0);
    let after = at + 1;
    let method = Method::HolesFilled { steps, after };
    Finding::known(Quantity::CacheCapacity, most, sure, method)
}

fn syncs(series: &Series, samples: &[f64]) -> Finding {
    let peaks = peaks(samples);
    let (samples, waits) = (series.count(), peaks.len());
    let Some(period) = spacing(&peaks) else {
        let why = Error::NoSyncPeriod { samples, waits };
        return Finding::unknown(Quantity::ExtentByTime, why);
    };
    let Period { low, high, .. } = period;
    let method = Method::LongSyncs {
        samples,
        waits,
        low,
        high,
    };
    let bytes = |runs: f64| runs * series.step as f64;
    let value = if low == high {
        Value::Number(bytes(low))
    } else {
        Value::Range(bytes(low), bytes(high))
    };
    Finding::known(Quantity::ExtentByTime, value, period.confidence, method)
}
