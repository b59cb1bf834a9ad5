//! What starting programs costs.

use super::{Block, more, table, texts};
use crate::cmd::survey::commands::Commands;
use report::startup::Startup;
use show::name::printable;
use show::table::{Align, Table, Tone};
use show::units::duration;

/// Directories in which a program looks in vain.
const MOST_TRIED: usize = 20;

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
        Block::Command(commands.pathsearch.clone()),
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
        let mut searched: Vec<_> = one
            .directories
            .iter()
            .filter(|row| row.misses > 0)
            .collect();
        searched.sort_by_key(|row| std::cmp::Reverse(row.misses));
        if !searched.is_empty() {
            let columns = [
                ("DIRECTORY", Align::Left),
                ("KIND", Align::Left),
                ("MISSES", Align::Right),
                ("HITS", Align::Right),
                ("TIME", Align::Right),
            ];
            let mut told = Table::new(&columns, searched.len().min(MOST_TRIED));
            for row in searched.iter().take(MOST_TRIED) {
                let kinds: Vec<&str> = row.kinds.iter().map(|count| count.kind).collect();
                let cells = [
                    printable(&row.dir).into_owned(),
                    kinds.join(", "),
                    row.misses.to_string(),
                    row.hits.to_string(),
                    duration(row.seconds),
                ];
                told.row(cells, Tone::Plain);
            }
            blocks.push(Block::Heading(format!(
                "Where {} looks in vain",
                one.command
            )));
            blocks.push(table(
                &format!("Directories in which {} misses something", one.command),
                &told,
            ));
            blocks.extend(texts(more(
                searched.len(),
                MOST_TRIED,
                ["directory", "directories"],
                &Commands::start(one.command, " -v"),
            )));
        }
        if !one.fixes.is_empty() {
            blocks.push(Block::Heading(format!("What would help {}", one.command)));
            blocks.push(Block::List(
                one.fixes
                    .iter()
                    .map(|fix| fix.sentence(startup.rtt))
                    .collect(),
            ));
        }
    }
    blocks
}
