//! Members and elements of two JSON documents that belong together.

use std::collections::HashMap;
use std::hash::Hash;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// A value of the old document and the value of the new one.
pub(super) type Pair<'a> = [&'a Value; 2];

/// A member of both values; null where a value has no such member.
pub(super) fn member<'a>(pair: Pair<'a>, key: &str) -> Pair<'a> {
    pair.map(|value| &value[key])
}

/// A member of both values, if both have it as a number.
pub(super) fn numbers(pair: Pair<'_>, key: &str) -> Option<[f64; 2]> {
    let [old, new] = member(pair, key);
    Some([old.as_f64()?, new.as_f64()?])
}

/// The bytes of a name: from its `_b64` member, which exists where the name is not UTF-8.
pub(super) fn exact_name(value: &Value, key: &str) -> Option<Vec<u8>> {
    let coded = value[format!("{key}_b64")].as_str();
    let exact = coded.and_then(|coded| STANDARD.decode(coded).ok());
    exact.or_else(|| Some(value[key].as_str()?.as_bytes().to_vec()))
}

/// The elements of two lists, by their keys.
pub(super) struct Paired<'a> {
    /// Those with a key that both lists have.
    pub(super) both: Vec<Pair<'a>>,
    /// Those with a key that only the old list has.
    pub(super) removed: Vec<&'a Value>,
    /// Those with a key that only the new list has.
    pub(super) added: Vec<&'a Value>,
}

impl<'a> Paired<'a> {
    /// Pairs elements of the same key. Several elements of one key are paired in their order;
    /// elements without a key are left out.
    pub(super) fn new<K: Hash + Eq + Clone>(
        lists: Pair<'a>,
        key: impl Fn(&'a Value) -> Option<K>,
    ) -> Paired<'a> {
        let [old, new] = lists.map(|list| keyed(list, &key));
        let mut unpaired: HashMap<_, _> = new.iter().cloned().collect();
        let (mut both, mut removed) = (Vec::new(), Vec::new());
        for (key, element) in old {
            match unpaired.remove(&key) {
                Some(other) => both.push([element, other]),
                None => removed.push(element),
            }
        }
        let added = new.iter().filter(|(key, _)| unpaired.contains_key(key));
        Paired {
            both,
            removed,
            added: added.map(|(_, element)| *element).collect(),
        }
    }

    /// The number of different elements.
    pub(super) fn len(&self) -> u64 {
        (self.both.len() + self.removed.len() + self.added.len()) as u64
    }
}

/// Each element with its key, and with how many times that key has occurred.
fn keyed<'a, K: Hash + Eq + Clone>(
    list: &'a Value,
    key: impl Fn(&'a Value) -> Option<K>,
) -> Vec<((K, usize), &'a Value)> {
    let mut seen: HashMap<K, usize> = HashMap::new();
    let elements = list.as_array().into_iter().flatten();
    let keyed = elements.filter_map(|element| {
        let key = key(element)?;
        let times = seen.entry(key.clone()).or_default();
        *times += 1;
        Some(((key, *times), element))
    });
    keyed.collect()
}
