//! The state that every search has: progress, warnings, and why the result may be incomplete.

use base::warning::Warning;
use gate::fs::{AtFlags, newfstatat};
use gate::{Errno, Fd, Gate};
use ondisk::dirent::{Entry, entries};

use super::breadth::read_whole;
use crate::error::{Incompleteness, MissingPart, WarningKind};
use crate::listed::{is_gone, is_removed};
use crate::point::{Point, PointKind};
use crate::root::Root;

/// Progress of a search: how much of the file tree was searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchProgress {
    /// Number of directories read.
    pub directories: u64,
    /// Number of entries seen in these directories.
    pub entries: u64,
    /// Number of directories that did not need to be read.
    pub pruned: u64,
}

/// The progress, warnings and gaps of a search.
#[allow(missing_docs, reason = "the names say it")]
pub struct SearchContext<'a> {
    pub progress: SearchProgress,
    pub warnings: Vec<Warning>,
    /// Why mount points may be missing; empty if the result is complete.
    pub incomplete: Vec<Incompleteness>,
    loss: MissingPart,
    /// Called now and then with the progress, and with the directory being read.
    tick: &'a mut dyn FnMut(&SearchProgress, &[u8]),
}

impl<'a> SearchContext<'a> {
    /// Begins a search. `loss` is the part of the result that is missing if a directory cannot be
    /// read.
    pub fn new(
        loss: MissingPart,
        tick: &'a mut dyn FnMut(&SearchProgress, &[u8]),
    ) -> SearchContext<'a> {
        SearchContext {
            progress: SearchProgress::default(),
            warnings: Vec::new(),
            incomplete: Vec::new(),
            loss,
            tick,
        }
    }

    pub(crate) fn directory(&mut self, path: &[u8]) {
        self.progress.directories += 1;
        if self.progress.directories.is_multiple_of(256) {
            (self.tick)(&self.progress, path);
        }
    }

    /// Reads a directory, given the result of opening it, and calls `each` for its entries.
    pub(crate) fn read(
        &mut self,
        path: &[u8],
        opened: gate::Result<Fd>,
        buffer: &mut Vec<u8>,
        mut each: impl FnMut(&mut Self, &Fd, Entry<'_>),
    ) {
        let dir = match opened {
            Ok(dir) => dir,
            Err(errno) => return self.failed(path, Gate::Openat2, errno),
        };
        let whole = read_whole(&dir, buffer, |bytes| {
            for entry in entries(bytes) {
                self.progress.entries += 1;
                each(self, &dir, entry);
            }
        });
        if let Err(errno) = whole {
            self.failed(path, Gate::Getdents64, errno);
        }
    }

    /// Reports a failed call in the tree. A file that has vanished or changed its type meanwhile is
    /// no failure; any other error is a warning, and makes the result incomplete.
    pub(crate) fn failed(&mut self, path: &[u8], gate: Gate, errno: Errno) {
        const MANY: usize = 1000;
        let is_dir = !matches!(gate, Gate::Statx | Gate::Newfstatat);
        // With many warnings, checking whether each file was removed would take too long.
        if is_gone(errno) && self.warnings.len() < MANY && is_removed(path, is_dir) {
            return;
        }
        let kind = match gate {
            Gate::Statx | Gate::Newfstatat => WarningKind::ReadAttributes(self.loss),
            _ => WarningKind::ReadDirectory(self.loss),
        };
        match self.warnings.len() {
            n if n < MANY => self.warnings.push(Warning::failed(path, gate, errno, kind)),
            MANY => self.warnings.push(Warning::general(WarningKind::TooMany)),
            _ => {}
        }
        self.mark_incomplete(Incompleteness::UnreadableDirectories);
    }

    pub(crate) fn mark_incomplete(&mut self, reason: Incompleteness) {
        if !self.incomplete.contains(&reason) {
            self.incomplete.push(reason);
        }
    }

    /// Records how many directories were not read because of the depth limit.
    pub(super) fn mark_unread(&mut self, bound: Option<usize>, unread: u64) {
        if unread > 0 {
            let bound = bound.unwrap_or_default();
            self.mark_incomplete(Incompleteness::DepthBound { bound, unread });
        }
    }

    /// The root of a search for changes of `st_dev`, if the root is a mount point. `/` always is a
    /// mount point, as in the papers.
    pub(super) fn root_point(&mut self, root: &Root) -> Option<Point> {
        let point = || Point::bare(root.path.clone(), root.dev, Some(PointKind::Dir));
        if root.path == b"/" {
            return Some(point());
        }
        match newfstatat(&root.fd, c"..", AtFlags::empty()) {
            Ok(above) => (above.dev != root.dev).then(point),
            Err(errno) => {
                self.failed(&root.path, Gate::Newfstatat, errno);
                None
            }
        }
    }
}
