//! What a mount is like: how long a request takes there, and what is kept. Some forty requests, for names that are not there and
//! for one file and one link that the command has used.

use std::ffi::CString;
use std::os::fd::AsFd;

use gate::cache::cachestat;
use gate::clock::monotonic_raw;
use gate::file::read_kernel;
use gate::fs::{Advice, At, CWD, Open, Want, fadvise64, openat, pread64, readlinkat, statx};
use gate::long::{c_string, open_long};
use gate::{Errno, Result};

use super::model::Manner;

/// What was found out.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// Seconds for one look-up of a name that is in no cache: the median.
    pub rtt: f64,
    /// What is kept, as far as it could be seen.
    pub manner: Manner,
}

/// Names that are looked up.
const NAMES: usize = 15;
/// As much of the file is read, and forgotten before.
const PAGE: u64 = 4096;

/// Asks the file system that `dir` is on.
///
/// # Errors
/// Those of opening the directory; `EEXIST` if names that nobody has are there, which only a file system does that makes them up.
pub fn calibrate(dir: &[u8], file: Option<&[u8]>, link: Option<&[u8]>) -> Result<Calibration> {
    let fd = open_long(dir, Open::PATH | Open::DIRECTORY)?;
    let names: Vec<CString> =
        (0..NAMES).map(|n| c_string(format!(".fathom-{:x}-{n}", monotonic_raw()).as_bytes())).collect::<Result<_>>()?;
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
    let again = median(names.iter().map(|name| look(name).1).collect());
    let half = rtt / 2.0;
    let mut manner = Manner { keeps_misses: again < half, ..Manner::default() };
    let opened = (0..3).map(|_| timed(|| openat(&fd, c".", Open::DIRECTORY)).1);
    manner.lists = median(opened.collect()) > half;
    if let Some(bytes) = window(&fd) {
        manner.window = bytes;
    }
    if let Some(link) = link {
        let reads: Vec<f64> =
            (0..3).map(|_| timed(|| c_string(link).and_then(|link| readlinkat(CWD, &link))).1).collect();
        manner.keeps_links = median(reads) < half;
    }
    if let Some(file) = file {
        // What cannot be seen is taken to be as it is elsewhere.
        let _ = ask_file(file, half, &mut manner);
    }
    Ok(Calibration { rtt, manner })
}

/// What it costs to open a file again, to read it, and to look at it then.
fn ask_file(file: &[u8], half: f64, manner: &mut Manner) -> Result<()> {
    let path = c_string(file)?;
    let open = || openat(CWD, &path, Open::NONBLOCK);
    drop(open()?);
    let mut opened = Vec::new();
    for _ in 0..3 {
        let (fd, seconds) = timed(open);
        drop(fd?);
        opened.push(seconds);
    }
    manner.opens = median(opened) > half;
    let fd = open()?;
    let mut byte = [0];
    let mut read = Vec::new();
    let mut seen = Vec::new();
    for _ in 0..3 {
        fadvise64(&fd, 0, PAGE, Advice::DontNeed)?;
        read.push(timed(|| pread64(&fd, &mut byte, 0)).1);
        seen.push(timed(|| statx(&fd, c"", At::EMPTY_PATH, Want::BASIC_STATS)).1);
    }
    manner.reads = median(read) > half;
    manner.stats_after_read = median(seen) > half;
    drop(fd);
    let fd = open()?;
    match cachestat(&fd, 0, 1) {
        Ok(cached) => manner.keeps_pages = cached.pages > 0,
        Err(_) => manner.keeps_pages = !manner.reads || timed(|| pread64(&fd, &mut byte, 0)).1 < half,
    }
    Ok(())
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
