//! Counting what passes the gates.
//!
//! Each thread counts in a ledger of its own, without locks or atomics; a thread that ends adds its
//! ledger to the process's. [`tally`] is the sum of what ended and of the calling thread. Times and
//! the histogram are taken only while [`set_profiling`] is on, and CPU times while an [account] is
//! open: otherwise a call costs one relaxed load and two additions more than the bare system call.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Instant;

use crate::usage::thread_cpu_time;
use crate::{Errno, Result, account};

macro_rules! gates {
    ($($variant:ident $name:literal,)*) => {
        /// A system call that does file-system work. An ioctl is named by what it does.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Gate {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl Gate {
            /// Every gate, in the order of the enum.
            pub const ALL: &'static [Gate] = &[$(Gate::$variant,)*];

            /// The name that strace prints; `ioctl:NAME` for an ioctl.
            pub const fn name(self) -> &'static str {
                match self { $(Gate::$variant => $name,)* }
            }
        }
    };
}

gates! {
    BtrfsGetSubvolInfo "ioctl:BTRFS_IOC_GET_SUBVOL_INFO",
    BtrfsGetSubvolRootref "ioctl:BTRFS_IOC_GET_SUBVOL_ROOTREF",
    BtrfsInoLookup "ioctl:BTRFS_IOC_INO_LOOKUP",
    BtrfsTreeSearchV2 "ioctl:BTRFS_IOC_TREE_SEARCH_V2",
    Cachestat "cachestat",
    Chdir "chdir",
    Close "close",
    Faccessat "faccessat",
    Fadvise64 "fadvise64",
    Fallocate "fallocate",
    FanotifyInit "fanotify_init",
    FanotifyMark "fanotify_mark",
    Fchdir "fchdir",
    Fchmod "fchmod",
    Fchmodat "fchmodat",
    Fchmodat2 "fchmodat2",
    Fchownat "fchownat",
    Fdatasync "fdatasync",
    Fgetxattr "fgetxattr",
    Flistxattr "flistxattr",
    Flock "flock",
    Fremovexattr "fremovexattr",
    FsIocFiemap "ioctl:FS_IOC_FIEMAP",
    FsGetfsuuid "ioctl:FS_IOC_GETFSUUID",
    Fsetxattr "fsetxattr",
    Fsync "fsync",
    Fstatfs "fstatfs",
    Ftruncate "ftruncate",
    Getcwd "getcwd",
    Getdents64 "getdents64",
    Getxattrat "getxattrat",
    IoUringEnter "io_uring_enter",
    IoUringSetup "io_uring_setup",
    Lgetxattr "lgetxattr",
    Linkat "linkat",
    Listmount "listmount",
    Listxattrat "listxattrat",
    Llistxattr "llistxattr",
    Lremovexattr "lremovexattr",
    Lsetxattr "lsetxattr",
    Mincore "mincore",
    Mkdirat "mkdirat",
    Mknodat "mknodat",
    Lseek "lseek",
    Mount "mount",
    Newfstatat "newfstatat",
    OpenTree "open_tree",
    Openat "openat",
    Openat2 "openat2",
    Pread64 "pread64",
    Pwrite64 "pwrite64",
    Read "read",
    Readlinkat "readlinkat",
    Renameat2 "renameat2",
    Statmount "statmount",
    Statx "statx",
    Symlinkat "symlinkat",
    SyncFileRange "sync_file_range",
    Syncfs "syncfs",
    Umask "umask",
    Umount2 "umount2",
    Unlinkat "unlinkat",
    Unshare "unshare",
    UringStatx "uring:STATX",
    Utimensat "utimensat",
    Write "write",
    XfsBulkstat "ioctl:XFS_IOC_BULKSTAT",
    XfsFsgeometry "ioctl:XFS_IOC_FSGEOMETRY",
}

/// How many gates there are.
const GATES: usize = Gate::ALL.len();
/// Buckets of a histogram: bucket `b` holds calls of 2^b up to 2^(b+1) nanoseconds; the last one
/// all that took longer.
pub const BUCKETS: usize = 36;

/// Which of the two bits below are set.
static WATCHED: AtomicU8 = AtomicU8::new(0);
/// Each call is timed.
const PROFILED: u8 = 1;
/// Each call's CPU time is taken, for an account.
const ACCOUNTED: u8 = 2;

static ENDED: Mutex<Tally> = Mutex::new(Tally::NONE);

/// What passed one gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Calls, failed ones included.
    pub calls: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Wall time in the calls, in nanoseconds; 0 unless profiling.
    pub nanos: u64,
    /// Calls by duration, see [`BUCKETS`]; empty unless profiling.
    pub histogram: [u64; BUCKETS],
}

impl Row {
    const NONE: Row = Row {
        calls: 0,
        errors: 0,
        nanos: 0,
        histogram: [0; BUCKETS],
    };

    /// An upper bound of the duration below which `share` (0 to 1) of the calls lie, in
    /// nanoseconds: the end of the histogram's bucket. `None` when nothing was timed.
    pub fn percentile(&self, share: f64) -> Option<u64> {
        let timed: u64 = self.histogram.iter().sum();
        let rank = (share * timed as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, n) in self.histogram.iter().enumerate() {
            seen += n;
            if timed > 0 && seen >= rank {
                return Some(2 << bucket);
            }
        }
        None
    }
}

/// What passed each gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    rows: [Row; GATES],
}

impl Default for Tally {
    fn default() -> Self {
        Tally::NONE
    }
}

impl Tally {
    const NONE: Tally = Tally {
        rows: [Row::NONE; GATES],
    };
    /// How many 64-bit words [`Tally::publish`] writes.
    pub const WORDS: usize = GATES * (3 + BUCKETS);

    /// The row of one gate.
    pub fn of(&self, gate: Gate) -> &Row {
        &self.rows[gate as usize]
    }

    /// The gates that were called, in alphabetical order of the enum.
    pub fn used(&self) -> impl Iterator<Item = (Gate, &Row)> {
        Gate::ALL
            .iter()
            .map(|&g| (g, self.of(g)))
            .filter(|(_, row)| row.calls > 0)
    }

    /// All calls of all gates.
    pub fn calls(&self) -> u64 {
        self.rows.iter().map(|row| row.calls).sum()
    }

    /// Calls that ask for a file's attributes: `statx` and `newfstatat`.
    pub fn stat_calls(&self) -> u64 {
        self.of(Gate::Statx).calls + self.of(Gate::Newfstatat).calls
    }

    fn combine(&mut self, other: &Tally, with: impl Fn(&mut u64, u64)) {
        for (mine, theirs) in self.rows.iter_mut().zip(&other.rows) {
            with(&mut mine.calls, theirs.calls);
            with(&mut mine.errors, theirs.errors);
            with(&mut mine.nanos, theirs.nanos);
            for (a, b) in mine.histogram.iter_mut().zip(theirs.histogram) {
                with(a, b);
            }
        }
    }

    /// Adds another tally to this one.
    pub fn add(&mut self, other: &Tally) {
        self.combine(other, |a, b| *a += b);
    }

    /// What was added since `earlier` was taken.
    pub fn since(&self, earlier: &Tally) -> Tally {
        let mut difference = self.clone();
        difference.combine(earlier, |a, b| *a = a.saturating_sub(b));
        difference
    }

    /// Writes the tally where another process reads it: [`Tally::WORDS`] words of shared memory.
    ///
    /// # Panics
    /// When `words` is shorter than that.
    pub fn publish(&self, words: &[AtomicU64]) {
        let values = self.rows.iter().flat_map(|row| {
            [row.calls, row.errors, row.nanos]
                .into_iter()
                .chain(row.histogram)
        });
        assert!(words.len() >= Tally::WORDS, "too little room for a tally");
        for (word, value) in words.iter().zip(values) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Reads what [`Tally::publish`] wrote.
    ///
    /// # Panics
    /// When `words` is shorter than [`Tally::WORDS`].
    pub fn collect(words: &[AtomicU64]) -> Tally {
        let mut tally = Tally::NONE;
        for (row, words) in tally
            .rows
            .iter_mut()
            .zip(words[..Tally::WORDS].chunks_exact(3 + BUCKETS))
        {
            let word = |i: usize| words[i].load(Ordering::Relaxed);
            *row = Row {
                calls: word(0),
                errors: word(1),
                nanos: word(2),
                histogram: std::array::from_fn(|b| word(3 + b)),
            };
        }
        tally
    }
}

struct Ledger {
    calls: [Cell<u64>; GATES],
    errors: [Cell<u64>; GATES],
    nanos: [Cell<u64>; GATES],
    histogram: [[Cell<u64>; BUCKETS]; GATES],
}

impl Ledger {
    const fn new() -> Ledger {
        Ledger {
            calls: [const { Cell::new(0) }; GATES],
            errors: [const { Cell::new(0) }; GATES],
            nanos: [const { Cell::new(0) }; GATES],
            histogram: [const { [const { Cell::new(0) }; BUCKETS] }; GATES],
        }
    }

    fn tally(&self) -> Tally {
        Tally {
            rows: std::array::from_fn(|g| Row {
                calls: self.calls[g].get(),
                errors: self.errors[g].get(),
                nanos: self.nanos[g].get(),
                histogram: std::array::from_fn(|b| self.histogram[g][b].get()),
            }),
        }
    }

    fn enter(&self, tally: &Tally) {
        for (g, row) in tally.rows.iter().enumerate() {
            self.calls[g].set(self.calls[g].get() + row.calls);
            self.errors[g].set(self.errors[g].get() + row.errors);
            self.nanos[g].set(self.nanos[g].get() + row.nanos);
            for (cell, n) in self.histogram[g].iter().zip(row.histogram) {
                cell.set(cell.get() + n);
            }
        }
    }
}

impl Ledger {
    fn hand_in(&self) {
        ENDED
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .add(&self.tally());
        let cells = self
            .calls
            .iter()
            .chain(&self.errors)
            .chain(&self.nanos)
            .chain(self.histogram.iter().flatten());
        cells.for_each(|cell| cell.set(0));
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.hand_in();
    }
}

thread_local! {
    static LEDGER: Ledger = const { Ledger::new() };
}

/// Times each call from now on (or no longer).
pub fn set_profiling(on: bool) {
    watch(PROFILED, on);
}

/// Whether calls are being timed.
pub fn profiling() -> bool {
    WATCHED.load(Ordering::Relaxed) & PROFILED != 0
}

/// Enters each call in the account from now on (or no longer).
pub(crate) fn set_accounting(on: bool) {
    watch(ACCOUNTED, on);
}

/// Whether an account is open.
#[inline]
pub(crate) fn accounting() -> bool {
    WATCHED.load(Ordering::Relaxed) & ACCOUNTED != 0
}

fn watch(bit: u8, on: bool) {
    if on {
        WATCHED.fetch_or(bit, Ordering::Relaxed)
    } else {
        WATCHED.fetch_and(!bit, Ordering::Relaxed)
    };
}

/// What has passed so far: the calling thread's calls, and those of every thread that has ended.
pub fn tally() -> Tally {
    let mut sum = ENDED.lock().unwrap_or_else(|e| e.into_inner()).clone();
    sum.add(&LEDGER.with(Ledger::tally));
    sum
}

/// Runs this while no other thread holds the lock of what has passed: a process forked while one
/// does would wait for it for ever.
pub(crate) fn at_rest<T>(fork: impl FnOnce() -> T) -> T {
    let _mine = ENDED.lock().unwrap_or_else(|e| e.into_inner());
    fork()
}

/// Hands in what the calling thread has counted: for a thread whose end nobody waits for, since a
/// scope of threads ends when their work has ended, and not their ledgers.
pub fn hand_in() {
    LEDGER.with(Ledger::hand_in);
}

/// Enters what a child process did, so that the process's tally is that of `strace -f`.
pub fn enter(tally: &Tally) {
    LEDGER.with(|ledger| ledger.enter(tally));
}

/// One call through a gate: counted, and timed while somebody wants to know.
#[inline]
pub(crate) fn pass<T>(gate: Gate, call: impl FnOnce() -> Result<T>) -> Result<T> {
    if WATCHED.load(Ordering::Relaxed) != 0 {
        return pass_timed(gate, call);
    }
    let answer = call();
    count(gate, answer.is_err());
    answer
}

#[cold]
fn pass_timed<T>(gate: Gate, call: impl FnOnce() -> Result<T>) -> Result<T> {
    let cpu = accounting().then(thread_cpu_time);
    let start = profiling().then(Instant::now);
    let answer = call();
    let elapsed = start.map(|start| start.elapsed());
    if let Some(cpu) = cpu {
        account::enter(gate, thread_cpu_time().saturating_sub(cpu));
    }
    count(gate, answer.is_err());
    let Some(elapsed) = elapsed else {
        return answer;
    };
    let nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
    let bucket = (nanos.max(1).ilog2() as usize).min(BUCKETS - 1);
    let _ = LEDGER.try_with(|ledger| {
        let sum = &ledger.nanos[gate as usize];
        sum.set(sum.get() + nanos);
        let cell = &ledger.histogram[gate as usize][bucket];
        cell.set(cell.get() + 1);
    });
    answer
}

#[inline]
fn count(gate: Gate, failed: bool) {
    // A descriptor that is dropped while its thread's ledger is being dropped is closed, but
    // counted nowhere.
    let _ = LEDGER.try_with(|ledger| {
        let calls = &ledger.calls[gate as usize];
        calls.set(calls.get() + 1);
        let errors = &ledger.errors[gate as usize];
        errors.set(errors.get() + u64::from(failed));
    });
}

/// A system call's return value, as an answer: negative means that the C library has the number.
pub(crate) fn answer(value: libc::c_long) -> Result<usize> {
    usize::try_from(value).map_err(|_| Errno::last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_ends_hands_in_its_ledger() {
        let before = tally();
        std::thread::spawn(|| {
            for failed in [false, true, false] {
                let _ = pass(Gate::Getcwd, || {
                    if failed { Err(Errno::EINVAL) } else { Ok(()) }
                });
            }
        })
        .join()
        .unwrap();
        let row = *tally().since(&before).of(Gate::Getcwd);
        assert_eq!((row.calls, row.errors), (3, 1));
    }

    #[test]
    fn a_tally_survives_shared_memory() {
        let mut tally = Tally::default();
        tally.rows[3] = Row {
            calls: 7,
            errors: 2,
            nanos: 99,
            histogram: [1; BUCKETS],
        };
        let words: Vec<AtomicU64> = (0..Tally::WORDS).map(|_| AtomicU64::new(0)).collect();
        tally.publish(&words);
        assert_eq!(Tally::collect(&words), tally);
    }

    #[test]
    fn percentiles_are_ends_of_buckets() {
        let mut row = Row::NONE;
        assert_eq!(row.percentile(0.5), None);
        row.histogram[8] = 99; // 256..512 ns
        row.histogram[20] = 1;
        assert_eq!(row.percentile(0.5), Some(512));
        assert_eq!(row.percentile(1.0), Some(1 << 21));
    }
}
