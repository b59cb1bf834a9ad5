use proptest::prelude::*;
use serde_json::{Value, json};
use show::table::TableStyle;
use survey::Error;
use survey::diff::{Diff, Verdict};
use survey::error::SCHEMA;
use survey::saved::SavedSurvey;

use super::show::{JsonDiff, line, subject, text};

fn parse(document: &Value) -> Result<SavedSurvey, Error> {
    SavedSurvey::parse(document.to_string().as_bytes())
}

fn diff(old: &Value, new: &Value) -> Result<Diff, Error> {
    Ok(Diff::new(&parse(old)?, &parse(new)?))
}

fn document(result: Value) -> Value {
    json!({"schema": SCHEMA, "result": result, "gates": {}, "warnings": []})
}

fn stats(median: f64, off: f64) -> Value {
    json!({"mean": median, "median": median, "min": median - off, "max": median + off, "std_dev": off})
}

fn engine(name: &str, entries: u64, seconds: f64, calls: f64) -> Value {
    json!({"engine": name, "entries": entries, "real": stats(seconds, seconds / 50.0), "calls_per_entry": calls})
}

fn mount(target: &str, options: &[&str]) -> Value {
    json!({"target": target, "source": "/dev/sda1", "fstype": "ext4", "fsroot": "/", "options": options,
           "kind": "dir", "hidden": false, "verdict": null})
}

fn full() -> Value {
    json!({
        "root": "/",
        "machine": {"kernel": "6.1.0", "cpus": 2, "memory": 1024},
        "mounts": {
            "mounts": [mount("/", &["rw", "relatime"]), mount("/srv", &["rw"]), mount("/srv", &["rw"])],
            "compare": {"methods": [{"by": "naive", "found": 3, "calls": 100, "real": stats(0.5, 0.01)}], "left_out": []},
        },
        "walk": {"engine": "threads", "compare": {"engines": [engine("threads", 100, 1.0, 2.0)], "left_out": []}},
        "dump": {"gather": "combined", "calls": 200, "entries": 100},
        "probe": [{"dir": "/", "fstype": "ext4", "experiments": [
            {"name": "allocation-block", "inferred": 4096, "truth": 4096, "unit": "bytes", "confidence": 1.0, "by_time": false},
        ]}],
        "gates": {"prices": [
            {"gate": "statx", "what": "a file", "state": "warm", "threads": 1, "ns": 400.0, "low": 390.0, "high": 410.0},
        ]},
        "startup": {"path": [{"dir": "/bin", "state": "live", "fstype": "ext4"}],
                    "started": [{"command": "env true", "totals": {"misses": 3, "lookups": 9}}]},
    })
}

fn changed(new: Value) -> Diff {
    diff(&document(full()), &document(new)).unwrap()
}

fn whats(diff: &Diff, verdict: Verdict) -> Vec<String> {
    diff.with(verdict).map(subject).collect()
}

#[test]
fn equal_surveys_have_no_changes() {
    let same = changed(full());
    assert_eq!(
        (same.changes.len(), same.uncompared.len()),
        (0, 0),
        "{same:?}"
    );
    assert!(same.compared > 15);
    assert!(text(&same, TableStyle::default(), true).contains("0 of 20 compared values changed."));
}

#[test]
fn a_slower_walk_is_worse_and_noise_is_not() {
    let mut new = full();
    new["walk"]["compare"]["engines"][0] = engine("threads", 200, 4.0, 2.0);
    new["gates"]["prices"][0]["ns"] = 405.0.into();
    let diff = changed(new);
    assert_eq!(
        whats(&diff, Verdict::Worse),
        ["time per entry, engine threads"]
    );
    assert_eq!(diff.changes[0].ratio, Some(2.0));
    assert_eq!(whats(&diff, Verdict::Noise), ["statx (a file), warm"]);
    let shown = text(&diff, TableStyle::default(), false);
    assert!(
        shown.starts_with("Worse\n") && shown.contains("2.00") && shown.contains("1 more differs"),
        "{shown}"
    );
    assert!(line(&diff.changes[0]).contains("2.00 times the old value"));
}

/// The survey with another price of fsync(2): its quartiles and its median, in nanoseconds.
fn with_fsync(low: f64, ns: f64, high: f64) -> Value {
    let mut survey = full();
    let price = json!({"gate": "fsync", "what": "after one byte was written", "state": "warm",
                       "threads": 1, "ns": ns, "low": low, "high": high});
    survey["gates"]["prices"]
        .as_array_mut()
        .unwrap()
        .push(price);
    survey
}

#[test]
fn ranges_that_are_close_are_noise_and_a_device_alone_is_never_worse() {
    // Three trials of each engine that do not overlap, by chance.
    let mut new = full();
    let engine = &mut new["walk"]["compare"]["engines"][0];
    engine["real"] = json!({"median": 1.2, "min": 1.05, "max": 1.3});
    let diff = changed(new);
    assert_eq!(whats(&diff, Verdict::Worse), [""; 0]);
    assert_eq!(
        whats(&diff, Verdict::Noise),
        ["time per entry, engine threads"]
    );
    // What others write to the same disk in the meantime is in each trial.
    let [old, new] = [(3.7e5, 381_746.0, 3.9e5), (9.5e6, 9_583_561.0, 9.6e6)]
        .map(|(low, ns, high)| document(with_fsync(low, ns, high)));
    let diff = super::tests::diff(&old, &new).unwrap();
    assert_eq!(whats(&diff, Verdict::Worse), [""; 0]);
    let name = "fsync (after one byte was written), warm";
    assert_eq!(whats(&diff, Verdict::Other), [name]);
    let shown = text(&diff, TableStyle::default(), false);
    assert!(
        shown.contains("382 µs") && shown.contains("9.58 ms"),
        "{shown}"
    );
}

#[test]
fn one_call_more_or_less_is_a_change() {
    let mut new = full();
    new["walk"]["compare"]["engines"][0]["calls_per_entry"] = 2.001.into();
    new["dump"]["calls"] = 199.into();
    let diff = changed(new);
    assert_eq!(
        whats(&diff, Verdict::Worse),
        ["calls per entry, engine threads"]
    );
    assert_eq!(whats(&diff, Verdict::Better), ["calls per entry of a dump"]);
}

#[test]
fn mounts_are_removed_added_and_changed() {
    let mut new = full();
    new["mounts"]["mounts"] = json!([
        mount("/", &["ro", "relatime"]),
        mount("/srv", &["rw", "noatime"]),
        mount("/new", &["rw"])
    ]);
    let diff = changed(new);
    assert_eq!(
        whats(&diff, Verdict::Worse),
        ["/srv: the mount", "/: options"]
    );
    assert_eq!(
        whats(&diff, Verdict::Other),
        ["/new: the mount", "/srv: options"]
    );
}

#[test]
fn facts_about_file_systems_machine_and_path_are_compared() {
    let mut new = full();
    new["probe"][0]["experiments"][0]["inferred"] = 1024.into();
    new["machine"]["kernel"] = "6.12".into();
    new["startup"]["path"] =
        json!([{"dir": "/bin", "state": "dead"}, {"dir": "/opt", "state": "live"}]);
    new["startup"]["started"][0]["totals"]["misses"] = 2.into();
    let diff = changed(new);
    assert_eq!(whats(&diff, Verdict::Worse), ["/bin: element of PATH"]);
    assert_eq!(
        whats(&diff, Verdict::Better),
        ["failed lookups of env true"]
    );
    assert_eq!(
        whats(&diff, Verdict::Other),
        ["kernel", "/: allocation-block", "/opt: element of PATH"]
    );
}

#[test]
fn an_engine_that_cannot_run_any_more_gives_its_reason() {
    let mut new = full();
    new["walk"]["compare"] =
        json!({"engines": [], "left_out": [{"engine": "threads", "why": "stopped"}]});
    let diff = changed(new);
    assert_eq!(whats(&diff, Verdict::Worse), ["threads is available"]);
    assert_eq!(diff.changes[0].new, "stopped");
}

#[test]
fn a_section_that_one_survey_lacks_is_not_compared() {
    let diff = changed(json!({"root": "/"}));
    assert!(
        diff.changes.is_empty() && diff.uncompared.len() >= 7,
        "{diff:?}"
    );
    assert!(
        text(&diff, TableStyle::default(), false)
            .contains("Not compared: walk: missing in the new survey.")
    );
    let elsewhere = changed(json!({"root": "/srv"}));
    assert_eq!(
        whats(&elsewhere, Verdict::Other),
        ["the directory surveyed"]
    );
}

#[test]
fn documents_that_are_no_surveys_are_refused() {
    let good = document(full());
    for (bad, word) in [
        (json!(null), "no schema"),
        (json!([1]), "no schema"),
        (
            json!({"schema": "fathom.walk/1", "result": {}}),
            "fathom.walk/1",
        ),
        (json!({"schema": SCHEMA, "result": 3}), "no result"),
    ] {
        for refused in [diff(&bad, &good), diff(&good, &bad)] {
            let error = refused.unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}

#[test]
fn names_that_are_not_utf_8_are_kept_exactly() {
    let mut new = full();
    new["mounts"]["mounts"][2] =
        json!({"target": "/\u{fffd}", "target_b64": "L/8=", "source": "x\u{1b}", "fstype": "y"});
    let diff = changed(new);
    let come = diff.with(Verdict::Other).next().unwrap();
    assert_eq!(come.path.as_deref(), Some(&b"/\xff"[..]));
    let shown = text(&diff, TableStyle::default(), true);
    assert!(
        !shown.contains('\u{1b}') && shown.contains("\\xff"),
        "{shown}"
    );
}

/// Any JSON, with the member names that a survey has.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z/\\PC]{0,6}".prop_map(Value::from),
    ];
    let names = prop::sample::select(vec![
        "root",
        "machine",
        "mounts",
        "compare",
        "methods",
        "walk",
        "engines",
        "real",
        "median",
        "min",
        "max",
        "dump",
        "probe",
        "experiments",
        "prices",
        "gates",
        "startup",
        "path",
        "started",
        "dir",
        "target",
        "target_b64",
        "by",
        "engine",
        "entries",
        "calls_per_entry",
        "options",
        "name",
        "inferred",
        "truth",
        "ns",
        "low",
        "high",
    ]);
    leaf.prop_recursive(6, 64, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::hash_map(names.clone().prop_map(str::to_owned), inner, 0..8)
                .prop_map(Value::from_iter),
        ]
    })
}

proptest! {
    #[test]
    fn no_document_causes_a_panic(old in anything(), new in anything()) {
        if let Ok(diff) = diff(&document(old), &document(new)) {
            let shown = text(&diff, TableStyle { width: Some(80), ..TableStyle::default() }, true);
            prop_assert!(!shown.contains(|c: char| c.is_control() && c != '\n'));
            serde_json::to_string(&JsonDiff(&diff)).unwrap();
        }
    }

    #[test]
    fn a_survey_does_not_differ_from_itself(one in anything()) {
        if let Ok(diff) = diff(&document(one.clone()), &document(one)) {
            prop_assert!(diff.changes.is_empty(), "{diff:?}");
        }
    }
}
