//! What each file system is, and what each call costs.

use super::block::{Block, Plots, plot, table, texts};
use crate::cmd::mounts::show::cell;
use crate::cmd::probe::show::plain;
use crate::cmd::survey::known::{BLOCK, CacheSize, EXTENT, Known, READAHEAD, best_price};
use crate::cmd::survey::show::commands::Commands;
use crate::cmd::survey::show::known::{cache_text, known_text, limited_by, text};
use crate::cmd::survey::show::probe::{Price, Probe, prices_table};
use crate::cmd::survey::survey::{FileSystem, Plot};
use ::survey::Command;
use show::figure::{Dot, Dots, dots};
use show::name::printable;
use show::table::{Align, Table, Tone};
use show::units::size;

pub(crate) fn file_systems(
    all: &[FileSystem<'_>],
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

fn overview(all: &[FileSystem<'_>]) -> Block {
    let columns = [
        ("DIRECTORY", Align::Left),
        ("FSTYPE", Align::Left),
        ("BLOCK", Align::Right),
        ("READAHEAD", Align::Right),
        ("CACHE", Align::Right),
        ("LARGEST EXTENT", Align::Right),
    ];
    let mut overview = Table::new(&columns, all.len());
    for FileSystem { probe, .. } in all {
        let known = |names| known_text(&Known::new(probe, names));
        let cells = [
            probe.dir.map_or("-".into(), printable).into_owned(),
            cell(probe.fstype).into_owned(),
            known(BLOCK),
            known(READAHEAD),
            cache_text(&CacheSize::new(probe)),
            known(EXTENT),
        ];
        overview.row(cells, Tone::Plain);
    }
    table("What each file system is", &overview)
}

/// What the column CACHE says, where the cache was not measured.
fn cache_note(all: &[FileSystem<'_>], memory: Option<u64>, commands: &Commands) -> Option<String> {
    let command = commands.text(&Command::FillCache);
    let caches: Vec<CacheSize> = all.iter().map(|one| CacheSize::new(&one.probe)).collect();
    for cache in &caches {
        if let CacheSize::AtMost { most, limit } = cache {
            return Some(format!(
                "CACHE is how much of what was read stays in memory, of all file systems together: up to {}, {}. It shrinks as \
                 programs take memory. That was looked up, and not measured; {command} fills a cache to see.",
                text(most),
                limited_by(limit)
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

/// What the experiments on one file system found, and their plots.
fn experiments(
    one: &FileSystem<'_>,
    is_first: bool,
    commands: &Commands,
    plots: &mut Plots,
) -> Vec<Block> {
    let probe = &one.probe;
    let dir = probe.dir.map_or("-".into(), printable);
    let command = Command::Probe(probe.dir.unwrap_or(b"/").to_vec(), asked(probe));
    let mut blocks = vec![
        Block::Heading(format!("{dir} ({})", cell(probe.fstype))),
        Block::Command(commands.text(&command)),
        table(
            &format!("What the experiments on {dir} have found"),
            &probe.table(true),
        ),
    ];
    blocks.extend(texts(probe.notes(false).into_iter().map(|note| note + ".")));
    // The plot of the readahead says most; the other plots of one file system suffice.
    let (readahead, others): (Vec<_>, Vec<_>) = one
        .plots
        .iter()
        .partition(|plotted| plotted.experiment == "readahead");
    let others = others.into_iter().filter(|_| is_first);
    let wanted = readahead.into_iter().chain(others);
    blocks.extend(wanted.filter_map(|plotted| experiment(plotted, plots)));
    blocks
}

/// The plot of an experiment.
fn experiment(plotted: &Plot, plots: &mut Plots) -> Option<Block> {
    let figure = &plotted.figure;
    let log = if figure.is_logarithmic() {
        ", on a scale of powers of ten"
    } else {
        ""
    };
    let caption = format!(
        "{} ({}): {} upwards{log}; what stands out has a ring. {}.",
        figure.title, plotted.experiment, figure.y, figure.note
    );
    plot(figure.to_page_svg(plots.next()), &caption)
}

/// The experiments that were made.
fn asked(probe: &Probe<'_>) -> String {
    let mut names: Vec<&str> = probe
        .experiments
        .iter()
        .map(|found| found.experiment)
        .collect();
    names.dedup();
    names.join(" ")
}

pub(crate) fn prices(gates: &Probe<'_>, commands: &Commands, plots: &mut Plots) -> Vec<Block> {
    let mut blocks = vec![Block::Command(commands.text(&Command::Prices))];
    let all = gates.prices.as_deref().unwrap_or_default();
    let facts: Vec<(&'static str, String)> = [
        ("An empty call", "getppid", "warm"),
        ("statx, warm", "statx", "warm"),
        ("statx, cold", "statx", "cold"),
    ]
    .into_iter()
    .filter_map(|(name, gate, state)| {
        Some((
            name,
            format!("{} ns", plain(best_price(all, gate, state)?.ns)),
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
    if !gates.experiments.is_empty() {
        blocks.push(table("What every call costs at least", &gates.table(true)));
        blocks.extend(texts(gates.notes(false).into_iter().map(|note| note + ".")));
    }
    blocks
}

/// A row for each call on one thread, warm and cold together.
fn price_dots(prices: &[Price]) -> Vec<Dots> {
    let mut rows: Vec<((&str, &str), Dots)> = Vec::new();
    for price in prices.iter().filter(|price| price.threads == 1) {
        let key = (price.gate, price.what);
        let seconds = |ns: f64| ns / 1e9;
        let dot = Dot {
            seconds: seconds(price.ns),
            range: (seconds(price.low), seconds(price.high)),
            filled: price.state == "warm",
        };
        let said = format!("{} {} ns", price.state, plain(price.ns));
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
                        label: format!("{}: {}", price.gate, price.what),
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
