//! A sink that writes the catalog of a walk.
//!
//! ```text
//! worker ─ chunk ─┐                      ┌─ sort, encode ─┐
//! worker ─ chunk ─┼─► pool ─ a row group ┤                ├─► file, one at a time
//! worker ─ chunk ─┘                      └─ sort, encode ─┘
//! ```
//!
//! Each worker fills its own chunks. The worker whose chunk completes a row group sorts and encodes
//! it, while the others continue. The number of workers that encode at the same time is limited and
//! further ones wait, so that memory is bounded for any number of threads.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use gate::sync::{Condvar, Mutex, MutexGuard};
use parquet::errors::Result as ParquetResult;
use walk::entry::Time;
use walk::{Dir, EngineKind, Entry, Meta, Moment, MountContext, Sink, Totals, WalkReport, Worker};

use super::about::{About, Options, Root};
use super::output::{CatalogOutput, EncodedGroup, Encoder, MOST_AT_ONCE, SealedCatalog};
use super::schema::{GROUP, GROUP_BYTES, Record};
use crate::error::{Error, ErrorKind};
use crate::head;
use crate::part::{CachedPart, Parts, may_have_changed, relative};
use crate::tick::{after_a_tick, before_a_tick, wait_for_tick};

/// Maximum rows that a worker collects in a chunk. All workers together hold at most half a row
/// group, plus a few rows each.
const CHUNK: usize = 4 << 10;
/// Minimum rows in a chunk.
const LEAST_CHUNK: usize = 256;
/// Bytes of names and paths at which a worker passes its chunk to the pool.
const CHUNK_BYTES: usize = GROUP_BYTES / 16;

/// The catalog of a walk, being written.
pub struct Catalog {
    root: Root,
    options: Options,
    parts: Parts,
    begun: Moment,
    started: Time,
    encoder: Encoder,
    pool: Mutex<Pool>,
    room: Condvar,
    out: Mutex<CatalogOutput>,
    workers: AtomicUsize,
}

#[derive(Default)]
struct Pool {
    chunks: Vec<Chunk>,
    rows: usize,
    /// Total bytes of names and paths in the collected chunks.
    bytes: usize,
    /// Empty chunks for reuse: memory allocated in one thread and freed in another fragments the
    /// heap.
    spare: Vec<Chunk>,
    encoding: usize,
    totals: Totals,
    racy: u64,
    failed: Option<ErrorKind>,
}

/// Rows of some directories, in the order in which they were emitted.
#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    dirs: Vec<(usize, usize)>,
    rows: Vec<QueuedEntry>,
}

impl Pool {
    fn is_enough(&self) -> bool {
        self.rows >= GROUP || self.bytes >= GROUP_BYTES
    }
}

struct QueuedEntry {
    meta: Meta,
    part: u32,
    dir: u32,
    name: (usize, usize),
}

impl Catalog {
    /// Creates the file of a catalog of `dir` (as passed to the walk), renamed into place by
    /// [`Catalog::finish`].
    pub fn create(file: &[u8], dir: &[u8], options: Options) -> Result<Catalog, Error> {
        let (encoder, out) = CatalogOutput::create(file)?;
        let begun = Moment::now();
        Ok(Catalog {
            root: Root::new(dir),
            options,
            parts: Parts::new(vec![dir.to_vec()]),
            begun,
            started: after_a_tick(begun.time()),
            encoder,
            pool: Mutex::default(),
            room: Condvar::new(),
            out: Mutex::new(out),
            workers: AtomicUsize::new(0),
        })
    }

    /// Writes the remaining rows, and renames the file into place. `complete`: the walk skipped no
    /// entry.
    pub fn finish(self, report: &WalkReport, complete: bool) -> Result<About, Error> {
        self.seal(report, complete)?.publish()
    }

    /// Writes the remaining rows. `complete`: the walk skipped no entry.
    pub fn seal(self, report: &WalkReport, complete: bool) -> Result<SealedCatalog, Error> {
        let chunks = std::mem::take(&mut self.pool().chunks);
        if !chunks.is_empty() {
            let sorted = Sorted::new(chunks);
            let rows = sorted.order.len();
            self.append(self.encoder.encode_together(rows, |nth| sorted.row(nth)));
        }
        let pool = self.pool.into_inner();
        let out = self.out.into_inner();
        if let Some(error) = pool.failed {
            return Err(out.error(error));
        }
        let entries = pool.totals.entries;
        let started = after_a_tick(self.begun.time()).min(self.started);
        // If the clock was set back during the walk, any entry may be racy.
        let is_set_back = started < self.started;
        let engines = report.parts.iter().map(|walked| walked.engine);
        out.seal(About {
            roots: vec![self.root],
            started,
            finished: Moment::now().time(),
            entries,
            racy: if is_set_back { entries } else { pool.racy },
            digest: pool.totals.digest.to_string(),
            complete,
            options: self.options,
            parts: self.parts.all(engines),
            ..About::default()
        })
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock()
    }

    /// Adds a chunk to the pool. If the chunk completes a row group, encodes the row group.
    fn add(&self, chunk: Chunk, totals: &Totals, racy: u64) {
        let mut pool = self.pool();
        pool.totals.merge(totals);
        pool.racy += racy;
        pool.rows += chunk.rows.len();
        pool.bytes += chunk.bytes.len();
        pool.chunks.push(chunk);
        // A worker that waits here has passed on all its rows. So each worker adds at most one
        // chunk to a full pool.
        while pool.is_enough()
            && pool.encoding >= MOST_AT_ONCE.min(self.encoder.processors)
            && pool.failed.is_none()
        {
            pool = self.room.wait(pool);
        }
        if pool.failed.is_some() {
            pool.chunks.clear();
        } else if pool.is_enough() {
            let chunks = std::mem::take(&mut pool.chunks);
            (pool.rows, pool.bytes) = (0, 0);
            pool.encoding += 1;
            drop(pool);
            let sorted = Sorted::new(chunks);
            let rows = sorted.order.len();
            let columns = self.encoder.encode(rows, |nth| sorted.row(nth));
            let spare = sorted.into_chunks();
            self.append(columns);
            let mut pool = self.pool();
            pool.encoding -= 1;
            pool.spare.extend(spare);
            drop(pool);
            self.room.notify_all();
        }
    }

    fn append(&self, group: ParquetResult<EncodedGroup>) {
        let written = group.and_then(|group| self.out.lock().append(group));
        if let Err(e) = written {
            self.pool().failed.get_or_insert(e.into());
        }
    }
}

impl Sink for Catalog {
    fn begin(&self, mount: &MountContext<'_>, by: EngineKind) {
        self.parts.begin(mount, by, true);
        wait_for_tick(&self.begun, Some(mount.statfs.magic));
    }

    fn worker(&self) -> Box<dyn Worker + '_> {
        let at_rest_before = before_a_tick(self.started);
        self.workers.fetch_add(1, Relaxed);
        Box::new(ChunkCollector {
            chunk: Chunk::default(),
            totals: Totals::default(),
            racy: 0,
            at_rest_before,
            last: None,
            to: self,
        })
    }

    fn is_closed(&self) -> bool {
        self.pool().failed.is_some()
    }
}

struct ChunkCollector<'a> {
    chunk: Chunk,
    totals: Totals,
    racy: u64,
    at_rest_before: Time,
    last: Option<CachedPart>,
    to: &'a Catalog,
}

impl Worker for ChunkCollector<'_> {
    fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        // Split large directories, because an engine may emit any number of entries at once, and
        // readers limit the rows of a row group.
        entries
            .chunks(CHUNK)
            .for_each(|some| self.take_some(dir, some));
    }
}

impl ChunkCollector<'_> {
    fn take_some(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        let chunk = &mut self.chunk;
        let mut keep = |bytes: &[u8]| {
            let from = chunk.bytes.len();
            chunk.bytes.extend_from_slice(bytes);
            (from, from + bytes.len())
        };
        let kept_dir = keep(relative(&self.to.root.path, dir.path));
        for entry in entries {
            let name = keep(entry.name);
            let meta = entry.meta.lasting();
            let parts = &self.to.parts;
            let part = parts.find(&mut self.last, &meta, dir.path, entry.name);
            self.totals.add(dir, entry);
            self.racy += u64::from(may_have_changed(&meta, part.magic, self.at_rest_before));
            chunk.rows.push(QueuedEntry {
                meta,
                part: part.number,
                dir: chunk.dirs.len() as u32,
                name,
            });
        }
        chunk.dirs.push(kept_dir);
        let share = GROUP / 2 / self.to.workers.load(Relaxed).max(1);
        if chunk.rows.len() >= share.clamp(LEAST_CHUNK, CHUNK) || chunk.bytes.len() >= CHUNK_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let spare = self.to.pool().spare.pop();
        let empty = spare.unwrap_or_else(|| Chunk {
            rows: Vec::with_capacity(CHUNK + CHUNK / 4),
            ..Chunk::default()
        });
        let chunk = std::mem::replace(&mut self.chunk, empty);
        let totals = std::mem::take(&mut self.totals);
        self.to.add(chunk, &totals, std::mem::take(&mut self.racy));
    }
}

impl Drop for ChunkCollector<'_> {
    fn drop(&mut self) {
        if !self.chunk.rows.is_empty() {
            self.flush();
        }
        self.to.workers.fetch_sub(1, Relaxed);
    }
}

/// The rows of some chunks, sorted by directory, and by name within a directory.
struct Sorted {
    chunks: Vec<FrozenChunk>,
    dirs: Vec<Bytes>,
    order: Vec<RowPlace>,
}

/// A chunk to which no more rows are added.
struct FrozenChunk {
    bytes: Bytes,
    dirs: Vec<(usize, usize)>,
    rows: Vec<QueuedEntry>,
    /// For each directory of the chunk, its position among the sorted directories of all chunks.
    ranks: Vec<u32>,
}

impl FrozenChunk {
    fn name(&self, row: &QueuedEntry) -> &[u8] {
        &self.bytes[row.name.0..row.name.1]
    }

    fn rank(&self, row: &QueuedEntry) -> usize {
        self.ranks[row.dir as usize] as usize
    }
}

/// The location of a row, with a sort key.
#[derive(Clone, Copy, Default)]
struct RowPlace {
    /// The first eight bytes of the name.
    head: u64,
    chunk: u32,
    row: u32,
}

/// Sorts the directories of some chunks, and records the position of each.
fn rank_directories(chunks: Vec<Chunk>) -> (Vec<FrozenChunk>, Vec<Bytes>) {
    let mut all: Vec<(Bytes, usize, usize)> = Vec::new();
    let mut frozen: Vec<FrozenChunk> = Vec::with_capacity(chunks.len());
    for (nth, Chunk { bytes, dirs, rows }) in chunks.into_iter().enumerate() {
        let bytes = Bytes::from(bytes);
        let places = dirs.iter().enumerate();
        all.extend(places.map(|(dir, &(from, to))| (bytes.slice(from..to), nth, dir)));
        frozen.push(FrozenChunk {
            ranks: vec![0; dirs.len()],
            bytes,
            dirs,
            rows,
        });
    }
    all.sort_unstable();
    let mut dirs: Vec<Bytes> = Vec::new();
    for (dir, nth, at) in all {
        if dirs.last() != Some(&dir) {
            dirs.push(dir);
        }
        frozen[nth].ranks[at] = dirs.len() as u32 - 1;
    }
    (frozen, dirs)
}

/// Sorts rows by directory with a counting sort; also returns the end of each directory.
fn by_directory(chunks: &[FrozenChunk], dirs: usize) -> (Vec<RowPlace>, Vec<usize>) {
    let mut ends = vec![0usize; dirs + 1];
    for chunk in chunks {
        for row in &chunk.rows {
            ends[chunk.rank(row) + 1] += 1;
        }
    }
    for dir in 1..ends.len() {
        ends[dir] += ends[dir - 1];
    }
    let mut order = vec![RowPlace::default(); ends[dirs]];
    for (nth, chunk) in chunks.iter().enumerate() {
        for (at, row) in chunk.rows.iter().enumerate() {
            // `ends` has the start of the directory at first, and its end once all rows of the
            // directory are placed.
            let end = &mut ends[chunk.rank(row)];
            order[*end] = RowPlace {
                head: head(chunk.name(row)),
                chunk: nth as u32,
                row: at as u32,
            };
            *end += 1;
        }
    }
    ends.truncate(dirs);
    (order, ends)
}

impl Sorted {
    fn new(chunks: Vec<Chunk>) -> Sorted {
        let (chunks, dirs) = rank_directories(chunks);
        let (mut order, ends) = by_directory(&chunks, dirs.len());
        let name = |place: &RowPlace| {
            let chunk = &chunks[place.chunk as usize];
            chunk.name(&chunk.rows[place.row as usize])
        };
        let mut from = 0;
        for end in ends {
            order[from..end]
                .sort_unstable_by(|a, b| a.head.cmp(&b.head).then_with(|| name(a).cmp(name(b))));
            from = end;
        }
        Sorted {
            chunks,
            dirs,
            order,
        }
    }

    /// Empties the chunks for reuse.
    fn into_chunks(self) -> impl Iterator<Item = Chunk> {
        // `Vec::from` can reuse a chunk's buffer only after all slices of it are dropped.
        drop(self.dirs);
        self.chunks.into_iter().map(|chunk| {
            let (mut bytes, mut dirs, mut rows) = (Vec::from(chunk.bytes), chunk.dirs, chunk.rows);
            bytes.clear();
            dirs.clear();
            rows.clear();
            Chunk { bytes, dirs, rows }
        })
    }

    fn row(&self, nth: usize) -> Record<'_> {
        let place = self.order[nth];
        let chunk = &self.chunks[place.chunk as usize];
        let row = &chunk.rows[place.row as usize];
        Record {
            meta: row.meta,
            part: row.part,
            top: 0,
            blake3: None,
            dir: &self.dirs[chunk.rank(row)],
            name: chunk.name(row),
        }
    }
}
