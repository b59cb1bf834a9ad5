//! Tests of surveys in unusual environments: a narrow terminal, no /proc, a PID namespace. Each
//! writes a page.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::PATIENT;
use crate::support::build::{bush, dir, tmpfs};
use crate::support::restrict::{fathom_in, in_chroot, populate_chroot};
use crate::support::run::args;
use crate::support::terminal::at_terminal;
use crate::support::{Need, in_namespace, require, run};

/// The sections that have results.
fn gathered(value: &Value) -> Vec<&'static str> {
    let sections = ["mounts", "walk", "dump", "account", "startup", "gates"];
    sections
        .into_iter()
        .filter(|section| value["result"][section].is_object())
        .collect()
}

#[test]
fn survey_works_without_proc() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let jail = tmpfs(ground.join("jail"));
            populate_chroot(&jail);
            bush(&dir(jail.join("srv")), 3, 3);
            let mut command = in_chroot(&jail);
            let ran = run(command
                .args(["survey", "/srv", "--json"])
                .args(PATIENT)
                .env("PATH", "/usr/bin")
                .stdin(std::process::Stdio::null()));
            let value = ran.json();
            let gathered = gathered(&value);
            for section in ["mounts", "walk", "dump", "gates"] {
                assert!(
                    gathered.contains(&section),
                    "no {section}: {}",
                    value["result"]["skipped"]
                );
            }
            assert!(
                fs::read_to_string(jail.join("fathom-survey.html"))
                    .unwrap()
                    .trim_end()
                    .ends_with("</html>")
            );
        });
    }
}

#[test]
fn survey_works_in_a_container() {
    if require(&[Need::Root, Need::Program("unshare")]) {
        in_namespace(|ground| {
            let (root, here) = (tmpfs(ground.join("root")), dir(ground.join("here")));
            bush(&root, 3, 3);
            let own = fathom_in(&ground.join("bin"));
            let mut command = Command::new("unshare");
            command
                .args(["--mount", "--pid", "--fork", "--mount-proc"])
                .arg(own);
            let ran = run(command
                .args(args!["survey", &root, "--json"])
                .args(PATIENT)
                .current_dir(&here)
                .stdin(std::process::Stdio::null()));
            let value = ran.exits(0).json();
            assert_eq!(gathered(&value).len(), 6, "{}", value["result"]["skipped"]);
            assert!(here.join("fathom-survey.html").is_file());
        });
    }
}

#[test]
fn narrow_terminal() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let (root, here) = (tmpfs(ground.join("root")), dir(ground.join("here")));
            bush(&root, 3, 3);
            let text = |args: &[std::ffi::OsString]| {
                let mut command = crate::survey::survey(args.to_vec());
                let (text, status) =
                    at_terminal(command.current_dir(&here).env("NO_COLOR", "1"), 40);
                assert_eq!(status.code(), Some(0), "{text}");
                text
            };
            // Only lines with commands are longer than the terminal.
            let summary = text(&args![&root]);
            let long = |line: &&str| line.chars().count() > 40 && !line.contains("fathom ");
            assert_eq!(summary.lines().find(long), None, "{summary}");
            assert!(summary.contains("fsync"), "{summary}");
            // Sentences are wrapped between words; tables may be wider.
            let full = text(&args![&root, "--full"]);
            let is_sentence = |line: &&str| line.starts_with("- ") && line.contains(' ');
            let long = full
                .lines()
                .filter(is_sentence)
                .find(|line| line.chars().count() > 40);
            assert!(
                full.contains("Advice") && long.is_none_or(|line| line.split(' ').count() <= 2),
                "{long:?}"
            );
        });
    }
}
