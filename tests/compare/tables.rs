//! Tests of CSV tables in their usual variants.

use super::*;

#[test]
fn three_programs_are_compared_with_the_last_or_another() {
    let (_dir, path) = file("runs.csv", "host,a_real,b_real,c_real\nx,8,4,2\ny,6,4,1\n");
    let value = compare_json(&[&path]);
    let mean = |value: &Value, of| ratio(value, of)["real"]["mean"].as_f64().unwrap();
    assert_eq!((mean(&value, "a"), mean(&value, "b")), (5.0, 3.0));
    let value = run(&mut fathom(args!["compare", "--json", "--base", "a", path])).json();
    assert_eq!(value["result"]["comparisons"][0]["base"], "a");
    assert_eq!(
        (mean(&value, "b"), mean(&value, "c")),
        ((0.5 + 4.0 / 6.0) / 2.0, (0.25 + 1.0 / 6.0) / 2.0)
    );
}

#[test]
fn the_statistics_are_those_of_a_sample() {
    let rows: String = [2, 4, 4, 4, 5, 5, 7, 9]
        .map(|real| format!("{real},1\n"))
        .concat();
    let (_dir, path) = file("runs.csv", format!("a_real,b_real\n{rows}"));
    let stats = &ratio(&compare_json(&[&path]), "a")["real"].clone();
    let of = |key: &str| stats[key].as_f64().unwrap();
    assert_eq!(
        (of("mean"), of("median"), of("max"), of("min")),
        (5.0, 4.5, 9.0, 2.0)
    );
    assert!((of("std_dev") - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
}

#[test]
fn one_row_is_enough() {
    let (_dir, path) = file("runs.csv", "a_real,b_real\n6,2");
    let value = compare_json(&[&path]);
    assert_eq!(
        ratio(&value, "a")["real"],
        serde_json::json!({"mean": 3.0, "median": 3.0, "max": 3.0, "min": 3.0, "std_dev": 0.0})
    );
    let system = &value["result"]["comparisons"][0]["systems"][0];
    assert_eq!(
        (&system["system"], &system["line"]),
        (&"runs".into(), &2.into())
    );
}

#[test]
fn zero_and_missing_times_are_skipped_with_a_warning() {
    let rows = "S1,4,1,1,2,0,1\nS2,6,,1,2,1,1\nS3,8,3,1,2,1,0\nS4,9,0,1,3,0,1\n";
    let (_dir, path) = file(
        "runs.csv",
        format!("host,a_real,a_user,a_sys,b_real,b_user,b_sys\n{rows}"),
    );
    let ran = compare(&[&path]).exits(1);
    let says = |what: &str| assert!(ran.stderr.contains(what), "{what}: {ran}");
    says("line 3: no value for a_user; skipped in the ratios");
    says("line 2: on S1 (and 1 system more) a or b has 0 for user; skipped in a/b");
    says("line 4: on S3 a or b has 0 for sys");
    // The two warnings about zeros share a hint.
    assert_eq!(ran.stderr.lines().count(), 4, "{ran}");
    let value = compare_json(&[&path]);
    let ratio = ratio(&value, "a");
    assert_eq!(
        (
            &ratio["real"]["mean"],
            &ratio["user"]["mean"],
            &ratio["sys"]["mean"]
        ),
        (&3.0.into(), &3.0.into(), &1.0.into())
    );
    assert_eq!(
        (
            &ratio["systems"],
            &ratio["each"][0]["user"],
            &ratio["each"][1]["user"]
        ),
        (&4.into(), &Value::Null, &Value::Null)
    );
}

#[test]
fn csv_of_a_spreadsheet_is_read() {
    let text = "\u{feff}\"host\",\"size, GB\",\"a_real\",\"b_real\",\"last_user\"\r\n\"web\"\"1\"\"\",\"1,5\",\"4\",\"2\",root\r\n\r\n";
    let (_dir, path) = file("runs.csv", text);
    let value = compare_json(&[&path]);
    let system = &value["result"]["comparisons"][0]["systems"][0];
    assert_eq!(
        (&system["system"], &system["labels"][0]["cell"]),
        (&"web\"1\"".into(), &"1,5".into())
    );
    assert_eq!(ratio(&value, "a")["real"]["mean"], 2.0);
    let text = compare(&[&path]).exits(0);
    assert!(
        text.lines().iter().any(|line| line
            .split_whitespace()
            .eq("web\"1\" 1,5 root 4.00 2.00 2.00".split(' '))),
        "{text}"
    );
}

#[test]
fn control_characters_are_escaped() {
    let (_dir, path) = file(
        "runs.csv",
        "host,\x1b[2J_real,b_real\n\x1b[31mred\u{202e},4,2\n",
    );
    for ran in [
        compare(&[&path]).exits(0),
        run(fathom(["compare", "--base", "\x1b[1m"]).arg(&path)).refused(),
    ] {
        assert!(
            !String::from_utf8_lossy(&ran.stdout).contains('\x1b') && !ran.stderr.contains('\x1b'),
            "{ran}"
        );
    }
}

#[test]
fn thousands_of_rows() {
    let rows: String = (1..=20_000)
        .map(|row| format!("host{row},{}.5,1.25\n", row % 1000))
        .collect();
    let (dir, path) = file("runs.csv", format!("host,a_real,b_real\n{rows}"));
    let page = dir.path().join("page.html");
    let ran = run(&mut fathom(args!["compare", path, "--html", page])).exits(0);
    assert_eq!(ran.lines().len(), 20_000 + 8, "{}", ran.stderr);
    let expected = (0..1000).map(|row| f64::from(row) + 0.5).sum::<f64>() / 1000.0 / 1.25;
    let mean = ratio(&compare_json(&[&path]), "a")["real"]["mean"]
        .as_f64()
        .unwrap();
    assert!((mean - expected).abs() < 1e-6, "{mean} {expected}");
    // The table of the page has all systems, and the figure does not grow with their number.
    let page = std::fs::read_to_string(page).unwrap();
    assert_eq!(page.matches("<tr><th scope=\"row\"").count(), 20_001);
    assert!(page.matches("<circle").count() < 5000);
}

#[test]
fn files_of_many_machines_are_one_table() {
    let dir = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for (host, text) in [
        ("web1", "a_real,b_real\n4,2\n"),
        ("web2", "b_real,a_real\n2,6\n"),
    ] {
        files.push(dir.path().join(format!("{host}.csv")));
        std::fs::write(files.last().unwrap(), text).unwrap();
    }
    let value = compare_json(&[&files[0], &files[1]]);
    let systems = value["result"]["comparisons"][0]["systems"]
        .as_array()
        .unwrap();
    let names: Vec<&Value> = systems.iter().map(|system| &system["system"]).collect();
    assert_eq!(names, ["web1", "web2"]);
    assert_eq!(ratio(&value, "a")["real"]["mean"], 2.5);
}
