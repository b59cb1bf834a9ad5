//! The disk usage of each directory, as du(1) reports it, from entries in any order.
//!
//! A directory is identified by a [`Key`], which everything in it carries. So no paths are kept,
//! and of other files only those with several links, because each counts once: in the first DIR
//! that has it, and there in the directory nearest to DIR. Which one that is depends neither on
//! the order of the entries nor on the thread that found them.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use std::sync::atomic::{AtomicU64, Ordering};

use gate::sync::Mutex;
use ondisk::Dev;

use crate::digest;
use crate::entry::{Dir, Entry, Type};
use crate::sink::{Sink, Worker};

/// Identifies a directory: its depth below DIR, and the hash of its path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Key {
    /// 0 for DIR itself.
    depth: u32,
    /// Different for each directory of that depth, in all DIRs.
    hash: u64,
}

/// The disk usage of some files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sums {
    /// Allocated space, in units of 512 bytes.
    pub blocks: u64,
    /// Apparent size of regular files and symbolic links, in bytes.
    pub bytes: u64,
}

impl Sums {
    fn add(&mut self, other: Sums) {
        self.blocks = self.blocks.wrapping_add(other.blocks);
        self.bytes = self.bytes.wrapping_add(other.bytes);
    }
}

/// A directory, as an entry of the one above it.
#[derive(Clone, Debug)]
struct Directory<'a> {
    /// The directory above; `None` for DIR itself.
    above: Option<Key>,
    /// Its name there; the path as it was given for DIR itself.
    name: &'a [u8],
    /// Device and inode number.
    file: (Dev, u64),
    /// What it takes itself.
    sums: Sums,
}

#[derive(Clone, Debug, Default)]
struct Node {
    above: Option<Key>,
    name: Box<[u8]>,
    file: (Dev, u64),
    /// What it takes itself, and what is directly in it.
    sums: Sums,
    /// Whether it has been met as an entry; until then, only what is in it is known.
    is_met: bool,
}

/// A file with several names.
#[derive(Clone, Copy, Debug)]
struct Link {
    /// The DIR in which it counts, and the directory.
    place: (u64, Key),
    sums: Sums,
}

/// Adds up usage by directory. Each thread fills its own; they are merged at the end.
#[derive(Clone, Debug, Default)]
struct Collector {
    nodes: HashMap<Key, Node>,
    links: HashMap<(Dev, u64), Link>,
    /// Directories that have the key of another one: their hashes collide.
    collisions: u64,
}

impl Collector {
    /// Something in a directory has one name only.
    fn add(&mut self, place: Key, sums: Sums) {
        self.nodes.entry(place).or_default().sums.add(sums);
    }

    /// Something in a directory of the `nth` DIR has several names.
    fn link(&mut self, nth: u64, place: Key, file: (Dev, u64), sums: Sums) {
        self.put_link(
            file,
            Link {
                place: (nth, place),
                sums,
            },
        );
    }

    fn put_link(&mut self, file: (Dev, u64), link: Link) {
        self.links
            .entry(file)
            .and_modify(|old| *old = if link.place < old.place { link } else { *old })
            .or_insert(link);
    }

    /// A directory.
    fn directory(&mut self, key: Key, directory: &Directory<'_>) {
        let &Directory {
            above,
            name,
            file,
            sums,
        } = directory;
        self.put_node(
            key,
            Node {
                above,
                name: name.into(),
                file,
                sums,
                is_met: true,
            },
        );
    }

    fn put_node(&mut self, key: Key, node: Node) {
        match self.nodes.entry(key) {
            Slot::Vacant(slot) => drop(slot.insert(node)),
            Slot::Occupied(mut slot) => {
                let old = slot.get_mut();
                let mut sums = old.sums;
                sums.add(node.sums);
                if old.is_met && node.is_met && (old.above, &old.name) != (node.above, &node.name) {
                    self.collisions += 1;
                } else if node.is_met {
                    *old = node;
                }
                old.sums = sums;
            }
        }
    }

    /// Puts in what another one holds.
    fn merge(&mut self, other: Collector) {
        if self.nodes.is_empty() && self.links.is_empty() {
            *self = other;
            return;
        }
        self.collisions += other.collisions;
        other
            .nodes
            .into_iter()
            .for_each(|(key, node)| self.put_node(key, node));
        other
            .links
            .into_iter()
            .for_each(|(file, link)| self.put_link(file, link));
    }

    /// The directories of all DIRs, with everything below them.
    fn finish(mut self) -> Usage {
        for link in std::mem::take(&mut self.links).into_values() {
            self.add(link.place.1, link.sums);
        }
        let collisions = self.collisions;
        // What nobody has met vanished while the tree was walked.
        let mut nodes: Vec<(Key, Node)> = self
            .nodes
            .into_iter()
            .filter(|(_, node)| node.is_met)
            .collect();
        nodes.sort_unstable_by_key(|(key, _)| *key);
        let mut rows: Vec<Place> = Vec::with_capacity(nodes.len());
        let mut dirs = HashMap::new();
        for (key, node) in &nodes {
            let above = node
                .above
                .and_then(|above| nodes.binary_search_by_key(&above, |(key, _)| *key).ok());
            // Those above come first, being less deep; DIRs stand in the order in which they were
            // given.
            let nth = above.map_or(key.hash, |above| rows[above].nth);
            let first: &mut u64 = dirs.entry(node.file).or_insert(nth);
            *first = nth.min(*first);
            rows.push(Place {
                above,
                nth,
                depth: key.depth,
                sums: node.sums,
            });
        }
        let names: Vec<(Box<[u8]>, bool)> = nodes
            .into_iter()
            .zip(&rows)
            .map(|((_, node), row)| {
                (
                    node.name,
                    dirs[&node.file] == row.nth && (row.above.is_some() || row.depth == 0),
                )
            })
            .collect();
        for at in (0..rows.len()).rev() {
            let row = rows[at];
            if let (Some(above), true) = (row.above, names[at].1) {
                rows[above].sums.add(row.sums);
            }
        }
        let order = children_first(&rows, &names);
        Usage {
            rows,
            names,
            order,
            collisions,
        }
    }
}

/// A directory among the others.
#[derive(Clone, Copy, Debug)]
struct Place {
    above: Option<usize>,
    nth: u64,
    depth: u32,
    sums: Sums,
}

/// The order in which du prints, and among siblings that of the names. What counted in an earlier
/// DIR is left out.
fn children_first(rows: &[Place], names: &[(Box<[u8]>, bool)]) -> Vec<usize> {
    // Siblings side by side, the last name first; no directory above comes before all others.
    let mut siblings: Vec<usize> = (0..rows.len()).filter(|&at| names[at].1).collect();
    siblings.sort_unstable_by(|&a, &b| {
        let name = |at: usize| {
            if rows[at].above.is_none() {
                &[]
            } else {
                &names[at].0[..]
            }
        };
        rows[a]
            .above
            .cmp(&rows[b].above)
            .then_with(|| name(b).cmp(name(a)))
            .then(b.cmp(&a))
    });
    let first_of = |above| siblings.partition_point(|&at| rows[at].above < above);
    let below = |above| {
        siblings[first_of(above)..]
            .iter()
            .copied()
            .take_while(move |&at| rows[at].above == above)
    };
    // From the end: a directory, then its children from the last to the first.
    let mut pending: Vec<usize> = below(None).collect();
    pending.reverse();
    let mut order = Vec::with_capacity(siblings.len());
    while let Some(at) = pending.pop() {
        order.push(at);
        let from = pending.len();
        pending.extend(below(Some(at)));
        pending[from..].reverse();
    }
    order.reverse();
    order
}

/// The usage of one directory.
#[derive(Clone, Debug)]
pub struct DirectoryUsage {
    /// The directory, beginning with DIR as it was given.
    pub path: Vec<u8>,
    /// What it and everything below it take.
    pub sums: Sums,
}

/// The usage of every directory.
#[derive(Clone, Debug)]
pub struct Usage {
    rows: Vec<Place>,
    /// The names, and whether the directory counts: not when it did so in an earlier DIR.
    names: Vec<(Box<[u8]>, bool)>,
    order: Vec<usize>,
    /// How many directories are missing because their hashes collide with those of others, to which
    /// their figures are added.
    pub collisions: u64,
}

impl Usage {
    /// The directories down to a depth, children before parents; with `top`, only the largest of
    /// them, the largest first.
    pub fn directories(
        &self,
        max_depth: Option<u32>,
        top: Option<usize>,
    ) -> impl Iterator<Item = DirectoryUsage> {
        let mut order: Vec<usize> = self
            .order
            .iter()
            .copied()
            .filter(|&at| max_depth.is_none_or(|max| self.rows[at].depth <= max))
            .collect();
        if let Some(n) = top {
            let size = |&at: &usize| {
                std::cmp::Reverse((self.rows[at].sums.blocks, self.rows[at].sums.bytes))
            };
            order.sort_by_key(size);
            order.truncate(n);
        }
        order.into_iter().map(|at| DirectoryUsage {
            path: self.path(at),
            sums: self.rows[at].sums,
        })
    }

    fn path(&self, at: usize) -> Vec<u8> {
        let above = std::iter::successors(Some(at), |&at| self.rows[at].above);
        let mut chain: Vec<&[u8]> = above.map(|at| &self.names[at].0[..]).collect();
        chain.reverse();
        let mut path = Vec::with_capacity(chain.iter().map(|name| name.len() + 1).sum());
        for name in chain {
            if !path.is_empty() && !path.ends_with(b"/") {
                path.push(b'/');
            }
            path.extend_from_slice(name);
        }
        path
    }
}

/// The sink that adds up the usage of each directory.
pub struct UsageSink<'a> {
    dirs: &'a [Vec<u8>],
    /// The DIR that is being walked.
    nth: AtomicU64,
    collector: Mutex<Collector>,
}

impl<'a> UsageSink<'a> {
    /// A sink for a walk of these directories.
    pub fn new(dirs: &'a [Vec<u8>]) -> UsageSink<'a> {
        UsageSink {
            dirs,
            nth: AtomicU64::new(0),
            collector: Mutex::default(),
        }
    }

    /// The usage, after the walk.
    pub fn finish(self) -> Usage {
        self.collector.into_inner().finish()
    }
}

impl Sink for UsageSink<'_> {
    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(UsageWorker {
            collector: Collector::default(),
            sink: self,
        })
    }

    fn wants_paths(&self) -> bool {
        false
    }
}

struct UsageWorker<'a> {
    collector: Collector,
    sink: &'a UsageSink<'a>,
}

impl Worker for UsageWorker<'_> {
    fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        let (depth, hash) = (dir.depth, dir.hash);
        let place = Key { depth, hash };
        let mut here = Sums::default();
        for entry in entries {
            let meta = &entry.meta;
            let file = (meta.dev, meta.ino);
            let kind = meta.kind();
            let has_size = matches!(kind, Type::File | Type::Symlink);
            let sums = Sums {
                blocks: meta.blocks,
                bytes: if has_size { meta.size } else { 0 },
            };
            let directory = |above, name| Directory {
                above,
                name,
                file,
                sums,
            };
            if entry.name.is_empty() {
                // DIRs are walked one after the other, and each comes before what is in it.
                self.sink.nth.store(hash, Ordering::Relaxed);
                let name = self.sink.dirs.get(hash as usize);
                let name = name.map_or(&b""[..], |dir| dir);
                self.collector.directory(place, &directory(None, name));
            } else if kind == Type::Directory {
                let key = Key {
                    depth: depth + 1,
                    hash: digest::below(hash, entry.name),
                };
                self.collector
                    .directory(key, &directory(Some(place), entry.name));
            } else if meta.nlink > 1 {
                let nth = self.sink.nth.load(Ordering::Relaxed);
                self.collector.link(nth, place, file, sums);
            } else {
                here.add(sums);
            }
        }
        if here != Sums::default() {
            self.collector.add(place, here);
        }
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

    const DEV: Dev = Dev { major: 8, minor: 1 };

    fn key(depth: u32, hash: u64) -> Key {
        Key { depth, hash }
    }

    fn dir<'a>(above: Option<Key>, name: &'a [u8], ino: u64) -> Directory<'a> {
        Directory {
            above,
            name,
            file: (DEV, ino),
            sums: Sums {
                blocks: 8,
                bytes: 0,
            },
        }
    }

    fn text(usage: &Usage, max_depth: Option<u32>, top: Option<usize>) -> Vec<String> {
        usage
            .directories(max_depth, top)
            .map(|directory| {
                let Sums { blocks, bytes } = directory.sums;
                let (allocated, apparent) = (blocks.div_ceil(2), bytes.div_ceil(1024));
                format!("{allocated} {apparent} {}", directory.path.escape_ascii())
            })
            .collect()
    }

    type Step = Box<dyn Fn(&mut Collector)>;

    /// DIR `t/` with `t/b`, `t/a`, `t/a/c`; one file in each, and one with a name in `t/a/c` and
    /// another in `t/b`.
    fn tree() -> [Step; 6] {
        let (top, a, b, c) = (key(0, 0), key(1, 70), key(1, 60), key(2, 50));
        let file = Sums {
            blocks: 1,
            bytes: 1,
        };
        let linked = (DEV, 99);
        [
            Box::new(move |du| du.directory(top, &dir(None, b"t/", 2))),
            Box::new(move |du| du.directory(b, &dir(Some(top), b"b", 3))),
            Box::new(move |du| du.directory(a, &dir(Some(top), b"a", 4))),
            Box::new(move |du| du.directory(c, &dir(Some(a), b"c\n", 5))),
            Box::new(move |du| {
                [top, a, b, c]
                    .into_iter()
                    .for_each(|place| du.add(place, file))
            }),
            Box::new(move |du| {
                du.link(
                    0,
                    c,
                    linked,
                    Sums {
                        blocks: 16,
                        bytes: 5000,
                    },
                );
                du.link(
                    0,
                    b,
                    linked,
                    Sums {
                        blocks: 16,
                        bytes: 5000,
                    },
                );
            }),
        ]
    }

    #[test]
    fn children_before_parents_and_links_once_in_any_order_and_split() {
        let expected = ["5 1 t/a/c\\n", "9 1 t/a", "13 5 t/b", "26 5 t/"];
        for split in 0..64_u32 {
            let (mut one, mut other) = (Collector::default(), Collector::default());
            for (at, step) in tree().iter().enumerate() {
                step(if split >> at & 1 == 0 {
                    &mut one
                } else {
                    &mut other
                });
            }
            one.merge(other);
            let usage = one.finish();
            assert_eq!(text(&usage, None, None), expected, "{split}");
            assert_eq!(
                text(&usage, Some(1), None),
                ["9 1 t/a", "13 5 t/b", "26 5 t/"]
            );
            assert_eq!(text(&usage, None, Some(2)), ["26 5 t/", "13 5 t/b"]);
        }
    }

    #[test]
    fn each_directory_and_link_counts_once_over_all_dirs() {
        let mut du = Collector::default();
        // DIR 0 is below DIR 1; DIR 2 is elsewhere, with a second name of a file in DIR 0.
        du.directory(key(0, 0), &dir(None, b"t/a", 4));
        du.link(
            0,
            key(0, 0),
            (DEV, 99),
            Sums {
                blocks: 2,
                bytes: 0,
            },
        );
        du.directory(key(0, 1), &dir(None, b"t", 2));
        du.directory(key(1, 77), &dir(Some(key(0, 1)), b"a", 4));
        du.link(
            1,
            key(1, 77),
            (DEV, 99),
            Sums {
                blocks: 2,
                bytes: 0,
            },
        );
        du.directory(key(0, 2), &dir(None, b"u", 9));
        du.link(
            2,
            key(0, 2),
            (DEV, 99),
            Sums {
                blocks: 2,
                bytes: 0,
            },
        );
        let usage = du.finish();
        assert_eq!(text(&usage, None, None), ["5 0 t/a", "4 0 t", "4 0 u"]);
    }

    #[test]
    fn colliding_directories_are_counted() {
        let mut du = Collector::default();
        du.directory(key(0, 0), &dir(None, b"t", 2));
        du.directory(key(1, 1), &dir(Some(key(0, 0)), b"a", 3));
        du.directory(key(1, 1), &dir(Some(key(0, 0)), b"b", 4));
        let usage = du.finish();
        assert_eq!((usage.collisions, usage.order.len()), (1, 2));
        assert_eq!(text(&usage, None, None), ["8 0 t/a", "12 0 t"]);
    }
}
