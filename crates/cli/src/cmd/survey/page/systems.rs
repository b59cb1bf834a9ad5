//! What each file system is, and what each call costs.

use super::{Block, Plots, plot, table, texts};
use crate::cmd::survey::commands::Commands;
use crate::cmd::survey::known::{BLOCK, EXTENT, Known, READAHEAD, best_price, bounded_by};
use crate::cmd::survey::survey::{FileSystem, Plot};
use report::draw::{Dot, Dots, dots, line};
use report::mounts::cell;
use report::plot::Scale;
use report::probe::{Price, Probe, plain, prices_table};
use show::name::printable;
use show::table::{Align, Table, Tone};
use show::units::size;

/// One thing that may be known of a file system.
type Fact = fn(&Probe<'_>) -> Known;

/// What stands in the overview of file systems.
const OVERVIEW: [(&str, Fact); 4] = [
    ("BLOCK", |probe| Known::of(probe, BLOCK)),
    ("READAHEAD", |probe| Known::of(probe, READAHEAD)),
    ("CACHE", Known::cache),
    ("LARGEST EXTENT", |probe| Known::of(probe, EXTENT)),
];

pub(crate) fn file_systems(
    all: &[FileSystem<'_>],
    memory: Option<u64>,
    commands: &Commands,
    plots: &mut Plots,
) -> Vec<Block> {
    let columns = [("DIRECTORY", Align::Left), ("FSTYPE", Align::Left)];
    let columns: Vec<_> = columns
        .into_iter()
        .chain(OVERVIEW.map(|(head, _)| (head, Align::Right)))
        .collect();
    let mut overview = Table::new(&columns, all.len());
    for FileSystem { probe, .. } in all {
        let dir = probe.dir.map_or("-".into(), printable).into_owned();
        let of = OVERVIEW.map(|(_, known)| known(probe).to_string());
        overview.row(
            [dir, cell(probe.fstype).into_owned()].into_iter().chain(of),
            Tone::Plain,
        );
    }
    let mut blocks = vec![table("What each file system is", &overview)];
    let limited = |one: &FileSystem<'_>| match Known::cache(&one.probe) {
        Known::UpTo(most) => Some(format!("{most}, {}", bounded_by(&one.probe))),
        _ => None,
    };
    if let Some(most) = all.iter().find_map(limited) {
        blocks.push(Block::Text(format!(
            "CACHE is how much of what was read stays in memory, of all file systems together: up to {most}. It shrinks as \
             programs take memory. That was looked up, and not measured; {} fills a cache to see.",
            commands.cache
        )));
    } else if all
        .iter()
        .any(|one| Known::cache(&one.probe) == Known::NotAsked)
    {
        let most = memory.map_or(String::new(), |memory| {
            format!(" It is at most the memory, {}.", size(memory))
        });
        blocks.push(Block::Text(format!(
            "CACHE is how much of a file system stays in memory. To find out takes memory, and is done when it is asked for: {}.{most}",
            commands.cache
        )));
    }
    for (
        nth,
        FileSystem {
            probe,
            plots: drawn,
        },
    ) in all.iter().enumerate()
    {
        let dir = probe.dir.map_or("-".into(), printable);
        blocks.push(Block::Heading(format!("{dir} ({})", cell(probe.fstype))));
        blocks.push(Block::Command(
            commands.probe(probe.dir.unwrap_or(b"/"), &asked(probe)),
        ));
        blocks.push(table(
            &format!("What the experiments on {dir} have found"),
            &probe.table(true),
        ));
        blocks.extend(texts(probe.notes(false).into_iter().map(|note| note + ".")));
        // What is fetched ahead says most; of the other plots those of one file system will do.
        let (first, rest): (Vec<_>, Vec<_>) = drawn
            .iter()
            .partition(|plotted| plotted.experiment == "readahead");
        let rest = rest.into_iter().filter(|_| nth == 0);
        blocks.extend(
            first
                .into_iter()
                .chain(rest)
                .filter_map(|plotted| experiment(plotted, plots)),
        );
    }
    blocks
}

/// The plot of an experiment.
fn experiment(plotted: &Plot, plots: &mut Plots) -> Option<Block> {
    let figure = &plotted.figure;
    let log = if Scale::of(&figure.points).log {
        ", on a scale of powers of ten"
    } else {
        ""
    };
    let caption = format!(
        "{} ({}): {} upwards{log}; what stands out has a ring. {}.",
        figure.title, plotted.experiment, figure.y, figure.note
    );
    plot(line(plots.next(), figure), &caption)
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
    let mut blocks = vec![Block::Command(commands.gates.clone())];
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
                row.said = format!("{}, {said}", row.said);
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
                        said,
                        dots: vec![dot],
                    },
                ));
            }
        }
    }
    rows.into_iter().map(|(_, row)| row).collect()
}
