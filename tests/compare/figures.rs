//! Tests of comparing two files of one command, figure by figure.

use std::ffi::OsString;

use serde_json::json;

use super::*;
use crate::support::build::bush;

fn kept(dir: &tempfile::TempDir, name: &str, value: &Value) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, value.to_string()).unwrap();
    path
}

/// The names of the figures with a verdict.
fn named<'a>(value: &'a Value, verdict: &str) -> Vec<&'a str> {
    let figures = value["result"]["figures"].as_array();
    let figures = figures
        .unwrap_or_else(|| panic!("no figures: {value}"))
        .iter();
    let figures = figures.filter(|it| it["verdict"] == verdict);
    figures.map(|it| it["name"].as_str().unwrap()).collect()
}

#[test]
fn each_command_that_measures_has_figures() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    bush(&tree, 2, 3);
    let walked = dir.path().join("paths");
    let commands: [Vec<OsString>; 8] = [
        args!["survey", &tree, "--no-page", "--limit", "1s", "--json"].into(),
        args!["probe", &tree, "block", "gates", "--json"].into(),
        args!["account", "--json", "true"].into(),
        args!["pathsearch", "--json", "true"].into(),
        args![
            "pathwalk", &walked, "-c", "-t", "-r", "-f", "10", "--repeat", "3", "--json"
        ]
        .into(),
        args!["walk", &tree, "--json"].into(),
        args!["walk", &tree, "--compare", "--trials", "3", "--json"].into(),
        args!["mounts", &tree, "--compare", "--trials", "3", "--json"].into(),
    ];
    for command in commands {
        let value = run(&mut fathom(&command)).json();
        let figures = value["figures"].as_array().unwrap();
        let names: Vec<&Value> = figures.iter().map(|it| &it["name"]).collect();
        let different: std::collections::BTreeSet<String> =
            names.iter().map(|name| name.to_string()).collect();
        assert!(figures.len() > 2, "{command:?}");
        assert_eq!(names.len(), different.len(), "{command:?}: {names:?}");
        let file = kept(&dir, "a.json", &value);
        // A file does not differ from itself.
        let same = compare_json(&[&file, &file]);
        assert_eq!(
            named(&same, "unchanged").len(),
            figures.len(),
            "{command:?}"
        );
        // Ten times the value is a change, if the spread is known and smaller than the difference,
        // or if the figure is a number of calls that grows by more than 10.
        let mut exact = value.clone();
        let members = exact["figures"].as_array_mut().unwrap().iter_mut();
        let known = members.filter(|it| !it["spread"].is_null());
        known.for_each(|it| it["spread"] = 0.into());
        let mut more = exact.clone();
        for figure in more["figures"].as_array_mut().unwrap() {
            figure["value"] = (10.0 * figure["value"].as_f64().unwrap()).into();
        }
        let is_changed = |it: &&Value| {
            let value = it["value"].as_f64().unwrap();
            let are_calls = it["unit"] == "calls" && it["spread"].is_null();
            it["spread"] == 0 && value != 0.0 || are_calls && 9.0 * value > 10.0
        };
        let members = exact["figures"].as_array().unwrap().iter();
        let expected = members.filter(is_changed).count();
        let (exact, more) = (kept(&dir, "a.json", &exact), kept(&dir, "b.json", &more));
        let value = compare_json(&[&exact, &more]);
        let changed = named(&value, "changed").len();
        assert_eq!(changed, expected, "{command:?}: {value}");
        assert!(named(&value, "missing").is_empty());
    }
}

#[test]
fn the_difference_of_two_surveys() {
    let survey = |figures: Value| json!({"schema": "fathom.survey/1", "result": {}, "figures": figures, "gates": {}, "warnings": []});
    let dir = tempfile::tempdir().unwrap();
    let figure = |name: &str, value: f64, unit: &str, spread: Option<f64>| json!({"name": name, "value": value, "unit": unit, "spread": spread});
    let old = survey(json!([
        figure("walk by threads: seconds per entry", 1e-6, "s", Some(1e-7)),
        figure("walk by threads: calls per entry", 2.0, "calls", Some(0.0)),
        figure("statx (a file), warm", 4.0e-7, "s", Some(2e-8)),
        figure(
            "fsync (after one byte was written), warm",
            3.8e-4,
            "s",
            None
        ),
        figure("mounts", 30.0, "", Some(0.0)),
        figure("walk by ext4: calls per entry", 0.1, "calls", Some(0.0)),
    ]));
    let new = survey(json!([
        figure("walk by threads: seconds per entry", 4e-6, "s", Some(1e-7)),
        figure(
            "walk by threads: calls per entry",
            2.001,
            "calls",
            Some(0.0)
        ),
        figure("statx (a file), warm", 4.5e-7, "s", Some(5e-8)),
        figure(
            "fsync (after one byte was written), warm",
            9.6e-3,
            "s",
            None
        ),
        figure("mounts", 29.0, "", Some(0.0)),
    ]));
    let (old, new) = (kept(&dir, "old.json", &old), kept(&dir, "new.json", &new));
    let value = run(&mut fathom(args!["compare", "--json", &old, &new]))
        .exits(0)
        .json();
    assert_eq!(
        named(&value, "changed"),
        ["walk by threads: seconds per entry", "mounts"]
    );
    // The time of calls that wait for a disk also depends on other programs.
    assert_eq!(
        named(&value, "unknown"),
        ["fsync (after one byte was written), warm"]
    );
    assert_eq!(named(&value, "missing"), ["walk by ext4: calls per entry"]);
    assert_eq!(value["result"]["figures"][0]["ratio"], 4.0);
    assert_eq!(value["result"]["comparisons"], json!([]));
    let text = String::from_utf8(compare(&[&old, &new]).exits(0).stdout).unwrap();
    for part in [
        "2 changed",
        "\nChanged by more than the spread\n",
        " walk by threads: seconds per entry\n",
        "\nIn one file only\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("statx"), "{text}");
    let all = run(&mut fathom(args!["compare", "-v", &old, &new])).exits(0);
    assert!(String::from_utf8(all.stdout).unwrap().contains("statx"));
    // Ratios need times of programs.
    let ran = compare(&[&old, &old, &new]).refused();
    assert!(
        ran.stderr.contains("compare two files of this command"),
        "{ran}"
    );
    let page = dir.path().join("page.html");
    run(&mut fathom(args!["compare", &old, &new, "--html", &page])).exits(0);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("statx (a file), warm"), "{page}");
}

#[test]
fn new_system_call_of_an_account_is_a_change() {
    let dir = tempfile::tempdir().unwrap();
    let figure = |name: &str, value: f64, unit: &str| json!({"name": name, "value": value, "unit": unit, "spread": null});
    let account = |figures: Value| json!({"schema": "fathom.account/1", "result": {}, "figures": figures, "gates": {}, "warnings": []});
    let old = account(json!([
        figure("real", 1.0, "s"),
        figure("read calls", 50.0, "calls")
    ]));
    let new = account(json!([
        figure("real", 1.0, "s"),
        figure("read calls", 50.0, "calls"),
        figure("fsync calls", 300.0, "calls"),
        figure("fsync seconds", 0.5, "s"),
        figure("directory /d calls", 300.0, "calls"),
        figure("program /p calls", 300.0, "calls"),
    ]));
    let (old, new) = (kept(&dir, "old.json", &old), kept(&dir, "new.json", &new));
    let value = compare_json(&[&old, &new]);
    assert_eq!(named(&value, "changed"), ["fsync calls"]);
    assert_eq!(named(&value, "unknown"), ["fsync seconds"]);
    assert_eq!(named(&value, "missing"), ["directory /d calls"]);
    let fsync = &value["result"]["figures"][0];
    assert_eq!(
        (&fsync["old"], &fsync["new"], &fsync["ratio"]),
        (&json!(0.0), &json!(300.0), &Value::Null)
    );
    // The figure of a call that no longer occurs is 0.
    let value = compare_json(&[&new, &old]);
    assert_eq!(named(&value, "changed"), ["fsync calls"]);
    assert_eq!(value["result"]["figures"][0]["ratio"], 0.0);
}

#[test]
fn survey_diff_is_refused_with_a_hint() {
    let ran = run(&mut fathom(args![
        "survey", "--diff", "old.json", "new.json"
    ]))
    .refused();
    assert!(
        ran.stderr.contains("fathom compare old.json new.json"),
        "{ran}"
    );
}

#[test]
fn damaged_figures_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let good = kept(
        &dir,
        "good.json",
        &json!({"schema": "fathom.survey/1", "figures": []}),
    );
    let deep = dir.path().join("deep");
    std::fs::write(&deep, "[".repeat(100_000)).unwrap();
    let empty = dir.path().join("empty");
    std::fs::write(&empty, "").unwrap();
    let other = json!({"schema": "fathom.walk\u{1b}[31m/1", "result": {}});
    let hollow = json!({"schema": "fathom.survey/1", "figures": [{"name": "\u{1b}[31m"}]});
    for bad in [
        deep,
        empty,
        kept(&dir, "other.json", &other),
        kept(&dir, "hollow.json", &hollow),
        dir.path().join("missing"),
        dir.path().to_owned(),
    ] {
        for (one, two) in [(&bad, &good), (&good, &bad)] {
            let ran = compare(&[one, two]).refused();
            assert!(!ran.stderr.contains('\u{1b}'), "{ran}");
        }
    }
    let value = compare_json(&[&good, &good]);
    assert_eq!(value["result"]["figures"], json!([]));
}

#[test]
fn two_accounts_are_compared_call_by_call() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir(at("few")).unwrap();
    std::fs::create_dir(at("many")).unwrap();
    std::fs::create_dir(at("x")).unwrap();
    (0..30).for_each(|n| std::fs::write(at("many").join(n.to_string()), "x").unwrap());
    let account = |listed: &str, report: &str| {
        let words = args![
            "account",
            "--json",
            "-o",
            at(report),
            "ls",
            "-l",
            at(listed)
        ];
        run(&mut fathom(words)).exits(0);
        serde_json::from_slice::<Value>(&std::fs::read(at(report)).unwrap()).unwrap()
    };
    let (old, new) = (account("few", "old.json"), account("many", "new.json"));
    let value = compare_json(&[&at("old.json"), &at("new.json")]);
    let rows = value["result"]["figures"].as_array().unwrap();
    let row = |name: &str| {
        let mut rows = rows.iter();
        rows.find(|row| row["name"] == name)
            .unwrap_or_else(|| panic!("{name}: {value}"))
    };
    let calls = |value: &Value, name: &str| value["result"]["gates"][name]["calls"].as_f64();
    let names = ["openat", "statx", "lgetxattr", "getxattr", "read"];
    for name in names.iter().filter(|name| calls(&new, name).is_some()) {
        let row = row(&format!("{name} calls"));
        // A call that a report lacks occurred 0 times.
        let expected = [&old, &new].map(|value| calls(value, name).or(Some(0.0)));
        assert_eq!(
            [row["old"].as_f64(), row["new"].as_f64()],
            expected,
            "{name}"
        );
    }
    let many = row(&format!("directory {} calls", at("many").display()));
    assert!(
        many["old"].is_null() && many["new"].as_f64() >= Some(30.0) && many["verdict"] == "missing",
        "{many}"
    );
    let text = compare(&[&at("old.json"), &at("new.json")]);
    let text = String::from_utf8(text.stdout).unwrap();
    for part in [
        "old/new",
        "\nFrom ",
        "\nDifferent, spread unknown\n",
        " calls\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Two files with the same NAME have no ratio, but their figures are compared.
    std::fs::rename(at("new.json"), at("x/old.json")).unwrap();
    let value = compare_json(&[&at("old.json"), &at("x/old.json")]);
    assert_eq!(value["result"]["comparisons"], json!([]));
    assert!(!named(&value, "unknown").is_empty());
    // Several runs in a file have a spread, and ratios have confidence intervals.
    let one = std::fs::read_to_string(at("old.json")).unwrap();
    let other = std::fs::read_to_string(at("x/old.json")).unwrap();
    std::fs::write(at("a.json"), one.repeat(3)).unwrap();
    std::fs::write(at("b.json"), other.repeat(3)).unwrap();
    let value = compare_json(&[&at("a.json"), &at("b.json")]);
    assert!(named(&value, "unknown").is_empty(), "{value}");
    assert!(named(&value, "changed").contains(&"calls"), "{value}");
    assert!(ratio(&value, "a")["interval"]["calls"].is_array());
}
