//! LLNL's benchmark pathwalk: it creates a tree, searches it, and removes it.
//!
//! The tree ([`Shape`]) has the directories `ROOT/0`, `ROOT/1`, ..., and in the directory `D` the
//! empty files `D.0`, `D.1`, .... A search looks a name up in one directory after another until it
//! is found: in the last one, or, if the search is to fail, in none.
//!
//! | module | contents |
//! |---|---|
//! | `shape` | the size of a tree, and the names in it |
//! | `create` | creates the tree |
//! | `search` | searches the tree, and measures the time |
//! | `remove` | removes the tree |
//! | `paths` | the paths to look up; the numbers in them are incremented in place |
//! | `report` | the measurements |
//! | `histogram` | latencies |
//! | `cache` | drops the kernel's caches |
//! | `error`, `warning` | why a part of the benchmark failed or is incomplete |
#![forbid(unsafe_code)]

use std::time::Duration;

use base::Warning;
use team::Team;

mod cache;
mod create;
mod error;
mod histogram;
mod paths;
mod remove;
mod report;
mod search;
mod shape;
mod warning;

pub use cache::{DropCaches, DroppedCaches};
pub use error::{Error, Operation, Reason, StateAfterFailure};
pub use histogram::{Bucket, Histogram};
pub use report::{Event, Latency, RankPass, RemovalReport, SearchPass, SearchReport};
pub use search::{Method, SearchOptions};
pub use shape::{Progress, Shape};
pub use warning::WarningKind;

/// The parts of the benchmark to run, in the order of the fields.
#[derive(Clone, Debug)]
pub struct PathwalkOptions {
    /// The directory that contains the tree, or will contain it.
    pub root: Vec<u8>,
    /// The size of the tree.
    pub shape: Shape,
    /// Create the tree.
    pub create: bool,
    /// Search the tree.
    pub search: Option<SearchOptions>,
    /// Remove the tree.
    pub remove: bool,
}

/// The results of the parts that ran. Complete on rank 0 only.
#[derive(Clone, Debug, Default)]
pub struct PathwalkReport {
    /// The time to create the tree.
    pub created: Option<Duration>,
    /// The results of the searches.
    pub searched: Option<SearchReport>,
    /// The result of removing the tree.
    pub removed: Option<RemovalReport>,
    /// Warnings about skipped or inconsistent parts.
    pub warnings: Vec<Warning>,
}

/// Runs the benchmark, and reports each part as it is done. Every rank of a team must pass the same
/// options.
///
/// A tree that cannot be created completely is removed again. A tree that is created and removed by
/// the same call is removed even if the search fails.
///
/// # Errors
/// The first error of any rank, on all ranks.
pub fn run(
    options: &PathwalkOptions,
    team: &dyn Team,
    progress: &Progress,
    on_event: &mut dyn FnMut(Event<'_>),
) -> Result<PathwalkReport, Error> {
    let PathwalkOptions { root, shape, .. } = options;
    let mut report = PathwalkReport::default();
    if options.create {
        let elapsed = create::create(root, *shape, team, progress)?;
        on_event(Event::Created(elapsed));
        report.created = Some(elapsed);
    } else if team.rank() > 0 {
        // ROOT may have been created on a different rank's host.
        gate::long::refresh_parent(root);
    }
    let search = options.search.as_ref();
    let searched = search
        .map(|search| search::search(root, *shape, search, team, on_event, &mut report.warnings))
        .transpose();
    if options.remove && (searched.is_ok() || options.create) {
        // A temporary tree of this call is removed even after a signal asks the process to stop.
        let stop_on_signal = !options.create;
        let warnings = &mut report.warnings;
        let removed = remove::remove(root, *shape, team, stop_on_signal, progress, warnings)?;
        if searched.is_ok() {
            on_event(Event::Removed(removed));
        }
        report.removed = Some(removed);
    }
    report.searched = searched?;
    Ok(report)
}
