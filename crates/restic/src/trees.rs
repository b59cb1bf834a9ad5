//! Trees of the next snapshot. A directory is complete when all its entries are: then its tree is
//! stored, and its node is added to the directory above.

use std::sync::atomic::{AtomicUsize, Ordering::AcqRel, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use gate::sync::Mutex;
use walk::Meta;

use crate::blobs::{BlobStore, BlobWriter};
use crate::error::Error;
use crate::id::Id;
use crate::node::{Attributes, Extra, NodeEncoder, ReadAttributes, write_subtree};
use crate::parent::{OldNode, OldTree, TreeReader};
use crate::repository_file::BlobKind;
use crate::snapshot_file::SnapshotSummary;

/// A directory whose tree is being built.
pub(crate) struct Directory {
    /// The parent directory, and the index of the node there; `None` for the root.
    up: Option<(Arc<Directory>, usize)>,
    /// The JSON of the directory's node, up to its subtree.
    head: Vec<u8>,
    old: OldDirectory,
    old_tree: OnceLock<OldTree>,
    /// The nodes of the entries, in name order. An empty node stands for a skipped entry.
    nodes: Mutex<Vec<Vec<u8>>>,
    /// The number of tasks that will still add nodes.
    holders: AtomicUsize,
}

/// State of a directory in the last snapshot.
struct OldDirectory {
    /// Whether the last snapshot has a node of this name.
    exists: bool,
    /// Whether the node has the same type and times.
    is_unchanged: bool,
    tree: Option<Id>,
}

/// Builds and stores trees.
pub(crate) struct Trees<'a> {
    store: &'a BlobStore<'a>,
    root: Mutex<Option<Id>>,
    /// The numbers of directories.
    summary: Mutex<SnapshotSummary>,
}

impl Directory {
    /// The root directory of the next snapshot. `tree` is the root of the last snapshot. The caller
    /// holds the new directory, and must release it.
    pub(crate) fn root(tree: Option<Id>) -> Arc<Directory> {
        let old = OldDirectory {
            exists: tree.is_some(),
            is_unchanged: tree.is_some(),
            tree,
        };
        Directory::new(None, Vec::new(), old)
    }

    /// A directory at an index of its parent. `old` is its node in the last snapshot.
    pub(crate) fn at(
        (up, place): (&Arc<Directory>, usize),
        name: &[u8],
        meta: &Meta,
        attributes: &ReadAttributes,
        old: Option<&OldNode>,
        encoder: &mut NodeEncoder<'_>,
    ) -> Arc<Directory> {
        let extra = Extra {
            attributes: Attributes::Read(attributes),
            ..Extra::default()
        };
        let mut head = Vec::new();
        encoder.write(name, meta, extra, &mut head);
        let old = OldDirectory {
            exists: old.is_some(),
            is_unchanged: old.is_some_and(|old| old.is_unchanged(meta, &mut encoder.times)),
            tree: old.and_then(|old| old.tree),
        };
        up.hold();
        Directory::new(Some((up.clone(), place)), head, old)
    }

    fn new(
        up: Option<(Arc<Directory>, usize)>,
        head: Vec<u8>,
        old: OldDirectory,
    ) -> Arc<Directory> {
        Arc::new(Directory {
            up,
            head,
            old,
            old_tree: OnceLock::new(),
            nodes: Mutex::default(),
            holders: AtomicUsize::new(1),
        })
    }

    /// Registers one more task that will add nodes.
    pub(crate) fn hold(&self) {
        self.holders.fetch_add(1, Relaxed);
    }

    /// Reserves indexes for the next entries, and returns the first one.
    pub(crate) fn reserve(&self, entries: usize) -> usize {
        let mut nodes = self.nodes.lock();
        let first = nodes.len();
        nodes.resize(first + entries, Vec::new());
        first
    }

    /// Sets the node at an index.
    pub(crate) fn set(&self, place: usize, node: Vec<u8>) {
        if let Some(at) = self.nodes.lock().get_mut(place) {
            *at = node;
        }
    }

    /// The directory's tree in the last snapshot; empty if there is none.
    pub(crate) fn old_tree(&self, reader: &TreeReader<'_>) -> &OldTree {
        let read = || self.old.tree.and_then(|tree| reader.read(tree));
        self.old_tree.get_or_init(|| read().unwrap_or_default())
    }

    /// The JSON of the directory's tree.
    fn json(&self) -> Vec<u8> {
        let nodes = std::mem::take(&mut *self.nodes.lock());
        let length = nodes.iter().map(|node| node.len() + 1).sum::<usize>();
        let mut json = Vec::with_capacity(length + 16);
        json.extend_from_slice(b"{\"nodes\":[");
        for node in nodes.iter().filter(|node| !node.is_empty()) {
            json.extend_from_slice(node);
            json.push(b',');
        }
        json.pop_if(|last| *last == b',');
        json.extend_from_slice(b"]}\n");
        json
    }
}

impl<'a> Trees<'a> {
    pub(crate) fn new(store: &'a BlobStore<'a>) -> Trees<'a> {
        Trees {
            store,
            root: Mutex::default(),
            summary: Mutex::default(),
        }
    }

    /// Releases the caller's hold. When no task holds the directory any more, its tree is complete
    /// and stored, and so possibly those of its parents.
    ///
    /// # Errors
    /// If the repository cannot be written.
    pub(crate) fn release(
        &self,
        mut of: Arc<Directory>,
        writer: &mut BlobWriter<'_>,
    ) -> Result<(), Error> {
        while of.holders.fetch_sub(1, AcqRel) == 1 {
            let json = of.json();
            let id = Id::hash(&json);
            self.count(&of.old, id);
            if self.store.claim(BlobKind::Tree, id) {
                writer.write(BlobKind::Tree, id, &json)?;
            }
            let Some((up, place)) = of.up.clone() else {
                *self.root.lock() = Some(id);
                return Ok(());
            };
            let mut node = of.head.clone();
            write_subtree(id, &mut node);
            up.set(place, node);
            of = up;
        }
        Ok(())
    }

    /// The tree of the root, and the numbers of directories; `None` before the root is complete.
    pub(crate) fn into_root(self) -> Option<(Id, SnapshotSummary)> {
        Some((self.root.into_inner()?, self.summary.into_inner()))
    }

    fn count(&self, old: &OldDirectory, id: Id) {
        let mut summary = self.summary.lock();
        let count = match old {
            OldDirectory { exists: false, .. } => &mut summary.dirs_new,
            old if old.is_unchanged && old.tree == Some(id) => &mut summary.dirs_unmodified,
            _ => &mut summary.dirs_changed,
        };
        *count += 1;
    }
}
