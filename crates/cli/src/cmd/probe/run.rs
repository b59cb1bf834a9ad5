//! `fathom probe`: determines properties of a file system by experiments.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use ::show::figure::Plot;
use gate::fs::Open;
use probe::{
    CacheOptions, Experiment, Limits, MeasuredFinding, ProbeOptions, ProbeReport, Quantity, Series,
    Value, evaluate,
};

use super::show::{
    Report, brief, figures_of_findings, figures_of_prices, methods::hint, plots, prices_csv,
    slow_clock, warnings,
};
use crate::cmd::probe::args::{CacheMethod, ChosenExperiment, Probe as Args};
use crate::error::{Error, Outcome};
use crate::input::whole;
use crate::out::{Out, publish};
use crate::progress::Progress;

const SCHEMA: &str = "fathom.probe/1";

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    refuse_unused(args)?;
    for dir in args.plot.iter().chain(&args.csv) {
        check_output_dir(dir)?;
    }
    let dir = args.dir.as_deref().map(OsStr::as_bytes);
    let report = match (&args.replay, dir) {
        (Some(file), _) => replay(file.as_bytes())?,
        (None, Some(dir)) => measure(args, dir, out)?,
        (None, None) => return Err(Error::new("give a directory")),
    };
    let warnings = dir.map_or(Vec::new(), |dir| warnings(dir, &report));
    if let Some(into) = &args.csv {
        for series in &report.series {
            let name = format!("{}.csv", series.file_stem());
            write_output(into, &name, series.to_csv().as_bytes())?;
        }
        if let Some(prices) = &report.prices {
            write_output(into, "gates-prices.csv", prices_csv(prices).as_bytes())?;
        }
    }
    if let Some(into) = &args.plot {
        for series in &report.series {
            draw(into, "", series)?;
        }
        let prices = report.prices.as_deref().unwrap_or_default();
        let prices = plots::prices_svg(prices);
        if let Some(svg) = &prices {
            write_output(into, "gates-prices.svg", svg.as_bytes())?;
        }
        let is_drawn = |one: &Experiment| {
            let mut series = report.series.iter();
            series.any(|series| series.kind.experiment() == *one)
                || *one == Experiment::Gates && prices.is_some()
        };
        let is_named = |one: &&Experiment| args.experiments.contains(&Some(**one));
        let named = Experiment::ALL.iter().filter(is_named);
        for one in named.filter(|one| !is_drawn(one)) {
            out.note(format_args!(
                "no plot of {}: it has no series of samples; --csv writes what it has",
                one.name()
            ));
        }
    }
    let shown = Report {
        dir,
        report: &report,
    };
    if out.json {
        let mut figures = figures_of_findings(&report, "");
        figures.extend(figures_of_prices(&report));
        out.measured(SCHEMA, shown, Some(figures), &warnings)?;
    } else {
        let (style, methods) = (out.table_style(), out.verbose || args.replay.is_some());
        let text = match args.full || methods {
            true => shown.to_text(style, methods),
            false => brief::text(shown, style),
        };
        out.data(text.as_bytes())?;
    }
    let overhead = report.find(Quantity::RawOverhead).and_then(|f| f.value());
    if let Some(Value::Number(ns)) = overhead
        && *ns > probe::NO_VDSO
    {
        out.note(slow_clock(*ns));
    }
    Ok(out.warn(&warnings))
}

/// Refuses options that would have no effect.
fn refuse_unused(args: &Args) -> Result<(), Error> {
    let is_experiment = |name: &&str| {
        let mut names = Experiment::ALL.map(Experiment::name).into_iter();
        *name == "all" || names.any(|one| one == *name)
    };
    let dir = args.dir.as_deref().and_then(OsStr::to_str);
    if let Some(name) = dir.filter(is_experiment)
        && gate::long::open_long(name.as_bytes(), Open::PATH).is_err()
    {
        let hint = format!("give DIR first: fathom probe DIR {name}");
        return Err(Error::new(format!(
            "'{name}' is an experiment, and there is no such directory"
        ))
        .with_hint(&hint));
    }
    let fills_cache = experiments(&args.experiments).contains(&Experiment::Cache);
    let given = [
        (args.cache_limit.is_some(), "--cache-limit"),
        (args.method == CacheMethod::Paper, "--method"),
    ];
    match given.iter().find(|(is_given, _)| *is_given) {
        Some((_, option)) if !fills_cache => Err(Error::new(format!(
            "{option} is only for the experiment cache"
        ))
        .with_hint(&format!(
            "add cache to the experiments, or leave out {option}"
        ))),
        _ => Ok(()),
    }
}

/// Checks before a measurement that the output directory exists: writing the results would fail.
pub(crate) fn check_output_dir(dir: &OsStr) -> Result<(), Error> {
    let dir = dir.as_bytes();
    let opened = gate::long::open_long(dir, Open::DIRECTORY);
    opened
        .map(drop)
        .map_err(|e| Error::write("cannot write to", dir, e, "give an existing directory"))
}

fn measure(args: &Args, dir: &[u8], out: &Out) -> Result<ProbeReport, Error> {
    const LATENESS: Duration = Duration::from_secs(60);
    let options = ProbeOptions {
        dir: dir.to_vec(),
        experiments: experiments(&args.experiments),
        limits: Limits {
            bytes: args.max_bytes,
            time: args.max_seconds,
        },
        lateness: LATENESS,
        cache: CacheOptions {
            paper: args.method == CacheMethod::Paper,
            limit: args.cache_limit,
        },
        unnamed_only: false,
    };
    let mut progress = Progress::new(out.progress);
    let held = gate::interrupt::defer_signals();
    let report = probe::probe(&options, &mut |activity| {
        progress.at(|| activity.to_string());
    });
    drop(progress);
    // A deferred SIGINT ends the program here, after all temporary files are removed.
    drop(held);
    report.map_err(|why| Error::read("cannot probe", dir, why.to_string(), hint(&why)))
}

fn experiments(chosen: &[ChosenExperiment]) -> Vec<Experiment> {
    let is_all = chosen.is_empty() || chosen.contains(&None);
    let mut all = Experiment::ALL.to_vec();
    all.retain(|one| is_all || chosen.contains(&Some(*one)));
    all
}

fn replay(path: &[u8]) -> Result<ProbeReport, Error> {
    /// Maximum size of the CSV file to replay: no series of samples is as large.
    const MOST: usize = 64 << 20;
    const DOING: &str = "cannot evaluate the samples in";
    const NEXT: &str = "give a CSV file that fathom probe --csv has written";
    let series = Series::from_csv(&whole(path, MOST, DOING, NEXT)?)
        .map_err(|why| Error::read(DOING, path, why.to_string(), NEXT))?;
    Ok(ProbeReport {
        measured: evaluate(&series)
            .into_iter()
            .map(MeasuredFinding::from)
            .collect(),
        series: vec![series],
        ..ProbeReport::default()
    })
}

/// Draws the plot of a series in a directory, as a file whose name begins with `prefix`.
pub(crate) fn draw(dir: &OsStr, prefix: &str, series: &Series) -> Result<(), Error> {
    let name = format!("{prefix}{}", series.file_stem());
    write_plot(dir, &name, &plots::plot_of(series))
}

pub(crate) fn write_plot(dir: &OsStr, name: &str, plot: &Plot) -> Result<(), Error> {
    write_output(dir, &format!("{name}.svg"), plot.to_svg().as_bytes())
}

fn write_output(dir: &OsStr, name: &str, bytes: &[u8]) -> Result<(), Error> {
    publish(&[dir.as_bytes(), b"/", name.as_bytes()].concat(), bytes)
}
