//! What differs between two accounts of a command, call by call: by system call, program and directory.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Deserializer, Value};

/// Two accounts, or several runs of each.
#[derive(Clone, Debug, PartialEq)]
pub struct Growth {
    /// Runs of each; the figures are their medians.
    pub runs: [usize; 2],
    /// Whether all calls were examined, in all runs: else the directories are of a part of them.
    pub is_complete: bool,
    /// By system call.
    pub gates: Vec<Row>,
    /// By program.
    pub programs: Vec<Row>,
    /// By directory.
    pub directories: Vec<Row>,
    /// By what calls waited for.
    pub waits: Vec<Row>,
}

/// The calls of one name in both.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// The name.
    pub name: Vec<u8>,
    /// Calls in the old and in the new runs.
    pub calls: [f64; 2],
    /// Seconds in them.
    pub seconds: [f64; 2],
}

impl Row {
    /// How many more calls there are.
    pub fn more_calls(&self) -> f64 {
        self.calls[1] - self.calls[0]
    }

    /// How many more seconds they take.
    pub fn more_seconds(&self) -> f64 {
        self.seconds[1] - self.seconds[0]
    }
}

/// Compares two files with accounts of commands; `None` if one of them has anything else.
pub fn growth(old: &[u8], new: &[u8]) -> Option<Growth> {
    let both = [results(old)?, results(new)?];
    let all = || both.iter().flatten();
    let is_complete = all().all(|result| result["detail"]["complete"] == true);
    let rows = |of: fn(&Value) -> Sums| rows(&both, of);
    Some(Growth {
        runs: [both[0].len(), both[1].len()],
        is_complete,
        gates: rows(gates),
        programs: rows(|result| listed(&result["programs"], "program")),
        directories: rows(|result| listed(&result["per_directory"], "path")),
        waits: rows(|result| listed(&result["waits"], "on")),
    })
}

/// Calls and seconds by name, in one run.
type Sums = BTreeMap<Vec<u8>, [f64; 2]>;

/// The results of the accounts in a file.
fn results(bytes: &[u8]) -> Option<Vec<Value>> {
    let text = str::from_utf8(bytes).ok()?;
    let text = text.trim_start_matches('\u{feff}');
    let mut results = Vec::new();
    for object in Deserializer::from_str(text).into_iter::<Value>() {
        let mut object = object.ok()?;
        let is_account = object["schema"] == "fathom.account/1";
        let result = object.get_mut("result").map(Value::take)?;
        results.push(Some(result).filter(|result| is_account && result["gates"].is_object())?);
    }
    (!results.is_empty()).then_some(results)
}

fn sum_of(row: &Value) -> [f64; 2] {
    ["calls", "seconds"].map(|field| row[field].as_f64().unwrap_or(0.0))
}

fn gates(result: &Value) -> Sums {
    let gates = result["gates"].as_object().into_iter().flatten();
    let sums = gates.map(|(name, gate)| (name.clone().into_bytes(), sum_of(gate)));
    sums.collect()
}

fn listed(rows: &Value, name: &str) -> Sums {
    let exact = format!("{name}_b64");
    let mut sums = Sums::new();
    for row in rows.as_array().into_iter().flatten() {
        let coded = row[&exact].as_str();
        let coded = coded.and_then(|coded| STANDARD.decode(coded).ok());
        let plain = || row[name].as_str().map(|name| name.as_bytes().to_vec());
        if let Some(name) = coded.or_else(plain) {
            let sum = sums.entry(name).or_default();
            let [calls, seconds] = sum_of(row);
            *sum = [sum[0] + calls, sum[1] + seconds];
        }
    }
    sums
}

/// The rows of both, those that grew most first. A name that a run lacks has no calls there.
fn rows(both: &[Vec<Value>; 2], of: fn(&Value) -> Sums) -> Vec<Row> {
    let both = both.each_ref().map(|results| {
        let sums = results.iter().map(of);
        sums.collect::<Vec<Sums>>()
    });
    let mut rows: BTreeMap<Vec<u8>, Row> = BTreeMap::new();
    for (side, runs) in both.iter().enumerate() {
        for name in runs.iter().flat_map(BTreeMap::keys) {
            let row = rows.entry(name.clone()).or_default();
            let figure = |which: usize| {
                let values = runs.iter();
                median(values.map(|run| run.get(name).map_or(0.0, |sum| sum[which])))
            };
            row.calls[side] = figure(0);
            row.seconds[side] = figure(1);
        }
    }
    let mut rows: Vec<Row> = rows
        .into_iter()
        .map(|(name, row)| Row { name, ..row })
        .collect();
    rows.sort_by(|a, b| {
        let seconds = b.more_seconds().total_cmp(&a.more_seconds());
        seconds.then(b.more_calls().total_cmp(&a.more_calls()))
    });
    rows
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let upper = values.get(values.len() / 2).copied().unwrap_or(0.0);
    let lower = values.get(values.len().saturating_sub(1) / 2).copied();
    (lower.unwrap_or(0.0) + upper) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn account(gates: &str, directories: &str) -> String {
        format!(
            r#"{{"schema":"fathom.account/1","result":{{"gates":{{{gates}}},"programs":[],"waits":[],
            "per_directory":[{directories}],"detail":{{"complete":true}}}}}}"#
        )
    }

    #[test]
    fn rows_that_grew_most_come_first() {
        let old = account(
            r#""openat":{"calls":10,"seconds":1},"read":{"calls":5,"seconds":2}"#,
            r#"{"path":"/\ufffd","path_b64":"L/8=","calls":1,"seconds":0.5}"#,
        );
        let new = account(
            r#""openat":{"calls":30,"seconds":1.5},"statx":{"calls":7,"seconds":3}"#,
            "",
        );
        let found = growth(old.as_bytes(), new.as_bytes()).unwrap();
        let row = |name: &[u8], calls, seconds| Row {
            name: name.to_vec(),
            calls,
            seconds,
        };
        assert_eq!(
            found.gates,
            [
                row(b"statx", [0.0, 7.0], [0.0, 3.0]),
                row(b"openat", [10.0, 30.0], [1.0, 1.5]),
                row(b"read", [5.0, 0.0], [2.0, 0.0]),
            ]
        );
        assert_eq!(found.directories, [row(b"/\xff", [1.0, 0.0], [0.5, 0.0])]);
        assert!(found.is_complete && found.runs == [1, 1]);
    }

    #[test]
    fn of_several_runs_the_median_counts() {
        let run = |calls: u64| account(&format!(r#""read":{{"calls":{calls},"seconds":1}}"#), "");
        let old = [run(10), run(90), run(11)].concat();
        let new = [run(10), run(20)].join("\n");
        let found = growth(old.as_bytes(), new.as_bytes()).unwrap();
        assert_eq!((found.gates[0].calls, found.runs), ([11.0, 15.0], [3, 2]));
    }

    #[test]
    fn other_files_are_not_compared_so() {
        let one = account("", "");
        for other in [
            "",
            "{}",
            "7",
            "[]",
            "a_real,b_real\n1,2\n",
            "\u{feff}",
            r#"{"schema":"fathom.walk/1"}"#,
        ] {
            assert_eq!(growth(one.as_bytes(), other.as_bytes()), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn no_file_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = growth(&bytes, account("", "").as_bytes());
        }
    }
}
