//! What is excluded from a walk.

use std::collections::HashSet;

use crate::entry::append;
use crate::predicate::glob::Glob;
use crate::shard::Shard;
use crate::tags::Tags;

/// Excludes entries by globs, by depth and by tags, and what other shards have.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    names: Globs,
    paths: Globs,
    max_depth: Option<u32>,
    tags: Tags,
    shard: Option<Shard>,
}

/// Patterns, those without special characters apart: there may be thousands of them.
#[derive(Clone, Debug, Default)]
struct Globs {
    literals: HashSet<Vec<u8>>,
    patterns: Vec<Glob>,
}

impl Globs {
    /// Adds a pattern; returns whether it has special characters.
    fn add(&mut self, pattern: &[u8]) -> bool {
        let glob = Glob::new(pattern, false);
        let Some(literal) = glob.literal() else {
            self.patterns.push(glob);
            return true;
        };
        self.literals.insert(literal.to_vec());
        false
    }

    fn is_empty(&self) -> bool {
        self.literals.is_empty() && self.patterns.is_empty()
    }

    fn is_match(&self, name: &[u8]) -> bool {
        self.literals.contains(name) || self.patterns.iter().any(|glob| glob.is_match(name))
    }

    /// Whether a path matches, or its end behind a slash is one of those without special characters.
    fn is_match_of_path(&self, path: &[u8]) -> bool {
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let mut ends = slashes.map(|(at, _)| &path[at + 1..]);
        // What begins with a slash matches whole paths only.
        let is_listed = |end: &[u8]| !end.starts_with(b"/") && self.literals.contains(end);
        self.is_match(path) || !self.literals.is_empty() && ends.any(is_listed)
    }
}

impl Filter {
    /// Excludes entries that match any of `globs`, with everything below them; and entries deeper than
    /// `max_depth` (DIR is at 0). A pattern without a slash is matched with names, one with a slash
    /// with paths that begin with DIR as it was given: the whole path if it begins with a slash, else
    /// also the end of the path behind any slash, as in tar. A slash at the end is ignored. Wildcards
    /// match slashes, too.
    pub fn new(globs: &[String], max_depth: Option<u32>) -> Filter {
        let (mut names, mut paths) = (Globs::default(), Globs::default());
        for pattern in globs {
            let pattern = match pattern.trim_end_matches('/') {
                "" => pattern,
                trimmed => trimmed,
            };
            if !pattern.contains('/') {
                names.add(pattern.as_bytes());
                continue;
            }
            if paths.add(pattern.as_bytes()) && !pattern.starts_with('/') {
                paths.add(format!("*/{pattern}").as_bytes());
            }
        }
        Filter {
            names,
            paths,
            max_depth,
            tags: Tags::default(),
            shard: None,
        }
    }

    /// Excludes what other shards have, too; there must be one DIR only.
    pub fn with_shard(self, shard: Option<Shard>) -> Filter {
        Filter { shard, ..self }
    }

    /// The shard that is walked.
    pub(crate) fn shard(&self) -> Option<Shard> {
        self.shard
    }

    /// Excludes the contents of directories with tags, too.
    pub fn with_tags(self, tags: Tags) -> Filter {
        Filter { tags, ..self }
    }

    /// The tags of directories whose contents are excluded.
    pub fn tags(&self) -> &Tags {
        &self.tags
    }

    /// Whether [`Filter::keeps`] needs the directory's path.
    pub fn wants_paths(&self) -> bool {
        !self.paths.is_empty()
    }

    /// Whether an entry is not excluded.
    #[inline]
    pub fn keeps(&self, dir_path: &[u8], name: &[u8]) -> bool {
        self.names.is_empty() && self.paths.is_empty() || self.keeps_by_glob(dir_path, name)
    }

    fn keeps_by_glob(&self, dir_path: &[u8], name: &[u8]) -> bool {
        if self.names.is_match(name) {
            return false;
        }
        if self.paths.is_empty() {
            return true;
        }
        let mut path = dir_path.to_vec();
        append(&mut path, name);
        !self.paths.is_match_of_path(&path)
    }

    /// Whether entries of a directory at this depth are in the walk.
    #[inline]
    pub fn enters(&self, depth: u32) -> bool {
        self.max_depth.is_none_or(|max| depth < max)
    }
}

#[cfg(test)]
mod tests {
    use super::Filter;

    #[test]
    fn globs_match_names_or_paths() {
        let filter = Filter::new(&["*.o".to_owned(), "src/*/tmp".to_owned()], Some(2));
        assert!(!filter.keeps(b"anywhere", b"a.o"));
        assert!(!filter.keeps(b"anywhere", b"\xff.o"));
        assert!(filter.keeps(b"src/a", b"a.oo"));
        assert!(!filter.keeps(b"src/a/b", b"tmp"));
        assert!(filter.keeps(b"lib/a", b"tmp"));
        assert!(filter.enters(1) && !filter.enters(2));
    }

    #[test]
    fn paths_match_behind_any_slash() {
        let keeps = |pattern: &str, dir: &[u8], name: &[u8]| {
            let filter = Filter::new(&[pattern.to_owned()], None);
            filter.keeps(dir, name)
        };
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
}
