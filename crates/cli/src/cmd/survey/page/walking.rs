//! What walking costs, and dumping, and which calls a walk makes.

use super::{Block, Plots, plot, table, texts};
use crate::cmd::survey::commands::Commands;
use report::compare::median_ms;
use report::draw::{Bar, bars};
use report::meter::Account;
use report::nightly::Nightly;
use report::walk;
use show::name::printable;
use show::table::{Align, Table, Tone};
use show::units::size;

pub(crate) fn walking(
    walk: &walk::Section<'_>,
    commands: &Commands,
    plots: &mut Plots,
) -> Vec<Block> {
    let real = |engine: &walk::Engine| median_ms(&engine.runs, |t| t.real);
    let find = |name: &str| {
        walk.compare
            .engines
            .iter()
            .find(|engine| engine.engine == name)
    };
    let chosen = find(walk.part.engine).and_then(|engine| Some((engine, real(engine)?)));
    let mut facts = vec![("Engine", walk.part.engine.to_owned())];
    if let Some(bounded) = walk.bounded {
        facts.insert(
            0,
            ("Entries before it was stopped", bounded.entries.to_string()),
        );
        facts.push(("A second", format!("{:.0}", bounded.rate())));
        facts.extend(
            bounded
                .inodes
                .map(|inodes| ("Files of the file system", inodes.to_string())),
        );
        facts.extend(
            bounded
                .whole_seconds
                .map(|seconds| ("A walk takes", format!("some {}", walk::about(seconds)))),
        );
    } else {
        if let Some((engine, ms)) = chosen {
            facts.insert(0, ("Entries", engine.entries.to_string()));
            facts.push((
                "A walk takes",
                format!("{ms:.2} ms, {} calls", engine.calls()),
            ));
        }
        if let Some(ms) = find("stat").and_then(real) {
            facts.push(("One call after the other", format!("{ms:.2} ms")));
        }
    }
    let mut blocks = vec![Block::Facts(facts), Block::Command(commands.walk.clone())];
    blocks.push(Block::Text(format!(
        "By {}: {}.",
        walk.part.engine,
        printable(walk.part.why.as_bytes())
    )));
    blocks.extend(texts(
        walk.bounded.into_iter().flat_map(walk::Bounded::sentences),
    ));
    let bar = |engine: &walk::Engine| {
        let ms = real(engine)?;
        Some(Bar {
            label: engine.engine.to_owned(),
            value: ms,
            text: format!("{ms:.2} ms, {} calls", engine.calls()),
        })
    };
    let rows: Vec<Bar> = walk.compare.engines.iter().filter_map(bar).collect();
    if !rows.is_empty() {
        let svg = bars(plots.next(), "What each engine takes to walk here", &rows);
        blocks.extend(plot(
            svg,
            "Elapsed time, medians: a bar of twice the length has taken twice as long.",
        ));
        blocks.push(table(
            "The engines: medians of the runs; x STAT is the share of what one call after the other takes",
            &walk.compare.table(),
        ));
    }
    blocks.push(Block::List(walk.compare.notes()));
    let columns = [
        ("ENGINE", Align::Left),
        ("POSSIBLE", Align::Left),
        ("WHY", Align::Left),
    ];
    let mut possible = Table::new(&columns, walk.explain.len());
    for row in walk.explain {
        let word = if row.possible { "yes" } else { "no" };
        possible.row(
            [row.engine, word, &printable(row.why.as_bytes())],
            Tone::Plain,
        );
    }
    if !walk.explain.is_empty() {
        blocks.push(table(
            "Which engines can work here, and why others cannot",
            &possible,
        ));
    }
    blocks
}

pub(crate) fn dumping(dump: &Nightly, commands: &Commands) -> Vec<Block> {
    let facts = vec![
        ("Entries", dump.entries.to_string()),
        ("Everything", size(dump.first.bytes)),
        (
            "Calls when nothing has changed",
            dump.unchanged.calls.to_string(),
        ),
        (
            "CPU time then",
            format!("{:.2} ms", 1000.0 * dump.unchanged.cpu_seconds),
        ),
    ];
    let mut blocks = vec![Block::Facts(facts), Block::Command(commands.dump.clone())];
    blocks.extend(texts(dump.head()));
    blocks.push(table("What a dump would cost", &dump.table()));
    blocks.push(Block::Text(dump.foot()));
    blocks
}

pub(crate) fn calls(account: &Account<'_>, commands: &Commands) -> Vec<Block> {
    let mut blocks = vec![Block::Command(commands.account.clone())];
    blocks.extend(texts(account.sentences()));
    blocks.push(table(
        "The calls of a walk, by gate",
        &account.gates_table(),
    ));
    if let Some(patterns) = account.patterns_table() {
        blocks.push(Block::Heading("Redundant patterns".to_owned()));
        blocks.push(table("Redundant patterns among them", &patterns));
    }
    if let Some(what_if) = account.what_if_table() {
        blocks.push(Block::Heading("What if".to_owned()));
        blocks.push(Block::Text(account.model.sentence()));
        blocks.push(table("What changes would save", &what_if));
        blocks.push(Block::List(
            account
                .changes()
                .into_iter()
                .map(|change| change.said())
                .collect(),
        ));
    }
    blocks
}
