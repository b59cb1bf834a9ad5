//! Findings and advice in words.

use account::ledger::Sum;
use mounts::diagnosis::AnomalyKind;
use pathsearch::{Change, ProgramStart, StartupReport};
use show::json_object;
use show::name::printable;
use show::units::{duration, plural, size, sized};
use survey::Section;
use survey::bounded::{Bounded, StoppedEngine};

use super::bounded::{
    duration_estimate, effort_figure, how_far, part_walked, stopped, stopped_after,
};
use super::known::{cache_sentence, cache_text, known_sentence, known_text};
use super::title::section_title;
use super::{anomalies, missing};
use crate::cmd::account::show::how::how;
use crate::cmd::probe::show::{Report, plain, value_text};
use crate::cmd::survey::command::{Command, Commands};
use crate::cmd::survey::finding::{Conclusion, Cost, Statement};
use crate::cmd::survey::known::{BLOCK, CacheSize, Known, READAHEAD};
use crate::cmd::survey::survey::Survey;
use crate::out::seconds;

/// A finding or a piece of advice in words.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Point {
    pub(crate) text: String,
    pub(crate) figure: String,
    /// The command that shows more, or that is recommended.
    pub(crate) command: String,
    /// The section that shows more.
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

    fn all(conclusions: &[Conclusion<'_>], survey: &Survey<'_>) -> Vec<Point> {
        let commands = survey.commands();
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
        Statement::Mounts(count, unusual, kinds) => mounts(root, *count, *unusual, kinds),
        Statement::MountMethods(used, dearest) => (
            format!("{:.2} ms to find the mounts", used.ms),
            format!(
                "The mounts are found by {} in {:.2} ms and {} calls. The dearest way that was tried, {}, takes {:.2} ms and {} calls.",
                used.name, used.ms, used.calls, dearest.name, dearest.ms, dearest.calls
            ),
        ),
        Statement::FileSystem {
            report,
            dir,
            memory,
            others,
        } => file_system(*report, dir, *memory, *others as u64, commands),
        Statement::KernelDisagrees {
            dir,
            finding,
            measured,
            stated,
        } => {
            let (name, unit) = (finding.quantity.name(), finding.quantity.unit());
            let [is, says] = [measured, stated].map(|value| value_text(value, unit));
            let text = format!(
                "On {}, what was seen is not what the kernel says: the {name} is {is}, where the kernel says {says}.",
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
        Statement::EnginesDisagree(true) => (
            "The tree changes".to_owned(),
            "The engines have not all found the same: something was changed while they walked, which is no fault where the tree is in use.".to_owned(),
        ),
        Statement::EnginesDisagree(false) => (
            "The engines differ".to_owned(),
            "The engines have not all found the same, and each has found the same every time: one of them is wrong.".to_owned(),
        ),
        Statement::PathSearch(startup) => path_search(startup),
        Statement::NightlyDump(dump) => {
            let ms = format!("{:.2} ms", 1000.0 * dump.unchanged.cpu_seconds);
            let text = format!(
                "A nightly dump in which nothing has changed costs {} calls and {ms} of CPU time. The first one reads {} in {}.",
                dump.unchanged.calls,
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
        "Of the time that a plain walk spends in calls, {percent:.1} % goes to {gate}: {} calls of {:.6} ms.",
        sum.calls,
        sum.ms_per_call()
    );
    (format!("{percent:.1} % in {gate}"), text)
}

/// A few names, and how many more there are.
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
        (1, true) => format!("{mounts} at or under {root}, and nothing is odd about it."),
        (_, true) => format!("{mounts} at or under {root}, and nothing is odd about them."),
        (_, false) => format!("{mounts} at or under {root}, {unusual} of them odd: {kinds}."),
    };
    (format!("{mounts}, {unusual} odd"), text)
}

fn file_system(
    Report { report, .. }: Report<'_>,
    dir: &[u8],
    memory: Option<u64>,
    others: u64,
    commands: &Commands,
) -> (String, String) {
    let block = Known::new(report, &BLOCK);
    let readahead = Known::new(report, &READAHEAD);
    let cache = CacheSize::new(report);
    let is_unmeasured = cache == CacheSize::Known(Known::NotMeasured);
    let memory = memory.filter(|_| is_unmeasured).map(size);
    let figure = |what, known| {
        (known != Known::NotMeasured).then(|| format!("{what} {}", known_text(known)))
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
            "how much of it stays in memory was not measured, and is at most the {memory} of memory that there are ({})",
            commands.text(&Command::Probe(dir, "cache".to_owned()))
        )),
        None => cache_sentence(cache),
    };
    let (grows, ahead) = (
        "a file grows by % at a time",
        "reading on, % come at a time",
    );
    let facts = [
        known_sentence(block, grows, "by how much a file grows"),
        known_sentence(readahead, ahead, "how far is read ahead"),
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
            ", one call after the other, as find does it".to_owned()
        }
        Some(plain) => format!(
            "; one call after the other, as find does it, takes {:.2} ms and {} calls ({:.1} times as long)",
            plain.ms,
            plain.calls,
            plain.ms / cost.ms
        ),
        None => String::new(),
    };
    let text = format!(
        "A walk of {root} goes through {entries} in {:.2} ms and {} calls by {}{plain}.",
        cost.ms, cost.calls, cost.name
    );
    (format!("{:.2} ms for {entries}", cost.ms), text)
}

/// A walk that needs more than a survey may use: how far it came, what all of it would take, and
/// how the engines compare on a part.
fn bounded_walk(
    root: &str,
    bounded: &Bounded,
    cost: Option<&Cost>,
    plain: Option<&Cost>,
) -> (String, String) {
    let mut text = format!(
        "A walk of {root} needs more than a survey may use: {}.",
        stopped(bounded)
    );
    if let Some(estimate) = duration_estimate(bounded) {
        text += &format!(" At a guess {estimate}.");
    }
    if let (Some(part), Some(cost)) = (part_walked(bounded), cost) {
        let entries = plural(cost.found, "entry", "entries");
        text += &format!(
            " In memory, {} goes through {part} ({entries}) in {:.2} ms",
            cost.name, cost.ms
        );
        if let Some(plain) = plain.filter(|plain| plain.name != cost.name) {
            text += &format!(
                "; one call after the other, as find does it, takes {:.2} ms",
                plain.ms
            );
            if plain.ms > cost.ms {
                text += &format!(" ({:.1} times as long)", plain.ms / cost.ms);
            }
        }
        text.push('.');
    }
    let figure = match bounded.inodes.filter(|_| bounded.whole_seconds().is_some()) {
        Some(inodes) => format!("{} for {inodes} files", how_far(bounded)),
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
        format!(" One call after the other, as find does it, was {why}.")
    });
    let text = format!(
        "A walk of {root} needs more than a survey may use. By {}, the engine for it, it was {}.{plain} The command goes on to its end.",
        stopped.engine,
        stopped_after(stopped)
    );
    (stopped.why.to_string(), text)
}

fn path_search(startup: &StartupReport) -> (String, String) {
    let directories = startup.path.len() as u64;
    let figure = match startup.started.first() {
        Some(ProgramStart { totals, .. }) => {
            format!("{} of {} look-ups miss", totals.misses, totals.lookups)
        }
        None => {
            let directories = plural(directories, "directory", "directories");
            format!("{directories} in PATH")
        }
    };
    let [missing, duplicate] = super::startup::useless_elements(startup);
    let useless: Vec<String> = [(missing, "not there"), (duplicate, "in it twice")]
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{n} {what}"))
        .collect();
    let mut text = plural(
        directories,
        "directory stands in PATH",
        "directories stand in PATH",
    );
    if !useless.is_empty() {
        text += &format!(" ({})", useless.join(", "));
    }
    text.push('.');
    for start in &startup.started {
        text += &format!(
            " To start {}, {} names are looked up, {} of them in vain ({}); with everything on a network file system that would take {}.",
            start.command,
            start.totals.lookups,
            start.totals.misses,
            duration(seconds(start.totals.nanos)),
            duration(start.remote_seconds)
        );
    }
    (figure, text)
}

fn statx_price(warm: f64, cold: Option<f64>, empty: Option<f64>) -> (String, String) {
    let ns = |price| format!("{} ns", plain(price));
    let warm = ns(warm);
    let (figure, cold) = match cold.map(ns) {
        Some(cold) => (
            format!("{warm} warm, {cold} cold"),
            format!(", and {cold} when the file system has to look"),
        ),
        None => (format!("{warm} a statx"), String::new()),
    };
    let empty = empty.map_or(String::new(), |empty| {
        format!(" A call that does nothing costs {}.", ns(empty))
    });
    let text = format!(
        "To ask for a file's metadata (statx) costs {warm} when it is in memory{cold}.{empty}"
    );
    (figure, text)
}

fn advice_text(statement: &Statement<'_>, root: &str) -> (String, String) {
    match statement {
        Statement::MendMounts(kind, targets) => mend_mounts(*kind, targets),
        Statement::CheckServers(count) => check_servers(*count as u64),
        Statement::KeepCatalog(effort) => {
            let text = format!(
                "Keep a catalog of {root}: fathom changed then lists only what has changed."
            );
            (format!("{} a scan", effort_figure(effort)), text)
        }
        Statement::ChooseEngine { fastest, default } => {
            let text = format!(
                "Walk {root} with --engine {}: {} instead of {} by {}.",
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
        Statement::WalkAsRoot(possible, effort) => {
            let engine = possible.engine.name();
            let text = format!("Walk {root} as root: only root can use the engine {engine}.");
            (format!("{} without root", effort_figure(effort)), text)
        }
        Statement::FixSearch(start, fix) => {
            let text = format!(
                "To start {} faster, {}.",
                start.command,
                short_change(&fix.change)
            );
            let [saved, all] = [fix.saves_seconds_here, seconds(start.totals.nanos)].map(duration);
            (format!("saves {saved} of {all}"), text)
        }
        Statement::DumpIncrements(dump) => {
            let (first, changed) = (sized(dump.first.bytes), sized(dump.changed.bytes));
            let text = format!(
                "Dump increments: with 1 % of the files changed, read {changed} instead of {first}."
            );
            let saved = dump.first.cpu_seconds - dump.changed.cpu_seconds;
            (format!("saves {}", duration(saved)), text)
        }
        Statement::ChangeCalls(change) => {
            let text = format!("In programs that walk as find does: {}.", how(change.kind));
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
            ("not measured".to_owned(), format!("Measure {what}: {why}."))
        }
        _ => Default::default(),
    }
}

/// A change to how programs start, in a few words: an imperative.
pub(crate) fn short_change(change: &Change) -> String {
    let text = match change {
        Change::SetPath(path) if path.is_reordered => "reorder PATH",
        Change::SetPath(path) => {
            let count = plural(path.removed.len() as u64, "directory", "directories");
            return format!("remove {count} from PATH");
        }
        Change::UnsetLibraryPath => "move LD_LIBRARY_PATH into ld.so.cache",
        Change::ShortenRunpath { .. } => "shorten RUNPATH (patchelf)",
        Change::IsolatePython => "run python with -I and -S",
        Change::PackPythonModules => "pack its modules into one zip file",
        Change::ShortenPerlPath => "shorten @INC, or pack the program",
        Change::CacheRubyLibraries => "cache library paths (bootsnap)",
        Change::BundleNodeProgram => "bundle it into one file (esbuild)",
        Change::ReorderCompilerPaths => "reorder -I and -L, or use ccache",
        Change::SetInstalledLocale => "set LC_ALL to an installed locale",
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
        AnomalyKind::ReadOnly => (
            plural(count, "mount is read-only", "mounts are read-only"),
            format!("Look for errors of {names} in dmesg: an error makes it read-only."),
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
