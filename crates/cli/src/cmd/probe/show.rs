//! The output of `fathom probe`.

use std::fmt::Write;

use ::show::name::printable;
use ::show::table::{RowColour, Table, TableStyle};
use ::show::units::{count, duration, size};
use ::show::{columns, json_object};
use account::figures::Figure;
use base::{Warning, WarningReason};
use gate::{Errno, Gate};
use probe::finding::Note;
use probe::{Call, Error, Finding, MeasuredFinding, Price, ProbeReport, Quantity, Unit, Value};
use serde::{Serialize, Serializer};

use crate::json::Json;

pub(crate) mod brief;
pub(crate) mod methods;
pub(crate) mod plots;

pub(crate) use methods::{hinted, method, source};

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Report<'a> {
    /// The probed directory; `None` if samples were replayed from a file.
    pub(crate) dir: Option<&'a [u8]>,
    pub(crate) report: &'a ProbeReport,
}

json_object!(Report<'_>, |it| {
    name "dir": it.dir,
    name "fstype": it.report.fstype.as_deref(),
    "experiments": Json(&it.report.measured[..]),
    "prices": it.report.prices.as_deref().map(Json),
});

json_object!(Json<'_, MeasuredFinding>, |measured| {
    "experiment": measured.finding.quantity.experiment().name(),
    "name": measured.finding.quantity.name(),
    "inferred": measured.finding.value().map(Json),
    "unit": measured.finding.quantity.unit().name(),
    "truth": measured.finding.truth.as_ref().map(|truth| Json(&truth.value)),
    "truth_source": measured.finding.truth.as_ref().map(|truth| source(&truth.source)),
    "agrees": measured.finding.agrees,
    "confidence": measured.finding.confidence(),
    "method": method(&measured.finding),
    "by_time": measured.finding.by_time,
    "seconds": measured.seconds,
    "bytes_read": measured.io_bytes.read,
    "bytes_written": measured.io_bytes.written,
    "trials": measured.finding.trials,
});

json_object!(Json<'_, Price>, |price| {
    "gate": price.call.name(),
    "what": price.call.target(),
    "state": state(price),
    "threads": price.threads,
    "ns": price.ns,
    "low": price.low,
    "high": price.high,
    "calls": price.calls,
});

/// The findings as figures for `fathom compare`; `place` is added to their names.
pub(crate) fn figures_of_findings(report: &ProbeReport, place: &str) -> Vec<Figure> {
    let findings = report.measured.iter().map(|measured| &measured.finding);
    findings
        .filter_map(|it| figure_of_finding(it, place))
        .collect()
}

/// Call prices as figures for `fathom compare`. The spread of calls that wait for a disk is
/// unknown, because other programs delay all calls of a batch.
pub(crate) fn figures_of_prices(report: &ProbeReport) -> Vec<Figure> {
    let prices = report.prices.iter().flatten().map(|price| {
        let threads = match price.threads {
            0 | 1 => String::new(),
            threads => format!(", {threads} threads"),
        };
        let (call, target, state) = (price.call.name(), price.call.target(), state(price));
        let name = format!("{call} ({target}), {state}{threads}");
        let figure = Figure::single(name, price.ns / 1e9, "s");
        match price.warm && call != "fsync" {
            true => figure.with_spread((price.high - price.low) / 1e9),
            false => figure,
        }
    });
    prices.collect()
}

/// The figure of a finding that is a number or a range. A property observed directly in nearly all
/// trials has spread 0; the spread of a property inferred from times is unknown.
fn figure_of_finding(finding: &Finding, place: &str) -> Option<Figure> {
    const SURE: f64 = 0.9;
    let (value, range) = match finding.value()? {
        Value::Number(value) => (*value, 0.0),
        Value::Range(low, high) => (f64::midpoint(*low, *high), high - low),
        Value::List(_) | Value::Clock(_) | Value::Holds(_) => return None,
    };
    let (unit, scale) = match finding.quantity.unit() {
        Unit::Nanoseconds => ("s", 1e-9),
        unit => (unit.name(), 1.0),
    };
    let name = format!("{}{place}", finding.quantity.name());
    let figure = Figure::single(name, value * scale, unit);
    Some(match !finding.by_time && finding.confidence() >= SURE {
        true => figure.with_spread(range * scale),
        false => figure,
    })
}

impl Serialize for Json<'_, Value> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_whole = |v: f64| v.fract() == 0.0 && v.abs() < 9e15;
        match self.0 {
            Value::Number(v) if is_whole(*v) => serializer.serialize_i64(*v as i64),
            Value::Number(v) => serializer.serialize_f64(*v),
            Value::Range(low, high) => {
                let ends = [low, high].map(|end| Value::Number(*end));
                Json(&ends[..]).serialize(serializer)
            }
            Value::List(values) => values.serialize(serializer),
            Value::Clock(clock) => serializer.serialize_str(clock.name()),
            Value::Holds(holds) => serializer.serialize_str(yes_or_no(*holds)),
        }
    }
}

fn yes_or_no(holds: bool) -> &'static str {
    if holds { "yes" } else { "no" }
}

pub(crate) fn state(price: &Price) -> &'static str {
    if price.warm { "warm" } else { "cold" }
}

/// A value with its unit: `4 KiB`, `20.3 ns`. A long list is abbreviated to its ends.
pub(crate) fn value_text(value: &Value, unit: Unit) -> String {
    let one = |v: f64| match unit {
        Unit::Bytes => size(v as u64),
        Unit::Nanoseconds => duration(v / 1e9),
        Unit::Hertz => format!("{:.2} GHz", v / 1e9),
        Unit::PartsPerMillion => format!("{} ppm", plain(v)),
        Unit::Share => format!("{:.1} %", 100.0 * v),
        _ => plain(v),
    };
    match value {
        Value::Number(v) => one(*v),
        Value::Range(low, high) => format!("{}-{}", one(*low), one(*high)),
        Value::List(values) => match values[..] {
            [first, _, .., last] => format!("{} ... {}", one(first as f64), one(last as f64)),
            _ => {
                let all: Vec<String> = values.iter().map(|v| one(*v as f64)).collect();
                all.join(", ")
            }
        },
        Value::Clock(clock) => clock.name().to_owned(),
        Value::Holds(holds) => yes_or_no(*holds).to_owned(),
    }
}

/// A number rounded to its significant digits.
pub(crate) fn plain(v: f64) -> String {
    match v.abs() {
        0.0 => "0".to_owned(),
        a if a >= 100.0 || v.fract() == 0.0 => format!("{v:.0}"),
        a if a >= 1.0 => format!("{v:.1}"),
        _ => format!("{v:.3}"),
    }
}

/// The directory, and the type of its file system.
fn heading(report: Report<'_>) -> String {
    report.dir.map_or(String::new(), |dir| {
        let fstype = report.report.fstype.as_deref();
        let fstype = fstype.map_or(String::new(), |fstype| format!(" ({})", printable(fstype)));
        format!("{}{fstype}\n\n", printable(dir))
    })
}

/// Table cells: the measured value, the kernel's value, and whether they agree.
fn compared(finding: &Finding) -> ([String; 3], RowColour) {
    let text = |value: &Value| value_text(value, finding.quantity.unit());
    let no_value = match finding.is_none() {
        true => "none",
        false => "unknown",
    };
    let truth = finding.truth.as_ref();
    let cells = [
        finding.value().map_or(no_value.to_owned(), text),
        truth.map_or(String::new(), |truth| text(&truth.value)),
        finding.agrees.map_or("", yes_or_no).to_owned(),
    ];
    let tone = match (finding.agrees, finding.value()) {
        (Some(false), _) => RowColour::Bad,
        (_, None) => RowColour::Dim,
        _ => RowColour::Plain,
    };
    (cells, tone)
}

impl Report<'_> {
    /// The report as text; with `methods`, including how each value was measured.
    pub(crate) fn to_text(self, style: TableStyle, methods: bool) -> String {
        let mut text = heading(self);
        text += &self.table().to_text(style.width, style.color);
        for note in self.limit_of_cache().into_iter().chain(self.notes(methods)) {
            let _ = write!(text, "\n{}", style.wrapped(&note));
        }
        if let Some(prices) = &self.report.prices
            && !prices.is_empty()
        {
            text.push('\n');
            text += &prices_table(prices).to_text(style.width, style.color);
        }
        text
    }

    /// The cgroup whose memory limit the kernel's value of the capacity of the page cache is.
    fn limit_of_cache(&self) -> Option<String> {
        let finding = self.report.find(Quantity::CacheCapacity)?;
        let limit = value_text(&finding.truth.as_ref()?.value, finding.quantity.unit());
        match finding.note? {
            Note::OwnCgroup(available) => Some(format!(
                "The page cache was measured in a cgroup limited to {limit}, made for this; outside, {} are available.",
                size(available)
            )),
            Note::CurrentCgroup { .. } => Some(format!(
                "The page cache was measured in the cgroup of this process, limited to {limit}."
            )),
            _ => None,
        }
    }

    fn findings(&self) -> impl Iterator<Item = &Finding> {
        let measured = self.report.measured.iter();
        measured.map(|measured| &measured.finding)
    }

    pub(crate) fn table(&self) -> Table {
        let columns = columns![
            <"PROPERTY", >"MEASURED", >"KERNEL", <"AGREES", >"CONFIDENCE", <"METHOD"
        ];
        let mut table = Table::new(&columns, self.report.measured.len());
        for finding in self.findings() {
            let ([value, truth, agrees], tone) = compared(finding);
            let confidence = finding.value().map(|_| 100.0 * finding.confidence());
            let confidence = confidence.map(|share| format!("{share:.0} %"));
            let method = match finding.by_time {
                true => "timing",
                false => "observation",
            };
            let name = finding.quantity.name().to_owned();
            let confidence = confidence.unwrap_or_default();
            let cells = [name, value, truth, agrees, confidence, method.to_owned()];
            table.row(cells, tone);
        }
        table
    }

    /// Notes on why properties are unknown; with `methods`, also on how each was measured.
    pub(crate) fn notes(&self, methods: bool) -> Vec<String> {
        let is_noted = |finding: &&Finding| methods || finding.value().is_none();
        let noted = self.findings().filter(is_noted);
        let noted: Vec<_> = noted.map(|finding| (finding, method(finding))).collect();
        let note = |group: &[(&Finding, String)]| {
            let (first, method) = group.first()?;
            let names: Vec<&str> = group.iter().map(|(f, _)| f.quantity.name()).collect();
            let truth = first.truth.as_ref().filter(|_| methods);
            let truth = truth.map_or(String::new(), |truth| {
                format!(" (kernel value: {})", source(&truth.source))
            });
            Some(format!("{}: {method}{truth}", names.join(", ")))
        };
        // Merge consecutive findings with the same reason into one note.
        noted.chunk_by(|a, b| a.1 == b.1).filter_map(note).collect()
    }
}

/// The object of a call, for the table. The JSON and the CSV keep older names, such as "a name that
/// is not there".
fn target(call: Call) -> &'static str {
    match call {
        Call::StatxMissing => "a missing name",
        Call::Llistxattr => "a file without attributes",
        Call::LgetxattrMissing => "a missing attribute",
        call => call.target(),
    }
}

pub(crate) fn prices_table(prices: &[Price]) -> Table {
    let columns = columns![
        <"SYSTEM CALL", <"TARGET", >"MEDIAN", <"CACHE", >"THREADS", >"INTERQUARTILE RANGE",
        >"CALLS"
    ];
    let time = |ns: f64| duration(ns / 1e9);
    let row = |price: &Price| {
        [
            price.call.name().to_owned(),
            target(price.call).to_owned(),
            time(price.ns),
            state(price).to_owned(),
            price.threads.to_string(),
            format!("{} - {}", time(price.low), time(price.high)),
            count(price.calls),
        ]
    };
    Table::from_rows(&columns, prices.iter().map(row))
}

pub(crate) fn prices_csv(prices: &[Price]) -> String {
    let mut text = "gate,what,state,threads,ns,low,high,calls\n".to_owned();
    for price in prices {
        let (gate, what) = (price.call.name(), price.call.target());
        let (state, threads, calls) = (state(price), price.threads, price.calls);
        let [ns, low, high] = [price.ns, price.low, price.high];
        let _ = writeln!(
            text,
            "{gate},\"{what}\",{state},{threads},{ns:.1},{low:.1},{high:.1},{calls}"
        );
    }
    text
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum WarningKind {
    /// An error ended the experiments early.
    #[error("{0}")]
    Stopped(Error),
    /// A failed system call prevented findings of these experiments.
    #[error("{}: {why}", experiments.join(", "))]
    Prevented {
        experiments: Vec<&'static str>,
        why: Error,
    },
    /// A limit prevented all findings.
    #[error("nothing was measured: {0}")]
    NothingMeasured(Error),
    /// A finding contradicts the kernel's report.
    #[error(
        "{}: {} differs from what the kernel reports: {}",
        .0.quantity.experiment().name(), .0.quantity.name(), method(.0)
    )]
    Contradicted(Finding),
}

impl WarningReason for WarningKind {
    fn includes_errno(&self) -> bool {
        true
    }
}

/// The warnings about a report: failed system calls, contradictions to the kernel, and a file
/// system that no longer answers.
pub(crate) fn warnings(dir: &[u8], report: &ProbeReport) -> Vec<Warning> {
    let stopped = report.stopped.iter().cloned().map(WarningKind::Stopped);
    let mut warnings: Vec<Warning> = stopped.map(|why| Warning::about(dir, why)).collect();
    let findings = || report.measured.iter().map(|measured| &measured.finding);
    warnings.extend(prevented(dir, findings()));
    // A finding from times alone can be wrong, and is marked as such: no warning.
    let contradicted = findings().filter(|one| one.agrees == Some(false) && !one.by_time);
    let contradicted = contradicted.cloned().map(WarningKind::Contradicted);
    warnings.extend(contradicted.map(|reason| Warning::about(dir, reason)));
    let is_unknown = |finding: &Finding| finding.value().is_none() && !finding.is_none();
    if warnings.is_empty() && findings().all(is_unknown) {
        let why = findings().find_map(Finding::obstacle).cloned();
        warnings.extend(why.map(|why| Warning::about(dir, WarningKind::NothingMeasured(why))));
    }
    warnings
}

/// One warning for each errno, with the experiments that it prevented and the first call.
fn prevented<'a>(dir: &[u8], findings: impl Iterator<Item = &'a Finding>) -> Vec<Warning> {
    let mut causes: Vec<(Gate, Errno, &Error, Vec<&'static str>)> = Vec::new();
    for finding in findings {
        let Some(((gate, errno), why)) = finding.refusal().zip(finding.obstacle()) else {
            continue;
        };
        let name = finding.quantity.experiment().name();
        match causes.iter_mut().find(|(_, known, ..)| *known == errno) {
            Some((.., names)) if names.contains(&name) => {}
            Some((.., names)) => names.push(name),
            None => causes.push((gate, errno, why, vec![name])),
        }
    }
    let causes = causes.into_iter();
    let warning = |(gate, errno, why, experiments): (Gate, Errno, &Error, Vec<&'static str>)| {
        let why = why.clone();
        let reason = WarningKind::Prevented { experiments, why };
        Warning::failed(dir, gate, errno, reason)
    };
    causes.map(warning).collect()
}

/// The message about a clock that is read by a system call, which takes `ns` nanoseconds.
pub(crate) fn slow_clock(ns: f64) -> String {
    format!(
        "reading the clock takes {} (it enters the kernel); short calls appear longer than they are",
        duration(ns / 1e9)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_for_people_and_for_programs() {
        let check = |value: Value, unit, text: &str, json: &str| {
            assert_eq!(value_text(&value, unit), text);
            assert_eq!(serde_json::to_string(&Json(&value)).unwrap(), json);
        };
        const GIB: f64 = 1024.0 * 1024.0 * 1024.0;
        check(Value::Number(4096.0), Unit::Bytes, "4 KiB", "4096");
        check(
            Value::Number(13.0 * GIB),
            Unit::Bytes,
            "13 GiB",
            "13958643712",
        );
        let range = Value::Range(83.0 * 1048576.0, 84.0 * 1048576.0);
        check(range, Unit::Bytes, "83 MiB-84 MiB", "[87031808,88080384]");
        check(Value::Number(24.93), Unit::Nanoseconds, "25 ns", "24.93");
        let list = Value::List(vec![16384, 32768]);
        check(list, Unit::Bytes, "16 KiB, 32 KiB", "[16384,32768]");
        check(Value::Number(512.0), Unit::Bytes, "512 B", "512");
        check(Value::Holds(true), Unit::Word, "yes", "\"yes\"");
    }
}
