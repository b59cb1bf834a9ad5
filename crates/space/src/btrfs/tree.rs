//! The directories and files of one btrfs subvolume tree.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use base::btrfs::each_item;
use gate::{Errno, Fd};
use ondisk::FileType;
use ondisk::btrfs::{
    DataExtent, FIRST_INODE, Inode, Item, Key, LAST_INODE, data_extent, kind, links,
};

use super::extents::{Extents, Holder};
use crate::files::{CountedFile, FileTotals, Files};

/// The range of keys of all inodes.
const FILES: RangeInclusive<Key> = (FIRST_INODE, 0, 0)..=(LAST_INODE, u8::MAX, u64::MAX);

/// Calls `add` for each reference to an extent in a tree.
pub(super) fn read_extents(
    fd: &Fd,
    tree: u64,
    mut add: impl FnMut(DataExtent),
) -> Result<(), Errno> {
    each_item(fd, tree, FILES, |item| {
        data_extent(item).into_iter().for_each(&mut add);
    })
}

/// Inodes whose contents are counted separately: those that mounts cover, and caches.
#[derive(Debug, Default)]
pub(super) struct SeparateInodes {
    /// Inodes that a mount covers, with their paths relative to the root.
    pub(super) covered: HashMap<u64, Vec<u8>>,
    /// Inodes of caches, with the index of the cache.
    pub(super) caches: HashMap<u64, usize>,
}

/// The place where a file is counted.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum ExtentPlace {
    /// The root of the subvolume.
    Root,
    /// A directory in the root, by its name.
    Top(Vec<u8>),
    /// The files beneath a mount, by the path that it covers.
    Covered(Vec<u8>),
}

/// A place where files are counted, and the owner of its directory.
#[derive(Clone, Debug)]
pub(super) struct OwnedPlace {
    pub(super) place: ExtentPlace,
    pub(super) owner: Option<u32>,
}

/// The place and the cache for which the files of a directory count, by index.
#[derive(Clone, Copy, Debug)]
struct DirectoryOwner {
    place: usize,
    cache: Option<usize>,
}

#[derive(Debug)]
struct SubvolumeDirectory {
    parent: u64,
    /// The name of the directory, if its parent is the root.
    name: Vec<u8>,
    owner: u32,
}

/// A file. Its extent references follow those of the previous file in `SubvolumeTree::extents`.
#[derive(Debug)]
struct ExtentFile {
    ino: u64,
    /// The directory with the file's first name; 0 if there is none.
    parent: u64,
    inode: Inode,
    extents: usize,
}

/// The directories and files of the examined subvolume.
#[derive(Debug, Default)]
pub(super) struct SubvolumeTree {
    claims: SeparateInodes,
    directories: HashMap<u64, SubvolumeDirectory>,
    files: Vec<ExtentFile>,
    extents: Vec<DataExtent>,
}

impl SubvolumeTree {
    /// Reads the tree of a subvolume.
    ///
    /// # Errors
    /// The errno of the search ioctl.
    pub(super) fn read(fd: &Fd, tree: u64, claims: SeparateInodes) -> Result<SubvolumeTree, Errno> {
        let mut all = SubvolumeTree {
            claims,
            ..SubvolumeTree::default()
        };
        each_item(fd, tree, FILES, |item| all.add(item))?;
        Ok(all)
    }

    fn add(&mut self, item: Item<'_>) {
        let (ino, kind, _) = item.key;
        match kind {
            kind::INODE_ITEM => {
                let Some(inode) = Inode::parse(item.data) else {
                    return;
                };
                if FileType::from_mode(inode.mode) == FileType::Directory {
                    let (parent, name, owner) = (0, Vec::new(), inode.uid);
                    self.directories.insert(
                        ino,
                        SubvolumeDirectory {
                            parent,
                            name,
                            owner,
                        },
                    );
                }
                let (parent, extents) = (0, 0);
                self.files.push(ExtentFile {
                    ino,
                    parent,
                    inode,
                    extents,
                });
            }
            kind::INODE_REF | kind::INODE_EXTREF => {
                let Some(link) = links(item).next() else {
                    return;
                };
                if let Some(directory) = self.directories.get_mut(&ino).filter(|it| it.parent == 0)
                {
                    directory.parent = link.dir;
                    if link.dir == FIRST_INODE {
                        directory.name = link.name.to_vec();
                    }
                }
                if let Some(file) = self
                    .files
                    .last_mut()
                    .filter(|it| it.ino == ino && it.parent == 0)
                {
                    file.parent = link.dir;
                }
            }
            kind::EXTENT_DATA => {
                if let (Some(extent), Some(file)) = (data_extent(item), self.files.last_mut()) {
                    self.extents.push(extent);
                    file.extents += 1;
                }
            }
            _ => {}
        }
    }

    /// Adds the extents of all files to their places.
    ///
    /// An extent that several files share counts for the owner and the age of the file with the
    /// lowest inode number, so that the sums by owner and by age add up to the bytes of the places.
    pub(super) fn count(&self, extents: &mut Extents) -> (Files, Vec<OwnedPlace>) {
        let mut places = ExtentPlaces {
            tree: self,
            numbers: HashMap::new(),
            all: Vec::new(),
            reached: HashMap::new(),
        };
        let mut totals = FileTotals::new();
        for (file, own) in self.files().filter(|(file, _)| file.inode.nlink > 0) {
            let reached = places.of_file(file);
            let holder = Holder::Place(reached.place);
            let own = own.iter().map(|extent| extents.add(*extent, holder));
            totals.add(
                &CountedFile {
                    bytes: own.fold(0, u64::saturating_add),
                    owner: file.inode.uid,
                    mtime: file.inode.mtime,
                },
                reached.cache,
            );
        }
        // Deleted files come last: an extent that a deleted file shares with a named one counts for
        // the owner of the named one.
        let mut deleted = HashMap::new();
        for (file, own) in self.files().filter(|(file, _)| file.inode.nlink == 0) {
            let own = own.iter();
            let own = own.map(|extent| extents.add(*extent, Holder::Deleted));
            deleted.insert(file.ino, own.fold(0, u64::saturating_add));
        }
        let files = Files {
            deleted,
            ..totals.into_files()
        };
        (files, places.all)
    }

    /// All files by inode number, each with its references to extents.
    fn files(&self) -> impl Iterator<Item = (&ExtentFile, &[DataExtent])> {
        let mut from = 0;
        self.files.iter().map(move |file| {
            let own = &self.extents[from..from + file.extents];
            from += file.extents;
            (file, own)
        })
    }
}

/// Determines where each file is counted.
struct ExtentPlaces<'a> {
    tree: &'a SubvolumeTree,
    numbers: HashMap<ExtentPlace, usize>,
    all: Vec<OwnedPlace>,
    /// Known places, by inode of the directory.
    reached: HashMap<u64, DirectoryOwner>,
}

impl ExtentPlaces<'_> {
    fn of_file(&mut self, file: &ExtentFile) -> DirectoryOwner {
        let covered = self.tree.claims.covered.get(&file.ino);
        if let Some(path) = covered.filter(|_| !self.tree.directories.contains_key(&file.ino)) {
            let place = self.number(ExtentPlace::Covered(path.clone()), None);
            return DirectoryOwner { place, cache: None };
        }
        match self.tree.directories.contains_key(&file.ino) && file.ino != FIRST_INODE {
            true => self.of_directory(file.ino),
            false => self.of_directory(file.parent.max(FIRST_INODE)),
        }
    }

    /// The place of the files in a directory: inherited from the parent directory, unless the directory is itself a
    /// place.
    fn of_directory(&mut self, dir: u64) -> DirectoryOwner {
        let (mut at, mut passed) = (dir, Vec::new());
        let mut reached = loop {
            if let Some(known) = self.reached.get(&at) {
                break *known;
            }
            let above = self
                .tree
                .directories
                .get(&at)
                .map_or(FIRST_INODE, |it| it.parent);
            // A damaged tree can have a cycle of directories: stop after as many steps as there are
            // directories.
            if at == FIRST_INODE || above == 0 || passed.len() > self.tree.directories.len() {
                let owner = self.tree.directories.get(&FIRST_INODE).map(|it| it.owner);
                let place = self.number(ExtentPlace::Root, owner);
                let root = DirectoryOwner { place, cache: None };
                self.reached.insert(FIRST_INODE, root);
                break root;
            }
            passed.push(at);
            at = above;
        };
        for dir in passed.into_iter().rev() {
            reached = self.step(dir, reached);
            self.reached.insert(dir, reached);
        }
        reached
    }

    /// Determines a directory's place from that of its parent directory.
    fn step(&mut self, dir: u64, above: DirectoryOwner) -> DirectoryOwner {
        let Some(directory) = self.tree.directories.get(&dir) else {
            return above;
        };
        let mut reached = above;
        if directory.parent == FIRST_INODE {
            let place = ExtentPlace::Top(directory.name.clone());
            reached.place = self.number(place, Some(directory.owner));
        }
        if let Some(path) = self.tree.claims.covered.get(&dir) {
            reached.place = self.number(ExtentPlace::Covered(path.clone()), Some(directory.owner));
        }
        let cache = self.tree.claims.caches.get(&dir).copied();
        reached.cache = reached.cache.or(cache);
        reached
    }

    fn number(&mut self, place: ExtentPlace, owner: Option<u32>) -> usize {
        let next = self.all.len();
        let number = *self.numbers.entry(place.clone()).or_insert(next);
        if number == next {
            self.all.push(OwnedPlace { place, owner });
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_and_ages_divide_the_bytes_of_the_places() {
        let mut tree = SubvolumeTree::default();
        let mut add = |ino, nlink, uid, extents: &[(u64, u64)]| {
            let inode = Inode {
                nlink,
                uid,
                ..Inode::parse(&[0; 160]).unwrap()
            };
            tree.files.push(ExtentFile {
                ino,
                parent: FIRST_INODE,
                inode,
                extents: extents.len(),
            });
            let extents = extents.iter();
            tree.extents
                .extend(extents.map(|&(start, bytes)| DataExtent { start, bytes }));
        };
        // A deleted file, a file that shares one extent with it, and a copy of that file.
        add(300, 0, 7, &[(4096, 1), (8192, 10)]);
        add(301, 1, 0, &[(8192, 10), (12_288, 100)]);
        add(302, 1, 1001, &[(8192, 10), (12_288, 100), (16_384, 1000)]);
        let mut extents = Extents::default();
        let (files, places) = tree.count(&mut extents);
        let owners: Vec<_> = files.owners.iter().map(|it| (it.owner, it.bytes)).collect();
        assert_eq!(owners, [(1001, 1000), (0, 110)]);
        let sums = extents.sums();
        let of = |holder| sums.get(&holder).copied().unwrap_or(0);
        assert_eq!(places.len(), 1);
        assert_eq!(of(Holder::Place(0)) + of(Holder::Within), 1110);
        assert_eq!(of(Holder::Deleted), 1);
        assert_eq!(files.deleted, HashMap::from([(300, 1)]));
        assert_eq!(files.ages.iter().map(|it| it.bytes).sum::<u64>(), 1110);
    }
}
