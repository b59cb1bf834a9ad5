//! Tests of comparing JSON files of fathom itself.

use super::*;

/// The JSON of a command on a small tree.
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
    // The numbers of calls do not vary, so the ratio is that of the two files.
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
fn output_without_figures_is_refused_with_a_hint() {
    for command in [&["mounts", "--json"][..], &["walk", "--explain", "--json"]] {
        let (_dir, path) = file("a.json", object(command));
        let ran = compare(&[&path]).refused();
        assert!(ran.stderr.contains("use --compare"), "{ran}");
    }
}

#[test]
fn a_file_for_each_run_of_a_machine() {
    let dir = tempfile::tempdir().unwrap();
    let keep = |name: &str, ran: Ran| {
        let path = dir.path().join(name);
        std::fs::write(&path, ran.stdout).unwrap();
        path
    };
    // JSON of `account`: about twice as many calls before as after.
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
    // web2 has no second file to compare with.
    assert_eq!(before["systems"], 1, "{value}");
    let calls = before["each"][0]["calls"].as_f64().unwrap();
    assert!((1.2..2.0).contains(&calls), "{calls}");
    // Files of one machine are named after the run only.
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
    // JSON of `pathwalk`.
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
