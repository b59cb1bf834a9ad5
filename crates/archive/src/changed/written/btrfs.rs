//! What a file system knows to have been written since: only that is held against the catalog.
//!
//! btrfs tells the inodes that were written after the generation in the catalog's token, with all their names
//! ([`since`]). The rest is as it was, but for its path: so the names in the directories among them are held against the rows
//! that the catalog has of these, and what is below a directory that has come to another path, or is gone, counts as well.
//! With what these rows and entries give, `resolve` comes to what it would with all; and with the other rows, they are all there is.
//!
//! Nothing is taken for granted: where there is any doubt, there is no answer, and everything is walked. What has been seen
//! counts only if nothing in the directory was written meanwhile.

use std::collections::{BTreeMap, HashMap, HashSet};

use ondisk::Mount;
use ondisk::btrfs::{FIRST_INODE, Subvolume};
use walk::engine::btrfs::since::{self, Change, Name};
use walk::entry::joined;
use walk::{By, Dir, Entry, Ground, Meta, Sink, Top, Worker};

use super::index::hash;
use super::untouched::mounted_below;
use crate::catalog::{About, Fault, Options, Reader};
use crate::token::btrfs::generation;
use crate::token::engine;
use look::look;

mod look;

/// What was written to a subvolume since a catalog of a directory in it was made.
pub(crate) struct Since<'a> {
    top: &'a Top,
    subvolume: Subvolume,
    /// The generation that the catalog is of.
    then: u64,
    changes: Vec<Change>,
    /// Where directories that were written are, or what was written is in, and all above them.
    parents: HashMap<u64, Name>,
}

impl<'a> Since<'a> {
    /// Asks for it; `None` where that cannot be told, or would not cost less than a walk.
    pub(crate) fn of(about: &About, top: &'a Top, mounts: &[Mount]) -> Option<Since<'a>> {
        let token = token(about).filter(|_| can_tell(about, top, mounts))?;
        let subvolume = since::subvolume(&top.fd).ok()?;
        let then = generation(token, &subvolume).filter(|&then| then <= subvolume.generation)?;
        Since::after(then, subvolume, top, about)
    }

    fn after(then: u64, subvolume: Subvolume, top: &'a Top, about: &About) -> Option<Since<'a>> {
        let changes = since::changed_since(&top.fd, &subvolume, then).ok()?;
        let dirs = changes.iter().filter(|change| change.meta.is_dir()).map(|change| change.meta.ino);
        let within = changes.iter().flat_map(|change| change.names.iter().map(|name| name.dir));
        let dirs: HashSet<u64> = dirs.chain(within).collect();
        if is_much(dirs.len(), about) {
            return None;
        }
        let parents = since::parents(&top.fd, subvolume.tree, dirs).ok()?;
        Some(Since { top, subvolume, then, changes, parents })
    }

    /// Whether nothing in the directory has been written after this was asked for.
    fn holds(&self, about: &About) -> bool {
        let now = since::subvolume(&self.top.fd).ok();
        let later = now.and_then(|now| Since::after(self.subvolume.generation, now, self.top, about));
        later.is_some_and(|later| later.is_outside())
    }

    /// Whether all of it is outside of the directory for certain. What was in it and is not any more has left another directory there.
    pub(crate) fn is_outside(&self) -> bool {
        let is_outside = |change: &Change| {
            let itself = change.meta.is_dir().then_some(change.meta.ino);
            let mut dirs = change.names.iter().map(|name| name.dir).chain(itself).peekable();
            dirs.peek().is_some() && dirs.all(|dir| self.is_dir_outside(dir))
        };
        self.changes.iter().all(is_outside)
    }

    fn is_dir_outside(&self, dir: u64) -> bool {
        let above = |at: &u64| self.parents.get(at).map(|name| name.dir);
        // No more steps than there are directories: what is moved meanwhile may seem to be in itself.
        let mut way = std::iter::successors(Some(dir), above).take(self.parents.len() + 1);
        way.find(|&at| at == self.top.meta.ino || at == FIRST_INODE).is_some_and(|at| at != self.top.meta.ino)
    }

    /// Holds it against the catalog; `None` where it cannot be told what comes of it.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub(crate) fn differing(mut self, reader: &Reader, mounts: &[Mount]) -> Result<Option<Differing>, Fault> {
        /// Where something is always going on, everything is walked at last.
        const ATTEMPTS: usize = 2;
        for _ in 0..ATTEMPTS {
            let why = format!("only what was written after generation {} of the subvolume was looked at", self.then);
            if self.is_outside() {
                return Ok(Some(Differing { why, ..Differing::default() }));
            }
            if is_much(self.changes.len(), reader.about()) {
                return Ok(None);
            }
            let Some((places, feed)) = look(reader, &self)? else { return Ok(None) };
            if self.holds(reader.about()) {
                return Ok(Some(Differing { places, feed, why }));
            }
            let Some(again) = Since::of(reader.about(), self.top, mounts) else { return Ok(None) };
            self = again;
        }
        Ok(None)
    }
}

/// What there is that a catalog has not, or not so: all else is as its other rows say.
#[derive(Default)]
pub(crate) struct Differing {
    /// Places of rows that say nothing any more, which rise.
    pub(crate) places: Vec<u32>,
    feed: Feed,
    /// How it was found.
    pub(crate) why: String,
}

/// Entries by the directory that they are in, below DIR.
type Feed = BTreeMap<Vec<u8>, Vec<(Vec<u8>, Meta)>>;

impl Differing {
    /// Hands over what there is, as a walk of `root` would.
    pub(crate) fn hand_over(&self, root: &[u8], to: &dyn Sink) {
        let mut worker = to.worker();
        for (dir, entries) in &self.feed {
            let entries: Vec<Entry<'_>> = entries.iter().map(|(name, meta)| Entry { name, meta: *meta }).collect();
            give(&mut *worker, root, dir, &entries);
        }
    }
}

/// Whether a walk of all knows as soon.
fn is_much(changes: usize, about: &About) -> bool {
    changes as u64 > about.entries / 4
}

/// The token to go by, if the tree is one part on btrfs, and was walked whole and at rest.
pub(crate) fn token(about: &About) -> Option<&str> {
    let [part] = &about.parts[..] else { return None };
    let all = Options { one_file_system: about.options.one_file_system, ..Options::default() };
    let is_all = about.complete && about.options == all && about.racy == 0;
    part.token.as_deref().filter(|token| is_all && engine(token) == Some(By::Btrfs))
}

/// Whether a directory is the one that a catalog is of, nothing is mounted in it, and its trees can be searched.
fn can_tell(about: &About, top: &Top, mounts: &[Mount]) -> bool {
    let mount = mounts.iter().find(|mount| mount.id == top.meta.mount);
    about.parts.first().is_some_and(|part| part.ino == top.meta.ino)
        && mount.is_some_and(|mount| By::Btrfs.engine().possible(&Ground::of(top, Some(mount))).is_ok())
        && mounted_below(top, mounts).is_some_and(|names| names.is_empty())
}

/// Gives entries of a directory below `root`, as a walk of that does.
pub(crate) fn give(worker: &mut dyn Worker, root: &[u8], dir: &[u8], entries: &[Entry<'_>]) {
    let depth = dir.split(|&b| b == b'/').filter(|part| !part.is_empty()).count() as u32;
    worker.take(&Dir { path: &joined(root, dir), hash: hash(0, dir), depth }, entries);
}
