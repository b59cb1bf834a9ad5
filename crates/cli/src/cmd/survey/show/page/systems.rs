//! What each file system is, and what each call costs.

use super::block::{Block, Plots, plot, table, texts};
use crate::cmd::mounts::show::cell;
use crate::cmd::probe::show::figures::figure;
use crate::cmd::probe::show::{plain, prices_table, state};
use crate::cmd::survey::command::{Command, Commands};
use crate::cmd::survey::known::{BLOCK, CacheSize, EXTENT, Known, READAHEAD, best_price};
use crate::cmd::survey::show::known::{bytes_text, cache_text, known_text, limited_by};
use crate::cmd::survey::survey::Probed;
use probe::{Experiment, Price, ProbeReport, Series};
use show::figure::{Dot, Dots, dots};
use show::name::printable;
use show::table::{Align, Table};
use show::units::size;

pub(crate) fn file_systems(
    all: &[Probed],
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

fn overview(all: &[Probed]) -> Block {
    let columns = [
        ("DIRECTORY", Align::Left),
        ("FSTYPE", Align::Left),
        ("BLOCK", Align::Right),
        ("READAHEAD", Align::Right),
        ("CACHE", Align::Right),
        ("LARGEST EXTENT", Align::Right),
    ];
    let row = |Probed { dir, report }: &Probed| {
        let known = |quantities| known_text(Known::new(report, quantities));
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
    table("What each file system is", &overview)
}

/// A note on the column CACHE, where the cache was not measured.
fn cache_note(all: &[Probed], memory: Option<u64>, commands: &Commands) -> Option<String> {
    let command = commands.text(&Command::FillCache);
    let caches: Vec<CacheSize> = all.iter().map(|one| CacheSize::new(&one.report)).collect();
    for cache in &caches {
        if let CacheSize::AtMost(most, limit) = cache {
            return Some(format!(
                "CACHE is how much of what was read stays in memory, of all file systems together: up to {}, {}. It shrinks as \
                 programs take memory. That was looked up, and not measured; {command} fills a cache to see.",
                bytes_text(most),
                limited_by(*limit)
            ));
        }
    }
    let most = memory.map_or(String::new(), |memory| {
        format!(" It is at most the memory, {}.", size(memory))
    });
    caches
        .contains(&CacheSize::Known(Known::NotMeasured))
        .then(|| {
            format!(
                "CACHE is how much of a file system stays in memory. To find out takes memory, and is done when it is asked for: {command}.{most}"
            )
        })
}

fn experiments(
    probed: &Probed,
    is_first: bool,
    commands: &Commands,
    plots: &mut Plots,
) -> Vec<Block> {
    let Probed { dir, report } = probed;
    let name = printable(dir);
    let command = Command::Probe(dir, made(report));
    let mut blocks = vec![
        Block::Heading(format!("{name} ({})", cell(report.fstype.as_deref()))),
        Block::Command(commands.text(&command)),
        table(
            &format!("What the experiments on {name} have found"),
            &probed.shown().table(),
        ),
    ];
    blocks.extend(notes(probed));
    // The plot of the readahead says most; the other plots of one file system suffice.
    let is_readahead = |series: &&Series| series.kind.experiment() == Experiment::Readahead;
    let (readahead, others): (Vec<_>, Vec<_>) = report.series.iter().partition(is_readahead);
    let others = others.into_iter().filter(|_| is_first);
    let wanted = readahead.into_iter().chain(others);
    blocks.extend(wanted.filter_map(|series| experiment(series, plots)));
    blocks
}

fn notes(probed: &Probed) -> impl Iterator<Item = Block> {
    let notes = probed.shown().notes(false).into_iter();
    texts(notes.map(|note| note + "."))
}

fn experiment(series: &Series, plots: &mut Plots) -> Option<Block> {
    let figure = figure(series);
    let log = match figure.is_logarithmic() {
        true => ", on a scale of powers of ten",
        false => "",
    };
    let caption = format!(
        "{} ({}): {} upwards{log}; what stands out has a ring. {}.",
        figure.title,
        series.kind.experiment().name(),
        figure.y,
        figure.note
    );
    plot(figure.to_page_svg(plots.next()), &caption)
}

fn made(report: &ProbeReport) -> String {
    let findings = report.measured.iter().map(|measured| &measured.finding);
    let mut names: Vec<&str> = findings
        .map(|finding| finding.quantity.experiment().name())
        .collect();
    names.dedup();
    names.join(" ")
}

pub(crate) fn prices(gates: &Probed, commands: &Commands, plots: &mut Plots) -> Vec<Block> {
    let mut blocks = vec![Block::Command(commands.text(&Command::Prices))];
    let all = gates.report.prices.as_deref().unwrap_or_default();
    let facts: Vec<(&'static str, String)> = [
        ("An empty call", "getppid", true),
        ("statx, warm", "statx", true),
        ("statx, cold", "statx", false),
    ]
    .into_iter()
    .filter_map(|(name, gate, warm)| {
        Some((
            name,
            format!("{} ns", plain(best_price(all, gate, warm)?.ns)),
        ))
    })
    .collect();
    if !facts.is_empty() {
        blocks.insert(0, Block::Facts(facts));
    }
    let svg = dots(
        plots.next(),
        "What each call costs, on one thread",
        &price_dots(all),
    );
    blocks.extend(plot(
        svg,
        "On a scale of powers of ten: a dot, and the first figure, where the answer is in memory (warm); a ring, and the \
         second one, where it is not (cold). Half of the batches are within the line.",
    ));
    if !all.is_empty() {
        blocks.push(table("What each call costs", &prices_table(all)));
    }
    if !gates.report.measured.is_empty() {
        let findings = gates.shown().table();
        blocks.push(table("What every call costs at least", &findings));
        blocks.extend(notes(gates));
    }
    blocks
}

/// A row for each call on one thread, warm and cold together.
fn price_dots(prices: &[Price]) -> Vec<Dots> {
    let mut rows: Vec<((&str, &str), Dots)> = Vec::new();
    for price in prices.iter().filter(|price| price.threads == 1) {
        let key = (price.call.name(), price.call.target());
        let seconds = |ns: f64| ns / 1e9;
        let dot = Dot {
            seconds: seconds(price.ns),
            range: (seconds(price.low), seconds(price.high)),
            filled: price.warm,
        };
        let said = format!("{} {} ns", state(price), plain(price.ns));
        match rows.iter_mut().find(|(known, _)| *known == key) {
            Some((_, row)) => {
                row.description = format!("{}, {said}", row.description);
                row.text = format!(
                    "{} / {} ns",
                    row.text.trim_end_matches(" ns"),
                    plain(price.ns)
                );
                row.dots.push(dot);
            }
            None => {
                let text = format!(
                    "{}{} ns",
                    if dot.filled { "" } else { "- / " },
                    plain(price.ns)
                );
                rows.push((
                    key,
                    Dots {
                        label: format!("{}: {}", key.0, key.1),
                        text,
                        description: said,
                        dots: vec![dot],
                    },
                ));
            }
        }
    }
    rows.into_iter().map(|(_, row)| row).collect()
}
