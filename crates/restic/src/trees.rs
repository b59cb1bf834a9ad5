//! Trees of the next snapshot. A directory is complete when all of its entries are: then its tree is stored, and its
//! node completes the directory above it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::AcqRel, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use gate::sync::Mutex;
use walk::Meta;

use crate::blobs::{BlobStore, BlobWriter};
use crate::error::Error;
use crate::id::Id;
use crate::node::{Attributes, Extra, NodeEncoder, ReadAttributes, write_subtree};
use crate::parent::{OldNode, OldTree, TreeReader};
use crate::repository_file::BlobKind;

/// A directory whose tree is being made.
pub(crate) struct Directory {
    /// The directory above, and the place of the node there; `None` for the root.
    up: Option<(Arc<Directory>, usize)>,
    /// Its node, up to its contents.
    head: Vec<u8>,
    old: OldDirectory,
    old_tree: OnceLock<OldTree>,
    /// The nodes of its entries, in the order of their names. An empty one is of an entry that was skipped.
    nodes: Mutex<Vec<Vec<u8>>>,
    /// The number of tasks that will still add nodes.
    holders: AtomicUsize,
}

/// What the last snapshot has of a directory.
struct OldDirectory {
    /// It has a node of this name.
    exists: bool,
    /// The node has the same type and times.
    is_unchanged: bool,
    tree: Option<Id>,
}

/// Makes trees.
pub(crate) struct Trees<'a> {
    store: &'a BlobStore<'a>,
    root: Mutex<Option<Id>>,
    new: AtomicU64,
    changed: AtomicU64,
    unmodified: AtomicU64,
}

/// The trees that were made.
pub(crate) struct TreeCounts {
    pub(crate) root: Id,
    pub(crate) new: u64,
    pub(crate) changed: u64,
    pub(crate) unmodified: u64,
}

impl TreeCounts {
    /// Those of a snapshot with the root of another one.
    pub(crate) fn none(root: Id) -> TreeCounts {
        TreeCounts {
            root,
            new: 0,
            changed: 0,
            unmodified: 0,
        }
    }
}

impl Directory {
    /// The root. `tree` is that of the last snapshot. The caller will add nodes, as to every new directory.
    pub(crate) fn root(tree: Option<Id>) -> Arc<Directory> {
        let old = OldDirectory {
            exists: tree.is_some(),
            is_unchanged: tree.is_some(),
            tree,
        };
        Directory::new(None, Vec::new(), old)
    }

    /// A directory at a place in another one. `old` is its node in the last snapshot.
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

    /// One more task will add nodes.
    pub(crate) fn hold(&self) {
        self.holders.fetch_add(1, Relaxed);
    }

    /// Reserves places for the next entries, and returns the first one.
    pub(crate) fn reserve(&self, entries: usize) -> usize {
        let mut nodes = self.nodes.lock();
        let first = nodes.len();
        nodes.resize(first + entries, Vec::new());
        first
    }

    /// Sets the node at a place.
    pub(crate) fn set(&self, place: usize, node: Vec<u8>) {
        if let Some(at) = self.nodes.lock().get_mut(place) {
            *at = node;
        }
    }

    /// Its tree in the last snapshot; an empty one if there is none.
    pub(crate) fn old_tree(&self, reader: &TreeReader<'_>) -> &OldTree {
        let read = || self.old.tree.and_then(|tree| reader.read(tree));
        self.old_tree.get_or_init(|| read().unwrap_or_default())
    }

    /// The JSON of its tree.
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
            new: AtomicU64::new(0),
            changed: AtomicU64::new(0),
            unmodified: AtomicU64::new(0),
        }
    }

    /// The caller adds no more nodes. If no other task does, the tree is complete and stored, and so may be those above.
    ///
    /// # Errors
    /// The repository cannot be written.
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

    /// The trees that were made; `None` before the root is.
    pub(crate) fn counts(self) -> Option<TreeCounts> {
        Some(TreeCounts {
            root: self.root.into_inner()?,
            new: self.new.into_inner(),
            changed: self.changed.into_inner(),
            unmodified: self.unmodified.into_inner(),
        })
    }

    fn count(&self, old: &OldDirectory, id: Id) {
        let count = match old {
            OldDirectory { exists: false, .. } => &self.new,
            old if old.is_unchanged && old.tree == Some(id) => &self.unmodified,
            _ => &self.changed,
        };
        count.fetch_add(1, Relaxed);
    }
}
