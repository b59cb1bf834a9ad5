//! State per directory along a path, for work that goes from directory to directory: the next path
//! mostly begins like the last one, so only the rest of it is processed or stored. Memory and time
//! do not grow with the product of depth and length.

use std::cmp::Ordering;
use std::hash::BuildHasher;

use foldhash::HashMap;
use foldhash::fast::RandomState;

/// A value of type `T` for each directory along the last path.
#[derive(Clone, Debug)]
pub(crate) struct PathStack<T> {
    /// The last path, ending with a slash.
    path: Vec<u8>,
    /// For each component of `path`, the length of the path up to its end, and the value.
    steps: Vec<(usize, T)>,
}

impl<T> Default for PathStack<T> {
    fn default() -> PathStack<T> {
        PathStack {
            path: Vec::new(),
            steps: Vec::new(),
        }
    }
}

impl<T> PathStack<T> {
    /// Makes `path` the current path. `next` computes the value of a directory from the value of
    /// its parent and from its name, which ends with a slash.
    pub(crate) fn turn_to(&mut self, path: &[u8], mut next: impl FnMut(Option<&T>, &[u8]) -> T) {
        let mut common = common_prefix(&self.path, path);
        let ends_in_name = path.last().is_some_and(|&byte| byte != b'/');
        if ends_in_name && common == path.len() && self.path.get(common) == Some(&b'/') {
            common += 1;
        }
        while self.steps.pop_if(|(end, _)| *end > common).is_some() {}
        let mut end = self.steps.last().map_or(0, |(end, _)| *end);
        self.path.truncate(end);
        self.path
            .extend_from_slice(path.get(end..).unwrap_or_default());
        if !path.is_empty() && !self.path.ends_with(b"/") {
            self.path.push(b'/');
        }
        for name in self.path[end..].split_inclusive(|&byte| byte == b'/') {
            end += name.len();
            let step = next(self.steps.last().map(|(_, step)| step), name);
            self.steps.push((end, step));
        }
    }

    pub(crate) fn path(&self) -> &[u8] {
        &self.path
    }

    /// The value of the last directory; `None` for an empty path.
    pub(crate) fn last(&self) -> Option<&T> {
        self.steps.last().map(|(_, step)| step)
    }
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    const PIECE: usize = 64;
    let pieces = a.chunks(PIECE).zip(b.chunks(PIECE));
    let whole = pieces.take_while(|(a, b)| a == b).count() * PIECE;
    let whole = whole.min(a.len()).min(b.len());
    let rest = a[whole..].iter().zip(&b[whole..]);
    whole + rest.take_while(|(a, b)| a == b).count()
}

/// A set of paths, stored as a tree of names: a name is stored once per directory.
#[derive(Debug, Default)]
pub struct PathTree {
    nodes: Nodes,
    trail: PathStack<u32>,
}

/// A path in a [`PathTree`]. Equal paths of one tree compare equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct KeptPath {
    /// Index of the node of the last component; `None` for an empty path.
    node: Option<u32>,
    len: usize,
}

#[derive(Debug, Default)]
struct Nodes {
    nodes: Vec<PathNode>,
    names: Vec<u8>,
    state: RandomState,
    /// Index of the last node, by the hash of its name and its parent.
    last: HashMap<u64, u32>,
}

/// A component of a path.
#[derive(Debug)]
struct PathNode {
    above: Option<u32>,
    /// The previous node with the same hash: nodes with equal hashes form a linked list.
    same: Option<u32>,
    depth: u32,
    /// End of the name in [`Nodes::names`]; it begins where that of the previous node ends. The
    /// name ends with a slash.
    end: usize,
    /// Length of the whole path.
    len: usize,
}

impl Nodes {
    /// Finds or adds a name below the node `above`.
    fn child(&mut self, above: Option<u32>, name: &[u8]) -> u32 {
        let hash = self.state.hash_one((above, name));
        let known = self.last.get(&hash).copied();
        let mut same = std::iter::successors(known, |&node| self.node(node).same);
        if let Some(found) =
            same.find(|&node| self.node(node).above == above && self.name(node) == name)
        {
            return found;
        }
        let (depth, len) = above.map_or((0, 0), |above| {
            let above = self.node(above);
            (above.depth + 1, above.len)
        });
        self.names.extend_from_slice(name);
        let new = self.nodes.len() as u32;
        self.nodes.push(PathNode {
            above,
            same: known,
            depth,
            end: self.names.len(),
            len: len + name.len(),
        });
        self.last.insert(hash, new);
        new
    }

    fn node(&self, node: u32) -> &PathNode {
        &self.nodes[node as usize]
    }

    fn name(&self, node: u32) -> &[u8] {
        let before = node.checked_sub(1);
        let from = before.map_or(0, |before| self.node(before).end);
        &self.names[from..self.node(node).end]
    }

    /// The name of a component of `path`, with a slash at its end if the path has one there.
    fn name_in(&self, node: u32, path: KeptPath) -> &[u8] {
        let name = self.name(node);
        let is_last = path.node == Some(node);
        let left_out = if is_last {
            self.node(node).len - path.len
        } else {
            0
        };
        &name[..name.len() - left_out]
    }
}

impl PathTree {
    /// Adds a path to the tree.
    pub fn add(&mut self, path: &[u8]) -> KeptPath {
        let nodes = &mut self.nodes;
        self.trail
            .turn_to(path, |above, name| nodes.child(above.copied(), name));
        KeptPath {
            node: self.trail.last().copied(),
            len: path.len(),
        }
    }

    /// Writes the path `kept` to `path`, replacing its contents.
    pub fn get(&self, kept: KeptPath, path: &mut Vec<u8>) {
        let above = |&node: &u32| self.nodes.node(node).above;
        let nodes: Vec<u32> = std::iter::successors(kept.node, above).collect();
        path.clear();
        for node in nodes.into_iter().rev() {
            path.extend_from_slice(self.nodes.name(node));
        }
        path.truncate(kept.len);
    }

    /// The path, as bytes.
    pub fn path(&self, kept: KeptPath) -> Vec<u8> {
        let mut path = Vec::new();
        self.get(kept, &mut path);
        path
    }

    pub(crate) fn bytes(&self) -> usize {
        self.nodes.names.len() + self.nodes.nodes.len() * size_of::<PathNode>()
    }

    /// The parent directory of a path, without a slash at its end.
    pub fn parent(&self, path: KeptPath) -> Option<KeptPath> {
        let node = self.nodes.node(path.node?).above?;
        Some(KeptPath {
            node: Some(node),
            len: (self.nodes.node(node).len - 1).max(1),
        })
    }

    /// Compares two paths byte by byte.
    pub fn compare(&self, a: KeptPath, b: KeptPath) -> Ordering {
        let (Some(mut x), Some(mut y)) = (a.node, b.node) else {
            return a.len.cmp(&b.len);
        };
        let depth = |node| self.nodes.node(node).depth;
        let above = |node| self.nodes.node(node).above.unwrap_or(node);
        while depth(x) > depth(y) {
            x = above(x);
        }
        while depth(y) > depth(x) {
            y = above(y);
        }
        if x == y {
            return a.len.cmp(&b.len);
        }
        while self.nodes.node(x).above != self.nodes.node(y).above {
            (x, y) = (above(x), above(y));
        }
        self.nodes.name_in(x, a).cmp(self.nodes.name_in(y, b))
    }

    /// Adds all paths of another tree. The returned function converts a path of that tree into one
    /// of this.
    pub fn append(&mut self, other: PathTree) -> impl Fn(KeptPath) -> KeptPath + use<> {
        let mut moved: Vec<u32> = Vec::with_capacity(other.nodes.nodes.len());
        for (node, PathNode { above, .. }) in (0..).zip(&other.nodes.nodes) {
            let above = above.map(|above| moved[above as usize]);
            moved.push(self.nodes.child(above, other.nodes.name(node)));
        }
        move |kept| KeptPath {
            node: kept.node.map(|node| moved[node as usize]),
            ..kept
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn paths_are_kept_exactly_in_any_order(
            paths in proptest::collection::vec("/?([ab/-]{0,3}/?){0,4}", 0..20),
            split in any::<prop::sample::Index>(),
        ) {
            let (some, others) = paths.split_at(split.index(paths.len() + 1));
            let (mut tree, mut other) = (PathTree::default(), PathTree::default());
            let mut kept: Vec<KeptPath> = some.iter().map(|path| tree.add(path.as_bytes())).collect();
            let others: Vec<KeptPath> = others.iter().map(|path| other.add(path.as_bytes())).collect();
            kept.extend(others.into_iter().map(tree.append(other)));
            let mut path = b"before".to_vec();
            for (expected, &path_of) in paths.iter().zip(&kept) {
                tree.get(path_of, &mut path);
                prop_assert_eq!(&path, expected.as_bytes());
                for (other, &path_of_other) in paths.iter().zip(&kept) {
                    prop_assert_eq!(tree.compare(path_of, path_of_other), expected.cmp(other));
                    prop_assert_eq!(path_of == path_of_other, expected == other);
                }
            }
        }
    }

    #[test]
    fn nested_directories_take_memory_for_their_names_only() {
        let mut tree = PathTree::default();
        let mut paths = [b"/srv/a".to_vec(), b"/srv/b".to_vec()];
        for _ in 0..500 {
            for path in &mut paths {
                path.push(b'/');
                path.extend([b'd'; 200]);
                tree.add(path);
            }
        }
        let names: usize = paths.iter().map(|path| path.len() + 1).sum();
        assert_eq!(tree.nodes.names.len(), names - b"/srv/".len());
    }
}
