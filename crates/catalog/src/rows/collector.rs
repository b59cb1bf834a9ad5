//! A sink that collects rows from several threads, in any order.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use base::Warning;
use gate::Fd;
use gate::process::spare_open_files;
use gate::sync::Mutex;
use walk::{Diagnostics, Dir, EngineKind, Entry, Meta, Moment, MountContext, Sink, Totals, Worker};

use super::heap::{DirectoryRows, Heap, key};
use super::order::{OrderedRows, order};
use super::packed::{Packed, RowClass, SharedValues};
use super::tree::{Rows, Source};
use crate::part::{CachedPart, Part, Parts};
use crate::tick::wait_for_tick;
use crate::warning::WarningKind;

/// A sink that collects the entries of a walk as rows.
#[derive(Debug)]
pub struct Collector<'a> {
    sources: Vec<Source>,
    /// For each DIR of the walk, the index of its SRC.
    dirs: Vec<u32>,
    /// Whether tokens of file systems are taken.
    with_tokens: bool,
    diagnostics: &'a Diagnostics,
    parts: Parts,
    begun: Moment,
    common: Mutex<SharedValues>,
    heap: Mutex<Heap>,
    /// Totals over all entries, if requested.
    sum: Option<Mutex<Totals>>,
    /// Approximate number of entries, if known.
    expected: Option<u64>,
    is_full: AtomicBool,
    /// Maximum number of SRCs kept open: a fraction of RLIMIT_NOFILE.
    most_open: usize,
}

impl<'a> Collector<'a> {
    /// Creates an empty collector. `dirs` has the indexes of the walked sources. `for_catalog` is
    /// the time at which the walk began, if the result is written to a catalog.
    pub fn new(
        sources: Vec<Source>,
        dirs: Vec<u32>,
        for_catalog: Option<Moment>,
        diagnostics: &'a Diagnostics,
    ) -> Collector<'a> {
        Collector {
            parts: Parts::new(sources.iter().map(|source| source.path.clone()).collect()),
            sources,
            dirs,
            with_tokens: for_catalog.is_some(),
            diagnostics,
            begun: for_catalog.unwrap_or_else(Moment::now),
            common: Mutex::default(),
            heap: Mutex::default(),
            sum: None,
            expected: None,
            is_full: AtomicBool::new(false),
            most_open: spare_open_files() / 8,
        }
    }

    /// Makes the collector sum up the entries, too. `expected` is the approximate number of
    /// entries, if known.
    pub fn with_sum(self, expected: Option<u64>) -> Collector<'a> {
        Collector {
            sum: Some(Mutex::default()),
            expected,
            ..self
        }
    }

    /// For a catalog: waits until new changes get a later ctime than all changes before the
    /// collection began. `magic` is the `f_type` of the file system.
    pub fn wait(&self, magic: Option<u64>) {
        if self.with_tokens {
            wait_for_tick(&self.begun, magic);
        }
    }

    /// Keeps a SRC open until its files are read. An open SRC cannot be replaced, and keeps its
    /// inode number, which some servers reassign. Without a spare descriptor, the SRC is reopened
    /// later and compared.
    fn keep_open(&self, source: u32, open: impl FnOnce() -> gate::Result<Fd>) {
        if (source as usize) < self.most_open
            && let Ok(open) = open()
        {
            self.sources[source as usize]
                .open
                .get_or_init(|| Arc::new(open));
        }
    }

    /// Records a mount of which only listed names are collected, without a token, which would prove
    /// nothing. The first call is for the mount of SRC, with an engine.
    pub fn begin_listed(&self, mount: &MountContext<'_>, by: Option<EngineKind>) {
        self.parts.begin_listed(mount, by);
        if by.is_some() {
            self.keep_open(0, || mount.top.fd.try_clone());
        }
        self.wait(Some(mount.statfs.magic));
    }

    /// Adds a SRC that is no directory, with its metadata and an open descriptor.
    pub fn add(&self, source: u32, meta: &Meta, open: Fd) {
        self.keep_open(source, || Ok(open));
        self.parts.turn_to(source as usize);
        let mut batch = RowBatch::new(self);
        let path = &self.sources[source as usize].path;
        let row = batch.pack(&meta.lasting(), path, b"");
        batch.heap.sources.push((source, 0));
        batch.heap.rows.push(row);
    }

    /// The SRCs, in order.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// The file systems of the tree.
    pub fn parts(&self, engines: impl Iterator<Item = EngineKind>) -> Vec<Part> {
        self.parts.all(engines)
    }

    /// Totals over all entries, if requested, and if equal to the totals that a catalog of these
    /// entries would have.
    pub fn totals(&self) -> Option<Totals> {
        // The walk numbers only the sources that are directories. With other sources, the numbers
        // and so the digest differ from those of a catalog.
        let is_each_walked = self.dirs.len() == self.sources.len();
        Some(*self.sum.as_ref().filter(|_| is_each_walked)?.lock())
    }

    /// Sorts the rows into archive order.
    pub fn finish(self, engines: impl Iterator<Item = EngineKind>) -> Rows {
        let (parts, totals) = (self.parts.all(engines), self.totals());
        let heap = self.heap.into_inner();
        let common = self.common.into_inner();
        let mut sources = self.sources;
        let OrderedRows {
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
            self.diagnostics.warn(Warning::general(kind));
        }
        // The rows of a SRC end where those of the next begin.
        let mut end = order.len();
        for (number, source) in sources.iter_mut().enumerate().rev() {
            let first = firsts.binary_search_by_key(&(number as u32), |&(source, _)| source);
            let first = first.map_or(end, |at| firsts[at].1 as usize);
            source.rows = first..end;
            end = first;
        }
        // Totals are invalid if entries were emitted twice or lost.
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
    fn begin(&self, mount: &MountContext<'_>, by: EngineKind) {
        if mount.top.key.depth == 0
            && let Some(&source) = self.dirs.get(mount.top.key.hash as usize)
        {
            self.parts.turn_to(source as usize);
            self.keep_open(source, || mount.top.fd.try_clone());
        }
        self.parts.begin(mount, by, self.with_tokens);
        let statfs = &mount.statfs;
        let used = statfs.files.saturating_sub(statfs.files_free);
        let expected = used.max(self.expected.unwrap_or(0));
        self.heap.lock().expect(expected);
        self.wait(Some(statfs.magic));
    }

    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(RowBatch::new(self))
    }

    fn is_closed(&self) -> bool {
        self.is_full.load(Relaxed)
    }
}

/// The rows of one thread, before they are appended to the heap.
struct RowBatch<'a> {
    to: &'a Collector<'a>,
    heap: Heap,
    sum: Totals,
    last: Option<CachedPart>,
    /// The class of the last row and its number, a shortcut because most rows have the same class
    /// as the previous row.
    class: Option<(RowClass, u32)>,
    classes: HashMap<RowClass, u32>,
}

impl<'a> RowBatch<'a> {
    /// Number of rows appended to the heap at a time.
    const ROWS: usize = 1 << 10;

    fn new(to: &'a Collector<'a>) -> RowBatch<'a> {
        RowBatch {
            to,
            heap: Heap::default(),
            sum: Totals::default(),
            last: None,
            class: None,
            classes: HashMap::new(),
        }
    }

    fn pack(&mut self, meta: &Meta, dir: &[u8], name: &[u8]) -> Packed {
        let part = self.to.parts.find(&mut self.last, meta, dir, name);
        let class = RowClass::new(meta, part.number);
        let number = match self.class {
            Some((last, number)) if last == class => number,
            _ => *self
                .classes
                .entry(class)
                .or_insert_with(|| self.to.common.lock().class(class)),
        };
        self.class = Some((class, number));
        Packed {
            name: self.heap.names.add(name),
            ..Packed::new(meta, number, |wide| self.to.common.lock().keep(wide))
        }
    }

    fn flush(&mut self) {
        let fits = self.to.heap.lock().append(&mut self.heap);
        if !fits {
            self.heap = Heap::default();
            if !self.to.is_full.swap(true, Relaxed) {
                let kind = WarningKind::TooManyEntries(Heap::MOST);
                self.to.diagnostics.warn(Warning::general(kind));
            }
        }
    }
}

impl Worker for RowBatch<'_> {
    fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        let to = self.to;
        for entry in entries {
            let number = self.heap.rows.len() as u32;
            let entry = &Entry {
                meta: entry.meta.lasting(),
                ..*entry
            };
            if to.sum.is_some() {
                self.sum.add(dir, entry);
            }
            let row = self.pack(&entry.meta, dir.path, entry.name);
            if entry.name.is_empty() {
                if let Some(&source) = to.dirs.get(dir.key.hash as usize) {
                    self.heap.sources.push((source, number));
                }
            } else {
                let key = key(dir.key);
                match self.heap.pieces.last_mut() {
                    Some(last) if last.dir == key && last.rows.end == number => last.rows.end += 1,
                    _ => self.heap.pieces.push(DirectoryRows {
                        dir: key,
                        rows: number..number + 1,
                    }),
                }
            }
            if entry.meta.is_dir() {
                self.heap.dirs.push((key(dir.key.at(entry.name)), number));
            }
            self.heap.rows.push(row);
        }
        if self.heap.rows.len() >= RowBatch::ROWS {
            self.flush();
        }
    }
}

impl Drop for RowBatch<'_> {
    fn drop(&mut self) {
        self.flush();
        if let Some(sum) = &self.to.sum {
            sum.lock().merge(&self.sum);
        }
    }
}
