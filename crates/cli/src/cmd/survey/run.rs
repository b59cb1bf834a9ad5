//! Takes the steps of a survey, draws conclusions, and prints or writes the result.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use account::report::{AccountReport, Grouping};
use gate::interrupt::{Guard, let_go};
use gate::machine::{memory, processors, uname};
use gate::process::{is_root, yield_to_others};
use mounts::Warning;
use mounts::root::Root;
use show::name::printable;
use show::table::TableStyle;
use survey::{Machine, Unseen};

use super::args::Survey as Args;
use super::conclude::conclude;
use super::context::SurveyContext;
use super::show::json::JsonSurvey;
use super::show::page::html;
use super::survey::{Found, Survey};
use super::warning::WarningKind;
use super::{diff, steps};
use crate::cmd::probe::run::{check_output_dir, draw};
use crate::error::{Error, Outcome};
use crate::out::{Out, json_warnings, publish};

const SCHEMA: &str = "fathom.survey/1";

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    if let Some([old, new]) = args.diff() {
        return diff::run(old, new, out);
    }
    if args.to_stdout() && out.json {
        return Err(Error::new(
            "the page and the JSON both go to standard output; give -o FILE for the page"
                .to_owned(),
        ));
    }
    args.plot.iter().try_for_each(|dir| check_output_dir(dir))?;
    let root = Root::open(args.dir().as_bytes())?;
    let context = SurveyContext { args, out, root };
    let (when, begun) = (gate::clock::time_of_day() / 1_000_000, Instant::now());
    yield_to_others();
    let signals = gate::interrupt::hold();
    let mut found = Found::default();
    steps::take_all(&context, &mut found);
    let machine = machine(args, &mut found, i64::try_from(when).unwrap_or(0), begun);
    print(&context, found, &machine, signals)
}

/// The machine, and what the survey took.
fn machine(args: &Args, found: &mut Found, when: i64, begun: Instant) -> Machine {
    let system = uname();
    let mut unseen = std::mem::take(&mut found.unseen);
    if !is_root() {
        unseen.extend([Unseen::BulkEngines, Unseen::BpfMeter]);
    }
    Machine {
        host: Some(system.host).filter(|host| !host.is_empty()),
        kernel: system.kernel,
        arch: system.machine,
        cpus: processors(),
        memory: memory(),
        root: is_root(),
        unseen,
        version: env!("CARGO_PKG_VERSION"),
        when,
        seconds: begun.elapsed().as_secs_f64(),
        bytes_read: found.steps.iter().map(|step| step.bytes_read).sum(),
        bytes_written: found.steps.iter().map(|step| step.bytes_written).sum(),
        limit_seconds: steps::time(args.limit()).as_secs_f64(),
        limit_bytes: steps::bytes(args.deep),
        deep: args.deep,
    }
}

/// Draws the plots, and makes page, text and JSON of what was found.
fn print(
    context: &SurveyContext<'_>,
    mut found: Found,
    machine: &Machine,
    signals: Guard,
) -> Outcome {
    /// Files and directories of the account that the JSON has.
    const ACCOUNTED: usize = 10;
    let SurveyContext { args, out, root } = context;
    let is_interrupted = gate::interrupt::asked().is_some();
    let mut warnings = std::mem::take(&mut found.warnings);
    if is_interrupted {
        warnings.insert(0, Warning::general(WarningKind::Interrupted));
    }
    if let Some(dir) = &args.plot {
        for (n, probed) in (1..).zip(&found.file_systems) {
            let series = probed.report.series.iter();
            let drawn = series.map(|series| draw(dir, &format!("{n}-"), series));
            let failed = drawn.filter_map(Result::err);
            warnings.extend(failed.map(|why| Warning::general(WarningKind::Plot(why))));
        }
    }
    let account = found.account.as_ref();
    let shown = json_warnings(&warnings);
    let survey = conclude(Survey {
        root: &root.path,
        machine,
        found: &found,
        account: account.map(|taken| AccountReport::new(taken, Grouping::Program, ACCOUNTED)),
        findings: Vec::new(),
        advice: Vec::new(),
        is_interrupted,
        warnings: &shown,
    });
    if let Some(name) = args.page() {
        match publish(name, html(&survey).as_bytes()) {
            Ok(()) => out.note(format_args!("the page is {}", printable(name))),
            Err(why) => warnings.push(Warning::general(WarningKind::Page(why))),
        }
    }
    // No step has files left to remove: a signal may end the process.
    let_go(signals);
    if out.json {
        out.envelope(SCHEMA, JsonSurvey(&survey), &warnings)?;
    } else if args.to_stdout() {
        out.data(html(&survey).as_bytes())?;
    } else {
        let style = TableStyle {
            tree: out.on_terminal(),
            ..out.table_style()
        };
        out.data(super::show::text(&survey, style).as_bytes())?;
    }
    out.warn(&warnings);
    Ok(warnings.len())
}

impl Args {
    /// Whether the page goes to standard output, in place of the text.
    fn to_stdout(&self) -> bool {
        self.output.as_deref() == Some(OsStr::new("-"))
    }

    /// The file that the page is written to.
    fn page(&self) -> Option<&[u8]> {
        const DEFAULT: &[u8] = b"fathom-survey.html";
        let is_file = !self.no_page && !self.to_stdout();
        is_file.then(|| self.output.as_deref().map_or(DEFAULT, OsStr::as_bytes))
    }
}
