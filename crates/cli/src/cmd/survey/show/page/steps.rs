//! The section about the survey itself: the machine, the steps and their times, and the skipped
//! parts.

use super::block::{Block, MAX_ROWS, MAX_SENTENCES, more, plot, table, texts};
use crate::cmd::survey::command::Commands;
use crate::cmd::survey::show::missing::{text, unseen};
use crate::cmd::survey::show::title::section_title;
use crate::out::json_warnings;
use show::columns;
use show::figure::{Bar, bars};
use show::json::Warning;
use show::name::printable;
use show::table::{RowColour, Table};
use show::units::{duration, size};
use survey::{Missing, Section, StepState, StepTaken, Survey};

pub(crate) fn measured(survey: &Survey<'_>, commands: &Commands) -> Vec<Block> {
    let machine = survey.machine;
    let facts = vec![
        (
            "Kernel",
            format!("Linux {} ({})", machine.kernel, machine.arch),
        ),
        ("Processors", machine.cpus.to_string()),
        ("Memory", machine.memory.map_or("unknown".to_owned(), size)),
        (
            "As root",
            (if machine.root { "yes" } else { "no" }).to_owned(),
        ),
        ("Duration", duration(machine.seconds)),
        ("Read", size(machine.bytes_read)),
        ("Written to temporary files", size(machine.bytes_written)),
    ];
    let mut blocks = vec![Block::Facts(facts)];
    let deep = if machine.deep {
        "Option --deep was given."
    } else {
        "fathom survey --deep measures more."
    };
    blocks.push(Block::Text(format!(
        "Files were only read, except for unnamed temporary files of the experiments. Limits: {:.0} s, {} of disk I/O. {deep}",
        machine.limit_seconds,
        size(machine.limit_bytes)
    )));
    if !survey.found.steps.is_empty() {
        let rows: Vec<Bar> = by_section(&survey.found.steps);
        if rows.len() > 1 {
            let svg = bars("Time of each section", &rows);
            blocks.extend(plot(svg, "Elapsed time."));
        }
        let steps = &survey.found.steps;
        let mut inner = vec![table("Steps, in order", &steps_table(steps))];
        let command = "fathom survey --json";
        inner.extend(texts(more(
            steps.len(),
            MAX_ROWS,
            ["step", "steps"],
            command,
        )));
        blocks.push(Block::Details("Table of the steps".to_owned(), inner));
    }
    let missing = survey.missing();
    if !missing.is_empty() {
        let sentence = |&(section, missing): &(Section, &Missing)| {
            let why = text(missing);
            let (title, _) = section_title(section);
            format!("{title}: {why}. Run: {}", commands.gather(section))
        };
        blocks.push(Block::Heading("Skipped".to_owned()));
        blocks.push(Block::List(missing.iter().map(sentence).collect()));
    }
    if !machine.unseen.is_empty() {
        blocks.push(Block::Heading("What root would add".to_owned()));
        let unseen_list = machine.unseen.iter().map(|one| format!("{}.", unseen(one)));
        blocks.push(Block::List(unseen_list.collect()));
    }
    if !survey.warnings.is_empty() {
        let shown = &survey.warnings[..survey.warnings.len().min(MAX_SENTENCES)];
        let warnings = json_warnings(shown).iter().map(warning).collect();
        blocks.push(Block::Heading("Warnings".to_owned()));
        blocks.push(Block::List(warnings));
        blocks.extend(texts(more(
            survey.warnings.len(),
            MAX_SENTENCES,
            ["warning", "warnings"],
            "fathom survey --json",
        )));
    }
    blocks
}

fn warning(warning: &Warning) -> String {
    let path = warning
        .path
        .as_deref()
        .map_or(String::new(), |path| format!("{}: ", printable(path)));
    let errno = warning
        .errno
        .as_deref()
        .map_or(String::new(), |errno| format!(" ({errno})"));
    format!("{path}{}{errno}", warning.message)
}

/// Bars with the seconds of each section, in the order of their start.
fn by_section(steps: &[StepTaken]) -> Vec<Bar> {
    let mut rows: Vec<Bar> = Vec::new();
    for step in steps {
        let label = section_title(step.section).0;
        match rows.iter_mut().find(|row| row.label == label) {
            Some(row) => row.value += step.seconds,
            None => rows.push(Bar {
                label: label.to_owned(),
                value: step.seconds,
                text: String::new(),
                class: "",
            }),
        }
    }
    rows.iter_mut()
        .for_each(|row| row.text = duration(row.value));
    rows
}

fn steps_table(steps: &[StepTaken]) -> Table {
    let columns = columns![<"STEP", <"FOR", <"STATE", >"SECONDS", >"READ", >"WRITTEN"];
    let mut table = Table::new(&columns, steps.len().min(MAX_ROWS));
    for step in steps.iter().take(MAX_ROWS) {
        let cells = [
            printable(step.name.as_bytes()).into_owned(),
            section_title(step.section).0.to_owned(),
            step.state.name().to_owned(),
            format!("{:.2}", step.seconds),
            size(step.bytes_read),
            size(step.bytes_written),
        ];
        table.row(
            cells,
            if step.state == StepState::Done {
                RowColour::Plain
            } else {
                RowColour::Dim
            },
        );
    }
    table
}
