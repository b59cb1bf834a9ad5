//! A tree of directory names: each node refers to its parent, so that memory does not grow with the
//! length of paths.

use std::sync::Arc;

use crate::entry::append;
use crate::job::{JobDirectory, MountHints};
use crate::key::DirKey;

/// A directory below the top of a walk.
pub(super) struct DirectoryNode<'a> {
    pub(super) parent: Option<Arc<DirectoryNode<'a>>>,
    /// Name of the directory; without a parent, the path relative to the top.
    pub(super) name: Box<[u8]>,
    pub(super) key: DirKey,
    /// Inode number of the directory; 0 if unknown, and without a parent.
    pub(super) ino: u64,
    /// The mounts below the directory, by the mount table.
    pub(super) below: Option<&'a MountHints>,
}

impl<'a> DirectoryNode<'a> {
    pub(super) fn new(place: JobDirectory, below: Option<&'a MountHints>) -> DirectoryNode<'a> {
        DirectoryNode {
            parent: None,
            name: place.rel.into(),
            key: place.key,
            ino: 0,
            below,
        }
    }

    pub(super) fn child(
        self: &Arc<DirectoryNode<'a>>,
        name: &[u8],
        ino: u64,
    ) -> Arc<DirectoryNode<'a>> {
        Arc::new(DirectoryNode {
            parent: Some(Arc::clone(self)),
            name: name.into(),
            key: self.key.below(name),
            ino,
            below: self.below.and_then(|below| below.step(name)),
        })
    }

    pub(super) fn place(&self) -> JobDirectory {
        let names = std::iter::successors(Some(self), |node| node.parent.as_deref());
        let names: Vec<&[u8]> = names.map(|node| &*node.name).collect();
        let mut rel = Vec::with_capacity(names.iter().map(|name| name.len() + 1).sum());
        for name in names.into_iter().rev().filter(|name| !name.is_empty()) {
            append(&mut rel, name);
        }
        let key = self.key;
        JobDirectory { rel, key }
    }
}

/// Drops a chain of nodes in a loop: recursion would need a stack as deep as the tree.
impl Drop for DirectoryNode<'_> {
    fn drop(&mut self) {
        let mut parent = self.parent.take();
        while let Some(node) = parent {
            parent = Arc::into_inner(node).and_then(|mut node| node.parent.take());
        }
    }
}
