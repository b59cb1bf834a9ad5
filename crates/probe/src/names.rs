//! Names as they stand in the JSON and in files: of experiments, of what they find, of series of
//! samples, and of priced calls.

use std::fmt;

use gate::Gate;
use serde::{Deserialize, Serialize};

/// Defines an enum, each of whose variants has a name.
macro_rules! named {
    ($(#[$about:meta])* $type:ident { $($(#[$doc:meta])* $variant:ident $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
        pub enum $type {
            $(#[doc = concat!("`", $name, "`")] $(#[$doc])* $variant,)*
        }

        impl $type {
            /// All of them, in order.
            pub const ALL: &[$type] = &[$($type::$variant),*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $($type::$variant => $name,)* }
            }
        }
    };
}

named! {
    /// The experiments, in the order in which they are done.
    Experiment {
        Timer "timer",
        Block "block",
        Readahead "readahead",
        Cache "cache",
        Extent "extent",
        Gates "gates",
    }
}

named! {
    /// The unit of a value.
    Unit {
        Bytes "bytes",
        Blocks "blocks",
        Extents "extents",
        Hertz "Hz",
        Nanoseconds "ns",
        PartsPerMillion "ppm",
        Reads "reads",
        Share "share",
        Word "word",
        None "",
    }
}

named! {
    /// The call that shows which pages of a file are in memory.
    SeenBy {
        Cachestat "cachestat(2)",
        Mincore "mincore(2)",
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

impl Quantity {
    /// What the residency of a file's pages shows of readahead.
    pub(crate) const READAHEAD_WINDOWS: [Quantity; 4] = [
        Quantity::ReadaheadInitial,
        Quantity::ReadaheadRamp,
        Quantity::ReadaheadSteady,
        Quantity::ReadaheadTrigger,
    ];
}

named! {
    /// What was measured. Times are in nanoseconds.
    Kind {
        /// Small reads in order, without readahead: the time of each.
        Reads "reads",
        /// The same with readahead.
        ReadsAhead "reads-ahead",
        /// Small writes in order into a hole: the time of each.
        Writes "writes",
        /// Reads of a block in order, with readahead: the time of each.
        Blocks "blocks",
        /// The same: how many pages of the file are in memory after each.
        Cached "cached",
        /// A file is read twice, one step longer each time: the average time of a step in the
        /// second pass.
        Passes "passes",
        /// Holes are read a step at a time: how many bytes of the file are in memory after each.
        Filled "filled",
        /// A step is written and synced: the time of each fsync.
        Syncs "syncs",
    }
}

impl Kind {
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
}

/// How many samples there are, and of what: `100 steps of 4096 bytes`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SampleCount {
    pub(crate) kind: Kind,
    pub(crate) runs: usize,
    pub(crate) step: u64,
}

impl fmt::Display for SampleCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SampleCount { kind, runs, step } = self;
        let calls = match kind {
            Kind::Syncs => {
                return write!(f, "{runs} writes and syncs of {step} bytes");
            }
            Kind::Passes | Kind::Filled => return write!(f, "{runs} steps of {step} bytes"),
            Kind::Reads => "reads without readahead",
            Kind::ReadsAhead => "reads with readahead",
            Kind::Writes => "writes into a hole",
            Kind::Blocks | Kind::Cached => "reads",
        };
        write!(f, "{runs} {calls} of {step} bytes each")
    }
}

macro_rules! calls {
    ($($call:ident $name:literal $target:literal,)*) => {
        /// A call that is priced, alone or with the one that follows it.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
        pub enum Call {
            $(#[doc = concat!("`", $name, "`: ", $target)] $call,)*
        }

        impl Call {
            /// The names of the system calls: `openat+close`.
            pub fn name(self) -> &'static str {
                match self { $(Call::$call => $name,)* }
            }

            /// What the call is made on: `a file, by name`.
            pub fn target(self) -> &'static str {
                match self { $(Call::$call => $target,)* }
            }
        }
    };
}

calls! {
    Empty "getppid" "an empty call",
    StatxFile "statx" "a file, by name",
    StatxDirectory "statx" "the directory",
    StatxMissing "statx" "a name that is not there",
    NewfstatatFile "newfstatat" "a file, by name",
    NewfstatatDirectory "newfstatat" "the directory",
    OpenFile "openat+close" "a file, by name",
    OpenDirectory "openat+close" "the directory",
    Create "openat+close" "a new file",
    Getdents64 "getdents64" "an entry",
    Llistxattr "llistxattr" "a file without any",
    LgetxattrMissing "lgetxattr" "one that is not there",
    Rename "renameat2" "to a new name",
    Unlink "unlinkat" "a file",
    Fsync "fsync" "after one byte was written",
    Pread64 "pread64" "4 KiB",
}

impl Call {
    fn first_name(self) -> &'static str {
        self.name().trim_end_matches("+close")
    }

    /// The first system call; `None` for one that the meter does not count.
    pub(crate) fn gate(self) -> Option<Gate> {
        let name = self.first_name();
        Gate::ALL.iter().copied().find(|gate| gate.name() == name)
    }
}
