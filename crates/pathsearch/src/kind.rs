//! Kinds of searches, and counts of lookups by kind.

use std::ops::AddAssign;

base::named! {
    /// The kind of files that a process searches for.
    #[derive(Default)]
    Kind {
        /// A program along PATH, by a shell or execvp(3).
        Path "PATH",
        /// A shared library, by ld.so: along RPATH, RUNPATH, LD_LIBRARY_PATH, and in ld.so.cache.
        Linker "ld.so",
        /// A Python module along sys.path.
        Python "python",
        /// A Perl module along @INC.
        Perl "perl",
        /// A Ruby library along $LOAD_PATH.
        Ruby "ruby",
        /// A Node module: node_modules, package.json.
        Node "node",
        /// Headers, libraries and programs of a compiler, an assembler or a linker.
        Gcc "gcc",
        /// A locale, a message catalogue or a character conversion.
        Locale "locale",
        /// A description of a terminal.
        Terminfo "terminfo",
        /// Anything else.
        #[default]
        Other "other",
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
