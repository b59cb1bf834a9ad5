//! Tests of unusual commands: names that are not UTF-8, static programs, thousands of processes, an
//! unprivileged user.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use serde_json::Value;

use super::{compile, misses, of_kind, searched, sh};
use crate::support::build::chmod;
use crate::support::restrict::as_nobody;
use crate::support::run::{args, exact};
use crate::support::{Need, fathom, require, run};

#[test]
fn names_that_are_not_utf8_are_reported_exactly() {
    if require(&[Need::Program("dash")]) {
        let place = tempfile::tempdir().unwrap();
        let dir = place
            .path()
            .join(OsString::from_vec(b"d\xff\x1b[31m".to_vec()));
        std::fs::create_dir(&dir).unwrap();
        let path =
            OsString::from_vec([dir.as_os_str().as_encoded_bytes(), b":/usr/bin:/bin"].concat());
        let name = OsString::from_vec(b"none\xfe\n".to_vec());
        let command: Vec<OsString> = vec!["env".into(), name.clone()];
        let (value, ran) = searched(place.path(), &command, |command| {
            command.env("PATH", &path);
        });
        assert_eq!(ran.code(), 127, "{ran}");
        assert_eq!(misses(&value)[dir.as_os_str().as_encoded_bytes()], 1);
        let search = of_kind(&value, "PATH")
            .into_iter()
            .find(|search| exact(search, "name") == b"none\xfe\n")
            .unwrap();
        assert_eq!(search["misses"], 3, "{search}");
        let text = run(fathom(args!["pathsearch", "-v", "--", "env", &name]).env("PATH", &path));
        let shown: String = text
            .stderr
            .lines()
            .filter(|line| !line.starts_with("env:"))
            .collect();
        assert!(!shown.contains('\x1b'), "{shown:?}");
    }
}

#[test]
fn a_static_program_makes_no_search() {
    if require(&[Need::Program("gcc")]) {
        let place = tempfile::tempdir().unwrap();
        let tool = compile(
            "int main(void) { return 3; }\n",
            &place.path().join("tool"),
            &["-static".into()],
        );
        let (value, ran) = searched(place.path(), &args![&tool], |_| {});
        assert_eq!(ran.code(), 3, "{ran}");
        assert!(of_kind(&value, "ld.so").is_empty(), "{value}");
        assert_eq!(
            (
                &value["result"]["exit"],
                &value["result"]["totals"]["misses"]
            ),
            (&3.into(), &0.into())
        );
    }
}

#[test]
fn thousands_of_processes_are_counted() {
    if require(&[Need::Program("dash")]) {
        let place = tempfile::tempdir().unwrap();
        let script = "n=0; while [ $n -lt 2000 ]; do (no-such-program) 2>/dev/null; n=$((n+1)); done; exit 5";
        let (value, ran) = searched(place.path(), &sh("dash", script), |command| {
            command.env("PATH", "/nowhere:/usr/bin:/bin");
        });
        assert_eq!(ran.code(), 5, "{ran}");
        let searches = of_kind(&value, "PATH")
            .into_iter()
            .filter(|search| search["name"] == "no-such-program")
            .count();
        assert!(searches == 2000, "{searches}");
        assert_eq!(misses(&value)[&b"/nowhere"[..]], 2000);
    }
}

#[test]
fn it_works_without_privilege() {
    if require(&[Need::Root, Need::Program("dash")]) {
        let place = tempfile::tempdir().unwrap();
        const PATH: &str = "/nowhere:/usr/bin:/bin";
        let (value, _) = searched(
            place.path(),
            &sh("dash", "ls / >/dev/null; no-such-program"),
            |command| {
                command.env("PATH", PATH);
            },
        );
        let before: BTreeMap<Vec<u8>, u64> = misses(&value);
        let mut program = fathom(args![
            "pathsearch",
            "--json",
            "--",
            "dash",
            "-c",
            "ls / >/dev/null; no-such-program"
        ]);
        as_nobody(&mut program);
        program
            .current_dir("/")
            .env("PATH", PATH)
            .env_remove("LD_LIBRARY_PATH");
        let ran = run(&mut program);
        let value: Value =
            serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran}"));
        super::schema::check(&value);
        assert_eq!(misses(&value), before, "{ran}");
        assert_eq!(ran.code(), 127);
    }
}

#[test]
fn a_search_continues_after_permission_is_denied() {
    if require(&[Need::Root, Need::Program("dash")]) {
        let place = tempfile::tempdir().unwrap();
        let closed = place.path().join("closed");
        std::fs::create_dir(&closed).unwrap();
        for (dir, mode) in [(place.path(), 0o755), (&closed, 0o700)] {
            chmod(dir, mode);
        }
        let path = format!("{}:/nowhere:/usr//bin/.", closed.display());
        let mut program = fathom(args![
            "pathsearch",
            "--json",
            "--",
            "dash",
            "-c",
            "tail /dev/null"
        ]);
        as_nobody(&mut program);
        program
            .current_dir("/")
            .env("PATH", path)
            .env_remove("LD_LIBRARY_PATH");
        let ran = run(&mut program).exits(0);
        let value: Value =
            serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran}"));
        super::schema::check(&value);
        let search = of_kind(&value, "PATH")
            .into_iter()
            .find(|search| search["name"] == "tail")
            .unwrap();
        assert_eq!(
            search["tried"],
            serde_json::json!([closed.join("tail"), "/nowhere/tail", "/usr/bin/tail"])
        );
        assert_eq!(
            (&search["found"], &search["misses"]),
            (&"/usr/bin/tail".into(), &1.into()),
            "{search}"
        );
        assert_eq!(misses(&value)[&b"/nowhere"[..]], 1);
    }
}

#[test]
fn a_child_that_outlives_the_command_is_traced_to_its_end() {
    if require(&[Need::Program("dash")]) {
        let place = tempfile::tempdir().unwrap();
        // The child looks up the name after its parent, the command, has become a zombie or has
        // been waited for.
        let script = "(while grep -qs '^State:.[^ZX]' /proc/$$/status; do :; done; test -e /no/such/file) \
                      >/dev/null 2>&1 & exit 0";
        let (value, _) = searched(place.path(), &sh("dash", script), |_| {});
        assert_eq!(misses(&value)[&b"/no/such"[..]], 1);
    }
}
