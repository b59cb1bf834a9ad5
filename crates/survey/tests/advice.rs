//! Property tests of the advice on random machines: no advice is wrong or worthless.

use mounts::is_pseudo;
use pathsearch::{Change, is_worthwhile};
use proptest::prelude::*;
use survey::cost::Activity;
use survey::{Command, Conclusion, Section, Statement, Survey, activity_costs};
use walk::ExplainedPlan;

use example::random::{Machine, machine, survey_of};

mod example;

/// The saving that an advice names, and the time of which it is a part, in seconds.
fn saving(statement: &Statement<'_>, machine: &Machine) -> Option<(f64, f64)> {
    Some(match statement {
        Statement::ChooseEngine { fastest, default } => {
            ((default.ms - fastest.ms) / 1e3, default.ms / 1e3)
        }
        Statement::ReplacePlainWalk { cost, plain, .. } => {
            ((plain.ms - cost.ms) / 1e3, plain.ms / 1e3)
        }
        Statement::FixSearch(start, fix) => (fix.saves_seconds_here, start.seconds),
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
        let mut choices = explained.iter().flat_map(ExplainedPlan::choices);
        choices.any(|one| one.engine.name() == engine && !one.is_possible())
    };
    match statement {
        Statement::MendMounts(_, targets) => {
            for target in targets {
                let mut of_target = machine.mounts.iter().filter(|one| one.target == *target);
                assert!(of_target.any(|one| !is_pseudo(one) || one.verdict.is_some()));
            }
        }
        Statement::ChangeCalls(change) => {
            assert!(change.percent <= 100.0 && change.is_advised());
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
        Statement::FixSearch(start, fix) => {
            let elapsed = start.elapsed().expect("advice on a start that was timed");
            let noise = elapsed.max - elapsed.min;
            assert!(fix.saves_seconds_here > noise, "{machine:?}");
            if let Change::SetPath(path) = &fix.change {
                assert!(machine.is_network || !path.is_reordered);
            }
        }
        Statement::KeepCatalog(effort) => {
            assert!(effort.seconds() >= Some(10.0) && machine.room > 1 << 20);
        }
        Statement::DumpIncrements(dump) => assert!(machine.room >= dump.first.bytes),
        Statement::Gather(section, _) => {
            let needs_file = [Section::Gates, Section::Probe].contains(section);
            assert!(machine.is_writable || !needs_file);
        }
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
            if let (Activity::Start, Some(now)) = (cost.activity, cost.now) {
                let runs = &machine.starts;
                prop_assert!(runs.iter().any(|run| *run >= now.value()));
                prop_assert!(runs.iter().any(|run| *run <= now.value()));
                prop_assert_eq!(cost.command, Some("env true"));
            }
            if let (Some(now), Some(possible)) = (cost.now, cost.possible) {
                prop_assert!(possible.value() >= 0.0 && possible.value() <= now.value());
            }
        }
    }
}
