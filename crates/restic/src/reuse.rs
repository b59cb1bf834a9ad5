//! Directories in which nothing has changed since the last snapshot. They keep its trees: the engine is given their
//! nodes with the tree in them, and nothing below.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;

use archive::Users;
use archive::rows::Rows;
use rustic_core::TreeId;
use rustic_core::repofile::{Node, SnapshotSummary};
use walk::Type;

use crate::node::{Extra, node};

/// The topmost directories that keep their trees, and how much is in them.
#[derive(Default)]
pub(crate) struct Reused {
    nodes: HashMap<usize, Node>,
    /// Entries that are no directories.
    files: u64,
    directories: u64,
    bytes: u64,
}

/// Where the directories of a tree are looked up.
pub(crate) struct Search<'a, L> {
    pub(crate) rows: &'a Rows,
    pub(crate) users: &'a Users,
    /// For each row, whether the entry or anything below it has changed.
    pub(crate) changed: &'a [bool],
    /// Rows that are not part of the snapshot.
    pub(crate) skipped: Range<usize>,
    /// Reads a tree of the last snapshot; `None` if it cannot be used.
    pub(crate) read_tree: L,
}

impl Reused {
    /// The node of a directory that keeps its tree.
    pub(crate) fn node(&self, row: usize) -> Option<&Node> {
        self.nodes.get(&row)
    }

    /// The number of entries in such directories, themselves included, and their bytes.
    pub(crate) fn amount(&self) -> (u64, u64) {
        (self.files + self.directories, self.bytes)
    }

    /// Corrects the summary of the engine, which counts each such directory as a file and nothing below it.
    pub(crate) fn correct(&self, summary: &mut SnapshotSummary) {
        let nodes = self.nodes.len() as u64;
        for files in [
            &mut summary.files_unmodified,
            &mut summary.total_files_processed,
        ] {
            *files = (*files + self.files).saturating_sub(nodes);
        }
        summary.dirs_unmodified += self.directories;
        summary.total_dirs_processed += self.directories;
        summary.total_bytes_processed += self.bytes;
    }

    fn add(&mut self, rows: &Rows, row: usize, node: Node) {
        for row in row..rows.end(row) {
            match rows.kind(row) {
                Type::Directory => self.directories += 1,
                Type::File => {
                    self.files += 1;
                    self.bytes = self.bytes.saturating_add(rows.meta(row).size);
                }
                _ => self.files += 1,
            }
        }
        self.nodes.insert(row, node);
    }
}

impl<L: FnMut(&TreeId) -> Option<Vec<Node>>> Search<'_, L> {
    /// Finds the directories below a SRC that keep their trees. `path` is that of the SRC in the snapshot. Only
    /// trees of directories in which something has changed are read.
    pub(crate) fn find(&mut self, root: TreeId, path: &[u8], source: usize, to: &mut Reused) {
        let Some(tree) = self.tree_at(root, path) else {
            return;
        };
        let mut left = vec![(source, tree)];
        while let Some((dir, tree)) = left.pop() {
            let mut known = self.directories_of(&tree);
            for row in self.rows.children(dir).filter(|&row| self.rows.is_dir(row)) {
                let name = OsStr::from_bytes(self.rows.name(row));
                let Some((old, tree)) = known.remove(name) else {
                    continue;
                };
                match self.is_unchanged(row, &old) {
                    true => to.add(self.rows, row, old),
                    false => left.push((row, tree)),
                }
            }
        }
    }

    /// The tree of a directory of the last snapshot.
    fn tree_at(&mut self, root: TreeId, path: &[u8]) -> Option<TreeId> {
        let mut names = path.split(|&b| b == b'/').filter(|name| !name.is_empty());
        names.try_fold(root, |tree, name| {
            let found = self.directories_of(&tree).remove(OsStr::from_bytes(name));
            found.map(|(_, tree)| tree)
        })
    }

    /// The directories in a tree of the last snapshot, with their trees.
    fn directories_of(&mut self, tree: &TreeId) -> HashMap<OsString, (Node, TreeId)> {
        let nodes = (self.read_tree)(tree).unwrap_or_default().into_iter();
        let with_tree = nodes.filter(Node::is_dir).filter_map(|node| {
            let tree = node.subtree?;
            Some((node.name().into_owned(), (node, tree)))
        });
        with_tree.collect()
    }

    /// Whether a directory is the one of the last snapshot, and nothing in it has changed. Attributes do not change
    /// without the time of the last change of the inode.
    fn is_unchanged(&self, row: usize, old: &Node) -> bool {
        let (below, skipped) = (row..self.rows.end(row), &self.skipped);
        let has_skipped = skipped.start < below.end && below.start < skipped.end;
        if self.changed[row] || has_skipped {
            return false;
        }
        let name = self.rows.name(row);
        let mut now = node(name, &self.rows.meta(row), Extra::default(), self.users);
        now.meta.extended_attributes = old.meta.extended_attributes.clone();
        now.subtree = old.subtree;
        now == *old
    }
}
