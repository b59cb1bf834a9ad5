//! Tests that the proposed PATH saves the predicted number of failed lookups, and changes no
//! program.

use std::path::Path;
use std::process::Command;

use super::{misses, of_kind, searched, searched_with, sh};
use crate::support::build::chmod;
use crate::support::run::{args, exact};
use crate::support::{Need, fathom, require, run};

fn program(dir: &Path, name: &str, says: &str) {
    std::fs::create_dir_all(dir).unwrap();
    let file = dir.join(name);
    std::fs::write(&file, format!("#!/bin/sh\necho {says}\n")).unwrap();
    chmod(&file, 0o755);
}

fn total(value: &serde_json::Value) -> u64 {
    value["result"]["totals"]["misses"].as_u64().unwrap()
}

#[test]
fn the_better_path_saves_the_predicted_misses() {
    if require(&[Need::Program("dash"), Need::Program("bash")]) {
        for shell in ["dash", "bash"] {
            let place = tempfile::tempdir().unwrap();
            let dir = |name: &str| place.path().join(name);
            program(&dir("empty"), ".keep", "");
            program(&dir("a"), "both", "of a");
            program(&dir("b"), "both", "of b");
            (0..5).for_each(|n| program(&dir("b"), &format!("tool{n}"), "tool"));
            let shown = |name: &str| dir(name).to_str().unwrap().to_owned();
            let path = format!(
                "/nowhere:{}:{}:{}:/usr/bin:/bin",
                shown("empty"),
                shown("a"),
                shown("b")
            );
            let script =
                "both; for n in 0 1 2 3 4; do tool$n; done; ls / >/dev/null; no-such-program; true";
            let command = sh(shell, script);
            let flags = ["--rtt", "10ms", "--network", place.path().to_str().unwrap()];
            let (value, ran) = searched_with(place.path(), &flags, &command, |command| {
                command.env("PATH", &path);
            });
            assert!(ran.stdout.starts_with(b"of a\n"), "{ran}");
            let fix = value["result"]["fixes"]
                .as_array()
                .unwrap()
                .iter()
                .find(|fix| fix["kind"] == "PATH")
                .unwrap();
            let saves = fix["saves_misses"].as_u64().unwrap();

            let apply = args!["pathsearch", "-q", "--apply-path"].into_iter();
            let apply = apply
                .chain(flags.map(Into::into))
                .chain(args!["--", shell, "-c", script]);
            let applied = run(fathom(apply).env("PATH", &path));
            let line = applied.lines().last().unwrap().to_string();
            let better = run(Command::new("sh")
                .arg("-c")
                .arg(format!("{line}; printf %s \"$PATH\"")));
            let better = String::from_utf8(better.stdout).unwrap();
            assert_eq!(
                better.as_bytes(),
                exact(&value["result"], "better_path"),
                "{line}"
            );
            assert!(!better.contains("/nowhere"), "{better}");
            let place_of = |name: &str| {
                better
                    .split(':')
                    .position(|dir| dir == shown(name))
                    .unwrap()
            };
            assert!(
                place_of("a") < place_of("b") && place_of("b") < place_of("empty"),
                "{better}"
            );

            let (again, ran) = searched(place.path(), &command, |command| {
                command.env("PATH", &better);
            });
            assert!(
                ran.stdout.starts_with(b"of a\n"),
                "another program is found: {ran}"
            );
            let fell = total(&value) - total(&again);
            assert!(
                fell * 10 >= saves * 8 && fell * 10 <= saves * 12,
                "{shell}: {saves} predicted, {fell} saved"
            );
            assert!(
                misses(&again).keys().all(|dir| dir != b"/nowhere"),
                "{again}"
            );
        }
    }
}

#[test]
fn without_a_network_file_system_the_order_is_kept() {
    if require(&[Need::Program("dash")]) {
        let place = tempfile::tempdir().unwrap();
        program(&place.path().join("a"), "own", "");
        let a = place.path().join("a").to_str().unwrap().to_owned();
        let path = format!("/nowhere:{a}:/usr/bin:/bin:{a}");
        let script = "n=0; while [ $n -lt 50 ]; do ls / >/dev/null; n=$((n+1)); done";
        let (value, _) = searched(place.path(), &sh("dash", script), |command| {
            command.env("PATH", &path);
        });
        let better = exact(&value["result"], "better_path");
        let better = String::from_utf8(better).unwrap();
        let kept = [format!("{a}:/usr/bin:/bin"), format!("{a}:/usr/bin")];
        assert!(kept.contains(&better), "{better}");
    }
}

#[test]
fn the_best_path_is_kept() {
    let ran = run(fathom(args![
        "pathsearch",
        "-q",
        "--apply-path",
        "--",
        "ls",
        "/dev/null"
    ])
    .env("PATH", "/usr/bin:/no'where"));
    assert_eq!(
        ran.lines().last(),
        Some(&"PATH='/usr/bin'; export PATH"),
        "{ran}"
    );
    let ran = run(fathom(args![
        "pathsearch",
        "-q",
        "--apply-path",
        "--",
        "ls",
        "/dev/null"
    ])
    .env("PATH", "/usr/bin"));
    assert_eq!(
        ran.lines().last(),
        Some(&"PATH='/usr/bin'; export PATH"),
        "{ran}"
    );
}

#[test]
fn a_path_without_any_directory_is_kept() {
    // An empty PATH means the working directory.
    for path in ["/nowhere:/no/where", "/nowhere:", "/dev/null"] {
        let ran = run(fathom(args![
            "pathsearch",
            "-q",
            "--apply-path",
            "--",
            "/bin/sh",
            "-c",
            "nothing 2>&-; true"
        ])
        .env("PATH", path));
        assert_eq!(
            ran.lines().last(),
            Some(&&*format!("PATH='{path}'; export PATH")),
            "{ran}"
        );
    }
}

#[test]
fn no_directory_is_moved_past_the_working_directory() {
    if require(&[Need::Program("dash")]) {
        let place = tempfile::tempdir().unwrap();
        program(&place.path().join("own"), "tool", "own");
        let path = format!("/usr/bin::{}/own:/bin", place.path().display());
        let (value, _) = searched(place.path(), &sh("dash", "tool >/dev/null"), |command| {
            command.env("PATH", &path);
        });
        assert!(
            value["result"]["better_path"].is_null()
                || exact(&value["result"], "better_path").starts_with(b"/usr/bin::")
        );
        assert!(!of_kind(&value, "PATH").is_empty());
    }
}
