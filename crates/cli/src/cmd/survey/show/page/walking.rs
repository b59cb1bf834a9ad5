//! The sections about the cost of walks and dumps, and the system calls of a walk.

use base::runs::median_ms;

use super::block::{Block, Plots, plot, table, texts};
use crate::cmd::account::show as account_show;
use crate::cmd::account::show::savings;
use crate::cmd::survey::command::Commands;
use crate::cmd::survey::show::bounded::{comparison, sentences};
use crate::cmd::survey::show::nightly;
use crate::cmd::walk::show::{agreement_text, why};
use account::report::AccountReport;
use archive::nightly::Nightly;
use show::columns;
use show::figure::{Bar, bars};
use show::name::printable;
use show::table::{Align, RowColour, Table};
use show::treemap::{Tile, treemap};
use show::units::{count, duration, size};
use survey::bounded::LimitedWalk;
use survey::{Command, WalkCosts};
use walk::compare::{Agreement, EngineRuns};
use walk::{DirectoryCount, EngineKind, ExplainedPlan};

pub(crate) fn walking(walk: &WalkCosts, commands: &Commands) -> Vec<Block> {
    let facts = match &walk.bounded {
        Some(bounded) => bounded_facts(walk, bounded),
        None => facts(walk),
    };
    let reason = walk.part.reason.to_string();
    let mut blocks = vec![
        Block::Facts(facts),
        Block::Command(commands.text(&Command::CompareEngines)),
    ];
    blocks.extend(texts(walk.bounded.iter().flat_map(sentences)));
    blocks.extend(engines(walk));
    let comparison = comparison(walk);
    blocks.extend(texts(agreement(walk)));
    let mut inner = vec![Block::Text(format!(
        "Engine {}: {}.",
        walk.part.engine.name(),
        printable(reason.as_bytes())
    ))];
    if !comparison.engines.is_empty() {
        let caption = "Engines, medians of the runs; x STAT: relative to one call at a time";
        inner.push(table(caption, &comparison.table()));
    }
    if !walk.engines.explained.is_empty() {
        inner.push(possible_table(walk));
    }
    let skipped = comparison.left_out.iter();
    let skipped = skipped.map(|left| format!("{} skipped: {}", left.engine, left.why));
    let skipped: Vec<String> = skipped.collect();
    if !skipped.is_empty() {
        inner.push(Block::List(skipped));
    }
    blocks.push(Block::Details("Tables of the engines".to_owned(), inner));
    blocks
}

/// A sentence: whether the engines report the same tree.
fn agreement(walk: &WalkCosts) -> Option<String> {
    let engines = &walk.engines.engines;
    let digest = engines.first()?.totals.digest;
    let agreement = walk.engines.agreement();
    let text = agreement_text(agreement);
    Some(match agreement {
        Agreement::Same => format!("{text}: digest {digest}."),
        Agreement::TreeChanged | Agreement::Unconfirmed => format!("{text}."),
        Agreement::Disagree => {
            let digests = engines.iter();
            let digests = digests.map(|one| format!("{} {}", one.engine.name(), one.totals.digest));
            let digests = digests.collect::<Vec<_>>().join(", ");
            format!("{text}. Digests: {digests}.")
        }
    })
}

fn median(engine: &EngineRuns) -> Option<f64> {
    median_ms(&engine.runs, |t| t.real)
}

fn facts(walk: &WalkCosts) -> Vec<(&'static str, String)> {
    let mut facts = vec![("Engine", walk.part.engine.name().to_owned())];
    let engines = &walk.engines;
    if let Some(engine) = engines.find(walk.part.engine)
        && let Some(ms) = median(engine)
    {
        facts.insert(0, ("Entries", count(engine.totals.entries)));
        let (time, calls) = (duration(ms / 1e3), count(engine.tally.calls()));
        facts.push(("Time", format!("{time}, {calls} calls")));
    }
    if let Some(ms) = engines.find(EngineKind::Stat).and_then(median) {
        facts.push(("One call at a time", duration(ms / 1e3)));
    }
    facts
}

fn bounded_facts(walk: &WalkCosts, bounded: &LimitedWalk) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("Entries until the limit", count(bounded.entries)),
        ("Engine", walk.part.engine.name().to_owned()),
        ("Entries per second", count(bounded.rate() as u64)),
    ];
    let inodes = bounded.inodes.map(count);
    facts.extend(inodes.map(|inodes| ("Inodes in use", inodes)));
    let whole = bounded.whole_seconds();
    facts.extend(whole.map(|seconds| ("Whole tree", format!("estimated {}", duration(seconds)))));
    facts
}

fn engines(walk: &WalkCosts) -> Option<Block> {
    let bar = |engine: &EngineRuns| {
        let ms = median(engine)?;
        Some(Bar {
            label: engine.engine.name().to_owned(),
            value: ms,
            text: format!(
                "{}, {} calls",
                duration(ms / 1e3),
                count(engine.tally.calls())
            ),
            class: "",
        })
    };
    let rows: Vec<Bar> = walk.engines.engines.iter().filter_map(bar).collect();
    let svg = bars("Elapsed time of each engine", &rows);
    plot(svg, "Medians of the runs, with the metadata in memory.").filter(|_| !rows.is_empty())
}

/// The measure that the area of a directory's tile represents.
struct Measure<'a> {
    title: &'static str,
    caption: &'static str,
    unit: &'static str,
    value: &'a dyn Fn(&DirectoryCount) -> f64,
    /// Formats a value.
    text: fn(u64) -> String,
    summary: &'static str,
    rows: usize,
}

/// The section about the allocated space of directories.
pub(super) fn space(walk: &WalkCosts, plots: &mut Plots) -> Vec<Block> {
    let measure = Measure {
        title: match walk.bounded {
            Some(_) => "Allocated space by directory, until the limit",
            None => "Allocated space by directory",
        },
        caption: "Area: allocated bytes. A file with several names counts in equal parts at each of them. Tiles of one colour have the \
                  same top directory.",
        unit: "",
        value: &|one| one.allocated as f64,
        text: size,
        summary: "Table of the ten largest directories",
        rows: 10,
    };
    let columns = columns![<"DIRECTORY", >"ALLOCATED", >"ENTRIES"];
    let row = |one: &DirectoryCount| vec![directory(one), size(one.allocated), count(one.entries)];
    tiles(&walk.directories, &measure, plots, &columns, row)
}

/// The section about the entries of directories, and the calls of a walk there.
pub(super) fn directories(walk: &WalkCosts, plots: &mut Plots) -> Vec<Block> {
    let calls = PlainCalls::new(walk);
    let value = |one: &DirectoryCount| match &calls {
        Some(calls) => calls.estimate(one),
        None => one.entries as f64,
    };
    let (title, unit, caption) = match calls {
        Some(_) => (
            "System calls of a walk with one call at a time, by directory",
            " calls",
            "Area: system calls, estimated from the entries and directories of each directory. Tiles of one colour \
             have the same top directory.",
        ),
        None => (
            "Entries by directory, until the limit",
            " entries",
            "Area: number of entries. Tiles of one colour have the same top directory.",
        ),
    };
    let measure = Measure {
        title,
        caption,
        unit,
        value: &value,
        text: count,
        summary: "Table of the directories",
        rows: 100,
    };
    let columns = columns![
        <"DIRECTORY", >"ENTRIES", >"DIRECTORIES", >"CALLS (ESTIMATED)"
    ];
    let columns = &columns[..if calls.is_some() { 4 } else { 3 }];
    let row = |one: &DirectoryCount| {
        let mut cells = vec![directory(one), count(one.entries), count(one.directories)];
        let calls = calls.as_ref();
        cells.extend(calls.map(|calls| count(calls.estimate(one).round() as u64)));
        cells
    };
    tiles(&walk.directories, &measure, plots, columns, row)
}

/// A treemap of the directories, and a table of the largest ones; empty if the measure is 0 for all
/// directories.
fn tiles(
    counts: &[DirectoryCount],
    measure: &Measure<'_>,
    plots: &mut Plots,
    columns: &[(&str, Align)],
    row: impl Fn(&DirectoryCount) -> Vec<String>,
) -> Vec<Block> {
    const GROUPS: usize = 24;
    let value = measure.value;
    let mut largest: Vec<&DirectoryCount> = counts.iter().collect();
    largest.retain(|one| value(one) > 0.0);
    largest.sort_by(|a, b| value(b).total_cmp(&value(a)));
    if largest.is_empty() {
        return Vec::new();
    }
    let mut groups: Vec<(Vec<u8>, Vec<&DirectoryCount>)> = Vec::new();
    for one in &largest {
        let top = one.path.split(|byte| *byte == b'/').next();
        let top = top.unwrap_or_default();
        match groups.iter_mut().find(|(known, _)| known == top) {
            Some((_, group)) => group.push(one),
            None => groups.push((top.to_vec(), vec![one])),
        }
    }
    let sum = |group: &[&DirectoryCount]| group.iter().map(|one| value(one)).sum::<f64>();
    groups.sort_by(|a, b| sum(&b.1).total_cmp(&sum(&a.1)));
    groups.truncate(GROUPS);
    let text = |one: &DirectoryCount| (measure.text)(value(one).round() as u64);
    let tile = |one: &&DirectoryCount| Tile {
        label: directory(one),
        value: value(one),
        text: text(one),
    };
    let groups = groups.iter();
    let groups = groups.map(|(_, group)| group.iter().map(tile).collect());
    let groups: Vec<Vec<Tile>> = groups.collect();
    let words = largest.iter().take(5);
    let words = words.map(|one| format!("{}: {}{}", directory(one), text(one), measure.unit));
    let words = words.collect::<Vec<_>>().join("; ");
    let title = measure.title;
    let svg = treemap(plots.next(), title, &format!("Largest: {words}."), &groups);
    largest.truncate(measure.rows);
    let mut rows = Table::new(columns, largest.len());
    for one in &largest {
        rows.row(row(one), RowColour::Plain);
    }
    vec![
        Block::Plot(
            format!("<p class=\"title\">{title}</p>\n{svg}"),
            measure.caption.to_owned(),
        ),
        Block::Details(
            measure.summary.to_owned(),
            vec![table(measure.summary, &rows)],
        ),
    ]
}

fn directory(one: &DirectoryCount) -> String {
    match &one.path[..] {
        [] => "(top)".to_owned(),
        path => printable(path).into_owned(),
    }
}

/// Estimates the calls of the engine `stat` by directory: one per entry; the remaining calls are
/// distributed equally over the directories.
struct PlainCalls {
    for_directory: f64,
}

impl PlainCalls {
    /// `None` unless the engine `stat` walked the whole tree that was counted.
    fn new(walk: &WalkCosts) -> Option<PlainCalls> {
        let plain = walk.engines.find(EngineKind::Stat)?;
        if walk.bounded.is_some() {
            return None;
        }
        let all = walk.directories.iter();
        let (entries, directories) = all.fold((0, 0), |(entries, directories), one| {
            (entries + one.entries, directories + one.directories)
        });
        let rest = plain.tally.calls().checked_sub(entries)? as f64;
        (directories > 0).then(|| PlainCalls {
            for_directory: rest / directories as f64,
        })
    }

    fn estimate(&self, one: &DirectoryCount) -> f64 {
        one.entries as f64 + self.for_directory * one.directories as f64
    }
}

fn possible_table(walk: &WalkCosts) -> Block {
    let columns = columns![<"ENGINE", <"POSSIBLE", <"WHY"];
    let mut possible = Table::new(&columns, 0);
    for choice in walk
        .engines
        .explained
        .iter()
        .flat_map(ExplainedPlan::choices)
    {
        let word = if choice.is_possible() { "yes" } else { "no" };
        let why = why(&choice);
        let why = printable(why.as_bytes());
        possible.row([choice.engine.name(), word, &why], RowColour::Plain);
    }
    table("Engines that work here, and why others do not", &possible)
}

pub(crate) fn dumping(dump: &Nightly, commands: &Commands) -> Vec<Block> {
    let facts = vec![
        ("Entries", count(dump.entries)),
        ("Full dump", size(dump.first.bytes)),
        ("Calls if nothing changed", count(dump.unchanged.calls)),
        (
            "CPU time if nothing changed",
            duration(dump.unchanged.cpu_seconds),
        ),
    ];
    let mut blocks = vec![
        Block::Facts(facts),
        Block::Command(commands.text(&Command::GatherDump)),
    ];
    blocks.extend(texts(nightly::head(dump)));
    blocks.push(table("Cost of a dump", &nightly::table(dump)));
    blocks.push(Block::Text(nightly::foot(dump)));
    blocks
}

pub(crate) fn calls(account: &AccountReport<'_>, commands: &Commands) -> Vec<Block> {
    let mut blocks = vec![Block::Command(commands.text(&Command::Account))];
    blocks.extend(texts(account_show::sentences(account)));
    blocks.push(table(
        "System calls of a walk",
        &account_show::calls_table(account, usize::MAX, true),
    ));
    if let Some(patterns) = account_show::patterns_table(account) {
        blocks.push(Block::Heading("Redundant calls".to_owned()));
        blocks.push(table("Redundant calls, by pattern", &patterns));
    }
    if let Some(what_if) = savings::what_if_table(account) {
        blocks.push(Block::Heading("Possible savings".to_owned()));
        blocks.push(Block::Text(savings::model_sentence(account)));
        blocks.push(table("Savings of each change", &what_if));
        blocks.push(Block::List(
            savings::saving_changes(account)
                .map(savings::explain_change)
                .collect(),
        ));
    }
    blocks
}
