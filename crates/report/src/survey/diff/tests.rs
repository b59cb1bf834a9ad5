use proptest::prelude::*;
use serde_json::json;

use super::document::SCHEMA;
use super::*;
use show::table::Look;

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
    diff.of(verdict).map(Change::subject).collect()
}

#[test]
fn nothing_has_changed() {
    let same = changed(full());
    assert_eq!(
        (same.changes.len(), same.uncompared.len()),
        (0, 0),
        "{same:?}"
    );
    assert!(same.compared > 15);
    assert!(
        same.to_text(Look::default(), true)
            .contains("0 have changed.")
    );
}

#[test]
fn a_slower_walk_is_worse_and_noise_is_not() {
    let mut new = full();
    new["walk"]["compare"]["engines"][0] = engine("threads", 200, 4.0, 2.0);
    new["gates"]["prices"][0]["ns"] = 405.0.into();
    let diff = changed(new);
    assert_eq!(whats(&diff, Verdict::Worse), ["an entry by threads"]);
    assert_eq!(diff.changes[0].ratio, Some(2.0));
    assert_eq!(whats(&diff, Verdict::Noise), ["statx of a file, warm"]);
    let text = diff.to_text(Look::default(), false);
    assert!(
        text.starts_with("Worse\n") && text.contains("2.00") && text.contains("one differs"),
        "{text}"
    );
    assert!(diff.changes[0].to_line().contains("2.00 times as much"));
}

#[test]
fn calls_are_exact() {
    let mut new = full();
    new["walk"]["compare"]["engines"][0]["calls_per_entry"] = 2.001.into();
    new["dump"]["calls"] = 199.into();
    let diff = changed(new);
    assert_eq!(
        whats(&diff, Verdict::Worse),
        ["calls for an entry by threads"]
    );
    assert_eq!(
        whats(&diff, Verdict::Better),
        ["calls for an entry that is gathered"]
    );
}

#[test]
fn mounts_go_and_come_and_change() {
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
fn facts_about_file_systems_machine_and_path() {
    let mut new = full();
    new["probe"][0]["experiments"][0]["inferred"] = 1024.into();
    new["machine"]["kernel"] = "6.12".into();
    new["startup"]["path"] =
        json!([{"dir": "/bin", "state": "dead"}, {"dir": "/opt", "state": "live"}]);
    new["startup"]["started"][0]["totals"]["misses"] = 2.into();
    let diff = changed(new);
    assert_eq!(whats(&diff, Verdict::Worse), ["/bin: element of PATH"]);
    assert_eq!(whats(&diff, Verdict::Better), ["misses of env true"]);
    assert_eq!(
        whats(&diff, Verdict::Other),
        ["kernel", "/: allocation-block", "/opt: element of PATH"]
    );
}

#[test]
fn an_engine_that_is_gone_says_why() {
    let mut new = full();
    new["walk"]["compare"] =
        json!({"engines": [], "left_out": [{"engine": "threads", "why": "stopped"}]});
    let diff = changed(new);
    assert_eq!(
        whats(&diff, Verdict::Worse),
        ["whether threads can be compared"]
    );
    assert_eq!(diff.changes[0].new, "stopped");
}

#[test]
fn what_one_lacks_is_not_compared() {
    let diff = changed(json!({"root": "/"}));
    assert!(
        diff.changes.is_empty() && diff.uncompared.len() >= 7,
        "{diff:?}"
    );
    assert!(
        diff.to_text(Look::default(), false)
            .contains("Not compared: walk: the new survey has it not.")
    );
    let elsewhere = changed(json!({"root": "/srv"}));
    assert_eq!(
        whats(&elsewhere, Verdict::Other),
        ["the directory surveyed"]
    );
}

#[test]
fn what_is_no_survey_is_refused() {
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
        let (first, second) = (
            diff(&bad, &good).unwrap_err(),
            diff(&good, &bad).unwrap_err(),
        );
        assert_eq!((first.0, second.0), (0, 1));
        assert!(first.1.contains(word), "{}", first.1);
    }
}

#[test]
fn names_that_are_no_text_are_kept_exactly() {
    let mut new = full();
    new["mounts"]["mounts"][2] =
        json!({"target": "/\u{fffd}", "target_b64": "L/8=", "source": "x\u{1b}", "fstype": "y"});
    let diff = changed(new);
    let come = diff.of(Verdict::Other).next().unwrap();
    assert_eq!(come.path.as_deref(), Some(&b"/\xff"[..]));
    let text = diff.to_text(Look::default(), true);
    assert!(!text.contains('\u{1b}') && text.contains("\\xff"), "{text}");
}

/// Anything at all, of the names that are looked for.
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
    fn no_document_makes_it_panic(old in anything(), new in anything()) {
        if let Ok(diff) = diff(&document(old), &document(new)) {
            let text = diff.to_text(Look { width: Some(80), ..Look::default() }, true);
            prop_assert!(!text.contains(|c: char| c.is_control() && c != '\n'));
            serde_json::to_string(&diff).unwrap();
        }
    }

    #[test]
    fn a_survey_is_like_itself(one in anything()) {
        if let Ok(diff) = diff(&document(one.clone()), &document(one)) {
            prop_assert!(diff.changes.is_empty(), "{diff:?}");
        }
    }
}
