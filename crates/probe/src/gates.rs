//! `gates`: what each call costs on this file system, warm and cold, on one thread and on as many
//! as there are processors.
//!
//! Warm is a call whose answer is in memory; cold one for which the file system must look at the
//! disk. To have the kernel forget names and inodes without taking anything from anybody else, the
//! cold calls are made in a group of their own (cgroup), which is then emptied. Files that the
//! directory already has are not touched, save that it is read once where nothing can be written.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString};
use std::os::fd::AsFd;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use gate::clock::empty_call;
use gate::create::pwrite64;
use gate::file::{fsync, renameat2, unlinkat};
use gate::fs::{
    Advice, At, CWD, Open, Want, fadvise64, fchdir, getdents64, newfstatat, openat, statx, syncfs,
};
use gate::scratch::open_new;
use gate::xattr::{lgetxattr, llistxattr};
use gate::{Errno, Fd, Gate};
use mounts::compare::{NoRun, alone};

use crate::cgroup::Group;
use crate::desk::{Desk, NO_TIME, Trouble};
use crate::finding::{Experiment, Finding};
use crate::infer::robust::{quantile, sorted};
use crate::place::{Place, Scratch};
use crate::timer::Clock;
use crate::work::{Witness, fill, forget, noise, read_at};

/// What a call costs.
#[derive(Clone, PartialEq, Debug)]
pub struct Price {
    /// The gate, or the gates: `openat+close`.
    pub gate: &'static str,
    /// What it is asked: `a name that is not there`.
    pub what: &'static str,
    /// Whether the answer is in memory.
    pub warm: bool,
    /// How many threads do it at the same time.
    pub threads: usize,
    /// What one costs on each thread, in nanoseconds: the middle one of the batches.
    pub ns: f64,
    /// A quarter of the batches is cheaper.
    pub low: f64,
    /// A quarter is dearer.
    pub high: f64,
    /// How many were made.
    pub calls: u64,
}

/// What a thread does a batch of: what one of each of its calls cost, and how many of each there
/// were.
type Batch<'a, const N: usize = 1> = dyn FnMut(Clock) -> Result<([f64; N], u64), Errno> + 'a;

/// Files that each thread has.
const FILES: usize = 128;
/// More threads than these say nothing new, and want a file each for every call.
const MOST_THREADS: usize = 16;
/// How long one call is priced, on one number of threads.
const EACH: Duration = Duration::from_millis(120);
/// A price wants at least so many batches.
const BATCHES: usize = 5;

/// What was priced, and what could not be.
#[derive(Debug, Default)]
struct Till {
    prices: Vec<Price>,
    /// Calls that failed: the gates, what they were asked, how they failed.
    failed: Vec<(&'static str, &'static str, Errno)>,
}

impl Till {
    /// What the file system does not have has no price, and that is no fault.
    fn refused(&mut self, gate: &'static str, what: &'static str, errno: Errno) {
        let it = (gate, what, errno);
        if ![Errno::EOPNOTSUPP, Errno::ENOSYS].contains(&errno) && !self.failed.contains(&it) {
            self.failed.push(it);
        }
    }

    /// A finding for each gate that could not be priced.
    fn unpriced(&self) -> impl Iterator<Item = Finding> {
        self.failed.iter().map(|&(gates, what, errno)| {
            let name = gates.split('+').next().unwrap_or(gates);
            let gate = Gate::ALL.iter().find(|gate| gate.name() == name);
            let why = format!("{gates} ({what}) could not be priced: {errno}");
            let refused = gate.map(|gate| (*gate, errno));
            Finding {
                refused,
                ..Finding::unknown(Experiment::Gates, name, "ns", why)
            }
        })
    }
}

/// All of it.
pub fn gates(
    place: &Place,
    desk: &mut Desk<'_>,
    prices: &mut Vec<Price>,
) -> Result<Vec<Finding>, Trouble> {
    desk.go_on("gates: what an empty call costs")?;
    let threads = gate::machine::processors().min(MOST_THREADS);
    let mut counts = vec![1];
    if threads > 1 {
        counts.push(threads);
    }
    let mut till = Till::default();
    let done = all(place, desk, &counts, &mut till);
    let unpriced: Vec<Finding> = till.unpriced().collect();
    *prices = till.prices;
    let (why, refused) = match done {
        Err(Trouble::Interrupted) => return Err(Trouble::Interrupted),
        Err(why) => (format!("; not all could be priced: {why}"), why.refusal()),
        Ok(()) => (String::new(), None),
    };
    let Some(empty) = prices
        .iter()
        .find(|price| price.gate == "getppid" && price.threads == 1)
    else {
        return Ok(vec![Finding::unknown(
            Experiment::Gates,
            "empty-call",
            "ns",
            "no call could be priced".to_owned() + &why,
        )]);
    };
    let sure = 1.0 - ((empty.high - empty.low) / empty.ns).clamp(0.0, 1.0);
    let method = format!(
        "getppid(2), which does nothing in the kernel, {} times: what every call costs at least{why}",
        empty.calls
    );
    let found = Finding::known(
        Experiment::Gates,
        "empty-call",
        "ns",
        empty.ns.round(),
        sure,
        method,
    );
    Ok([Finding { refused, ..found }]
        .into_iter()
        .chain(unpriced)
        .collect())
}

fn all(
    place: &Place,
    desk: &mut Desk<'_>,
    counts: &[usize],
    till: &mut Till,
) -> Result<(), Trouble> {
    for &threads in counts {
        empty(desk, threads, till)?;
    }
    let dir = match place.scratch_dir() {
        Ok(dir) => dir,
        Err(why) => {
            // Nothing can be made here: the directory itself will do for some.
            const CALLS: usize = 100;
            let same = |name: &CStr| vec![name.to_owned(); CALLS];
            for &threads in counts {
                desk.go_on(&format!(
                    "gates: each call that needs no file of our own, on {threads} of the processors"
                ))?;
                let (there, absent) = (|_: usize| same(c"."), |_: usize| same(c"no-such-name"));
                looks(
                    desk,
                    threads,
                    &place.dir,
                    "the directory",
                    &there,
                    &absent,
                    till,
                )?;
            }
            if place.makes_no_names() {
                desk.go_on("gates: 4 KiB reads, from memory and from the disk")?;
                reads(place, desk, till)?;
            }
            return Err(why);
        }
    };
    let fd = dir.fd()?;
    let most = counts.iter().copied().max().unwrap_or(1);
    for thread in 0..most {
        for file in 0..FILES {
            let name = name(thread, file)?;
            let made = open_new(fd, &name).map_err(Trouble::refused(
                "cannot make a file to experiment on",
                Gate::Openat,
            ))?;
            if file == 0 {
                desk.spend(0, 1)?;
                pwrite64(&made, b"x", 0)
                    .map_err(Trouble::refused("cannot write to the file", Gate::Pwrite64))?;
            }
        }
    }
    // Some calls take a path, and no directory: they begin at the current one. Who cannot go back
    // does not go there.
    let home = openat(CWD, c".", Open::DIRECTORY | Open::PATH)
        .ok()
        .filter(|_| fchdir(fd).is_ok());
    let done = warm(desk, counts, fd, till);
    if let Some(home) = home {
        fchdir(&home).map_err(Trouble::refused(
            "cannot go back to the current directory",
            Gate::Fchdir,
        ))?;
    }
    done?;
    drop(dir);
    desk.go_on("gates: 4 KiB reads, from memory and from the disk")?;
    reads(place, desk, till)?;
    desk.go_on("gates: the same calls after the kernel has forgotten names and inodes")?;
    cold(place, desk, till)
}

fn name(thread: usize, file: usize) -> Result<CString, Trouble> {
    CString::new(format!("{thread}-{file}"))
        .map_err(|_| Trouble::Hindered("a name has a NUL in it".to_owned()))
}

/// Runs a batch of one call over and over on so many threads at once, and enters the price.
fn price<'a>(
    desk: &mut Desk<'_>,
    threads: usize,
    gate: &'static str,
    what: &'static str,
    make: impl Fn(usize) -> Box<Batch<'a>> + Sync,
    till: &mut Till,
) -> Result<(), Trouble> {
    price_all(desk, threads, [(gate, what)], make, till)
}

/// The same of batches of several calls, each with its price. What fails is said.
fn price_all<'a, const N: usize>(
    desk: &mut Desk<'_>,
    threads: usize,
    calls: [(&'static str, &'static str); N],
    make: impl Fn(usize) -> Box<Batch<'a, N>> + Sync,
    till: &mut Till,
) -> Result<(), Trouble> {
    desk.still()?;
    let clock = desk.clock;
    let start = Barrier::new(threads);
    type Costs<const N: usize> = Result<(Vec<[f64; N]>, u64), Errno>;
    let work = |thread: usize| -> Costs<N> {
        let mut batch = make(thread);
        let (mut costs, mut made) = (Vec::new(), 0);
        let first = batch(clock); // the first one finds things out for those that follow
        start.wait();
        first?;
        let begun = Instant::now();
        while costs.len() < BATCHES || begun.elapsed() < EACH {
            let (each, more) = batch(clock)?;
            costs.push(each);
            made += more;
            if begun.elapsed() > EACH * 8 || gate::interrupt::asked().is_some() {
                break;
            }
        }
        Ok((costs, made))
    };
    let done: Vec<Costs<N>> = if threads == 1 {
        vec![work(0)]
    } else {
        std::thread::scope(|scope| {
            let started: Vec<_> = (0..threads)
                .map(|thread| {
                    let work = &work;
                    scope.spawn(move || {
                        let done = work(thread);
                        gate::meter::flush();
                        done
                    })
                })
                .collect();
            started
                .into_iter()
                .map(|thread| thread.join().unwrap_or(Err(Errno::EIO)))
                .collect()
        })
    };
    desk.still()?;
    let done = match done.into_iter().collect::<Result<Vec<_>, Errno>>() {
        Ok(done) => done,
        Err(errno) => {
            calls
                .into_iter()
                .for_each(|(gate, what)| till.refused(gate, what, errno));
            return Ok(());
        }
    };
    let made: u64 = done.iter().map(|(_, made)| made).sum();
    // Of an empty directory no entry has a price.
    if made == 0 {
        return Ok(());
    }
    for (part, (gate, what)) in calls.into_iter().enumerate() {
        enter(
            gate,
            what,
            true,
            threads,
            done.iter()
                .flat_map(|(costs, _)| costs)
                .map(|cost| cost[part]),
            made,
            till,
        );
    }
    Ok(())
}

fn enter(
    gate: &'static str,
    what: &'static str,
    warm: bool,
    threads: usize,
    costs: impl IntoIterator<Item = f64>,
    calls: u64,
    till: &mut Till,
) {
    let costs = sorted(costs);
    if !costs.is_empty() {
        let [low, ns, high] = [0.25, 0.5, 0.75].map(|share| quantile(&costs, share));
        till.prices.push(Price {
            gate,
            what,
            warm,
            threads,
            ns,
            low,
            high,
            calls,
        });
    }
}

fn empty(desk: &mut Desk<'_>, threads: usize, till: &mut Till) -> Result<(), Trouble> {
    const CALLS: u64 = 1000;
    let make = |_| -> Box<Batch<'_>> {
        Box::new(|clock| {
            let begun = clock.now();
            (0..CALLS).for_each(|_| empty_call());
            Ok(([clock.since(begun) / CALLS as f64], CALLS))
        })
    };
    price(desk, threads, "getppid", "an empty call", make, till)
}

/// One call for each of a thread's files, timed together.
fn each<'a>(names: Vec<CString>, call: impl Fn(&CStr) -> Result<(), Errno> + 'a) -> Box<Batch<'a>> {
    Box::new(move |clock| {
        let begun = clock.now();
        for name in &names {
            call(name)?;
        }
        Ok((
            [clock.since(begun) / names.len() as f64],
            names.len() as u64,
        ))
    })
}

/// The calls that look at files, and those that make and take away, in a directory of our own,
/// which is also the current one.
fn warm(desk: &mut Desk<'_>, counts: &[usize], dir: &Fd, till: &mut Till) -> Result<(), Trouble> {
    let names = |thread: usize| -> Vec<CString> {
        (0..FILES)
            .filter_map(|file| name(thread, file).ok())
            .collect()
    };
    let prefixed = |prefix: &str, thread: usize| -> Vec<CString> {
        (0..FILES)
            .filter_map(|file| CString::new(format!("{prefix}{thread}-{file}")).ok())
            .collect()
    };
    for &threads in counts {
        desk.go_on(&format!(
            "gates: each call, its answer in memory, on {threads} of the processors"
        ))?;
        looks(
            desk,
            threads,
            dir,
            "a file, by name",
            &names,
            &|t| prefixed("no-", t),
            till,
        )?;
        let listed = |t| {
            let all = RefCell::default();
            each(names(t), move |n| llistxattr(n, &mut all.borrow_mut()))
        };
        price(
            desk,
            threads,
            "llistxattr",
            "a file without any",
            listed,
            till,
        )?;
        let absent = |t| {
            let value = RefCell::default();
            each(names(t), move |n| {
                match lgetxattr(n, c"user.fathom", &mut value.borrow_mut()) {
                    Err(Errno::ENODATA) => Ok(()),
                    other => other,
                }
            })
        };
        price(
            desk,
            threads,
            "lgetxattr",
            "one that is not there",
            absent,
            till,
        )?;
    }
    for &threads in counts {
        desk.go_on(&format!(
            "gates: making, renaming and taking away, on {threads} of the processors"
        ))?;
        changes(desk, threads, dir, &prefixed, till)?;
    }
    desk.go_on("gates: waiting until a byte is on the disk")?;
    let make = |thread: usize| syncs(dir, thread);
    price(desk, 1, "fsync", "after one byte was written", make, till)?;
    Ok(())
}

/// What can be asked of anything: of names that are there, `what` of them, of names that are not,
/// and of the directory.
fn looks(
    desk: &mut Desk<'_>,
    threads: usize,
    dir: &Fd,
    what: &'static str,
    there: &(impl Fn(usize) -> Vec<CString> + Sync),
    absent: &(impl Fn(usize) -> Vec<CString> + Sync),
    till: &mut Till,
) -> Result<(), Trouble> {
    let stat = |n: &CStr| newfstatat(dir, n, At::SYMLINK_NOFOLLOW).map(drop);
    let open = |n: &CStr| openat(dir, n, Open::NOFOLLOW).map(drop);
    price(
        desk,
        threads,
        "statx",
        what,
        |t| each(there(t), |n| look(dir, n)),
        till,
    )?;
    price(
        desk,
        threads,
        "newfstatat",
        what,
        |t| each(there(t), stat),
        till,
    )?;
    price(
        desk,
        threads,
        "openat+close",
        what,
        |t| each(there(t), open),
        till,
    )?;
    price(
        desk,
        threads,
        "statx",
        "a name that is not there",
        |t| each(absent(t), |n| miss(dir, n)),
        till,
    )?;
    price(
        desk,
        threads,
        "getdents64",
        "an entry",
        |_| entries(dir),
        till,
    )
}

fn look(dir: &Fd, name: &CStr) -> Result<(), Errno> {
    statx(
        dir,
        name,
        At::SYMLINK_NOFOLLOW | At::NO_AUTOMOUNT,
        Want::BASIC_STATS,
    )
    .map(drop)
}

fn miss(dir: &Fd, name: &CStr) -> Result<(), Errno> {
    match look(dir, name) {
        Err(Errno::ENOENT) => Ok(()),
        Err(e) => Err(e),
        Ok(()) => Err(Errno::EEXIST),
    }
}

/// Reads the whole directory, or as much of it as says enough; the cost of an entry.
fn entries<'a>(dir: &'a Fd) -> Box<Batch<'a>> {
    const ENOUGH: u64 = 50_000;
    let mut buffer = vec![0; 32 << 10];
    Box::new(move |clock| {
        let again = openat(dir, c".", Open::DIRECTORY)?;
        let (mut spent, mut seen) = (0.0, 0);
        loop {
            let begun = clock.now();
            let n = getdents64(&again, &mut buffer)?;
            spent += clock.since(begun);
            if n == 0 || seen >= ENOUGH {
                return Ok(([spent / f64::max(1.0, seen as f64)], seen));
            }
            seen += ondisk::dirent::entries(&buffer[..n]).count() as u64;
        }
    })
}

/// Makes as many files as a thread has names, renames them, and takes them away: three prices from
/// one round.
fn changes(
    desk: &mut Desk<'_>,
    threads: usize,
    dir: &Fd,
    prefixed: &(impl Fn(&str, usize) -> Vec<CString> + Sync),
    till: &mut Till,
) -> Result<(), Trouble> {
    let make = |thread: usize| -> Box<Batch<'_, 3>> {
        let (new, renamed) = (prefixed("new-", thread), prefixed("renamed-", thread));
        Box::new(move |clock| {
            let timed = |call: &dyn Fn(usize) -> Result<(), Errno>| -> Result<f64, Errno> {
                let begun = clock.now();
                (0..new.len()).try_for_each(call)?;
                Ok(clock.since(begun) / new.len() as f64)
            };
            let made = timed(&|i| open_new(dir, &new[i]).map(drop))?;
            let moved = timed(&|i| renameat2(dir, &new[i], dir, &renamed[i]))?;
            let taken_away = timed(&|i| unlinkat(dir, &renamed[i]))?;
            Ok(([made, moved, taken_away], new.len() as u64))
        })
    };
    let calls = [
        ("openat+close", "a new file"),
        ("renameat2", "to a new name"),
        ("unlinkat", "a file"),
    ];
    price_all(desk, threads, calls, make, till)
}

/// A byte is written to the thread's first file, and waited for.
fn syncs<'a>(dir: &'a Fd, thread: usize) -> Box<Batch<'a>> {
    let file = name(thread, 0)
        .map_err(|_| Errno::EINVAL)
        .and_then(|name| openat(dir, &name, Open::WRONLY));
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

/// Reads of 4 KiB here and there in a file: from memory, and from the disk.
fn reads(place: &Place, desk: &mut Desk<'_>, till: &mut Till) -> Result<(), Trouble> {
    const PAGE: usize = 4096;
    const LEN: u64 = 8 << 20;
    const READS: u64 = 256;
    const TURNS: usize = 24;
    let len = LEN.min(place.room()) / PAGE as u64 * PAGE as u64;
    if len < (READS * PAGE as u64) {
        return Err(Trouble::Hindered(
            "there is no room for a file to read".to_owned(),
        ));
    }
    let scratch: Scratch<'_> = place.scratch()?;
    fill(desk, &scratch.file, len)?;
    // Each place once, in an order that nobody foresees.
    let mut dice = vec![0; 8 * (len / PAGE as u64) as usize];
    noise(&mut dice, 1);
    let mut order: Vec<(&[u8], u64)> = dice.chunks(8).zip((0..len).step_by(PAGE)).collect();
    order.sort_unstable();
    let places: Vec<u64> = order
        .into_iter()
        .map(|(_, at)| at)
        .take(READS as usize)
        .collect();
    let mut buffer = vec![0; PAGE];
    let mut costs = Vec::new();
    for _ in 0..TURNS {
        // Not as long as there is time, as other calls: who keeps nothing in memory asks a disk or
        // a server each time.
        desk.spend(READS * PAGE as u64, 0)?;
        let begun = desk.clock.now();
        for at in &places {
            read_at(&scratch.file, &mut buffer, *at)?;
        }
        costs.push(desk.clock.since(begun) / READS as f64);
    }
    enter(
        "pread64",
        "4 KiB",
        true,
        1,
        costs,
        READS * TURNS as u64,
        till,
    );
    // What does not go from memory, or cannot be seen to, has no cold price.
    let Some(mut witness) = Witness::of(&scratch, len)? else {
        return Ok(());
    };
    if !forget(&scratch.file, len, Some(&mut witness))? {
        return Ok(());
    }
    let reader = scratch.reopen()?;
    fadvise64(&reader, 0, 0, Advice::Random).map_err(Trouble::refused(
        "cannot turn readahead off",
        Gate::Fadvise64,
    ))?;
    desk.spend(READS * PAGE as u64, 0)?;
    let mut costs = Vec::new();
    for at in &places {
        let begun = desk.clock.now();
        read_at(&reader, &mut buffer, *at)?;
        costs.push(desk.clock.since(begun));
        desk.still()?;
    }
    enter("pread64", "4 KiB", false, 1, costs, READS, till);
    Ok(())
}

/// Rounds of cold calls.
const ROUNDS: usize = 3;
/// Names of which each cold call is asked once in a round.
const COLD_FILES: usize = 200;

/// Names and inodes that the kernel has forgotten: in a process of its own, in a group of its own,
/// which is emptied.
fn cold(place: &Place, desk: &mut Desk<'_>, till: &mut Till) -> Result<(), Trouble> {
    const ROOM: u64 = 128 << 20;
    const CALLS: [(&str, &str); 4] = [
        ("statx", "a file, by name"),
        ("openat+close", "a file, by name"),
        ("statx", "a name that is not there"),
        ("getdents64", "an entry"),
    ];
    if place.is_in_memory() {
        let why = "its names and inodes are in memory and nowhere else: none are forgotten";
        return Err(Trouble::Hindered(why.to_owned()));
    }
    let none =
        "no group of its own can be had, to forget names and inodes in without harm to others";
    let group = Group::own(&place.table).ok_or_else(|| Trouble::Hindered(none.to_owned()))?;
    let own = group
        .make(ROOM)
        .map_err(|e| Trouble::Hindered(format!("{none} ({e})")))?;
    let clock = desk.clock;
    let ran = alone::<{ CALLS.len() * ROUNDS }>(desk.time_left(), || {
        own.enter().ok()?;
        let dir = place.scratch_dir().ok()?;
        let fd = dir.fd().ok()?;
        let names: Vec<CString> = (0..COLD_FILES)
            .filter_map(|file| name(0, file).ok())
            .collect();
        let absent: Vec<CString> = (0..COLD_FILES)
            .filter_map(|file| name(1, file).ok())
            .collect();
        for name in &names {
            open_new(fd, name).ok()?;
        }
        // What is dirty cannot be forgotten; nothing of what follows makes anything so.
        syncfs(fd.as_fd()).ok()?;
        let mut gave = [0; CALLS.len() * ROUNDS];
        for round in gave.chunks_exact_mut(CALLS.len()) {
            for (call, gave) in round.iter_mut().enumerate() {
                if gate::interrupt::asked().is_some() {
                    return None;
                }
                own.forget().ok()?;
                let mut batch = match call {
                    0 => each(names.clone(), |name| look(fd, name)),
                    1 => each(names.clone(), |name| {
                        openat(fd, name, Open::NOFOLLOW).map(drop)
                    }),
                    2 => each(absent.clone(), |name| miss(fd, name)),
                    _ => entries(fd),
                };
                let ([cost], _) = batch(clock).ok()?;
                *gave = cost.to_bits();
            }
        }
        Some(gave)
    });
    let ran = ran.map_err(Trouble::refused(
        "cannot make a process for it",
        Gate::Unshare,
    ))?;
    if let Err(NoRun::Stopped(_) | NoRun::Moved(..)) = ran {
        place.sweep(); // it could not put away what it had made
    }
    desk.still()?;
    let ran = ran.map_err(|why| match why {
        NoRun::Stopped(_) | NoRun::Moved(..) => Trouble::Spent(NO_TIME),
        NoRun::Refused => Trouble::Hindered(
            "names and inodes cannot be forgotten here, without harm to others".to_owned(),
        ),
    })?;
    let gave = ran.gave;
    for (call, (gate, what)) in CALLS.into_iter().enumerate() {
        let costs = gave
            .chunks_exact(CALLS.len())
            .map(|round| f64::from_bits(round[call]));
        enter(
            gate,
            what,
            false,
            1,
            costs,
            (COLD_FILES * ROUNDS) as u64,
            till,
        );
    }
    Ok(())
}
