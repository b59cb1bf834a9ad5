//! PATH arguments: names and patterns.

use std::collections::BTreeMap;

use walk::predicate::glob::Glob;

/// PATH arguments, found by the members that they select without comparing each.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathArguments {
    pub(crate) given: Vec<PathArgument>,
    /// Index in `given` of each normalized PATH, and of each name that was recorded for a pattern.
    pub(crate) names: BTreeMap<Vec<u8>, usize>,
    /// Indexes in `given` of PATHs with wildcards.
    pub(crate) patterns: Vec<usize>,
}

impl PathArguments {
    /// Adds a PATH and its normalized name. One of several with the same name is kept: `a ./a`.
    pub(crate) fn add(&mut self, given: &[u8], name: Vec<u8>) {
        let path = PathArgument::new(given, name);
        if self.names.contains_key(&path.name) {
            return;
        }
        let at = self.given.len();
        self.patterns.extend(path.pattern.is_some().then_some(at));
        self.names.insert(path.name.clone(), at);
        self.given.push(path);
    }

    /// Marks the PATHs that select a normalized name. Returns whether any does.
    pub(crate) fn mark(&mut self, path: &[u8]) -> bool {
        let mut is_selected = false;
        let named = ends(path, b'/').filter_map(|end| self.names.get(&path[..end]));
        for &at in named {
            self.given[at].is_met = true;
            is_selected = true;
        }
        for &at in &self.patterns {
            let is_match = self.given[at].find(path).is_some();
            self.given[at].is_met |= is_match;
            is_selected |= is_match;
        }
        is_selected
    }

    /// Whether a PATH selects a normalized name.
    pub(crate) fn has(&self, path: &[u8]) -> bool {
        let mut ends = ends(path, b'/');
        ends.any(|end| self.names.contains_key(&path[..end])) || self.matched(path).is_some()
    }

    /// The name that a pattern matches, a path or a directory above it, and the index of the
    /// pattern's PATH.
    pub(crate) fn matched<'a>(&self, path: &'a [u8]) -> Option<(&'a [u8], usize)> {
        let mut patterns = self.patterns.iter();
        patterns.find_map(|&at| Some((self.given[at].find(path)?, at)))
    }
}

/// The lengths of a path and of each of its ancestors, up to the empty one.
pub(crate) fn ends(path: &[u8], slash: u8) -> impl Iterator<Item = usize> {
    let above = path
        .iter()
        .enumerate()
        .rev()
        .filter(move |(_, b)| **b == slash)
        .map(|(at, _)| at);
    std::iter::once(path.len()).chain(above).chain([0])
}

/// A PATH argument: the name of a member, or a pattern.
#[derive(Clone, Debug)]
pub(crate) struct PathArgument {
    /// The PATH as given, for messages.
    pub(crate) given: Vec<u8>,
    /// The normalized PATH: a member may literally have such a name, even with wildcards.
    pub(crate) name: Vec<u8>,
    /// The pattern of a PATH with wildcards.
    pub(crate) pattern: Option<Pattern>,
    /// Whether a member matched.
    pub(crate) is_met: bool,
}

impl PathArgument {
    pub(crate) fn new(given: &[u8], name: Vec<u8>) -> PathArgument {
        PathArgument {
            given: given.to_vec(),
            pattern: Pattern::new(&name),
            name,
            is_met: false,
        }
    }

    /// The directory above all names that a pattern matches; any other PATH itself.
    pub(crate) fn tree(&self) -> &[u8] {
        self.pattern.as_ref().map_or(&self.name[..], Pattern::dir)
    }

    /// The name that the pattern matches: the path itself, or a directory above it.
    pub(crate) fn find<'a>(&self, path: &'a [u8]) -> Option<&'a [u8]> {
        self.pattern.as_ref()?.find(path)
    }
}

/// A PATH with wildcards, which also match slashes, like `--wildcards` of GNU tar.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    glob: Glob,
    /// The longest directory prefix without wildcards, above all matching names.
    dir: Vec<u8>,
    /// A literal part of all matching names: a search for it rejects most names without the glob.
    literal: Vec<u8>,
}

impl Pattern {
    /// Compiles a PATH; `None` if it has no wildcards.
    pub(crate) fn new(path: &[u8]) -> Option<Pattern> {
        let is_wildcard = |byte: &u8| matches!(byte, b'*' | b'?' | b'[');
        path.iter().find(|byte| is_wildcard(byte))?;
        let first = path
            .iter()
            .position(|byte| is_wildcard(byte) || *byte == b'\\')?;
        let end = path[..first].iter().rposition(|&byte| byte == b'/');
        Some(Pattern {
            glob: Glob::new(path, false),
            dir: path[..end.unwrap_or(0)].to_vec(),
            literal: longest_literal(path).to_vec(),
        })
    }

    /// A directory above all matching names; empty if they can be anywhere.
    pub(crate) fn dir(&self) -> &[u8] {
        &self.dir
    }

    /// The shortest matching prefix of a name: the name itself, or a directory above it.
    pub(crate) fn find<'a>(&self, name: &'a [u8]) -> Option<&'a [u8]> {
        if !contains(name, &self.literal) {
            return None;
        }
        let (mut reached, mut end) = (self.glob.begin(), 0);
        for part in name.split(|&byte| byte == b'/') {
            end += part.len();
            if self.glob.is_match_from(&reached, part) {
                return Some(&name[..end]);
            }
            self.glob.advance(&mut reached, part);
            self.glob.advance(&mut reached, b"/");
            end += 1;
        }
        None
    }
}

/// The longest part of a glob without wildcards, before the first bracket or backslash, which need
/// parsing.
fn longest_literal(glob: &[u8]) -> &[u8] {
    let is_special = |byte: &u8| matches!(byte, b'[' | b'\\');
    let end = glob.iter().position(is_special).unwrap_or(glob.len());
    let parts = glob[..end].split(|byte| matches!(byte, b'*' | b'?'));
    parts.max_by_key(|part| part.len()).unwrap_or_default()
}

fn contains(name: &[u8], part: &[u8]) -> bool {
    part.is_empty() || name.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Pattern;

    #[test]
    fn what_is_below_a_matching_directory_is_found() {
        let find = |path: &str, name| Pattern::new(path.as_bytes()).unwrap().find(name);
        assert_eq!(find("d?", b"d1/f/g"), Some(&b"d1"[..]));
        assert_eq!(find("*/g", b"d1/f/g"), Some(&b"d1/f/g"[..]));
        assert_eq!(find("d[0-9]/f", b"d1/f/g"), Some(&b"d1/f"[..]));
        assert_eq!(find("f*", b"d1/f/g"), None);
        assert_eq!(find("*/f?[gh]", b"d1/fgh/g"), Some(&b"d1/fgh"[..]));
        assert_eq!(find("*/f*/long", b"d1/f/g"), None);
    }

    proptest! {
        #[test]
        fn the_shortest_name_is_found(
            pattern in "[ab*?/é]{0,4}[*?][ab*?/é]{0,3}",
            name in proptest::collection::vec(prop::sample::select(vec!["a", "b", "/", "é"]), 0..10),
        ) {
            let name = name.concat();
            let Some(pattern) = Pattern::new(pattern.as_bytes()) else {
                return Ok(());
            };
            let ends = (0..=name.len()).filter(|&end| name.as_bytes().get(end).is_none_or(|&b| b == b'/'));
            let mut ends = ends.map(|end| &name.as_bytes()[..end]);
            prop_assert_eq!(pattern.find(name.as_bytes()), ends.find(|name| pattern.glob.is_match(name)));
        }
    }

    #[test]
    fn only_the_directory_before_wildcards_is_literal() {
        let dir = |path: &str| Pattern::new(path.as_bytes()).map(|it| it.dir().to_vec());
        assert_eq!(dir("a/b/c*/d"), Some(b"a/b".to_vec()));
        assert_eq!(dir("a*/b"), Some(Vec::new()));
        assert_eq!(dir("a/\\[b/c?"), Some(b"a".to_vec()));
        assert_eq!(dir("a/b"), None);
        assert_eq!(dir("a\\b"), None);
    }
}
