//! The flags of `fathom probe`.

use std::ffi::OsString;
use std::time::Duration;

use clap::builder::TypedValueParser;
use clap::{Args, ValueEnum};
use probe::Experiment;

use crate::args::help::{EXIT, ending, first};
use crate::args::values::{cache_limit, choice, seconds, size};

const EXAMPLES: &str = "\
fathom probe /srv  # all experiments, at most 1 GiB of reads and writes
fathom probe /srv block readahead  # two experiments
fathom probe /srv gates --json  # the price of each system call, as JSON
fathom probe /srv --plot figs --csv figs  # figures and samples, into an existing directory
fathom probe --replay figs/extent-syncs-1048576.csv  # evaluate saved samples again
fathom probe /srv cache --method paper  # read a file twice, as the paper does";

const EXPERIMENTS: &str = "\
timer      Resolution, cost and drift of the clocks
block      Allocation unit, page-cache granule, direct I/O alignment
readahead  Readahead windows
cache      Capacity of the page cache
extent     Extents of a file, and fragmentation of free space
gates      Price of each system call: cached and uncached, on one thread and on all processors
all        All experiments";

/// An experiment; `None` for all.
pub(crate) type ChosenExperiment = Option<Experiment>;

fn experiment() -> impl TypedValueParser<Value = ChosenExperiment> {
    choice(EXPERIMENTS, Experiment::ALL, Experiment::name)
}

/// The flags of `fathom probe`.
#[derive(Args, Debug)]
#[command(before_help = first(EXAMPLES), after_help = EXIT, after_long_help = ending(EXAMPLES, "", EXIT),
          override_usage = "fathom probe [OPTIONS] DIR [EXPERIMENT]...\n       fathom probe [OPTIONS] --replay FILE")]
pub(crate) struct Probe {
    /// The directory to measure in; temporary files are created there
    #[arg(value_name = "DIR", required_unless_present = "replay")]
    #[arg(conflicts_with = "replay")]
    pub(crate) dir: Option<OsString>,
    /// The experiments to run [default: all]
    #[arg(value_name = "EXPERIMENT", conflicts_with = "replay", value_parser = experiment())]
    pub(crate) experiments: Vec<ChosenExperiment>,

    /// Read and write at most SIZE bytes, such as 64M or 2G
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size, help_heading = "Limits")]
    pub(crate) max_bytes: u64,
    /// Stop after DURATION, such as 60 (seconds) or 5m
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = seconds, help_heading = "Limits")]
    pub(crate) max_seconds: Duration,

    /// Measure the size of the page cache by METHOD
    #[arg(long, value_name = "METHOD", default_value = "holes")]
    #[arg(help_heading = "Page cache")]
    pub(crate) method: CacheMethod,
    /// Fill the page cache in a cgroup with this memory limit, 16M to 4G
    ///
    /// By default it is the memory limit of the cgroup that fathom runs in, else 256M. The cgroup
    /// is temporary, so that the page cache of other processes is not evicted.
    #[arg(long, value_name = "SIZE", value_parser = cache_limit, help_heading = "Page cache")]
    pub(crate) cache_limit: Option<u64>,

    /// Print every property, its confidence and method, and all prices
    ///
    /// -v adds how each value was measured.
    #[arg(long, help_heading = "Output", conflicts_with = "json")]
    pub(crate) full: bool,
    /// Write plots of samples and prices as SVG to DIR, an existing directory
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) plot: Option<OsString>,
    /// Write samples and prices as CSV to DIR, an existing directory
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) csv: Option<OsString>,
    /// Evaluate the samples in FILE instead of measuring
    ///
    /// FILE was written by --csv, or has the samples of the paper in the same format.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) replay: Option<OsString>,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CacheMethod {
    /// Fill it with the holes of a sparse file, without disk I/O
    Holes,
    /// Read files of growing length twice, as the paper does
    Paper,
}
