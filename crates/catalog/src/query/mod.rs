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

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use base::pool::{OnPanic, spawn};
use gate::sync::Mutex;
use walk::Sink;
use walk::group::Groups;
use walk::predicate::Predicates;
use walk::predicate::select::Selected;

use crate::ErrorKind;
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
        let selected = Selected::new(predicates, sink);
        self.read(&Predicates::default(), &selected)?;
        selected.finish(|_| true);
        Ok(())
    }

    /// Adds the selected entries to the sums of their groups.
    ///
    /// # Errors
    /// Those of [`DataSet::emit`].
    pub fn add_up(&self, predicates: &Predicates, groups: &Groups) -> Result<(), Error> {
        if predicates.empty {
            return self.emit(predicates, groups);
        }
        let by = groups.by();
        groups.add_in_passes(MOST_LINKED_FILES, || {
            self.in_threads(|pass| {
                let mut adder = groups.adder();
                pass.each_group(|rows| rows.add_up(predicates, by, &mut adder));
            })
        })
    }

    fn read(&self, predicates: &Predicates, sink: &dyn Sink) -> Result<(), Error> {
        let fields = sink.fields();
        self.in_threads(|pass| {
            let mut worker = sink.worker();
            pass.each_group(|rows| {
                rows.emit(predicates, fields, &mut *worker)?;
                worker.flush();
                if sink.is_closed() {
                    pass.is_over.store(true, Relaxed);
                }
                Ok(())
            });
        })
    }

    /// Runs `work` in several threads that share the row groups.
    fn in_threads(&self, work: impl Fn(&Pass<'_>) + Sync) -> Result<(), Error> {
        let pass = Pass {
            data: self,
            next: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            failed: Mutex::default(),
        };
        let threads = gate::machine::processors().min(MOST_THREADS);
        let threads = threads.min(self.pieces().len());
        std::thread::scope(|scope| {
            for _ in 1..threads {
                spawn(scope, || pass.run(&work));
            }
            pass.run(&work);
        });
        pass.failed.into_inner().map_or(Ok(()), Err)
    }
}

/// One pass over all row groups, shared by threads.
struct Pass<'a> {
    data: &'a DataSet,
    next: AtomicUsize,
    is_over: AtomicBool,
    failed: Mutex<Option<Error>>,
}

impl Pass<'_> {
    fn run(&self, work: impl Fn(&Pass<'_>)) {
        let _on_panic = OnPanic(|| self.fail(self.data.error(ErrorKind::ThreadDied)));
        work(self);
    }

    /// Calls `read` for row groups that no other thread has taken.
    fn each_group(&self, mut read: impl FnMut(&RowGroup<'_>) -> Result<(), Error>) {
        while !self.is_over.load(Relaxed) {
            let next = self.next.fetch_add(1, Relaxed);
            let Some(&(nth, group)) = self.data.pieces().get(next) else {
                return;
            };
            if let Err(error) = read(&RowGroup::new(self.data, nth, group)) {
                return self.fail(error);
            }
        }
    }

    fn fail(&self, error: Error) {
        self.is_over.store(true, Relaxed);
        self.failed.lock().get_or_insert(error);
    }
}
