//! What starting programs costs.

use super::block::{Block, more, table, texts};
use crate::cmd::survey::show::commands::Commands;
use crate::cmd::survey::show::startup::{Started, Startup};
use ::survey::Command;
use show::name::printable;
use show::table::{Align, Table, Tone};
use show::units::duration;

/// So many directories are shown in which a program misses something.
const MAX_TRIED: usize = 20;

pub(crate) fn starting(startup: &Startup<'_>, commands: &Commands) -> Vec<Block> {
    let count = |state: &str| {
        startup
            .path
            .iter()
            .filter(|element| element.state == state)
            .count()
    };
    let mut facts = vec![
        ("Directories in PATH", startup.path.len().to_string()),
        ("Of them not there", count("dead").to_string()),
        ("In it twice", count("again").to_string()),
    ];
    for one in &startup.started {
        let totals = one.totals;
        facts.push((
            one.command,
            format!(
                "{} of {} look-ups miss, {}",
                totals.misses,
                totals.lookups,
                duration(totals.seconds)
            ),
        ));
    }
    let mut blocks = vec![
        Block::Facts(facts),
        Block::Command(commands.text(&Command::Start)),
    ];
    if !startup.path.is_empty() {
        let by = startup.started.first().map_or(String::new(), |one| {
            format!("; hits and misses are those of {}", one.command)
        });
        blocks.push(table(
            &format!("The directories of PATH{by}"),
            &startup.path_table(),
        ));
    }
    if !startup.started.is_empty() {
        blocks.push(table(
            "What starting programs takes",
            &startup.started_table(),
        ));
        blocks.push(Block::Text(startup.foot()));
    }
    for one in &startup.started {
        blocks.extend(searched(one, commands));
        if !one.fixes.is_empty() {
            blocks.push(Block::Heading(format!("What would help {}", one.command)));
            let fixes = one.fixes.iter().map(|fix| fix.sentence(startup.rtt));
            blocks.push(Block::List(fixes.collect()));
        }
    }
    blocks
}

/// The directories in which a program misses something, those with the most misses first.
fn searched(one: &Started, commands: &Commands) -> Vec<Block> {
    let directories = one.directories.iter();
    let mut searched: Vec<_> = directories.filter(|tried| tried.misses > 0).collect();
    searched.sort_by_key(|tried| std::cmp::Reverse(tried.misses));
    if searched.is_empty() {
        return Vec::new();
    }
    let columns = [
        ("DIRECTORY", Align::Left),
        ("KIND", Align::Left),
        ("MISSES", Align::Right),
        ("HITS", Align::Right),
        ("TIME", Align::Right),
    ];
    let mut rows = Table::new(&columns, searched.len().min(MAX_TRIED));
    for tried in searched.iter().take(MAX_TRIED) {
        let kinds: Vec<&str> = tried.kinds.iter().map(|count| count.kind).collect();
        let cells = [
            printable(&tried.dir).into_owned(),
            kinds.join(", "),
            tried.misses.to_string(),
            tried.hits.to_string(),
            duration(tried.seconds),
        ];
        rows.row(cells, Tone::Plain);
    }
    let caption = format!("Directories in which {} misses something", one.command);
    let mut blocks = vec![
        Block::Heading(format!("Where {} looks in vain", one.command)),
        table(&caption, &rows),
    ];
    blocks.extend(texts(more(
        searched.len(),
        MAX_TRIED,
        ["directory", "directories"],
        &commands.text(&Command::StartInDetail(one.command)),
    )));
    blocks
}
