//! Reads a catalog back, a column of a row group at a time.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Once};

use bytes::Bytes;
use gate::Errno;
use gate::sync::Mutex;
use ondisk::Dev;
use parquet::basic::Compression;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::file::statistics::Statistics;
use walk::Meta;

use super::about::{About, KEY};
use super::column::{Pages, damaged};
use super::columns::{
    ATIME, ATTRIBUTES, BLAKE3, BLOCKS, BTIME, COLUMNS, CTIME, Column, GENERATION, GID, INO, MODE,
    MTIME, NLINK, RDEV_MAJOR, RDEV_MINOR, SIZE, TimeColumns, Times, UID, Value, XATTRS,
};
use super::footer;
use super::schema::descriptor;
use crate::error::{Action, Error, ErrorKind};

/// Rows of a row group, at most: more than any writer makes by default. A few bytes of a damaged
/// file can claim any number of equal rows.
const MOST_ROWS: u64 = 1 << 20;

/// Bytes at the end of the file: the length of the metadata before them, and the magic.
const END: u64 = 8;

/// A catalog, open for reading.
#[derive(Debug)]
pub struct Reader {
    path: Vec<u8>,
    file: gate::file::Reader,
    metadata: ParquetMetaData,
    about: About,
    /// The hashes that were read last, with their row groups.
    recent: Mutex<VecDeque<(usize, Hashes)>>,
}

/// The checksums of the files of a row group, where they are known.
type Hashes = Arc<Vec<Option<[u8; 32]>>>;

/// The bytes of a column chunk, at their offset in the file.
struct ChunkBytes {
    offset: u64,
    bytes: Bytes,
}

impl ChunkBytes {
    fn at(&self, start: u64) -> ParquetResult<usize> {
        let at = start
            .checked_sub(self.offset)
            .and_then(|at| usize::try_from(at).ok());
        at.filter(|at| *at <= self.bytes.len()).ok_or_else(damaged)
    }
}

impl Length for ChunkBytes {
    fn len(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

impl ChunkReader for ChunkBytes {
    type T = io::Cursor<Bytes>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(io::Cursor::new(self.bytes.slice(self.at(start)?..)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let at = self.at(start)?;
        if length > self.bytes.len() - at {
            return Err(damaged());
        }
        Ok(self.bytes.slice(at..at + length))
    }
}

fn read_bytes(file: &gate::file::Reader, start: u64, len: usize) -> ParquetResult<Bytes> {
    let short = || ParquetError::EOF("it is truncated".to_owned());
    // Checked before memory is allocated: a damaged file may claim any length.
    let end = start.checked_add(len as u64).ok_or_else(short)?;
    if end > file.len() {
        return Err(short());
    }
    let mut bytes = vec![0; len];
    match file.read_at(start, &mut bytes) {
        Ok(n) if n == len => Ok(bytes.into()),
        Ok(_) => Err(short()),
        Err(e) => Err(ParquetError::External(Box::new(e))),
    }
}

/// Reads everything after the row groups.
fn read_footer(file: &gate::file::Reader) -> ParquetResult<Bytes> {
    let end = file.len().checked_sub(END).ok_or_else(damaged)?;
    let len = read_bytes(file, end, 4)?.first_chunk().copied();
    let from = len
        .and_then(|len| end.checked_sub(u32::from_le_bytes(len).into()))
        .filter(|from| *from >= 4)
        .ok_or_else(damaged)?;
    read_bytes(file, from, (file.len() - from) as usize)
}

thread_local! {
    /// Whether this thread is within [`catch_panics`].
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Runs code of the library, which panics on some damaged bytes: that is an error here, and prints
/// no message.
fn catch_panics<T>(read: impl FnOnce() -> ParquetResult<T>) -> ParquetResult<T> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !IS_CAUGHT.get() {
                before(panic);
            }
        }));
    });
    let outer = IS_CAUGHT.replace(true);
    let read = std::panic::catch_unwind(AssertUnwindSafe(read));
    IS_CAUGHT.set(outer);
    read.unwrap_or_else(|_| Err(damaged()))
}

impl Reader {
    /// Opens a catalog, and checks that it is one, is complete and has a known version.
    pub fn open(path: &[u8]) -> Result<Reader, Error> {
        let error = |kind| Error::new(Action::ReadCatalog, path, kind);
        let unread = |errno: Errno| error(errno.into());
        let file = gate::file::Reader::open(path).map_err(unread)?;
        let (mut head, mut tail) = ([0; 4], [0; 4]);
        if let Some(end) = file.len().checked_sub(4) {
            file.read_at(0, &mut head).map_err(unread)?;
            file.read_at(end, &mut tail).map_err(unread)?;
        }
        match (&head, &tail) {
            (b"PAR1", b"PAR1") if file.len() > 12 => {}
            (b"PAR1", _) => return Err(error(ErrorKind::CutShort)),
            _ => return Err(error(ErrorKind::NotParquet)),
        }
        let damaged = || error(ErrorKind::DamagedCatalog);
        let footer = read_footer(&file).map_err(|e| match ErrorKind::from(e) {
            unread @ ErrorKind::Call { .. } => error(unread),
            _ => damaged(),
        })?;
        let is_right = footer::is_right(&footer);
        if is_right == Some(false) {
            return Err(damaged());
        }
        let metadata = &footer[..footer.len() - END as usize];
        let metadata = catch_panics(|| ParquetMetaDataReader::decode_metadata(metadata))
            .map_err(|_| damaged())?;
        let pairs = metadata.file_metadata().key_value_metadata();
        let about = pairs
            .and_then(|pairs| pairs.iter().find(|pair| pair.key == KEY))
            .and_then(|pair| pair.value.as_deref())
            .ok_or(ErrorKind::NotCatalog)
            .and_then(About::from_json)
            .map_err(error)?;
        let reader = Reader {
            path: path.to_vec(),
            file,
            metadata,
            about,
            recent: Mutex::default(),
        };
        if reader.is_sound(is_right.is_some()) {
            Ok(reader)
        } else {
            Err(damaged())
        }
    }

    /// Copies the catalog to `path`, atomically, with another description of the same rows.
    pub(crate) fn copy_to(&self, path: &[u8], about: &About) -> Result<(), Error> {
        let read = |e: ParquetError| Error::new(Action::ReadCatalog, &self.path, e);
        let write = |kind: ErrorKind| Error::new(Action::WriteCatalog, path, kind);
        let footer = read_footer(&self.file).map_err(read)?;
        let mut to = gate::file::Writer::create(path).map_err(|e| write(e.into()))?;
        let mut at = 0;
        let end = self.file.len() - footer.len() as u64;
        while at < end {
            let piece = (end - at).min(1 << 20) as usize;
            let bytes = read_bytes(&self.file, at, piece).map_err(read)?;
            to.write_all(&bytes).map_err(|e| write(e.into()))?;
            at += piece as u64;
        }
        let footer =
            footer::describe(&self.metadata, about.to_pair()).map_err(|e| write(e.into()))?;
        to.write_all(&footer).map_err(|e| write(e.into()))?;
        to.publish().map_err(|e| write(e.into()))
    }

    /// Whether the columns and the numbers of rows are as they must be; and, if the footer has a
    /// checksum, whether the columns have theirs.
    fn is_sound(&self, has_checksum: bool) -> bool {
        let Ok(wanted) = descriptor() else {
            return false;
        };
        let schema = self.metadata.file_metadata().schema_descr();
        let mut columns = schema.columns().iter().zip(wanted.columns());
        let is_same = schema.num_columns() == COLUMNS.len()
            && columns.all(|(is, wanted)| {
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
        let has_all = checksums.len() == if has_checksum { self.groups() } else { 0 }
            && checksums.iter().all(|group| group.len() == COLUMNS.len());
        is_same && has_all && rows.sum::<Option<u64>>() == Some(self.about.entries)
    }

    /// Its description.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// The number of row groups.
    pub fn groups(&self) -> usize {
        self.metadata.num_row_groups()
    }

    /// The number of rows in a row group.
    pub fn rows(&self, group: usize) -> usize {
        let group = self.metadata.row_groups().get(group);
        group.map_or(0, |group| group.num_rows() as usize)
    }

    /// The place of the first row of a row group.
    pub fn first(&self, group: usize) -> u32 {
        (0..group).map(|before| self.rows(before) as u32).sum()
    }

    /// Reads a column of a row group, or two that make a time: a value for each row.
    pub fn read<C: Columns>(&self, columns: C, group: usize) -> Result<C::Values, Error> {
        columns.read_from(self, group)
    }

    /// The least and the greatest value of a column without sign in a row group, if the catalog has
    /// them: those of older versions have not.
    pub fn unsigned_limits<V>(&self, column: Column<V>, group: usize) -> Option<(u64, u64)> {
        match self.statistics(column.name, group)? {
            Statistics::Int32(s) => Some((
                s.min_opt()?.cast_unsigned().into(),
                s.max_opt()?.cast_unsigned().into(),
            )),
            Statistics::Int64(s) => {
                Some((s.min_opt()?.cast_unsigned(), s.max_opt()?.cast_unsigned()))
            }
            _ => None,
        }
    }

    /// The same for the seconds of a time.
    pub fn time_limits(&self, times: TimeColumns<i64, u32>, group: usize) -> Option<(i64, i64)> {
        match self.statistics(times.0.name, group)? {
            Statistics::Int64(s) => Some((*s.min_opt()?, *s.max_opt()?)),
            _ => None,
        }
    }

    fn statistics(&self, name: &str, group: usize) -> Option<&Statistics> {
        let nth = COLUMNS.iter().position(|column| column.name == name)?;
        let column = self.metadata.row_groups().get(group)?.column(nth);
        let statistics = column.statistics();
        statistics.filter(|it| !it.is_min_max_deprecated())
    }

    fn decode<V: Value>(
        &self,
        Column { name, .. }: Column<V>,
        group: usize,
    ) -> Result<V::Values, Error> {
        let absent =
            || ParquetError::General(format!("it has no column {name} in row group {group}"));
        let read = || {
            let mut columns = COLUMNS.iter();
            let nth = columns.position(|column| column.name == name);
            let nth = nth.ok_or_else(absent)?;
            let meta = self.metadata.row_groups().get(group).ok_or_else(absent)?;
            let (column, rows) = (meta.column(nth), meta.num_rows() as usize);
            let (offset, len) = column.byte_range();
            let bytes = read_bytes(&self.file, offset, len as usize)?;
            let checksums = self.about.checksums.get(group);
            let checksum = checksums.and_then(|group| group.get(nth));
            if checksum.is_some_and(|checksum| *checksum != crc32fast::hash(&bytes)) {
                return Err(ParquetError::General(format!(
                    "column {name} has another checksum in row group {group}"
                )));
            }
            let chunk = Arc::new(ChunkBytes { offset, bytes });
            let is_zstd = matches!(column.compression(), Compression::ZSTD(_));
            // The library would make a compressor and a decompressor for each column: so it is told
            // that the pages are not compressed.
            let as_stored = is_zstd.then(|| {
                let column = column.clone().into_builder();
                column.set_compression(Compression::UNCOMPRESSED).build()
            });
            let as_stored = as_stored.transpose()?;
            let stored = as_stored.as_ref().unwrap_or(column);
            V::decode(Pages {
                pages: &mut SerializedPageReader::new(chunk, stored, rows, None)?,
                rows,
                is_optional: column.column_descr().max_def_level() > 0,
                unpacked: is_zstd.then(|| usize::try_from(column.uncompressed_size()).unwrap_or(0)),
            })
        };
        catch_panics(read).map_err(|e| {
            let kind = match ErrorKind::from(e) {
                ErrorKind::Parquet(error) => ErrorKind::DamagedColumn(error),
                unread => unread,
            };
            Error::new(Action::ReadCatalog, &self.path, kind)
        })
    }

    /// The metadata of the rows of a row group, by place in it, without mount and device: a catalog
    /// has no mount ids, and its device numbers may be of other devices today.
    pub(crate) fn metas(&self, group: usize) -> Result<impl Fn(usize) -> Meta + use<>, Error> {
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

    /// The checksums of the files of a row group. The last few row groups are cached: the rows of
    /// one are mostly in two successive row groups of the next catalog.
    pub fn hashes(&self, group: usize) -> Result<Hashes, Error> {
        const KEPT: usize = 3;
        let mut recent = self.recent.lock();
        if let Some((_, hashes)) = recent.iter().find(|(known, _)| *known == group) {
            return Ok(Arc::clone(hashes));
        }
        drop(recent);
        let hashes = Arc::new(self.read(BLAKE3, group)?);
        recent = self.recent.lock();
        recent.truncate(KEPT - 1);
        recent.push_front((group, Arc::clone(&hashes)));
        Ok(hashes)
    }
}

/// A [`Column`], or the [`TimeColumns`] of a time.
pub trait Columns {
    /// The values, by row.
    type Values;

    #[doc(hidden)]
    fn read_from(self, reader: &Reader, group: usize) -> Result<Self::Values, Error>;
}

impl<V: Value> Columns for Column<V> {
    type Values = V::Values;

    fn read_from(self, reader: &Reader, group: usize) -> Result<V::Values, Error> {
        reader.decode(self, group)
    }
}

impl<S, N> Columns for TimeColumns<S, N>
where
    S: Value<Values = Vec<S>>,
    N: Value<Values = Vec<N>>,
{
    type Values = Times<S, N>;

    fn read_from(self, reader: &Reader, group: usize) -> Result<Times<S, N>, Error> {
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

    /// Writes a catalog.
    fn write_catalog(path: &[u8], groups: usize, rows: usize) {
        let (encoder, mut out) = Output::create(path).unwrap();
        for group in 0..groups {
            let names: Vec<String> = (0..rows).map(|row| format!("name {group} {row}")).collect();
            let row = |nth: usize| {
                let some = nth.is_multiple_of(3);
                let time = Time {
                    sec: 1_700_000_000 + nth as i64 / 5,
                    nsec: nth as u32 * 777,
                };
                let meta = Meta {
                    ino: 1000 + nth as u64,
                    mode: 0o100644,
                    size: nth as u64 * nth as u64,
                    mtime: time,
                    ctime: time,
                    btime: some.then_some(time),
                    generation: (!nth.is_multiple_of(4)).then_some(nth as u32),
                    xattrs: (nth % 5 > 1).then_some(nth % 5 > 2),
                    ..Meta::default()
                };
                Record {
                    meta,
                    part: 0,
                    top: 0,
                    blake3: some.then(|| *blake3::hash(names[nth].as_bytes()).as_bytes()),
                    dir: if nth % 7 < 3 { b"dir" } else { b"dir/below" },
                    name: names[nth].as_bytes(),
                }
            };
            let columns = encoder.encode_together(rows, row).unwrap();
            out.append(columns).unwrap();
        }
        let about = About {
            roots: vec![crate::catalog::Root {
                path: b"/srv".to_vec(),
                absolute: Some(b"/srv".to_vec()),
            }],
            entries: (groups * rows) as u64,
            digest: "0123456789abcdef".to_owned(),
            complete: true,
            parts: vec![Part::default()],
            ..About::default()
        };
        out.seal(about).unwrap().publish().unwrap();
    }

    /// Reads everything in a catalog.
    fn read(path: &[u8]) -> Result<String, Error> {
        let reader = Reader::open(path)?;
        let (mut columns, mut all) = (0, format!("{:?}", reader.about()));
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

    /// A damaged catalog is refused with its path, or has the same contents.
    #[test]
    #[allow(
        clippy::disallowed_methods,
        reason = "the test damages the file past the gate"
    )]
    fn flipped_bits_are_detected() {
        let place = tempfile::tempdir_in("/dev/shm").unwrap();
        let file = place.path().join("catalog");
        let path = file.as_os_str().as_bytes();
        for (groups, rows, step) in [(1, 5, 1), (3, 300, 97), (0, 0, 3)] {
            write_catalog(path, groups, rows);
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
