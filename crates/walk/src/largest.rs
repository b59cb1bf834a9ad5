//! The largest files of a walk.

use std::collections::BTreeMap;

use gate::sync::Mutex;
use ondisk::Dev;

use crate::entry::{Dir, Entry, Type};
use crate::sink::{Fields, Sink, Worker};

/// The order of files: by blocks and size, then by device and inode number.
type Rank = (u64, u64, Dev, u64);

/// One of the largest files.
#[derive(Clone, Debug)]
pub struct LargeFile {
    /// Its path, beginning with DIR as it was given.
    pub path: Vec<u8>,
    /// Size in bytes.
    pub bytes: u64,
    /// Allocated space, in units of 512 bytes.
    pub blocks: u64,
}

/// The sink that finds the largest regular files, each once, however many links it has.
pub struct Largest {
    most: usize,
    files: Mutex<BTreeMap<Rank, Vec<u8>>>,
}

impl Largest {
    /// A sink that keeps `most` files.
    pub fn new(most: usize) -> Largest {
        Largest {
            most,
            files: Mutex::default(),
        }
    }

    /// The files, the largest first.
    pub fn into_files(self) -> Vec<LargeFile> {
        let files = self.files.into_inner();
        let large = |((blocks, bytes, _, _), path)| LargeFile {
            path,
            bytes,
            blocks,
        };
        files.into_iter().rev().map(large).collect()
    }

    /// Adds a file, and removes the smallest if there are too many. Of several names of a file, the
    /// first by its bytes is kept.
    fn put(&self, files: &mut BTreeMap<Rank, Vec<u8>>, rank: Rank, path: Vec<u8>) {
        let name = files.entry(rank).or_insert_with(|| path.clone());
        if path < *name {
            *name = path;
        }
        if files.len() > self.most {
            files.pop_first();
        }
    }
}

impl Sink for Largest {
    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(Picker {
            files: BTreeMap::new(),
            to: self,
        })
    }

    fn fields(&self) -> Fields {
        Fields::NAME | Fields::MODE | Fields::SIZE | Fields::BLOCKS | Fields::INODE
    }
}

struct Picker<'a> {
    files: BTreeMap<Rank, Vec<u8>>,
    to: &'a Largest,
}

impl Worker for Picker<'_> {
    fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        for entry in entries
            .iter()
            .filter(|entry| entry.meta.kind() == Type::File)
        {
            let meta = &entry.meta;
            let rank = (meta.blocks, meta.size, meta.dev, meta.ino);
            let is_full = self.files.len() >= self.to.most;
            let least = self.files.first_key_value();
            if is_full && least.is_some_and(|(least, _)| rank < *least) {
                continue;
            }
            let mut path = Vec::new();
            entry.path(dir, &mut path);
            self.to.put(&mut self.files, rank, path);
        }
    }
}

impl Drop for Picker<'_> {
    fn drop(&mut self) {
        let mut all = self.to.files.lock();
        for (rank, path) in std::mem::take(&mut self.files) {
            self.to.put(&mut all, rank, path);
        }
    }
}
