//! End-to-end tests of `fathom account`.

mod attach;
mod command;
mod counts;
mod meter;
mod one_run;
mod patterns;
mod savings;
mod seconds;
mod suspend;
mod waits;

use serde_json::{Value, json};

use crate::support::run::args;
use crate::support::{fathom, run};

const HEAD: &str = "gate,ms_per_call,calls_per_dir,calls_per_seg,for_effect\n";

fn table(rows: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, format!("{HEAD}{rows}")).unwrap();
    file
}

fn column(value: &Value, name: &str) -> Value {
    let options = value["result"]["options"].as_array().unwrap();
    options
        .iter()
        .find(|option| option["name"] == name)
        .unwrap_or_else(|| panic!("no {name}: {value}"))
        .clone()
}

#[test]
fn model_gives_the_last_table_of_the_memo() {
    let value = run(&mut fathom(["account", "--model", "--json"]))
        .exits(0)
        .json();
    assert_eq!(value["result"]["fixed_ms"], 14.0);
    for (name, dir, file, saves, printed) in [
        (
            "today",
            [350.0, 115.0, 465.0],
            [84.0, 15.0, 99.0],
            0.0,
            json!(null),
        ),
        (
            "two_gates",
            [85.0, 115.0, 200.0],
            [28.0, 15.0, 43.0],
            29.0,
            json!(27.0),
        ),
        (
            "copyout",
            [30.0, 115.0, 145.0],
            [5.0, 15.0, 20.0],
            37.0,
            json!(32.0),
        ),
        (
            "rawdump",
            [30.0, 15.0, 45.0],
            [5.0, 15.0, 20.0],
            45.0,
            json!(41.0),
        ),
    ] {
        let option = column(&value, name);
        for (kind, [overhead, useful, total]) in [("dir", dir), ("file", file)] {
            assert_eq!(
                option[kind],
                json!({"overhead": overhead, "useful": useful, "total": total}),
                "{name} {kind}"
            );
        }
        assert_eq!(
            (&option["saves_percent"], &option["printed"]),
            (&json!(saves), &printed),
            "{name}"
        );
    }
    let text = String::from_utf8(run(&mut fathom(["account", "--model"])).exits(0).stdout).unwrap();
    for line in [
        "  total                       465       200     145      45",
        "  of the program's CPU time     0        29      37      45",
        "    printed in the memo         -        27      32      41",
        "  of the system's CPU time      0         6       7       9",
        "    printed in the memo         -         5       6       8",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
    }
}

#[test]
fn model_of_another_table_has_no_printed_values() {
    let file = table("list,9,1,0,no\nstat,0.5,1,1,no\nset,0.25,1,1,yes\n");
    let value = run(&mut fathom(args![
        "account",
        "--model",
        file.path(),
        "--mix",
        "1:1",
        "--share",
        "100",
        "--json"
    ]));
    let value = value.exits(0).json();
    assert_eq!(
        value["result"]["options"].as_array().unwrap().len(),
        3,
        "{value}"
    );
    let today = column(&value, "today");
    assert_eq!(
        today["dir"],
        json!({"overhead": 1.0, "useful": 8.5, "total": 9.5})
    );
    assert_eq!(
        today["file"],
        json!({"overhead": 0.5, "useful": 0.0, "total": 0.5})
    );
    let raw = column(&value, "rawdump");
    assert_eq!(
        raw["dir"],
        json!({"overhead": 1.0, "useful": 0.0, "total": 1.0})
    );
    assert!(raw["printed"].is_null());
    // 10 ms become 1 and a sixth.
    let saves = raw["saves_percent"].as_f64().unwrap();
    assert!((saves - 88.333_333).abs() < 1e-3, "{saves}");
    assert!((raw["saves_system_percent"].as_f64().unwrap() - saves / 5.0).abs() < 1e-9);
    let text = run(&mut fathom(args!["account", "--model", file.path()])).exits(0);
    assert!(text.stderr.contains("option two_gates skipped"), "{text}");
}

#[test]
fn table_is_read_from_a_pipe() {
    let file = table("list,9,1,0,no\nstat,0.5,1,1,no\nset,0.25,1,1,yes\n");
    let plain = run(&mut fathom(args![
        "account",
        "--json",
        "--model",
        file.path()
    ]))
    .exits(0)
    .json();
    for name in ["-", "/dev/stdin"] {
        let script = format!(
            "cat {} | {} account --json --model {name}",
            file.path().display(),
            env!("CARGO_BIN_EXE_fathom")
        );
        let piped = run(&mut crate::support::run::program(
            "sh".as_ref(),
            ["-c", &script],
        ))
        .exits(0)
        .json();
        assert_eq!(piped["result"], plain["result"], "{name}");
    }
}

#[test]
fn bad_tables_are_refused() {
    for (rows, says) in [
        ("", "it has no calls for information"),
        ("a,b,1,1,no\n", "line 2"),
        ("a,\x1b[1m,1,1,no\n", "line 2"),
    ] {
        let file = table(rows);
        let ran = run(&mut fathom(args!["account", "--model", file.path()])).refused();
        assert!(
            ran.stderr.contains(says) && !ran.stderr.contains('\x1b'),
            "{ran}"
        );
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    for bytes in [&b"\xff\xfe"[..], &vec![b'#'; (1 << 20) + 1]] {
        std::fs::write(&file, bytes).unwrap();
        run(&mut fathom(args!["account", "--model", file.path()])).refused();
    }
}
