//! btrfs: the inodes that were written after the generation in the catalog's token, with all their
//! names ([`since`]). The result counts only if nothing in the directory was written meanwhile.

use std::collections::{HashMap, HashSet};

use ondisk::btrfs::{FIRST_INODE, Subvolume};
use walk::engine::btrfs::since::{self, Change, Name};
use walk::entry::joined;
use walk::{MountContext, Top};

use super::differing::{Differing, Written, is_much};
use super::names::compare_names;
use crate::catalog::{About, Reader};
use crate::error::Result;
use crate::token::btrfs::Generation;

/// What was written to a subvolume since a catalog of a directory in it was made.
pub(crate) struct Since<'a> {
    top: &'a Top,
    subvolume: Subvolume,
    /// The generation that the catalog is of.
    pub(super) then: u64,
    changes: Vec<Change>,
    /// The names of the directories that were written, of those that hold what was written, and of
    /// all above them.
    parents: HashMap<u64, Name>,
}

impl<'a> Since<'a> {
    /// Asks the file system; `None` if it cannot tell, or a walk would be as fast.
    pub(super) fn ask(
        token: &Generation,
        context: &MountContext<'a>,
        about: &About,
    ) -> Option<Since<'a>> {
        let subvolume = since::subvolume(&context.top.fd).ok()?;
        let then = token.number(context, &subvolume)?;
        let is_past = then <= subvolume.generation;
        Since::after(then, subvolume, context.top, about).filter(|_| is_past)
    }

    fn after(then: u64, subvolume: Subvolume, top: &'a Top, about: &About) -> Option<Since<'a>> {
        let changes = since::changed_since(&top.fd, &subvolume, then).ok()?;
        let dirs: HashSet<u64> = changes.iter().flat_map(dirs_of).collect();
        if is_much(dirs.len(), about) {
            return None;
        }
        let parents = since::parents(&top.fd, subvolume.tree, dirs).ok()?;
        Some(Since {
            top,
            subvolume,
            then,
            changes,
            parents,
        })
    }

    /// Nothing in the directory was written since the file system was asked.
    fn holds(&self, about: &About) -> bool {
        let later = self.again(self.subvolume.generation, about);
        later.is_some_and(|later| later.is_outside())
    }

    /// What was written after a generation until now.
    fn again(&self, then: u64, about: &About) -> Option<Since<'a>> {
        let now = since::subvolume(&self.top.fd).ok()?;
        Since::after(then, now, self.top, about)
    }

    /// All of it is certainly outside of the directory. (What has left the directory has changed a
    /// directory in it.)
    pub(super) fn is_outside(&self) -> bool {
        let is_outside = |change: &Change| {
            let mut dirs = dirs_of(change).peekable();
            dirs.peek().is_some() && dirs.all(|dir| self.is_dir_outside(dir))
        };
        self.changes.iter().all(is_outside)
    }

    fn is_dir_outside(&self, dir: u64) -> bool {
        let above = |at: &u64| self.parents.get(at).map(|name| name.dir);
        // Bounded, since a directory that is moved meanwhile may appear to be inside itself.
        let mut way = std::iter::successors(Some(dir), above).take(self.parents.len() + 1);
        way.find(|&at| at == self.top.meta.ino || at == FIRST_INODE)
            .is_some_and(|at| at != self.top.meta.ino)
    }

    /// Compares it with the catalog; `None` if the result is in doubt.
    pub(super) fn differing(mut self, reader: &Reader) -> Result<Option<Differing>> {
        /// A tree that is written all the time is walked in the end.
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
            if self.holds(reader.about()) {
                let atimes = HashMap::new();
                return Ok(Some(Differing {
                    places,
                    feed,
                    atimes,
                }));
            }
            let Some(again) = self.again(self.then, reader.about()) else {
                return Ok(None);
            };
            self = again;
        }
        Ok(None)
    }

    /// What was written, and where it is.
    fn written(&self) -> Written {
        let mut paths = HashMap::from([(self.top.meta.ino, Some(Vec::new()))]);
        for &dir in self.parents.keys() {
            find_path(dir, &self.parents, &mut paths);
        }
        let path = |dir: u64| paths.get(&dir).cloned().flatten();
        let mut written = Written::default();
        for Change { meta, names } in &self.changes {
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

/// The directories that a change is in, and itself, if it is one.
fn dirs_of(change: &Change) -> impl Iterator<Item = u64> {
    let itself = change.meta.is_dir().then_some(change.meta.ino);
    change.names.iter().map(|name| name.dir).chain(itself)
}

/// Finds the paths of a directory and of those above it. A loop, since a path may be very deep.
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
        let path = parent.zip(above);
        let path = path.map(|(name, above)| joined(above, &name.name));
        paths.insert(dir, path);
    }
}
