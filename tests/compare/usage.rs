//! Tests of invalid input, and of the messages about it.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use serde_json::json;

use super::*;
use crate::support::wait::{is_asleep, wait_until};
use crate::support::{Need, require};

#[test]
fn errors_name_file_and_line() {
    for (text, says) in [
        (&b""[..], "the file is empty"),
        (b"a_real,b_real\n", "headings, but no runs"),
        (
            b"x,y\n1,2\n",
            "line 1: no columns NAME_real, NAME_user, NAME_sys",
        ),
        (b"host,a_real\nx,2\n", "line 1: only one program, a"),
        (
            b"a_real,b_real\n1,2\n1,fast\n",
            "line 3: 'fast' is not a valid b_real",
        ),
        (
            b"a_real,b_real\n1,2\n1,-2\n",
            "line 3: '-2' is not a valid b_real",
        ),
        (
            b"a_real,b_real\n1,nan\n",
            "line 2: 'nan' is not a valid b_real",
        ),
        (b"a_real,b_real\n1,2,3\n", "line 2: 3 cells, but 2 headings"),
        (b"a_real,b_real\n1,\"2\n", "line 2: unclosed quote"),
        (b"a_real,b_real\n1,2\n\xff,2\n", "line 3: not UTF-8"),
        (b"\xff\xfea\0_\0", "line 1: not UTF-8"),
        (
            b"{\"schema\":\"fathom.verify/1\"}",
            "line 1: no figures in this JSON of fathom verify (use survey, probe,",
        ),
        (
            b"{\"schema\":\"fathom.walk/1\",\"result\":{\"compare\":null}}",
            "line 1: no figures in this JSON of fathom walk (use --compare)",
        ),
        (b"{\n\"a\":", "line 2: not JSON"),
    ] {
        let (_dir, path) = file("runs.csv", text);
        let ran = compare(&[&figure(7), &path]).refused();
        let begins = format!(
            "fathom: cannot compare the runs in '{}': {says}",
            path.display()
        );
        assert!(ran.stderr.starts_with(&begins), "{ran}");
    }
}

#[test]
fn directories_are_refused_with_the_commands_that_compare_them() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(a.path().join("file"), "a").unwrap();
    std::fs::write(b.path().join("file"), "b").unwrap();
    let ran = compare(&[a.path(), b.path()]).refused();
    assert!(ran.stderr.contains("it is a directory"), "{ran}");
    assert!(ran.stderr.contains("fathom verify - --against B"), "{ran}");
    // The command of the hint finds the difference.
    let script = r#"(cd "$1" && "$0" dump . -q -o -) | "$0" verify - --against "$2""#;
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", script])
        .arg(crate::support::fathom_path());
    let ran = run(shell.args([a.path(), b.path()])).exits(1);
    assert!(ran.stderr.contains("file"), "{ran}");
}

#[test]
fn a_base_that_no_file_has_is_refused_with_the_names() {
    let (_dir, path) = file("runs.csv", "find_real,bfs_real\n1,2\n");
    for base in ["fd", ""] {
        let ran = run(&mut fathom(args!["compare", "--base", base, &path])).refused();
        let says = format!(
            "fathom: --base '{base}': the programs in '{}' are find, bfs\nhint: give one of these\n",
            path.display()
        );
        assert_eq!(ran.stderr, says);
    }
}

#[test]
fn times_of_zero_are_a_warning_with_a_hint() {
    let (_dir, path) = file("runs.csv", "a_real,a_sys,b_real,b_sys\n1,0,2,0.5\n");
    let ran = compare(&[&path]).exits(1);
    assert!(
        ran.stderr.contains("\nhint: measure a larger tree"),
        "{ran}"
    );
}

/// The processor time of a short command is often 0, because the kernel counts it in ticks.
#[test]
fn processor_times_of_zero_in_json_are_no_warning() {
    let dir = tempfile::tempdir().unwrap();
    let files = ["before.json", "after.json"].map(|name| {
        let path = dir.path().join(name);
        let figure = |name: &str, value: f64| {
            let unit = if name == "calls" { "calls" } else { "s" };
            format!(r#"{{"name": "{name}", "value": {value}, "unit": "{unit}", "spread": null}}"#)
        };
        let times = [figure("real", 1.0), figure("user", 0.0), figure("sys", 0.5)];
        let figures = [&times[..], &[figure("calls", 7.0)]].concat().join(", ");
        let text = format!(
            r#"{{"schema": "fathom.account/1", "result": {{}}, "figures": [{figures}], "gates": {{}}, "warnings": []}}"#
        );
        std::fs::write(&path, text).unwrap();
        path
    });
    let ran = compare(&[&files[0], &files[1]]).exits(0);
    assert!(
        ran.stderr.is_empty() || ran.stderr.contains("one run"),
        "{ran}"
    );
    let text = std::fs::read_to_string(&files[1]).unwrap();
    let other = text.replace("fathom.account/1", "fathom.pathsearch/1");
    std::fs::write(&files[1], other).unwrap();
    let ran = compare(&[&files[0], &files[1]]).refused();
    let message = "of fathom account, with";
    assert!(
        ran.stderr.contains(message) && ran.stderr.contains("of fathom pathsearch"),
        "{ran}"
    );
}

#[test]
fn missing_bases_and_unwritable_pages_are_refused() {
    run(&mut fathom(args![
        "compare",
        figure(7),
        "--base",
        "getmnt3"
    ]))
    .refused();
    let dir = tempfile::tempdir().unwrap();
    for page in [dir.path().to_owned(), dir.path().join("no/page.html")] {
        run(&mut fathom(args!["compare", figure(7), "--html", page])).refused();
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn pipes_and_standard_input_are_read() {
    let text = std::fs::read(figure(7)).unwrap();
    for name in ["-", "/dev/stdin"] {
        let mut command = fathom(["compare", "--json", name]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // Write the text in pieces, each after the program has read the previous one and waits.
        for piece in text.chunks(1000) {
            stdin.write_all(piece).unwrap();
            wait_until("the program waits for more", || {
                rustix::io::ioctl_fionread(&stdin).unwrap() == 0 && is_asleep(child.id())
            });
        }
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{name}");
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(ratio(&value, "getmnt1")["systems"], 40, "{name}");
    }
}

#[test]
fn names_that_are_not_utf8_are_kept() {
    let (dir, path) = file("x", "a_real,b_real\n4,2\n");
    let strange = dir
        .path()
        .join(std::ffi::OsStr::from_bytes(b"we\xffb\n.csv"));
    std::fs::rename(path, &strange).unwrap();
    let value = compare_json(&[&strange]);
    let system = &value["result"]["comparisons"][0]["systems"][0];
    assert_eq!(crate::support::run::exact(system, "system"), b"we\xffb\n");
    assert_eq!(
        crate::support::run::exact(system, "file"),
        strange.as_os_str().as_bytes()
    );
}

#[test]
fn help_has_exit_statuses_and_examples() {
    let help = run(&mut fathom(["compare", "--help"])).exits(0);
    let text = String::from_utf8(help.stdout).unwrap();
    for part in [
        "NAME_real",
        "--base",
        "--html",
        "Examples:",
        "Exit status:",
        "0  done, whether figures changed or not",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn command_of_the_docs_for_ci_fails_if_a_figure_has_increased() {
    const PAGE: &str = include_str!("../../docs/compare.md");
    if !require(&[Need::Program("jq")]) {
        return;
    }
    let command = PAGE.lines().find(|line| line.contains("jq -e"));
    let script = command.unwrap().replacen("fathom", "\"$0\"", 1);
    let dir = tempfile::tempdir().unwrap();
    for (before, after, status) in [(20.0, 20.0, 0), (20.0, 80.0, 1), (80.0, 20.0, 0)] {
        for (name, value) in [("before.json", before), ("after.json", after)] {
            let figure = json!({"name": "mounts", "value": value, "unit": "calls", "spread": 0});
            let file = json!({"schema": "fathom.survey/1", "result": {}, "figures": [figure], "gates": {}, "warnings": []});
            std::fs::write(dir.path().join(name), file.to_string()).unwrap();
        }
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &script]).current_dir(dir.path());
        run(shell.arg(crate::support::fathom_path())).exits(status);
        // The exit status of fathom itself is the same.
        let files = ["before.json", "after.json"].map(|name| dir.path().join(name));
        compare(&[&files[0], &files[1]]).exits(0);
    }
}
