//! Runs as fathom's own JSON: one object, or several one after the other.
//!
//! Comparisons of `mounts` and `walk` have all that was compared on one system: of several trials,
//! the median of the real times and the means of the others, since the kernel's clock is coarse.
//! `account` and `pathwalk` have one run, which has no name of its own: the file is called
//! `SYSTEM.NAME.json`, or `NAME.json` where there is one system only.

use serde_json::{Deserializer, Value};

use super::runs::{Kind, Runs, System, Took};
use crate::error::{Error, ErrorKind};
use crate::records::is_plausible;

/// The name of a system that has none, and of standard input.
const UNSAID: &[u8] = b"-";

/// Whether a text looks like JSON, and not like comma-separated values.
pub(super) fn is_json(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    text.starts_with('{')
}

/// Reads the runs in a file, by its name without directories.
pub(super) fn parse(text: &str, file: &[u8]) -> Result<Runs, Error> {
    let text = text.trim_start_matches('\u{feff}');
    let stem = file.strip_suffix(b".json").unwrap_or(file);
    let mut runs: Option<Runs> = None;
    let mut objects = Deserializer::from_str(text).into_iter::<Value>();
    let (mut line, mut counted) = (1, 0);
    loop {
        let rest = text.get(objects.byte_offset()..).unwrap_or_default();
        let from = text.len() - rest.trim_start().len();
        let passed = text.get(counted..from).unwrap_or_default();
        line += passed.matches('\n').count();
        counted = from;
        let Some(object) = objects.next() else { break };
        let object = object.map_err(|e| {
            let text = e.to_string();
            let reason = text.split(" at line ").next().unwrap_or_default();
            ErrorKind::NotJson(reason.to_owned()).at(e.line())
        })?;
        let one = read_object(&object, stem, line).map_err(|kind| kind.at(line))?;
        match &mut runs {
            None => runs = Some(one),
            Some(runs) if runs.kind == one.kind => runs.add(one),
            Some(runs) => return Err(ErrorKind::Mixed(one.kind, runs.kind).at(line)),
        }
    }
    let mut runs = runs.ok_or_else(|| ErrorKind::Empty.in_file())?;
    // Several runs of one file are told apart by their numbers; of one system's there may be one
    // for each NAME.
    if runs.systems.len() > 1 {
        for (at, system) in runs.systems.iter_mut().enumerate() {
            system.name.extend(format!(":{}", at + 1).bytes());
        }
    }
    Ok(runs)
}

fn read_object(object: &Value, stem: &[u8], line: usize) -> Result<Runs, ErrorKind> {
    let result = &object["result"];
    let one = |took: Option<Took>| {
        let took = took.ok_or(ErrorKind::NoRun)?;
        let (system, name) = split(stem).ok_or(ErrorKind::NoName)?;
        let name = String::from_utf8_lossy(name).into_owned();
        Ok((system, vec![(name, took)]))
    };
    let (kind, (system, took)) = match object["schema"].as_str().unwrap_or_default() {
        "fathom.mounts/1" => (Kind::Mounts, (stem, compared(result, "methods", "by"))),
        "fathom.walk/1" => (Kind::Walk, (stem, compared(result, "engines", "engine"))),
        "fathom.account/1" => (Kind::Account, one(metered(result))?),
        "fathom.pathwalk/1" => (Kind::Pathwalk, one(searched(result))?),
        "" => return Err(ErrorKind::NoSchema),
        other => return Err(ErrorKind::OtherSchema(other.to_owned())),
    };
    if took.is_empty() {
        return Err(ErrorKind::NotCompared(kind));
    }
    let (names, took) = took.into_iter().unzip();
    let system = System {
        name: system.to_vec(),
        line,
        took,
        ..System::default()
    };
    Ok(Runs {
        kind,
        names,
        systems: vec![system],
        empty: Vec::new(),
    })
}

/// The system and the NAME of a file `SYSTEM.NAME`; there may be dots in the system.
fn split(stem: &[u8]) -> Option<(&[u8], &[u8])> {
    let (system, name) = match stem.iter().rposition(|byte| *byte == b'.') {
        Some(dot) => (stem.get(..dot)?, stem.get(dot + 1..)?),
        None => (UNSAID, stem),
    };
    (!system.is_empty() && !name.is_empty() && name != UNSAID).then_some((system, name))
}

/// What each way took, in a list of the comparison.
fn compared(result: &Value, list: &str, name: &str) -> Vec<(String, Took)> {
    let took = |one: &Value| {
        let took = [
            number(one, "/real/median"),
            number(one, "/user/mean"),
            number(one, "/sys/mean"),
            number(one, "/calls"),
        ];
        one.get(name)?.as_str().map(|name| (name.to_owned(), took))
    };
    let all = result["compare"][list].as_array();
    all.into_iter().flatten().filter_map(took).collect()
}

/// What a command took that was metered.
fn metered(result: &Value) -> Option<Took> {
    let gates = result["gates"].as_object();
    let calls = |gate: &Value| number(gate, "/calls");
    let calls = gates.map(|gates| gates.values().filter_map(calls).sum());
    Some([
        Some(number(result, "/real")?),
        number(result, "/user"),
        number(result, "/sys"),
        calls,
    ])
}

/// What a search took; its calls are its look-ups.
fn searched(result: &Value) -> Option<Took> {
    Some([
        Some(number(result, "/test/seconds")?),
        None,
        None,
        number(result, "/test/passes/0/lookups"),
    ])
}

fn number(value: &Value, key: &str) -> Option<f64> {
    let value = value.pointer(key)?.as_f64()?;
    is_plausible(value).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MOUNTS: &str = r#"{"schema":"fathom.mounts/1","result":{"compare":{"methods":[
        {"by":"naive","real":{"mean":9.0,"median":4.0},"user":{"mean":2.0},"sys":{"mean":1.0},"calls":80},
        {"by":"search","real":{"mean":9.0,"median":2.0},"user":null,"sys":{"mean":0.5},"calls":8}]}}}"#;

    #[test]
    fn what_was_compared_on_one_system_is_a_row() {
        let runs = parse(MOUNTS, b"web1.example.org.json").unwrap();
        assert_eq!(
            (runs.kind, &runs.names[..]),
            (Kind::Mounts, &["naive".to_owned(), "search".to_owned()][..])
        );
        assert_eq!(runs.systems[0].name, b"web1.example.org");
        assert_eq!(
            runs.systems[0].took[0],
            [Some(4.0), Some(2.0), Some(1.0), Some(80.0)]
        );
        assert_eq!(
            runs.systems[0].took[1],
            [Some(2.0), None, Some(0.5), Some(8.0)]
        );
    }

    #[test]
    fn several_objects_in_a_file_are_several_rows() {
        let runs = parse(&format!("{MOUNTS}\n\n{MOUNTS}"), b"all.json").unwrap();
        let rows: Vec<_> = runs
            .systems
            .iter()
            .map(|system| (&system.name[..], system.line))
            .collect();
        assert_eq!(rows, [(&b"all:1"[..], 1), (b"all:2", 5)]);
    }

    #[test]
    fn one_run_is_called_as_its_file_is() {
        let text = r#"{"schema":"fathom.account/1","result":{"real":1.5,"user":0.5,"sys":0.25,"gates":{"read":{"calls":7},"openat":{"calls":1}}}}"#;
        let runs = parse(text, b"web1.example.org.before.json").unwrap();
        assert_eq!(
            (runs.kind, &runs.names[..]),
            (Kind::Account, &["before".to_owned()][..])
        );
        assert_eq!(runs.systems[0].name, b"web1.example.org");
        assert_eq!(
            runs.systems[0].took,
            [[Some(1.5), Some(0.5), Some(0.25), Some(8.0)]]
        );
        let text = r#"{"schema":"fathom.pathwalk/1","result":{"test":{"seconds":0.5,"passes":[{"lookups":10000},{"lookups":9}]}}}"#;
        assert_eq!(
            parse(text, b"n1.nfs.json").unwrap().systems[0].took,
            [[Some(0.5), None, None, Some(10000.0)]]
        );
        let runs = parse(text, b"before.json").unwrap();
        assert_eq!(
            (&runs.names[..], &runs.systems[0].name[..]),
            (&["before".to_owned()][..], &b"-"[..])
        );
        for nameless in [&b".json"[..], b"web1..json", b".before.json", b"-"] {
            assert_eq!(parse(text, nameless).unwrap_err().kind, ErrorKind::NoName);
        }
    }

    #[test]
    fn file_without_runs_is_refused() {
        let wrong = |text: &str| parse(text, b"a.json").unwrap_err().to_string();
        assert_eq!(wrong(" "), "the file is empty");
        assert_eq!(
            wrong("{}"),
            "line 1: JSON without a schema: not written by fathom"
        );
        assert!(wrong("{\n\"schema\": 1,,").starts_with("line 2: not JSON"));
        assert!(wrong(&MOUNTS[..200]).contains("not JSON"), "cut off");
        assert_eq!(
            parse(
                r#"{"schema":"fathom.walk/1","result":{"compare":null}}"#,
                b"a.json"
            )
            .unwrap_err()
            .kind,
            ErrorKind::NotCompared(Kind::Walk)
        );
        assert!(
            wrong(r#"{"schema":"fathom.dump/1","result":{}}"#)
                .starts_with("line 1: unsupported schema fathom.dump/1")
        );
        let both = format!(
            "{MOUNTS}\n{}",
            MOUNTS
                .replace("mounts", "walk")
                .replace("methods", "engines")
                .replace("by", "engine")
        );
        assert_eq!(
            wrong(&both),
            "line 4: this object is of fathom walk, those before it of fathom mounts"
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC*", more in "[{}\\[\\]\",:a-z0-9 \n]*") {
            let _ = parse(&text, b"a.b.json");
            let _ = parse(&more, text.as_bytes());
        }
    }
}
