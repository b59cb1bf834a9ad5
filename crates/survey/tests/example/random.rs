//! Random surveys of many machines, for property tests.

use std::sync::Arc;
use std::time::Duration;

use account::whatif::{ChangeKind, Obstacle, ReplacedCalls, WhatIf, WhatIfChange};
use base::child::NoRun;
use base::runs::Times;
use mounts::Point as Mount;
use mounts::check::Verdict;
use ondisk::Content;
use pathsearch::Change;
use proptest::prelude::*;
use walk::{EngineKind, EngineRefusal};

use super::{Owned, point_of};

/// Times between a microsecond and a quarter of an hour, in seconds.
fn seconds() -> impl Strategy<Value = f64> {
    (-6.0..3.0_f64).prop_map(|exponent| 10_f64.powf(exponent))
}

fn mount() -> impl Strategy<Value = Mount> {
    let kinds = [
        ("ext4", "/srv"),
        ("xfs", "/home"),
        ("nfs4", "/mnt/far"),
        ("proc", "/proc"),
        ("devpts", "/dev/pts"),
        ("tmpfs", "/dev/shm"),
        ("cgroup", "/sys/fs/cgroup/cpu"),
        ("tmpfs", "/tmp"),
        ("debugfs", "/sys/kernel/debug"),
    ];
    let verdicts = [
        None,
        Some(Verdict::Ok),
        Some(Verdict::Hung),
        Some(Verdict::Stale),
    ];
    let kind = prop::sample::select(kinds.to_vec());
    let verdict = prop::sample::select(verdicts.to_vec());
    let options = prop::sample::select(vec!["rw", "ro", "ro,errors=remount-ro"]);
    (kind, 0..4_u32, any::<bool>(), verdict, options).prop_map(
        |((fstype, target), minor, hidden, verdict, options)| {
            let mount = point_of(target.as_bytes(), minor, fstype.as_bytes());
            let content = mount.content.as_deref().cloned().unwrap_or_default();
            let options = options.as_bytes().to_vec();
            let content = Some(Arc::new(Content { options, ..content }));
            Mount {
                content,
                hidden,
                verdict: verdict.filter(|_| !hidden),
                ..mount
            }
        },
    )
}

fn change() -> impl Strategy<Value = WhatIfChange> {
    let kinds = [
        ChangeKind::RawTables { is_asked: true },
        ChangeKind::Bulkstat { is_asked: true },
        ChangeKind::Uring {
            ring: 900.0,
            stat: 1000.0,
        },
    ];
    let kind = prop::sample::select(kinds.to_vec());
    (kind, seconds(), 0.0..300.0, any::<bool>()).prop_map(|(kind, seconds, percent, advised)| {
        let (calls, overhead, elapsed) = (10, 0.0, None);
        WhatIfChange {
            kind,
            calls,
            seconds,
            percent,
            overhead,
            elapsed,
            obstacle: (!advised).then_some(Obstacle::Costlier),
            basis: ReplacedCalls::new(1000, 1.0),
        }
    })
}

/// The properties in which the machines differ.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) is_root: bool,
    pub(crate) mounts: Vec<Mount>,
    /// The seconds of walks by the engines threads and stat.
    pub(crate) walks: [f64; 2],
    pub(crate) is_stopped: bool,
    pub(crate) inodes: Option<u64>,
    pub(crate) refusal: Option<EngineRefusal>,
    pub(crate) changes: Vec<WhatIfChange>,
    pub(crate) cpu: f64,
    /// The seconds of each start of a program, and the saving of a change per start.
    pub(crate) starts: Vec<f64>,
    pub(crate) saves: f64,
    pub(crate) is_reordered: bool,
    pub(crate) is_network: bool,
    /// The CPU seconds of a full dump, and of an increment.
    pub(crate) dumps: [f64; 2],
    /// The bytes available for files.
    pub(crate) room: u64,
    pub(crate) is_writable: bool,
}

pub(crate) fn machine() -> impl Strategy<Value = Machine> {
    let refusals = [
        None,
        Some(EngineRefusal::NotRoot(EngineKind::Ext4)),
        Some(EngineRefusal::WrongFileSystem(EngineKind::Ext4)),
    ];
    let walking = (
        [seconds(), seconds()],
        any::<bool>(),
        prop::option::of(1_000_000..90_000_000_u64),
        prop::sample::select(refusals.to_vec()),
    );
    // The saving is often near the time of a start, and the times vary much or little.
    let starts = (
        seconds(),
        prop::collection::vec(0.0..1.0_f64, 0..6),
        0.0..0.5_f64,
    )
        .prop_map(|(least, parts, spread)| {
            let starts = parts.iter().map(|part| least * (1.0 + part * spread));
            starts.collect::<Vec<f64>>()
        });
    let starting = (starts, 0.0..1.2_f64, any::<bool>(), any::<bool>());
    let calls = (prop::collection::vec(change(), 0..4), seconds());
    let mounts = prop::collection::vec(mount(), 0..12);
    let room = prop::sample::select(vec![0, 1 << 20, 1 << 40]);
    let place = (room, any::<bool>());
    (
        (any::<bool>(), place),
        mounts,
        walking,
        calls,
        starting,
        [seconds(), seconds()],
    )
        .prop_map(
            |((is_root, place), mounts, walking, (changes, cpu), starting, dumps)| {
                let (room, is_writable) = place;
                let (walks, is_stopped, inodes, refusal) = walking;
                let (starts, share, is_reordered, is_network) = starting;
                let saves = share * starts.first().copied().unwrap_or(1.0);
                Machine {
                    is_root,
                    mounts,
                    walks,
                    is_stopped,
                    inodes,
                    refusal,
                    changes,
                    cpu,
                    starts,
                    saves,
                    is_reordered,
                    is_network,
                    dumps,
                    room,
                    is_writable,
                }
            },
        )
}

pub(crate) fn survey_of(machine: &Machine) -> Owned {
    let mut owned = Owned::new();
    owned.machine.root = machine.is_root;
    owned.machine.places = vec![(Vec::new(), machine.room)];
    owned.machine.is_writable = machine.is_writable;
    *owned.points() = machine.mounts.clone();
    let walking = owned.walking();
    for (engine, real) in walking.engines.engines.iter_mut().zip(machine.walks) {
        let times = |part| Times {
            real: real * part,
            user: 0.0,
            sys: 0.0,
        };
        engine.runs = [0.99, 1.0, 1.01].map(times).to_vec();
    }
    walking.engines.explained[0].plan.engines = match &machine.refusal {
        Some(refusal) => vec![(EngineKind::Ext4, Err(refusal.clone()))],
        None => vec![(EngineKind::Ext4, Ok(()))],
    };
    if machine.is_stopped {
        owned.bound_walk(machine.inodes, Some(2));
    } else if machine.inodes.is_some() {
        owned.stop_engines(NoRun::Stopped(Duration::from_secs(5)), machine.inodes);
    }
    let what_if = WhatIf {
        fixed: 300.0,
        cpu: machine.cpu,
        priced: machine.cpu,
        elapsed: None,
        changes: machine.changes.clone(),
    };
    owned.account.as_mut().unwrap().what_if = Box::leak(Box::new(what_if));
    let startup = owned.found.startup.as_mut().unwrap();
    startup.path[0].network = machine.is_network;
    let start = &mut startup.started[0];
    let median = base::runs::Stats::from_values(machine.starts.iter().copied());
    start.seconds = median.map_or(machine.saves, |stats| stats.median);
    start.runs.clone_from(&machine.starts);
    start.fixes[0].saves_seconds_here = machine.saves;
    if let Change::SetPath(path) = &mut start.fixes[0].change {
        path.is_reordered = machine.is_reordered;
    }
    let dump = owned.found.dump.as_mut().unwrap();
    [dump.first.cpu_seconds, dump.changed.cpu_seconds] = machine.dumps;
    owned
}
