//! The timed part: looks each file's name up in one directory after another until it is found.
//!
//! Everything is prepared before: the paths of each thread, and open directories where the method
//! needs them. Between the two clock readings there are only the lookups, incrementing the paths
//! for the next file, and, every few thousand lookups, taking the next chunk of files (the threads
//! share the files in chunks) and checking for a signal.
//!
//! ```text
//! barrier of the ranks ─┬─ thread 0: wait for all threads ── chunks ── ... ─┬─ barrier of the ranks
//!                       └─ thread 1: wait for all threads ── chunks ── ... ─┘
//!                                  first start of any ◄── elapsed ──► last end of any
//! ```

use std::os::fd::AsFd;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base::Warning;
use base::path::join;
use base::pool::together;
use gate::clock::monotonic_raw;
use gate::fs::{CWD, Open, openat};
use gate::interrupt::pending_signal;
use gate::long::open_long;
use gate::{Errno, Fd, lookup};
use serde::{Deserialize, Serialize};

use crate::cache::{DropCaches, drop_caches};
use crate::error::{Error, Operation, Reason};
use crate::paths::Paths;
use crate::report::{Event, Latency, RankPass, SearchPass, SearchReport};
use crate::shape::{Shape, c_name};
use crate::warning::WarningKind;
use team::{Team, agree, share};

base::named! {
    /// The method of looking a name up.
    #[derive(Default)]
    Method {
        /// stat(3), as LLNL's program does.
        #[default]
        Stat "stat",
        /// statx(2).
        Statx "statx",
        /// access(3), as shells do.
        Access "access",
        /// open(2) and, if the file is found, close(2), as the dynamic linker does.
        Open "open",
        /// stat(3) relative to an open directory: the kernel does not resolve the directory's path
        /// each time.
        Dirfd "dirfd",
    }
}

/// Options of the search.
#[derive(Clone, Debug)]
pub struct SearchOptions {
    /// Look up names that exist in no directory.
    pub absent: bool,
    /// Search for one file before the passes, to warm the caches.
    pub prime: bool,
    /// The method of looking names up.
    pub method: Method,
    /// The number of threads that share the files of each pass; at least 1.
    pub threads: usize,
    /// The number of passes, each of which searches for all files.
    pub passes: u32,
    /// Measure the latency of each lookup.
    pub latency: bool,
    /// Caches to drop before the first search.
    pub drop_caches: Option<DropCaches>,
}

/// Searches the tree.
pub(crate) fn search(
    root: &[u8],
    shape: Shape,
    options: &SearchOptions,
    team: &dyn Team,
    on_event: &mut dyn FnMut(Event<'_>),
    warnings: &mut Vec<Warning>,
) -> Result<SearchReport, Error> {
    let prepared = agree(team, PreparedTree::new(root, shape, options))?;
    let dropped = options.drop_caches.as_ref();
    let dropped = dropped.map(|what| drop_caches(what, root, warnings));
    let mut errno = None;
    let mut is_first = true;
    let mut search = |files: u64| {
        let pass = prepared.pass(files, team, &mut errno)?;
        if std::mem::take(&mut is_first) {
            // Look for missing directories after the first search, because opening directories
            // before it would load them into the caches.
            warnings.extend(agree(team, prepared.find_missing(team.rank()))?);
        }
        on_event(Event::Searched(&pass));
        Ok(pass)
    };
    let primed = options.prime.then(|| search(1)).transpose()?;
    let passes = (0..options.passes)
        .map(|_| search(shape.files))
        .collect::<Result<Vec<_>, Error>>()?;
    let lookups: u64 = passes.iter().map(|pass| pass.failed).sum();
    if lookups > 0 && errno.is_some() {
        warnings.push(Warning {
            errno,
            ..Warning::about(root, WarningKind::LookupsFailed { lookups })
        });
    }
    Ok(SearchReport {
        primed,
        passes,
        dropped,
    })
}

/// A tree that is prepared for searching.
struct PreparedTree<'a> {
    root: &'a [u8],
    shape: Shape,
    options: &'a SearchOptions,
    /// The index of the directory that contains the files; `None` if none does.
    target: Option<usize>,
    /// The open directories, for lookups relative to them.
    dirs: Vec<Fd>,
}

/// State shared by the threads of a pass.
struct PassState {
    files: u64,
    target: Option<usize>,
    /// The file may be missing, because a search that warms the caches may run in a tree without
    /// files.
    may_miss: bool,
    /// The number of directories: the lookups per file that is not found.
    length: u64,
    /// The number of files in a chunk.
    chunk: u64,
    /// The index of the first file that no thread has taken yet.
    next: AtomicU64,
    /// A file was in an unexpected place: all threads stop.
    stop: AtomicBool,
}

/// The results of one thread in a pass.
struct ThreadPass {
    start: Instant,
    end: Instant,
    found: u64,
    lookups: u64,
    failed: u64,
    errno: Option<Errno>,
    /// A file that was not in the expected directory, and the directory where it was found, if any.
    misplaced: Option<(u64, Option<usize>)>,
    latency: Option<Latency>,
}

/// The results of one rank in a pass, in the form that ranks exchange.
#[derive(Serialize, Deserialize)]
struct RankCounts {
    found: u64,
    lookups: u64,
    failed: u64,
    errno: Option<i32>,
    elapsed: Duration,
    latency: Option<Latency>,
}

/// The timed loop. `look_up` looks up one path in the directory with the given index.
#[inline]
fn run_loop(
    shared: &PassState,
    paths: &mut Paths,
    mut look_up: impl FnMut(usize, &[u8]) -> gate::Result<()>,
) -> ThreadPass {
    let (mut found, mut lookups, mut failed) = (0, 0, 0);
    let (mut errno, mut misplaced) = (None, None);
    let start = Instant::now();
    'files: while !shared.stop.load(Ordering::Relaxed) && pending_signal().is_none() {
        let from = shared.next.fetch_add(shared.chunk, Ordering::Relaxed);
        if from >= shared.files {
            break;
        }
        paths.seek(from);
        for file in from..shared.files.min(from + shared.chunk) {
            let mut found_in = None;
            for (directory, path) in paths.iter().enumerate() {
                match look_up(directory, path) {
                    Ok(()) => {
                        found_in = Some(directory);
                        break;
                    }
                    Err(Errno::ENOENT | Errno::ENOTDIR) => {}
                    Err(e) => {
                        failed += 1;
                        errno.get_or_insert(e);
                    }
                }
            }
            lookups += found_in.map_or(shared.length, |directory| directory as u64 + 1);
            if found_in != shared.target && !(shared.may_miss && found_in.is_none()) {
                misplaced = Some((file, found_in));
                shared.stop.store(true, Ordering::Relaxed);
                break 'files;
            }
            found += u64::from(found_in.is_some());
            paths.advance();
        }
    }
    let end = Instant::now();
    ThreadPass {
        start,
        end,
        found,
        lookups,
        failed,
        errno,
        misplaced,
        latency: None,
    }
}

impl<'a> PreparedTree<'a> {
    fn new(root: &'a [u8], shape: Shape, options: &'a SearchOptions) -> Result<Self, Error> {
        /// Maximum bytes of memory for paths.
        const MOST: u64 = 1 << 30;
        /// Bytes of a path beyond the name of ROOT: allocation overhead and element of the vector.
        const OVERHEAD: u64 = 96;
        let memory = shape
            .length
            .saturating_mul(root.len() as u64 + OVERHEAD)
            .saturating_mul(options.threads as u64);
        if memory > MOST {
            let reason = Reason::PathsTooLarge(shape.length);
            return Err(Error::new(Operation::Search, root, reason));
        }
        // The paths fit into memory, so the length fits into usize.
        let last = (shape.length as usize).checked_sub(1);
        let target = last.filter(|_| !options.absent);
        let dirs = match options.method {
            Method::Dirfd => open_all(root, shape)?,
            _ => Vec::new(),
        };
        Ok(PreparedTree {
            root,
            shape,
            options,
            target,
            dirs,
        })
    }

    /// The prefix of the file names.
    fn stem(&self) -> Vec<u8> {
        match self.target {
            Some(directory) => format!("{directory}.").into_bytes(),
            None => b"-1.".to_vec(), // the name in LLNL's program, which exists nowhere
        }
    }

    fn paths(&self, files: u64) -> Result<Paths, Error> {
        let prefix = |directory: usize| match self.options.method {
            Method::Dirfd => Vec::new(),
            _ => [self.root, b"/", directory.to_string().as_bytes(), b"/"].concat(),
        };
        // The paths fit into memory, so the length fits into usize.
        let length = self.shape.length as usize;
        Paths::new((0..length).map(prefix), &self.stem(), files)
            .map_err(|_| Error::new(Operation::Search, self.root, Reason::OutOfMemory))
    }

    /// Runs one pass, on all threads of all ranks.
    fn pass(
        &self,
        files: u64,
        team: &dyn Team,
        errno: &mut Option<Errno>,
    ) -> Result<SearchPass, Error> {
        /// Approximate number of lookups in a chunk: they take a few milliseconds, so the time
        /// between chunks is negligible.
        const IN_A_ROW: u64 = 4096;
        let threads = self.options.threads.max(1);
        let paths = (0..threads).map(|_| self.paths(files)).collect();
        let mut paths: Vec<Paths> = agree(team, paths)?;
        let fair = files.div_ceil(threads as u64 * 4);
        let shared = PassState {
            files,
            target: self.target,
            may_miss: self.shape.files == 0,
            length: self.shape.length,
            chunk: (IN_A_ROW / self.shape.length.max(1)).min(fair).max(1),
            next: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        };
        team.barrier();
        let parts = match &mut paths[..] {
            [paths] => Ok(vec![self.run_part(&shared, paths)]),
            all => self.run_threads(&shared, all),
        };
        team.barrier();
        let parts = agree(team, parts.and_then(|parts| self.check(parts)))?;
        Ok(add_up(team, &parts, files, errno))
    }

    /// Runs a part of a pass on each element of `all`, by threads that start together.
    fn run_threads(&self, shared: &PassState, all: &mut [Paths]) -> Result<Vec<ThreadPass>, Error> {
        let barrier = Barrier::new(all.len());
        let parts = together(all, |paths| {
            barrier.wait();
            self.run_part(shared, paths)
        });
        parts.map_err(|e| {
            // The standard library starts threads by pthread_create(3), which fails with EAGAIN.
            let errno = e.raw_os_error().map_or(Errno::EAGAIN, Errno);
            Error::new(Operation::StartThread, self.root, errno)
        })
    }

    /// Runs one thread's part of a pass, with the chosen method.
    fn run_part(&self, shared: &PassState, paths: &mut Paths) -> ThreadPass {
        match self.options.method {
            Method::Stat => self.run_timed(shared, paths, |_, path| lookup::newfstatat(CWD, path)),
            Method::Statx => self.run_timed(shared, paths, |_, path| lookup::statx(CWD, path)),
            Method::Access => self.run_timed(shared, paths, |_, path| lookup::faccessat(CWD, path)),
            Method::Open => {
                self.run_timed(shared, paths, |_, path| lookup::openat(CWD, path).map(drop))
            }
            Method::Dirfd => self.run_timed(shared, paths, |directory, name| {
                lookup::newfstatat(self.dirs[directory].as_fd(), name)
            }),
        }
    }

    /// Runs the timed loop, and measures the latency of each lookup if requested.
    #[inline]
    fn run_timed(
        &self,
        shared: &PassState,
        paths: &mut Paths,
        mut look_up: impl FnMut(usize, &[u8]) -> gate::Result<()>,
    ) -> ThreadPass {
        if !self.options.latency {
            return run_loop(shared, paths, look_up);
        }
        let mut latency = Latency::default();
        let part = run_loop(shared, paths, |directory, path| {
            let before = monotonic_raw();
            let result = look_up(directory, path);
            let elapsed = monotonic_raw().saturating_sub(before);
            if result.is_ok() {
                latency.hits.record(elapsed)
            } else {
                latency.misses.record(elapsed)
            }
            result
        });
        ThreadPass {
            latency: Some(latency),
            ..part
        }
    }

    /// Returns the results if every file was found in the expected place.
    fn check(&self, parts: Vec<ThreadPass>) -> Result<Vec<ThreadPass>, Error> {
        if pending_signal().is_some() {
            let reason = Reason::Interrupted;
            return Err(Error::new(Operation::Search, self.root, reason));
        }
        match parts.iter().find_map(|part| part.misplaced) {
            Some((file, found_in)) => Err(self.explain(file, found_in)),
            None => Ok(parts),
        }
    }

    /// The error for a file that was not found in the expected place.
    fn explain(&self, file: u64, found_in: Option<usize>) -> Error {
        let path = |directory: usize| {
            let name = [&self.stem()[..], file.to_string().as_bytes()].concat();
            join(&join(self.root, directory.to_string().as_bytes()), &name)
        };
        if let Some(directory) = found_in {
            return Error::new(Operation::SearchPast, &path(directory), Reason::Misplaced);
        }
        if let Err(e) = open_long(self.root, Open::PATH | Open::DIRECTORY) {
            return Error::new(Operation::Search, self.root, e);
        }
        let path = path(self.target.unwrap_or_default());
        let again = lookup::newfstatat(CWD, &[&path[..], b"\0"].concat());
        let reason = again.map_or_else(Reason::Errno, |()| Reason::Appeared);
        Error::new(Operation::Find, &path, reason)
    }

    /// Counts the missing directories on rank 0: a search for absent names does not notice them.
    fn find_missing(&self, rank: usize) -> Result<Option<Warning>, Error> {
        if rank != 0 {
            return Ok(None);
        }
        let flags = Open::PATH | Open::DIRECTORY;
        let root =
            open_long(self.root, flags).map_err(|e| Error::new(Operation::Search, self.root, e))?;
        let is_missing = |directory: &u64| openat(&root, &c_name(*directory), flags).is_err();
        let length = self.shape.length;
        let missing = (0..length).filter(is_missing).count() as u64;
        let kind = WarningKind::DirectoriesMissing { missing, length };
        Ok((missing > 0).then(|| Warning::about(self.root, kind)))
    }
}

fn open_all(root: &[u8], shape: Shape) -> Result<Vec<Fd>, Error> {
    gate::process::raise_open_files();
    let flags = Open::PATH | Open::DIRECTORY;
    let top = open_long(root, flags).map_err(|e| Error::new(Operation::Search, root, e))?;
    let open = |directory: u64| {
        let name = c_name(directory);
        let error = |e| Error::new(Operation::OpenAll, &join(root, name.to_bytes()), e);
        openat(&top, &name, flags).map_err(error)
    };
    (0..shape.length).map(open).collect()
}

/// Sums up the results of all threads and ranks in one pass.
fn add_up(
    team: &dyn Team,
    parts: &[ThreadPass],
    files: u64,
    errno: &mut Option<Errno>,
) -> SearchPass {
    let sum = |count: fn(&ThreadPass) -> u64| parts.iter().map(count).sum::<u64>();
    let start = parts.iter().map(|part| part.start).min();
    let end = parts.iter().map(|part| part.end).max();
    let elapsed = end.zip(start).map(|(end, start)| end - start);
    let latency = parts.iter().filter_map(|part| part.latency.clone());
    let mine = RankCounts {
        found: sum(|part| part.found),
        lookups: sum(|part| part.lookups),
        failed: sum(|part| part.failed),
        errno: parts.iter().find_map(|part| Some(part.errno?.0)),
        elapsed: elapsed.unwrap_or_default(),
        latency: latency.reduce(Latency::merged),
    };

    let mut pass = SearchPass::default();
    for rank in share(team, mine) {
        pass.files += files;
        pass.found += rank.found;
        pass.lookups += rank.lookups;
        pass.failed += rank.failed;
        pass.elapsed = pass.elapsed.max(rank.elapsed);
        pass.ranks.push(RankPass {
            found: rank.found,
            lookups: rank.lookups,
            elapsed: rank.elapsed,
        });
        *errno = errno.or(rank.errno.map(Errno));
        let latency = pass.latency.into_iter().chain(rank.latency);
        pass.latency = latency.reduce(Latency::merged);
    }
    pass
}
