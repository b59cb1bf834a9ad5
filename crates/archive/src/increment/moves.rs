//! Which directories of the tree as it was a restore can keep, and what brings each to where it is
//! now.
//!
//! GNU tar renames directories before it looks at anything else of an increment: one after the
//! other, in the tree as it was then. So the renames are thought through here in that tree, from
//! above: a directory can be kept if the one that it is now in is kept, and so it comes into that.
//! A directory in its way may be about to move itself, so it waits for that. If that does not help,
//! the one in the way is put into the other, under a name that is free: it can still move on from
//! there, and if it does not, it is purged, since what has moved is in the archive with the names
//! that are in it. What cannot be kept is dumped anew.
//!
//! (GNU tar has a temporary directory for such cases. But it makes it in another place than it
//! renames in when it is told where to extract, with `-C`.)

use std::collections::{BTreeSet, HashMap};

use walk::digest;
use walk::entry::append;

/// A directory as it is now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dir<'a> {
    /// The directory that it is in, by its place among all, which is before its own; a top is in
    /// itself.
    pub(super) parent: u32,
    /// Its name there.
    pub(super) name: &'a [u8],
    /// What stands for the path that it had below the same top; `None` if it was not there. A top
    /// always was. No two are the same.
    pub(super) was: Option<u64>,
}

/// A path as it was below its top: the directory, and the name in it.
pub(super) type OldName = (Vec<u8>, Vec<u8>);

/// A rename in the tree as it was, below a top.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Step {
    /// The top, by its place among all directories.
    pub(super) top: u32,
    /// Where something is when it is this step's turn.
    pub(super) from: Vec<u8>,
    /// Where it comes to. Nothing is there.
    pub(super) to: Vec<u8>,
}

/// What is kept.
#[derive(Debug)]
pub(super) struct Moves {
    /// For each directory that is kept, what stands for the path that it had.
    pub(super) kept: Vec<Option<u64>>,
    /// For each that is not: whether another directory is in its place.
    pub(super) is_taken: Vec<bool>,
    /// What brings those that are kept to their places, in this order.
    pub(super) steps: Vec<Step>,
}

/// Works out the renames. `unmoved` are the directories that are where they were, and so is
/// everything above them; of the others that were there, `old` has the names that they had.
/// `was_dir` says of what stands for a path whether something was there, and whether that was a
/// directory.
pub(super) fn moves(
    dirs: &[Dir<'_>],
    unmoved: &[bool],
    old: HashMap<u64, OldName>,
    was_dir: impl Fn(u64) -> Option<bool>,
) -> Moves {
    let mut tops: Vec<u32> = Vec::with_capacity(dirs.len());
    let mut below: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut ready = Vec::new();
    let mut homeless = HashMap::new();
    for (at, dir) in (0..).zip(dirs) {
        tops.push(if dir.parent == at {
            at
        } else {
            tops[dir.parent as usize]
        });
        if let Some(was) = dir
            .was
            .filter(|was| !unmoved[at as usize] && old.contains_key(was))
        {
            homeless.insert(was, at);
            if unmoved[dir.parent as usize] {
                ready.push(at);
            } else {
                below.entry(dir.parent).or_default().push(at);
            }
        }
    }
    ready.reverse(); // taken from the end
    let kept = dirs
        .iter()
        .zip(unmoved)
        .map(|(dir, unmoved)| dir.was.filter(|_| *unmoved))
        .collect();
    let mut tree = Tree {
        dirs,
        tops,
        old,
        was_dir,
        kept,
        moved: HashMap::new(),
        came: HashMap::new(),
        steps: Vec::new(),
    };

    // Those that something is in the way of, in order, and by the place that they are to come to.
    let mut waiting: BTreeSet<u32> = BTreeSet::new();
    let mut wanted: HashMap<(u64, Vec<u8>), u32> = HashMap::new();
    loop {
        while let Some(at) = ready.pop() {
            let Some((place, left)) = tree.bring(at) else {
                continue;
            };
            if tree.kept[at as usize].is_none() {
                waiting.insert(at);
                wanted.insert((place.0, place.1.to_vec()), at);
                continue;
            }
            ready.extend(below.remove(&at).into_iter().flatten().rev());
            // The place that it has left is free for another.
            let next = left.and_then(|left| wanted.remove(&left));
            ready.extend(next.filter(|next| waiting.remove(next)));
        }
        let Some(at) = waiting.pop_first() else { break };
        if let Some(other) = tree.make_way(at) {
            // The place that it leaves may be where that wants to be.
            ready.extend(homeless.get(&other).filter(|other| waiting.remove(other)));
            ready.push(at);
        }
    }
    let is_taken = (0..dirs.len() as u32).map(|at| tree.is_taken(at)).collect();
    Moves {
        kept: tree.kept,
        is_taken,
        steps: tree.steps,
    }
}

/// The tree as it was, and what has been moved in it. What was there goes by what stands for the
/// path that it had.
struct Tree<'a, W> {
    dirs: &'a [Dir<'a>],
    /// The top of each of them.
    tops: Vec<u32>,
    old: HashMap<u64, OldName>,
    was_dir: W,
    kept: Vec<Option<u64>>,
    /// Where directories are that have been moved: the old path of the directory that each is in
    /// now, and its name there.
    moved: HashMap<u64, OldName>,
    /// The same from the other side.
    came: HashMap<(u64, Vec<u8>), u64>,
    steps: Vec<Step>,
}

impl<'a, W: Fn(u64) -> Option<bool>> Tree<'a, W> {
    /// Brings a directory to its place, if nothing is there; gives that place, and the one that it
    /// has left.
    #[allow(clippy::type_complexity, reason = "two places")]
    fn bring(&mut self, at: u32) -> Option<((u64, &'a [u8]), Option<(u64, Vec<u8>)>)> {
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

    /// Puts the directory that is in another one's way into that one; gives which. Nothing but
    /// directories is ever renamed.
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
            // Out of it, to be beside it.
            let beside = self.free_name(dir);
            let place = joined(&[&beside, &self.path(parent)]);
            self.step(at, from, place.clone());
            self.came.remove(&(self.hash(at, &from_dir), from_name));
            self.put(was, (to_dir, beside), dir);
            from = place;
        }
        let aside = self.free_name(was);
        self.step(at, to, joined(&[&aside, &from]));
        self.came.remove(&(dir, name.to_vec()));
        let old_path = self.old.get(&was).map(|(dir, name)| joined(&[name, dir]))?;
        self.put(other, (old_path, aside), was);
        Some(other)
    }

    /// A name that is free by now in a directory.
    fn free_name(&self, dir: u64) -> Vec<u8> {
        let mut names = (0u64..).map(|n| format!(".fathom-{n}").into_bytes());
        names
            .find(|name| self.occupant(dir, name).is_none())
            .unwrap_or_default()
    }

    fn step(&mut self, at: u32, from: Vec<u8>, to: Vec<u8>) {
        self.steps.push(Step {
            top: self.tops[at as usize],
            from,
            to,
        });
    }

    /// Something is at a place by now.
    fn put(&mut self, was: u64, place: OldName, dir: u64) {
        self.came.insert((dir, place.1.clone()), was);
        self.moved.insert(was, place);
    }

    /// Where a directory is by now.
    fn spot(&self, was: u64) -> Option<&OldName> {
        self.moved.get(&was).or_else(|| self.old.get(&was))
    }

    /// What is at a place by now; `None` for nothing.
    fn occupant(&self, dir: u64, name: &[u8]) -> Option<u64> {
        let stayed = || Some(digest::below(dir, name)).filter(|was| !self.moved.contains_key(was));
        let came = self.came.get(&(dir, name.to_vec())).copied();
        came.or_else(|| stayed().filter(|&was| (self.was_dir)(was).is_some()))
    }

    /// Whether another directory is in the place of one that is not kept.
    fn is_taken(&self, at: u32) -> bool {
        let Dir { parent, name, .. } = self.dirs[at as usize];
        let dir = self.kept[parent as usize].filter(|_| self.kept[at as usize].is_none());
        dir.and_then(|dir| self.occupant(dir, name))
            .is_some_and(|other| (self.was_dir)(other) == Some(true))
    }

    /// What stands for a path as it was, below a directory's top.
    fn hash(&self, at: u32, path: &[u8]) -> u64 {
        let top = self.dirs[self.tops[at as usize] as usize]
            .was
            .unwrap_or_default();
        names(path).fold(top, digest::below)
    }

    /// The path of a directory as it is now.
    fn path(&self, at: u32) -> Vec<u8> {
        let (mut at, mut up) = (at, Vec::new());
        while self.dirs[at as usize].parent != at {
            up.push(self.dirs[at as usize].name);
            at = self.dirs[at as usize].parent;
        }
        joined(&up)
    }

    /// The path that a directory had that is kept.
    fn old_path(&self, at: u32) -> Vec<u8> {
        match self.kept[at as usize].and_then(|was| self.old.get(&was)) {
            Some((dir, name)) => joined(&[&name[..], &dir[..]]),
            None => self.path(at), // not moved
        }
    }

    /// The path by which a place can be reached by now, in a directory that had a path; and whether
    /// that leads through `through`.
    fn locate(&self, at: u32, dir: &[u8], name: &[u8], through: u64) -> (Vec<u8>, bool) {
        let (mut dir, mut up, mut leads_through) = (dir, vec![name], false);
        'dir: loop {
            let mut hash = self.hash(at, b"");
            let on_the_way: Vec<(u64, &[u8])> = names(dir)
                .map(|name| {
                    hash = digest::below(hash, name);
                    (hash, name)
                })
                .collect();
            for (hash, name) in on_the_way.into_iter().rev() {
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

fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&b| b == b'/').filter(|name| !name.is_empty())
}

/// A path of names, the last one first.
fn joined(up: &[&[u8]]) -> Vec<u8> {
    let mut path = Vec::new();
    up.iter()
        .rev()
        .filter(|name| !name.is_empty())
        .for_each(|name| append(&mut path, name));
    path
}
