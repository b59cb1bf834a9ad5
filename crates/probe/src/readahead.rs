//! `readahead`: what is fetched before it is asked for.
//!
//! A file is read from its beginning, page after page. What is in memory after each read (cachestat
//! or mincore) shows every window that the kernel fetches: the first, how they grow, the steady
//! one, and how early the next is asked for. From times alone the steady window is found as the
//! paper did: the read that has the next one fetched takes longer.

use std::time::Duration;

use gate::Gate;
use gate::cache::page_size;
use gate::fs::pread64;

use crate::desk::{Desk, Trouble};
use crate::finding::{Experiment, Finding, Value};
use crate::infer::robust::mode;
use crate::infer::series::judge;
use crate::infer::windows::readahead as look;
use crate::place::{Place, Scratch};
use crate::samples::{Kind, Series};
use crate::work::{Witness, fill, forget, times};

/// How long the file is, where there is room: sixteen windows of 4 MiB.
const LEN: u64 = 64 << 20;
/// With less there is nothing to be seen.
const LEAST: u64 = 1 << 20;
/// How often the file is read for its times.
const TRIALS: usize = 3;

/// A read that takes longer, in nanoseconds, has done more than copy a page.
const FETCHES: f64 = 50_000.0;
/// A read that takes longer has had much fetched, or has waited for it.
const LONG: f64 = 100_000.0;
/// How long a disk is given to bring what is being fetched.
const PAUSE: Duration = Duration::from_millis(20);
/// How long in all, each time that the file is read.
const MOST_PAUSES: Duration = Duration::from_secs(1);

const SEEN: [&str; 4] = [
    "readahead-initial",
    "readahead-ramp",
    "readahead-steady",
    "readahead-trigger",
];
const BY_TIME: &str = "readahead-steady-by-time";

/// All of it.
pub fn readahead(
    place: &Place,
    desk: &mut Desk<'_>,
    series: &mut Vec<Series>,
) -> Result<Vec<Finding>, Trouble> {
    let truth = place
        .readahead()
        .map(|(bytes, source)| (Value::from(bytes), source));
    match measure(place, desk, series) {
        Err(Trouble::Interrupted) => Err(Trouble::Interrupted),
        Err(why) => Ok(SEEN
            .into_iter()
            .chain([BY_TIME])
            .map(|name| hindered(name, &why))
            .collect()),
        Ok(found) => Ok(found),
    }
    .map(|found| {
        found
            .into_iter()
            .map(|finding| beside(finding, truth.clone()))
            .collect()
    })
}

fn hindered(name: &'static str, why: &Trouble) -> Finding {
    let finding = Finding::hindered(Experiment::Readahead, name, "bytes", why);
    if name == BY_TIME {
        finding.by_time()
    } else {
        finding
    }
}

/// The kernel speaks of the steady window only.
fn beside(finding: Finding, truth: Option<(Value, String)>) -> Finding {
    let steady = ["readahead-steady", BY_TIME].contains(&finding.name);
    if steady {
        finding.beside(truth, 0.0)
    } else {
        finding
    }
}

fn measure(
    place: &Place,
    desk: &mut Desk<'_>,
    series: &mut Vec<Series>,
) -> Result<Vec<Finding>, Trouble> {
    let scratch = place.scratch()?;
    // Written once and read as often as there are trials, and once for the windows.
    let len = LEN
        .min(place.room())
        .min(desk.bytes_left() / (2 + TRIALS as u64))
        >> 20
        << 20;
    if len < LEAST {
        return Err(Trouble::Hindered(format!(
            "there is no room for a file of {} MiB",
            LEAST >> 20
        )));
    }
    desk.go_on(&format!(
        "readahead: writing a file of {} MiB to read",
        len >> 20
    ))?;
    fill(desk, &scratch.file, len)?;
    let mut witness = Witness::of(&scratch, len)?;
    if !forget(&scratch.file, len, witness.as_mut())? {
        return Err(Trouble::Hindered(
            "the kernel does not forget the file: it is kept in memory, and nowhere else"
                .to_owned(),
        ));
    }
    let mut found = match &mut witness {
        Some(witness) => {
            desk.go_on(&format!(
                "readahead: {} after each read of a page shows every window",
                witness.name()
            ))?;
            seen(desk, &scratch, len, witness, series)?
        }
        None => {
            let why = "neither cachestat(2) nor mincore(2) sees what is in memory";
            SEEN.iter()
                .map(|name| Finding::unknown(Experiment::Readahead, name, "bytes", why))
                .collect()
        }
    };
    desk.go_on(
        "readahead: the time of each read; the one that has the next window fetched takes longer",
    )?;
    let steady = found
        .iter()
        .find(|finding| finding.name == "readahead-steady")
        .and_then(|f| f.inferred.clone());
    let timed = timed(desk, &scratch, len, witness.as_mut(), series);
    found.push(match timed {
        Err(Trouble::Interrupted) => return Err(Trouble::Interrupted),
        Err(why) => hindered(BY_TIME, &why),
        Ok(finding) => match (&finding.inferred, steady) {
            (Some(by_time), Some(seen)) if *by_time != seen => {
                let method = format!("{}; what was seen in memory says otherwise", finding.method);
                Finding { method, ..finding }
            }
            _ => finding,
        },
    });
    Ok(found)
}

/// Every window, from what is in memory: in several trials, of which most must agree.
fn seen(
    desk: &mut Desk<'_>,
    scratch: &Scratch<'_>,
    len: u64,
    witness: &mut Witness,
    series: &mut Vec<Series>,
) -> Result<Vec<Finding>, Trouble> {
    let page = page_size();
    let mut trials: Vec<Vec<f64>> = Vec::new();
    // A file that is long enough for the largest window is far longer than the usual one needs: a
    // part of it will do.
    let mut part = (len / 8).max(LEAST.min(len));
    loop {
        forget(&scratch.file, len, Some(witness))?;
        let reader = scratch.reopen()?;
        desk.spend(part, 0)?;
        let mut buffer = vec![0; page];
        let mut cached = Vec::new();
        let (mut have, end) = (0, len / page as u64);
        for at in (0..part).step_by(page) {
            let begun = desk.clock.now();
            pread64(&reader, &mut buffer, at)
                .map_err(Trouble::refused("cannot read the file", Gate::Pread64))?;
            let reach = witness.reach(have, end, desk.clock.since(begun) > FETCHES);
            have = reach.map_err(Trouble::refused(
                "cannot see what is in memory",
                Gate::Cachestat,
            ))?;
            cached.push(have as f64);
        }
        let pages: Vec<u64> = cached.iter().map(|v| *v as u64).collect();
        let enough = look(&pages, len / page as u64).is_some_and(|seen| seen.agree.0 >= 4);
        if !enough && part < len {
            part = (part * 4).min(len);
            trials.clear();
            continue;
        }
        trials.push(cached);
        if trials.len() == TRIALS || !enough {
            break;
        }
    }
    let each: Vec<Vec<Finding>> = trials
        .iter()
        .map(|trial| judge(&Series::one(Kind::Cached, page as u64, trial.clone())))
        .collect();
    let steady: Vec<u64> = each
        .iter()
        .filter_map(|found| number(found.get(2)?))
        .collect();
    let (most, agree) = mode(&steady).unwrap_or_default();
    let shown = each
        .iter()
        .position(|found| found.get(2).and_then(number) == Some(most))
        .unwrap_or(0);
    let count = trials.len();
    let best = trials.swap_remove(shown);
    series.push(Series::one(Kind::Cached, page as u64, best));
    let sure = agree as f64 / count as f64;
    let found = each.into_iter().nth(shown).unwrap_or_default();
    let by = witness.name();
    Ok(found
        .into_iter()
        .map(|f| {
            Finding {
                confidence: f.confidence * sure,
                method: format!("{}, by {by}", f.method),
                ..f
            }
            .tried(count)
        })
        .collect())
}

/// A finding that is a whole number.
fn number(finding: &Finding) -> Option<u64> {
    match finding.inferred {
        Some(Value::Number(n)) => Some(n as u64),
        _ => None,
    }
}

/// The steady window, from times alone.
fn timed(
    desk: &mut Desk<'_>,
    scratch: &Scratch<'_>,
    len: u64,
    mut witness: Option<&mut Witness>,
    series: &mut Vec<Series>,
) -> Result<Finding, Trouble> {
    let page = page_size();
    let mut buffer = vec![0; page];
    let mut trials = Vec::new();
    for _ in 0..TRIALS {
        forget(&scratch.file, len, witness.as_deref_mut())?;
        let reader = scratch.reopen()?;
        desk.spend(len, 0)?;
        // What is being fetched is given time to come. Else reads within a window wait as well,
        // wherever a folio of it begins, and these may be as regular as the windows.
        let mut left = MOST_PAUSES.min(desk.time_left() / 20);
        let pause = |took: f64| {
            if took > LONG && left >= PAUSE {
                std::thread::sleep(PAUSE);
                left -= PAUSE;
            }
        };
        let times = times(
            desk.clock,
            len,
            page,
            |at| pread64(&reader, &mut buffer, at),
            pause,
        );
        trials.push(times.map_err(Trouble::refused("cannot read the file", Gate::Pread64))?);
    }
    let samples = Series::of(Kind::Blocks, page as u64, trials);
    let judged = judge(&samples).into_iter().next();
    series.push(samples);
    let judged = judged.ok_or_else(|| Trouble::Hindered("there were no samples".to_owned()))?;
    Ok(match number(&judged) {
        Some(blocks) => {
            let bytes = blocks * page as u64;
            Finding {
                name: BY_TIME,
                unit: "bytes",
                inferred: Some(bytes.into()),
                ..judged
            }
        }
        None => Finding {
            name: BY_TIME,
            unit: "bytes",
            ..judged
        },
    })
}
