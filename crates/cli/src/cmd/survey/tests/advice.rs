//! Advice on many machines: none is wrong, and none is worthless.

use std::sync::Arc;
use std::time::Duration;

use account::whatif::{Basis, Change as CallChange, ChangeKind, WhatIf};
use mounts::Point as Mount;
use mounts::check::Verdict;
use mounts::compare::NoRun;
use mounts::is_pseudo;
use ondisk::Content;
use pathsearch::Change;
use proptest::prelude::*;
use show::times::Times;
use survey::cost::is_worthwhile;
use walk::{EngineKind, EngineRefusal};

use super::example::{Owned, point_of};
use crate::cmd::survey::command::Command;
use crate::cmd::survey::conclude::activities::activity_costs;
use crate::cmd::survey::finding::{Conclusion, Statement};
use crate::cmd::survey::survey::Survey;
use crate::cmd::walk::show::possible_engines;

/// Seconds from a microsecond to a quarter of an hour.
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

fn change() -> impl Strategy<Value = CallChange> {
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
        CallChange {
            kind,
            calls,
            seconds,
            percent,
            overhead,
            elapsed,
            advised,
            basis: Basis::default(),
        }
    })
}

/// What differs from one machine to the next.
#[derive(Clone, Debug)]
struct Machine {
    is_root: bool,
    mounts: Vec<Mount>,
    /// The times of the engines threads and stat.
    walks: [f64; 2],
    is_stopped: bool,
    inodes: Option<u64>,
    refusal: Option<EngineRefusal>,
    changes: Vec<CallChange>,
    cpu: f64,
    /// Seconds in lookups, and what a change saves of them.
    lookups: [f64; 2],
    is_reordered: bool,
    is_network: bool,
    /// CPU seconds of a full dump, and of an increment.
    dumps: [f64; 2],
}

fn machine() -> impl Strategy<Value = Machine> {
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
    let starting = ([seconds(), seconds()], any::<bool>(), any::<bool>());
    let calls = (prop::collection::vec(change(), 0..4), seconds());
    let mounts = prop::collection::vec(mount(), 0..12);
    (
        any::<bool>(),
        mounts,
        walking,
        calls,
        starting,
        [seconds(), seconds()],
    )
        .prop_map(
            |(is_root, mounts, walking, (changes, cpu), starting, dumps)| {
                let (walks, is_stopped, inodes, refusal) = walking;
                let (lookups, is_reordered, is_network) = starting;
                Machine {
                    is_root,
                    mounts,
                    walks,
                    is_stopped,
                    inodes,
                    refusal,
                    changes,
                    cpu,
                    lookups,
                    is_reordered,
                    is_network,
                    dumps,
                }
            },
        )
}

fn survey_of(machine: &Machine) -> Owned {
    let mut owned = Owned::new();
    owned.machine.root = machine.is_root;
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
        changes: machine.changes.clone(),
    };
    owned.account.as_mut().unwrap().what_if = Box::leak(Box::new(what_if));
    let startup = owned.found.startup.as_mut().unwrap();
    startup.path[0].network = machine.is_network;
    let start = &mut startup.started[0];
    start.totals.nanos = (machine.lookups[0] * 1e9) as u64;
    start.fixes[0].saves_seconds_here = machine.lookups[1];
    if let Change::SetPath(path) = &mut start.fixes[0].change {
        path.is_reordered = machine.is_reordered;
    }
    let dump = owned.found.dump.as_mut().unwrap();
    [dump.first.cpu_seconds, dump.changed.cpu_seconds] = machine.dumps;
    owned
}

/// The saving that advice names, and what it is a part of, in seconds.
fn saving(statement: &Statement<'_>, machine: &Machine) -> Option<(f64, f64)> {
    Some(match statement {
        Statement::ChooseEngine { fastest, default } => {
            ((default.ms - fastest.ms) / 1e3, default.ms / 1e3)
        }
        Statement::ReplacePlainWalk { cost, plain, .. } => {
            ((plain.ms - cost.ms) / 1e3, plain.ms / 1e3)
        }
        Statement::FixSearch(start, fix) => {
            (fix.saves_seconds_here, start.totals.nanos as f64 / 1e9)
        }
        Statement::ChangeCalls(change) => (change.seconds, machine.cpu),
        Statement::DumpIncrements(dump) => (
            dump.first.cpu_seconds - dump.changed.cpu_seconds,
            dump.first.cpu_seconds,
        ),
        _ => return None,
    })
}

fn is_sound(advice: &Conclusion<'_>, survey: &Survey<'_>, machine: &Machine) {
    let statement = &advice.statement;
    if let Some((saving, measured)) = saving(statement, machine) {
        assert!(
            is_worthwhile(saving, measured),
            "{saving} of {measured}: {machine:?}"
        );
        assert!(saving >= 0.01 && saving >= 0.05 * measured && saving <= measured);
    }
    let explained = &survey.found.walking.as_ref().unwrap().engines.explained;
    let refused = |engine: &str| {
        possible_engines(explained).any(|one| one.engine.name() == engine && !one.is_possible())
    };
    match statement {
        Statement::MendMounts(_, targets) => {
            for target in targets {
                let mut of_target = machine.mounts.iter().filter(|one| one.target == *target);
                assert!(of_target.any(|one| !is_pseudo(one) || one.verdict.is_some()));
            }
        }
        Statement::ChangeCalls(change) => {
            assert!(change.percent <= 100.0 && change.advised);
            assert!(
                change.kind.name() != "raw-tables" || !refused("ext4"),
                "{machine:?}"
            );
            assert_ne!(
                change.kind.name(),
                "batch-bulkstat",
                "no plan says that it works"
            );
        }
        Statement::ChooseEngine { fastest, .. } => assert!(!refused(fastest.name)),
        Statement::FixSearch(_, fix) => {
            if let Change::SetPath(path) = &fix.change {
                assert!(machine.is_network || !path.is_reordered);
            }
        }
        Statement::KeepCatalog(effort) => assert!(effort.seconds() >= Some(10.0)),
        Statement::WalkAsRoot(..) | Statement::SurveyAsRoot(_) => {
            assert!(!machine.is_root);
            let says_so = [Command::CompareEnginesAsRoot, Command::SurveyAsRoot];
            assert!(says_so.contains(&advice.command));
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn advice_saves_enough_and_is_possible(machine in machine()) {
        let owned = survey_of(&machine);
        let survey = owned.survey();
        survey.advice.iter().for_each(|advice| is_sound(advice, &survey, &machine));
        for cost in activity_costs(&survey) {
            if let (Some(now), Some(possible)) = (cost.now, cost.possible) {
                prop_assert!(possible.value() >= 0.0 && possible.value() <= now.value());
            }
        }
        super::summary::fits(&survey);
        let text = super::show::summary::text(&survey, Default::default(), None);
        prop_assert!(!text.contains("unmount"), "{}", text);
    }
}
