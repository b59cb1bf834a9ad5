//! What the experiments on a file system have found.

use std::fmt::Write;

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use crate::cmd::probe::show::{bytes, plain};
use ::show::name::{entry, printable};
use ::show::table::{Align, Table, TableStyle, Tone};

/// A value that was found, or that the kernel gives.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    /// A number.
    Number(f64),
    /// Between these two.
    Range(f64, f64),
    /// Several, in order.
    List(Vec<u64>),
    /// A word.
    Word(String),
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let whole = |v: f64| v.fract() == 0.0 && v.abs() < 9e15;
        match self {
            Value::Number(v) if whole(*v) => serializer.serialize_i64(*v as i64),
            Value::Number(v) => serializer.serialize_f64(*v),
            Value::Range(low, high) => {
                let mut both = serializer.serialize_seq(Some(2))?;
                for v in [low, high] {
                    both.serialize_element(&Value::Number(*v))?;
                }
                both.end()
            }
            Value::List(values) => values.serialize(serializer),
            Value::Word(word) => serializer.serialize_str(word),
        }
    }
}

impl Value {
    /// For people: bytes as they are said, `4K`, `13G`.
    pub(crate) fn text(&self, unit: &str) -> String {
        let one = |v: f64| match unit {
            "bytes" => bytes(v),
            _ => plain(v),
        };
        match self {
            Value::Number(v) => one(*v),
            Value::Range(low, high) => format!("{}-{}", one(*low), one(*high)),
            Value::List(values) => values
                .iter()
                .map(|v| one(*v as f64))
                .collect::<Vec<_>>()
                .join(" "),
            Value::Word(word) => word.clone(),
        }
    }
}

/// One thing that was found, or could not be.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Experiment<'a> {
    /// The experiment: `block`.
    pub(crate) experiment: &'static str,
    /// What it is: `allocation-block`.
    pub(crate) name: &'static str,
    /// What was found.
    pub(crate) inferred: Option<Value>,
    /// What it is counted in.
    pub(crate) unit: &'static str,
    /// What the kernel says.
    pub(crate) truth: Option<Value>,
    /// Where it says so.
    pub(crate) truth_source: Option<&'a str>,
    /// Whether the two agree.
    pub(crate) agrees: Option<bool>,
    /// How sure it is, between 0 and 1.
    pub(crate) confidence: f64,
    /// How it was found, or why not.
    pub(crate) method: &'a str,
    /// Whether it rests on times alone.
    pub(crate) by_time: bool,
    /// How long the whole experiment took.
    pub(crate) seconds: f64,
    /// What it read, in bytes.
    pub(crate) bytes_read: u64,
    /// What it wrote, in bytes.
    pub(crate) bytes_written: u64,
    /// How often it was tried.
    pub(crate) trials: u32,
}

/// What a call costs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Price {
    /// The gate, or gates.
    pub(crate) gate: &'static str,
    /// What it is asked.
    pub(crate) what: &'static str,
    /// `warm` when the answer is in memory, `cold` when not.
    pub(crate) state: &'static str,
    /// How many threads do it at once.
    pub(crate) threads: usize,
    /// Nanoseconds for one, on each thread.
    pub(crate) ns: f64,
    /// A quarter is cheaper.
    pub(crate) low: f64,
    /// A quarter is dearer.
    pub(crate) high: f64,
    /// How many were made.
    pub(crate) calls: u64,
}

/// The result of `fathom probe`.
#[derive(Clone, Debug)]
pub(crate) struct Probe<'a> {
    /// The directory; `None` where samples were replayed.
    pub(crate) dir: Option<&'a [u8]>,
    /// Type of its file system.
    pub(crate) fstype: Option<&'a [u8]>,
    /// What was found.
    pub(crate) experiments: Vec<Experiment<'a>>,
    /// What each call costs, if that was asked.
    pub(crate) prices: Option<Vec<Price>>,
}

impl Serialize for Probe<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "dir", self.dir)?;
        entry(&mut map, "fstype", self.fstype)?;
        map.serialize_entry("experiments", &self.experiments)?;
        map.serialize_entry("prices", &self.prices)?;
        map.end()
    }
}

impl Probe<'_> {
    /// For people; with `methods`, how each was found as well.
    pub(crate) fn to_text(&self, style: TableStyle, methods: bool) -> String {
        let mut text = String::new();
        if let Some(dir) = self.dir {
            let fstype = self
                .fstype
                .map_or(String::new(), |fstype| format!(" ({})", printable(fstype)));
            let _ = writeln!(text, "{}{fstype}\n", printable(dir));
        }
        text.push_str(&self.findings(style, methods));
        if let Some(prices) = &self.prices
            && !prices.is_empty()
        {
            text.push('\n');
            text.push_str(&prices_table(prices).to_text(style.width, style.color));
        }
        text
    }

    /// The table of what was found; its first column says a name once, or in each row.
    pub(crate) fn table(&self, each: bool) -> Table {
        use Align::{Left, Right};
        let columns = [
            ("EXPERIMENT", Left),
            ("WHAT", Left),
            ("FOUND", Right),
            ("UNIT", Left),
            ("SURE", Right),
            ("KERNEL SAYS", Right),
            ("AGREES", Left),
            ("BY", Left),
        ];
        let mut table = Table::new(&columns, self.experiments.len());
        let mut last = "";
        for found in &self.experiments {
            let value = |value: &Option<Value>| value.as_ref().map(|value| value.text(found.unit));
            let sure = found.inferred.as_ref().map_or(String::new(), |_| {
                format!("{:.0} %", 100.0 * found.confidence)
            });
            let cells = [
                if found.experiment == last && !each {
                    String::new()
                } else {
                    found.experiment.to_owned()
                },
                found.name.to_owned(),
                value(&found.inferred).unwrap_or_else(|| "cannot tell".to_owned()),
                if found.inferred.is_some() || found.truth.is_some() {
                    found.unit.to_owned()
                } else {
                    String::new()
                },
                sure,
                value(&found.truth).unwrap_or_default(),
                found
                    .agrees
                    .map_or("", |agrees| if agrees { "yes" } else { "no" })
                    .to_owned(),
                (if found.by_time {
                    "time alone"
                } else {
                    "behaviour"
                })
                .to_owned(),
            ];
            let tone = match (found.agrees, &found.inferred) {
                (Some(false), _) => Tone::Bad,
                (_, None) => Tone::Dim,
                _ => Tone::Plain,
            };
            table.row(cells, tone);
            last = found.experiment;
        }
        table
    }

    /// Why nothing was found, where it was not; with `methods`, how everything was.
    pub(crate) fn notes(&self, methods: bool) -> Vec<String> {
        // Why nothing was found is worth a line in any case; one reason often stands for several.
        let told = |found: &&Experiment| methods || found.inferred.is_none();
        let told: Vec<&Experiment> = self.experiments.iter().filter(told).collect();
        let note = |group: &[&Experiment]| {
            let names: Vec<&str> = group.iter().map(|found| found.name).collect();
            let method = group.first().map_or("", |found| found.method);
            let source = group
                .first()
                .and_then(|found| found.truth_source)
                .filter(|_| methods);
            let source = source.map_or(String::new(), |source| format!(" (the kernel: {source})"));
            format!("{}: {method}{source}", names.join(", "))
        };
        told.chunk_by(|a, b| a.method == b.method)
            .map(note)
            .collect()
    }

    fn findings(&self, style: TableStyle, methods: bool) -> String {
        let mut text = self.table(false).to_text(style.width, style.color);
        for note in self.notes(methods) {
            let _ = write!(text, "\n{}", style.wrapped(&note));
        }
        text
    }
}

/// What each call costs, for people.
pub(crate) fn prices_table(prices: &[Price]) -> Table {
    use Align::{Left, Right};
    let columns = [
        ("GATE", Left),
        ("OF", Left),
        ("STATE", Left),
        ("THREADS", Right),
        ("NS EACH", Right),
        ("HALF ARE WITHIN", Right),
        ("CALLS", Right),
    ];
    let mut table = Table::new(&columns, prices.len());
    for price in prices {
        let cells = [
            price.gate.to_owned(),
            price.what.to_owned(),
            price.state.to_owned(),
            price.threads.to_string(),
            plain(price.ns),
            format!("{}-{}", plain(price.low), plain(price.high)),
            price.calls.to_string(),
        ];
        table.row(cells, Tone::Plain);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_for_people_and_for_programs() {
        let said = |value: Value, unit| (value.text(unit), serde_json::to_string(&value).unwrap());
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(said(Value::Number(4096.0), "bytes"), pair("4K", "4096"));
        assert_eq!(
            said(Value::Number(13.0 * 1024.0 * 1024.0 * 1024.0), "bytes"),
            pair("13G", "13958643712")
        );
        assert_eq!(
            said(Value::Range(83.0 * 1048576.0, 84.0 * 1048576.0), "bytes"),
            pair("83M-84M", "[87031808,88080384]")
        );
        assert_eq!(said(Value::Number(24.93), "ns"), pair("24.9", "24.93"));
        assert_eq!(
            said(Value::List(vec![16384, 32768]), "bytes"),
            pair("16K 32K", "[16384,32768]")
        );
        assert_eq!(said(Value::Number(512.0), "bytes"), pair("512", "512"));
    }
}
