//! What is excluded from a walk.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};

use crate::entry::append;
use crate::error::Error;
use crate::tags::Tags;

/// Excludes entries by globs, by depth and by tags.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    names: GlobSet,
    paths: GlobSet,
    max_depth: Option<u32>,
    tags: Tags,
}

impl Filter {
    /// Excludes entries that match any of `globs`, with everything below them; and entries deeper than
    /// `max_depth` (DIR is at 0). A pattern without a slash is matched with names, one with a slash
    /// with paths that begin with DIR as it was given: the whole path if it begins with a slash, else
    /// also the end of the path behind any slash, as in tar. A slash at the end is ignored. `*` and `?`
    /// match no slash, `**` does.
    ///
    /// # Errors
    /// The first malformed pattern.
    pub fn new(globs: &[String], max_depth: Option<u32>) -> Result<Filter, Error> {
        let (mut names, mut paths) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        for pattern in globs {
            let glob = |pattern: &str| {
                GlobBuilder::new(pattern)
                    .literal_separator(true)
                    .build()
                    .map_err(Error::Pattern)
            };
            let pattern = match pattern.trim_end_matches('/') {
                "" => pattern,
                trimmed => trimmed,
            };
            if pattern.contains('/') {
                paths.add(glob(pattern)?);
                if !pattern.starts_with('/') {
                    paths.add(glob(&format!("**/{pattern}"))?);
                }
            } else {
                names.add(glob(pattern)?);
            }
        }
        let build = |set: GlobSetBuilder| set.build().map_err(Error::Pattern);
        Ok(Filter {
            names: build(names)?,
            paths: build(paths)?,
            max_depth,
            tags: Tags::default(),
        })
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
        fn candidate(bytes: &[u8]) -> Candidate<'_> {
            Candidate::new(Path::new(OsStr::from_bytes(bytes)))
        }
        if self.names.is_match_candidate(&candidate(name)) {
            return false;
        }
        if self.paths.is_empty() {
            return true;
        }
        let mut path = dir_path.to_vec();
        append(&mut path, name);
        !self.paths.is_match_candidate(&candidate(&path))
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
        let filter = Filter::new(&["*.o".to_owned(), "src/**/tmp".to_owned()], Some(2)).unwrap();
        assert!(!filter.keeps(b"anywhere", b"a.o"));
        assert!(!filter.keeps(b"anywhere", b"\xff.o"));
        assert!(filter.keeps(b"src/a", b"a.oo"));
        assert!(!filter.keeps(b"src/a/b", b"tmp"));
        assert!(filter.keeps(b"lib/a", b"tmp"));
        assert!(filter.enters(1) && !filter.enters(2));
        assert!(Filter::new(&["a[".to_owned()], None).is_err());
    }

    #[test]
    fn paths_match_behind_any_slash() {
        let keeps = |pattern: &str, dir: &[u8], name: &[u8]| {
            let filter = Filter::new(&[pattern.to_owned()], None).unwrap();
            filter.keeps(dir, name)
        };
        assert!(!keeps("mail/", b"/srv/e", b"mail"));
        assert!(!keeps("e/mail", b"/srv/e", b"mail"));
        assert!(!keeps("e/mail/", b"e", b"mail"));
        assert!(!keeps("srv/e/mail", b"/srv/e", b"mail"));
        assert!(!keeps("mail/*", b"/srv/mail", b"a"));
        assert!(!keeps("./mail", b".", b"mail"));
        assert!(!keeps("/srv/e/mail", b"/srv/e", b"mail"));
        assert!(keeps("mail/*", b"/srv", b"mail"));
        assert!(keeps("e/mail", b"/srv/the", b"mail"));
        assert!(keeps("/e/mail", b"/srv/e", b"mail"));
        assert!(keeps("srv/mail", b"/srv/e", b"mail"));
        assert!(keeps("/", b"/srv/e", b"mail"));
    }
}
