//! The sink that rows come to, from several threads, in any order.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use gate::fs::Statfs;
use gate::sync::{Mutex, MutexGuard};
use mounts::Warning;
use walk::{
    Diagnostics, Dir, EngineKind, Entry, Meta, Moment, MountContext, Sink, Totals, Worker, digest,
};

use super::heap::{Heap, Key, Piece};
use super::order::{Ordered, order};
use super::packed::{Class, Common, Packed};
use super::tree::{Rows, Source};
use crate::part::{Last, Part, Parts};
use crate::tick::wait_for_tick;
use crate::warning::WarningKind;

/// The sink that rows are gathered in.
#[derive(Debug)]
pub(crate) struct Collector<'a> {
    sources: Vec<Source>,
    /// The number of the SRC for each DIR of the walk.
    dirs: Vec<u32>,
    /// Whether tokens are taken.
    with_tokens: bool,
    desk: &'a Diagnostics,
    parts: Parts,
    begun: Moment,
    seed: RandomState,
    common: Mutex<Common>,
    heap: Mutex<Heap>,
    /// All of it, added up, if that is wanted.
    sum: Option<Mutex<Totals>>,
    /// About how many entries there are, if that is known.
    expected: Option<u64>,
    is_full: AtomicBool,
}

/// What has been gathered, as a whole.
#[derive(Debug)]
pub(crate) struct Seen {
    /// Each SRC.
    pub(crate) sources: Vec<Source>,
    /// The file systems.
    pub(crate) parts: Vec<Part>,
    /// All entries, added up as the catalog of them would.
    pub(crate) totals: Totals,
}

impl<'a> Collector<'a> {
    /// Of each SRC, and of which of them are walked, by their numbers. With `for_catalog`, each
    /// file system is asked for its token, and what is changed from that moment on can be told.
    pub(crate) fn new(
        sources: Vec<Source>,
        dirs: Vec<u32>,
        for_catalog: Option<Moment>,
        desk: &'a Diagnostics,
    ) -> Collector<'a> {
        Collector {
            parts: Parts::new(sources.iter().map(|source| source.path.clone()).collect()),
            sources,
            dirs,
            with_tokens: for_catalog.is_some(),
            desk,
            begun: for_catalog.unwrap_or_else(Moment::now),
            seed: RandomState::new(),
            common: Mutex::default(),
            heap: Mutex::default(),
            sum: None,
            expected: None,
            is_full: AtomicBool::new(false),
        }
    }

    /// The same, of about so many entries if that is known, which are added up.
    pub(crate) fn with_sum(self, expected: Option<u64>) -> Collector<'a> {
        Collector {
            sum: Some(Mutex::default()),
            expected,
            ..self
        }
    }

    /// Waits until whatever was changed before it began is at rest for certain, on a file system of
    /// this type.
    pub(crate) fn wait(&self, magic: Option<u64>) {
        if self.with_tokens {
            wait_for_tick(&self.begun, magic);
        }
    }

    /// A SRC that is no directory.
    pub(crate) fn add(&self, source: u32, meta: &Meta) {
        self.parts.turn_to(source as usize);
        let path = &self.sources[source as usize].path;
        let mut hand = Hand::new(self);
        let row = hand.pack(&meta.lasting(), path, b"");
        hand.batch
            .sources
            .push((source, hand.batch.rows.len() as u32));
        hand.batch.rows.push(row);
    }

    fn common(&self) -> MutexGuard<'_, Common> {
        self.common.lock()
    }

    fn key(&self, hash: u64, path: &[u8]) -> Key {
        (hash, self.seed.hash_one(path))
    }

    /// All of it, as a whole; `None` if that is not known, or not as a catalog would have it.
    pub(crate) fn seen(&self, engines: impl Iterator<Item = EngineKind>) -> Option<Seen> {
        Some(Seen {
            sources: self.sources.clone(),
            parts: self.parts.all(engines),
            totals: self.totals()?,
        })
    }

    /// All of it, added up as a catalog would.
    fn totals(&self) -> Option<Totals> {
        // The walk numbers those that are directories.
        let is_each_walked = self.dirs.len() == self.sources.len();
        Some(*self.sum.as_ref().filter(|_| is_each_walked)?.lock())
    }

    /// All of it, in order.
    pub(crate) fn finish(self, engines: impl Iterator<Item = EngineKind>) -> Rows {
        let (parts, totals) = (self.parts.all(engines), self.totals());
        let heap = self.heap.into_inner();
        let common = self.common.into_inner();
        let mut sources = self.sources;
        let Ordered {
            mut rows,
            order,
            mut names,
            ends,
            firsts,
            lost,
        } = order(heap, &common);
        rows.shrink_to_fit();
        names.0.shrink_to_fit();
        if lost > 0 {
            let kind = WarningKind::EntriesLost(lost as u64);
            self.desk.warn(Warning::general(kind));
        }
        // Each SRC has its rows up to where the next one begins.
        let mut end = order.len();
        for (number, source) in sources.iter_mut().enumerate().rev() {
            let first = firsts.binary_search_by_key(&(number as u32), |&(source, _)| source);
            let first = first.map_or(end, |at| firsts[at].1 as usize);
            source.rows = first..end;
            end = first;
        }
        // Not of what has come twice, or was lost.
        let totals = totals.filter(|totals| totals.entries == order.len() as u64);
        Rows {
            sources,
            rows,
            order,
            names,
            common,
            ends,
            parts,
            begun: self.begun,
            has_waited: self.with_tokens,
            totals,
        }
    }
}

impl Sink for Collector<'_> {
    fn begin(&self, ground: &MountContext<'_>, by: EngineKind) {
        if ground.top.depth == 0
            && let Some(&source) = self.dirs.get(ground.top.hash as usize)
        {
            self.parts.turn_to(source as usize);
        }
        self.parts.begin(ground, by, self.with_tokens);
        let Statfs {
            files, files_free, ..
        } = ground.statfs;
        let there = files
            .saturating_sub(files_free)
            .max(self.expected.unwrap_or(0));
        self.heap.lock().expect(there);
        self.wait(Some(ground.statfs.magic));
    }

    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(Hand::new(self))
    }

    fn is_closed(&self) -> bool {
        self.is_full.load(Relaxed)
    }
}

/// One thread's part of it.
struct Hand<'a> {
    to: &'a Collector<'a>,
    batch: Heap,
    sum: Totals,
    last: Option<Last>,
    /// The class that came last, and all that this thread has had.
    class: Option<(Class, u32)>,
    classes: HashMap<Class, u32>,
    path: Vec<u8>,
}

impl<'a> Hand<'a> {
    /// Rows that are handed in at a time.
    const BATCH: usize = 1 << 10;

    fn new(to: &'a Collector<'a>) -> Hand<'a> {
        Hand {
            to,
            batch: Heap::default(),
            sum: Totals::default(),
            last: None,
            class: None,
            classes: HashMap::new(),
            path: Vec::new(),
        }
    }

    fn pack(&mut self, meta: &Meta, dir: &[u8], name: &[u8]) -> Packed {
        let part = self.to.parts.number(&mut self.last, meta, dir, name);
        let class = Class::new(meta, part);
        let number = match self.class {
            Some((last, number)) if last == class => number,
            _ => *self
                .classes
                .entry(class)
                .or_insert_with(|| self.to.common().class(class)),
        };
        self.class = Some((class, number));
        Packed {
            name: self.batch.names.add(name),
            ..Packed::new(meta, number, |wide| self.to.common().keep(wide))
        }
    }

    fn hand_in(&mut self) {
        let fits = self.to.heap.lock().append(&mut self.batch);
        if !fits {
            self.batch = Heap::default();
            if !self.to.is_full.swap(true, Relaxed) {
                let kind = WarningKind::TooManyEntries(Heap::MOST);
                self.to.desk.warn(Warning::general(kind));
            }
        }
    }
}

impl Worker for Hand<'_> {
    fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        let to = self.to;
        let mut key = None;
        for entry in entries {
            let number = self.batch.rows.len() as u32;
            let entry = &Entry {
                meta: entry.meta.lasting(),
                ..*entry
            };
            if to.sum.is_some() {
                self.sum.add(dir, entry);
            }
            let row = self.pack(&entry.meta, dir.path, entry.name);
            if entry.name.is_empty() {
                if let Some(&source) = to.dirs.get(dir.hash as usize) {
                    self.batch.sources.push((source, number));
                }
            } else {
                let key = *key.get_or_insert_with(|| to.key(dir.hash, dir.path));
                match self.batch.pieces.last_mut() {
                    Some(last) if last.dir == key && last.rows.end == number => last.rows.end += 1,
                    _ => self.batch.pieces.push(Piece {
                        dir: key,
                        rows: number..number + 1,
                    }),
                }
            }
            if entry.meta.is_dir() {
                let is_source = entry.name.is_empty();
                let hash = if is_source {
                    dir.hash
                } else {
                    digest::below(dir.hash, entry.name)
                };
                entry.path(dir, &mut self.path);
                self.batch.dirs.push((to.key(hash, &self.path), number));
            }
            self.batch.rows.push(row);
        }
        if self.batch.rows.len() >= Hand::BATCH {
            self.hand_in();
        }
    }
}

impl Drop for Hand<'_> {
    fn drop(&mut self) {
        self.hand_in();
        if let Some(sum) = &self.to.sum {
            sum.lock().merge(&self.sum);
        }
    }
}
