//! Writes the catalog of a tree that is in memory, in its order; of a dump, while that is still
//! being written.
//!
//! ```text
//! rows ─┬─ a row group: look up, encode ─┬─► file, in their order
//!       └─ a row group: look up, encode ─┘
//! ```

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::attribution::{Function, with_function};
use bytes::Bytes;
use gate::sync::{Condvar, Mutex, MutexGuard};
use parquet::errors::Result as Written;
use walk::digest::{self, Digest};
use walk::entry::append;
use walk::moment::may_be_since;
use walk::{Dir, Entry, Meta, Moment};

use super::about::{About, Options, Root};
use super::column::Encoded;
use super::output::{Layout, MOST_AT_ONCE, Output, Sealed, rows_of_group};
use super::schema::{COLUMNS, Record};
use crate::OnPanic;
use crate::beside::beside;
use crate::error::{Error, ErrorKind};
use crate::rows::Rows;
use crate::tick::before_a_tick;

/// What has become known of rows since they were gathered.
#[derive(Debug, Default)]
pub struct Later {
    /// For each of them in turn, the checksum of what is in it, where that is known.
    pub hashes: Vec<Option<[u8; 32]>>,
    /// What is known of some of them by now.
    pub amended: HashMap<usize, Meta>,
}

/// The catalog of a tree that is in memory, to be written.
pub struct Draft {
    layout: Layout,
    out: Output,
}

impl Draft {
    /// Makes ready to write it into a file, which appears under its name only when it is published.
    ///
    /// # Errors
    /// The file cannot be written there.
    pub fn create(file: &[u8]) -> Result<Draft, Error> {
        Output::create(file).map(|(layout, out)| Draft { layout, out })
    }

    /// Writes the rows that are `kept`. For as many rows as a row group has, `later` says what has
    /// become known of them since, and may wait until that is settled. When all are written,
    /// `complete` says whether nothing was skipped, before or since: else the catalog has no
    /// tokens, so that whoever compares with it looks for himself.
    ///
    /// # Errors
    /// It could not be written; those of `later`.
    pub fn write(
        self,
        rows: &Rows,
        options: Options,
        kept: impl Fn(usize) -> bool + Sync,
        later: impl Fn(Range<usize>) -> Result<Later, Error> + Sync,
        complete: impl FnOnce() -> bool,
    ) -> Result<Sealed, Error> {
        let Draft { layout, out } = self;
        let groups = Groups {
            rows,
            size: rows_of_group(rows.len()),
            layout: &layout,
            kept,
            later,
        };
        let queue = Queue::new(out);
        let threads = layout.processors.min(MOST_AT_ONCE).min(groups.len()).max(1);
        let next = AtomicUsize::new(0);
        // The dump charges calls to the phase that it is in; these are of another thread.
        let run = || with_function(Function::Other, || groups.write_some(&next, &queue));
        let done: Vec<_> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| beside(scope, run)).collect();
            let own = run();
            // The queue knows of a thread that has panicked.
            std::iter::once(own)
                .chain(others.into_iter().filter_map(|other| other.join().ok()))
                .collect()
        });
        let sums: Vec<Sum> = done.into_iter().collect::<Result<_, Error>>()?;
        let out = queue.into_output()?;
        let begin = rows.totals().map_or(Sum::default(), |known| Sum {
            entries: known.entries,
            digest: known.digest,
            ..Sum::default()
        });
        let Sum {
            entries,
            digest,
            racy,
            left_out,
        } = sums.into_iter().fold(begin, Sum::with);
        let complete = complete() && !left_out;
        let mut parts = rows.parts().to_vec();
        if !complete {
            parts.iter_mut().for_each(|part| part.token = None);
        }
        out.seal(About {
            roots: rows
                .sources()
                .iter()
                .map(|s| Root {
                    path: s.path.clone(),
                    absolute: s.absolute.clone(),
                })
                .collect(),
            started: rows.started(),
            finished: Moment::now().time(),
            entries,
            racy,
            digest: digest.to_string(),
            complete,
            options,
            parts,
            ..About::default()
        })
    }
}

/// The row groups of a catalog.
struct Groups<'a, K, L> {
    rows: &'a Rows,
    /// Rows of a row group.
    size: usize,
    layout: &'a Layout,
    kept: K,
    later: L,
}

impl<K, L> Groups<'_, K, L>
where
    K: Fn(usize) -> bool,
    L: Fn(Range<usize>) -> Result<Later, Error>,
{
    fn len(&self) -> usize {
        self.rows.len().div_ceil(self.size)
    }

    /// Writes one row group after the other, as long as there are more and all goes well.
    fn write_some(&self, next: &AtomicUsize, queue: &Queue) -> Result<Sum, Error> {
        let _watch = OnPanic(|| queue.fail(ErrorKind::ThreadDied));
        let mut sum = Sum::default();
        loop {
            let nth = next.fetch_add(1, Relaxed);
            if nth >= self.len() || queue.has_failed() {
                return Ok(sum);
            }
            let rows = nth * self.size..self.rows.len().min((nth + 1) * self.size);
            match (self.later)(rows.clone()) {
                Ok(later) => queue.append(nth, self.encode(rows, &later, &mut sum)),
                Err(error) => {
                    queue.fail(error.kind.clone());
                    return Err(error);
                }
            }
        }
    }

    /// Encodes the rows of a row group that are kept, and adds them up. Of a sum that is known
    /// already, only what differs is taken away and added.
    fn encode(
        &self,
        all: Range<usize>,
        Later { hashes, amended }: &Later,
        sum: &mut Sum,
    ) -> Written<Vec<Encoded>> {
        let rows = self.rows;
        let is_known = rows.totals().is_some();
        let at_rest_before = before_a_tick(rows.started());
        let (mut above, mut group) = (Above::before(rows, all.start), Group::default());
        for row in all.clone() {
            let (at, name) = (above.enter(rows, row), rows.name(row));
            if (self.kept)(row) {
                group.add(row, name, at);
            } else {
                sum.left_out = true;
                if is_known {
                    sum.take_away(at, name, rows.meta(row));
                }
            }
        }
        group.encode(self.layout, rows, |row, at, name| {
            let gathered = rows.meta(row);
            let amended = amended.get(&row);
            let meta = amended.copied().unwrap_or(gathered);
            if !is_known {
                sum.add(at, name, meta);
            } else if amended.is_some() {
                sum.take_away(at, name, gathered);
                sum.add(at, name, meta);
            }
            sum.racy += u64::from(may_be_since(meta.ctime, at_rest_before));
            (meta, hashes.get(row - all.start).copied().flatten())
        })
    }
}

/// What is to be known of rows together.
#[derive(Default)]
struct Sum {
    /// Modulo 2^64: of what was added before, more may be taken away.
    entries: u64,
    digest: Digest,
    racy: u64,
    left_out: bool,
}

impl Sum {
    fn add(&mut self, at: &Place, name: &[u8], meta: Meta) {
        self.entries = self.entries.wrapping_add(1);
        self.digest.add(&at.dir(), &Entry { name, meta });
    }

    fn take_away(&mut self, at: &Place, name: &[u8], meta: Meta) {
        self.entries = self.entries.wrapping_sub(1);
        self.digest.take_away(&at.dir(), &Entry { name, meta });
    }

    fn with(mut self, other: Sum) -> Sum {
        self.entries = self.entries.wrapping_add(other.entries);
        self.digest.merge(other.digest);
        self.racy += other.racy;
        self.left_out |= other.left_out;
        self
    }
}

/// Keeps row groups in order on their way into the file.
struct Queue {
    state: Mutex<State>,
    turn: Condvar,
}

struct State {
    out: Output,
    /// Record groups that have been written.
    written: usize,
    failed: Option<ErrorKind>,
}

impl Queue {
    fn new(out: Output) -> Queue {
        Queue {
            state: Mutex::new(State {
                out,
                written: 0,
                failed: None,
            }),
            turn: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn has_failed(&self) -> bool {
        self.state().failed.is_some()
    }

    /// A thread ends before its time: what it would have written is not waited for.
    fn fail(&self, why: ErrorKind) {
        self.state().failed.get_or_insert(why);
        self.turn.notify_all();
    }

    /// Writes a row group when those before it have been. Each thread has one, and takes them in
    /// order, so that the next one is never waited for in vain.
    fn append(&self, nth: usize, columns: Written<Vec<Encoded>>) {
        let mut state = self.state();
        while state.written < nth && state.failed.is_none() {
            state = self.turn.wait(state);
        }
        if state.failed.is_none() {
            state.failed = columns
                .and_then(|columns| state.out.append(columns))
                .err()
                .map(ErrorKind::from);
            state.written += 1;
        }
        drop(state);
        self.turn.notify_all();
    }

    fn into_output(self) -> Result<Output, Error> {
        let State { out, failed, .. } = self.state.into_inner();
        match failed {
            Some(kind) => Err(out.error(kind)),
            None => Ok(out),
        }
    }
}

impl Place {
    fn dir(&self) -> Dir<'static> {
        Dir {
            path: b"",
            hash: self.hash,
            depth: self.depth,
        }
    }
}

/// The directories that are above a row, each with the row after all that is in it.
#[derive(Default)]
struct Above(Vec<(usize, Place)>);

/// A directory that rows are in.
#[derive(Clone)]
struct Place {
    /// Its name below its SRC.
    path: Bytes,
    hash: u64,
    depth: u32,
}

impl Above {
    /// Those that are above a row and begin before it.
    fn before(rows: &Rows, row: usize) -> Above {
        let up: Vec<usize> =
            std::iter::successors(rows.parent(row), |&dir| rows.parent(dir)).collect();
        let mut above = Above::default();
        for dir in up.into_iter().rev() {
            above.enter(rows, dir);
        }
        above
    }

    /// The directory that the next row is in; a SRC is in itself.
    fn enter(&mut self, rows: &Rows, row: usize) -> &Place {
        while self.0.last().is_some_and(|(end, _)| *end <= row) {
            self.0.pop();
        }
        let (at, end) = (self.0.len().saturating_sub(1), rows.end(row));
        let own = match self.0.last() {
            None => Some(Place {
                path: Bytes::new(),
                hash: digest::top(rows.top(row)),
                depth: 0,
            }),
            Some((_, place)) => (end > row + 1).then(|| {
                let (name, mut path) = (rows.name(row), place.path.to_vec());
                append(&mut path, name);
                Place {
                    path: path.into(),
                    hash: digest::below(place.hash, name),
                    depth: place.depth + 1,
                }
            }),
        };
        self.0.extend(own.map(|own| (end, own)));
        &self.0[at].1
    }
}

/// The rows of a row group: which they are, their directories, and their names, one after the
/// other.
#[derive(Default)]
struct Group {
    items: Vec<Item>,
    dirs: Vec<Place>,
    names: Vec<u8>,
}

struct Item {
    row: usize,
    /// The number of its directory among those of the group.
    dir: usize,
    /// Where its name ends.
    end: usize,
}

impl Group {
    fn add(&mut self, row: usize, name: &[u8], dir: &Place) {
        if self
            .dirs
            .last()
            .is_none_or(|last| (last.hash, last.depth) != (dir.hash, dir.depth))
        {
            self.dirs.push(dir.clone());
        }
        self.names.extend_from_slice(name);
        self.items.push(Item {
            row,
            dir: self.dirs.len() - 1,
            end: self.names.len(),
        });
    }

    /// Encodes them, of each what `known` says of it: what statx(2) said, and its hash. Of no rows
    /// there are no columns.
    fn encode(
        self,
        layout: &Layout,
        rows: &Rows,
        mut known: impl FnMut(usize, &Place, &[u8]) -> (Meta, Option<[u8; 32]>),
    ) -> Written<Vec<Encoded>> {
        let Group { items, dirs, names } = self;
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let row = |nth: usize| {
            let (Item { row, dir, end }, from) = (
                &items[nth],
                nth.checked_sub(1).map_or(0, |before| items[before].end),
            );
            let (row, dir) = (*row, &dirs[*dir]);
            let name = &names[from..*end];
            let (meta, blake3) = known(row, dir, name);
            let (part, top) = (rows.part(row) as u32, rows.top(row) as u32);
            Record {
                meta,
                part,
                top,
                blake3,
                dir: &dir.path,
                name,
            }
        };
        let columns = layout.encode((0..COLUMNS.len()).collect(), items.len(), row);
        Ok(columns?.into_iter().map(|(_, encoded)| encoded).collect())
    }
}
