//! Names in the JSON and in files: of experiments, quantities, series of samples, and priced calls.

use std::fmt;

use gate::Gate;
use serde::{Deserialize, Serialize};

base::named! {
    /// The experiments, in their order of execution.
    #[derive(Hash, Serialize, Deserialize)]
    Experiment {
        Timer "timer",
        Block "block",
        Readahead "readahead",
        Cache "cache",
        Extent "extent",
        Gates "gates",
    }
}

base::named! {
    /// The unit of a value.
    #[derive(Hash, Serialize, Deserialize)]
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

base::named! {
    /// The call that shows which pages of a file are in memory.
    #[derive(Hash, Serialize, Deserialize)]
    SeenBy {
        Cachestat "cachestat(2)",
        Mincore "mincore(2)",
    }
}

macro_rules! quantities {
    ($($quantity:ident $name:literal $experiment:ident $unit:ident,)*) => {
        /// A quantity that an experiment measures.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
        pub enum Quantity {
            $(#[doc = concat!("`", $name, "`")] $quantity,)*
            /// All quantities of an experiment that could not begin.
            All(Experiment),
            /// The price of a call that could not be measured.
            Price(Call),
        }

        impl Quantity {
            /// The name of the quantity in the JSON.
            pub fn name(self) -> &'static str {
                match self {
                    $(Quantity::$quantity => $name,)*
                    Quantity::All(experiment) => experiment.name(),
                    Quantity::Price(call) => call.first_name(),
                }
            }

            /// The experiment that measures the quantity.
            pub fn experiment(self) -> Experiment {
                match self {
                    $(Quantity::$quantity => Experiment::$experiment,)*
                    Quantity::All(experiment) => experiment,
                    Quantity::Price(_) => Experiment::Gates,
                }
            }

            /// The unit of the quantity.
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
    /// The quantities of readahead that are measured by observing which pages are in memory.
    pub(crate) const READAHEAD_WINDOWS: [Quantity; 4] = [
        Quantity::ReadaheadInitial,
        Quantity::ReadaheadRamp,
        Quantity::ReadaheadSteady,
        Quantity::ReadaheadTrigger,
    ];
}

base::named! {
    /// A kind of samples. Times are in nanoseconds.
    #[derive(Hash, Serialize, Deserialize)]
    Kind {
        /// Times of small sequential reads, without readahead.
        Reads "reads",
        /// Times of small sequential reads, with readahead.
        ReadsAhead "reads-ahead",
        /// Times of small sequential writes into a hole.
        Writes "writes",
        /// Times of sequential reads of a block, with readahead.
        Blocks "blocks",
        /// Number of cached pages of the file after each sequential read of a block.
        Cached "cached",
        /// A file is read twice, at several lengths: the average time per step of the second pass.
        Passes "passes",
        /// Holes are read step by step: the cached bytes of the file after each step.
        Filled "filled",
        /// A step is written and synced: the time of each fsync.
        Syncs "syncs",
    }
}

impl Kind {
    /// The experiment that takes these samples.
    pub fn experiment(self) -> Experiment {
        match self {
            Kind::Reads | Kind::ReadsAhead | Kind::Writes => Experiment::Block,
            Kind::Blocks | Kind::Cached => Experiment::Readahead,
            Kind::Passes | Kind::Filled => Experiment::Cache,
            Kind::Syncs => Experiment::Extent,
        }
    }

    /// The maximum number of runs that is accepted; more would take minutes to evaluate.
    pub(crate) fn most_runs(self) -> usize {
        if self == Kind::Passes { 4096 } else { 1 << 16 }
    }
}

/// Number and kind of samples, in words: `100 steps of 4096 bytes`.
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
        /// A priced call, or two calls that are priced together.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
        pub enum Call {
            $(#[doc = concat!("`", $name, "`: ", $target)] $call,)*
        }

        impl Call {
            /// The names of the system calls: `openat+close`.
            pub fn name(self) -> &'static str {
                match self { $(Call::$call => $name,)* }
            }

            /// The object of the call: `a file, by name`.
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

    /// The first system call; `None` if the meter does not count it.
    pub(crate) fn gate(self) -> Option<Gate> {
        let name = self.first_name();
        Gate::ALL.iter().copied().find(|gate| gate.name() == name)
    }
}
