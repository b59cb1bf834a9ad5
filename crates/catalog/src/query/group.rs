//! Queries a row group of a catalog, column by column.

use ondisk::Dev;
use walk::entry::append;
use walk::predicate::test::{IdTest, TimeField};
use walk::predicate::{Predicates, base_name, is_empty_or_directory};
use walk::{Dir, DirKey, Entry, Fields, FileType, Meta, Worker};

use super::data_set::DataSet;
use crate::error::Error;
use crate::format::columns::{ATIME, CTIME, GID, MTIME, NLINK, SIZE, Times, UID};
use crate::format::{Reader, RowColumns};

/// A row group, with a cache of its columns.
pub(super) struct RowGroup<'a> {
    data: &'a DataSet,
    /// Index of the catalog in the data set.
    nth: usize,
    reader: &'a Reader,
    group: usize,
    pub(super) columns: RowColumns<'a>,
}

impl<'a> RowGroup<'a> {
    pub(super) fn new(data: &'a DataSet, nth: usize, group: usize) -> RowGroup<'a> {
        let reader = data.reader(nth);
        RowGroup {
            data,
            nth,
            reader,
            group,
            columns: RowColumns::new(reader, group),
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
            let names = self.columns.names()?;
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
            ($is_needed:expr, $column:ident, $test:ident) => {
                if $is_needed && !rows.is_empty() {
                    let column = self.columns.$column()?;
                    rows.retain(|&row| $test(column[row]));
                }
            };
        }
        let by_mode = !p.types.is_any() || !p.perms.is_empty();
        let is_mode = |mode| p.accepts_mode(mode);
        let is_user = |uid| p.users.iter().all(|test| test.accepts(uid));
        let is_group = |gid| p.groups.iter().all(|test| test.accepts(gid));
        let is_size = |size| p.sizes.iter().all(|test| test.accepts(size));
        let are_links = |links: u32| p.links.iter().all(|test| test.accepts(links.into()));
        retain!(by_mode, modes, is_mode);
        retain!(!p.users.is_empty(), uids, is_user);
        retain!(!p.groups.is_empty(), gids, is_group);
        retain!(!p.sizes.is_empty(), sizes, is_size);
        retain!(!p.links.is_empty(), nlinks, are_links);
        if p.empty && !rows.is_empty() {
            let (modes, sizes) = (self.columns.modes()?, self.columns.sizes()?);
            rows.retain(|&row| is_empty_or_directory(FileType::from_mode(modes[row]), sizes[row]));
        }
        if p.time.is_limited() && !rows.is_empty() {
            match p.time.field {
                TimeField::Btime => {
                    let times = self.columns.btimes()?;
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
            let names = self.columns.names()?;
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
            let (dirs, names) = (self.columns.dirs()?, self.columns.names()?);
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
            TimeField::Atime => self.columns.atimes(),
            TimeField::Ctime => self.columns.ctimes(),
            TimeField::Mtime | TimeField::Btime => self.columns.mtimes(),
        }
    }

    /// Reads device and inode number of each row.
    pub(super) fn files(&self) -> Result<InodeColumns<'_>, Error> {
        Ok(InodeColumns {
            inos: self.columns.inos()?,
            majors: self.columns.dev_majors()?,
            minors: self.columns.dev_minors()?,
        })
    }

    /// The path of the directory that contains a row.
    pub(super) fn directory(&self, row: usize, path: &mut Vec<u8>) -> Result<(), Error> {
        path.clear();
        path.extend_from_slice(self.root_of(row)?);
        let below = &self.columns.dirs()?[row];
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
            _ => Ok(self.columns.tops()?[row]),
        }
    }

    /// The directory that contains a row.
    fn place(&self, row: usize) -> Result<DirectoryRun<'_>, Error> {
        let top = self.top(row)?;
        let (number, root) = self.data.root(self.nth, top);
        let below = &self.columns.dirs()?[row];
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
        Ok(self.columns.dirs()?[row] == *place.below && self.top(row)? == place.top)
    }

    /// Returns a function for the metadata of rows, with only the requested fields.
    fn metas(
        &self,
        fields: Fields,
        rows: &[usize],
    ) -> Result<impl Fn(usize) -> Meta + use<'_>, Error> {
        let columns = &self.columns;
        let has_links = || {
            let has_modes = fields.intersects(Fields::MODE | Fields::TYPE);
            if !has_modes || !fields.contains(Fields::NLINK) {
                return Ok(true);
            }
            let (modes, nlinks) = (columns.modes()?, columns.nlinks()?);
            Ok::<_, Error>(rows.iter().any(|&row| is_linked(modes[row], nlinks[row])))
        };
        let wants_inode =
            fields.contains(Fields::INODE) || fields.contains(Fields::LINKED_INODE) && has_links()?;
        let files = wants_inode.then(|| self.files()).transpose()?;
        let metas = columns.metas(fields.difference(Fields::INODE))?;
        Ok(move |row: usize| {
            let file = files.as_ref().map(|files| files.at(row));
            let (dev, ino) = file.unwrap_or_default();
            Meta {
                dev,
                ino,
                ..metas(row)
            }
        })
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
pub(super) struct InodeColumns<'a> {
    inos: &'a [u64],
    majors: &'a [u32],
    minors: &'a [u32],
}

impl InodeColumns<'_> {
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
