//! The beginning and the end of each command's help: examples, further text, exit statuses.

use show::table::wrap;

/// The exit statuses of commands that run no other program.
pub(crate) const EXIT: &str = "\
Exit status:
  0  done
  1  done, but something was skipped or found wrong; each is named in a warning
  2  not done, or the command line was wrong";

/// The exit statuses of commands that run a different program, such as `account`.
pub(crate) const EXIT_OF_COMMAND: &str = "\
Exit status:
  that of the command (128+N if signal N ended it); otherwise:
  2    no report, or a wrong command line
  126  the command cannot be executed
  127  the command was not found";

/// Help text of commands that run a different program: where the report is written.
pub(crate) const REPORT: &str = "\
The report is written when the command has ended: to standard error, or with --json to standard output, after the output of the \
command. -o writes it to a file instead.";

const WIDTH: usize = 80;
/// Maximum length of an example command whose purpose is on the same line.
const EXAMPLE: usize = 44;

/// The end of `--help`: the examples, `more` (which clap wraps), and the exit statuses. Each line
/// of `examples` is a command, `  # ` and the purpose of the command. The purpose is printed beside
/// the command, or below a long command.
pub(crate) fn ending(examples: &str, more: &str, exit: &str) -> String {
    let text = format!("Examples:\n{}", side_by_side(&parts(examples)));
    match more {
        "" => format!("{text}\n{exit}"),
        more => format!("{text}\n{more}\n\n{exit}"),
    }
}

/// The first two examples, for the beginning of `-h`.
pub(crate) fn first(examples: &str) -> String {
    let examples = parts(examples);
    let text = side_by_side(&examples[..examples.len().min(2)]);
    text.trim_end().to_owned()
}

/// Splits the lines of examples into command and purpose.
fn parts(examples: &str) -> Vec<(&str, &str)> {
    let lines = examples.lines();
    lines.filter_map(|line| line.split_once("  # ")).collect()
}

/// Formats examples in two columns: commands and purposes.
fn side_by_side(examples: &[(&str, &str)]) -> String {
    let lengths = examples.iter().map(|(command, _)| command.len());
    let column = lengths.filter(|len| *len <= EXAMPLE).max().unwrap_or(0) + 4;
    let new_line = format!("\n{:column$}", "");
    let mut text = String::new();
    for (command, purpose) in examples {
        let purpose = wrap(purpose, WIDTH - column).replace('\n', &new_line);
        let gap = match command.len() <= EXAMPLE {
            true => " ".repeat(column - 2 - command.len()),
            false => new_line.clone(),
        };
        text += &format!("  {command}{gap}{purpose}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_purpose_of_an_example_is_beside_it_or_below() {
        let long = "fathom walk /a/rather/long/name/of/a/directory";
        let examples = format!("fathom walk  # this\n{long}  # that");
        let text = ending(&examples, "", "Exit status: 0");
        let shown = format!(
            "Examples:\n  fathom walk  this\n  {long}\n               that\n\nExit status: 0"
        );
        assert_eq!(text, shown);
        let examples = format!("fathom  # {}", "word ".repeat(30));
        let text = ending(&examples, "And more.", "Exit status: 0");
        assert!(
            text.lines().all(|line| line.len() <= WIDTH)
                && text.contains("\n\nAnd more.\n\nExit status"),
            "{text}"
        );
    }
}
