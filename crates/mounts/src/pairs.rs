//! The papers' extra information: the table of <device, parent device> pairs, without path names.
//!
//! The 1988 programs read it from the kernel's memory through /dev/kmem. Here it comes from the
//! mount table, of which only ids, parents and devices are looked at. A device is UNREFERENCED when
//! it is in no pair, INTERNAL when something is mounted on it, and LEAF otherwise; getmnt3 makes a
//! tree of it and removes leaves from that as they are found.
//!
//! On btrfs and its like every subvolume has an `st_dev` of its own, and none has the device of the
//! table. Such a file system counts as having a mount on it that is never found: it is no leaf, and
//! the search goes on to its end.
//!
//! Bind mounts, which the papers did not know, bring pairs of a device with itself: no search for a
//! change of device can find them, and they are left out.

use std::collections::HashMap;

use ondisk::{Dev, Mount};

/// The pairs below one mount.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    /// Pairs that are not yet found, and how often each stands in the table.
    sought: HashMap<(Dev, Dev), usize>,
    /// For each device, how many mounts on it are not yet removed.
    on: HashMap<Dev, usize>,
    /// Devices that were found before they turned leaf, with the devices that they are mounted on.
    found_internal: HashMap<Dev, Vec<Dev>>,
    /// Every device that stands in the table.
    referenced: HashMap<Dev, ()>,
}

impl Pairs {
    /// The pairs of all mounts below the mount `anchor`, whose device is `dev`; `None` when the
    /// table does not hold together, so that nothing may be concluded from it.
    pub fn below(table: &[Mount], anchor: Option<u64>, dev: Dev) -> Option<Pairs> {
        let mut devices: HashMap<u64, Dev> = table.iter().map(|row| (row.id, row.dev)).collect();
        let anchor = anchor?;
        // Where the root is no mount of its own (a chroot), its mount may stand outside the table.
        if *devices.entry(anchor).or_insert(dev) != dev {
            return None;
        }
        let mut on: HashMap<u64, Vec<&Mount>> = HashMap::new();
        for row in table.iter().filter(|row| row.id != anchor) {
            on.entry(row.parent).or_default().push(row);
        }
        let mut pairs = Pairs {
            referenced: HashMap::from([(devices[&anchor], ())]),
            ..Pairs::default()
        };
        let mut reached = vec![anchor];
        let mut steps = 0;
        while let Some(parent) = reached.pop() {
            for row in on.get(&parent).into_iter().flatten() {
                steps += 1;
                if steps > table.len() {
                    return None; // ids that go round in a circle
                }
                reached.push(row.id);
                let pair = (row.dev, devices[&parent]);
                pairs.referenced.insert(row.dev, ());
                if has_devices_of_its_own(&row.content.fstype) {
                    *pairs.on.entry(row.dev).or_default() += 1;
                }
                if pair.0 != pair.1 {
                    *pairs.sought.entry(pair).or_default() += 1;
                    *pairs.on.entry(pair.1).or_default() += 1;
                }
            }
        }
        Some(pairs)
    }

    /// Whether nothing (more) is mounted on a device. An unreferenced device is no leaf: the table
    /// does not know it.
    pub fn leaf(&self, dev: Dev) -> bool {
        self.referenced.contains_key(&dev) && self.on.get(&dev).is_none_or(|&n| n == 0)
    }

    /// A change from `parent` to `dev` was found: removes the leaf, and whatever turns leaf by
    /// that.
    pub fn found(&mut self, dev: Dev, parent: Dev) {
        let Some(sought) = self.sought.get_mut(&(dev, parent)).filter(|n| **n > 0) else {
            return;
        };
        *sought -= 1;
        if !self.leaf(dev) {
            self.found_internal.entry(dev).or_default().push(parent);
            return;
        }
        let mut lost_one = vec![parent];
        while let Some(device) = lost_one.pop() {
            let on = self.on.entry(device).or_default();
            *on = on.saturating_sub(1);
            if *on == 0 {
                lost_one.extend(self.found_internal.remove(&device).into_iter().flatten());
            }
        }
    }

    /// Whether every mount was found and removed: the root has turned leaf.
    pub fn all_found(&self) -> bool {
        self.on.values().all(|&n| n == 0)
    }
}

/// Whether the files of a file system have other devices than its super block.
fn has_devices_of_its_own(fstype: &[u8]) -> bool {
    matches!(fstype, b"btrfs" | b"bcachefs" | b"zfs")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dev(minor: u32) -> Dev {
        Dev { major: 0, minor }
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

    /// The tree of the papers' Figure 1 and its Table 1.
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
            .filter(|&d| pairs.leaf(dev(d)))
            .collect();
        assert_eq!(leaves, [23, 12, 31, 33]);
        assert!(!pairs.leaf(dev(99)), "an unreferenced device is no leaf");
    }

    #[test]
    fn the_root_turns_leaf_when_all_are_found() {
        let mut pairs = papers();
        for (d, parent) in [(10, 0), (23, 0), (33, 0), (12, 10)] {
            pairs.found(dev(d), dev(parent));
            assert!(!pairs.all_found());
        }
        assert!(!pairs.leaf(dev(0)), "10 is found, but 31 on it is not");
        pairs.found(dev(31), dev(10));
        assert!(pairs.leaf(dev(10)) && pairs.leaf(dev(0)) && pairs.all_found());
    }

    #[test]
    fn a_bind_mount_of_the_same_device_is_not_waited_for() {
        let pairs =
            Pairs::below(&table(&[(1, 0, 0), (2, 1, 0), (3, 2, 7)]), Some(1), dev(0)).unwrap();
        assert!(!pairs.leaf(dev(0)) && pairs.leaf(dev(7)));
    }

    #[test]
    fn btrfs_is_never_done() {
        let mut rows = table(&[(1, 0, 0), (2, 1, 5)]);
        rows[1].content = std::sync::Arc::new(ondisk::Content {
            fstype: b"btrfs".to_vec(),
            ..Default::default()
        });
        let mut pairs = Pairs::below(&rows, Some(1), dev(0)).unwrap();
        pairs.found(dev(6), dev(0)); // its root has another st_dev
        assert!(!pairs.leaf(dev(0)) && !pairs.leaf(dev(6)) && !pairs.all_found());
        assert!(
            Pairs::below(&rows, Some(2), dev(6)).is_none(),
            "a root whose st_dev the table does not know"
        );
    }

    #[test]
    fn parents_that_go_round_prove_nothing() {
        let rows = [(1, 0, 0), (2, 1, 5), (3, 2, 6), (2, 3, 5)];
        assert!(Pairs::below(&table(&rows), Some(1), dev(0)).is_none());
    }
}
