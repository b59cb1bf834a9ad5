//! Groups lookups into searches: lookups of one name in several directories by one process.

use std::collections::HashSet;
use std::rc::Rc;

use crate::classify::Lookup;
use crate::kind::{Count, Kind};
use crate::lookup::{LookupPurpose, Outcome, split};

/// A path that a search tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriedPath {
    /// The absolute path that was tried.
    pub path: Vec<u8>,
    /// The number of hits and misses.
    pub count: Count,
    /// The file exists but could not be used, so the search continued: it is not executable for
    /// this process, or is a library for another architecture.
    pub is_refused: bool,
}

/// A search for one name in several directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// The kind of files searched for.
    pub kind: Kind,
    /// The name of the program, library or module.
    pub name: Vec<u8>,
    /// The id of the searching process.
    pub pid: u32,
    /// The path of the searching program.
    pub program: Rc<[u8]>,
    /// The paths that were tried, in order; the last one is the file found, if any.
    pub tried: Vec<TriedPath>,
    /// The path that was found.
    pub found: Option<Vec<u8>>,
    /// Whether PATH has the value that the command was given.
    pub has_given_path: bool,
    /// Nanoseconds in failed lookups.
    pub nanos: u64,
    /// The number of searches that began before this one.
    pub number: u64,
}

impl Search {
    /// The number of failed lookups.
    pub fn misses(&self) -> u64 {
        self.tried.iter().map(|tried| tried.count.misses).sum()
    }

    /// The number of files that exist but could not be used.
    pub fn refused(&self) -> u64 {
        self.tried.iter().filter(|tried| tried.is_refused).count() as u64
    }

    /// The memory for the paths of the search, including overhead.
    pub(crate) fn bytes(&self) -> usize {
        const OVERHEAD: usize = 48;
        let tried = self.tried.iter().map(|tried| tried.path.len());
        let names = tried.chain([self.name.len()]);
        names.map(|len| len + OVERHEAD).sum()
    }

    /// The number of directories tried.
    pub(crate) fn directories(&self) -> usize {
        let dirs = self.tried.iter().map(|tried| split(&tried.path).0);
        dirs.collect::<HashSet<_>>().len()
    }

    pub(crate) fn add(&mut self, path: &[u8], outcome: Outcome, nanos: u64) {
        /// The maximum number of listed paths. Lookups of further paths are added to the last
        /// listed path, which is replaced by the file found, if any.
        const MOST: usize = 1024;
        let at = match self.tried.iter().rposition(|tried| tried.path == path) {
            Some(at) => at,
            None if self.tried.len() >= MOST => {
                if outcome == Outcome::Found {
                    self.tried[MOST - 1].path = path.to_vec();
                }
                MOST - 1
            }
            None => {
                self.tried.push(TriedPath {
                    path: path.to_vec(),
                    count: Count::default(),
                    is_refused: false,
                });
                self.tried.len() - 1
            }
        };
        self.tried[at].count.add(outcome != Outcome::Missed);
        match outcome {
            Outcome::Found => self.found = Some(path.to_vec()),
            Outcome::Refused => {
                self.tried[at].is_refused = true;
                self.found = self.found.take().filter(|found| found != path);
            }
            Outcome::Missed => self.nanos += nanos,
        }
    }

    /// Marks the file found as unusable, since the search continues.
    pub(crate) fn retract(&mut self) {
        let found = self.found.take();
        let mut tried = self.tried.iter_mut();
        let tried = tried.find(|tried| Some(&tried.path) == found.as_ref());
        tried.into_iter().for_each(|tried| tried.is_refused = true);
    }

    /// Whether a lookup of the same name continues this search.
    fn is_continued_by(&self, lookup: &Lookup<'_>, path: &[u8]) -> bool {
        if let Some(found) = &self.found {
            let (dir, _) = split(found);
            let cached = lookup.dir.strip_suffix(b"/__pycache__");
            let is_same_module = (lookup.dir == dir || cached == Some(dir))
                && matches!(
                    self.kind,
                    Kind::Python | Kind::Node | Kind::Perl | Kind::Ruby
                );
            return found == path || is_same_module;
        }
        // A shell may examine an unusable file by several calls before it tries the next directory.
        let mut last = self.tried.last().into_iter();
        if last.any(|tried| tried.is_refused && tried.path == path) {
            return true;
        }
        // A lookup of the first path again begins a new search.
        match self.tried.first().filter(|tried| tried.path == path) {
            None => true,
            Some(first) if self.kind == Kind::Path => {
                first.count.hits + first.count.misses < lookup.times
            }
            Some(_) => self.tried.len() == 1,
        }
    }
}

/// The searching process.
#[derive(Clone, Copy)]
pub(crate) struct Process<'a> {
    pub(crate) pid: u32,
    /// The path of the program that the process executes.
    pub(crate) program: &'a Rc<[u8]>,
    pub(crate) is_shell: bool,
    /// Whether PATH has the value that the command was given.
    pub(crate) has_given_path: bool,
}

/// The search that a lookup was assigned to.
pub(crate) struct AssignedSearch {
    /// The index of the search among the open searches.
    pub(crate) at: usize,
    /// The kind of the search and of the lookup.
    pub(crate) kind: Kind,
    /// A copy of the search before its kind changed from `Other` to `Path`; `None` if its kind did
    /// not change.
    pub(crate) promoted: Option<Search>,
}

/// Assigns a lookup to the open search that it continues, or to a new one at the end of `open`.
pub(crate) fn assign(
    open: &mut Vec<Search>,
    lookup: &Lookup<'_>,
    path: &[u8],
    kind: Kind,
    name: Vec<u8>,
    process: &Process<'_>,
) -> AssignedSearch {
    let is_probe = matches!(
        lookup.op,
        LookupPurpose::Stat | LookupPurpose::Access | LookupPurpose::Exec
    );
    // ld.so checks whether the directory of its last search exists. This lookup belongs to that
    // search, although its name differs.
    let is_directory = kind == Kind::Linker && lookup.op == LookupPurpose::Stat;
    let fits = |search: &Search| {
        if is_directory {
            return search.kind == Kind::Linker;
        }
        let fits_kind = search.kind == kind
            || search.kind == Kind::Other && kind == Kind::Path
            || search.kind == Kind::Path && kind == Kind::Other && is_probe;
        search.name == name && fits_kind
    };
    let at = open.iter().rposition(fits);
    let at = at.filter(|&at| is_directory || open[at].is_continued_by(lookup, path));
    let Some(at) = at else {
        open.push(Search {
            kind,
            name,
            pid: process.pid,
            program: Rc::clone(process.program),
            tried: Vec::new(),
            found: None,
            has_given_path: process.has_given_path,
            nanos: 0,
            number: 0,
        });
        return AssignedSearch {
            at: open.len() - 1,
            kind,
            promoted: None,
        };
    };
    let search = &mut open[at];
    // A shell that looks a name up in several directories searches along a PATH that it has set.
    let is_new_directory = || {
        let mut tried = search.tried.iter();
        tried.all(|tried| split(&tried.path).0 != lookup.dir)
    };
    let is_along_path = kind == Kind::Path || process.is_shell && is_probe && is_new_directory();
    let promoted = (search.kind == Kind::Other && is_along_path).then(|| {
        let before = search.clone();
        search.kind = Kind::Path;
        before
    });
    AssignedSearch {
        at,
        kind: search.kind,
        promoted,
    }
}
