//! When two values count as changed.

use serde_json::Value;

use super::change::{Change, Diff, Verdict, What, WhyUncompared};
use super::pair::Pair;
use crate::section::Section;

/// What a value is of: a path or a name, or neither.
#[derive(Clone, Default)]
pub(super) struct Subject {
    pub(super) path: Option<Vec<u8>>,
    pub(super) name: String,
}

impl Subject {
    pub(super) fn path(path: Option<Vec<u8>>) -> Subject {
        let name = String::new();
        Subject { path, name }
    }

    pub(super) fn name(name: &str) -> Subject {
        let name = name.to_owned();
        Subject { path: None, name }
    }
}

impl Diff {
    /// Whether both surveys have a section; if not, it is entered as uncompared.
    pub(super) fn have(&mut self, section: Section, pair: Pair<'_>) -> bool {
        let has = |value: &Value| match value {
            Value::Array(list) => !list.is_empty(),
            value => value.is_object(),
        };
        let why = match pair.map(has) {
            [true, true] => return true,
            [false, false] => WhyUncompared::InNeither,
            [true, false] => WhyUncompared::NotInNew,
            [false, true] => WhyUncompared::NotInOld,
        };
        self.uncompared.push((section, why));
        false
    }

    /// Enters a change.
    pub(super) fn push(
        &mut self,
        what: What,
        of: Subject,
        values: [Value; 2],
        ratio: Option<f64>,
        verdict: Verdict,
    ) {
        let [old, new] = values;
        let Subject { path, name } = of;
        self.changes.push(Change {
            what,
            path,
            name,
            old,
            new,
            ratio,
            verdict,
        });
    }

    /// Compares a fact; another value is neither better nor worse.
    pub(super) fn fact(&mut self, what: What, pair: Pair<'_>) {
        self.compared += 1;
        let [old, new] = pair.map(scalar);
        if old != new {
            self.push(what, Subject::default(), [old, new], None, Verdict::Other);
        }
    }

    /// Compares a time, of which more is worse. It has changed if the medians differ by at least
    /// 10 %, and the ranges of the trials lie further apart than both are wide together: three trials
    /// of each survey are apart by chance in one of ten cases. `fluctuates` says that a burst of
    /// other programs changes all trials of one survey, so that no spread shows it: then it is not
    /// known to be worse.
    pub(super) fn time(
        &mut self,
        what: What,
        of: Subject,
        times: [Option<Spread>; 2],
        fluctuates: bool,
    ) {
        const APART: f64 = 1.1;
        let [Some(old), Some(new)] = times else {
            return;
        };
        self.compared += 1;
        let ratio = ratio(old.middle, new.middle).unwrap_or(1.0);
        let verdict = match ratio {
            r if r > APART && old.is_far_below(&new) => Verdict::Worse,
            r if r < 1.0 / APART && new.is_far_below(&old) => Verdict::Better,
            1.0 => return,
            _ => Verdict::Noise,
        };
        let verdict = match verdict {
            Verdict::Worse | Verdict::Better if fluctuates => Verdict::Other,
            verdict => verdict,
        };
        let values = [old.middle, new.middle].map(Value::from);
        self.push(what, of, values, Some(ratio), verdict);
    }

    /// Compares a count of calls, of which more is worse. Counts have no noise; they must differ
    /// by the factor `apart`.
    pub(super) fn count(&mut self, what: What, of: Subject, [old, new]: [f64; 2], apart: f64) {
        self.compared += 1;
        let ratio = ratio(old, new);
        if old == new || ratio.is_some_and(|ratio| ratio < apart && ratio > 1.0 / apart) {
            return;
        }
        let verdict = match new > old {
            true => Verdict::Worse,
            false => Verdict::Better,
        };
        self.push(what, of, [old, new].map(Value::from), ratio, verdict);
    }

    /// Compares a property of a file system, where both surveys have it. Numbers must differ by
    /// 5 %: by less they differ from one run to the next.
    pub(super) fn property(&mut self, what: What, of: Subject, pair: Pair<'_>) {
        const APART: f64 = 1.05;
        let Some([old, new]) = known(pair) else {
            return;
        };
        self.compared += 1;
        let numbers = old.as_f64().zip(new.as_f64());
        let ratio = numbers.and_then(|(old, new)| ratio(old, new));
        let is_near = ratio.is_some_and(|ratio| ratio < APART && ratio > 1.0 / APART);
        if old != new && !is_near {
            self.push(what, of, [old, new], ratio, Verdict::Other);
        }
    }
}

/// A value of the document; null for an object or a list, which no survey has in its place.
pub(super) fn scalar(value: &Value) -> Value {
    match value {
        Value::Array(_) | Value::Object(_) => Value::Null,
        value => value.clone(),
    }
}

/// Both values, if both surveys have the value.
pub(super) fn known(pair: Pair<'_>) -> Option<[Value; 2]> {
    let pair = pair.map(scalar);
    pair.iter().all(|value| !value.is_null()).then_some(pair)
}

/// The factor by which calls per entry must differ: a tree with another number of entries has
/// another share of directories.
pub(super) fn calls_apart([old_entries, new_entries]: [f64; 2]) -> f64 {
    match old_entries == new_entries {
        true => 1.0,
        false => 1.01,
    }
}

/// The new value divided by the old one, where that is not zero.
fn ratio(old: f64, new: f64) -> Option<f64> {
    Some(new / old).filter(|ratio| old > 0.0 && ratio.is_finite())
}

/// A time, and the range of its trials.
pub(super) struct Spread {
    middle: f64,
    low: f64,
    high: f64,
}

impl Spread {
    /// Reads three members of a value, and divides them by the number of entries.
    pub(super) fn read(value: &Value, keys: [&str; 3], entries: f64) -> Option<Spread> {
        let [middle, low, high] = keys.map(|key| value[key].as_f64());
        let (middle, low, high) = (middle?, low?, high?);
        let is_ordered = 0.0 <= low && low <= middle && middle <= high && high.is_finite();
        is_ordered.then(|| Spread {
            middle: middle / entries,
            low: low / entries,
            high: high / entries,
        })
    }

    /// Whether the gap between the ranges is wider than both ranges together.
    fn is_far_below(&self, other: &Spread) -> bool {
        let width = |spread: &Spread| spread.high - spread.low;
        other.low - self.high > width(self) + width(other)
    }

    /// The trials of a method or an engine: the time per entry.
    pub(super) fn read_trials(run: &Value, entries: f64) -> Option<Spread> {
        Spread::read(&run["real"], ["median", "min", "max"], entries.max(1.0))
    }
}
