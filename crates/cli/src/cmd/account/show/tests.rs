//! Tests of the report, with accounts constructed by hand.

use std::collections::BTreeMap;

use account::patterns::{FoundPattern, Pattern, PatternFix};
use account::report::Coverage;
use account::waits::{Wait, WaitKind};
use account::whatif::{ChangeKind, ReplacedCalls, WhatIf, WhatIfChange};
use gate::Errno;
use meter::call::{CommandEnd, MeterReason};
use meter::names::DescriptorKind;
use proptest::prelude::*;
use show::serde_json;
use unicode_width::UnicodeWidthStr;

use super::*;
use crate::json::Json;

/// A report with one system call, constructed by hand. The path is leaked to get a `'static`
/// lifetime.
pub(crate) fn report(path: &[u8]) -> AccountReport<'static> {
    let path: &'static [u8] = path.to_vec().leak();
    let sum = Sum {
        calls: 120,
        errors: 20,
        nanos: 1_200_000,
    };
    let gate = GateTotal {
        sum,
        errors: vec![(Errno::ENOENT, 19), (Errno::EACCES, 1)],
        is_priced: true,
    };
    let place = |files| FileRow {
        path,
        files,
        sum,
        gates: BTreeMap::from([("openat", 120)]),
    };
    let program = ProgramTotal {
        program: path.to_vec(),
        processes: 3,
        sum,
        wait_calls: 20,
        gates: BTreeMap::from([("openat", 120)]),
        pid: None,
    };
    let process = ProgramTotal {
        pid: Some(7),
        ..program.clone()
    };
    let found = FoundPattern {
        count: 20,
        calls: 20,
        nanos: 100_000,
        example: Some(path.to_vec()),
    };
    let change = WhatIfChange {
        kind: ChangeKind::Spare(PatternFix::CacheMisses),
        calls: 1900,
        seconds: 0.005,
        percent: 0.5,
        overhead: 0.006,
        elapsed: Some(0.02),
        basis: ReplacedCalls::new(1900, 0.02),
        obstacle: None,
    };
    let short = WhatIfChange {
        kind: ChangeKind::Spare(PatternFix::KeepStat),
        basis: ReplacedCalls::new(99, 0.02),
        ..change.clone()
    };
    AccountReport {
        gates: BTreeMap::from([("openat", gate)]),
        waits: vec![Wait {
            kind: WaitKind::On(DescriptorKind::Pipe),
            sum: Sum {
                calls: 20,
                errors: 0,
                nanos: 3_000_000_000,
            },
            gates: BTreeMap::new(),
            errors: BTreeMap::new(),
        }],
        programs: vec![program],
        groups: Groups::Process(vec![process], 13),
        per_file: vec![place(None)],
        per_directory: vec![place(Some(2))],
        coverage: Coverage {
            calls: 100,
            complete: false,
            files: 12,
            directories: 1,
            unheld: sum,
            nameless: sum,
            forgotten: 1,
        },
        patterns: vec![(Pattern::Miss, Box::leak(Box::new(found)))],
        what_if: Box::leak(Box::new(WhatIf {
            fixed: 312.0,
            cpu: 0.001,
            priced: 0.0005,
            elapsed: None,
            changes: vec![change, short],
        })),
        price_source: "measured here",
        is_estimate: true,
        metered: Box::leak(Box::new(Metered {
            meter: "ptrace",
            choice: MeterReason::Cheapest(Vec::new()),
            warnings: Vec::new(),
            totals: Vec::new(),
            unfinished: 0,
            lost: 0,
            overhead: Duration::from_millis(2),
            ended: CommandEnd::Killed(9),
            real: Duration::from_millis(10),
            user: Duration::from_millis(1),
            sys: Duration::from_millis(2),
        })),
    }
}

#[test]
fn report_as_text() {
    let style = TableStyle {
        width: Some(80),
        ..TableStyle::default()
    };
    let limits = Limits {
        rows: 10,
        calls: usize::MAX,
    };
    let text = account_text(&report(b"/usr/bin/x"), style, limits, false);
    for line in [
        "Killed by signal 9 (exit status 137); 10.0 ms real, 1.00 ms user, 2.00 ms",
        "   TIME CALLS ERRORS PER CALL SYSTEM CALL ERRNO",
        "1.20 ms   120     20  10.0 µs openat      19 ENOENT, 1 EACCES",
        "%TIME    TIME CALLS ERRORS PID PROGRAM",
        "100.0 1.20 ms   120     20   7 /usr/bin/x",
        "100.0 1.20 ms   120     20     2 /usr/bin/x",
        "Waiting, not included in TIME and CALLS: pipes 3.00 s (20 calls).",
        "3.00 s    20      0   150 ms pipes",
        "Files, directories and redundant calls are of the first 100 of 120 calls (see",
        "--calls); savings are extrapolated from these to all calls.",
        "2 more (see --top)",
        "3 more (see --top)",
        "COUNT REDUNDANT   TIME PATTERN EXAMPLE",
        "   20        20 100 µs miss    /usr/bin/x",
        "CPU TIME %CPU ELAPSED CALLS 1974 MODEL CHANGE",
        " 5.00 ms  0.5 20.0 ms 1,900    6.00 ms cache-misses",
        "miss: a lookup by name fails (ENOENT, ENOTDIR)",
        "keep-stat: too short to estimate (fewer than 100 calls, or less than 10 ms in",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
    }
}

#[test]
fn errors_of_calls_that_waited_are_in_their_own_table() {
    let mut account = report(b"/usr/bin/x");
    let waited = Sum {
        calls: 20,
        errors: 15,
        nanos: 0,
    };
    account.waits[0].gates = BTreeMap::from([("openat", waited)]);
    account.waits[0].errors = BTreeMap::from([(("openat", Errno::ENOENT.0), 15)]);
    let text = calls_table(&account, 10, true).to_text(Some(100), false);
    let row = "1.20 ms   100      5  12.0 µs openat      4 ENOENT, 1 EACCES";
    assert!(text.lines().any(|shown| shown == row), "{text}");
}

#[test]
fn head_gives_the_share_of_files_and_the_overhead_of_a_call() {
    let mut account = report(b"/usr/bin/x");
    account.programs[0].processes = 1;
    let mut metered = account.metered.clone();
    metered.user = Duration::ZERO;
    account.metered = &metered;
    let [ended, calls] = sentences(&account);
    assert!(
        ended.ends_with("10.0 ms real, 2.00 ms user and system."),
        "{ended}"
    );
    assert_eq!(
        calls,
        "100 calls on files took 1.20 ms, 12 % of the elapsed time; metered by ptrace, \
         overhead 2.00 ms (16.7 µs per call; times are calls x price)."
    );
    account.programs[0].processes = 2;
    assert!(!sentences(&account)[1].contains('%'));
    let limits = Limits { rows: 10, calls: 0 };
    let text = account_text(&account, TableStyle::default(), limits, false);
    assert!(text.contains("\n1 more (see --top)\n"), "{text}");
}

#[test]
fn head_names_the_calls_whose_times_include_the_tracer() {
    let mut account = report(b"/usr/bin/x");
    let gate = |calls, nanos| GateTotal {
        sum: Sum {
            calls,
            errors: 0,
            nanos,
        },
        ..GateTotal::default()
    };
    account.gates.insert("mkdirat", gate(2, 40_000));
    account.gates.insert("rename", gate(3, 60_000));
    let measured = "times are calls x price). Measured instead (may include time of the tracer): \
                    rename, mkdirat (100 µs).";
    let calls = &sentences(&account)[1];
    assert!(calls.ends_with(measured), "{calls}");
    account.is_estimate = false;
    let calls = &sentences(&account)[1];
    assert!(!calls.contains("tracer"), "{calls}");
}

#[test]
fn report_as_json() {
    let value = serde_json::to_value(Json(&report(b"/\xff"))).unwrap();
    for field in [
        "gates",
        "programs",
        "per_file",
        "per_directory",
        "patterns",
        "what_if",
        "meter",
        "lost",
        "overhead_seconds",
        "exit",
    ] {
        assert!(!value[field].is_null(), "{field}: {value}");
    }
    assert_eq!(value["gates"]["openat"]["errnos"]["ENOENT"], 19);
    assert_eq!(value["per_file"][0]["path_b64"], "L/8=");
    assert_eq!(value["programs"][0]["program_b64"], "L/8=");
    assert_eq!(value["patterns"][0]["example_b64"], "L/8=");
    assert_eq!(value["processes"][0]["pid"], 7);
    assert!(value["by_directory"].is_null());
}

proptest! {
    #[test]
    fn text_is_escaped_and_fits_the_terminal(
        path in prop::collection::vec(any::<u8>(), 0..200),
        width in 40..120_usize,
    ) {
        let style = TableStyle { width: Some(width), ..TableStyle::default() };
        let text = account_text(&report(&path), style, Limits { rows: 5, calls: 5 }, true);
        prop_assert!(!text.contains(|c: char| c.is_control() && c != '\n'));
        prop_assert!(text.lines().all(|line| line.width() <= width), "{}", text);
    }
}
