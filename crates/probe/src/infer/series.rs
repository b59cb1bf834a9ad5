//! Each of the paper's series, judged: the same for what was just measured and for what is
//! replayed.

use super::comb::comb;
use super::fold::fold;
use super::knee::knee;
use super::peaks::{peaks, spacing};
use super::period::Period;
use super::robust::{least, median, middle, spread};
use super::windows::readahead;
use crate::error::Error;
use crate::finding::{Finding, Method, PeriodBy, Value};
use crate::names::{Kind, Quantity};
use crate::samples::Series;

/// The samples that are judged and drawn: of several trials, the least disturbed at each run.
pub fn combined(series: &Series) -> Vec<f64> {
    match series.kind {
        Kind::Reads | Kind::ReadsAhead | Kind::Writes | Kind::Blocks => least(&series.trials),
        _ => middle(&series.trials),
    }
}

/// The indices of the samples that a figure marks.
pub fn marks(series: &Series) -> Vec<usize> {
    let samples = combined(series);
    match series.kind {
        Kind::Cached => {
            let cached: Vec<u64> = samples.iter().map(|v| *v as u64).collect();
            super::windows::windows(&cached)
                .iter()
                .map(|window| window.at as usize)
                .collect()
        }
        Kind::Passes => knee(&samples).map(|knee| knee.at).into_iter().collect(),
        Kind::Filled => full(&samples, series.step)
            .map(|(_, at)| at)
            .into_iter()
            .collect(),
        _ => peaks(&samples),
    }
}

/// What a series shows.
pub fn judge(series: &Series) -> Vec<Finding> {
    let samples = combined(series);
    let found = match series.kind {
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
    found
        .into_iter()
        .map(|finding| finding.with_trials(series.trials.len()))
        .collect()
}

fn small_calls(series: &Series, samples: &[f64], quantity: Quantity) -> Finding {
    let Series { kind, step, .. } = *series;
    let samples_in_all = samples.len();
    let finding = match fold(samples) {
        Some(period) => {
            let runs = period.low as u64;
            let method = Method::FirstOfGroup {
                kind,
                samples: samples_in_all,
                step,
                runs,
            };
            Finding::known(quantity, runs * step, period.confidence, method)
        }
        None => Finding::unknown(
            quantity,
            Error::NoBlock {
                kind,
                samples: samples_in_all,
                step,
            },
        ),
    };
    finding.by_time()
}

/// The period of a long series by the comb, of a short one by its peaks.
fn period(series: &Series, samples: &[f64]) -> Option<(Period, PeriodBy)> {
    let by_comb = agreed(series, samples).map(|period| (period, PeriodBy::Comb));
    by_comb.or_else(|| spacing(&peaks(samples)).map(|period| (period, PeriodBy::Peaks)))
}

/// What the comb finds in the least times and in most of the trials. Where windows begin at another
/// page in each trial, the least times have no period.
fn agreed(series: &Series, samples: &[f64]) -> Option<Period> {
    let trials = series.trials.iter().filter(|_| series.trials.len() > 1);
    let found: Vec<Period> = [samples]
        .into_iter()
        .chain(trials.map(Vec::as_slice))
        .filter_map(comb)
        .collect();
    let votes = |period: &Period| found.iter().filter(|other| other.low == period.low).count();
    // Of several with as many votes, the first.
    found
        .iter()
        .rev()
        .max_by_key(|period| votes(period))
        .copied()
}

fn blocks(series: &Series, samples: &[f64]) -> Vec<Finding> {
    let (step, reads) = (series.step, samples.len());
    let both = [Quantity::FetchedAtOnce, Quantity::Prefetched];
    let Some((period, by)) = period(series, samples) else {
        let unknown = |quantity| Finding::unknown(quantity, Error::NoPeriod { reads, step });
        return both.map(|quantity| unknown(quantity).by_time()).into();
    };
    let n = period.low as u64;
    let distances: Vec<usize> = peaks(samples)
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .collect();
    let first = match &distances[..] {
        [first, rest @ ..] if *first as u64 != n && rest.iter().all(|d| *d as u64 == n) => {
            Some(*first)
        }
        _ => None,
    };
    let each_nth = Method::EachNth {
        reads,
        step,
        by,
        n,
        first,
    };
    let prefetched = Method::AllButFirst { fetched: n };
    both.into_iter()
        .zip([(n, each_nth), (n - 1, prefetched)])
        .map(|(quantity, (value, method))| {
            Finding::known(quantity, value, period.confidence, method).by_time()
        })
        .collect()
}

fn windows(series: &Series, samples: &[f64]) -> Vec<Finding> {
    let cached: Vec<u64> = samples.iter().map(|v| v.max(0.0) as u64).collect();
    let page = series.step;
    let Some(seen) = readahead(&cached, cached.len() as u64) else {
        let (reads, windows) = (cached.len(), super::windows::windows(&cached).len());
        let why = if windows >= reads && reads > 0 {
            Error::NoReadahead
        } else {
            Error::NoSteadyWindow { reads, windows }
        };
        return [
            Quantity::ReadaheadInitial,
            Quantity::ReadaheadRamp,
            Quantity::ReadaheadSteady,
            Quantity::ReadaheadTrigger,
        ]
        .map(|quantity| Finding::unknown(quantity, why.clone()))
        .into();
    };
    let (alike, windows) = seen.agree;
    let sure = alike as f64 / windows.max(1) as f64;
    let bytes = |pages: u64| pages.saturating_mul(page);
    let ramp = seen.ramp.iter().map(|pages| bytes(*pages)).collect();
    vec![
        Finding::known(
            Quantity::ReadaheadInitial,
            bytes(seen.initial),
            sure,
            Method::AfterFirstRead,
        ),
        Finding::known(
            Quantity::ReadaheadRamp,
            Value::List(ramp),
            sure,
            Method::EachRead,
        ),
        Finding::known(
            Quantity::ReadaheadSteady,
            bytes(seen.steady),
            sure,
            Method::LaterWindows { alike, windows },
        ),
        Finding::known(
            Quantity::ReadaheadTrigger,
            bytes(seen.trigger),
            sure,
            Method::UnreadAtFetch,
        ),
    ]
}

fn passes(series: &Series, samples: &[f64]) -> Finding {
    let finding = match knee(samples) {
        Some(knee) => {
            let bytes = series.bytes_before(knee.at);
            let method = Method::SecondPass {
                bytes,
                step: series.step,
                run: series.runs.get(knee.at).copied().unwrap_or(0),
            };
            Finding::known(Quantity::CacheCapacity, bytes, knee.confidence, method)
        }
        None => {
            let lengths = samples.len();
            Finding::unknown(Quantity::CacheCapacity, Error::NoKnee { lengths })
        }
    };
    finding.by_time()
}

/// The most that was in memory, in bytes, and the index of the sample from which it no longer grew.
fn full(filled: &[f64], step: u64) -> Option<(f64, usize)> {
    let most = filled.iter().copied().fold(0.0, f64::max);
    let at = filled.iter().position(|v| *v >= most * 0.98)?;
    // It has stopped growing if a quarter more was read than stayed in memory.
    let read = filled.len() as f64 * step as f64;
    (most > 0.0 && read >= most * 1.25).then_some((most, at))
}

fn filled(series: &Series, samples: &[f64]) -> Finding {
    let (steps, step) = (samples.len(), series.step);
    match full(samples, step) {
        Some((most, at)) => {
            let later = &samples[at..];
            let level = median(later.iter().copied());
            let sure = 1.0 - (spread(later) / level.max(1.0)).min(1.0);
            let after = at + 1;
            let method = Method::HolesFilled { steps, step, after };
            Finding::known(Quantity::CacheCapacity, most, sure, method)
        }
        None => Finding::unknown(Quantity::CacheCapacity, Error::NotFilled { steps, step }),
    }
}

fn syncs(series: &Series, samples: &[f64]) -> Finding {
    let step = series.step;
    let peaks = peaks(samples);
    let (samples, waits) = (samples.len(), peaks.len());
    let finding = match spacing(&peaks) {
        Some(Period {
            low,
            high,
            confidence,
            ..
        }) => {
            let method = Method::LongSyncs {
                samples,
                step,
                waits,
                low,
                high,
            };
            let bytes = |runs: f64| runs * step as f64;
            let value = if low == high {
                Value::Number(bytes(low))
            } else {
                Value::Range(bytes(low), bytes(high))
            };
            Finding::known(Quantity::ExtentByTime, value, confidence, method)
        }
        None => Finding::unknown(
            Quantity::ExtentByTime,
            Error::NoSyncPeriod {
                samples,
                step,
                waits,
            },
        ),
    };
    finding.by_time()
}
