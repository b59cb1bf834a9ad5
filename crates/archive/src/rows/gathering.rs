//! The sink that rows come to, from several threads, in any order.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use gate::fs::Statfs;
use gate::heap::large_room;
use gate::sync::{Mutex, MutexGuard};
use mounts::Warning;
use walk::{
    Diagnostics, Dir, EngineKind, Entry, Meta, Moment, MountContext, Sink, Totals, Worker, digest,
};

use super::order::{Ordered, order};
use super::packed::{Class, Common, NONE, Names, Packed};
use super::{Rows, Source};
use crate::gather::CollectReport;
use crate::part::{Last, Part, Parts};
use crate::tick::wait_for_tick;

/// What stands for a directory: what stands for its path in digests, and a hash of it with a seed
/// that nobody knows, so that nobody can make up two paths for which both are the same.
pub(super) type Key = (u64, u64);

/// Rows of a directory that came one after the other.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) dir: Key,
    pub(super) rows: Range<u32>,
}

/// Rows as they came.
#[derive(Debug, Default)]
pub(super) struct Heap {
    pub(super) rows: Vec<Packed>,
    pub(super) names: Names,
    pub(super) pieces: Vec<Piece>,
    /// The rows that are directories.
    pub(super) dirs: Vec<(Key, u32)>,
    /// The rows that are a SRC, and its number.
    pub(super) sources: Vec<(u32, u32)>,
}

impl Heap {
    /// More rows than this have no numbers.
    pub(super) const MOST: usize = NONE as usize;

    /// Makes room for the rows of so many files, if there is none yet: rows need not move then when
    /// there are more of them. It costs nothing until they come.
    fn expect(&mut self, files: u64) {
        /// The tree need not be all of the file system.
        const MOST: u64 = 2 << 20;
        /// About as many bytes as a name has.
        const NAME: usize = 24;
        // Some have several names.
        let rows = (files + files / 8).min(MOST) as usize;
        if self.rows.capacity() == 0
            && let (Some(rows), Some(names)) = (large_room(rows), large_room(NAME * rows))
        {
            (self.rows, self.names.0) = (rows, names);
        }
    }

    /// Takes over what is in another one, which is empty then. False when there is no room for it.
    pub(super) fn append(&mut self, other: &mut Heap) -> bool {
        if self.rows.len() + other.rows.len() > Heap::MOST {
            return false;
        }
        let (rows, names) = (self.rows.len() as u32, self.names.0.len() as u64);
        self.rows.extend(other.rows.drain(..).map(|row| Packed {
            name: row.name + names,
            ..row
        }));
        self.names.0.append(&mut other.names.0);
        let moved = |piece: Piece| Piece {
            rows: piece.rows.start + rows..piece.rows.end + rows,
            ..piece
        };
        self.pieces.extend(other.pieces.drain(..).map(moved));
        self.dirs
            .extend(other.dirs.drain(..).map(|(key, row)| (key, row + rows)));
        self.sources.extend(
            other
                .sources
                .drain(..)
                .map(|(source, row)| (source, row + rows)),
        );
        true
    }
}

/// The sink that rows are gathered in.
#[derive(Debug)]
pub(crate) struct Gathering<'a> {
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

impl<'a> Gathering<'a> {
    /// Of each SRC, and of which of them are walked, by their numbers. With `for_catalog`, each
    /// file system is asked for its token, and what is changed from that moment on can be told.
    pub(crate) fn new(
        sources: Vec<Source>,
        dirs: Vec<u32>,
        for_catalog: Option<Moment>,
        desk: &'a Diagnostics,
    ) -> Gathering<'a> {
        Gathering {
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
    pub(crate) fn with_sum(self, expected: Option<u64>) -> Gathering<'a> {
        Gathering {
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
    pub(crate) fn seen(&self, answer: &CollectReport) -> Option<Seen> {
        Some(Seen {
            sources: self.sources.clone(),
            parts: self.parts_of(answer),
            totals: self.totals()?,
        })
    }

    /// All of it, added up as a catalog would.
    fn totals(&self) -> Option<Totals> {
        // The walk numbers those that are directories.
        let is_each_walked = self.dirs.len() == self.sources.len();
        Some(*self.sum.as_ref().filter(|_| is_each_walked)?.lock())
    }

    fn parts_of(&self, answer: &CollectReport) -> Vec<Part> {
        self.parts.all(answer.parts.iter().map(|part| part.engine))
    }

    /// All of it, in order.
    pub(crate) fn finish(self, answer: &CollectReport) -> Rows {
        let (parts, totals) = (self.parts_of(answer), self.totals());
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
            let what = format!(
                "{lost} entries are left out: the directories that they are in were moved meanwhile; dump again"
            );
            self.desk.warn(Warning::general(what));
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

impl Sink for Gathering<'_> {
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
    to: &'a Gathering<'a>,
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

    fn new(to: &'a Gathering<'a>) -> Hand<'a> {
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
        let part = self.to.parts.of(&mut self.last, meta, dir, name);
        let class = Class::of(meta, part);
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
            ..Packed::of(meta, number, |wide| self.to.common().keep(wide))
        }
    }

    fn hand_in(&mut self) {
        let fits = self.to.heap.lock().append(&mut self.batch);
        if !fits {
            self.batch = Heap::default();
            if !self.to.is_full.swap(true, Relaxed) {
                let what = format!(
                    "more than {} entries cannot be dumped at once; the rest is left out",
                    Heap::MOST
                );
                self.to.desk.warn(Warning::general(what));
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
