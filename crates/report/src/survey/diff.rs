//! What has changed from one survey to another: a report on an upgrade of the kernel, or of the storage.
//!
//! It is made of the two JSON documents, which may be of different versions, and of anybody's making: what one of them lacks is not
//! compared, and nothing in them is believed to be of a certain form.
//!
//! **Times** are compared where each survey has several trials of the same thing. They count as changed only if all those of one
//! survey lie outside of all those of the other (for prices of calls: the middle half of each), and the middle ones are a tenth
//! apart as well; a time of a tree is taken for each entry of it. **Counts** have no noise, and count as changed when they are; but
//! if the tree has other entries than before, calls for each entry must be a hundredth apart.

use std::collections::{HashMap, HashSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::mounts::{Look, size};
use crate::name::{entry, printable};
use crate::pathsearch::time;
use crate::table::{Align, Table, Tone, wrap};

/// What surveys say that they are.
const SCHEMA: &str = "fathom.survey/1";
/// How far apart the middle ones of two times must be.
const APART: f64 = 1.1;
/// The same of calls for each entry, where the tree has others than before.
const CALLS_APART: f64 = 1.01;

/// What a change means.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// It costs more, or is gone, or no longer does what it did.
    Worse,
    /// It costs less, or does what it did not.
    Better,
    /// It is otherwise than it was.
    Other,
    /// A time that differs by no more than its trials do.
    Noise,
}

impl Verdict {
    /// Its name in tables and in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Worse => "worse",
            Verdict::Better => "better",
            Verdict::Other => "other",
            Verdict::Noise => "noise",
        }
    }
}

/// Something that has changed.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// The section of the survey.
    pub section: &'static str,
    /// What it is about, if that has a name: a mount, a directory.
    pub path: Option<Vec<u8>>,
    /// What has changed.
    pub what: String,
    /// What it was; null for nothing.
    pub old: Value,
    /// What it is.
    pub new: Value,
    /// What it is counted in: `s`, `ns`, `bytes`, `calls`; empty for what is not counted.
    pub unit: &'static str,
    /// How many times as much it is.
    pub ratio: Option<f64>,
    /// What that means.
    pub verdict: Verdict,
}

impl Serialize for Change {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("section", self.section)?;
        entry(&mut map, "path", self.path.as_deref())?;
        map.serialize_entry("what", &self.what)?;
        map.serialize_entry("old", &self.old)?;
        map.serialize_entry("new", &self.new)?;
        map.serialize_entry("unit", self.unit)?;
        map.serialize_entry("ratio", &self.ratio)?;
        map.serialize_entry("verdict", self.verdict.name())?;
        map.end()
    }
}

/// A section that could not be compared.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Uncompared {
    /// Its name in the survey.
    pub section: &'static str,
    /// Why not.
    pub why: String,
}

/// What has changed.
#[derive(Clone, Debug)]
pub struct Diff {
    /// All that has, what got worse first; and at last times that differ by no more than noise.
    pub changes: Vec<Change>,
    /// What could not be compared.
    pub uncompared: Vec<Uncompared>,
    /// Figures and facts that were compared.
    pub compared: u64,
}

impl Serialize for Diff {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for verdict in [Verdict::Worse, Verdict::Better, Verdict::Other, Verdict::Noise] {
            map.serialize_entry(verdict.name(), &self.of(verdict).count())?;
        }
        map.serialize_entry("compared", &self.compared)?;
        map.serialize_entry("changes", &self.changes)?;
        map.serialize_entry("uncompared", &self.uncompared)?;
        map.end()
    }
}

/// Compares two surveys.
///
/// # Errors
/// Which of them, 0 or 1, is no survey, and what it is instead.
pub fn diff(old: &Value, new: &Value) -> Result<Diff, (usize, String)> {
    let both = Both { old: survey(old).map_err(|why| (0, why))?, new: survey(new).map_err(|why| (1, why))? };
    let mut report = Report::default();
    report.machine(both.of("machine"));
    let is_same_tree = name(both.old, "root") == name(both.new, "root");
    if is_same_tree {
        report.mounts(&both);
        report.methods(both.of("mounts").of("compare"));
        report.file_systems(&both);
        report.walk(both.of("walk"));
        report.dump(both.of("dump"));
    } else {
        let why = || "the surveys are of different directories".to_owned();
        for section in ["mounts", "probe", "walk", "dump"] {
            report.uncompared.push(Uncompared { section, why: why() });
        }
        report.note("machine", "the directory surveyed", &both.old["root"], &both.new["root"], Verdict::Other);
    }
    report.prices(both.of("gates"));
    report.startup(both.of("startup"));
    let Report { mut changes, mut uncompared, compared } = report;
    changes.sort_by_key(|change| change.verdict);
    uncompared.dedup();
    Ok(Diff { changes, uncompared, compared })
}

/// The result in a document, if it is one of a survey.
fn survey(document: &Value) -> Result<&Value, String> {
    match (document["schema"].as_str(), &document["result"]) {
        (Some(SCHEMA), result @ Value::Object(_)) => Ok(result),
        (Some(SCHEMA), _) => Err("there is no result in it".to_owned()),
        (Some(other), _) => {
            let other: String = other.chars().take(60).collect();
            Err(format!("it is of '{}', not of {SCHEMA}", printable(other.as_bytes())))
        }
        (None, _) => Err(format!("it names no schema, and {SCHEMA} was expected")),
    }
}

/// The same member of the old survey and of the new one.
#[derive(Clone, Copy)]
struct Both<'a> {
    old: &'a Value,
    new: &'a Value,
}

impl<'a> Both<'a> {
    fn of(self, member: &str) -> Both<'a> {
        Both { old: &self.old[member], new: &self.new[member] }
    }

    /// A number that both have.
    fn numbers(self) -> Option<(f64, f64)> {
        Some((number(self.old)?, number(self.new)?))
    }

    /// Elements of two lists that have the same key; those with a key that has come before are told apart by their order.
    fn paired<K: std::hash::Hash + Eq + Clone>(self, key: impl Fn(&Value) -> Option<K>) -> Paired<'a> {
        let keyed = |list: &'a Value| -> Vec<((K, usize), &'a Value)> {
            let mut seen: HashMap<K, usize> = HashMap::new();
            let rows = list.as_array().map(Vec::as_slice).unwrap_or_default();
            let keyed = rows.iter().filter_map(|row| {
                let key = key(row)?;
                let times = seen.entry(key.clone()).or_default();
                *times += 1;
                Some(((key, *times), row))
            });
            keyed.collect()
        };
        let (old, new) = (keyed(self.old), keyed(self.new));
        let by_key: HashMap<_, _> = new.iter().map(|(key, row)| (key.clone(), *row)).collect();
        let keys: HashSet<_> = old.iter().map(|(key, _)| key.clone()).collect();
        Paired {
            both: old.iter().filter_map(|(key, row)| Some(Both { old: row, new: by_key.get(key)? })).collect(),
            gone: old.iter().filter(|(key, _)| !by_key.contains_key(key)).map(|(_, row)| *row).collect(),
            come: new.iter().filter(|(key, _)| !keys.contains(key)).map(|(_, row)| *row).collect(),
        }
    }
}

struct Paired<'a> {
    both: Vec<Both<'a>>,
    gone: Vec<&'a Value>,
    come: Vec<&'a Value>,
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|v| v.is_finite())
}

/// A name, exactly.
fn name(object: &Value, field: &str) -> Option<Vec<u8>> {
    let exact = object[format!("{field}_b64")].as_str().and_then(|coded| STANDARD.decode(coded).ok());
    exact.or_else(|| object[field].as_str().map(|name| name.as_bytes().to_vec()))
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

/// What one time was, and between which it lay.
#[derive(Clone, Copy)]
struct Spread {
    middle: f64,
    low: f64,
    high: f64,
}

impl Spread {
    fn of(object: &Value, [middle, low, high]: [&str; 3]) -> Option<Spread> {
        let of = |field: &str| number(&object[field]).filter(|v| *v >= 0.0);
        let spread = Spread { middle: of(middle)?, low: of(low)?, high: of(high)? };
        (spread.low <= spread.middle && spread.middle <= spread.high).then_some(spread)
    }

    fn each(self, entries: f64) -> Spread {
        let entries = entries.max(1.0);
        Spread { middle: self.middle / entries, low: self.low / entries, high: self.high / entries }
    }
}

/// Statistics of trials.
const TRIALS: [&str; 3] = ["median", "min", "max"];

#[derive(Default)]
struct Report {
    changes: Vec<Change>,
    uncompared: Vec<Uncompared>,
    compared: u64,
}

impl Report {
    fn change(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// A fact that should be as it was.
    fn note(&mut self, section: &'static str, what: impl Into<String>, old: &Value, new: &Value, verdict: Verdict) {
        self.compared += 1;
        if old != new {
            let (old, new, what) = (old.clone(), new.clone(), what.into());
            self.change(Change { section, path: None, what, old, new, unit: "", ratio: None, verdict });
        }
    }

    /// Whether both have a section; else why not.
    fn has(&mut self, section: &'static str, both: Both<'_>) -> bool {
        let lacks = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        let why = match (lacks(both.old), lacks(both.new)) {
            (false, false) => return true,
            (true, true) => "neither survey has it",
            (true, false) => "the old survey has it not",
            (false, true) => "the new survey has it not",
        };
        self.uncompared.push(Uncompared { section, why: why.to_owned() });
        false
    }

    /// A time: more is worse, beyond the noise of its trials.
    fn timed(&mut self, section: &'static str, what: String, unit: &'static str, old: Spread, new: Spread) {
        self.compared += 1;
        let ratio = if old.middle > 0.0 { new.middle / old.middle } else { 1.0 };
        let verdict = match ratio {
            r if r > APART && new.low > old.high => Verdict::Worse,
            r if r < 1.0 / APART && new.high < old.low => Verdict::Better,
            1.0 => return,
            _ => Verdict::Noise,
        };
        let (old, new) = (old.middle.into(), new.middle.into());
        self.change(Change { section, path: None, what, old, new, unit, ratio: Some(ratio), verdict });
    }

    /// A count of which more is worse.
    fn counted(&mut self, section: &'static str, what: String, unit: &'static str, old: f64, new: f64, apart: f64) {
        self.compared += 1;
        let ratio = (old > 0.0).then(|| new / old);
        if old == new || ratio.is_some_and(|ratio| ratio < apart && ratio > 1.0 / apart) {
            return;
        }
        let verdict = if new > old { Verdict::Worse } else { Verdict::Better };
        self.change(Change { section, path: None, what, old: old.into(), new: new.into(), unit, ratio, verdict });
    }

    fn machine(&mut self, both: Both<'_>) {
        if !self.has("machine", both) {
            return;
        }
        let members = [
            ("host", "the machine's name"),
            ("kernel", "kernel"),
            ("arch", "architecture"),
            ("cpus", "processors"),
            ("memory", "memory"),
            ("root", "surveyed by root"),
            ("deep", "surveyed with --deep"),
            ("version", "version of fathom"),
        ];
        for (member, what) in members {
            let Both { old, new } = both.of(member);
            if old.is_null() || new.is_null() {
                continue;
            }
            let at = self.changes.len();
            self.note("machine", what, old, new, Verdict::Other);
            if let (Some(change), "memory") = (self.changes.get_mut(at), member) {
                change.unit = "bytes";
            }
        }
    }

    fn mounts(&mut self, both: &Both<'_>) {
        let both = both.of("mounts");
        if !self.has("mounts", both) {
            return;
        }
        let Paired { both, gone, come } = both.of("mounts").paired(|row| name(row, "target"));
        let about = |row: &Value, what: &str, old: Value, new: Value, verdict| Change {
            section: "mounts",
            path: name(row, "target"),
            what: what.to_owned(),
            old,
            new,
            unit: "",
            ratio: None,
            verdict,
        };
        let shown = |row: &Value| -> Value { format!("{} ({})", text(row, "source"), text(row, "fstype")).into() };
        self.compared += (both.len() + gone.len() + come.len()) as u64;
        for row in gone {
            self.change(about(row, "the mount", shown(row), Value::Null, Verdict::Worse));
        }
        for row in come {
            self.change(about(row, "the mount", Value::Null, shown(row), Verdict::Other));
        }
        for Both { old, new } in both {
            for field in ["source", "fstype", "fsroot", "kind"] {
                let (then, now) = (&old[field], &new[field]);
                if then != now && !then.is_null() && !now.is_null() {
                    self.change(about(new, field, then.clone(), now.clone(), Verdict::Other));
                }
            }
            if let (Some(then), Some(now)) = (old["hidden"].as_bool(), new["hidden"].as_bool())
                && then != now
            {
                let verdict = if now { Verdict::Worse } else { Verdict::Better };
                self.change(about(new, "hidden", then.into(), now.into(), verdict));
            }
            if let (Some(then), Some(now)) = (old["verdict"].as_str(), new["verdict"].as_str())
                && then != now
            {
                let verdict = if now == "ok" { Verdict::Better } else { Verdict::Worse };
                self.change(about(new, "whether it answers", then.into(), now.into(), verdict));
            }
            if let Some((lost, got)) = options(old, new) {
                let now_read_only = got.contains(&"ro") && lost.contains(&"rw");
                let verdict = if now_read_only { Verdict::Worse } else { Verdict::Other };
                self.change(about(new, "options", lost.join(",").into(), got.join(",").into(), verdict));
            }
        }
    }

    fn methods(&mut self, both: Both<'_>) {
        if !self.has("mounts", both) {
            return;
        }
        let Paired { both: methods, gone, come } =
            both.of("methods").paired(|row| row["by"].as_str().map(str::to_owned));
        for both in methods {
            let by = printable(text(both.old, "by").as_bytes()).into_owned();
            let real = both.of("real");
            if let (Some(old), Some(new)) = (Spread::of(real.old, TRIALS), Spread::of(real.new, TRIALS)) {
                self.timed("mounts", format!("finding them by {by}"), "s", old, new);
            }
            if let (Some((old, new)), Some((then, now))) = (both.of("calls").numbers(), both.of("found").numbers()) {
                // With other mounts there are other directories to be searched.
                if then == now {
                    self.counted("mounts", format!("calls to find them by {by}"), "calls", old, new, CALLS_APART);
                }
            }
        }
        self.ran(both, "mounts", "by", gone, come);
    }

    /// What could be run then and cannot now, and the other way round.
    fn ran(&mut self, both: Both<'_>, section: &'static str, key: &str, gone: Vec<&Value>, come: Vec<&Value>) {
        let why = |all: &Value, which: &str| -> Value {
            let left = all["left_out"].as_array().into_iter().flatten().find(|left| left[key] == which);
            left.map_or(Value::Null, |left| left["why"].clone())
        };
        for (rows, verdict) in [(gone, Verdict::Worse), (come, Verdict::Better)] {
            for row in rows {
                let which = text(row, key);
                let (old, new) = match verdict {
                    Verdict::Worse => ("compared".into(), why(both.new, which)),
                    _ => (why(both.old, which), "compared".into()),
                };
                let what = format!("whether {} can be compared", printable(which.as_bytes()));
                self.compared += 1;
                self.change(Change { section, path: None, what, old, new, unit: "", ratio: None, verdict });
            }
        }
    }

    fn file_systems(&mut self, both: &Both<'_>) {
        let both = both.of("probe");
        if !self.has("probe", both) {
            return;
        }
        let Paired { both: systems, gone, .. } = both.paired(|row| name(row, "dir"));
        for row in gone {
            let dir = name(row, "dir").unwrap_or_default();
            let why = format!("the new survey has no experiments in '{}'", printable(&dir));
            self.uncompared.push(Uncompared { section: "probe", why });
        }
        for system in systems {
            let dir = name(system.old, "dir");
            self.note_about("probe", &dir, "type", system.of("fstype"), "");
            let key = |row: &Value| row["name"].as_str().map(str::to_owned);
            for both in system.of("experiments").paired(key).both {
                let what = printable(text(both.old, "name").as_bytes()).into_owned();
                let unit = if text(both.old, "unit") == "bytes" { "bytes" } else { "" };
                // What rests on times alone, or on a few trials that did not agree, changes from one run to the next.
                const SURE: f64 = 0.9;
                let is_sure =
                    |row: &Value| row["by_time"] == false && number(&row["confidence"]).is_some_and(|v| v >= SURE);
                let is_about = |row: &Value| row["inferred"].is_number() || row["inferred"].is_string();
                if [both.old, both.new].into_iter().all(|row| is_sure(row) && is_about(row)) {
                    self.note_about("probe", &dir, &what, both.of("inferred"), unit);
                }
                let said = format!("{what}, as the kernel says");
                self.note_about("probe", &dir, &said, both.of("truth"), unit);
            }
        }
    }

    /// A fact about a directory, if both know it. What changes from one run to the next by a twentieth is the same.
    fn note_about(
        &mut self,
        section: &'static str,
        dir: &Option<Vec<u8>>,
        what: &str,
        both: Both<'_>,
        unit: &'static str,
    ) {
        const SAME: f64 = 1.05;
        let Both { old, new } = both;
        if old.is_null() || new.is_null() {
            return;
        }
        self.compared += 1;
        let ratio = both.numbers().filter(|(old, _)| *old > 0.0).map(|(old, new)| new / old);
        let is_same = old == new || ratio.is_some_and(|ratio| ratio < SAME && ratio > 1.0 / SAME);
        if !is_same {
            let (path, what, old, new) = (dir.clone(), what.to_owned(), old.clone(), new.clone());
            self.change(Change { section, path, what, old, new, unit, ratio, verdict: Verdict::Other });
        }
    }

    fn walk(&mut self, both: Both<'_>) {
        if !self.has("walk", both) {
            return;
        }
        let Both { old, new } = both.of("engine");
        self.note("walk", "the engine that is chosen", old, new, Verdict::Other);
        let levels = both.of("bounded").of("levels");
        if levels.old != levels.new {
            let why = "the engines were compared on different parts of the tree".to_owned();
            return self.uncompared.push(Uncompared { section: "walk", why });
        }
        let compare = both.of("compare");
        let key = |row: &Value| row["engine"].as_str().map(str::to_owned);
        let Paired { both: engines, gone, come } = compare.of("engines").paired(key);
        for both in engines {
            let engine = printable(text(both.old, "engine").as_bytes()).into_owned();
            let Some((then, now)) = both.of("entries").numbers() else { continue };
            let real = both.of("real");
            if let (Some(old), Some(new)) = (Spread::of(real.old, TRIALS), Spread::of(real.new, TRIALS)) {
                self.timed("walk", format!("an entry by {engine}"), "s", old.each(then), new.each(now));
            }
            if let Some((old, new)) = both.of("calls_per_entry").numbers() {
                let apart = if then == now { 1.0 } else { CALLS_APART };
                self.counted("walk", format!("calls for an entry by {engine}"), "calls", old, new, apart);
            }
        }
        self.ran(compare, "walk", "engine", gone, come);
    }

    fn dump(&mut self, both: Both<'_>) {
        if !self.has("dump", both) {
            return;
        }
        let Both { old, new } = both.of("gather");
        self.note("dump", "how a dump gathers", old, new, Verdict::Other);
        let (calls, entries) = (both.of("calls").numbers(), both.of("entries").numbers());
        if let (Some((old, new)), Some((then, now))) = (calls, entries)
            && both.of("gather").old == both.of("gather").new
        {
            let apart = if then == now { 1.0 } else { CALLS_APART };
            let (old, new) = (old / then.max(1.0), new / now.max(1.0));
            self.counted("dump", "calls for an entry that is gathered".to_owned(), "calls", old, new, apart);
        }
    }

    fn prices(&mut self, both: Both<'_>) {
        if !self.has("gates", both) {
            return;
        }
        let key = |row: &Value| {
            let words = ["gate", "what", "state"].map(|field| row[field].as_str().map(str::to_owned));
            let [Some(gate), Some(what), Some(state)] = words else { return None };
            Some((gate, what, state, row["threads"].as_u64()?))
        };
        for both in both.of("prices").paired(key).both {
            let of = |field: &str| printable(text(both.old, field).as_bytes()).into_owned();
            let threads = match both.old["threads"].as_u64() {
                Some(threads) if threads > 1 => format!(", on {threads} threads"),
                _ => String::new(),
            };
            let quartiles = ["ns", "low", "high"];
            if let (Some(old), Some(new)) = (Spread::of(both.old, quartiles), Spread::of(both.new, quartiles)) {
                let what = format!("{} of {}, {}{threads}", of("gate"), of("what"), of("state"));
                self.timed("gates", what, "ns", old, new);
            }
        }
    }

    fn startup(&mut self, both: Both<'_>) {
        if !self.has("startup", both) {
            return;
        }
        let Paired { both: elements, gone, come } = both.of("path").paired(|row| name(row, "dir"));
        self.compared += (elements.len() + gone.len() + come.len()) as u64;
        let about = |row: &Value, what: &str, old: Value, new: Value, verdict| Change {
            section: "startup",
            path: name(row, "dir"),
            what: what.to_owned(),
            old,
            new,
            unit: "",
            ratio: None,
            verdict,
        };
        for row in gone {
            self.change(about(row, "element of PATH", row["state"].clone(), Value::Null, Verdict::Other));
        }
        for row in come {
            self.change(about(row, "element of PATH", Value::Null, row["state"].clone(), Verdict::Other));
        }
        for both in &elements {
            let Both { old, new } = both.of("state");
            if old != new {
                let verdict = if new == "dead" { Verdict::Worse } else { Verdict::Other };
                self.change(about(both.new, "element of PATH", old.clone(), new.clone(), verdict));
            }
            let Both { old, new } = both.of("fstype");
            if old != new && !old.is_null() && !new.is_null() {
                self.change(about(both.new, "its file system", old.clone(), new.clone(), Verdict::Other));
            }
        }
        for both in both.of("started").paired(|row| row["command"].as_str().map(str::to_owned)).both {
            let command = printable(text(both.old, "command").as_bytes()).into_owned();
            for (field, what) in [("misses", "misses"), ("lookups", "look-ups")] {
                if let Some((old, new)) = both.of("totals").of(field).numbers() {
                    self.counted("startup", format!("{what} of {command}"), "calls", old, new, 1.0);
                }
            }
        }
    }
}

/// Options that are gone, and those that have come; `None` where there are none.
fn options<'a>(old: &'a Value, new: &'a Value) -> Option<(Vec<&'a str>, Vec<&'a str>)> {
    let of =
        |row: &'a Value| -> Option<Vec<&'a str>> { row["options"].as_array()?.iter().map(Value::as_str).collect() };
    let (old, new) = (of(old)?, of(new)?);
    let (then, now): (HashSet<_>, HashSet<_>) = (old.iter().collect(), new.iter().collect());
    let lost: Vec<&str> = old.iter().filter(|option| !now.contains(option)).copied().collect();
    let got: Vec<&str> = new.iter().filter(|option| !then.contains(option)).copied().collect();
    (!lost.is_empty() || !got.is_empty()).then_some((lost, got))
}

impl Change {
    /// What it is about.
    fn subject(&self) -> String {
        let path = self.path.as_deref().map_or(String::new(), |path| format!("{}: ", printable(path)));
        format!("{path}{}", printable(self.what.as_bytes()))
    }

    /// In a line, for a warning.
    pub fn to_line(&self) -> String {
        let ratio = self.ratio.map_or(String::new(), |ratio| format!(" ({ratio:.2} times as much)"));
        let [old, new] = [&self.old, &self.new].map(|value| shown(value, self.unit));
        format!("{}: {}: was {old}, is {new}{ratio}", self.section, self.subject())
    }
}

/// A value for people.
fn shown(value: &Value, unit: &str) -> String {
    match (value, unit) {
        (Value::Null, _) => "-".to_owned(),
        (Value::String(word), _) => printable(word.as_bytes()).into_owned(),
        (Value::Number(n), "s") => n.as_f64().map_or_else(|| n.to_string(), time),
        (Value::Number(n), "ns") => n.as_f64().map_or_else(|| n.to_string(), |ns| format!("{ns:.0} ns")),
        (Value::Number(n), "bytes") => n.as_u64().map_or_else(|| n.to_string(), size),
        (Value::Number(n), "calls") => n.as_f64().map_or_else(
            || n.to_string(),
            |n| {
                if n.fract() == 0.0 { format!("{n:.0}") } else { format!("{n:.3}") }
            },
        ),
        (other, _) => printable(other.to_string().as_bytes()).into_owned(),
    }
}

impl Diff {
    /// The changes of one kind.
    pub fn of(&self, verdict: Verdict) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(move |change| change.verdict == verdict)
    }

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
            let head = if look.color { format!("\x1b[1m{head}\x1b[0m") } else { head.to_owned() };
            text.push_str(&format!("{head}\n"));
            let columns = [("SECTION", Left), ("OLD", Right), ("NEW", Right), ("RATIO", Right), ("WHAT", Left)];
            let mut table = Table::new(&columns, count);
            for change in self.of(verdict) {
                let [old, new] = [&change.old, &change.new].map(|value| shown(value, change.unit));
                let ratio = change.ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"));
                table.row([change.section, &old, &new, &ratio, &change.subject()], tone);
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
        let wrapped = |line: String| wrap(&line, look.width.unwrap_or(usize::MAX)) + "\n";
        text.push_str(&wrapped(format!("Of {} figures and facts {told} have changed{noise}.", self.compared)));
        for one in &self.uncompared {
            text.push_str(&wrapped(format!("Not compared: {}: {}.", one.section, printable(one.why.as_bytes()))));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn document(result: Value) -> Value {
        json!({"schema": SCHEMA, "result": result, "gates": {}, "warnings": []})
    }

    fn stats(median: f64, off: f64) -> Value {
        json!({"mean": median, "median": median, "min": median - off, "max": median + off, "std_dev": off})
    }

    fn engine(name: &str, entries: u64, seconds: f64, calls: f64) -> Value {
        json!({"engine": name, "entries": entries, "real": stats(seconds, seconds / 50.0), "calls_per_entry": calls})
    }

    fn mount(target: &str, options: &[&str]) -> Value {
        json!({"target": target, "source": "/dev/sda1", "fstype": "ext4", "fsroot": "/", "options": options,
               "kind": "dir", "hidden": false, "verdict": null})
    }

    fn full() -> Value {
        json!({
            "root": "/",
            "machine": {"kernel": "6.1.0", "cpus": 2, "memory": 1024},
            "mounts": {
                "mounts": [mount("/", &["rw", "relatime"]), mount("/srv", &["rw"]), mount("/srv", &["rw"])],
                "compare": {"methods": [{"by": "naive", "found": 3, "calls": 100, "real": stats(0.5, 0.01)}], "left_out": []},
            },
            "walk": {"engine": "threads", "compare": {"engines": [engine("threads", 100, 1.0, 2.0)], "left_out": []}},
            "dump": {"gather": "combined", "calls": 200, "entries": 100},
            "probe": [{"dir": "/", "fstype": "ext4", "experiments": [
                {"name": "allocation-block", "inferred": 4096, "truth": 4096, "unit": "bytes", "confidence": 1.0, "by_time": false},
            ]}],
            "gates": {"prices": [
                {"gate": "statx", "what": "a file", "state": "warm", "threads": 1, "ns": 400.0, "low": 390.0, "high": 410.0},
            ]},
            "startup": {"path": [{"dir": "/bin", "state": "live", "fstype": "ext4"}],
                        "started": [{"command": "env true", "totals": {"misses": 3, "lookups": 9}}]},
        })
    }

    fn changed(new: Value) -> Diff {
        diff(&document(full()), &document(new)).unwrap()
    }

    fn whats(diff: &Diff, verdict: Verdict) -> Vec<String> {
        diff.of(verdict).map(Change::subject).collect()
    }

    #[test]
    fn nothing_has_changed() {
        let same = changed(full());
        assert_eq!((same.changes.len(), same.uncompared.len()), (0, 0), "{same:?}");
        assert!(same.compared > 15);
        assert!(same.to_text(Look::default(), true).contains("0 have changed."));
    }

    #[test]
    fn a_slower_walk_is_worse_and_noise_is_not() {
        let mut new = full();
        new["walk"]["compare"]["engines"][0] = engine("threads", 200, 4.0, 2.0);
        new["gates"]["prices"][0]["ns"] = 405.0.into();
        let diff = changed(new);
        assert_eq!(whats(&diff, Verdict::Worse), ["an entry by threads"]);
        assert_eq!(diff.changes[0].ratio, Some(2.0));
        assert_eq!(whats(&diff, Verdict::Noise), ["statx of a file, warm"]);
        let text = diff.to_text(Look::default(), false);
        assert!(text.starts_with("Worse\n") && text.contains("2.00") && text.contains("one differs"), "{text}");
        assert!(diff.changes[0].to_line().contains("2.00 times as much"));
    }

    #[test]
    fn calls_are_exact() {
        let mut new = full();
        new["walk"]["compare"]["engines"][0]["calls_per_entry"] = 2.001.into();
        new["dump"]["calls"] = 199.into();
        let diff = changed(new);
        assert_eq!(whats(&diff, Verdict::Worse), ["calls for an entry by threads"]);
        assert_eq!(whats(&diff, Verdict::Better), ["calls for an entry that is gathered"]);
    }

    #[test]
    fn mounts_go_and_come_and_change() {
        let mut new = full();
        new["mounts"]["mounts"] =
            json!([mount("/", &["ro", "relatime"]), mount("/srv", &["rw", "noatime"]), mount("/new", &["rw"])]);
        let diff = changed(new);
        assert_eq!(whats(&diff, Verdict::Worse), ["/srv: the mount", "/: options"]);
        assert_eq!(whats(&diff, Verdict::Other), ["/new: the mount", "/srv: options"]);
    }

    #[test]
    fn facts_about_file_systems_machine_and_path() {
        let mut new = full();
        new["probe"][0]["experiments"][0]["inferred"] = 1024.into();
        new["machine"]["kernel"] = "6.12".into();
        new["startup"]["path"] = json!([{"dir": "/bin", "state": "dead"}, {"dir": "/opt", "state": "live"}]);
        new["startup"]["started"][0]["totals"]["misses"] = 2.into();
        let diff = changed(new);
        assert_eq!(whats(&diff, Verdict::Worse), ["/bin: element of PATH"]);
        assert_eq!(whats(&diff, Verdict::Better), ["misses of env true"]);
        assert_eq!(whats(&diff, Verdict::Other), ["kernel", "/: allocation-block", "/opt: element of PATH"]);
    }

    #[test]
    fn an_engine_that_is_gone_says_why() {
        let mut new = full();
        new["walk"]["compare"] = json!({"engines": [], "left_out": [{"engine": "threads", "why": "stopped"}]});
        let diff = changed(new);
        assert_eq!(whats(&diff, Verdict::Worse), ["whether threads can be compared"]);
        assert_eq!(diff.changes[0].new, "stopped");
    }

    #[test]
    fn what_one_lacks_is_not_compared() {
        let diff = changed(json!({"root": "/"}));
        assert!(diff.changes.is_empty() && diff.uncompared.len() >= 7, "{diff:?}");
        assert!(diff.to_text(Look::default(), false).contains("Not compared: walk: the new survey has it not."));
        let elsewhere = changed(json!({"root": "/srv"}));
        assert_eq!(whats(&elsewhere, Verdict::Other), ["the directory surveyed"]);
    }

    #[test]
    fn what_is_no_survey_is_refused() {
        let good = document(full());
        for (bad, word) in [
            (json!(null), "no schema"),
            (json!([1]), "no schema"),
            (json!({"schema": "fathom.walk/1", "result": {}}), "fathom.walk/1"),
            (json!({"schema": SCHEMA, "result": 3}), "no result"),
        ] {
            let (first, second) = (diff(&bad, &good).unwrap_err(), diff(&good, &bad).unwrap_err());
            assert_eq!((first.0, second.0), (0, 1));
            assert!(first.1.contains(word), "{}", first.1);
        }
    }

    #[test]
    fn names_that_are_no_text_are_kept_exactly() {
        let mut new = full();
        new["mounts"]["mounts"][2] =
            json!({"target": "/\u{fffd}", "target_b64": "L/8=", "source": "x\u{1b}", "fstype": "y"});
        let diff = changed(new);
        let come = diff.of(Verdict::Other).next().unwrap();
        assert_eq!(come.path.as_deref(), Some(&b"/\xff"[..]));
        let text = diff.to_text(Look::default(), true);
        assert!(!text.contains('\u{1b}') && text.contains("\\xff"), "{text}");
    }

    /// Anything at all, of the names that are looked for.
    fn anything() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-z/\\PC]{0,6}".prop_map(Value::from),
        ];
        let names = prop::sample::select(vec![
            "root",
            "machine",
            "mounts",
            "compare",
            "methods",
            "walk",
            "engines",
            "real",
            "median",
            "min",
            "max",
            "dump",
            "probe",
            "experiments",
            "prices",
            "gates",
            "startup",
            "path",
            "started",
            "dir",
            "target",
            "target_b64",
            "by",
            "engine",
            "entries",
            "calls_per_entry",
            "options",
            "name",
            "inferred",
            "truth",
            "ns",
            "low",
            "high",
        ]);
        leaf.prop_recursive(6, 64, 8, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::hash_map(names.clone().prop_map(str::to_owned), inner, 0..8)
                    .prop_map(Value::from_iter),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_document_makes_it_panic(old in anything(), new in anything()) {
            if let Ok(diff) = diff(&document(old), &document(new)) {
                let text = diff.to_text(Look { width: Some(80), ..Look::default() }, true);
                prop_assert!(!text.contains(|c: char| c.is_control() && c != '\n'));
                serde_json::to_string(&diff).unwrap();
            }
        }

        #[test]
        fn a_survey_is_like_itself(one in anything()) {
            if let Ok(diff) = diff(&document(one.clone()), &document(one)) {
                prop_assert!(diff.changes.is_empty(), "{diff:?}");
            }
        }
    }
}
