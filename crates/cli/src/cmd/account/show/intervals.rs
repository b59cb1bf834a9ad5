//! Status lines of `--interval`, in the style of vmstat.

use std::io::Write;

use account::intervals::IntervalRow;
use show::name::printable;
use show::units::{count, duration};

use crate::out::seconds;

/// Prints a line per interval to stderr. The column headings are repeated every 20 lines, as by
/// vmstat.
#[derive(Default)]
pub(in crate::cmd::account) struct IntervalLines {
    lines: u32,
}

impl IntervalLines {
    pub(in crate::cmd::account) fn show(&mut self, row: &IntervalRow) {
        const HEADING: &str =
            "     CALLS     ERRORS     TIME SYSTEM CALL      PROGRAM          DIRECTORY\n";
        const EVERY: u32 = 20;
        let heading = if self.lines.is_multiple_of(EVERY) {
            HEADING
        } else {
            ""
        };
        self.lines = self.lines.wrapping_add(1);
        // Ignore write errors: the command is metered even if nobody reads stderr.
        let _ = std::io::stderr().write_all(format!("{heading}{}\n", line(row)).as_bytes());
    }
}

fn line(row: &IntervalRow) -> String {
    let shown = |name: Option<&[u8]>| match name {
        Some(name) if !name.is_empty() => printable(name).into_owned(),
        _ => "-".to_owned(),
    };
    let program = row.program.as_deref();
    let program = program.and_then(|name| name.rsplit(|byte| *byte == b'/').next());
    format!(
        "{:>10} {:>10} {:>8} {:<16} {:<16} {}",
        count(row.calls),
        count(row.errors),
        duration(seconds(row.nanos)),
        row.call.unwrap_or("-"),
        shown(program),
        shown(row.directory.as_deref()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_what_took_most_of_the_time() {
        let row = IntervalRow {
            calls: 12_345,
            errors: 7,
            nanos: 1_500_000,
            call: Some("openat"),
            program: Some(b"/usr/bin/a\nb".to_vec()),
            directory: Some(b"/srv".to_vec()),
        };
        assert_eq!(
            line(&row),
            "    12,345          7  1.50 ms openat           a\\nb             /srv"
        );
        assert_eq!(
            line(&IntervalRow::default()),
            "         0          0      0 s -                -                -"
        );
    }
}
