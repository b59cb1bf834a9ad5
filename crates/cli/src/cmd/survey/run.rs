//! Takes the steps of a survey, draws conclusions, and prints or writes the result.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use account::report::{AccountReport, Grouping};
use base::Warning;
use gate::Errno;
use gate::file::Writer;
use gate::fs::{Open, fstatfs};
use gate::interrupt::{Guard, let_go};
use gate::long::open_long;
use gate::lookup::{Permission, check_permission, may_create_in};
use gate::machine::{memory, processors, uname};
use gate::process::{is_root, yield_to_others};
use mounts::root::Root;
use show::name::printable;
use show::table::TableStyle;
use survey::{Found, Machine, Survey, Unseen, conclude};

use super::args::Survey as Args;
use super::context::SurveyContext;
use super::mounts::times_out;
use super::show::json::{JsonSurvey, figures};
use super::show::page::html;
use super::show::summary;
use super::steps;
use super::warning::WarningKind;
use crate::cmd::probe::run::{check_output_dir, draw};
use crate::error::{Error, Outcome};
use crate::out::{Out, publish};

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
    if let Some(Err(error)) = page.map(check_page) {
        if args.output.is_some() {
            return Err(error);
        }
        note_no_page(&error, out);
        page = None;
    }
    let root = Root::open(args.dir().as_bytes())?;
    let context = SurveyContext { args, out, root };
    let (when, begun) = (gate::clock::time_of_day() / 1_000_000, Instant::now());
    yield_to_others();
    let signals = gate::interrupt::hold();
    let mut found = Found::default();
    steps::take_all(&context, &mut found);
    let machine = machine(
        &context,
        &mut found,
        i64::try_from(when).unwrap_or(0),
        begun,
    );
    print(&context, page, found, &machine, signals)
}

/// The machine, and what the survey took.
fn machine(context: &SurveyContext<'_>, found: &mut Found, when: i64, begun: Instant) -> Machine {
    let args = context.args;
    let is_silent = found
        .mounts
        .as_ref()
        .is_some_and(|mounted| mounted.is_silent);
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
        sudo: ["sudo", "doas"].into_iter().find(|name| is_in_path(name)),
        places: places(),
        is_writable: !is_silent && may_write(context.dir()),
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

/// Where files can be written, as [`Machine::places`] has it. A working directory whose server does not answer
/// is none.
fn places() -> Vec<(Vec<u8>, u64)> {
    const PATIENCE: Duration = Duration::from_secs(2);
    let look = |dir: &[u8]| {
        let available = || {
            let opened = open_long(dir, Open::PATH | Open::DIRECTORY).ok()?;
            Some(fstatfs(&opened).ok()?.available)
        };
        may_write(dir).then(available).flatten()
    };
    let candidates: [(&[u8], &[u8]); 3] =
        [(b"", b"."), (b"/var/tmp", b"/var/tmp"), (b"/tmp", b"/tmp")];
    let answering = candidates.into_iter().filter(|(_, dir)| {
        !times_out(PATIENCE, || {
            look(dir);
        })
    });
    answering
        .filter_map(|(name, dir)| Some((name.to_vec(), look(dir)?)))
        .collect()
}

fn may_write(dir: &[u8]) -> bool {
    check_permission(dir, Permission::Write).is_ok()
}

fn is_in_path(program: &str) -> bool {
    meter::call::Command::find(&[program.into()]).is_ok()
}

/// Draws the plots, and makes page, text and JSON of what was found.
fn print(
    context: &SurveyContext<'_>,
    page: Option<&[u8]>,
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
    let known = warnings.clone();
    let survey = conclude(Survey {
        root: &root.path,
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
        match publish(name, html(&survey).as_bytes()) {
            Ok(()) => written = Some(name),
            Err(why) if args.output.is_none() => note_no_page(&why, out),
            Err(why) => warnings.push(Warning::general(WarningKind::Page(why))),
        }
    }
    // No step has files left to remove: a signal may end the process.
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
            return Ok(warnings.len()); // the summary has them
        }
    }
    out.warn(&warnings);
    Ok(warnings.len())
}

/// Says that the page, for which no file was named, is not written.
fn note_no_page(why: &Error, out: &Out) {
    out.note(format_args!("no page: {why}; -o FILE writes it elsewhere"));
}

/// Refuses a page that could not be written in the end.
fn check_page(name: &[u8]) -> Result<(), Error> {
    let cannot = |e: Errno| {
        let hint = "choose another file with -o, or give --no-page";
        Error::write("cannot write the page to", name, e, hint)
    };
    // A device or a FIFO is written as it is.
    if Writer::place(name).map_err(cannot)?.is_none() {
        return Ok(());
    }
    let parent = match name.iter().rposition(|byte| *byte == b'/') {
        Some(0) => &b"/"[..],
        Some(at) => &name[..at],
        None => b".",
    };
    let opened = open_long(parent, Open::PATH | Open::DIRECTORY);
    opened
        .and_then(|dir| may_create_in(dir.as_fd()))
        .map_err(cannot)
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
