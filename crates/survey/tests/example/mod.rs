//! A survey constructed by hand, for the tests of the conclusions here and of the texts in `cli`.
#![allow(dead_code, reason = "neither crate's tests use all of it")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use account::ledger::Sum;
use account::patterns::{FoundPattern, Pattern};
use account::report::{AccountReport, Coverage, GateTotal, Groups};
use account::whatif::{ChangeKind, ReplacedCalls, WhatIf, WhatIfChange};
use archive::nightly::{Expected, Nightly};
use base::child::NoRun;
use base::runs::Times;
use base::{Warning, WarningReason};
use gate::{Errno, Gate, Tally};
use meter::call::{CommandEnd, MeterReason, Metered};
use mounts::compare::{Comparison as Methods, MethodRuns};
use mounts::locate::{LocateReason, LocateReport, Method};
use mounts::{Point, PointKind};
use ondisk::{Content, Dev};
use pathsearch::{
    Change, Count, DirectoryLookups, DirectoryReport, ElementState, Fix, KindCounts, PathElement,
    PathProposal, ProgramStart, StartupReport, Totals,
};
use probe::Value;
use probe::finding::{Method as FoundBy, Outcome, ReportedValue, Source};
use probe::{
    Error, Finding, Kind as SeriesKind, MeasuredFinding, Price, ProbeReport, Quantity, Series,
};
use survey::bounded::{LimitedWalk, StoppedEngine};
use survey::{
    ComparedMethods, Machine, Missing, PrivilegedResult, ProbedFileSystem, Section, StepState,
    StepTaken, Survey, SurveyResults, SurveyedMounts, WalkCosts, conclude,
};
use walk::compare::{Comparison as Engines, EngineRuns, LeftOut};
use walk::{Digest, EngineKind, EngineRefusal, ExplainedPlan, Plan, PlanReason, WalkedMount};

pub(crate) mod random;

/// A mount without anomalies; each path has its own device number.
pub(crate) fn point(target: &[u8]) -> Point {
    let minor = target.iter().fold(7, |sum: u32, b| {
        sum.wrapping_mul(31).wrapping_add(u32::from(*b))
    });
    point_of(target, minor, b"ext4")
}

pub(crate) fn point_of(target: &[u8], minor: u32, fstype: &[u8]) -> Point {
    let content = Content {
        fsroot: b"/".to_vec(),
        fstype: fstype.to_vec(),
        source: Some(b"/dev/x".to_vec()),
        options: b"rw".to_vec(),
        ..Content::default()
    };
    Point {
        content: Some(Arc::new(content)),
        ..Point::bare(target.to_vec(), Dev::new(8, minor), Some(PointKind::Dir))
    }
}

fn times(real: f64) -> Vec<Times> {
    [0.9, 1.0, 1.2]
        .map(|part| Times {
            real: real * part,
            user: real / 4.0,
            sys: real / 2.0,
        })
        .to_vec()
}

/// A tally of `calls` calls of statx.
fn tally(calls: u64) -> Tally {
    let words = (0..Tally::WORDS).map(|_| AtomicU64::new(0));
    let mut words: Vec<AtomicU64> = words.collect();
    let words_per_gate = Tally::WORDS / Gate::ALL.len();
    words[Gate::Statx as usize * words_per_gate] = calls.into();
    Tally::collect(&words)
}

pub(crate) fn engine(engine: EngineKind, real: f64, calls: u64) -> EngineRuns {
    EngineRuns {
        engine,
        totals: walk::Totals {
            entries: 12_345,
            digest: Digest::from_halves([0xff; 2]),
            ..walk::Totals::default()
        },
        warnings: 0,
        is_steady: Some(true),
        runs: times(real),
        tally: tally(calls),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("cannot be")]
struct CannotBe;

impl WarningReason for CannotBe {}

/// A finding with this outcome; `truth` is the kernel's value.
pub(crate) fn finding(
    quantity: Quantity,
    outcome: Outcome,
    truth: Option<(f64, Source)>,
) -> Finding {
    Finding {
        quantity,
        outcome,
        truth: truth.map(|(value, source)| ReportedValue {
            value: Value::Number(value),
            source,
        }),
        agrees: None,
        by_time: false,
        trials: 5,
        note: None,
    }
}

pub(crate) fn measured(finding: Finding) -> MeasuredFinding {
    MeasuredFinding {
        finding,
        seconds: 0.5,
        io_bytes: Default::default(),
    }
}

/// A result that agrees with the kernel; with `None`, the experiment found no value.
fn result(quantity: Quantity, value: Option<f64>) -> MeasuredFinding {
    let outcome = match value {
        Some(value) => Outcome::Found {
            value: Value::Number(value),
            confidence: 1.0,
            method: FoundBy::AfterFirstRead,
        },
        None => Outcome::Unknown(Error::OutOfBytes),
    };
    measured(Finding {
        agrees: value.map(|_| true),
        ..finding(
            quantity,
            outcome,
            value.map(|value| (value, Source::Statfs)),
        )
    })
}

/// The price of a call, by its name in the crate `probe`.
fn price(call: &str, warm: bool, ns: f64) -> Price {
    let price = serde_json::json!({
        "call": call,
        "warm": warm,
        "threads": 1,
        "ns": ns,
        "low": ns * 0.9,
        "high": ns * 1.1,
        "calls": 1000,
    });
    serde_json::from_value(price).unwrap()
}

fn path_counts(hits: u64, misses: u64) -> KindCounts {
    let mut counts = KindCounts::default();
    *counts.get_mut(pathsearch::Kind::Path) = Count { hits, misses };
    counts
}

/// The results of a survey, which tests can modify.
pub(crate) struct Owned {
    pub(crate) root: Vec<u8>,
    pub(crate) machine: Machine,
    pub(crate) found: SurveyResults,
    pub(crate) account: Option<AccountReport<'static>>,
    pub(crate) warnings: Vec<Warning>,
    pub(crate) is_interrupted: bool,
}

impl Owned {
    pub(crate) fn new() -> Owned {
        let step = |name, section, seconds| StepTaken {
            name,
            section,
            state: StepState::Done,
            seconds,
            bytes_read: 1 << 20,
            bytes_written: 0,
        };
        Owned {
            root: b"/".to_vec(),
            machine: machine(),
            found: SurveyResults {
                mounts: Some(mounted()),
                methods: Some(methods()),
                walking: Some(walking()),
                dump: Some(nightly()),
                startup: Some(startup()),
                gates: Some(gate_prices()),
                file_systems: vec![file_system()],
                steps: vec![
                    step("finding the mounts", Section::Mounts, 0.5),
                    step("walking by threads", Section::Walk, 7.25),
                ],
                ..SurveyResults::default()
            },
            account: Some(account()),
            warnings: vec![Warning::failed(
                b"/x\xff",
                Gate::Statx,
                Errno::EIO,
                CannotBe,
            )],
            is_interrupted: false,
        }
    }

    pub(crate) fn points(&mut self) -> &mut Vec<Point> {
        &mut self.found.mounts.as_mut().unwrap().report.points
    }

    pub(crate) fn walking(&mut self) -> &mut WalkCosts {
        self.found.walking.as_mut().unwrap()
    }

    /// The results of the experiments on the first file system.
    pub(crate) fn results(&mut self) -> &mut Vec<MeasuredFinding> {
        &mut self.found.file_systems[0].report.measured
    }

    /// Marks every engine as stopped before it finished.
    pub(crate) fn stop_engines(&mut self, why: NoRun, inodes: Option<u64>) {
        let walking = self.walking();
        for engine in std::mem::take(&mut walking.engines.engines) {
            let left_out = LeftOut::Not(why.clone(), 100);
            walking.engines.left_out.push((engine.engine, left_out));
            walking.stopped.push(StoppedEngine {
                engine: engine.engine,
                why: why.clone(),
                entries: 100,
                inodes,
            });
        }
    }

    /// Marks the walk as stopped before it finished.
    pub(crate) fn bound_walk(&mut self, inodes: Option<u64>, levels: Option<u32>) {
        self.walking().bounded = Some(LimitedWalk {
            engine: EngineKind::Threads,
            entries: 400_000,
            seconds: 5.0,
            bytes: 96 << 20,
            inodes,
            levels,
        });
    }

    /// Removes the results of a section, with this reason.
    pub(crate) fn lose(&mut self, section: Section, why: Missing) {
        let found = &mut self.found;
        match section {
            Section::Mounts => found.mounts = None,
            Section::Walk => found.walking = None,
            Section::Dump => found.dump = None,
            Section::Account => self.account = None,
            Section::Startup => found.startup = None,
            Section::Gates => found.gates = None,
            _ => found.file_systems.clear(),
        }
        found.missing.insert(section, why);
    }

    /// The survey of these results, with findings and advice.
    pub(crate) fn survey(&self) -> Survey<'_> {
        conclude(Survey {
            root: &self.root,
            machine: &self.machine,
            found: &self.found,
            account: self.account.clone(),
            findings: Vec::new(),
            advice: Vec::new(),
            is_interrupted: self.is_interrupted,
            warnings: &self.warnings,
        })
    }
}

fn machine() -> Machine {
    Machine {
        host: Some(b"anvil".to_vec()),
        kernel: "6.12.8-amd64".to_owned(),
        arch: "x86_64".to_owned(),
        cpus: 2,
        memory: Some(8 << 30),
        root: false,
        sudo: Some("sudo"),
        places: vec![(Vec::new(), 1 << 40)],
        is_writable: true,
        unseen: vec![PrivilegedResult::BpfMeter],
        version: "0.1.0",
        when: 1_700_000_000,
        seconds: 34.1,
        bytes_read: 120 << 20,
        bytes_written: 64 << 20,
        limit_seconds: 60.0,
        limit_bytes: 256 << 20,
        deep: false,
    }
}

fn mounted() -> SurveyedMounts {
    let points = vec![
        point(b"/"),
        Point {
            kind: Some(PointKind::File),
            ..point(b"/etc/hosts")
        },
        Point {
            hidden: true,
            ..point(b"/mnt")
        },
        point(b"/mnt"),
        Point {
            server: Some("filer".to_owned()),
            ..point_of(b"/mnt/far", 77, b"nfs4")
        },
    ];
    SurveyedMounts {
        report: LocateReport {
            method: Method::Kernel,
            reason: LocateReason::Requested,
            root_mount: None,
            points,
            incomplete: Vec::new(),
            warnings: Vec::new(),
            search: None,
        },
        own: None,
        is_remote: false,
        is_silent: false,
        excludes: Vec::new(),
    }
}

fn methods() -> ComparedMethods {
    let method = |method, real, calls| MethodRuns {
        method,
        complete: true,
        found: 5,
        runs: times(real),
        profile: tally(calls),
    };
    ComparedMethods {
        comparison: Methods {
            methods: vec![
                method(Method::Kernel, 0.000_31, 12),
                method(Method::Mountinfo, 0.000_42, 9),
                method(Method::Naive, 0.312, 54_321),
            ],
            left_out: vec![(Method::Getmnt1, NoRun::Stopped(Duration::from_secs(5)))],
        },
        skipped: None,
    }
}

fn walking() -> WalkCosts {
    let refusal = EngineRefusal::NotRoot(EngineKind::Ext4);
    let explained = ExplainedPlan {
        path: b"/".to_vec(),
        fstype: Some(b"ext4".to_vec()),
        plan: Plan {
            engine: EngineKind::Threads,
            reason: PlanReason::Requested,
            engines: vec![(EngineKind::Ext4, Err(refusal.clone()))],
        },
    };
    WalkCosts {
        part: WalkedMount {
            path: b"/".to_vec(),
            fstype: Some(b"ext4".to_vec()),
            engine: EngineKind::Threads,
            reason: PlanReason::Requested,
        },
        engines: Engines {
            explained: vec![explained],
            engines: vec![
                engine(EngineKind::Threads, 0.5, 6_000),
                engine(EngineKind::Stat, 2.0, 24_690),
            ],
            left_out: vec![(EngineKind::Ext4, LeftOut::Impossible(refusal))],
        },
        directories: vec![],
        bounded: None,
        stopped: vec![],
    }
}

fn nightly() -> Nightly {
    let none = Expected::default();
    Nightly {
        gather: archive::gather::Gather::Combined,
        engine: EngineKind::Threads,
        why: PlanReason::Requested,
        entries: 12_345,
        files: 10_000,
        bytes: 2_000_000_000,
        seconds: 0.6,
        cpu_seconds: 0.5,
        calls: 26_000,
        call_seconds: 1e-6,
        first: none,
        unchanged: none,
        changed: none,
    }
    .with_estimates()
}

fn account() -> AccountReport<'static> {
    let total = |calls, nanos, errors: Vec<(Errno, u64)>| GateTotal {
        sum: Sum {
            calls,
            errors: errors.len() as u64,
            nanos,
        },
        errors,
        is_priced: false,
    };
    AccountReport {
        gates: BTreeMap::from([
            ("close", total(100, 7_575_856, Vec::new())),
            ("statx", total(12_345, 12_000_000, vec![(Errno::EACCES, 1)])),
        ]),
        waits: Vec::new(),
        programs: vec![],
        groups: Groups::Program,
        per_file: vec![],
        per_directory: vec![],
        coverage: Coverage {
            calls: 12_345,
            complete: true,
            files: 12_345,
            directories: 100,
            ..Coverage::default()
        },
        patterns: vec![(
            Pattern::TinyDirectory,
            Box::leak(Box::new(FoundPattern {
                count: 70,
                calls: 70,
                nanos: 100_000,
                example: Some(b"/tmp".to_vec()),
            })),
        )],
        what_if: Box::leak(Box::new(WhatIf {
            fixed: 312.0,
            cpu: 0.03,
            priced: 0.01,
            elapsed: None,
            changes: vec![WhatIfChange {
                kind: ChangeKind::RawTables { is_asked: true },
                calls: 12_000,
                seconds: 0.01,
                percent: 43.2,
                overhead: 0.008,
                elapsed: None,
                basis: ReplacedCalls::new(12_000, 0.02),
                obstacle: None,
            }],
        })),
        price_source: "measured here",
        is_estimate: false,
        metered: Box::leak(Box::new(Metered {
            meter: "bpf",
            choice: MeterReason::Cheapest(Vec::new()),
            warnings: Vec::new(),
            totals: Vec::new(),
            unfinished: 0,
            lost: 0,
            overhead: Duration::from_millis(2),
            ended: CommandEnd::Exited(0),
            real: Duration::from_millis(2100),
            user: Duration::from_millis(500),
            sys: Duration::from_millis(1100),
        })),
    }
}

fn startup() -> StartupReport {
    let element = |dir: &[u8], state| PathElement {
        dir: dir.to_vec(),
        state,
        fstype: Some(b"ext4".to_vec()),
        network: false,
    };
    let searched = |dir: &[u8], hits, misses| DirectoryReport {
        dir: dir.to_vec(),
        lookups: DirectoryLookups {
            counts: path_counts(hits, misses),
            nanos: 1000 * misses,
        },
        fstype: None,
        network: false,
    };
    let fix = Fix {
        change: Change::SetPath(PathProposal {
            path: b"/usr/bin:/bin".to_vec(),
            removed: Vec::new(),
            is_reordered: false,
            saves: 2,
            names: Vec::new(),
            searches: 1,
        }),
        saves_misses: 2,
        saves_requests: 2,
        saves_seconds: 0.001,
        saves_seconds_here: 2e-6,
    };
    StartupReport {
        path: vec![
            element(b"/gone", ElementState::Missing),
            element(b"/usr/local/bin", ElementState::Ok),
            element(b"/usr/bin/", ElementState::Ok),
        ],
        started: vec![ProgramStart {
            command: "env true",
            about: "PATH and ld.so",
            seconds: 0.0012,
            runs: vec![0.001_21, 0.001_2, 0.001_15],
            totals: Totals {
                lookups: 23,
                misses: 9,
                nanos: 35_200,
            },
            kinds: path_counts(1, 2),
            requests: 25,
            remote_seconds: 0.0125,
            fixes: vec![fix],
            directories: vec![
                searched(b"/gone", 0, 1),
                searched(b"/usr/local/bin", 0, 1),
                searched(b"/usr/bin", 1, 0),
            ],
        }],
        rtt: 0.0005,
    }
}

fn file_system() -> ProbedFileSystem {
    let pages = |run: u64| ((run / 32 + 1) * 32) as f64;
    ProbedFileSystem {
        dir: b"/".to_vec(),
        report: ProbeReport {
            fstype: Some(b"ext4".to_vec()),
            measured: vec![
                result(Quantity::AllocationBlock, Some(4096.0)),
                result(Quantity::Cluster, None),
                result(Quantity::ReadaheadSteady, Some(131_072.0)),
                result(Quantity::CacheCapacity, Some(256.0 * 1_048_576.0)),
            ],
            series: vec![Series {
                kind: SeriesKind::Cached,
                step: 4096,
                runs: (1..=512).collect(),
                trials: vec![(1..=512).map(pages).collect()],
            }],
            ..ProbeReport::default()
        },
    }
}

fn gate_prices() -> ProbedFileSystem {
    ProbedFileSystem {
        dir: b"/".to_vec(),
        report: ProbeReport {
            fstype: Some(b"ext4".to_vec()),
            measured: vec![result(Quantity::EmptyCall, Some(55.0))],
            prices: Some(vec![
                price("Empty", true, 55.0),
                price("StatxFile", true, 812.0),
                price("Fsync", true, 4_123_456.0),
                price("StatxFile", false, 41_234.0),
            ]),
            ..ProbeReport::default()
        },
    }
}
