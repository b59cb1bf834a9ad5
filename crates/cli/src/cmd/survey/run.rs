//! Takes the steps of a survey, draws conclusions, and prints or writes the result.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use super::show::commands::Commands;
use super::show::json::JsonSurvey;
use super::show::page::html;
use super::survey::{Compared, FileSystem, MountsPart, Plot, Survey, Walking};
use crate::cmd::mounts::methods::comparison;
use crate::cmd::mounts::show::Mounts;
use crate::cmd::survey::show::probe::Probe;
use crate::cmd::walk::show::Comparison;
use ::mounts::Warning;
use ::mounts::root::Root;
use ::show::name::printable;
use ::show::table::TableStyle;
use ::survey::{Machine, Section, Unseen};
use gate::interrupt::{Guard, let_go};
use gate::machine::{memory, processors, uname};
use gate::process::{is_root, yield_to_others};

pub(crate) use super::walking::tread;
use super::{diff, show, starting, steps};

use super::found::{Found, Probed};
use super::systems::shown;
use super::warning::WarningKind;
use crate::cmd::probe::run::{check_output_dir, draw};
use crate::cmd::probe::show::figures::figure;
use crate::cmd::survey::args::Survey as Args;
use crate::error::{Error, Outcome};
use crate::out::{Out, json_warnings, publish};
use account::report::{AccountReport, Grouping};

const SCHEMA: &str = "fathom.survey/1";
/// The page, in the current directory.
const PAGE: &[u8] = b"fathom-survey.html";
/// Files and directories of the account that the JSON has.
const ACCOUNTED: usize = 10;

/// What is surveyed, and how.
pub(super) struct SurveyContext<'a> {
    pub(super) args: &'a Args,
    pub(super) out: &'a Out,
    pub(super) root: Root,
    /// What finds alone what is found here.
    pub(super) commands: Commands,
}

impl SurveyContext<'_> {
    pub(super) fn dir(&self) -> &[u8] {
        self.args.dir().as_bytes()
    }
}

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
    let context = SurveyContext {
        args,
        out,
        commands: Commands::on(&root.path),
        root,
    };
    let (when, begun) = (gate::clock::time_of_day() / 1_000_000, Instant::now());
    yield_to_others();
    let held = gate::interrupt::hold();
    let mut found = Found::default();
    steps::take_all(&context, &mut found);
    let about = machine(&context, &found, i64::try_from(when).unwrap_or(0), begun);
    conclude(&context, found, about, held)
}

/// Makes page, text and JSON of what was found.
fn conclude(context: &SurveyContext<'_>, mut found: Found, about: Machine, held: Guard) -> Outcome {
    let SurveyContext { args, out, .. } = context;
    let was_asked = gate::interrupt::asked().is_some();
    let mut warnings = std::mem::take(&mut found.warnings);
    if was_asked {
        warnings.insert(0, Warning::general(WarningKind::Interrupted));
    }
    let probes: Vec<(Probe<'_>, &Probed)> = found
        .probed
        .iter()
        .map(|probed| (shown(probed), probed))
        .collect();
    for (n, (_, probed)) in (1..).zip(&probes) {
        for series in probed.report.series.iter().filter(|_| args.plot.is_some()) {
            if let Err(why) = draw(
                args.plot.as_deref().unwrap_or_default(),
                &format!("{n}-"),
                series,
            ) {
                warnings.push(Warning::general(WarningKind::Plot(why)));
            }
        }
    }
    let file_systems: Vec<FileSystem<'_>> = probes
        .into_iter()
        .map(|(probe, probed)| FileSystem {
            probe,
            plots: plots(probed),
        })
        .collect();
    let methods = found.methods.as_ref().map(|all| Compared {
        methods: &all.methods,
        left_out: &all.left_out,
    });
    let comparison = methods.map(|all| comparison(all.methods, all.left_out));
    let mounts = found.mounts.as_ref().map(|mounted| MountsPart {
        points: &mounted.points,
        mounts: Mounts {
            root: Some(&context.root.path),
            compare: comparison.as_ref(),
            by: mounted.by.name(),
            why: &mounted.why,
            complete: mounted.complete,
            mounts: &mounted.points,
            ..Mounts::default()
        },
        compared: found.part(Section::Mounts, methods),
    });
    let account = found
        .account
        .as_ref()
        .map(|taken| AccountReport::new(taken, Grouping::Program, ACCOUNTED));
    let shown_now = json_warnings(&warnings);
    let probed = Some(file_systems).filter(|probed| !probed.is_empty());
    let survey = Survey {
        root: &context.root.path,
        about,
        mounts: found.part(Section::Mounts, mounts),
        file_systems: found.part(Section::Probe, probed),
        walking: found.part(Section::Walk, walking(&found)),
        dumping: found.part(Section::Dump, found.dump.as_ref()),
        calls: found.part(Section::Account, account.as_ref()),
        starting: found.part(
            Section::Startup,
            found.starting.as_ref().map(starting::Starting::shown),
        ),
        gates: found.part(
            Section::Gates,
            found.gates.as_ref().map(|probed| shown(probed)),
        ),
        findings: Vec::new(),
        advice: Vec::new(),
        steps: found.steps.clone(),
        is_interrupted: was_asked,
        warnings: &shown_now,
    }
    .concluded();
    let style = TableStyle {
        tree: out.on_terminal(),
        ..out.table_style()
    };
    if let Some(name) = args.page() {
        match publish(name, html(&survey).as_bytes()) {
            Ok(()) => out.note(format_args!("the page is {}", printable(name))),
            Err(why) => warnings.push(Warning::general(WarningKind::Page(why))),
        }
    }
    // Nothing is left to be put away.
    let_go(held);
    if out.json {
        out.envelope(SCHEMA, JsonSurvey(&survey), &warnings)?;
    } else if args.to_stdout() {
        out.data(html(&survey).as_bytes())?;
    } else {
        out.data(show::text(&survey, style).as_bytes())?;
    }
    out.warn(&warnings);
    Ok(warnings.len())
}

impl Args {
    /// Whether the page goes where the text would.
    fn to_stdout(&self) -> bool {
        self.output.as_deref() == Some(OsStr::new("-"))
    }

    /// The file that the page is written to.
    fn page(&self) -> Option<&[u8]> {
        let is_file = !self.no_page && !self.to_stdout();
        is_file.then(|| self.output.as_deref().map_or(PAGE, OsStr::as_bytes))
    }
}

/// The machine, and what the survey took.
fn machine(context: &SurveyContext<'_>, found: &Found, when: i64, begun: Instant) -> Machine {
    let system = uname();
    let mut unseen = found.unseen.clone();
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
        limit_seconds: steps::time(context.args.limit()).as_secs_f64(),
        limit_bytes: steps::bytes(context.args.deep),
        deep: context.args.deep,
    }
}

/// The figures of what was measured on a file system.
fn plots(probed: &Probed) -> Vec<Plot> {
    let plot = |series: &probe::Series| Plot {
        experiment: series.kind.experiment().name(),
        figure: figure(series),
    };
    probed.report.series.iter().map(plot).collect()
}

fn walking(found: &Found) -> Option<Walking<'_>> {
    let compared = found.engines.as_ref()?;
    let mut need_root = compared
        .explained
        .iter()
        .flat_map(walk::Explained::needing_root);
    Some(Walking {
        part: compared.parts.first()?,
        explain: &compared.explained,
        needs_root: need_root.next().map(walk::EngineKind::name),
        compare: Comparison::new(&compared.engines, &compared.left_out),
        stopped: &found.stopped,
        bounded: found.bounded.as_ref(),
    })
}
