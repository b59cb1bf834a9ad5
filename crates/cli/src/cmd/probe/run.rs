//! `fathom probe`: what a file system is, found by experiment.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use gate::fs::Open;
use probe::cache::How;
use probe::infer::series::{combined, judge, marks};
use probe::{Answer, Finding, Kind, Limits, Measured, Price, Question, Series};
use report::plot::{Figure, png, svg};
use report::probe::{Experiment, Probe, Value, prices_csv};

use crate::cmd::probe::args::{CacheMethod, Experiment as Which, Probe as Args};
use crate::error::{Error, Outcome};
use crate::input::whole;
use crate::out::{Out, publish};
use crate::progress::Progress;

const SCHEMA: &str = "fathom.probe/1";

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    args.plot
        .iter()
        .chain(&args.csv)
        .try_for_each(|dir| is_there(dir))?;
    let dir = args.dir.as_deref().map(OsStr::as_bytes);
    let answer = match (&args.replay, dir) {
        (Some(file), _) => replay(file.as_bytes())?,
        (None, Some(dir)) => measure(args, dir, out)?,
        (None, None) => return Err(Error::new("give a directory".to_owned())),
    };
    let warnings = dir
        .map(|dir| probe::run::warnings(dir, &answer))
        .unwrap_or_default();
    let shown = shown(dir, &answer);
    if let Some(into) = &args.csv {
        for series in &answer.series {
            keep(into, &series.file_name(), series.to_csv().as_bytes())?;
        }
        if let Some(prices) = shown.prices.as_deref() {
            keep(into, "gates-prices.csv", prices_csv(prices).as_bytes())?;
        }
    }
    if let Some(into) = &args.plot {
        answer
            .series
            .iter()
            .try_for_each(|series| draw(into, "", series))?;
    }
    if out.json {
        out.envelope(SCHEMA, &shown, &warnings)?;
    } else {
        out.data(
            shown
                .to_text(out.table_style(), out.verbose || args.replay.is_some())
                .as_bytes(),
        )?;
    }
    let clock = answer
        .measured
        .iter()
        .find(|measured| measured.finding.name == "overhead-clock-monotonic-raw");
    if let Some(probe::Value::Number(ns)) =
        clock.and_then(|measured| measured.finding.inferred.as_ref())
        && *ns > probe::timer::NO_VDSO
    {
        out.note(format_args!(
            "a look at the clock enters the kernel and costs {ns:.0} ns: short calls look long here"
        ));
    }
    out.warn(&warnings);
    Ok(warnings.len())
}

/// Refuses a directory for the output that is none, before anything is measured for it.
pub(crate) fn is_there(dir: &OsStr) -> Result<(), Error> {
    let opened = gate::long::open_long(dir.as_bytes(), Open::DIRECTORY);
    opened.map(drop).map_err(|e| {
        Error::write(
            "cannot write into",
            dir.as_bytes(),
            e,
            "give a directory that is there",
        )
    })
}

fn measure(args: &Args, dir: &[u8], out: &Out) -> Result<Answer, Error> {
    let question = Question {
        dir: dir.to_vec(),
        experiments: experiments(&args.experiments),
        limits: Limits {
            bytes: args.max_bytes,
            time: args.max_seconds,
        },
        cache: How {
            paper: args.method == CacheMethod::Paper,
            limit: args.cache_limit,
        },
        unasked: false,
    };
    let mut progress = Progress::new(out.progress);
    let held = gate::interrupt::hold();
    let answer = probe::run(&question, &mut |what| progress.at(|| what.to_owned()));
    drop(progress);
    drop(held); // who was asked to stop ends here, with everything put away
    answer.map_err(|why| Error::read("cannot probe", dir, why.to_string(), ""))
}

fn experiments(asked: &[Which]) -> Vec<probe::Experiment> {
    use probe::Experiment as Do;
    if asked.is_empty() || asked.contains(&Which::All) {
        return Do::ALL.to_vec();
    }
    let which = |which: &Which| match which {
        Which::Timer => Do::Timer,
        Which::Block => Do::Block,
        Which::Readahead => Do::Readahead,
        Which::Cache => Do::Cache,
        Which::Extent => Do::Extent,
        Which::Gates | Which::All => Do::Gates,
    };
    asked.iter().map(which).collect()
}

/// Judges the samples of a file.
fn replay(path: &[u8]) -> Result<Answer, Error> {
    /// More than any series of ours takes.
    const MOST: usize = 64 << 20;
    const DOING: &str = "cannot replay";
    const NEXT: &str = "give a file that --csv has kept";
    let series = Series::from_csv(&whole(path, MOST, DOING, NEXT)?).map_err(|malformed| {
        let line = if malformed.line == 0 {
            String::new()
        } else {
            format!("line {}: ", malformed.line)
        };
        Error::read(DOING, path, format!("{line}{}", malformed.what), NEXT)
    })?;
    Ok(Answer {
        measured: judge(&series).into_iter().map(Measured::of).collect(),
        series: vec![series],
        ..Answer::default()
    })
}

/// Draws a series into a directory, twice, under a name that begins with `prefix`.
pub(crate) fn draw(dir: &OsStr, prefix: &str, series: &Series) -> Result<(), Error> {
    let name = series.file_name();
    keep_figure(
        dir,
        &format!("{prefix}{}", name.trim_end_matches(".csv")),
        &figure(series),
    )
}

/// Writes a figure into a directory, as SVG and as PNG.
pub(crate) fn keep_figure(dir: &OsStr, name: &str, figure: &Figure) -> Result<(), Error> {
    keep(dir, &format!("{name}.svg"), svg(figure).as_bytes())?;
    keep(dir, &format!("{name}.png"), &png(figure))
}

/// Writes a file of the output.
fn keep(dir: &OsStr, name: &str, bytes: &[u8]) -> Result<(), Error> {
    publish(&[dir.as_bytes(), b"/", name.as_bytes()].concat(), bytes)
}

/// An answer as it is shown.
pub(crate) fn shown<'a>(dir: Option<&'a [u8]>, answer: &'a Answer) -> Probe<'a> {
    Probe {
        dir,
        fstype: answer.fstype.as_deref(),
        experiments: answer.measured.iter().map(experiment).collect(),
        prices: answer
            .prices
            .as_ref()
            .map(|prices| prices.iter().map(price).collect()),
    }
}

fn experiment(measured: &Measured) -> Experiment<'_> {
    let Measured {
        finding,
        seconds,
        moved,
    } = measured;
    Experiment {
        experiment: finding.experiment.name(),
        name: finding.name,
        inferred: finding.inferred.as_ref().map(value),
        unit: finding.unit,
        truth: finding.truth.as_ref().map(value),
        truth_source: finding.truth_source.as_deref(),
        agrees: finding.agrees,
        confidence: finding.confidence,
        method: &finding.method,
        by_time: finding.by_time,
        seconds: *seconds,
        bytes_read: moved.read,
        bytes_written: moved.written,
        trials: finding.trials,
    }
}

fn value(value: &probe::Value) -> Value {
    match value {
        probe::Value::Number(v) => Value::Number(*v),
        probe::Value::Range(low, high) => Value::Range(*low, *high),
        probe::Value::List(values) => Value::List(values.clone()),
        probe::Value::Word(word) => Value::Word(word.clone()),
    }
}

fn price(price: &Price) -> report::probe::Price {
    report::probe::Price {
        gate: price.gate,
        what: price.what,
        state: if price.warm { "warm" } else { "cold" },
        threads: price.threads,
        ns: price.ns,
        low: price.low,
        high: price.high,
        calls: price.calls,
    }
}

/// A series as the paper draws it.
pub(crate) fn figure(series: &Series) -> Figure {
    let step = series.step;
    let (title, y) = match series.kind {
        Kind::Reads => (
            format!("Reads of {step} bytes, without readahead"),
            "ns for each read",
        ),
        Kind::ReadsAhead => (
            format!("Reads of {step} bytes, with readahead"),
            "ns for each read",
        ),
        Kind::Writes => (
            format!("Writes of {step} bytes into a hole"),
            "ns for each write",
        ),
        Kind::Blocks => (
            format!("Reads of {step} bytes, with readahead"),
            "ns for each read",
        ),
        Kind::Cached => (
            "Pages of the file in memory after each read".to_owned(),
            "pages",
        ),
        Kind::Passes => (
            format!("The second time through a file, ever longer by {step} bytes"),
            "ns for a step",
        ),
        Kind::Filled => (
            format!("Holes read, {step} bytes a step"),
            "bytes of the file in memory",
        ),
        Kind::Syncs => (
            format!("Waits until {step} bytes are on the disk"),
            "ns for each wait",
        ),
    };
    let note = judge(series)
        .first()
        .map(|found| note(found, series))
        .unwrap_or_default();
    // Of small calls the paper draws the first hundred: more would be nothing but black.
    let most = match series.kind {
        Kind::Reads | Kind::ReadsAhead | Kind::Writes => 160,
        Kind::Cached => 2048,
        _ => usize::MAX,
    };
    let points = series
        .runs
        .iter()
        .map(|run| *run as f64)
        .zip(combined(series))
        .take(most)
        .collect();
    let marks = marks(series).into_iter().filter(|at| *at < most).collect();
    Figure {
        title,
        note,
        x: "run".to_owned(),
        y: y.to_owned(),
        points,
        marks,
    }
}

fn note(found: &Finding, series: &Series) -> String {
    let trials = series.trials.len();
    let of = if trials > 1 {
        format!(" ({trials} trials)")
    } else {
        String::new()
    };
    match &found.inferred {
        Some(inferred) => {
            format!(
                "{}: {} {}{of}",
                found.name,
                value(inferred).text(found.unit),
                bytes_word(found.unit)
            )
        }
        None => format!("{}: cannot tell{of}", found.name),
    }
}

/// The unit, unless the number has it already.
fn bytes_word(unit: &str) -> &str {
    if unit == "bytes" { "" } else { unit }
}
