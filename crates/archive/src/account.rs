//! Measures the cost of each gathering method for a tree, as in the table of options in the 1974
//! memo on Multics' backup.

use std::time::Duration;

use gate::attribution::{self, Function, Line};
use walk::Diagnostics;

use crate::gather::{CollectOptions, Gather, GatherReason, Refused, gather};

/// The cost of one gathering method.
#[derive(Clone, Debug)]
pub struct GatherCost {
    /// Number of directories found.
    pub directories: u64,
    /// Number of other entries found.
    pub files: u64,
    /// The system calls made, one line per call.
    pub lines: Vec<Line>,
    /// CPU time outside of system calls.
    pub own: Duration,
}

/// Gathers with one method, one thread and a separate [attribution], and discards the rows.
///
/// # Errors
/// The method is unavailable.
pub fn measure(
    options: &CollectOptions,
    way: Gather,
    diagnostics: &Diagnostics,
) -> Result<GatherCost, Unavailable> {
    let options = CollectOptions {
        gather: Some(way),
        threads: Some(1),
        for_catalog: None,
        ..options.clone()
    };
    attribution::start();
    let gathered = gather(&options, diagnostics);
    let charged = attribution::stop();
    let (rows, parts) = gathered.map_err(|_| Unavailable::Changed)?;
    if parts.is_empty() {
        return Err(Unavailable::NoDirectory);
    }
    if let Some(other) = parts.into_iter().find(|part| part.method() != way) {
        return Err(Unavailable::OtherWay {
            path: other.path,
            why: other.why,
        });
    }
    let directories = rows.directories().len() as u64;
    let mut lines = charged.lines;
    lines.retain(|line| line.function == Function::Information);
    let in_calls: Duration = lines
        .iter()
        .map(|line| line.all.cpu + line.directory.cpu + line.file.cpu)
        .sum();
    let own = charged.cpu[Function::Information as usize].saturating_sub(in_calls);
    Ok(GatherCost {
        directories,
        files: rows.len() as u64 - directories,
        lines,
        own,
    })
}

/// Why a gathering method is unavailable for a tree.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Unavailable {
    /// The tree has changed, and can no longer be gathered.
    #[error("the tree has changed and cannot be gathered again")]
    Changed,
    /// No source is a directory.
    #[error("no SRC is a directory")]
    NoDirectory,
    /// A mount falls back to a different method.
    #[error("'{}': {why}", base::path::shown(.path))]
    OtherWay {
        /// The mount point.
        path: Vec<u8>,
        /// Why the mount falls back.
        why: GatherReason,
    },
    /// None of the method's engines can work on a mount.
    #[error(transparent)]
    Refused(#[from] Refused),
}
