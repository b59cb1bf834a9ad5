#![allow(
    clippy::disallowed_methods,
    reason = "the tests build and check past the gate"
)]

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
struct SlowSink<'a> {
    summary: Summary,
    is_closed: bool,
    /// Called before the entries of a directory are taken.
    before: &'a (dyn Fn(&Dir<'_>) + Sync),
}

struct SlowWorker<'a>(Box<dyn Worker + 'a>, &'a (dyn Fn(&Dir<'_>) + Sync));

impl Sink for SlowSink<'_> {
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
            let sink = SlowSink {
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
