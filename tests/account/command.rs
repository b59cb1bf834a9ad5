//! Tests of a command under a meter: its output and status do not change, and the account is
//! correct.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::account::counts::METERS;
use crate::support::build::{chmod, file, name, tmpfs};
use crate::support::run::{args, calls, path, program};
use crate::support::{Need, fathom, in_namespace, require, run, schema};

/// The account of a command whose output the test does not need.
pub(crate) fn account<A: Into<OsString>>(
    flags: &[&str],
    command: impl IntoIterator<Item = A>,
) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("report");
    let mut words = args!["account", "--json", "-o", &report].to_vec();
    words.extend(flags.iter().map(OsString::from));
    words.push("--".into());
    words.extend(command.into_iter().map(Into::into));
    let ran = run(&mut fathom(words));
    let value: Value =
        serde_json::from_slice(&std::fs::read(&report).unwrap_or_else(|e| panic!("{e}: {ran}")))
            .unwrap();
    schema::check(&value);
    assert_eq!(value["result"]["exit"], ran.code(), "{ran}");
    value["result"].clone()
}

/// The row of one path.
pub(crate) fn row<'a>(rows: &'a Value, of: &Path) -> Option<&'a Value> {
    rows.as_array()
        .unwrap()
        .iter()
        .find(|row| path(row, "path") == of)
}

/// Calls by gate in a row.
fn gates(row: &Value) -> BTreeMap<&str, u64> {
    row["gates"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, calls)| (&name[..], calls.as_u64().unwrap()))
        .collect()
}

fn script(text: &str) -> [&str; 3] {
    ["sh", "-c", text]
}

#[test]
fn command_keeps_its_input_output_and_exit_status() {
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("report");
    for (flags, status) in [(&[][..], 3), (&["--json"], 0)] {
        let mut command = fathom(["account"]);
        command
            .args(flags)
            .arg("-o")
            .arg(&report)
            .arg("--")
            .args(script(&format!("cat; echo err >&2; exit {status}")));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"given\n").unwrap();
        let ran = child.wait_with_output().unwrap();
        assert_eq!(ran.status.code(), Some(status));
        assert_eq!(
            (&ran.stdout[..], &ran.stderr[..]),
            (&b"given\n"[..], &b"err\n"[..])
        );
        let text = std::fs::read_to_string(&report).unwrap();
        assert!(
            text.contains("execve")
                && text.starts_with(if flags.is_empty() {
                    "Exit status "
                } else {
                    "{"
                }),
            "{text}"
        );
    }
    // Without -o the report goes to stderr; with --json to stdout, after the output of the command.
    let ran = run(&mut fathom([
        "account",
        "--",
        "sh",
        "-c",
        "echo out; exit 4",
    ]))
    .exits(4);
    assert_eq!(ran.stdout, b"out\n");
    assert!(
        ran.stderr.starts_with("Exit status 4; ") && ran.stderr.contains(" SYSTEM CALL\n"),
        "{ran}"
    );
    let ran = run(&mut fathom(["account", "--json", "--", "echo", "out"])).exits(0);
    assert_eq!(ran.stderr, "");
    let object = ran.stdout.strip_prefix(b"out\n").unwrap();
    schema::check(&serde_json::from_slice(object).unwrap());
    let value = run(&mut fathom(["account", "--json", "--", "false"]))
        .exits(1)
        .json();
    assert_eq!(value["result"]["gates"]["execve"]["calls"], 1);
    let ran = run(&mut fathom(["account", "-o", "-", "--", "true"])).exits(0);
    assert!(
        ran.stdout.starts_with(b"Exit status 0; ") && ran.stderr.is_empty(),
        "{ran}"
    );
}

#[test]
fn exit_status_of_a_killed_command_is_passed_on() {
    let value = account(&[], script("kill -9 $$"));
    assert_eq!((&value["exit"], &value["signal"]), (&137.into(), &9.into()));
    let ran = run(&mut fathom(["account", "--", "sh", "-c", "kill -TERM $$"])).exits(143);
    assert!(
        ran.stderr
            .starts_with("Killed by signal 15 (exit status 143); "),
        "{ran}"
    );
}

#[test]
fn command_needs_no_separator_and_keeps_its_options() {
    let dir = tempfile::tempdir().unwrap();
    file(dir.path().join("a"), 1);
    let report = dir.path().join("report");
    for words in [
        args!["ls", "-l", "--color=never", dir.path()].to_vec(),
        args!["--", "ls", "-l", "--color=never", dir.path()].to_vec(),
        args!["ls", "--", "-x", dir.path()].to_vec(),
        args!["echo", "--json", "-o", "--version", "--", "--help"].to_vec(),
    ] {
        let alone: Vec<_> = words.iter().skip_while(|word| *word == "--").collect();
        let alone = std::process::Command::new(alone[0])
            .args(&alone[1..])
            .output()
            .unwrap();
        let mut metered = fathom(args!["account", "--top", "3", "-o", report]);
        let ran = run(metered.args(&words)).exits(alone.status.code().unwrap());
        assert_eq!(ran.stdout, alone.stdout, "{words:?}: {ran}");
        assert!(std::fs::read(&report).unwrap().starts_with(b"Exit status "));
    }
}

#[test]
fn reason_for_the_meter_is_printed_with_v_only() {
    let ran = run(&mut fathom(["account", "--meter", "ptrace", "true"])).exits(0);
    assert!(!ran.stderr.contains("chosen"), "{ran}");
    let ran = run(&mut fathom(["account", "-v", "--meter", "ptrace", "true"])).exits(0);
    assert!(
        ran.stderr.contains("Meter ptrace: chosen with --meter."),
        "{ran}"
    );
}

#[test]
fn exit_statuses_are_126_and_127_as_in_a_shell() {
    let dir = tempfile::tempdir().unwrap();
    let plain = file(dir.path().join("plain"), 10);
    let report = dir.path().join("report");
    for (command, status) in [
        (OsStr::new("no-such-command-as-this"), 127),
        (OsStr::new("/no/such/command"), 127),
        (OsStr::new(""), 127),
        (plain.as_os_str(), 126),
        (dir.path().as_os_str(), 126),
    ] {
        for flags in [&["--json"][..], &["-o", report.to_str().unwrap()]] {
            let ran = run(fathom(["account"]).args(flags).arg("--").arg(command)).exits(status);
            assert!(
                ran.stdout.is_empty() && ran.stderr.starts_with("fathom: cannot ")
                    || command.is_empty(),
                "{ran}"
            );
            let (message, hint) = ran.stderr.trim_end().split_once('\n').unwrap_or_default();
            assert!(
                message.starts_with("fathom: ") && hint.starts_with("hint: "),
                "{ran}"
            );
            assert!(!hint.contains('\n') && !report.exists(), "{ran}");
        }
    }
}

#[test]
fn options_of_the_model_are_accepted_with_it() {
    for (flag, value) in [
        ("--mix", "40:60"),
        ("--share", "50"),
        ("--system-share", "50"),
    ] {
        run(&mut fathom(["account", "--model", flag, value])).exits(0);
    }
}

#[test]
fn a_shell_command_line_is_recognized() {
    let ran = run(&mut fathom(["account", "find . | wc -l"])).exits(127);
    let hint = "hint: for a shell command line, give sh -c '...'\n";
    assert!(ran.stderr.ends_with(hint), "{ran}");
}

#[test]
fn top_limits_the_rows_of_each_table() {
    let tables = |flags: &[&str]| {
        let ran = run(fathom(["account"]).args(flags).args(["ls", "-l", "/"])).exits(0);
        let parts = ran.stderr.split("\n\n").map(|part| part.lines().count());
        (parts.collect::<Vec<_>>(), ran.stderr)
    };
    // A line about the full report follows the last table.
    let (lines, text) = tables(&[]);
    assert!(
        lines[1..] == [11, 7] && text.lines().count() <= 30,
        "{text}"
    );
    assert_eq!(tables(&["--top", "2"]).0[1..], [3, 4]);
    let (_, text) = tables(&["--full"]);
    let calls = text.split("\nSystem calls\n").nth(1).unwrap();
    let calls = calls.split("\n\n").next().unwrap();
    assert!(
        calls.lines().count() > 11 && !calls.contains("--top"),
        "{calls}"
    );
    let (_, text) = tables(&["--full", "--top", "2"]);
    let calls = text.split("\nSystem calls\n").nth(1).unwrap();
    let calls = calls.split("\n\n").next().unwrap();
    assert!(
        calls.lines().count() == 4 && calls.ends_with("more (see --top)"),
        "{calls}"
    );
}

#[test]
fn csv_and_stacks_have_every_call() {
    let text = script("cd '/usr;bin' 2>/dev/null; ls / >/dev/null; cat /etc/passwd >/dev/null");
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let whole = account(&[], text);
    let expected = calls(&whole["gates"]);
    for (flags, name) in [
        (&["--csv"][..], "csv"),
        (&["--folded"], "folded"),
        (&["--folded", "--calls", "20"], "part"),
        (&["--folded", "--meter", "ptrace"], "ptrace"),
    ] {
        let mut command = fathom(["account"]);
        command.args(flags).arg("-o").arg(at(name)).args(text);
        run(&mut command).exits(0);
    }
    let csv = std::fs::read_to_string(at("csv")).unwrap();
    let mut lines = csv.lines();
    assert_eq!(
        lines.next(),
        Some("system_call,calls,errors,seconds,wait_calls,wait_seconds,errnos,ms_per_call")
    );
    let rows = lines.map(|line| line.split(',').collect::<Vec<_>>());
    let counted: BTreeMap<String, u64> = rows
        .map(|row| {
            assert_eq!(row.len(), 8, "{row:?}");
            let number = |at: usize| row[at].parse::<f64>().unwrap();
            let timed = (number(1) - number(4)).max(1.0);
            assert!(
                (number(7) * timed - number(3) * 1e3).abs() < 1e-6,
                "{row:?}"
            );
            (row[0].to_owned(), row[1].parse().unwrap())
        })
        .collect();
    assert_eq!(counted, expected);
    // flamegraph.pl: /^(.*)\s+?(\d+(?:\.\d*)?)$/, with frames between semicolons
    let line = regex::Regex::new(r"^([^;]+(?:;[^;]+)*);([a-z0-9_]+) (\d+)$").unwrap();
    for name in ["folded", "part", "ptrace"] {
        let folded = std::fs::read_to_string(at(name)).unwrap();
        let mut counted = BTreeMap::<String, u64>::new();
        for text in folded.lines() {
            let found = line.captures(text).unwrap_or_else(|| panic!("{text}"));
            *counted.entry(found[2].to_owned()).or_default() += found[3].parse::<u64>().unwrap();
        }
        assert_eq!(counted, expected, "{name}: {folded}");
        assert_eq!(
            folded.contains(";[not examined];"),
            name == "part",
            "{folded}"
        );
    }
    let ran = run(&mut fathom(["account", "--csv", "echo", "out"])).exits(0);
    assert!(ran.stdout.starts_with(b"out\nsystem_call,"), "{ran}");
}

#[test]
fn unwritable_reports_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let (touched, prices) = (
        dir.path().join("touched"),
        file(dir.path().join("prices"), 100),
    );
    for (flag, bad) in [
        ("-o", "/no/such/directory/x"),
        ("-o", "/"),
        ("--prices", "/no/such/file"),
    ] {
        run(&mut fathom(args![
            "account", flag, bad, "--", "touch", &touched
        ]))
        .refused();
    }
    run(&mut fathom(args![
        "account", "--prices", &prices, "--", "touch", &touched
    ]))
    .refused();
    std::fs::write(&prices, b"{\"result\":{\"prices\":null}}").unwrap();
    run(&mut fathom(args![
        "account", "--prices", &prices, "--", "touch", &touched
    ]))
    .refused();
    assert!(!touched.exists(), "the command was run for nothing");
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let status = fathom(["account", "--", "true"])
        .stderr(full)
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(2));
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let full = tmpfs(ground.join("full"));
            rustix::mount::mount_remount(&full, rustix::mount::MountFlags::empty(), c"size=64k")
                .unwrap();
            let ballast = full.join("ballast");
            while std::fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(&ballast)
                .unwrap()
                .write(&[1; 4096])
                .is_ok()
            {}
            let ran = run(&mut fathom(args![
                "account",
                "-o",
                full.join("report"),
                "--",
                "echo",
                "out"
            ]))
            .exits(2);
            assert_eq!(ran.stdout, b"out\n");
            assert!(
                ran.stderr.contains("cannot write the report to")
                    && ran.stderr.contains("No space left"),
                "{ran}"
            );
            assert!(
                ran.stderr.contains("exited with status 0") && !full.join("report").exists(),
                "{ran}"
            );
        });
    }
}

#[test]
fn calls_are_counted_for_files_of_any_name() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    let odd = file(top.join("sub").join(name(b"\xff\x1b[31m\n")), 100);
    let mut command = fathom(["account", "--json", "--", "sh", "-c", "cd sub && cat *31m*"]);
    let ran = run(command.current_dir(&top)).exits(0);
    let object = ran.stdout.get(100..).unwrap();
    let value: Value = serde_json::from_slice(object).unwrap();
    schema::check(&value);
    let result = &value["result"];
    let row = |rows| row(rows, &odd).unwrap_or_else(|| panic!("{value}"));
    let of_file = gates(row(&result["per_file"]));
    assert_eq!((of_file["openat"], of_file["read"]), (1, 2), "{of_file:?}");
    assert!(row(&result["per_file"])["path_b64"].is_string());
    let sub = super::command::row(&result["per_directory"], &top.join("sub")).unwrap();
    let calls: u64 = of_file.values().sum();
    assert!(
        sub["calls"].as_u64().unwrap() > calls && sub["files"] == 2,
        "{sub}"
    );
    let text = run(fathom([
        "account",
        "--full",
        "--top",
        "1000",
        "--",
        "sh",
        "-c",
        "cd sub && cat *31m*",
    ])
    .current_dir(&top))
    .stderr;
    assert!(
        !text.contains(|c: char| c.is_control() && c != '\n') && text.contains("\\xff\\x1b[31m\\n"),
        "{text}"
    );
}

#[test]
fn sums_by_call_program_file_and_directory_agree() {
    let value = account(
        &["--by", "process"],
        script("ls / | cat; for i in 1 2 3; do cat /etc/passwd; done"),
    );
    let total = calls(&value["gates"]).values().sum::<u64>();
    let sum = |rows: &Value| {
        rows.as_array()
            .unwrap()
            .iter()
            .map(|row| row["calls"].as_u64().unwrap())
            .sum::<u64>()
    };
    assert_eq!(sum(&value["programs"]), total);
    assert_eq!(sum(&value["processes"]), total);
    let detail = &value["detail"];
    assert_eq!(
        (&detail["calls"], &detail["complete"]),
        (&total.into(), &true.into()),
        "{detail}"
    );
    assert_eq!(
        sum(&value["per_file"]) + detail["nameless"]["calls"].as_u64().unwrap(),
        total
    );
    assert_eq!(sum(&value["per_directory"]), sum(&value["per_file"]));
    let passwd = row(&value["per_file"], Path::new("/etc/passwd")).unwrap();
    assert_eq!(gates(passwd)["openat"], 3);
    let cat = value["programs"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| path(row, "program").ends_with("cat"))
        .unwrap();
    assert_eq!(cat["processes"], 4);
    assert!(
        value["overhead_seconds"].as_f64().unwrap() > 0.0 && value["lost"] == 0,
        "{value}"
    );
    for (name, gate) in value["gates"].as_object().unwrap() {
        let by_errno: u64 = gate["errnos"]
            .as_object()
            .unwrap()
            .values()
            .map(|n| n.as_u64().unwrap())
            .sum();
        assert_eq!(gate["errors"], by_errno, "{name}");
    }
}

#[test]
fn short_lived_programs_have_their_name() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    std::fs::create_dir(top.join("real")).unwrap();
    std::fs::copy("/bin/true", top.join("real/yes")).unwrap();
    std::os::unix::fs::symlink("real", top.join("alias")).unwrap();
    let yes = top.join("alias/yes");
    let executable = |name: &str, first: &str| {
        let file = top.join(name);
        std::fs::write(&file, first).unwrap();
        chmod(&file, 0o755);
        file
    };
    let script = executable("script", &format!("#! {} x\n", yes.display()));
    let outer = executable("outer", &format!("#!{}", script.display()));
    let text = "n=0; while [ $n -lt 60 ]; do \"$0\"; \"$1\"; n=$((n + 1)); done; exec \"$2\"";
    for meter in METERS {
        let value = account(
            &["--meter", meter],
            args!["sh", "-c", text, &yes, &outer, &script],
        );
        let programs = value["programs"].as_array().unwrap();
        let ran = |name: &Path| programs.iter().find(|row| path(row, "program") == name);
        let processes = ran(&top.join("real/yes")).map(|row| &row["processes"]);
        assert_eq!(
            (processes, programs.len()),
            (Some(&121.into()), 2),
            "{meter}: {}",
            value["programs"]
        );
        assert!(
            ran(&Path::new("/bin/sh").canonicalize().unwrap()).is_some(),
            "{meter}: {}",
            value["programs"]
        );
    }
}

#[test]
fn beyond_the_limit_of_calls_only_totals_are_counted() {
    let whole = account(&[], script("cat /etc/passwd"));
    let part = account(&["--calls", "10"], script("cat /etc/passwd"));
    assert_eq!(
        (&part["detail"]["calls"], &part["detail"]["complete"]),
        (&10.into(), &false.into())
    );
    assert_eq!(calls(&part["gates"]), calls(&whole["gates"]));
    let none = account(&["--calls", "0"], script("cat /etc/passwd"));
    assert_eq!(
        (
            calls(&none["gates"]),
            none["per_file"].as_array().unwrap().len()
        ),
        (calls(&whole["gates"]), 0)
    );
    let text = run(&mut fathom([
        "account",
        "--calls",
        "10",
        "--",
        "cat",
        "/etc/passwd",
    ]))
    .exits(0)
    .stderr;
    assert!(text.contains("of the first 10 of"), "{text}");
}

#[test]
fn names_with_dot_dot_are_resolved() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    let deep = "a/b/c/d/e/f/g/h/i/j";
    file(top.join(deep).join("f"), 1);
    file(top.join("a/z/y/x/w/v/u/t/s/r/f"), 1);
    // find opens `..` when it comes back from so far down.
    let value = account(&[], args!["find", &top, "-size", "+1k"]);
    let files = value["per_file"].as_array().unwrap();
    assert!(
        files
            .iter()
            .all(|row| !row["path"].as_str().unwrap().contains("..")),
        "{value}"
    );
    assert!(
        row(&value["per_directory"], &top.join(deep)).is_some(),
        "{value}"
    );
}

#[test]
fn directories_are_summed_up_to_the_given_depth() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    for n in 0..3 {
        file(top.join(format!("a/b{n}/f")), 10);
    }
    let text = format!("cat {0}/a/b0/f {0}/a/b1/f {0}/a/b2/f", top.display());
    let depth = top.components().count() - 1;
    let value = account(
        &["--by", &format!("directory:{}", depth + 1)],
        script(&text),
    );
    assert_eq!(
        row(&value["by_directory"], &top.join("a")).unwrap()["files"],
        3
    );
    let value = account(&["--by", "directory", "--top", "2"], script(&text));
    assert_eq!(value["by_directory"].as_array().unwrap().len(), 2);
    assert!(value["detail"]["directories"].as_u64().unwrap() > 3);
}

#[test]
fn prices_are_read_from_the_output_of_probe() {
    let dir = tempfile::tempdir().unwrap();
    let prices = dir.path().join("prices");
    let rows = [
        ("newfstatat", "a file, by name", 5000),
        ("statx", "a name that is not there", 5000),
        ("lgetxattr", "one that is not there", 5000),
        ("getppid", "an empty call", 1000),
    ]
    .map(
        |(gate, what, ns)| serde_json::json!({"gate": gate, "what": what, "state": "warm", "threads": 1, "ns": ns}),
    );
    std::fs::write(
        &prices,
        serde_json::json!({"result": {"dir": "/x", "prices": rows}}).to_string(),
    )
    .unwrap();
    let value = account(&["--prices", prices.to_str().unwrap()], ["stat", "/"]);
    assert_eq!(value["model"]["prices"], "fathom probe /x gates");
    // A pipe will do: `--prices <(fathom probe ...)`.
    let report = dir.path().join("report");
    let piped = format!(
        "cat {} | {} account --json -o {} --prices /dev/stdin -- stat /",
        prices.display(),
        env!("CARGO_BIN_EXE_fathom"),
        report.display()
    );
    run(&mut program(Path::new("sh"), ["-c", &piped])).exits(0);
    let piped: Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
    assert_eq!(piped["result"]["model"]["prices"], value["model"]["prices"]);
    // `--prices` gives the fixed cost: the price of the cheapest call for information by name. It
    // is not measured.
    assert_eq!(value["model"]["fixed_ns"], 5000.0, "{}", value["model"]);
}

#[test]
fn help_has_examples_and_exit_statuses() {
    let help = String::from_utf8(run(&mut fathom(["account", "--help"])).exits(0).stdout).unwrap();
    for word in [
        "Examples:",
        "Exit status:",
        "127",
        "--meter",
        "--by",
        "--prices",
        "--model",
        ".result.gates",
    ] {
        assert!(help.contains(word), "no {word}: {help}");
    }
}
