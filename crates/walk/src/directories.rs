//! Counts entries per directory, to a depth of 2, in memory that is shared with another process, so
//! that the counts survive when the walk is stopped.
//!
//! The table is bounded: it has room for some hundred directories. Entries below a directory
//! without a slot are counted in the directory above it.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use gate::process::Shared;
use gate::sync::Mutex;

use crate::entry::{Dir, Entry};
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
}

/// A table of entry counts per directory, in shared memory.
#[derive(Debug)]
pub struct DirectoryCounts(Shared);

/// Slots in the table of directories: the first is for DIR.
const SLOTS: usize = 512;
/// Slots at the end of the table, reserved for directories directly in DIR: entries of deeper
/// directories without a slot are counted there.
const FOR_DEPTH_1: usize = 128;
/// Layout of a slot in words: length of the path plus 1, entries, directories, and the path.
const PATH: usize = 3;
const PATH_BYTES: usize = 256;
const WORDS: usize = PATH + PATH_BYTES / 8;

impl DirectoryCounts {
    /// An empty table.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn new() -> gate::Result<DirectoryCounts> {
        Shared::new(SLOTS * WORDS).map(DirectoryCounts)
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
            })
        });
        let mut used: Vec<_> = used.filter(|count| count.entries > 0).collect();
        used.sort_by(|a, b| b.entries.cmp(&a.entries).then_with(|| a.path.cmp(&b.path)));
        used
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
    known: Mutex<Slots>,
}

/// The slots of the directories that have their own slot in the table.
#[derive(Default)]
struct Slots {
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

impl Slots {
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Meta;
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
