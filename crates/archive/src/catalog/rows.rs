//! Writes the catalog of a tree in memory, in its order; for a dump, while the archive is still
//! being written.
//!
//! ```text
//! rows ─┬─ a row group: look up, encode ─┬─► file, in their order
//!       └─ a row group: look up, encode ─┘
//! ```

use std::collections::HashMap;
use std::ops::Range;

use bytes::Bytes;
use gate::sync::{Condvar, Mutex};
use parquet::errors::Result as ParquetResult;
use walk::digest::{self, Digest};
use walk::entry::append;
use walk::{Dir, DirKey, Entry, Meta, Moment};

use super::about::{About, Options, Root, SnapshotRecord};
use super::output::{EncodedGroup, Encoder, MOST_AT_ONCE, Output, Sealed, rows_of_group};
use super::schema::Record;
use super::sums::Sums;
use crate::OnPanic;
use crate::attribution::{Function, with_function};
use crate::background::spawn;
use crate::error::{Error, ErrorKind};
use crate::part::{magic_of, may_have_changed};
use crate::rows::Rows;
use crate::tick::before_a_tick;

/// What became known of some rows after they were collected.
#[derive(Debug, Default)]
pub struct Later {
    /// For each row in turn, the checksum of its contents, where it is known.
    pub hashes: Vec<Option<[u8; 32]>>,
    /// The metadata of rows that are different by now.
    pub amended: HashMap<usize, Meta>,
}

/// The file of a catalog, not written yet.
pub struct Draft {
    encoder: Encoder,
    out: Output,
    snapshot: Option<SnapshotRecord>,
}

impl Draft {
    /// Creates a file. It gets its name in [`Sealed::publish`].
    pub fn create(file: &[u8]) -> Result<Draft, Error> {
        let (encoder, out) = Output::create(file)?;
        Ok(Draft {
            encoder,
            out,
            snapshot: None,
        })
    }

    /// Records the snapshot that was made of the rows.
    #[must_use]
    pub fn with_snapshot(self, snapshot: Option<SnapshotRecord>) -> Draft {
        Draft { snapshot, ..self }
    }

    /// Writes the rows that `keep` selects. For each row group in turn, `next` waits until its
    /// rows are settled, and `later` turns the result into what became known of them. After the
    /// last row, `is_complete` says whether nothing was skipped: otherwise the catalog has no
    /// tokens, so that a comparison with it reads the tree.
    ///
    /// # Errors
    /// The file cannot be written; those of `next` and `later`.
    pub fn write<P>(
        self,
        rows: &Rows,
        options: Options,
        keep: impl Fn(usize) -> Keep + Sync,
        next: impl FnMut() -> Result<P, Error> + Send,
        later: impl Fn(Range<usize>, P) -> Result<Later, Error> + Sync,
        is_complete: impl FnOnce() -> bool,
    ) -> Result<Sealed, Error> {
        let Draft {
            encoder,
            out,
            snapshot,
        } = self;
        let groups = Groups {
            rows,
            size: rows_of_group(rows.len()),
            encoder: &encoder,
            keep,
            next: Mutex::new((0, next)),
            later,
        };
        let queue = Queue {
            state: Mutex::new(State {
                out,
                written: 0,
                failed: None,
            }),
            turn: Condvar::new(),
        };
        let sums = groups.write_all(&queue);
        let State { out, failed, .. } = queue.state.into_inner();
        if let Some(error) = failed {
            return Err(error);
        }
        let begin = rows.totals().map_or(Sum::default(), |known| Sum {
            entries: known.entries,
            sums: Sums {
                digest: known.digest,
                ..Sums::default()
            },
            ..Sum::default()
        });
        let sum = sums.into_iter().fold(begin, Sum::with);
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
            snapshot: snapshot.filter(|_| complete),
            ..About::default()
        })
    }
}

/// The row groups of a catalog.
struct Groups<'a, K, N, L> {
    rows: &'a Rows,
    /// Rows of a row group.
    size: usize,
    encoder: &'a Encoder,
    keep: K,
    /// The next row group, and what waits for it.
    next: Mutex<(usize, N)>,
    later: L,
}

impl<P, K, N, L> Groups<'_, K, N, L>
where
    K: Fn(usize) -> Keep + Sync,
    N: FnMut() -> Result<P, Error> + Send,
    L: Fn(Range<usize>, P) -> Result<Later, Error> + Sync,
{
    fn len(&self) -> usize {
        self.rows.len().div_ceil(self.size)
    }

    /// Writes all row groups, with several threads, and returns the sum of each thread.
    fn write_all(&self, queue: &Queue) -> Vec<Sum> {
        let threads = self.encoder.processors.min(MOST_AT_ONCE).min(self.len());
        // The phase of the dump is that of other threads.
        let run = || with_function(Function::Other, || self.write_some(queue));
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| spawn(scope, run)).collect();
            let own = run();
            // A thread that panicked has failed the queue.
            let others = others.into_iter().filter_map(|other| other.join().ok());
            std::iter::once(own).chain(others).collect()
        })
    }

    /// Writes row groups until there are no more, or writing fails.
    fn write_some(&self, queue: &Queue) -> Sum {
        let _on_panic = OnPanic(|| queue.fail(|out| out.error(ErrorKind::ThreadDied)));
        let mut sum = Sum::default();
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
                Ok(later) => queue.append(nth, self.encode(rows, &later, &mut sum)),
                Err(error) => {
                    queue.fail(|_| error);
                    return sum;
                }
            }
        }
    }

    /// Encodes the selected rows of a row group, if there are any, and adds them up. If the sum of the tree is known,
    /// only the differences are added.
    fn encode(
        &self,
        all: Range<usize>,
        Later { hashes, amended }: &Later,
        sum: &mut Sum,
    ) -> ParquetResult<Option<EncodedGroup>> {
        let rows = self.rows;
        let is_known = rows.totals().is_some();
        let at_rest_before = before_a_tick(rows.started());
        let mut above = Above::before(rows, all.start);
        let (mut kept, mut dirs) = (Vec::with_capacity(all.len()), Vec::<Place>::new());
        for row in all.clone() {
            let dir = above.enter(rows, row);
            let keep = (self.keep)(row);
            if keep == Keep::Row {
                let is_same = |last: &Place| last.key == dir.key;
                if !dirs.last().is_some_and(is_same) {
                    dirs.push(dir.clone());
                }
                kept.push((row, dirs.len() - 1));
            } else {
                sum.is_partial |= keep == Keep::Nowhere;
                if is_known {
                    sum.subtract(dir, rows.name(row), rows.meta(row));
                }
            }
        }
        if kept.is_empty() {
            return Ok(None);
        }
        let encoded = self.encoder.encode(kept.len(), |nth| {
            let (row, dir) = kept[nth];
            let (dir, name) = (&dirs[dir], rows.name(row));
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
                blake3: hashes.get(row - all.start).copied().flatten(),
                dir: &dir.path,
                name,
            }
        });
        encoded.map(Some)
    }
}

/// What a catalog does with a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    /// It has the row.
    Row,
    /// The catalog of another part has it.
    Elsewhere,
    /// No catalog has it, though it is in the tree.
    Nowhere,
}

/// The sums over the rows of each piece, given the piece of each row; rows with a higher number are in none.
pub(crate) fn sums_of_pieces(rows: &Rows, piece_of: &[u32], pieces: u32) -> Vec<Sums> {
    let mut sums: Vec<Sum> = (0..pieces).map(|_| Sum::default()).collect();
    let mut above = Above::default();
    for (row, piece) in piece_of.iter().enumerate() {
        let dir = above.enter(rows, row);
        if let Some(sum) = sums.get_mut(*piece as usize) {
            sum.add(dir, rows.name(row), rows.meta(row));
        }
    }
    sums.into_iter().map(|sum| sum.sums).collect()
}

/// The totals of some rows.
#[derive(Default)]
struct Sum {
    /// Modulo 2^64: a part may subtract more than it adds.
    entries: u64,
    sums: Sums,
    racy: u64,
    /// Rows were left out.
    is_partial: bool,
}

impl Sum {
    fn add(&mut self, at: &Place, name: &[u8], meta: Meta) {
        self.entries = self.entries.wrapping_add(1);
        self.sums.digest.add(&at.dir(), &Entry { name, meta });
        self.sums.above = self.sums.above.wrapping_add(digest::below(at.chain, name));
    }

    fn subtract(&mut self, at: &Place, name: &[u8], meta: Meta) {
        self.entries = self.entries.wrapping_sub(1);
        self.sums.digest.take_away(&at.dir(), &Entry { name, meta });
        self.sums.above = self.sums.above.wrapping_sub(digest::below(at.chain, name));
    }

    fn with(mut self, other: Sum) -> Sum {
        self.entries = self.entries.wrapping_add(other.entries);
        self.sums.merge(&other.sums);
        self.racy += other.racy;
        self.is_partial |= other.is_partial;
        self
    }
}

/// Writes row groups in their order.
struct Queue {
    state: Mutex<State>,
    turn: Condvar,
}

struct State {
    out: Output,
    /// Row groups that are written.
    written: usize,
    failed: Option<Error>,
}

impl Queue {
    /// Records an error, so that no thread waits for row groups that will not come.
    fn fail(&self, error: impl FnOnce(&Output) -> Error) {
        let mut state = self.state.lock();
        if state.failed.is_none() {
            state.failed = Some(error(&state.out));
        }
        self.turn.notify_all();
    }

    /// Writes a row group after those before it. They are certain to come: threads take them in
    /// order, one at a time.
    fn append(&self, nth: usize, group: ParquetResult<Option<EncodedGroup>>) {
        let mut state = self.state.lock();
        while state.written < nth && state.failed.is_none() {
            state = self.turn.wait(state);
        }
        if state.failed.is_none() {
            let appended = group.and_then(|group| match group {
                Some(group) => state.out.append(group),
                None => Ok(()),
            });
            state.failed = appended.err().map(|e| state.out.error(e.into()));
            state.written += 1;
        }
        drop(state);
        self.turn.notify_all();
    }
}

impl Place {
    /// The same, with its own metadata in the chain.
    fn with_metadata(self, meta: &Meta) -> Place {
        let mut own = Digest::default();
        let entry = Entry {
            name: b"",
            meta: *meta,
        };
        own.add(&self.dir(), &entry);
        let [hash, _] = own.halves();
        Place {
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

/// The directories above a row, each with the row after everything in it.
#[derive(Default)]
struct Above(Vec<(usize, Place)>);

/// A directory.
#[derive(Clone)]
struct Place {
    /// The path below its SRC.
    path: Bytes,
    key: DirKey,
    /// A hash of the paths and the metadata of this directory and of all those above it.
    chain: u64,
}

impl Above {
    /// Those above a row, without the row itself.
    fn before(rows: &Rows, row: usize) -> Above {
        let up = std::iter::successors(rows.parent(row), |&dir| rows.parent(dir));
        let mut above = Above::default();
        for dir in up.collect::<Vec<usize>>().into_iter().rev() {
            above.enter(rows, dir);
        }
        above
    }

    /// The directory of the next row; a SRC is in itself.
    fn enter(&mut self, rows: &Rows, row: usize) -> &Place {
        while self.0.last().is_some_and(|(end, _)| *end <= row) {
            self.0.pop();
        }
        let (at, end) = (self.0.len().saturating_sub(1), rows.end(row));
        let own = match self.0.last() {
            None => Some(Place {
                path: Bytes::new(),
                key: DirKey::top(rows.top(row)),
                chain: 0,
            }),
            Some((_, place)) => (end > row + 1).then(|| {
                let (name, mut path) = (rows.name(row), place.path.to_vec());
                append(&mut path, name);
                Place {
                    path: path.into(),
                    key: place.key.below(name),
                    chain: place.chain,
                }
            }),
        };
        let own = own.map(|own| own.with_metadata(&rows.meta(row)));
        self.0.extend(own.map(|own| (end, own)));
        &self.0[at].1
    }
}
