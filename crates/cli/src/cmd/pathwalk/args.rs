//! The flags of `fathom pathwalk`: those of LLNL's program, and additional ones.

use std::ffi::OsString;

use clap::builder::TypedValueParser;
use clap::{ArgGroup, Args, ValueEnum};
use pathwalk::Method;

use crate::args::help::{EXIT, ending, first};
use crate::args::values::{named, number};

const EXAMPLES: &str = "\
fathom pathwalk -c /mnt/nfs/tree  # create the tree: 16 directories of 10,000 files
fathom pathwalk -t /mnt/nfs/tree  # search it for each of 10,000 files
fathom pathwalk -t -F /mnt/nfs/tree  # search for files that do not exist
fathom pathwalk -r /mnt/nfs/tree  # remove the tree
fathom pathwalk -ctr -l 8 -f 1000 ./x  # do all three, with 8 directories of 1000 files
fathom pathwalk -t --repeat 2 ./x  # compare the first search with the second
fathom pathwalk -t -j 8 --latency ./x  # use eight threads, and print percentiles
fathom pathwalk -t --cold --method open ./x  # drop caches first, and use open(2)
srun -N 64 fathom pathwalk -t /mnt/nfs/tree  # run on all nodes at once (with MPI: docs/cluster.md)";

const METHODS: &str = "\
stat    stat(2), as LLNL's program does
statx   statx(2)
access  access(2), as shells do
open    open(2), and close(2) if it succeeds, as the dynamic linker does
dirfd   stat(2), relative to open directories";

fn method() -> impl TypedValueParser<Value = Method> {
    use Method::{Access, Dirfd, Open, Stat, Statx};
    named(METHODS, [Stat, Statx, Access, Open, Dirfd])
}

/// The flags of `fathom pathwalk`. The last value of a repeated option counts, as in getopt(3), which
/// LLNL's program uses.
#[derive(Args, Debug)]
#[command(before_help = first(EXAMPLES), after_help = EXIT, after_long_help = ending(EXAMPLES, "", EXIT), infer_long_args = true, args_override_self = true,
          override_usage = "fathom pathwalk [OPTIONS] {-c|-t|-r}... <ROOT>",
          group = ArgGroup::new("parts").args(["create", "test", "remove"]).multiple(true).required(true))]
pub(crate) struct Pathwalk {
    /// The top directory of the tree; -c creates it
    #[arg(value_name = "ROOT")]
    pub(crate) root: OsString,

    /// Create the tree: ROOT, with directories of empty files
    #[arg(short, long, help_heading = "LLNL's options")]
    pub(crate) create: bool,
    /// Look up each file of the last directory in all directories in turn
    #[arg(short, long, help_heading = "LLNL's options")]
    pub(crate) test: bool,
    /// Remove the tree, except files that -c did not create
    #[arg(short, long, help_heading = "LLNL's options")]
    pub(crate) remove: bool,
    /// Search N directories
    #[arg(short, long, value_name = "N", default_value_t = 16, help_heading = "LLNL's options",
          value_parser = number(1..=u64::MAX))]
    pub(crate) length: u64,
    /// Search for N files
    #[arg(short, long, value_name = "N", default_value_t = 10_000, help_heading = "LLNL's options",
          value_parser = number(0..=u64::MAX))]
    pub(crate) files: u64,
    /// Search for one file before the timed search
    #[arg(short = 'C', long, alias = "cacheonly")]
    #[arg(help_heading = "LLNL's options")]
    pub(crate) primecache: bool,
    /// Search for files that do not exist
    #[arg(short = 'F', long, help_heading = "LLNL's options")]
    pub(crate) failsearch: bool,

    /// Share the files among N threads
    #[arg(short = 'j', long, visible_alias = "jobs", value_name = "N", default_value_t = 1, requires = "test", help_heading = "Extensions",
          value_parser = number(1..=1024_u16))]
    pub(crate) threads: u16,
    /// Look names up with this system call
    #[arg(long, value_name = "METHOD", default_value = "stat", requires = "test")]
    #[arg(help_heading = "Extensions", value_parser = method())]
    pub(crate) method: Method,
    /// Search N times
    ///
    /// The first search fills the kernel's caches for the second.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "test", help_heading = "Extensions",
          value_parser = number(1..=10_000_u32))]
    pub(crate) repeat: u32,
    /// Drop cached names, inodes and pages before the first search
    ///
    /// --cold drops the caches charged to the memory cgroup of this process; --cold=host drops the
    /// caches of the whole host.
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "group",
          requires = "test", help_heading = "Extensions")]
    pub(crate) cold: Option<CacheScope>,
    /// Time each lookup, and print percentiles
    ///
    /// Reading the clock twice per lookup adds to the times of the searches. --json has a histogram.
    #[arg(long, requires = "test", help_heading = "Extensions")]
    pub(crate) latency: bool,
    /// Write plots of the latencies as SVG to DIR, an existing directory
    ///
    /// Implies --latency.
    #[arg(long, value_name = "DIR", requires = "test")]
    #[arg(help_heading = "Extensions")]
    pub(crate) plot: Option<OsString>,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CacheScope {
    /// Drop the caches charged to this process's memory cgroup
    Group,
    /// Drop the caches of the host, which slows down all its processes
    Host,
}
