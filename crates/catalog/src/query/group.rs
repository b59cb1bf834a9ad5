//! Queries a row group of a catalog, column by column.

use std::cell::OnceCell;

use ondisk::Dev;
use walk::entry::append;
use walk::predicate::test::{IdTest, TimeField};
use walk::predicate::{Predicates, base_name, is_empty_or_directory};
use walk::{Dir, DirKey, Entry, Fields, FileType, Meta, Worker};

use super::data_set::DataSet;
use crate::error::Error;
use crate::format::columns::{
    ATIME, ATTRIBUTES, BLOCKS, BTIME, CTIME, DEV_MAJOR, DEV_MINOR, DIR, GENERATION, GID, INO, MODE,
    MTIME, NAME, NLINK, RDEV_MAJOR, RDEV_MINOR, SIZE, TOP, Times, UID, XATTRS,
};
use crate::format::{Columns, Names, Reader};

/// A row group, with a cache of its columns.
pub(super) struct RowGroup<'a> {
    data: &'a DataSet,
    /// Index of the catalog in the data set.
    nth: usize,
    reader: &'a Reader,
    group: usize,
    modes: OnceCell<Vec<u32>>,
    nlinks: OnceCell<Vec<u32>>,
    uids: OnceCell<Vec<u32>>,
    gids: OnceCell<Vec<u32>>,
    sizes: OnceCell<Vec<u64>>,
    blocks: OnceCell<Vec<u64>>,
    atimes: OnceCell<Times<i64, u32>>,
    mtimes: OnceCell<Times<i64, u32>>,
    ctimes: OnceCell<Times<i64, u32>>,
    btimes: OnceCell<Times<Option<i64>, Option<u32>>>,
    dirs: OnceCell<Names>,
    names: OnceCell<Names>,
    tops: OnceCell<Vec<u32>>,
}

/// Defines accessors that read a column on first use.
macro_rules! lazy {
    ($($name:ident $column:ident $values:ty;)*) => {
        impl RowGroup<'_> {
            $(
                pub(super) fn $name(&self) -> Result<&$values, Error> {
                    if self.$name.get().is_none() {
                        let values = self.reader.read($column, self.group)?;
                        let _ = self.$name.set(values); // cannot fail on an empty cell
                    }
                    Ok(self.$name.get_or_init(|| unreachable!("it was set")))
                }
            )*
        }
    };
}

lazy! {
    modes MODE Vec<u32>;
    nlinks NLINK Vec<u32>;
    uids UID Vec<u32>;
    gids GID Vec<u32>;
    sizes SIZE Vec<u64>;
    blocks BLOCKS Vec<u64>;
    atimes ATIME Times<i64, u32>;
    mtimes MTIME Times<i64, u32>;
    ctimes CTIME Times<i64, u32>;
    btimes BTIME Times<Option<i64>, Option<u32>>;
    dirs DIR Names;
    names NAME Names;
    tops TOP Vec<u32>;
}

impl<'a> RowGroup<'a> {
    pub(super) fn new(data: &'a DataSet, nth: usize, group: usize) -> RowGroup<'a> {
        RowGroup {
            data,
            nth,
            reader: data.reader(nth),
            group,
            modes: OnceCell::new(),
            nlinks: OnceCell::new(),
            uids: OnceCell::new(),
            gids: OnceCell::new(),
            sizes: OnceCell::new(),
            blocks: OnceCell::new(),
            atimes: OnceCell::new(),
            mtimes: OnceCell::new(),
            ctimes: OnceCell::new(),
            btimes: OnceCell::new(),
            dirs: OnceCell::new(),
            names: OnceCell::new(),
            tops: OnceCell::new(),
        }
    }

    /// Passes the selected rows to a worker, with the requested fields.
    pub(super) fn emit(
        &self,
        predicates: &Predicates,
        fields: Fields,
        worker: &mut dyn Worker,
    ) -> Result<(), Error> {
        let rows = self.select(predicates)?;
        if rows.is_empty() {
            return Ok(());
        }
        let metas = self.metas(fields, &rows)?;
        if !fields.contains(Fields::NAME) {
            return self.emit_nameless(&rows, metas, worker);
        }
        let mut entries = Vec::new();
        let mut at = 0;
        while at < rows.len() {
            let place = self.place(rows[at])?;
            let names = self.names()?;
            entries.clear();
            while at < rows.len() && self.is_in(&place, rows[at])? {
                let name = &names[rows[at]];
                let meta = metas(rows[at]);
                entries.push(Entry { name, meta });
                at += 1;
            }
            worker.take(&place.dir(), &entries);
        }
        Ok(())
    }

    /// Selected row numbers, ascending.
    pub(super) fn select(&self, predicates: &Predicates) -> Result<Vec<usize>, Error> {
        if !self.may_match(predicates) {
            return Ok(Vec::new());
        }
        let mut rows: Vec<usize> = (0..self.reader.rows(self.group)).collect();
        self.select_by_numbers(predicates, &mut rows)?;
        self.select_by_names(predicates, &mut rows)?;
        Ok(rows)
    }

    /// Whether the predicates can select any row, judging by the column statistics in the footer.
    fn may_match(&self, p: &Predicates) -> bool {
        let overlaps = |limits: Option<(u64, u64)>, (low, high): (u128, u128)| {
            limits.is_none_or(|(min, max)| low <= max.into() && high >= min.into())
        };
        let sizes = || self.reader.unsigned_limits(SIZE, self.group);
        let links = || self.reader.unsigned_limits(NLINK, self.group);
        let is_id = |test: &IdTest, limits: Option<(u64, u64)>| {
            let id = u64::from(test.id);
            limits.is_none_or(|(min, max)| match test.negated {
                true => (min, max) != (id, id),
                false => (min..=max).contains(&id),
            })
        };
        let uids = || self.reader.unsigned_limits(UID, self.group);
        let gids = || self.reader.unsigned_limits(GID, self.group);
        let times = || match p.time.field {
            TimeField::Mtime => self.reader.time_limits(MTIME, self.group),
            TimeField::Ctime => self.reader.time_limits(CTIME, self.group),
            TimeField::Atime => self.reader.time_limits(ATIME, self.group),
            TimeField::Btime => None,
        };
        p.sizes.iter().all(|size| overlaps(sizes(), size.range()))
            && p.links.iter().all(|test| overlaps(links(), test.range()))
            && p.users.iter().all(|test| is_id(test, uids()))
            && p.groups.iter().all(|test| is_id(test, gids()))
            && (!p.time.is_limited()
                || times().is_none_or(|(min, max)| {
                    p.time.after.is_none_or(|after| after.sec <= max)
                        && p.time.before.is_none_or(|before| before.sec >= min)
                }))
    }

    /// Emits entries without names or paths, for a worker that needs neither.
    fn emit_nameless(
        &self,
        rows: &[usize],
        metas: impl Fn(usize) -> Meta,
        worker: &mut dyn Worker,
    ) -> Result<(), Error> {
        const AT_ONCE: usize = 256;
        let dir = Dir {
            path: b"",
            key: DirKey::default(),
        };
        let mut entries = Vec::with_capacity(AT_ONCE);
        for some in rows.chunks(AT_ONCE) {
            entries.clear();
            entries.extend(some.iter().map(|&row| Entry {
                name: b"?",
                meta: metas(row),
            }));
            worker.take(&dir, &entries);
        }
        Ok(())
    }

    /// Applies the tests of single columns. A column is read only while selected rows remain.
    fn select_by_numbers(&self, p: &Predicates, rows: &mut Vec<usize>) -> Result<(), Error> {
        macro_rules! retain {
            ($is_needed:expr, $column:ident, |$value:ident| $test:expr) => {
                if $is_needed && !rows.is_empty() {
                    let column = self.$column()?;
                    rows.retain(|&row| {
                        let $value = column[row];
                        $test
                    });
                }
            };
        }
        let by_mode = !p.types.is_any() || !p.perms.is_empty();
        retain!(by_mode, modes, |mode| p.accepts_mode(mode));
        retain!(!p.users.is_empty(), uids, |uid| p
            .users
            .iter()
            .all(|test| test.accepts(uid)));
        retain!(!p.groups.is_empty(), gids, |gid| p
            .groups
            .iter()
            .all(|test| test.accepts(gid)));
        retain!(!p.sizes.is_empty(), sizes, |size| p
            .sizes
            .iter()
            .all(|test| test.accepts(size)));
        retain!(!p.links.is_empty(), nlinks, |links| p
            .links
            .iter()
            .all(|test| test.accepts(links.into())));
        if p.empty && !rows.is_empty() {
            let (modes, sizes) = (self.modes()?, self.sizes()?);
            rows.retain(|&row| is_empty_or_directory(FileType::from_mode(modes[row]), sizes[row]));
        }
        if p.time.is_limited() && !rows.is_empty() {
            match p.time.field {
                TimeField::Btime => {
                    let times = self.btimes()?;
                    rows.retain(|&row| p.time.accepts(times.at(row)));
                }
                field => {
                    let times = self.times(field)?;
                    rows.retain(|&row| p.time.accepts(Some(times.at(row))));
                }
            }
        }
        Ok(())
    }

    /// Applies the tests of depth, name and path.
    fn select_by_names(&self, p: &Predicates, rows: &mut Vec<usize>) -> Result<(), Error> {
        if p.wants_names() && !rows.is_empty() {
            let names = self.names()?;
            let mut kept = Vec::with_capacity(rows.len());
            for &row in rows.iter() {
                let name = match &names[row] {
                    b"" => base_name(self.root_of(row)?),
                    name => name,
                };
                if p.accepts_name(name) {
                    kept.push(row);
                }
            }
            *rows = kept;
        }
        let by_depth = p.min_depth > 0 || p.max_depth.is_some();
        if (by_depth || !p.paths.is_empty()) && !rows.is_empty() {
            let (dirs, names) = (self.dirs()?, self.names()?);
            let mut path = Vec::new();
            let mut kept = Vec::with_capacity(rows.len());
            for &row in rows.iter() {
                let (dir, name) = (&dirs[row], &names[row]);
                if !p.accepts_depth(depth(dir) + u32::from(!name.is_empty())) {
                    continue;
                }
                path.clear();
                path.extend_from_slice(self.root_of(row)?);
                let parts = [dir, name].into_iter().filter(|part| !part.is_empty());
                parts.for_each(|part| append(&mut path, part));
                if p.accepts_path(&path) {
                    kept.push(row);
                }
            }
            *rows = kept;
        }
        Ok(())
    }

    /// The column of a time that every row has. The birth time is not such a time.
    pub(super) fn times(&self, field: TimeField) -> Result<&Times<i64, u32>, Error> {
        match field {
            TimeField::Atime => self.atimes(),
            TimeField::Ctime => self.ctimes(),
            TimeField::Mtime | TimeField::Btime => self.mtimes(),
        }
    }

    /// Reads device and inode number of each row.
    pub(super) fn files(&self) -> Result<InodeColumns, Error> {
        let read = |column| self.reader.read(column, self.group);
        Ok(InodeColumns {
            inos: self.reader.read(INO, self.group)?,
            majors: read(DEV_MAJOR)?,
            minors: read(DEV_MINOR)?,
        })
    }

    /// The path of the directory that contains a row.
    pub(super) fn directory(&self, row: usize, path: &mut Vec<u8>) -> Result<(), Error> {
        path.clear();
        path.extend_from_slice(self.root_of(row)?);
        let below = &self.dirs()?[row];
        if !below.is_empty() {
            append(path, below);
        }
        Ok(())
    }

    /// The path of a row's DIR.
    pub(super) fn root_of(&self, row: usize) -> Result<&[u8], Error> {
        Ok(self.data.root(self.nth, self.top(row)?).1)
    }

    /// The index of a row's DIR. The column is not read if there is only one DIR.
    pub(super) fn top(&self, row: usize) -> Result<u32, Error> {
        match self.reader.about().roots.len() {
            0 | 1 => Ok(0),
            _ => Ok(self.tops()?[row]),
        }
    }

    /// The directory that contains a row.
    fn place(&self, row: usize) -> Result<DirectoryRun<'_>, Error> {
        let top = self.top(row)?;
        let (number, root) = self.data.root(self.nth, top);
        let below = &self.dirs()?[row];
        let mut path = root.to_vec();
        if !below.is_empty() {
            append(&mut path, below);
        }
        Ok(DirectoryRun {
            top,
            below,
            path,
            key: DirKey::top(number).at(below),
        })
    }

    fn is_in(&self, place: &DirectoryRun<'_>, row: usize) -> Result<bool, Error> {
        Ok(self.dirs()?[row] == *place.below && self.top(row)? == place.top)
    }

    /// Returns a function for the metadata of rows, with only the requested fields.
    fn metas(
        &self,
        fields: Fields,
        rows: &[usize],
    ) -> Result<impl Fn(usize) -> Meta + use<'_>, Error> {
        macro_rules! wanted {
            ($field:ident, $column:ident) => {
                fields
                    .contains(Fields::$field)
                    .then(|| self.$column())
                    .transpose()?
            };
        }
        let wants_mode = fields.intersects(Fields::MODE | Fields::TYPE);
        let modes = wants_mode.then(|| self.modes()).transpose()?;
        let nlinks = wanted!(NLINK, nlinks);
        let (uids, gids) = (wanted!(UID, uids), wanted!(GID, gids));
        let (atimes, mtimes) = (wanted!(ATIME, atimes), wanted!(MTIME, mtimes));
        let (ctimes, btimes) = (wanted!(CTIME, ctimes), wanted!(BTIME, btimes));
        let (sizes, blocks) = (wanted!(SIZE, sizes), wanted!(BLOCKS, blocks));
        let has_links = || match (modes, nlinks) {
            (Some(modes), Some(nlinks)) => {
                rows.iter().any(|&row| is_linked(modes[row], nlinks[row]))
            }
            _ => true,
        };
        let wants_inode =
            fields.contains(Fields::INODE) || fields.contains(Fields::LINKED_INODE) && has_links();
        let files = wants_inode.then(|| self.files()).transpose()?;
        let has_rest = fields.contains(Fields::REST);
        let rdevs = self
            .read_if(has_rest, RDEV_MAJOR)?
            .zip(self.read_if(has_rest, RDEV_MINOR)?);
        let attributes = self.read_if(has_rest, ATTRIBUTES)?;
        let generations = self.read_if(has_rest, GENERATION)?;
        let xattrs = self.read_if(has_rest, XATTRS)?;
        fn at<T: Copy + Default>(column: Option<&Vec<T>>, row: usize) -> T {
            column.map_or(T::default(), |column| column[row])
        }
        let dev_at = |devs: &Option<(Vec<u32>, Vec<u32>)>, row: usize| {
            let dev = devs.as_ref();
            dev.map_or(Dev::default(), |(majors, minors)| Dev {
                major: majors[row],
                minor: minors[row],
            })
        };
        Ok(move |row: usize| Meta {
            ino: files.as_ref().map_or(0, |files| files.at(row).1),
            mode: at(modes, row),
            nlink: at(nlinks, row),
            uid: at(uids, row),
            gid: at(gids, row),
            size: at(sizes, row),
            blocks: at(blocks, row),
            atime: atimes.map_or(Default::default(), |times| times.at(row)),
            mtime: mtimes.map_or(Default::default(), |times| times.at(row)),
            ctime: ctimes.map_or(Default::default(), |times| times.at(row)),
            btime: btimes.and_then(|times| times.at(row)),
            rdev: dev_at(&rdevs, row),
            dev: files
                .as_ref()
                .map_or(Dev::default(), |files| files.at(row).0),
            mount: 0,
            attributes: at(attributes.as_ref(), row),
            generation: at(generations.as_ref(), row),
            xattrs: at(xattrs.as_ref(), row),
        })
    }

    fn read_if<C: Columns>(&self, is_wanted: bool, columns: C) -> Result<Option<C::Values>, Error> {
        let read = || self.reader.read(columns, self.group);
        is_wanted.then(read).transpose()
    }
}

/// The common directory of consecutive rows.
struct DirectoryRun<'a> {
    top: u32,
    /// Path of the directory, relative to its DIR.
    below: &'a [u8],
    path: Vec<u8>,
    key: DirKey,
}

impl DirectoryRun<'_> {
    fn dir(&self) -> Dir<'_> {
        Dir {
            path: &self.path,
            key: self.key,
        }
    }
}

/// Device and inode number columns of a row group.
pub(super) struct InodeColumns {
    inos: Vec<u64>,
    majors: Vec<u32>,
    minors: Vec<u32>,
}

impl InodeColumns {
    #[inline]
    pub(super) fn at(&self, row: usize) -> (Dev, u64) {
        let (major, minor) = (self.majors[row], self.minors[row]);
        (Dev { major, minor }, self.inos[row])
    }
}

/// Whether a row may be one of several hard links.
#[inline]
pub(super) fn is_linked(mode: u32, nlink: u32) -> bool {
    nlink > 1 && FileType::from_mode(mode) != FileType::Directory
}

/// The depth of a directory, from its path relative to DIR.
pub(super) fn depth(below: &[u8]) -> u32 {
    let slashes = below.iter().filter(|&&b| b == b'/').count();
    slashes as u32 + u32::from(!below.is_empty())
}
