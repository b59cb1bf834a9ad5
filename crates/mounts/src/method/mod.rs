//! The methods that find mount points by searching the file tree, one file each.
//!
//! | method | how it goes | what prunes it | what it sees |
//! |---|---|---|---|
//! | [`naive`] | depth first, full names | nothing | changes of `st_dev` |
//! | [`getmnt1`] | depth first, relative names | the depth bound | likewise |
//! | [`getmnt2`] | likewise | + leaves of the table of device pairs | likewise |
//! | [`getmnt3`] | breadth first, bunched names, whole directories | + the tree of that table, /dev | likewise |
//! | [`search`] | the table's names first, then breadth first | ids and parents | roots of mounts: bind mounts and files too |
//!
//! `naive` to `getmnt3` are the programs of the papers of 1988; see docs/papers.md.

mod breadth;
mod depth;
pub mod getmnt1;
pub mod getmnt2;
pub mod getmnt3;
pub mod naive;
pub mod search;

pub(crate) use breadth::{Queue, read_whole};

use gate::{Errno, Fd, Gate};
use ondisk::dirent::Entry;

use crate::{Incompleteness, Loss, Point, Warning, WarningKind};

/// How far a search has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Directories read.
    pub directories: u64,
    /// Entries seen in them.
    pub entries: u64,
    /// Directories that need not be read.
    pub pruned: u64,
}

/// A search under way: what every method needs to go on and to be honest.
pub struct SearchContext<'a> {
    /// How far it has come.
    pub progress: Progress,
    /// What went wrong on the way.
    pub warnings: Vec<Warning>,
    /// Why mount points may be missing; empty when the report is complete.
    pub incomplete: Vec<Incompleteness>,
    /// What is lost with a directory that cannot be read.
    loss: Loss,
    /// Called now and then with how far the search has come, and where it is.
    tick: &'a mut dyn FnMut(&Progress, &[u8]),
}

impl<'a> SearchContext<'a> {
    /// A search that reports to `tick` now and then.
    pub fn new(loss: Loss, tick: &'a mut dyn FnMut(&Progress, &[u8])) -> SearchContext<'a> {
        SearchContext {
            progress: Progress::default(),
            warnings: Vec::new(),
            incomplete: Vec::new(),
            loss,
            tick,
        }
    }

    /// A directory is about to be read.
    pub(crate) fn directory(&mut self, path: &[u8]) {
        self.progress.directories += 1;
        if self.progress.directories.is_multiple_of(256) {
            (self.tick)(&self.progress, path);
        }
    }

    /// Reads a directory that was (or could not be) opened, and gives each of its entries to
    /// `each`.
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
            for entry in ondisk::dirent::entries(bytes) {
                self.progress.entries += 1;
                each(self, &dir, entry);
            }
        });
        if let Err(errno) = whole {
            self.failed(path, Gate::Getdents64, errno);
        }
    }

    /// A call on something in the tree failed. What has vanished or become something else in the
    /// meantime is no matter; anything else is a warning, and the answer may lack what lies behind
    /// it.
    pub(crate) fn failed(&mut self, path: &[u8], gate: Gate, errno: Errno) {
        const MANY: usize = 1000;
        if matches!(errno, Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) {
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

    /// Mount points may be missing.
    pub(crate) fn mark_incomplete(&mut self, reason: Incompleteness) {
        if !self.incomplete.contains(&reason) {
            self.incomplete.push(reason);
        }
    }
}

/// How a search that goes by `st_dev` treats its own root: as the papers do, which have `/` contain
/// itself.
fn root_point(root: &crate::root::Root, hunt: &mut SearchContext<'_>) -> Option<Point> {
    let point = || Point::bare(root.path.clone(), root.dev, Some(crate::Kind::Dir));
    if root.path == b"/" {
        return Some(point());
    }
    match gate::fs::newfstatat(&root.fd, c"..", gate::fs::At::empty()) {
        Ok(above) => (above.dev != (root.dev.major, root.dev.minor)).then(point),
        Err(errno) => {
            hunt.failed(&root.path, Gate::Newfstatat, errno);
            None
        }
    }
}
