//! Reads a catalog back, a column of a row group at a time.

use std::cell::Cell;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Once};

use bytes::Bytes;
use parquet::column::page::PageReader;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;

use super::about::{KEY, Strange, VERSION};
use super::column::{Names, damaged, numbers};
use super::output::GROUP;
use super::schema::{COLUMNS, descriptor};
use super::{About, Fault, plain};

/// A catalog, open for reading.
#[derive(Debug)]
pub struct Reader {
    path: Vec<u8>,
    file: Arc<Source>,
    metadata: ParquetMetaData,
    about: About,
}

/// A piece of a file, in memory.
struct Piece {
    /// Where it begins.
    from: u64,
    bytes: Bytes,
}

impl Piece {
    fn at(&self, start: u64) -> Result<usize> {
        let at = start.checked_sub(self.from).and_then(|at| usize::try_from(at).ok());
        at.filter(|at| *at <= self.bytes.len()).ok_or_else(damaged)
    }
}

impl Length for Piece {
    fn len(&self) -> u64 {
        self.from + self.bytes.len() as u64
    }
}

impl ChunkReader for Piece {
    type T = io::Cursor<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(io::Cursor::new(self.bytes.slice(self.at(start)?..)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let at = self.at(start)?;
        if length > self.bytes.len() - at { Err(damaged()) } else { Ok(self.bytes.slice(at..at + length)) }
    }
}

/// Rows of a row group, at most: more than anybody writes without being asked to. A few bytes can stand for any number of rows that
/// are alike, and none of them is to be believed more than this.
const MOST_ROWS: u64 = 1 << 20;

/// The library's way to a file, through the gate.
#[derive(Debug)]
struct Source(gate::file::Reader);

impl Length for Source {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl ChunkReader for Source {
    type T = io::Cursor<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        /// Page headers are read so; they are a few dozen bytes.
        const HEADER: u64 = 64 << 10;
        let len = self.0.len().saturating_sub(start).min(HEADER);
        Ok(io::Cursor::new(self.get_bytes(start, len as usize)?))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let short = || ParquetError::EOF("it is cut short".to_owned());
        if start.checked_add(length as u64).is_none_or(|end| end > self.0.len()) {
            return Err(short());
        }
        let mut bytes = vec![0; length];
        let read = self.0.read_at(start, &mut bytes);
        match read {
            Ok(n) if n == length => Ok(bytes.into()),
            Ok(_) => Err(short()),
            Err(e) => Err(ParquetError::External(Box::new(e))),
        }
    }
}

thread_local! {
    /// Whether this thread is within [`held`].
    static HELD: Cell<bool> = const { Cell::new(false) };
}

/// What the library makes of bytes that may be damaged: from some it panics, which is an error here as any other, and is not
/// talked about.
fn held<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !HELD.get() {
                before(panic);
            }
        }));
    });
    let outer = HELD.replace(true);
    let read = std::panic::catch_unwind(AssertUnwindSafe(read));
    HELD.set(outer);
    read.unwrap_or_else(|_| Err(damaged()))
}

impl Reader {
    /// Opens a catalog, and sees that it is one of ours, whole, and of a version that is known.
    ///
    /// # Errors
    /// What is the matter with it.
    pub fn open(path: &[u8]) -> std::result::Result<Reader, Fault> {
        let make_new =
            |error: &str| Fault { next: "make a new one with fathom walk --catalog", ..Fault::reading(path, error) };
        let file = gate::file::Reader::open(path).map_err(|e| Fault::reading(path, e))?;
        let (mut head, mut tail) = ([0; 4], [0; 4]);
        let ends = file
            .len()
            .checked_sub(4)
            .map_or(Ok(0), |end| file.read_at(0, &mut head).and_then(|_| file.read_at(end, &mut tail)));
        ends.map_err(|e| Fault::reading(path, e))?;
        match (&head, &tail) {
            (b"PAR1", b"PAR1") if file.len() > 12 => {}
            (b"PAR1", _) => return Err(make_new("it is cut short")),
            _ => return Err(make_new("it is no Parquet file")),
        }
        let file = Arc::new(Source(file));
        let damaged = "it is damaged";
        let metadata = held(|| ParquetMetaDataReader::new().parse_and_finish(&*file)).map_err(|_| make_new(damaged))?;
        let pairs = metadata.file_metadata().key_value_metadata();
        let own =
            pairs.and_then(|pairs| pairs.iter().find(|pair| pair.key == KEY)).and_then(|pair| pair.value.as_deref());
        let about = match own.map(About::from_json) {
            None => return Err(make_new("it is a Parquet file, but not a catalog of fathom's")),
            Some(Err(Strange::Newer(version))) => {
                let error = format!("it is of version {version}, and this program knows versions up to {VERSION}");
                return Err(Fault { next: "use a newer fathom, or make a new catalog", ..Fault::reading(path, error) });
            }
            Some(Err(Strange::Damaged)) => return Err(make_new(damaged)),
            Some(Ok(about)) => about,
        };
        let reader = Reader { path: path.to_vec(), file, metadata, about };
        if !reader.is_sound() { Err(make_new(damaged)) } else { Ok(reader) }
    }

    /// Whether columns and counts are as they must be, so that nobody need ask again.
    fn is_sound(&self) -> bool {
        let Ok(wanted) = descriptor() else { return false };
        let schema = self.metadata.file_metadata().schema_descr();
        let is_same = schema.num_columns() == COLUMNS.len()
            && schema.columns().iter().zip(wanted.columns()).all(|(is, wanted)| {
                is.path() == wanted.path()
                    && is.physical_type() == wanted.physical_type()
                    && is.max_def_level() == wanted.max_def_level()
                    && is.max_rep_level() == wanted.max_rep_level()
            });
        let rows = self.metadata.row_groups().iter().map(|group| {
            let rows = u64::try_from(group.num_rows()).ok().filter(|rows| *rows <= MOST_ROWS)?;
            let is_whole = group.columns().len() == COLUMNS.len()
                && group.columns().iter().all(|column| {
                    column.num_values() == group.num_rows()
                        && column.data_page_offset() >= 4
                        && column.dictionary_page_offset().is_none_or(|at| at >= 4)
                        && column.compressed_size() >= 0
                });
            is_whole.then_some(rows)
        });
        is_same && rows.sum::<Option<u64>>() == Some(self.about.entries)
    }

    /// What it says of itself.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// How many row groups it has.
    pub fn groups(&self) -> usize {
        self.metadata.num_row_groups()
    }

    /// How many rows a row group has.
    pub fn rows(&self, group: usize) -> usize {
        self.metadata.row_groups().get(group).map_or(0, |group| group.num_rows() as usize)
    }

    /// What is wrong with it, found while it was being read.
    fn damaged(&self, error: ParquetError) -> Fault {
        // The file may be well, and the disk not.
        let is_unread = matches!(&error, ParquetError::External(e) if e.is::<gate::Errno>());
        let what = plain(error);
        let what = if is_unread { what } else { format!("it is damaged: {what}") };
        Fault { next: "make a new one with fathom walk --catalog", ..Fault::reading(&self.path, what) }
    }

    /// Reads a column of a row group, which must come to a value for each row, by what is made of its pages.
    fn column<T>(
        &self,
        group: usize,
        name: &str,
        read: impl FnOnce(&mut dyn PageReader, bool) -> Result<(T, usize)>,
    ) -> std::result::Result<T, Fault> {
        let absent = || ParquetError::General(format!("it has no column {name} in row group {group}"));
        let read = || {
            let nth = COLUMNS.iter().position(|column| column.name == name).ok_or_else(absent)?;
            let meta = self.metadata.row_groups().get(group).ok_or_else(absent)?;
            let (column, rows) = (meta.column(nth), meta.num_rows() as usize);
            let mut pages = SerializedPageReader::new(self.piece(column)?, column, rows, None)?;
            match read(&mut pages, column.column_descr().max_def_level() > 0)? {
                (column, values) if values == rows => Ok(column),
                _ => Err(ParquetError::EOF("a column has too few values".to_owned())),
            }
        };
        held(read).map_err(|e| self.damaged(e))
    }

    /// All that is in the file of a column of a row group.
    fn piece(&self, column: &ColumnChunkMetaData) -> Result<Arc<Piece>> {
        let (from, len) = column.byte_range();
        Ok(Arc::new(Piece { from, bytes: self.file.get_bytes(from, len as usize)? }))
    }

    /// A column of which every row has a value.
    fn all<const N: usize, T: Copy>(
        &self,
        group: usize,
        name: &str,
        of: fn([u8; N]) -> T,
    ) -> std::result::Result<Vec<T>, Fault> {
        self.column(group, name, |pages, is_optional| {
            let mut values = Vec::with_capacity(self.rows(group).min(GROUP));
            numbers(pages, self.rows(group), is_optional, of, |_, _| {}, &mut values)?;
            let len = values.len();
            Ok((values, len))
        })
    }

    /// A column of which some rows have a value.
    fn some<const N: usize, T: Copy>(
        &self,
        group: usize,
        name: &str,
        of: fn([u8; N]) -> T,
    ) -> std::result::Result<Vec<Option<T>>, Fault> {
        self.column(group, name, |pages, is_optional| {
            let (mut there, mut values) = (Vec::new(), Vec::with_capacity(self.rows(group).min(GROUP)));
            let are = |is_there, rows| there.push((is_there, rows));
            numbers(pages, self.rows(group), is_optional, of, are, &mut values)?;
            let (mut all, mut left) = (Vec::with_capacity(values.len()), &values[..]);
            for (is_there, rows) in there {
                if is_there {
                    let (some, later) = left.split_at_checked(rows).ok_or_else(damaged)?;
                    all.extend(some.iter().copied().map(Some));
                    left = later;
                } else {
                    all.extend(std::iter::repeat_n(None, rows));
                }
            }
            let len = all.len();
            Ok((all, len))
        })
    }

    /// A column of numbers of 32 bits, none missing.
    ///
    /// # Errors
    /// The catalog is damaged, or cannot be read; as for the other columns.
    pub fn numbers32(&self, group: usize, name: &str) -> std::result::Result<Vec<u32>, Fault> {
        self.all(group, name, u32::from_le_bytes)
    }

    /// A column of numbers of 64 bits, none missing.
    pub fn numbers64(&self, group: usize, name: &str) -> std::result::Result<Vec<u64>, Fault> {
        self.all(group, name, u64::from_le_bytes)
    }

    /// A column of numbers of 32 bits, some of which may be missing.
    pub fn maybe32(&self, group: usize, name: &str) -> std::result::Result<Vec<Option<u32>>, Fault> {
        self.some(group, name, u32::from_le_bytes)
    }

    /// A column of numbers of 64 bits, some of which may be missing.
    pub fn maybe64(&self, group: usize, name: &str) -> std::result::Result<Vec<Option<u64>>, Fault> {
        self.some(group, name, u64::from_le_bytes)
    }

    /// A column of names.
    pub fn names(&self, group: usize, name: &str) -> std::result::Result<Names, Fault> {
        self.column(group, name, |pages, _| {
            let names = Names::read(pages, self.rows(group))?;
            let len = names.len();
            Ok((names, len))
        })
    }

    /// The hashes of what is in the files of a row group, where they are known.
    pub fn hashes(&self, group: usize) -> std::result::Result<Vec<Option<[u8; 32]>>, Fault> {
        self.some(group, "blake3", |hash| hash)
    }
}
