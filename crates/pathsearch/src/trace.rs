//! What is recorded of the lookups of a command.

use std::rc::Rc;

use crate::environment::Environment;
use crate::group::Search;
use crate::kind::{Count, Kind, KindCounts};

/// The lookups in a directory.
#[derive(Clone, Default, Debug)]
pub struct DirectoryLookups {
    /// By kind.
    pub counts: KindCounts,
    /// Nanoseconds in misses.
    pub nanos: u64,
}

impl DirectoryLookups {
    /// The kind with the most misses, then hits.
    pub fn kind(&self) -> Kind {
        let counts = Kind::ALL.map(|kind| (kind, self.counts.get(kind)));
        let counts = counts.into_iter().rev();
        let most = counts.max_by_key(|(_, count)| (count.misses, count.hits));
        most.map_or(Kind::Other, |(kind, _)| kind)
    }
}

/// What was done with a name.
#[derive(Clone, Debug, Default)]
pub struct NameUse {
    /// Absolute.
    pub path: Rc<[u8]>,
    /// The kind of its first lookup.
    pub kind: Kind,
    pub count: Count,
    /// Nanoseconds in all calls with this name.
    pub nanos: u64,
    /// When it was first and last looked up, in nanoseconds.
    pub first_at: u64,
    pub last_at: u64,
    /// It was looked up with a symbolic link followed, and with one not followed.
    pub follow: bool,
    pub nofollow: bool,
    pub readlinks: u64,
    pub opens: u64,
    pub execs: u64,
    /// It was opened with O_CREAT.
    pub created: bool,
    pub reads: u64,
    /// Bytes of the first read.
    pub first: u64,
    /// The offset at which the furthest read ended.
    pub extent: u64,
    /// getdents64(2)
    pub listings: u64,
    /// How many names were in the table at the first of them.
    pub listed_at: usize,
    /// Calls of the stat family, also by name.
    pub stats: u64,
    /// Those after it had been read or listed.
    pub stats_after_read: u64,
    /// The first call with the name opened or executed it.
    pub opened_first: bool,
    /// The last call of the stat family came after the last read.
    pub ends_with_stat: bool,
}

/// Sums over all lookups.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Lookups.
    pub lookups: u64,
    /// Those that missed.
    pub misses: u64,
    /// Nanoseconds in misses.
    pub nanos: u64,
}

/// What is not in the tables, because they are bounded.
#[derive(Clone, Copy, Default, Debug)]
pub struct Omitted {
    pub searches: u64,
    /// Lookups in directories that are not in the table.
    pub directories: u64,
    /// Lookups of names that are not in the table.
    pub names: u64,
    /// Lookups whose names the meter could not read: they are not in the totals either.
    pub nameless: u64,
    /// Descriptors and threads that could not be followed.
    pub untracked: u64,
}

/// A program that was searched for along PATH.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Program {
    pub name: Vec<u8>,
    /// Where it was found.
    pub found: Option<Vec<u8>>,
}

/// Searches for a program, and their misses.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct ProgramUse {
    pub times: u64,
    pub misses: u64,
}

/// A program that was executed with an environment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Execution {
    /// The file of the program.
    pub program: Rc<[u8]>,
    /// The environment; `None` if it could not be read.
    pub environment: Option<Rc<Environment>>,
}

/// A script of a version manager that was executed in place of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shim {
    /// The script.
    pub path: Vec<u8>,
    /// The program that it executes in the end.
    pub program: Vec<u8>,
    /// Processes that it created before.
    pub processes: u64,
    /// Nanoseconds until then, under the meter.
    pub nanos: u64,
    /// Failed lookups until then.
    pub misses: u64,
    /// How many times it was executed.
    pub times: u64,
}

/// The lookups of a command.
#[derive(Debug, Default)]
pub struct Trace {
    /// Searches, in the order in which they began.
    pub searches: Vec<Search>,
    /// Directories, by name.
    pub directories: Vec<(Vec<u8>, DirectoryLookups)>,
    /// Names, in the order of their first lookups.
    pub names: Vec<NameUse>,
    /// Programs that were searched for along PATH.
    pub programs: Vec<(Program, ProgramUse)>,
    /// Programs that were executed, each with its environments.
    pub executions: Vec<Execution>,
    /// Scripts of version managers.
    pub shims: Vec<Shim>,
    /// Sums over all lookups.
    pub totals: Totals,
    /// Calls, lookups or not, that were recorded and have returned.
    pub recorded: u64,
    /// What is not in the tables.
    pub omitted: Omitted,
    /// All lookups are in the table of names.
    pub is_complete: bool,
}
