//! Tests of the kinds of searches: each case runs a real program.

use std::ffi::OsString;

use serde_json::Value;

use super::witness::with_runpath;
use super::{of_kind, searched, sh};
use crate::support::build::chmod;
use crate::support::run::args;
use crate::support::{Need, require};

const PATH: &str = "/nowhere/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// An expected search: its kind, its name, the minimum number of misses, and the end of the path
/// that is found, if any.
type Expected<'a> = (&'a str, &'a str, u64, Option<&'a str>);

fn assert_search(value: &Value, (kind, name, misses, found): Expected<'_>) {
    let named: Vec<_> = of_kind(value, kind)
        .into_iter()
        .filter(|search| search["name"] == name)
        .collect();
    let fits = |search: &&&Value| {
        let ends = match found {
            None => search["found"].is_null(),
            Some(end) => search["found"]
                .as_str()
                .is_some_and(|found| found.ends_with(end)),
        };
        ends && search["misses"].as_u64().unwrap() >= misses
    };
    assert!(
        named.iter().any(|search| fits(&search)),
        "no {kind} search for {name} ({misses}, {found:?}) among {named:#?}"
    );
}

fn case(command: &[OsString], env: &[(&str, &str)], expected: &[Expected<'_>]) -> Value {
    let place = tempfile::tempdir().unwrap();
    let (value, _) = searched(place.path(), command, |command| {
        command
            .env("PATH", PATH)
            .envs(env.iter().copied())
            .current_dir("/");
    });
    for one in expected {
        assert_search(&value, *one);
    }
    value
}

#[test]
fn shells_search_for_programs_along_path() {
    if require(&[Need::Program("bash"), Need::Program("dash")]) {
        for shell in ["dash", "bash"] {
            let value = case(
                &sh(shell, "ls / >/dev/null; no-such-program; true"),
                &[],
                &[
                    ("PATH", "ls", 4, Some("/ls")),
                    ("PATH", "no-such-program", 6, None),
                ],
            );
            let ls = of_kind(&value, "PATH")
                .into_iter()
                .find(|search| search["name"] == "ls")
                .unwrap();
            assert_eq!(ls["tried"][0], "/nowhere/bin/ls", "{ls}");
            assert_eq!(
                ls["tried"].as_array().unwrap().last(),
                Some(&ls["found"]),
                "{ls}"
            );
        }
        case(
            &args!["env", "ls", "/"],
            &[],
            &[("PATH", "ls", 4, Some("/ls"))],
        );
        // The script sets its own PATH.
        case(
            &sh(
                "dash",
                "PATH=/one:/two:/three:/usr/bin; id >/dev/null; no-such",
            ),
            &[],
            &[
                ("PATH", "id", 3, Some("/usr/bin/id")),
                ("PATH", "no-such", 4, None),
            ],
        );
    }
}

#[test]
fn the_dynamic_linker_searches_for_libraries() {
    if require(&[Need::Program("gcc")]) {
        let place = tempfile::tempdir().unwrap();
        let tool = with_runpath(place.path(), 8);
        let value = case(
            &args![&tool],
            &[],
            &[("ld.so", "libfar.so", 7, Some("lib07/libfar.so"))],
        );
        case(
            &args![&tool],
            &[("LD_LIBRARY_PATH", "/nowhere/lib")],
            &[("ld.so", "libc.so.6", 1, Some("/libc.so.6"))],
        );
        for row in value["result"]["directories"].as_array().unwrap() {
            let ours = row["dir"]
                .as_str()
                .unwrap()
                .starts_with(place.path().join("lib").to_str().unwrap());
            assert!(!ours || row["kind"] == "ld.so", "{row}");
        }
    }
}

#[test]
fn python_searches_for_modules() {
    if require(&[Need::Program("python3")]) {
        let value = case(
            &args!["python3", "-c", "import json, decimal"],
            &[("PYTHONPATH", "/nowhere/modules")],
            &[
                ("python", "json", 1, Some(".pyc")),
                ("PATH", "python3", 1, Some("/python3")),
            ],
        );
        assert!(!of_kind(&value, "ld.so").is_empty());
        let pythonpath = |row: &&Value| row["dir"] == "/nowhere";
        let rows = value["result"]["directories"].as_array().unwrap();
        assert!(
            rows.iter()
                .find(pythonpath)
                .is_some_and(|row| row["kind"] == "python"),
            "{rows:#?}"
        );
    }
}

#[test]
fn env_searches_for_the_interpreter_of_a_script() {
    if require(&[Need::Program("python3")]) {
        let place = tempfile::tempdir().unwrap();
        let script = place.path().join("script");
        std::fs::write(&script, "#!/usr/bin/env python3\nimport json\n").unwrap();
        chmod(&script, 0o755);
        let value = case(
            &args![&script],
            &[],
            &[
                ("PATH", "python3", 4, Some("/python3")),
                ("python", "json", 1, Some(".pyc")),
            ],
        );
        let by_env = of_kind(&value, "PATH")
            .into_iter()
            .find(|search| search["name"] == "python3")
            .unwrap();
        assert!(
            by_env["program"].as_str().unwrap().ends_with("/env"),
            "{by_env}"
        );
    }
}

#[test]
fn perl_searches_for_modules() {
    if require(&[Need::Program("perl")]) {
        let value = case(
            &args!["perl", "-e", "use POSIX; eval { require No::Such; };"],
            &[],
            &[
                ("perl", "Such.pm", 3, None),
                ("perl", "POSIX.pm", 1, Some("/POSIX.pm")),
            ],
        );
        assert!(of_kind(&value, "other").is_empty(), "{value}");
    }
}

#[test]
fn a_compiler_searches_for_headers_and_libraries() {
    if require(&[Need::Program("gcc")]) {
        let place = tempfile::tempdir().unwrap();
        let source = place.path().join("small.c");
        std::fs::write(
            &source,
            "#include <stdio.h>\nint main(void) { return 0; }\n",
        )
        .unwrap();
        let output = place.path().join("small");
        case(
            &args![
                "gcc",
                "-I/nowhere/include",
                "-I/nowhere/more",
                "-o",
                &output,
                &source
            ],
            &[],
            &[
                ("gcc", "stdio.h", 1, Some("/stdio.h")),
                ("PATH", "as", 1, Some("/as")),
            ],
        );
    }
}

#[test]
fn node_searches_for_modules() {
    if require(&[Need::Program("node")]) {
        let place = tempfile::tempdir().unwrap();
        let script = place.path().join("a/b/main.js");
        std::fs::create_dir_all(script.parent().unwrap()).unwrap();
        std::fs::write(&script, "try { require('no-such') } catch {}\n").unwrap();
        case(
            &args!["node", &script],
            &[],
            &[("node", "package.json", 2, None)],
        );
    }
}

#[test]
fn locales_and_terminal_descriptions_are_searched_for() {
    if require(&[Need::Program("bash"), Need::Program("perl")]) {
        let locale = [("LC_ALL", "xx_YY.UTF-8")];
        let value = case(&sh("bash", "no-such-program"), &locale, &[]);
        assert!(!of_kind(&value, "locale").is_empty(), "{value}");
    }
    if require(&[Need::Program("tput")]) {
        case(
            &args!["tput", "-T", "no-such-terminal", "cols"],
            &[],
            &[("terminfo", "no-such-terminal", 2, None)],
        );
    }
}
