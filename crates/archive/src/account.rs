//! What each way of gathering takes on one tree: for the memo's table of options.

use std::time::Duration;

use crate::attribution::{self, Function, Line};
use walk::Diagnostics;

use crate::gather::{CollectOptions, Gather, Refused, gather};

/// What gathering in one way took.
#[derive(Clone, Debug)]
pub struct Took {
    /// Directories that were found.
    pub directories: u64,
    /// All else that was.
    pub files: u64,
    /// What passed the gates.
    pub lines: Vec<Line>,
    /// CPU time beside them.
    pub own: Duration,
}

/// Gathers in one way, with one thread and an [attribution] of its own. Nothing is kept of what is
/// found; what was skipped is said at the desk.
///
/// # Errors
/// Why this way is not to be had.
pub fn measure(
    options: &CollectOptions,
    way: Gather,
    desk: &Diagnostics,
) -> Result<Took, Unavailable> {
    let options = CollectOptions {
        gather: Some(way),
        threads: Some(1),
        for_catalog: None,
        ..options.clone()
    };
    attribution::start();
    let gathered = gather(&options, desk);
    let books = attribution::stop();
    let (rows, report) = gathered.map_err(|_| Unavailable::Changed)?;
    if report.parts.is_empty() {
        return Err(Unavailable::NoDirectory);
    }
    if let Some(other) = report.parts.iter().find(|part| part.gather != way) {
        return Err(Unavailable::OtherWay {
            path: other.path.clone(),
            gather: other.gather,
            why: other.why.clone(),
        });
    }
    let directories = (0..rows.len()).filter(|&row| rows.is_dir(row)).count() as u64;
    let lines: Vec<Line> = books
        .lines
        .into_iter()
        .filter(|line| line.function == Function::Information)
        .collect();
    let in_gates: Duration = lines
        .iter()
        .map(|line| line.all.cpu + line.directory.cpu + line.file.cpu)
        .sum();
    let own = books.cpu[Function::Information as usize].saturating_sub(in_gates);
    Ok(Took {
        directories,
        files: rows.len() as u64 - directories,
        lines,
        own,
    })
}

/// Why a way of gathering is unavailable for a tree.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Unavailable {
    /// The tree has changed, and can no longer be gathered.
    #[error("it cannot be gathered any more")]
    Changed,
    /// No source is a directory.
    #[error("no SRC is a directory")]
    NoDirectory,
    /// A mount falls back to another way.
    #[error("{} is gathered by {}: {why}", String::from_utf8_lossy(.path), gather.name())]
    OtherWay {
        /// The mount.
        path: Vec<u8>,
        /// The other way.
        gather: Gather,
        /// Why.
        why: String,
    },
    /// None of its engines can work on a mount.
    #[error(transparent)]
    Refused(#[from] Refused),
}
