//! The largest files of a walk.

use std::collections::BTreeMap;

use gate::sync::Mutex;
use ondisk::Dev;

use crate::entry::{Dir, Entry, FileType, Meta};
use crate::sink::{Fields, Sink, Worker};
use crate::trail::{KeptPath, PathTree};

/// Sort key of a file: blocks and size, or size and blocks; then device and inode number.
type Rank = (u64, u64, Dev, u64);

/// One of the largest files.
#[derive(Clone, Debug)]
pub struct LargeFile {
    /// Path of the file, beginning with DIR as given.
    pub path: Vec<u8>,
    /// Size in bytes.
    pub bytes: u64,
    /// Allocated space, in units of 512 bytes.
    pub blocks: u64,
    /// Number of hard links.
    pub links: u32,
    /// The metadata, if it was requested ([`Largest::with_metadata`]).
    pub meta: Option<Box<Meta>>,
}

#[derive(Debug)]
struct KeptFile {
    path: KeptPath,
    links: u32,
    meta: Option<Box<Meta>>,
}

/// The largest files. Their paths are kept as a tree of names, to save memory.
#[derive(Debug, Default)]
pub struct LargestFiles {
    /// The files are compared by size first; else by allocated space.
    is_by_size: bool,
    ranks: BTreeMap<Rank, KeptFile>,
    paths: PathTree,
    /// Size of `paths` at which the tree is rebuilt, without the files that are no longer among the
    /// largest.
    most_bytes: usize,
}

impl LargestFiles {
    /// Adds a file, and removes the smallest if there are too many. Of several names of a file, the
    /// first in byte order is kept.
    fn put(&mut self, most: usize, rank: Rank, path: &[u8], links: u32, meta: Option<Box<Meta>>) {
        const FEW: usize = 1 << 20;
        let path = self.paths.add(path);
        let kept = self.ranks.entry(rank);
        let kept = kept.or_insert(KeptFile { path, links, meta });
        if self.paths.compare(path, kept.path).is_lt() {
            kept.path = path;
        }
        if self.ranks.len() > most {
            self.ranks.pop_first();
        }
        if self.paths.bytes() > self.most_bytes.max(FEW) {
            let (old, mut path) = (std::mem::take(&mut self.paths), Vec::new());
            for kept in self.ranks.values_mut() {
                old.get(kept.path, &mut path);
                kept.path = self.paths.add(&path);
            }
            self.most_bytes = 2 * self.paths.bytes();
        }
    }

    /// The largest files, in descending order of size.
    pub fn iter(&self) -> impl Iterator<Item = LargeFile> {
        let files = self.ranks.iter().rev();
        files.map(|(&(first, second, _, _), kept)| {
            let (blocks, bytes) = match self.is_by_size {
                true => (second, first),
                false => (first, second),
            };
            LargeFile {
                path: self.paths.path(kept.path),
                bytes,
                blocks,
                links: kept.links,
                meta: kept.meta.clone(),
            }
        })
    }
}

/// The sink that finds the largest regular files, each once, however many links it has.
pub struct Largest {
    most: usize,
    is_by_size: bool,
    keeps_metadata: bool,
    files: Mutex<LargestFiles>,
}

impl Largest {
    /// A sink that finds the `most` largest files, by size or by allocated space.
    pub fn new(most: usize, is_by_size: bool) -> Largest {
        Largest {
            most,
            is_by_size,
            keeps_metadata: false,
            files: Mutex::new(LargestFiles {
                is_by_size,
                ..LargestFiles::default()
            }),
        }
    }

    /// Keeps all metadata of the largest files.
    #[must_use]
    pub fn with_metadata(self) -> Largest {
        Largest {
            keeps_metadata: true,
            ..self
        }
    }

    /// The largest files, after the walk.
    pub fn into_files(self) -> LargestFiles {
        self.files.into_inner()
    }
}

impl Sink for Largest {
    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(LargestWorker {
            files: LargestFiles::default(),
            path: Vec::new(),
            to: self,
        })
    }

    fn fields(&self) -> Fields {
        match self.keeps_metadata {
            true => Fields::all(),
            false => {
                Fields::NAME
                    | Fields::MODE
                    | Fields::NLINK
                    | Fields::SIZE
                    | Fields::BLOCKS
                    | Fields::INODE
            }
        }
    }
}

struct LargestWorker<'a> {
    files: LargestFiles,
    path: Vec<u8>,
    to: &'a Largest,
}

impl Worker for LargestWorker<'_> {
    fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        for entry in entries
            .iter()
            .filter(|entry| entry.meta.kind() == FileType::Regular)
        {
            let meta = &entry.meta;
            let (first, second) = match self.to.is_by_size {
                true => (meta.size, meta.blocks),
                false => (meta.blocks, meta.size),
            };
            let rank = (first, second, meta.dev, meta.ino);
            let ranks = &self.files.ranks;
            let is_full = ranks.len() >= self.to.most;
            let least = ranks.first_key_value();
            if is_full && least.is_some_and(|(least, _)| rank < *least) {
                continue;
            }
            entry.path(dir, &mut self.path);
            let kept = self.to.keeps_metadata.then(|| Box::new(*meta));
            let (most, links) = (self.to.most, meta.nlink);
            self.files.put(most, rank, &self.path, links, kept);
        }
    }
}

impl Drop for LargestWorker<'_> {
    fn drop(&mut self) {
        let mut all = self.to.files.lock();
        for (rank, kept) in &self.files.ranks {
            self.files.paths.get(kept.path, &mut self.path);
            let (links, meta) = (kept.links, kept.meta.clone());
            all.put(self.to.most, *rank, &self.path, links, meta);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_files_that_are_no_longer_among_the_largest_are_forgotten() {
        let mut files = LargestFiles::default();
        for size in 0..20_000_u64 {
            let path = format!("top/{size}{}", "d".repeat(200));
            let rank = (0, size, Dev::default(), size);
            files.put(3, rank, path.as_bytes(), 1, None);
        }
        assert!(files.paths.bytes() < 2 << 20, "{}", files.paths.bytes());
        let sizes = files.iter().map(|file| file.bytes);
        assert_eq!(sizes.collect::<Vec<_>>(), [19_999, 19_998, 19_997]);
        let first = files.iter().next().unwrap();
        assert!(first.path.starts_with(b"top/19999d"));
    }
}
