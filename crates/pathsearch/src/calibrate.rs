//! Calibrates the model on a mount: measures the time of each kind of request, and what the client
//! caches. That takes about a hundred requests, for nonexistent names and for files of the command.

use std::ffi::{CStr, CString};
use std::os::fd::AsFd;

use gate::cache::{cachestat, page_size};
use gate::clock::monotonic_raw;
use gate::cpu_time::thread_cpu_time;
use gate::file::read_kernel;
use gate::fs::{
    Advice, AtFlags, CWD, Open, StatxMask, fadvise64, fstat, getdents64, openat, pread64,
    readlinkat, statx,
};
use gate::long::{c_string, open_long};
use gate::{Errno, Fd, Result};

use crate::model::Samples;
use crate::request::{ClientBehavior, Prices, Request};

/// The results of measuring a mount.
pub(crate) struct Calibration {
    /// The median time of each kind of request.
    pub(crate) prices: Prices,
    /// The caching behavior of the client; the default where it could not be measured.
    pub(crate) behavior: ClientBehavior,
    /// The share of a round trip in which the calling thread uses the processor.
    pub(crate) busy_part: f64,
    /// Maximum seconds of a call without a request to the server: if the minimum time of a repeated
    /// call is longer, the call makes a request.
    max_local: f64,
}

/// Number of nonexistent names that are looked up to measure the round trip.
const NAMES: usize = 15;
/// Repetitions of each other measurement, unless the round trip is long.
const REPETITIONS: usize = 7;
const FEW_REPETITIONS: usize = 3;
/// Seconds from which a round trip counts as long.
const LONG_RTT_SECONDS: f64 = 0.01;
/// Maximum seconds of a call without a request on a fast machine. On slower machines, the maximum
/// is `MAX_LOCAL_CALLS` times the simplest call: on emulated processors, the lookup of a cached
/// name takes longer than 6 µs.
const MAX_LOCAL_SECONDS: f64 = 6e-6;
const MAX_LOCAL_CALLS: f64 = 20.0;

/// Measures the file system of `dir`, whose type has the default `behavior`. Fails with `EEXIST` if
/// names exist that nothing has created, which happens only on a file system that generates names.
pub(crate) fn calibrate(
    dir: &[u8],
    behavior: ClientBehavior,
    samples: &Samples,
) -> Result<Calibration> {
    let fd = open_long(dir, Open::PATH | Open::DIRECTORY)?;
    let names: Vec<CString> = (0..NAMES)
        .map(|n| c_string(format!(".fathom-{:x}-{n}", monotonic_raw()).as_bytes()))
        .collect::<Result<_>>()?;
    let look_up =
        |name: &CString| timed(|| statx(&fd, name, AtFlags::SYMLINK_NOFOLLOW, StatxMask::TYPE));
    let mut first = Vec::with_capacity(NAMES);
    let used = thread_cpu_time();
    for name in &names {
        match look_up(name) {
            (Err(Errno::ENOENT), seconds) => first.push(seconds),
            (Err(e), _) => return Err(e),
            (Ok(_), _) => return Err(Errno::EEXIST),
        }
    }
    let used = (thread_cpu_time() - used).as_secs_f64();
    let busy_part = (used / first.iter().sum::<f64>()).clamp(0.0, 1.0);
    let rtt = median(first);
    let mut found = Calibration {
        prices: Prices::uniform(rtt),
        behavior,
        busy_part,
        max_local: max_local(&fd, rtt),
    };
    if rtt <= MAX_LOCAL_SECONDS {
        return Ok(found); // without a server, no call is a request
    }
    found.behavior.keeps_misses =
        least(names.iter().map(|name| look_up(name).1)) <= found.max_local;
    if let Some(bytes) = readahead(&fd) {
        found.behavior.window = bytes;
    }
    // Where nothing can be measured, the behavior stays the default, and the price that of a
    // lookup.
    let repetitions = if rtt > LONG_RTT_SECONDS {
        FEW_REPETITIONS
    } else {
        REPETITIONS
    };
    found.measure_directories(&samples.listed);
    if let Some(link) = &samples.link {
        let _ = found.measure_link(link, repetitions);
    }
    let mut files = samples.files.iter();
    files.find(|file| found.measure_file(file, repetitions).is_ok());
    Ok(found)
}

impl Calibration {
    /// Decides from its times whether a repeated call makes a request. Of each time, the path
    /// lookup took `resolve_seconds`. If the call makes a request, sets the price of this request.
    fn record_if_request(
        &mut self,
        request: Request,
        took: Vec<f64>,
        resolve_seconds: f64,
    ) -> bool {
        let is_request = least(took.iter().copied()) - resolve_seconds > self.max_local;
        if is_request {
            self.prices.set(request, median(took) - resolve_seconds);
        }
        is_request
    }

    /// Lists each directory once, and measures the time. The price is the mean time, since the time
    /// depends on the number of entries.
    fn measure_directories(&mut self, listed: &[Vec<u8>]) {
        let mut buffer = vec![0; 32 << 10];
        let (mut opened, mut read) = (Vec::new(), Vec::new());
        for dir in listed {
            let Ok(path) = c_string(dir) else { continue };
            let resolve_seconds = self.time_to_resolve(&path, FEW_REPETITIONS);
            let (fd, seconds) = timed(|| openat(CWD, &path, Open::DIRECTORY));
            let Ok(fd) = fd else { continue };
            opened.push((seconds - resolve_seconds).max(0.0));
            while let (Ok(n), seconds) = timed(|| getdents64(&fd, &mut buffer)) {
                read.push(seconds);
                if n == 0 {
                    break;
                }
            }
        }
        if opened.is_empty() || read.is_empty() {
            return;
        }
        let makes_requests = least(opened.iter().chain(&read).copied()) > self.max_local;
        if !makes_requests && self.behavior.keeps_lists {
            return; // skip: the command has just listed these directories, so they may be cached
        }
        self.behavior.lists = makes_requests;
        for (request, took) in [(Request::Opendir, opened), (Request::Readdir, read)] {
            let mean = took.iter().sum::<f64>() / took.len() as f64;
            self.prices.set(request, mean);
        }
    }

    fn measure_link(&mut self, link: &[u8], repetitions: usize) -> Result<()> {
        let path = c_string(link)?;
        let resolve_seconds = self.time_to_resolve(&path, repetitions);
        let read = (0..repetitions)
            .map(|_| timed(|| readlinkat(CWD, &path)).1)
            .collect();
        self.behavior.keeps_links =
            !self.record_if_request(Request::Readlink, read, resolve_seconds);
        Ok(())
    }

    /// Measures resolving, opening, closing and reading a file, and fstat(2) after a read.
    fn measure_file(&mut self, file: &[u8], repetitions: usize) -> Result<()> {
        let path = c_string(file)?;
        let fd = openat(CWD, &path, Open::NONBLOCK)?;
        let len = fstat(&fd, StatxMask::SIZE)?.size.min(self.behavior.window);
        fadvise64(&fd, 0, len, Advice::DontNeed)?;
        // The kernel does not drop pages that a process has mapped, such as those of fathom's
        // executable.
        if len == 0 || cachestat(&fd, 0, len).is_ok_and(|cached| cached.pages > 0) {
            return Err(Errno::EBUSY);
        }
        self.measure_opening(&path, &fd, repetitions)?;
        let mut buffer = vec![0; usize::try_from(len).unwrap_or(0)];
        self.measure_reading(&fd, &mut buffer, repetitions)?;
        drop(fd);
        let fd = openat(CWD, &path, Open::NONBLOCK)?;
        self.behavior.keeps_pages = match cachestat(&fd, 0, 1) {
            Ok(cached) => cached.pages > 0,
            Err(_) => {
                !self.behavior.reads
                    || timed(|| pread64(&fd, &mut buffer[..1], 0)).1 < self.max_local
            }
        };
        Ok(())
    }

    /// Measures resolving, opening and closing a file that is already open as `fd`.
    fn measure_opening(&mut self, path: &CStr, fd: &Fd, repetitions: usize) -> Result<()> {
        let resolve_seconds = self.time_to_resolve(path, repetitions);
        self.behavior.keeps_names = resolve_seconds == 0.0;
        let (mut opened, mut closed) = (Vec::new(), Vec::new());
        for _ in 0..repetitions {
            let (opening, seconds) = timed(|| openat(CWD, path, Open::NONBLOCK));
            drop(opening?);
            opened.push(seconds);
            // Closing a duplicate descriptor sends FLUSH but not RELEASE, as the file stays open.
            let duplicate = fd.try_clone()?;
            closed.push(timed(|| drop(duplicate)).1);
        }
        let opens = self.record_if_request(Request::Open, opened, resolve_seconds);
        // The command has opened the file before, so an open without a request may be due to a
        // delegation.
        match self.behavior.delegations {
            true => self.behavior.delegations = !opens,
            false => self.behavior.opens = opens,
        }
        let price = self.prices.get(Request::Open);
        self.prices.set(Request::Create, price);
        self.behavior.flushes = self.record_if_request(Request::Flush, closed, 0.0);
        Ok(())
    }

    /// Measures reading one page and a whole window, whose difference is the price per byte, and
    /// fstat(2) after a read.
    fn measure_reading(&mut self, fd: &Fd, buffer: &mut [u8], repetitions: usize) -> Result<()> {
        let (len, page) = (buffer.len() as u64, page_size() as u64);
        // The kernel does not drop mapped pages, and pages still being read ahead. Reading such
        // pages makes no request, so reads on this file system would appear to need no request.
        let drop_cached = || {
            fadvise64(fd, 0, len, Advice::DontNeed)?;
            match cachestat(fd, 0, len) {
                Ok(cached) if cached.pages > 0 => Err(Errno::EBUSY),
                Ok(_) => Ok(true),
                Err(_) => Ok(false), // cachestat(2) does not exist before Linux 6.5
            }
        };
        let mut is_known = true;
        fadvise64(fd, 0, 0, Advice::Random)?; // no readahead
        let (mut small, mut large, mut seen) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..repetitions {
            is_known &= drop_cached()?;
            small.push(timed(|| pread64(fd, &mut buffer[..1], 0)).1);
            seen.push(timed(|| fstat(fd, StatxMask::BASIC_STATS)).1);
            is_known &= drop_cached()?;
            large.push(timed(|| pread64(fd, buffer, 0)).1);
        }
        self.record_reads((small, page), (large, len), is_known)?;
        self.behavior.stats_after_read = self.record_if_request(Request::Getattr, seen, 0.0);
        Ok(())
    }

    /// Sets the prices of a read and of its bytes, from the seconds of reads of two sizes;
    /// `is_known` if the pages are known to have been dropped.
    fn record_reads(
        &mut self,
        (small, page): (Vec<f64>, u64),
        (large, len): (Vec<f64>, u64),
        is_known: bool,
    ) -> Result<()> {
        let least = least(small.iter().chain(&large).copied());
        if !is_known && least <= self.max_local {
            return Err(Errno::EBUSY); // the pages may have been cached
        }
        self.behavior.reads = self.record_if_request(Request::Read, small, 0.0);
        if self.behavior.reads && len > page {
            let small = self.prices.get(Request::Read);
            self.prices.byte = (median(large) - small).max(0.0) / (len - page) as f64;
            let of_page = self.prices.byte * page as f64;
            self.prices.set(Request::Read, (small - of_page).max(0.0));
        }
        Ok(())
    }

    /// Seconds of resolving a name again; 0 if the client caches names.
    fn time_to_resolve(&self, path: &CStr, repetitions: usize) -> f64 {
        let at = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
        let took: Vec<f64> = (0..repetitions)
            .map(|_| timed(|| statx(CWD, path, at, StatxMask::TYPE)).1)
            .collect();
        if least(took.iter().copied()) <= self.max_local {
            0.0
        } else {
            median(took)
        }
    }
}

/// Maximum seconds of a call without a request on this machine: measured by fstat(2), but limited
/// to much less than a round trip, because fstat(2) may itself be a request.
fn max_local(fd: impl AsFd, rtt: f64) -> f64 {
    let at = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let call = least((0..REPETITIONS).map(|_| timed(|| statx(&fd, c"", at, StatxMask::TYPE)).1));
    MAX_LOCAL_SECONDS.max((MAX_LOCAL_CALLS * call).min(rtt / 4.0))
}

/// The readahead of a file system, in bytes.
fn readahead(fd: impl AsFd) -> Option<u64> {
    let dev = fstat(fd, StatxMask::empty()).ok()?.dev;
    let name = CString::new(format!("/sys/class/bdi/{dev}/read_ahead_kb")).ok()?;
    let text = read_kernel(&name).ok()?;
    let kib: u64 = std::str::from_utf8(&text).ok()?.trim().parse().ok()?;
    (4..=1 << 20).contains(&kib).then_some(kib << 10)
}

/// Times a call; returns its result and seconds.
fn timed<T>(call: impl FnOnce() -> T) -> (T, f64) {
    let before = monotonic_raw();
    let result = call();
    (result, monotonic_raw().saturating_sub(before) as f64 / 1e9)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The round trip in seconds, before other requests are measured.
    const RTT: f64 = 5e-3;

    fn calibration() -> Calibration {
        Calibration {
            prices: Prices::uniform(RTT),
            behavior: ClientBehavior::OTHER,
            busy_part: 0.0,
            max_local: MAX_LOCAL_SECONDS,
        }
    }

    #[test]
    fn a_call_that_is_local_once_is_no_request() {
        let mut found = calibration();
        // Because of preemption, most of the times are long.
        let took = vec![9e-3, 2e-6, 9e-3];
        assert!(!found.record_if_request(Request::Open, took, 0.0));
        assert_eq!(found.prices, Prices::uniform(RTT));
    }

    #[test]
    fn a_request_costs_its_median_without_the_lookup_of_its_name() {
        let mut found = calibration();
        assert!(found.record_if_request(Request::Open, vec![8e-3, 1e-3, 2e-3], 0.0));
        assert_eq!(found.prices.get(Request::Open), 2e-3);
        assert_eq!(found.prices.get(Request::Lookup), RTT);
        assert!(found.record_if_request(Request::Open, vec![8e-3, 6e-3, 7e-3], 5e-3));
        assert!((found.prices.get(Request::Open) - 2e-3).abs() < 1e-9);
        // If the time of the lookup is subtracted, nothing remains for the open.
        assert!(!found.record_if_request(Request::Open, vec![5e-3; 3], 5e-3));
    }

    #[test]
    fn reads_have_a_price_and_another_for_each_byte() {
        let mut found = calibration();
        let record = |found: &mut Calibration, small, large, len, is_known| {
            found.record_reads((vec![small; 3], 4096), (vec![large; 3], len), is_known)
        };
        assert_eq!(record(&mut found, 2e-3, 3e-3, 5 << 12, true), Ok(()));
        assert!(found.behavior.reads);
        assert!((found.prices.byte * 4096.0 - 0.25e-3).abs() < 1e-9);
        assert!((found.prices.get(Request::Read) - 1.75e-3).abs() < 1e-9);
        // A small file gives no larger read to compare with.
        assert_eq!(record(&mut found, 2e-3, 2e-3, 19, false), Ok(()));
        assert_eq!(found.prices.get(Request::Read), 2e-3);
        // A read without a request proves nothing if its page may have been cached.
        let unknown = record(&mut found, 2e-6, 3e-3, 5 << 12, false);
        assert_eq!((unknown, found.behavior.reads), (Err(Errno::EBUSY), true));
        assert_eq!(record(&mut found, 2e-6, 3e-6, 5 << 12, true), Ok(()));
        assert!(!found.behavior.reads);
    }
}
