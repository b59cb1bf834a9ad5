//! Data extents, each with the subvolume or directory that holds it.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use ondisk::btrfs::DataExtent;

/// The subvolume, or place in it, that refers to an extent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Holder {
    /// A directory in the examined subvolume, or its root, by the index of its place.
    Place(usize),
    /// Several directories in the examined subvolume.
    Within,
    /// Deleted files in the examined subvolume that are still open.
    Deleted,
    /// One subvolume other than the examined one.
    Subvolume(u64),
    /// Several subvolumes other than the examined one.
    Between,
}

impl Holder {
    fn is_examined(self) -> bool {
        matches!(self, Holder::Place(_) | Holder::Within | Holder::Deleted)
    }

    /// The holder of an extent with two references. An extent of the examined subvolume counts there even if a snapshot shares
    /// it, because deleting the snapshot does not free it.
    fn and(self, other: Holder) -> Holder {
        match (self.is_examined(), other.is_examined()) {
            _ if self == other => self,
            (true, true) => Holder::Within,
            (true, false) => self,
            (false, true) => other,
            (false, false) => Holder::Between,
        }
    }
}

/// All extents of files, by start address: size and holder.
#[derive(Debug, Default)]
pub(super) struct Extents(HashMap<u64, (u64, Holder)>);

impl Extents {
    /// Adds a reference to an extent. Returns the bytes of the extent that no earlier reference
    /// has.
    pub(super) fn add(&mut self, extent: DataExtent, holder: Holder) -> u64 {
        match self.0.entry(extent.start) {
            Slot::Vacant(slot) => {
                slot.insert((extent.bytes, holder));
                extent.bytes
            }
            Slot::Occupied(mut slot) => {
                let (bytes, old) = slot.get_mut();
                let more = extent.bytes.saturating_sub(*bytes);
                *bytes = extent.bytes.max(*bytes);
                *old = old.and(holder);
                more
            }
        }
    }

    /// Number of bytes by holder.
    pub(super) fn sums(&self) -> HashMap<Holder, u64> {
        let mut sums: HashMap<Holder, u64> = HashMap::new();
        for (bytes, holder) in self.0.values() {
            let sum = sums.entry(*holder).or_default();
            *sum = sum.saturating_add(*bytes);
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_extent_counts_once() {
        let mut extents = Extents::default();
        let mut add = |start, bytes, holder| extents.add(DataExtent { start, bytes }, holder);
        let (one, two) = (Holder::Subvolume(256), Holder::Subvolume(257));
        for holder in [Holder::Place(0), Holder::Place(0), one, two] {
            add(4096, 1, holder);
        }
        for holder in [Holder::Place(0), Holder::Place(1), one] {
            add(8192, 10, holder);
        }
        for (start, bytes, second) in [(12_288, 100, one), (16_384, 1000, two)] {
            add(start, bytes, one);
            add(start, bytes, second);
        }
        let sums = extents.sums();
        let of = |holder| sums.get(&holder).copied();
        assert_eq!(
            (of(Holder::Place(0)), of(Holder::Place(1))),
            (Some(1), None)
        );
        assert_eq!(
            (of(Holder::Within), of(Holder::Between)),
            (Some(10), Some(1000))
        );
        assert_eq!((of(one), of(two)), (Some(100), None));
    }
}
