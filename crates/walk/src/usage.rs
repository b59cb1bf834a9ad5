//! The disk usage of each directory, as du(1) reports it, from entries in any order.
//!
//! A directory is identified by a [`DirKey`], which all its entries carry. So only names of
//! directories are kept, no paths, and only files with several links: each of these counts once, in
//! the first DIR that has it, and there in the directory nearest to DIR. The choice depends neither
//! on the order of the entries nor on the thread that found them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::sync::atomic::{AtomicU64, Ordering};

use gate::sync::Mutex;
use ondisk::Dev;

use crate::entry::{Dir, Entry, FileType, append};
use crate::exclusive::{ExtentReader, References, SharedExtents, UnknownOwners, UnreadExtents};
use crate::key::DirKey;
use crate::kind::EngineKind;
use crate::sink::{Fields, Sink, Worker};
use crate::top::MountContext;

/// The disk usage of some files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sums {
    /// Allocated space, in units of 512 bytes.
    pub blocks: u64,
    /// Apparent size of regular files and symbolic links, in bytes.
    pub bytes: u64,
    /// Number of inodes.
    pub inodes: u64,
    /// Space that deleting the files would free, in bytes; 0 without [`UsageSink::with_exclusive`].
    pub exclusive: u64,
}

impl Sums {
    fn add(&mut self, other: Sums) {
        self.blocks = self.blocks.saturating_add(other.blocks);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.inodes = self.inodes.saturating_add(other.inodes);
        self.exclusive = self.exclusive.saturating_add(other.exclusive);
    }
}

#[derive(Clone, Debug, Default)]
struct UsageNode {
    /// The parent directory; `None` for DIR itself.
    above: Option<DirKey>,
    /// Name of the directory; for DIR itself, the path as given.
    name: Box<[u8]>,
    file: (Dev, u64),
    /// Usage of the directory itself and of the files directly in it, without subdirectories.
    sums: Sums,
    /// Whether the directory's own entry was received; until then, only entries in it were.
    is_seen: bool,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    /// Number of the DIR, and directory, in which the file counts.
    place: (u64, DirKey),
    sums: Sums,
}

/// The known names of a file with several names, to find what deleting all of them would free.
#[derive(Clone, Debug, Default)]
struct NamesOfFile {
    places: Vec<DirKey>,
    nlink: u32,
    /// Bytes that are freed when the last name is deleted, besides shared extents.
    exclusive: u64,
    shared: SharedExtents,
}

/// Adds up usage by directory. Each thread fills its own; all are merged at the end.
#[derive(Clone, Debug, Default)]
struct UsageCollector {
    nodes: HashMap<DirKey, UsageNode>,
    links: HashMap<(Dev, u64), Link>,
    names: HashMap<(Dev, u64), NamesOfFile>,
    references: References<DirKey>,
    /// Number of directories with the same key as a different one: their hashes collide.
    collisions: u64,
}

impl UsageCollector {
    /// Adds the usage of files in a directory that have only one name.
    fn add(&mut self, place: DirKey, sums: Sums) {
        self.nodes.entry(place).or_default().sums.add(sums);
    }

    fn put_link(&mut self, file: (Dev, u64), link: Link) {
        self.links
            .entry(file)
            .and_modify(|old| *old = if link.place < old.place { link } else { *old })
            .or_insert(link);
    }

    fn put_node(&mut self, key: DirKey, node: UsageNode) {
        match self.nodes.entry(key) {
            Slot::Vacant(slot) => drop(slot.insert(node)),
            Slot::Occupied(mut slot) => {
                let old = slot.get_mut();
                let mut sums = old.sums;
                sums.add(node.sums);
                if old.is_seen && node.is_seen && (old.above, &old.name) != (node.above, &node.name)
                {
                    self.collisions += 1;
                } else if node.is_seen {
                    *old = node;
                }
                old.sums = sums;
            }
        }
    }

    fn merge(&mut self, other: UsageCollector) {
        if self.nodes.is_empty() && self.links.is_empty() {
            *self = other;
            return;
        }
        self.collisions += other.collisions;
        for (key, node) in other.nodes {
            self.put_node(key, node);
        }
        for (file, link) in other.links {
            self.put_link(file, link);
        }
        for (file, mut names) in other.names {
            match self.names.entry(file) {
                Slot::Vacant(slot) => drop(slot.insert(names)),
                Slot::Occupied(slot) => slot.into_mut().places.append(&mut names.places),
            }
        }
        self.references.append(other.references);
    }

    /// Computes the usage of every directory, with everything below it.
    fn finish(mut self, extents: Option<&ExtentReader>) -> Usage {
        for link in std::mem::take(&mut self.links).into_values() {
            self.add(link.place.1, link.sums);
        }
        // Drop each directory whose own entry was not received: it vanished during the walk.
        let nodes = std::mem::take(&mut self.nodes)
            .into_iter()
            .filter(|(_, node)| node.is_seen);
        let mut nodes: Vec<(DirKey, UsageNode)> = nodes.collect();
        nodes.sort_unstable_by_key(|(key, _)| *key);
        let mut rows: Vec<SortedDir> = Vec::with_capacity(nodes.len());
        let mut dirs = HashMap::new();
        for (key, node) in &nodes {
            let above = node
                .above
                .and_then(|above| nodes.binary_search_by_key(&above, |(key, _)| *key).ok());
            // A parent sorts before its subdirectories, being less deep; DIRs keep the given order.
            let nth = above.map_or(key.hash, |above| rows[above].nth);
            let first: &mut u64 = dirs.entry(node.file).or_insert(nth);
            *first = nth.min(*first);
            rows.push(SortedDir {
                above,
                nth,
                depth: key.depth,
                sums: node.sums,
                name: Box::default(),
                counts: false,
            });
        }
        let mut keys = Vec::with_capacity(nodes.len());
        for (row, (key, node)) in rows.iter_mut().zip(nodes) {
            let is_connected = row.above.is_some() || row.depth == 0;
            row.counts = is_connected && dirs[&node.file] == row.nth;
            row.name = node.name;
            keys.push(key);
        }
        let unknown_owners = extents.and_then(|extents| self.add_shared(&mut rows, &keys, extents));
        for at in (0..rows.len()).rev() {
            let sums = rows[at].sums;
            if let (Some(above), true) = (rows[at].above, rows[at].counts) {
                rows[above].sums.add(sums);
            }
        }
        Usage {
            order: children_first(&rows),
            rows,
            collisions: self.collisions,
            is_exclusive: extents.is_some(),
            unread: None,
            unknown_owners,
        }
    }

    /// Adds the space that deleting the last of several names, or the last reference to an extent,
    /// frees to the nearest directory that contains all of them.
    fn add_shared(
        &mut self,
        rows: &mut [SortedDir],
        keys: &[DirKey],
        extents: &ExtentReader,
    ) -> Option<UnknownOwners> {
        let find = |rows: &[SortedDir], key: DirKey| {
            let at = keys.binary_search(&key).ok()?;
            rows[at].counts.then_some(at)
        };
        let mut references =
            std::mem::take(&mut self.references).with_places(|key| find(rows, key));
        for names in std::mem::take(&mut self.names).into_values() {
            let mut places = names.places.iter().filter_map(|key| find(rows, *key));
            let count = places.clone().count();
            let joined = |a: Option<usize>, b| nearest(rows, a?, b);
            let first = places.next();
            if let Some(place) = places.fold(first, joined)
                && count == names.nlink as usize
            {
                let sum = &mut rows[place].sums.exclusive;
                *sum = sum.saturating_add(names.exclusive);
                references.add(&names.shared, place);
            }
        }
        let mut freed = Vec::new();
        let joined = |a, b| nearest(rows, a, b);
        let unknown = extents.resolve(references, joined, |at, bytes| freed.push((at, bytes)));
        for (at, bytes) in freed {
            let sum = &mut rows[at].sums.exclusive;
            *sum = sum.saturating_add(bytes);
        }
        unknown
    }
}

/// The nearest directory that contains two directories, or is one of them; `None` if these are in
/// different DIRs.
fn nearest(rows: &[SortedDir], mut a: usize, mut b: usize) -> Option<usize> {
    while a != b {
        // A parent has a smaller index than its subdirectories.
        let deeper = if a > b { &mut a } else { &mut b };
        *deeper = rows[*deeper].above?;
    }
    Some(a)
}

#[derive(Clone, Debug)]
struct SortedDir {
    above: Option<usize>,
    nth: u64,
    depth: u32,
    sums: Sums,
    name: Box<[u8]>,
    /// Whether the directory is reported; false if it was counted in an earlier DIR.
    counts: bool,
}

/// The directories in the order of du(1), siblings by name, without those that were counted in an
/// earlier DIR.
fn children_first(rows: &[SortedDir]) -> Vec<usize> {
    let mut order = parents_first(rows, true);
    order.reverse();
    order
}

/// Sorts the directories: each before its subdirectories, siblings by name, or by name in reverse.
fn parents_first(rows: &[SortedDir], is_last_first: bool) -> Vec<usize> {
    // Sort by parent (DIRs first), siblings with the last name first.
    let mut siblings: Vec<usize> = (0..rows.len()).filter(|&at| rows[at].counts).collect();
    siblings.sort_unstable_by(|&a, &b| {
        // Sort DIRs in the order in which they were given.
        let name = |at: usize| rows[at].above.map(|_| &rows[at].name);
        let above = rows[a].above.cmp(&rows[b].above);
        above.then_with(|| name(b).cmp(&name(a))).then(b.cmp(&a))
    });
    let first_of = |above| siblings.partition_point(|&at| rows[at].above < above);
    let below = |above| {
        siblings[first_of(above)..]
            .iter()
            .copied()
            .take_while(move |&at| rows[at].above == above)
    };
    let (mut pending, mut above) = (Vec::new(), None);
    let mut order = Vec::with_capacity(siblings.len());
    loop {
        let from = pending.len();
        pending.extend(below(above));
        if is_last_first {
            pending[from..].reverse();
        }
        let Some(at) = pending.pop() else {
            return order;
        };
        order.push(at);
        above = Some(at);
    }
}

/// The sort order of directories.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum UsageOrder {
    /// The order of du(1).
    ChildrenFirst,
    /// By path; parents come before children.
    Path,
    /// By apparent size, largest first.
    Bytes,
    /// By allocated space, largest first.
    Allocated,
    /// By number of inodes, largest first.
    Inodes,
    /// By the space that deleting the directory would free, largest first.
    Exclusive,
}

/// The usage of one directory.
#[derive(Clone, Debug)]
pub struct DirectoryUsage {
    /// Path of the directory, beginning with DIR as given.
    pub path: Vec<u8>,
    /// Usage of the directory and everything below it.
    pub sums: Sums,
    /// Space that deleting the directory would free, in bytes, with [`UsageSink::with_exclusive`].
    pub exclusive: Option<u64>,
}

/// The usage of every directory.
#[derive(Clone, Debug)]
pub struct Usage {
    rows: Vec<SortedDir>,
    order: Vec<usize>,
    /// Number of directories that are missing because their hashes collide with those of other
    /// directories, in which their usage is included.
    pub collisions: u64,
    is_exclusive: bool,
    /// Files whose extents could not be read: [`DirectoryUsage::exclusive`] is too small by these.
    pub unread: Option<UnreadExtents>,
    /// Extents with unknown owners: [`DirectoryUsage::exclusive`] is too small by these.
    pub unknown_owners: Option<UnknownOwners>,
}

impl Usage {
    /// The directories down to a depth; with `top`, only the largest by the sort order, or by
    /// allocated space if the order is no size.
    pub fn directories(
        &self,
        max_depth: Option<u32>,
        sort: UsageOrder,
        top: Option<usize>,
    ) -> impl Iterator<Item = DirectoryUsage> {
        // With a single DIR, the order of the tree is that of paths. The paths of several DIRs,
        // which may overlap, and the few paths that `top` leaves, are sorted at the end.
        let is_in_order = sort == UsageOrder::Path && top.is_none() && self.has_one_dir();
        let mut order = match is_in_order {
            true => parents_first(&self.rows, false),
            false => self.order.clone(),
        };
        order.retain(|&at| max_depth.is_none_or(|max| self.rows[at].depth <= max));
        let is_by_size = !matches!(sort, UsageOrder::ChildrenFirst | UsageOrder::Path);
        if is_by_size || top.is_some() {
            order.sort_by_key(|&at| {
                let Sums {
                    blocks,
                    bytes,
                    inodes,
                    exclusive,
                } = self.rows[at].sums;
                Reverse(match sort {
                    UsageOrder::Bytes => (bytes, blocks),
                    UsageOrder::Inodes => (inodes, blocks),
                    UsageOrder::Exclusive => (exclusive, blocks),
                    _ => (blocks, bytes),
                })
            });
            order.truncate(top.unwrap_or(usize::MAX));
        }
        if sort == UsageOrder::Path && !is_in_order {
            let mut paths: Vec<_> = order.iter().map(|&at| (self.path(at), at)).collect();
            paths.sort_by(|(a, _), (b, _)| base::path::compare(a, b));
            order = paths.into_iter().map(|(_, at)| at).collect();
        }
        order.into_iter().map(|at| DirectoryUsage {
            path: self.path(at),
            sums: self.rows[at].sums,
            exclusive: self.is_exclusive.then_some(self.rows[at].sums.exclusive),
        })
    }

    fn has_one_dir(&self) -> bool {
        self.rows.iter().filter(|row| row.depth == 0).count() == 1
    }

    fn path(&self, at: usize) -> Vec<u8> {
        let above = std::iter::successors(Some(at), |&at| self.rows[at].above);
        let mut chain: Vec<&[u8]> = above.map(|at| &self.rows[at].name[..]).collect();
        chain.reverse();
        let mut path = Vec::new();
        chain.iter().for_each(|name| append(&mut path, name));
        path
    }
}

/// The sink that adds up the usage of each directory.
pub struct UsageSink<'a> {
    dirs: &'a [Vec<u8>],
    /// Number of the DIR that is being walked.
    nth: AtomicU64,
    collector: Mutex<UsageCollector>,
    /// The reader of extents, if the space that deleting would free is computed.
    extents: Option<ExtentReader>,
}

impl<'a> UsageSink<'a> {
    /// A sink for a walk of these DIRs.
    pub fn new(dirs: &'a [Vec<u8>]) -> UsageSink<'a> {
        UsageSink {
            dirs,
            nth: AtomicU64::new(0),
            collector: Mutex::default(),
            extents: None,
        }
    }

    /// A sink that also computes the space that deleting each directory would free. It reads the
    /// extents of each regular file on file systems where files can share them.
    pub fn with_exclusive(dirs: &'a [Vec<u8>]) -> UsageSink<'a> {
        UsageSink {
            extents: Some(ExtentReader::default()),
            ..UsageSink::new(dirs)
        }
    }

    /// Computes the usage, after the walk.
    pub fn finish(self) -> Usage {
        let usage = self.collector.into_inner().finish(self.extents.as_ref());
        Usage {
            unread: self.extents.and_then(ExtentReader::into_unread),
            ..usage
        }
    }
}

impl Sink for UsageSink<'_> {
    fn begin(&self, context: &MountContext<'_>, _: EngineKind) {
        if let Some(extents) = &self.extents {
            extents.begin(context);
        }
    }

    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(UsageWorker {
            collector: UsageCollector::default(),
            sink: self,
            buffer: Vec::new(),
            path: Vec::new(),
        })
    }

    fn fields(&self) -> Fields {
        Fields::NAME | Fields::MODE | Fields::NLINK | Fields::SIZE | Fields::BLOCKS | Fields::INODE
    }

    fn wants_shape(&self) -> bool {
        true
    }

    fn wants_paths(&self) -> bool {
        self.extents.is_some()
    }
}

struct UsageWorker<'a> {
    collector: UsageCollector,
    sink: &'a UsageSink<'a>,
    buffer: Vec<u64>,
    path: Vec<u8>,
}

impl Worker for UsageWorker<'_> {
    fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        let place = dir.key;
        let mut files = Sums::default();
        for entry in entries {
            let meta = &entry.meta;
            let has_size = matches!(meta.kind(), FileType::Regular | FileType::Symlink);
            let sums = Sums {
                blocks: meta.blocks,
                bytes: if has_size { meta.size } else { 0 },
                inodes: 1,
                exclusive: self.exclusive(dir, place, entry),
            };
            if entry.name.is_empty() || meta.is_dir() {
                self.put_directory(place, entry, sums);
            } else if meta.nlink > 1 {
                let place = (self.sink.nth.load(Ordering::Relaxed), place);
                let file = (meta.dev, meta.ino);
                self.collector.put_link(file, Link { place, sums });
            } else {
                files.add(sums);
            }
        }
        if files != Sums::default() {
            self.collector.add(place, files);
        }
    }

    fn pass_over(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        let place = dir.key;
        let dirs = entries
            .iter()
            .filter(|entry| entry.name.is_empty() || entry.meta.is_dir());
        dirs.for_each(|entry| self.put_directory(place, entry, Sums::default()));
    }
}

impl UsageWorker<'_> {
    /// The bytes that deleting an entry frees, as far as no other name or file matters. Names and
    /// references that depend on others are collected for later.
    fn exclusive(&mut self, dir: &Dir<'_>, place: DirKey, entry: &Entry<'_>) -> u64 {
        let Some(extents) = &self.sink.extents else {
            return 0;
        };
        let meta = &entry.meta;
        let has_names = meta.nlink > 1 && !meta.is_dir();
        let id = (meta.dev, meta.ino);
        if has_names && let Some(names) = self.collector.names.get_mut(&id) {
            names.places.push(place);
            return 0;
        }
        let shared = match meta.kind() {
            FileType::Regular => {
                entry.path(dir, &mut self.path);
                extents.read(&self.path, meta, &mut self.buffer)
            }
            _ => Some(SharedExtents::default()),
        };
        let Some(shared) = shared else {
            return 0;
        };
        let exclusive = (meta.blocks.saturating_mul(512)).saturating_sub(shared.bytes());
        if has_names {
            let names = NamesOfFile {
                places: vec![place],
                nlink: meta.nlink,
                exclusive,
                shared,
            };
            self.collector.names.insert(id, names);
            return 0;
        }
        self.collector.references.add(&shared, place);
        exclusive
    }

    fn put_directory(&mut self, place: DirKey, entry: &Entry<'_>, sums: Sums) {
        let (above, key, name) = match entry.name {
            b"" => {
                // Store the number of the DIR for the entries that follow: DIRs are walked one
                // after the other, each before its entries.
                self.sink.nth.store(place.hash, Ordering::Relaxed);
                let path = self.sink.dirs.get(place.hash as usize);
                (None, place, path.map_or(&b""[..], |path| path))
            }
            name => (Some(place), place.below(name), name),
        };
        let node = UsageNode {
            above,
            name: name.into(),
            file: (entry.meta.dev, entry.meta.ino),
            sums,
            is_seen: true,
        };
        self.collector.put_node(key, node);
    }
}

impl Drop for UsageWorker<'_> {
    fn drop(&mut self) {
        let own = std::mem::take(&mut self.collector);
        self.sink.collector.lock().merge(own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEV: Dev = Dev::new(8, 1);

    fn key(depth: u32, hash: u64) -> DirKey {
        DirKey { depth, hash, id: 0 }
    }

    fn dir(above: Option<DirKey>, name: &[u8], ino: u64) -> UsageNode {
        UsageNode {
            above,
            name: name.into(),
            file: (DEV, ino),
            sums: sums(8, 0),
            is_seen: true,
        }
    }

    fn sums(blocks: u64, bytes: u64) -> Sums {
        Sums {
            blocks,
            bytes,
            inodes: 1,
            exclusive: 0,
        }
    }

    fn link(nth: u64, place: DirKey, sums: Sums) -> Link {
        let place = (nth, place);
        Link { place, sums }
    }

    fn text(usage: &Usage, max_depth: Option<u32>, top: Option<usize>) -> Vec<String> {
        let order = match top {
            Some(_) => UsageOrder::Allocated,
            None => UsageOrder::ChildrenFirst,
        };
        usage
            .directories(max_depth, order, top)
            .map(|directory| {
                let Sums { blocks, bytes, .. } = directory.sums;
                let (allocated, apparent) = (blocks.div_ceil(2), bytes.div_ceil(1024));
                format!("{allocated} {apparent} {}", directory.path.escape_ascii())
            })
            .collect()
    }

    type Walker = Box<dyn Fn(&mut UsageCollector)>;

    /// DIR `t/` with `t/b`, `t/a`, `t/a/c`; one file in each, and one with a name in `t/a/c` and
    /// another in `t/b`.
    fn tree() -> [Walker; 6] {
        let (top, a, b, c) = (key(0, 0), key(1, 70), key(1, 60), key(2, 50));
        let linked = (DEV, 99);
        [
            Box::new(move |du| du.put_node(top, dir(None, b"t/", 2))),
            Box::new(move |du| du.put_node(b, dir(Some(top), b"b", 3))),
            Box::new(move |du| du.put_node(a, dir(Some(top), b"a", 4))),
            Box::new(move |du| du.put_node(c, dir(Some(a), b"c\n", 5))),
            Box::new(move |du| {
                [top, a, b, c]
                    .into_iter()
                    .for_each(|place| du.add(place, sums(1, 1)))
            }),
            Box::new(move |du| {
                du.put_link(linked, link(0, c, sums(16, 5000)));
                du.put_link(linked, link(0, b, sums(16, 5000)));
            }),
        ]
    }

    #[test]
    fn children_come_before_parents_and_links_count_once_in_any_order() {
        let expected = ["5 1 t/a/c\\n", "9 1 t/a", "13 5 t/b", "26 5 t/"];
        for split in 0..64_u32 {
            let (mut one, mut other) = (UsageCollector::default(), UsageCollector::default());
            for (at, step) in tree().iter().enumerate() {
                step(if split >> at & 1 == 0 {
                    &mut one
                } else {
                    &mut other
                });
            }
            one.merge(other);
            let usage = one.finish(None);
            assert_eq!(text(&usage, None, None), expected, "{split}");
            assert_eq!(
                text(&usage, Some(1), None),
                ["9 1 t/a", "13 5 t/b", "26 5 t/"]
            );
            assert_eq!(text(&usage, None, Some(2)), ["26 5 t/", "13 5 t/b"]);
        }
    }

    #[test]
    fn directories_are_sorted_by_path_or_by_a_size() {
        let mut du = UsageCollector::default();
        tree().iter().for_each(|step| step(&mut du));
        let usage = du.finish(None);
        let paths = |order, top| -> Vec<String> {
            let directories = usage.directories(None, order, top);
            directories
                .map(|it| it.path.escape_ascii().to_string())
                .collect()
        };
        let by_path = ["t/", "t/a", "t/a/c\\n", "t/b"];
        assert_eq!(paths(UsageOrder::Path, None), by_path);
        assert_eq!(paths(UsageOrder::Path, Some(2)), ["t/", "t/b"]);
        let by_size = ["t/", "t/b", "t/a", "t/a/c\\n"];
        assert_eq!(paths(UsageOrder::Allocated, None), by_size);
        assert_eq!(paths(UsageOrder::Bytes, None), by_size);
        assert_eq!(
            paths(UsageOrder::Inodes, None),
            ["t/", "t/a", "t/b", "t/a/c\\n"]
        );
        let top = usage.directories(None, UsageOrder::Inodes, Some(1)).next();
        assert_eq!(
            top.unwrap().sums.inodes,
            9,
            "4 directories, 4 files, 1 link"
        );
    }

    #[test]
    fn each_directory_and_link_counts_once_over_all_dirs() {
        let mut du = UsageCollector::default();
        // DIR 0 is below DIR 1. DIR 2 is separate, and has a second name of a file in DIR 0.
        du.put_node(key(0, 0), dir(None, b"t/a", 4));
        du.put_link((DEV, 99), link(0, key(0, 0), sums(2, 0)));
        du.put_node(key(0, 1), dir(None, b"t", 2));
        du.put_node(key(1, 77), dir(Some(key(0, 1)), b"a", 4));
        du.put_link((DEV, 99), link(1, key(1, 77), sums(2, 0)));
        du.put_node(key(0, 2), dir(None, b"u", 9));
        du.put_link((DEV, 99), link(2, key(0, 2), sums(2, 0)));
        let usage = du.finish(None);
        assert_eq!(text(&usage, None, None), ["5 0 t/a", "4 0 t", "4 0 u"]);
    }

    #[test]
    fn colliding_directories_are_counted() {
        let mut du = UsageCollector::default();
        du.put_node(key(0, 0), dir(None, b"t", 2));
        du.put_node(key(1, 1), dir(Some(key(0, 0)), b"a", 3));
        du.put_node(key(1, 1), dir(Some(key(0, 0)), b"b", 4));
        let usage = du.finish(None);
        assert_eq!((usage.collisions, usage.order.len()), (1, 2));
        assert_eq!(text(&usage, None, None), ["8 0 t/a", "12 0 t"]);
    }
}
