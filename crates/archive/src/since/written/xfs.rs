//! XFS: the inodes that are not as the catalog has them, by bulkstat alone ([`since`]), if it has
//! stayed mounted. Directories among them are read, to find where everything is; names in all
//! others are those of the catalog. ([`compare_names`] reads these directories again, and checks
//! that all else in them is as it was.)
//!
//! An inode that differs and is nowhere in the directory has left it, or is being moved: then
//! everything is walked.

use std::collections::HashMap;
use std::ffi::CStr;
use std::ops::Range;

use gate::Fd;
use gate::fs::syncfs;
use gate::long::c_string;
use gate::sync::Mutex;
use walk::engine::bulkstat::since::{self, Now};
use walk::entry::{Time, Type, joined};
use walk::{Meta, Moment, MountContext, Top};

use super::differing::{Certain, Differing, Doubt, Written, certain, is_much};
use super::names::{compare_names, look_at, open, open_that, read};
use crate::background::each;
use crate::catalog::Reader;
use crate::catalog::columns::{ATIME, BLOCKS, CTIME, DIR, INO, MODE, MTIME, NAME, NLINK, SIZE};
use crate::error::{Error, Result};
use crate::since::index::{each_group, hashed};
use crate::split;
use crate::token::mount::MountCounter;

/// The inodes that are not as a catalog has them.
pub(crate) struct Since<'a> {
    top: &'a Top,
    /// The inode numbers in the catalog, in ascending order.
    inos: Vec<u64>,
    /// Those of them that differ.
    differ: HashMap<u64, Now>,
    /// Access times of others, where they are not the catalog's.
    atimes: HashMap<u64, Time>,
}

impl<'a> Since<'a> {
    /// Asks the file system; `None` if it cannot tell, or a walk would be as fast.
    pub(super) fn ask(
        token: &MountCounter,
        context: &MountContext<'a>,
        reader: &Reader,
    ) -> Result<Option<Since<'a>>> {
        let top = context.top;
        if !token.is_of_mount(context) {
            return Ok(None);
        }
        let begun = Moment::now();
        if syncfs(&top.fd).is_err() {
            return Ok(None);
        }
        // A few inodes mostly tell whether many have changed: then the walk can begin at once.
        let few = known(reader, 0..reader.groups().min(1))?;
        let atimes = Mutex::default();
        let is_same = |known: &Print, meta: &Meta| is_same(known, meta, &atimes);
        let ask = |known: &[Known]| since::changed(top, known, is_same, begun, are_few).ok()?;
        if ask(&few[..few.len().min(FEW)]).is_none() {
            return Ok(None);
        }
        let known = known(reader, 0..reader.groups())?;
        let Some(differ) = ask(&known) else {
            return Ok(None);
        };
        Ok(Some(Since {
            top,
            inos: known.into_iter().map(|(ino, _)| ino).collect(),
            differ: differ.into_iter().collect(),
            atimes: atimes.into_inner(),
        }))
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.differ.is_empty()
    }

    /// Compares it with the catalog; `None` if the result is in doubt.
    pub(super) fn differing(self, reader: &Reader) -> Result<Option<Differing>> {
        let rows = self.rows(reader)?;
        let written = certain(Finder::new(&self, &rows).find(&rows))?;
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

    /// The names that the catalog has for the inodes that differ.
    fn rows(&self, reader: &Reader) -> Result<Vec<KnownName>> {
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
                is_dir: Type::from_mode(modes[row]) == Type::Directory,
            };
            Ok(here.into_iter().map(row).collect())
        };
        let mut rows = Vec::new();
        each_group(reader, read, |_, some| rows.extend(some))?;
        Ok(rows)
    }

    fn is_known(&self, ino: u64) -> bool {
        self.inos.binary_search(&ino).is_ok()
    }
}

/// So few inodes differ that a walk of everything would be slower.
fn are_few(differ: usize, of: usize) -> bool {
    differ <= 20 + of / 500
}

/// The number of inodes that are asked for first.
const FEW: usize = 4096;

/// The inodes in row groups, by their numbers, with a fingerprint of each.
fn known(reader: &Reader, groups: Range<usize>) -> Result<Vec<Known>> {
    let read = |nth: usize| {
        let group = groups.start + nth;
        let (inos, sizes) = (reader.read(INO, group)?, reader.read(SIZE, group)?);
        let (blocks, modes) = (reader.read(BLOCKS, group)?, reader.read(MODE, group)?);
        let (nlinks, mtimes) = (reader.read(NLINK, group)?, reader.read(MTIME, group)?);
        let (ctimes, atimes) = (reader.read(CTIME, group)?, reader.read(ATIME, group)?);
        let one = |row: usize| {
            let meta = Meta {
                size: sizes[row],
                blocks: blocks[row],
                mode: modes[row],
                nlink: nlinks[row],
                mtime: mtimes.at(row),
                ctime: ctimes.at(row),
                atime: atimes.at(row),
                ..Meta::default()
            };
            (inos[row], Print::from_meta(&meta))
        };
        Ok::<_, Error>((0..inos.len()).map(one).collect::<Vec<Known>>())
    };
    let mut known = Vec::new();
    each(groups.len(), read, |_, some| known.extend(some))?;
    known.sort(); // this finds what is sorted already
    known.dedup_by(|later, first| {
        // Rows of one inode that contradict each other match nothing.
        let is_one = later.0 == first.0;
        if is_one && later.1 != first.1 {
            first.1.stands = !first.1.stands;
        }
        is_one
    });
    Ok(known)
}

/// A fingerprint of an inode, from a catalog or from bulkstat.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Print {
    /// A hash of the metadata that changes with every change of the inode.
    stands: u64,
    /// Apart, since XFS may free preallocated blocks without any other change.
    blocks: u64,
    /// A hash of the access time.
    atime: u64,
}

impl Print {
    fn from_meta(meta: &Meta) -> Print {
        let stands = hashed([
            u64::from(meta.mode) << 32 | u64::from(meta.nlink),
            meta.size,
            meta.mtime.sec.cast_unsigned(),
            meta.ctime.sec.cast_unsigned(),
            u64::from(meta.mtime.nsec) << 32 | u64::from(meta.ctime.nsec),
        ]);
        let atime = hashed([meta.atime.sec.cast_unsigned(), meta.atime.nsec.into()]);
        Print {
            stands,
            blocks: meta.blocks,
            atime,
        }
    }
}

/// An inode is as in the catalog. If it was only read meanwhile, its new access time is kept.
fn is_same(known: &Print, meta: &Meta, atimes: &Mutex<HashMap<u64, Time>>) -> bool {
    let now = Print::from_meta(meta);
    let is_same = known.stands == now.stands && (known.blocks == now.blocks || now.blocks == 0);
    if is_same && known.atime != now.atime {
        atimes.lock().insert(meta.ino, meta.atime);
    }
    is_same
}

/// An inode by its number.
type Known = (u64, Print);

/// A name that an inode had which differs now.
struct KnownName {
    ino: u64,
    dir: Vec<u8>,
    name: Vec<u8>,
    is_dir: bool,
}

/// Finds the paths of the inodes that differ.
struct Finder<'a> {
    since: &'a Since<'a>,
    /// The directories among them, by the paths that they had.
    was: HashMap<Vec<u8>, u64>,
    /// What was found so far.
    written: Written,
    /// Directories still to be read.
    unread: Vec<(Vec<u8>, u64)>,
}

impl<'a> Finder<'a> {
    fn new(since: &'a Since<'a>, rows: &[KnownName]) -> Finder<'a> {
        let dirs = rows.iter().filter(|row| row.is_dir);
        let was = dirs
            .map(|row| (joined(&row.dir, &row.name), row.ino))
            .collect();
        Finder {
            since,
            was,
            written: Written::default(),
            unread: Vec::new(),
        }
    }

    fn find(mut self, rows: &[KnownName]) -> Certain<Written> {
        self.dirs()?;
        for row in rows {
            self.name(row)?;
        }
        let is_found =
            |(ino, now): (&u64, &Now)| *now == Now::Gone || self.written.inos.contains(ino);
        let is_all = self.since.differ.iter().all(is_found);
        is_all.then_some(self.written).ok_or(Doubt::Strange)
    }

    /// Finds and reads the directories: at the paths that they had, in others that are read, or
    /// below the new path of a directory above them.
    fn dirs(&mut self) -> Certain<()> {
        let may_be_dir = |ino: &u64| match self.since.differ.get(ino) {
            Some(Now::Is(meta)) => meta.is_dir(),
            Some(Now::Unsettled) => true,
            Some(Now::Gone) | None => false,
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
                return Err(Doubt::Strange);
            }
            left = later;
        }
        Ok(())
    }

    /// The path of a directory, if it has kept its parent and its name.
    fn now_of_dir(&self, was: &[u8]) -> Option<Vec<u8>> {
        match split(was) {
            (_, b"") => Some(Vec::new()),
            (above, name) => Some(joined(&self.now(above)?, name)),
        }
    }

    /// Reads the entries of a directory that differ or are new.
    fn read(&mut self, path: &[u8], fd: &Fd) -> Certain<()> {
        read(fd, |entry| {
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
                    // It is being renamed.
                    Some(_) => return Err(Doubt::Strange),
                }
            }
            self.is_at(path, name, meta);
            Ok(())
        })
    }

    /// Finds an inode by the name that it had, in a directory whose names are unchanged.
    fn name(&mut self, row: &KnownName) -> Certain<()> {
        let top = self.since.top;
        let is_gone = self.since.differ.get(&row.ino) == Some(&Now::Gone);
        if row.name.is_empty() {
            let meta = self.meta(row.ino, &top.fd, c"")?;
            self.is_at(b"", b"", meta);
            return Ok(());
        }
        if self.was.contains_key(&row.dir) {
            return Ok(()); // it has been read
        }
        let dir = self.now(&row.dir).filter(|_| !is_gone);
        let dir = dir.ok_or(Doubt::Strange)?;
        let meta = match self.since.differ.get(&row.ino) {
            Some(Now::Is(meta)) => *meta,
            _ => self.meta(row.ino, &open(top, &dir)?, &c_string(&row.name)?)?,
        };
        if meta.is_dir() && self.written.dirs.get(&row.ino) != Some(&joined(&dir, &row.name)) {
            return Err(Doubt::Strange);
        }
        self.is_at(&dir, &row.name, meta);
        Ok(())
    }

    fn is_at(&mut self, dir: &[u8], name: &[u8], meta: Meta) {
        self.written.inos.insert(meta.ino);
        self.written.add(dir.to_vec(), name.to_vec(), meta);
    }

    /// The metadata of an inode with this name in a directory; of the directory, if the name is
    /// empty.
    fn meta(&self, ino: u64, dir: &Fd, name: &CStr) -> Certain<Meta> {
        match self.since.differ.get(&ino) {
            Some(Now::Is(meta)) => Ok(*meta),
            Some(Now::Gone) => Err(Doubt::Strange),
            Some(Now::Unsettled) | None => look_at(self.since.top, dir, name, ino),
        }
    }

    /// The path of a directory that had the path `was`, by the new paths of those above it.
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
