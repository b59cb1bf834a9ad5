//! `readahead`: data that the kernel fetches before it is read.
//!
//! A file is read sequentially, page by page. The cached pages after each read (cachestat or
//! mincore) show every window that the kernel fetches: the first, the growth, the steady size, and
//! how early the next window is fetched. From times alone, the steady window is found as in the
//! paper: a read takes longer if it triggers the next window.
//!
//! Both measurements are repeated without readahead (`FADV_RANDOM`) as a control: a window that
//! persists has another cause, such as blocks larger than a page.

use std::time::Duration;

use gate::Fd;
use gate::cache::page_size;
use gate::fs::pread64;

use crate::activity::Activity;
use crate::context::Context;
use crate::dir::Scratch;
use crate::error::{Error, Purpose, Result};
use crate::finding::{Finding, Note, Outcome, Value, find_value, or_unknown};
use crate::infer::comb::CYCLES;
use crate::infer::robust::{median, mode};
use crate::infer::series::evaluate;
use crate::infer::windows::{readahead as infer_windows, windows};
use crate::io::{CHECKED, fill, read_at, reopen_random, times};
use crate::names::{Kind, Quantity};
use crate::residency::{Residency, drop_cache};
use crate::samples::Series;

/// Lengths of the test file in bytes: the first is enough for windows of the usual size. The second
/// has sixteen windows of 4 MiB, and is only used if the first has too few windows: on a slow
/// machine, the second takes all the time.
const LENGTHS: [u64; 2] = [16 << 20, 64 << 20];
/// Number of windows in a file that is long enough to find windows by residency and by time.
const ENOUGH: u64 = 24;
/// Minimum length of the file in bytes: in a shorter file, windows do not reach their steady size.
const LEAST: u64 = 1 << 20;
/// Number of trials, each of which reads the file.
const TRIALS: usize = 3;

/// Duration in nanoseconds of a read above which the read did more than copy a page, unless that is
/// usual on this machine.
const FETCHES: f64 = 50_000.0;
/// Multiple of the usual time above which a read has fetched pages, for slow machines.
const TIMES_USUAL: f64 = 3.0;
/// Number of recent reads that define the usual time.
const RECENT: usize = 32;
/// Duration in nanoseconds of a read above which the read has triggered or awaited a large window.
const LONG: f64 = 100_000.0;
/// Pause after a long read, in which a disk can complete the pending requests.
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum sum of the pauses in one trial.
const MOST_PAUSES: Duration = Duration::from_secs(1);

pub(crate) fn readahead(context: &mut Context<'_>) -> Result<Vec<Finding>> {
    let truth = context.dir.readahead();
    let by_residency = Quantity::READAHEAD_WINDOWS;
    let quantities = [&by_residency[..], &[Quantity::ReadaheadSteadyByTime]].concat();
    let found = or_unknown(measure(context), &quantities)?;
    // The kernel reports only the steady window.
    let compared = |finding: Finding| match finding.quantity {
        Quantity::ReadaheadSteady => finding.compared_with(truth.clone(), 0.0),
        Quantity::ReadaheadSteadyByTime => finding.by_time().compared_with(truth.clone(), 0.0),
        _ => finding,
    };
    Ok(found.into_iter().map(compared).collect())
}

fn measure(context: &mut Context<'_>) -> Result<Vec<Finding>> {
    let dir = context.dir;
    let scratch = dir.scratch()?;
    // The file is written once, and read once per trial, once for windows and once as a control.
    let affordable = context.bytes_left() / (3 + TRIALS as u64);
    let room = dir.room();
    let whole = |len: u64| len.min(room) >> 20 << 20;
    let short = whole(LENGTHS[0].min(affordable));
    // The limit of bytes must be enough for both files.
    let long = whole(LENGTHS[1].min(affordable.saturating_sub(short)));
    if short < LEAST {
        return Err(match affordable < LEAST {
            true => Error::OutOfBytes,
            false => Error::NoRoom { bytes: LEAST },
        });
    }
    let found = measure_with(context, &scratch, short, short < long)?;
    let (mut found, len) = match found {
        Some(found) => (found, short),
        None => {
            let found = measure_with(context, &scratch, long, false)?;
            (found.unwrap_or_default(), long)
        }
    };
    let is_limited = long < whole(LENGTHS[1]);
    found
        .iter_mut()
        .filter(|_| is_limited)
        .for_each(|finding| name_limit(finding, len));
    Ok(found)
}

/// Names the limit of bytes as the reason why the windows in a file of `len` bytes were too few.
fn name_limit(finding: &mut Finding, len: u64) {
    if let Outcome::Unknown(why) = &mut finding.outcome
        && matches!(
            why,
            Error::NoSteadyWindow { .. }
                | Error::WindowTooLong { .. }
                | Error::NoPeriod(_)
                | Error::NoBlock(_)
        )
    {
        *why = Error::LimitedFile {
            len,
            why: Box::new(why.clone()),
        };
    }
}

/// Measures with a file of `len` bytes. `None` if the file has too few windows, and `can_follow`
/// says that the caller can repeat the measurement with a longer file.
fn measure_with(
    context: &mut Context<'_>,
    scratch: &Scratch<'_>,
    len: u64,
    can_follow: bool,
) -> Result<Option<Vec<Finding>>> {
    let mebibytes = len >> 20;
    context.begin(Activity::ReadaheadFile { mebibytes })?;
    fill(context, &scratch.file, len)?;
    let mut residency = Residency::new(scratch, len)?;
    if !drop_cache(&scratch.file, len, residency.as_mut())? {
        return Err(Error::NotDropped);
    }
    let mut found = match &mut residency {
        Some(residency) => {
            let by = residency.seen_by();
            context.begin(Activity::ReadaheadWindows { by })?;
            by_residency(context, scratch, len, residency)?
        }
        None => or_unknown(Err(Error::ResidencyUnknown), &Quantity::READAHEAD_WINDOWS)?,
    };
    let steady = match find_value(&found, Quantity::ReadaheadSteady) {
        Some(Value::Number(bytes)) => Some(*bytes as u64),
        _ => None,
    };
    let is_none = found.iter().any(Finding::is_none);
    if can_follow && !is_none && steady.is_none_or(|bytes| len / bytes.max(1) < ENOUGH) {
        context.series.clear();
        return Ok(None);
    }
    context.begin(Activity::ReadaheadTimes)?;
    // With too few windows in the file, the comb would find a finer structure, such as half windows
    // or folios.
    let is_too_long = |bytes: &u64| len / 4 * 3 / bytes.max(&1) < CYCLES as u64;
    let window = steady.or(match residency {
        Some(_) => context.series.last().map(largest_window),
        None => context.dir.readahead().and_then(|truth| match truth.value {
            Value::Number(bytes) => Some(bytes as u64),
            _ => None,
        }),
    });
    let by_time = match window.filter(is_too_long) {
        _ if is_none => Err(Error::NoReadahead),
        Some(window) => Err(Error::WindowTooLong { window, len }),
        None => by_time(context, scratch, len, residency.as_mut()).map(|finding| vec![finding]),
    };
    let mut by_time = or_unknown(by_time, &[Quantity::ReadaheadSteadyByTime])?;
    let seen = find_value(&found, Quantity::ReadaheadSteady);
    for finding in &mut by_time {
        if seen.is_some() && finding.value().is_some_and(|by_time| Some(by_time) != seen) {
            finding.note = Some(Note::ContradictedByResidency);
        }
    }
    found.extend(by_time);
    Ok(Some(found))
}

/// Bytes of the largest window in a series of [`Kind::Cached`].
fn largest_window(cached: &Series) -> u64 {
    let windows = windows(&to_pages(&cached.trials[0]));
    let largest = windows.iter().map(|window| window.pages).max();
    largest.unwrap_or(0).saturating_mul(cached.step)
}

fn to_pages(cached: &[f64]) -> Vec<u64> {
    cached.iter().map(|v| *v as u64).collect()
}

/// Finds all windows from page residency, in several trials, most of which must agree.
fn by_residency(
    context: &mut Context<'_>,
    scratch: &Scratch<'_>,
    len: u64,
    residency: &mut Residency,
) -> Result<Vec<Finding>> {
    let page = page_size() as u64;
    let mut trials: Vec<Vec<f64>> = Vec::new();
    // Begin with a part of the file: its whole length is only needed for the largest windows.
    let mut part = (len / 16).max(LEAST.min(len));
    loop {
        let cached = match read_pages(context, scratch, len, part, residency, |scratch| {
            scratch.reopen()
        }) {
            // If time has run out, the finished trials are enough evidence, even a single one.
            Err(Error::OutOfTime) if !trials.is_empty() => break,
            cached => cached?,
        };
        let seen = infer_windows(&to_pages(&cached), len / page);
        let is_enough = seen.is_some_and(|seen| seen.agree.0 >= 4);
        if !is_enough && part < len {
            part = (part * 4).min(len);
            trials.clear();
            continue;
        }
        trials.push(cached);
        if trials.len() == TRIALS || !is_enough {
            break;
        }
    }
    let series = |trial: &Vec<f64>| Series::from_trial(Kind::Cached, page, trial.clone());
    let judged: Vec<Vec<Finding>> = trials
        .iter()
        .map(|trial| evaluate(&series(trial)))
        .collect();
    let steady = |found: &Vec<Finding>| match find_value(found, Quantity::ReadaheadSteady) {
        Some(Value::Number(bytes)) => Some(*bytes as u64),
        _ => None,
    };
    let (most, agreeing) =
        mode(&judged.iter().filter_map(steady).collect::<Vec<_>>()).unwrap_or_default();
    let shown = judged.iter().position(|found| steady(found) == Some(most));
    let shown = shown.unwrap_or(0);
    let count = trials.len();
    context.series.push(Series::from_trial(
        Kind::Cached,
        page,
        trials.swap_remove(shown),
    ));
    let sure = agreeing as f64 / count as f64;
    let note = Note::SeenBy(residency.seen_by());
    let qualified = |mut finding: Finding| {
        if let Outcome::Found { confidence, .. } = &mut finding.outcome {
            *confidence *= sure;
        }
        finding.with_note(note).with_trials(count)
    };
    let found = judged.into_iter().nth(shown).unwrap_or_default();
    if let Some(window) = steady(&found) {
        let part = LEAST.min(len);
        let control = read_pages(context, scratch, len, part, residency, reopen_random)?;
        let control = infer_windows(&to_pages(&control), len / page);
        if control.is_some_and(|seen| seen.steady * page == window) {
            let none = or_unknown(Err(Error::NoReadahead), &Quantity::READAHEAD_WINDOWS)?;
            return Ok(none.into_iter().map(qualified).collect());
        }
    }
    Ok(found.into_iter().map(qualified).collect())
}

/// Reopens the file, with or without readahead.
type ReopenFunction = fn(&Scratch<'_>) -> Result<Fd>;

/// Reads a part of the file page by page; returns the number of cached pages after each read.
fn read_pages(
    context: &mut Context<'_>,
    scratch: &Scratch<'_>,
    len: u64,
    part: u64,
    residency: &mut Residency,
    reopen: ReopenFunction,
) -> Result<Vec<f64>> {
    let page = page_size();
    drop_cache(&scratch.file, len, Some(residency))?;
    let reader = reopen(scratch)?;
    context.spend(part, 0)?;
    let mut buffer = vec![0; page];
    let (mut cached, mut recent) = (Vec::new(), RecentReads::default());
    let (mut prefix, end) = (0, len / page as u64);
    for at in (0..part).step_by(page) {
        if at % CHECKED == 0 {
            context.check()?;
        }
        let begun = context.clock.now();
        read_at(&reader, &mut buffer, at)?;
        let was_long = recent.is_long(context.clock.since(begun));
        prefix = residency.prefix(prefix, end, was_long)?;
        cached.push(prefix as f64);
    }
    Ok(cached)
}

/// Times of the most recent reads.
#[derive(Default)]
struct RecentReads {
    times: Vec<f64>,
    /// The number of reads so far.
    count: usize,
}

impl RecentReads {
    /// Whether a read of `took` nanoseconds has fetched pages. The limit depends on the usual time:
    /// a fixed limit would hold for every read in an emulated machine, where copying a page takes
    /// that long, and each read would be waited for.
    fn is_long(&mut self, took: f64) -> bool {
        let usual = median(&self.times);
        match self.times.get_mut(self.count % RECENT) {
            Some(oldest) => *oldest = took,
            None => self.times.push(took),
        }
        self.count += 1;
        took > FETCHES.max(TIMES_USUAL * usual)
    }
}

/// Finds the steady window from times alone.
fn by_time(
    context: &mut Context<'_>,
    scratch: &Scratch<'_>,
    len: u64,
    mut residency: Option<&mut Residency>,
) -> Result<Finding> {
    let page = page_size() as u64;
    let mut trials = Vec::new();
    for _ in 0..TRIALS {
        match time_pages(context, scratch, (len, len), &mut residency, |scratch| {
            scratch.reopen()
        }) {
            Ok(times) => trials.push(times),
            Err(Error::OutOfTime) if !trials.is_empty() => break,
            Err(why) => return Err(why),
        }
    }
    let samples = Series::from_trials(Kind::Blocks, page, trials);
    let mut judged = context.judge_one(samples)?;
    judged.quantity = Quantity::ReadaheadSteadyByTime;
    if let Outcome::Found {
        value: Value::Number(blocks),
        ..
    } = &mut judged.outcome
    {
        // Twice the minimum length, since the comb ignores the first quarter.
        let part = (*blocks as u64 * page * 2 * CYCLES as u64).min(len);
        let control = time_pages(context, scratch, (len, part), &mut residency, reopen_random)?;
        let control = evaluate(&Series::from_trial(Kind::Blocks, page, control));
        if let Some(Value::Number(again)) = find_value(&control, Quantity::FetchedAtOnce)
            && is_same_period(*again, *blocks)
        {
            let period = *blocks as u64 * page;
            return Ok(Finding {
                outcome: Outcome::Unknown(Error::NotReadahead { period }),
                ..judged
            });
        }
        *blocks *= page as f64;
    }
    Ok(judged)
}

/// Whether two periods are equal within 1/64. A larger tolerance would confuse a window of 128 KiB
/// (32 pages) with the 31 pages after which the kernel flushes a folio_batch to its LRU lists.
fn is_same_period(a: f64, b: f64) -> bool {
    (a - b).abs() * 64.0 <= b
}

/// The times of reading each page in a part of the file.
fn time_pages(
    context: &mut Context<'_>,
    scratch: &Scratch<'_>,
    (len, part): (u64, u64),
    residency: &mut Option<&mut Residency>,
    reopen: ReopenFunction,
) -> Result<Vec<f64>> {
    let page = page_size();
    let mut buffer = vec![0; page];
    drop_cache(&scratch.file, len, residency.as_deref_mut())?;
    let reader = reopen(scratch)?;
    context.spend(part, 0)?;
    // Pause after long reads: otherwise, reads within a window would wait at each folio, as
    // regularly as at the beginning of a window.
    let mut left = MOST_PAUSES.min(context.time_left() / 20);
    let pause = |took: f64| {
        if took > LONG && left >= PAUSE {
            std::thread::sleep(PAUSE);
            left -= PAUSE;
        }
    };
    let read = |at| pread64(&reader, &mut buffer, at);
    times(context, Purpose::Read, (part, page), read, pause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_window_is_that_of_the_ramp_where_none_is_steady() {
        let cached = [4.0, 4.0, 12.0, 12.0, 28.0, 28.0, 60.0];
        let series = Series::from_trial(Kind::Cached, 4096, cached.to_vec());
        assert_eq!(largest_window(&series), 32 * 4096);
    }

    #[test]
    fn limit_of_bytes_is_named_where_windows_are_too_few() {
        let window = 4 << 20;
        let named = |why: Error| {
            let unknown = Outcome::Unknown(why);
            let mut finding = Finding::new(Quantity::ReadaheadSteadyByTime, unknown);
            name_limit(&mut finding, 16 << 20);
            finding.obstacle().unwrap().to_string()
        };
        let len = 16 << 20;
        assert_eq!(
            named(Error::WindowTooLong { window, len }),
            "windows of 4 MiB are too few in a file of 16 MiB to be found by time; \
             the byte limit allows no file larger than 16 MiB"
        );
        assert_eq!(named(Error::OutOfTime), Error::OutOfTime.to_string());
    }

    #[test]
    fn periods_are_the_same_within_a_64th() {
        assert!(is_same_period(31.0, 31.0) && is_same_period(510.0, 512.0));
        assert!(!is_same_period(31.0, 32.0) && !is_same_period(16.0, 32.0));
    }

    #[test]
    fn long_reads_are_told_from_those_of_a_slow_machine() {
        let long = |usual: f64, fetching: f64| {
            let mut recent = RecentReads::default();
            let took = (0..200).map(|n| if n % 40 == 39 { fetching } else { usual });
            took.filter(|&took| recent.is_long(took)).count()
        };
        assert_eq!(long(1_500.0, 60_000.0), 5);
        assert_eq!(long(1_500.0, 20_000.0), 0);
        // Of the slow machine's reads, the first one counts as long, too, because no usual time is
        // known yet.
        assert_eq!(long(80_000.0, 400_000.0), 6);
    }
}
