//! ext4 and XFS: finds differing inodes without names ([`since`]), if the file system has stayed
//! mounted. The catalog's sums ([`InodeSums`]) tell which groups of inodes have changed; only rows
//! of these groups are read. Differing directories are read to find the current paths; names in all
//! others are those of the catalog. ([`compare_names`] reads these directories again, and checks
//! that the rest is unchanged.)
//!
//! A differing inode that is nowhere in the directory has left it, or is being moved: then the
//! whole tree is walked.

use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

use base::directory::try_each_entry;
use base::path::split;
use gate::Fd;
use gate::fs::syncfs;
use gate::long::c_string;
use gate::sync::Mutex;
use walk::engine::since::{self, InodeState};
use walk::entry::{FileType, Time, joined};
use walk::{EngineKind, Meta, Moment, MountContext, Top};

use super::differing::{
    DifferenceError, DifferenceResult, Differing, SAMPLE, WrittenInodes, is_much, none_if_uncertain,
};
use super::known::{AccessTimes, CatalogInodes, Fingerprint};
use super::names::{compare_names, look_at, open, open_that};
use crate::error::Error;
use crate::format::columns::{DIR, INO, MODE, NAME};
use crate::format::{InodeSums, Reader, Sum};
use crate::since::index::each_group;
use crate::token::mount::MountCounter;

/// The inodes that differ from a catalog.
pub(crate) struct InodeChanges<'a> {
    top: &'a Top,
    /// Inodes of the catalog; if it has sums, only those of groups that may differ.
    known: CatalogInodes,
    /// Sums over groups of inodes, which also tell whether an inode number is in the catalog. `None`
    /// if the catalog has no sums.
    sums: Option<InodeSums>,
    /// Inodes that differ, with their current state.
    differ: HashMap<u64, InodeState>,
    /// New access times of unchanged inodes.
    atimes: AccessTimes,
}

struct InodeComparison<'q, 'a> {
    by: EngineKind,
    context: &'q MountContext<'a>,
    /// Time of the last syncfs(2).
    begun: Moment,
    few: fn(EngineKind, usize) -> usize,
}

impl<'a> InodeChanges<'a> {
    /// Compares the inodes of the file system with a catalog; `None` if they cannot be compared, or
    /// if a walk would be as fast.
    pub(super) fn find_written(
        mount: &MountCounter,
        context: &MountContext<'a>,
        reader: &Reader,
        by: EngineKind,
        few: fn(EngineKind, usize) -> usize,
    ) -> Result<Option<InodeChanges<'a>>, Error> {
        let top = context.top;
        if !mount.is_of_mount(context) {
            return Ok(None);
        }
        let begun = Moment::now();
        if syncfs(&top.fd).is_err() {
            return Ok(None);
        }
        let comparison = InodeComparison {
            by,
            context,
            begun,
            few,
        };
        let sums = reader.inode_sums();
        if comparison.has_many(reader, sums.as_ref())? {
            return Ok(None);
        }
        let (known, others) = match &sums {
            None => (
                CatalogInodes::load(reader, reader.groups(), |_| true)?,
                None,
            ),
            Some(sums) => {
                let Some((stale, atimes)) = comparison.compare_sums(sums) else {
                    return Ok(None);
                };
                // Each stale group, whose sum has changed, has a differing inode, except for rare
                // collisions.
                if stale.len() > few(by, reader.about().entries as usize) {
                    return Ok(None);
                }
                let groups = if stale.len() == 0 { 0 } else { reader.groups() };
                let known = CatalogInodes::load(reader, groups, |ino| stale.has(ino))?;
                (known, Some(atimes))
            }
        };
        let Some((differ, atimes)) = comparison.compare(known.inodes()) else {
            return Ok(None);
        };
        Ok(Some(InodeChanges {
            top,
            known,
            sums,
            differ,
            atimes: others.unwrap_or(atimes),
        }))
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.differ.is_empty()
    }

    /// Compares the differing inodes with the catalog; `None` in case of doubt.
    pub(super) fn differing(self, reader: &Reader) -> Result<Option<Differing>, Error> {
        let rows = self.rows(reader)?;
        let written = none_if_uncertain(PathFinder::new(&self, &rows).find(&rows))?;
        let Some(written) = written.filter(|written| !is_much(written.inos.len(), reader.about()))
        else {
            return Ok(None);
        };
        let found = compare_names(reader, self.top, written)?;
        Ok(found.map(|(places, feed)| Differing {
            places,
            feed,
            atimes: self.atimes,
        }))
    }

    /// The names that the differing inodes have in the catalog.
    fn rows(&self, reader: &Reader) -> Result<Vec<KnownName>, Error> {
        let read = |group: usize| {
            let inos = reader.read(INO, group)?;
            let here = |row: &usize| self.differ.contains_key(&inos[*row]);
            let here: Vec<usize> = (0..inos.len()).filter(here).collect();
            if here.is_empty() {
                return Ok(Vec::new());
            }
            let (dirs, names) = (reader.read(DIR, group)?, reader.read(NAME, group)?);
            let modes = reader.read(MODE, group)?;
            let row = |row: usize| KnownName {
                ino: inos[row],
                dir: dirs[row].to_vec(),
                name: names[row].to_vec(),
                is_dir: FileType::from_mode(modes[row]) == FileType::Directory,
            };
            Ok(here.into_iter().map(row).collect())
        };
        let mut rows = Vec::new();
        each_group(reader, read, |_, some| rows.extend(some))?;
        Ok(rows)
    }

    fn is_known(&self, ino: u64) -> bool {
        match &self.sums {
            Some(sums) => sums.has(ino),
            None => self.known.get(ino).is_some(),
        }
    }
}

/// An inode compared through the sum of its group.
struct Member {
    /// Index of the inode's group.
    group: u32,
    /// Access time of the inode, once read.
    atime: (AtomicI64, AtomicU32),
}

impl InodeComparison<'_, '_> {
    /// Compares a sample of inodes. If many inodes of the sample have changed, a walk begins at
    /// once, and no other inodes are compared.
    fn has_many(&self, reader: &Reader, sums: Option<&InodeSums>) -> Result<bool, Error> {
        let first = sums.map(|sums| {
            let mut first = sums.clone();
            first.retain(|place| place < SAMPLE.div_ceil(InodeSums::GROUP));
            first
        });
        let stale = first.and_then(|first| self.compare_sums(&first));
        if stale.is_some_and(|(stale, _)| stale.len() == 0) {
            return Ok(false);
        }
        let known = CatalogInodes::load(reader, reader.groups().min(1), |_| true)?;
        let known = &known.inodes()[..known.inodes().len().min(SAMPLE)];
        Ok(self.compare(known).is_none())
    }

    /// Groups of inodes with changed sums and, if there are any, the access times of all inodes;
    /// `None` if the file system cannot tell.
    fn compare_sums(&self, sums: &InodeSums) -> Option<(InodeSums, AccessTimes)> {
        let member = |(ino, group)| {
            let atime = Default::default();
            (ino, Member { group, atime })
        };
        let members: Vec<(u64, Member)> = sums.inodes().map(member).collect();
        let now: Vec<[AtomicU64; 2]> = sums.sums().map(|_| Default::default()).collect();
        let add = |member: &Member, meta: &Meta| {
            let halves = now[member.group as usize].iter();
            for (half, more) in halves.zip(Sum::from_meta(meta).0) {
                half.fetch_add(more, Relaxed);
            }
            member.atime.0.store(meta.atime.sec, Relaxed);
            member.atime.1.store(meta.atime.nsec, Relaxed);
            true
        };
        let changed = |is_same| {
            since::changed(
                self.by,
                self.context,
                &members,
                is_same,
                self.begun,
                |_, _| true,
            )
        };
        let unsettled = changed(add).ok()??;
        let mut is_stale: Vec<bool> = now
            .into_iter()
            .zip(sums.sums())
            .map(|(now, then)| now.map(AtomicU64::into_inner) != then.0)
            .collect();
        for (ino, _) in unsettled {
            let at = members.binary_search_by_key(&ino, |(ino, _)| *ino).ok()?;
            is_stale[members[at].1.group as usize] = true;
        }
        let mut stale = sums.clone();
        stale.retain(|place| is_stale[place]);
        if stale.len() == 0 {
            return Some((stale, AccessTimes::default())); // only stale groups need access times
        }
        let atimes = members.into_iter().map(|(ino, Member { atime, .. })| {
            let (sec, nsec) = (atime.0.into_inner(), atime.1.into_inner());
            (ino, Time { sec, nsec })
        });
        Some((stale, AccessTimes::new(atimes.collect())))
    }

    /// Inodes that differ, and new access times of the others; `None` if many differ, or the file
    /// system cannot tell.
    fn compare(
        &self,
        known: &[(u64, Fingerprint)],
    ) -> Option<(HashMap<u64, InodeState>, AccessTimes)> {
        let atimes = Mutex::default();
        let is_same = |known: &Fingerprint, meta: &Meta| known.is_same(meta, &atimes);
        let are_few = |differ, of| differ <= (self.few)(self.by, of);
        let differ = since::changed(self.by, self.context, known, is_same, self.begun, are_few);
        let differ = differ.ok()??.into_iter().collect();
        let mut atimes: AccessTimes = atimes.into_inner();
        atimes.sort();
        Some((differ, atimes))
    }
}

/// A name that a differing inode has in the catalog.
struct KnownName {
    ino: u64,
    dir: Vec<u8>,
    name: Vec<u8>,
    is_dir: bool,
}

/// Finds the current paths of the inodes that differ.
struct PathFinder<'a> {
    since: &'a InodeChanges<'a>,
    /// Former paths of directories that differ.
    was: HashMap<Vec<u8>, u64>,
    /// Inodes and paths found so far.
    written: WrittenInodes,
    unread: Vec<(Vec<u8>, u64)>,
}

impl<'a> PathFinder<'a> {
    fn new(since: &'a InodeChanges<'a>, rows: &[KnownName]) -> PathFinder<'a> {
        let dirs = rows.iter().filter(|row| row.is_dir);
        let was = dirs
            .map(|row| (joined(&row.dir, &row.name), row.ino))
            .collect();
        PathFinder {
            since,
            was,
            written: WrittenInodes::default(),
            unread: Vec::new(),
        }
    }

    fn find(mut self, rows: &[KnownName]) -> DifferenceResult<WrittenInodes> {
        self.dirs()?;
        for row in rows {
            self.name(row)?;
        }
        let is_found = |(ino, now): (&u64, &InodeState)| {
            *now == InodeState::Deleted || self.written.inos.contains(ino)
        };
        let is_all = self.since.differ.iter().all(is_found);
        is_all
            .then_some(self.written)
            .ok_or(DifferenceError::Strange)
    }

    /// Finds and reads the differing directories: at their former paths, in other directories that
    /// are read, or below the new path of an ancestor.
    fn dirs(&mut self) -> DifferenceResult<()> {
        let may_be_dir = |ino: &u64| match self.since.differ.get(ino) {
            Some(InodeState::Present(meta)) => meta.is_dir(),
            Some(InodeState::Unknown) => true,
            Some(InodeState::Deleted) | None => false,
        };
        let dirs = self.was.iter().filter(|(_, ino)| may_be_dir(ino));
        let mut left: Vec<(Vec<u8>, u64)> = dirs.map(|(path, ino)| (path.clone(), *ino)).collect();
        left.sort_unstable();
        while !left.is_empty() {
            let (mut later, all) = (Vec::new(), left.len());
            for (was, ino) in left {
                if self.written.dirs.contains_key(&ino) {
                    continue;
                }
                let now = self.now_of_dir(&was);
                let open = |now: Vec<u8>| Some((open_that(self.since.top, &now, ino).ok()?, now));
                match now.and_then(open) {
                    Some((fd, now)) => {
                        self.written.dirs.insert(ino, now.clone());
                        self.read(&now, &fd)?;
                    }
                    None => later.push((was, ino)),
                }
                while let Some((path, ino)) = self.unread.pop() {
                    let fd = open_that(self.since.top, &path, ino)?;
                    self.read(&path, &fd)?;
                }
            }
            if later.len() == all {
                return Err(DifferenceError::Strange);
            }
            left = later;
        }
        Ok(())
    }

    /// The current path of a directory, if its name and parent are unchanged.
    fn now_of_dir(&self, was: &[u8]) -> Option<Vec<u8>> {
        match split(was) {
            (_, b"") => Some(Vec::new()),
            (above, name) => Some(joined(&self.now(above)?, name)),
        }
    }

    /// Reads a directory, for entries that differ or are new.
    fn read(&mut self, path: &[u8], fd: &Fd) -> DifferenceResult<()> {
        try_each_entry(fd, |entry| {
            let ino = entry.ino;
            if !self.since.differ.contains_key(&ino) && self.since.is_known(ino) {
                return Ok(());
            }
            let meta = self.meta(ino, fd, entry.name)?;
            let name = entry.name.to_bytes();
            if meta.is_dir() {
                let path = joined(path, name);
                match self.written.dirs.insert(ino, path.clone()) {
                    None => self.unread.push((path, ino)),
                    Some(other) if other == path => {}
                    // A directory found at two paths is being renamed.
                    Some(_) => return Err(DifferenceError::Strange),
                }
            }
            self.is_at(path, name, meta);
            Ok(())
        })
    }

    /// Finds an inode by its former name, in a directory whose names are unchanged.
    fn name(&mut self, row: &KnownName) -> DifferenceResult<()> {
        let top = self.since.top;
        let is_gone = self.since.differ.get(&row.ino) == Some(&InodeState::Deleted);
        if row.name.is_empty() {
            let meta = self.meta(row.ino, &top.fd, c"")?;
            self.is_at(b"", b"", meta);
            return Ok(());
        }
        if self.was.contains_key(&row.dir) {
            return Ok(()); // the directory of this name has been read
        }
        let dir = self.now(&row.dir).filter(|_| !is_gone);
        let dir = dir.ok_or(DifferenceError::Strange)?;
        let meta = match self.since.differ.get(&row.ino) {
            Some(InodeState::Present(meta)) => *meta,
            _ => self.meta(row.ino, &open(top, &dir)?, &c_string(&row.name)?)?,
        };
        if meta.is_dir() && self.written.dirs.get(&row.ino) != Some(&joined(&dir, &row.name)) {
            return Err(DifferenceError::Strange);
        }
        self.is_at(&dir, &row.name, meta);
        Ok(())
    }

    fn is_at(&mut self, dir: &[u8], name: &[u8], meta: Meta) {
        self.written.inos.insert(meta.ino);
        self.written.add(dir.to_vec(), name.to_vec(), meta);
    }

    /// The metadata of an inode with this name in a directory; for an empty name, of the directory
    /// itself.
    fn meta(&self, ino: u64, dir: &Fd, name: &CStr) -> DifferenceResult<Meta> {
        match self.since.differ.get(&ino) {
            Some(InodeState::Present(meta)) => Ok(*meta),
            Some(InodeState::Deleted) => Err(DifferenceError::Strange),
            Some(InodeState::Unknown) | None => look_at(self.since.top, dir, name, ino),
        }
    }

    /// The current path of a directory, from its former path and the new paths of its ancestors.
    fn now(&self, was: &[u8]) -> Option<Vec<u8>> {
        let mut above = was;
        loop {
            if let Some(ino) = self.was.get(above) {
                let below = &was[above.len()..];
                let now = self.written.dirs.get(ino)?;
                return Some(joined(now, below.strip_prefix(b"/").unwrap_or(below)));
            }
            if above.is_empty() {
                return Some(was.to_vec());
            }
            above = split(above).0;
        }
    }
}
