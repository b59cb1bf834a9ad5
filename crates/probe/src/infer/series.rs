//! Each of the paper's series, judged: the same for what was just measured and for what is
//! replayed.

use super::Period;
use super::comb::comb;
use super::fold::fold;
use super::knee::knee;
use super::peaks::{peaks, spacing};
use super::robust::{least, median, middle, spread};
use super::windows::readahead;
use crate::finding::{Finding, Value};
use crate::samples::{Kind, Series};

/// The samples that are judged and drawn: of several trials, the one that is least disturbed at
/// each place.
pub fn combined(series: &Series) -> Vec<f64> {
    match series.kind {
        Kind::Reads | Kind::ReadsAhead | Kind::Writes | Kind::Blocks => least(&series.trials),
        _ => middle(&series.trials),
    }
}

/// Where a figure of the series has its marks, counted from 0.
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

/// What a series says.
pub fn judge(series: &Series) -> Vec<Finding> {
    let samples = combined(series);
    let found = match series.kind {
        Kind::Reads => vec![small(
            series,
            &samples,
            "page-cache-granule-by-time",
            "reads without readahead",
        )],
        Kind::ReadsAhead => vec![small(
            series,
            &samples,
            "paper-reads",
            "reads with readahead, as in the paper",
        )],
        Kind::Writes => vec![small(
            series,
            &samples,
            "allocation-block-by-time",
            "writes into a hole",
        )],
        Kind::Blocks => blocks(series, &samples),
        Kind::Cached => windows(series, &samples),
        Kind::Passes => vec![passes(series, &samples)],
        Kind::Filled => vec![filled(series, &samples)],
        Kind::Syncs => vec![syncs(series, &samples)],
    };
    found
        .into_iter()
        .map(|finding| finding.tried(series.trials.len()))
        .collect()
}

fn small(series: &Series, samples: &[f64], name: &'static str, what: &str) -> Finding {
    let experiment = series.kind.experiment();
    let step = series.step;
    match fold(samples) {
        Some(period) => {
            let runs = period.low as u64;
            let method = format!(
                "{} {what} of {step} bytes each: the first of each {runs} takes longer, and {runs} x {step} = {}",
                samples.len(),
                runs * step
            );
            Finding::known(experiment, name, "bytes", runs * step, period.confidence, method)
        }
        None => {
            let why = format!(
                "{} {what} of {step} bytes each: no power of two of them begins with one that takes longer",
                samples.len()
            );
            Finding::unknown(experiment, name, "bytes", why)
        }
    }
    .by_time()
}

/// The period of a long series by the comb, of a short one by its peaks.
fn period(series: &Series, samples: &[f64]) -> Option<(Period, &'static str)> {
    let by_comb = || agreed(series, samples).map(|period| (period, "a comb laid over the times"));
    by_comb()
        .or_else(|| spacing(&peaks(samples)).map(|period| (period, "the distances of the peaks")))
}

/// What the comb finds in the least times and in most of the trials: where windows begin elsewhere
/// in one trial than in the others, nothing is left of them in the least times.
fn agreed(series: &Series, samples: &[f64]) -> Option<Period> {
    let trials = series.trials.iter().filter(|_| series.trials.len() > 1);
    let found: Vec<Period> = [samples]
        .into_iter()
        .chain(trials.map(Vec::as_slice))
        .filter_map(comb)
        .collect();
    let voices = |period: &Period| found.iter().filter(|other| other.low == period.low).count();
    // Of several with as many, the first.
    found
        .iter()
        .rev()
        .max_by_key(|period| voices(period))
        .copied()
}

fn blocks(series: &Series, samples: &[f64]) -> Vec<Finding> {
    let experiment = series.kind.experiment();
    let (step, reads) = (series.step, samples.len());
    let Some((period, by)) = period(series, samples) else {
        let why = format!(
            "{reads} reads of {step} bytes each: those that take longer come at no one distance"
        );
        let unknown = |name| Finding::unknown(experiment, name, "blocks", why.clone()).by_time();
        return vec![unknown("fetched-at-once"), unknown("prefetched")];
    };
    let n = period.low as u64;
    let bytes = n * step;
    let mut method = format!(
        "{reads} reads of {step} bytes each, {by}: each {n}th takes longer; {n} x {step} = {bytes} bytes come at one time"
    );
    let first: Vec<usize> = peaks(samples)
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .collect();
    if let [odd, rest @ ..] = &first[..]
        && *odd as u64 != n
        && rest.iter().all(|d| *d as u64 == n)
    {
        method.push_str(&format!(
            ". Only the first distance is {odd}: the first window is opened by a read that finds nothing, the others by one that \
             comes upon the mark which the window before has set"
        ));
    }
    let ahead = format!(
        "of the {n} that come at one time, 1 was asked for; the other {} are there before anybody asks",
        n - 1
    );
    let known = |name, value: u64, method| {
        Finding::known(experiment, name, "blocks", value, period.confidence, method).by_time()
    };
    vec![
        known("fetched-at-once", n, method),
        known("prefetched", n - 1, ahead),
    ]
}

fn windows(series: &Series, samples: &[f64]) -> Vec<Finding> {
    let experiment = series.kind.experiment();
    let cached: Vec<u64> = samples.iter().map(|v| v.max(0.0) as u64).collect();
    let page = series.step;
    let all = [
        "readahead-initial",
        "readahead-ramp",
        "readahead-steady",
        "readahead-trigger",
    ];
    let Some(seen) = readahead(&cached, cached.len() as u64) else {
        let shown = super::windows::windows(&cached);
        let why = if shown.len() >= cached.len() && !cached.is_empty() {
            "each read had just its own page fetched: there is no readahead".to_owned()
        } else {
            format!(
                "in {} reads the windows did not come to one length: {} of them",
                cached.len(),
                shown.len()
            )
        };
        return all
            .map(|name| Finding::unknown(experiment, name, "bytes", why.clone()))
            .into();
    };
    let sure = seen.agree.0 as f64 / seen.agree.1.max(1) as f64;
    let known = |name, value: Value, method: String| {
        Finding::known(experiment, name, "bytes", value, sure, method)
    };
    let [initial, ramp, steady, trigger] = all;
    let list = Value::List(
        seen.ramp
            .iter()
            .map(|pages| pages.saturating_mul(page))
            .collect(),
    );
    vec![
        known(
            initial,
            seen.initial.saturating_mul(page).into(),
            "what was in memory when the first page had been read".to_owned(),
        ),
        known(
            ramp,
            list,
            "what each read had the kernel fetch, until it was always the same".to_owned(),
        ),
        known(
            steady,
            seen.steady.saturating_mul(page).into(),
            format!(
                "what each later window held: {} of {} were alike",
                seen.agree.0, seen.agree.1
            ),
        ),
        known(
            trigger,
            seen.trigger.saturating_mul(page).into(),
            "how much was still unread when the next steady window was fetched".to_owned(),
        ),
    ]
}

fn passes(series: &Series, samples: &[f64]) -> Finding {
    let experiment = series.kind.experiment();
    let step = series.step;
    match knee(samples) {
        Some(knee) => {
            let bytes = series.bytes_before(knee.at);
            let method = format!(
                "the second time through up to {bytes} bytes costs the same for each {step}; from run {} on it costs more: \
                 not all was still in memory",
                series.runs.get(knee.at).unwrap_or(&0)
            );
            Finding::known(experiment, "cache-capacity", "bytes", bytes, knee.confidence, method)
        }
        None => {
            let why = format!("the second time through costs the same a step for each of {} lengths", samples.len());
            Finding::unknown(experiment, "cache-capacity", "bytes", why)
        }
    }
    .by_time()
}

/// The most that was in memory, in bytes, and the run at which it no longer grew.
fn full(filled: &[f64], step: u64) -> Option<(f64, usize)> {
    let most = filled.iter().copied().fold(0.0, f64::max);
    let at = filled.iter().position(|v| *v >= most * 0.98)?;
    // It has stopped growing when as much again as a quarter of it was read, and did not stay.
    let read = filled.len() as f64 * step as f64;
    (most > 0.0 && read >= most * 1.25).then_some((most, at))
}

fn filled(series: &Series, samples: &[f64]) -> Finding {
    let experiment = series.kind.experiment();
    match full(samples, series.step) {
        Some((most, at)) => {
            let later = &samples[at..];
            let level = median(later.iter().copied());
            let sure = 1.0 - (spread(later) / level.max(1.0)).min(1.0);
            let method = format!(
                "{} steps of {} bytes of a file's holes were read; what stayed in memory no longer grew after step {}",
                samples.len(),
                series.step,
                at + 1
            );
            Finding::known(experiment, "cache-capacity", "bytes", most, sure, method)
        }
        None => {
            let why = format!(
                "all of {} steps of {} bytes stayed in memory",
                samples.len(),
                series.step
            );
            Finding::unknown(experiment, "cache-capacity", "bytes", why)
        }
    }
}

fn syncs(series: &Series, samples: &[f64]) -> Finding {
    let experiment = series.kind.experiment();
    let step = series.step as f64;
    let peaks = peaks(samples);
    match spacing(&peaks) {
        Some(period) => {
            let method = format!(
                "{} times {} bytes were written and waited for; {} waits were long, {} to {} apart",
                samples.len(),
                series.step,
                peaks.len(),
                period.low,
                period.high
            );
            let value = if period.low == period.high {
                Value::Number(period.low * step)
            } else {
                Value::Range(period.low * step, period.high * step)
            };
            Finding::known(experiment, "extent-by-time", "bytes", value, period.confidence, method)
        }
        None => {
            let why = format!(
                "no signal here: {} times {} bytes were written and waited for; {} waits were long, and at no one distance",
                samples.len(),
                series.step,
                peaks.len()
            );
            Finding::unknown(experiment, "extent-by-time", "bytes", why)
        }
    }
    .by_time()
}
