//! Follows the names of files through the renames of increments.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::list::is_within;
use crate::pattern::ends;

/// Renames of directories in order, as pairs of old and new name. The temporary directory is named
/// by a NUL.
pub(super) type Renames = Vec<(Vec<u8>, Vec<u8>)>;

/// The name of a file after a rename of the directory `old`.
pub(super) fn after(name: Vec<u8>, old: &[u8], new: &[u8]) -> Vec<u8> {
    match name.strip_prefix(old) {
        Some(rest @ ([] | [b'/', ..])) => [new, rest].concat(),
        _ => name,
    }
}

/// Maps names at one time to names of the same files at another time. Files below a name move with
/// it, unless the map has a longer name for them; an unmapped file keeps its name. `None`: the file
/// does not exist at the other time.
///
/// Keys have NUL instead of slash, so that a name sorts directly before all names below it.
#[derive(Clone, Debug, Default)]
pub(super) struct NameMap(BTreeMap<Vec<u8>, Option<Vec<u8>>>);

impl NameMap {
    pub(super) fn place_of(&self, name: &[u8]) -> Option<Vec<u8>> {
        let key = key(name);
        match ends(&key, 0).find_map(|end| Some((end, self.0.get(&key[..end])?))) {
            None => Some(name.to_vec()),
            Some((end, to)) => to.as_ref().map(|to| [to, &name[end..]].concat()),
        }
    }

    /// The mapped names of entries below a name that do not move with it.
    pub(super) fn below(&self, name: &[u8]) -> impl Iterator<Item = &[u8]> {
        let mut prefix = key(name);
        if !prefix.is_empty() {
            prefix.push(0);
        }
        self.starting_with(prefix)
            .filter_map(|(_, to)| to.as_deref())
    }

    /// Extends the map by a rename: `from` maps to what `to` has mapped to so far, with everything
    /// below, and `to` maps to no file.
    pub(super) fn carry(&mut self, from: &[u8], to: &[u8]) {
        if from.is_empty() || to.is_empty() || is_within(from, to) || is_within(to, from) {
            return;
        }
        let whole = self.place_of(to);
        let (from, to) = (key(from), key(to));
        self.take(&from);
        for (name, place) in self.take(&to) {
            self.0.insert([&from, &name[to.len()..]].concat(), place);
        }
        self.0.insert(from, whole);
        self.0.insert(to, None);
    }

    /// The entries whose keys start with a prefix.
    fn starting_with(&self, prefix: Vec<u8>) -> impl Iterator<Item = (&Vec<u8>, &Option<Vec<u8>>)> {
        let from = (Bound::Included(prefix.clone()), Bound::Unbounded);
        self.0
            .range(from)
            .take_while(move |(key, _)| key.starts_with(&prefix))
    }

    /// Removes a key and all keys below it.
    fn take(&mut self, key: &[u8]) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let is_below = |name: &[u8]| matches!(name[key.len()..], [] | [0, ..]);
        let all = self.starting_with(key.to_vec()).map(|(name, _)| name);
        let tree: Vec<_> = all.filter(|name| is_below(name)).cloned().collect();
        tree.into_iter()
            .filter_map(|name| self.0.remove_entry(&name))
            .collect()
    }
}

/// Converts a name to a key: NUL instead of slash.
fn key(path: &[u8]) -> Vec<u8> {
    let mut key = path.to_vec();
    key.iter_mut().filter(|b| **b == b'/').for_each(|b| *b = 0);
    key
}
