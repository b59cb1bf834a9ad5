//! `cache`: the capacity of the page cache for this process.
//!
//! The paper reads a file twice, at growing lengths, until the second pass becomes slower. That
//! takes minutes on a disk, and evicts the cached pages of other processes. Here the **holes of a
//! sparse file** are read: they fill the page cache without disk I/O, and cachestat shows when the
//! cached part stops growing. A process in a temporary cgroup with a memory limit does that, so
//! that no other process loses pages. A process that already has a limit uses its own cgroup.
//! [`CacheOptions::paper`] selects the paper's method, with a search instead of every length.
//!
//! A second finding is the limit of the page cache outside of such a cgroup. This limit is only
//! looked up, so it is also found where the page cache must not be filled.

use std::time::Duration;

use base::child::{Bounds, NoRun, run_in_child};
use base::log::Log;
use gate::cache::page_size;
use gate::file::{kernel_field, read_kernel};
use gate::fs::{Advice, fadvise64};
use gate::machine::memory;

use crate::activity::Activity;
use crate::cgroup::{Cgroup, ChargedBytes, TemporaryCgroup};
use crate::context::Context;
use crate::error::{Error, Purpose, Result};
use crate::finding::{
    CacheBound, Finding, Note, Outcome, ReportedValue, Source, Value, or_unknown,
};
use crate::infer::robust::median;
use crate::io::{extend, fill, read_at};
use crate::names::{Kind, Quantity};
use crate::report::{CacheOptions, IoBytes, Limits};
use crate::residency::{Residency, drop_cache};
use crate::samples::Series;

/// Relative tolerance between the measured capacity of the page cache and the memory limit, because
/// the limit also covers other memory.
const TOLERANCE: f64 = 0.05;
/// Maximum and minimum memory limit, in bytes, up to which the page cache is filled.
const MOST: u64 = 4 << 30;
const LEAST: u64 = 16 << 20;
/// Memory limit in bytes up to which readahead is turned off.
const SMALL: u64 = 128 << 20;
/// Number of steps in which holes are read; the steps together read a third more than the limit.
const STEPS: usize = 128;
/// Size in 64-bit words of the log for the child's samples, or for its error.
const ROOM: usize = 16 * STEPS;

/// The samples, and the bytes charged to the cgroup when the largest part of the file was cached;
/// `None` with the paper's method.
type Samples = (Vec<(u64, f64)>, Option<ChargedBytes>);

pub(crate) fn cache(context: &mut Context<'_>, options: CacheOptions) -> Result<Vec<Finding>> {
    let dir = context.dir;
    let mut found = Vec::new();
    if !dir.unnamed_only {
        let measured = measure(context, options).map(|finding| vec![finding]);
        found = or_unknown(measured, &[Quantity::CacheCapacity])?;
        for finding in &mut found {
            finding.by_time = options.paper;
        }
    }
    if !dir.is_in_memory() {
        let cgroup = Cgroup::current(&dir.table).and_then(|cgroup| cgroup.limit());
        found.push(bound(cgroup, memory(), available()));
    }
    Ok(found)
}

/// The bound of the page cache of this process: the limit of its cgroup, or else all memory.
fn bound(cgroup: Option<(u64, String)>, memory: Option<u64>, available: Option<u64>) -> Finding {
    let (bound, truth) = match (cgroup, memory) {
        (Some((limit, file)), all) if all.is_none_or(|all| limit < all) => {
            let truth = ReportedValue::new(limit, Source::File(file));
            (CacheBound::Cgroup, Some(truth))
        }
        (_, all) => {
            let truth = all.map(|bytes| ReportedValue::new(bytes, Source::Sysinfo));
            (CacheBound::Memory(available), truth)
        }
    };
    Finding::new(Quantity::CacheLimit, Outcome::LookedUp(bound)).compared_with(truth, 0.0)
}

/// `MemAvailable` of /proc/meminfo, in bytes.
fn available() -> Option<u64> {
    let text = read_kernel(c"/proc/meminfo").ok()?;
    let kib: u64 = kernel_field(&text, "MemAvailable:")?.parse().ok()?;
    Some(kib << 10)
}

/// The cgroup in which the cache is filled, and its limit.
struct Setting {
    limit: u64,
    /// The path of the control file that has the memory limit.
    file: String,
    /// The cgroup, if it is a temporary one.
    own: Option<TemporaryCgroup>,
}

/// Chooses the cgroup of this process, if its limit can be filled, or creates one.
fn choose_cgroup(
    cgroup: &Cgroup,
    options: CacheOptions,
    affordable: u64,
    available: u64,
) -> Result<Setting> {
    let current = cgroup.limit().filter(|_| options.limit.is_none());
    if let Some((limit, file)) = current.filter(|(limit, _)| *limit <= MOST.min(available)) {
        let own = None;
        return Ok(Setting { limit, file, own });
    }
    let usual = (256 << 20).min(available / 8).min(affordable);
    let limit = options.limit.unwrap_or(usual);
    let limit = limit.next_multiple_of(page_size() as u64);
    if !(LEAST..=MOST.min(available.max(LEAST))).contains(&limit) {
        let least = LEAST;
        return Err(Error::CgroupLimit { limit, least });
    }
    let own = cgroup.create_child(limit).map_err(Error::CgroupRefused)?;
    let (file, own) = (own.limit_file(), Some(own));
    Ok(Setting { limit, file, own })
}

fn measure(context: &mut Context<'_>, options: CacheOptions) -> Result<Finding> {
    let dir = context.dir;
    if dir.is_in_memory() {
        return Err(Error::InMemory);
    }
    drop(dir.scratch()?);
    let cgroup = Cgroup::current(&dir.table).ok_or(Error::NoCgroup)?;
    let available = available().unwrap_or(0);
    let paper = options.paper;
    // The paper's method reads and writes about fifteen times the limit.
    let affordable = match paper {
        true => context.bytes_left() / 16,
        false => MOST,
    };
    let Setting { limit, file, own } = choose_cgroup(&cgroup, options, affordable, available)?;
    if paper && limit > affordable {
        return Err(Error::PassesTooLarge { limit });
    }
    context.begin(Activity::FillCache {
        own_cgroup: own.is_some(),
        limit,
        two_passes: paper,
    })?;
    let charged = || cgroup.charged(&file);
    // In a cgroup that is not temporary, fill the cache in this process: a child process would only
    // take memory from the measured cgroup.
    let (samples, at_most) = match &own {
        Some(own) => fill_in(own, context, paper, limit, &charged)?,
        None => fill_here(context, paper, limit, &charged)?,
    };
    // The limit also covers other files, such as fathom's executable (mapped pages are reclaimed
    // last), and memory of programs and of the kernel. These change during the measurement, so
    // subtract them as they were at the maximum of the samples.
    let ours = samples.iter().map(|(_, bytes)| *bytes as u64).max();
    let (files, programs) = match (at_most.or_else(charged), ours) {
        (Some(charged), Some(ours)) if !paper => {
            let files = charged.files.saturating_sub(ours);
            (files, charged.all.saturating_sub(ours + files))
        }
        (Some(charged), _) => (0, charged.all.saturating_sub(charged.files)),
        (None, _) => (0, 0),
    };
    let note = match own {
        Some(_) => Note::OwnCgroup(available),
        None => Note::CurrentCgroup { files, programs },
    };
    let step = step(limit, paper);
    let (runs, values) = samples.into_iter().unzip();
    let (kind, mut tolerance) = if paper {
        (Kind::Passes, TOLERANCE + step as f64 / limit as f64)
    } else {
        (Kind::Filled, TOLERANCE)
    };
    tolerance += programs as f64 / limit as f64;
    let mut judged = context.judge_one(Series {
        runs,
        ..Series::from_trial(kind, step, values)
    })?;
    if let Outcome::Found {
        value: Value::Number(ours),
        ..
    } = &mut judged.outcome
    {
        *ours += files as f64;
    }
    let truth = ReportedValue::new(limit, Source::File(file));
    Ok(judged.with_note(note).compared_with(Some(truth), tolerance))
}

fn step(limit: u64, paper: bool) -> u64 {
    let parts = if paper { 16 } else { 96 };
    (limit / parts).next_multiple_of(page_size() as u64)
}

/// Fills the cache in a child process that enters the cgroup.
fn fill_in(
    cgroup: &TemporaryCgroup,
    context: &mut Context<'_>,
    paper: bool,
    limit: u64,
    charged: &dyn Fn() -> Option<ChargedBytes>,
) -> Result<Samples> {
    let dir = context.dir;
    let time = context.time_left().max(Duration::from_secs(1));
    let bytes = context.bytes_left();
    let clock = context.clock;
    let log = Log::new(ROOM).map_err(Purpose::Fork.failed())?;
    let ran = run_in_child::<0>(&Bounds::time(time), || {
        let mut quiet = |_| {};
        let mut inner = Context::new(dir, Limits { bytes, time }, &mut quiet);
        inner.clock = clock;
        let entered = cgroup.enter().map_err(Purpose::EnterCgroup.failed());
        let done = entered.and_then(|()| fill_here(&mut inner, paper, limit, charged));
        log.write(&(inner.io_bytes, done));
        Some([])
    });
    if let Err(NoRun::Stopped(_) | NoRun::Moved(..)) = ran.map_err(Purpose::Fork.failed())? {
        dir.sweep(); // remove the files of the killed child
        context.check()?;
        return Err(Error::OutOfTime);
    }
    let (io_bytes, samples): (IoBytes, Result<Samples>) =
        log.read(&mut 0).ok_or(Error::CacheProcessKilled)?;
    context.charge(io_bytes);
    samples
}

fn fill_here(
    context: &mut Context<'_>,
    paper: bool,
    limit: u64,
    charged: &dyn Fn() -> Option<ChargedBytes>,
) -> Result<Samples> {
    if paper {
        Ok((read_twice(context, limit)?, None))
    } else {
        read_holes(context, limit, charged)
    }
}

/// Reads holes step by step, up to a third more than the limit; returns the cached bytes after
/// each.
fn read_holes(
    context: &mut Context<'_>,
    limit: u64,
    charged: &dyn Fn() -> Option<ChargedBytes>,
) -> Result<Samples> {
    let step = step(limit, false);
    let len = step * STEPS as u64;
    let scratch = context.dir.scratch()?;
    extend(&scratch.file, len)?;
    let mut residency = Residency::new(&scratch, len)?.ok_or(Error::HolesNotCached)?;
    let reader = scratch.reopen()?;
    // With a small limit, turn readahead off: the cache would grow and be reclaimed in too large
    // pieces. With a large limit, keep readahead: many small pieces made the kernel compact memory,
    // which evicted pages of other processes.
    if limit <= SMALL {
        let _ = fadvise64(&reader, 0, 0, Advice::Random);
    }
    let mut buffer = vec![0; 64 << 10];
    let (mut samples, mut most, mut at_most) = (Vec::new(), 0, None);
    for run in 1..=STEPS as u64 {
        context.check()?;
        let (mut at, end) = ((run - 1) * step, run * step);
        while at < end {
            let part = buffer.len().min((end - at) as usize);
            match read_at(&reader, &mut buffer[..part], at)? {
                0 => return Err(Error::ShortRead),
                n => at += n as u64,
            }
        }
        let pages = residency.pages(0, len)?;
        if pages > most {
            (most, at_most) = (pages, charged());
        }
        samples.push((run, (pages * page_size() as u64) as f64));
    }
    Ok((samples, at_most))
}

/// Size of the file that is read twice, in steps of a sixteenth of the memory limit: one and a half
/// times the limit.
const MOST_STEPS: u64 = 24;

/// Reads the start of a file twice, at the lengths that [`search_lengths`] tries.
fn read_twice(context: &mut Context<'_>, limit: u64) -> Result<Vec<(u64, f64)>> {
    const CHUNK: usize = 256 << 10;
    let step = step(limit, true);
    let len = MOST_STEPS * step;
    let scratch = context.dir.scratch()?;
    fill(context, &scratch.file, len)?;
    let mut residency = Residency::new(&scratch, len)?;
    let mut buffer = vec![0; CHUNK];
    search_lengths(|runs| {
        drop_cache(&scratch.file, len, residency.as_mut())?;
        let mut pass = || -> Result<f64> {
            let reader = scratch.reopen()?;
            // Turn readahead off: otherwise the next chunk is fetched before the first is evicted,
            // and the second pass is as fast as the first.
            let _ = fadvise64(&reader, 0, 0, Advice::Random);
            let (mut times, mut at) = (Vec::new(), 0);
            while at < runs * step {
                context.spend(CHUNK as u64, 0)?;
                let begun = context.clock.now();
                let n = read_at(&reader, &mut buffer, at)?.max(1) as u64;
                times.push(context.clock.since(begun) / n as f64);
                at += n;
            }
            // The median time of a chunk shows whether most chunks came from memory or from the
            // disk.
            Ok(median(times) * step as f64)
        };
        Ok((pass()?, pass()?))
    })
}

/// Searches for the capacity of the page cache. Returns pairs of a length in steps and the time per
/// step of the second pass. Lengths are doubled until the second pass becomes slow, then the
/// interval is halved down to one step. `both` returns the times per step of the first and the
/// second pass.
///
/// The first pass always reads from the disk, so the second pass is judged by the ratio of both
/// times: a load that slows both passes down cancels out.
fn search_lengths(mut both: impl FnMut(u64) -> Result<(f64, f64)>) -> Result<Vec<(u64, f64)>> {
    /// Maximum ratio of the times of the second and the first pass if the whole length is cached.
    const CLEAR: f64 = 0.5;
    /// Number of steps up to which a slow pass is repeated, so that a brief load does not end the
    /// search. Repeating longer passes would read too much.
    const REPEATED: u64 = 8;
    let mut tries = [both(1)?, both(1)?, both(1)?];
    tries.sort_by(|a, b| f64::total_cmp(&(a.1 / a.0), &(b.1 / b.0)));
    let (disk, memory) = tries[1];
    let least = memory / disk;
    if !(0.0..CLEAR).contains(&least) {
        return Err(Error::DiskAsFastAsMemory);
    }
    let mut samples = vec![(1, memory)];
    let mut is_slow = |runs: u64, samples: &mut Vec<(u64, f64)>| -> Result<bool> {
        let mut share = || both(runs).map(|(first, second)| second / first);
        let mut least_share = share()?;
        if least_share > least.sqrt() && runs <= REPEATED {
            least_share = least_share.min(share()?);
        }
        samples.push((runs, least_share * disk));
        Ok(least_share > least.sqrt())
    };
    let (mut fits, mut too_long) = (1, MOST_STEPS + 1);
    while too_long - fits > 1 {
        let next = if too_long > MOST_STEPS {
            (fits * 2).min(MOST_STEPS)
        } else {
            (fits + too_long) / 2
        };
        if is_slow(next, &mut samples)? {
            too_long = next;
        } else {
            fits = next;
        }
        if fits == MOST_STEPS {
            return Ok(samples); // lengths were only doubled, so the samples are in order
        }
    }
    // A knee is only detected with four samples before it and three after it, so also measure the
    // lengths nearest to the knee.
    let below = (1..=fits).rev().map(|runs| (runs, 4));
    let above = (too_long..=MOST_STEPS).map(|runs| (runs, 3));
    for (runs, wanted) in below.chain(above) {
        let is_beside = |(known, _): &&(u64, f64)| (*known <= fits) == (runs <= fits);
        let on_this_side = samples.iter().filter(is_beside).count();
        if on_this_side < wanted && samples.iter().all(|(known, _)| *known != runs) {
            is_slow(runs, &mut samples)?;
        }
    }
    samples.sort_unstable_by_key(|(runs, _)| *runs);
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infer::series::evaluate;

    #[test]
    fn the_smallest_of_memory_and_cgroup_limit_bounds_the_cache() {
        let file = "/sys/fs/cgroup/memory.max".to_owned();
        let cgroup = |bytes| Some((bytes, file.clone()));
        let truth = |cgroup, memory| {
            let finding = bound(cgroup, memory, None);
            assert!(finding.value().is_none() && finding.agrees.is_none());
            finding.truth
        };
        let by_file = Some(ReportedValue::new(5_u64, Source::File(file.clone())));
        let by_sysinfo = Some(ReportedValue::new(5_u64, Source::Sysinfo));
        assert_eq!(truth(cgroup(5), Some(9)), by_file);
        assert_eq!(truth(cgroup(9), Some(5)), by_sysinfo);
        assert_eq!(truth(None, Some(5)), by_sysinfo);
        assert_eq!(truth(cgroup(5), None), by_file);
        assert_eq!(truth(None, None), None);
        assert_eq!(
            bound(None, Some(8 << 30), Some(6 << 30)).outcome,
            Outcome::LookedUp(CacheBound::Memory(Some(6 << 30)))
        );
    }

    /// Simulates a cache of this many steps, on a machine whose load varies.
    #[test]
    fn the_search_finds_the_capacity_under_varying_load() {
        let mut seed = 1_u64;
        let mut random = || {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 11) as f64 / (1_u64 << 53) as f64
        };
        for holds in (5..22).cycle().take(170) {
            let samples = search_lengths(|runs| {
                let load = 1.0 + 3.0 * random();
                let mut pass = |time: f64| time * load * (1.0 + 0.03 * random());
                Ok((pass(100.0), pass(if runs <= holds { 20.0 } else { 100.0 })))
            });
            let (runs, values) = samples.unwrap().into_iter().unzip();
            let series = Series {
                runs,
                ..Series::from_trial(Kind::Passes, 1 << 20, values)
            };
            let found = evaluate(&series).swap_remove(0);
            let Some(Value::Number(bytes)) = found.value() else {
                panic!("{holds}: {series:?}")
            };
            assert!(
                (bytes / f64::from(1 << 20) - holds as f64).abs() <= 1.0,
                "{holds}: {series:?}"
            );
        }
        // If the second pass is always faster, the search ends at its maximum. If it is never
        // faster, that is an error.
        assert_eq!(
            search_lengths(|_| Ok((100.0, 20.0)))
                .unwrap()
                .last()
                .unwrap()
                .0,
            MOST_STEPS
        );
        assert!(matches!(
            search_lengths(|_| Ok((100.0, 90.0))),
            Err(Error::DiskAsFastAsMemory)
        ));
        assert!(matches!(
            search_lengths(|_| Ok((0.0, 0.0))),
            Err(Error::DiskAsFastAsMemory)
        ));
    }
}
