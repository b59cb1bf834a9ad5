//! `fathom walk --compare`: measures the cost of each engine on one tree.

use std::borrow::Cow;
use std::time::Duration;

use base::child::Bounds;
use base::runs::Stats;
use base::{Warning, WarningReason};
use show::units::plural;
use walk::compare::{Agreement, LeftOut as WhyLeftOut, compare};
use walk::{ExplainedPlan, Totals, WalkOptions, WalkedMount};

use super::show::{ComparisonText, LeftOut, SCHEMA, Walk};
use crate::error::Outcome;
use crate::out::Out;
use crate::progress::Progress;

#[derive(Debug, thiserror::Error)]
enum WarningKind {
    #[error("{engine}: {why}")]
    LeftOut { engine: &'static str, why: String },
    #[error("{engine} skipped entries, with {}", plural(*.warnings, "warning", "warnings"))]
    Skipped { engine: &'static str, warnings: u64 },
    #[error(
        "the engines report different trees, and the tree did not change: one of them is wrong"
    )]
    Disagree,
    #[error(
        "the engines report different trees; there was no time to check whether the tree changed"
    )]
    Unconfirmed,
}

impl WarningReason for WarningKind {
    fn consequence(&self) -> Option<Cow<'_, str>> {
        match self {
            WarningKind::Skipped { engine, .. } => {
                Some(format!("--engine {engine} prints them").into())
            }
            _ => None,
        }
    }
}

/// Warnings about engines that were stopped, skipped something, or disagree on an unchanged tree.
fn warnings(compared: &walk::compare::Comparison) -> Vec<Warning> {
    let left_out = compared.left_out.iter();
    let stopped = left_out.filter(|(_, why)| matches!(why, WhyLeftOut::Not(..)));
    let stopped = stopped.map(|left| {
        let LeftOut { engine, why } = LeftOut::new(left);
        WarningKind::LeftOut { engine, why }
    });
    let skipped = compared.engines.iter().filter(|engine| engine.warnings > 0);
    let skipped = skipped.map(|engine| WarningKind::Skipped {
        engine: engine.engine.name(),
        warnings: engine.warnings,
    });
    let disagree = match compared.agreement() {
        Agreement::Same | Agreement::TreeChanged => None,
        Agreement::Disagree => Some(WarningKind::Disagree),
        Agreement::Unconfirmed => Some(WarningKind::Unconfirmed),
    };
    let all = stopped.chain(skipped).chain(disagree);
    all.map(Warning::general).collect()
}

/// The totals of the engine that is chosen for the first mount, and the median of its times in
/// seconds.
fn found(compared: &walk::compare::Comparison) -> Option<(&Totals, f64)> {
    let chosen = compared.explained.first()?.plan.engine;
    let runs = compared.find(chosen)?;
    let real = Stats::from_runs(&runs.runs, |t| t.real)?;
    Some((&runs.totals, real.median))
}

pub(super) fn run(options: &WalkOptions, trials: usize, out: &Out) -> Outcome {
    let bounds = Bounds::time(Duration::from_secs(3600));
    let mut progress = Progress::new(out.progress);
    let compared = compare(options, trials, &bounds, |engine, trial| {
        progress.trial(engine, (trial, trials), "warming caches");
    })?;
    drop(progress);
    let comparison = ComparisonText::new(&compared);
    let parts: Vec<WalkedMount> = compared.explained.iter().map(ExplainedPlan::part).collect();
    let result = Walk {
        totals: found(&compared),
        parts: &parts,
        compare: Some(&comparison),
        ..Walk::default()
    };
    let print_text = || out.data(comparison.to_text(out.table_style()));
    let figures = result.figures();
    out.report_measured(SCHEMA, result, figures, &warnings(&compared), print_text)
}
