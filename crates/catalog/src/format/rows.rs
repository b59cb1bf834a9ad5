//! Writes the catalog of a tree that is in memory, in the order of the tree's rows. A dump writes
//! the catalog while it still writes the archive.
//!
//! ```text
//! rows ─┬─ a row group: look up, encode ─┬─► file, in their order
//!       └─ a row group: look up, encode ─┘
//! ```

use std::collections::HashMap;
use std::ops::Range;

use base::pool::{OnPanic, in_threads};
use gate::attribution::{Function, with_function};
use gate::sync::{Condvar, Mutex};
use ondisk::pax::ArchiveId;
use parquet::errors::Result as ParquetResult;
use walk::digest::{self, Digest};
use walk::entry::append;
use walk::{Dir, DirKey, Entry, Meta, Moment};

use super::about::{About, Options, Root, SnapshotRecord};
use super::output::{
    CatalogOutput, EncodedGroup, Encoder, MOST_AT_ONCE, SealedCatalog, rows_of_group,
};
use super::schema::{GROUP_BYTES, Record};
use super::sums::Sums;
use crate::error::{Error, ErrorKind};
use crate::part::{magic_of, may_have_changed};
use crate::rows::Rows;
use crate::since::GoneMount;
use crate::tick::before_a_tick;

/// Checksums of rows, and changes of their metadata, that became known after the rows were
/// collected.
#[derive(Debug, Default)]
pub struct RowUpdates {
    /// Checksum of each row's contents, if known.
    pub hashes: Vec<Option<[u8; 32]>>,
    /// New metadata, by row number, of rows that have changed since they were collected.
    pub amended: HashMap<usize, Meta>,
}

/// The file of a catalog, before its rows are written.
pub struct CatalogDraft {
    encoder: Encoder,
    out: CatalogOutput,
    /// What is recorded besides the rows.
    about: About,
}

impl CatalogDraft {
    /// Creates the file of a catalog, which [`SealedCatalog::publish`] renames into place.
    pub fn create(file: &[u8]) -> Result<CatalogDraft, Error> {
        let (encoder, out) = CatalogOutput::create(file)?;
        Ok(CatalogDraft {
            encoder,
            out,
            about: About::default(),
        })
    }

    /// Records the id of the archive.
    #[must_use]
    pub fn with_archive(mut self, id: ArchiveId) -> CatalogDraft {
        self.about.archive = Some(id);
        self
    }

    /// Records the mounts that have disappeared.
    #[must_use]
    pub fn with_gone_mounts(mut self, gone_mounts: Vec<GoneMount>) -> CatalogDraft {
        self.about.gone_mounts = gone_mounts;
        self
    }

    /// Records the snapshot made of the rows.
    #[must_use]
    pub fn with_snapshot(mut self, snapshot: Option<SnapshotRecord>) -> CatalogDraft {
        self.about.snapshot = snapshot;
        self
    }

    /// Writes the rows that `keep` selects. For each row group in order, `next` waits until its
    /// rows are final, and `later` converts the result. After the last row, `is_complete` tells
    /// whether nothing was skipped: otherwise the catalog gets no tokens, so that a comparison with
    /// it reads the whole tree.
    ///
    /// # Errors
    /// The file cannot be written, or `next` or `later` fails.
    pub fn write<P>(
        self,
        rows: &Rows,
        options: Options,
        keep: impl Fn(usize) -> RowInclusion + Sync,
        next: impl FnMut() -> Result<P, Error> + Send,
        later: impl Fn(Range<usize>, P) -> Result<RowUpdates, Error> + Sync,
        is_complete: impl FnOnce() -> bool,
    ) -> Result<SealedCatalog, Error> {
        let CatalogDraft {
            encoder,
            out,
            about,
        } = self;
        let groups = Groups {
            rows,
            size: rows_of_group(rows.len()),
            encoder: &encoder,
            keep,
            next: Mutex::new((0, next)),
            later,
        };
        let queue = RowGroupQueue {
            state: Mutex::new(WriterState {
                out,
                written: 0,
                failed: None,
            }),
            turn: Condvar::new(),
        };
        let sums = groups.write_all(&queue);
        let WriterState { out, failed, .. } = queue.state.into_inner();
        if let Some(error) = failed {
            return Err(error);
        }
        let begin = rows
            .totals()
            .map_or(RowTotals::default(), |known| RowTotals {
                entries: known.entries,
                sums: Sums {
                    digest: known.digest,
                    ..Sums::default()
                },
                ..RowTotals::default()
            });
        let sum = sums.into_iter().fold(begin, RowTotals::with);
        let is_rank = options.shard.as_ref().is_some_and(|part| part.by_ranks);
        let complete = is_complete() && !sum.is_partial;
        let mut parts = rows.parts().to_vec();
        if !complete {
            parts.iter_mut().for_each(|part| part.token = None);
        }
        let roots = rows.sources().iter().map(|source| Root {
            path: source.path.clone(),
            absolute: source.absolute.clone(),
        });
        out.seal(About {
            roots: roots.collect(),
            started: rows.started(),
            finished: Moment::now().time(),
            entries: sum.entries,
            racy: sum.racy,
            above: is_rank.then(|| format!("{:016x}", sum.sums.above)),
            digest: sum.sums.digest.to_string(),
            complete,
            options,
            parts,
            snapshot: about.snapshot.filter(|_| complete),
            ..about
        })
    }
}

/// Encodes and writes the row groups of a catalog.
struct Groups<'a, K, N, L> {
    rows: &'a Rows,
    /// Number of rows per row group.
    size: usize,
    encoder: &'a Encoder,
    keep: K,
    /// Index of the next row group, and the function that waits until its rows are final.
    next: Mutex<(usize, N)>,
    later: L,
}

impl<P, K, N, L> Groups<'_, K, N, L>
where
    K: Fn(usize) -> RowInclusion + Sync,
    N: FnMut() -> Result<P, Error> + Send,
    L: Fn(Range<usize>, P) -> Result<RowUpdates, Error> + Sync,
{
    fn len(&self) -> usize {
        self.rows.len().div_ceil(self.size)
    }

    /// Writes all row groups in several threads, and returns the totals of each thread.
    fn write_all(&self, queue: &RowGroupQueue) -> Vec<RowTotals> {
        let threads = self.encoder.processors.min(MOST_AT_ONCE).min(self.len());
        // Attribute the time of these threads to `Other`: the current function of the dump applies
        // only to the dump's own threads.
        let run = |_| with_function(Function::Other, || self.write_some(queue));
        in_threads(0..threads, run)
    }

    /// Writes row groups until none is left, or writing fails.
    fn write_some(&self, queue: &RowGroupQueue) -> RowTotals {
        let _on_panic = OnPanic(|| queue.fail(|out| out.error(ErrorKind::ThreadDied)));
        let mut sum = RowTotals::default();
        loop {
            let mut next = self.next.lock();
            let nth = next.0;
            if nth == self.len() || queue.state.lock().failed.is_some() {
                return sum;
            }
            next.0 += 1;
            let settled = (next.1)();
            drop(next);
            let rows = nth * self.size..self.rows.len().min((nth + 1) * self.size);
            match settled.and_then(|settled| (self.later)(rows.clone(), settled)) {
                Ok(later) => {
                    let append = |group| queue.append(nth, group);
                    self.encode(rows, &later, &mut sum, append);
                    queue.end(nth);
                }
                Err(error) => {
                    queue.fail(|_| error);
                    return sum;
                }
            }
        }
    }

    /// Encodes the selected rows of a row group, and adds up their totals. If the totals of the
    /// whole tree are known, only the differences from them are added up. Rows in directories with
    /// long paths become several row groups.
    fn encode(
        &self,
        all: Range<usize>,
        later: &RowUpdates,
        sum: &mut RowTotals,
        append: impl Fn(ParquetResult<EncodedGroup>),
    ) {
        let rows = self.rows;
        let first = all.start;
        let mut above = RowAncestors::before(rows, first);
        let mut kept = KeptRows::default();
        for row in all {
            let (dir, path) = above.enter(rows, row);
            let keep = (self.keep)(row);
            if keep == RowInclusion::Row {
                if kept.add(row, dir, path) {
                    append(self.encode_kept(&mut kept, first, later, sum));
                }
            } else {
                sum.is_partial |= keep == RowInclusion::Nowhere;
                if rows.totals().is_some() {
                    sum.subtract(dir, rows.name(row), rows.meta(row));
                }
            }
        }
        if !kept.rows.is_empty() {
            append(self.encode_kept(&mut kept, first, later, sum));
        }
    }

    fn encode_kept(
        &self,
        kept: &mut KeptRows,
        first: usize,
        RowUpdates { hashes, amended }: &RowUpdates,
        sum: &mut RowTotals,
    ) -> ParquetResult<EncodedGroup> {
        let rows = self.rows;
        let is_known = rows.totals().is_some();
        let at_rest_before = before_a_tick(rows.started());
        let KeptRows {
            rows: kept, dirs, ..
        } = std::mem::take(kept);
        self.encoder.encode(kept.len(), |nth| {
            let (row, dir) = kept[nth];
            let ((dir, path), name) = (&dirs[dir], rows.name(row));
            let collected = rows.meta(row);
            let amended = amended.get(&row);
            let meta = amended.copied().unwrap_or(collected);
            if !is_known {
                sum.add(dir, name, meta);
            } else if amended.is_some() {
                sum.subtract(dir, name, collected);
                sum.add(dir, name, meta);
            }
            let magic = magic_of(rows.parts(), rows.part(row));
            sum.racy += u64::from(may_have_changed(&meta, magic, at_rest_before));
            Record {
                meta,
                part: rows.part(row) as u32,
                top: rows.top(row) as u32,
                blake3: hashes.get(row - first).copied().flatten(),
                dir: path,
                name,
            }
        })
    }
}

/// Rows collected for the next row group.
#[derive(Default)]
struct KeptRows {
    /// Row numbers, each with the index of its directory in `dirs`.
    rows: Vec<(usize, usize)>,
    dirs: Vec<(RowDirectory, Vec<u8>)>,
    /// Total length of the directory paths.
    bytes: usize,
}

impl KeptRows {
    /// Adds a row; returns whether the row group is full.
    fn add(&mut self, row: usize, dir: &RowDirectory, path: &[u8]) -> bool {
        let is_same = |(last, _): &(RowDirectory, _)| last.key == dir.key;
        if !self.dirs.last().is_some_and(is_same) {
            self.dirs.push((*dir, path.to_vec()));
            self.bytes += path.len();
        }
        self.rows.push((row, self.dirs.len() - 1));
        self.bytes >= GROUP_BYTES
    }
}

/// Whether a catalog contains a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowInclusion {
    /// The catalog contains the row.
    Row,
    /// The catalog of another part contains the row.
    Elsewhere,
    /// No catalog contains the row, though it is in the tree.
    Nowhere,
}

/// Computes the sums over the rows of each piece of a run. `piece_of` has the piece number of each
/// row; rows with a number of `pieces` or higher are ignored.
pub fn sums_of_pieces(rows: &Rows, piece_of: &[u32], pieces: u32) -> Vec<Sums> {
    let mut sums: Vec<RowTotals> = (0..pieces).map(|_| RowTotals::default()).collect();
    let mut above = RowAncestors::default();
    for (row, piece) in piece_of.iter().enumerate() {
        let (dir, _) = above.enter(rows, row);
        if let Some(sum) = sums.get_mut(*piece as usize) {
            sum.add(dir, rows.name(row), rows.meta(row));
        }
    }
    sums.into_iter().map(|sum| sum.sums).collect()
}

/// Totals of rows: of those that a thread has encoded, of a piece, or of a whole catalog.
#[derive(Default)]
struct RowTotals {
    /// Number of entries, modulo 2^64: a thread may subtract more than it adds.
    entries: u64,
    sums: Sums,
    racy: u64,
    /// Whether some rows of the tree are in no catalog.
    is_partial: bool,
}

impl RowTotals {
    fn add(&mut self, at: &RowDirectory, name: &[u8], meta: Meta) {
        self.entries = self.entries.wrapping_add(1);
        self.sums.digest.add(&at.dir(), &Entry { name, meta });
        self.sums.above = self.sums.above.wrapping_add(digest::below(at.chain, name));
    }

    fn subtract(&mut self, at: &RowDirectory, name: &[u8], meta: Meta) {
        self.entries = self.entries.wrapping_sub(1);
        self.sums.digest.take_away(&at.dir(), &Entry { name, meta });
        self.sums.above = self.sums.above.wrapping_sub(digest::below(at.chain, name));
    }

    fn with(mut self, other: RowTotals) -> RowTotals {
        self.entries = self.entries.wrapping_add(other.entries);
        self.sums.merge(&other.sums);
        self.racy += other.racy;
        self.is_partial |= other.is_partial;
        self
    }
}

/// Writes row groups in order.
struct RowGroupQueue {
    state: Mutex<WriterState>,
    turn: Condvar,
}

struct WriterState {
    out: CatalogOutput,
    /// Number of row groups written.
    written: usize,
    failed: Option<Error>,
}

impl RowGroupQueue {
    /// Records an error, so that no thread waits for a row group that will never come.
    fn fail(&self, error: impl FnOnce(&CatalogOutput) -> Error) {
        let mut state = self.state.lock();
        if state.failed.is_none() {
            state.failed = Some(error(&state.out));
        }
        self.turn.notify_all();
    }

    /// Writes a row group after all earlier row groups. The wait always ends, because threads take
    /// the row groups in order, and each thread has only one row group at a time.
    fn append(&self, nth: usize, group: ParquetResult<EncodedGroup>) {
        let mut state = self.state.lock();
        while state.written < nth && state.failed.is_none() {
            state = self.turn.wait(state);
        }
        if state.failed.is_none() {
            let appended = group.and_then(|group| state.out.append(group));
            state.failed = appended.err().map(|e| state.out.error(e.into()));
        }
    }

    /// Marks a row group as written, and wakes the thread with the next one.
    fn end(&self, nth: usize) {
        let mut state = self.state.lock();
        while state.written < nth && state.failed.is_none() {
            state = self.turn.wait(state);
        }
        state.written += 1;
        drop(state);
        self.turn.notify_all();
    }
}

impl RowDirectory {
    /// The directory with its own metadata included in `chain`.
    fn with_metadata(self, meta: &Meta) -> RowDirectory {
        let mut own = Digest::default();
        let entry = Entry {
            name: b"",
            meta: *meta,
        };
        own.add(&self.dir(), &entry);
        let [hash, _] = own.halves();
        RowDirectory {
            chain: digest::below(self.chain, &hash.to_le_bytes()),
            ..self
        }
    }

    fn dir(&self) -> Dir<'static> {
        Dir {
            path: b"",
            key: self.key,
        }
    }
}

/// The directories above a row.
#[derive(Default)]
struct RowAncestors {
    /// The directories, each with the end of its subtree's rows, and the length of its path.
    open: Vec<(usize, usize, RowDirectory)>,
    /// Path of the innermost directory, relative to its SRC.
    path: Vec<u8>,
}

/// A directory above a row.
#[derive(Clone, Copy)]
struct RowDirectory {
    key: DirKey,
    /// Hash of the paths and metadata of the directory and all its ancestors.
    chain: u64,
}

impl RowAncestors {
    /// Creates the list of directories above a row; the row itself is not entered yet.
    fn before(rows: &Rows, row: usize) -> RowAncestors {
        let up = std::iter::successors(rows.parent(row), |&dir| rows.parent(dir));
        let mut above = RowAncestors::default();
        for dir in up.collect::<Vec<usize>>().into_iter().rev() {
            above.enter(rows, dir);
        }
        above
    }

    /// Enters the next row. Returns the directory that contains the row, and the path of this
    /// directory relative to its SRC. The row of a SRC counts as contained in the SRC itself.
    fn enter(&mut self, rows: &Rows, row: usize) -> (&RowDirectory, &[u8]) {
        while self.open.pop_if(|(end, ..)| *end <= row).is_some() {}
        let (at, end) = (self.open.len().saturating_sub(1), rows.end(row));
        let above = self.open.last().copied();
        let len = above.map_or(0, |(_, len, _)| len);
        let own = match above {
            None => Some(RowDirectory {
                key: DirKey::top(rows.top(row)),
                chain: 0,
            }),
            Some((_, _, place)) => (end > row + 1).then(|| RowDirectory {
                key: place.key.below(rows.name(row)),
                ..place
            }),
        };
        if let Some(own) = own {
            self.path.truncate(len);
            if above.is_some() {
                append(&mut self.path, rows.name(row));
            }
            let own = own.with_metadata(&rows.meta(row));
            self.open.push((end, self.path.len(), own));
        }
        let (_, len, place) = &self.open[at];
        (place, &self.path[..*len])
    }
}
