//! Totals and digest of a walk.

use crate::digest::Digest;
use crate::entry::{Dir, Entry, FileType};
use crate::sink::{Sink, Worker};
use gate::sync::Mutex;

/// The totals of a walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Totals {
    /// Number of entries, including DIR itself.
    pub entries: u64,
    /// Number of regular files.
    pub files: u64,
    pub directories: u64,
    pub symlinks: u64,
    pub other: u64,
    /// Sum of `st_size` over every entry, in bytes; saturates at 2^64-1, like all sums of sizes.
    pub bytes: u64,
    /// Sum of `st_blocks` over every entry, in units of 512 bytes.
    pub blocks: u64,
    /// Depth of the deepest entry; DIR is at 0.
    pub max_depth: u32,
    pub digest: Digest,
}

impl Totals {
    /// Counts an entry.
    #[inline]
    pub fn add(&mut self, dir: &Dir<'_>, entry: &Entry<'_>) {
        self.entries += 1;
        *match entry.meta.kind() {
            FileType::Regular => &mut self.files,
            FileType::Directory => &mut self.directories,
            FileType::Symlink => &mut self.symlinks,
            _ => &mut self.other,
        } += 1;
        self.bytes = self.bytes.saturating_add(entry.meta.size);
        self.blocks = self.blocks.saturating_add(entry.meta.blocks);
        self.max_depth = self.max_depth.max(entry.depth(dir));
        self.digest.add(dir, entry);
    }

    /// Adds the totals of another worker.
    pub fn merge(&mut self, other: &Totals) {
        self.entries += other.entries;
        self.files += other.files;
        self.directories += other.directories;
        self.symlinks += other.symlinks;
        self.other += other.other;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.blocks = self.blocks.saturating_add(other.blocks);
        self.max_depth = self.max_depth.max(other.max_depth);
        self.digest.merge(other.digest);
    }

    /// Length of the result of [`Totals::to_words`].
    pub const WORDS: usize = 10;

    /// The totals as words in shared memory, for another process.
    pub fn to_words(self) -> [u64; Totals::WORDS] {
        let [lower, upper] = self.digest.halves();
        [
            self.entries,
            self.files,
            self.directories,
            self.symlinks,
            self.other,
            self.bytes,
            self.blocks,
            self.max_depth.into(),
            lower,
            upper,
        ]
    }

    /// The inverse of [`Totals::to_words`].
    pub fn from_words(words: &[u64; Totals::WORDS]) -> Totals {
        let &[
            entries,
            files,
            directories,
            symlinks,
            other,
            bytes,
            blocks,
            max_depth,
            ref digest @ ..,
        ] = words;
        Totals {
            entries,
            files,
            directories,
            symlinks,
            other,
            bytes,
            blocks,
            max_depth: u32::try_from(max_depth).unwrap_or(u32::MAX),
            digest: Digest::from_halves(*digest),
        }
    }
}

/// The sink that computes [`Totals`].
#[derive(Debug, Default)]
pub struct Summary(Mutex<Totals>);

impl Summary {
    /// The totals of all workers that have been dropped.
    pub fn totals(&self) -> Totals {
        *self.0.lock()
    }
}

impl Sink for Summary {
    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(Adder {
            sum: Totals::default(),
            to: self,
        })
    }

    fn wants_paths(&self) -> bool {
        false
    }
}

struct Adder<'a> {
    sum: Totals,
    to: &'a Summary,
}

impl Worker for Adder<'_> {
    fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        entries.iter().for_each(|entry| self.sum.add(dir, entry));
    }
}

impl Drop for Adder<'_> {
    fn drop(&mut self) {
        self.to.0.lock().merge(&self.sum);
    }
}
