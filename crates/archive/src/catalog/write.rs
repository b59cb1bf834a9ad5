//! Writes a catalog: a sink that anything can walk into.
//!
//! ```text
//! worker ─ chunk ─┐                      ┌─ sort, encode ─┐
//! worker ─ chunk ─┼─► pool ─ a row group ┤                ├─► file, one at a time
//! worker ─ chunk ─┘                      └─ sort, encode ─┘
//! ```
//!
//! Each worker fills chunks of its own. Who hands in the chunk that makes a row group complete sorts it and encodes it,
//! while the others go on; no more than so many do so at once, and the rest wait, so that memory is bounded whatever the number
//! of threads.

use std::io::BufWriter;
use std::sync::{Condvar, Mutex, MutexGuard};

use bytes::Bytes;
use gate::file::Writer;
use parquet::column::page::PageWriter;
use parquet::column::writer::{ColumnCloseResult, ColumnWriter, get_column_writer};
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::{SerializedFileWriter, SerializedPageWriter, TrackedWrite};
use parquet::schema::types::SchemaDescriptor;
use walk::entry::Time;
use walk::{Answer, By, Dir, Entry, Ground, Meta, Sink, Totals, Worker};

use super::about::{KEY, TICK, now};
use super::schema::{COLUMNS, Row, Values, descriptor, properties};
use super::{About, Fault, Options, plain};
use crate::part::{Last, Parts, relative};

/// Rows of a row group: enough for zstd and for readers, and no more than some 16 MiB on the way.
const GROUP: usize = 64 << 10;
/// Rows that a worker gathers before it hands them in.
const CHUNK: usize = 4 << 10;
/// No more row groups are sorted and encoded at once.
const MOST_AT_ONCE: usize = 4;

/// A catalog being written.
pub struct Catalog {
    file: Vec<u8>,
    root: Vec<u8>,
    absolute: Option<Vec<u8>>,
    options: Options,
    parts: Parts,
    started: Time,
    schema: SchemaDescriptor,
    properties: WriterPropertiesPtr,
    processors: usize,
    pool: Mutex<Pool>,
    room: Condvar,
    out: Mutex<SerializedFileWriter<BufWriter<Writer>>>,
}

/// A catalog that is written, and has no name yet. Dropped, it is gone.
#[derive(Debug)]
pub struct Sealed {
    file: Vec<u8>,
    writer: Writer,
    about: About,
}

impl Sealed {
    /// Waits until it is on the disk, and gives it its name.
    ///
    /// # Errors
    /// It could not be done; whatever had the name has it still.
    pub fn publish(self) -> std::result::Result<About, Fault> {
        let fault = |e: gate::Errno| Fault { next: hint(&e.to_string()), ..Fault::writing(&self.file, e) };
        self.writer.publish().map_err(fault)?;
        Ok(self.about)
    }
}

/// What has been handed in, and how it goes.
#[derive(Default)]
struct Pool {
    chunks: Vec<Chunk>,
    rows: usize,
    /// Empty ones, to be filled again: memory that one thread takes and another gives back goes to waste.
    spare: Vec<Chunk>,
    encoding: usize,
    totals: Totals,
    racy: u64,
    failed: Option<String>,
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
    /// Makes ready to write the catalog of `dir` (as it is given to the walk) into a file, which appears under its name only
    /// in [`Catalog::finish`].
    ///
    /// # Errors
    /// The file cannot be written there.
    pub fn create(file: &[u8], dir: &[u8], options: Options) -> std::result::Result<Catalog, Fault> {
        let fault = |e: String| Fault::writing(file, e);
        let writer = Writer::create(file).map_err(|e| Fault::writing(file, e))?;
        let schema = descriptor().map_err(|e| fault(plain(e)))?;
        let properties = WriterPropertiesPtr::new(properties());
        let out = BufWriter::with_capacity(1 << 20, writer);
        let out = SerializedFileWriter::new(out, schema.root_schema_ptr(), properties.clone());
        Ok(Catalog {
            file: file.to_vec(),
            root: dir.to_vec(),
            absolute: crate::absolute(dir),
            options,
            parts: Parts::new(dir),
            started: super::about::after_a_tick(now()),
            schema,
            properties,
            processors: gate::process::processors().max(1),
            pool: Mutex::default(),
            room: Condvar::new(),
            out: Mutex::new(out.map_err(|e| fault(plain(e)))?),
        })
    }

    /// Writes the rest, and gives the file its name. `complete` says that nothing was skipped.
    ///
    /// # Errors
    /// It could not be written; whatever had the name has it still.
    pub fn finish(self, answer: &Answer, complete: bool) -> std::result::Result<About, Fault> {
        self.seal(answer, complete)?.publish()
    }

    /// Writes the rest. `complete` says that nothing was skipped.
    ///
    /// # Errors
    /// It could not be written.
    pub fn seal(self, answer: &Answer, complete: bool) -> std::result::Result<Sealed, Fault> {
        self.encode_rest();
        let finished = now();
        let pool = self.pool.into_inner().unwrap_or_else(|e| e.into_inner());
        let fault = |e: String| Fault { next: hint(&e), ..Fault::writing(&self.file, e) };
        if let Some(error) = pool.failed {
            return Err(fault(error));
        }
        let mut parts = self.parts.all();
        for walked in &answer.parts {
            let path = relative(&self.root, &walked.path);
            if let Some(part) = parts.iter_mut().find(|part| part.engine.is_some() && part.path == path) {
                part.engine = Some(walked.by.name().to_owned());
            }
        }
        let about = About {
            root: self.root,
            absolute: self.absolute,
            started: self.started,
            finished,
            entries: pool.totals.entries,
            racy: pool.racy,
            digest: pool.totals.digest.to_string(),
            complete,
            options: self.options,
            parts,
        };
        let mut out = self.out.into_inner().unwrap_or_else(|e| e.into_inner());
        out.append_key_value_metadata(KeyValue::new(KEY.to_owned(), about.to_json()));
        let written = out
            .into_inner()
            .map_err(plain)
            .and_then(|buffered| buffered.into_inner().map_err(|e| e.into_error().to_string()));
        let writer = written.map_err(fault)?;
        Ok(Sealed { file: self.file, writer, about })
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Takes a chunk, and if that completes a row group, encodes it.
    fn hand_in(&self, chunk: Chunk, totals: &Totals, racy: u64) {
        let mut pool = self.pool();
        pool.totals.merge(totals);
        pool.racy += racy;
        pool.rows += chunk.rows.len();
        pool.chunks.push(chunk);
        // Who waits has handed in all it had, so that those who wait add a chunk each and no more.
        while pool.rows >= GROUP && pool.encoding >= MOST_AT_ONCE.min(self.processors) && pool.failed.is_none() {
            pool = self.room.wait(pool).unwrap_or_else(|e| e.into_inner());
        }
        if pool.failed.is_some() {
            pool.chunks.clear(); // nobody will want them
        } else if pool.rows >= GROUP {
            let chunks = std::mem::take(&mut pool.chunks);
            pool.rows = 0;
            pool.encoding += 1;
            drop(pool);
            let sorted = Sorted::of(chunks);
            let columns = self.encode((0..COLUMNS.len()).collect(), &sorted);
            let spare = sorted.into_chunks();
            self.append(columns.map(|columns| columns.into_iter().map(|(_, encoded)| encoded).collect()));
            let mut pool = self.pool();
            pool.encoding -= 1;
            pool.spare.extend(spare);
            drop(pool);
            self.room.notify_all();
        }
    }

    /// Encodes what is left, the columns shared among threads: nothing else is going on any more.
    fn encode_rest(&self) {
        let chunks = std::mem::take(&mut self.pool().chunks);
        if chunks.is_empty() {
            return;
        }
        let rows = Sorted::of(chunks);
        let threads = self.processors.min(COLUMNS.len());
        let share = |thread: usize| self.encode((thread..COLUMNS.len()).step_by(threads).collect(), &rows);
        let shares: Result<Vec<_>> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|thread| scope.spawn(move || share(thread))).collect();
            let own = share(0);
            let died = || Err(ParquetError::General("a thread has died".to_owned()));
            std::iter::once(own)
                .chain(others.into_iter().map(|other| other.join().unwrap_or_else(|_| died())))
                .collect()
        });
        self.append(shares.map(|shares| {
            let mut columns: Vec<_> = shares.into_iter().flatten().collect();
            columns.sort_by_key(|(column, _)| *column);
            columns.into_iter().map(|(_, encoded)| encoded).collect()
        }));
    }

    /// Encodes some columns of a row group.
    fn encode(&self, columns: Vec<usize>, rows: &Sorted) -> Result<Vec<(usize, Encoded)>> {
        encode(&self.schema, &self.properties, columns, rows)
    }

    /// Writes a row group.
    fn append(&self, columns: Result<Vec<Encoded>>) {
        let mut out = self.out.lock().unwrap_or_else(|e| e.into_inner());
        let written = columns.and_then(|columns| {
            let mut group = out.next_row_group()?;
            for (bytes, close) in columns {
                group.append_column(&bytes, close)?;
            }
            group.close().map(drop)
        });
        drop(out);
        if let Err(e) = written {
            self.pool().failed.get_or_insert(plain(e));
        }
    }
}

fn hint(error: &str) -> &'static str {
    if error.contains("os error 28") { "make room, or write it to another file system" } else { "" }
}

impl Sink for Catalog {
    fn begin(&self, ground: &Ground<'_>, by: By) {
        self.parts.begin(ground, by, true);
        // What was changed before the catalog was begun is now at rest for certain: it is older than a tick.
        if let Some(left) = super::about::until(self.started) {
            std::thread::sleep(left.min(TICK));
        }
    }

    fn worker(&self) -> Box<dyn Worker + '_> {
        let at_rest_before = super::about::before_a_tick(self.started);
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
        let kept_dir = keep(relative(&self.to.root, dir.path));
        for entry in entries {
            let name = keep(entry.name);
            let part = self.to.parts.of(&mut self.last, &entry.meta, dir.path, entry.name);
            self.totals.add(dir, entry);
            self.racy += u64::from(entry.meta.ctime >= self.at_rest_before);
            chunk.rows.push(Raw { meta: entry.meta, part, dir: chunk.dirs.len() as u32, name });
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
        let new = || Chunk { rows: Vec::with_capacity(CHUNK + CHUNK / 4), ..Chunk::default() };
        let empty = spare.unwrap_or_else(new);
        let (chunk, totals) = (std::mem::replace(&mut self.chunk, empty), std::mem::take(&mut self.totals));
        self.to.hand_in(chunk, &totals, std::mem::take(&mut self.racy));
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

impl Sorted {
    fn of(chunks: Vec<Chunk>) -> Sorted {
        // Directories by name: each gets its place among them.
        let mut all: Vec<(Bytes, usize, usize)> = Vec::new();
        let mut frozen: Vec<Frozen> = Vec::with_capacity(chunks.len());
        for (nth, chunk) in chunks.into_iter().enumerate() {
            let (bytes, ranks) = (Bytes::from(chunk.bytes), vec![0; chunk.dirs.len()]);
            all.extend(chunk.dirs.iter().enumerate().map(|(dir, &(from, to))| (bytes.slice(from..to), nth, dir)));
            frozen.push(Frozen { bytes, dirs: chunk.dirs, rows: chunk.rows, ranks });
        }
        all.sort_unstable();
        let mut dirs: Vec<Bytes> = Vec::new();
        for (dir, nth, at) in all {
            if dirs.last() != Some(&dir) {
                dirs.push(dir);
            }
            frozen[nth].ranks[at] = dirs.len() as u32 - 1;
        }
        // Rows by directory: first how many each has, then each row into its place.
        let mut ends = vec![0usize; dirs.len() + 1];
        for chunk in &frozen {
            for raw in &chunk.rows {
                ends[chunk.ranks[raw.dir as usize] as usize + 1] += 1;
            }
        }
        for dir in 1..ends.len() {
            ends[dir] += ends[dir - 1];
        }
        let mut order = vec![Place::default(); ends[dirs.len()]];
        for (nth, chunk) in frozen.iter().enumerate() {
            for (row, raw) in chunk.rows.iter().enumerate() {
                let name = &chunk.bytes[raw.name.0..raw.name.1];
                let mut head = [0; 8];
                let len = name.len().min(8);
                head[..len].copy_from_slice(&name[..len]);
                let end = &mut ends[chunk.ranks[raw.dir as usize] as usize];
                order[*end] = Place { head: u64::from_be_bytes(head), chunk: nth as u32, row: row as u32 };
                *end += 1;
            }
        }
        // And by name within each.
        let name = |place: &Place| {
            let chunk = &frozen[place.chunk as usize];
            let (from, to) = chunk.rows[place.row as usize].name;
            &chunk.bytes[from..to]
        };
        let mut from = 0;
        for &end in &ends[..dirs.len()] {
            order[from..end].sort_unstable_by(|a, b| a.head.cmp(&b.head).then_with(|| name(a).cmp(name(b))));
            from = end;
        }
        Sorted { chunks: frozen, dirs, order }
    }

    /// The chunks, empty.
    fn into_chunks(self) -> impl Iterator<Item = Chunk> {
        drop(self.dirs);
        self.chunks.into_iter().map(|chunk| {
            let Frozen { bytes, mut dirs, mut rows, .. } = chunk;
            let mut bytes = Vec::from(bytes);
            bytes.clear();
            dirs.clear();
            rows.clear();
            Chunk { bytes, dirs, rows }
        })
    }

    fn row(&self, place: Place) -> Row<'_> {
        let chunk = &self.chunks[place.chunk as usize];
        let raw = &chunk.rows[place.row as usize];
        let dir = &self.dirs[chunk.ranks[raw.dir as usize] as usize];
        Row { meta: &raw.meta, part: raw.part, dir, name: (&chunk.bytes, raw.name.0, raw.name.1) }
    }
}

/// A column of a row group, as it stands in the file.
type Encoded = (Bytes, ColumnCloseResult);

/// Encodes columns into memory, side by side: a few rows at a time, so that each row is brought near only once.
fn encode(
    schema: &SchemaDescriptor,
    properties: &WriterPropertiesPtr,
    columns: Vec<usize>,
    rows: &Sorted,
) -> Result<Vec<(usize, Encoded)>> {
    /// So many rows stay in the processor's second cache.
    const NEAR: usize = 1 << 10;
    let mut memory: Vec<_> = columns.iter().map(|_| TrackedWrite::new(Vec::new())).collect();
    let mut writers: Vec<ColumnWriter<'_>> = columns
        .iter()
        .zip(&mut memory)
        .map(|(&column, memory)| {
            let pages: Box<dyn PageWriter + '_> = Box::new(SerializedPageWriter::new(memory));
            get_column_writer(schema.column(column), properties.clone(), pages)
        })
        .collect();
    let mut near = Vec::with_capacity(NEAR);
    for some in rows.order.chunks(NEAR) {
        near.clear();
        near.extend(some.iter().map(|&at| rows.row(at)));
        for (&column, writer) in columns.iter().zip(&mut writers) {
            put(writer, COLUMNS[column].values, &near)?;
        }
    }
    let closed: Vec<ColumnCloseResult> = writers.into_iter().map(ColumnWriter::close).collect::<Result<_>>()?;
    columns
        .into_iter()
        .zip(memory)
        .zip(closed)
        .map(|((column, memory), close)| Ok((column, (memory.into_inner()?.into(), close))))
        .collect()
}

/// Puts the values of some rows into a column.
fn put(writer: &mut ColumnWriter<'_>, values: Values, rows: &[Row<'_>]) -> Result<()> {
    let written = match (writer, values) {
        (ColumnWriter::ByteArrayColumnWriter(to), Values::Bytes(of)) => {
            let values: Vec<ByteArray> = rows.iter().map(|row| of(row).into()).collect();
            to.write_batch(&values, None, None)
        }
        (ColumnWriter::Int32ColumnWriter(to), Values::I32(of)) => {
            let values: Vec<i32> = rows.iter().map(|row| of(row).cast_signed()).collect();
            to.write_batch(&values, None, None)
        }
        (ColumnWriter::Int64ColumnWriter(to), Values::I64(of)) => {
            let values: Vec<i64> = rows.iter().map(|row| of(row).cast_signed()).collect();
            to.write_batch(&values, None, None)
        }
        (ColumnWriter::Int32ColumnWriter(to), Values::Maybe32(of)) => {
            let (values, there) = split(rows, |row| of(row).map(u32::cast_signed));
            to.write_batch(&values, Some(&there), None)
        }
        (ColumnWriter::Int64ColumnWriter(to), Values::Maybe64(of)) => {
            let (values, there) = split(rows, |row| of(row).map(u64::cast_signed));
            to.write_batch(&values, Some(&there), None)
        }
        (ColumnWriter::BoolColumnWriter(to), Values::MaybeBool(of)) => {
            let (values, there) = split(rows, of);
            to.write_batch(&values, Some(&there), None)
        }
        _ => Err(ParquetError::General("a column is of another type than its values".to_owned())),
    };
    written.map(drop)
}

/// The values that are there, and for each row whether it has one.
fn split<T>(rows: &[Row<'_>], of: impl Fn(&Row<'_>) -> Option<T>) -> (Vec<T>, Vec<i16>) {
    let mut values = Vec::with_capacity(rows.len());
    let there = rows.iter().map(|row| {
        let value = of(row);
        let is_there = i16::from(value.is_some());
        values.extend(value);
        is_there
    });
    let there = there.collect();
    (values, there)
}
