//! The two documents, of which nothing is believed: what is not of the form that is looked for is
//! not there.

use std::collections::{HashMap, HashSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use show::name::printable;

/// What surveys say that they are.
pub(super) const SCHEMA: &str = "fathom.survey/1";

/// The result in a document, if it is one of a survey.
pub(super) fn survey(document: &Value) -> Result<&Value, String> {
    match (document["schema"].as_str(), &document["result"]) {
        (Some(SCHEMA), result @ Value::Object(_)) => Ok(result),
        (Some(SCHEMA), _) => Err("there is no result in it".to_owned()),
        (Some(other), _) => {
            let other: String = other.chars().take(60).collect();
            Err(format!(
                "it is of '{}', not of {SCHEMA}",
                printable(other.as_bytes())
            ))
        }
        (None, _) => Err(format!("it names no schema, and {SCHEMA} was expected")),
    }
}

/// The same member of the old survey and of the new one.
#[derive(Clone, Copy)]
pub(super) struct Both<'a> {
    pub(super) old: &'a Value,
    pub(super) new: &'a Value,
}

impl<'a> Both<'a> {
    pub(super) fn of(self, member: &str) -> Both<'a> {
        Both {
            old: &self.old[member],
            new: &self.new[member],
        }
    }

    /// Whether both have it.
    pub(super) fn is_known(self) -> bool {
        !self.old.is_null() && !self.new.is_null()
    }

    pub(super) fn values(self) -> [Value; 2] {
        [self.old.clone(), self.new.clone()]
    }

    /// A number that both have.
    pub(super) fn numbers(self) -> Option<(f64, f64)> {
        Some((number(self.old)?, number(self.new)?))
    }

    /// Elements of two lists that have the same key; those with a key that has come before are told
    /// apart by their order.
    pub(super) fn paired<K: std::hash::Hash + Eq + Clone>(
        self,
        key: impl Fn(&Value) -> Option<K>,
    ) -> Paired<'a> {
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
            both: old
                .iter()
                .filter_map(|(key, row)| {
                    Some(Both {
                        old: row,
                        new: by_key.get(key)?,
                    })
                })
                .collect(),
            gone: old
                .iter()
                .filter(|(key, _)| !by_key.contains_key(key))
                .map(|(_, row)| *row)
                .collect(),
            come: new
                .iter()
                .filter(|(key, _)| !keys.contains(key))
                .map(|(_, row)| *row)
                .collect(),
        }
    }
}

pub(super) struct Paired<'a> {
    pub(super) both: Vec<Both<'a>>,
    pub(super) gone: Vec<&'a Value>,
    pub(super) come: Vec<&'a Value>,
}

pub(super) fn number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|v| v.is_finite())
}

/// A name, exactly.
pub(super) fn name(object: &Value, field: &str) -> Option<Vec<u8>> {
    let exact = object[format!("{field}_b64")]
        .as_str()
        .and_then(|coded| STANDARD.decode(coded).ok());
    exact.or_else(|| object[field].as_str().map(|name| name.as_bytes().to_vec()))
}

pub(super) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

/// What one time was, and between which it lay.
#[derive(Clone, Copy)]
pub(super) struct Spread {
    pub(super) middle: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Spread {
    pub(super) fn of(object: &Value, [middle, low, high]: [&str; 3]) -> Option<Spread> {
        let of = |field: &str| number(&object[field]).filter(|v| *v >= 0.0);
        let spread = Spread {
            middle: of(middle)?,
            low: of(low)?,
            high: of(high)?,
        };
        (spread.low <= spread.middle && spread.middle <= spread.high).then_some(spread)
    }

    pub(super) fn each(self, entries: f64) -> Spread {
        let entries = entries.max(1.0);
        Spread {
            middle: self.middle / entries,
            low: self.low / entries,
            high: self.high / entries,
        }
    }
}

/// Statistics of trials.
pub(super) const TRIALS: [&str; 3] = ["median", "min", "max"];

/// Options that are gone, and those that have come; `None` where there are none.
pub(super) fn options<'a>(old: &'a Value, new: &'a Value) -> Option<(Vec<&'a str>, Vec<&'a str>)> {
    let of = |row: &'a Value| -> Option<Vec<&'a str>> {
        row["options"]
            .as_array()?
            .iter()
            .map(Value::as_str)
            .collect()
    };
    let (old, new) = (of(old)?, of(new)?);
    let (then, now): (HashSet<_>, HashSet<_>) = (old.iter().collect(), new.iter().collect());
    let lost: Vec<&str> = old
        .iter()
        .filter(|option| !now.contains(option))
        .copied()
        .collect();
    let got: Vec<&str> = new
        .iter()
        .filter(|option| !then.contains(option))
        .copied()
        .collect();
    (!lost.is_empty() || !got.is_empty()).then_some((lost, got))
}
