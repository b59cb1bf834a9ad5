//! `cache`: how much the page cache holds for this process.
//!
//! The paper reads ever more of a file twice, and looks from which length on the second time is
//! slower. That takes a disk's patience, and throws out of memory what everybody else has there.
//! Here the **holes of a sparse file** are read: they fill the page cache and no disk is asked;
//! cachestat says when what is in memory no longer grows. It is done in a process of its own in a
//! group of its own (cgroup), with a limit, so that nobody else loses anything; where this process
//! is in a group with a limit already, in that one. `--method paper` is the paper's way, with a
//! search instead of every length.
//!
//! Beside that stands what bounds the cache of this process here, in no group of ours: that is only
//! looked up, also for those whom nobody has asked to fill anything.

use std::time::Duration;

use gate::Gate;
use gate::cache::page_size;
use gate::file::read_kernel;
use gate::fs::{Advice, fadvise64};
use gate::machine::memory;
use mounts::compare::{NoRun, alone};

use crate::cgroup::{Group, Own};
use crate::desk::{Desk, Limits, Moved, NO_TIME, Trouble};
use crate::finding::{Experiment, Finding, Value};
use crate::infer::robust::median;
use crate::infer::series::judge;
use crate::log::Log;
use crate::place::Place;
use crate::samples::{Kind, Series};
use crate::work::{Witness, extend, fill, forget, read_at};

const NAME: &str = "cache-capacity";
const LIMIT: &str = "cache-limit";
/// How near what is found should be to the limit: the group's limit is for more than the page
/// cache.
const NEAR: f64 = 0.05;
/// The most that is filled.
const MOST: u64 = 4 << 30;
/// The least that says anything.
const LEAST: u64 = 16 << 20;
/// A limit up to which readahead is in the way.
const SMALL: u64 = 128 << 20;
/// Steps in which holes are read: up to a third more than the limit.
const STEPS: usize = 128;
/// Words for what the process says: its samples, or why there are none.
const ROOM: usize = 16 * STEPS;

/// Runs, and the value at each.
type Samples = Vec<(u64, f64)>;

/// What is wanted of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct How {
    /// The paper's two passes.
    pub paper: bool,
    /// The limit of the group that is made; by default 256 MiB, or an eighth of what is free.
    pub limit: Option<u64>,
}

/// All of it; for one whom nobody has asked, what can be told without filling anything.
pub fn cache(
    place: &Place,
    desk: &mut Desk<'_>,
    how: How,
    series: &mut Vec<Series>,
) -> Result<Vec<Finding>, Trouble> {
    let mut found = Vec::new();
    if !place.makes_no_names() {
        found.push(match measure(place, desk, how, series) {
            Err(Trouble::Interrupted) => return Err(Trouble::Interrupted),
            Err(why) => {
                let finding = Finding::hindered(Experiment::Cache, NAME, "bytes", &why);
                if how.paper {
                    finding.by_time()
                } else {
                    finding
                }
            }
            Ok(finding) => finding,
        });
    }
    if !place.is_in_memory() {
        found.push(limit(
            Group::own(&place.table).and_then(|group| group.limit()),
            memory(),
            available(),
        ));
    }
    Ok(found)
}

/// What bounds the page cache of this process: the limit of a group that it is in, or else the
/// memory that there is.
fn limit(group: Option<(u64, String)>, memory: Option<u64>, available: Option<u64>) -> Finding {
    let of_all = memory.map(|bytes| (bytes, "sysinfo(2)".to_owned()));
    let (truth, why) = match (group, of_all) {
        (Some(group), all) if all.as_ref().is_none_or(|all| group.0 < all.0) => (
            Some(group),
            "page cache counts in the limit of the cgroup that the process is in".to_owned(),
        ),
        (_, all) => {
            let now = available.map_or(String::new(), |bytes| {
                format!(", {} MiB of it now (MemAvailable)", bytes >> 20)
            });
            let why = format!(
                "no cgroup limits it, so that the page cache may take all memory that is not in use{now}"
            );
            (all, why)
        }
    };
    let method = format!("looked up, and not measured: {why}");
    let truth = truth.map(|(bytes, source)| (Value::from(bytes), source));
    Finding::unknown(Experiment::Cache, LIMIT, "bytes", method).beside(truth, 0.0)
}

/// Memory that could be had without swapping, in bytes.
fn available() -> Option<u64> {
    let text = read_kernel(c"/proc/meminfo").ok()?;
    let line = text
        .split(|b| *b == b'\n')
        .find_map(|line| line.strip_prefix(b"MemAvailable:"))?;
    let kib = std::str::from_utf8(line.trim_ascii().strip_suffix(b"kB")?.trim_ascii()).ok()?;
    kib.parse::<u64>().ok().map(|kib| kib << 10)
}

fn measure(
    place: &Place,
    desk: &mut Desk<'_>,
    how: How,
    series: &mut Vec<Series>,
) -> Result<Finding, Trouble> {
    if place.is_in_memory() {
        return Err(Trouble::Hindered(
            "its files are in memory and nowhere else: there is no cache of them".to_owned(),
        ));
    }
    drop(place.scratch()?);
    let no_group = "the process is in no group whose memory is limited, and to fill all memory would take from everybody else";
    let group = Group::own(&place.table)
        .ok_or_else(|| Trouble::Hindered(format!("{no_group}; no memory cgroup is to be seen")))?;
    let available = available().unwrap_or(0);
    // What can be moved in the paper's way: fifteen times the limit or so in all.
    let affordable = if how.paper {
        desk.bytes_left() / 16
    } else {
        MOST
    };
    let (limit, said_by, own) = match group.limit().filter(|_| how.limit.is_none()) {
        Some((limit, file)) if limit <= MOST.min(available) => (limit, file, None),
        _ => {
            let usual = (256 << 20).min(available / 8).min(affordable);
            let limit = how
                .limit
                .unwrap_or(usual)
                .next_multiple_of(page_size() as u64);
            if !(LEAST..=MOST.min(available.max(LEAST))).contains(&limit) {
                let why = format!(
                    "a group with {limit} bytes of memory cannot be filled here: {LEAST} or more, and less than is free"
                );
                return Err(Trouble::Hindered(why));
            }
            let made = group.make(limit).map_err(|e| {
                Trouble::Hindered(format!("{no_group}; a group with a limit of its own cannot be made ({e}): run as root, or in a container with a limit"))
            })?;
            (limit, made.limit_file(), Some(made))
        }
    };
    if how.paper && limit > affordable {
        let needs = limit * 16;
        return Err(Trouble::Hindered(format!(
            "two passes around {limit} bytes move some {needs} bytes; --max-bytes allows so many"
        )));
    }
    let in_which = if own.is_some() {
        "a cgroup of its own"
    } else {
        "the cgroup that it is in"
    };
    let way = if how.paper {
        "a file is read twice, at ever other lengths"
    } else {
        "the holes of a file are read until no more of it stays in memory"
    };
    desk.go_on(&format!(
        "cache: in {in_which}, limited to {} MiB, {way}",
        limit >> 20
    ))?;
    // Where the group is that of all of us, another process would only take from what is to be
    // measured.
    let samples = match &own {
        Some(own) => apart(place, desk, how.paper, limit, own)?,
        None => inside(place, desk, how.paper, limit)?,
    };
    // Our file is gone again. What the group still has is of others, such as the program itself:
    // what is mapped stays to the last.
    let others = if own.is_none() && !how.paper {
        group.page_cache().unwrap_or(0)
    } else {
        0
    };
    let step = step(limit, how.paper);
    let (runs, values) = samples.into_iter().unzip();
    let kind = if how.paper {
        Kind::Passes
    } else {
        Kind::Filled
    };
    let samples = Series {
        runs,
        ..Series::one(kind, step, values)
    };
    let judged = judge(&samples).into_iter().next();
    series.push(samples);
    let judged = judged.ok_or_else(|| Trouble::Hindered("there were no samples".to_owned()))?;
    let whole = match own {
        Some(_) => format!(
            "; this was in {in_which}, whose limit was chosen: outside, {} MiB could be had (MemAvailable)",
            available >> 20
        ),
        None => format!("; with {others} bytes of other files, this was in {in_which}"),
    };
    let inferred = match judged.inferred {
        Some(Value::Number(ours)) => Some(Value::Number(ours + others as f64)),
        other => other,
    };
    let within = if how.paper {
        NEAR + step as f64 / limit as f64
    } else {
        NEAR
    };
    let method = judged.method.clone() + &whole;
    Ok(Finding {
        method,
        inferred,
        ..judged
    }
    .beside(Some((Value::from(limit), said_by)), within))
}

/// How much further each step goes.
fn step(limit: u64, paper: bool) -> u64 {
    let page = page_size() as u64;
    if paper {
        (limit / 16).next_multiple_of(page)
    } else {
        (limit / 96).next_multiple_of(page)
    }
}

/// The same in a process that enters a group of its own.
fn apart(
    place: &Place,
    desk: &mut Desk<'_>,
    paper: bool,
    limit: u64,
    own: &Own,
) -> Result<Samples, Trouble> {
    let patience = desk.time_left().max(Duration::from_secs(1));
    let allowed = Limits {
        bytes: desk.bytes_left(),
        time: patience,
    };
    let clock = desk.clock;
    let no_process = Trouble::refused("cannot make a process for it", Gate::Unshare);
    let log = Log::new(ROOM).map_err(&no_process)?;
    let ran = alone::<0>(patience, || {
        let mut quiet = |_: &str| {};
        let mut inner = Desk::new(allowed, &mut quiet);
        inner.clock = clock;
        let entered = own
            .enter()
            .map_err(Trouble::refused("cannot enter the group", Gate::Write));
        let done = entered.and_then(|()| inside(place, &mut inner, paper, limit));
        log.add(&(inner.moved(), done));
        Some([])
    });
    if let Err(NoRun::Stopped(_) | NoRun::Moved(..)) = ran.map_err(no_process)? {
        place.sweep(); // it could not put away what it had made
        desk.still()?;
        return Err(Trouble::Spent(NO_TIME));
    }
    let said: Option<(Moved, Result<Samples, Trouble>)> = log.read(&mut 0);
    let (moved, samples) = said.ok_or_else(|| {
        Trouble::Hindered("the process that filled the cache was killed".to_owned())
    })?;
    desk.enter(moved);
    samples
}

/// What is done by a process that the group's limit is for.
fn inside(place: &Place, desk: &mut Desk<'_>, paper: bool, limit: u64) -> Result<Samples, Trouble> {
    if paper {
        passes(place, desk, limit)
    } else {
        holes(place, desk, limit)
    }
}

/// Reads holes, a step at a time, up to a third more than the limit, and says what is in memory
/// after each.
fn holes(place: &Place, desk: &mut Desk<'_>, limit: u64) -> Result<Samples, Trouble> {
    let step = step(limit, false);
    let len = step * STEPS as u64;
    let scratch = place.scratch()?;
    extend(&scratch.file, len)?;
    let mut witness = match Witness::of(&scratch, len)? {
        Some(witness) => witness,
        None => {
            return Err(Trouble::Hindered(
                "holes that are read do not stay in memory here, or it is not to be seen"
                    .to_owned(),
            ));
        }
    };
    let reader = scratch.reopen()?;
    // With readahead the cache grows, and is cut back, in pieces that are large beside a small
    // limit. Where they are not, they are better: many small ones have the kernel tidy up its
    // memory, and that was seen to throw out others' pages.
    if limit <= SMALL {
        let _ = fadvise64(&reader, 0, 0, Advice::Random);
    }
    let mut buffer = vec![0; 64 << 10];
    let mut samples = Vec::new();
    for run in 1..=STEPS as u64 {
        desk.still()?;
        let (mut at, end) = ((run - 1) * step, run * step);
        while at < end {
            let part = buffer.len().min((end - at) as usize);
            match read_at(&reader, &mut buffer[..part], at)? {
                0 => {
                    return Err(Trouble::Hindered(
                        "the file is shorter than it was made".to_owned(),
                    ));
                }
                n => at += n as u64,
            }
        }
        let pages = witness.pages(0, len).map_err(Trouble::refused(
            "cannot see what is in memory",
            Gate::Cachestat,
        ))?;
        samples.push((run, (pages * page_size() as u64) as f64));
    }
    Ok(samples)
}

/// How many steps the file has that is read twice: one and a half times the limit.
const MOST_STEPS: u64 = 24;

/// The paper's way: so much of a file is read, and read again.
fn passes(place: &Place, desk: &mut Desk<'_>, limit: u64) -> Result<Samples, Trouble> {
    const CHUNK: usize = 256 << 10;
    let step = step(limit, true);
    let scratch = place.scratch()?;
    fill(desk, &scratch.file, MOST_STEPS * step)?;
    let mut witness = Witness::of(&scratch, MOST_STEPS * step)?;
    let mut buffer = vec![0; CHUNK];
    lengths(|runs| {
        forget(&scratch.file, MOST_STEPS * step, witness.as_mut())?;
        let mut pass = || -> Result<f64, Trouble> {
            let reader = scratch.reopen()?;
            // With readahead the next chunk is fetched before the first is thrown out, and nothing
            // is to be seen.
            let _ = fadvise64(&reader, 0, 0, Advice::Random);
            let (mut times, mut at) = (Vec::new(), 0);
            while at < runs * step {
                desk.spend(CHUNK as u64, 0)?;
                let begun = desk.clock.now();
                let n = read_at(&reader, &mut buffer, at)?.max(1) as u64;
                times.push(desk.clock.since(begun) / n as f64);
                at += n;
            }
            // The middle chunk says where all came from.
            Ok(median(times) * step as f64)
        };
        Ok((pass()?, pass()?))
    })
}

/// What a step takes in the second pass through so many. The lengths are doubled until that takes
/// longer, and then halved in between, down to one step. `both` gives what a step takes in the
/// first pass, and in the second.
///
/// The first pass comes from the disk, whatever else the machine does then. So the second is judged
/// by the first: what slows down both says nothing, and is taken out of what is given.
fn lengths(mut both: impl FnMut(u64) -> Result<(f64, f64), Trouble>) -> Result<Samples, Trouble> {
    /// The share of the first pass that the second may take where all is in memory; with more,
    /// there is no telling.
    const CLEAR: f64 = 0.5;
    /// Up to so many steps what is slow is tried again: a machine that is busy at the wrong moment
    /// must not end the search there, and longer ones would move too much.
    const AGAIN: u64 = 8;
    let mut tries = [both(1)?, both(1)?, both(1)?];
    tries.sort_by(|a, b| f64::total_cmp(&(a.1 / a.0), &(b.1 / b.0)));
    let (disk, memory) = tries[1];
    let least = memory / disk;
    if !(0.0..CLEAR).contains(&least) {
        let why = "a read from the disk takes hardly longer here than one from memory: times cannot tell them apart";
        return Err(Trouble::Hindered(why.to_owned()));
    }
    let mut samples = vec![(1, memory)];
    let mut is_slow = |runs: u64, samples: &mut Vec<(u64, f64)>| -> Result<bool, Trouble> {
        let mut share = || both(runs).map(|(first, second)| second / first);
        let mut least_share = share()?;
        if least_share > least.sqrt() && runs <= AGAIN {
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
            return Ok(samples); // they are in order
        }
    }
    // A knee wants four before it and three after; the nearest are good enough.
    let nearest = (1..=fits)
        .rev()
        .map(|runs| (runs, 4))
        .chain((too_long..=MOST_STEPS).map(|runs| (runs, 3)));
    for (runs, wanted) in nearest {
        let here = samples
            .iter()
            .filter(|(known, _)| (*known <= fits) == (runs <= fits))
            .count();
        if here < wanted && samples.iter().all(|(known, _)| *known != runs) {
            is_slow(runs, &mut samples)?;
        }
    }
    samples.sort_unstable_by_key(|(runs, _)| *runs);
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_memory_and_groups_bounds_the_cache() {
        let group = |bytes| Some((bytes, "/sys/fs/cgroup/memory.max".to_owned()));
        let said = |found: Finding| {
            (
                found.inferred,
                found.truth,
                found.truth_source,
                found.agrees,
            )
        };
        let is = |bytes: u64, source: &str| {
            (
                None,
                Some(Value::from(bytes)),
                Some(source.to_owned()),
                None,
            )
        };
        assert_eq!(
            said(limit(group(5), Some(9), None)),
            is(5, "/sys/fs/cgroup/memory.max")
        );
        assert_eq!(said(limit(group(9), Some(5), None)), is(5, "sysinfo(2)"));
        assert_eq!(said(limit(None, Some(5), None)), is(5, "sysinfo(2)"));
        assert_eq!(
            said(limit(group(5), None, None)),
            is(5, "/sys/fs/cgroup/memory.max")
        );
        assert_eq!(said(limit(None, None, None)), (None, None, None, None));
        let found = limit(None, Some(8 << 30), Some(6 << 30));
        assert!(
            found.method.contains("not measured") && found.method.contains("6144 MiB of it now"),
            "{}",
            found.method
        );
    }

    /// A cache that holds so many steps, on a machine that is now idle and now busy.
    #[test]
    fn the_search_finds_what_the_cache_holds_whatever_else_the_machine_does() {
        let mut seed = 1_u64;
        let mut random = || {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 11) as f64 / (1_u64 << 53) as f64
        };
        for holds in (5..22).cycle().take(170) {
            let samples = lengths(|runs| {
                let load = 1.0 + 3.0 * random();
                let mut pass = |time: f64| time * load * (1.0 + 0.03 * random());
                Ok((pass(100.0), pass(if runs <= holds { 20.0 } else { 100.0 })))
            });
            let (runs, values) = samples.unwrap().into_iter().unzip();
            let series = Series {
                runs,
                ..Series::one(Kind::Passes, 1 << 20, values)
            };
            let found = judge(&series).swap_remove(0);
            let Some(Value::Number(bytes)) = found.inferred else {
                panic!("{holds}: {series:?}")
            };
            assert!(
                (bytes / f64::from(1 << 20) - holds as f64).abs() <= 1.0,
                "{holds}: {series:?}"
            );
        }
        // What never is slower, and what is never faster.
        assert_eq!(
            lengths(|_| Ok((100.0, 20.0))).unwrap().last().unwrap().0,
            MOST_STEPS
        );
        assert!(matches!(
            lengths(|_| Ok((100.0, 90.0))),
            Err(Trouble::Hindered(_))
        ));
        assert!(matches!(
            lengths(|_| Ok((0.0, 0.0))),
            Err(Trouble::Hindered(_))
        ));
    }
}
