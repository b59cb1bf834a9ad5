//! Kinds of searches, and counts of lookups by kind.

use std::ops::AddAssign;

/// The kind of files that a process searches for.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A program along PATH, by a shell or execvp(3).
    Path,
    /// A shared library, by ld.so: along RPATH, RUNPATH, LD_LIBRARY_PATH, and in ld.so.cache.
    Linker,
    /// A Python module along sys.path.
    Python,
    /// A Perl module along @INC.
    Perl,
    /// A Ruby library along $LOAD_PATH.
    Ruby,
    /// A Node module: node_modules, package.json.
    Node,
    /// Headers, libraries and programs of a compiler, an assembler or a linker.
    Gcc,
    /// A locale, a message catalogue or a character conversion.
    Locale,
    /// A description of a terminal.
    Terminfo,
    /// Anything else.
    #[default]
    Other,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 10] = {
        use Kind::*;
        [
            Path, Linker, Python, Perl, Ruby, Node, Gcc, Locale, Terminfo, Other,
        ]
    };

    /// The name of the kind in the text, in the JSON and in the docs.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Path => "PATH",
            Kind::Linker => "ld.so",
            Kind::Python => "python",
            Kind::Perl => "perl",
            Kind::Ruby => "ruby",
            Kind::Node => "node",
            Kind::Gcc => "gcc",
            Kind::Locale => "locale",
            Kind::Terminfo => "terminfo",
            Kind::Other => "other",
        }
    }
}

/// Lookups of one kind.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Count {
    /// Lookups that did not end in ENOENT or ENOTDIR.
    pub hits: u64,
    /// Lookups that ended in ENOENT or ENOTDIR.
    pub misses: u64,
}

impl Count {
    pub(crate) fn add(&mut self, is_hit: bool) {
        if is_hit {
            self.hits += 1;
        } else {
            self.misses += 1;
        }
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Count) {
        self.hits += other.hits;
        self.misses += other.misses;
    }
}

/// The lookups of each kind.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct KindCounts([Count; Kind::ALL.len()]);

impl KindCounts {
    /// The lookups of one kind.
    pub fn get(&self, kind: Kind) -> Count {
        self.0[kind as usize]
    }

    /// The lookups of one kind, mutable.
    pub fn get_mut(&mut self, kind: Kind) -> &mut Count {
        &mut self.0[kind as usize]
    }

    /// The kinds with at least one lookup.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, Count)> {
        Kind::ALL
            .into_iter()
            .zip(self.0)
            .filter(|(_, count)| *count != Count::default())
    }

    /// The sum over all kinds.
    pub fn total(&self) -> Count {
        let mut total = Count::default();
        self.0.iter().for_each(|count| total += *count);
        total
    }
}

impl AddAssign for KindCounts {
    fn add_assign(&mut self, other: KindCounts) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}
