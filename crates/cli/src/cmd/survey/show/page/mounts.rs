//! The section about mounts: anomalies, the mount tree, and the cost of finding mount points.

use std::collections::BTreeMap;

use base::runs::Stats;
use base::runs::median_ms;
use mounts::check::Verdict;
use mounts::compare::MethodRuns;
use mounts::diagnosis::{Diagnosis, diagnose};
use mounts::{Point, is_pseudo};
use ondisk::split_options;
use show::columns;
use show::figure::{Dot, Dots, dots};
use show::name::printable;
use show::table::Table;
use show::units::{count, duration, plural, sized};
use survey::{Command, ComparedMethods, Section, Survey, SurveyedMounts};

use super::block::{Block, Branch, MAX_ROWS, MAX_SENTENCES, Tree, more, plot, table, texts};
use crate::cmd::mounts::methods::methods_table;
use crate::cmd::mounts::show::{cell, source, state, tone};
use crate::cmd::mounts::tree;
use crate::cmd::survey::command::Commands;
use crate::cmd::survey::show::{anomalies, missing};

pub(crate) fn mounts(survey: &Survey<'_>, mounted: &SurveyedMounts) -> Vec<Block> {
    let commands = Commands::from_survey(survey);
    let report = &mounted.report;
    let points = &report.points;
    let diagnoses = diagnose(&mounted.all());
    let by = report.method.name();
    let pseudo = points.iter().filter(|point| is_pseudo(point)).count();
    let mut facts = vec![
        ("Mounts", count(points.len() as u64)),
        ("Pseudo file systems", count(pseudo as u64)),
        ("Found by", by.to_owned()),
    ];
    let compared = survey.found.methods.as_ref();
    let methods = compared.map_or(&[][..], |compared| &compared.comparison.methods);
    let used = methods.iter().find(|one| one.method == report.method);
    if let Some((used, ms)) = used.and_then(|used| Some((used, median_ms(&used.runs, |t| t.real)?)))
    {
        let (time, calls) = (duration(ms / 1e3), count(used.profile.calls()));
        facts.push(("Time to find them", format!("{time}, {calls} calls")));
    }
    let mut blocks = vec![
        Block::Facts(facts),
        Block::Command(commands.text(&Command::Mounts)),
    ];
    if !report.is_complete() {
        blocks.push(Block::Text(
            "The list may be incomplete: see the warnings.".to_owned(),
        ));
    }
    if !diagnoses.is_empty() {
        blocks.push(Block::Heading("Unusual mounts".to_owned()));
        blocks.extend(anomaly_table(&diagnoses, &commands));
    }
    if !points.is_empty() {
        blocks.push(Block::Heading("Mount tree".to_owned()));
        blocks.extend(trees(points, &commands));
    }
    blocks.push(Block::Heading("Cost of each method".to_owned()));
    match compared {
        Some(compared) => blocks.extend(method_blocks(compared, &commands)),
        None => blocks.push(Block::missing(Section::Mounts, survey)),
    }
    blocks
}

/// The tree of mounts with files; and that of pseudo file systems, which is collapsed.
fn trees(points: &[Point], commands: &Commands) -> Vec<Block> {
    let (pseudo, real): (Vec<Point>, Vec<Point>) = points.iter().cloned().partition(is_pseudo);
    let mut blocks = Vec::new();
    let all = |count| {
        let command = commands.text(&Command::Mounts);
        more(count, MAX_ROWS, ["mount", "mounts"], &command)
    };
    if !real.is_empty() {
        blocks.push(Block::Tree(tree(&real, "Mounts that store files, by path")));
        blocks.extend(texts(all(real.len())));
    }
    if !pseudo.is_empty() {
        let systems = plural(
            pseudo.len() as u64,
            "pseudo file system",
            "pseudo file systems",
        );
        let mut inner: Vec<Block> = texts(types(&pseudo)).collect();
        inner.push(Block::Tree(tree(&pseudo, "Pseudo file systems, by path")));
        inner.extend(texts(all(pseudo.len())));
        blocks.push(Block::Details(systems, inner));
    }
    blocks
}

fn anomaly_table(diagnoses: &[Diagnosis<'_>], commands: &Commands) -> Vec<Block> {
    let columns = columns![<"TARGET", <"REASON"];
    let shown = diagnoses.iter().take(MAX_SENTENCES);
    let rows = shown.map(|one| [printable(one.target), anomalies::all(one).into()]);
    let rows = Table::from_rows(&columns, rows);
    let mut blocks = vec![table("Unusual mounts, the worst first", &rows)];
    blocks.extend(texts(more(
        diagnoses.len(),
        MAX_SENTENCES,
        ["unusual mount", "unusual mounts"],
        &commands.text(&Command::Mounts),
    )));
    blocks
}

fn method_blocks(compared: &ComparedMethods, commands: &Commands) -> Vec<Block> {
    let methods = &compared.comparison.methods;
    let rows: Vec<Dots> = methods.iter().filter_map(method_dots).collect();
    let title = "Elapsed time of each method of finding mounts";
    let mut blocks = vec![Block::Command(commands.text(&Command::CompareMethods))];
    blocks.extend(plot(
        dots(title, &rows),
        "Logarithmic scale. Dot: the median of the runs. Line: from the shortest to the longest run.",
    ));
    let caption = "Methods of finding mounts: medians";
    let mut inner = vec![table(caption, &methods_table(methods))];
    let left_out = missing::left_out(compared).into_iter();
    inner.extend(texts(
        left_out.map(|left| format!("{} skipped: {}.", left.by, left.why)),
    ));
    blocks.push(Block::Details("Table of the methods".to_owned(), inner));
    blocks
}

/// Number of mounts of each file system type, in descending order.
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

fn tree(rows: &[Point], caption: &str) -> Tree {
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
    let branch = |branch: tree::Branch| {
        let row = &rows[branch.at];
        Branch {
            limb: branch.limb,
            target: printable(&row.target).into_owned(),
            cells: shown().map(|(_, _, cell)| cell(row)).collect(),
            class: tone(row).class(),
        }
    };
    Tree {
        caption: caption.to_owned(),
        heads: std::iter::once("TARGET")
            .chain(shown().map(|(_, head, _)| *head))
            .collect(),
        rows: tree::tree(rows)
            .into_iter()
            .take(MAX_ROWS)
            .map(branch)
            .collect(),
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

fn method_dots(method: &MethodRuns) -> Option<Dots> {
    let stats = Stats::from_runs(&method.runs, |t| t.real)?;
    let text = format!(
        "{}, {} calls",
        duration(stats.median),
        count(method.profile.calls())
    );
    Some(Dots {
        label: method.method.name().to_owned(),
        text,
        dots: vec![Dot {
            seconds: stats.median,
            range: (stats.min, stats.max),
            filled: true,
        }],
    })
}
