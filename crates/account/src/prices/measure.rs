//! Measures the prices of calls on this machine.

use std::ffi::{CStr, CString};
use std::time::Duration;

use gate::clock::empty_call;
use gate::cpu_time::process_cpu_time;
use gate::fs::{
    AtFlags, CWD, FileType, Open, StatxMask, getdents64, lstatat, newfstatat, openat, pread64,
    readlinkat,
};
use gate::long::c_string;
use gate::uring::Ring;
use gate::xattr::{fgetxattr, lgetxattr};
use gate::{Errno, Fd, Result};
use meter::names::components;

use super::{FEWEST_CALLS, PriceKind, PricedCalls, Prices, URING_BATCH};

/// The prices to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PriceRequest<'a> {
    /// Calls whose prices are measured, besides stat; other calls get the price of an empty call.
    pub(crate) work: &'a PricedCalls,
    /// Also measure the price of a byte.
    pub(crate) bytes: bool,
}

/// The price of a statx by io_uring as a multiple of a stat, for when it cannot be measured.
const URING: f64 = 4.0;
/// The size of the read that measures the price of a byte.
const MANY_BYTES: usize = 64 << 10;
const CALLS: usize = 64;
const BATCHES: usize = 5;

impl Prices {
    /// Measures prices on the regular file `sample`, preferably one that the command used. It is
    /// opened, but not read. Without a sample, or if it cannot be opened, fathom's executable is
    /// used.
    pub(crate) fn measure(sample: Option<&[u8]>, wanted: PriceRequest<'_>) -> Prices {
        let empty = each(|| {
            empty_call();
            Ok(())
        });
        let empty = empty.unwrap_or(100.0);
        let mut prices = Prices {
            each: [empty; PriceKind::ALL.len()],
            part: 0.0,
            byte: 0.0,
            empty,
            uring: 0.0,
            many: 1.0,
            source: "measured here".to_owned(),
        };
        let is_measured = sample.is_some_and(|sample| prices.measure_on(sample, wanted).is_ok());
        if !is_measured && let Ok(own) = readlinkat(CWD, c"/proc/self/exe") {
            // After a failure, the remaining kinds of calls keep the price of an empty call.
            let _ = prices.measure_on(&own, wanted);
        }
        if prices.uring == 0.0 {
            prices.uring = URING * prices.price(PriceKind::Stat);
        }
        prices
    }

    /// Measures [`Prices::many`] by one stat of each of these absolute paths. The value stays as it
    /// is if there are fewer than `ENOUGH` paths, or if a stat fails.
    pub(crate) fn measure_many<'a>(&mut self, names: impl Iterator<Item = &'a [u8]>) {
        const ENOUGH: usize = 200;
        let names: Vec<CString> = names.filter_map(|name| c_string(name).ok()).collect();
        let parts = |name: &CString| components(name.as_bytes()).saturating_sub(1);
        let beyond: u64 = names.iter().map(parts).sum();
        let at = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let begun = now();
        let there = names
            .iter()
            .filter(|name| newfstatat(CWD, name, at).is_ok());
        let there = there.count();
        let took = now().saturating_sub(begun) as f64 - beyond as f64 * self.part;
        if there >= ENOUGH && there == names.len() {
            self.many = (took / there as f64 / self.price(PriceKind::Stat)).clamp(1.0, 10.0);
        }
    }

    fn measure_on(&mut self, path: &[u8], wanted: PriceRequest<'_>) -> Result<()> {
        let sample = SampleFile::open(path)?;
        let is_wanted = |sorts: &[PriceKind]| sorts.iter().any(|it| wanted.work.calls_of(*it) > 0);
        self.measure_stat(&sample);
        if is_wanted(&[PriceKind::OpenStat]) {
            let fstat = || newfstatat(&sample.file, c"", AtFlags::EMPTY_PATH).map(drop);
            self.set(PriceKind::OpenStat, each(fstat));
        }
        if is_wanted(&[PriceKind::OpenMiss]) {
            let open = || openat(&sample.dir, ABSENT, Open::empty()).map(drop);
            let miss = each(|| expect(&[Errno::ENOENT], open()));
            self.set(PriceKind::OpenMiss, miss);
        }
        if is_wanted(&[PriceKind::Miss]) {
            let miss = each(|| expect(&[Errno::ENOENT], sample.stat(ABSENT)));
            self.set(PriceKind::Miss, miss);
        }
        if is_wanted(&[PriceKind::Open, PriceKind::Close]) {
            let (open, close) = open_and_close(&sample.dir, &sample.name);
            self.set(PriceKind::Open, open);
            self.set(PriceKind::Close, close);
        }
        if is_wanted(&[PriceKind::List]) {
            let mut buffer = vec![0; 32 << 10];
            while getdents64(&sample.dir, &mut buffer)? > 0 {}
            let list = each(|| getdents64(&sample.dir, &mut buffer).map(drop));
            self.set(PriceKind::List, list);
        }
        if is_wanted(&[PriceKind::Xattr, PriceKind::OpenXattr]) {
            self.measure_xattr(&sample);
        }
        if is_wanted(&[PriceKind::Read, PriceKind::Write]) {
            self.measure_reads(wanted.bytes)?;
        }
        let stats = wanted.work.calls_of(PriceKind::Stat) + wanted.work.calls_of(PriceKind::Miss);
        if stats >= FEWEST_CALLS
            && let Ok(ns) = through_ring(&sample.dir, &sample.name)
        {
            self.uring = ns;
        }
        Ok(())
    }

    /// Measures the price of a stat of a one-component path, and that of each further component.
    fn measure_stat(&mut self, sample: &SampleFile) {
        let near = each(|| sample.stat(&sample.name));
        self.set(PriceKind::Stat, near);
        let far = each(|| newfstatat(CWD, &sample.path, AtFlags::SYMLINK_NOFOLLOW).map(drop));
        if let (Ok(near), Ok(far)) = (near, far)
            && sample.beyond > 0
        {
            self.part = ((far - near) / sample.beyond as f64).max(0.0);
        }
    }

    fn measure_xattr(&mut self, sample: &SampleFile) {
        const NAME: &CStr = c"user.fathom";
        let mut value = Vec::new();
        let none = |done| expect(&[Errno::ENODATA, Errno::EOPNOTSUPP], done);
        let far = each(|| none(lgetxattr(&sample.path, NAME, &mut value)));
        let near = far.map(|far| far - sample.beyond as f64 * self.part);
        self.set(PriceKind::Xattr, near);
        let open = each(|| none(fgetxattr(&sample.file, NAME, &mut value)));
        self.set(PriceKind::OpenXattr, open);
    }

    /// Reads fathom's executable: reading the sample would change its access time.
    fn measure_reads(&mut self, bytes: bool) -> Result<()> {
        let own = openat(CWD, c"/proc/self/exe", Open::empty())?;
        let mut few = [0; 16];
        let read = each(|| pread64(&own, &mut few, 0).map(drop));
        self.set(PriceKind::Read, read);
        self.set(PriceKind::Write, read);
        if bytes {
            let mut many = vec![0; MANY_BYTES];
            let long = each(|| pread64(&own, &mut many, 0).map(drop));
            if let (Ok(short), Ok(long)) = (read, long) {
                self.byte = ((long - short) / MANY_BYTES as f64).max(0.0);
            }
        }
        Ok(())
    }

    fn set(&mut self, sort: PriceKind, ns: Result<f64>) {
        if let Ok(ns) = ns {
            self.each[sort as usize] = ns.max(self.empty);
        }
    }
}

/// A name that is assumed to exist in no directory.
const ABSENT: &CStr = c"no-such-file-in-this-directory";

/// A regular file to measure prices with.
struct SampleFile {
    dir: Fd,
    file: Fd,
    /// The name of the file in its directory; `path` is the absolute path.
    name: CString,
    path: CString,
    /// The number of components of the absolute path beyond the first.
    beyond: u64,
}

impl SampleFile {
    fn open(path: &[u8]) -> Result<SampleFile> {
        let at = path.iter().rposition(|&b| b == b'/').ok_or(Errno::ENOENT)?;
        let (dir, name) = path.split_at(at + 1);
        let name = c_string(name)?;
        let dir = openat(CWD, &c_string(dir)?, Open::DIRECTORY)?;
        if lstatat(&dir, &name, StatxMask::TYPE)?.file_type != FileType::Regular {
            return Err(Errno::EINVAL); // opening a device or FIFO may have side effects
        }
        Ok(SampleFile {
            file: openat(&dir, &name, Open::empty())?,
            dir,
            name,
            path: c_string(path)?,
            beyond: components(path).saturating_sub(1),
        })
    }

    fn stat(&self, name: &CStr) -> Result<()> {
        newfstatat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW).map(drop)
    }
}

/// Turns one of these expected errors into success.
fn expect(errnos: &[Errno], done: Result<()>) -> Result<()> {
    match done {
        Err(errno) if errnos.contains(&errno) => Ok(()),
        other => other,
    }
}

/// The CPU time of fathom, in nanoseconds.
fn now() -> u64 {
    u64::try_from(process_cpu_time().as_nanos()).unwrap_or(u64::MAX)
}

/// The nanoseconds per call: the median of a few batches.
fn each(mut call: impl FnMut() -> Result<()>) -> Result<f64> {
    median(|| {
        let begun = now();
        (0..CALLS).try_for_each(|_| call())?;
        Ok(now().saturating_sub(begun))
    })
}

fn median(mut batch: impl FnMut() -> Result<u64>) -> Result<f64> {
    let mut took = Vec::with_capacity(BATCHES);
    batch()?; // warm the caches
    for _ in 0..BATCHES {
        took.push(batch()?);
    }
    took.sort_unstable();
    Ok(took.get(BATCHES / 2).copied().unwrap_or_default() as f64 / CALLS as f64)
}

fn through_ring(dir: &Fd, name: &CStr) -> Result<f64> {
    let mut ring = Ring::new(URING_BATCH)?;
    ring.statx(dir, name, URING_BATCH)?; // creates the worker threads
    let begun = now_at_rest();
    ring.statx(dir, name, (BATCHES * CALLS) as u32)?;
    Ok(now_at_rest().saturating_sub(begun) as f64 / (BATCHES * CALLS) as f64)
}

/// [`now`] after the io_uring workers sleep, because only then the kernel adds their CPU time.
fn now_at_rest() -> u64 {
    std::thread::sleep(Duration::from_micros(300));
    now()
}

fn open_and_close(dir: &Fd, name: &CStr) -> (Result<f64>, Result<f64>) {
    let mut open = Vec::with_capacity(CALLS);
    let mut closing = Vec::new();
    let opening = median(|| {
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
    (opening, median(|| closing.next().ok_or(Errno::EIO)))
}
