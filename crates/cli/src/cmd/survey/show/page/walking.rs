//! What walking costs, and dumping, and which calls a walk makes.

use super::block::{Block, Plots, plot, table, texts};
use crate::cmd::account::show as account_show;
use crate::cmd::survey::command::{Command, Commands};
use crate::cmd::survey::show::bounded::{about, sentences};
use crate::cmd::survey::show::nightly;
use crate::cmd::survey::survey::Walking;
use crate::cmd::walk::show::{Engine, possible_engines};
use ::survey::bounded::Bounded;
use account::report::AccountReport;
use archive::nightly::Nightly;
use show::figure::{Bar, bars};
use show::name::printable;
use show::table::{Align, Table, Tone};
use show::times::median_ms;
use show::units::size;

pub(crate) fn walking(walk: &Walking, commands: &Commands, plots: &mut Plots) -> Vec<Block> {
    let facts = match &walk.bounded {
        Some(bounded) => bounded_facts(walk, bounded),
        None => facts(walk),
    };
    let why = walk.part.reason.to_string();
    let mut blocks = vec![
        Block::Facts(facts),
        Block::Command(commands.text(&Command::CompareEngines)),
        Block::Text(format!(
            "By {}: {}.",
            walk.part.engine.name(),
            printable(why.as_bytes())
        )),
    ];
    blocks.extend(texts(walk.bounded.iter().flat_map(sentences)));
    blocks.extend(engines(walk, plots));
    blocks.push(Block::List(walk.comparison().notes()));
    if !walk.engines.explained.is_empty() {
        blocks.push(possible_table(walk));
    }
    blocks
}

fn median(engine: &Engine) -> Option<f64> {
    median_ms(&engine.runs, |t| t.real)
}

fn facts(walk: &Walking) -> Vec<(&'static str, String)> {
    let mut facts = vec![("Engine", walk.part.engine.name().to_owned())];
    let engines = &walk.engines.engines;
    let find = |name| engines.iter().find(|engine| engine.engine == name);
    if let Some(engine) = find(walk.part.engine.name())
        && let Some(ms) = median(engine)
    {
        facts.insert(0, ("Entries", engine.entries.to_string()));
        let calls = engine.calls();
        facts.push(("A walk takes", format!("{ms:.2} ms, {calls} calls")));
    }
    if let Some(ms) = find("stat").and_then(median) {
        facts.push(("One call after the other", format!("{ms:.2} ms")));
    }
    facts
}

fn bounded_facts(walk: &Walking, bounded: &Bounded) -> Vec<(&'static str, String)> {
    let entries = bounded.entries.to_string();
    let mut facts = vec![
        ("Entries before it was stopped", entries),
        ("Engine", walk.part.engine.name().to_owned()),
        ("A second", format!("{:.0}", bounded.rate())),
    ];
    let inodes = bounded.inodes.map(|inodes| inodes.to_string());
    facts.extend(inodes.map(|inodes| ("Files of the file system", inodes)));
    let whole = bounded.whole_seconds();
    facts.extend(whole.map(|seconds| ("A walk takes", format!("some {}", about(seconds)))));
    facts
}

fn engines(walk: &Walking, plots: &mut Plots) -> Vec<Block> {
    let bar = |engine: &Engine| {
        let ms = median(engine)?;
        Some(Bar {
            label: engine.engine.to_owned(),
            value: ms,
            text: format!("{ms:.2} ms, {} calls", engine.calls()),
        })
    };
    let rows: Vec<Bar> = walk.engines.engines.iter().filter_map(bar).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let svg = bars(plots.next(), "What each engine takes to walk here", &rows);
    let caption = "Elapsed time, medians: a bar of twice the length has taken twice as long.";
    let table = table(
        "The engines: medians of the runs; x STAT is the share of what one call after the other takes",
        &walk.comparison().table(),
    );
    plot(svg, caption).into_iter().chain([table]).collect()
}

fn possible_table(walk: &Walking) -> Block {
    let columns = [
        ("ENGINE", Align::Left),
        ("POSSIBLE", Align::Left),
        ("WHY", Align::Left),
    ];
    let mut possible = Table::new(&columns, 0);
    for row in possible_engines(&walk.engines.explained) {
        let word = if row.is_possible() { "yes" } else { "no" };
        let why = row.why();
        let why = printable(why.as_bytes());
        possible.row([row.engine.name(), word, &why], Tone::Plain);
    }
    table(
        "Which engines can work here, and why others cannot",
        &possible,
    )
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
    let mut blocks = vec![
        Block::Facts(facts),
        Block::Command(commands.text(&Command::GatherDump)),
    ];
    blocks.extend(texts(nightly::head(dump)));
    blocks.push(table("What a dump would cost", &nightly::table(dump)));
    blocks.push(Block::Text(nightly::foot(dump)));
    blocks
}

pub(crate) fn calls(account: &AccountReport<'_>, commands: &Commands) -> Vec<Block> {
    let mut blocks = vec![Block::Command(commands.text(&Command::Account))];
    blocks.extend(texts(account_show::sentences(account)));
    blocks.push(table(
        "The calls of a walk, by gate",
        &account_show::gates_table(account),
    ));
    if let Some(patterns) = account_show::patterns_table(account) {
        blocks.push(Block::Heading("Redundant patterns".to_owned()));
        blocks.push(table("Redundant patterns among them", &patterns));
    }
    if let Some(what_if) = account_show::what_if_table(account) {
        blocks.push(Block::Heading("What if".to_owned()));
        blocks.push(Block::Text(account_show::model_sentence(account)));
        blocks.push(table("What changes would save", &what_if));
        blocks.push(Block::List(
            account_show::saving_changes(account)
                .map(account_show::explain_change)
                .collect(),
        ));
    }
    blocks
}
