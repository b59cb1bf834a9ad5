//! A survey made by hand, for tests.

use std::collections::BTreeMap;
use std::time::Duration;

use account::ledger::Sum;
use account::patterns::{Found, Pattern};
use account::report::{AccountReport, Coverage, GateTotal, Groups};
use account::whatif::{Change, WhatIf};
use gate::Errno;
use meter::call::{Choice, Ended, Metered};

use super::survey::{Compared, FileSystem, MountsPart, Part, Plot, Survey, Walking};
use crate::cmd::mounts::methods::{LeftOut, Method};
use crate::cmd::mounts::show::Mounts;
use crate::cmd::survey::show::fixes::{Count, Fix, Totals};
use crate::cmd::survey::show::probe::{Experiment, Price, Probe, Value};
use crate::cmd::survey::show::startup::{Element, Started, Startup, Tried};
use crate::cmd::walk::show as walked;
use ::mounts::boundaries::{Boundary, BoundaryKind};
use ::mounts::compare::NoRun;
use ::mounts::{Kind, Point};
use ::survey::bounded::{Bounded, StoppedEngine};
use ::survey::{Machine, Section, StepState, StepTaken, Unseen};
use archive::nightly::{Expected, Nightly};
use ondisk::{Content, Dev};
use show::figure::Figure;
use show::json::{GateCounts, Warning};
use show::times::Times;
use std::sync::Arc;
use walk::{EngineKind, EngineRefusal, Explained, Plan, PlanReason};

/// A mount without anomalies; each path has a device of its own.
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
    };
    Point {
        content: Some(Arc::new(content)),
        ..Point::bare(target.to_vec(), Dev { major: 8, minor }, Some(Kind::Dir))
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

fn gates(calls: u64) -> show::json::Gates {
    [(
        "statx",
        GateCounts {
            calls,
            errors: 0,
            seconds: None,
        },
    )]
    .into()
}

fn engine(engine: &'static str, real: f64, calls: u64) -> walked::Engine {
    let digest = "00ff".repeat(8);
    walked::Engine {
        engine,
        entries: 12_345,
        digest,
        steady: true,
        runs: times(real),
        gates: gates(calls),
    }
}

pub(crate) fn found(
    experiment: &'static str,
    name: &'static str,
    value: Option<f64>,
) -> Experiment<'static> {
    Experiment {
        experiment,
        name,
        inferred: value.map(Value::Number),
        unit: "bytes",
        truth: value.map(Value::Number),
        truth_source: None,
        agrees: value.map(|_| true),
        confidence: 1.0,
        method: "there was no room",
        by_time: false,
        seconds: 0.5,
        bytes_read: 1 << 20,
        bytes_written: 1 << 20,
        trials: 5,
    }
}

fn price(gate: &'static str, what: &'static str, state: &'static str, ns: f64) -> Price {
    Price {
        gate,
        what,
        state,
        threads: 1,
        ns,
        low: ns * 0.9,
        high: ns * 1.1,
        calls: 1000,
    }
}

/// What [`with`] lends.
pub(crate) struct Owned {
    pub(crate) points: Vec<Point>,
    methods: Vec<Method>,
    left_out: Vec<LeftOut>,
    boundaries: Vec<Boundary>,
    part: walk::Part,
    explain: Vec<Explained>,
    pub(crate) engines: Vec<walked::Engine>,
    engines_out: Vec<walked::LeftOut>,
    stopped: Vec<StoppedEngine>,
    pub(crate) bounded: Option<Bounded>,
    nightly: Nightly,
    account: AccountReport<'static>,
    warnings: Vec<Warning>,
}

impl Owned {
    pub(crate) fn new() -> Owned {
        let method = |by, real, calls| Method {
            by,
            complete: true,
            found: 5,
            runs: times(real),
            gates: gates(calls),
            stat_calls: calls,
            profile: vec![],
        };
        let none = Expected::default();
        let gate = GateTotal {
            sum: Sum {
                calls: 12_345,
                errors: 1,
                nanos: 12_000_000,
            },
            errors: vec![(Errno::EACCES, 1)],
        };
        let close = GateTotal {
            sum: Sum {
                calls: 100,
                errors: 0,
                nanos: 7_575_856,
            },
            errors: Vec::new(),
        };
        Owned {
            points: vec![
                point(b"/"),
                Point {
                    kind: Some(Kind::File),
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
            ],
            methods: vec![
                method("kernel", 0.000_31, 12),
                method("mountinfo", 0.000_42, 9),
                method("naive", 0.312, 54_321),
            ],
            left_out: vec![LeftOut {
                by: "getmnt1",
                why: "no end within 5 s".to_owned(),
            }],
            boundaries: vec![Boundary {
                path: b"/srv/sub".to_vec(),
                kind: BoundaryKind::Subvolume,
                dev: (0, 42).into(),
            }],
            part: walk::Part {
                path: b"/".to_vec(),
                fstype: Some(b"ext4".to_vec()),
                engine: EngineKind::Threads,
                reason: PlanReason::Requested,
            },
            explain: vec![Explained {
                path: b"/".to_vec(),
                fstype: Some(b"ext4".to_vec()),
                plan: Plan {
                    engine: EngineKind::Threads,
                    reason: PlanReason::Requested,
                    engines: vec![(
                        EngineKind::Ext4,
                        Err(EngineRefusal::NotRoot(EngineKind::Ext4)),
                    )],
                },
            }],
            engines: vec![engine("threads", 0.5, 6_000), engine("stat", 2.0, 24_690)],
            engines_out: vec![walked::LeftOut {
                engine: "ext4",
                why: "only root may read the device".to_owned(),
            }],
            stopped: vec![],
            bounded: None,
            nightly: Nightly {
                gather: archive::gather::Gather::Combined,
                engine: ::walk::EngineKind::Threads,
                why: "so".to_owned(),
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
            .expect(),
            account: AccountReport {
                gates: BTreeMap::from([("close", close), ("statx", gate)]),
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
                    Box::leak(Box::new(Found {
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
                    changes: vec![Change {
                        name: "raw-tables",
                        calls: 12_000,
                        seconds: 0.01,
                        percent: 43.2,
                        overhead: 0.008,
                        elapsed: None,
                        advised: true,
                        how: "fathom walk --engine ext4".to_owned(),
                    }],
                })),
                price_source: "measured here",
                metered: Box::leak(Box::new(Metered {
                    meter: "bpf",
                    sees_names: true,
                    choice: Choice::Cheapest(Vec::new()),
                    warnings: Vec::new(),
                    totals: Vec::new(),
                    reported: 12_345,
                    unfinished: 0,
                    lost: 0,
                    overhead: Duration::from_millis(2),
                    ended: Ended::Exited(0),
                    real: Duration::from_millis(2100),
                    user: Duration::from_millis(500),
                    sys: Duration::from_millis(1100),
                })),
            },
            warnings: vec![Warning {
                path: Some(b"/x\xff".to_vec()),
                gate: Some("statx"),
                errno: Some("EIO".into()),
                message: "cannot be".to_owned(),
            }],
        }
    }

    /// Has every engine stopped before it finished.
    pub(crate) fn stop_engines(&mut self, why: NoRun, inodes: Option<u64>) {
        for engine in std::mem::take(&mut self.engines) {
            self.engines_out.push(walked::LeftOut {
                engine: engine.engine,
                why: why.to_string(),
            });
            self.stopped.push(StoppedEngine {
                engine: engine.engine,
                why: why.clone(),
                entries: 100,
                inodes,
            });
        }
    }

    /// The survey of it, with all its sections, and its findings.
    pub(crate) fn survey(&self) -> Survey<'_> {
        let ramp = (1..=512)
            .map(|run| (f64::from(run), f64::from((run / 32 + 1) * 32)))
            .collect();
        let figure = Figure {
            title: "Pages of the file in memory after each read".to_owned(),
            note: "readahead-steady: 128K".to_owned(),
            x: "run".to_owned(),
            y: "pages".to_owned(),
            points: ramp,
            marks: vec![31, 63, 95],
        };
        let tried = |dir: &[u8], hits, misses| Tried {
            dir: dir.to_vec(),
            hits,
            misses,
            seconds: 1e-6 * misses as f64,
            kinds: vec![Count {
                kind: "PATH",
                hits,
                misses,
            }],
        };
        let element = |dir, state| Element {
            dir,
            state,
            fstype: Some(b"ext4"),
            network: false,
        };
        let started = Started {
            command: "env true",
            about: "PATH and ld.so",
            totals: Totals {
                lookups: 23,
                misses: 9,
                seconds: 35.2e-6,
            },
            kinds: vec![Count {
                kind: "PATH",
                hits: 1,
                misses: 2,
            }],
            requests: 25,
            seconds_far: 0.0125,
            fixes: vec![Fix {
                kind: "PATH",
                change: "set PATH=/usr/bin:/bin".to_owned(),
                saves_misses: 2,
                saves_requests: 2,
                saves_seconds: 0.001,
                saves_seconds_here: 2e-6,
            }],
            directories: vec![
                tried(b"/gone", 0, 1),
                tried(b"/usr/local/bin", 0, 1),
                tried(b"/usr/bin", 1, 0),
            ],
        };
        let step = |name, section, seconds| StepTaken {
            name,
            section,
            state: StepState::Done,
            seconds,
            bytes_read: 1 << 20,
            bytes_written: 0,
        };
        Survey {
            root: b"/",
            about: Machine {
                host: Some(b"anvil".to_vec()),
                kernel: "6.12.8-amd64".to_owned(),
                arch: "x86_64".to_owned(),
                cpus: 2,
                memory: Some(8 << 30),
                root: false,
                unseen: vec![Unseen::BpfMeter],
                version: "0.1.0",
                when: 1_700_000_000,
                seconds: 34.1,
                bytes_read: 120 << 20,
                bytes_written: 64 << 20,
                limit_seconds: 60.0,
                limit_bytes: 256 << 20,
                deep: false,
            },
            mounts: Part::Gathered(MountsPart {
                points: &self.points,
                mounts: Mounts {
                    root: Some(b"/"),
                    boundaries: Some(&self.boundaries),
                    by: "kernel",
                    why: "so",
                    complete: true,
                    mounts: &self.points,
                    ..Mounts::default()
                },
                compared: Part::Gathered(Compared {
                    methods: &self.methods,
                    left_out: &self.left_out,
                }),
            }),
            file_systems: Part::Gathered(vec![FileSystem {
                probe: Probe {
                    dir: Some(b"/"),
                    fstype: Some(b"ext4"),
                    experiments: vec![
                        found("block", "allocation-block", Some(4096.0)),
                        found("block", "cluster", None),
                        found("readahead", "readahead-steady", Some(131_072.0)),
                        found("cache", "cache-capacity", Some(256.0 * 1_048_576.0)),
                    ],
                    prices: None,
                },
                plots: vec![Plot {
                    experiment: "readahead",
                    figure,
                }],
            }]),
            walking: Part::Gathered(Walking {
                part: &self.part,
                explain: &self.explain,
                needs_root: Some("ext4"),
                compare: walked::Comparison::new(&self.engines, &self.engines_out),
                stopped: &self.stopped,
                bounded: self.bounded.as_ref(),
            }),
            dumping: Part::Gathered(&self.nightly),
            calls: Part::Gathered(&self.account),
            starting: Part::Gathered(Startup {
                path: vec![
                    element(b"/gone", "dead"),
                    element(b"/usr/local/bin", "live"),
                    element(b"/usr/bin/", "live"),
                ],
                started: vec![started],
                rtt: 0.0005,
            }),
            gates: Part::Gathered(Probe {
                dir: Some(b"/"),
                fstype: Some(b"ext4"),
                experiments: vec![Experiment {
                    unit: "ns",
                    ..found("gates", "empty-call", Some(55.0))
                }],
                prices: Some(vec![
                    price("getppid", "an empty call", "warm", 55.0),
                    price("statx", "a file, by name", "warm", 812.0),
                    price("fsync", "after one byte was written", "warm", 4_123_456.0),
                    price("statx", "a file, by name", "cold", 41_234.0),
                ]),
            }),
            findings: vec![],
            advice: vec![],
            steps: vec![
                step("finding the mounts", Section::Mounts, 0.5),
                step("walking by threads", Section::Walk, 7.25),
            ],
            is_interrupted: false,
            warnings: &self.warnings,
        }
        .concluded()
    }
}
