//! Entries that a walk could not see, judging by its warnings, but that may still exist.

use std::collections::HashSet;

use base::Warning;
use walk::entry::joined;

use crate::error::Error;
use crate::format::Reader;
use crate::format::columns::{DIR, NAME, TOP};
use crate::since::index::{Index, RowMatch, each_group};

/// The paths that a walk could not read.
#[derive(Clone, Debug, Default)]
pub struct Hidden {
    /// Whether any path may be unreadable, because a warning has no path.
    all: bool,
    /// Paths that could not be examined, or whose contents could not be read.
    paths: HashSet<Vec<u8>>,
}

impl Hidden {
    /// Collects the unreadable paths from the warnings of a walk.
    pub fn new(warnings: &[Warning]) -> Hidden {
        let mut hidden = Hidden::default();
        for warning in warnings.iter().filter(|warning| warning.hides_entries()) {
            match &warning.path {
                Some(path) => {
                    hidden.paths.insert(path.clone());
                }
                None => hidden.all = true,
            }
        }
        hidden
    }

    /// Whether the walk could read everything.
    pub fn is_empty(&self) -> bool {
        !self.all && self.paths.is_empty()
    }

    /// Whether any path may be unreadable, because a warning of the walk has no path.
    pub fn is_all(&self) -> bool {
        self.all
    }

    /// Paths that could not be examined or read.
    pub fn paths(&self) -> impl Iterator<Item = &[u8]> {
        self.paths.iter().map(|path| &path[..])
    }

    /// Whether the walk could not examine or read exactly this path.
    pub fn has(&self, path: &[u8]) -> bool {
        self.paths.contains(path)
    }

    /// Whether an entry that the walk did not find may still exist: the path or an ancestor is
    /// unreadable.
    pub(crate) fn may_have(&self, path: &[u8]) -> bool {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let mut ends = ends.map(|(at, _)| at).chain([path.len()]);
        // A SRC given with a final slash has the slash in the path of its warning.
        let is_here =
            |end: usize| self.has(&path[..end]) || self.has(&path[..path.len().min(end + 1)]);
        self.all || ends.any(is_here)
    }

    /// Number of unmatched rows of a catalog whose entries may still exist. `roots` are the paths
    /// of its directories in this walk.
    pub fn rows(&self, reader: &Reader, index: &Index, roots: &[&[u8]]) -> Result<u64, Error> {
        if self.is_empty() {
            return Ok(0);
        }
        let read = |group: usize| {
            let (dirs, names) = (reader.read(DIR, group)?, reader.read(NAME, group)?);
            let (tops, first) = (reader.read(TOP, group)?, reader.first(group));
            let is_hidden = |at: &usize| {
                let root = roots.get(tops[*at] as usize).copied().unwrap_or_default();
                index.row(first + *at as u32).row_match() != RowMatch::Found
                    && self.may_have(&joined(&joined(root, &dirs[*at]), &names[*at]))
            };
            Ok((0..reader.rows(group)).filter(is_hidden).count() as u64)
        };
        let mut sum = 0;
        each_group(reader, read, |_, rows| sum += rows)?;
        Ok(sum)
    }
}
