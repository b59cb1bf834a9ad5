//! Excludes entries from a walk.
//!
//! The cost of an entry depends on the length of its name, not on that of its path: the state of
//! the patterns after the path of a directory is computed once, from their state after the path of
//! its parent.

use std::collections::{BTreeSet, HashMap, HashSet};

use base::path::{split, trim_slashes};

use crate::entry::append;
use crate::predicate::glob::{Glob, GlobState};
use crate::shard::Shard;
use crate::tags::Tags;
use crate::trail::PathStack;

/// Excludes entries by globs, depth and tags, and the entries of other shards.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    names: NamePatterns,
    paths: PathPatterns,
    max_depth: Option<u32>,
    tags: Tags,
    shard: Option<Shard>,
    /// Names of single excluded entries, by the paths of their directories.
    single: HashMap<Vec<u8>, HashSet<Vec<u8>>>,
}

/// Patterns for names. Those without special characters are in a hash set: there may be thousands.
#[derive(Clone, Debug, Default)]
struct NamePatterns {
    literals: HashSet<Vec<u8>>,
    globs: Vec<Glob>,
}

impl NamePatterns {
    fn is_empty(&self) -> bool {
        self.literals.is_empty() && self.globs.is_empty()
    }

    fn is_match(&self, name: &[u8]) -> bool {
        self.literals.contains(name) || self.globs.iter().any(|glob| glob.is_match(name))
    }
}

/// Patterns for paths. Those without special characters are in `names`: file names by directory.
#[derive(Clone, Debug, Default)]
struct PathPatterns {
    names: HashMap<Vec<u8>, HashSet<Vec<u8>>>,
    /// The distinct lengths of directory paths in `names`.
    lengths: BTreeSet<usize>,
    globs: Vec<Glob>,
}

impl PathPatterns {
    fn is_empty(&self) -> bool {
        self.names.is_empty() && self.globs.is_empty()
    }

    /// The sets of names that are excluded in a directory. `path` must end with a slash.
    fn names_in(&self, path: &[u8]) -> impl Iterator<Item = &HashSet<Vec<u8>>> {
        let dir = path.strip_suffix(b"/");
        let ends = self.lengths.iter().filter_map(move |length| {
            let before = dir?.len().checked_sub(*length)?;
            let (above, end) = dir?.split_at(before);
            // A pattern that begins with a slash matches whole paths only.
            let is_end = above.ends_with(b"/") && !end.is_empty() && !end.starts_with(b"/");
            (above.is_empty() || is_end).then_some(end)
        });
        ends.filter_map(|end| self.names.get(end))
    }
}

impl Filter {
    /// Excludes entries that match any of `globs`, with everything below them, and entries deeper
    /// than `max_depth` (DIR is at 0). A pattern without a slash is matched with names, one with a
    /// slash with paths that begin with DIR as given: the whole path if the pattern begins with a
    /// slash, else also the end of the path behind any slash, as in tar. A slash at the end of a
    /// pattern is ignored. Wildcards also match slashes.
    pub fn new(globs: &[impl AsRef<[u8]>], max_depth: Option<u32>) -> Filter {
        let (mut names, mut paths) = (NamePatterns::default(), PathPatterns::default());
        for pattern in globs {
            let pattern: &[u8] = pattern.as_ref();
            let end = pattern.iter().rposition(|&byte| byte != b'/');
            let pattern = end.map_or(pattern, |end| &pattern[..=end]);
            let glob = Glob::new(pattern, false);
            match (pattern.contains(&b'/'), glob.literal()) {
                (false, None) => names.globs.push(glob),
                (false, Some(name)) => drop(names.literals.insert(name.to_vec())),
                (true, Some(path)) => {
                    let (dir, name) = split(path);
                    paths.lengths.insert(dir.len());
                    let names = paths.names.entry(dir.to_vec()).or_default();
                    names.insert(name.to_vec());
                }
                (true, None) => {
                    paths.globs.push(glob);
                    if !pattern.starts_with(b"/") {
                        paths
                            .globs
                            .push(Glob::new(&[b"*/", pattern].concat(), false));
                    }
                }
            }
        }
        Filter {
            names,
            paths,
            max_depth,
            ..Filter::default()
        }
    }

    /// Also excludes these paths, with everything below them.
    #[must_use]
    pub fn without(mut self, paths: &[Vec<u8>]) -> Filter {
        for path in paths {
            let (dir, name) = split(path);
            let names = self.single.entry(trim_slashes(dir).to_vec()).or_default();
            names.insert(name.to_vec());
        }
        self
    }

    /// Whether a walk of `dir` would reach the path `rel` below it.
    pub fn keeps_all(&self, dir: &[u8], rel: &[u8]) -> bool {
        let (mut matcher, mut path, mut depth) = (self.matcher(), dir.to_vec(), 0);
        rel.split(|byte| *byte == b'/').all(|name| {
            matcher.enter(&path);
            let is_kept = self.enters(depth) && matcher.keeps(name);
            append(&mut path, name);
            depth += 1;
            is_kept
        })
    }

    /// Also excludes the entries of other shards; there must be only one DIR.
    pub fn with_shard(self, shard: Option<Shard>) -> Filter {
        Filter { shard, ..self }
    }

    /// The shard (part of the tree) that this process walks.
    pub(crate) fn shard(&self) -> Option<Shard> {
        self.shard
    }

    /// Also excludes the contents of directories with tags.
    pub fn with_tags(self, tags: Tags) -> Filter {
        Filter { tags, ..self }
    }

    /// The tags: files that exclude the contents of their directories.
    pub fn tags(&self) -> &Tags {
        &self.tags
    }

    /// Whether [`Matcher::enter`] needs the directory's path.
    pub fn wants_paths(&self) -> bool {
        !self.paths.is_empty() || !self.single.is_empty()
    }

    /// A matcher that applies the patterns in one thread.
    pub fn matcher(&self) -> Matcher<'_> {
        Matcher {
            filter: self,
            trail: PathStack::default(),
            names: Vec::new(),
            single: None,
        }
    }

    /// Whether the depth limit permits the entries of a directory at this depth.
    #[inline]
    pub fn enters(&self, depth: u32) -> bool {
        self.max_depth.is_none_or(|max| depth < max)
    }
}

/// Applies the patterns of a [`Filter`], directory by directory. Entering a directory near the last
/// one is cheap.
#[derive(Debug)]
pub struct Matcher<'a> {
    filter: &'a Filter,
    /// State of each pattern after the path of the current directory, and after those above it.
    trail: PathStack<Vec<GlobState>>,
    /// The names that path patterns exclude in the current directory.
    names: Vec<&'a HashSet<Vec<u8>>>,
    single: Option<&'a HashSet<Vec<u8>>>,
}

impl Matcher<'_> {
    /// Makes a directory the current one. `path` begins with DIR as given.
    pub fn enter(&mut self, path: &[u8]) {
        if !self.filter.single.is_empty() {
            self.single = self.filter.single.get(trim_slashes(path));
        }
        let paths = &self.filter.paths;
        if paths.is_empty() {
            return;
        }
        self.trail.turn_to(path, |above, name| {
            let mut reached = match above {
                Some(reached) => reached.clone(),
                None => paths.globs.iter().map(Glob::begin).collect(),
            };
            for (glob, reached) in paths.globs.iter().zip(&mut reached) {
                glob.advance(reached, name);
            }
            reached
        });
        self.names = paths.names_in(self.trail.path()).collect();
    }

    /// Whether an entry of the current directory is included.
    #[inline]
    pub fn keeps(&self, name: &[u8]) -> bool {
        let Filter { names, paths, .. } = self.filter;
        (names.is_empty() || !names.is_match(name))
            && (paths.is_empty() || !self.is_path_excluded(name))
            && !self.single.is_some_and(|single| single.contains(name))
    }

    fn is_path_excluded(&self, name: &[u8]) -> bool {
        if self.names.iter().any(|names| names.contains(name)) {
            return true;
        }
        let ends_with = |suffix: &[u8]| match suffix.len().checked_sub(name.len()) {
            Some(before) => {
                suffix.ends_with(name) && self.trail.path().ends_with(&suffix[..before])
            }
            None => name.ends_with(suffix),
        };
        let globs = self.filter.paths.globs.iter().enumerate();
        let mut globs = globs.filter(|(_, glob)| ends_with(glob.suffix()));
        globs.any(|(nth, glob)| match self.trail.last() {
            Some(reached) => glob.is_match_from(&reached[nth], name),
            None => glob.is_match(name),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::predicate::glob::STEPS;

    fn keeps(patterns: &[&str], dir: &[u8], name: &[u8]) -> bool {
        let filter = Filter::new(patterns, None);
        let mut matcher = filter.matcher();
        matcher.enter(dir);
        matcher.keeps(name)
    }

    #[test]
    fn globs_match_names_or_paths() {
        let keeps = |dir, name| keeps(&["*.o", "src/*/tmp"], dir, name);
        assert!(!keeps(b"anywhere", b"a.o"));
        assert!(!keeps(b"anywhere", b"\xff.o"));
        assert!(keeps(b"src/a", b"a.oo"));
        assert!(!keeps(b"src/a/b", b"tmp"));
        assert!(keeps(b"lib/a", b"tmp"));
        let filter = Filter::new(&["x"], Some(2));
        assert!(filter.enters(1) && !filter.enters(2));
    }

    #[test]
    fn paths_match_behind_any_slash() {
        let keeps = |pattern: &str, dir: &[u8], name: &[u8]| keeps(&[pattern], dir, name);
        assert!(!keeps("mail/", b"/srv/e", b"mail"));
        assert!(!keeps("e/mail", b"/srv/e", b"mail"));
        assert!(!keeps("e/mail/", b"e", b"mail"));
        assert!(!keeps("srv/e/mail", b"/srv/e", b"mail"));
        assert!(!keeps("mail/*", b"/srv/mail", b"a"));
        assert!(!keeps("srv/*/mail", b"/srv/a/b", b"mail"));
        assert!(!keeps("s[r]v/a?b/mail", b"/srv/a/b", b"mail"));
        assert!(!keeps("a[", b"/srv", b"a["));
        assert!(!keeps("\\*", b"/srv", b"*"));
        assert!(!keeps("\\[a]/b", b"/srv/[a]", b"b"));
        assert!(keeps("srv/*/mail", b"/srv", b"mail"));
        assert!(keeps("{a,b}", b"/srv", b"a"));
        assert!(!keeps("./mail", b".", b"mail"));
        assert!(!keeps("/srv/e/mail", b"/srv/e", b"mail"));
        assert!(keeps("mail/*", b"/srv", b"mail"));
        assert!(keeps("e/mail", b"/srv/the", b"mail"));
        assert!(keeps("/e/mail", b"/srv/e", b"mail"));
        assert!(keeps("srv/mail", b"/srv/e", b"mail"));
        assert!(keeps("/", b"/srv/e", b"mail"));
        assert!(keeps("/e/mail", b"srv//e", b"mail") && !keeps("e/mail", b"srv//e", b"mail"));
    }

    /// For nested directories, each pattern is compared with each name only once, at any depth.
    #[test]
    fn depth_costs_nothing() {
        let (name, many) = ([b'd'; 200], 1000);
        let patterns = ["a/b", "/x/y", "d*/a*", "*/a/b*", "a/*"];
        let filter = Filter::new(&patterns, None);
        let (mut matcher, mut path) = (filter.matcher(), b"/srv".to_vec());
        STEPS.set(0);
        for _ in 0..many {
            matcher.enter(&path);
            assert!(matcher.keeps(&name) && matcher.keeps(b"b"));
            append(&mut path, &name);
        }
        // Maximum number of steps: each text is compared by character and by byte, in the path and
        // as an entry; a relative pattern counts twice.
        let most = 2 * 2 * 2 * patterns.len() * many * (name.len() + 2);
        assert!(STEPS.get() < most, "{}", STEPS.get());
    }

    /// Whether a path is excluded: a direct implementation of the definition.
    fn is_excluded(pattern: &[u8], path: &[u8], name: &[u8]) -> bool {
        let is_match = |pattern: &[u8], text: &[u8]| Glob::new(pattern, false).is_match(text);
        match (pattern.contains(&b'/'), pattern.starts_with(b"/")) {
            (false, _) => is_match(pattern, name),
            (true, true) => is_match(pattern, path),
            (true, false) => is_match(pattern, path) || is_match(&[b"*/", pattern].concat(), path),
        }
    }

    proptest! {
        #[test]
        fn one_matcher_for_many_directories_gives_what_is_defined(
            patterns in proptest::collection::vec("/?([a-b*?é]|\\[ab\\]|\\\\\\*){1,3}(/([a-b*?é]){1,3}){0,2}", 1..4),
            paths in proptest::collection::vec(proptest::collection::vec(
                prop::sample::select(vec![&b"a"[..], b"b", b"ab", b"*", b"\xc3\xa9", b"\xff", b"aa"]), 1..6), 1..12),
            root in prop::sample::select(vec![&b"/"[..], b".", b"a", b"a/", b"/b/a"]),
        ) {
            let filter = Filter::new(&patterns, None);
            let mut matcher = filter.matcher();
            for parts in paths {
                let (name, above) = parts.split_last().unwrap();
                let mut dir = root.to_vec();
                above.iter().for_each(|part| append(&mut dir, part));
                let mut path = dir.clone();
                append(&mut path, name);
                matcher.enter(&dir);
                let expected = patterns.iter().any(|pattern| is_excluded(pattern.as_bytes(), &path, name));
                prop_assert_eq!(matcher.keeps(name), !expected, "{:?} {}", patterns, path.escape_ascii());
            }
        }
    }
}
