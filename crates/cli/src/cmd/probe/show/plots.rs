//! Plots of series of samples in the form of the paper, and of system call prices.

use probe::{Finding, Kind, Price, Series, combined, evaluate, marks};
use show::figure::{Dot, Dots, Plot, dots_svg};
use show::units::duration;

use super::{state, value_text};

pub(crate) fn plot_of(series: &Series) -> Plot {
    // Maximum number of points. For small reads and writes, plot only the first calls, as the paper
    // does: more points would be indistinguishable.
    let most = match series.kind {
        Kind::Reads | Kind::ReadsAhead | Kind::Writes => 160,
        Kind::Cached => 2048,
        _ => usize::MAX,
    };
    let runs = series.runs.iter().map(|run| *run as f64);
    let found = evaluate(series).into_iter().next();
    Plot {
        title: title(series),
        note: found.map_or(String::new(), |finding| note(&finding, series)),
        x: x_axis(series.kind).to_owned(),
        y: y_axis(series.kind).to_owned(),
        points: runs.zip(combined(series)).take(most).collect(),
        marks: marks(series).into_iter().filter(|at| *at < most).collect(),
    }
}

fn title(series: &Series) -> String {
    let step = series.step;
    match series.kind {
        Kind::Reads => format!("Reads of {step} bytes, without readahead"),
        Kind::ReadsAhead | Kind::Blocks => format!("Reads of {step} bytes, with readahead"),
        Kind::Writes => format!("Writes of {step} bytes into a hole"),
        Kind::Cached => "Pages of the file in the page cache after each read".to_owned(),
        Kind::Passes => {
            format!("Second pass over a file that grows by {step} bytes")
        }
        Kind::Filled => format!("Reads of holes, {step} bytes per step"),
        Kind::Syncs => format!("fsync after {step} bytes"),
    }
}

fn x_axis(kind: Kind) -> &'static str {
    match kind {
        Kind::Reads | Kind::ReadsAhead | Kind::Blocks | Kind::Cached => "read number",
        Kind::Writes => "write number",
        Kind::Passes | Kind::Filled => "step number",
        Kind::Syncs => "fsync number",
    }
}

fn y_axis(kind: Kind) -> &'static str {
    match kind {
        Kind::Reads | Kind::ReadsAhead | Kind::Blocks => "time per read, ns",
        Kind::Writes => "time per write, ns",
        Kind::Cached => "pages",
        Kind::Passes => "time per step, ns",
        Kind::Filled => "bytes cached",
        Kind::Syncs => "time per fsync, ns",
    }
}

/// A note: the property that was inferred from the series.
fn note(finding: &Finding, series: &Series) -> String {
    let trials = match series.trials.len() {
        0 | 1 => String::new(),
        trials => format!(" ({trials} trials)"),
    };
    let (name, unit) = (finding.quantity.name(), finding.quantity.unit());
    match finding.value() {
        Some(value) => {
            format!("{name}: {}{trials}", value_text(value, unit))
        }
        None => format!("{name}: unknown{trials}"),
    }
}

/// A row of dots for each call on one thread, with its warm and its cold price.
pub(crate) fn price_dots(prices: &[Price]) -> Vec<Dots> {
    let mut rows: Vec<((&str, &str), Dots)> = Vec::new();
    for price in prices.iter().filter(|price| price.threads == 1) {
        let key = (price.call.name(), price.call.target());
        let seconds = |ns: f64| ns / 1e9;
        let dot = Dot {
            seconds: seconds(price.ns),
            range: (seconds(price.low), seconds(price.high)),
            filled: price.warm,
        };
        let text = format!("{} {}", state(price), duration(price.ns / 1e9));
        match rows.iter_mut().find(|(known, _)| *known == key) {
            Some((_, row)) => {
                row.text = format!("{}, {text}", row.text);
                row.dots.push(dot);
            }
            None => {
                let label = format!("{}: {}", key.0, key.1);
                let dots = vec![dot];
                rows.push((key, Dots { label, text, dots }));
            }
        }
    }
    rows.into_iter().map(|(_, row)| row).collect()
}

/// The plot of the prices of system calls; `None` if none was measured.
pub(crate) fn prices_svg(prices: &[Price]) -> Option<String> {
    dots_svg(
        "Price of each system call, on one thread",
        "Dot: warm, the data is in memory. Ring: cold, it is not. Line: interquartile range.",
        &price_dots(prices),
    )
}
