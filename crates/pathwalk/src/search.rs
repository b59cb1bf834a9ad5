//! The timed part: a name is looked up in one directory after another until it is found, for each
//! file in turn.
//!
//! Everything is made ready before: the paths of each thread, open directories where they are
//! wanted. Between the two looks at the clock nothing is left but the look-ups, counting up the
//! paths for the next file, and, every few thousand look-ups, taking a further piece of the files
//! (threads share them piece by piece) and asking whether to stop.
//!
//! ```text
//! barrier of the ranks ─┬─ thread 0: wait for all threads ── pieces ── ... ─┬─ barrier of the ranks
//!                       └─ thread 1: wait for all threads ── pieces ── ... ─┘
//!                                    first start of any ◄── elapsed ──► last end of any
//! ```

use std::os::fd::AsFd;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use gate::clock::monotonic_raw;
use gate::fs::{CWD, Open, openat};
use gate::interrupt::asked;
use gate::long::{c_string, open_long};
use gate::sync::RwLock;
use gate::{Errno, Fd, lookup};
use mounts::Warning;
use mounts::path::join;

use crate::cold::{Cold, Forgot, forget};
use crate::paths::Paths;
use crate::team::{agree, share_words};
use crate::tree::name_of;
use crate::{Event, Failure, Histogram, Shape, Team};

/// How a name is looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Method {
    /// stat(3), as LLNL's program does.
    #[default]
    Stat,
    /// statx(2).
    Statx,
    /// access(3), as shells do.
    Access,
    /// open(2) and, for what is found, close(2), as the dynamic linker does.
    Open,
    /// stat(3) from an open directory: the directory's own path is not looked up each time.
    Dirfd,
}

/// How to search.
#[derive(Clone, Debug)]
pub struct Test {
    /// Look for names that are in no directory.
    pub fail: bool,
    /// Look for one file before the timed search.
    pub prime: bool,
    /// How names are looked up.
    pub method: Method,
    /// Threads that share the files of each search; at least 1.
    pub threads: usize,
    /// How often all files are searched.
    pub passes: u32,
    /// Time each look-up.
    pub latency: bool,
    /// Have the kernel forget the tree before the first search.
    pub cold: Option<Cold>,
}

/// What searching was.
#[derive(Clone, Debug)]
pub struct Tested {
    /// The search for one file that primes the cache.
    pub primed: Option<Pass>,
    /// The searches, in turn.
    pub passes: Vec<Pass>,
    /// What was forgotten before the first of them.
    pub forgot: Option<Forgot>,
}

/// One search for all files, by all threads and ranks.
#[derive(Clone, Debug)]
pub struct Pass {
    /// Files that were looked for, by each rank in turn.
    pub files: u64,
    /// Of them, those that were found.
    pub found: u64,
    /// Names that were looked up.
    pub lookups: u64,
    /// Of them, those that ended in neither a file nor "no such file": permission, input or output,
    /// loops.
    pub failed: u64,
    /// From the first start to the last end; of the rank that took longest.
    pub nanos: u64,
    /// How long look-ups took that found something, and those that did not.
    pub latency: Option<[Histogram; 2]>,
    /// What each rank did.
    pub ranks: Vec<Share>,
}

impl Pass {
    /// Look-ups of names that were not there.
    pub fn misses(&self) -> u64 {
        self.lookups
            .saturating_sub(self.found)
            .saturating_sub(self.failed)
    }
}

/// What one rank did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Files that were found.
    pub found: u64,
    /// Names that were looked up.
    pub lookups: u64,
    /// From its first start to its last end.
    pub nanos: u64,
}

/// Searches the tree as often as is asked.
pub(crate) fn test(
    root: &[u8],
    shape: Shape,
    test: &Test,
    team: &dyn Team,
    tell: &mut dyn FnMut(Event<'_>),
    warnings: &mut Vec<Warning>,
) -> Result<Tested, Failure> {
    let ground = agree(team, Ground::new(root, shape, test))?;
    let forgot = test.cold.as_ref().map(|cold| forget(cold, root, warnings));
    let mut odd = None;
    let mut looked = false;
    let mut go = |files: u64, primes: bool| {
        let pass = ground.pass(files, team, &mut odd)?;
        if !std::mem::replace(&mut looked, true) {
            // Only now: a look at the directories before the first search would warm them for it.
            warnings.extend(agree(team, ground.missing(team.rank()))?);
        }
        tell(Event::Searched(&pass, primes));
        Ok(pass)
    };
    let primed = test.prime.then(|| go(1, true)).transpose()?;
    let passes = (0..test.passes)
        .map(|_| go(shape.files, false))
        .collect::<Result<Vec<_>, Failure>>()?;
    let failed: u64 = passes.iter().map(|pass| pass.failed).sum();
    if let Some(errno) = odd.filter(|_| failed > 0) {
        let message = format!(
            "{failed} look-ups failed otherwise than for want of the name ({errno}): they count as none of the misses"
        );
        warnings.push(Warning {
            errno: Some(errno),
            ..Warning::about(root, message)
        });
    }
    Ok(Tested {
        primed,
        passes,
        forgot,
    })
}

/// What is searched, made ready.
struct Ground<'a> {
    root: &'a [u8],
    shape: Shape,
    test: &'a Test,
    /// The directory in which files are found; `None` when in none.
    target: Option<usize>,
    /// The directories; only where names are looked up from them.
    dirs: Vec<Fd>,
}

/// What threads share while they search.
struct Run {
    files: u64,
    target: Option<usize>,
    /// Whether it is right as well when nothing is found: by priming in a tree that is to have no
    /// files.
    may_miss: bool,
    /// Directories, and so look-ups for each file that is not found.
    length: u64,
    /// Files that a thread takes at a time.
    piece: u64,
    /// The first file that nobody has taken yet.
    next: AtomicU64,
    /// Whether something is wrong, so that going on is of no use.
    stop: AtomicBool,
}

/// What one thread did.
struct Part {
    start: Instant,
    end: Instant,
    found: u64,
    lookups: u64,
    failed: u64,
    odd: Option<Errno>,
    /// The file that was not found where it is to be, and where it was found.
    wrong: Option<(u64, Option<usize>)>,
    latency: Option<[Histogram; 2]>,
}

/// The search itself. `look` answers for one path, in the directory of that number.
#[inline]
fn search(
    run: &Run,
    paths: &mut Paths,
    mut look: impl FnMut(usize, &[u8]) -> gate::Result<()>,
) -> Part {
    let (mut found_in_all, mut lookups, mut failed) = (0, 0, 0);
    let (mut odd, mut wrong) = (None, None);
    let start = Instant::now();
    'files: while !run.stop.load(Ordering::Relaxed) && asked().is_none() {
        let from = run.next.fetch_add(run.piece, Ordering::Relaxed);
        if from >= run.files {
            break;
        }
        paths.go_to(from);
        for file in from..run.files.min(from + run.piece) {
            let mut found = None;
            for (directory, path) in paths.iter().enumerate() {
                match look(directory, path) {
                    Ok(()) => {
                        found = Some(directory);
                        break;
                    }
                    Err(Errno::ENOENT | Errno::ENOTDIR) => {}
                    Err(e) => {
                        failed += 1;
                        odd.get_or_insert(e);
                    }
                }
            }
            lookups += found.map_or(run.length, |directory| directory as u64 + 1);
            if found != run.target && !(run.may_miss && found.is_none()) {
                wrong = Some((file, found));
                run.stop.store(true, Ordering::Relaxed);
                break 'files;
            }
            found_in_all += u64::from(found.is_some());
            paths.advance();
        }
    }
    let end = Instant::now();
    Part {
        start,
        end,
        found: found_in_all,
        lookups,
        failed,
        odd,
        wrong,
        latency: None,
    }
}

impl<'a> Ground<'a> {
    fn new(root: &'a [u8], shape: Shape, test: &'a Test) -> Result<Ground<'a>, Failure> {
        /// More memory than this for names is a mistake.
        const MOST: u64 = 1 << 30;
        /// What a path takes beside the name of ROOT, and its place in memory.
        const EACH: u64 = 96;
        let names = shape
            .length
            .saturating_mul(root.len() as u64 + EACH)
            .saturating_mul(test.threads as u64);
        let length = usize::try_from(shape.length)
            .ok()
            .filter(|_| names <= MOST)
            .ok_or_else(|| {
                let error = format!(
                    "the names of {} directories do not fit into 1 GiB of memory",
                    shape.length
                );
                Failure::new("cannot search", root, error, "give fewer with -l")
            })?;
        let target = if test.fail {
            None
        } else {
            length.checked_sub(1)
        };
        let dirs = if test.method == Method::Dirfd {
            open_all(root, shape)?
        } else {
            Vec::new()
        };
        Ok(Ground {
            root,
            shape,
            test,
            target,
            dirs,
        })
    }

    /// What the names begin with that are looked for.
    fn stem(&self) -> Vec<u8> {
        match self.target {
            Some(directory) => format!("{directory}.").into_bytes(),
            None => b"-1.".to_vec(), // LLNL's name for what is in no directory
        }
    }

    fn paths(&self, files: u64) -> Result<Paths, Failure> {
        let by_name = self.test.method != Method::Dirfd;
        let prefix = |directory: usize| match by_name {
            true => [self.root, b"/", directory.to_string().as_bytes(), b"/"].concat(),
            false => Vec::new(),
        };
        let length = self.shape.length as usize; // it fits: see `new`
        Paths::new((0..length).map(prefix), &self.stem(), files).map_err(|e| {
            Failure::new(
                "cannot search",
                self.root,
                e,
                "give fewer directories with -l",
            )
        })
    }

    /// Searches once, on all threads of all ranks.
    fn pass(&self, files: u64, team: &dyn Team, odd: &mut Option<Errno>) -> Result<Pass, Failure> {
        /// So many look-ups in a row, about: no more than a few milliseconds, and enough that what
        /// is between them is nothing.
        const IN_A_ROW: u64 = 4096;
        let threads = self.test.threads.max(1);
        let mut paths = agree(
            team,
            (0..threads)
                .map(|_| self.paths(files))
                .collect::<Result<Vec<_>, _>>(),
        )?;
        let fair = files.div_ceil(threads as u64 * 4);
        let run = Run {
            files,
            target: self.target,
            may_miss: self.shape.files == 0,
            length: self.shape.length,
            piece: (IN_A_ROW / self.shape.length.max(1)).min(fair).max(1),
            next: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        };
        team.barrier();
        let parts = match &mut paths[..] {
            [paths] => Ok(vec![self.part(&run, paths)]),
            all => self.on_threads(&run, all),
        };
        team.barrier();
        let parts = agree(team, parts.and_then(|parts| self.right(parts)))?;
        Ok(whole(team, &parts, files, odd))
    }

    /// One part of a search for each thread's paths; they begin together.
    fn on_threads(&self, run: &Run, all: &mut [Paths]) -> Result<Vec<Part>, Failure> {
        let together = Barrier::new(all.len());
        let ready = RwLock::new(()); // held until all threads are there, or one could not be made
        std::thread::scope(|scope| {
            let held = ready.write();
            let (ready, together) = (&ready, &together);
            let spawned: Result<Vec<_>, _> = all
                .iter_mut()
                .map(|paths| {
                    std::thread::Builder::new().spawn_scoped(scope, move || {
                        drop(ready.read());
                        if run.stop.load(Ordering::Relaxed) {
                            return None;
                        }
                        together.wait();
                        let part = self.part(run, paths);
                        gate::meter::flush();
                        Some(part)
                    })
                })
                .collect();
            if spawned.is_err() {
                run.stop.store(true, Ordering::Relaxed);
            }
            drop(held);
            let threads = spawned.map_err(|e| {
                Failure::new(
                    "cannot make a thread to search",
                    self.root,
                    e,
                    "give fewer with --threads",
                )
            })?;
            let ended = threads.into_iter().map(|thread| thread.join());
            Ok(ended
                .filter_map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect())
        })
    }

    /// One thread's part.
    fn part(&self, run: &Run, paths: &mut Paths) -> Part {
        match self.test.method {
            Method::Stat => self.by(run, paths, |_, path| lookup::newfstatat(CWD, path)),
            Method::Statx => self.by(run, paths, |_, path| lookup::statx(CWD, path)),
            Method::Access => self.by(run, paths, |_, path| lookup::faccessat(CWD, path)),
            Method::Open => self.by(run, paths, |_, path| lookup::openat(CWD, path).map(drop)),
            Method::Dirfd => self.by(run, paths, |directory, name| {
                match self.dirs.get(directory) {
                    Some(dir) => lookup::newfstatat(dir.as_fd(), name),
                    None => Err(Errno::EBADF),
                }
            }),
        }
    }

    #[inline]
    fn by(
        &self,
        run: &Run,
        paths: &mut Paths,
        mut look: impl FnMut(usize, &[u8]) -> gate::Result<()>,
    ) -> Part {
        if !self.test.latency {
            return search(run, paths, look);
        }
        let (mut hits, mut misses) = (Histogram::default(), Histogram::default());
        let mut part = search(run, paths, |directory, path| {
            let before = monotonic_raw();
            let answer = look(directory, path);
            let took = monotonic_raw().saturating_sub(before);
            if answer.is_ok() {
                hits.record(took)
            } else {
                misses.record(took)
            }
            answer
        });
        part.latency = Some([hits, misses]);
        part
    }

    /// The parts, if every file was found where it is to be.
    fn right(&self, parts: Vec<Part>) -> Result<Vec<Part>, Failure> {
        if asked().is_some() {
            return Err(Failure::stopped("cannot search", self.root));
        }
        match parts.iter().find_map(|part| part.wrong) {
            Some((file, found)) => Err(self.wrong(file, found)),
            None => Ok(parts),
        }
    }

    /// Why a file was not found where it is to be.
    fn wrong(&self, file: u64, found: Option<usize>) -> Failure {
        let Shape { length, files } = self.shape;
        let at = |directory: usize| {
            let name = [&self.stem()[..], file.to_string().as_bytes()].concat();
            join(&join(self.root, directory.to_string().as_bytes()), &name)
        };
        let made_so = format!("was the tree made with -l {length} -f {files}?");
        match found {
            None => {
                if let Err(e) = open_long(self.root, Open::PATH | Open::DIRECTORY) {
                    return missing_root(self.root, e);
                }
                let path = at(self.target.unwrap_or_default());
                let again = lookup::newfstatat(CWD, &[&path[..], b"\0"].concat());
                let error = again.map_or_else(
                    |e| e.to_string(),
                    |()| "it was not there a moment ago".to_owned(),
                );
                Failure::new("cannot find", &path, error, made_so)
            }
            Some(directory) => {
                let error = "it is not to be found there: the tree is not of this benchmark alone";
                Failure::new("cannot search past", &at(directory), error, made_so)
            }
        }
    }

    /// Rank 0 looks whether there were directories to search; a search that fails would not tell.
    fn missing(&self, rank: usize) -> Result<Option<Warning>, Failure> {
        if rank != 0 {
            return Ok(None);
        }
        let place = Open::PATH | Open::DIRECTORY;
        let root = open_long(self.root, place).map_err(|e| missing_root(self.root, e))?;
        let is_there = |directory: &u64| {
            c_string(&name_of(*directory))
                .and_then(|name| openat(&root, &name, place))
                .is_ok()
        };
        let missing = (0..self.shape.length)
            .filter(|directory| !is_there(directory))
            .count();
        Ok((missing > 0).then(|| {
            let length = self.shape.length;
            let message = format!(
                "{missing} of the {length} directories are not there, which makes the search cheaper; was the tree made \
                 with -l {length}?"
            );
            Warning::about(self.root, message)
        }))
    }
}

fn missing_root(root: &[u8], e: Errno) -> Failure {
    let next = if e == Errno::ENOENT {
        "make it first, with -c"
    } else {
        ""
    };
    Failure::new("cannot search", root, e, next)
}

fn open_all(root: &[u8], shape: Shape) -> Result<Vec<Fd>, Failure> {
    gate::process::raise_open_files();
    let place = Open::PATH | Open::DIRECTORY;
    let top = open_long(root, place).map_err(|e| missing_root(root, e))?;
    let open = |directory: u64| {
        let opened = c_string(&name_of(directory)).and_then(|name| openat(&top, &name, place));
        opened.map_err(|e| {
            let next = match e {
                Errno::EMFILE | Errno::ENFILE => {
                    "give fewer directories with -l, or another --method".to_owned()
                }
                _ => format!("was the tree made with -l {}?", shape.length),
            };
            Failure::new("cannot open", &join(root, &name_of(directory)), e, next)
        })
    };
    (0..shape.length).map(open).collect()
}

/// What all threads and ranks did in one search.
fn whole(team: &dyn Team, parts: &[Part], files: u64, odd: &mut Option<Errno>) -> Pass {
    /// Which of the words says how many belong to the look-ups that found something.
    const LENGTH: usize = 5;
    let sum = |of: fn(&Part) -> u64| parts.iter().map(of).sum::<u64>();
    let start = parts.iter().map(|part| part.start).min();
    let end = parts.iter().map(|part| part.end).max();
    let elapsed = end.zip(start).map_or(0, |(end, start)| {
        end.saturating_duration_since(start).as_nanos() as u64
    });
    let failed_as = parts
        .iter()
        .find_map(|part| part.odd)
        .map_or(0, |e| e.0.unsigned_abs());
    let mut words = vec![
        sum(|p| p.found),
        sum(|p| p.lookups),
        sum(|p| p.failed),
        elapsed,
        u64::from(failed_as),
        0,
    ];
    if let Some(both) = parts
        .iter()
        .filter_map(|part| part.latency.clone())
        .reduce(merged)
    {
        let [hits, misses] = both.map(|histogram| histogram.to_words());
        words[LENGTH] = hits.len() as u64;
        words.extend(hits.into_iter().chain(misses));
    }

    let mut pass = Pass {
        files: 0,
        found: 0,
        lookups: 0,
        failed: 0,
        nanos: 0,
        latency: None,
        ranks: Vec::with_capacity(team.size()),
    };
    for said in share_words(team, &words) {
        let [found, lookups, failed, nanos, errno, hits, both @ ..] = &said[..] else {
            continue;
        };
        pass.files += files;
        pass.found += found;
        pass.lookups += lookups;
        pass.failed += failed;
        pass.nanos = pass.nanos.max(*nanos);
        pass.ranks.push(Share {
            found: *found,
            lookups: *lookups,
            nanos: *nanos,
        });
        if let Some(errno) = i32::try_from(*errno).ok().filter(|errno| *errno > 0) {
            odd.get_or_insert(Errno(errno));
        }
        if let Some((hits, misses)) = both
            .split_at_checked(*hits as usize)
            .filter(|(hits, _)| !hits.is_empty())
        {
            let theirs = [hits, misses].map(Histogram::from_words);
            pass.latency = Some(match pass.latency.take() {
                Some(ours) => merged(ours, theirs),
                None => theirs,
            });
        }
    }
    pass
}

fn merged(mut ours: [Histogram; 2], theirs: [Histogram; 2]) -> [Histogram; 2] {
    for (mine, yours) in ours.iter_mut().zip(&theirs) {
        mine.add(yours);
    }
    ours
}
