//! The directories of a subvolume: where each of them lies.

use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;

use gate::sync::RwLock;
use gate::{Errno, Gate};
use mounts::Warning;
use ondisk::Dev;
use ondisk::btrfs::{FIRST_INODE, is_name};

use super::scan::parent_of;
use crate::digest;
use crate::entry::append;
use crate::error::WarningKind;
use crate::job::{Below, Job, Place};

/// A subvolume, from one of its directories down.
#[derive(Debug)]
pub(super) struct Tree<'a> {
    /// Number of its tree.
    pub(super) id: u64,
    /// Its `st_dev`.
    pub(super) dev: Dev,
    /// Whether names in it may lead to subvolumes that are not there: those of what it is a
    /// snapshot of.
    pub(super) has_stubs: bool,
    base: Place,
    dirs: RwLock<Dirs<'a>>,
}

#[derive(Debug)]
struct Dirs<'a> {
    /// By inode number, where a directory is among the nodes; [`CLOSED`] when what is in it is not
    /// in the walk.
    index: HashMap<u64, u32>,
    nodes: Vec<Node<'a>>,
    names: Vec<u8>,
}

#[derive(Debug)]
struct Node<'a> {
    hash: u64,
    below: Option<&'a Below>,
    /// Where its name begins among the names; it ends where the next node's begins.
    name: usize,
    parent: u32,
    depth: u32,
}

const CLOSED: u32 = u32::MAX;

/// A directory, as what is in it is being handed over.
#[derive(Debug, Default)]
pub(super) struct View<'a> {
    /// Its inode number; 0 when it is none.
    pub(super) ino: u64,
    node: u32,
    /// What stands for its name in digests.
    pub(super) hash: u64,
    /// How deep it is.
    pub(super) depth: u32,
    /// What is known of mounts in it.
    pub(super) below: Option<&'a Below>,
    /// Its name, where somebody wants it.
    pub(super) path: Vec<u8>,
}

impl View<'_> {
    /// Whether what is in it is in the walk.
    pub(super) fn is_open(&self) -> bool {
        self.node != CLOSED
    }
}

impl<'a> Tree<'a> {
    /// A tree whose directory with the number `ino` lies at `base`.
    pub(super) fn new(
        id: u64,
        dev: Dev,
        has_stubs: bool,
        ino: u64,
        base: Place,
        below: Option<&'a Below>,
    ) -> Tree<'a> {
        let node = Node {
            hash: base.hash,
            below,
            name: 0,
            parent: 0,
            depth: base.depth,
        };
        let dirs = Dirs {
            index: HashMap::from([(ino, 0)]),
            nodes: vec![node],
            names: Vec::new(),
        };
        Tree {
            id,
            dev,
            has_stubs,
            base,
            dirs: RwLock::new(dirs),
        }
    }

    /// Where it begins.
    pub(super) fn base(&self) -> &Place {
        &self.base
    }

    /// Turns to a directory, reading where it lies if that is not known yet.
    pub(super) fn turn_to(
        &self,
        job: &Job<'a>,
        fd: impl AsFd,
        ino: u64,
        view: &mut View<'a>,
        buffer: &mut [u8],
    ) {
        let known = self.dirs.read().index.get(&ino).copied();
        let node = known.unwrap_or_else(|| self.find(job, fd, ino, buffer));
        (view.ino, view.node) = (ino, node);
        if node == CLOSED {
            return;
        }
        let dirs = self.dirs.read();
        if let Some(Node {
            hash, depth, below, ..
        }) = dirs.nodes.get(node as usize)
        {
            (view.hash, view.depth, view.below) = (*hash, *depth, *below);
        }
        if job.wants_paths() {
            self.path(job, &dirs, node, &mut view.path);
        }
    }

    /// Notes a directory that is in another. It need not have been known before.
    pub(super) fn note(&self, job: &Job<'a>, parent: &View<'a>, name: &[u8], ino: u64) {
        let mut dirs = self.dirs.write();
        dirs.add(job, parent.node, &parent.path, name, ino);
    }

    /// A directory that the view has been turned to, as a place.
    pub(super) fn place(&self, view: &View<'_>) -> Place {
        let mut rel = self.base.rel.clone();
        let dirs = self.dirs.read();
        dirs.append_names(view.node, &mut rel);
        Place {
            rel,
            hash: view.hash,
            depth: view.depth,
        }
    }

    fn path(&self, job: &Job<'a>, dirs: &Dirs<'a>, node: u32, path: &mut Vec<u8>) {
        path.clear();
        path.extend_from_slice(&job.top.path);
        if !self.base.rel.is_empty() {
            append(path, &self.base.rel);
        }
        dirs.append_names(node, path);
    }

    /// Reads upwards from a directory until one is known, and notes all of them.
    #[cold]
    fn find(&self, job: &Job<'a>, fd: impl AsFd, ino: u64, buffer: &mut [u8]) -> u32 {
        // Directories that are moved while this reads can seem to lie in one another. They do not
        // for long.
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
                        let at = job.path(&self.base);
                        job.warn(Warning::failed(
                            &at,
                            Gate::BtrfsTreeSearchV2,
                            e,
                            WarningKind::ReadParent { ino },
                        ));
                        break Some(CLOSED);
                    }
                }
            };
            let mut dirs = self.dirs.write();
            let mut path = Vec::new();
            while let (Some(parent), Some((ino, name))) = (top, chain.pop()) {
                if job.filter.wants_paths() && parent != CLOSED {
                    self.path(job, &dirs, parent, &mut path);
                }
                top = Some(dirs.add(job, parent, &path, &name, ino));
            }
            match top {
                Some(node) if at == ino && chain.is_empty() && node == CLOSED => {
                    dirs.index.insert(ino, CLOSED);
                    return CLOSED;
                }
                Some(node) => return node,
                None => {}
            }
        }
        let what = WarningKind::Circle { ino };
        job.warn(Warning::about(&job.path(&self.base), what));
        self.dirs.write().index.insert(ino, CLOSED);
        CLOSED
    }
}

impl<'a> Dirs<'a> {
    /// Notes a directory, unless it is known, and gives its node.
    fn add(
        &mut self,
        job: &Job<'a>,
        parent: u32,
        parent_path: &[u8],
        name: &[u8],
        ino: u64,
    ) -> u32 {
        if let Some(&known) = self.index.get(&ino) {
            return known;
        }
        let node = self.open(job, parent, parent_path, name).unwrap_or(CLOSED);
        self.index.insert(ino, node);
        node
    }

    /// Makes a node for a directory; `None` when what is in it is not in the walk.
    fn open(&mut self, job: &Job<'a>, parent: u32, parent_path: &[u8], name: &[u8]) -> Option<u32> {
        let above = self.nodes.get(parent as usize)?;
        let depth = above.depth.saturating_add(1);
        let below = above.below.and_then(|below| below.step(name));
        let is_covered = below.is_some_and(Below::is_mount);
        if is_covered || !job.filter.enters(depth) || !job.filter.keeps(parent_path, name) {
            return None;
        }
        let node = Node {
            hash: digest::below(above.hash, name),
            below,
            name: self.names.len(),
            parent,
            depth,
        };
        let number = u32::try_from(self.nodes.len())
            .ok()
            .filter(|&n| n != CLOSED)?;
        self.names.extend_from_slice(name);
        self.nodes.push(node);
        Some(number)
    }

    /// Adds to a path the names from the base, whose own it does not know, down to a node.
    fn append_names(&self, node: u32, path: &mut Vec<u8>) {
        let mut chain = Vec::new();
        let mut at = node as usize;
        while let Some(node) = self.nodes.get(at).filter(|_| at != 0) {
            let end = self
                .nodes
                .get(at + 1)
                .map_or(self.names.len(), |next| next.name);
            chain.push(&self.names[node.name..end]);
            at = node.parent as usize; // always a smaller number
        }
        chain.iter().rev().for_each(|name| append(path, name));
    }
}
