//! `gates`: the price of each system call on this file system, warm and cold, on one thread and on
//! as many as there are processors.
//!
//! A warm call finds its data in memory; for a cold one the file system must read from the disk.
//! Cold calls are made in a temporary cgroup that is reclaimed before, which drops names and inodes
//! from memory without taking pages from other processes. Existing files in the directory are not
//! touched; where nothing can be created, the directory is read once.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString};
use std::os::fd::AsFd;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use base::child::{Bounds, NoRun, run_in_child};
use base::pool::together;
use gate::clock::empty_call;
use gate::create::pwrite64;
use gate::file::{fsync, renameat2, unlinkat};
use gate::fs::{
    AtFlags, CWD, Open, StatxMask, fchdir, getdents64, lstatat, newfstatat, openat, syncfs,
};
use gate::scratch::open_new;
use gate::xattr::{lgetxattr, llistxattr};
use gate::{Errno, Fd};

use crate::activity::Activity;
use crate::cgroup::{Cgroup, TemporaryCgroup};
use crate::clock::Clock;
use crate::context::Context;
use crate::dir::ProbeDir;
use crate::error::{Error, Purpose, Result};
use crate::finding::{Finding, Method};
use crate::infer::robust::{quantile, sorted};
use crate::io::{fill, noise, read_at, reopen_random};
use crate::names::{Call, Quantity};
use crate::report::Price;
use crate::residency::{Residency, drop_cache};

/// A function that makes a batch of system calls. Returns the cost of each of the N kinds of calls,
/// and the number of calls of each kind.
type Batch<'a, const N: usize = 1> = dyn FnMut(Clock) -> gate::Result<([f64; N], u64)> + 'a;

type CallOutcome = gate::Result<()>;

/// Number of files per thread.
const FILES: usize = 128;
/// Maximum number of threads: more threads find nothing new, and each thread needs files.
const MOST_THREADS: usize = 16;
/// Duration of pricing one call with one number of threads.
const EACH: Duration = Duration::from_millis(120);
/// Minimum number of batches per price.
const BATCHES: usize = 5;

pub(crate) fn gates(context: &mut Context<'_>) -> Result<Vec<Finding>> {
    context.begin(Activity::EmptyCalls)?;
    let threads = gate::machine::processors().min(MOST_THREADS);
    let counts = &[1, threads][..if threads > 1 { 2 } else { 1 }];
    let mut pricing = Pricing {
        context,
        counts,
        failed: Vec::new(),
    };
    let incomplete = match pricing.price_all() {
        Err(Error::Interrupted) => return Err(Error::Interrupted),
        Err(why) => Some(Box::new(why)),
        Ok(()) => None,
    };
    let failed = pricing.failed;
    let is_empty = |price: &&Price| price.call == Call::Empty && price.threads == 1;
    let Some(empty) = context.prices.iter().find(is_empty) else {
        let why = Error::NothingPriced(incomplete);
        return Ok(vec![Finding::unknown(Quantity::EmptyCall, why)]);
    };
    let sure = 1.0 - ((empty.high - empty.low) / empty.ns).clamp(0.0, 1.0);
    let calls = empty.calls;
    let method = Method::EmptyCalls { calls, incomplete };
    let found = Finding::known(Quantity::EmptyCall, empty.ns.round(), sure, method);
    let unpriced = failed.into_iter().map(|(call, errno)| {
        Finding::unknown(Quantity::Price(call), Error::NotPriced { call, errno })
    });
    Ok([found].into_iter().chain(unpriced).collect())
}

/// Prices calls, and stores the prices in the context.
struct Pricing<'a, 'c> {
    context: &'a mut Context<'c>,
    /// The numbers of threads with which each call is priced.
    counts: &'a [usize],
    /// The calls without a price.
    failed: Vec<(Call, Errno)>,
}

impl Pricing<'_, '_> {
    fn price_all(&mut self) -> Result<()> {
        let dir = self.context.dir;
        for &threads in self.counts {
            self.price_empty(threads)?;
        }
        let scratch = match dir.scratch_dir() {
            Err(why) => return self.price_without_files().and(Err(why)),
            Ok(scratch) => scratch,
        };
        let fd = &scratch.file;
        for thread in 0..self.counts.iter().copied().max().unwrap_or(1) {
            for file in 0..FILES {
                let created = open_new(fd, &name("", thread, file));
                let created = created.map_err(Purpose::CreateFile.failed())?;
                if file == 0 {
                    self.context.spend(0, 1)?;
                    pwrite64(&created, b"x", 0).map_err(Purpose::Write.failed())?;
                }
            }
        }
        // llistxattr(2) and lgetxattr(2) only take paths, relative to the working directory. If the
        // working directory cannot be opened, do not leave it, since there would be no way back.
        let home = openat(CWD, c".", Open::DIRECTORY | Open::PATH)
            .ok()
            .filter(|_| fchdir(fd).is_ok());
        let done = self.price_warm(fd);
        if let Some(home) = home {
            fchdir(&home).map_err(Purpose::ReturnHome.failed())?;
        }
        done?;
        drop(scratch);
        self.price_reads()?;
        self.price_cold()
    }

    /// Prices calls on the directory itself, for when no temporary directory can be created.
    fn price_without_files(&mut self) -> Result<()> {
        const CALLS: usize = 100;
        let same = |name: &CStr| vec![name.to_owned(); CALLS];
        let lookups = Lookups {
            statx: Call::StatxDirectory,
            newfstatat: Call::NewfstatatDirectory,
            open: Call::OpenDirectory,
            existing: &|_| same(c"."),
            missing: &|_| same(c"no-such-name"),
        };
        let dir = self.context.dir;
        for &threads in self.counts {
            let step = Activity::CallsWithoutFiles { threads };
            self.context.begin(step)?;
            self.price_lookups(threads, &dir.dir, &lookups)?;
        }
        if dir.unnamed_only {
            self.price_syncs()?;
            self.price_reads()?;
        }
        Ok(())
    }

    /// Prices one call: all threads make batches of it at the same time.
    fn price<'b>(
        &mut self,
        threads: usize,
        call: Call,
        make: impl Fn(usize) -> Box<Batch<'b>> + Sync,
    ) -> Result<()> {
        self.price_several(threads, [call], make)
    }

    /// Prices several calls that are made in one batch.
    fn price_several<'b, const N: usize>(
        &mut self,
        threads: usize,
        calls: [Call; N],
        make: impl Fn(usize) -> Box<Batch<'b, N>> + Sync,
    ) -> Result<()> {
        self.context.check()?;
        let done = run_batches(self.context.clock, threads, &make);
        self.context.check()?;
        let done = match done {
            Ok(done) => done,
            Err(errno) => {
                for call in calls {
                    self.push_failed(call, errno);
                }
                return Ok(());
            }
        };
        let made: u64 = done.iter().map(|(_, made)| made).sum();
        // An empty directory has no entry to price.
        if made == 0 {
            return Ok(());
        }
        for (part, call) in calls.into_iter().enumerate() {
            let costs = done.iter().flat_map(|(costs, _)| costs);
            self.push(call, true, threads, costs.map(|cost| cost[part]), made);
        }
        Ok(())
    }

    /// Records a failed call. A call that the file system does not support has no price, which is
    /// no error.
    fn push_failed(&mut self, call: Call, errno: Errno) {
        let failed = (call, errno);
        if ![Errno::EOPNOTSUPP, Errno::ENOSYS].contains(&errno) && !self.failed.contains(&failed) {
            self.failed.push(failed);
        }
    }

    /// Records the price of a call from its cost in each batch.
    fn push(
        &mut self,
        call: Call,
        warm: bool,
        threads: usize,
        costs: impl IntoIterator<Item = f64>,
        calls: u64,
    ) {
        let costs = sorted(costs);
        if !costs.is_empty() {
            let [low, ns, high] = [0.25, 0.5, 0.75].map(|share| quantile(&costs, share));
            self.context.prices.push(Price {
                call,
                warm,
                threads,
                ns,
                low,
                high,
                calls,
            });
        }
    }

    fn price_empty(&mut self, threads: usize) -> Result<()> {
        const CALLS: u64 = 1000;
        self.price(threads, Call::Empty, |_| {
            Box::new(|clock| {
                let begun = clock.now();
                (0..CALLS).for_each(|_| empty_call());
                Ok(([clock.since(begun) / CALLS as f64], CALLS))
            })
        })
    }

    /// Prices warm calls, in a temporary directory that is the working directory.
    fn price_warm(&mut self, dir: &Fd) -> Result<()> {
        let lookups = Lookups {
            statx: Call::StatxFile,
            newfstatat: Call::NewfstatatFile,
            open: Call::OpenFile,
            existing: &|thread| names("", thread),
            missing: &|thread| names("no-", thread),
        };
        for &threads in self.counts {
            self.context.begin(Activity::WarmCalls { threads })?;
            self.price_lookups(threads, dir, &lookups)?;
            self.price(threads, Call::Llistxattr, |thread| {
                let all = RefCell::default();
                for_each(names("", thread), move |name| {
                    llistxattr(name, &mut all.borrow_mut())
                })
            })?;
            self.price(threads, Call::LgetxattrMissing, |thread| {
                let value = RefCell::default();
                for_each(names("", thread), move |name| {
                    match lgetxattr(name, c"user.fathom", &mut value.borrow_mut()) {
                        Err(Errno::ENODATA) => Ok(()),
                        other => other,
                    }
                })
            })?;
        }
        for &threads in self.counts {
            self.context.begin(Activity::ChangingCalls { threads })?;
            self.price_changes(threads, dir)?;
        }
        self.context.begin(Activity::SyncCalls)?;
        self.price(1, Call::Fsync, |thread| syncs(dir, thread))
    }

    /// Prices lookups of existing and missing names, and of reading directory entries.
    fn price_lookups(&mut self, threads: usize, dir: &Fd, lookups: &Lookups<'_>) -> Result<()> {
        let (existing, missing) = (lookups.existing, lookups.missing);
        let statx = |name: &CStr| stat_name(dir, name);
        let fstatat = |name: &CStr| newfstatat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map(drop);
        let open = |name: &CStr| openat(dir, name, Open::NOFOLLOW).map(drop);
        let absent = |name: &CStr| stat_missing(dir, name);
        self.price(threads, lookups.statx, |t| for_each(existing(t), statx))?;
        self.price(threads, lookups.newfstatat, |t| {
            for_each(existing(t), fstatat)
        })?;
        self.price(threads, lookups.open, |t| for_each(existing(t), open))?;
        self.price(threads, Call::StatxMissing, |t| {
            for_each(missing(t), absent)
        })?;
        self.price(threads, Call::Getdents64, |_| entries(dir))
    }

    /// Prices creating, renaming and removing files; each batch does all three.
    fn price_changes(&mut self, threads: usize, dir: &Fd) -> Result<()> {
        let calls = [Call::Create, Call::Rename, Call::Unlink];
        self.price_several(threads, calls, |thread| {
            let (new, renamed) = (names("new-", thread), names("renamed-", thread));
            Box::new(move |clock| {
                let timed = |call: &dyn Fn(usize) -> CallOutcome| -> gate::Result<f64> {
                    let begun = clock.now();
                    (0..new.len()).try_for_each(call)?;
                    Ok(clock.since(begun) / new.len() as f64)
                };
                let create = timed(&|i| open_new(dir, &new[i]).map(drop))?;
                let rename = timed(&|i| renameat2(dir, &new[i], dir, &renamed[i]))?;
                let unlink = timed(&|i| unlinkat(dir, &renamed[i]))?;
                Ok(([create, rename, unlink], new.len() as u64))
            })
        })
    }

    /// Prices fsync on a file without a name, a few times only, since each waits for the disk.
    fn price_syncs(&mut self) -> Result<()> {
        const SYNCS: u8 = 5;
        self.context.begin(Activity::SyncCalls)?;
        let scratch = self.context.dir.scratch()?;
        let mut costs = Vec::new();
        for byte in 0..SYNCS {
            self.context.spend(0, PAGE as u64)?;
            pwrite64(&scratch.file, &[byte], 0).map_err(Purpose::Write.failed())?;
            let begun = self.context.clock.now();
            if let Err(errno) = fsync(&scratch.file) {
                self.push_failed(Call::Fsync, errno);
                break;
            }
            costs.push(self.context.clock.since(begun));
            self.context.check()?;
        }
        self.push(Call::Fsync, true, 1, costs, SYNCS.into());
        Ok(())
    }

    /// Prices reads of 4 KiB at random offsets, from memory and from the disk.
    fn price_reads(&mut self) -> Result<()> {
        const LEN: u64 = 8 << 20;
        const TURNS: u64 = 24;
        const LEAST: u64 = READS * PAGE as u64;
        self.context.begin(Activity::ReadCalls)?;
        let len = LEN.min(self.context.dir.room()) / PAGE as u64 * PAGE as u64;
        if len < LEAST {
            return Err(Error::NoRoom { bytes: LEAST });
        }
        let scratch = self.context.dir.scratch()?;
        fill(self.context, &scratch.file, len)?;
        let offsets = shuffled_offsets(len);
        let mut buffer = vec![0; PAGE];
        let mut costs = Vec::new();
        // The number of rounds is fixed, not the time: a file system without a cache reads from a
        // disk or a server in each round.
        for _ in 0..TURNS {
            self.context.spend(LEAST, 0)?;
            let begun = self.context.clock.now();
            for at in &offsets {
                read_at(&scratch.file, &mut buffer, *at)?;
            }
            costs.push(self.context.clock.since(begun) / READS as f64);
        }
        self.push(Call::Pread64, true, 1, costs, READS * TURNS);
        // There is no cold price if the pages cannot be dropped, or if residency is unknown.
        let Some(mut residency) = Residency::new(&scratch, len)? else {
            return Ok(());
        };
        if !drop_cache(&scratch.file, len, Some(&mut residency))? {
            return Ok(());
        }
        let reader = reopen_random(&scratch)?;
        self.context.spend(LEAST, 0)?;
        let mut costs = Vec::new();
        for at in &offsets {
            let begun = self.context.clock.now();
            read_at(&reader, &mut buffer, *at)?;
            costs.push(self.context.clock.since(begun));
            self.context.check()?;
        }
        self.push(Call::Pread64, false, 1, costs, READS);
        Ok(())
    }

    /// Prices calls on uncached names and inodes, in a child process in a temporary cgroup, which
    /// is reclaimed before each call.
    fn price_cold(&mut self) -> Result<()> {
        const LIMIT: u64 = 128 << 20;
        self.context.begin(Activity::ColdCalls)?;
        let dir = self.context.dir;
        if dir.is_in_memory() {
            return Err(Error::NamesInMemory);
        }
        let cgroup = Cgroup::current(&dir.table).ok_or(Error::NoColdCgroup)?;
        let own = cgroup.create_child(LIMIT);
        let own = own.map_err(Error::ColdCgroupRefused)?;
        let clock = self.context.clock;
        let bounds = Bounds::time(self.context.time_left());
        let ran = run_in_child(&bounds, || cold_costs(dir, &own, clock));
        let ran = ran.map_err(Purpose::Fork.failed())?;
        if let Err(NoRun::Stopped(_) | NoRun::Moved(..)) = ran {
            dir.sweep(); // remove the files of the killed child
        }
        self.context.check()?;
        let ran = ran.map_err(|why| match why {
            NoRun::Stopped(_) | NoRun::Moved(..) => Error::OutOfTime,
            NoRun::Refused => Error::NamesNotForgotten,
        });
        let costs: ColdCosts = ran?.result;
        for (at, call) in COLD_CALLS.into_iter().enumerate() {
            let rounds = costs.chunks_exact(COLD_CALLS.len());
            let each = rounds.map(|round| f64::from_bits(round[at]));
            self.push(call, false, 1, each, (COLD_FILES * ROUNDS) as u64);
        }
        Ok(())
    }
}

/// The name of a thread's file: `new-0-127`. `dir::is_ours` recognizes this form.
fn name(prefix: &str, thread: usize, file: usize) -> CString {
    // The name has no NUL, so the conversion cannot fail.
    CString::new(format!("{prefix}{thread}-{file}")).unwrap_or_default()
}

fn names(prefix: &str, thread: usize) -> Vec<CString> {
    (0..FILES).map(|file| name(prefix, thread, file)).collect()
}

/// The costs of the calls in each batch of a thread, and the number of calls.
type Costs<const N: usize> = (Vec<[f64; N]>, u64);

/// Runs batches on `threads` threads at the same time.
fn run_batches<'a, const N: usize>(
    clock: Clock,
    threads: usize,
    make: &(impl Fn(usize) -> Box<Batch<'a, N>> + Sync),
) -> gate::Result<Vec<Costs<N>>> {
    let start = Barrier::new(threads);
    let work = |thread: usize| -> gate::Result<Costs<N>> {
        let mut batch = make(thread);
        let (mut costs, mut made) = (Vec::new(), 0);
        let first = batch(clock); // the first batch warms the caches
        start.wait();
        first?;
        let begun = Instant::now();
        while costs.len() < BATCHES || begun.elapsed() < EACH {
            let (each, more) = batch(clock)?;
            costs.push(each);
            made += more;
            if begun.elapsed() > EACH * 8 || gate::interrupt::pending_signal().is_some() {
                break;
            }
        }
        Ok((costs, made))
    };
    if threads == 1 {
        return Ok(vec![work(0)?]);
    }
    let done = together(0..threads, work);
    let done = done.map_err(|e| e.raw_os_error().map_or(Errno::EAGAIN, Errno))?;
    done.into_iter().collect()
}

/// A batch with one call per name.
fn for_each<'a>(names: Vec<CString>, call: impl Fn(&CStr) -> CallOutcome + 'a) -> Box<Batch<'a>> {
    Box::new(move |clock| {
        let begun = clock.now();
        for name in &names {
            call(name)?;
        }
        let cost = clock.since(begun) / names.len() as f64;
        Ok(([cost], names.len() as u64))
    })
}

/// The names for the lookups of each thread.
struct Lookups<'a> {
    statx: Call,
    newfstatat: Call,
    open: Call,
    existing: &'a (dyn Fn(usize) -> Vec<CString> + Sync),
    missing: &'a (dyn Fn(usize) -> Vec<CString> + Sync),
}

fn stat_name(dir: &Fd, name: &CStr) -> CallOutcome {
    lstatat(dir, name, StatxMask::BASIC_STATS).map(drop)
}

fn stat_missing(dir: &Fd, name: &CStr) -> CallOutcome {
    match stat_name(dir, name) {
        Err(Errno::ENOENT) => Ok(()),
        Err(e) => Err(e),
        Ok(()) => Err(Errno::EEXIST),
    }
}

/// A batch that reads the whole directory, or enough of it; the cost is per entry.
fn entries<'a>(dir: &'a Fd) -> Box<Batch<'a>> {
    const ENOUGH: u64 = 50_000;
    let mut buffer = vec![0; 32 << 10];
    Box::new(move |clock| {
        let reopened = openat(dir, c".", Open::DIRECTORY)?;
        let (mut spent, mut seen) = (0.0, 0);
        loop {
            let begun = clock.now();
            let n = getdents64(&reopened, &mut buffer)?;
            spent += clock.since(begun);
            if n == 0 || seen >= ENOUGH {
                return Ok(([spent / f64::max(1.0, seen as f64)], seen));
            }
            seen += ondisk::dirent::entries(&buffer[..n]).count() as u64;
        }
    })
}

/// A batch that writes a byte to the thread's first file, and syncs it.
fn syncs<'a>(dir: &'a Fd, thread: usize) -> Box<Batch<'a>> {
    let file = openat(dir, &name("", thread, 0), Open::WRONLY);
    let byte = Cell::new(0_u8);
    Box::new(move |clock| {
        let file = file.as_ref().map_err(|e| *e)?;
        byte.set(byte.get().wrapping_add(1));
        pwrite64(file, &[byte.get()], 0)?;
        let begun = clock.now();
        fsync(file)?;
        Ok(([clock.since(begun)], 1))
    })
}

/// The size of a priced read in bytes.
const PAGE: usize = 4096;
/// Number of offsets in a file at which a read is priced.
const READS: u64 = 256;

/// Page offsets of a file, each once, in an order that defeats readahead.
fn shuffled_offsets(len: u64) -> Vec<u64> {
    let mut keys = vec![0; 8 * (len / PAGE as u64) as usize];
    noise(&mut keys, 1);
    let mut order: Vec<(&[u8], u64)> = keys.chunks(8).zip((0..len).step_by(PAGE)).collect();
    order.sort_unstable();
    let offsets = order.into_iter().map(|(_, at)| at);
    offsets.take(READS as usize).collect()
}

/// The calls that are priced cold.
const COLD_CALLS: [Call; 4] = [
    Call::StatxFile,
    Call::OpenFile,
    Call::StatxMissing,
    Call::Getdents64,
];
/// Number of rounds of cold calls.
const ROUNDS: usize = 3;
/// Number of names per call and round.
const COLD_FILES: usize = 200;

/// The cost of each call in each round, as the bits of an `f64`.
type ColdCosts = [u64; COLD_CALLS.len() * ROUNDS];

/// Makes the cold calls; `None` if that is impossible.
fn cold_costs(dir: &ProbeDir, cgroup: &TemporaryCgroup, clock: Clock) -> Option<ColdCosts> {
    cgroup.enter().ok()?;
    let scratch = dir.scratch_dir().ok()?;
    let fd = &scratch.file;
    let names = |thread| (0..COLD_FILES).map(|file| name("", thread, file)).collect();
    let [existing, missing]: [Vec<CString>; 2] = [0, 1].map(names);
    for name in &existing {
        open_new(fd, name).ok()?;
    }
    // Write dirty inodes to the disk, because the kernel cannot reclaim them. The calls below make
    // no inode dirty.
    syncfs(fd.as_fd()).ok()?;
    let mut costs = [0; COLD_CALLS.len() * ROUNDS];
    for (call, cost) in COLD_CALLS.iter().cycle().zip(&mut costs) {
        if gate::interrupt::pending_signal().is_some() {
            return None;
        }
        cgroup.reclaim().ok()?;
        let mut batch = match call {
            Call::StatxFile => for_each(existing.clone(), |name| stat_name(fd, name)),
            Call::OpenFile => for_each(existing.clone(), |name| {
                openat(fd, name, Open::NOFOLLOW).map(drop)
            }),
            Call::StatxMissing => for_each(missing.clone(), |name| stat_missing(fd, name)),
            _ => entries(fd),
        };
        let ([each], _) = batch(clock).ok()?;
        *cost = each.to_bits();
    }
    Some(costs)
}
