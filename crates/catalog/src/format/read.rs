//! Reads a catalog, one column of a row group at a time: from a file, or from all parts of a run in
//! a directory.

use std::collections::VecDeque;
use std::sync::Arc;

use gate::Errno;
use gate::sync::Mutex;
use walk::Meta;
use walk::entry::joined;

use super::about::About;
use super::columns::{BLAKE3, BTIME, CTIME, Column, PART, TimeColumns, Times, Value};
use super::file::CatalogFile;
use super::inode_sums::InodeSums;
use super::parts::{catalogs_in, check_complete, describe, number};
use crate::error::{Action, Error, ErrorKind};
use crate::part::{magic_of, may_have_changed};
use crate::remote::{self, StoreError};

/// A catalog, open for reading.
#[derive(Debug)]
pub struct Reader {
    path: Vec<u8>,
    files: Vec<Arc<CatalogFile>>,
    /// Row groups: for each, the index of its file, and its index within the file.
    groups: Vec<(usize, usize)>,
    /// If the catalog has several files: maps each file's part numbers to those of the joined
    /// catalog.
    numbers: Vec<Vec<u32>>,
    about: About,
    /// A cache of file checksums, each with the index of the row group.
    recent: Mutex<VecDeque<(usize, Hashes)>>,
}

/// Checksums of the files of a row group, if known.
type Hashes = Arc<Vec<Option<[u8; 32]>>>;

impl Reader {
    /// Opens a catalog, and checks that it is complete and of a known version. A directory must
    /// have all parts of one run, which are read as one catalog.
    pub fn open(path: &[u8]) -> Result<Reader, Error> {
        if remote::is_prefix(path) {
            return Reader::open_parts(path);
        }
        match CatalogFile::open(path) {
            Ok(file) => Ok(Reader::from_file(file)),
            Err(error) if error.errno() == Some(Errno::EISDIR) => Reader::open_parts(path),
            // The path may be a prefix in the store, without the final slash.
            Err(error) if matches!(error.kind, ErrorKind::Store(StoreError::NotFound)) => {
                match catalogs_in(path)? {
                    Some(_) => Reader::open_parts(path),
                    None => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Checks that no other user can have written a file of the catalog.
    pub fn check_trusted(&self) -> Result<(), ErrorKind> {
        self.files.iter().try_for_each(|file| file.check_trusted())
    }

    fn from_file(file: CatalogFile) -> Reader {
        Reader {
            path: file.path().to_vec(),
            groups: (0..file.groups()).map(|group| (0, group)).collect(),
            numbers: Vec::new(),
            about: file.about().clone(),
            files: vec![Arc::new(file)],
            recent: Mutex::default(),
        }
    }

    fn open_parts(path: &[u8]) -> Result<Reader, Error> {
        let refused = |kind| Error::new(Action::ReadCatalog, path, kind);
        let names = catalogs_in(path)?.unwrap_or_default();
        let parts = names.iter().map(|name| Reader::open(&joined(path, name)));
        let mut parts = parts.collect::<Result<Vec<_>, _>>()?;
        if parts.len() == 1 && parts[0].about.options.shard.is_none() {
            return Ok(parts.swap_remove(0));
        }
        let abouts: Vec<&About> = parts.iter().map(Reader::about).collect();
        check_complete(&names, &abouts).map_err(refused)?;
        Reader::join(path, &parts)
    }

    /// Reads the parts of a run as one catalog.
    ///
    /// # Errors
    /// The catalogs are not exactly the parts of one run, or one cannot be read.
    pub(crate) fn join(path: &[u8], parts: &[Reader]) -> Result<Reader, Error> {
        let abouts: Vec<&About> = parts.iter().map(Reader::about).collect();
        let mut about =
            describe(&abouts).map_err(|kind| Error::new(Action::UseCatalog, path, kind))?;
        let numbers = abouts.iter();
        let numbers = numbers.map(|own| number(&own.parts, &mut about.parts));
        let numbers = numbers.collect();
        let files = parts.iter().flat_map(|part| part.files.iter().cloned());
        let files: Vec<_> = files.collect();
        let groups = files.iter().enumerate();
        let groups =
            groups.flat_map(|(nth, file)| (0..file.groups()).map(move |group| (nth, group)));
        let groups = groups.collect();
        let mut reader = Reader {
            path: path.to_vec(),
            files,
            groups,
            numbers,
            about,
            recent: Mutex::default(),
        };
        if reader.about.racy == 0 {
            reader.about.racy = reader.count_racy()?;
        }
        Ok(reader)
    }

    /// Counts the rows that may have changed since the walk of the first part began. The count
    /// stored in a part covers only the time since the walk of that part began.
    fn count_racy(&self) -> Result<u64, Error> {
        /// Coarsest granularity of a ctime, in seconds.
        const COARSE: i64 = 2;
        let since = self.about.at_rest_before();
        let mut racy = 0;
        for group in 0..self.groups() {
            let limits = self.time_limits(CTIME, group);
            if limits.is_some_and(|(_, max)| max.saturating_add(COARSE) < since.sec) {
                continue;
            }
            let (parts, ctimes) = (self.read(PART, group)?, self.read(CTIME, group)?);
            let btimes = self.read(BTIME, group)?;
            let is_racy = |row: &usize| {
                let meta = Meta {
                    ctime: ctimes.at(*row),
                    btime: btimes.at(*row),
                    ..Meta::default()
                };
                may_have_changed(
                    &meta,
                    magic_of(&self.about.parts, parts[*row] as usize),
                    since,
                )
            };
            racy += (0..self.rows(group)).filter(is_racy).count() as u64;
        }
        Ok(racy)
    }

    /// The file of the catalog; `None` if the catalog consists of several files.
    pub(super) fn single_file(&self) -> Option<&CatalogFile> {
        match self.is_in_parts() {
            true => None,
            false => self.files.first().map(|file| &**file),
        }
    }

    /// Whether the catalog consists of several files, each a part of one run.
    pub fn is_in_parts(&self) -> bool {
        !self.numbers.is_empty()
    }

    /// The description of the catalog.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Reads the sums over inodes; `None` if they are missing or damaged.
    pub(crate) fn inode_sums(&self) -> Option<InodeSums> {
        self.single_file()?.inode_sums()
    }

    /// Number of row groups.
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    fn group(&self, group: usize) -> Option<(&CatalogFile, usize)> {
        let (file, group) = *self.groups.get(group)?;
        Some((&self.files[file], group))
    }

    /// Number of rows in a row group.
    pub fn rows(&self, group: usize) -> usize {
        self.group(group)
            .map_or(0, |(file, group)| file.rows(group))
    }

    /// Index of a row group's first row.
    pub fn first(&self, group: usize) -> u32 {
        (0..group).map(|before| self.rows(before) as u32).sum()
    }

    /// Reads a column of a row group, or the two columns of a time: one value per row.
    pub fn read<C: Columns>(&self, columns: C, group: usize) -> Result<C::Values, Error> {
        columns.read_from(self, group)
    }

    /// Minimum and maximum of an unsigned column in a row group; `None` in catalogs of older
    /// versions.
    pub fn unsigned_limits<V>(&self, column: Column<V>, group: usize) -> Option<(u64, u64)> {
        let (file, group) = self.group(group)?;
        file.unsigned_limits(column, group)
    }

    /// Minimum and maximum of a time's seconds in a row group.
    pub fn time_limits(&self, times: TimeColumns<i64, u32>, group: usize) -> Option<(i64, i64)> {
        let (file, group) = self.group(group)?;
        file.time_limits(times, group)
    }

    fn decode<V: Value>(&self, column: Column<V>, group: usize) -> Result<V::Values, Error> {
        let name = column.name;
        let Some(&(nth, group)) = self.groups.get(group) else {
            let kind = ErrorKind::DamagedCatalog;
            return Err(Error::new(Action::ReadCatalog, &self.path, kind));
        };
        let mut values = self.files[nth].decode(column, group)?;
        if let Some(numbers) = self.numbers.get(nth).filter(|_| name == PART.name) {
            V::renumber(&mut values, numbers);
        }
        Ok(values)
    }

    /// Checksums of the files of a row group. The last few row groups are cached, because the rows
    /// of one row group are mostly in two adjacent row groups of the next catalog.
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

/// A [`Column`], or the two [`TimeColumns`] of a time.
pub trait Columns {
    /// The decoded values, one per row.
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
    use super::super::output::CatalogOutput;
    use super::super::schema::Record;
    use super::*;
    use crate::part::Part;

    fn write_catalog(path: &[u8], groups: usize, rows: usize) {
        let (encoder, mut out) = CatalogOutput::create(path).unwrap();
        for group in 0..groups {
            let names: Vec<String> = (0..rows).map(|row| format!("name {group} {row}")).collect();
            let row = |nth: usize| {
                let some = nth.is_multiple_of(3);
                let time = Time::new(1_700_000_000 + nth as i64 / 5, nth as u32 * 777);
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
            roots: vec![crate::format::Root {
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

    /// A damaged catalog must be rejected, with its path, or have the same contents.
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
