//! Tests that the tables of the papers follow from their data.

use super::*;

const MEASURES: [&str; 3] = ["real", "user", "sys"];

#[test]
fn figures_7_and_10_have_their_means() {
    for (number, of, to, systems, means) in [
        (7, "getmnt1", "getmnt2", 40, ["10.38", "13.10", "5.03"]),
        (10, "getmnt2", "getmnt3", 37, ["3.72", "3.65", "3.08"]),
    ] {
        let value = compare_json(&[&figure(number)]);
        let ratio = ratio(&value, of);
        assert_eq!(
            (&ratio["to"], &ratio["systems"]),
            (&to.into(), &systems.into())
        );
        for (measure, mean) in MEASURES.iter().zip(means) {
            assert_eq!(
                format!("{:.2}", ratio[measure]["mean"].as_f64().unwrap()),
                mean,
                "Figure {number}, {measure}"
            );
            assert_eq!(
                format!("{:.2}", ratio["printed"][measure]["mean"].as_f64().unwrap()),
                mean,
                "as it is printed"
            );
        }
        let text = compare(&[&figure(number)]).exits(0);
        for (measure, mean) in MEASURES.iter().zip(means) {
            let begins = |line: &&str| line.split_whitespace().take(2).eq([*measure, mean]);
            assert_eq!(
                text.lines().iter().filter(|line| begins(line)).count(),
                1,
                "{text}"
            );
        }
    }
}

#[test]
fn each_ratio_equals_the_printed_one_after_rounding() {
    for number in [7, 10] {
        let value = compare_json(&[&figure(number)]);
        let comparison = &value["result"]["comparisons"][0];
        let systems = comparison["systems"].as_array().unwrap();
        let each = comparison["ratios"][0]["each"].as_array().unwrap();
        assert_eq!(systems.len(), each.len());
        for (system, ours) in systems.iter().zip(each) {
            for measure in MEASURES {
                let (ours, printed) = (
                    ours[measure].as_f64().unwrap(),
                    system["printed"][measure].as_f64().unwrap(),
                );
                assert!(
                    (ours - printed).abs() <= 0.011,
                    "{measure} of {system}: {ours}"
                );
            }
        }
    }
}

#[test]
fn the_rows_are_those_of_the_figure() {
    let text = compare(&[&figure(7)]).exits(0);
    let row = |row: &str| {
        text.lines()
            .iter()
            .any(|line| line.split_whitespace().eq(row.split_whitespace()))
    };
    assert!(
        row("S16 764.03 7.76 43.76 106.06 0.68 8.06 7.20 11.41 5.43"),
        "{text}"
    );
    assert!(
        row("SYSTEM getmnt1 real user sys getmnt2 real user sys ratio real user sys"),
        "{text}"
    );
    assert!(
        row("Time mean median max min std_dev AVG getmnt1 AVG getmnt2"),
        "{text}"
    );
    let summary = run(&mut fathom(args!["compare", "--summary", figure(7)])).exits(0);
    assert!(
        !summary.lines().iter().any(|line| line.starts_with("S16")),
        "{summary}"
    );
    let meaning =
        "Times in seconds. Ratios are getmnt1 divided by getmnt2: above 1, getmnt1 takes longer.";
    assert_eq!(summary.lines()[1], meaning);
    assert_eq!(summary.lines().len(), 11, "{summary}");
}

#[test]
fn two_figures_are_two_tables() {
    let value = compare_json(&[&figure(7), &figure(10)]);
    let comparisons = value["result"]["comparisons"].as_array().unwrap();
    let bases: Vec<&Value> = comparisons
        .iter()
        .map(|comparison| &comparison["base"])
        .collect();
    assert_eq!(bases, ["getmnt2", "getmnt3"]);
    // Both figures have getmnt2. With it as the base, the second table is inverted.
    let value = run(&mut fathom(args![
        "compare",
        "--json",
        "--base",
        "getmnt2",
        figure(7),
        figure(10)
    ]))
    .json();
    assert_eq!(
        value["result"]["comparisons"][1]["ratios"][0]["of"],
        "getmnt3"
    );
}

#[test]
fn one_figure_twice_has_the_same_mean() {
    let value = compare_json(&[&figure(7), &figure(7)]);
    let ratio = ratio(&value, "getmnt1");
    assert_eq!(
        (
            ratio["systems"].as_u64(),
            format!("{:.2}", ratio["real"]["mean"].as_f64().unwrap())
        ),
        (Some(80), "10.38".into())
    );
}
