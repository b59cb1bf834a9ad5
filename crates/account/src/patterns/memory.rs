//! A call with its file, and the remembered state of files and openings.

use meter::call::Call;
use meter::names::CallFile;
use meter::syscalls::Syscall;

use crate::prices::{PriceKind, PricedCalls};

/// The size of a page. A read or write of fewer bytes is small, and fsync after fewer bytes is
/// redundant.
pub(super) const SMALL: u64 = 4096;

/// The calls that a change would avoid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AvoidedCalls {
    pub(crate) work: PricedCalls,
    /// Metered time of the calls, in nanoseconds.
    pub(crate) nanos: u64,
    /// The number and the time of the calls that did not wait.
    quick: [u64; 2],
}

/// Minimum nanoseconds of a call that is assumed to have waited for a disk, a server or a
/// processor.
const WAITED: u64 = 50_000;

impl AvoidedCalls {
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

    /// CPU time of the calls in seconds. A call that waited counts as much as the average call that
    /// did not wait. `None` if all calls waited.
    pub(crate) fn busy_seconds(&self) -> Option<f64> {
        let [calls, nanos] = self.quick;
        let each = nanos as f64 / calls as f64;
        (calls > 0).then_some(each * self.work.calls() as f64 / 1e9)
    }
}

/// The price class, path components and time of one call.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallCost {
    pub(super) sort: PriceKind,
    pub(super) parts: u64,
    pub(super) nanos: u64,
}

/// A stat by name, and later events on the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastStat {
    pub(super) pid: u32,
    pub(super) call: CallCost,
    /// The file was opened after the stat.
    pub(super) opened: bool,
    /// The number of changes of the file at the time of the stat.
    pub(super) changes: u32,
}

/// The remembered state of a file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct File {
    /// The last stat by name, if no metered process has changed the file since.
    pub(super) asked: Option<LastStat>,
    /// The last lookup failed: the file did not exist.
    pub(super) missed: bool,
    /// The process that found no extended attribute on the file.
    pub(super) no_xattr: Option<u32>,
    /// The number of changes of the file.
    pub(super) changes: u32,
    /// The opens by the last process that opened the file.
    pub(super) opens: Option<OpenCount>,
}

/// The occurrences of a pattern by file. The number of files is bounded by the ledger's table.
#[derive(Clone, Debug, Default)]
pub(super) struct FileFrequencies {
    /// The number of occurrences, by the index of the file.
    counts: Vec<u32>,
    /// The most frequent file, and its number of occurrences.
    file: Option<u32>,
    most: u32,
}

impl FileFrequencies {
    /// Adds occurrences on a file. Returns whether the file has become the most frequent one.
    pub(super) fn add(&mut self, file: u32, count: u64) -> bool {
        let at = file as usize;
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        let times = &mut self.counts[at];
        *times = times.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        if *times <= self.most {
            return false;
        }
        self.most = *times;
        self.file.replace(file) != Some(file)
    }
}

/// The opens of a file by one process, since the file was last truncated or replaced.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenCount {
    pub(super) pid: u32,
    pub(super) times: u32,
    /// Nanoseconds of all opens except the first.
    pub(super) nanos: u64,
}

/// The remembered state of an opened file.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenFileState {
    /// The stat by the same name before the open, until the first fstat.
    pub(super) asked: Option<CallCost>,
    /// The stat by the same name before the open, after the first fstat.
    pub(super) chain: Option<CallCost>,
    /// The open call itself, if it was seen.
    pub(super) open: Option<CallCost>,
    /// The last fstat of the descriptor.
    pub(super) fstat: Option<CallCost>,
    /// The number of changes of the file at the last fstat; `None` if the file was changed through
    /// this descriptor since.
    pub(super) answered: Option<u32>,
    /// The number of calls for extended attributes on the descriptor.
    pub(super) xattrs: u32,
    /// The descriptor was used for a call other than fstat, close, or one for extended attributes.
    pub(super) used: bool,
    /// The number of getdents64 calls that returned entries; `listed` has the bytes of the last
    /// such call.
    pub(super) lists: u32,
    pub(super) listed: i64,
    /// The current sequence of small reads, and that of small writes.
    pub(super) transfers: [SmallTransfers; 2],
    /// The file offset, as far as it is known.
    pub(super) at: u64,
    /// Bytes written since the last fsync. `syncs` is the number of fsyncs after few bytes.
    pub(super) unsynced: u64,
    pub(super) syncs: u64,
}

pub(super) const READS: usize = 0;
pub(super) const WRITES: usize = 1;

/// Consecutive small reads or writes, each starting at the end of the previous one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SmallTransfers {
    pub(super) calls: u64,
    pub(super) bytes: u64,
    /// The offset at which the next consecutive call would start, for calls with an offset.
    pub(super) next: Option<u64>,
}

impl SmallTransfers {
    /// Adds a small read or write. Returns the number of consecutive small calls, and whether this
    /// call makes one more of them redundant, since one call per page would do.
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

/// A call, and the files that it is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeenCall<'a> {
    pub(crate) call: &'a Call<'a>,
    pub(crate) syscall: &'static Syscall,
    pub(crate) about: &'a CallFile,
    pub(crate) sort: PriceKind,
    /// The number of components of the call's path beyond the first.
    pub(crate) parts: u64,
    /// The index of the call's file, if known.
    pub(crate) file: Option<u32>,
    /// The index of the second file of a call on two files, such as a rename.
    pub(crate) other: Option<u32>,
    /// The index of the file's directory, for a call that may change its entries.
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

    /// The return value, unless it is an error.
    pub(super) fn result(&self) -> Option<u64> {
        u64::try_from(self.call.result?).ok()
    }
}
