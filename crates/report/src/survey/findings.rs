//! What matters most of a survey, and what to do about it. Everything that could be said is weighed, and the five that weigh
//! most are said. Nothing is said without the figure that shows it.

use std::fmt;

use super::odd::{Kind, Odd, odd};
use super::page::named;
use super::shell::quoted;
use super::{Point, Survey};
use crate::compare::Times;
use crate::mounts::{all, size, sized};
use crate::name::printable;
use crate::pathsearch::time;
use crate::probe::{Price, Probe, plain};
use crate::stats::Stats;
use crate::walk::{Bounded, Engine, Section, about};

/// As many are said.
const FIVE: usize = 5;

/// The command that gives each section alone.
pub(super) struct Commands {
    root: String,
    pub(super) mounts: String,
    pub(super) boundaries: String,
    pub(super) compare: String,
    pub(super) cache: String,
    pub(super) walk: String,
    /// The walk itself, to its end.
    pub(super) tread: String,
    pub(super) dump: String,
    pub(super) account: String,
    pub(super) pathsearch: String,
    pub(super) gates: String,
}

impl Commands {
    pub(super) fn of(survey: &Survey<'_>) -> Commands {
        let root = quoted(survey.root);
        let bounded = survey.walking.gathered().and_then(|walk| walk.bounded);
        // Engines were compared on all of it, or on its uppermost levels.
        let levels = bounded.and_then(|bounded| bounded.levels);
        let levels = levels.map_or(String::new(), |levels| format!(" --max-depth {levels}"));
        Commands {
            mounts: format!("fathom mounts {root}"),
            boundaries: format!("fathom mounts {root} --boundaries"),
            compare: format!("fathom mounts {root} --compare"),
            cache: format!("fathom probe {root} cache"),
            walk: format!("fathom walk {root} -x{levels} --compare"),
            tread: format!("fathom walk {root} -x"),
            dump: format!("fathom dump {root} -x --no-output --account"),
            account: format!("fathom account -- fathom walk {root} -x --engine stat"),
            pathsearch: "fathom pathsearch --network / -- env true".to_owned(),
            gates: format!("fathom probe {root} gates"),
            root,
        }
    }

    /// Experiments on a directory.
    pub(super) fn probe(&self, dir: &[u8], experiments: &str) -> String {
        format!("fathom probe {} {experiments}", quoted(dir))
    }
}

/// Points with their weights.
#[derive(Default)]
struct Weighed(Vec<(u32, Point)>);

impl Weighed {
    fn add(&mut self, weight: u32, section: &'static str, figure: String, text: String, command: &str) {
        self.0.push((weight, Point { text, figure, command: command.to_owned(), section }));
    }

    /// Those that weigh most; among equals the one that came first.
    fn most(mut self) -> Vec<Point> {
        self.0.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
        self.0.into_iter().take(FIVE).map(|(_, point)| point).collect()
    }
}

/// Five findings, or fewer where there is less to say; what matters most first.
pub fn of(survey: &Survey<'_>) -> Vec<Point> {
    let commands = Commands::of(survey);
    let mut found = Weighed::default();
    found_mounts(survey, &commands, &mut found);
    found_file_systems(survey, &commands, &mut found);
    found_walk(survey, &commands, &mut found);
    found_path(survey, &commands, &mut found);
    found_dump(survey, &commands, &mut found);
    found_calls(survey, &commands, &mut found);
    found_prices(survey, &commands, &mut found);
    found.most()
}

/// Five pieces of advice, or fewer; what helps most first.
pub fn advice(survey: &Survey<'_>) -> Vec<Point> {
    let commands = Commands::of(survey);
    let mut found = Weighed::default();
    advise_mounts(survey, &commands, &mut found);
    advise_walk(survey, &commands, &mut found);
    advise_path(survey, &commands, &mut found);
    advise_dump(survey, &commands, &mut found);
    advise_calls(survey, &commands, &mut found);
    advise_file_systems(survey, &commands, &mut found);
    advise_prices(survey, &commands, &mut found);
    advise_more(survey, &commands, &mut found);
    found.most()
}

/// The middle one of the runs, in milliseconds.
pub(super) fn median(runs: &[Times], field: fn(&Times) -> f64) -> Option<f64> {
    Stats::of(runs.iter().map(field)).map(|stats| 1000.0 * stats.median)
}

/// The price of a gate on one thread; of several, the first, which is the plainest.
pub(super) fn best_price<'a>(prices: &'a [Price], gate: &str, state: &str) -> Option<&'a Price> {
    prices.iter().find(|price| price.gate == gate && price.state == state && price.threads == 1)
}

/// The findings that say what a file system's block, readahead and extents are, the better one first.
pub(super) const BLOCK: &[&str] = &["allocation-block", "allocation-block-by-time"];
pub(super) const READAHEAD: &[&str] = &["readahead-steady", "readahead-steady-by-time"];
pub(super) const EXTENT: &[&str] = &["extent-largest", "extent-by-time"];

/// What is known of a file system.
#[derive(PartialEq, Eq)]
pub(super) enum Known {
    /// It was found.
    Found(String),
    /// It was not; the kernel says this.
    KernelsWord(String),
    /// It was not; the kernel allows so much.
    UpTo(String),
    /// It was not.
    CannotTell,
    /// Nobody has looked.
    NotAsked,
}

impl Known {
    /// By the first of these findings that has something.
    pub(super) fn of(probe: &Probe<'_>, names: &[&str]) -> Known {
        let found = || names.iter().filter_map(|name| probe.experiments.iter().find(|found| found.name == *name));
        if let Some(value) = found().find_map(|found| found.inferred.as_ref().map(|value| value.text(found.unit))) {
            return Known::Found(value);
        }
        let truth = found().find_map(|found| found.truth.as_ref().map(|value| value.text(found.unit)));
        match (truth, found().next()) {
            (Some(value), _) => Known::KernelsWord(value),
            (None, Some(_)) => Known::CannotTell,
            (None, None) => Known::NotAsked,
        }
    }

    /// How much of a file system stays in memory. What was found in a group that was made for it, with a limit of its own, says
    /// nothing of the cache that others have.
    pub(super) fn cache(probe: &Probe<'_>) -> Known {
        let find = |name: &str| probe.experiments.iter().find(|found| found.name == name);
        let (capacity, limit) = (find("cache-capacity"), find("cache-limit"));
        match limit.and_then(|limit| limit.truth.as_ref()) {
            Some(truth)
                if capacity.is_none_or(|found| found.inferred.is_none() || found.truth.as_ref() != Some(truth)) =>
            {
                Known::UpTo(truth.text("bytes"))
            }
            _ => Known::of(probe, &["cache-capacity"]),
        }
    }
}

/// What bounds the cache, in words.
pub(super) fn bounded_by(probe: &Probe<'_>) -> String {
    let limit = probe.experiments.iter().find(|found| found.name == "cache-limit");
    match limit.and_then(|limit| limit.truth_source).filter(|source| source.starts_with('/')) {
        Some(file) => format!("the limit of the cgroup that this ran in, {}", printable(file.as_bytes())),
        None => "all the memory that there is; no cgroup limits it".to_owned(),
    }
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Known::Found(value) => f.write_str(value),
            Known::KernelsWord(value) => write!(f, "{value} (kernel's word)"),
            Known::UpTo(value) => write!(f, "up to {value}"),
            Known::CannotTell => f.write_str("cannot tell"),
            Known::NotAsked => f.write_str("not measured"),
        }
    }
}

fn plural(n: u64, one: &str, more: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {more}") }
}

/// A few names, and how many more there are.
fn names<'a>(of: impl Iterator<Item = &'a [u8]>) -> String {
    const NAMED: usize = 3;
    const LONG: usize = 80;
    let of: Vec<&[u8]> = of.collect();
    let short = |name: &&[u8]| {
        let name = printable(name);
        match name.char_indices().nth(LONG) {
            Some((end, _)) => format!("{}…", &name[..end]),
            None => name.into_owned(),
        }
    };
    let named: Vec<String> = of.iter().take(NAMED).map(short).collect();
    let left = of.len().saturating_sub(NAMED);
    if left > 0 { format!("{} and {left} more", named.join(", ")) } else { named.join(", ") }
}

fn of_kind<'a>(odd: &'a [Odd<'a>], kind: Kind) -> impl Iterator<Item = &'a [u8]> + Clone {
    odd.iter().filter(move |odd| odd.kind == kind).map(|odd| odd.target)
}

fn found_mounts(survey: &Survey<'_>, commands: &Commands, found: &mut Weighed) {
    let Some(part) = survey.mounts.gathered() else { return };
    let rows = part.mounts.mounts;
    let odd = odd(rows);
    let count = plural(rows.len() as u64, "mount", "mounts");
    let kinds: Vec<String> = Kind::ALL
        .into_iter()
        .map(|kind| (kind, of_kind(&odd, kind)))
        .filter(|(_, targets)| targets.clone().next().is_some())
        .map(|(kind, targets)| format!("{} {} ({})", targets.clone().count(), kind.are(), names(targets)))
        .collect();
    let root = printable(survey.root);
    let text = match (rows.len(), kinds.is_empty()) {
        (0, _) => format!("Nothing is mounted at or under {root}."),
        (1, true) => format!("{count} at or under {root}, and nothing is odd about it."),
        (_, true) => format!("{count} at or under {root}, and nothing is odd about them."),
        (_, false) => format!("{count} at or under {root}, {} of them odd: {}.", odd.len(), kinds.join("; ")),
    };
    let bad = of_kind(&odd, Kind::Unanswering).next().is_some();
    let figure = format!("{count}, {} odd", odd.len());
    let command = if bad { format!("{} --check", commands.mounts) } else { commands.mounts.clone() };
    found.add(if bad { 100 } else { 90 }, "mounts", figure, text, &command);

    let real = |method: &&crate::compare::Method| median(&method.runs, |t| t.real);
    let by = part.methods.iter().find(|method| method.by == part.mounts.by);
    let dearest = part.methods.iter().max_by(|a, b| real(a).unwrap_or(0.0).total_cmp(&real(b).unwrap_or(0.0)));
    if let (Some(by), Some(dearest)) = (by, dearest)
        && let (Some(ms), Some(dear)) = (real(&by), real(&dearest))
        && dearest.by != by.by
    {
        let text = format!(
            "The mounts are found by {} in {ms:.2} ms and {} calls. The dearest way that was tried, {}, takes \
             {dear:.2} ms and {} calls.",
            by.by,
            by.calls(),
            dearest.by,
            dearest.calls()
        );
        found.add(30, "mounts", format!("{ms:.2} ms to find the mounts"), text, &commands.compare);
    }
}

fn found_file_systems(survey: &Survey<'_>, commands: &Commands, found: &mut Weighed) {
    let Some(all) = survey.file_systems.gathered() else { return };
    let Some(first) = all.first().map(|one| &one.probe) else { return };
    let dir = first.dir.unwrap_or(survey.root);
    let shown = printable(dir);
    let ([block, ahead], cache) = ([BLOCK, READAHEAD].map(|names| Known::of(first, names)), Known::cache(first));
    let mut parts: Vec<String> = [("block", &block), ("readahead", &ahead), ("cache", &cache)]
        .into_iter()
        .filter(|(_, known)| **known != Known::NotAsked)
        .map(|(what, known)| format!("{what} {known}"))
        .collect();
    if let (Some(memory), true) = (survey.about.memory, cache == Known::NotAsked) {
        parts.push(format!("cache up to {}", size(memory)));
    }
    if !parts.is_empty() {
        let fstype = first.fstype.map_or(String::new(), |fstype| format!(" ({})", printable(fstype)));
        let told = |known: &Known, found: &str, what: &str| match known {
            Known::Found(value) => Some(found.replace('%', value)),
            Known::KernelsWord(value) => Some(format!("{what} cannot be told (the kernel says {value})")),
            Known::UpTo(value) => Some(format!("{what} is at most {value}")),
            Known::CannotTell => Some(format!("{what} cannot be told")),
            Known::NotAsked => None,
        };
        let memory = match (&cache, survey.about.memory) {
            (Known::NotAsked, Some(memory)) => Some(format!(
                "how much of it stays in memory was not measured, and is at most the {} of memory that there are ({})",
                size(memory),
                commands.probe(dir, "cache")
            )),
            (Known::UpTo(most), _) => Some(format!(
                "what was read stays in memory as long as there is room, up to {most} ({})",
                bounded_by(first)
            )),
            _ => told(&cache, "% of it stay in memory", "how much of it stays in memory"),
        };
        let block = told(&block, "a file grows by % at a time", "by how much a file grows");
        let ahead = told(&ahead, "reading on, % come at a time", "how far is read ahead");
        let told: Vec<String> = [block, ahead, memory].into_iter().flatten().collect();
        let others = match all.len() {
            1 => String::new(),
            n => format!(" {} more below.", plural(n as u64 - 1, "file system", "file systems")),
        };
        let text = format!("On {shown}{fstype}, {}.{others}", told.join("; "));
        found.add(80, "probe", parts.join(", "), text, &commands.probe(dir, experiments(first)));
    }
    for probe in all.iter().map(|one| &one.probe) {
        let against = probe.experiments.iter().find(|found| found.agrees == Some(false) && !found.by_time);
        if let Some(one) = against
            && let (Some(inferred), Some(truth)) = (&one.inferred, &one.truth)
        {
            let dir = probe.dir.unwrap_or(survey.root);
            let (is, says) = (inferred.text(one.unit), truth.text(one.unit));
            let text = format!(
                "On {}, what was seen is not what the kernel says: the {} is {is}, where the kernel says {says}.",
                printable(dir),
                one.name
            );
            found.add(70, "probe", format!("{is}, not {says}"), text, &commands.probe(dir, one.experiment));
            break;
        }
    }
}

/// What to ask for to have this again.
fn experiments(probe: &Probe<'_>) -> &'static str {
    let has = |name: &str| probe.experiments.iter().any(|found| found.experiment == name);
    match (has("cache"), has("extent")) {
        (false, false) => "block readahead",
        (true, false) => "block readahead cache",
        (false, true) => "block readahead extent",
        (true, true) => "block readahead cache extent",
    }
}

/// The engine that fathom takes, the plain one, and the fastest; with the milliseconds that they take.
struct Engines<'a> {
    chosen: (&'a Engine, f64),
    plain: Option<(&'a Engine, f64)>,
    fastest: (&'a Engine, f64),
}

impl<'a> Engines<'a> {
    /// `None` if none has been through.
    fn of(walk: &Section<'a>) -> Option<Engines<'a>> {
        let timed = |engine: &'a Engine| Some((engine, median(&engine.runs, |t| t.real)?));
        let timed: Vec<_> = walk.compare.engines.iter().filter_map(timed).collect();
        let find = |name: &str| timed.iter().find(|(engine, _)| engine.engine == name).copied();
        let fastest = timed.iter().min_by(|a, b| a.1.total_cmp(&b.1)).copied()?;
        Some(Engines { chosen: find(walk.part.engine).unwrap_or(fastest), plain: find("stat"), fastest })
    }
}

/// A walk that needs more than a survey may use: how far it came, what all of it would take, and how the engines compare on a part.
fn found_bounded(survey: &Survey<'_>, walk: &Section<'_>, bounded: &Bounded, commands: &Commands, found: &mut Weighed) {
    let root = printable(survey.root);
    let mut text = format!("A walk of {root} needs more than a survey may use: {}.", bounded.stopped());
    text.extend(bounded.estimate().map(|estimate| format!(" At a guess {estimate}.")));
    if let (Some(part), Some(Engines { chosen: (engine, ms), plain, .. })) = (bounded.part(), Engines::of(walk)) {
        let entries = plural(engine.entries, "entry", "entries");
        text.push_str(&format!(" In memory, {} goes through {part} ({entries}) in {ms:.2} ms", engine.engine));
        if let Some((_, slow)) = plain.filter(|(plain, _)| plain.engine != engine.engine) {
            text.push_str(&format!("; one call after the other, as find does it, takes {slow:.2} ms"));
            if slow > ms {
                text.push_str(&format!(" ({:.1} times as long)", slow / ms));
            }
        }
        text.push('.');
    }
    let figure = match bounded.inodes.filter(|_| bounded.whole_seconds.is_some()) {
        Some(inodes) => format!("{} for {inodes} files", took(bounded)),
        None => took(bounded),
    };
    found.add(85, "walk", figure, text, &commands.tread);
}

/// What a bounded walk would take, or how fast it was.
fn took(bounded: &Bounded) -> String {
    match bounded.whole_seconds {
        Some(seconds) => format!("some {}", about(seconds)),
        None => format!("{:.0} entries a second", bounded.rate()),
    }
}

fn found_walk(survey: &Survey<'_>, commands: &Commands, found: &mut Weighed) {
    let Some(walk) = survey.walking.gathered() else { return };
    if let Some(bounded) = walk.bounded {
        found_bounded(survey, walk, bounded, commands, found);
        return found_disagreement(walk, commands, found);
    }
    let Some(Engines { chosen: (engine, ms), plain, .. }) = Engines::of(walk) else {
        if let Some(why) = unfinished(walk, walk.part.engine) {
            let plain = unfinished(walk, "stat").filter(|_| walk.part.engine != "stat");
            let plain =
                plain.map_or(String::new(), |why| format!(" One call after the other, as find does it, was {why}."));
            let text = format!(
                "A walk of {} needs more than a survey may use. By {}, the engine for it, it was {why}.{plain} The command goes \
                 on to its end.",
                printable(survey.root),
                walk.part.engine
            );
            found.add(85, "walk", beginning(&why), text, &commands.walk);
        }
        return;
    };
    let entries = plural(engine.entries, "entry", "entries");
    let beside = match plain {
        Some((plain, _)) if plain.engine == engine.engine => ", one call after the other, as find does it".to_owned(),
        Some((plain, slow)) => format!(
            "; one call after the other, as find does it, takes {slow:.2} ms and {} calls ({:.1} times as long)",
            plain.calls(),
            slow / ms
        ),
        None => String::new(),
    };
    let text = format!(
        "A walk of {} goes through {entries} in {ms:.2} ms and {} calls by {}{beside}.",
        printable(survey.root),
        engine.calls(),
        engine.engine
    );
    found.add(85, "walk", format!("{ms:.2} ms for {entries}"), text, &commands.walk);
    found_disagreement(walk, commands, found);
}

fn found_disagreement(walk: &Section<'_>, commands: &Commands, found: &mut Weighed) {
    if walk.compare.agree {
        return;
    }
    // Of a tree at rest each engine finds the same again; of one in use none does, and nothing is wrong.
    let at_rest = walk.compare.engines.iter().all(|engine| engine.steady);
    let (weight, figure, text) = match at_rest {
        true => (
            95,
            "The engines differ",
            "The engines have not all found the same, and each has found the same every time: one of them is wrong.",
        ),
        false => (
            35,
            "The tree changes",
            "The engines have not all found the same: something was changed while they walked, which is no fault where the tree is \
             in use.",
        ),
    };
    found.add(weight, "walk", figure.to_owned(), text.to_owned(), &commands.walk);
}

fn found_path(survey: &Survey<'_>, commands: &Commands, found: &mut Weighed) {
    let Some(startup) = survey.starting.gathered() else { return };
    let count = |state: &str| startup.path.iter().filter(|element| element.state == state).count() as u64;
    let (dead, again) = (count("dead"), count("again"));
    let mut text = plural(startup.path.len() as u64, "directory stands in PATH", "directories stand in PATH");
    let useless: Vec<String> = [(dead, "not there"), (again, "in it twice")]
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{n} {what}"))
        .collect();
    if !useless.is_empty() {
        text.push_str(&format!(" ({})", useless.join(", ")));
    }
    text.push('.');
    let mut figure = format!("{} in PATH", plural(startup.path.len() as u64, "directory", "directories"));
    if let Some(first) = startup.started.first() {
        figure = format!("{} of {} look-ups miss", first.totals.misses, first.totals.lookups);
    }
    for one in &startup.started {
        text.push_str(&format!(
            " To start {}, {} names are looked up, {} of them in vain ({}); with everything on a network file system \
             that would take {}.",
            one.command,
            one.totals.lookups,
            one.totals.misses,
            time(one.totals.seconds),
            time(one.seconds_far)
        ));
    }
    found.add(75, "startup", figure, text, &commands.pathsearch);
}

fn found_dump(survey: &Survey<'_>, commands: &Commands, found: &mut Weighed) {
    let Some(dump) = survey.dumping.gathered() else { return };
    let (none, first) = (dump.unchanged, dump.first);
    let ms = format!("{:.2} ms", 1000.0 * none.cpu_seconds);
    let text = format!(
        "A nightly dump in which nothing has changed costs {} calls and {ms} of CPU time. The first one reads {} in {}.",
        none.calls,
        sized(first.bytes),
        plural(first.files, "file", "files")
    );
    found.add(50, "dump", format!("{ms} of CPU time a night"), text, &commands.dump);
}

fn found_calls(survey: &Survey<'_>, commands: &Commands, found: &mut Weighed) {
    let Some(account) = survey.calls.gathered() else { return };
    let dearest = account.gates.iter().max_by(|a, b| a.1.seconds.total_cmp(&b.1.seconds));
    if let Some((name, gate)) = dearest {
        let text = format!(
            "Of the time that a plain walk spends in calls, {:.1} % goes to {name}: {} calls of {:.6} ms.",
            gate.percent, gate.calls, gate.ms_per_call
        );
        found.add(40, "account", format!("{:.1} % in {name}", gate.percent), text, &commands.account);
    }
}

fn found_prices(survey: &Survey<'_>, commands: &Commands, found: &mut Weighed) {
    let Some(prices) = survey.gates.gathered().and_then(|gates| gates.prices.as_deref()) else { return };
    let Some(warm) = best_price(prices, "statx", "warm") else { return };
    let warm = format!("{} ns", plain(warm.ns));
    let (figure, cold) = match best_price(prices, "statx", "cold") {
        Some(cold) => (
            format!("{warm} warm, {} ns cold", plain(cold.ns)),
            format!(", and {} ns when the file system has to look", plain(cold.ns)),
        ),
        None => (format!("{warm} a statx"), String::new()),
    };
    let empty = best_price(prices, "getppid", "warm");
    let empty = empty.map_or(String::new(), |empty| format!(" A call that does nothing costs {} ns.", plain(empty.ns)));
    let text = format!("To ask for a file's metadata (statx) costs {warm} when it is in memory{cold}.{empty}");
    found.add(45, "gates", figure, text, &commands.gates);
}

fn advise_mounts(survey: &Survey<'_>, commands: &Commands, found: &mut Weighed) {
    let Some(part) = survey.mounts.gathered() else { return };
    let odd = odd(part.mounts.mounts);
    let count = |kind| of_kind(&odd, kind).count() as u64;
    let which = |kind| names(of_kind(&odd, kind));
    let (bad, hidden, twice) = (count(Kind::Unanswering), count(Kind::Hidden), count(Kind::Twice));
    if bad > 0 {
        let text = format!(
            "Leave {} out of scans and backups until it is mended: whatever walks into it may wait for ever. The command \
             lists what to exclude.",
            which(Kind::Unanswering)
        );
        let command = format!("{} --check --format exclude", commands.mounts);
        found.add(100, "mounts", plural(bad, "mount does not answer", "mounts do not answer"), text, &command);
    }
    if hidden > 0 {
        let text = format!(
            "See whether anybody still needs what is hidden ({}), and unmount it or what lies over it: no path reaches it, \
             no backup sees it, and it keeps its device busy.",
            which(Kind::Hidden)
        );
        found.add(70, "mounts", plural(hidden, "hidden mount", "hidden mounts"), text, &commands.mounts);
    }
    if twice > 0 {
        let text = format!(
            "Leave one of the names out of backups and scans (--exclude): {} the same as another mount, and would be gone \
             through once more; -x does not help where both are of one device.",
            if twice == 1 { format!("{} shows", which(Kind::Twice)) } else { format!("{} show", which(Kind::Twice)) }
        );
        let figure = plural(twice, "mount is there twice", "mounts are there twice");
        found.add(52, "mounts", figure, text, &commands.mounts);
    }
    let read_only = count(Kind::ReadOnly);
    if read_only > 0 {
        let text = format!(
            "Look into the kernel's log (dmesg) for {}: it is read-only, and its options say that an error makes it so.",
            which(Kind::ReadOnly)
        );
        found.add(
            68,
            "mounts",
            plural(read_only, "mount is read-only", "mounts are read-only"),
            text,
            &commands.mounts,
        );
    }
}

/// How an engine was stopped, if it was.
fn unfinished(walk: &Section<'_>, engine: &str) -> Option<String> {
    let left = walk.compare.left_out.iter().find(|left| left.engine == engine && left.why.starts_with("stopped"))?;
    Some(printable(left.why.as_bytes()).into_owned())
}

/// A sentence up to its first comma.
fn beginning(sentence: &str) -> String {
    sentence.split(',').next().unwrap_or_default().to_owned()
}

fn advise_walk(survey: &Survey<'_>, commands: &Commands, found: &mut Weighed) {
    let Some(walk) = survey.walking.gathered() else { return };
    let root = &commands.root;
    // What it costs each time, where that is too much.
    let dear = match walk.bounded {
        Some(bounded) => Some(took(bounded)),
        None if Engines::of(walk).is_none() => unfinished(walk, walk.part.engine).map(|why| beginning(&why)),
        None => None,
    };
    if let Some(figure) = dear {
        let text = format!(
            "Go through {} once, by {}, and then ask only for what has changed: fathom walk writes a catalog, and fathom \
             changed holds the tree against it.",
            printable(survey.root),
            walk.part.engine
        );
        let command = format!("fathom walk {root} -x --catalog walk.parquet");
        found.add(81, "walk", figure, text, &command);
    }
    let Some(Engines { chosen, plain, fastest }) = Engines::of(walk) else { return };
    let spread = |engine: &Engine| Stats::of(engine.runs.iter().map(|t| t.real));
    let apart = spread(chosen.0).zip(spread(fastest.0)).is_some_and(|(chosen, fastest)| fastest.max < chosen.min);
    // On a few levels an engine that goes through all tables is at a loss, and on all of them it may not be.
    if fastest.1 * 1.1 < chosen.1 && apart && walk.bounded.is_none() {
        let text = format!(
            "Walk {} with --engine {}: it has taken {:.2} ms here, where {}, which is taken by default, took {:.2} ms.",
            printable(survey.root),
            fastest.0.engine,
            fastest.1,
            chosen.0.engine,
            chosen.1
        );
        let figure = format!("{:.1} times as fast", chosen.1 / fastest.1);
        found.add(82, "walk", figure, text, &format!("fathom walk {root} -x --engine {}", fastest.0.engine));
    } else if let Some(plain) = plain
        && plain.0.engine != chosen.0.engine
        && chosen.1 * 1.1 < plain.1
    {
        let per = |engine: &Engine| format!("{:.3}", engine.calls() as f64 / engine.entries.max(1) as f64);
        let (fewer, many) = (per(chosen.0), per(plain.0));
        let calls =
            if fewer == many { String::new() } else { format!("{fewer} calls an entry instead of {many}, and ") };
        let part =
            walk.bounded.and_then(Bounded::part).map_or(String::new(), |part| format!(" (for {part}, in memory)"));
        let text = format!(
            "Where find, du or a backup goes through {}, let fathom walk, changed or dump do it by {}: {calls}{:.2} ms \
             instead of {:.2} ms{part}.",
            printable(survey.root),
            chosen.0.engine,
            chosen.1,
            plain.1
        );
        let figure = format!("{:.1} times as fast", plain.1 / chosen.1);
        let command = if walk.bounded.is_some() { &commands.walk } else { &commands.tread };
        found.add(80, "walk", figure, text, command);
    } else if walk.bounded.is_none() {
        let text = format!(
            "Go through {} once, and then ask only for what has changed: fathom walk writes a catalog, and fathom changed \
             holds the tree against it.",
            printable(survey.root)
        );
        let command = format!("fathom walk {root} -x --catalog walk.parquet");
        found.add(55, "walk", format!("{:.2} ms each time", chosen.1), text, &command);
    }
    let barred = walk.explain.iter().find(|row| !row.possible && row.why.contains("run as root"));
    if let Some(barred) = barred.filter(|_| !survey.about.root) {
        let text = format!(
            "Walk as root: then {} can be tried, which goes below the file API. It was left out: {}.",
            barred.engine,
            printable(barred.why.as_bytes())
        );
        let took = walk.bounded.map_or_else(|| format!("{:.2} ms", chosen.1), took);
        let figure = format!("{took} without root");
        found.add(83, "walk", figure, text, &format!("sudo {}", commands.walk));
    }
}

fn advise_path(survey: &Survey<'_>, commands: &Commands, found: &mut Weighed) {
    let Some(startup) = survey.starting.gathered() else { return };
    let network = startup.path.iter().any(|element| element.network);
    let mut best: Vec<_> = startup.started.iter().flat_map(|one| one.fixes.iter().map(move |fix| (one, fix))).collect();
    best.sort_by_key(|(_, fix)| (fix.kind != "PATH", std::cmp::Reverse(fix.saves_misses)));
    let mut said: Vec<bool> = Vec::new();
    for (one, fix) in best {
        // To copy everything only helps where it is far away. One of PATH and one of anything else will do.
        let is_path = fix.kind == "PATH";
        if (fix.saves_misses == 0 && !network) || said.contains(&is_path) {
            continue;
        }
        said.push(is_path);
        let change = printable(fix.change.as_bytes());
        let mut letters = change.chars();
        let change = letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect());
        let text = format!("{change}. For {} it {}.", one.command, fix.saves());
        let figure = match fix.saves_misses {
            0 => format!("{} fewer", plural(fix.saves_requests, "request", "requests")),
            misses => format!("{} of {} misses fewer", misses, one.totals.misses),
        };
        // What saves next to nothing is still the best that there is of its kind.
        let much = 20 * fix.saves_misses >= one.totals.misses;
        let weight = match (is_path, much) {
            (true, true) => 75,
            (false, true) => 54,
            (_, false) => 34,
        };
        let command = commands.pathsearch.replace("env true", one.command);
        found.add(weight, "startup", figure, text, &command);
    }
}

fn advise_dump(survey: &Survey<'_>, commands: &Commands, found: &mut Weighed) {
    let Some(dump) = survey.dumping.gathered() else { return };
    let (first, changed) = (dump.first, dump.changed);
    if changed.bytes < first.bytes {
        let text = format!(
            "Dump increments: when one file in a hundred has changed, one reads {} with {} calls, where everything is {} \
             with {} calls. Keep a catalog with the first dump, and give it to the next with --since.",
            sized(changed.bytes),
            changed.calls,
            sized(first.bytes),
            first.calls
        );
        let figure = format!("{} instead of {}", sized(changed.bytes), sized(first.bytes));
        // Of little, all may well be dumped.
        let weight = if first.bytes >= 1 << 20 { 65 } else { 32 };
        let command = format!("fathom dump {} -x -o full.tar --catalog full.parquet", commands.root);
        found.add(weight, "dump", figure, text, &command);
    }
}

fn advise_calls(survey: &Survey<'_>, commands: &Commands, found: &mut Weighed) {
    let Some(account) = survey.calls.gathered() else { return };
    if let Some(change) = account.changes().into_iter().find(|change| change.advised && change.saves_seconds > 0.0) {
        let text = format!(
            "Where a program of yours walks as plainly as that: {} ({}). It would make {} calls fewer.",
            change.change,
            printable(change.how.as_bytes()),
            change.saves_calls
        );
        let figure = format!("{:.1} % of the CPU time", change.saves_percent);
        let weight = if change.saves_percent >= 5.0 { 60 } else { 33 };
        // Less than one in a hundred is nothing to change a program for.
        if change.saves_percent >= 1.0 {
            found.add(weight, "account", figure, text, &commands.account);
        }
    }
}

fn advise_file_systems(survey: &Survey<'_>, commands: &Commands, found: &mut Weighed) {
    let Some(all) = survey.file_systems.gathered() else { return };
    let Some(probe) = all.first().map(|one| &one.probe) else { return };
    let dir = probe.dir.unwrap_or(survey.root);
    if let Known::Found(block) = Known::of(probe, BLOCK) {
        let ahead = match Known::of(probe, READAHEAD) {
            Known::Found(ahead) => {
                format!(" Who reads from front to back gets {ahead} at a time, however little is asked for.")
            }
            _ => String::new(),
        };
        let text = format!(
            "Keep many small things in one file on {}: a byte in a file of its own takes {block} on the disk.{ahead}",
            printable(dir)
        );
        found.add(48, "probe", format!("{block} for one byte"), text, &commands.probe(dir, "block readahead"));
    }
}

fn advise_prices(survey: &Survey<'_>, commands: &Commands, found: &mut Weighed) {
    let Some(prices) = survey.gates.gathered().and_then(|gates| gates.prices.as_deref()) else { return };
    let statx = |state| best_price(prices, "statx", state).map(|price| price.ns);
    if let (Some(warm), Some(cold)) = (statx("warm"), statx("cold"))
        && cold > 3.0 * warm
    {
        let text = format!(
            "Let scans run one after the other rather than hours apart, and leave names and inodes in memory \
             (vm.vfs_cache_pressure below 100): a statx costs {} ns when the file system has to look, and {} ns when \
              not.",
            plain(cold),
            plain(warm)
        );
        found.add(46, "gates", format!("{:.1} times as dear", cold / warm), text, &commands.gates);
    }
    if let (Some(sync), Some(warm)) = (best_price(prices, "fsync", "warm"), statx("warm"))
        && sync.ns > 10.0 * warm
    {
        let text = format!(
            "Write much before each fsync: one takes {}, as long as {:.0} statx.",
            time(sync.ns / 1e9),
            sync.ns / warm
        );
        found.add(44, "gates", format!("{} ns an fsync", plain(sync.ns)), text, &commands.gates);
    }
}

/// What is not known, and how to know it.
fn advise_more(survey: &Survey<'_>, commands: &Commands, found: &mut Weighed) {
    if let Some(first) = survey.about.lacking.first().filter(|_| !survey.about.root) {
        let text = format!("Run the survey once as root: {first}.");
        let lacking = survey.about.lacking.len() as u64;
        let figure = plural(lacking, "thing not seen", "things not seen");
        found.add(58, "steps", figure, text, &format!("sudo fathom survey {}", commands.root));
    }
    for (section, skipped) in survey.skipped() {
        let what = named(section).0.to_lowercase();
        let text = format!("There is nothing on {what} here: {}. The command has it, and takes its time.", skipped.why);
        found.add(20, section, "not measured".to_owned(), text, skipped.how);
    }
    let text = "Keep a survey as JSON, and take another after the next change of kernel or storage: fathom survey --diff says \
                what has become slower.";
    let command = format!("fathom survey {} --json >before.json", commands.root);
    found.add(10, "steps", format!("{:.1} s each", survey.about.seconds), text.to_owned(), &command);
    let Some(rows) = survey.mounts.gathered().map(|part| part.mounts.mounts) else { return };
    let servers = all(rows).filter(|row| row.server.is_some()).count() as u64;
    if servers > 0 {
        let text = format!(
            "See that {} before a scan goes there: a server that is gone stops whatever waits for it.",
            if servers == 1 { "the network mount answers" } else { "the network mounts answer" }
        );
        let figure = plural(servers, "network mount", "network mounts");
        found.add(42, "mounts", figure, text, &format!("{} --check --servers", commands.mounts));
    }
}
