//! The names of experiments, of what they find, of series of samples and of priced calls: as they
//! stand in the JSON and in files.

use gate::Gate;
use serde::{Deserialize, Serialize};

/// The experiments, in the order in which they are done.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Experiment {
    /// Which clock to use.
    Timer,
    /// Block, cluster, page, alignment.
    Block,
    /// The windows of the readahead.
    Readahead,
    /// The capacity of the page cache.
    Cache,
    /// How a file lies on the device.
    Extent,
    /// What each call costs.
    Gates,
}

impl Experiment {
    /// Every experiment.
    pub const ALL: [Experiment; 6] = [
        Experiment::Timer,
        Experiment::Block,
        Experiment::Readahead,
        Experiment::Cache,
        Experiment::Extent,
        Experiment::Gates,
    ];

    /// Its name on the command line and in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Experiment::Timer => "timer",
            Experiment::Block => "block",
            Experiment::Readahead => "readahead",
            Experiment::Cache => "cache",
            Experiment::Extent => "extent",
            Experiment::Gates => "gates",
        }
    }
}

/// The unit of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Unit {
    Bytes,
    Blocks,
    Extents,
    Hertz,
    Nanoseconds,
    PartsPerMillion,
    Reads,
    Share,
    Word,
    None,
}

impl Unit {
    /// Its name in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Bytes => "bytes",
            Unit::Blocks => "blocks",
            Unit::Extents => "extents",
            Unit::Hertz => "Hz",
            Unit::Nanoseconds => "ns",
            Unit::PartsPerMillion => "ppm",
            Unit::Reads => "reads",
            Unit::Share => "share",
            Unit::Word => "word",
            Unit::None => "",
        }
    }
}

macro_rules! quantities {
    ($($quantity:ident $name:literal $experiment:ident $unit:ident,)*) => {
        /// What an experiment finds.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
        pub enum Quantity {
            $(#[doc = concat!("`", $name, "`")] $quantity,)*
            /// Everything that an experiment finds, where it could not even begin.
            All(Experiment),
            /// The price of a call, where it could not be measured.
            Price(Call),
        }

        impl Quantity {
            /// Its name in the JSON.
            pub fn name(self) -> &'static str {
                match self {
                    $(Quantity::$quantity => $name,)*
                    Quantity::All(experiment) => experiment.name(),
                    Quantity::Price(call) => call.first_name(),
                }
            }

            /// The experiment that finds it.
            pub fn experiment(self) -> Experiment {
                match self {
                    $(Quantity::$quantity => Experiment::$experiment,)*
                    Quantity::All(experiment) => experiment,
                    Quantity::Price(_) => Experiment::Gates,
                }
            }

            /// The unit of its value.
            pub fn unit(self) -> Unit {
                match self {
                    $(Quantity::$quantity => Unit::$unit,)*
                    Quantity::All(_) => Unit::None,
                    Quantity::Price(_) => Unit::Nanoseconds,
                }
            }
        }
    };
}

quantities! {
    Timer "timer" Timer Word,
    RawOverhead "overhead-clock-monotonic-raw" Timer Nanoseconds,
    RawResolution "resolution-clock-monotonic-raw" Timer Nanoseconds,
    TimeOfDayOverhead "overhead-gettimeofday" Timer Nanoseconds,
    TimeOfDayResolution "resolution-gettimeofday" Timer Nanoseconds,
    TimeOfDayDrift "drift-gettimeofday" Timer PartsPerMillion,
    TscOverhead "overhead-tsc" Timer Nanoseconds,
    TscResolution "resolution-tsc" Timer Nanoseconds,
    TscFrequency "frequency-tsc" Timer Hertz,
    TscDrift "drift-tsc" Timer PartsPerMillion,
    TscTrusted "tsc-trusted" Timer Word,
    AllocationBlock "allocation-block" Block Bytes,
    AllocationBlockByTime "allocation-block-by-time" Block Bytes,
    Cluster "cluster" Block Bytes,
    PageCacheGranule "page-cache-granule" Block Bytes,
    PageCacheGranuleByTime "page-cache-granule-by-time" Block Bytes,
    PaperReads "paper-reads" Block Bytes,
    DirectIoAlignment "direct-io-alignment" Block Bytes,
    ReadaheadInitial "readahead-initial" Readahead Bytes,
    ReadaheadRamp "readahead-ramp" Readahead Bytes,
    ReadaheadSteady "readahead-steady" Readahead Bytes,
    ReadaheadTrigger "readahead-trigger" Readahead Bytes,
    ReadaheadSteadyByTime "readahead-steady-by-time" Readahead Bytes,
    FetchedAtOnce "fetched-at-once" Readahead Blocks,
    Prefetched "prefetched" Readahead Blocks,
    CacheCapacity "cache-capacity" Cache Bytes,
    CacheLimit "cache-limit" Cache Bytes,
    Extents "extents" Extent Extents,
    ExtentLargest "extent-largest" Extent Bytes,
    FreeSpaceInPieces "free-space-in-pieces" Extent Share,
    ExtentByTime "extent-by-time" Extent Bytes,
    DeviceReadsPerMebibyte "device-reads-per-mebibyte" Extent Reads,
    EmptyCall "empty-call" Gates Nanoseconds,
}

/// What was measured. Times are in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Kind {
    /// Small reads in order, without readahead: the time of each.
    Reads,
    /// The same with readahead.
    ReadsAhead,
    /// Small writes in order into a hole: the time of each.
    Writes,
    /// Reads of a block in order, with readahead: the time of each.
    Blocks,
    /// The same: how many pages of the file are in memory after each.
    Cached,
    /// A file is read twice, one step longer each time: the average time of a step in the second
    /// pass.
    Passes,
    /// Holes are read a step at a time: how many bytes of the file are in memory after each.
    Filled,
    /// A step is written and synced: the time of each fsync.
    Syncs,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 8] = [
        Kind::Reads,
        Kind::ReadsAhead,
        Kind::Writes,
        Kind::Blocks,
        Kind::Cached,
        Kind::Passes,
        Kind::Filled,
        Kind::Syncs,
    ];

    /// Its name in a file.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Reads => "reads",
            Kind::ReadsAhead => "reads-ahead",
            Kind::Writes => "writes",
            Kind::Blocks => "blocks",
            Kind::Cached => "cached",
            Kind::Passes => "passes",
            Kind::Filled => "filled",
            Kind::Syncs => "syncs",
        }
    }

    /// What its small calls are called.
    pub fn calls(self) -> &'static str {
        match self {
            Kind::Reads => "reads without readahead",
            Kind::ReadsAhead => "reads with readahead, as in the paper",
            Kind::Writes => "writes into a hole",
            _ => self.name(),
        }
    }

    /// The experiment that measures it.
    pub fn experiment(self) -> Experiment {
        match self {
            Kind::Reads | Kind::ReadsAhead | Kind::Writes => Experiment::Block,
            Kind::Blocks | Kind::Cached => Experiment::Readahead,
            Kind::Passes | Kind::Filled => Experiment::Cache,
            Kind::Syncs => Experiment::Extent,
        }
    }

    /// The most runs that are accepted. More would take minutes to judge.
    pub(crate) fn most_runs(self) -> usize {
        if self == Kind::Passes { 4096 } else { 1 << 16 }
    }

    /// Whether the samples are times.
    pub fn is_time(self) -> bool {
        !matches!(self, Kind::Cached | Kind::Filled)
    }
}

/// The call that shows which pages of a file are in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SeenBy {
    /// cachestat(2).
    Cachestat,
    /// mincore(2).
    Mincore,
}

impl SeenBy {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            SeenBy::Cachestat => "cachestat(2)",
            SeenBy::Mincore => "mincore(2)",
        }
    }
}

/// The names that a call is made on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Target {
    /// Files, each by its name.
    Files,
    /// The directory itself.
    Directory,
}

/// A call that is priced, alone or with the one that follows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Call {
    /// getppid(2), which does nothing in the kernel.
    Empty,
    /// statx(2) of an existing name.
    Statx(Target),
    /// statx(2) of a name that does not exist.
    StatxMissing,
    /// newfstatat(2).
    Newfstatat(Target),
    /// openat(2) and close(2).
    Open(Target),
    /// openat(2) of a new file, and close(2).
    Create,
    /// getdents64(2), for each entry.
    Getdents64,
    /// llistxattr(2) of a file without attributes.
    Llistxattr,
    /// lgetxattr(2) of an attribute that does not exist.
    LgetxattrMissing,
    /// renameat2(2) to a new name.
    Rename,
    /// unlinkat(2) of a file.
    Unlink,
    /// fsync(2) after one byte was written.
    Fsync,
    /// pread64(2) of 4 KiB.
    Pread64,
}

impl Call {
    /// The names of the system calls: `openat+close`.
    pub fn name(self) -> &'static str {
        match self {
            Call::Empty => "getppid",
            Call::Statx(_) | Call::StatxMissing => "statx",
            Call::Newfstatat(_) => "newfstatat",
            Call::Open(_) | Call::Create => "openat+close",
            Call::Getdents64 => "getdents64",
            Call::Llistxattr => "llistxattr",
            Call::LgetxattrMissing => "lgetxattr",
            Call::Rename => "renameat2",
            Call::Unlink => "unlinkat",
            Call::Fsync => "fsync",
            Call::Pread64 => "pread64",
        }
    }

    /// The name of the first system call.
    pub fn first_name(self) -> &'static str {
        match self {
            Call::Open(_) | Call::Create => "openat",
            other => other.name(),
        }
    }

    /// The first system call; `None` for one that the meter does not count.
    pub fn gate(self) -> Option<Gate> {
        let name = self.first_name();
        Gate::ALL.iter().copied().find(|gate| gate.name() == name)
    }

    /// What the call is made on: `a file, by name`.
    pub fn target(self) -> &'static str {
        match self {
            Call::Empty => "an empty call",
            Call::Statx(target) | Call::Newfstatat(target) | Call::Open(target) => match target {
                Target::Files => "a file, by name",
                Target::Directory => "the directory",
            },
            Call::StatxMissing => "a name that is not there",
            Call::Create => "a new file",
            Call::Getdents64 => "an entry",
            Call::Llistxattr => "a file without any",
            Call::LgetxattrMissing => "one that is not there",
            Call::Rename => "to a new name",
            Call::Unlink => "a file",
            Call::Fsync => "after one byte was written",
            Call::Pread64 => "4 KiB",
        }
    }
}
