//! The papers' extra information: the table of <device, parent device> pairs, without path names.
//!
//! The 1988 programs read the table from the kernel's memory through /dev/kmem. Here it is derived
//! from ids, parents and devices of the mount table. A device is UNREFERENCED if it is in no pair,
//! INTERNAL if something is mounted on it, and LEAF otherwise; getmnt3 removes leaves as they are
//! found.
//!
//! On btrfs and similar file systems every subvolume has its own `st_dev`, which differs from the
//! device in the table. Such a file system counts as having a mount on it that is never found, so
//! that it is no leaf and is searched completely.
//!
//! Bind mounts, which are newer than the papers, give pairs of a device with itself. A search for
//! changes of device cannot find them, so they are excluded.

use std::collections::{HashMap, HashSet};

use ondisk::{Dev, Mount};

/// The device pairs of all mounts below one mount.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    /// Device pairs that are not yet found, with their number of occurrences in the table.
    sought: HashMap<(Dev, Dev), usize>,
    /// For each device, the number of mounts on it that have not been removed from the tree of
    /// devices.
    remaining_on: HashMap<Dev, usize>,
    /// Devices that were found before they became leaves, each with its parent devices.
    found_internal: HashMap<Dev, Vec<Dev>>,
    referenced: HashSet<Dev>,
}

impl Pairs {
    /// The pairs of all mounts below the mount `anchor`, whose device is `dev`; `None` if the table
    /// is inconsistent, and thus useless.
    pub fn below(table: &[Mount], anchor: Option<u64>, dev: Dev) -> Option<Pairs> {
        let mut devices: HashMap<u64, Dev> = table.iter().map(|row| (row.id, row.dev)).collect();
        let anchor = anchor?;
        // In a chroot whose root is not the root of a mount, the table may lack the mount that
        // contains it.
        if *devices.entry(anchor).or_insert(dev) != dev {
            return None;
        }
        let mut children: HashMap<u64, Vec<&Mount>> = HashMap::new();
        for row in table.iter().filter(|row| row.id != anchor) {
            children.entry(row.parent).or_default().push(row);
        }
        let mut pairs = Pairs {
            referenced: HashSet::from([devices[&anchor]]),
            ..Pairs::default()
        };
        let mut reached = vec![anchor];
        let mut steps = 0;
        while let Some(parent) = reached.pop() {
            for row in children.get(&parent).into_iter().flatten() {
                steps += 1;
                if steps > table.len() {
                    return None; // the ids of the parents form a cycle
                }
                reached.push(row.id);
                let pair = (row.dev, devices[&parent]);
                pairs.referenced.insert(row.dev);
                if has_devices_of_subvolumes(&row.content.fstype) {
                    *pairs.remaining_on.entry(row.dev).or_default() += 1;
                }
                if pair.0 != pair.1 {
                    *pairs.sought.entry(pair).or_default() += 1;
                    *pairs.remaining_on.entry(pair.1).or_default() += 1;
                }
            }
        }
        Some(pairs)
    }

    /// Whether all mounts on a device have been found. An unreferenced device is not a leaf,
    /// because nothing is known about it.
    pub fn is_leaf(&self, dev: Dev) -> bool {
        self.referenced.contains(&dev) && self.remaining_on.get(&dev).is_none_or(|&n| n == 0)
    }

    /// Records a change from `parent` to `dev`: removes the leaf, and every device that becomes a
    /// leaf by that.
    pub fn found(&mut self, dev: Dev, parent: Dev) {
        let Some(sought) = self.sought.get_mut(&(dev, parent)).filter(|n| **n > 0) else {
            return;
        };
        *sought -= 1;
        if !self.is_leaf(dev) {
            self.found_internal.entry(dev).or_default().push(parent);
            return;
        }
        let mut to_update = vec![parent];
        while let Some(device) = to_update.pop() {
            let on = self.remaining_on.entry(device).or_default();
            *on = on.saturating_sub(1);
            if *on == 0 {
                to_update.extend(self.found_internal.remove(&device).into_iter().flatten());
            }
        }
    }

    /// Whether every mount was found, so that the root of the tree of devices has become a leaf.
    pub fn all_found(&self) -> bool {
        self.remaining_on.values().all(|&n| n == 0)
    }
}

/// Whether files of a file system can have a different device than its superblock.
fn has_devices_of_subvolumes(fstype: &[u8]) -> bool {
    matches!(fstype, b"btrfs" | b"bcachefs" | b"zfs")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dev(minor: u32) -> Dev {
        Dev::new(0, minor)
    }

    fn table(rows: &[(u64, u64, u32)]) -> Vec<Mount> {
        rows.iter()
            .map(|&(id, parent, d)| Mount {
                id,
                parent,
                dev: dev(d),
                ..Mount::default()
            })
            .collect()
    }

    /// The device pairs in Figure 1 and Table 1 of the papers.
    fn papers() -> Pairs {
        let rows = [
            (1, 0, 0),
            (2, 1, 10),
            (3, 1, 23),
            (4, 2, 12),
            (5, 2, 31),
            (6, 1, 33),
        ];
        Pairs::below(&table(&rows), Some(1), dev(0)).unwrap()
    }

    #[test]
    fn leaves_and_internal_nodes_of_table_1() {
        let pairs = papers();
        let leaves: Vec<u32> = [0, 10, 23, 12, 31, 33]
            .into_iter()
            .filter(|&d| pairs.is_leaf(dev(d)))
            .collect();
        assert_eq!(leaves, [23, 12, 31, 33]);
        assert!(!pairs.is_leaf(dev(99)), "an unreferenced device is no leaf");
    }

    #[test]
    fn root_becomes_a_leaf_when_all_are_found() {
        let mut pairs = papers();
        for (d, parent) in [(10, 0), (23, 0), (33, 0), (12, 10)] {
            pairs.found(dev(d), dev(parent));
            assert!(!pairs.all_found());
        }
        assert!(!pairs.is_leaf(dev(0)), "10 is found, but 31 on it is not");
        pairs.found(dev(31), dev(10));
        assert!(pairs.is_leaf(dev(10)) && pairs.is_leaf(dev(0)) && pairs.all_found());
    }

    #[test]
    fn bind_mount_of_the_same_device_is_not_sought() {
        let pairs =
            Pairs::below(&table(&[(1, 0, 0), (2, 1, 0), (3, 2, 7)]), Some(1), dev(0)).unwrap();
        assert!(!pairs.is_leaf(dev(0)) && pairs.is_leaf(dev(7)));
    }

    #[test]
    fn btrfs_never_becomes_a_leaf() {
        let mut rows = table(&[(1, 0, 0), (2, 1, 5)]);
        rows[1].content = std::sync::Arc::new(ondisk::Content {
            fstype: b"btrfs".to_vec(),
            ..Default::default()
        });
        let mut pairs = Pairs::below(&rows, Some(1), dev(0)).unwrap();
        pairs.found(dev(6), dev(0)); // the root of this mount has a different st_dev
        assert!(!pairs.is_leaf(dev(0)) && !pairs.is_leaf(dev(6)) && !pairs.all_found());
        assert!(
            Pairs::below(&rows, Some(2), dev(6)).is_none(),
            "a root whose st_dev the table does not know"
        );
    }

    #[test]
    fn cycle_of_parents_is_rejected() {
        let rows = [(1, 0, 0), (2, 1, 5), (3, 2, 6), (2, 3, 5)];
        assert!(Pairs::below(&table(&rows), Some(1), dev(0)).is_none());
    }
}
