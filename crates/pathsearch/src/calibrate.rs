//! What a mount is like: how long each kind of request takes there, and what is kept. Some hundred
//! requests, for names that are not there and for a file and a link that the command has used.

use std::ffi::{CStr, CString};
use std::os::fd::AsFd;

use gate::cache::cachestat;
use gate::clock::monotonic_raw;
use gate::file::read_kernel;
use gate::fs::{
    Advice, At, CWD, Open, Want, fadvise64, getdents64, openat, pread64, readlinkat, statx,
};
use gate::long::{c_string, open_long};
use gate::{Errno, Result};

use crate::model::{Manner, Prices, Request};

/// What was found out.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// What requests take: the medians.
    pub prices: Prices,
    /// What is kept, as far as it could be seen.
    pub manner: Manner,
}

/// Names that are looked up.
const NAMES: usize = 15;
/// How often anything else is asked for; and where that takes long.
const TURNS: usize = 7;
const FEW: usize = 3;
/// A round trip of so many seconds is long.
const LONG: f64 = 0.01;
/// As much of the file is read at least, and forgotten before.
const PAGE: u64 = 4096;
/// Seconds. For what takes less no server was asked; what takes more each time, also when nothing
/// else is going on, was not done from memory.
const LOCAL: f64 = 6e-6;

/// What a command has used on a file system: something to ask it with.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Examples {
    /// Files, of which the first is read that can be.
    pub files: Vec<Vec<u8>>,
    /// A link.
    pub link: Option<Vec<u8>>,
    /// Directories that it has listed.
    pub listed: Vec<Vec<u8>>,
}

/// Asks the file system that `dir` is on.
///
/// # Errors
/// Those of opening the directory; `EEXIST` if names that nobody has are there, which only a file
/// system does that makes them up.
pub fn calibrate(dir: &[u8], examples: &Examples) -> Result<Calibration> {
    let fd = open_long(dir, Open::PATH | Open::DIRECTORY)?;
    let names: Vec<CString> = (0..NAMES)
        .map(|n| c_string(format!(".fathom-{:x}-{n}", monotonic_raw()).as_bytes()))
        .collect::<Result<_>>()?;
    let look = |name: &CString| timed(|| statx(&fd, name, At::SYMLINK_NOFOLLOW, Want::TYPE));
    let mut first = Vec::with_capacity(NAMES);
    for name in &names {
        match look(name) {
            (Err(Errno::ENOENT), seconds) => first.push(seconds),
            (Err(e), _) => return Err(e),
            (Ok(_), _) => return Err(Errno::EEXIST),
        }
    }
    let rtt = median(first);
    let mut found = Calibration {
        prices: Prices::alike(rtt),
        manner: Manner::default(),
    };
    if rtt <= LOCAL {
        return Ok(found); // no server: nothing else would be a request either
    }
    found.manner.keeps_misses = least(names.iter().map(|name| look(name).1)) <= LOCAL;
    if let Some(bytes) = window(&fd) {
        found.manner.window = bytes;
    }
    // What cannot be seen is taken to be as it is elsewhere, and to take as long as a look-up.
    let turns = if rtt > LONG { FEW } else { TURNS };
    found.ask_directories(&examples.listed);
    if let Some(link) = &examples.link {
        let _ = found.ask_link(link, turns);
    }
    let _ = examples
        .files
        .iter()
        .any(|file| found.ask_file(file, turns).is_ok());
    Ok(found)
}

impl Calibration {
    /// Whether what took so long each time was a request, beside the `named` seconds that it took
    /// to come to it by its name; if so, what such a one takes is known.
    fn is_request(&mut self, request: Request, took: Vec<f64>, named: f64) -> bool {
        let is = least(took.iter().copied()) - named > LOCAL;
        if is {
            self.prices.set(request, median(took) - named);
        }
        is
    }

    /// What it costs to list a directory depends on what is in it: so each is listed once, and the
    /// mean is taken.
    fn ask_directories(&mut self, listed: &[Vec<u8>]) {
        let mut buffer = vec![0; 32 << 10];
        let (mut opened, mut read) = (Vec::new(), Vec::new());
        for dir in listed {
            let Ok(path) = c_string(dir) else { continue };
            let named = named(&path, 1);
            let (fd, seconds) = timed(|| openat(CWD, &path, Open::DIRECTORY));
            let Ok(fd) = fd else { continue };
            opened.push((seconds - named).max(0.0));
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
        self.manner.lists = least(opened.iter().chain(&read).copied()) > LOCAL;
        for (request, took) in [(Request::Opendir, opened), (Request::Readdir, read)] {
            self.prices
                .set(request, took.iter().sum::<f64>() / took.len() as f64);
        }
    }

    fn ask_link(&mut self, link: &[u8], turns: usize) -> Result<()> {
        let path = c_string(link)?;
        let named = named(&path, turns);
        let read = (0..turns)
            .map(|_| timed(|| readlinkat(CWD, &path)).1)
            .collect();
        self.manner.keeps_links = !self.is_request(Request::Readlink, read, named);
        Ok(())
    }

    /// What it costs to come to a file again by its name, to open it, to read it, to look at it
    /// then, and to close it.
    fn ask_file(&mut self, file: &[u8], turns: usize) -> Result<()> {
        let path = c_string(file)?;
        let open = || openat(CWD, &path, Open::NONBLOCK);
        let fd = open()?;
        let len = statx(&fd, c"", At::EMPTY_PATH, Want::SIZE)?
            .size
            .min(self.manner.window);
        let forget = |len: u64| fadvise64(&fd, 0, len, Advice::DontNeed);
        forget(len)?;
        // Of what a process has mapped, this one perhaps, nothing is forgotten.
        if len == 0 || cachestat(&fd, 0, len).is_ok_and(|cached| cached.pages > 0) {
            return Err(Errno::EBUSY);
        }
        let named = named(&path, turns);
        self.manner.keeps_names = named == 0.0;
        let (mut opened, mut closed) = (Vec::new(), Vec::new());
        for _ in 0..turns {
            let (opening, seconds) = timed(open);
            drop(opening?);
            opened.push(seconds);
            // Of a file that stays open nothing else is told to the server.
            let again = fd.again()?;
            closed.push(timed(|| drop(again)).1);
        }
        self.manner.opens = self.is_request(Request::Open, opened, named);
        self.prices
            .set(Request::Create, self.prices.of(Request::Open));
        self.manner.flushes = self.is_request(Request::Flush, closed, 0.0);

        fadvise64(&fd, 0, 0, Advice::Random)?; // no more is read than is asked for
        let mut buffer = vec![0; usize::try_from(len).unwrap_or(0)];
        let (mut small, mut large, mut seen) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..turns {
            forget(len)?;
            small.push(timed(|| pread64(&fd, &mut buffer[..1], 0)).1);
            seen.push(timed(|| statx(&fd, c"", At::EMPTY_PATH, Want::BASIC_STATS)).1);
            forget(len)?;
            large.push(timed(|| pread64(&fd, &mut buffer, 0)).1);
        }
        let large = median(large);
        self.manner.reads = self.is_request(Request::Read, small, 0.0);
        let small = self.prices.of(Request::Read);
        if self.manner.reads && len > PAGE {
            self.prices.byte = (large - small).max(0.0) / (len - PAGE) as f64;
            self.prices.set(
                Request::Read,
                (small - self.prices.byte * PAGE as f64).max(0.0),
            );
        }
        self.manner.stats_after_read = self.is_request(Request::Getattr, seen, 0.0);
        drop(fd);
        let fd = open()?;
        match cachestat(&fd, 0, 1) {
            Ok(cached) => self.manner.keeps_pages = cached.pages > 0,
            Err(_) => {
                self.manner.keeps_pages =
                    !self.manner.reads || timed(|| pread64(&fd, &mut buffer[..1], 0)).1 < LOCAL;
            }
        }
        Ok(())
    }
}

/// Seconds that it takes to come to what has a name, once more; none where that is known.
fn named(path: &CStr, turns: usize) -> f64 {
    let at = At::SYMLINK_NOFOLLOW | At::STATX_DONT_SYNC;
    let took: Vec<f64> = (0..turns)
        .map(|_| timed(|| statx(CWD, path, at, Want::TYPE)).1)
        .collect();
    if least(took.iter().copied()) <= LOCAL {
        0.0
    } else {
        median(took)
    }
}

/// The readahead of a file system, in bytes.
fn window(fd: impl AsFd) -> Option<u64> {
    let (major, minor) = statx(fd, c"", At::EMPTY_PATH, Want::empty()).ok()?.dev;
    let name = CString::new(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb")).ok()?;
    let text = read_kernel(&name).ok()?;
    let kib: u64 = std::str::from_utf8(&text).ok()?.trim().parse().ok()?;
    (4..=1 << 20).contains(&kib).then_some(kib << 10)
}

fn timed<T>(ask: impl FnOnce() -> T) -> (T, f64) {
    let before = monotonic_raw();
    let answer = ask();
    (answer, monotonic_raw().saturating_sub(before) as f64 / 1e9)
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or_default()
}

fn least(of: impl IntoIterator<Item = f64>) -> f64 {
    of.into_iter().fold(f64::INFINITY, f64::min)
}
