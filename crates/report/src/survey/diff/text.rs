//! The changes, for people.

use serde_json::Value;

use super::{Change, Diff, Verdict};
use show::name::printable;
use show::table::{Align, Look, Table, Tone};
use show::units::{size, time};

impl Change {
    /// What it is about.
    pub(super) fn subject(&self) -> String {
        let path = self
            .path
            .as_deref()
            .map_or(String::new(), |path| format!("{}: ", printable(path)));
        format!("{path}{}", printable(self.what.as_bytes()))
    }

    /// In a line, for a warning.
    pub fn to_line(&self) -> String {
        let ratio = self.ratio.map_or(String::new(), |ratio| {
            format!(" ({ratio:.2} times as much)")
        });
        let [old, new] = [&self.old, &self.new].map(|value| shown(value, self.unit));
        format!(
            "{}: {}: was {old}, is {new}{ratio}",
            self.section,
            self.subject()
        )
    }
}

/// A value for people.
fn shown(value: &Value, unit: &str) -> String {
    match (value, unit) {
        (Value::Null, _) => "-".to_owned(),
        (Value::String(word), _) => printable(word.as_bytes()).into_owned(),
        (Value::Number(n), "s") => n.as_f64().map_or_else(|| n.to_string(), time),
        (Value::Number(n), "ns") => n
            .as_f64()
            .map_or_else(|| n.to_string(), |ns| format!("{ns:.0} ns")),
        (Value::Number(n), "bytes") => n.as_u64().map_or_else(|| n.to_string(), size),
        (Value::Number(n), "calls") => n.as_f64().map_or_else(
            || n.to_string(),
            |n| {
                if n.fract() == 0.0 {
                    format!("{n:.0}")
                } else {
                    format!("{n:.3}")
                }
            },
        ),
        (other, _) => printable(other.to_string().as_bytes()).into_owned(),
    }
}

impl Diff {
    /// For people; with `all`, also what is within the noise.
    pub fn to_text(&self, look: Look, all: bool) -> String {
        use Align::{Left, Right};
        let kinds = [
            (Verdict::Worse, "Worse", Tone::Bad),
            (Verdict::Better, "Better", Tone::Plain),
            (Verdict::Other, "Otherwise than it was", Tone::Plain),
            (Verdict::Noise, "Within the noise of its trials", Tone::Dim),
        ];
        let mut text = String::new();
        for (verdict, head, tone) in kinds {
            let count = self.of(verdict).count();
            if count == 0 || verdict == Verdict::Noise && !all {
                continue;
            }
            text.push_str(&look.heading(head));
            let columns = [
                ("SECTION", Left),
                ("OLD", Right),
                ("NEW", Right),
                ("RATIO", Right),
                ("WHAT", Left),
            ];
            let mut table = Table::new(&columns, count);
            for change in self.of(verdict) {
                let [old, new] = [&change.old, &change.new].map(|value| shown(value, change.unit));
                let ratio = change
                    .ratio
                    .map_or(String::new(), |ratio| format!("{ratio:.2}"));
                table.row(
                    [change.section, &old, &new, &ratio, &change.subject()],
                    tone,
                );
            }
            text.push_str(&table.to_text(look.width, look.color));
            text.push('\n');
        }
        let noise = self.of(Verdict::Noise).count() as u64;
        let told = self.changes.len() as u64 - noise;
        let noise = match noise {
            0 => String::new(),
            1 => "; one differs by no more than its trials do".to_owned(),
            n => format!("; {n} differ by no more than their trials do"),
        };
        text.push_str(&look.wrapped(&format!(
            "Of {} figures and facts {told} have changed{noise}.",
            self.compared
        )));
        for one in &self.uncompared {
            text.push_str(&look.wrapped(&format!(
                "Not compared: {}: {}.",
                one.section,
                printable(one.why.as_bytes())
            )));
        }
        text
    }
}
