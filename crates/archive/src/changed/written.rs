//! What a file system knows to have been written since: only that is held against the catalog.
//!
//! btrfs tells the inodes that were written after the generation in the catalog's token, with all their names
//! ([`since`]). The rest is as it was, but for its path: so the names in the directories among them are held against the rows
//! that the catalog has of these, and what is below a directory that has come to another path, or is gone, counts as well.
//! With what these rows and entries give, `resolve` comes to what it would with all.
//!
//! Nothing is taken for granted: where there is any doubt, there is no answer, and everything is walked. What has been seen
//! counts only if the generation is the same before and after.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::AsFd;

use gate::fs::{At, Open, getdents64, statx};
use gate::long::open_long_no_symlinks;
use gate::{Errno, Fd};
use mounts::path::below;
use ondisk::Mount;
use ondisk::btrfs::Subvolume;
use walk::engine::btrfs::since::{self, Change, Name};
use walk::entry::{Type, append};
use walk::{By, Dir, Entry, Ground, Meta, Sink, Top};

use super::Question;
use super::compare::{Compare, Found};
use super::index::{Index, hash};
use crate::catalog::{About, Fault, Options, Reader};
use crate::token::btrfs::generation;

/// What came of it.
pub(super) struct Written {
    pub(super) index: Index,
    pub(super) found: Found,
    pub(super) why: String,
}

/// Compares what was written since; `None` where that cannot be told, or would not cost less than a walk.
pub(super) fn written(
    reader: &Reader,
    question: &Question,
    top: &Top,
    mounts: &[Mount],
) -> Result<Option<Written>, Fault> {
    /// On a file system where something is always going on, everything is walked at last.
    const ATTEMPTS: usize = 3;
    let Some(token) = token(reader.about(), question, top, mounts) else { return Ok(None) };
    for _ in 0..ATTEMPTS {
        let Ok(subvolume) = since::subvolume(&top.fd) else { return Ok(None) };
        let Some(then) = generation(token, &subvolume).filter(|&then| then <= subvolume.generation) else {
            return Ok(None);
        };
        let Ok(changes) = since::changed_since(&top.fd, then) else { return Ok(None) };
        // Of so much, a walk knows as soon.
        if changes.len() as u64 > reader.about().entries / 4 {
            return Ok(None);
        }
        let Some((index, feed)) = or_none(Look::new(reader, top, &subvolume, &changes).and_then(Look::look))? else {
            return Ok(None);
        };
        if since::subvolume(&top.fd) != Ok(subvolume) {
            continue;
        }
        let compare = Compare::new(&index, &question.dir, &reader.about().parts);
        let mount = mounts.iter().find(|mount| mount.id == top.meta.mount);
        compare.begin(&Ground::of(top, mount), By::Btrfs);
        hand_over(&compare, &question.dir, &feed);
        let found = compare.into_found();
        let why =
            format!("only what was written after generation {then} of the subvolume was compared with the catalog");
        return Ok(Some(Written { index, found, why }));
    }
    Ok(None)
}

/// The token to go by, if the tree is one part, was walked whole and at rest, and nothing is mounted in it.
fn token<'a>(about: &'a About, question: &Question, top: &Top, mounts: &[Mount]) -> Option<&'a str> {
    let [part] = &about.parts[..] else { return None };
    let is_all = about.complete
        && about.options == Options { one_file_system: about.options.one_file_system, ..Options::default() };
    let is_right = part.ino == top.meta.ino && question.by.is_none_or(|by| by == By::Btrfs) && !question.update;
    let absolute = mounts::root::name_of(&top.fd).ok()?;
    let is_known = mounts.iter().any(|mount| mount.id == top.meta.mount);
    let mut targets = mounts.iter().filter_map(|mount| below(&absolute, mount.target.as_deref()?));
    let is_alone = is_known && targets.all(<[u8]>::is_empty);
    part.token.as_deref().filter(|_| is_all && is_right && is_alone && about.racy == 0)
}

/// Why there is nothing to go by.
enum Doubt {
    /// Something is not as it must be.
    Strange,
    /// The catalog cannot be read.
    Catalog(Fault),
}

impl From<Fault> for Doubt {
    fn from(fault: Fault) -> Doubt {
        Doubt::Catalog(fault)
    }
}

impl From<Errno> for Doubt {
    fn from(_: Errno) -> Doubt {
        Doubt::Strange
    }
}

fn or_none<T>(found: Result<T, Doubt>) -> Result<Option<T>, Fault> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Doubt::Strange) => Ok(None),
        Err(Doubt::Catalog(fault)) => Err(fault),
    }
}

/// Entries by the directory that they are in, below DIR.
type Feed = BTreeMap<Vec<u8>, Vec<(Vec<u8>, Meta)>>;

fn hand_over(to: &Compare<'_>, root: &[u8], feed: &Feed) {
    let mut worker = to.worker();
    for (dir, entries) in feed {
        let mut path = root.to_vec();
        if !dir.is_empty() {
            append(&mut path, dir);
        }
        let depth = dir.split(|&b| b == b'/').filter(|part| !part.is_empty()).count() as u32;
        let entries: Vec<Entry<'_>> = entries.iter().map(|(name, meta)| Entry { name, meta: *meta }).collect();
        worker.take(&Dir { path: &path, hash: hash(0, dir), depth }, &entries);
    }
}

/// A row of a directory that was written.
struct Row {
    ino: u64,
    is_dir: bool,
    place: u32,
}

/// A directory to be listed.
struct Visit {
    path: Vec<u8>,
    ino: u64,
    /// Whether the catalog has it at another path, or not at all.
    is_elsewhere: bool,
}

/// What is found out by the way.
struct Look<'a> {
    reader: &'a Reader,
    top: &'a Top,
    written: HashMap<u64, &'a Change>,
    /// Where directories are below DIR now; `None` outside.
    paths: HashMap<u64, Option<Vec<u8>>>,
    /// Rows, by the directory and the name.
    rows: HashMap<Vec<u8>, HashMap<Vec<u8>, Row>>,
    /// Of directories by the catalog, whether they still are where they were. What none is said of is as what is above it.
    is_there: HashMap<Vec<u8>, bool>,
    /// Places of rows that are as they were.
    same: HashSet<u32>,
    /// Places of rows that need be looked at.
    places: Vec<u32>,
    feed: Feed,
}

fn joined(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = dir.to_vec();
    if !name.is_empty() {
        append(&mut path, name);
    }
    path
}

impl<'a> Look<'a> {
    fn new(reader: &'a Reader, top: &'a Top, subvolume: &Subvolume, changes: &'a [Change]) -> Result<Look<'a>, Doubt> {
        let dirs = changes.iter().filter(|change| change.meta.is_dir()).map(|change| change.meta.ino);
        let within = changes.iter().flat_map(|change| change.names.iter().map(|name| name.dir));
        let parents = since::parents(&top.fd, subvolume.tree, dirs.chain(within))?;
        let mut paths = HashMap::from([(top.meta.ino, Some(Vec::new()))]);
        for &dir in parents.keys() {
            find_path(dir, &parents, &mut paths);
        }
        Ok(Look {
            reader,
            top,
            written: changes.iter().map(|change| (change.meta.ino, change)).collect(),
            paths,
            rows: HashMap::new(),
            is_there: HashMap::new(),
            same: HashSet::new(),
            places: Vec::new(),
            feed: Feed::new(),
        })
    }

    fn path(&self, dir: u64) -> Option<&Vec<u8>> {
        self.paths.get(&dir)?.as_ref()
    }

    fn look(mut self) -> Result<(Index, Feed), Doubt> {
        let watched = self.rows_of_inodes()?;
        self.rows_of_directories(&watched)?;
        self.entries()?;
        self.rows_below()?;
        let Look { mut places, same, feed, reader, .. } = self;
        places.retain(|place| !same.contains(place));
        places.sort_unstable();
        places.dedup();
        Ok((Index::load_some(reader, places)?, feed))
    }

    /// Finds the rows of the inodes that were written, and says of the directories among them where the catalog has them.
    fn rows_of_inodes(&mut self) -> Result<HashSet<Vec<u8>>, Doubt> {
        let mut watched = HashSet::new();
        let mut first = 0;
        for group in 0..self.reader.groups() {
            let inos = self.reader.numbers64(group, "ino")?;
            let here: Vec<usize> = (0..inos.len()).filter(|&row| self.written.contains_key(&inos[row])).collect();
            if !here.is_empty() {
                let modes = self.reader.numbers32(group, "mode")?;
                let dirs = self.reader.names(group, "dir")?;
                let names = self.reader.names(group, "name")?;
                for row in here {
                    self.places.push(first + row as u32);
                    if Type::of_mode(modes[row]) == Type::Directory {
                        let path = joined(&dirs[row], &names[row]);
                        let is_there = self.path(inos[row]) == Some(&path);
                        self.is_there.insert(path.clone(), is_there);
                        watched.insert(path);
                    }
                }
            }
            first += inos.len() as u32;
        }
        Ok(watched)
    }

    /// Finds the rows of what was in these directories.
    fn rows_of_directories(&mut self, watched: &HashSet<Vec<u8>>) -> Result<(), Doubt> {
        if watched.is_empty() {
            return Ok(());
        }
        let mut first = 0;
        for group in 0..self.reader.groups() {
            let dirs = self.reader.names(group, "dir")?;
            let here: Vec<usize> = (0..dirs.len()).filter(|&row| watched.contains(&dirs[row])).collect();
            if !here.is_empty() {
                let (modes, inos) = (self.reader.numbers32(group, "mode")?, self.reader.numbers64(group, "ino")?);
                let names = self.reader.names(group, "name")?;
                for row in here.into_iter().filter(|&row| !names[row].is_empty()) {
                    let is_dir = Type::of_mode(modes[row]) == Type::Directory;
                    let place = first + row as u32;
                    self.places.push(place);
                    let rows = self.rows.entry(dirs[row].to_vec()).or_default();
                    rows.insert(names[row].to_vec(), Row { ino: inos[row], is_dir, place });
                }
            }
            first += dirs.len() as u32;
        }
        Ok(())
    }

    /// Finds what there is: what was written, and what is in directories that have come to another path. Sees that the others
    /// are as they were but for what was written.
    fn entries(&mut self) -> Result<(), Doubt> {
        let mut names: HashSet<(u64, &[u8])> = HashSet::new();
        let mut visits = Vec::new();
        let written: Vec<&'a Change> = self.written.values().copied().collect();
        for change in written {
            for name in &change.names {
                names.insert((name.dir, &name.name));
                if let Some(dir) = self.path(name.dir).cloned() {
                    self.feed.entry(dir).or_default().push((name.name.clone(), change.meta));
                }
            }
            let ino = change.meta.ino;
            if ino == self.top.meta.ino {
                self.feed.entry(Vec::new()).or_default().push((Vec::new(), change.meta));
            }
            if change.meta.is_dir()
                && let Some(path) = self.path(ino).cloned()
            {
                // What the catalog has at this path may be another directory, that is not.
                let is_elsewhere = self.is_there.get(&path) != Some(&true);
                visits.push(Visit { path, ino, is_elsewhere });
            }
        }
        let mut buffer = vec![0; 64 << 10];
        while let Some(visit) = visits.pop() {
            let fd = self.open(&visit)?;
            loop {
                let len = getdents64(&fd, &mut buffer)?;
                if len == 0 {
                    break;
                }
                for entry in ondisk::dirent::entries(&buffer[..len]) {
                    let name = entry.name.to_bytes();
                    if matches!(name, b"." | b"..") || names.contains(&(visit.ino, name)) {
                        continue;
                    }
                    if self.written.contains_key(&entry.ino) {
                        return Err(Doubt::Strange);
                    }
                    let row = self.rows.get(&visit.path).and_then(|rows| rows.get(name));
                    let (is_same, is_dir, place) =
                        row.map_or((false, false, 0), |row| (row.ino == entry.ino, row.is_dir, row.place));
                    if visit.is_elsewhere || is_dir {
                        let seen = statx(&fd, entry.name, At::SYMLINK_NOFOLLOW, Meta::WANT)?;
                        let meta = Meta::of(&seen);
                        let is_here =
                            (meta.ino, meta.dev, meta.mount) == (entry.ino, self.top.meta.dev, self.top.meta.mount);
                        if !is_here {
                            return Err(Doubt::Strange);
                        }
                        if visit.is_elsewhere {
                            self.feed.entry(visit.path.clone()).or_default().push((name.to_vec(), meta));
                            if meta.is_dir() {
                                let path = joined(&visit.path, name);
                                visits.push(Visit { path, ino: meta.ino, is_elsewhere: true });
                            }
                            continue;
                        }
                        self.is_there.insert(joined(&visit.path, name), is_same && meta.is_dir());
                    }
                    if !is_same {
                        return Err(Doubt::Strange);
                    }
                    self.same.insert(place);
                }
            }
        }
        Ok(())
    }

    fn open(&self, visit: &Visit) -> Result<Fd, Doubt> {
        let name = if visit.path.is_empty() { b"." } else { &visit.path[..] };
        let how = Open::DIRECTORY | Open::NONBLOCK | Open::NOFOLLOW;
        let fd = open_long_no_symlinks(self.top.fd.as_fd(), name, how)?;
        let meta = Meta::of(&statx(&fd, c"", At::EMPTY_PATH, Meta::WANT)?);
        let is_it = (meta.ino, meta.dev, meta.mount) == (visit.ino, self.top.meta.dev, self.top.meta.mount);
        if is_it { Ok(fd) } else { Err(Doubt::Strange) }
    }

    /// Finds the rows of all that was below directories that are gone from where they were.
    fn rows_below(&mut self) -> Result<(), Doubt> {
        for (dir, rows) in &self.rows {
            for (name, row) in rows.iter().filter(|(_, row)| row.is_dir) {
                self.is_there.entry(joined(dir, name)).or_insert(self.same.contains(&row.place));
            }
        }
        if self.is_there.values().all(|&is_there| is_there) {
            return Ok(());
        }
        let mut first = 0;
        for group in 0..self.reader.groups() {
            let dirs = self.reader.names(group, "dir")?;
            let mut last: Option<(&[u8], bool)> = None;
            for (row, dir) in dirs.iter().enumerate() {
                let is_there = match last {
                    Some((last, is_there)) if last == dir => is_there,
                    _ => {
                        let above = dir.iter().enumerate().rev().filter(|(_, b)| **b == b'/').map(|(at, _)| &dir[..at]);
                        std::iter::once(dir).chain(above).find_map(|dir| self.is_there.get(dir)).is_none_or(|is| *is)
                    }
                };
                last = Some((dir, is_there));
                if !is_there {
                    self.places.push(first + row as u32);
                }
            }
            first += dirs.len() as u32;
        }
        Ok(())
    }
}

/// Finds where a directory is, and those above it; there may be very many.
fn find_path(dir: u64, parents: &HashMap<u64, Name>, paths: &mut HashMap<u64, Option<Vec<u8>>>) {
    let mut chain = Vec::new();
    let mut at = dir;
    while !paths.contains_key(&at) && chain.len() <= parents.len() {
        chain.push(at);
        match parents.get(&at) {
            Some(name) => at = name.dir,
            None => break,
        }
    }
    for dir in chain.into_iter().rev() {
        let parent = parents.get(&dir);
        let above = parent.and_then(|name| paths.get(&name.dir)?.as_ref());
        let path = parent.zip(above).map(|(name, above)| joined(above, &name.name));
        paths.insert(dir, path);
    }
}
