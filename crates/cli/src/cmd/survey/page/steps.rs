//! How all of it was measured: the machine, the steps, and what was left out.

use super::{Block, MOST, MOST_SAID, Plots, Section, more, named, plot, table, texts};
use crate::cmd::survey::survey::{Skipped, StepTaken, Survey};
use report::draw::{Bar, bars};
use show::name::printable;
use show::table::{Align, Table, Tone};
use show::units::size;

pub(crate) fn measured(survey: &Survey<'_>, plots: &mut Plots) -> Section {
    let about = &survey.about;
    let (title, lead) = named("steps");
    let facts = vec![
        ("Kernel", format!("Linux {} ({})", about.kernel, about.arch)),
        ("Processors", about.cpus.to_string()),
        ("Memory", about.memory.map_or("not known".to_owned(), size)),
        (
            "As root",
            (if about.root { "yes" } else { "no" }).to_owned(),
        ),
        ("Took", format!("{:.1} s", about.seconds)),
        ("Read", size(about.bytes_read)),
        ("Written, and taken away again", size(about.bytes_written)),
    ];
    let mut blocks = vec![Block::Facts(facts)];
    let deep = if about.deep {
        "It was asked to go deep."
    } else {
        "fathom survey --deep goes on for longer."
    };
    blocks.push(Block::Text(format!(
        "Files were only read, but for those without a name that the experiments made and took away. It was given \
         {:.0} s and {}. {deep}",
        about.limit_seconds,
        size(about.limit_bytes)
    )));
    if !survey.steps.is_empty() {
        let rows: Vec<Bar> = by_section(&survey.steps);
        if rows.len() > 1 {
            let svg = bars(plots.next(), "Where the time of this survey went", &rows);
            blocks.extend(plot(svg, "Seconds that each section took."));
        }
        blocks.push(table("The steps, in order", &steps_table(&survey.steps)));
        blocks.extend(texts(more(
            survey.steps.len(),
            MOST,
            ["step", "steps"],
            "fathom survey --json",
        )));
    }
    let skipped = survey.skipped();
    if !skipped.is_empty() {
        let left = |(id, skipped): &(&'static str, Skipped<'_>)| {
            format!(
                "{}: {}. {} gives it.",
                named(id).0,
                skipped.why,
                skipped.how
            )
        };
        blocks.push(Block::Heading("What was left out".to_owned()));
        blocks.push(Block::List(skipped.iter().map(left).collect()));
    }
    if !about.lacking.is_empty() {
        blocks.push(Block::Heading(
            "What more privilege would have shown".to_owned(),
        ));
        blocks.push(Block::List(
            about
                .lacking
                .iter()
                .map(|what| format!("{what}."))
                .collect(),
        ));
    }
    if !survey.warnings.is_empty() {
        let said = survey.warnings.iter().take(MOST_SAID).map(|warning| {
            let path = warning
                .path
                .as_deref()
                .map_or(String::new(), |path| format!("{}: ", printable(path)));
            let errno = warning
                .errno
                .as_deref()
                .map_or(String::new(), |errno| format!(" ({errno})"));
            format!("{path}{}{errno}", warning.message)
        });
        blocks.push(Block::Heading("Warnings".to_owned()));
        blocks.push(Block::List(said.collect()));
        blocks.extend(texts(more(
            survey.warnings.len(),
            MOST_SAID,
            ["warning", "warnings"],
            "fathom survey --json",
        )));
    }
    Section {
        id: "steps",
        title,
        lead,
        blocks,
    }
}

/// The seconds of each section, in the order in which they began.
fn by_section(steps: &[StepTaken]) -> Vec<Bar> {
    let mut rows: Vec<Bar> = Vec::new();
    for step in steps {
        let label = named(step.section).0;
        match rows.iter_mut().find(|row| row.label == label) {
            Some(row) => row.value += step.seconds,
            None => rows.push(Bar {
                label: label.to_owned(),
                value: step.seconds,
                text: String::new(),
            }),
        }
    }
    rows.iter_mut()
        .for_each(|row| row.text = format!("{:.2} s", row.value));
    rows
}

fn steps_table(steps: &[StepTaken]) -> Table {
    use Align::{Left, Right};
    let columns = [
        ("STEP", Left),
        ("FOR", Left),
        ("STATE", Left),
        ("SECONDS", Right),
        ("READ", Right),
        ("WRITTEN", Right),
    ];
    let mut table = Table::new(&columns, steps.len().min(MOST));
    for step in steps.iter().take(MOST) {
        let cells = [
            printable(step.name.as_bytes()).into_owned(),
            named(step.section).0.to_owned(),
            step.state.to_owned(),
            format!("{:.2}", step.seconds),
            size(step.bytes_read),
            size(step.bytes_written),
        ];
        table.row(
            cells,
            if step.state == "done" {
                Tone::Plain
            } else {
                Tone::Dim
            },
        );
    }
    table
}
