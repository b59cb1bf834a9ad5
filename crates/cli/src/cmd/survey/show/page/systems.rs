//! The sections about properties of file systems and prices of calls.

use super::block::{Block, Plots, plot, table, texts};
use crate::cmd::mounts::show::cell;
use crate::cmd::probe::show::plots::{plot_of, price_dots};
use crate::cmd::probe::show::prices_table;
use crate::cmd::survey::command::Commands;
use crate::cmd::survey::show::known::{
    bytes_text, cache_text, known_text, limited_by, report as shown,
};
use probe::{Experiment, ProbeReport, Series};
use show::columns;
use show::figure::dots;
use show::name::printable;
use show::table::Table;
use show::units::{duration, plural, size};
use survey::known::{BLOCK, CacheSize, EXTENT, PropertyValue, READAHEAD, best_price};
use survey::{Command, ProbedFileSystem};

pub(crate) fn file_systems(
    all: &[ProbedFileSystem],
    memory: Option<u64>,
    commands: &Commands,
    plots: &mut Plots,
) -> Vec<Block> {
    let mut blocks = vec![overview(all)];
    blocks.extend(cache_note(all, memory, commands).map(Block::Text));
    for (nth, one) in all.iter().enumerate() {
        blocks.extend(experiments(one, nth == 0, commands, plots));
    }
    blocks
}

fn overview(all: &[ProbedFileSystem]) -> Block {
    let columns = columns![
        <"DIRECTORY", <"FSTYPE", >"BLOCK", >"READAHEAD", >"CACHE", >"LARGEST EXTENT"
    ];
    let row = |ProbedFileSystem { dir, report }: &ProbedFileSystem| {
        let known = |quantities| known_text(PropertyValue::new(report, quantities));
        [
            printable(dir).into_owned(),
            cell(report.fstype.as_deref()).into_owned(),
            known(&BLOCK),
            known(&READAHEAD),
            cache_text(CacheSize::new(report)),
            known(&EXTENT),
        ]
    };
    let overview = Table::from_rows(&columns, all.iter().map(row));
    table("File systems", &overview)
}

/// A note on the column CACHE, if the page cache was not measured.
fn cache_note(
    all: &[ProbedFileSystem],
    memory: Option<u64>,
    commands: &Commands,
) -> Option<String> {
    let first = all.first()?;
    let command = commands.text(&Command::Probe(&first.dir, vec![Experiment::Cache]));
    let caches: Vec<CacheSize> = all.iter().map(|one| CacheSize::new(&one.report)).collect();
    for cache in &caches {
        if let CacheSize::AtMost(most, limit) = cache {
            return Some(format!(
                "CACHE: what the page cache can hold of all file systems together, up to {}, {}; less while programs use memory. \
                 Read from the kernel, not measured; {command} measures it.",
                bytes_text(most),
                limited_by(*limit)
            ));
        }
    }
    let most = memory.map_or(String::new(), |memory| {
        format!(" At most the memory, {}.", size(memory))
    });
    caches
        .contains(&CacheSize::Known(PropertyValue::NotMeasured))
        .then(|| {
            format!(
                "CACHE: what the page cache can hold. Not measured; {command} measures it.{most}"
            )
        })
}

fn experiments(
    probed: &ProbedFileSystem,
    is_first: bool,
    commands: &Commands,
    plots: &mut Plots,
) -> Vec<Block> {
    let ProbedFileSystem { dir, report } = probed;
    let name = printable(dir);
    let command = Command::Probe(dir, made(report));
    let mut blocks = vec![
        Block::Heading(format!("{name} ({})", cell(report.fstype.as_deref()))),
        Block::Command(commands.text(&command)),
        table(
            &format!("Results of the experiments on {name}"),
            &shown(probed).table(),
        ),
    ];
    blocks.extend(notes(probed));
    // Draw the readahead of each file system, but the other plots for the first only.
    let is_readahead = |series: &&Series| series.kind.experiment() == Experiment::Readahead;
    let (readahead, others): (Vec<_>, Vec<_>) = report.series.iter().partition(is_readahead);
    let others = others.into_iter().filter(|_| is_first);
    let wanted = readahead.into_iter().chain(others);
    let drawn: Vec<Block> = wanted
        .filter_map(|series| experiment(series, plots))
        .collect();
    if !drawn.is_empty() {
        let count = plural(drawn.len() as u64, "plot", "plots");
        blocks.push(Block::Details(format!("{count} of the samples"), drawn));
    }
    blocks
}

fn notes(probed: &ProbedFileSystem) -> impl Iterator<Item = Block> {
    let notes = shown(probed).notes(false).into_iter();
    texts(notes.map(|note| note + "."))
}

fn experiment(series: &Series, plots: &mut Plots) -> Option<Block> {
    let drawn = plot_of(series);
    let rings = if drawn.marks.is_empty() {
        ""
    } else {
        "Ring: the samples that the result rests on. "
    };
    let caption = format!("{rings}{}.", drawn.note);
    plot(drawn.to_page_svg(plots.next()), &caption)
}

fn made(report: &ProbeReport) -> Vec<Experiment> {
    let findings = report.measured.iter().map(|measured| &measured.finding);
    let mut experiments: Vec<Experiment> = findings
        .map(|finding| finding.quantity.experiment())
        .collect();
    experiments.dedup();
    experiments
}

pub(crate) fn prices(gates: &ProbedFileSystem, commands: &Commands) -> Vec<Block> {
    let command = Command::Probe(&gates.dir, vec![Experiment::Gates]);
    let mut blocks = vec![Block::Command(commands.text(&command))];
    let all = gates.report.prices.as_deref().unwrap_or_default();
    let facts: Vec<(&'static str, String)> = [
        ("An empty call", "getppid", true),
        ("statx, warm", "statx", true),
        ("statx, cold", "statx", false),
    ]
    .into_iter()
    .filter_map(|(name, gate, warm)| Some((name, duration(best_price(all, gate, warm)?.ns / 1e9))))
    .collect();
    if !facts.is_empty() {
        blocks.insert(0, Block::Facts(facts));
    }
    let svg = dots("Price of each system call, on one thread", &price_dots(all));
    blocks.extend(plot(
        svg,
        "Logarithmic scale. Dot: warm, the data is in memory. Ring: cold, it is not. Line: interquartile range.",
    ));
    let mut inner = Vec::new();
    if !all.is_empty() {
        inner.push(table("Prices of system calls", &prices_table(all)));
    }
    if !gates.report.measured.is_empty() {
        let findings = shown(gates).table();
        inner.push(table("Least price of any call", &findings));
        inner.extend(notes(gates));
    }
    if !inner.is_empty() {
        blocks.push(Block::Details("Tables of the prices".to_owned(), inner));
    }
    blocks
}
