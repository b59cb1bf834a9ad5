//! The mount tree: which mounts a path reaches.
//!
//! A mount is hidden if another mount covers its root, if a later mount on the same parent covers
//! the directory that contains its mount point, or if its parent mount is hidden.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use base::path::{below, compare};
use ondisk::Mount;

use crate::point::MountClass;

/// Hashes mount ids, which the kernel assigns in sequence. The default hasher, which resists chosen
/// keys, takes longer than all other work on an entry of the table.
#[derive(Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|&byte| self.write_u64(u64::from(byte)));
    }
    fn write_u64(&mut self, id: u64) {
        self.0 = (self.0 ^ id)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(32);
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

/// The mount table as a tree.
pub struct Tree<'a> {
    rows: &'a [Mount],
    /// Indices of table rows, by the id of their parent mount.
    children: HashMap<u64, Vec<usize>, BuildHasherDefault<IdHasher>>,
    /// Mount ids and indices of rows, sorted by id.
    by_id: Vec<(u64, usize)>,
}

impl<'a> Tree<'a> {
    /// Indexes the entries of a mount table.
    pub fn new(rows: &'a [Mount]) -> Tree<'a> {
        let mut children: HashMap<u64, Vec<usize>, _> = HashMap::default();
        for (at, row) in rows.iter().enumerate() {
            if row.parent != row.id {
                children.entry(row.parent).or_default().push(at);
            }
        }
        let mut by_id: Vec<(u64, usize)> = rows
            .iter()
            .enumerate()
            .map(|(at, row)| (row.id, at))
            .collect();
        by_id.sort_unstable();
        Tree {
            rows,
            children,
            by_id,
        }
    }

    /// Whether other mounts are mounted on the mount `id`.
    pub fn class(&self, id: u64) -> MountClass {
        if self.children.contains_key(&id) {
            MountClass::Internal
        } else {
            MountClass::Leaf
        }
    }

    /// The mount that contains a path, if `statx` does not report it: the topmost of those with the
    /// longest mount point along the path.
    pub fn anchor(&self, path: &[u8]) -> Option<u64> {
        let leads_to_it = |row: &&Mount| {
            let target = row.target.as_deref();
            target.is_some_and(|target| below(target, path).is_some())
        };
        let is_topmost = |row: &&Mount| {
            self.on(row.id)
                .iter()
                .all(|&on| self.rows[on].target != row.target)
        };
        let rows = self.rows.iter().filter(leads_to_it).filter(is_topmost);
        rows.max_by_key(|row| row.target.as_ref().map_or(0, Vec::len))
            .map(|row| row.id)
    }

    fn index(&self, id: u64) -> Option<usize> {
        let at = self.by_id.binary_search_by_key(&id, |&(id, _)| id).ok()?;
        Some(self.by_id[at].1)
    }

    /// Whether any mount is on a directory inside the mount, and not just over its root.
    pub fn has_mount_inside(&self, row: &Mount) -> bool {
        self.on(row.id)
            .iter()
            .any(|&child| self.rows[child].target != row.target)
    }

    /// The table entry of a mount.
    pub fn row(&self, id: u64) -> Option<&'a Mount> {
        self.index(id).map(|at| &self.rows[at])
    }

    /// Indices of the rows whose parent is this mount.
    pub fn on(&self, id: u64) -> &[usize] {
        self.children.get(&id).map_or(&[], Vec::as_slice)
    }

    /// For each row, whether a path from `root` reaches the mount. The mount `anchor`, which
    /// contains `root`, is reached whatever covers its own root, since paths begin in it.
    pub fn visible(&self, root: &[u8], anchor: u64) -> Vec<bool> {
        let mut visible = vec![false; self.rows.len()];
        if let Some(at) = self.index(anchor) {
            visible[at] = true;
        }
        let mut reached = vec![(anchor, root)];
        while let Some((mount, at)) = reached.pop() {
            let mut on: Vec<(&[u8], usize)> = self
                .on(mount)
                .iter()
                .filter_map(|&child| Some((self.rows[child].target.as_deref()?, child)))
                .filter(|(target, _)| {
                    below(root, target).is_some_and(|rest| mount != anchor || !rest.is_empty())
                })
                .collect();
            let order =
                |a: &(&[u8], usize), b: &(&[u8], usize)| compare(a.0, b.0).then(b.1.cmp(&a.1));
            if !on.is_sorted_by(|a, b| order(a, b).is_le()) {
                on.sort_unstable_by(order);
            }
            let mut over: Option<&[u8]> = None;
            for (target, child) in on {
                if over.is_some_and(|over| below(over, target).is_some()) {
                    continue;
                }
                over = Some(target);
                visible[child] = true;
                if mount != anchor && target == at {
                    // The child mount covers the root of `mount`.
                    if let Some(row) = self.index(mount) {
                        visible[row] = false;
                    }
                }
                reached.push((self.rows[child].id, target));
            }
        }
        visible
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a table from rows of id, parent and mount point: `2 1 /a, 3 2 /a/b`.
    fn rows(table: &str) -> Vec<Mount> {
        let row = |row: &str| {
            let mut fields = row.split(' ');
            let mut next = || fields.next().unwrap();
            Mount {
                id: next().parse().unwrap(),
                parent: next().parse().unwrap(),
                target: Some(next().into()),
                ..Mount::default()
            }
        };
        table.split(", ").map(row).collect()
    }

    fn visible(table: &str, root: &str, anchor: u64) -> Vec<u64> {
        let rows = rows(table);
        let visible = Tree::new(&rows).visible(root.as_bytes(), anchor);
        let seen = rows.iter().zip(visible).filter(|(_, visible)| *visible);
        seen.map(|(row, _)| row.id).collect()
    }

    #[test]
    fn mount_over_a_mount_hides_it_and_mounts_in_it() {
        let table = "1 0 /, 2 1 /a, 3 2 /a/b, 4 2 /a, 5 4 /a/b";
        assert_eq!(visible(table, "/", 1), [1, 4, 5]);
    }

    #[test]
    fn mount_over_a_parent_directory_hides_a_mount() {
        let table = "1 0 /, 2 1 /a/b, 3 1 /a, 4 2 /a/b/c, 5 1 /ab";
        assert_eq!(visible(table, "/", 1), [1, 3, 5]);
    }

    #[test]
    fn root_is_never_covered() {
        assert_eq!(visible("1 0 /, 2 1 /a, 3 1 /", "/", 1), [1, 2]);
    }

    #[test]
    fn only_mounts_below_the_root_are_visible() {
        let table = "1 0 /, 2 1 /srv/x, 3 1 /srvx, 4 1 /other";
        assert_eq!(visible(table, "/srv", 1), [1, 2]);
    }
}
