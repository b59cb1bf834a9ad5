//! The flags of `fathom probe`.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::args::help::{EXIT, ending};
use crate::args::values::{duration, size};

const EXAMPLES: &str = "\
fathom probe /srv  # every experiment, with up to 1 GiB of reads and writes
fathom probe /srv block readahead  # two of them
fathom probe /srv gates --json  # what each call costs, for other programs
fathom probe /srv --plot figs --csv figs  # with figures and samples, in a directory that is there
fathom probe --replay figs/extent-syncs-1048576.csv  # judge samples again
fathom probe /srv cache --method paper  # by reading a file twice, as in the paper";

/// The flags of `fathom probe`.
#[derive(Args, Debug)]
#[command(after_help = EXIT, after_long_help = ending(EXAMPLES, "", EXIT))]
pub(crate) struct Probe {
    /// The directory on the file system in which files can be made
    #[arg(
        value_name = "DIR",
        required_unless_present = "replay",
        conflicts_with = "replay"
    )]
    pub(crate) dir: Option<OsString>,
    /// The experiments to do [default: all]
    #[arg(value_name = "EXPERIMENT", conflicts_with = "replay")]
    pub(crate) experiments: Vec<Experiment>,

    /// Read and write no more than so much, as 64M, 2G
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size, help_heading = "Bounds")]
    pub(crate) max_bytes: u64,
    /// Take no longer than this, as 60s, 5m
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration, help_heading = "Bounds")]
    pub(crate) max_seconds: Duration,

    /// Find the size of the page cache by this method
    #[arg(
        long,
        value_name = "METHOD",
        default_value = "holes",
        help_heading = "Cache"
    )]
    pub(crate) method: CacheMethod,
    /// Fill the page cache in a group (cgroup) that is made with this limit, 16M to 4G [default:
    /// the group's own limit, where there is one; else 256M]
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Cache")]
    pub(crate) cache_limit: Option<u64>,

    /// Draw each series of samples into a directory, as SVG
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) plot: Option<OsString>,
    /// Keep the samples in a directory, a file for each series, and the prices
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) csv: Option<OsString>,
    /// Measure nothing, and judge the samples of a file that --csv has kept, or of the paper
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) replay: Option<OsString>,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Experiment {
    /// Which clock to go by, and whether the processor's counter may be trusted
    Timer,
    /// Block, cluster, page-cache granule, alignment of direct I/O
    Block,
    /// Every window of the readahead
    Readahead,
    /// How much the page cache holds
    Cache,
    /// How a file lies on the device, and how whole free space is
    Extent,
    /// What each call costs: warm, cold, on one thread and on all
    Gates,
    /// All of them
    All,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CacheMethod {
    /// The holes of a file fill it, without asking the disk
    Holes,
    /// A file is read twice, at lengths that a search chooses
    Paper,
}
