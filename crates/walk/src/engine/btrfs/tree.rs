//! The directories of a subvolume, and their paths.

use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;

use base::Warning;
use base::btrfs::search;
use gate::sync::RwLock;
use gate::{Errno, Gate};
use ondisk::Dev;
use ondisk::btrfs::{FIRST_INODE, is_name, kind, name_hash};

use super::search::parent_of;
use crate::entry::append;
use crate::error::WarningKind;
use crate::filter::Matcher;
use crate::job::{Job, JobDirectory, MountHints};
use crate::key::DirKey;
use crate::tags::FoundTags;

/// A subvolume below one of its directories.
#[derive(Debug)]
pub(super) struct SubvolumeTree<'a> {
    pub(super) id: u64,
    pub(super) dev: Dev,
    /// Whether the subvolume may have stubs in place of nested subvolumes, as snapshots have.
    pub(super) has_stubs: bool,
    /// The directory where the walk of this subvolume begins.
    pub(super) base: JobDirectory,
    dirs: RwLock<Dirs<'a>>,
}

#[derive(Debug)]
struct Dirs<'a> {
    /// Index in `nodes` by inode number; [`CLOSED`] for a directory whose entries are not in the
    /// walk.
    index: HashMap<u64, u32>,
    nodes: Vec<SubvolumeNode<'a>>,
    names: Vec<u8>,
}

#[derive(Debug)]
struct SubvolumeNode<'a> {
    key: DirKey,
    below: Option<&'a MountHints>,
    /// Offset of the directory's name in `names`; the name ends where that of the next node begins.
    name: usize,
    parent: u32,
    /// Tags of the directory, once the kernel was asked for them.
    tags: Option<FoundTags>,
}

const CLOSED: u32 = u32::MAX;

/// The state of a thread for the directory whose entries it is emitting.
#[derive(Debug)]
pub(super) struct EmittedDirectory<'a> {
    /// Inode number of the directory; 0 before the first directory.
    pub(super) ino: u64,
    node: u32,
    pub(super) key: DirKey,
    pub(super) below: Option<&'a MountHints>,
    pub(super) path: Vec<u8>,
    matcher: Matcher<'a>,
    tags: FoundTags,
}

impl<'a> EmittedDirectory<'a> {
    pub(super) fn new(job: &Job<'a>) -> EmittedDirectory<'a> {
        EmittedDirectory {
            ino: 0,
            node: 0,
            key: DirKey::default(),
            below: None,
            path: Vec::new(),
            matcher: job.filter.matcher(),
            tags: FoundTags::default(),
        }
    }

    /// Whether the walk includes the entry `name` of this directory.
    pub(super) fn keeps(&self, name: &[u8]) -> bool {
        self.node != CLOSED && self.matcher.keeps(name) && self.tags.keep(name)
    }
}

impl<'a> SubvolumeTree<'a> {
    /// A tree whose directory with the inode number `ino` is at `base`.
    pub(super) fn new(
        id: u64,
        dev: Dev,
        has_stubs: bool,
        ino: u64,
        base: JobDirectory,
        below: Option<&'a MountHints>,
    ) -> SubvolumeTree<'a> {
        let node = SubvolumeNode {
            key: base.key,
            below,
            name: 0,
            parent: 0,
            tags: None,
        };
        let dirs = Dirs {
            index: HashMap::from([(ino, 0)]),
            nodes: vec![node],
            names: Vec::new(),
        };
        SubvolumeTree {
            id,
            dev,
            has_stubs,
            base,
            dirs: RwLock::new(dirs),
        }
    }

    /// Makes a directory the current one, and searches for its parents if they are not known yet.
    pub(super) fn turn_to(
        &self,
        job: &Job<'a>,
        fd: impl AsFd,
        ino: u64,
        view: &mut EmittedDirectory<'a>,
        buffer: &mut [u8],
    ) {
        let known = self.dirs.read().index.get(&ino).copied();
        let node = known.unwrap_or_else(|| self.find(job, &fd, ino, buffer));
        (view.ino, view.node) = (ino, node);
        if node == CLOSED {
            return;
        }
        view.tags = self.tags(job, fd, node, ino, buffer);
        let dirs = self.dirs.read();
        if let Some(SubvolumeNode { key, below, .. }) = dirs.nodes.get(node as usize) {
            (view.key, view.below) = (*key, *below);
        }
        if job.wants_paths() {
            self.path(job, &dirs, node, &mut view.path);
        }
        view.matcher.enter(&view.path);
    }

    /// Adds a directory, unless it is known.
    pub(super) fn add(&self, job: &Job<'a>, parent: &EmittedDirectory<'a>, name: &[u8], ino: u64) {
        let mut dirs = self.dirs.write();
        let above = (parent.node, &parent.matcher, &parent.tags);
        dirs.add(job, above, name, ino);
    }

    /// The tags of a directory. The kernel is asked only if the tree has an entry with the name of
    /// a tag.
    fn tags(
        &self,
        job: &Job<'_>,
        fd: impl AsFd,
        node: u32,
        ino: u64,
        buffer: &mut [u8],
    ) -> FoundTags {
        let tags = job.filter.tags();
        let mut names = tags.names().peekable();
        if node == CLOSED || names.peek().is_none() {
            return FoundTags::default();
        }
        if let Some(known) = self.dirs.read().tags_of(node) {
            return known.clone();
        }
        let may_have_tags = names.any(|name| {
            let key = (ino, kind::DIR_ITEM, name_hash(name.to_bytes()));
            let found = search(&fd, self.id, key..=key, 1, buffer);
            found.map_or(true, |mut items| items.next().is_some())
        });
        let mut found = FoundTags::default();
        if may_have_tags {
            let mut rel = self.base.rel.clone();
            let dirs = self.dirs.read();
            dirs.append_names(node, &mut rel);
            let key = dirs.nodes[node as usize].key;
            drop(dirs);
            found = job
                .open(&JobDirectory { rel, key })
                .map_or(found, |fd| tags.find(&fd));
        }
        self.dirs.write().nodes[node as usize].tags = Some(found.clone());
        found
    }

    /// The path of the current directory, relative to the top.
    pub(super) fn place(&self, view: &EmittedDirectory<'_>) -> JobDirectory {
        let mut rel = self.base.rel.clone();
        let dirs = self.dirs.read();
        dirs.append_names(view.node, &mut rel);
        let key = view.key;
        JobDirectory { rel, key }
    }

    fn path(&self, job: &Job<'a>, dirs: &Dirs<'a>, node: u32, path: &mut Vec<u8>) {
        path.clear();
        path.extend_from_slice(&job.top.path);
        if !self.base.rel.is_empty() {
            append(path, &self.base.rel);
        }
        dirs.append_names(node, path);
    }

    /// Searches for the parents of a directory up to a known one, adds all of them, and returns the
    /// node.
    #[cold]
    fn find(&self, job: &Job<'a>, fd: impl AsFd, ino: u64, buffer: &mut [u8]) -> u32 {
        // If directories are moved during the search, their parents can seem to form a cycle: try
        // again.
        const TRIES: usize = 5;
        for _ in 0..TRIES {
            let mut chain: Vec<(u64, Vec<u8>)> = Vec::new();
            let mut seen = HashSet::new();
            let mut at = ino;
            let mut top = loop {
                let known = self.dirs.read().index.get(&at).copied();
                if known.is_some() {
                    break known;
                }
                if at == FIRST_INODE {
                    break Some(CLOSED);
                }
                if !seen.insert(at) {
                    break None;
                }
                match parent_of(&fd, self.id, at, buffer) {
                    Ok(Some((parent, name))) if is_name(&name) => {
                        chain.push((at, name));
                        at = parent;
                    }
                    Ok(_) | Err(Errno::ENOENT) => break Some(CLOSED),
                    Err(e) => {
                        let (path, kind) = (job.path(&self.base), WarningKind::ReadParent { ino });
                        let gate = Gate::BtrfsTreeSearchV2;
                        job.warn(Warning::failed(&path, gate, e, kind));
                        break Some(CLOSED);
                    }
                }
            };
            let (mut path, mut matcher, mut above) = (Vec::new(), job.filter.matcher(), at);
            while let (Some(parent), Some((ino, name))) = (top, chain.pop()) {
                let tags = self.tags(job, &fd, parent, above, buffer);
                above = ino;
                let mut dirs = self.dirs.write();
                if job.filter.wants_paths() && parent != CLOSED {
                    self.path(job, &dirs, parent, &mut path);
                    matcher.enter(&path);
                }
                top = Some(dirs.add(job, (parent, &matcher, &tags), &name, ino));
            }
            match top {
                Some(node) if at == ino && chain.is_empty() && node == CLOSED => {
                    self.dirs.write().index.insert(ino, CLOSED);
                    return CLOSED;
                }
                Some(node) => return node,
                None => {}
            }
        }
        let kind = WarningKind::Circle { ino };
        job.warn(Warning::about(&job.path(&self.base), kind));
        self.dirs.write().index.insert(ino, CLOSED);
        CLOSED
    }
}

impl<'a> Dirs<'a> {
    /// Adds a directory, unless it is known, and returns the index of its node. `above` has the
    /// node, the patterns and the tags of its parent.
    fn add(
        &mut self,
        job: &Job<'a>,
        above: (u32, &Matcher<'_>, &FoundTags),
        name: &[u8],
        ino: u64,
    ) -> u32 {
        if let Some(&known) = self.index.get(&ino) {
            return known;
        }
        let node = self.open(job, above, name).unwrap_or(CLOSED);
        self.index.insert(ino, node);
        node
    }

    /// Creates a node for a directory; `None` if its entries are not in the walk.
    fn open(
        &mut self,
        job: &Job<'a>,
        (parent, matcher, tags): (u32, &Matcher<'_>, &FoundTags),
        name: &[u8],
    ) -> Option<u32> {
        let above = self.nodes.get(parent as usize)?;
        let below = above.below.and_then(|below| below.step(name));
        let is_covered = MountHints::is_mount(above.below, name);
        if is_covered
            || !job.filter.enters(above.key.depth + 1)
            || !matcher.keeps(name)
            || !tags.keep(name)
        {
            return None;
        }
        let node = SubvolumeNode {
            key: above.key.below(name),
            below,
            name: self.names.len(),
            parent,
            tags: None,
        };
        let number = u32::try_from(self.nodes.len())
            .ok()
            .filter(|&n| n != CLOSED)?;
        self.names.extend_from_slice(name);
        self.nodes.push(node);
        Some(number)
    }

    /// The tags of a directory, if they are known already.
    fn tags_of(&self, node: u32) -> Option<&FoundTags> {
        self.nodes.get(node as usize)?.tags.as_ref()
    }

    fn append_names(&self, node: u32, path: &mut Vec<u8>) {
        let mut chain = Vec::new();
        let mut at = node as usize;
        while let Some(node) = self.nodes.get(at).filter(|_| at != 0) {
            let next = self.nodes.get(at + 1);
            let end = next.map_or(self.names.len(), |next| next.name);
            chain.push(&self.names[node.name..end]);
            at = node.parent as usize; // the loop ends: a parent has a smaller index
        }
        chain.iter().rev().for_each(|name| append(path, name));
    }
}
