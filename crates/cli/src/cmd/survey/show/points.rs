//! Findings and advice in words.

use account::ledger::Sum;
use mounts::diagnosis::AnomalyKind;
use pathsearch::{Fix, ProgramStart, StartupReport};
use show::json_object;
use show::name::printable;
use show::units::{duration, plural, size, sized};
use survey::Section;
use survey::bounded::{Bounded, StoppedEngine};

use super::bounded::{
    duration_estimate, effort_figure, how_far, part_walked, stopped, stopped_after,
};
use super::known::{bytes_text, cache_sentence, cache_text, known_sentence, known_text};
use super::title::section_title;
use super::{anomalies, missing};
use crate::cmd::account::show::how::how;
use crate::cmd::pathsearch::show::{change_text, fix_savings};
use crate::cmd::probe::show::{Report, plain, value_text};
use crate::cmd::survey::command::{Command, Commands};
use crate::cmd::survey::finding::{Conclusion, Cost, Effort, Statement};
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
        Statement::KeepCatalog(engine, effort) => {
            let by = engine.map_or(String::new(), |engine| format!(", by {engine}"));
            let text = format!(
                "Go through {root} once{by}, and then ask only for what has changed: fathom walk writes a catalog, and fathom changed holds the tree against it."
            );
            (effort_figure(effort), text)
        }
        Statement::ChooseEngine { fastest, default } => {
            let text = format!(
                "Walk {root} with --engine {}: it has taken {:.2} ms here, where {}, which is taken by default, took {:.2} ms.",
                fastest.name, fastest.ms, default.name, default.ms
            );
            let times = default.ms / fastest.ms;
            (format!("{times:.1} times as fast"), text)
        }
        Statement::ReplacePlainWalk {
            cost,
            plain,
            bounded,
        } => replace_plain_walk(root, cost, plain, *bounded),
        Statement::WalkAsRoot(possible, effort) => {
            let took = match effort {
                Effort::Ms(ms) => format!("{ms:.2} ms"),
                effort => effort_figure(effort),
            };
            let text = format!(
                "Walk as root: then {} can be tried, which goes below the file API. It was left out: {}.",
                possible.engine.name(),
                printable(possible.why().as_bytes())
            );
            (format!("{took} without root"), text)
        }
        Statement::FixSearch(start, fix) => fix_search(start, fix),
        Statement::DumpIncrements(dump) => {
            let (first, changed) = (sized(dump.first.bytes), sized(dump.changed.bytes));
            let text = format!(
                "Dump increments: when one file in a hundred has changed, one reads {changed} with {} calls, where everything is {first} with {} calls. Keep a catalog with the first dump, and give it to the next with --since.",
                dump.changed.calls, dump.first.calls
            );
            (format!("{changed} instead of {first}"), text)
        }
        Statement::ChangeCalls(change) => {
            let text = format!(
                "Where a program of yours walks as plainly as that: {} ({}). It would make {} calls fewer.",
                change.kind.name(),
                how(change.kind),
                change.calls
            );
            (format!("{:.1} % of the CPU time", change.percent), text)
        }
        Statement::PackSmallFiles {
            dir,
            block,
            readahead,
        } => {
            let block = bytes_text(block);
            let ahead = readahead.map_or(String::new(), |ahead| {
                let ahead = bytes_text(ahead);
                format!(" Who reads from front to back gets {ahead} at a time, however little is asked for.")
            });
            let text = format!(
                "Keep many small things in one file on {}: a byte in a file of its own takes {block} on the disk.{ahead}",
                printable(dir)
            );
            (format!("{block} for one byte"), text)
        }
        Statement::KeepCached { warm, cold } => {
            let text = format!(
                "Let scans run one after the other rather than hours apart, and leave names and inodes in memory (vm.vfs_cache_pressure below 100): a statx costs {} ns when the file system has to look, and {} ns when not.",
                plain(*cold),
                plain(*warm)
            );
            (format!("{:.1} times as dear", cold / warm), text)
        }
        Statement::BatchSyncs { fsync, statx } => {
            let text = format!(
                "Write much before each fsync: one takes {}, as long as {:.0} statx.",
                duration(fsync / 1e9),
                fsync / statx
            );
            (format!("{} ns an fsync", plain(*fsync)), text)
        }
        Statement::SurveyAsRoot(unseen) => {
            let first = unseen.first().map(missing::unseen).unwrap_or_default();
            let count = unseen.len() as u64;
            let figure = plural(count, "thing not seen", "things not seen");
            (figure, format!("Run the survey once as root: {first}."))
        }
        Statement::Gather(section, missing) => {
            let why = missing::text(missing);
            let what = section_title(*section).0.to_lowercase();
            let text = format!(
                "There is nothing on {what} here: {why}. The command has it, and takes its time."
            );
            ("not measured".to_owned(), text)
        }
        Statement::KeepSurvey(seconds) => (
            format!("{seconds:.1} s each"),
            "Keep a survey as JSON, and take another after the next change of kernel or storage: fathom survey --diff says what has become slower."
                .to_owned(),
        ),
        _ => Default::default(),
    }
}

fn mend_mounts(kind: AnomalyKind, targets: &[&[u8]]) -> (String, String) {
    let (count, names) = (targets.len() as u64, names(targets));
    match kind {
        AnomalyKind::Hidden => (
            plural(count, "hidden mount", "hidden mounts"),
            format!(
                "See whether anybody still needs what is hidden ({names}), and unmount it or what lies over it: no path reaches it, no backup sees it, and it keeps its device busy."
            ),
        ),
        AnomalyKind::Duplicate => (
            plural(count, "mount is there twice", "mounts are there twice"),
            format!(
                "Leave one of the names out of backups and scans (--exclude): {names} {} the same as another mount, and would be gone through once more; -x does not help where both are of one device.",
                if count == 1 { "shows" } else { "show" }
            ),
        ),
        AnomalyKind::ReadOnly => (
            plural(count, "mount is read-only", "mounts are read-only"),
            format!(
                "Look into the kernel's log (dmesg) for {names}: it is read-only, and its options say that an error makes it so."
            ),
        ),
        _ => (
            plural(count, "mount does not answer", "mounts do not answer"),
            format!(
                "Leave {names} out of scans and backups until it is mended: whatever walks into it may wait for ever. The command lists what to exclude."
            ),
        ),
    }
}

fn check_servers(count: u64) -> (String, String) {
    let answer = match count {
        1 => "the network mount answers",
        _ => "the network mounts answer",
    };
    let text = format!(
        "See that {answer} before a scan goes there: a server that is gone stops whatever waits for it."
    );
    (plural(count, "network mount", "network mounts"), text)
}

fn replace_plain_walk(
    root: &str,
    cost: &Cost,
    plain: &Cost,
    bounded: Option<&Bounded>,
) -> (String, String) {
    let per_entry = |cost: &Cost| format!("{:.3}", cost.calls as f64 / cost.found.max(1) as f64);
    let (fewer, many) = (per_entry(cost), per_entry(plain));
    let calls = match fewer == many {
        true => String::new(),
        false => format!("{fewer} calls an entry instead of {many}, and "),
    };
    let part = bounded.and_then(part_walked);
    let part = part.map_or(String::new(), |part| format!(" (for {part}, in memory)"));
    let text = format!(
        "Where find, du or a backup goes through {root}, let fathom walk, changed or dump do it by {}: {calls}{:.2} ms instead of {:.2} ms{part}.",
        cost.name, cost.ms, plain.ms
    );
    (format!("{:.1} times as fast", plain.ms / cost.ms), text)
}

fn fix_search(start: &ProgramStart, fix: &Fix) -> (String, String) {
    let change = change_text(&fix.change);
    let change = printable(change.as_bytes());
    let mut letters = change.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    let change: String = first.chain(letters).collect();
    let figure = match fix.saves_misses {
        0 => {
            let requests = plural(fix.saves_requests, "request", "requests");
            format!("{requests} fewer")
        }
        saved => format!("{saved} of {} misses fewer", start.totals.misses),
    };
    let text = format!("{change}. For {} it {}.", start.command, fix_savings(fix));
    (figure, text)
}
