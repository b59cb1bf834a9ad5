//! `fathom mounts --compare`: runs every method on one tree.

use std::time::Duration;

use base::child::Bounds;
use base::{Warning, WarningReason};
use mounts::compare::compare;
use mounts::locate;
use mounts::locate::LocateOptions;
use mounts::root::Root;

use super::args::Format;
use super::methods::{
    JsonComparison, figures, left_out, methods_table, profiles_text, ratios_text,
};
use super::show::{Mounts, SCHEMA};
use crate::error::{Error, Outcome};
use crate::out::Out;
use crate::progress::Progress;

pub(super) fn run(
    root: Root,
    options: &LocateOptions,
    trials: usize,
    format: Format,
    out: &Out,
) -> Outcome {
    let bounds = Bounds::time(Duration::from_secs(3600));
    let any_method = LocateOptions {
        method: None,
        ..options.clone()
    };
    let report = locate(&root, &any_method, &mut |_, _| {})
        .map_err(|e| Error::new(format!("cannot find mount points: {e}")))?;
    let mut progress = Progress::new(out.progress);
    let tick = |method: &str, trial| progress.trial(method, (trial, trials), "profile");
    let comparison = compare(&root, options, &mounts::Method::ALL, trials, &bounds, tick)
        .map_err(|e| Error::new(format!("cannot create a process to run a method: {e}")))?;
    drop(progress);
    let left_out = left_out(&comparison.left_out);
    let warnings = left_out.iter();
    let warnings = warnings.map(|left| WarningKind(left.by, left.why.clone()));
    let warnings: Vec<Warning> = warnings.map(Warning::general).collect();
    let path = root.into_path(); // close the descriptor before calls are counted
    if format == Format::Json {
        let result = Mounts {
            root: Some(&path),
            by: report.method.name(),
            why: &report.reason.to_string(),
            complete: report.is_complete(),
            mounts: &report.points,
            compare: Some(&JsonComparison {
                comparison: &comparison,
                left_out,
            }),
            ..Mounts::default()
        };
        let figures = figures(&comparison.methods);
        out.measured(SCHEMA, result, Some(figures), &warnings)?;
    } else {
        let style = out.table_style();
        let methods = &comparison.methods;
        let table = methods_table(methods).to_text(style.width, style.color);
        let (ratios, profiles) = (
            ratios_text(methods, style.color),
            profiles_text(methods, style.color),
        );
        out.data([table, ratios, profiles].concat())?;
    }
    Ok(out.warn(&warnings))
}

#[derive(Debug, thiserror::Error)]
#[error("{0}: {1}")]
struct WarningKind(&'static str, String);

impl WarningReason for WarningKind {}
