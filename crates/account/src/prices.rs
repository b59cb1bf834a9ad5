//! What calls cost without a meter: the prices of the model.
//!
//! What a meter says that a call took has the meter's own work in it. So calls that are saved are
//! not priced by that, but by what calls of their [`Sort`] cost when nobody looks: measured here in
//! a few milliseconds ([`Prices::measure`]), or given ([`Prices::given`], from `fathom probe DIR
//! gates --json`). A price is that of a name of one component whose answer is in memory; each
//! further component costs [`Prices::part`] more.

use std::ffi::{CStr, CString};
use std::time::Duration;

use gate::clock::empty_call;
use gate::cpu_time::process_cpu_time;
use gate::fs::{
    At, CWD, FileType, Open, Want, getdents64, newfstatat, openat, pread64, readlinkat, statx,
};
use gate::long::c_string;
use gate::uring::Ring;
use gate::xattr::{fgetxattr, lgetxattr};
use gate::{Errno, Fd, Result};

use meter::call::Call;
use meter::names::{Subject, components};
use meter::syscalls::{Kind, Syscall};

/// What a call is, as far as its price goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sort {
    /// Asks for metadata, access or a link, by name.
    Stat,
    /// Asks for the metadata of what is open.
    OpenStat,
    /// Looks for a name that is not there.
    Miss,
    /// Opens.
    Open,
    /// Closes.
    Close,
    /// Asks a directory for entries, and there are no more.
    List,
    /// Asks for extended attributes by name.
    Xattr,
    /// Asks what is open for extended attributes.
    OpenXattr,
    /// Reads a few bytes.
    Read,
    /// Writes a few bytes: priced as [`Sort::Read`], since nothing is written to find prices.
    Write,
    /// Anything else: priced as an empty call.
    Other,
}

impl Sort {
    /// Every one, in the order of the enum.
    pub const ALL: [Sort; 11] = [
        Sort::Stat,
        Sort::OpenStat,
        Sort::Miss,
        Sort::Open,
        Sort::Close,
        Sort::List,
        Sort::Xattr,
        Sort::OpenXattr,
        Sort::Read,
        Sort::Write,
        Sort::Other,
    ];

    /// The sort of a call.
    pub fn classify(syscall: &Syscall, call: &Call<'_>, about: &Subject) -> Sort {
        let by_name = about.by_name;
        match syscall.kind {
            _ if is_miss(syscall, call, about) => Sort::Miss,
            Kind::Stat if !by_name => Sort::OpenStat,
            Kind::Stat | Kind::Access => Sort::Stat,
            Kind::Link if by_name => Sort::Stat,
            Kind::Open => Sort::Open,
            Kind::Close => Sort::Close,
            Kind::List => Sort::List,
            Kind::Xattr if by_name => Sort::Xattr,
            Kind::Xattr => Sort::OpenXattr,
            Kind::Read => Sort::Read,
            Kind::Write => Sort::Write,
            _ => Sort::Other,
        }
    }
}

/// Whether a call looked for a name and did not find it: `ENOENT` or `ENOTDIR` from execve, open,
/// stat, access, readlink and their kin.
pub fn is_miss(syscall: &Syscall, call: &Call<'_>, about: &Subject) -> bool {
    let looks = matches!(
        syscall.kind,
        Kind::Stat | Kind::Access | Kind::Link | Kind::Open | Kind::Exec | Kind::Xattr
    );
    looks
        && about.by_name
        && call
            .errno()
            .is_some_and(|errno| [Errno::ENOENT, Errno::ENOTDIR].contains(&Errno(errno)))
}

/// Calls by sort, and the components of their names beyond the first of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    calls: [u64; Sort::ALL.len()],
    parts: u64,
}

impl Work {
    /// So many calls of one sort.
    pub fn new(sort: Sort, calls: u64) -> Work {
        let mut work = Work::default();
        work.add(sort, calls, 0);
        work
    }

    /// Adds calls, and so many components of names beyond the first of each.
    pub fn add(&mut self, sort: Sort, calls: u64, parts: u64) {
        self.calls[sort as usize] += calls;
        self.parts += parts;
    }

    /// Adds all of another.
    pub fn join(&mut self, other: &Work) {
        self.calls
            .iter_mut()
            .zip(other.calls)
            .for_each(|(mine, theirs)| *mine += theirs);
        self.parts += other.parts;
    }

    /// Takes away what was added before.
    pub fn take(&mut self, sort: Sort, calls: u64, parts: u64) {
        let mine = &mut self.calls[sort as usize];
        *mine = mine.saturating_sub(calls);
        self.parts = self.parts.saturating_sub(parts);
    }

    /// So many times as many calls.
    pub fn scaled(self, times: f64) -> Work {
        let scaled = |number: u64| (number as f64 * times).round() as u64;
        Work {
            calls: self.calls.map(scaled),
            parts: scaled(self.parts),
        }
    }

    /// All calls.
    pub fn calls(&self) -> u64 {
        self.calls.iter().sum()
    }

    /// Calls of one sort.
    pub fn calls_of(&self, sort: Sort) -> u64 {
        self.calls[sort as usize]
    }
}

/// What calls cost, in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Prices {
    each: [f64; Sort::ALL.len()],
    /// A component of a name, beyond the first.
    pub part: f64,
    /// A call that does nothing.
    pub empty: f64,
    /// A question by name through io_uring, with all that its worker threads use.
    pub uring: f64,
    /// How many times as dear as one file asked for again and again are many, each asked for once:
    /// their names and inodes are in memory, but not near the processor.
    pub many: f64,
    /// Where the prices are from, in words.
    pub source: String,
}

/// Prices that others have measured, in nanoseconds: `None` where they have not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Given {
    /// An empty call.
    pub empty: Option<f64>,
    /// Metadata by name.
    pub stat: Option<f64>,
    /// A name that is not there.
    pub miss: Option<f64>,
    /// A file opened by name, and closed.
    pub open_close: Option<f64>,
    /// An extended attribute that is not there, by name.
    pub xattr: Option<f64>,
}

impl Prices {
    /// What a call of a sort costs.
    pub fn price(&self, sort: Sort) -> f64 {
        self.each[sort as usize]
    }

    /// What calls cost together, in seconds.
    pub fn cost(&self, work: &Work) -> f64 {
        let calls: f64 = work
            .calls
            .iter()
            .zip(self.each)
            .map(|(calls, each)| *calls as f64 * each)
            .sum();
        (calls + work.parts as f64 * self.part) / 1e9
    }

    /// The fixed price of any call, in nanoseconds: that of the cheapest that asks something by
    /// name, among those that were made. What is asked of an open file is cheaper, and no price for
    /// what is asked by name.
    pub fn fixed(&self, made: &Work) -> f64 {
        let asked = [Sort::Stat, Sort::Miss, Sort::Xattr]
            .into_iter()
            .filter(|sort| made.calls_of(*sort) > 0);
        asked
            .map(|sort| self.price(sort))
            .min_by(f64::total_cmp)
            .unwrap_or(self.price(Sort::Stat))
    }

    /// Measures them here, on a plain file that is given by an absolute name: one that the calls to
    /// be priced were about is best. It is asked for and opened, not read. Where there is none, or
    /// it cannot be opened, this program's own file must do. Measured are a question by name, and
    /// what was `made`; what is not, or cannot be, is as dear as an empty call.
    pub fn measure(sample: Option<&[u8]>, made: &Work) -> Prices {
        let empty = each(|| {
            empty_call();
            Ok(())
        });
        let empty = empty.unwrap_or(100.0);
        let source = "measured here".to_owned();
        let mut prices = Prices {
            each: [empty; Sort::ALL.len()],
            part: 0.0,
            empty,
            uring: 0.0,
            many: 1.0,
            source,
        };
        let asked = sample.is_some_and(|sample| prices.ask(sample, made).is_ok());
        if !asked && let Ok(own) = readlinkat(CWD, c"/proc/self/exe") {
            // What is not to be had keeps the price of an empty call.
            let _ = prices.ask(&own, made);
        }
        if prices.uring == 0.0 {
            prices.uring = URING * prices.price(Sort::Stat);
        }
        prices
    }

    /// Finds out what many files cost: asks for each of these once, by absolute names. A few say
    /// nothing.
    pub fn measure_many<'a>(&mut self, names: impl Iterator<Item = &'a [u8]>) {
        const ENOUGH: usize = 200;
        let names: Vec<CString> = names.filter_map(|name| c_string(name).ok()).collect();
        let beyond: u64 = names
            .iter()
            .map(|name| components(name.as_bytes()).saturating_sub(1))
            .sum();
        let begun = now();
        let there = names
            .iter()
            .filter(|name| newfstatat(CWD, name, At::SYMLINK_NOFOLLOW | At::NO_AUTOMOUNT).is_ok());
        let there = there.count();
        let took = now().saturating_sub(begun) as f64 - beyond as f64 * self.part;
        if there >= ENOUGH && there == names.len() {
            self.many = (took / there as f64 / self.price(Sort::Stat)).clamp(1.0, 10.0);
        }
    }

    fn ask(&mut self, path: &[u8], made: &Work) -> Result<()> {
        let at = path.iter().rposition(|&b| b == b'/').ok_or(Errno::ENOENT)?;
        let (dir, name) = path.split_at(at + 1);
        let (whole, name) = (c_string(path)?, c_string(name)?);
        let dir = openat(CWD, &c_string(dir)?, Open::DIRECTORY)?;
        let kind = statx(
            &dir,
            &name,
            At::SYMLINK_NOFOLLOW | At::NO_AUTOMOUNT,
            Want::TYPE,
        )?
        .file_type;
        if kind != FileType::Regular {
            return Err(Errno::EINVAL); // to open anything else may do something
        }
        let file = openat(&dir, &name, Open::empty())?;
        let of = |sorts: &[Sort]| sorts.iter().any(|sort| made.calls_of(*sort) > 0);
        let look = |dir: &Fd, name: &CStr| newfstatat(dir, name, At::SYMLINK_NOFOLLOW).map(drop);
        let near = each(|| look(&dir, &name));
        self.set(Sort::Stat, near);
        // The same by a name of many components.
        let beyond = components(path).saturating_sub(1);
        if let (Ok(near), Ok(far)) = (
            near,
            each(|| newfstatat(CWD, &whole, At::SYMLINK_NOFOLLOW).map(drop)),
        ) && beyond > 0
        {
            self.part = ((far - near) / beyond as f64).max(0.0);
        }
        if of(&[Sort::OpenStat]) {
            self.set(
                Sort::OpenStat,
                each(|| newfstatat(&file, c"", At::EMPTY_PATH).map(drop)),
            );
        }
        if of(&[Sort::Miss]) {
            let absent = CString::from(c"no-such-file-in-this-directory");
            let missed = |done: Result<()>| {
                if done == Err(Errno::ENOENT) {
                    Ok(())
                } else {
                    done
                }
            };
            self.set(Sort::Miss, each(|| missed(look(&dir, &absent))));
        }
        if of(&[Sort::Open, Sort::Close]) {
            let (open, close) = open_and_close(&dir, &name);
            self.set(Sort::Open, open);
            self.set(Sort::Close, close);
        }
        if of(&[Sort::List]) {
            let mut buffer = vec![0; 32 << 10];
            while getdents64(&dir, &mut buffer)? > 0 {}
            self.set(Sort::List, each(|| getdents64(&dir, &mut buffer).map(drop)));
        }
        if of(&[Sort::Xattr, Sort::OpenXattr]) {
            let mut value = Vec::new();
            let none = |done: Result<()>| match done {
                Err(Errno::ENODATA | Errno::EOPNOTSUPP) => Ok(()),
                other => other,
            };
            let far = each(|| none(lgetxattr(&whole, c"user.fathom", &mut value)));
            self.set(Sort::Xattr, far.map(|far| far - beyond as f64 * self.part));
            self.set(
                Sort::OpenXattr,
                each(|| none(fgetxattr(&file, c"user.fathom", &mut value))),
            );
        }
        if of(&[Sort::Read, Sort::Write]) {
            // To read it would change its time of access.
            let own = openat(CWD, c"/proc/self/exe", Open::empty())?;
            let mut bytes = [0; 16];
            let read = each(|| pread64(&own, &mut bytes, 0).map(drop));
            self.set(Sort::Read, read);
            self.set(Sort::Write, read);
        }
        if of(&[Sort::Stat, Sort::Miss])
            && let Ok(ns) = through_ring(&dir, &name)
        {
            self.uring = ns;
        }
        Ok(())
    }

    fn set(&mut self, sort: Sort, ns: Result<f64>) {
        if let Ok(ns) = ns {
            self.each[sort as usize] = ns.max(self.empty);
        }
    }

    /// With prices that others have measured. What they have not is taken from here, as much
    /// cheaper or dearer as their empty call is.
    pub fn given(self, given: &Given, source: String) -> Prices {
        let scale = given.empty.map_or(1.0, |empty| empty / self.empty);
        let mut prices = Prices {
            each: self.each.map(|ns| ns * scale),
            part: self.part * scale,
            empty: self.empty * scale,
            uring: self.uring * scale,
            many: self.many,
            source,
        };
        let both = prices.price(Sort::Open) + prices.price(Sort::Close);
        if let Some(open_close) = given.open_close {
            for sort in [Sort::Open, Sort::Close] {
                prices.each[sort as usize] *= open_close / both;
            }
        }
        if let Some(ns) = given.stat {
            prices.uring *= ns / prices.price(Sort::Stat);
        }
        for (sort, ns) in [
            (Sort::Stat, given.stat),
            (Sort::Miss, given.miss),
            (Sort::Xattr, given.xattr),
        ] {
            if let Some(ns) = ns {
                prices.each[sort as usize] = ns;
            }
        }
        prices
    }
}

/// What a question through io_uring costs where there is none to be measured, in questions by name.
const URING: f64 = 4.0;
/// Requests that are handed over at once.
pub(crate) const URING_BATCH: u32 = 32;
const CALLS: usize = 64;
const BATCHES: usize = 5;

/// The CPU time that this process has used, in nanoseconds: other work on the machine does not
/// count.
fn now() -> u64 {
    u64::try_from(process_cpu_time().as_nanos()).unwrap_or(u64::MAX)
}

/// What a call costs in the middle one of a few batches, in nanoseconds.
fn each(mut call: impl FnMut() -> Result<()>) -> Result<f64> {
    middle(|| {
        let begun = now();
        (0..CALLS).try_for_each(|_| call())?;
        Ok(now().saturating_sub(begun))
    })
}

fn middle(mut batch: impl FnMut() -> Result<u64>) -> Result<f64> {
    let mut took = Vec::with_capacity(BATCHES);
    batch()?; // it has everything in memory for those that follow
    for _ in 0..BATCHES {
        took.push(batch()?);
    }
    took.sort_unstable();
    Ok(took.get(BATCHES / 2).copied().unwrap_or_default() as f64 / CALLS as f64)
}

/// The same through a ring.
fn through_ring(dir: &Fd, name: &CStr) -> Result<f64> {
    let mut ring = Ring::new(URING_BATCH)?;
    ring.statx(dir, name, URING_BATCH)?; // it makes the worker threads
    let begun = now_at_rest();
    ring.statx(dir, name, (BATCHES * CALLS) as u32)?;
    Ok(now_at_rest().saturating_sub(begun) as f64 / (BATCHES * CALLS) as f64)
}

/// [`now`], with all that the worker threads have used: the kernel books it when a thread goes to
/// sleep, which one does as soon as it has answered.
fn now_at_rest() -> u64 {
    std::thread::sleep(Duration::from_micros(300));
    now()
}

fn open_and_close(dir: &Fd, name: &CStr) -> (Result<f64>, Result<f64>) {
    let mut open = Vec::with_capacity(CALLS);
    let mut closing = Vec::new();
    let opening = middle(|| {
        let begun = now();
        for _ in 0..CALLS {
            open.push(openat(dir, name, Open::empty())?);
        }
        let opened = now();
        open.clear();
        closing.push(now().saturating_sub(opened));
        Ok(opened.saturating_sub(begun))
    });
    let mut closing = closing.into_iter();
    (opening, middle(|| closing.next().ok_or(Errno::EIO)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_such_as_calls_have() {
        let mut all = Work::default();
        Sort::ALL.into_iter().for_each(|sort| all.add(sort, 1, 0));
        let prices = Prices::measure(None, &all);
        for sort in Sort::ALL {
            assert!(
                prices.price(sort) >= prices.empty && prices.price(sort) < 1e6,
                "{sort:?}: {prices:?}"
            );
        }
        assert!(
            prices.price(Sort::Open) > prices.price(Sort::OpenStat),
            "{prices:?}"
        );
        assert!(
            prices.price(Sort::Stat) > prices.empty && prices.part < prices.price(Sort::Stat),
            "{prices:?}"
        );
        // Of what was not made, a question by name is all that is asked.
        let none = Prices::measure(None, &Work::default());
        assert!(
            none.price(Sort::Stat) > none.empty && none.price(Sort::Open) == none.empty,
            "{none:?}"
        );
    }

    #[test]
    fn what_is_given_is_taken_and_the_rest_follows_the_empty_call() {
        let here = Prices {
            each: [200.0; Sort::ALL.len()],
            part: 10.0,
            empty: 100.0,
            uring: 800.0,
            many: 1.0,
            source: String::new(),
        };
        let given = Given {
            empty: Some(50.0),
            stat: Some(300.0),
            open_close: Some(900.0),
            ..Given::default()
        };
        let prices = here.given(&given, "a file".to_owned());
        let of = |sort| prices.price(sort);
        assert_eq!(
            (
                of(Sort::Stat),
                of(Sort::Open),
                of(Sort::Close),
                of(Sort::Miss)
            ),
            (300.0, 450.0, 450.0, 100.0)
        );
        assert_eq!(
            (prices.part, prices.empty, prices.uring),
            (5.0, 50.0, 1200.0)
        );
        let mut work = Work::new(Sort::Stat, 2);
        work.add(Sort::Open, 1, 4);
        assert!((prices.cost(&work) - 1070e-9).abs() < 1e-15);
        assert_eq!(prices.fixed(&work), 300.0);
        assert_eq!(prices.fixed(&Work::new(Sort::Miss, 1)), 100.0);
        work.take(Sort::Stat, 5, 9);
        assert_eq!((work.calls(), work.parts), (1, 0));
    }
}
