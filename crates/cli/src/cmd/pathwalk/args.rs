//! The flags of `fathom pathwalk`: those of LLNL's program, and more.

use std::ffi::OsString;

use clap::{ArgGroup, Args, ValueEnum};

use crate::args::help::{EXIT, ending};
use crate::args::values::number;

const EXAMPLES: &str = "\
fathom pathwalk -c /mnt/nfs/tree  # make the tree: 16 directories of 10000 files
fathom pathwalk -t /mnt/nfs/tree  # search it for each of 10000 files
fathom pathwalk -t -F /mnt/nfs/tree  # for files that are in no directory
fathom pathwalk -r /mnt/nfs/tree  # remove it
fathom pathwalk -ctr -l 8 -f 1000 ./x  # all in one go, with 8 directories of 1000 files
fathom pathwalk -t --repeat 2 ./x  # what it is worth that the kernel knows the names
fathom pathwalk -t -j 8 --latency ./x  # by eight threads, with percentiles
fathom pathwalk -t --cold --method open ./x  # once the kernel has forgotten the names
srun -N 64 fathom pathwalk -t /mnt/nfs/tree  # by all nodes at once (with MPI: docs/cluster.md)";

/// The flags of `fathom pathwalk`.
#[derive(Args, Debug)]
#[command(after_help = EXIT, after_long_help = ending(EXAMPLES, "", EXIT), infer_long_args = true,
          group = ArgGroup::new("parts").args(["create", "test", "remove"]).multiple(true).required(true))]
pub(crate) struct Pathwalk {
    /// The directory that the tree is in, or is to be: -c makes it
    #[arg(value_name = "ROOT")]
    pub(crate) root: OsString,

    /// Make the tree: ROOT, and in it directories of empty files
    #[arg(short, long, help_heading = "What LLNL's program has")]
    pub(crate) create: bool,
    /// Search it for each file, which is in the last directory
    #[arg(short, long, help_heading = "What LLNL's program has")]
    pub(crate) test: bool,
    /// Remove it; what -c has not made stays
    #[arg(short, long, help_heading = "What LLNL's program has")]
    pub(crate) remove: bool,
    /// Search N directories
    #[arg(short, long, value_name = "N", default_value_t = 16, help_heading = "What LLNL's program has",
          value_parser = number(1..=u64::MAX))]
    pub(crate) length: u64,
    /// Search for N files
    #[arg(short, long, value_name = "N", default_value_t = 10_000, help_heading = "What LLNL's program has",
          value_parser = number(0..=u64::MAX))]
    pub(crate) files: u64,
    /// Search for one file before the search that counts
    #[arg(
        short = 'C',
        long,
        alias = "cacheonly",
        help_heading = "What LLNL's program has"
    )]
    pub(crate) primecache: bool,
    /// Search for files that are in no directory
    #[arg(short = 'F', long, help_heading = "What LLNL's program has")]
    pub(crate) failsearch: bool,

    /// Share the files among N threads
    #[arg(short = 'j', long, visible_alias = "jobs", value_name = "N", default_value_t = 1, help_heading = "Beyond it",
          value_parser = number(1..=1024_u16))]
    pub(crate) threads: u16,
    /// Look names up by this method
    #[arg(
        long,
        value_name = "METHOD",
        default_value = "stat",
        help_heading = "Beyond it"
    )]
    pub(crate) method: LookupMethod,
    /// Search so often; the first search teaches the kernel the names for the second
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Beyond it",
          value_parser = number(1..=10_000_u32))]
    pub(crate) repeat: u32,
    /// Have the kernel forget the names before the first search: what this process's memory cgroup
    /// has in memory, or with --cold=host what the whole host has
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "group",
          help_heading = "Beyond it")]
    pub(crate) cold: Option<CacheScope>,
    /// Time each look-up, for percentiles and a histogram; that costs two looks at the clock for
    /// each
    #[arg(long, help_heading = "Beyond it")]
    pub(crate) latency: bool,
    /// Draw the latencies, and how long each search took, into a directory, as SVG; does
    /// --latency
    #[arg(long, value_name = "DIR", help_heading = "Beyond it")]
    pub(crate) plot: Option<OsString>,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LookupMethod {
    /// stat(2), as LLNL's program does
    Stat,
    /// statx(2)
    Statx,
    /// access(2), as shells do
    Access,
    /// open(2), and close(2) when it is found, as the dynamic linker does
    Open,
    /// stat(2) from directories that are open already
    Dirfd,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CacheScope {
    /// What this process's memory cgroup has in memory
    Group,
    /// What the whole host has in memory: slows down everybody on it
    Host,
}
