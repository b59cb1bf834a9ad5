//! The section about the cost of program starts.

use super::block::{Block, more, table, texts};
use crate::cmd::pathsearch::show::fix_sentence;
use crate::cmd::survey::command::Commands;
use crate::cmd::survey::show::startup::{foot, path_table, started_table, useless_elements};
use crate::out::seconds;
use pathsearch::{ProgramStart, StartupReport};
use show::columns;
use show::name::printable;
use show::table::Table;
use show::units::{count, duration};
use survey::Command;
use survey::conclude::useful_fixes;

/// Maximum number of directories listed for a program.
const MAX_TRIED: usize = 20;

pub(crate) fn starting(startup: &StartupReport, commands: &Commands) -> Vec<Block> {
    let [missing, duplicate] = useless_elements(startup);
    let mut facts = vec![
        ("Directories in PATH", startup.path.len().to_string()),
        ("Missing", missing.to_string()),
        ("Duplicate", duplicate.to_string()),
    ];
    for one in &startup.started {
        let [misses, lookups] = [one.totals.misses, one.totals.lookups].map(count);
        let time = duration(one.seconds);
        let fact = format!("{time}; {misses} of {lookups} lookups failed");
        facts.push((one.command, fact));
    }
    let mut blocks = vec![
        Block::Facts(facts),
        Block::Command(commands.text(&Command::Start)),
    ];
    if !startup.path.is_empty() {
        let by = startup
            .started
            .first()
            .map_or(String::new(), |one| format!("; lookups of {}", one.command));
        blocks.push(table(
            &format!("Directories of PATH{by}"),
            &path_table(startup),
        ));
    }
    if !startup.started.is_empty() {
        blocks.push(table("Cost of starting programs", &started_table(startup)));
        blocks.push(Block::Text(foot(startup)));
    }
    for one in &startup.started {
        blocks.extend(searched(one, commands));
        let fixes = useful_fixes(startup, one).into_iter();
        let fixes: Vec<String> = fixes.map(fix_sentence).collect();
        if !fixes.is_empty() {
            blocks.push(Block::Heading(format!("Changes that help {}", one.command)));
            blocks.push(Block::List(fixes));
        }
    }
    blocks
}

/// The directories in which a program's lookups fail, in descending order of failed lookups.
fn searched(one: &ProgramStart, commands: &Commands) -> Vec<Block> {
    let directories = one.directories.iter();
    let mut searched: Vec<_> = directories
        .map(|searched| (searched, searched.lookups.counts.total()))
        .filter(|(_, count)| count.misses > 0)
        .collect();
    searched.sort_by_key(|(_, count)| std::cmp::Reverse(count.misses));
    if searched.is_empty() {
        return Vec::new();
    }
    let columns = columns![<"DIRECTORY", <"KIND", >"FAILED", >"FOUND", >"FAILED TIME"];
    let rows = searched.iter().take(MAX_TRIED);
    let rows = rows.map(|(searched, total)| {
        let kinds = searched.lookups.counts.iter();
        let kinds: Vec<&str> = kinds.map(|(kind, _)| kind.name()).collect();
        [
            printable(&searched.dir).into_owned(),
            kinds.join(", "),
            count(total.misses),
            count(total.hits),
            duration(seconds(searched.lookups.nanos)),
        ]
    });
    let caption = format!("Directories with failed lookups of {}", one.command);
    let mut blocks = vec![
        Block::Heading(format!("Failed lookups of {}", one.command)),
        table(&caption, &Table::from_rows(&columns, rows)),
    ];
    blocks.extend(texts(more(
        searched.len(),
        MAX_TRIED,
        ["directory", "directories"],
        &commands.text(&Command::StartInDetail(one.command)),
    )));
    blocks
}
