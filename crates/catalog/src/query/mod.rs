//! Passes the entries of catalogs to a sink, like a walk, but without access to the tree.
//!
//! | module | contents |
//! |---|---|
//! | `data_set` | the catalogs, or the parts of one in a directory |
//! | `group` | a row group: selects rows column by column, and makes entries of them |
//! | `sums` | adds the rows of a row group to groups, without making entries |
//!
//! Threads share the row groups. Each reads the columns that the predicates test, the cheapest
//! first, and for the remaining rows the columns that the sink needs. Memory is bounded by the size
//! of a row group and the number of threads.

mod data_set;
mod group;
mod sums;

use base::pool::{in_threads, share};
use gate::machine::processors;
use walk::Sink;
use walk::group::Groups;
use walk::predicate::Predicates;
use walk::predicate::select::SelectionSink;

use crate::error::Error;
pub use data_set::DataSet;
use group::RowGroup;

/// Maximum number of row groups decoded at the same time, which bounds the memory.
const MOST_THREADS: usize = 4;
/// Maximum number of hard-linked files counted in one pass over the catalogs: at most 40 MiB.
const MOST_LINKED_FILES: usize = 256 << 10;

impl DataSet {
    /// Passes the selected entries to a sink, in no particular order.
    ///
    /// # Errors
    /// A catalog cannot be read, or is damaged. Some entries may have been passed by then.
    pub fn emit(&self, predicates: &Predicates, sink: &dyn Sink) -> Result<(), Error> {
        let needs_all = predicates.empty || sink.wants_shape();
        if predicates.is_all() || !needs_all {
            return self.read(predicates, sink);
        }
        let selected = SelectionSink::new(predicates, sink);
        self.read(&Predicates::default(), &selected)?;
        selected.finish(|_, _| true);
        Ok(())
    }

    /// Adds the selected entries to the sums of their groups.
    ///
    /// # Errors
    /// The errors of [`DataSet::emit`].
    pub fn add_up(&self, predicates: &Predicates, groups: &Groups) -> Result<(), Error> {
        if predicates.empty {
            return self.emit(predicates, groups);
        }
        let by = groups.by();
        groups.add_in_passes(MOST_LINKED_FILES, || {
            self.each_group(
                || groups.adder(),
                |adder, rows| rows.add_up(predicates, by, adder),
            )
        })
    }

    fn read(&self, predicates: &Predicates, sink: &dyn Sink) -> Result<(), Error> {
        let fields = sink.fields();
        self.each_group(
            || sink.worker(),
            |worker, rows| {
                if !sink.is_closed() {
                    rows.emit(predicates, fields, &mut **worker)?;
                    worker.flush();
                }
                Ok(())
            },
        )
    }

    /// Calls `read` for all row groups, in several threads, each with its own state.
    fn each_group<S>(
        &self,
        state: impl Fn() -> S + Sync,
        read: impl Fn(&mut S, &RowGroup<'_>) -> Result<(), Error> + Sync,
    ) -> Result<(), Error> {
        let pieces = self.pieces();
        let threads = processors().min(MOST_THREADS).min(pieces.len());
        let start = |run: &(dyn Fn(S) + Sync)| drop(in_threads(0..threads, |_| run(state())));
        share(pieces.len(), start, |state, nth| {
            let (file, group) = pieces[nth];
            read(state, &RowGroup::new(self, file, group))
        })
    }
}
