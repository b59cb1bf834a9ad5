//! What is left out of a walk.

use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::entry::append;
use crate::error::Error;

/// What is left out: by name, and by depth.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    names: GlobSet,
    paths: GlobSet,
    max_depth: Option<u32>,
}

impl Filter {
    /// Leaves out what matches any of `globs`, and everything in it; and what lies deeper than
    /// `max_depth` (DIR is at 0). A pattern without a slash is held against names, one with a slash
    /// against paths that begin with DIR as it was given. `*` and `?` match no slash, `**` does.
    ///
    /// # Errors
    /// The first pattern that is none, and why.
    pub fn new(globs: &[String], max_depth: Option<u32>) -> Result<Filter, Error> {
        let (mut names, mut paths) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        for pattern in globs {
            let glob = GlobBuilder::new(pattern)
                .literal_separator(true)
                .build()
                .map_err(Error::Pattern)?;
            if pattern.contains('/') {
                &mut paths
            } else {
                &mut names
            }
            .add(glob);
        }
        let build = |set: GlobSetBuilder| set.build().map_err(Error::Pattern);
        Ok(Filter {
            names: build(names)?,
            paths: build(paths)?,
            max_depth,
        })
    }

    /// Whether [`Filter::keeps`] looks at the directory's path.
    pub fn wants_paths(&self) -> bool {
        !self.paths.is_empty()
    }

    /// Whether an entry stays in the walk.
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

    /// Whether what is in a directory at this depth is in the walk.
    #[inline]
    pub fn enters(&self, depth: u32) -> bool {
        self.max_depth.is_none_or(|max| depth < max)
    }
}

#[cfg(test)]
mod tests {
    use super::Filter;

    #[test]
    fn names_and_paths() {
        let filter = Filter::new(&["*.o".to_owned(), "src/**/tmp".to_owned()], Some(2)).unwrap();
        assert!(!filter.keeps(b"anywhere", b"a.o"));
        assert!(!filter.keeps(b"anywhere", b"\xff.o"));
        assert!(filter.keeps(b"src/a", b"a.oo"));
        assert!(!filter.keeps(b"src/a/b", b"tmp"));
        assert!(filter.keeps(b"lib/a", b"tmp"));
        assert!(filter.enters(1) && !filter.enters(2));
        assert!(Filter::new(&["a[".to_owned()], None).is_err());
    }
}
