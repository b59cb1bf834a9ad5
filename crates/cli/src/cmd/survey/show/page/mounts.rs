//! The mounts: what is odd about them, where they are, and what it costs to find them.

use std::collections::BTreeMap;

use mounts::Point;
use mounts::check::Verdict;
use mounts::diagnosis::{Diagnosis, diagnose};
use ondisk::split_options;
use show::figure::{Dot, Dots, dots};
use show::name::printable;
use show::stats::Stats;
use show::table::{Align, Table};
use show::times::median_ms;
use show::units::{plural, sized};
use survey::Section;

use super::block::{Block, Branch, MAX_ROWS, MAX_SENTENCES, Plots, Tree, more, plot, table, texts};
use crate::cmd::mounts::compare::Compared;
use crate::cmd::mounts::methods::{Method, methods_table};
use crate::cmd::mounts::show::{by_name, cell, limbs, source, state, tone};
use crate::cmd::survey::command::{Command, Commands};
use crate::cmd::survey::show::anomalies;
use crate::cmd::survey::survey::{Mounted, Survey};

pub(crate) fn mounts(survey: &Survey<'_>, mounted: &Mounted, plots: &mut Plots) -> Vec<Block> {
    let commands = survey.commands();
    let report = &mounted.report;
    let points = &report.points;
    let diagnoses = diagnose(points);
    let by = report.method.name();
    let mut facts = vec![
        ("Mounts", points.len().to_string()),
        ("Of them odd", diagnoses.len().to_string()),
        ("Found by", by.to_owned()),
    ];
    let compared = survey.found.methods.as_ref();
    let methods = compared.map_or(&[][..], |compared| &compared.methods);
    let used = methods.iter().find(|method| method.by == by);
    if let Some((used, ms)) = used.and_then(|used| Some((used, median_ms(&used.runs, |t| t.real)?)))
    {
        facts.push(("That takes", format!("{ms:.2} ms, {} calls", used.calls())));
    }
    let mut blocks = vec![
        Block::Facts(facts),
        Block::Command(commands.text(&Command::Mounts)),
    ];
    let complete = match report.is_complete() {
        true => "",
        false => " Something may be missing: see the warnings.",
    };
    let why = report.reason.to_string();
    let why = printable(why.as_bytes());
    blocks.push(Block::Text(format!("Found by {by}: {why}.{complete}")));
    blocks.extend(texts(types(points)));
    blocks.push(Block::Heading("What is odd".to_owned()));
    blocks.extend(anomaly_table(&diagnoses, &commands));
    if !points.is_empty() {
        blocks.push(Block::Heading("The tree".to_owned()));
        blocks.push(Block::Tree(tree(points)));
    }
    blocks.extend(texts(more(
        points.len(),
        MAX_ROWS,
        ["mount", "mounts"],
        &commands.text(&Command::Mounts),
    )));
    blocks.push(Block::Heading("What each method costs here".to_owned()));
    match compared {
        Some(compared) => blocks.extend(method_blocks(compared, &commands, plots)),
        None => blocks.push(Block::missing(Section::Mounts, survey)),
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
    let shown = diagnoses.iter().take(MAX_SENTENCES);
    let rows = shown.map(|one| [printable(one.target), anomalies::all(one).into()]);
    let rows = Table::from_rows(&columns, rows);
    let mut blocks = vec![table("Mounts that are odd, the worst first", &rows)];
    blocks.extend(texts(more(
        diagnoses.len(),
        MAX_SENTENCES,
        ["odd one", "odd ones"],
        &commands.text(&Command::Mounts),
    )));
    blocks
}

fn method_blocks(compared: &Compared, commands: &Commands, plots: &mut Plots) -> Vec<Block> {
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
        &methods_table(&compared.methods),
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

fn tree(rows: &[Point]) -> Tree {
    let order = by_name(rows);
    let limbs = limbs(rows, &order);
    let any = |has: fn(&Point) -> bool| rows.iter().any(has);
    type Cell = fn(&Point) -> String;
    let columns: [(bool, &'static str, Cell); 7] = [
        (true, "SOURCE", |row| source(row).into_owned()),
        (true, "FSTYPE", |row| cell(row.fstype()).into_owned()),
        (true, "ACCESS", access),
        (any(|row| !state(row).is_empty()), "STATE", |row| {
            state(row).into_owned()
        }),
        (any(|row| row.verdict.is_some()), "ANSWERS", |row| {
            row.verdict.map_or("-", Verdict::name).to_owned()
        }),
        (any(|row| row.server.is_some()), "SERVER", |row| {
            cell(row.server.as_deref().map(str::as_bytes)).into_owned()
        }),
        (any(|row| row.beneath.is_some()), "BENEATH", |row| {
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
