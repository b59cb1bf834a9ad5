//! btrfs: finds the inodes written after the generation in the catalog's token, with all their
//! names ([`since`]). The result counts only if nothing in the directory was written meanwhile.
//!
//! Reading a file writes its access time, so other programs that read the tree cause writes
//! everywhere. If many inodes were written, each is compared with the catalog, and skipped if it
//! was only read.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use gate::sync::Mutex;
use ondisk::btrfs::{FIRST_INODE, Subvolume};
use walk::engine::btrfs::since::{self, ChangedInode, InodeName};
use walk::entry::joined;
use walk::{EngineKind, Meta, MountContext, Top};

use super::differing::{Differing, SAMPLE, WrittenInodes, is_much};
use super::known::{AccessTimes, CatalogInodes, Fingerprint};
use super::names::compare_names;
use crate::error::Error;
use crate::format::{About, Reader};
use crate::since::evidence::Evidence;
use crate::token::btrfs::Generation;

/// Inodes of a subvolume written since a catalog of a directory in it.
pub(crate) struct SubvolumeChanges<'a> {
    top: &'a Top,
    subvolume: Subvolume,
    /// The generation in the catalog's token.
    pub(super) then: u64,
    /// Inodes of the catalog, if loaded to skip inodes with no change except the access time.
    known: Option<CatalogInodes>,
    changes: Vec<ChangedInode>,
    /// Whether inodes of the catalog were skipped because only their access time has changed.
    has_skipped: bool,
    /// New access times of inodes that have no other change.
    atimes: AccessTimes,
    /// Names of written directories, of the directories that contain written inodes, and of all
    /// their ancestors.
    parents: HashMap<u64, InodeName>,
}

/// Threshold for inodes that btrfs has written since the catalog: if there are more, the catalog's
/// rows are read to skip inodes of which only the access time has changed.
fn few(about: &About) -> usize {
    20 + about.entries as usize / 50
}

/// A sample of the written inodes, if there are many. The sample shows whether most have only a new
/// access time.
fn first_written(then: u64, subvolume: &Subvolume, top: &Top) -> HashMap<u64, Meta> {
    let first = Mutex::new(HashMap::new());
    let keep = |meta: &Meta| {
        first.lock().insert(meta.ino, *meta);
        true
    };
    let is_worth = |_| first.lock().len() < SAMPLE;
    // Ignore an error and a reached limit: the inodes found so far are a sample in any case.
    let _ = since::changed_since(&top.fd, subvolume, then, keep, is_worth);
    first.into_inner()
}

impl<'a> SubvolumeChanges<'a> {
    /// Asks btrfs which inodes were written since the catalog; `None` if btrfs cannot tell, or if a
    /// walk would be as fast.
    pub(super) fn find_written(
        token: &Generation,
        context: &MountContext<'a>,
        reader: &Reader,
        few_changes: fn(EngineKind, usize) -> usize,
    ) -> Result<Option<SubvolumeChanges<'a>>, Error> {
        let (top, about) = (context.top, reader.about());
        let Ok(subvolume) = since::subvolume(&top.fd) else {
            return Ok(None);
        };
        let then = token.number(context, &subvolume);
        let Some(then) = then.filter(|then| *then <= subvolume.generation) else {
            return Ok(None);
        };
        if let Some(since) = SubvolumeChanges::after(then, subvolume, top, about, None) {
            return Ok(Some(since));
        }
        let first = first_written(then, &subvolume, top);
        let known = CatalogInodes::load(reader, reader.groups(), |ino| first.contains_key(&ino))?;
        let differ =
            |(ino, before): &&(u64, Fingerprint)| !before.is_same(&first[ino], &Mutex::default());
        let differ = known.inodes().iter().filter(differ).count();
        if differ > few_changes(EngineKind::Btrfs, known.inodes().len()) {
            return Ok(None);
        }
        let known = CatalogInodes::load(reader, reader.groups(), |_| true)?;
        Ok(SubvolumeChanges::after(
            then,
            subvolume,
            top,
            about,
            Some(known),
        ))
    }

    /// Finds inodes written after a generation; `None` if the search fails or finds too many
    /// inodes. Without `known`, the limit is lower.
    fn after(
        then: u64,
        subvolume: Subvolume,
        top: &'a Top,
        about: &About,
        known: Option<CatalogInodes>,
    ) -> Option<SubvolumeChanges<'a>> {
        let atimes = Mutex::default();
        let (differ, has_skipped) = (AtomicUsize::new(0), AtomicBool::new(false));
        let is_same = |meta: &Meta| {
            let Some(known) = known.as_ref().and_then(|known| known.get(meta.ino)) else {
                return false;
            };
            let is_same = known.is_same(meta, &atimes);
            match is_same {
                true => has_skipped.store(true, Relaxed),
                false => drop(differ.fetch_add(1, Relaxed)),
            }
            is_same
        };
        // Inodes that are not in the catalog do not count, because they may be outside of the
        // directory.
        let is_worth = |changes: usize| match &known {
            None => changes <= few(about),
            Some(_) => !is_much(differ.load(Relaxed), about),
        };
        let changes = since::changed_since(&top.fd, &subvolume, then, is_same, is_worth);
        let changes = changes.ok()??;
        let mut atimes: AccessTimes = atimes.into_inner();
        atimes.sort();
        let dirs: HashSet<u64> = changes.iter().flat_map(dirs_of).collect();
        if is_much(dirs.len(), about) {
            return None;
        }
        let parents = since::parents(&top.fd, subvolume.tree, dirs).ok()?;
        Some(SubvolumeChanges {
            top,
            subvolume,
            then,
            known,
            changes,
            has_skipped: has_skipped.into_inner(),
            atimes,
            parents,
        })
    }

    /// Repeats the search for inodes written after a generation, until now.
    fn again(&mut self, then: u64, about: &About) -> Option<SubvolumeChanges<'a>> {
        let now = since::subvolume(&self.top.fd).ok()?;
        SubvolumeChanges::after(then, now, self.top, about, self.known.take())
    }

    /// Evidence that nothing in the directory has changed; `None` if something may have.
    pub(super) fn is_nothing(&self) -> Option<Evidence> {
        self.is_outside().then_some(match self.has_skipped {
            true => Evidence::SameInodes,
            false => Evidence::NothingWritten,
        })
    }

    /// Whether all written inodes are certainly outside of the directory. (An entry that left the
    /// directory has changed a directory in it.)
    fn is_outside(&self) -> bool {
        let is_outside = |change: &ChangedInode| {
            let mut dirs = dirs_of(change).peekable();
            dirs.peek().is_some() && dirs.all(|dir| self.is_dir_outside(dir))
        };
        self.changes.iter().all(is_outside)
    }

    fn is_dir_outside(&self, dir: u64) -> bool {
        let above = |at: &u64| self.parents.get(at).map(|name| name.dir);
        // Limit the loop: a directory moved meanwhile may seem to be its own ancestor.
        let mut way = std::iter::successors(Some(dir), above).take(self.parents.len() + 1);
        way.find(|&at| at == self.top.meta.ino || at == FIRST_INODE)
            .is_some_and(|at| at != self.top.meta.ino)
    }

    /// Compares written inodes with the catalog; `None` in case of doubt.
    pub(super) fn differing(mut self, reader: &Reader) -> Result<Option<Differing>, Error> {
        /// Maximum number of attempts: a tree that is being written all the time is walked instead.
        const ATTEMPTS: usize = 2;
        for _ in 0..ATTEMPTS {
            if self.is_outside() {
                return Ok(Some(Differing::default()));
            }
            if is_much(self.changes.len(), reader.about()) {
                return Ok(None);
            }
            let Some((places, feed)) = compare_names(reader, self.top, self.written())? else {
                return Ok(None);
            };
            let Some(mut later) = self.again(self.subvolume.generation, reader.about()) else {
                return Ok(None);
            };
            if later.is_outside() {
                return Ok(Some(Differing {
                    places,
                    feed,
                    atimes: self.atimes,
                }));
            }
            let Some(again) = later.again(self.then, reader.about()) else {
                return Ok(None);
            };
            self = again;
        }
        Ok(None)
    }

    /// The written inodes, with their current paths.
    fn written(&self) -> WrittenInodes {
        let mut paths = HashMap::from([(self.top.meta.ino, Some(Vec::new()))]);
        for &dir in self.parents.keys() {
            find_path(dir, &self.parents, &mut paths);
        }
        let path = |dir: u64| paths.get(&dir).cloned().flatten();
        let mut written = WrittenInodes::default();
        for ChangedInode { meta, names } in &self.changes {
            written.inos.insert(meta.ino);
            for name in names {
                if let Some(dir) = path(name.dir) {
                    written.add(dir, name.name.clone(), *meta);
                }
            }
            if meta.ino == self.top.meta.ino {
                written.add(Vec::new(), Vec::new(), *meta);
            }
            if let Some(path) = path(meta.ino).filter(|_| meta.is_dir()) {
                written.dirs.insert(meta.ino, path);
            }
        }
        written
    }
}

/// The directories that contain a changed inode, and the inode itself if it is a directory.
fn dirs_of(change: &ChangedInode) -> impl Iterator<Item = u64> {
    let itself = change.meta.is_dir().then_some(change.meta.ino);
    change.names.iter().map(|name| name.dir).chain(itself)
}

/// Finds the paths of a directory and its ancestors. A loop instead of recursion, because a path
/// may be very deep.
fn find_path(
    dir: u64,
    parents: &HashMap<u64, InodeName>,
    paths: &mut HashMap<u64, Option<Vec<u8>>>,
) {
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
        let path = parent.zip(above);
        let path = path.map(|(name, above)| joined(above, &name.name));
        paths.insert(dir, path);
    }
}
