//! Reads the figures in fathom's own JSON: one object, or several concatenated ones.
//!
//! The 1988 tables need runs: a program's NAME and its times. Figures of `mounts --compare` and
//! `walk --compare` are called `NAME real`, like the columns of comma-separated values. Figures of
//! a single run, as of `account`, are called `real`. Then the NAME is from the file name:
//! `SYSTEM.NAME.json`, or `NAME.json` for a single system.

use serde_json::{Deserializer, Value};

use super::runs::{Measure, MeasureValues, MeasuredFile, Runs, System};
use crate::error::{Error, InputFault};
use crate::figures::{Figure, combine};
use crate::records::is_plausible;

/// The name of standard input, and of a system without a name.
const UNSAID: &[u8] = b"-";

/// The command whose reports list all system calls of a run.
pub const ACCOUNT: &str = "account";

/// Whether a text looks like JSON rather than comma-separated values.
pub(super) fn is_json(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    text.starts_with('{')
}

/// Reads the figures in a file; `file` is its name without directories.
pub(super) fn parse(text: &str, file: &[u8]) -> Result<MeasuredFile, Error> {
    let text = text.trim_start_matches('\u{feff}');
    let stem = file.strip_suffix(b".json").unwrap_or(file);
    let mut kind: Option<String> = None;
    let mut all: Vec<(usize, Vec<Figure>)> = Vec::new();
    let mut objects = Deserializer::from_str(text).into_iter::<Value>();
    let (mut line, mut counted) = (1, 0);
    loop {
        let rest = text.get(objects.byte_offset()..).unwrap_or_default();
        let from = text.len() - rest.trim_start().len();
        let passed = text.get(counted..from).unwrap_or_default();
        line += passed.matches('\n').count();
        counted = from;
        let Some(object) = objects.next() else { break };
        let object = object.map_err(|e| not_json(&e).at(e.line()))?;
        let (own, figures) = read_object(object).map_err(|kind| kind.at(line))?;
        match &kind {
            Some(kind) if *kind != own => {
                return Err(InputFault::Mixed(own, kind.clone()).at(line));
            }
            _ => kind = Some(own),
        }
        all.push((line, figures));
    }
    let kind = kind.ok_or_else(|| InputFault::Empty.in_file())?;
    let runs = runs(&kind, &all, stem);
    let count = all.len();
    let accounts = if kind == ACCOUNT { count } else { 0 };
    Ok(MeasuredFile {
        runs,
        count,
        figures: Some((
            kind,
            combine(all.into_iter().flat_map(|(_, figures)| figures), accounts),
        )),
    })
}

fn not_json(error: &serde_json::Error) -> InputFault {
    let text = error.to_string();
    let reason = text.split(" at line ").next().unwrap_or_default();
    InputFault::NotJson(reason.to_owned())
}

/// The subcommand that printed an object, and its figures.
fn read_object(mut object: Value) -> Result<(String, Vec<Figure>), InputFault> {
    let schema = object["schema"].as_str().ok_or(InputFault::NoSchema)?;
    let command = schema.strip_prefix("fathom.");
    let command = command.and_then(|command| command.strip_suffix("/1"));
    let is_name = |name: &&str| name.bytes().all(|byte| byte.is_ascii_lowercase());
    let Some(command) = command.filter(is_name).map(str::to_owned) else {
        return Err(InputFault::OtherSchema(schema.to_owned()));
    };
    match object.get_mut("figures").map(Value::take) {
        None => Err(InputFault::NoFigures(command)),
        Some(figures) => match serde_json::from_value(figures) {
            Ok(figures) => Ok((command, figures)),
            Err(error) => Err(not_json(&error)),
        },
    }
}

/// The runs of the objects in a file, one system per object.
fn runs(kind: &str, objects: &[(usize, Vec<Figure>)], stem: &[u8]) -> Result<Runs, Error> {
    let mut runs = Runs::new(kind);
    for (line, figures) in objects {
        let (system, took) = took(figures, stem).map_err(|kind| kind.at(*line))?;
        let (names, took) = took.into_iter().unzip();
        let system = System {
            name: system.to_vec(),
            line: *line,
            took,
            ..System::default()
        };
        runs.add(Runs {
            names,
            systems: vec![system],
            ..Runs::new(kind)
        });
    }
    // Number the systems of a file with several runs, to tell them apart. A single run keeps the
    // name of its system, because a system may have one file per NAME.
    if runs.systems.len() > 1 {
        for (at, system) in runs.systems.iter_mut().enumerate() {
            system.name.extend(format!(":{}", at + 1).bytes());
        }
    }
    Ok(runs)
}

/// The name of a system, and the measurements of each program on it.
type NamedTimes<'a> = (&'a [u8], Vec<(String, MeasureValues)>);

fn took<'a>(figures: &[Figure], stem: &'a [u8]) -> Result<NamedTimes<'a>, InputFault> {
    let value = |name: &str| {
        let mut named = figures.iter().filter(|figure| figure.name == name);
        named.next().map(|figure| figure.value)
    };
    let took = |prefix: &str| {
        let value = |measure: Measure| value(&format!("{prefix}{}", measure.name()));
        Measure::ALL.map(|measure| value(measure).filter(|value| is_plausible(*value)))
    };
    let single = took("");
    if single[Measure::Real as usize].is_some() {
        let (system, name) = split(stem).ok_or(InputFault::NoName)?;
        let name = String::from_utf8_lossy(name).into_owned();
        return Ok((system, vec![(name, single)]));
    }
    let names = figures.iter();
    let names = names.filter_map(|figure| figure.name.strip_suffix(" real"));
    let took: Vec<_> = names
        .map(|name| (name.to_owned(), took(&format!("{name} "))))
        .collect();
    match took.is_empty() {
        true => Err(InputFault::NoRun),
        false => Ok((stem, took)),
    }
}

/// Splits a file name `SYSTEM.NAME` at its last dot.
fn split(stem: &[u8]) -> Option<(&[u8], &[u8])> {
    let (system, name) = match stem.iter().rposition(|byte| *byte == b'.') {
        Some(dot) => (stem.get(..dot)?, stem.get(dot + 1..)?),
        None => (UNSAID, stem),
    };
    (!system.is_empty() && !name.is_empty() && name != UNSAID).then_some((system, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MOUNTS: &str = r#"{"schema":"fathom.mounts/1","result":{},"figures":[
        {"name":"naive real","value":4.0,"unit":"s","spread":0.5},{"name":"naive user","value":2.0,"unit":"s"},
        {"name":"naive sys","value":1.0,"unit":"s","spread":null},{"name":"naive calls","value":80,"unit":"calls","spread":0},
        {"name":"search real","value":2.0,"unit":"s"},{"name":"search sys","value":0.5,"unit":"s"},
        {"name":"search calls","value":8,"unit":"calls"}]}"#;

    fn runs(text: &str, file: &[u8]) -> Result<Runs, Error> {
        parse(text, file)?.runs
    }

    #[test]
    fn what_was_compared_on_one_system_is_a_row() {
        let runs = runs(MOUNTS, b"web1.example.org.json").unwrap();
        assert_eq!(
            (&runs.kind[..], &runs.names[..]),
            ("mounts", &["naive".to_owned(), "search".to_owned()][..])
        );
        assert_eq!(runs.systems[0].name, b"web1.example.org");
        assert_eq!(
            runs.systems[0].took,
            [
                [Some(4.0), Some(2.0), Some(1.0), Some(80.0)],
                [Some(2.0), None, Some(0.5), Some(8.0)]
            ]
        );
    }

    #[test]
    fn several_objects_in_a_file_are_several_rows() {
        let file = parse(&format!("{MOUNTS}\n\n{MOUNTS}"), b"all.json").unwrap();
        let runs = file.runs.unwrap();
        let rows: Vec<_> = runs
            .systems
            .iter()
            .map(|system| (&system.name[..], system.line))
            .collect();
        assert_eq!(rows, [(&b"all:1"[..], 1), (b"all:2", 7)]);
        // The figures of both objects are combined into one list.
        let (_, figures) = file.figures.unwrap();
        assert_eq!((figures.len(), figures[0].spread), (7, Some(0.0)));
    }

    #[test]
    fn a_system_call_that_a_run_lacks_occurred_0_times() {
        let run = |more: &str| {
            format!(
                r#"{{"schema":"fathom.account/1","figures":[{{"name":"real","value":1,"unit":"s"}}{more}]}}"#
            )
        };
        let call = r#",{"name":"flock calls","value":4,"unit":"calls"}"#;
        let text = [run(""), run(call), run("")].join("\n");
        let (_, figures) = parse(&text, b"a.json").unwrap().figures.unwrap();
        let flock = figures.iter().find(|it| it.name == "flock calls").unwrap();
        assert_eq!((flock.value, flock.spread), (0.0, Some(4.0)));
        // Other commands do not list all system calls.
        let text = text.replace("account", "walk");
        let (_, figures) = parse(&text, b"a.json").unwrap().figures.unwrap();
        let flock = figures.iter().find(|it| it.name == "flock calls").unwrap();
        assert_eq!((flock.value, flock.spread), (4.0, None));
    }

    #[test]
    fn one_run_is_called_as_its_file_is() {
        let text = r#"{"schema":"fathom.account/1","figures":[{"name":"real","value":1.5,"unit":"s"},
            {"name":"user","value":0.5,"unit":"s"},{"name":"calls","value":8,"unit":"calls"},
            {"name":"read real","value":8,"unit":"s"}]}"#;
        let run = runs(text, b"web1.example.org.before.json").unwrap();
        assert_eq!(
            (&run.kind[..], &run.names[..]),
            ("account", &["before".to_owned()][..])
        );
        assert_eq!(run.systems[0].name, b"web1.example.org");
        assert_eq!(
            run.systems[0].took,
            [[Some(1.5), Some(0.5), None, Some(8.0)]]
        );
        let run = runs(text, b"before.json").unwrap();
        assert_eq!(
            (&run.names[..], &run.systems[0].name[..]),
            (&["before".to_owned()][..], &b"-"[..])
        );
        // Without a NAME there are no ratios, but the figures can be compared.
        for nameless in [&b".json"[..], b"web1..json", b".before.json", b"-"] {
            let file = parse(text, nameless).unwrap();
            assert_eq!(file.runs.unwrap_err().kind, InputFault::NoName);
            assert_eq!(file.figures.unwrap().1.len(), 4);
        }
    }

    #[test]
    fn file_without_figures_is_refused() {
        let wrong = |text: &str| parse(text, b"a.json").unwrap_err().to_string();
        assert_eq!(wrong(" "), "the file is empty");
        assert_eq!(
            wrong("{}"),
            "line 1: JSON without a schema: not written by fathom"
        );
        assert!(wrong("{\n\"schema\": 1,,").starts_with("line 2: not JSON"));
        assert!(wrong(&MOUNTS[..200]).contains("not JSON"), "cut off");
        assert_eq!(
            wrong(r#"{"schema":"fathom.walk/1","result":{"compare":null}}"#),
            "line 1: no figures in this JSON of fathom walk"
        );
        assert_eq!(
            wrong("{\"schema\":\"fathom.x\u{7f}/1\"}"),
            "line 1: unsupported schema fathom.x\\u{7f}/1"
        );
        for damaged in [
            "null",
            "3",
            "[3]",
            r#"[{"name":"real"}]"#,
            r#"[{"name":3,"value":1,"unit":"s"}]"#,
            r#"[{"name":"real","value":1e999,"unit":"s"}]"#,
        ] {
            let text = format!(r#"{{"schema":"fathom.walk/1","figures":{damaged}}}"#);
            assert!(wrong(&text).contains("not JSON"), "{damaged}");
        }
        let both = format!("{MOUNTS}\n{}", MOUNTS.replace("mounts", "walk"));
        assert_eq!(
            wrong(&both),
            "line 6: this object is of fathom walk, those before it of fathom mounts"
        );
        let no_run = r#"{"schema":"fathom.survey/1","figures":[]}"#;
        assert_eq!(runs(no_run, b"a.json").unwrap_err().kind, InputFault::NoRun);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC*", more in "[{}\\[\\]\",:a-z0-9 \n]*") {
            let _ = parse(&text, b"a.b.json");
            let _ = parse(&more, text.as_bytes());
        }

        #[test]
        fn no_figures_make_it_panic(name in "(a )?(real|calls)|", value in -1e308..1e308, spread in prop::option::of(-1e308..1e308)) {
            let figure = serde_json::json!({"name": name, "value": value, "unit": "s", "spread": spread});
            let text = serde_json::json!({"schema": "fathom.walk/1", "figures": [figure]}).to_string();
            let (_, figures) = parse(&text, b"a.json").unwrap().figures.unwrap();
            crate::figures::compare(&figures, &figures);
        }
    }
}
