//! A call with its file, and what is remembered of calls, files and openings.

use meter::call::Call;
use meter::names::Subject;
use meter::syscalls::Syscall;

use crate::prices::{Sort, Work};

/// Fewer bytes are a small read, a small write, or little to fsync: a page.
pub(super) const SMALL: u64 = 4096;

/// Calls that would go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spared {
    pub(crate) work: Work,
    /// Time in them, as it was metered, in nanoseconds.
    pub(crate) nanos: u64,
    /// Those of them that did not wait, and the time in these.
    quick: [u64; 2],
}

/// Nanoseconds. A call that takes longer has waited for a disk or a server, or for a processor.
const WAITED: u64 = 50_000;

impl Spared {
    pub(super) fn add(&mut self, it: &CallCost) {
        self.work.add(it.sort, 1, it.parts);
        self.nanos += it.nanos;
        if it.nanos < WAITED {
            self.quick = [self.quick[0] + 1, self.quick[1] + it.nanos];
        }
    }

    pub(super) fn take(&mut self, it: &CallCost) {
        self.work.take(it.sort, 1, it.parts);
        self.nanos = self.nanos.saturating_sub(it.nanos);
        if it.nanos < WAITED {
            let [calls, nanos] = self.quick;
            self.quick = [calls.saturating_sub(1), nanos.saturating_sub(it.nanos)];
        }
    }

    /// What they have cost the processor, in seconds: calls that waited as much as the others on
    /// average. `None` if all waited.
    pub(crate) fn busy_seconds(&self) -> Option<f64> {
        let [calls, nanos] = self.quick;
        let each = nanos as f64 / calls as f64;
        (calls > 0).then_some(each * self.work.calls() as f64 / 1e9)
    }
}

/// What one call costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallCost {
    pub(super) sort: Sort,
    pub(super) parts: u64,
    pub(super) nanos: u64,
}

/// A stat by name.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastStat {
    pub(super) pid: u32,
    pub(super) call: CallCost,
    /// The file was opened after it.
    pub(super) opened: bool,
    /// How often the file had changed by then.
    pub(super) changes: u32,
}

/// What is remembered of a file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct File {
    /// The last stat by name, if nobody has changed the file since.
    pub(super) asked: Option<LastStat>,
    /// It did not exist.
    pub(super) missed: bool,
    /// The process that has found no extended attribute.
    pub(super) no_xattr: Option<u32>,
    /// How often it has changed.
    pub(super) changes: u32,
}

/// What is remembered of an opening.
#[derive(Clone, Debug, Default)]
pub(super) struct Opening {
    /// The stat by name before it was opened by the same name, until the first fstat.
    pub(super) asked: Option<CallCost>,
    /// The same stat, after the first fstat.
    pub(super) chain: Option<CallCost>,
    /// The opening itself, if it was seen.
    pub(super) open: Option<CallCost>,
    /// The last fstat.
    pub(super) fstat: Option<CallCost>,
    /// How often the file had changed by then; `None` when it has been changed by this descriptor
    /// since.
    pub(super) answered: Option<u32>,
    /// Calls for extended attributes on it.
    pub(super) xattrs: u32,
    /// Something else was done with it.
    pub(super) used: bool,
    /// Listings, and the bytes of the first.
    pub(super) lists: u32,
    pub(super) listed: i64,
    /// Of reads and of writes.
    pub(super) transfers: [SmallTransfers; 2],
    /// The file offset, as far as it was seen.
    pub(super) at: u64,
    /// Bytes written since the last fsync, and fsyncs that came after few.
    pub(super) unsynced: u64,
    pub(super) syncs: u64,
}

pub(super) const READS: usize = 0;
pub(super) const WRITES: usize = 1;

/// Consecutive small reads or writes, each beginning where the one before ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SmallTransfers {
    pub(super) calls: u64,
    pub(super) bytes: u64,
    /// Where the next one would begin, of calls with an offset.
    pub(super) next: Option<u64>,
}

impl SmallTransfers {
    /// Adds a small call. Returns how many there are, and whether one more is redundant: as many
    /// calls as there are pages would do.
    pub(super) fn small(&mut self, bytes: u64, at: Option<u64>) -> (u64, bool) {
        if self.calls > 0 && at != self.next {
            *self = SmallTransfers::default();
        }
        let spared =
            |row: &SmallTransfers| row.calls.saturating_sub(row.bytes.div_ceil(SMALL).max(1));
        let before = spared(self);
        self.calls += 1;
        self.bytes += bytes;
        self.next = at.map(|at| at + bytes);
        (self.calls, spared(self) > before)
    }
}

/// A call, and what is known of its file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeenCall<'a> {
    pub(crate) call: &'a Call<'a>,
    pub(crate) syscall: &'static Syscall,
    pub(crate) about: &'a Subject,
    pub(crate) sort: Sort,
    /// Components of its name beyond the first.
    pub(crate) parts: u64,
    /// The number of its file, where it has one.
    pub(crate) file: Option<u32>,
    /// The number of the other file.
    pub(crate) other: Option<u32>,
    /// The number of the file's directory, of a call that may change its entries.
    pub(crate) parent: Option<u32>,
}

impl SeenCall<'_> {
    pub(super) fn cost(&self) -> CallCost {
        CallCost {
            sort: self.sort,
            parts: self.parts,
            nanos: self.call.nanos,
        }
    }

    pub(super) fn done(&self) -> bool {
        self.call.result.is_some() && self.call.errno().is_none()
    }

    /// The result, unless it is an error.
    pub(super) fn result(&self) -> Option<u64> {
        u64::try_from(self.call.result?).ok()
    }
}
