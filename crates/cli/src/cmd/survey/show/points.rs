//! Findings and advice in words.

use crate::cmd::probe::show::plain;
use crate::cmd::survey::show::fixes::Fix;
use ::mounts::diagnosis::AnomalyKind;
use ::survey::Section;
use show::json_object;
use show::name::printable;
use show::units::{duration, plural, size, sized};

use super::bounded::{
    duration_estimate, effort_figure, how_far, part_walked, stopped, stopped_after,
};
use super::commands::Commands;
use super::known::{cache_text, known_sentence, known_text};
use super::section_title;
use crate::cmd::survey::finding::{Advice, Cost, Effort, Finding, Properties, StartCost};
use crate::cmd::survey::known::{CacheSize, Known};
use crate::cmd::survey::survey::Survey;
use ::survey::Command;
use ::survey::bounded::{Bounded, StoppedEngine};

/// A finding or a piece of advice in words.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Point {
    /// A sentence or two.
    pub(crate) text: String,
    /// The figure behind it.
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
    /// The findings of a survey.
    pub(crate) fn findings(survey: &Survey<'_>) -> Vec<Point> {
        let commands = Commands::new(survey);
        let point = |finding: &Finding| {
            let (figure, text) = finding_text(finding, survey.root, &commands);
            Point {
                text,
                figure,
                command: commands.text(&finding.command()),
                section: finding.section(),
            }
        };
        survey.findings.iter().map(point).collect()
    }

    /// The advice of a survey.
    pub(crate) fn advice(survey: &Survey<'_>) -> Vec<Point> {
        let commands = Commands::new(survey);
        let point = |advice: &Advice| {
            let (figure, text) = advice_text(advice, survey.root);
            Point {
                text,
                figure,
                command: commands.text(&advice.command()),
                section: advice.section(),
            }
        };
        survey.advice.iter().map(point).collect()
    }
}

/// A few names, and how many more there are.
fn names(all: &[Vec<u8>]) -> String {
    const NAMED: usize = 3;
    const LONG: usize = 80;
    let short = |name: &Vec<u8>| {
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

/// The figure and the text of a finding.
fn finding_text(finding: &Finding, root: &[u8], commands: &Commands) -> (String, String) {
    match finding {
        Finding::Mounts {
            count,
            unusual,
            kinds,
        } => mounts(root, *count, *unusual, kinds),
        Finding::MountMethods { used, dearest } => (
            format!("{:.2} ms to find the mounts", used.ms),
            format!(
                "The mounts are found by {} in {:.2} ms and {} calls. The dearest way that was tried, {}, takes {:.2} ms and {} calls.",
                used.name, used.ms, used.calls, dearest.name, dearest.ms, dearest.calls
            ),
        ),
        Finding::FileSystem(properties) => file_system(properties, commands),
        Finding::KernelDisagrees {
            dir,
            name,
            measured,
            stated,
            ..
        } => {
            let (is, says) = (super::known::text(measured), super::known::text(stated));
            let text = format!(
                "On {}, what was seen is not what the kernel says: the {name} is {is}, where the kernel says {says}.",
                printable(dir)
            );
            (format!("{is}, not {says}"), text)
        }
        Finding::Walk { cost, plain } => walk(root, cost, plain.as_ref()),
        Finding::BoundedWalk {
            bounded,
            cost,
            plain,
        } => bounded_walk(root, bounded, cost.as_ref(), plain.as_ref()),
        Finding::StoppedWalk { stopped, plain } => stopped_walk(root, stopped, plain.as_ref()),
        Finding::EnginesDisagree { tree_changes } => {
            let (figure, text) = match tree_changes {
                true => (
                    "The tree changes",
                    "The engines have not all found the same: something was changed while they walked, which is no fault where the tree is in use.",
                ),
                false => (
                    "The engines differ",
                    "The engines have not all found the same, and each has found the same every time: one of them is wrong.",
                ),
            };
            (figure.to_owned(), text.to_owned())
        }
        Finding::PathSearch {
            directories,
            missing,
            duplicate,
            started,
        } => path_search(*directories as u64, *missing, *duplicate, started),
        Finding::NightlyDump { first, unchanged } => {
            let ms = format!("{:.2} ms", 1000.0 * unchanged.cpu_seconds);
            let text = format!(
                "A nightly dump in which nothing has changed costs {} calls and {ms} of CPU time. The first one reads {} in {}.",
                unchanged.calls,
                sized(first.bytes),
                plural(first.files, "file", "files")
            );
            (format!("{ms} of CPU time a night"), text)
        }
        Finding::DearestCall {
            gate,
            percent,
            calls,
            ms_per_call,
        } => (
            format!("{percent:.1} % in {gate}"),
            format!(
                "Of the time that a plain walk spends in calls, {percent:.1} % goes to {gate}: {calls} calls of {ms_per_call:.6} ms."
            ),
        ),
        Finding::StatxPrice { warm, cold, empty } => statx_price(*warm, *cold, *empty),
    }
}

fn mounts(
    root: &[u8],
    count: usize,
    unusual: usize,
    kinds: &[(AnomalyKind, Vec<Vec<u8>>)],
) -> (String, String) {
    let root = printable(root);
    let mounts = plural(count as u64, "mount", "mounts");
    let kinds: Vec<String> = kinds
        .iter()
        .map(|(kind, targets)| {
            let are = super::anomalies::kind(*kind);
            format!("{} {are} ({})", targets.len(), names(targets))
        })
        .collect();
    let text = match (count, kinds.is_empty()) {
        (0, _) => format!("Nothing is mounted at or under {root}."),
        (1, true) => format!("{mounts} at or under {root}, and nothing is odd about it."),
        (_, true) => format!("{mounts} at or under {root}, and nothing is odd about them."),
        (_, false) => format!(
            "{mounts} at or under {root}, {unusual} of them odd: {}.",
            kinds.join("; ")
        ),
    };
    (format!("{mounts}, {unusual} odd"), text)
}

fn file_system(properties: &Properties, commands: &Commands) -> (String, String) {
    let Properties {
        dir,
        block,
        readahead,
        cache,
        ..
    } = properties;
    let is_unmeasured = *cache == CacheSize::Known(Known::NotMeasured);
    let memory = properties.memory.filter(|_| is_unmeasured);
    let figure = |what, known: &Known| {
        (*known != Known::NotMeasured).then(|| format!("{what} {}", known_text(known)))
    };
    let figures = [
        figure("block", block),
        figure("readahead", readahead),
        (!is_unmeasured).then(|| format!("cache {}", cache_text(cache))),
        memory.map(|memory| format!("cache up to {}", size(memory))),
    ];
    let figures: Vec<String> = figures.into_iter().flatten().collect();
    let cache = match memory {
        Some(memory) => Some(format!(
            "how much of it stays in memory was not measured, and is at most the {} of memory that there are ({})",
            size(memory),
            commands.text(&Command::Probe(dir.clone(), "cache".to_owned()))
        )),
        None => super::known::cache_sentence(cache),
    };
    let facts = [
        known_sentence(
            block,
            "a file grows by % at a time",
            "by how much a file grows",
        ),
        known_sentence(
            readahead,
            "reading on, % come at a time",
            "how far is read ahead",
        ),
        cache,
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    let fstype = properties
        .fstype
        .as_deref()
        .map_or(String::new(), |fstype| format!(" ({})", printable(fstype)));
    let others = match properties.others as u64 {
        0 => String::new(),
        n => format!(" {} more below.", plural(n, "file system", "file systems")),
    };
    let text = format!(
        "On {}{fstype}, {}.{others}",
        printable(dir),
        facts.join("; ")
    );
    (figures.join(", "), text)
}

fn walk(root: &[u8], cost: &Cost, plain: Option<&Cost>) -> (String, String) {
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
        "A walk of {} goes through {entries} in {:.2} ms and {} calls by {}{plain}.",
        printable(root),
        cost.ms,
        cost.calls,
        cost.name
    );
    (format!("{:.2} ms for {entries}", cost.ms), text)
}

/// A walk that needs more than a survey may use: how far it came, what all of it would take, and
/// how the engines compare on a part.
fn bounded_walk(
    root: &[u8],
    bounded: &Bounded,
    cost: Option<&Cost>,
    plain: Option<&Cost>,
) -> (String, String) {
    let mut text = format!(
        "A walk of {} needs more than a survey may use: {}.",
        printable(root),
        stopped(bounded)
    );
    if let Some(estimate) = duration_estimate(bounded) {
        text.push_str(&format!(" At a guess {estimate}."));
    }
    if let (Some(part), Some(cost)) = (part_walked(bounded), cost) {
        let entries = plural(cost.found, "entry", "entries");
        text.push_str(&format!(
            " In memory, {} goes through {part} ({entries}) in {:.2} ms",
            cost.name, cost.ms
        ));
        if let Some(plain) = plain.filter(|plain| plain.name != cost.name) {
            text.push_str(&format!(
                "; one call after the other, as find does it, takes {:.2} ms",
                plain.ms
            ));
            if plain.ms > cost.ms {
                text.push_str(&format!(" ({:.1} times as long)", plain.ms / cost.ms));
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
    root: &[u8],
    stopped: &StoppedEngine,
    plain: Option<&StoppedEngine>,
) -> (String, String) {
    let plain = plain.map_or(String::new(), |plain| {
        let why = stopped_after(plain);
        format!(" One call after the other, as find does it, was {why}.")
    });
    let text = format!(
        "A walk of {} needs more than a survey may use. By {}, the engine for it, it was {}.{plain} The command goes on to its end.",
        printable(root),
        stopped.engine,
        stopped_after(stopped)
    );
    (stopped.why.to_string(), text)
}

fn path_search(
    directories: u64,
    missing: usize,
    duplicate: usize,
    started: &[StartCost],
) -> (String, String) {
    let figure = match started.first() {
        Some(first) => format!("{} of {} look-ups miss", first.misses, first.lookups),
        None => format!(
            "{} in PATH",
            plural(directories, "directory", "directories")
        ),
    };
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
        text.push_str(&format!(" ({})", useless.join(", ")));
    }
    text.push('.');
    for one in started {
        text.push_str(&format!(
            " To start {}, {} names are looked up, {} of them in vain ({}); with everything on a network file system that would take {}.",
            one.command,
            one.lookups,
            one.misses,
            duration(one.seconds),
            duration(one.remote_seconds)
        ));
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

/// The figure and the text of a piece of advice.
fn advice_text(advice: &Advice, root: &[u8]) -> (String, String) {
    match advice {
        Advice::ExcludeUnresponsive(targets) => exclude_unresponsive(targets),
        Advice::UnmountHidden(targets) => unmount_hidden(targets),
        Advice::ExcludeDuplicates(targets) => exclude_duplicates(targets),
        Advice::CheckReadOnly(targets) => check_read_only(targets),
        Advice::CheckServers { count } => check_servers(*count),
        Advice::KeepCatalog { engine, effort } => keep_catalog(root, *engine, effort),
        Advice::ChooseEngine { fastest, default } => choose_engine(root, fastest, default),
        Advice::ReplacePlainWalk {
            cost,
            plain,
            bounded,
        } => replace_plain_walk(root, cost, plain, bounded.as_ref()),
        Advice::WalkAsRoot {
            engine,
            why,
            effort,
        } => walk_as_root(engine, why, effort),
        Advice::FixSearch {
            command,
            fix,
            misses,
        } => fix_search(command, fix, *misses),
        Advice::DumpIncrements { first, changed } => {
            let [first_size, changed_size] = [first, changed].map(|dump| sized(dump.bytes));
            let text = format!(
                "Dump increments: when one file in a hundred has changed, one reads {changed_size} with {} calls, where everything is {first_size} with {} calls. Keep a catalog with the first dump, and give it to the next with --since.",
                changed.calls, first.calls
            );
            (format!("{changed_size} instead of {first_size}"), text)
        }
        Advice::ChangeCalls {
            change,
            how,
            saves_calls,
            saves_percent,
        } => {
            let text = format!(
                "Where a program of yours walks as plainly as that: {change} ({}). It would make {saves_calls} calls fewer.",
                printable(how.as_bytes())
            );
            (format!("{saves_percent:.1} % of the CPU time"), text)
        }
        Advice::PackSmallFiles {
            dir,
            block,
            readahead,
        } => {
            let block = super::known::text(block);
            let ahead = readahead.as_ref().map_or(String::new(), |ahead| {
                let ahead = super::known::text(ahead);
                format!(" Who reads from front to back gets {ahead} at a time, however little is asked for.")
            });
            let text = format!(
                "Keep many small things in one file on {}: a byte in a file of its own takes {block} on the disk.{ahead}",
                printable(dir)
            );
            (format!("{block} for one byte"), text)
        }
        Advice::KeepCached { warm, cold } => {
            let text = format!(
                "Let scans run one after the other rather than hours apart, and leave names and inodes in memory (vm.vfs_cache_pressure below 100): a statx costs {} ns when the file system has to look, and {} ns when not.",
                plain(*cold),
                plain(*warm)
            );
            (format!("{:.1} times as dear", cold / warm), text)
        }
        Advice::BatchSyncs { fsync, statx } => {
            let text = format!(
                "Write much before each fsync: one takes {}, as long as {:.0} statx.",
                duration(fsync / 1e9),
                fsync / statx
            );
            (format!("{} ns an fsync", plain(*fsync)), text)
        }
        Advice::SurveyAsRoot(unseen) => (
            plural(unseen.len() as u64, "thing not seen", "things not seen"),
            format!(
                "Run the survey once as root: {}.",
                unseen.first().map(super::missing::unseen).unwrap_or_default()
            ),
        ),
        Advice::Gather { section, missing } => {
            let why = super::missing::text(missing);
            let what = section_title(*section).0.to_lowercase();
            let text = format!(
                "There is nothing on {what} here: {why}. The command has it, and takes its time."
            );
            ("not measured".to_owned(), text)
        }
        Advice::KeepSurvey { seconds } => (
            format!("{seconds:.1} s each"),
            "Keep a survey as JSON, and take another after the next change of kernel or storage: fathom survey --diff says what has become slower."
                .to_owned(),
        ),
    }
}

fn exclude_unresponsive(targets: &[Vec<u8>]) -> (String, String) {
    let count = targets.len() as u64;
    let text = format!(
        "Leave {} out of scans and backups until it is mended: whatever walks into it may wait for ever. The command lists what to exclude.",
        names(targets)
    );
    (
        plural(count, "mount does not answer", "mounts do not answer"),
        text,
    )
}

fn unmount_hidden(targets: &[Vec<u8>]) -> (String, String) {
    let text = format!(
        "See whether anybody still needs what is hidden ({}), and unmount it or what lies over it: no path reaches it, no backup sees it, and it keeps its device busy.",
        names(targets)
    );
    (
        plural(targets.len() as u64, "hidden mount", "hidden mounts"),
        text,
    )
}

fn exclude_duplicates(targets: &[Vec<u8>]) -> (String, String) {
    let count = targets.len() as u64;
    let shows = if count == 1 { "shows" } else { "show" };
    let text = format!(
        "Leave one of the names out of backups and scans (--exclude): {} {shows} the same as another mount, and would be gone through once more; -x does not help where both are of one device.",
        names(targets)
    );
    (
        plural(count, "mount is there twice", "mounts are there twice"),
        text,
    )
}

fn check_read_only(targets: &[Vec<u8>]) -> (String, String) {
    let count = targets.len() as u64;
    let text = format!(
        "Look into the kernel's log (dmesg) for {}: it is read-only, and its options say that an error makes it so.",
        names(targets)
    );
    (
        plural(count, "mount is read-only", "mounts are read-only"),
        text,
    )
}

fn check_servers(count: usize) -> (String, String) {
    let answer = match count {
        1 => "the network mount answers",
        _ => "the network mounts answer",
    };
    let text = format!(
        "See that {answer} before a scan goes there: a server that is gone stops whatever waits for it."
    );
    (
        plural(count as u64, "network mount", "network mounts"),
        text,
    )
}

fn keep_catalog(root: &[u8], engine: Option<&str>, effort: &Effort) -> (String, String) {
    let by = engine.map_or(String::new(), |engine| format!(", by {engine}"));
    let text = format!(
        "Go through {} once{by}, and then ask only for what has changed: fathom walk writes a catalog, and fathom changed holds the tree against it.",
        printable(root)
    );
    (effort_figure(effort), text)
}

fn choose_engine(root: &[u8], fastest: &Cost, default: &Cost) -> (String, String) {
    let text = format!(
        "Walk {} with --engine {}: it has taken {:.2} ms here, where {}, which is taken by default, took {:.2} ms.",
        printable(root),
        fastest.name,
        fastest.ms,
        default.name,
        default.ms
    );
    (
        format!("{:.1} times as fast", default.ms / fastest.ms),
        text,
    )
}

fn replace_plain_walk(
    root: &[u8],
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
    let part = bounded
        .and_then(part_walked)
        .map_or(String::new(), |part| format!(" (for {part}, in memory)"));
    let text = format!(
        "Where find, du or a backup goes through {}, let fathom walk, changed or dump do it by {}: {calls}{:.2} ms instead of {:.2} ms{part}.",
        printable(root),
        cost.name,
        cost.ms,
        plain.ms
    );
    (format!("{:.1} times as fast", plain.ms / cost.ms), text)
}

fn walk_as_root(engine: &str, why: &str, effort: &Effort) -> (String, String) {
    let took = match effort {
        Effort::Ms(ms) => format!("{ms:.2} ms"),
        effort => effort_figure(effort),
    };
    let text = format!(
        "Walk as root: then {engine} can be tried, which goes below the file API. It was left out: {}.",
        printable(why.as_bytes())
    );
    (format!("{took} without root"), text)
}

fn fix_search(command: &str, fix: &Fix, misses: u64) -> (String, String) {
    let change = printable(fix.change.as_bytes());
    let mut letters = change.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    let change: String = first.chain(letters).collect();
    let figure = match fix.saves_misses {
        0 => format!(
            "{} fewer",
            plural(fix.saves_requests, "request", "requests")
        ),
        saved => format!("{saved} of {misses} misses fewer"),
    };
    (
        figure,
        format!("{change}. For {command} it {}.", fix.saves()),
    )
}
