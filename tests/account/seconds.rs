//! Tests of the measured seconds against an independent measurement, `perf trace -s`.
//!
//! `bpf` and `perf trace` both take the time between the tracepoints at which a call begins and
//! ends, but the interval of `perf trace` includes the work of perf itself: on a virtual machine it
//! wakes its reader at each event, for some 15 µs a call. So the calls here are long ones, which
//! wait for a server, and both measure the same calls of one process: their difference does not
//! depend on other work of the machine.

use std::path::Path;
use std::time::Duration;

use crate::account::attach::{Workload, attach_fathom, report};
use crate::account::counts::{METERS, is_metered};
use crate::account::one_run::attach_perf_trace;
use crate::support::synthetic::{SyntheticTree, serve_synthetic};
use crate::support::{Need, in_namespace, require};

const CALLS: u64 = 30;
const LATENCY: Duration = Duration::from_millis(10);
/// Maximum number of runs, until `perf trace` loses no calls.
const RUNS: usize = 4;
const WITHIN: f64 = 0.1;

/// A row of the summary of `perf trace -s`.
pub(crate) struct PerfTraceRow<'a> {
    pub(crate) name: &'a str,
    pub(crate) calls: u64,
    pub(crate) errors: u64,
    milliseconds: f64,
}

/// The rows of file-system calls, of all threads.
pub(crate) fn perf_trace_rows(summary: &str) -> impl Iterator<Item = PerfTraceRow<'_>> {
    summary.lines().filter_map(|line| {
        // The last four columns: shortest, mean, longest, deviation.
        let [name, calls, errors, total, _, _, _, _] =
            line.split_whitespace().collect::<Vec<_>>()[..]
        else {
            return None;
        };
        Some(PerfTraceRow {
            name: Some(name).filter(|name| is_metered(name))?,
            calls: calls.parse().ok()?,
            errors: errors.parse().ok()?,
            milliseconds: total.parse().ok()?,
        })
    })
}

#[test]
fn seconds_in_long_calls_agree_with_perf_trace() {
    if require(&[Need::Root, Need::Fuse, Need::Program("perf")]) {
        // perf mounts a tracefs if there is none.
        in_namespace(|at| METERS.iter().for_each(|meter| agrees(meter, at)));
    }
}

fn agrees(meter: &str, at: &Path) {
    let mount = at.join(format!("remote-{meter}"));
    let remote = SyntheticTree {
        latency: LATENCY,
        ..SyntheticTree::default()
    };
    let _server = serve_synthetic(remote, &mount);
    // The kernel caches no answer to statfs(2). `perf trace -p` follows no new processes.
    let words = vec![mount.to_str().unwrap(); CALLS as usize].join(" ");
    let work = format!("exec stat -f -c %T {words}");
    let (json, log) = (at.join("report"), at.join("log"));
    for _ in 0..RUNS {
        let workload = Workload::start(at, &work);
        let mut perf = attach_perf_trace(&workload.pid(), &log);
        let (mut fathom, _stderr) = attach_fathom(meter, &workload.pid(), &json);
        workload.go();
        assert_eq!(workload.end().1, Some(0));
        assert_eq!(perf.wait().unwrap().code(), Some(0));
        assert_eq!(fathom.wait().unwrap().code(), Some(0));
        let log = std::fs::read_to_string(&log).unwrap();
        let mut rows = perf_trace_rows(&log).filter(|row| row.name == "statfs");
        let result = report(&json);
        let counted = &result["gates"]["statfs"];
        let calls = counted["calls"].as_u64().unwrap();
        assert!(calls >= CALLS, "{meter}: {calls}");
        // stat(1) may look for /sys/fs/selinux, too.
        let Some(row) = rows.next().filter(|row| row.calls == calls) else {
            continue;
        };
        let theirs = row.milliseconds / 1000.0;
        assert!(theirs >= LATENCY.as_secs_f64() * CALLS as f64, "{log}");
        let ours = counted["seconds"].as_f64().unwrap();
        // With ptrace, a call lasts until the tracer learns of its end.
        let most = match meter {
            "ptrace" => result["real"].as_f64().unwrap(),
            _ => theirs * (1.0 + WITHIN),
        };
        assert!(
            ours >= theirs * (1.0 - WITHIN) && ours <= most,
            "{meter}: {ours} s, perf trace -s: {theirs} s"
        );
        return;
    }
    panic!("{meter}: perf trace has lost calls in every run");
}
