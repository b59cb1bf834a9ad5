//! The section of the survey: what a nightly dump of a directory would cost.

use serde::Serialize;

use show::name::printable;
use show::table::{Align, Table, TableStyle, Tone};
use show::units::{plural, size};

/// What is expected of one dump.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Expected {
    /// Files that would be read.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Calls, those to read and to write the bytes left out.
    pub calls: u64,
    /// CPU seconds of those calls and of the gathering.
    pub cpu_seconds: f64,
}

/// What gathering costs, and what would follow from it.
#[derive(Clone, Debug, Serialize)]
pub struct Nightly {
    /// How it is gathered.
    pub gather: &'static str,
    /// By which engine.
    pub engine: &'static str,
    /// Why so.
    pub why: String,
    /// Entries that were found.
    pub entries: u64,
    /// Of them, plain files; one with several names once.
    pub files: u64,
    /// Their sizes together.
    pub bytes: u64,
    /// What gathering took.
    pub seconds: f64,
    /// Of that, CPU.
    pub cpu_seconds: f64,
    /// Its calls.
    pub calls: u64,
    /// What a call for a file costs here, in seconds.
    pub call_seconds: f64,
    /// The first dump.
    pub first: Expected,
    /// An increment when nothing has changed.
    pub unchanged: Expected,
    /// An increment when one file in a hundred has.
    pub changed: Expected,
}

impl Nightly {
    /// How many calls a file that is dumped takes beyond gathering: open, read, statx, close.
    const CALLS: u64 = 4;

    /// Works out what is expected from what was measured.
    pub fn expect(mut self) -> Nightly {
        let share =
            |of: u64, percent: u64| (u128::from(of) * u128::from(percent)).div_ceil(100) as u64;
        let dump = |percent: u64| {
            let files = share(self.files, percent);
            let more = files.saturating_mul(Nightly::CALLS);
            Expected {
                files,
                bytes: share(self.bytes, percent),
                calls: self.calls.saturating_add(more),
                cpu_seconds: self.cpu_seconds + more as f64 * self.call_seconds,
            }
        };
        (self.first, self.unchanged, self.changed) = (dump(100), dump(0), dump(1));
        self
    }

    /// What was measured: sentences.
    pub fn head(&self) -> [String; 2] {
        [
            format!(
                "Gathered by {} ({}): {}.",
                self.gather,
                self.engine,
                printable(self.why.as_bytes())
            ),
            format!(
                "{} in {:.2} ms, {:.2} ms of CPU time and {} calls ({:.3} an entry).",
                plural(self.entries, "entry", "entries"),
                1000.0 * self.seconds,
                1000.0 * self.cpu_seconds,
                self.calls,
                self.calls as f64 / self.entries.max(1) as f64
            ),
        ]
    }

    /// What would follow from it.
    pub fn table(&self) -> Table {
        use Align::{Left, Right};
        let columns = [
            ("DUMP", Left),
            ("FILES", Right),
            ("TO READ", Right),
            ("CALLS", Right),
            ("CPU ms", Right),
        ];
        let mut table = Table::new(&columns, 3);
        let rows = [
            ("the first", self.first),
            ("nothing changed", self.unchanged),
            ("1 % changed", self.changed),
        ];
        for (what, expected) in rows {
            let cells = [
                what.to_owned(),
                expected.files.to_string(),
                size(expected.bytes),
                expected.calls.to_string(),
                format!("{:.2}", 1000.0 * expected.cpu_seconds),
            ];
            table.row(cells, Tone::Plain);
        }
        table
    }

    /// What that rests on.
    pub fn foot(&self) -> String {
        format!(
            "Nothing was read but metadata. Estimated are {} calls for each file, {:.2} µs each; reading and writing the bytes \
             comes on top. Where the file system can tell that nothing was written to it since, an increment does not even gather.",
            Nightly::CALLS,
            1e6 * self.call_seconds
        )
    }

    /// For people.
    pub fn to_text(&self, style: TableStyle) -> String {
        let head: String = self.head().iter().map(|line| style.wrapped(line)).collect();
        format!(
            "{head}\n{}{}",
            self.table().to_text(style.width, style.color),
            style.wrapped(&self.foot())
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_expected_follows_from_what_was_measured() {
        let none = Expected {
            files: 0,
            bytes: 0,
            calls: 0,
            cpu_seconds: 0.0,
        };
        let nightly = Nightly {
            gather: "combined",
            engine: "threads",
            why: "so".to_owned(),
            entries: 1100,
            files: 1000,
            bytes: 2_000_000,
            seconds: 0.002,
            cpu_seconds: 0.001,
            calls: 1400,
            call_seconds: 1e-6,
            first: none,
            unchanged: none,
            changed: none,
        };
        let nightly = nightly.expect();
        assert_eq!(
            (
                nightly.first.files,
                nightly.first.bytes,
                nightly.first.calls
            ),
            (1000, 2_000_000, 5400)
        );
        assert_eq!(
            (
                nightly.unchanged.files,
                nightly.unchanged.bytes,
                nightly.unchanged.calls
            ),
            (0, 0, 1400)
        );
        assert_eq!(
            (
                nightly.changed.files,
                nightly.changed.bytes,
                nightly.changed.calls
            ),
            (10, 20_000, 1440)
        );
        assert!((nightly.first.cpu_seconds - 0.005).abs() < 1e-9);
        let text = nightly.to_text(TableStyle::default());
        assert!(
            text.contains("1 % changed        10   19.5K  1440   1.04\n"),
            "{text}"
        );
    }
}
