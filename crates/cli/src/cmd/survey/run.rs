//! Runs the steps of a survey, draws conclusions, and prints or writes the result.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use account::report::{AccountReport, Grouping};
use base::Warning;
use gate::Errno;
use gate::file::Writer;
use gate::fs::Open;
use gate::interrupt::{Guard, let_go};
use gate::long::{open_long, parent};
use gate::lookup::may_create_in;
use gate::process::yield_to_others;
use mounts::check::ANSWER_WITHIN;
use show::name::printable;
use show::table::TableStyle;
use survey::{Activity, Machine, StepRun, Survey, SurveyOptions, SurveyResults, conclude, gather};

use super::args::{Survey as Args, SurveyWalk};
use super::command::Commands;
use super::show::activity::{self, purpose, stage};
use super::show::json::{JsonSurvey, figures};
use super::show::page::html;
use super::show::summary;
use super::warning::{WarningKind, with_retry};
use crate::cmd::probe::run::{check_output_dir, draw};
use crate::error::{Error, Outcome};
use crate::out::{Out, publish_privately};
use crate::progress::Progress;
use crate::ranks::check_own_output;

const SCHEMA: &str = "fathom.survey/1";

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    if let Some([old, new]) = args.diff() {
        let [old, new] = [old, new].map(|file| printable(file.as_bytes()));
        let hint = format!("fathom compare {old} {new}");
        return Err(Error::new("survey has no option --diff".to_owned()).with_hint(&hint));
    }
    if args.to_stdout() && out.json {
        return Err(Error::new(
            "the page and the JSON both go to standard output; give -o FILE for the page"
                .to_owned(),
        ));
    }
    args.plot.iter().try_for_each(|dir| check_output_dir(dir))?;
    let mut page = args.page();
    page.map_or(Ok(()), |page| check_own_output("survey", page))?;
    if let Some(Err(error)) = page.map(check_page) {
        if args.output.is_some() {
            return Err(error);
        }
        note_no_page(&error, out);
        page = None;
    }
    let options = SurveyOptions {
        dir: args.dir().as_bytes().to_vec(),
        root: mounts::check::open_root(args.dir().as_bytes(), ANSWER_WITHIN)?,
        limit: args.limit(),
        deep: args.deep,
        network: args.network,
        walk_command: SurveyWalk::command_line,
    };
    yield_to_others();
    let signals = gate::interrupt::defer_signals();
    let (found, machine) = gather(&options, &mut show_progress(out));
    let root = &options.root.path;
    print((args, out), root, page, found, &machine, signals)
}

/// The walk whose system calls a survey counts, in a child process.
pub(crate) fn walk_call_by_call(args: &SurveyWalk) -> Outcome {
    survey::walk_call_by_call(&args.requested_walk())?;
    Ok(0)
}

/// Shows the current step on the terminal.
fn show_progress(out: &Out) -> impl FnMut(&StepRun, Activity<'_>) {
    let mut line = None;
    move |turn, activity| {
        let begin = || Progress::stage(out.progress, stage(turn));
        match activity {
            Activity::Announced if out.verbose => {
                out.note(format_args!("{}: {}", stage(turn), purpose(turn.step)));
            }
            Activity::Announced => {}
            Activity::Begun => line = Some(begin()),
            // A stopped child process may leave its progress line on the terminal: clear it.
            Activity::Ended => drop(line.take().unwrap_or_else(begin)),
            activity => activity::show(&activity, line.get_or_insert_with(begin)),
        }
    }
}

/// Draws the plots; writes the page, the text or the JSON.
fn print(
    (args, out): (&Args, &Out),
    root: &[u8],
    page: Option<&[u8]>,
    mut found: SurveyResults,
    machine: &Machine,
    signals: Guard,
) -> Outcome {
    /// Number of files and of directories in the account of the JSON.
    const ACCOUNTED: usize = 10;
    let is_interrupted = gate::interrupt::pending_signal().is_some();
    let commands = Commands::new(root, None);
    let warnings = std::mem::take(&mut found.warnings).into_iter();
    let mut warnings: Vec<_> = warnings.map(|one| with_retry(one, &commands)).collect();
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
    let known = warnings.clone();
    let survey = conclude(Survey {
        root,
        machine,
        found: &found,
        account: account.map(|taken| AccountReport::new(taken, Grouping::Program, ACCOUNTED)),
        findings: Vec::new(),
        advice: Vec::new(),
        is_interrupted,
        warnings: &known,
    });
    let mut written = None;
    if let Some(name) = page {
        match publish_privately(name, html(&survey).as_bytes()) {
            Ok(()) => written = Some(name),
            Err(why) if args.output.is_none() => note_no_page(&why, out),
            Err(why) => warnings.push(Warning::general(WarningKind::Page(why))),
        }
    }
    // All temporary files are removed, so a deferred signal may now end the process.
    let_go(signals);
    if out.json {
        if let Some(name) = written {
            out.note(format_args!("page: {}", printable(name)));
        }
        let figures = Some(figures(&survey));
        out.measured(SCHEMA, JsonSurvey(&survey), figures, &warnings)?;
    } else if args.to_stdout() {
        out.data(html(&survey).as_bytes())?;
    } else {
        let style = TableStyle {
            tree: out.on_terminal(),
            ..out.table_style()
        };
        let text = match args.full {
            true => super::show::text(&survey, style) + "\n" + &summary::page_line(written),
            false => summary::text(&survey, style, written),
        };
        out.data(text.as_bytes())?;
        if !args.full && written == page {
            return Ok(warnings.len()); // the summary lists the warnings
        }
    }
    Ok(out.warn(&warnings))
}

/// Notes that the default page file cannot be written.
fn note_no_page(why: &Error, out: &Out) {
    out.note(format_args!("no page: {why}; -o FILE writes it elsewhere"));
}

/// Checks in advance that the page can be written.
fn check_page(name: &[u8]) -> Result<(), Error> {
    let cannot = |e: Errno| {
        let hint = "choose another file with -o, or give --no-page";
        Error::write("cannot write the page to", name, e, hint)
    };
    // A device or a FIFO is written in place, not atomically.
    if Writer::place(name).map_err(cannot)?.is_none() {
        return Ok(());
    }
    let opened = open_long(parent(name), Open::PATH | Open::DIRECTORY);
    opened
        .and_then(|dir| may_create_in(dir.as_fd()))
        .map_err(cannot)
}

impl Args {
    /// Whether the page replaces the text on standard output.
    fn to_stdout(&self) -> bool {
        self.output.as_deref() == Some(OsStr::new("-"))
    }

    /// The file for the page; `None` for standard output or no page.
    fn page(&self) -> Option<&[u8]> {
        const DEFAULT: &[u8] = b"fathom-survey.html";
        let is_file = !self.no_page && !self.to_stdout();
        is_file.then(|| self.output.as_deref().map_or(DEFAULT, OsStr::as_bytes))
    }
}
