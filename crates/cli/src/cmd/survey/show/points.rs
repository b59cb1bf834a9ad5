//! Findings and advice, in words.

use account::ledger::Sum;
use mounts::diagnosis::AnomalyKind;
use pathsearch::{Change, ProgramStart, StartupReport};
use probe::{Experiment, ProbeReport};
use show::json_object;
use show::name::printable;
use show::units::{count, duration, plural, size, sized};
use survey::bounded::{LimitedWalk, StoppedEngine};
use survey::capacity::Capacity;
use survey::{Command, Conclusion, Cost, Section, Statement, Survey};

use super::bounded::{
    duration_estimate, effort_figure, how_far, part_walked, stopped, stopped_after,
};
use super::known::{cache_sentence, cache_text, known_sentence, known_text};
use super::title::section_title;
use super::{anomalies, missing};
use crate::cmd::account::show::how::how;
use crate::cmd::probe::show::value_text;
use crate::cmd::survey::command::Commands;
use crate::cmd::walk::show::agreement_text;
use survey::known::{BLOCK, CacheSize, PropertyValue, READAHEAD};
use walk::compare::Agreement;

/// A finding or an advice, in words.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Point {
    pub(crate) text: String,
    pub(crate) figure: String,
    /// The command that prints details, or that is recommended.
    pub(crate) command: String,
    /// The section with the details.
    pub(crate) section: Section,
}

json_object!(Point, |point| {
    "text": point.text,
    "figure": point.figure,
    "command": point.command,
});

impl Point {
    pub(crate) fn findings(survey: &Survey<'_>) -> Vec<Point> {
        Point::all(&survey.findings, survey)
    }

    pub(crate) fn advice(survey: &Survey<'_>) -> Vec<Point> {
        Point::all(&survey.advice, survey)
    }

    /// The text, with the figure in parentheses in place of its full stop.
    pub(crate) fn with_figure(&self) -> String {
        let sentence = self.text.strip_suffix('.').unwrap_or(&self.text);
        format!("{sentence} ({})", self.figure)
    }

    fn all(conclusions: &[Conclusion<'_>], survey: &Survey<'_>) -> Vec<Point> {
        let commands = Commands::from_survey(survey);
        let root = printable(survey.root);
        let point = |conclusion: &Conclusion<'_>| {
            let (figure, text) = finding_text(&conclusion.statement, &root, &commands)
                .unwrap_or_else(|| advice_text(&conclusion.statement, &root));
            Point {
                text,
                figure,
                command: commands.text(&conclusion.command),
                section: conclusion.section,
            }
        };
        conclusions.iter().map(point).collect()
    }
}

fn finding_text(
    statement: &Statement<'_>,
    root: &str,
    commands: &Commands,
) -> Option<(String, String)> {
    Some(match statement {
        Statement::Mounts(all, unusual, kinds) => mounts(root, *all, *unusual, kinds),
        Statement::Full(full) => full_text(full),
        Statement::MountMethods(used, dearest) => (
            format!("{} to find the mounts", duration(used.ms / 1e3)),
            format!(
                "{} finds the mounts in {} and {} calls; the slowest method, {}, takes {} and {} calls.",
                used.name,
                duration(used.ms / 1e3),
                count(used.calls),
                dearest.name,
                duration(dearest.ms / 1e3),
                count(dearest.calls)
            ),
        ),
        Statement::FileSystem {
            report,
            dir,
            memory,
            others,
        } => file_system(report, dir, *memory, *others as u64, commands),
        Statement::KernelDisagrees {
            dir,
            finding,
            measured,
            stated,
        } => {
            let (name, unit) = (finding.quantity.name(), finding.quantity.unit());
            let [is, says] = [measured, stated].map(|value| value_text(value, unit));
            let text = format!(
                "On {}, {name} is {is} by measurement, and {says} by the kernel.",
                printable(dir)
            );
            (format!("{is}, not {says}"), text)
        }
        Statement::Walk(cost, plain) => walk(root, cost, plain.as_ref()),
        Statement::BoundedWalk {
            bounded,
            cost,
            plain,
        } => bounded_walk(root, bounded, cost.as_ref(), plain.as_ref()),
        Statement::StoppedWalk(stopped, plain) => stopped_walk(root, stopped, *plain),
        Statement::EnginesDiffer(agreement) => {
            let figure = match agreement {
                Agreement::Disagree => "The engines disagree",
                _ => "The tree changed",
            };
            (
                figure.to_owned(),
                format!("{}.", agreement_text(*agreement)),
            )
        }
        Statement::PathSearch(startup) => path_search(startup),
        Statement::NightlyDump(dump) => {
            let ms = duration(dump.unchanged.cpu_seconds);
            let text = format!(
                "A nightly dump without changes costs {} calls and {ms} of CPU time; the first dump reads {} in {}.",
                count(dump.unchanged.calls),
                sized(dump.first.bytes),
                plural(dump.first.files, "file", "files")
            );
            (format!("{ms} of CPU time a night"), text)
        }
        Statement::DearestCall(gate, sum, percent) => dearest_call(gate, sum, *percent),
        Statement::StatxPrice { warm, cold, empty } => statx_price(*warm, *cold, *empty),
        _ => return None,
    })
}

fn dearest_call(gate: &str, sum: &Sum, percent: f64) -> (String, String) {
    let text = format!(
        "A walk with one call after the other spends {percent:.1} % of its time in {gate}: {} calls of {} each.",
        count(sum.calls),
        duration(sum.ms_per_call() / 1e3)
    );
    (format!("{percent:.1} % in {gate}"), text)
}

/// A list of a few names, and the number of further ones.
fn names(all: &[&[u8]]) -> String {
    const NAMED: usize = 3;
    const LONG: usize = 80;
    let short = |name: &&[u8]| {
        let name = printable(name);
        match name.char_indices().nth(LONG) {
            Some((end, _)) => format!("{}…", &name[..end]),
            None => name.into_owned(),
        }
    };
    let named: Vec<String> = all.iter().take(NAMED).map(short).collect();
    match all.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        left => format!("{} and {left} more", named.join(", ")),
    }
}

fn mounts(
    root: &str,
    count: usize,
    unusual: usize,
    kinds: &[(AnomalyKind, Vec<&[u8]>)],
) -> (String, String) {
    let mounts = plural(count as u64, "mount", "mounts");
    let kinds = kinds.iter().map(|(kind, targets)| {
        let are = anomalies::kind(*kind);
        format!("{} {are} ({})", targets.len(), names(targets))
    });
    let kinds = kinds.collect::<Vec<_>>().join("; ");
    let text = match (count, kinds.is_empty()) {
        (0, _) => format!("Nothing is mounted at or under {root}."),
        (1, true) => format!("{mounts} at or under {root}, not unusual."),
        (_, true) => format!("{mounts} at or under {root}, none of them unusual."),
        (_, false) => format!("{mounts} at or under {root}, {unusual} of them unusual: {kinds}."),
    };
    let figure = match (count, unusual) {
        (0, _) => "no mounts".to_owned(),
        (_, 0) => mounts,
        _ => format!("{mounts}, {unusual} unusual"),
    };
    (figure, text)
}

fn full_text(full: &[(&[u8], Capacity)]) -> (String, String) {
    let text = |(dir, capacity): &(&[u8], Capacity)| {
        let what = if capacity.lacks_inodes() {
            "inodes"
        } else {
            "space"
        };
        format!("{} has no {what} left", printable(dir))
    };
    let first = full.first().map(text).unwrap_or_default();
    let others = match full.len().saturating_sub(1) as u64 {
        0 => String::new(),
        n => format!(", nor {}", plural(n, "other", "others")),
    };
    let figure = plural(
        full.len() as u64,
        "file system is full",
        "file systems are full",
    );
    (figure, format!("{first}{others}."))
}

fn file_system(
    report: &ProbeReport,
    dir: &[u8],
    memory: Option<u64>,
    others: u64,
    commands: &Commands,
) -> (String, String) {
    let block = PropertyValue::new(report, &BLOCK);
    let readahead = PropertyValue::new(report, &READAHEAD);
    let cache = CacheSize::new(report);
    let is_unmeasured = cache == CacheSize::Known(PropertyValue::NotMeasured);
    let memory = memory.filter(|_| is_unmeasured).map(size);
    let figure = |what, known| {
        (known != PropertyValue::NotMeasured).then(|| format!("{what} {}", known_text(known)))
    };
    let figures = [
        figure("block", block),
        figure("readahead", readahead),
        (!is_unmeasured).then(|| format!("cache {}", cache_text(cache))),
        memory
            .as_ref()
            .map(|memory| format!("cache up to {memory}")),
    ];
    let cache = match memory {
        Some(memory) => Some(format!(
            "the page cache holds at most {memory}, all memory ({} measures it)",
            commands.text(&Command::Probe(dir, vec![Experiment::Cache]))
        )),
        None => cache_sentence(cache),
    };
    let (grows, ahead) = ("the allocation unit is %", "the readahead is %");
    let facts = [
        known_sentence(block, grows, "the allocation unit"),
        known_sentence(readahead, ahead, "the readahead"),
        cache,
    ];
    let fstype = report.fstype.as_deref();
    let fstype = fstype.map_or(String::new(), |fstype| format!(" ({})", printable(fstype)));
    let others = match others {
        0 => String::new(),
        n => format!(" {} more below.", plural(n, "file system", "file systems")),
    };
    let joined = |all: Vec<String>, by| all.join(by);
    let facts = joined(facts.into_iter().flatten().collect(), "; ");
    let text = format!("On {}{fstype}, {facts}.{others}", printable(dir));
    (joined(figures.into_iter().flatten().collect(), ", "), text)
}

fn walk(root: &str, cost: &Cost, plain: Option<&Cost>) -> (String, String) {
    let entries = plural(cost.found, "entry", "entries");
    let plain = match plain {
        Some(plain) if plain.name == cost.name => {
            ", one call after the other, as find does".to_owned()
        }
        Some(plain) => format!(
            "; one call after the other, as find does, takes {} and {} calls{}",
            duration(plain.ms / 1e3),
            count(plain.calls),
            times_as_long(plain, cost)
        ),
        None => String::new(),
    };
    let text = format!(
        "A walk of {root} reads {entries} in {} and {} calls by {}{plain}.",
        duration(cost.ms / 1e3),
        count(cost.calls),
        cost.name
    );
    (format!("{} for {entries}", duration(cost.ms / 1e3)), text)
}

/// The ratio of two times; empty if it is about 1.
fn times_as_long(plain: &Cost, cost: &Cost) -> String {
    match plain.ms / cost.ms {
        ratio if ratio >= 1.1 => format!(" ({ratio:.1} times as long)"),
        _ => String::new(),
    }
}

/// A walk that the survey's limits stopped: its progress, the estimate for all, and the engines on
/// a part of the tree.
fn bounded_walk(
    root: &str,
    bounded: &LimitedWalk,
    cost: Option<&Cost>,
    plain: Option<&Cost>,
) -> (String, String) {
    let mut text = format!(
        "A walk of {root} exceeds the limits of a survey: {}.",
        stopped(bounded)
    );
    if let Some(estimate) = duration_estimate(bounded) {
        text += &format!(" Estimated: {estimate}.");
    }
    if let (Some(part), Some(cost)) = (part_walked(bounded), cost) {
        let entries = plural(cost.found, "entry", "entries");
        text += &format!(
            " Cached, {} walks {part} ({entries}) in {}",
            cost.name,
            duration(cost.ms / 1e3)
        );
        if let Some(plain) = plain.filter(|plain| plain.name != cost.name) {
            text += &format!(
                "; one call after the other, as find does, takes {}",
                duration(plain.ms / 1e3)
            );
            text += &times_as_long(plain, cost);
        }
        text.push('.');
    }
    let figure = match bounded.inodes.filter(|_| bounded.whole_seconds().is_some()) {
        Some(inodes) => format!("{} for {} files", how_far(bounded), count(inodes)),
        None => how_far(bounded),
    };
    (figure, text)
}

fn stopped_walk(
    root: &str,
    stopped: &StoppedEngine,
    plain: Option<&StoppedEngine>,
) -> (String, String) {
    let plain = plain.map_or(String::new(), |plain| {
        let why = stopped_after(plain);
        format!(" One call after the other, as find does, was {why}.")
    });
    let text = format!(
        "A walk of {root} exceeds the limits of a survey: {} was {}.{plain}",
        stopped.engine.name(),
        stopped_after(stopped)
    );
    (stopped.why.to_string(), text)
}

fn path_search(startup: &StartupReport) -> (String, String) {
    let directories = startup.path.len() as u64;
    let figure = match startup.started.first() {
        Some(ProgramStart { totals, .. }) => {
            let [misses, lookups] = [totals.misses, totals.lookups].map(count);
            format!("{misses} of {lookups} lookups fail")
        }
        None => {
            let directories = plural(directories, "directory", "directories");
            format!("{directories} in PATH")
        }
    };
    let [missing, duplicate] = super::startup::useless_elements(startup);
    let useless: Vec<String> = [(missing, "missing"), (duplicate, "duplicate")]
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{n} {what}"))
        .collect();
    let mut text = plural(directories, "directory in PATH", "directories in PATH");
    if !useless.is_empty() {
        text += &format!(" ({})", useless.join(", "));
    }
    text.push('.');
    for start in &startup.started {
        text += &format!(
            " {} starts in {} with {} lookups by name, of which {} fail; on a network file system, the lookups would take {}.",
            start.command,
            duration(start.seconds),
            count(start.totals.lookups),
            count(start.totals.misses),
            duration(start.remote_seconds)
        );
    }
    (figure, text)
}

fn statx_price(warm: f64, cold: Option<f64>, empty: Option<f64>) -> (String, String) {
    let ns = |price: f64| duration(price / 1e9);
    let warm = ns(warm);
    let (figure, cold) = match cold.map(ns) {
        Some(cold) => (
            format!("{warm} warm, {cold} cold"),
            format!(", and {cold} uncached"),
        ),
        None => (format!("{warm} a statx"), String::new()),
    };
    let empty = empty.map_or(String::new(), |empty| {
        format!(" An empty call costs {}.", ns(empty))
    });
    let text = format!("A statx costs {warm} cached{cold}.{empty}");
    (figure, text)
}

fn advice_text(statement: &Statement<'_>, root: &str) -> (String, String) {
    match statement {
        Statement::MendMounts(kind, targets) => mend_mounts(*kind, targets),
        Statement::FreeSpace(full) => {
            let names = names(&full.iter().map(|(dir, _)| *dir).collect::<Vec<_>>());
            (full_text(full).0, format!("Make room on {names}."))
        }
        Statement::CheckServers(servers) => check_servers(*servers as u64),
        Statement::KeepCatalog(effort) => {
            let text = format!(
                "Keep a catalog of {root}: fathom changed then lists only what has changed."
            );
            (format!("{} a scan", effort_figure(effort)), text)
        }
        Statement::ChooseEngine { fastest, default } => {
            let text = format!(
                "Walk {root} with --engine {}: {} instead of {} with {}.",
                fastest.name,
                duration(fastest.ms / 1e3),
                duration(default.ms / 1e3),
                default.name
            );
            let times = default.ms / fastest.ms;
            (format!("{times:.1} times as fast"), text)
        }
        Statement::ReplacePlainWalk {
            cost,
            plain,
            bounded,
        } => {
            let part = bounded.and_then(part_walked);
            let part = part.map_or(String::new(), |part| format!(" for {part}"));
            let text = format!(
                "Walk {root} with fathom instead of find: {} instead of {}{part}.",
                duration(cost.ms / 1e3),
                duration(plain.ms / 1e3)
            );
            (format!("{:.1} times as fast", plain.ms / cost.ms), text)
        }
        Statement::WalkAsRoot(engine, effort) => {
            let engine = engine.name();
            let text = format!("Walk {root} as root: only root can use the engine {engine}.");
            (format!("{} without root", effort_figure(effort)), text)
        }
        Statement::FixSearch(start, fix) => {
            let text = format!(
                "To start {} faster, {}.",
                start.command,
                short_change(&fix.change)
            );
            let [saved, all] = [fix.saves_seconds_here, start.seconds].map(duration);
            (format!("saves {saved} of {all}"), text)
        }
        Statement::DumpIncrements(dump) => {
            let (first, changed) = (sized(dump.first.bytes), sized(dump.changed.bytes));
            let text =
                format!("Dump increments: {changed}, not {first}, if 1 % of the files changed.");
            let saved = dump.first.cpu_seconds - dump.changed.cpu_seconds;
            (format!("saves {} of CPU time", duration(saved)), text)
        }
        Statement::ChangeCalls(change) => {
            let text = format!("To walk with fewer calls than find, {}.", how(change.kind));
            let saved = duration(change.seconds);
            (
                format!("saves {:.1} % of CPU time, {saved}", change.percent),
                text,
            )
        }
        Statement::SurveyAsRoot(unseen) => {
            let first = unseen.first().map(missing::unseen).unwrap_or_default();
            let first = first.split([',', ':']).next().unwrap_or_default();
            let count = unseen.len() as u64;
            let figure = plural(count, "thing not seen", "things not seen");
            (
                figure,
                format!("Run the survey once as root, to measure more: {first}."),
            )
        }
        Statement::Gather(section, missing) => {
            let why = missing::text(missing);
            let why = why.split(';').next().unwrap_or_default();
            let what = section_title(*section).0.to_lowercase();
            ("skipped".to_owned(), format!("Measure {what}: {why}."))
        }
        _ => Default::default(),
    }
}

/// A proposed change to program starts, as a short imperative clause.
pub(crate) fn short_change(change: &Change) -> String {
    let text = match change {
        Change::SetPath(path) if path.is_reordered => "reorder PATH",
        Change::SetPath(path) => {
            let count = plural(path.removed.len() as u64, "directory", "directories");
            return format!("remove {count} from PATH");
        }
        Change::ShortenVariable { variable, .. } => return format!("shorten {variable}"),
        Change::ShortenRunpaths { .. } => "shorten RUNPATH",
        Change::CompileModules { .. } => "compile its modules once (compileall)",
        Change::SetBytecodeDirectory { .. } => "set PYTHONPYCACHEPREFIX",
        Change::AvoidShim { .. } => "execute it without its version manager",
        Change::CacheRubyLibraries => "cache library paths (bootsnap)",
        Change::BundleNodeProgram => "bundle it into one file (esbuild)",
        Change::CacheCompilations => "cache compilations (ccache)",
        Change::SetInstalledLocale => "set LC_ALL=C",
        Change::SetInstalledTerminal => "set TERM to an installed terminal",
        Change::CopyToLocalDisk { .. } => "copy its files to a local disk",
    };
    text.to_owned()
}

fn mend_mounts(kind: AnomalyKind, targets: &[&[u8]]) -> (String, String) {
    let (count, names) = (targets.len() as u64, names(targets));
    match kind {
        AnomalyKind::Hidden => (
            plural(count, "hidden mount", "hidden mounts"),
            format!("Check whether {names} is still needed: another mount covers it."),
        ),
        AnomalyKind::Duplicate => (
            plural(count, "duplicate mount", "duplicate mounts"),
            format!("Exclude {names} from backups: another mount shows the same files."),
        ),
        AnomalyKind::Failing => (
            plural(count, "file system is failing", "file systems are failing"),
            format!("Save what is on {names}, and look for its errors in the kernel log (dmesg)."),
        ),
        _ => (
            plural(count, "mount does not answer", "mounts do not answer"),
            format!("Exclude {names} from scans and backups until it answers."),
        ),
    }
}

fn check_servers(count: u64) -> (String, String) {
    let text = "Check that network mounts answer before a scan enters them.";
    let figure = plural(count, "network mount", "network mounts");
    (figure, text.to_owned())
}
