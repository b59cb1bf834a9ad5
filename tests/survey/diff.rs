//! `--diff`: what has changed from one survey to another.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::survey;
use crate::support::build::{bush, tmpfs};
use crate::support::run::{Ran, args};
use crate::support::{Need, fathom, in_namespace, require, run};

fn kept(at: PathBuf, value: &Value) -> PathBuf {
    fs::write(&at, value.to_string()).unwrap();
    at
}

fn diff(old: &Path, new: &Path) -> Ran {
    run(&mut fathom(args!["survey", "--diff", old, new, "--json"]))
}

#[test]
fn difference_of_two_surveys() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let root = tmpfs(ground.join("root"));
            bush(&root, 3, 3);
            tmpfs(root.join("d0/inner"));
            let mut value = run(&mut survey(args![&root, "--json"])).exits(0).json();
            let old = kept(ground.join("old.json"), &value);
            let same = diff(&old, &old).exits(0).json();
            assert_eq!(same["result"]["changes"], json!([]));
            assert!(same["result"]["compared"].as_u64().unwrap() > 30, "{same}");

            value["result"]["mounts"]["mounts"]
                .as_array_mut()
                .unwrap()
                .pop();
            for engine in value["result"]["walk"]["compare"]["engines"]
                .as_array_mut()
                .unwrap()
            {
                // Beyond the noise of trials even on a loaded machine.
                const SLOWER: f64 = 1e6;
                let seconds = SLOWER * engine["real"]["median"].as_f64().unwrap();
                for member in ["median", "min", "max", "mean"] {
                    engine["real"][member] = seconds.into();
                }
            }
            value["result"]["machine"]["kernel"] = "99.0".into();
            let new = kept(ground.join("new.json"), &value);
            let ran = diff(&old, &new).exits(1);
            let changed = ran.json();
            let engines = value["result"]["walk"]["compare"]["engines"]
                .as_array()
                .unwrap()
                .len();
            assert_eq!(changed["result"]["worse"], 1 + engines, "{ran}");
            assert_eq!(changed["result"]["other"], 1);
            assert_eq!(changed["warnings"].as_array().unwrap().len(), 1 + engines);
            // The other way round all of it is better, or otherwise.
            let back = diff(&new, &old).exits(0).json();
            assert_eq!(
                (&back["result"]["worse"], &back["result"]["better"]),
                (&0.into(), &engines.into())
            );
            let text = run(&mut fathom(args!["survey", "--diff", &old, &new])).exits(1);
            let text = String::from_utf8(text.stdout).unwrap();
            assert!(
                text.starts_with("Worse\n") && text.contains("99.0") && text.contains("the mount"),
                "{text}"
            );
        });
    }
}

#[test]
fn files_that_are_no_surveys_are_refused() {
    let ground = tempfile::tempdir().unwrap();
    let at = |name: &str| ground.path().join(name);
    let good = kept(
        at("good"),
        &json!({"schema": "fathom.survey/1", "result": {"root": "/"}}),
    );
    let deep = at("deep");
    fs::write(&deep, "[".repeat(100_000)).unwrap();
    let empty = at("empty");
    fs::write(&empty, "").unwrap();
    let other = kept(
        at("other"),
        &json!({"schema": "fathom.walk/1\u{1b}[31m", "result": {}}),
    );
    let hollow = kept(
        at("hollow"),
        &json!({"schema": "fathom.survey/1", "result": null}),
    );
    for bad in [
        &deep,
        &empty,
        &other,
        &hollow,
        &at("missing"),
        &ground.path().to_owned(),
    ] {
        for (one, two) in [(bad, &good), (&good, bad)] {
            let ran = diff(one, two).refused();
            assert!(!ran.stderr.contains('\u{1b}'), "{ran}");
        }
    }
    // One of an older version has fewer sections.
    let ran = diff(&good, &good).exits(0);
    assert_eq!(ran.json()["result"]["changes"], json!([]));
}

#[test]
fn malformed_members_are_not_compared() {
    let ground = tempfile::tempdir().unwrap();
    let at = |name: &str| ground.path().join(name);
    let old = json!({"schema": "fathom.survey/1", "result": {
        "root": "/", "machine": [], "mounts": {"mounts": [1, null, {"target": 3}], "compare": {"methods": "x"}},
        "walk": {"compare": {"engines": [{"engine": "threads", "entries": -1, "real": {"median": 1e308, "min": "x"}}]}},
        "gates": {"prices": [{"gate": "statx", "what": "x", "state": "warm", "threads": 1, "ns": 0, "low": 0, "high": 0}]},
    }});
    let mut new = old.clone();
    new["result"]["gates"]["prices"][0]["high"] = json!(1e308);
    new["result"]["walk"]["compare"]["engines"][0]["entries"] = json!(1e308);
    let (old, new) = (kept(at("old"), &old), kept(at("new"), &new));
    diff(&old, &new).exits(0).json();
}
