//! The files of a tree that are in the archive.
//!
//! Names are kept as hashes with a random seed, so that memory depends on the tree, not on names
//! chosen by the archive.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use base::path::split;

use crate::list::plain;

/// The files of a tree that are in the archive.
#[derive(Debug, Default)]
pub(super) struct ArchivedFiles {
    seed: RandomState,
    pub(super) names: HashSet<u64>,
    /// Directories to read. `true`: the directory was dumped, so all its entries must be in the
    /// archive; `false`: it is only above a member.
    pub(super) dirs: HashMap<u64, bool>,
    /// If the dump was of a list: the indexes of listed names found in the archive.
    pub(super) listed: HashSet<usize>,
    /// Names of the first members of the archive, to search for in other directories.
    pub(super) first: Vec<Vec<u8>>,
}

impl ArchivedFiles {
    pub(super) fn hash(&self, path: &[u8]) -> u64 {
        self.seed.hash_one(path)
    }

    /// Whether no member is in the tree, apart from the top directory.
    pub(super) fn is_empty(&self) -> bool {
        self.names.len() <= usize::from(self.names.contains(&self.hash(b"")))
    }

    /// Adds the name of a member, if it is one of the first.
    pub(super) fn add_first(&mut self, name: &[u8]) {
        const MOST: usize = 4;
        if self.first.len() < MOST {
            self.first
                .extend(Some(plain(name).into_owned()).filter(|path| !path.is_empty()));
        }
    }

    /// Records a file of the tree that has the name of a member. `is_dumped`: it is a directory,
    /// with all its entries in this archive.
    pub(super) fn add(&mut self, name: &[u8], is_dumped: bool) {
        let path = plain(name);
        self.names.insert(self.hash(&path));
        let mut above = &path[..];
        while !above.is_empty() {
            above = split(above).0;
            match self.dirs.entry(self.seed.hash_one(above)) {
                Entry::Occupied(_) => break,
                Entry::Vacant(vacant) => vacant.insert(false),
            };
        }
        if is_dumped {
            self.dirs.insert(self.hash(&path), true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ArchivedFiles;

    #[test]
    fn directories_above_a_member_are_read() {
        let mut known = ArchivedFiles::default();
        known.add(b"a/b/c/", true);
        known.add(b"a/b/c/d", false);
        let is_dumped = |name: &str| known.dirs.get(&known.hash(name.as_bytes())).copied();
        let found = ["", "a", "a/b", "a/b/c"].map(is_dumped);
        assert_eq!(found, [Some(false), Some(false), Some(false), Some(true)]);
        assert!(known.names.contains(&known.hash(b"a/b/c/d")));
    }
}
