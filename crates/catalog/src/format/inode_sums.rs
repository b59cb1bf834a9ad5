//! Sums over the inodes of a catalog. They show which inodes may have changed without reading a
//! row: after a walk of ext4 or XFS, a block of bytes between the row groups and the footer, which
//! Parquet readers skip.
//!
//! Inodes are grouped by number, [`SPAN`] numbers each. The sum of a group is over hashes of each
//! inode's [`state_words`], so the order does not matter. Access times are not included.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use walk::Meta;
use xxhash_rust::xxh3::xxh3_128;

/// Number of inode numbers per group.
const SPAN: u64 = 1024;

/// Location of the sums in the file of a catalog, and their CRC-32.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InodeSumsPlace {
    /// CRC-32 of the stored sums.
    pub crc32: u32,
    /// Length of the stored sums in bytes.
    pub length: u64,
    /// Offset of the stored sums from the beginning of the file.
    pub offset: u64,
}

/// Metadata that changes with every change of an inode. The number of blocks is not included,
/// because XFS may free preallocated blocks without any other change.
pub(crate) fn state_words(meta: &Meta) -> [u64; 5] {
    [
        u64::from(meta.mode) << 32 | u64::from(meta.nlink),
        meta.size,
        meta.mtime.sec.cast_unsigned(),
        meta.ctime.sec.cast_unsigned(),
        u64::from(meta.mtime.nsec) << 32 | u64::from(meta.ctime.nsec),
    ]
}

/// A sum of 128-bit hashes, as separate sums of the upper and the lower 64 bits, modulo 2^64.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Sum(pub(crate) [u64; 2]);

impl Sum {
    /// The hash of an inode's metadata.
    pub(crate) fn from_meta(meta: &Meta) -> Sum {
        let [kind, size, mtime, ctime, fractions] = state_words(meta);
        let words = [meta.ino, meta.blocks, kind, size, mtime, ctime, fractions];
        let hash = xxh3_128(words.map(u64::to_le_bytes).as_flattened());
        Sum([(hash >> 64) as u64, hash as u64])
    }

    fn add(&mut self, Sum([upper, lower]): Sum) {
        self.0[0] = self.0[0].wrapping_add(upper);
        self.0[1] = self.0[1].wrapping_add(lower);
    }
}

/// A group of inodes with adjacent numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct InodeGroup {
    /// Bitmap of the inode numbers that the catalog has.
    members: [u64; SPAN as usize / 64],
    sum: Sum,
}

impl InodeGroup {
    fn has(&self, nth: u64) -> bool {
        self.members[nth as usize / 64] & 1 << (nth % 64) != 0
    }

    /// Adds an inode, unless it is already present.
    fn add(&mut self, nth: u64, hash: Sum) {
        if !self.has(nth) {
            self.members[nth as usize / 64] |= 1 << (nth % 64);
            self.sum.add(hash);
        }
    }

    fn numbers(&self) -> impl Iterator<Item = u64> {
        (0..SPAN).filter(|&nth| self.has(nth))
    }
}

/// A group of inodes, as stored in the file.
#[derive(Serialize, Deserialize)]
struct StoredGroup {
    /// Number of empty groups between the previous stored group and this group.
    skipped: u64,
    /// Runs of consecutive inode numbers: for each run, the number of unused numbers before the
    /// run, and the run's length.
    stretches: Vec<(u64, u64)>,
    sum: Sum,
}

/// The inodes of a catalog in groups, with the sum of each group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct InodeSums {
    groups: BTreeMap<u64, InodeGroup>,
    /// Hashes of files with several hard links, by inode number. Such a file has several rows, but
    /// its hash is added only once.
    linked: HashMap<u64, Sum>,
}

impl InodeSums {
    /// Maximum number of inodes in a group.
    pub(crate) const GROUP: usize = SPAN as usize;

    /// Adds the inode of a row.
    pub(crate) fn add(&mut self, meta: &Meta) {
        let hash = Sum::from_meta(meta);
        if meta.nlink > 1 && !meta.is_dir() {
            self.linked.entry(meta.ino).or_insert(hash);
        } else {
            self.put(meta.ino, hash);
        }
    }

    fn put(&mut self, ino: u64, hash: Sum) {
        let group = self.groups.entry(ino / SPAN).or_default();
        group.add(ino % SPAN, hash);
    }

    /// Merges the inodes of other rows.
    pub(crate) fn merge(&mut self, other: InodeSums) {
        self.linked.extend(other.linked);
        for (number, other) in other.groups {
            let group = self.groups.entry(number).or_default();
            // An inode is in one row only, except hard-linked files, which are in `linked`.
            for (own, more) in group.members.iter_mut().zip(other.members) {
                *own |= more;
            }
            group.sum.add(other.sum);
        }
    }

    /// Encodes the sums for the file; `None` if there are too many groups for the number of
    /// entries.
    pub(crate) fn encode(mut self, entries: u64) -> Option<Vec<u8>> {
        for (ino, hash) in std::mem::take(&mut self.linked) {
            self.put(ino, hash);
        }
        if self.groups.len() as u64 > 4096 + entries / 16 {
            return None;
        }
        let mut next = 0;
        let groups = self.groups.into_iter().map(|(number, group)| {
            let skipped = number - next;
            next = number + 1;
            let mut stretches: Vec<(u64, u64)> = Vec::new();
            let mut end = 0;
            for nth in group.numbers() {
                match stretches.last_mut() {
                    Some((_, many)) if nth == end => *many += 1,
                    _ => stretches.push((nth - end, 1)),
                }
                end = nth + 1;
            }
            StoredGroup {
                skipped,
                stretches,
                sum: group.sum,
            }
        });
        let groups: Vec<StoredGroup> = groups.collect();
        postcard::to_stdvec(&groups).ok()
    }

    /// Decodes the output of [`InodeSums::encode`]; `None` if it is damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Option<InodeSums> {
        let stored: Vec<StoredGroup> = postcard::from_bytes(bytes).ok()?;
        let (mut sums, mut next) = (InodeSums::default(), 0_u64);
        for stored in stored {
            let number = next.checked_add(stored.skipped)?;
            next = number
                .checked_add(1)
                .filter(|next| *next <= u64::MAX / SPAN)?;
            let mut group = InodeGroup::default();
            let mut at = 0_u64;
            for (before, many) in stored.stretches {
                let from = at.checked_add(before)?;
                at = from.checked_add(many).filter(|end| *end <= SPAN)?;
                (from..at).for_each(|nth| group.add(nth, Sum::default()));
            }
            group.sum = stored.sum;
            sums.groups.insert(number, group);
        }
        Some(sums)
    }

    /// Inode numbers, ascending, each with the index of its group in [`InodeSums::sums`].
    pub(crate) fn inodes(&self) -> impl Iterator<Item = (u64, u32)> {
        let groups = (0..).zip(&self.groups);
        groups.flat_map(|(place, (number, group))| {
            let first = number * SPAN;
            group.numbers().map(move |nth| (first + nth, place))
        })
    }

    /// The sum of each group, ascending by inode number.
    pub(crate) fn sums(&self) -> impl Iterator<Item = Sum> {
        self.groups.values().map(|group| group.sum)
    }

    /// Number of groups.
    pub(crate) fn len(&self) -> usize {
        self.groups.len()
    }

    /// Keeps only the groups whose index `is_kept` accepts.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(usize) -> bool) {
        let mut place = 0;
        self.groups.retain(|_, _| {
            place += 1;
            is_kept(place - 1)
        });
    }

    /// Whether an inode is in one of the groups.
    pub(crate) fn has(&self, ino: u64) -> bool {
        let group = self.groups.get(&(ino / SPAN));
        group.is_some_and(|group| group.has(ino % SPAN))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn meta((ino, nlink, size): (u64, u32, u64)) -> Meta {
        let mode = 0o100_644;
        Meta {
            ino,
            nlink,
            size,
            mode,
            ..Meta::default()
        }
    }

    proptest! {
        #[test]
        fn stored_sums_are_read_back_whatever_the_order_of_the_rows(
            inos in proptest::collection::btree_map(0..9000_u64, (1..3_u32, any::<u64>()), 0..200),
            split in any::<prop::sample::Index>(),
        ) {
            let rows: Vec<Meta> = inos.iter().map(|(&ino, &(nlink, size))| meta((ino, nlink, size))).collect();
            // A file with two hard links has two rows.
            let linked = rows.iter().filter(|row| row.nlink > 1);
            let twice: Vec<Meta> = linked.rev().chain(&rows).copied().collect();
            let mut sums = InodeSums::default();
            let (some, others) = twice.split_at(split.index(twice.len() + 1));
            for part in [others, some] {
                let mut other = InodeSums::default();
                part.iter().for_each(|row| other.add(row));
                sums.merge(other);
            }
            let stored = sums.encode(twice.len() as u64).unwrap();
            let read = InodeSums::decode(&stored).unwrap();
            prop_assert!(read.inodes().map(|(ino, _)| ino).eq(inos.keys().copied()));
            let mut expected = BTreeMap::<u64, Sum>::new();
            for row in &rows {
                expected.entry(row.ino / SPAN).or_default().add(Sum::from_meta(row));
            }
            prop_assert!(read.sums().eq(expected.into_values()));
            prop_assert!(inos.keys().all(|&ino| read.has(ino)));
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes: Vec<u8>) {
            let _ = InodeSums::decode(&bytes);
        }
    }

    #[test]
    fn every_field_that_shows_a_change_changes_the_hash() {
        let base = meta((7, 1, 9));
        let later = walk::entry::Time::new(1, 0);
        let finer = walk::entry::Time::new(0, 1);
        let others = [
            Meta { ino: 8, ..base },
            Meta { nlink: 2, ..base },
            Meta { size: 8, ..base },
            Meta { blocks: 1, ..base },
            Meta {
                mode: 0o100_600,
                ..base
            },
            Meta {
                mtime: later,
                ..base
            },
            Meta {
                mtime: finer,
                ..base
            },
            Meta {
                ctime: later,
                ..base
            },
            Meta {
                ctime: finer,
                ..base
            },
        ];
        for other in others {
            assert_ne!(Sum::from_meta(&base), Sum::from_meta(&other), "{other:?}");
        }
        assert_eq!(
            Sum::from_meta(&base),
            Sum::from_meta(&Meta {
                atime: later,
                ..base
            })
        );
    }

    #[test]
    fn scattered_inodes_have_no_sums() {
        let mut sums = InodeSums::default();
        (0..5000).for_each(|nth| sums.add(&meta((nth * SPAN, 1, 0))));
        assert_eq!(sums.clone().encode(5000), None);
        sums.retain(|place| place < 4000);
        assert!(sums.encode(4000).is_some());
    }
}
