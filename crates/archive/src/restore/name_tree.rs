//! A map from paths to values that supports renaming and removing whole directories. Each directory
//! stores names, not paths, so memory does not grow with depth times path length.

use std::collections::BTreeMap;

use base::path::components;

/// A map from paths below a directory to values.
#[derive(Debug)]
pub(super) struct NameTree<T>(Vec<Node<T>>);

#[derive(Debug)]
struct Node<T> {
    known: Option<T>,
    below: BTreeMap<Box<[u8]>, usize>,
}

impl<T> Default for Node<T> {
    fn default() -> Node<T> {
        Node {
            known: None,
            below: BTreeMap::new(),
        }
    }
}

impl<T> Default for NameTree<T> {
    fn default() -> NameTree<T> {
        NameTree(vec![Node::default()])
    }
}

impl<T: Copy> NameTree<T> {
    /// The existing nodes from the root to a path, and whether they cover the whole path.
    fn along(&self, path: &[u8]) -> (Vec<usize>, bool) {
        let mut nodes = vec![0];
        for name in components(path) {
            match self.0[nodes[nodes.len() - 1]].below.get(name) {
                Some(&node) => nodes.push(node),
                None => return (nodes, false),
            }
        }
        (nodes, true)
    }

    fn find(&self, path: &[u8]) -> Option<usize> {
        let (nodes, is_whole) = self.along(path);
        nodes.last().copied().filter(|_| is_whole)
    }

    pub(super) fn get(&self, path: &[u8]) -> Option<&T> {
        self.0[self.find(path)?].known.as_ref()
    }

    /// The values of a path and its ancestors.
    pub(super) fn get_along(&self, path: &[u8]) -> impl Iterator<Item = &T> {
        let (nodes, _) = self.along(path);
        let known = nodes.into_iter().map(|node| self.0[node].known.as_ref());
        known.flatten()
    }

    /// The value of a path or else of its nearest ancestor with a value, and the rest of the path.
    pub(super) fn nearest<'a>(&self, path: &'a [u8]) -> Option<(&T, &'a [u8])> {
        let (nodes, _) = self.along(path);
        let known = |at: usize| Some((at, self.0[nodes[at]].known.as_ref()?));
        let (depth, known) = (0..nodes.len()).rev().find_map(known)?;
        let mut rest = path;
        for _ in 0..depth {
            rest = split_first(rest).1;
        }
        Some((known, rest))
    }

    /// The names in a directory that have values.
    pub(super) fn children(&self, dir: &[u8]) -> impl Iterator<Item = (&[u8], &T)> {
        let dir = self.find(dir).into_iter();
        let below = dir.flat_map(|dir| &self.0[dir].below);
        below.filter_map(|(name, node)| Some((&name[..], self.0[*node].known.as_ref()?)))
    }

    /// Sets the value of a path; its ancestors without a value get `above`.
    pub(super) fn insert(&mut self, path: &[u8], known: T, above: Option<T>) {
        let node = self.enter(path, above);
        self.0[node].known = Some(known);
    }

    fn enter(&mut self, path: &[u8], above: Option<T>) -> usize {
        let mut node = 0;
        for name in components(path) {
            if node != 0 {
                self.0[node].known = self.0[node].known.or(above);
            }
            node = match self.0[node].below.get(name) {
                Some(&below) => below,
                None => {
                    let new = self.0.len();
                    self.0.push(Node::default());
                    self.0[node].below.insert(name.into(), new);
                    new
                }
            };
        }
        node
    }

    /// Detaches a path and everything below it from its directory.
    fn take(&mut self, path: &[u8]) -> Option<usize> {
        let (nodes, true) = self.along(path) else {
            return None;
        };
        match (&nodes[..], components(path).last()) {
            (&[.., dir, _], Some(name)) => self.0[dir].below.remove(name),
            _ => None,
        }
    }

    /// Removes a path and everything below it; returns the value of the path, and those below it.
    pub(super) fn remove(&mut self, path: &[u8]) -> (Option<T>, Vec<T>) {
        let taken = self.take(path);
        let (mut own, mut values, mut left) = (None, Vec::new(), Vec::from_iter(taken));
        while let Some(node) = left.pop() {
            let Node { known, below } = std::mem::take(&mut self.0[node]);
            match Some(node) == taken {
                true => own = known,
                false => values.extend(known),
            }
            left.extend(below.into_values());
        }
        (own, values)
    }

    /// Moves a path and everything below it to another path. Values that exist below the other path
    /// under different names stay.
    pub(super) fn rename(&mut self, from: &[u8], to: &[u8]) {
        let Some(taken) = self.take(from) else { return };
        let mut left = vec![(taken, self.enter(to, None))];
        while let Some((from, to)) = left.pop() {
            let Node { known, below } = std::mem::take(&mut self.0[from]);
            self.0[to].known = known.or(self.0[to].known);
            for (name, node) in below {
                match self.0[to].below.get(&name) {
                    Some(&other) => left.push((node, other)),
                    None => drop(self.0[to].below.insert(name, node)),
                }
            }
        }
    }
}

/// The first component of a path, and the rest.
fn split_first(path: &[u8]) -> (&[u8], &[u8]) {
    let start = path.iter().take_while(|byte| **byte == b'/').count();
    let end = path[start..].iter().position(|&byte| byte == b'/');
    let (name, rest) = path[start..].split_at(end.unwrap_or(path.len() - start));
    (name, rest.strip_prefix(b"/").unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum TreeStep {
        Insert(String, u8),
        Remove(String),
        Rename(String, String),
    }

    fn steps() -> impl Strategy<Value = Vec<TreeStep>> {
        let path = || "[ab](/[ab]){0,2}";
        let step = prop_oneof![
            (path(), any::<u8>()).prop_map(|(path, known)| TreeStep::Insert(path, known)),
            path().prop_map(TreeStep::Remove),
            (path(), path()).prop_map(|(from, to)| TreeStep::Rename(from, to)),
        ];
        proptest::collection::vec(step, 0..12)
    }

    proptest! {
        #[test]
        fn names_are_kept_as_in_a_list_of_paths(steps in steps()) {
            let mut tree = NameTree::default();
            let mut list: BTreeMap<String, u8> = BTreeMap::new();
            let is_in = |path: &str, dir: &str| {
                path.strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            for step in steps {
                match step {
                    TreeStep::Insert(path, known) => {
                        tree.insert(path.as_bytes(), known, None);
                        list.insert(path, known);
                    }
                    TreeStep::Remove(dir) => {
                        let below = list.keys().filter(|path| is_in(path, &dir) && **path != dir);
                        prop_assert_eq!(below.count(), tree.remove(dir.as_bytes()).1.len());
                        list.retain(|path, _| !is_in(path, &dir));
                    }
                    // A directory cannot be moved into itself.
                    TreeStep::Rename(from, to) if is_in(&to, &from) || is_in(&from, &to) => {}
                    TreeStep::Rename(from, to) => {
                        tree.rename(from.as_bytes(), to.as_bytes());
                        let (moved, rest): (BTreeMap<_, _>, _) =
                            list.into_iter().partition(|(path, _)| is_in(path, &from));
                        list = rest;
                        let moved = moved.into_iter();
                        list.extend(moved.map(|(path, known)| (to.clone() + &path[from.len()..], known)));
                    }
                }
                for path in ["a", "b", "a/a", "a/b", "b/a", "b/b", "a/a/a", "b/a/b", "a/b/a/b"] {
                    prop_assert_eq!(tree.get(path.as_bytes()), list.get(path), "{}", path);
                    let above = list.iter().filter(|(above, _)| is_in(path, above));
                    let nearest = above.max_by_key(|(above, _)| above.len());
                    let nearest = nearest.map(|(above, known)| (known, path[above.len()..].trim_start_matches('/').as_bytes()));
                    prop_assert_eq!(tree.nearest(path.as_bytes()), nearest, "{}", path);
                }
                let children = tree.children(b"a").map(|(name, known)| (format!("a/{}", name[0] as char), *known));
                let expected = list.iter().filter(|(path, _)| path.starts_with("a/") && path.len() == 3);
                prop_assert!(children.eq(expected.map(|(path, known)| (path.clone(), *known))));
            }
        }
    }
}
