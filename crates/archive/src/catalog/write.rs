//! Writes a catalog: a sink that anything can walk into.
//!
//! ```text
//! worker ─ chunk ─┐                      ┌─ sort, encode ─┐
//! worker ─ chunk ─┼─► pool ─ a row group ┤                ├─► file, one at a time
//! worker ─ chunk ─┘                      └─ sort, encode ─┘
//! ```
//!
//! Each worker fills chunks of its own. Who hands in the chunk that makes a row group complete
//! sorts it and encodes it, while the others go on; no more than so many do so at once, and the
//! rest wait, so that memory is bounded whatever the number of threads.

use bytes::Bytes;
use gate::sync::{Condvar, Mutex, MutexGuard};
use parquet::errors::Result;
use walk::entry::Time;
use walk::moment::may_be_since;
use walk::{Dir, EngineKind, Entry, Meta, Moment, MountContext, Sink, Totals, WalkReport, Worker};

use super::about::{About, Options, Root};
use super::column::Encoded;
use super::output::{GROUP, Layout, MOST_AT_ONCE, Output, Sealed};
use super::schema::{COLUMNS, Record};
use crate::error::{Error, ErrorKind};
use crate::head;
use crate::part::{Last, Parts, relative};
use crate::tick::{after_a_tick, before_a_tick, wait_for_tick};

/// Rows that a worker gathers before it hands them in.
const CHUNK: usize = 4 << 10;

/// A catalog being written.
pub struct Catalog {
    root: Root,
    options: Options,
    parts: Parts,
    begun: Moment,
    started: Time,
    layout: Layout,
    pool: Mutex<Pool>,
    room: Condvar,
    out: Mutex<Output>,
}

/// What has been handed in, and how it goes.
#[derive(Default)]
struct Pool {
    chunks: Vec<Chunk>,
    rows: usize,
    /// Empty ones, to be filled again: memory that one thread takes and another gives back goes to
    /// waste.
    spare: Vec<Chunk>,
    encoding: usize,
    totals: Totals,
    racy: u64,
    failed: Option<ErrorKind>,
}

/// Rows of some directories, in the order in which they came.
#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    dirs: Vec<(usize, usize)>,
    rows: Vec<Raw>,
}

struct Raw {
    meta: Meta,
    part: u32,
    dir: u32,
    name: (usize, usize),
}

impl Catalog {
    /// Makes ready to write the catalog of `dir` (as it is given to the walk) into a file, which
    /// appears under its name only in [`Catalog::finish`].
    ///
    /// # Errors
    /// The file cannot be written there.
    pub fn create(
        file: &[u8],
        dir: &[u8],
        options: Options,
    ) -> std::result::Result<Catalog, Error> {
        let (layout, out) = Output::create(file)?;
        let begun = Moment::now();
        Ok(Catalog {
            root: Root {
                path: dir.to_vec(),
                absolute: crate::absolute(dir),
            },
            options,
            parts: Parts::new(vec![dir.to_vec()]),
            begun,
            started: after_a_tick(begun.time()),
            layout,
            pool: Mutex::default(),
            room: Condvar::new(),
            out: Mutex::new(out),
        })
    }

    /// Writes the rest, and gives the file its name. `complete` says that nothing was skipped.
    ///
    /// # Errors
    /// It could not be written; whatever had the name has it still.
    pub fn finish(self, answer: &WalkReport, complete: bool) -> std::result::Result<About, Error> {
        self.seal(answer, complete)?.publish()
    }

    /// Writes the rest. `complete` says that nothing was skipped.
    ///
    /// # Errors
    /// It could not be written.
    pub fn seal(self, answer: &WalkReport, complete: bool) -> std::result::Result<Sealed, Error> {
        self.encode_rest();
        let pool = self.pool.into_inner();
        let out = self.out.into_inner();
        if let Some(error) = pool.failed {
            return Err(out.error(error));
        }
        let started = after_a_tick(self.begun.time()).min(self.started);
        out.seal(About {
            roots: vec![self.root],
            started,
            finished: Moment::now().time(),
            entries: pool.totals.entries,
            // The clock has been set back meanwhile: any of them may be.
            racy: if started < self.started {
                pool.totals.entries
            } else {
                pool.racy
            },
            digest: pool.totals.digest.to_string(),
            complete,
            options: self.options,
            parts: self
                .parts
                .all(answer.parts.iter().map(|walked| walked.engine)),
            ..About::default()
        })
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock()
    }

    /// Takes a chunk, and if that completes a row group, encodes it.
    fn hand_in(&self, chunk: Chunk, totals: &Totals, racy: u64) {
        let mut pool = self.pool();
        pool.totals.merge(totals);
        pool.racy += racy;
        pool.rows += chunk.rows.len();
        pool.chunks.push(chunk);
        // Who waits has handed in all it had, so that those who wait add a chunk each and no more.
        while pool.rows >= GROUP
            && pool.encoding >= MOST_AT_ONCE.min(self.layout.processors)
            && pool.failed.is_none()
        {
            pool = self.room.wait(pool);
        }
        if pool.failed.is_some() {
            pool.chunks.clear(); // nobody will want them
        } else if pool.rows >= GROUP {
            let chunks = std::mem::take(&mut pool.chunks);
            pool.rows = 0;
            pool.encoding += 1;
            drop(pool);
            let sorted = Sorted::new(chunks);
            let columns =
                self.layout
                    .encode((0..COLUMNS.len()).collect(), sorted.order.len(), |nth| {
                        sorted.row(nth)
                    });
            let spare = sorted.into_chunks();
            self.append(
                columns.map(|columns| columns.into_iter().map(|(_, encoded)| encoded).collect()),
            );
            let mut pool = self.pool();
            pool.encoding -= 1;
            pool.spare.extend(spare);
            drop(pool);
            self.room.notify_all();
        }
    }

    /// Encodes what is left: nothing else is going on any more.
    fn encode_rest(&self) {
        let chunks = std::mem::take(&mut self.pool().chunks);
        if !chunks.is_empty() {
            let rows = Sorted::new(chunks);
            self.append(
                self.layout
                    .encode_together(rows.order.len(), |nth| rows.row(nth)),
            );
        }
    }

    /// Writes a row group.
    fn append(&self, columns: Result<Vec<Encoded>>) {
        let mut out = self.out.lock();
        let written = columns.and_then(|columns| out.append(columns));
        drop(out);
        if let Err(e) = written {
            self.pool().failed.get_or_insert(e.into());
        }
    }
}

impl Sink for Catalog {
    fn begin(&self, ground: &MountContext<'_>, by: EngineKind) {
        self.parts.begin(ground, by, true);
        wait_for_tick(&self.begun, Some(ground.statfs.magic));
    }

    fn worker(&self) -> Box<dyn Worker + '_> {
        let at_rest_before = before_a_tick(self.started);
        Box::new(Hand {
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

struct Hand<'a> {
    chunk: Chunk,
    totals: Totals,
    racy: u64,
    at_rest_before: Time,
    last: Option<Last>,
    to: &'a Catalog,
}

impl Worker for Hand<'_> {
    fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        if entries.is_empty() {
            return;
        }
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
            let part = self
                .to
                .parts
                .number(&mut self.last, &meta, dir.path, entry.name);
            self.totals.add(dir, entry);
            self.racy += u64::from(may_be_since(meta.ctime, self.at_rest_before));
            chunk.rows.push(Raw {
                meta,
                part,
                dir: chunk.dirs.len() as u32,
                name,
            });
        }
        chunk.dirs.push(kept_dir);
        if chunk.rows.len() >= CHUNK {
            self.hand_in();
        }
    }
}

impl Hand<'_> {
    fn hand_in(&mut self) {
        let spare = self.to.pool().spare.pop();
        let new = || Chunk {
            rows: Vec::with_capacity(CHUNK + CHUNK / 4),
            ..Chunk::default()
        };
        let empty = spare.unwrap_or_else(new);
        let (chunk, totals) = (
            std::mem::replace(&mut self.chunk, empty),
            std::mem::take(&mut self.totals),
        );
        self.to
            .hand_in(chunk, &totals, std::mem::take(&mut self.racy));
    }
}

impl Drop for Hand<'_> {
    fn drop(&mut self) {
        if !self.chunk.rows.is_empty() {
            self.hand_in();
        }
    }
}

/// The rows of some chunks, sorted by directory, and by name within each.
struct Sorted {
    chunks: Vec<Frozen>,
    dirs: Vec<Bytes>,
    order: Vec<Place>,
}

/// A chunk that no longer grows.
struct Frozen {
    bytes: Bytes,
    dirs: Vec<(usize, usize)>,
    rows: Vec<Raw>,
    /// The place of each of its directories among all.
    ranks: Vec<u32>,
}

/// Where a row is.
#[derive(Clone, Copy, Default)]
struct Place {
    /// The first eight bytes of the name.
    head: u64,
    chunk: u32,
    row: u32,
}

/// Sorts the directories of some chunks, and gives each its place among them.
fn rank_directories(chunks: Vec<Chunk>) -> (Vec<Frozen>, Vec<Bytes>) {
    let mut all: Vec<(Bytes, usize, usize)> = Vec::new();
    let mut frozen: Vec<Frozen> = Vec::with_capacity(chunks.len());
    for (nth, Chunk { bytes, dirs, rows }) in chunks.into_iter().enumerate() {
        let bytes = Bytes::from(bytes);
        let places = dirs.iter().enumerate();
        all.extend(places.map(|(dir, &(from, to))| (bytes.slice(from..to), nth, dir)));
        frozen.push(Frozen {
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

/// Orders rows by directory, by counting how many each has; gives where each directory ends.
fn by_directory(chunks: &[Frozen], dirs: usize) -> (Vec<Place>, Vec<usize>) {
    let mut ends = vec![0usize; dirs + 1];
    for chunk in chunks {
        for raw in &chunk.rows {
            ends[chunk.ranks[raw.dir as usize] as usize + 1] += 1;
        }
    }
    for dir in 1..ends.len() {
        ends[dir] += ends[dir - 1];
    }
    let mut order = vec![Place::default(); ends[dirs]];
    for (nth, chunk) in chunks.iter().enumerate() {
        for (row, raw) in chunk.rows.iter().enumerate() {
            let name = &chunk.bytes[raw.name.0..raw.name.1];
            // Where the directory begins; when all its rows are placed, where it ends.
            let end = &mut ends[chunk.ranks[raw.dir as usize] as usize];
            order[*end] = Place {
                head: head(name),
                chunk: nth as u32,
                row: row as u32,
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
        let name = |place: &Place| {
            let chunk = &chunks[place.chunk as usize];
            let (from, to) = chunk.rows[place.row as usize].name;
            &chunk.bytes[from..to]
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

    /// The chunks, empty.
    fn into_chunks(self) -> impl Iterator<Item = Chunk> {
        drop(self.dirs);
        self.chunks.into_iter().map(|chunk| {
            let Frozen {
                bytes,
                mut dirs,
                mut rows,
                ..
            } = chunk;
            let mut bytes = Vec::from(bytes);
            bytes.clear();
            dirs.clear();
            rows.clear();
            Chunk { bytes, dirs, rows }
        })
    }

    fn row(&self, nth: usize) -> Record<'_> {
        let place = self.order[nth];
        let chunk = &self.chunks[place.chunk as usize];
        let raw = &chunk.rows[place.row as usize];
        let dir = &self.dirs[chunk.ranks[raw.dir as usize] as usize];
        let name = &chunk.bytes[raw.name.0..raw.name.1];
        Record {
            meta: raw.meta,
            part: raw.part,
            top: 0,
            blake3: None,
            dir,
            name,
        }
    }
}
