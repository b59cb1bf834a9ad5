//! The recorded lookups of a command.

use std::rc::Rc;

use crate::environment::Environment;
use crate::group::Search;
use crate::kind::{Count, Kind, KindCounts};

/// The lookups in a directory.
#[derive(Clone, Default, Debug)]
pub struct DirectoryLookups {
    /// Hits and misses by kind.
    pub counts: KindCounts,
    /// Nanoseconds in failed lookups.
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

/// The calls on a name, summed up.
#[derive(Clone, Debug, Default)]
pub struct NameUse {
    /// The absolute path.
    pub path: Rc<[u8]>,
    /// The kind of the first lookup of the name.
    pub kind: Kind,
    pub count: Count,
    /// Nanoseconds in all calls with this name.
    pub nanos: u64,
    /// The time of the first lookup in nanoseconds; `last_at` is the time of the last lookup.
    pub first_at: u64,
    pub last_at: u64,
    /// At least one lookup followed a final symbolic link; `nofollow`: at least one lookup did not.
    pub follow: bool,
    pub nofollow: bool,
    pub readlinks: u64,
    pub opens: u64,
    pub execs: u64,
    /// The file was opened with O_CREAT.
    pub created: bool,
    pub reads: u64,
    /// The size of the first read in bytes.
    pub first: u64,
    /// The largest offset at which a read ended.
    pub extent: u64,
    /// The number of getdents64(2) calls.
    pub listings: u64,
    /// The number of names in the table at the first getdents64(2).
    pub listed_at: usize,
    /// The number of calls of the stat family, by name or descriptor.
    pub stats: u64,
    /// The number of stat calls after the file was read or listed.
    pub stats_after_read: u64,
    /// The first call with the name opened or executed the file.
    pub opened_first: bool,
    /// The last call of the stat family came after the last read.
    pub ends_with_stat: bool,
}

impl NameUse {
    /// The entry of a name that is not used any more. Such an entry keeps its place, because
    /// [`NameUse::listed_at`] of other entries is a position in the table.
    pub(crate) fn removed(&self) -> NameUse {
        NameUse {
            first_at: self.first_at,
            last_at: self.last_at,
            ..NameUse::default()
        }
    }
}

/// Sums over all lookups.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Totals {
    /// The number of lookups.
    pub lookups: u64,
    /// The number of failed lookups.
    pub misses: u64,
    /// Nanoseconds in failed lookups.
    pub nanos: u64,
}

/// Numbers of lookups that are not in the tables, because these are bounded.
#[derive(Clone, Copy, Default, Debug)]
pub struct OmittedLookups {
    pub searches: u64,
    /// Lookups in directories that are not in the table.
    pub directories: u64,
    /// Lookups of names that are not in the table.
    pub names: u64,
    /// Lookups whose names the meter could not read; they are not in the totals either.
    pub nameless: u64,
    /// Descriptors and threads that could not be tracked.
    pub untracked: u64,
}

/// A program that was searched for along PATH.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Program {
    pub name: Vec<u8>,
    /// The path where the program was found.
    pub found: Option<Vec<u8>>,
}

/// The number of searches for a program, and of failed lookups in them.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct ProgramUse {
    pub times: u64,
    pub misses: u64,
}

/// A program that was executed with an environment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Execution {
    /// The path of the program.
    pub program: Rc<[u8]>,
    /// The environment; `None` if it could not be read.
    pub environment: Option<Rc<Environment>>,
}

/// A shim: a script of a version manager that is executed in place of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shim {
    /// The path of the script.
    pub path: Vec<u8>,
    /// The program that the script finally executes.
    pub program: Vec<u8>,
    /// The number of processes that the script creates before it executes the program.
    pub processes: u64,
    /// Nanoseconds until the program is executed, under the meter.
    pub nanos: u64,
    /// Failed lookups until the program is executed.
    pub misses: u64,
    /// How many times the script was executed.
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
    /// The executed programs, each with its environments.
    pub executions: Vec<Execution>,
    /// The shim scripts of version managers.
    pub shims: Vec<Shim>,
    /// Sums over all lookups.
    pub totals: Totals,
    /// The number of recorded calls that have returned, lookups or not.
    pub recorded: u64,
    /// Lookups that are not in the tables.
    pub omitted: OmittedLookups,
    /// All lookups are in the table of names.
    pub is_complete: bool,
}
