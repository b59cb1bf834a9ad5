//! Elements of two lists that belong together.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// The elements of two lists, by their keys.
pub(super) struct Paired<'a, T> {
    /// Those with a key that both lists have.
    pub(super) both: Vec<(&'a T, &'a T)>,
    /// Those with a key that only the old list has.
    pub(super) removed: Vec<&'a T>,
    /// Those with a key that only the new list has.
    pub(super) added: Vec<&'a T>,
}

impl<'a, T> Paired<'a, T> {
    /// Pairs elements of the same key. Several elements of one key are paired in their order;
    /// elements without a key are left out.
    pub(super) fn new<K: Hash + Eq + Clone>(
        old: &'a [T],
        new: &'a [T],
        key: impl Fn(&T) -> Option<K>,
    ) -> Paired<'a, T> {
        let (old, new) = (keyed(old, &key), keyed(new, &key));
        let by_key: HashMap<_, _> = new.iter().map(|(key, item)| (key, *item)).collect();
        let old_keys: HashSet<_> = old.iter().map(|(key, _)| key).collect();
        let mut paired = Paired {
            both: Vec::new(),
            removed: Vec::new(),
            added: Vec::new(),
        };
        for (key, item) in &old {
            match by_key.get(key) {
                Some(&other) => paired.both.push((*item, other)),
                None => paired.removed.push(*item),
            }
        }
        let added = new.iter().filter(|(key, _)| !old_keys.contains(key));
        paired.added.extend(added.map(|&(_, item)| item));
        paired
    }
}

/// Each element with its key, and with how many times that key has occurred.
fn keyed<'a, T, K: Hash + Eq + Clone>(
    list: &'a [T],
    key: &impl Fn(&T) -> Option<K>,
) -> Vec<((K, usize), &'a T)> {
    let mut seen: HashMap<K, usize> = HashMap::new();
    let keyed = list.iter().filter_map(|item| {
        let key = key(item)?;
        let times = seen.entry(key.clone()).or_default();
        *times += 1;
        Some(((key, *times), item))
    });
    keyed.collect()
}
