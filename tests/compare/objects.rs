//! What fathom itself gives as JSON.

use super::*;

/// What the program says of a small tree.
fn object(command: &[&str]) -> Vec<u8> {
    let tree = tempfile::tempdir().unwrap();
    for n in 0..40 {
        let dir = tree.path().join(format!("d{}", n % 4));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join(format!("f{n}")), "x").unwrap();
    }
    let ran = run(fathom(command.iter().copied()).arg(tree.path()));
    ran.json();
    ran.stdout
}

#[test]
fn a_file_for_each_machine() {
    let dir = tempfile::tempdir().unwrap();
    let files = ["web1.example.org.json", "web2.json"].map(|name| dir.path().join(name));
    for file in &files {
        std::fs::write(
            file,
            object(&["walk", "--compare", "--trials", "2", "--json"]),
        )
        .unwrap();
    }
    let value = compare_json(&[&files[0], &files[1]]);
    let comparison = &value["result"]["comparisons"][0];
    assert_eq!(
        (&comparison["kind"], &comparison["base"]),
        (&"walk".into(), &"stat".into())
    );
    let systems = comparison["systems"].as_array().unwrap();
    assert_eq!(
        (&systems[0]["system"], &systems[1]["system"]),
        (&"web1.example.org".into(), &"web2".into())
    );
    let threads = ratio(&value, "threads");
    assert_eq!(threads["systems"], 2);
    assert!(threads["real"]["mean"].as_f64().unwrap() > 0.0);
    // Calls do not vary: the ratio is that of the two files.
    let calls = |value: &Value, engine: &str| {
        let engines = value["result"]["compare"]["engines"].as_array().unwrap();
        engines.iter().find(|one| one["engine"] == engine).unwrap()["calls"]
            .as_f64()
            .unwrap()
    };
    let walks: Value = serde_json::from_slice(&std::fs::read(&files[0]).unwrap()).unwrap();
    assert_eq!(
        threads["each"][0]["calls"].as_f64().unwrap(),
        calls(&walks, "threads") / calls(&walks, "stat")
    );
    let text = compare(&[&files[0]]);
    assert!(
        text.lines().iter().any(|line| line.starts_with("calls ")),
        "{text}"
    );
}

#[test]
fn several_objects_of_mounts_in_one_file() {
    let mounts = object(&["mounts", "--compare", "--trials", "1", "--json"]);
    let (_dir, path) = file("all.json", [&mounts[..], &mounts[..]].concat());
    let value = compare_json(&[&path]);
    let comparison = &value["result"]["comparisons"][0];
    let systems = comparison["systems"].as_array().unwrap();
    let names: Vec<&Value> = systems.iter().map(|system| &system["system"]).collect();
    assert_eq!(names, ["all:1", "all:2"]);
    assert_eq!(comparison["kind"], "mounts");
    assert!(ratio(&value, "naive")["calls"]["mean"].as_f64().unwrap() > 0.0);
}

#[test]
fn each_kind_of_run_has_its_own_table() {
    let dir = tempfile::tempdir().unwrap();
    let (walks, mounts) = (dir.path().join("a.json"), dir.path().join("b.json"));
    std::fs::write(
        &walks,
        object(&["walk", "--compare", "--trials", "1", "--json"]),
    )
    .unwrap();
    std::fs::write(
        &mounts,
        object(&["mounts", "--compare", "--trials", "1", "--json"]),
    )
    .unwrap();
    let value = compare_json(&[&walks, &figure(7), &mounts]);
    let kinds: Vec<&Value> = value["result"]["comparisons"]
        .as_array()
        .unwrap()
        .iter()
        .map(|comparison| &comparison["kind"])
        .collect();
    assert_eq!(kinds, ["walk", "csv", "mounts"]);
}

#[test]
fn output_without_compare_is_refused_with_a_hint() {
    let (_dir, path) = file("a.json", object(&["walk", "--json"]));
    let ran = compare(&[&path]).refused();
    assert!(ran.stderr.contains("use fathom walk --compare"), "{ran}");
}

#[test]
fn a_file_for_each_run_of_a_machine() {
    let dir = tempfile::tempdir().unwrap();
    let keep = |name: &str, ran: Ran| {
        let path = dir.path().join(name);
        std::fs::write(&path, ran.stdout).unwrap();
        path
    };
    // What was metered: twice as many calls before as after, or nearly.
    let metered = |files: usize| {
        let mut command = fathom(["account", "--json", "--", "stat", "-c", ""]);
        run(command
            .args(std::iter::repeat_n("/", files))
            .stdin(std::process::Stdio::null()))
    };
    let account = [
        ("web1.before.json", 200),
        ("web1.after.json", 100),
        ("web2.before.json", 200),
    ];
    let account = account.map(|(name, files)| keep(name, metered(files)));
    let value = compare_json(&account.each_ref().map(PathBuf::as_path));
    let comparison = &value["result"]["comparisons"][0];
    assert_eq!(
        (&comparison["kind"], &comparison["base"]),
        (&"account".into(), &"after".into())
    );
    assert_eq!(comparison["systems"].as_array().unwrap().len(), 2);
    let before = ratio(&value, "before");
    // Of web2 there is nothing to hold it against.
    assert_eq!(before["systems"], 1, "{value}");
    let calls = before["each"][0]["calls"].as_f64().unwrap();
    assert!((1.2..2.0).contains(&calls), "{calls}");
    // On one machine, a file is called after the run.
    let [before, after] =
        [("before.json", 200), ("after.json", 100)].map(|(name, files)| keep(name, metered(files)));
    let value = compare_json(&[&before, &after]);
    assert_eq!(value["result"]["comparisons"][0]["base"], "after");
    assert_eq!(
        (
            &ratio(&value, "before")["systems"],
            ratio(&value, "before")["each"].as_array().unwrap().len()
        ),
        (&1.into(), 1)
    );
    // What was searched.
    let searched = |files: &str| {
        run(&mut fathom(args![
            "pathwalk",
            dir.path().join("tree"),
            "-c",
            "-t",
            "-r",
            "-f",
            files,
            "--json"
        ]))
    };
    let one = keep("n1.small.json", searched("10"));
    let two = keep("n1.large.json", searched("20"));
    let value = compare_json(&[&one, &two]);
    assert_eq!(value["result"]["comparisons"][0]["kind"], "pathwalk");
    assert_eq!(ratio(&value, "small")["each"][0]["calls"], 0.5, "{value}");
    // A single run cannot be compared.
    let ran = compare(&[&one]).refused();
    assert!(ran.stderr.contains("all runs are of small"), "{ran}");
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
    let growth = &value["result"]["growth"];
    let rows = growth["gates"].as_array().unwrap();
    let calls = |value: &Value, name: &str| value["result"]["gates"][name]["calls"].as_f64();
    let names = ["openat", "statx", "lgetxattr", "getxattr", "read"];
    let known = names.iter().filter(|name| calls(&new, name).is_some());
    for name in known {
        let row = rows.iter().find(|row| row["name"] == *name).unwrap();
        let expected = [&old, &new].map(|value| calls(value, name).unwrap_or(0.0));
        assert_eq!(row["calls"], serde_json::json!(expected), "{name}");
    }
    let directories = growth["directories"].as_array().unwrap();
    let many = directories
        .iter()
        .find(|row| row["name"] == at("many").to_str().unwrap());
    let many = many.unwrap_or_else(|| panic!("{growth}"));
    assert!(
        many["calls"][0] == 0.0 && many["calls"][1].as_f64() >= Some(30.0),
        "{many}"
    );
    assert!(growth["complete"] == true, "{growth}");
    let text = compare(&[&at("old.json"), &at("new.json")]);
    let text = String::from_utf8(text.stdout).unwrap();
    for part in ["old/new", "\nFrom ", " SYSTEM CALL\n", " DIRECTORY\n"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Of one NAME there are no ratios; they are compared all the same.
    std::fs::rename(at("new.json"), at("x/old.json")).unwrap();
    let value = compare_json(&[&at("old.json"), &at("x/old.json")]);
    assert_eq!(value["result"]["comparisons"], serde_json::json!([]));
    assert!(value["result"]["growth"]["gates"][0]["calls"].is_array());
    // Several runs in a file: ratios have confidence intervals.
    let runs = std::fs::read_to_string(at("old.json")).unwrap().repeat(3);
    std::fs::write(at("a.json"), &runs).unwrap();
    std::fs::write(at("b.json"), &runs).unwrap();
    let value = compare_json(&[&at("a.json"), &at("b.json")]);
    assert_eq!(value["result"]["growth"]["runs"], serde_json::json!([3, 3]));
    assert_eq!(
        ratio(&value, "a")["interval"]["calls"],
        serde_json::json!([1.0, 1.0])
    );
}
