//! One walk by all ranks of an MPI job.
//!
//! The ranks walk one mount after the other together. The rank that has found a mount (rank 0 for
//! DIR) owns it: it chooses the engine and emits the directory where the mount begins. With
//! `threads` the other ranks take directories from the owner and from each other; any other engine
//! reads the whole file system, so the owner runs it alone. A rank that sees a different directory
//! at this path does not take part.
//!
//! All ranks take these steps in the same order, whatever fails, so that none waits for ever.

use std::collections::VecDeque;
use std::os::fd::AsFd;

use base::Warning;
use gate::Gate;
use gate::fs::{Open, Time, has_statx, openat};
use gate::long::open_long_no_symlinks;
use gate::machine::with_all_processors;
use mounts::ErrorKind;
use serde::{Deserialize, Serialize};
use team::{Team, share};

use crate::engine::threads;
use crate::entry::{append, joined};
use crate::error::{Error, WarningKind};
use crate::job::{Crossing, Diagnostics, Job};
use crate::kind::EngineKind;
use crate::plan::PlanReason;
use crate::shard::Sharded;
use crate::sink::Sink;
use crate::top::{MountContext, Top, mounts_around};
use crate::traversal::{Part, TopEntry, Traversal, WalkOptions, WalkReport, open_top, walk};

/// Walks each directory together with all ranks; the entries of each rank go to its own sink. The
/// report has the mounts in which this rank took part.
///
/// # Errors
/// The errors of [`walk`], and [`Error::OtherRank`] if another rank has failed: then all ranks stop.
pub fn walk_together(
    options: &WalkOptions,
    sink: &dyn Sink,
    diagnostics: &Diagnostics,
    team: &dyn Team,
) -> Result<WalkReport, Error> {
    if team.size() == 1 {
        return walk(options, sink, diagnostics);
    }
    let around = options.around.as_ref().map(|around| around.union(team));
    let careful = around.as_ref().map(|around| options.careful(around));
    let options = careful.as_deref().unwrap_or(options);
    if team.rank() == 0 {
        around.iter().for_each(|around| around.warn(diagnostics));
    }
    let sharded = Sharded::new(options.filter.shard(), &options.dirs, sink);
    let sink = sharded.as_ref().map_or(sink, |sharded| sharded);
    let mut report = WalkReport::default();
    for (nth, path) in options.dirs.iter().enumerate() {
        let top = open_same(path, nth, team)?;
        let mounts = mounts_around(Some(&top));
        let walk = Together {
            options,
            traversal: Traversal::new(options, sink, diagnostics, &mounts, &top),
            sink,
            team,
        };
        walk.walk_dir(&top, &mut report)?;
    }
    if team.rank() == 0 && !has_statx() {
        diagnostics.warn(Warning::general(WarningKind::NoStatx));
    }
    Ok(report)
}

/// Checks that a directory is the same one on all ranks.
///
/// # Errors
/// The directory cannot be opened, or is a different one than on rank 0; [`Error::OtherRank`] if
/// this is so on another rank.
pub fn check_same_directory(path: &[u8], team: &dyn Team) -> Result<(), Error> {
    open_same(path, 0, team).map(drop)
}

/// Identifies a directory on all hosts: inode number and time of creation.
type Identity = (u64, Option<(i64, u32)>);

fn identity(top: &Top) -> Identity {
    let created = |Time { sec, nsec }| (sec, nsec);
    (top.meta.ino, top.meta.btime.map(created))
}

/// Opens DIR, which must be the same one on all ranks.
fn open_same(path: &[u8], nth: usize, team: &dyn Team) -> Result<Top, Error> {
    let opened = open_top(path, nth).map_err(Error::from);
    let first = share(team, opened.as_ref().ok().map(identity)).swap_remove(0);
    let opened = opened.and_then(|top| match first {
        Some(first) if first != identity(&top) => Err(Error::OtherDirectory(path.to_vec())),
        _ => Ok(top),
    });
    succeed_together(team, opened)
}

/// Returns `mine` if no rank has failed; else all ranks return an error.
fn succeed_together<T>(team: &dyn Team, mine: Result<T, Error>) -> Result<T, Error> {
    let all = share(team, mine.is_ok());
    match mine {
        Ok(_) if all.contains(&false) => Err(Error::OtherRank),
        mine => mine,
    }
}

/// The open directory where a mount begins, and the entry to emit for it.
type Entered = (Top, TopEntry);

/// A mount to be walked; all ranks have the same list.
struct Mounted {
    owner: usize,
    /// Path of the mount point relative to DIR.
    rel: Vec<u8>,
    /// On the owner, the open mount point, if it is not DIR.
    own: Option<Entered>,
}

/// A rank's message to the others about a mount, before the walk of the mount.
#[derive(Serialize, Deserialize)]
struct Ready {
    identity: Option<Identity>,
    /// From the owner: index of the engine in [`EngineKind::SELECTABLE`].
    engine: Option<usize>,
}

#[derive(Serialize, Deserialize)]
struct RankResult {
    /// Paths relative to DIR where this rank found other mounts.
    found: Vec<Vec<u8>>,
    has_failed: bool,
    is_closed: bool,
}

struct Together<'a> {
    options: &'a WalkOptions,
    traversal: Traversal<'a>,
    sink: &'a dyn Sink,
    team: &'a dyn Team,
}

impl Together<'_> {
    fn walk_dir(&self, root: &Top, report: &mut WalkReport) -> Result<(), Error> {
        let dir = Mounted {
            owner: 0,
            rel: Vec::new(),
            own: None,
        };
        let mut mounts = VecDeque::from([dir]);
        let mut is_first = true;
        while let Some(mounted) = mounts.pop_front() {
            let walked = self.walk_mount(root, mounted, is_first, report);
            is_first = false;
            let found = walked.as_ref().ok().into_iter().flatten();
            let mine = RankResult {
                found: found.map(|(rel, _)| rel.clone()).collect(),
                has_failed: walked.is_err(),
                is_closed: self.sink.is_closed(),
            };
            let all = share(self.team, mine);
            let mut own = walked?.into_iter().map(|(_, own)| own);
            if all.iter().any(|done| done.has_failed) {
                return Err(Error::OtherRank);
            }
            if all.iter().any(|done| done.is_closed) {
                break;
            }
            for (owner, done) in all.into_iter().enumerate() {
                let is_own = owner == self.team.rank();
                mounts.extend(done.found.into_iter().map(|rel| {
                    let own = is_own.then(|| own.next()).flatten();
                    Mounted { owner, rel, own }
                }));
            }
        }
        Ok(())
    }

    /// Walks one mount, and returns the mount points that this rank has found in it.
    fn walk_mount(
        &self,
        root: &Top,
        mounted: Mounted,
        is_first: bool,
        report: &mut WalkReport,
    ) -> Result<Vec<(Vec<u8>, Entered)>, Error> {
        let Mounted { owner, rel, own } = mounted;
        let is_owner = owner == self.team.rank();
        let opened = own.map_or_else(|| open(root, &rel, is_owner), Ok);
        let chosen = opened.as_ref().ok().filter(|_| is_owner);
        let chosen = chosen.map(|(top, _)| {
            let context = self.traversal.context(top);
            with_all_processors(|| self.traversal.choose(&context, is_first))
        });
        let place = |kind| EngineKind::SELECTABLE.iter().position(|it| *it == kind);
        let engine = chosen.as_ref().and_then(|it| place(it.as_ref().ok()?.0));
        let identity = opened.as_ref().ok().map(|(top, _)| identity(top));
        let mut all = share(self.team, Ready { identity, engine });
        let ready = all.swap_remove(owner);
        let Some(engine) = ready.engine.and_then(|nth| EngineKind::SELECTABLE.get(nth)) else {
            return match (opened, chosen) {
                (Err(error), _) | (_, Some(Err(error))) if is_owner => Err(error),
                _ => Err(Error::OtherRank),
            };
        };
        let Some((mut top, entry)) = opened.ok().filter(|_| ready.identity == identity) else {
            if self.options.filter.enters(root.key.at(&rel).depth) {
                threads::stand_by(self.team, owner);
            }
            return Ok(Vec::new());
        };
        let choose =
            |_: &MountContext<'_>| chosen.unwrap_or(Ok((*engine, PlanReason::ChosenByRank(owner))));
        let run = |job: &Job<'_>, part: &mut Part| {
            let is_done = match is_owner && *engine != EngineKind::Threads {
                true => with_all_processors(|| self.traversal.run_chosen(job, part, is_first)),
                false => Ok(false),
            };
            // Take part in the exchange even if this rank failed: the others wait for its end.
            let is_over = !matches!(is_done, Ok(false));
            let walked = threads::walk_together(job, self.team, owner, is_over);
            is_done.and(walked.map_err(Error::Thread))
        };
        let crossings = self
            .traversal
            .walk_mount(&mut top, &entry, report, choose, run)?;
        let cross = |crossing: &Crossing| {
            let mut path = rel.clone();
            append(&mut path, &joined(&crossing.dir.rel, &crossing.name));
            let (top, entry) = self.traversal.cross(&top, crossing)?;
            Some((path, (top, entry)))
        };
        Ok(crossings.iter().filter_map(cross).collect())
    }
}

/// Opens a mount point. Only the owner of the mount emits its entry.
fn open(root: &Top, rel: &[u8], is_owner: bool) -> Result<Entered, Error> {
    let path = joined(&root.path, rel);
    let failed = |kind, gate| {
        let path = path.clone();
        move |errno| mounts::Error::at(kind, &path, gate, errno)
    };
    let opened = match rel {
        b"" => openat(&root.fd, c".", Open::SCAN),
        rel => open_long_no_symlinks(root.fd.as_fd(), rel, Open::SCAN),
    };
    let fd = opened.map_err(failed(ErrorKind::OpenDirectory, Gate::Openat))?;
    let top = Top::new(fd, path.clone(), root.key.at(rel))
        .map_err(failed(ErrorKind::ReadAttributes, Gate::Statx))?;
    let entry = match is_owner {
        true => TopEntry::new(&top),
        false => TopEntry::emitted(&top),
    };
    Ok((top, entry))
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    reason = "the tests build and check past the gate"
)]
mod tests {
    use std::fs;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::sync::{Arc, Barrier};
    use std::time::Duration;

    use gate::sync::Mutex;

    use super::*;
    use crate::entry::{Dir, Entry};
    use crate::sink::Worker;
    use crate::summary::{Summary, Totals};

    /// A rank for tests that is a thread.
    struct Rank {
        rank: usize,
        to: Vec<Sender<(usize, Vec<u8>)>>,
        from: Receiver<(usize, Vec<u8>)>,
        gathered: Arc<Mutex<Vec<Vec<u8>>>>,
        barrier: Arc<Barrier>,
    }

    impl Team for Rank {
        fn rank(&self) -> usize {
            self.rank
        }
        fn size(&self) -> usize {
            self.to.len()
        }
        fn barrier(&self) {
            self.barrier.wait();
        }
        fn all_gather(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
            self.gathered.lock()[self.rank] = bytes.to_vec();
            self.barrier();
            let all = self.gathered.lock().clone();
            self.barrier();
            all
        }
        fn send(&self, to: usize, bytes: &[u8]) {
            assert!(bytes.len() <= team::MOST_BYTES);
            self.to[to].send((self.rank, bytes.to_vec())).unwrap();
        }
        fn receive(&self) -> Option<(usize, Vec<u8>)> {
            self.from.try_recv().ok()
        }
    }

    fn ranks(many: usize) -> Vec<Rank> {
        let (to, from): (Vec<_>, Vec<_>) = (0..many).map(|_| channel()).unzip();
        let gathered = Arc::new(Mutex::new(vec![Vec::new(); many]));
        let barrier = Arc::new(Barrier::new(many));
        let rank = |(rank, from)| Rank {
            rank,
            to: to.clone(),
            from,
            gathered: Arc::clone(&gathered),
            barrier: Arc::clone(&barrier),
        };
        from.into_iter().enumerate().map(rank).collect()
    }

    /// A sink as slow as if the entries came from a server, so that other ranks get work.
    struct Slow<'a> {
        summary: Summary,
        is_closed: bool,
        /// Called before the entries of a directory are taken.
        before: &'a (dyn Fn(&Dir<'_>) + Sync),
    }

    struct SlowWorker<'a>(Box<dyn Worker + 'a>, &'a (dyn Fn(&Dir<'_>) + Sync));

    impl Sink for Slow<'_> {
        fn worker(&self) -> Box<dyn Worker + '_> {
            Box::new(SlowWorker(self.summary.worker(), self.before))
        }
        fn is_closed(&self) -> bool {
            self.is_closed
        }
    }

    impl Worker for SlowWorker<'_> {
        fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
            self.1(dir);
            std::thread::sleep(Duration::from_millis(2));
            self.0.take(dir, entries);
        }
    }

    /// Walks by `many` ranks, and returns the result of each. Asserts that no message is left at
    /// the end.
    fn walk_by(
        many: usize,
        options: &WalkOptions,
        is_closed: fn(usize) -> bool,
        before: &(dyn Fn(&Dir<'_>) + Sync),
    ) -> Vec<Result<Totals, Error>> {
        std::thread::scope(|scope| {
            let walk = |rank: Rank| {
                let sink = Slow {
                    is_closed: is_closed(rank.rank),
                    summary: Summary::default(),
                    before,
                };
                let diagnostics = Diagnostics::default();
                let walked = walk_together(options, &sink, &diagnostics, &rank);
                rank.barrier();
                assert!(rank.receive().is_none(), "a message is left");
                let warnings = diagnostics.take_warnings();
                (walked.map(|_| sink.summary.totals()), warnings)
            };
            let threads = ranks(many).into_iter();
            let threads: Vec<_> = threads.map(|it| scope.spawn(move || walk(it))).collect();
            let ends = threads.into_iter().map(|it| it.join().unwrap());
            let (walked, warnings): (_, Vec<_>) = ends.unzip();
            assert!(warnings.iter().all(Vec::is_empty), "{warnings:?}");
            walked
        })
    }

    #[test]
    fn ranks_find_what_one_process_finds() {
        let scratch = tempfile::tempdir().unwrap();
        let top = scratch.path();
        for nth in 0..60 {
            let dir = top.join(format!("{}/{nth}", nth % 3));
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("file"), "x").unwrap();
        }
        fs::create_dir(top.join("large")).unwrap();
        for nth in 0..500 {
            fs::write(top.join(format!("large/{nth}")), "").unwrap();
        }
        let options = WalkOptions {
            dirs: vec![top.as_os_str().as_encoded_bytes().to_vec()],
            engine: Some(EngineKind::Threads),
            threads: Some(2),
            ..WalkOptions::default()
        };
        let whole = Summary::default();
        walk(&options, &whole, &Diagnostics::default()).unwrap();
        for many in [1, 2, 3, 7, 16] {
            let mut sum = Totals::default();
            let each = walk_by(many, &options, |_| false, &|_| {});
            let each: Vec<_> = each.into_iter().map(Result::unwrap).collect();
            each.iter().for_each(|part| sum.merge(part));
            assert_eq!(sum, whole.totals(), "{many} ranks");
            let busy = each.iter().filter(|part| part.entries > 1).count();
            assert!(busy >= many.min(2), "{each:?}");
        }
        // The sink of one rank is closed: all ranks must stop.
        let each = walk_by(3, &options, |rank| rank == 1, &|_| {});
        assert!(each.iter().all(Result::is_ok), "{each:?}");
        let missing = WalkOptions {
            dirs: vec![b"/no/such/directory".to_vec()],
            ..options
        };
        assert!(
            walk_by(3, &missing, |_| false, &|_| {})
                .iter()
                .all(Result::is_err)
        );
    }

    #[test]
    fn what_is_below_a_renamed_directory_is_found() {
        let scratch = tempfile::tempdir().unwrap();
        for (many, replaced) in [(2, false), (2, true), (3, false), (5, true)] {
            let top = scratch.path().join(format!("{many}-{replaced}"));
            for nth in 0..200 {
                let dir = top.join(format!("a/{}/{nth}", nth % 20));
                fs::create_dir_all(&dir).unwrap();
                fs::write(dir.join("file"), "x").unwrap();
            }
            let options = WalkOptions {
                dirs: vec![top.as_os_str().as_encoded_bytes().to_vec()],
                engine: Some(EngineKind::Threads),
                threads: Some(2),
                ..WalkOptions::default()
            };
            let renamed = AtomicUsize::new(0);
            // Rename only when other ranks have been given directories.
            let rename = |dir: &Dir<'_>| {
                if dir.key.depth != 3 || renamed.fetch_add(1, Relaxed) != 20 {
                    return;
                }
                fs::rename(top.join("a"), top.join("b")).unwrap();
                if replaced {
                    for nth in 0..20 {
                        fs::create_dir_all(top.join(format!("a/{nth}/{nth}/new"))).unwrap();
                    }
                }
            };
            let each = walk_by(many, &options, |_| false, &rename);
            let found: u64 = each.iter().map(|it| it.as_ref().unwrap().entries).sum();
            assert_eq!(found, 2 + 20 + 2 * 200, "{many} ranks, {replaced}");
            assert!(top.join("b").exists());
        }
    }
}
