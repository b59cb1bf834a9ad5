//! The mounts: what is odd about them, where they are, and what it costs to find them.

use std::collections::BTreeMap;

use ondisk::split_options;

use super::{Block, Branch, MOST, MOST_SAID, Plots, Tree, more, plot, table, texts};
use crate::cmd::survey::commands::Commands;
use crate::cmd::survey::odd::odd;
use crate::cmd::survey::survey::{Compared, MountsPart, Part};
use report::compare::{Method, median_ms, methods_table};
use report::draw::{Dot, Dots, dots};
use report::mounts::{Has, Row, all, by_name, cell, limbs, source, state, tone};
use show::name::printable;
use show::stats::Stats;
use show::table::{Align, Table, Tone};
use show::units::{plural, sized};

pub(crate) fn mounts(part: &MountsPart<'_>, commands: &Commands, plots: &mut Plots) -> Vec<Block> {
    let rows = part.mounts.mounts;
    let odd = odd(rows);
    let by = part
        .methods()
        .iter()
        .find(|method| method.by == part.mounts.by);
    let mut facts = vec![
        ("Mounts", rows.len().to_string()),
        ("Of them odd", odd.len().to_string()),
        ("Found by", part.mounts.by.to_owned()),
    ];
    if let Some((by, ms)) = by.and_then(|by| Some((by, median_ms(&by.runs, |t| t.real)?))) {
        facts.push(("That takes", format!("{ms:.2} ms, {} calls", by.calls())));
    }
    let mut blocks = vec![Block::Facts(facts), Block::Command(commands.mounts.clone())];
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
    blocks.extend(texts(types(all(rows))));
    blocks.push(Block::Heading("What is odd".to_owned()));
    if odd.is_empty() {
        blocks.push(Block::Text(
            "Nothing: a path reaches each mount, and none is on a file or there twice.".to_owned(),
        ));
    } else {
        let mut told = Table::new(
            &[("TARGET", Align::Left), ("WHY IT IS ODD", Align::Left)],
            odd.len().min(MOST_SAID),
        );
        for odd in odd.iter().take(MOST_SAID) {
            told.row([printable(odd.target).as_ref(), &odd.why], Tone::Plain);
        }
        blocks.push(table("Mounts that are odd, the worst first", &told));
        blocks.extend(texts(more(
            odd.len(),
            MOST_SAID,
            ["odd one", "odd ones"],
            &commands.mounts,
        )));
    }
    if let Some(boundaries) = part
        .mounts
        .boundaries
        .filter(|boundaries| !boundaries.is_empty())
    {
        let columns = [
            ("PATH", Align::Left),
            ("KIND", Align::Left),
            ("DEV", Align::Left),
        ];
        let mut told = Table::new(&columns, boundaries.len().min(MOST_SAID));
        for boundary in boundaries.iter().take(MOST_SAID) {
            told.row(
                [
                    printable(&boundary.path).as_ref(),
                    boundary.kind,
                    &boundary.dev.to_string(),
                ],
                Tone::Plain,
            );
        }
        blocks.push(table(
            "Where the file system changes and no mount table says so",
            &told,
        ));
        blocks.extend(texts(more(
            boundaries.len(),
            MOST_SAID,
            ["boundary", "boundaries"],
            &commands.boundaries,
        )));
    }
    if !rows.is_empty() {
        blocks.push(Block::Heading("The tree".to_owned()));
        blocks.push(Block::Tree(tree(part)));
    }
    blocks.extend(texts(more(
        rows.len(),
        MOST,
        ["mount", "mounts"],
        &commands.mounts,
    )));
    blocks.push(Block::Heading("What each method costs here".to_owned()));
    match &part.compared {
        Part::Gathered(compared) => blocks.extend(methods(compared, commands, plots)),
        Part::Not { why, how } => blocks.push(Block::Skipped(why.clone(), how.clone())),
    }
    blocks
}

fn methods(compared: &Compared<'_>, commands: &Commands, plots: &mut Plots) -> Vec<Block> {
    let rows: Vec<Dots> = compared.methods.iter().filter_map(method_dots).collect();
    let title = "What each method of finding the mounts takes";
    let mut blocks = vec![Block::Command(commands.compare.clone())];
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
fn types<'a>(rows: impl Iterator<Item = Row<'a>>) -> Option<String> {
    const TYPES: usize = 12;
    let mut counts: BTreeMap<&[u8], usize> = BTreeMap::new();
    rows.filter_map(|row| row.fstype)
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
    let has = Has::of(rows);
    type Cell = fn(&Row<'_>) -> String;
    let columns: [(bool, &'static str, Cell); 7] = [
        (true, "SOURCE", |row| source(row).into_owned()),
        (true, "FSTYPE", |row| cell(row.fstype).into_owned()),
        (true, "ACCESS", access),
        (has.state, "STATE", |row| state(row).into_owned()),
        (has.verdict, "ANSWERS", |row| {
            row.verdict.unwrap_or("-").to_owned()
        }),
        (has.server, "SERVER", |row| {
            cell(row.server.map(str::as_bytes)).into_owned()
        }),
        (has.beneath, "BENEATH", |row| {
            row.beneath.map_or("-".to_owned(), |b| {
                format!("{}, {}", plural(b.files, "file", "files"), sized(b.bytes))
            })
        }),
    ];
    let shown = || columns.iter().filter(|(shown, ..)| *shown);
    let branch = |&at: &usize| {
        let row = rows.row(at);
        Branch {
            limb: limbs.get(at).cloned().unwrap_or_default(),
            target: printable(row.target).into_owned(),
            cells: shown().map(|(_, _, cell)| cell(&row)).collect(),
            class: tone(&row).class(),
        }
    };
    Tree {
        caption: "The mounts, in the order of their names".to_owned(),
        heads: std::iter::once("TARGET")
            .chain(shown().map(|(_, head, _)| *head))
            .collect(),
        rows: order.iter().take(MOST).map(branch).collect(),
    }
}

fn access(row: &Row<'_>) -> String {
    let Some(options) = row.options else {
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
        said: text.clone(),
        text,
        dots: vec![Dot {
            seconds: stats.median,
            range: (stats.min, stats.max),
            filled: true,
        }],
    })
}
