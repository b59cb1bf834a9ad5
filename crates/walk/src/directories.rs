//! Counts entries and their allocated bytes per directory, to a depth of 2, in memory that is
//! shared with another process, so that the counts survive when the walk is stopped.
//!
//! The table is bounded: it has room for some hundred directories. Entries below a directory
//! without a slot are counted in the directory above it.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use gate::process::SharedWords;
use gate::sync::Mutex;

use crate::entry::{Dir, Entry, Meta};
use crate::sink::{Sink, Worker};

/// Number of entries in and below one directory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DirectoryCount {
    /// Path below DIR, of at most two components; empty for DIR itself, which has the files
    /// directly in it.
    pub path: Vec<u8>,
    /// Number of entries in and below the directory, except those counted in a deeper directory of
    /// the table.
    pub entries: u64,
    /// Number of directories among these entries.
    pub directories: u64,
    /// Allocated bytes of these entries. The bytes of a file are divided by its number of hard
    /// links, so that a directory counts the same in whatever order an engine lists the links.
    pub allocated: u64,
}

/// A table of entry counts per directory, in shared memory.
#[derive(Debug)]
pub struct DirectoryCounts(SharedWords);

/// Slots in the table of directories: the first is for DIR.
const SLOTS: usize = 512;
/// Slots at the end of the table, reserved for directories directly in DIR: entries of deeper
/// directories without a slot are counted there.
const FOR_DEPTH_1: usize = 128;
/// Layout of a slot in words: length of the path plus 1, entries, directories, allocated bytes, and
/// the path.
const PATH: usize = 4;
const PATH_BYTES: usize = 256;
const WORDS: usize = PATH + PATH_BYTES / 8;

impl DirectoryCounts {
    /// An empty table.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn new() -> gate::Result<DirectoryCounts> {
        SharedWords::new(SLOTS * WORDS).map(DirectoryCounts)
    }

    /// Resets all entry counts.
    pub fn clear(&self) {
        self.0.iter().for_each(|word| word.store(0, Relaxed));
    }

    /// Reads the table: the directories with most entries first.
    pub fn collect(&self) -> Vec<DirectoryCount> {
        let used = self.0.chunks_exact(WORDS).filter_map(|slot| {
            let len = usize::try_from(slot[0].load(Acquire))
                .ok()?
                .checked_sub(1)?;
            let path = slot[PATH..].iter();
            let mut path: Vec<u8> = path
                .flat_map(|word| word.load(Relaxed).to_ne_bytes())
                .collect();
            path.truncate(len);
            Some(DirectoryCount {
                path,
                entries: slot[1].load(Relaxed),
                directories: slot[2].load(Relaxed),
                allocated: slot[3].load(Relaxed),
            })
        });
        let mut used: Vec<_> = used.filter(|count| count.entries > 0).collect();
        used.sort_by(|a, b| b.entries.cmp(&a.entries).then_with(|| a.path.cmp(&b.path)));
        used
    }

    /// The `most` directories with the most entries, and the `most` with the most bytes, in
    /// descending order of entries. Every other directory is added to its parent if that is in the
    /// result, and otherwise to DIR.
    pub fn largest(&self, most: usize) -> Vec<DirectoryCount> {
        let mut all = self.collect();
        let mut by_space: Vec<_> = all.iter().map(|one| one.allocated).collect();
        by_space.sort_unstable_by_key(|bytes| Reverse(*bytes));
        let least = by_space.get(most.saturating_sub(1)).copied().unwrap_or(0);
        let mut nth = 0;
        let (mut kept, others): (Vec<_>, Vec<_>) = all.drain(..).partition(|one| {
            nth += 1;
            nth <= most || one.allocated >= least.max(1)
        });
        for other in others {
            let parent = other.path.split(|byte| *byte == b'/').next();
            let parent = kept.iter().position(|one| Some(&one.path[..]) == parent);
            let place = parent.or_else(|| kept.iter().position(|one| one.path.is_empty()));
            match place {
                Some(place) => {
                    kept[place].entries += other.entries;
                    kept[place].directories += other.directories;
                    kept[place].allocated += other.allocated;
                }
                None => kept.push(DirectoryCount {
                    path: Vec::new(),
                    ..other
                }),
            }
        }
        kept.sort_by_key(|one| Reverse(one.entries));
        kept
    }
}

fn slot(table: &[AtomicU64], at: usize) -> &[AtomicU64] {
    &table[at * WORDS..][..WORDS]
}

/// A sink that counts the entries per directory while it passes them to another sink.
pub(crate) struct CountingDirectories<'a> {
    table: &'a [AtomicU64],
    /// The length of the path of DIR, including the slash after it.
    prefix: usize,
    known: Mutex<DirectorySlots>,
}

/// The slots of the directories that have their own slot in the table.
#[derive(Default)]
struct DirectorySlots {
    by_path: HashMap<Vec<u8>, usize>,
    /// Number of slots in use: for directories at depth 2, and at depth 1.
    used: [usize; 2],
}

impl<'a> CountingDirectories<'a> {
    pub(crate) fn new(counts: &'a DirectoryCounts, dir: &[u8]) -> CountingDirectories<'a> {
        slot(&counts.0, 0)[0].store(1, Release);
        CountingDirectories {
            table: &counts.0,
            prefix: dir.len() + usize::from(!dir.ends_with(b"/")),
            known: Mutex::default(),
        }
    }

    /// The index of the slot in which the entries of a directory are counted.
    fn slot_of(&self, dir: &Dir<'_>) -> usize {
        let below = dir.path.get(self.prefix..).unwrap_or_default();
        let mut parts = below.splitn(3, |byte| *byte == b'/');
        let first = parts.next().map_or(0, <[u8]>::len);
        let second = parts.next().map_or(0, <[u8]>::len);
        if first == 0 {
            return 0;
        }
        let mut known = self.known.lock();
        let above = known.slot(&below[..first], 1, self.table);
        if second == 0 {
            return above.unwrap_or(0);
        }
        let both = &below[..first + 1 + second];
        known.slot(both, 0, self.table).or(above).unwrap_or(0)
    }
}

impl DirectorySlots {
    /// The index of the slot for a path of one component (`shallow` 1) or two (0): `None` if the
    /// table is full.
    fn slot(&mut self, path: &[u8], shallow: usize, table: &[AtomicU64]) -> Option<usize> {
        if let Some(at) = self.by_path.get(path) {
            return Some(*at);
        }
        let (first, most) = [
            (1, SLOTS - FOR_DEPTH_1 - 1),
            (SLOTS - FOR_DEPTH_1, FOR_DEPTH_1),
        ][shallow];
        if self.used[shallow] == most || path.len() > PATH_BYTES {
            return None;
        }
        let at = first + self.used[shallow];
        self.used[shallow] += 1;
        let slot = slot(table, at);
        for (word, bytes) in slot[PATH..].iter().zip(path.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(whole), Relaxed);
        }
        slot[0].store(path.len() as u64 + 1, Release);
        self.by_path.insert(path.to_vec(), at);
        Some(at)
    }
}

impl Sink for CountingDirectories<'_> {
    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(self)
    }
}

impl Worker for &CountingDirectories<'_> {
    fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        let slot = slot(self.table, self.slot_of(dir));
        let directories = entries.iter().filter(|entry| entry.meta.is_dir());
        slot[1].fetch_add(entries.len() as u64, Relaxed);
        slot[2].fetch_add(directories.count() as u64, Relaxed);
        let bytes = entries.iter().map(|entry| share_of_name(&entry.meta));
        let bytes = bytes.fold(0_u64, u64::saturating_add);
        slot[3].fetch_add(bytes, Relaxed);
    }
}

/// The share of one hard link in the allocated bytes of a file. The product saturates, because a
/// file system may report any number of blocks and links.
fn share_of_name(meta: &Meta) -> u64 {
    let names = match meta.is_dir() {
        true => 1,
        false => meta.nlink.max(1),
    };
    meta.blocks.saturating_mul(512) / u64::from(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::DirKey;

    fn take(sink: &CountingDirectories<'_>, path: &str, entries: usize) {
        let dir = Dir {
            path: path.as_bytes(),
            key: DirKey::default(),
        };
        let entry = Entry {
            name: b"x",
            meta: Meta::default(),
        };
        sink.worker().take(&dir, &vec![entry; entries]);
    }

    fn named(counts: &DirectoryCounts) -> Vec<(String, u64)> {
        let name = |path| String::from_utf8(path).unwrap();
        let counts = counts.collect().into_iter();
        counts
            .map(|count| (name(count.path), count.entries))
            .collect()
    }

    #[test]
    fn entries_count_for_the_upper_two_directories() {
        for root in ["/", "/srv", "."] {
            let counts = DirectoryCounts::new().unwrap();
            let sink = CountingDirectories::new(&counts, root.as_bytes());
            let below = |path: &str| format!("{}/{path}", root.trim_end_matches('/'));
            take(&sink, root, 3);
            take(&sink, &below("a"), 5);
            take(&sink, &below("a/b"), 7);
            take(&sink, &below("a/b/c/d"), 11);
            take(&sink, &below("a/e"), 2);
            let expected = [("a/b", 18), ("a", 5), ("", 3), ("a/e", 2)];
            let expected = expected.map(|(path, count)| (path.to_owned(), count));
            assert_eq!(named(&counts), expected, "{root}");
        }
    }

    #[test]
    fn directories_with_few_large_files_are_kept() {
        let counts = DirectoryCounts::new().unwrap();
        let sink = CountingDirectories::new(&counts, b"/");
        for (path, blocks, nlink, entries) in [
            ("/many", 0, 1, 9),
            ("/large", 16, 1, 1),
            ("/links", 8, 4, 2),
            ("/many/deep", 2, 1, 3),
            ("/small", 1, 1, 2),
        ] {
            let dir = Dir {
                path: path.as_bytes(),
                key: DirKey::default(),
            };
            let meta = Meta {
                blocks,
                nlink,
                ..Meta::default()
            };
            let entry = Entry { name: b"x", meta };
            sink.worker().take(&dir, &vec![entry; entries]);
        }
        let largest = counts.largest(1);
        let path = |one: &DirectoryCount| String::from_utf8(one.path.clone()).unwrap();
        let found = largest.iter();
        let found = found.map(|one| (path(one), one.entries, one.allocated));
        let found: Vec<_> = found.collect();
        let expected = [("many", 12, 3072), ("", 4, 3072), ("large", 1, 8192)];
        let expected = expected.map(|(path, entries, bytes)| (path.to_owned(), entries, bytes));
        assert_eq!(found, expected);
    }

    #[test]
    fn directories_without_a_slot_count_for_the_one_above() {
        let counts = DirectoryCounts::new().unwrap();
        let sink = CountingDirectories::new(&counts, b"/");
        let (wide, long) = (1000, "x".repeat(300));
        for n in 0..wide {
            take(&sink, &format!("/d/{n}"), 1);
            take(&sink, &format!("/{n}"), 1);
        }
        take(&sink, &format!("/d/{long}"), 10);
        take(&sink, &format!("/{long}"), 10);
        let counted = named(&counts);
        assert_eq!(counted.len(), SLOTS);
        let sum: u64 = counted.iter().map(|(_, entries)| entries).sum();
        assert_eq!(sum, 2 * wide + 20);
        let of = |path: &str| counted.iter().find(|(name, _)| name == path).unwrap().1;
        let slots = (SLOTS - FOR_DEPTH_1 - 1) as u64;
        assert_eq!(of("d"), wide - slots + 10);
        assert_eq!(of(""), wide - (FOR_DEPTH_1 as u64 - 1) + 10);
    }
}
