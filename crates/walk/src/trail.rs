//! The directories along a path, for work that goes from directory to directory: the next path mostly begins as the last
//! one, and only the rest of it is looked at or kept. Memory and time do not grow with the product of depth and length.

/// What is known of each directory along the last path.
#[derive(Clone, Debug)]
pub(crate) struct Trail<T> {
    /// The last path, with a slash at its end.
    path: Vec<u8>,
    /// For each of its components, the length of the path down to it, and what is known.
    steps: Vec<(usize, T)>,
}

impl<T> Default for Trail<T> {
    fn default() -> Trail<T> {
        Trail {
            path: Vec::new(),
            steps: Vec::new(),
        }
    }
}

impl<T> Trail<T> {
    /// Turns to another path. `next` tells what is known of a directory, from what is known of the one above it and from
    /// its name, which has a slash at its end.
    pub(crate) fn turn_to(&mut self, path: &[u8], mut next: impl FnMut(Option<&T>, &[u8]) -> T) {
        let mut common = common_prefix(&self.path, path);
        if common == path.len() && self.path.get(common) == Some(&b'/') {
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

    /// The last path, with a slash at its end.
    pub(crate) fn path(&self) -> &[u8] {
        &self.path
    }

    /// What is known of the last directory; `None` for an empty path.
    pub(crate) fn last(&self) -> Option<&T> {
        self.steps.last().map(|(_, step)| step)
    }
}

/// The length of the common beginning of two paths.
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    const PIECE: usize = 64;
    let pieces = a.chunks(PIECE).zip(b.chunks(PIECE));
    let whole = pieces.take_while(|(a, b)| a == b).count() * PIECE;
    let whole = whole.min(a.len()).min(b.len());
    let rest = a[whole..].iter().zip(&b[whole..]);
    whole + rest.take_while(|(a, b)| a == b).count()
}

/// Paths of directories that come mostly in the order of a walk: only their names are kept.
#[derive(Debug, Default)]
pub struct PathTree {
    /// The directory above each, and the end of its name in `names`, where that of the next one begins.
    nodes: Vec<(Option<usize>, usize)>,
    names: Vec<u8>,
    trail: Trail<usize>,
}

/// A path in a [`PathTree`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeptPath {
    node: Option<usize>,
    /// In bytes.
    len: usize,
}

impl PathTree {
    /// Keeps a path.
    pub fn add(&mut self, path: &[u8]) -> KeptPath {
        let (nodes, names) = (&mut self.nodes, &mut self.names);
        self.trail.turn_to(path, |above, name| {
            names.extend_from_slice(name);
            nodes.push((above.copied(), names.len()));
            nodes.len() - 1
        });
        KeptPath {
            node: self.trail.last().copied(),
            len: path.len(),
        }
    }

    /// Replaces `path` by a path that was kept.
    pub fn get(&self, kept: KeptPath, path: &mut Vec<u8>) {
        let above = |&node: &usize| self.nodes.get(node)?.0;
        let nodes: Vec<usize> = std::iter::successors(kept.node, above).collect();
        path.clear();
        for node in nodes.into_iter().rev() {
            let from = node.checked_sub(1).map_or(0, |before| self.nodes[before].1);
            path.extend_from_slice(&self.names[from..self.nodes[node].1]);
        }
        path.truncate(kept.len);
    }

    /// Takes the paths of another tree, which become those that the returned function tells.
    pub fn append(&mut self, other: PathTree) -> impl Fn(KeptPath) -> KeptPath + use<> {
        let (nodes, names) = (self.nodes.len(), self.names.len());
        let moved = move |node: Option<usize>| node.map(|node| node + nodes);
        let others = other.nodes.into_iter();
        self.nodes
            .extend(others.map(|(above, end)| (moved(above), end + names)));
        self.names.extend(other.names);
        move |kept| KeptPath {
            node: moved(kept.node),
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
            paths in proptest::collection::vec("/?([ab/]{0,3}/?){0,4}", 0..20),
            split in any::<prop::sample::Index>(),
        ) {
            let (some, others) = paths.split_at(split.index(paths.len() + 1));
            let (mut tree, mut other) = (PathTree::default(), PathTree::default());
            let mut kept: Vec<KeptPath> = some.iter().map(|path| tree.add(path.as_bytes())).collect();
            let others: Vec<KeptPath> = others.iter().map(|path| other.add(path.as_bytes())).collect();
            kept.extend(others.into_iter().map(tree.append(other)));
            let mut path = b"before".to_vec();
            for (expected, kept) in paths.iter().zip(kept) {
                tree.get(kept, &mut path);
                prop_assert_eq!(&path, expected.as_bytes());
            }
        }
    }

    #[test]
    fn nested_directories_take_memory_for_their_names_only() {
        let (mut tree, mut path) = (PathTree::default(), b"/srv".to_vec());
        for _ in 0..2000 {
            path.push(b'/');
            path.extend([b'd'; 200]);
            tree.add(&path);
        }
        assert_eq!(tree.names.len(), path.len() + 1);
    }
}
