//! How the help of every command ends: examples, what else there is to know, exit statuses.

use show::table::wrap;

/// The exit statuses of a command that does its own work.
pub(crate) const EXIT: &str = exit!();

/// Those of a command that runs another.
pub(crate) const EXIT_OF_COMMAND: &str = "\
Exit status:
  that of the command, or 128 and the number of the signal that ended it; else
  2    not done, or the command line was wrong
  126  the command cannot be run
  127  there is no such command";

/// Where the report of a command that runs another goes.
pub(crate) const REPORT: &str = "\
The report goes to standard error when the command has ended, or to the file of -o; with --json it goes to standard output, behind \
what the command has written there, or to the file of -o.";

/// Columns that every terminal has.
const WIDTH: usize = 80;
/// Columns that an example may take beside what it is for.
const EXAMPLE: usize = 44;

/// The end of `--help`: examples, each with what it is for beside it, or below where there is no
/// room; then `more`, whose lines clap breaks; then the exit statuses.
pub(crate) fn ending(examples: &[(&str, &str)], more: &str, exit: &str) -> String {
    let fitting = examples
        .iter()
        .map(|(line, _)| line.len())
        .filter(|length| *length <= EXAMPLE);
    let column = fitting.max().unwrap_or(0) + 4;
    let mut text = String::from("Examples:\n");
    for (line, what) in examples {
        let what = wrap(what, WIDTH - column).replace('\n', &format!("\n{:column$}", ""));
        let gap = if line.len() <= EXAMPLE {
            " ".repeat(column - 2 - line.len())
        } else {
            format!("\n{:column$}", "")
        };
        text.push_str(&format!("  {line}{gap}{what}\n"));
    }
    if !more.is_empty() {
        text.push_str(&format!("\n{more}\n"));
    }
    format!("{text}\n{exit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_example_is_for_stands_beside_it_or_below() {
        let long = "fathom walk /a/rather/long/name/of/a/directory";
        let text = ending(
            &[("fathom walk", "this"), (long, "that")],
            "",
            "Exit status: 0",
        );
        let shown = format!(
            "Examples:\n  fathom walk  this\n  {long}\n               that\n\nExit status: 0"
        );
        assert_eq!(text, shown);
        let text = ending(
            &[("fathom", &"word ".repeat(30))],
            "And more.",
            "Exit status: 0",
        );
        assert!(
            text.lines().all(|line| line.len() <= WIDTH)
                && text.contains("\n\nAnd more.\n\nExit status"),
            "{text}"
        );
    }
}
