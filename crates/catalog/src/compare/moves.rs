//! Orders the renames of directories: which directories a restore can keep, and the steps that
//! bring each to its new path.
//!
//! GNU tar renames directories before it restores anything else of an increment: one after the
//! other, in the old tree. So the renames are simulated here in the old tree, from the top down. A
//! directory A can be kept if its new parent is kept. If a different directory B is at A's new
//! path, A waits, because B may be about to move. If B does not move, B is moved into A, under a
//! free name. From there, B can still move to its own new path. Otherwise GNU tar purges B, because
//! the archive contains A with a dumpdir that does not list B. A directory that cannot be kept is
//! dumped again.
//!
//! (GNU tar has a temporary directory for such cases. But with `-C`, GNU tar creates this directory
//! in a different directory than the one in which it renames.)

use std::collections::{BTreeSet, HashMap, HashSet};

use base::path::names;
use walk::entry::append;
use walk::path_id;

/// A directory of the current tree.
#[derive(Clone, Copy)]
pub(super) struct Dir<'a> {
    /// Index of the parent among all directories, always smaller than the index of the directory
    /// itself. A top (the directory of a SRC) is its own parent.
    pub parent: u32,
    pub name: &'a [u8],
    /// Hash of the former path below the same top; `None` for a new directory. A top always has a
    /// hash. No two directories have the same hash.
    pub was: Option<u64>,
}

/// A renamed directory: the former path, and the new one.
pub type Rename = (Vec<u8>, Vec<u8>);

/// A former path below its top: the parent directory, and the name in it.
pub type OldName = (Vec<u8>, Vec<u8>);

/// A rename in the old tree, below one top.
pub struct RenameStep {
    /// The top (the directory of a SRC), as an index among all directories.
    pub top: u32,
    /// The directory's path at the time of this step.
    pub from: Vec<u8>,
    /// The new path, which does not exist at the time of this step.
    pub to: Vec<u8>,
}

/// The directories that are kept, and the steps that move them.
pub(super) struct DirectoryMoves {
    /// For each kept directory, the hash of its former path.
    pub kept: Vec<Option<u64>>,
    /// For each directory that is not kept, whether another directory is at its path.
    pub is_taken: Vec<bool>,
    /// The renames, in order.
    pub steps: Vec<RenameStep>,
}

/// Computes the renames. `unmoved` marks directories with the same path as before; `old` has the
/// former names of the other directories. `was_dir` tells, for the hash of a former path, whether a
/// directory had this path; `None` if the path did not exist.
pub(super) fn moves(
    dirs: &[Dir<'_>],
    unmoved: &[bool],
    old: HashMap<u64, OldName>,
    was_dir: impl Fn(u64) -> Option<bool>,
) -> DirectoryMoves {
    let mut below: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut ready = Vec::new();
    let mut homeless = HashMap::new();
    for (at, dir) in (0..).zip(dirs) {
        let was = dir.was.filter(|was| old.contains_key(was));
        if let Some(was) = was.filter(|_| !unmoved[at as usize]) {
            homeless.insert(was, at);
            if unmoved[dir.parent as usize] {
                ready.push(at);
            } else {
                below.entry(dir.parent).or_default().push(at);
            }
        }
    }
    ready.reverse(); // because pop() takes the last one
    let mut tree = MovedTree::new(dirs, unmoved, old, was_dir);
    // Directories that wait for their new path to become free: in order (`waiting`), and by new
    // path (`wanted`).
    let mut waiting: BTreeSet<u32> = BTreeSet::new();
    let mut wanted: HashMap<(u64, Vec<u8>), u32> = HashMap::new();
    loop {
        while let Some(at) = ready.pop() {
            let Some((place, left)) = tree.move_directory(at) else {
                continue;
            };
            if tree.kept[at as usize].is_none() {
                waiting.insert(at);
                wanted.insert((place.0, place.1.to_vec()), at);
                continue;
            }
            ready.extend(below.remove(&at).into_iter().flatten().rev());
            // The path just left may be the new path of a waiting directory.
            let next = left.and_then(|left| wanted.remove(&left));
            ready.extend(next.filter(|next| waiting.remove(next)));
        }
        let Some(at) = waiting.pop_first() else { break };
        if let Some(other) = tree.make_way(at) {
            // The directory moved aside may itself wait for the path that is free now.
            ready.extend(homeless.get(&other).filter(|other| waiting.remove(other)));
            ready.push(at);
        }
    }
    let is_taken = (0..dirs.len() as u32).map(|at| tree.is_taken(at)).collect();
    DirectoryMoves {
        kept: tree.kept,
        is_taken,
        steps: tree.steps,
    }
}

/// Merges the renames of several trees without duplicates, and counts the duplicates. A tree that
/// is inside a different tree, or equal to it, must come after that tree.
pub fn merge_renames(trees: impl Iterator<Item = Vec<Rename>>) -> (Vec<Rename>, u64) {
    let mut known: HashSet<Rename> = HashSet::new();
    let (mut renames, mut repeated) = (Vec::new(), 0);
    for steps in trees {
        // The former path of each directory, and its path after the steps so far.
        let mut moved: Vec<Rename> = Vec::new();
        let mut at_place: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut of_steps = Vec::with_capacity(steps.len());
        for (from, to) in &steps {
            let nth = at_place.remove(from).unwrap_or_else(|| {
                moved.push((from.clone(), Vec::new()));
                moved.len() - 1
            });
            moved[nth].1.clone_from(to);
            at_place.insert(to.clone(), nth);
            of_steps.push(nth);
        }
        let is_new: Vec<bool> = moved.iter().map(|it| !known.contains(it)).collect();
        repeated += is_new.iter().filter(|is_new| !**is_new).count() as u64;
        let steps = steps.into_iter().zip(of_steps);
        renames.extend(steps.filter(|(_, nth)| is_new[*nth]).map(|(step, _)| step));
        known.extend(moved);
    }
    (renames, repeated)
}

/// The old tree with the moves so far. Directories are identified by the hashes of their former
/// paths.
struct MovedTree<'a, W> {
    dirs: &'a [Dir<'a>],
    /// The index of the SRC that each directory is in.
    tops: Vec<u32>,
    old: HashMap<u64, OldName>,
    was_dir: W,
    kept: Vec<Option<u64>>,
    /// The current place of each moved directory: the former path of its parent, and the name in
    /// it.
    moved: HashMap<u64, OldName>,
    /// The inverse of `moved`.
    came: HashMap<(u64, Vec<u8>), u64>,
    steps: Vec<RenameStep>,
}

impl<'a, W: Fn(u64) -> Option<bool>> MovedTree<'a, W> {
    fn new(
        dirs: &'a [Dir<'a>],
        unmoved: &[bool],
        old: HashMap<u64, OldName>,
        was_dir: W,
    ) -> MovedTree<'a, W> {
        let mut tops: Vec<u32> = Vec::with_capacity(dirs.len());
        for (at, dir) in (0..).zip(dirs) {
            tops.push(if dir.parent == at {
                at
            } else {
                tops[dir.parent as usize]
            });
        }
        let kept = dirs.iter().zip(unmoved);
        let kept = kept.map(|(dir, unmoved)| dir.was.filter(|_| *unmoved));
        MovedTree {
            dirs,
            tops,
            old,
            was_dir,
            kept: kept.collect(),
            moved: HashMap::new(),
            came: HashMap::new(),
            steps: Vec::new(),
        }
    }

    /// Moves a directory to its new place, if the place is free. Returns the new place, and the
    /// place that the directory left, if it moved.
    #[allow(clippy::type_complexity, reason = "two places")]
    fn move_directory(&mut self, at: u32) -> Option<((u64, &'a [u8]), Option<(u64, Vec<u8>)>)> {
        let Dir { parent, name, was } = self.dirs[at as usize];
        let (dir, was) = (self.kept[parent as usize]?, was?);
        let (old_dir, old_name) = self.spot(was)?.clone();
        let left = (self.hash(at, &old_dir), old_name);
        if (left.0, &left.1[..]) == (dir, name) {
            self.kept[at as usize] = Some(was);
            return Some(((dir, name), None));
        }
        if self.occupant(dir, name).is_some() {
            return Some(((dir, name), None));
        }
        let (from, _) = self.locate(at, &old_dir, &left.1, was);
        self.step(at, from, self.path(at));
        self.came.remove(&left);
        self.put(was, (self.old_path(parent), name.to_vec()), dir);
        self.kept[at as usize] = Some(was);
        Some(((dir, name), Some(left)))
    }

    /// Clears the new place of a waiting directory: moves the directory that occupies the place
    /// into the waiting directory. Returns the moved directory; `None` if the place is occupied by
    /// a file of a different type, which is not renamed.
    fn make_way(&mut self, at: u32) -> Option<u64> {
        let Dir { parent, name, was } = self.dirs[at as usize];
        let (dir, was) = (self.kept[parent as usize]?, was?);
        let other = self
            .occupant(dir, name)
            .filter(|&other| (self.was_dir)(other) == Some(true))?;
        let (from_dir, from_name) = self.spot(was)?.clone();
        let (mut from, is_within) = self.locate(at, &from_dir, &from_name, other);
        let (to, to_dir) = (self.path(at), self.old_path(parent));
        if is_within {
            // If the waiting directory is inside the directory that occupies its new place, first
            // move the waiting directory out, next to that place.
            let sibling = self.free_name(dir);
            let place = joined(&[&sibling, &self.path(parent)]);
            self.step(at, from, place.clone());
            self.came.remove(&(self.hash(at, &from_dir), from_name));
            self.put(was, (to_dir, sibling), dir);
            from = place;
        }
        let aside = self.free_name(was);
        self.step(at, to, joined(&[&aside, &from]));
        self.came.remove(&(dir, name.to_vec()));
        let old_path = self.old.get(&was).map(|(dir, name)| joined(&[name, dir]))?;
        self.put(other, (old_path, aside), was);
        Some(other)
    }

    /// A name that is currently free in a directory.
    fn free_name(&self, dir: u64) -> Vec<u8> {
        let mut names = (0u64..).map(|n| format!(".fathom-{n}").into_bytes());
        names
            .find(|name| self.occupant(dir, name).is_none())
            .unwrap_or_default()
    }

    fn step(&mut self, at: u32, from: Vec<u8>, to: Vec<u8>) {
        self.steps.push(RenameStep {
            top: self.tops[at as usize],
            from,
            to,
        });
    }

    /// Records a move of a directory.
    fn put(&mut self, was: u64, place: OldName, dir: u64) {
        self.came.insert((dir, place.1.clone()), was);
        self.moved.insert(was, place);
    }

    /// The current place of a directory.
    fn spot(&self, was: u64) -> Option<&OldName> {
        self.moved.get(&was).or_else(|| self.old.get(&was))
    }

    /// The file that is currently at a place, identified by the hash of its former path.
    fn occupant(&self, dir: u64, name: &[u8]) -> Option<u64> {
        let stayed = || Some(path_id::below(dir, name)).filter(|was| !self.moved.contains_key(was));
        let came = self.came.get(&(dir, name.to_vec())).copied();
        came.or_else(|| stayed().filter(|&was| (self.was_dir)(was).is_some()))
    }

    /// Whether another directory is at the new place of a directory that is not kept.
    fn is_taken(&self, at: u32) -> bool {
        let Dir { parent, name, .. } = self.dirs[at as usize];
        let dir = self.kept[parent as usize].filter(|_| self.kept[at as usize].is_none());
        dir.and_then(|dir| self.occupant(dir, name))
            .is_some_and(|other| (self.was_dir)(other) == Some(true))
    }

    /// The hash of a former path, relative to the top of the directory `at`.
    fn hash(&self, at: u32, path: &[u8]) -> u64 {
        let top = self.dirs[self.tops[at as usize] as usize]
            .was
            .unwrap_or_default();
        names(path).fold(top, path_id::below)
    }

    /// The new path of a directory.
    fn path(&self, at: u32) -> Vec<u8> {
        let (mut at, mut up) = (at, Vec::new());
        while self.dirs[at as usize].parent != at {
            up.push(self.dirs[at as usize].name);
            at = self.dirs[at as usize].parent;
        }
        joined(&up)
    }

    /// The former path of a kept directory.
    fn old_path(&self, at: u32) -> Vec<u8> {
        match self.kept[at as usize].and_then(|was| self.old.get(&was)) {
            Some((dir, name)) => joined(&[&name[..], &dir[..]]),
            None => self.path(at), // an unmoved directory
        }
    }

    /// The current path of an entry, from the former path of its parent directory and its name
    /// there. The flag tells whether the directory `through` (the hash of its former path) is the
    /// entry itself or above it.
    fn locate(&self, at: u32, dir: &[u8], name: &[u8], through: u64) -> (Vec<u8>, bool) {
        let (mut dir, mut up, mut leads_through) = (dir, vec![name], false);
        'dir: loop {
            let mut hash = self.hash(at, b"");
            let above = names(dir).map(|name| {
                hash = path_id::below(hash, name);
                (hash, name)
            });
            for (hash, name) in above.collect::<Vec<_>>().into_iter().rev() {
                leads_through |= hash == through;
                if let Some((above, name)) = self.moved.get(&hash) {
                    up.push(name);
                    dir = above;
                    continue 'dir;
                }
                up.push(name);
            }
            return (joined(&up), leads_through);
        }
    }
}

/// Joins names to a path. The names are in reverse order: the last name of the path comes first.
fn joined(up: &[&[u8]]) -> Vec<u8> {
    let mut path = Vec::new();
    for name in up.iter().rev().filter(|name| !name.is_empty()) {
        append(&mut path, name);
    }
    path
}
