//! Tests of the command line and of the tables.

use crate::support::restrict::fathom_as_nobody;
use crate::support::run::args;
use crate::support::{Need, fathom, in_namespace, require, run};

#[test]
fn warning_has_the_errno_once_and_a_hint() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let ran = run(&mut fathom_as_nobody(
                base,
                args!["probe", base, "readahead"],
            ))
            .exits(1);
            let lines: Vec<&str> = ran.stderr.lines().collect();
            let refused =
                "readahead: cannot create a temporary file: Permission denied (os error 13)";
            assert_eq!(
                lines[0],
                format!("fathom: '{}': {refused}", base.display()),
                "{ran}"
            );
            assert_eq!(
                lines[1..],
                ["hint: give a directory that you can enter and write to"],
                "{ran}"
            );
        });
    }
}

#[test]
fn an_experiment_in_the_place_of_the_directory_is_recognized() {
    let ground = tempfile::tempdir().unwrap();
    let ran = run(fathom(["probe", "block"]).current_dir(&ground)).refused();
    let hint = "hint: give DIR first: fathom probe DIR block\n";
    assert!(ran.stderr.ends_with(hint), "{ran}");
    std::fs::create_dir(ground.path().join("timer")).unwrap();
    run(fathom(["probe", "timer", "timer"]).current_dir(&ground)).exits(0);
}

#[test]
fn limits_that_allow_nothing_are_a_warning() {
    let ground = tempfile::tempdir().unwrap();
    let bounds = ["block", "readahead", "--max-bytes", "1"];
    let ran = run(fathom(args!["probe", ground.path()]).args(bounds)).exits(1);
    assert!(ran.stderr.contains("nothing was measured"), "{ran}");
    assert!(ran.stderr.contains("hint: raise --max-bytes\n"), "{ran}");
}

#[test]
fn the_table_has_findings_and_prices() {
    let ground = tempfile::tempdir().unwrap();
    let words = args!["probe", ground.path(), "timer", "gates", "--full"];
    let ran = run(&mut fathom(words));
    let text = String::from_utf8(ran.stdout.clone()).unwrap();
    for word in [
        "PROPERTY",
        "KERNEL",
        "clock-monotonic-raw",
        "empty-call",
        "INTERQUARTILE RANGE",
        "statx",
        "fsync",
        "unlinkat",
    ] {
        assert!(text.contains(word), "no {word}: {ran}");
    }
    let with_methods = run(&mut fathom(args!["probe", ground.path(), "timer", "-v"])).exits(0);
    assert!(
        String::from_utf8(with_methods.stdout)
            .unwrap()
            .contains("timer: ")
    );
}

#[test]
fn prices_are_in_the_json_only_if_asked_for() {
    let ground = tempfile::tempdir().unwrap();
    let value = run(&mut fathom(args![
        "probe",
        ground.path(),
        "gates",
        "--json"
    ]))
    .json();
    let prices = value["result"]["prices"].as_array().unwrap();
    for gate in [
        "getppid",
        "statx",
        "newfstatat",
        "openat+close",
        "getdents64",
        "renameat2",
        "unlinkat",
        "fsync",
        "pread64",
    ] {
        let of = prices
            .iter()
            .find(|price| price["gate"] == gate)
            .unwrap_or_else(|| panic!("no {gate}: {value}"));
        let [low, ns, high] = ["low", "ns", "high"].map(|field| of[field].as_f64().unwrap());
        assert!(0.0 < low && low <= ns && ns <= high, "{of}");
    }
    // Other experiments have no prices.
    let value = run(&mut fathom(args![
        "probe",
        ground.path(),
        "timer",
        "--json"
    ]))
    .json();
    assert!(value["result"]["prices"].is_null());
}
