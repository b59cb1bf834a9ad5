//! Reads a catalog back, a column of a row group at a time.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Once};

use bytes::Bytes;
use gate::Errno;
use gate::sync::Mutex;
use ondisk::Dev;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;
use walk::Meta;

use super::about::About;
use super::about::{KEY, Strange, VERSION};
use super::column::damaged;
use super::columns::{
    ATIME, ATTRIBUTES, BLAKE3, BLOCKS, BTIME, CTIME, Column, GENERATION, GID, INO, MODE, MTIME,
    NLINK, Pages, RDEV_MAJOR, RDEV_MINOR, SIZE, TimeColumns, Times, UID, Value, XATTRS,
};
use super::footer;
use super::schema::{COLUMNS, descriptor};
use crate::error::{Action, Error, ErrorKind};

/// A catalog, open for reading.
#[derive(Debug)]
pub struct Reader {
    path: Vec<u8>,
    file: Arc<Source>,
    metadata: ParquetMetaData,
    about: About,
    /// The hashes that were read last, with their row groups.
    recent: Mutex<VecDeque<(usize, Hashes)>>,
}

/// The hashes of what is in the files of a row group, where they are known.
pub type Hashes = Arc<Vec<Option<[u8; 32]>>>;

/// A piece of a file, in memory.
struct Piece {
    /// Where it begins.
    from: u64,
    bytes: Bytes,
}

impl Piece {
    fn at(&self, start: u64) -> Result<usize> {
        let at = start
            .checked_sub(self.from)
            .and_then(|at| usize::try_from(at).ok());
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
        if length > self.bytes.len() - at {
            Err(damaged())
        } else {
            Ok(self.bytes.slice(at..at + length))
        }
    }
}

/// Rows of a row group, at most: more than anybody writes without being asked to. A few bytes can
/// stand for any number of rows that are alike, and none of them is to be believed more than this.
const MOST_ROWS: u64 = 1 << 20;

/// The library's way to a file, through the gate.
#[derive(Debug)]
struct Source(gate::file::Reader);

impl Length for Source {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

/// Bytes at the end: how long the metadata before them are, and the magic.
const END: u64 = 8;

impl Source {
    /// All that comes after the row groups.
    fn footer(&self) -> Result<Bytes> {
        let end = self.0.len().checked_sub(END).ok_or_else(damaged)?;
        let len = self
            .get_bytes(end, 4)?
            .first_chunk()
            .map(|len| u64::from(u32::from_le_bytes(*len)));
        let from = len
            .and_then(|len| end.checked_sub(len))
            .filter(|from| *from >= 4)
            .ok_or_else(damaged)?;
        self.get_bytes(from, (self.0.len() - from) as usize)
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
        if start
            .checked_add(length as u64)
            .is_none_or(|end| end > self.0.len())
        {
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
    /// Whether this thread is within [`catch_panics`].
    static HELD: Cell<bool> = const { Cell::new(false) };
}

/// What the library makes of bytes that may be damaged: from some it panics, which is an error here
/// as any other, and is not talked about.
fn catch_panics<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
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
    pub fn open(path: &[u8]) -> std::result::Result<Reader, Error> {
        let error = |kind| Error::new(Action::ReadCatalog, path, kind);
        let unread = |errno: Errno| error(errno.into());
        let file = gate::file::Reader::open(path).map_err(unread)?;
        let (mut head, mut tail) = ([0; 4], [0; 4]);
        let ends = file.len().checked_sub(4).map_or(Ok(0), |end| {
            file.read_at(0, &mut head)
                .and_then(|_| file.read_at(end, &mut tail))
        });
        ends.map_err(unread)?;
        match (&head, &tail) {
            (b"PAR1", b"PAR1") if file.len() > 12 => {}
            (b"PAR1", _) => return Err(error(ErrorKind::CutShort)),
            _ => return Err(error(ErrorKind::NotParquet)),
        }
        let file = Arc::new(Source(file));
        let damaged = || error(ErrorKind::DamagedCatalog);
        let footer = file.footer().map_err(|e| match ErrorKind::from(e) {
            unread @ ErrorKind::Call { .. } => error(unread),
            _ => damaged(),
        })?;
        let is_summed = match footer::is_right(&footer) {
            Some(false) => return Err(damaged()),
            is_right => is_right.is_some(),
        };
        let metadata = catch_panics(|| {
            ParquetMetaDataReader::decode_metadata(&footer[..footer.len() - END as usize])
        })
        .map_err(|_| damaged())?;
        let pairs = metadata.file_metadata().key_value_metadata();
        let own = pairs
            .and_then(|pairs| pairs.iter().find(|pair| pair.key == KEY))
            .and_then(|pair| pair.value.as_deref());
        let about = match own.map(About::from_json) {
            None => {
                return Err(error(ErrorKind::NotCatalog));
            }
            Some(Err(Strange::Newer(version))) => {
                return Err(error(ErrorKind::NewerCatalog {
                    version,
                    known: VERSION,
                }));
            }
            Some(Err(Strange::Damaged)) => return Err(damaged()),
            Some(Ok(about)) => about,
        };
        let reader = Reader {
            path: path.to_vec(),
            file,
            metadata,
            about,
            recent: Mutex::default(),
        };
        if !reader.is_sound(is_summed) {
            Err(damaged())
        } else {
            Ok(reader)
        }
    }

    /// Whether columns and counts are as they must be, so that nobody need ask again; and, if the
    /// footer has a checksum, whether the columns have theirs.
    fn is_sound(&self, is_summed: bool) -> bool {
        let Ok(wanted) = descriptor() else {
            return false;
        };
        let schema = self.metadata.file_metadata().schema_descr();
        let is_same = schema.num_columns() == COLUMNS.len()
            && schema
                .columns()
                .iter()
                .zip(wanted.columns())
                .all(|(is, wanted)| {
                    is.path() == wanted.path()
                        && is.physical_type() == wanted.physical_type()
                        && is.max_def_level() == wanted.max_def_level()
                        && is.max_rep_level() == wanted.max_rep_level()
                });
        let rows = self.metadata.row_groups().iter().map(|group| {
            let rows = u64::try_from(group.num_rows())
                .ok()
                .filter(|rows| *rows <= MOST_ROWS)?;
            let is_whole = group.columns().len() == COLUMNS.len()
                && group.columns().iter().all(|column| {
                    column.num_values() == group.num_rows()
                        && column.data_page_offset() >= 4
                        && column.dictionary_page_offset().is_none_or(|at| at >= 4)
                        && column.compressed_size() >= 0
                });
            is_whole.then_some(rows)
        });
        let checksums = &self.about.checksums;
        let has_all = checksums.len() == if is_summed { self.groups() } else { 0 }
            && checksums.iter().all(|group| group.len() == COLUMNS.len());
        is_same && has_all && rows.sum::<Option<u64>>() == Some(self.about.entries)
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
        self.metadata
            .row_groups()
            .get(group)
            .map_or(0, |group| group.num_rows() as usize)
    }

    /// The place of the first row of a row group.
    pub fn first(&self, group: usize) -> u32 {
        (0..group).map(|before| self.rows(before) as u32).sum()
    }

    /// What is wrong with it, found while it was being read.
    fn damaged(&self, error: ParquetError) -> Error {
        let kind = match ErrorKind::from(error) {
            ErrorKind::Parquet(error) => ErrorKind::DamagedColumn(error),
            unread => unread,
        };
        Error::new(Action::ReadCatalog, &self.path, kind)
    }

    /// Reads a column of a row group, or two that make a time: a value for each row.
    ///
    /// # Errors
    /// The catalog is damaged, or cannot be read.
    pub fn read<C: Columns>(
        &self,
        columns: C,
        group: usize,
    ) -> std::result::Result<C::Values, Error> {
        columns.read_from(self, group)
    }

    fn decode<V: Value>(
        &self,
        column: Column<V>,
        group: usize,
    ) -> std::result::Result<V::Values, Error> {
        let name = column.name;
        let absent =
            || ParquetError::General(format!("it has no column {name} in row group {group}"));
        let read = || {
            let nth = COLUMNS
                .iter()
                .position(|column| column.name == name)
                .ok_or_else(absent)?;
            let meta = self.metadata.row_groups().get(group).ok_or_else(absent)?;
            let (column, rows) = (meta.column(nth), meta.num_rows() as usize);
            let chunk = self.chunk(column)?;
            let checksum = self
                .about
                .checksums
                .get(group)
                .and_then(|group| group.get(nth));
            if checksum.is_some_and(|checksum| *checksum != crc32fast::hash(&chunk.bytes)) {
                return Err(ParquetError::General(format!(
                    "column {name} has another checksum in row group {group}"
                )));
            }
            let pages = &mut SerializedPageReader::new(chunk, column, rows, None)?;
            let is_optional = column.column_descr().max_def_level() > 0;
            match V::decode(Pages {
                pages,
                rows,
                is_optional,
            })? {
                (values, len) if len == rows => Ok(values),
                _ => Err(ParquetError::EOF("a column has too few values".to_owned())),
            }
        };
        catch_panics(read).map_err(|e| self.damaged(e))
    }

    /// All bytes of a column chunk.
    fn chunk(&self, column: &ColumnChunkMetaData) -> Result<Arc<Piece>> {
        let (from, len) = column.byte_range();
        Ok(Arc::new(Piece {
            from,
            bytes: self.file.get_bytes(from, len as usize)?,
        }))
    }

    /// The metadata of the rows of a row group, by the place of a row in it. A catalog has no mount
    /// ids; of the device, it has a number that may be another one today, so that is left out too.
    pub(crate) fn metas(
        &self,
        group: usize,
    ) -> std::result::Result<impl Fn(usize) -> Meta + use<>, Error> {
        let (inos, sizes) = (self.read(INO, group)?, self.read(SIZE, group)?);
        let (blocks, attributes) = (self.read(BLOCKS, group)?, self.read(ATTRIBUTES, group)?);
        let (modes, nlinks) = (self.read(MODE, group)?, self.read(NLINK, group)?);
        let (uids, gids) = (self.read(UID, group)?, self.read(GID, group)?);
        let (atimes, mtimes) = (self.read(ATIME, group)?, self.read(MTIME, group)?);
        let (ctimes, btimes) = (self.read(CTIME, group)?, self.read(BTIME, group)?);
        let generations = self.read(GENERATION, group)?;
        let (majors, minors) = (self.read(RDEV_MAJOR, group)?, self.read(RDEV_MINOR, group)?);
        let xattrs = self.read(XATTRS, group)?;
        Ok(move |row: usize| Meta {
            ino: inos[row],
            mode: modes[row],
            nlink: nlinks[row],
            uid: uids[row],
            gid: gids[row],
            size: sizes[row],
            blocks: blocks[row],
            atime: atimes.at(row),
            mtime: mtimes.at(row),
            ctime: ctimes.at(row),
            btime: btimes.at(row),
            rdev: Dev {
                major: majors[row],
                minor: minors[row],
            },
            dev: Dev::default(),
            mount: 0,
            attributes: attributes[row],
            generation: generations[row],
            xattrs: xattrs[row],
        })
    }

    /// The checksums of the files of a row group. Those of the last few row groups are kept: the
    /// rows of one are mostly in two of the next catalog, one after the other.
    pub fn hashes(&self, group: usize) -> std::result::Result<Hashes, Error> {
        const KEPT: usize = 3;
        let recent = || self.recent.lock();
        if let Some((_, hashes)) = recent().iter().find(|(known, _)| *known == group) {
            return Ok(Arc::clone(hashes));
        }
        let hashes = Arc::new(self.read(BLAKE3, group)?);
        let mut recent = recent();
        recent.truncate(KEPT - 1);
        recent.push_front((group, Arc::clone(&hashes)));
        Ok(hashes)
    }
}

/// What [`Reader::read`] reads: a [`Column`], or the [`TimeColumns`] of a time.
pub trait Columns: Copy {
    /// The values, by row.
    type Values;

    #[doc(hidden)]
    fn read_from(self, reader: &Reader, group: usize) -> std::result::Result<Self::Values, Error>;
}

impl<V: Value> Columns for Column<V> {
    type Values = V::Values;

    fn read_from(self, reader: &Reader, group: usize) -> std::result::Result<V::Values, Error> {
        reader.decode(self, group)
    }
}

impl<S, N> Columns for TimeColumns<S, N>
where
    S: Value<Values = Vec<S>> + Copy,
    N: Value<Values = Vec<N>> + Copy,
{
    type Values = Times<S, N>;

    fn read_from(self, reader: &Reader, group: usize) -> std::result::Result<Times<S, N>, Error> {
        Ok(Times {
            secs: reader.decode(self.0, group)?,
            nsecs: reader.decode(self.1, group)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;

    use walk::entry::Time;

    use super::super::columns::*;
    use super::super::output::Output;
    use super::super::schema::Record;
    use super::*;
    use crate::part::Part;

    /// A catalog of some row groups of so many rows.
    fn catalog(path: &[u8], groups: usize, rows: usize) {
        let (layout, mut out) = Output::create(path).unwrap();
        for group in 0..groups {
            let names: Vec<String> = (0..rows).map(|row| format!("name {group} {row}")).collect();
            let row = |nth: usize| {
                let some = nth.is_multiple_of(3);
                let time = Time {
                    sec: 1_700_000_000 + nth as i64 / 5,
                    nsec: nth as u32 * 777,
                };
                let (ino, mtime, ctime, btime) =
                    (1000 + nth as u64, time, time, some.then_some(time));
                let (size, generation) = (
                    nth as u64 * nth as u64,
                    (!nth.is_multiple_of(4)).then_some(nth as u32),
                );
                let xattrs = (nth % 5 > 1).then_some(nth % 5 > 2);
                let meta = Meta {
                    ino,
                    mode: 0o100644,
                    size,
                    mtime,
                    ctime,
                    btime,
                    generation,
                    xattrs,
                    ..Meta::default()
                };
                let blake3 = some.then(|| *blake3::hash(names[nth].as_bytes()).as_bytes());
                let dir = if nth % 7 < 3 {
                    &b"dir"[..]
                } else {
                    b"dir/below"
                };
                Record {
                    meta,
                    part: 0,
                    top: 0,
                    blake3,
                    dir,
                    name: names[nth].as_bytes(),
                }
            };
            out.append(layout.encode_together(rows, row).unwrap())
                .unwrap();
        }
        let root = crate::catalog::Root {
            path: b"/srv".to_vec(),
            absolute: Some(b"/srv".to_vec()),
        };
        let (entries, digest) = ((groups * rows) as u64, "0123456789abcdef".to_owned());
        let parts = vec![Part::default()];
        let about = About {
            roots: vec![root],
            entries,
            digest,
            complete: true,
            parts,
            ..About::default()
        };
        out.seal(about).unwrap().publish().unwrap();
    }

    /// All that anybody can learn from a catalog.
    fn read(path: &[u8]) -> std::result::Result<String, Error> {
        let reader = Reader::open(path)?;
        let all = format!("{:?}", reader.about());
        let (mut columns, mut all) = (0, all);
        macro_rules! read {
            ($($column:ident)*) => {
                $(
                    columns += 1;
                    for group in 0..reader.groups() {
                        all += &format!("{:?}", reader.read($column, group)?);
                    }
                )*
            };
        }
        read!(PART DIR NAME INO GENERATION MODE NLINK UID GID SIZE BLOCKS ATIME_SEC ATIME_NSEC);
        read!(MTIME_SEC MTIME_NSEC CTIME_SEC CTIME_NSEC BTIME_SEC BTIME_NSEC RDEV_MAJOR RDEV_MINOR);
        read!(DEV_MAJOR DEV_MINOR ATTRIBUTES XATTRS TOP BLAKE3);
        assert_eq!(columns, COLUMNS.len());
        Ok(all)
    }

    /// Whatever is done to it: it is refused as damaged, with its path, or says the same.
    #[test]
    #[allow(
        clippy::disallowed_methods,
        reason = "what is read was damaged past the gate"
    )]
    fn no_bit_can_be_flipped_unnoticed() {
        let place = tempfile::tempdir_in("/dev/shm").unwrap();
        let file = place.path().join("catalog");
        let path = file.as_os_str().as_bytes();
        for (groups, rows, step) in [(1, 5, 1), (3, 300, 97), (0, 0, 3)] {
            catalog(path, groups, rows);
            let (bytes, whole) = (fs::read(&file).unwrap(), read(path).unwrap());
            let refused = |bytes: &[u8]| {
                fs::write(&file, bytes).unwrap();
                let error = match read(path) {
                    Ok(says) if says == whole => return false,
                    Ok(says) => panic!("{whole}\nhas become\n{says}"),
                    Err(error) => error,
                };
                assert!(
                    error.path == path && error.kind.is_unusable_catalog(),
                    "{error:?}"
                );
                true
            };
            for byte in (0..bytes.len()).step_by(step) {
                let mut other = bytes.clone();
                other[byte] ^= 1 << (byte * 5 % 8);
                refused(&other);
                if byte.is_multiple_of(16) {
                    assert!(refused(&bytes[..byte]), "{byte} bytes of {}", bytes.len());
                }
            }
        }
    }
}
