//! Tests with a model of trees, changes, and restores by GNU tar: whatever the changes, restoring
//! the planned increment must give the current tree.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use proptest::prelude::*;
use walk::entry::Time;
use walk::{Meta, path_id};

use super::{CurrentEntry, EntryTreatment, OldName, TreeOutcome, compare};
use crate::since::index::{Identity, Index, fingerprint};

type Path = Vec<String>;
/// Version and content of an inode, and all its paths.
type InodeFacts = (Option<u64>, Option<u64>, BTreeSet<Path>);

/// An inode in the dumped tree.
#[derive(Clone, Debug)]
struct TreeInode {
    ino: u64,
    birth: u32,
    /// Models times and attributes: increases with each change.
    version: u64,
    /// Models the data; for a directory, the extended attributes from its creation, which GNU tar
    /// does not change.
    content: u64,
    names: Option<BTreeMap<String, usize>>,
}

/// The dumped tree.
#[derive(Clone, Debug)]
struct DumpedTree {
    inodes: Vec<TreeInode>,
    clock: u64,
    /// Whether inodes have a birth time.
    has_births: bool,
    /// Whether directories get new times when their entries change.
    touches_dirs: bool,
    free: Vec<u64>,
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const ROOT: usize = 0;

/// A change of the tree: its kind, and two numbers that select entries or names.
type TreeEvent = (u8, u16, u16);

impl DumpedTree {
    fn new(has_births: bool, touches_dirs: bool) -> DumpedTree {
        let mut world = DumpedTree {
            inodes: Vec::new(),
            clock: 0,
            has_births,
            touches_dirs,
            free: Vec::new(),
        };
        world.make(true);
        world
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn make(&mut self, is_dir: bool) -> usize {
        let now = self.tick();
        let ino = self.free.pop().unwrap_or(now + 1000);
        let birth = if self.has_births { now as u32 } else { 0 };
        self.inodes.push(TreeInode {
            ino,
            birth,
            version: now,
            content: now,
            names: is_dir.then(BTreeMap::new),
        });
        self.inodes.len() - 1
    }

    fn touch(&mut self, inode: usize) {
        self.inodes[inode].version = self.tick();
    }

    fn names(&self, dir: usize) -> &BTreeMap<String, usize> {
        self.inodes[dir].names.as_ref().unwrap()
    }

    fn put(&mut self, dir: usize, name: &str, inode: Option<usize>) {
        let names = self.inodes[dir].names.as_mut().unwrap();
        match inode {
            Some(inode) => names.insert(name.to_owned(), inode),
            None => names.remove(name),
        };
        if self.touches_dirs {
            self.touch(dir);
        }
    }

    /// Every entry as directory, name and inode; directories precede their entries.
    fn all(&self) -> Vec<(usize, String, usize)> {
        let (mut all, mut dirs) = (Vec::new(), vec![ROOT]);
        while let Some(dir) = dirs.pop() {
            for (name, &inode) in self.names(dir) {
                all.push((dir, name.clone(), inode));
                if self.inodes[inode].names.is_some() {
                    dirs.push(inode);
                }
            }
        }
        all
    }

    fn is_within(&self, inode: usize, dir: usize) -> bool {
        inode == dir
            || self.inodes[dir]
                .names
                .iter()
                .flatten()
                .any(|(_, &below)| self.is_within(inode, below))
    }

    fn nlink(&self, inode: usize) -> usize {
        self.all()
            .iter()
            .filter(|(.., other)| *other == inode)
            .count()
    }

    fn remove(&mut self, dir: usize, name: &str) {
        let Some(&inode) = self.names(dir).get(name) else {
            return;
        };
        for below in self.inodes[inode].names.clone().into_iter().flatten() {
            self.remove(inode, &below.0);
        }
        self.put(dir, name, None);
        if self.nlink(inode) == 0 {
            self.free.push(self.inodes[inode].ino);
        }
        self.touch(inode);
    }

    fn apply(&mut self, (kind, one, other): TreeEvent) {
        let all = self.all();
        let dirs: Vec<usize> = [ROOT]
            .into_iter()
            .chain(
                all.iter()
                    .map(|e| e.2)
                    .filter(|&e| self.inodes[e].names.is_some()),
            )
            .collect();
        let (dir, name) = (
            dirs[usize::from(one) % dirs.len()],
            NAMES[usize::from(other) % NAMES.len()],
        );
        let pick = |n: u16| all.get(usize::from(n) % all.len().max(1)).cloned();
        match kind % 10 {
            kind @ (0 | 1) if !self.names(dir).contains_key(name) => {
                let inode = self.make(kind == 0);
                self.put(dir, name, Some(inode));
            }
            2 | 3 => {
                let Some((from, old, inode)) = pick(one) else {
                    return;
                };
                let to = dirs[usize::from(other) / NAMES.len() % dirs.len()];
                if !self.is_within(to, inode) && !self.names(to).contains_key(name) {
                    self.put(from, &old, None);
                    self.put(to, name, Some(inode));
                    self.touch(inode);
                }
            }
            4 => {
                let Some((_, _, inode)) = pick(one) else {
                    return;
                };
                let to = dirs[usize::from(other) / NAMES.len() % dirs.len()];
                if self.inodes[inode].names.is_none() && !self.names(to).contains_key(name) {
                    self.put(to, name, Some(inode));
                    self.touch(inode);
                }
            }
            5 => {
                let Some((_, _, inode)) = pick(one) else {
                    return;
                };
                if self.inodes[inode].names.is_none() {
                    self.inodes[inode].content = self.tick();
                }
                self.touch(inode);
            }
            6 => {
                let Some((dir, name, inode)) = pick(one) else {
                    return;
                };
                self.remove(dir, &name);
                if other % 2 == 0 {
                    let is_dir = self.inodes[inode].names.is_none();
                    let inode = self.make(is_dir);
                    self.put(dir, &name, Some(inode));
                }
            }
            7 | 8 => {
                let (Some(one), Some(other)) = (pick(one), pick(other)) else {
                    return;
                };
                if !self.is_within(one.0, other.2) && !self.is_within(other.0, one.2) {
                    self.put(one.0, &one.1, Some(other.2));
                    self.put(other.0, &other.1, Some(one.2));
                    self.touch(one.2);
                    self.touch(other.2);
                }
            }
            _ => {
                let (Some(new), Some(old)) = (pick(one), pick(other)) else {
                    return;
                };
                if !self.is_within(old.0, new.2) && !self.is_within(new.0, old.2) && new.2 != old.2
                {
                    self.remove(old.0, &old.1);
                    self.put(new.0, &new.1, None);
                    self.put(old.0, &old.1, Some(new.2));
                    self.touch(new.2);
                }
            }
        }
    }

    /// The entries in archive order: row of the directory, name, inode.
    fn rows(&self) -> Vec<(Option<u32>, String, usize)> {
        fn go(
            world: &DumpedTree,
            rows: &mut Vec<(Option<u32>, String, usize)>,
            dir: u32,
            inode: usize,
        ) {
            for (name, &inode) in world.inodes[inode].names.iter().flatten() {
                rows.push((Some(dir), name.clone(), inode));
                let row = rows.len() as u32 - 1;
                go(world, rows, row, inode);
            }
        }
        let mut rows = vec![(None, String::new(), ROOT)];
        go(self, &mut rows, 0, ROOT);
        rows
    }

    /// Metadata that encodes the inode and its version.
    fn meta(&self, inode: usize) -> Meta {
        let &TreeInode {
            ino,
            birth,
            version,
            ref names,
            ..
        } = &self.inodes[inode];
        let btime = (birth != 0).then_some(Time::new(birth.into(), 0));
        let mode = if names.is_some() { 0o040755 } else { 0o100644 };
        Meta {
            ino,
            mode,
            size: version,
            btime,
            ..Meta::default()
        }
    }
}

fn path(rows: &[(Option<u32>, String, usize)], mut row: u32) -> Path {
    let mut path = Vec::new();
    while let Some(parent) = rows[row as usize].0 {
        path.insert(0, rows[row as usize].1.clone());
        row = parent;
    }
    path
}

/// The restored tree.
#[derive(Clone, Debug)]
struct RestoredTree {
    nodes: Vec<RestoredNode>,
}

#[derive(Clone, Debug)]
struct RestoredNode {
    /// `None` if the version that GNU tar restored differs from that in the archive.
    version: Option<u64>,
    content: u64,
    names: Option<BTreeMap<String, usize>>,
}

impl RestoredTree {
    fn find(&self, path: &[String]) -> Option<usize> {
        path.iter().try_fold(ROOT, |at, name| {
            self.nodes[at].names.as_ref()?.get(name).copied()
        })
    }

    fn names(&mut self, dir: usize) -> &mut BTreeMap<String, usize> {
        self.nodes[dir].version = None;
        self.nodes[dir].names.as_mut().expect("a directory")
    }

    fn put(&mut self, path: &[String], node: Option<usize>) {
        let (name, dir) = path.split_last().unwrap();
        let dir = self.find(dir).expect("the directory exists");
        match node {
            Some(node) => self.names(dir).insert(name.clone(), node),
            None => self.names(dir).remove(name),
        };
    }

    /// Creates a node, replacing anything except a directory with entries.
    fn make(&mut self, path: &[String], node: RestoredNode) {
        if let Some(there) = self.find(path) {
            assert!(
                self.nodes[there].names.iter().flatten().next().is_none(),
                "{path:?} is in the way"
            );
        }
        self.nodes.push(node);
        self.put(path, Some(self.nodes.len() - 1));
    }

    /// Models a restore by GNU tar.
    fn restore(&mut self, world: &DumpedTree, outcome: &TreeOutcome) {
        let rows = world.rows();
        let mut first: HashMap<usize, Path> = HashMap::new();
        let mut late = Vec::new();
        for (row, (_, _, inode)) in rows.iter().enumerate() {
            let (at, path) = (row as u32, path(&rows, row as u32));
            let &TreeInode {
                version,
                content,
                ref names,
                ..
            } = &world.inodes[*inode];
            let fate = outcome.fates[row];
            match fate {
                EntryTreatment::Kept => {}
                EntryTreatment::Link => {
                    let to = self
                        .find(&self::path(&rows, outcome.links[&at]))
                        .expect("the target of the link exists");
                    self.put(&path, Some(to));
                }
                _ if names.is_none() => match first.get(inode) {
                    Some(first) => {
                        let to = self.find(first).unwrap();
                        self.put(&path, Some(to));
                    }
                    None => {
                        self.make(
                            &path,
                            RestoredNode {
                                version: Some(version),
                                content,
                                names: None,
                            },
                        );
                        first.insert(*inode, path);
                    }
                },
                _ => {
                    let there = self
                        .find(&path)
                        .filter(|&there| self.nodes[there].names.is_some());
                    match there {
                        Some(there) => {
                            let before: Vec<String> = self.names(there).keys().cloned().collect();
                            for step in outcome.steps.iter().filter(|step| step.top == at) {
                                self.step(&step.from, &step.to);
                            }
                            self.purge(there, &before, &rows, at, world, outcome);
                        }
                        None => self.make(
                            &path,
                            RestoredNode {
                                version: None,
                                content,
                                names: Some(BTreeMap::new()),
                            },
                        ),
                    }
                    late.push((path, version));
                }
            }
        }
        for (path, version) in late {
            let node = self.find(&path).unwrap();
            self.nodes[node].version = Some(version);
        }
    }

    fn step(&mut self, from: &[u8], to: &[u8]) {
        let path = |path: &[u8]| -> Path {
            std::str::from_utf8(path)
                .unwrap()
                .split('/')
                .map(str::to_owned)
                .collect()
        };
        let (from, to) = (path(from), path(to));
        let moved = self
            .find(&from)
            .unwrap_or_else(|| panic!("{from:?} is not there"));
        assert!(self.find(&to).is_none(), "{to:?} is there");
        assert!(!to.starts_with(&from), "{from:?} and {to:?}");
        self.put(&from, None);
        self.put(&to, Some(moved));
    }

    fn purge(
        &mut self,
        dir: usize,
        before: &[String],
        rows: &[(Option<u32>, String, usize)],
        row: u32,
        world: &DumpedTree,
        outcome: &TreeOutcome,
    ) {
        let children = rows
            .iter()
            .enumerate()
            .filter(|(_, (parent, ..))| *parent == Some(row));
        let codes: BTreeMap<&str, char> = children
            .map(|(child, (_, name, inode))| {
                let code = match outcome.fates[child] {
                    EntryTreatment::Replaces => 'Y',
                    _ if world.inodes[*inode].names.is_some() => 'D',
                    EntryTreatment::Kept => 'N',
                    _ => 'Y',
                };
                (&name[..], code)
            })
            .collect();
        for name in before {
            let Some(&there) = self.names(dir).get(name) else {
                continue;
            };
            let is_dir = self.nodes[there].names.is_some();
            let is_removed = match codes.get(&name[..]) {
                None => true,
                Some('D') => !is_dir,
                Some('Y') => is_dir,
                Some(_) => false,
            };
            if is_removed {
                self.names(dir).remove(name);
            }
        }
    }

    /// All nodes by path. Without birth times, a directory that reuses an inode number looks like
    /// the old one, so its content is ignored.
    fn census(&self, has_births: bool) -> BTreeMap<Path, InodeFacts> {
        let (mut all, mut names) = (Vec::new(), HashMap::<usize, BTreeSet<Path>>::new());
        let mut dirs = vec![(Path::new(), ROOT)];
        while let Some((path, node)) = dirs.pop() {
            for (name, &below) in self.nodes[node].names.iter().flatten() {
                dirs.push(([&path[..], std::slice::from_ref(name)].concat(), below));
            }
            names.entry(node).or_default().insert(path.clone());
            all.push((path, node));
        }
        let of = |node: usize| {
            let RestoredNode {
                version,
                content,
                names: below,
            } = &self.nodes[node];
            (
                *version,
                Some(*content).filter(|_| has_births || below.is_none()),
                names[&node].clone(),
            )
        };
        all.into_iter()
            .map(|(path, node)| (path, of(node)))
            .collect()
    }

    fn from_world(world: &DumpedTree) -> RestoredTree {
        let node = |inode: &TreeInode| {
            let &TreeInode {
                version,
                content,
                ref names,
                ..
            } = inode;
            RestoredNode {
                version: Some(version),
                content,
                names: names.clone(),
            }
        };
        RestoredTree {
            nodes: world.inodes.iter().map(node).collect(),
        }
    }
}

/// The index of a catalog of the tree, and the names of its rows.
fn index(world: &DumpedTree) -> (Index, Vec<OldName>) {
    let rows = world.rows();
    let (mut old, mut names, mut children) = (Vec::new(), Vec::new(), HashMap::new());
    let mut paths: Vec<u64> = Vec::new();
    for (row, (parent, name, inode)) in rows.iter().enumerate() {
        let path_of = parent.map_or(path_id::top(0), |dir| {
            *children.entry(paths[dir as usize]).or_default() += 1;
            path_id::below(paths[dir as usize], name.as_bytes())
        });
        paths.push(path_of);
        old.push((path_of, world.meta(*inode)));
        let mut dir = path(&rows, row as u32);
        dir.pop();
        names.push((dir.join("/").into_bytes(), name.clone().into_bytes()));
    }
    (Index::new(old.into_iter(), children), names)
}

fn plan(then: &DumpedTree, now: &DumpedTree) -> TreeOutcome {
    let (index, names) = index(then);
    let rows = now.rows();
    let entry = |row: u32| {
        let (parent, name, inode) = &rows[row as usize];
        let meta = now.meta(*inode);
        let identity = Identity::from_meta(0, &meta);
        CurrentEntry {
            parent: *parent,
            name: name.as_bytes(),
            identity,
            fingerprint: fingerprint(identity.who, &meta),
            is_dir: meta.is_dir(),
            nlink: now.nlink(*inode) as u32,
        }
    };
    let names_of = |wanted: &[u32]| {
        Ok(wanted
            .iter()
            .map(|&row| (path_id::top(0), names[row as usize].clone()))
            .collect())
    };
    let dirs = (0..rows.len() as u32).filter(|row| entry(*row).is_dir);
    compare(
        rows.len() as u32,
        entry,
        dirs,
        |_| path_id::top(0),
        &index,
        names_of,
    )
    .unwrap()
}

fn check(has_births: bool, touches_dirs: bool, rounds: &[Vec<TreeEvent>]) {
    let mut world = DumpedTree::new(has_births, touches_dirs);
    let mut restored: Option<RestoredTree> = None;
    for events in rounds {
        let then = world.clone();
        events.iter().for_each(|&event| world.apply(event));
        restored = Some(match restored {
            None => RestoredTree::from_world(&world),
            Some(mut restored) => {
                let outcome = plan(&then, &world);
                restored.restore(&world, &outcome);
                restored
            }
        });
        let (is, wanted) = (
            restored.as_ref().unwrap().census(has_births),
            RestoredTree::from_world(&world).census(has_births),
        );
        assert_eq!(is, wanted);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn restored_tree_is_the_tree_as_it_is_now(
        has_births: bool,
        touches_dirs: bool,
        grown in proptest::collection::vec((0..2u8, any::<u16>(), any::<u16>()), 0..40),
        rounds in proptest::collection::vec(proptest::collection::vec(any::<TreeEvent>(), 0..12), 1..4),
    ) {
        let rounds: Vec<Vec<TreeEvent>> = std::iter::once(grown).chain(rounds).collect();
        check(has_births, touches_dirs, &rounds);
    }
}
