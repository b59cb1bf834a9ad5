//! Look-ups that make one search: the same name, tried in one directory after another, by one
//! process.

use std::rc::Rc;

use crate::classify::Lookup;
use crate::kind::Kind;
use crate::lookup::{Op, Outcome, split};

/// A name that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Try {
    /// The name, absolute.
    pub path: Vec<u8>,
    /// How often it was there.
    pub hits: u64,
    /// How often not.
    pub misses: u64,
}

/// A search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// What it is for.
    pub kind: Kind,
    /// What is searched for: a program, a library, a module.
    pub name: Vec<u8>,
    /// The process.
    pub pid: u32,
    /// The file of the program that it ran.
    pub program: Rc<[u8]>,
    /// What was tried, in turn; the last is what was found, if anything was.
    pub tried: Vec<Try>,
    /// Where it was found.
    pub found: Option<Vec<u8>>,
    /// Nanoseconds in misses.
    pub nanos: u64,
    /// How many searches began before it.
    pub number: u64,
}

impl Search {
    /// Tries that missed.
    pub fn misses(&self) -> u64 {
        self.tried.iter().map(|tried| tried.misses).sum()
    }

    /// What its names take, with what goes with each.
    pub(super) fn bytes(&self) -> usize {
        const BESIDE: usize = 48;
        self.tried
            .iter()
            .map(|tried| tried.path.len() + BESIDE)
            .sum::<usize>()
            + self.name.len()
            + BESIDE
    }

    /// How many directories were tried.
    pub fn directories(&self) -> usize {
        let mut dirs: Vec<&[u8]> = self
            .tried
            .iter()
            .map(|tried| split(&tried.path).0)
            .collect();
        dirs.sort_unstable();
        dirs.dedup();
        dirs.len()
    }

    /// Adds a try.
    pub fn add(&mut self, path: &[u8], ended: Outcome, nanos: u64) {
        /// A search is told with so many tries; the others are counted with the last, which is what
        /// was found, if anything was.
        const MOST: usize = 1024;
        let at = match self.tried.iter().rposition(|tried| tried.path == path) {
            Some(at) => at,
            None if self.tried.len() >= MOST => {
                if ended == Outcome::Found {
                    self.tried[MOST - 1].path = path.to_vec();
                }
                MOST - 1
            }
            None => {
                self.tried.push(Try {
                    path: path.to_vec(),
                    hits: 0,
                    misses: 0,
                });
                self.tried.len() - 1
            }
        };
        if let Some(tried) = self.tried.get_mut(at) {
            tried.hits += u64::from(ended != Outcome::Missed);
            tried.misses += u64::from(ended == Outcome::Missed);
        }
        match ended {
            Outcome::Found => self.found = Some(path.to_vec()),
            Outcome::Refused => {}
            Outcome::Missed => self.nanos += nanos,
        }
    }

    /// Whether a look-up of the same name goes on with this search.
    fn goes_on(&self, it: &Lookup<'_>, path: &[u8]) -> bool {
        if let Some(found) = &self.found {
            let (dir, _) = split(found);
            let cached = it.dir.strip_suffix(b"/__pycache__");
            let beside = it.dir == dir || cached == Some(dir);
            return found == path
                || beside
                    && matches!(
                        self.kind,
                        Kind::Python | Kind::Node | Kind::Perl | Kind::Ruby
                    );
        }
        // From the beginning once more: another search.
        match self.tried.first().filter(|tried| tried.path == path) {
            None => true,
            Some(first) if self.kind == Kind::Path => first.hits + first.misses < it.times,
            Some(_) => self.tried.len() == 1,
        }
    }
}

/// Where a look-up was placed.
#[derive(Debug)]
pub struct Placed {
    /// The search, among those that are open.
    pub at: usize,
    /// What it is for, in the light of the search.
    pub kind: Kind,
    /// A search that was taken for another kind until now, as it was.
    pub promoted: Option<Search>,
}

/// Finds the search that a look-up belongs to, or begins one, at the end of `open`.
pub fn place(
    open: &mut Vec<Search>,
    it: &Lookup<'_>,
    path: &[u8],
    kind: Kind,
    name: Vec<u8>,
    shell: bool,
    (pid, program): (u32, &Rc<[u8]>),
) -> Placed {
    let asks = matches!(it.op, Op::Stat | Op::Access | Op::Exec);
    let fits = |search: &Search| {
        if kind == Kind::Linker && it.op == Op::Stat {
            return search.kind == Kind::Linker; // the directory, of which only the last search can want to know
        }
        let other = search.kind == Kind::Other && kind == Kind::Path;
        search.name == name
            && (search.kind == kind
                || other
                || search.kind == Kind::Path && kind == Kind::Other && asks)
    };
    let known = open.iter().rposition(fits).filter(|&at| {
        kind == Kind::Linker && it.op == Op::Stat
            || open.get(at).is_some_and(|search| search.goes_on(it, path))
    });
    let Some(at) = known else {
        let tried = Vec::new();
        open.push(Search {
            kind,
            name,
            pid,
            program: Rc::clone(program),
            tried,
            found: None,
            nanos: 0,
            number: 0,
        });
        return Placed {
            at: open.len() - 1,
            kind,
            promoted: None,
        };
    };
    let mut placed = Placed {
        at,
        kind,
        promoted: None,
    };
    if let Some(search) = open.get_mut(at) {
        // A shell that looks for one name in several directories searches for a program, along a
        // PATH that it has set itself.
        let along = shell
            && asks
            && !search
                .tried
                .iter()
                .any(|tried| split(&tried.path).0 == it.dir);
        if search.kind == Kind::Other && (kind == Kind::Path || along) {
            placed.promoted = Some(search.clone());
            search.kind = Kind::Path;
        }
        placed.kind = search.kind;
    }
    placed
}
