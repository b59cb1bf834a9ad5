//! The files of a file system by directory, owner and age, and the files beneath mounts: a sink of a walk.
//!
//! Each place is an item: a directory in the root of the file system, the files in the root itself, or a directory that a mount
//! covers. A file with several hard links counts once, in the place that sorts first; a link beneath a mount counts only if all
//! links are beneath mounts.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use base::path::{below, join, names};
use gate::sync::Mutex;
use ondisk::{Dev, Time};
use walk::entry::relative;
use walk::group::AGES;
use walk::{Dir, Entry, Fields, Meta, Moment, Sink, Worker};

use crate::bill::{AgeSums, CacheSums, InodeSums, Item, ItemKind, OwnerSums, Remedy};
use crate::caches::CACHES;
use crate::source::signed;

/// The files of a file system: items, and sums by owner, age and cache.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub(crate) items: Vec<Item>,
    pub(crate) inodes: Vec<InodeSums>,
    pub(crate) files: u64,
    pub(crate) owners: Vec<OwnerSums>,
    pub(crate) ages: Vec<AgeSums>,
    pub(crate) caches: Vec<CacheSums>,
    /// btrfs: the bytes of the deleted files in the subvolume, by inode number.
    pub(crate) deleted: HashMap<u64, u64>,
}

/// The paths, relative to the root, that a walk counts separately: covered by a mount, or a cache.
#[derive(Debug, Default)]
pub(crate) struct MarkedPaths {
    root: MarkedComponent,
    covered: Vec<Vec<u8>>,
}

/// A component of a path in [`MarkedPaths`].
#[derive(Debug, Default)]
struct MarkedComponent {
    names: HashMap<Vec<u8>, MarkedComponent>,
    /// The index of the covered path, if a mount covers the directory.
    covered: Option<usize>,
    /// The index in [`CACHES`], if the directory is a cache.
    cache: Option<usize>,
}

/// The marks (covered by a mount, a cache) that apply to a directory.
#[derive(Clone, Copy, Default)]
struct DirectoryMarks<'a> {
    covered: Option<usize>,
    cache: Option<usize>,
    /// The marks of the directory's entries.
    names: Option<&'a HashMap<Vec<u8>, MarkedComponent>>,
}

impl MarkedPaths {
    /// Creates the marks of a file system that is mounted at `mount_point`; mounts on it cover the paths in
    /// `covered`.
    pub(crate) fn new(covered: &[Vec<u8>], mount_point: &[u8]) -> MarkedPaths {
        let mut root = MarkedComponent::default();
        for (nth, path) in covered.iter().enumerate() {
            root.at(path).covered = Some(nth);
        }
        for (nth, cache) in CACHES.iter().enumerate() {
            if let Some(rel) = below(mount_point, cache.path.as_bytes()) {
                root.at(rel).cache = Some(nth);
            }
        }
        MarkedPaths {
            root,
            covered: covered.to_vec(),
        }
    }

    /// The marks that apply to a directory, by its path relative to the root.
    fn of_directory(&self, rel: &[u8]) -> DirectoryMarks<'_> {
        let mut marked = DirectoryMarks::default();
        let mut mark = Some(&self.root);
        for name in names(rel) {
            marked.add(mark);
            mark = mark.and_then(|mark| mark.names.get(name));
            if mark.is_none() {
                return marked;
            }
        }
        marked.add(mark);
        marked.names = mark
            .map(|mark| &mark.names)
            .filter(|names| !names.is_empty());
        marked
    }
}

impl<'a> DirectoryMarks<'a> {
    fn add(&mut self, mark: Option<&'a MarkedComponent>) {
        self.covered = self.covered.or(mark.and_then(|mark| mark.covered));
        self.cache = self.cache.or(mark.and_then(|mark| mark.cache));
    }
}

impl MarkedComponent {
    fn at(&mut self, path: &[u8]) -> &mut MarkedComponent {
        names(path).fold(self, |mark, name| {
            mark.names.entry(name.to_vec()).or_default()
        })
    }
}

/// The place where a file counts. A file with several hard links counts in the first of its places
/// by this order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum FilePlace {
    /// The root of the file system.
    Root,
    /// A directory in the root, by its name.
    Top(Box<[u8]>),
    /// The files beneath a mount, by the index of the covered path.
    Covered(usize),
}

#[derive(Clone, Copy, Debug, Default)]
struct SpaceSums {
    files: u64,
    bytes: u64,
}

impl SpaceSums {
    fn add(&mut self, other: SpaceSums) {
        self.files += other.files;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// The sums of the files in a directory of the root, or beneath a mount.
#[derive(Clone, Copy, Debug, Default)]
struct PlaceSums {
    sums: SpaceSums,
    /// The owner of the place's directory.
    owner: Option<u32>,
}

/// The files in a cache, and the modification time of the oldest.
#[derive(Clone, Copy, Debug, Default)]
struct Cached {
    sums: SpaceSums,
    oldest: Option<Time>,
}

/// The attributes of a file that are summed up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountedFile {
    pub(crate) bytes: u64,
    pub(crate) owner: u32,
    pub(crate) mtime: Time,
}

/// A file with several hard links.
#[derive(Clone, Debug)]
struct LinkedFile {
    place: FilePlace,
    cache: Option<usize>,
    counted: CountedFile,
}

/// Sums of files by owner, age and cache.
#[derive(Debug)]
pub(crate) struct FileTotals {
    now: Time,
    owners: HashMap<u32, SpaceSums>,
    /// The owner of the last file, with its sums: consecutive files mostly have the same owner,
    /// which saves lookups.
    last: (u32, SpaceSums),
    ages: [SpaceSums; AGES.len()],
    caches: [Cached; CACHES.len()],
}

impl FileTotals {
    /// Creates empty sums. Ages are computed relative to the present.
    pub(crate) fn new() -> FileTotals {
        FileTotals {
            now: Moment::now().time(),
            owners: HashMap::new(),
            last: Default::default(),
            ages: Default::default(),
            caches: Default::default(),
        }
    }

    /// Adds a file; `cache` is the index of the cache that it is in.
    #[inline]
    pub(crate) fn add(&mut self, file: &CountedFile, cache: Option<usize>) {
        let sums = SpaceSums {
            files: 1,
            bytes: file.bytes,
        };
        if self.last.0 != file.owner {
            self.end_owner();
            self.last.0 = file.owner;
        }
        self.last.1.add(sums);
        let age = self
            .now
            .sec
            .saturating_sub(file.mtime.sec)
            .max(0)
            .cast_unsigned();
        let age = AGES.iter().position(|(_, most)| age <= *most);
        self.ages[age.unwrap_or(AGES.len() - 1)].add(sums);
        if let Some(cache) = cache {
            let cached = &mut self.caches[cache];
            cached.sums.add(sums);
            cached.oldest = Some(cached.oldest.map_or(file.mtime, |old| old.min(file.mtime)));
        }
    }

    fn end_owner(&mut self) {
        let (owner, sums) = std::mem::take(&mut self.last);
        if sums.files > 0 {
            self.owners.entry(owner).or_default().add(sums);
        }
    }

    fn merge(&mut self, mut other: FileTotals) {
        other.end_owner();
        for (owner, sums) in other.owners {
            self.owners.entry(owner).or_default().add(sums);
        }
        self.ages
            .iter_mut()
            .zip(other.ages)
            .for_each(|(own, other)| own.add(other));
        for (own, other) in self.caches.iter_mut().zip(other.caches) {
            own.sums.add(other.sums);
            own.oldest = [own.oldest, other.oldest].into_iter().flatten().min();
        }
    }

    /// Converts the sums to [`Files`], without items.
    pub(crate) fn into_files(mut self) -> Files {
        self.end_owner();
        let owners = self.owners.into_iter().map(|(owner, sums)| OwnerSums {
            owner,
            files: sums.files,
            bytes: sums.bytes,
        });
        let mut owners: Vec<OwnerSums> = owners.collect();
        owners.sort_by_key(|it| (Reverse(it.bytes), it.owner));
        let ages = self.ages.iter().enumerate().map(|(age, sums)| AgeSums {
            age,
            files: sums.files,
            bytes: sums.bytes,
        });
        let caches = CACHES
            .iter()
            .zip(self.caches)
            .filter(|(_, cached)| cached.sums.bytes > 0);
        let mut caches: Vec<CacheSums> = caches
            .map(|(cache, cached)| CacheSums {
                path: cache.path.into(),
                bytes: cached.sums.bytes,
                freeable: cached.sums.bytes.saturating_sub(cache.left),
                since: cached.oldest,
                remedy: Remedy::Clean(cache.command),
            })
            .collect();
        caches.sort_by_key(|cache| Reverse(cache.bytes));
        Files {
            items: Vec::new(),
            inodes: Vec::new(),
            files: owners.iter().map(|it| it.files).sum(),
            owners,
            ages: ages.collect(),
            caches,
            deleted: HashMap::new(),
        }
    }
}

#[derive(Debug)]
struct FileCollector {
    places: HashMap<FilePlace, PlaceSums>,
    totals: FileTotals,
    links: HashMap<u64, LinkedFile>,
}

impl FileCollector {
    fn new() -> FileCollector {
        FileCollector {
            places: HashMap::new(),
            totals: FileTotals::new(),
            links: HashMap::new(),
        }
    }

    fn add(&mut self, file: &LinkedFile) {
        let sums = SpaceSums {
            files: 1,
            bytes: file.counted.bytes,
        };
        self.place(&file.place).sums.add(sums);
        self.totals.add(&file.counted, file.cache);
    }

    fn place(&mut self, place: &FilePlace) -> &mut PlaceSums {
        self.places.entry(place.clone()).or_default()
    }

    fn put_link(&mut self, ino: u64, file: LinkedFile) {
        match self.links.entry(ino) {
            Slot::Vacant(slot) => drop(slot.insert(file)),
            Slot::Occupied(mut slot) => {
                if file.place < slot.get().place {
                    slot.insert(file);
                }
            }
        }
    }

    fn merge(&mut self, other: FileCollector) {
        for (place, sums) in other.places {
            let own = self.places.entry(place).or_default();
            own.sums.add(sums.sums);
            own.owner = own.owner.or(sums.owner);
        }
        self.totals.merge(other.totals);
        for (ino, file) in other.links {
            self.put_link(ino, file);
        }
    }
}

/// A sink that sums up the files of a walk.
pub(crate) struct FileSums<'a> {
    /// The directory of the walk, with which its paths begin.
    dir: &'a [u8],
    mount_point: &'a [u8],
    /// The device number of the files; `None` if the file system has several (overlay).
    dev: Option<Dev>,
    marks: MarkedPaths,
    collector: Mutex<FileCollector>,
}

impl<'a> FileSums<'a> {
    /// Creates a sink for a walk of `dir`, which shows the file system that is mounted at
    /// `mount_point`.
    pub(crate) fn new(
        dir: &'a [u8],
        mount_point: &'a [u8],
        dev: Option<Dev>,
        marks: MarkedPaths,
    ) -> FileSums<'a> {
        FileSums {
            dir,
            mount_point,
            dev,
            marks,
            collector: Mutex::new(FileCollector::new()),
        }
    }

    /// Returns the items and sums after the walk.
    pub(crate) fn finish(self) -> Files {
        let mut all = self.collector.into_inner();
        for file in std::mem::take(&mut all.links).into_values() {
            all.add(&file);
        }
        let mut inodes = Vec::new();
        let items = all.places.into_iter().map(|(place, sums)| {
            let (kind, path) = match &place {
                FilePlace::Root => (ItemKind::Files, self.mount_point.to_vec()),
                FilePlace::Top(name) => (ItemKind::Files, join(self.mount_point, name)),
                FilePlace::Covered(nth) => (
                    ItemKind::Hidden,
                    join(self.mount_point, &self.marks.covered[*nth]),
                ),
            };
            inodes.push(InodeSums {
                kind,
                path: Some(path.clone()),
                holder: None,
                inodes: sums.sums.files,
            });
            Item {
                path: Some(path),
                owner: sums.owner,
                ..Item::new(kind, signed(sums.sums.bytes))
            }
        });
        let items = items.collect();
        Files {
            items,
            inodes,
            ..all.totals.into_files()
        }
    }
}

impl Sink for FileSums<'_> {
    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(FileWorker {
            collector: FileCollector::new(),
            sink: self,
        })
    }

    fn fields(&self) -> Fields {
        Fields::NAME
            | Fields::MODE
            | Fields::NLINK
            | Fields::UID
            | Fields::BLOCKS
            | Fields::LINKED_INODE
            | Fields::MTIME
    }
}

struct FileWorker<'a> {
    collector: FileCollector,
    sink: &'a FileSums<'a>,
}

impl Worker for FileWorker<'_> {
    fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        let sink = self.sink;
        let rel = relative(sink.dir, dir.path);
        let marked = sink.marks.of_directory(rel);
        let place = match (marked.covered, rel) {
            (Some(nth), _) => FilePlace::Covered(nth),
            (None, b"") => FilePlace::Root,
            (None, rel) => {
                let name = rel.split(|&byte| byte == b'/').next().unwrap_or(rel);
                FilePlace::Top(name.into())
            }
        };
        // Sum up the entries of the directory first, so that the place of the directory is looked
        // up only once.
        let mut sums = SpaceSums::default();
        for entry in entries {
            let meta = &entry.meta;
            if sink.dev.is_some_and(|dev| dev != meta.dev) {
                continue; // the root of a different file system or subvolume
            }
            self.entry(entry, meta, rel.is_empty(), &place, marked, &mut sums);
        }
        if sums.files > 0 {
            self.collector.place(&place).sums.add(sums);
        }
    }
}

impl FileWorker<'_> {
    fn entry(
        &mut self,
        entry: &Entry<'_>,
        meta: &Meta,
        is_in_root: bool,
        place: &FilePlace,
        marked: DirectoryMarks<'_>,
        sums: &mut SpaceSums,
    ) {
        let is_dir = meta.is_dir();
        let mark = marked.names.and_then(|names| names.get(entry.name));
        // A mount on a file covers only that file.
        let covered = mark.and_then(|mark| mark.covered).filter(|_| !is_dir);
        let own = match covered {
            _ if is_in_root && is_dir && !entry.name.is_empty() => {
                Some(FilePlace::Top(entry.name.into()))
            }
            Some(nth) if marked.covered.is_none() => Some(FilePlace::Covered(nth)),
            _ => None,
        };
        let counted = CountedFile {
            bytes: meta.blocks.saturating_mul(512),
            owner: meta.uid,
            mtime: meta.mtime,
        };
        let cache = marked.cache.filter(|_| marked.covered.is_none());
        if meta.nlink > 1 && !is_dir {
            let place = own.unwrap_or_else(|| place.clone());
            let file = LinkedFile {
                place,
                cache,
                counted,
            };
            return self.collector.put_link(meta.ino, file);
        }
        if entry.name.is_empty() || is_in_root && is_dir {
            let own = own.as_ref().unwrap_or(place);
            self.collector.place(own).owner = Some(meta.uid);
        }
        match own {
            Some(place) => self.collector.add(&LinkedFile {
                place,
                cache,
                counted,
            }),
            None => {
                sums.add(SpaceSums {
                    files: 1,
                    bytes: counted.bytes,
                });
                self.collector.totals.add(&counted, cache);
            }
        }
    }
}

impl Drop for FileWorker<'_> {
    fn drop(&mut self) {
        let own = std::mem::replace(&mut self.collector, FileCollector::new());
        self.sink.collector.lock().merge(own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_tell_what_is_covered_and_what_is_a_cache() {
        let marks = MarkedPaths::new(&[b"var/cache/apt/m".to_vec(), b"srv".to_vec()], b"/");
        let of = |rel: &str| {
            let marked = marks.of_directory(rel.as_bytes());
            let path = marked.cache.map(|nth| CACHES[nth].path);
            (marked.covered, path, marked.names.is_some())
        };
        assert_eq!(of(""), (None, None, true));
        assert_eq!(of("usr/lib"), (None, None, false));
        assert_eq!(of("var/cache/apt"), (None, Some("/var/cache/apt"), true));
        assert_eq!(
            of("var/cache/apt/x/y"),
            (None, Some("/var/cache/apt"), false)
        );
        assert_eq!(
            of("var/cache/apt/m/n"),
            (Some(0), Some("/var/cache/apt"), false)
        );
        assert_eq!(of("srv"), (Some(1), None, false));
        assert_eq!(of("srv2"), (None, None, false));
        // Marks of a file system that is mounted at /var.
        let marks = MarkedPaths::new(&[], b"/var");
        assert!(marks.of_directory(b"cache/apt").cache.is_some());
        assert!(marks.of_directory(b"var/cache/apt").cache.is_none());
    }

    #[test]
    fn files_are_divided_by_owner_and_age() {
        let mut totals = FileTotals::new();
        let now = totals.now;
        let file = |bytes, owner, days: i64| CountedFile {
            bytes,
            owner,
            mtime: Time {
                sec: now.sec - days * 86_400,
                ..now
            },
        };
        for (file, cache) in [
            (file(1, 0, 0), None),
            (file(2, 1, 3), Some(1)),
            (file(4, 0, 3), Some(1)),
            (file(8, 1, 900), None),
            (file(16, 1, -9), None),
        ] {
            totals.add(&file, cache);
        }
        let mut all = FileTotals::new();
        all.merge(totals);
        let files = all.into_files();
        let owners: Vec<_> = files
            .owners
            .iter()
            .map(|it| (it.owner, it.files, it.bytes))
            .collect();
        assert_eq!(owners, [(1, 3, 26), (0, 2, 5)]);
        let ages: Vec<_> = files.ages.iter().map(|it| it.bytes).collect();
        assert_eq!(ages, [17, 6, 0, 0, 0, 8]);
        assert_eq!(
            (files.caches.len(), files.caches[0].bytes, files.files),
            (1, 6, 5)
        );
    }
}
