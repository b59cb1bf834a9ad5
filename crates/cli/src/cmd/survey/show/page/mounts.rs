//! The mounts: what is odd about them, where they are, and what it costs to find them.

use std::collections::BTreeMap;

use ondisk::split_options;

use super::block::{Block, Branch, MAX_ROWS, MAX_SENTENCES, Plots, Tree, more, plot, table, texts};
use crate::cmd::mounts::methods::{Method, methods_table};
use crate::cmd::mounts::show::{Columns, by_name, cell, limbs, source, state, tone};
use crate::cmd::survey::show::anomalies;
use crate::cmd::survey::show::commands::Commands;
use crate::cmd::survey::survey::{Compared, MountsPart, Part};
use ::mounts::Point;
use ::mounts::boundaries::Boundary;
use ::mounts::check::Verdict;
use ::mounts::diagnosis::{Diagnosis, diagnose};
use ::survey::Command;
use ::survey::Section;
use show::figure::{Dot, Dots, dots};
use show::name::printable;
use show::stats::Stats;
use show::table::{Align, Table, Tone};
use show::times::median_ms;
use show::units::{plural, sized};

pub(crate) fn mounts(part: &MountsPart<'_>, commands: &Commands, plots: &mut Plots) -> Vec<Block> {
    let rows = part.mounts.mounts;
    let diagnoses = diagnose(part.points);
    let by = part
        .methods()
        .iter()
        .find(|method| method.by == part.mounts.by);
    let mut facts = vec![
        ("Mounts", rows.len().to_string()),
        ("Of them odd", diagnoses.len().to_string()),
        ("Found by", part.mounts.by.to_owned()),
    ];
    if let Some((by, ms)) = by.and_then(|by| Some((by, median_ms(&by.runs, |t| t.real)?))) {
        facts.push(("That takes", format!("{ms:.2} ms, {} calls", by.calls())));
    }
    let mut blocks = vec![
        Block::Facts(facts),
        Block::Command(commands.text(&Command::Mounts)),
    ];
    let complete = if part.mounts.complete {
        ""
    } else {
        " Something may be missing: see the warnings."
    };
    blocks.push(Block::Text(format!(
        "Found by {}: {}.{complete}",
        part.mounts.by,
        printable(part.mounts.why.as_bytes())
    )));
    blocks.extend(texts(types(rows)));
    blocks.push(Block::Heading("What is odd".to_owned()));
    blocks.extend(anomaly_table(&diagnoses, commands));
    blocks.extend(boundary_table(part.mounts.boundaries, commands));
    if !rows.is_empty() {
        blocks.push(Block::Heading("The tree".to_owned()));
        blocks.push(Block::Tree(tree(part)));
    }
    blocks.extend(texts(more(
        rows.len(),
        MAX_ROWS,
        ["mount", "mounts"],
        &commands.text(&Command::Mounts),
    )));
    blocks.push(Block::Heading("What each method costs here".to_owned()));
    match &part.compared {
        Part::Gathered(compared) => blocks.extend(methods(compared, commands, plots)),
        Part::Missing(why) => blocks.push(Block::missing(Section::Mounts, why, commands)),
    }
    blocks
}

fn anomaly_table(diagnoses: &[Diagnosis<'_>], commands: &Commands) -> Vec<Block> {
    if diagnoses.is_empty() {
        return vec![Block::Text(
            "Nothing: a path reaches each mount, and none is on a file or there twice.".to_owned(),
        )];
    }
    let columns = [("TARGET", Align::Left), ("WHY IT IS ODD", Align::Left)];
    let mut rows = Table::new(&columns, diagnoses.len().min(MAX_SENTENCES));
    for diagnosis in diagnoses.iter().take(MAX_SENTENCES) {
        let target = printable(diagnosis.target);
        rows.row([&*target, &anomalies::all(diagnosis)], Tone::Plain);
    }
    let mut blocks = vec![table("Mounts that are odd, the worst first", &rows)];
    blocks.extend(texts(more(
        diagnoses.len(),
        MAX_SENTENCES,
        ["odd one", "odd ones"],
        &commands.text(&Command::Mounts),
    )));
    blocks
}

fn boundary_table(boundaries: Option<&[Boundary]>, commands: &Commands) -> Vec<Block> {
    let boundaries = boundaries.unwrap_or_default();
    if boundaries.is_empty() {
        return Vec::new();
    }
    let columns = [
        ("PATH", Align::Left),
        ("KIND", Align::Left),
        ("DEV", Align::Left),
    ];
    let mut rows = Table::new(&columns, boundaries.len().min(MAX_SENTENCES));
    for boundary in boundaries.iter().take(MAX_SENTENCES) {
        let (path, dev) = (printable(&boundary.path), boundary.dev.to_string());
        rows.row([&*path, boundary.kind.name(), &dev], Tone::Plain);
    }
    let mut blocks = vec![table(
        "Where the file system changes and no mount table says so",
        &rows,
    )];
    blocks.extend(texts(more(
        boundaries.len(),
        MAX_SENTENCES,
        ["boundary", "boundaries"],
        &commands.text(&Command::ListBoundaries),
    )));
    blocks
}

fn methods(compared: &Compared<'_>, commands: &Commands, plots: &mut Plots) -> Vec<Block> {
    let rows: Vec<Dots> = compared.methods.iter().filter_map(method_dots).collect();
    let title = "What each method of finding the mounts takes";
    let mut blocks = vec![Block::Command(commands.text(&Command::CompareMethods))];
    blocks.extend(plot(
        dots(plots.next(), title, &rows),
        "Elapsed time on a scale of powers of ten: a dot at the median of the runs, a line from the shortest to the \
         longest.",
    ));
    blocks.push(table(
        "Methods of finding the mounts: medians",
        &methods_table(compared.methods),
    ));
    blocks.extend(texts(
        compared
            .left_out
            .iter()
            .map(|left| format!("{} left out: {}.", left.by, left.why)),
    ));
    blocks
}

/// How many there are of each type of file system, most first.
fn types(points: &[Point]) -> Option<String> {
    const TYPES: usize = 12;
    let mut counts: BTreeMap<&[u8], usize> = BTreeMap::new();
    points
        .iter()
        .filter_map(Point::fstype)
        .for_each(|fstype| *counts.entry(fstype).or_default() += 1);
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let said: Vec<String> = counts
        .iter()
        .take(TYPES)
        .map(|(of, n)| format!("{n} {}", printable(of)))
        .collect();
    let left = counts.len().saturating_sub(TYPES);
    let rest = if left > 0 {
        format!(", and {} more", plural(left as u64, "type", "types"))
    } else {
        String::new()
    };
    (!counts.is_empty()).then(|| format!("By type: {}{rest}.", said.join(", ")))
}

fn tree(part: &MountsPart<'_>) -> Tree {
    let rows = part.mounts.mounts;
    let order = by_name(rows);
    let limbs = limbs(rows, &order);
    let has = Columns::in_use(rows);
    type Cell = fn(&Point) -> String;
    let columns: [(bool, &'static str, Cell); 7] = [
        (true, "SOURCE", |row| source(row).into_owned()),
        (true, "FSTYPE", |row| cell(row.fstype()).into_owned()),
        (true, "ACCESS", access),
        (has.state, "STATE", |row| state(row).into_owned()),
        (has.verdict, "ANSWERS", |row| {
            row.verdict.map_or("-", Verdict::name).to_owned()
        }),
        (has.server, "SERVER", |row| {
            cell(row.server.as_deref().map(str::as_bytes)).into_owned()
        }),
        (has.beneath, "BENEATH", |row| {
            row.beneath.map_or("-".to_owned(), |b| {
                format!("{}, {}", plural(b.files, "file", "files"), sized(b.bytes))
            })
        }),
    ];
    let shown = || columns.iter().filter(|(shown, ..)| *shown);
    let branch = |&at: &usize| {
        let row = &rows[at];
        Branch {
            limb: limbs.get(at).cloned().unwrap_or_default(),
            target: printable(&row.target).into_owned(),
            cells: shown().map(|(_, _, cell)| cell(row)).collect(),
            class: tone(row).class(),
        }
    };
    Tree {
        caption: "The mounts, in the order of their names".to_owned(),
        heads: std::iter::once("TARGET")
            .chain(shown().map(|(_, head, _)| *head))
            .collect(),
        rows: order.iter().take(MAX_ROWS).map(branch).collect(),
    }
}

fn access(row: &Point) -> String {
    let Some(options) = row.options() else {
        return "-".to_owned();
    };
    (if split_options(options).any(|option| option == b"ro") {
        "ro"
    } else {
        "rw"
    })
    .to_owned()
}

fn method_dots(method: &Method) -> Option<Dots> {
    let stats = Stats::from_values(method.runs.iter().map(|t| t.real))?;
    let text = format!("{:.2} ms, {} calls", 1000.0 * stats.median, method.calls());
    Some(Dots {
        label: method.by.to_owned(),
        description: text.clone(),
        text,
        dots: vec![Dot {
            seconds: stats.median,
            range: (stats.min, stats.max),
            filled: true,
        }],
    })
}
