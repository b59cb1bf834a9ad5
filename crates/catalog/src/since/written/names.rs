//! Compares the names in written directories with the catalog's rows.

use std::collections::{HashMap, HashSet};
use std::ffi::CStr;
use std::os::fd::AsFd;

use base::directory::try_each_entry;
use base::path::split;
use base::pool::each;
use gate::Fd;
use gate::fs::{AtFlags, Open, statx};
use gate::long::open_long_no_symlinks;
use walk::entry::{FileType, joined};
use walk::{Meta, Top, path_id};

use super::differing::{
    DifferenceError, DifferenceResult, EntriesByPath, WrittenInodes, none_if_uncertain,
};
use crate::error::Error;
use crate::format::Reader;
use crate::format::columns::{DIR, INO, MODE, NAME};
use crate::since::index::{each_group, hash};

/// Finds the positions of rows that are no longer valid, ascending, and the entries that replace
/// them; `None` in case of doubt.
pub(super) fn compare_names(
    reader: &Reader,
    top: &Top,
    mut written: WrittenInodes,
) -> Result<Option<(Vec<u32>, EntriesByPath)>, Error> {
    let comparison = NamesComparison {
        reader,
        top,
        written: &written,
        rows: HashMap::new(),
        dirs: Vec::new(),
        is_there: HashMap::new(),
        same: Vec::new(),
        places: Vec::new(),
        moved: EntriesByPath::new(),
    };
    let Some((places, moved)) = none_if_uncertain(comparison.run())? else {
        return Ok(None);
    };
    for (dir, entries) in moved {
        written.feed.entry(dir).or_default().extend(entries);
    }
    Ok(Some((places, written.feed)))
}

/// A row of an entry whose directory was written.
struct KnownRow {
    ino: u64,
    place: u32,
}

/// A directory to list.
struct DirectoryVisit {
    path: Vec<u8>,
    ino: u64,
    /// Whether the catalog has this directory at a different path, or not at all.
    is_elsewhere: bool,
}

/// The entries of a listed directory whose inodes were not written.
#[derive(Default)]
struct UnwrittenNames {
    /// Positions of rows that are still valid.
    same: Vec<u32>,
    /// Paths of subdirectories, relative to DIR.
    dirs: Vec<Vec<u8>>,
    /// The entries, if the directory has a new path.
    moved: Vec<(Vec<u8>, Meta)>,
}

struct NamesComparison<'a> {
    reader: &'a Reader,
    top: &'a Top,
    written: &'a WrittenInodes,
    /// Rows of entries whose directory was written, by path hash.
    rows: HashMap<u64, KnownRow>,
    /// Paths of the directories in `rows`, relative to DIR, and positions of their rows.
    dirs: Vec<(Vec<u8>, u32)>,
    /// For directory paths in the catalog, whether the directory is still there. The answer for a
    /// path that is not in the map is that of its parent.
    is_there: HashMap<Vec<u8>, bool>,
    /// Positions of rows that are still valid; sorted at the end.
    same: Vec<u32>,
    /// Positions of rows that may be no longer valid.
    places: Vec<u32>,
    /// Unwritten entries of directories that have a new path.
    moved: EntriesByPath,
}

impl<'a> NamesComparison<'a> {
    fn run(mut self) -> DifferenceResult<(Vec<u32>, EntriesByPath)> {
        self.rows()?;
        self.entries()?;
        self.same.sort_unstable();
        self.rows_below()?;
        let mut places = self.places;
        places.sort_unstable();
        places.dedup();
        places.retain(|place| self.same.binary_search(place).is_err());
        Ok((places, self.moved))
    }

    /// Finds the rows of written inodes and of all entries in written directories, and records
    /// which of these directories still have their path.
    fn rows(&mut self) -> DifferenceResult<()> {
        let watched: HashSet<&[u8]> = self.written.dirs.values().map(Vec::as_slice).collect();
        let known = self.rows_in(&watched, true)?;
        for (ino, path) in &known {
            let is_there = self.written.dirs.get(ino) == Some(path);
            self.is_there.insert(path.clone(), is_there);
        }
        let paths = known.iter().map(|(_, path)| path.as_slice());
        let elsewhere: HashSet<&[u8]> = paths.filter(|path| !watched.contains(path)).collect();
        if !elsewhere.is_empty() {
            self.rows_in(&elsewhere, false)?;
        }
        Ok(())
    }

    /// Finds the rows in the `watched` directories and, with `wants_written`, of all written
    /// inodes. Returns inode numbers and paths of the directories among the written inodes.
    fn rows_in(
        &mut self,
        watched: &HashSet<&[u8]>,
        wants_written: bool,
    ) -> DifferenceResult<Vec<(u64, Vec<u8>)>> {
        #[derive(Default)]
        struct PartNames {
            places: Vec<u32>,
            rows: Vec<(u64, KnownRow)>,
            dirs: Vec<(Vec<u8>, u32)>,
            written: Vec<(u64, Vec<u8>)>,
        }
        let (reader, written) = (self.reader, &self.written.inos);
        let read = |group: usize| {
            let (inos, dirs) = (reader.read(INO, group)?, reader.read(DIR, group)?);
            // The path hash of a watched directory; `None` for other directories.
            let of = |dir: &[u8]| watched.contains(dir).then(|| hash(0, dir));
            let mut last = (&b""[..], of(b""));
            let mut watched = |dir| {
                if last.0 != dir {
                    last = (dir, of(dir));
                }
                last.1
            };
            let is_written = |ino| wants_written && written.contains(ino);
            let here: Vec<(usize, bool, Option<u64>)> = (0..inos.len())
                .map(|row| (row, is_written(&inos[row]), watched(&dirs[row])))
                .filter(|(_, is_written, watched)| *is_written || watched.is_some())
                .collect();
            let mut part = PartNames::default();
            if here.is_empty() {
                return Ok(part);
            }
            let (modes, names) = (reader.read(MODE, group)?, reader.read(NAME, group)?);
            let first = reader.first(group);
            for (row, is_written, watched) in here {
                let (ino, place, name) = (inos[row], first + row as u32, &names[row]);
                part.places.push(place);
                let path = || joined(&dirs[row], name);
                let is_dir = FileType::from_mode(modes[row]) == FileType::Directory;
                if is_written && is_dir {
                    part.written.push((ino, path()));
                }
                if let Some(dir) = watched.filter(|_| !name.is_empty()) {
                    let row = KnownRow { ino, place };
                    part.rows.push((path_id::below(dir, name), row));
                    part.dirs.extend(is_dir.then(|| (path(), place)));
                }
            }
            Ok(part)
        };
        let mut known = Vec::new();
        each_group(reader, read, |_, part| {
            self.places.extend(part.places);
            self.rows.extend(part.rows);
            self.dirs.extend(part.dirs);
            known.extend(part.written);
        })?;
        Ok(known)
    }

    /// Lists the written directories: collects the entries of those with a new path, and checks
    /// that all others have changed only in written entries.
    fn entries(&mut self) -> DifferenceResult<()> {
        let written = self.written;
        let mut names: HashSet<(&[u8], &[u8])> = HashSet::new();
        for (dir, entries) in &written.feed {
            names.extend(entries.iter().map(|(name, _)| (&dir[..], &name[..])));
        }
        // The catalog may have a different directory at this path, which no longer exists. Then the
        // written directory counts as moved.
        let visit = |(&ino, path): (&u64, &Vec<u8>)| DirectoryVisit {
            path: path.clone(),
            ino,
            is_elsewhere: self.is_there.get(path) != Some(&true),
        };
        let mut visits: Vec<DirectoryVisit> = written.dirs.iter().map(visit).collect();
        while !visits.is_empty() {
            let batch = std::mem::take(&mut visits);
            let mut lists = Vec::with_capacity(batch.len());
            let list = |nth: usize| self.list(&batch[nth], &names);
            each(batch.len(), list, |nth, list| lists.push((nth, list)))?;
            for (nth, UnwrittenNames { same, dirs, moved }) in lists {
                let path = &batch[nth].path;
                self.same.extend(same);
                let dirs = dirs.into_iter();
                self.is_there.extend(dirs.map(|dir| (dir, true)));
                let below = moved.iter().filter(|(_, meta)| meta.is_dir());
                visits.extend(below.map(|(name, meta)| DirectoryVisit {
                    path: joined(path, name),
                    ino: meta.ino,
                    is_elsewhere: true,
                }));
                if !moved.is_empty() {
                    self.moved.entry(path.clone()).or_default().extend(moved);
                }
            }
        }
        Ok(())
    }

    /// Lists a directory, without the written entries. Unless the directory has a new path, its
    /// entries must be as in the catalog, and no subdirectory may be a mount point or subvolume.
    fn list(
        &self,
        visit: &DirectoryVisit,
        written: &HashSet<(&[u8], &[u8])>,
    ) -> DifferenceResult<UnwrittenNames> {
        let fd = open_that(self.top, &visit.path, visit.ino)?;
        let dir = hash(0, &visit.path);
        let mut list = UnwrittenNames::default();
        try_each_entry(&fd, |entry| {
            let (name, ino) = (entry.name.to_bytes(), entry.ino);
            if written.contains(&(&visit.path[..], name)) {
                return Ok(());
            }
            if self.written.inos.contains(&ino) {
                return Err(DifferenceError::Strange);
            }
            let is_asked = visit.is_elsewhere || entry.file_type.may_be_directory();
            let meta = is_asked
                .then(|| look_at(self.top, &fd, entry.name, ino))
                .transpose()?;
            if let Some(meta) = meta.filter(|_| visit.is_elsewhere) {
                list.moved.push((name.to_vec(), meta));
                return Ok(());
            }
            let row = self.rows.get(&path_id::below(dir, name));
            let row = row.filter(|row| row.ino == ino);
            list.same.push(row.ok_or(DifferenceError::Strange)?.place);
            let is_dir = meta.is_some_and(|meta| meta.is_dir());
            list.dirs.extend(is_dir.then(|| joined(&visit.path, name)));
            Ok(())
        })?;
        Ok(list)
    }

    /// Finds the rows of everything below directories that are no longer at their paths.
    fn rows_below(&mut self) -> DifferenceResult<()> {
        for (path, place) in std::mem::take(&mut self.dirs) {
            let is_same = self.same.binary_search(&place).is_ok();
            self.is_there.entry(path).or_insert(is_same);
        }
        if self.is_there.values().all(|&is_there| is_there) {
            return Ok(());
        }
        for group in 0..self.reader.groups() {
            let (dirs, first) = (self.reader.read(DIR, group)?, self.reader.first(group));
            let mut last: Option<(&[u8], bool)> = None;
            for (row, dir) in dirs.iter().enumerate() {
                let is_there = match last {
                    Some((last, is_there)) if last == dir => is_there,
                    _ => {
                        let mut dirs = std::iter::successors(Some(dir), |dir| {
                            Some(split(dir).0).filter(|above| !above.is_empty())
                        });
                        let is_there = dirs.find_map(|dir| self.is_there.get(dir));
                        is_there.is_none_or(|is| *is)
                    }
                };
                last = Some((dir, is_there));
                if !is_there {
                    self.places.push(first + row as u32);
                }
            }
        }
        Ok(())
    }
}

/// Opens a directory by its path relative to DIR.
pub(super) fn open(top: &Top, path: &[u8]) -> DifferenceResult<Fd> {
    let name = if path.is_empty() { b"." } else { path };
    let how = Open::DIRECTORY | Open::NONBLOCK | Open::NOFOLLOW | Open::NOATIME;
    Ok(open_long_no_symlinks(top.fd.as_fd(), name, how)?)
}

/// Opens a directory by its path relative to DIR, and checks its inode number.
pub(super) fn open_that(top: &Top, path: &[u8], ino: u64) -> DifferenceResult<Fd> {
    let fd = open(top, path)?;
    look_at(top, &fd, c"", ino)?;
    Ok(fd)
}

/// Reads the metadata of a name in a directory; for an empty name, of the directory itself. The
/// file must have the inode number `ino`, and must not be a mount point.
pub(super) fn look_at(top: &Top, dir: &Fd, name: &CStr, ino: u64) -> DifferenceResult<Meta> {
    let at = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
    let meta = Meta::from_statx(&statx(dir, name, at, Meta::WANT)?);
    let is_it = (meta.ino, meta.dev, meta.mount) == (ino, top.meta.dev, top.meta.mount);
    if is_it {
        Ok(meta)
    } else {
        Err(DifferenceError::Strange)
    }
}
