//! The flags of `fathom mounts`.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, ValueEnum};
use mounts::Method;
use mounts::names::NameSource;

use crate::args::help::{EXIT, ending, first};
use crate::args::monitor::MonitorArgs;
use crate::args::values::{choice, duration, named, number};

const EXAMPLES: &str = "\
fathom mounts  # list all mount points as a tree
fathom mounts --check  # check that each mount answers within 2 seconds
fathom mounts --beneath /srv  # count the files hidden under the mounts in /srv
fathom mounts --by search --hints none  # search the file tree, without a mount table
fathom mounts --format mnttab  # print lines that rebuild a lost /etc/mtab
fathom mounts --format exclude  # list mounts that do not answer, for --exclude-from
fathom mounts --compare /usr  # compare the cost of all methods on this tree";

const SOURCES: &str = "\
dev  Scan /dev
sys  Read /sys/dev/block";

const METHODS: &str = "\
auto       Use kernel or mountinfo, whichever costs less; without both, search
kernel     Read the mount table with listmount(2) and statmount(2)
mountinfo  Read the mount table from /proc/self/mountinfo
search     Search the file tree with the mount table as a hint; finds bind mounts and mounts on files, too
getmnt3    Search breadth first with the tree of mounted devices (paper of 1988)
getmnt2    Search depth first, and prune leaves of the device table (paper of 1988)
getmnt1    Search depth first with relative names and a depth limit (paper of 1988)
naive      Search everything by full path names, as find / -depth does";

/// The method of `--by`; `None` to choose one.
type MethodArg = Option<Method>;

#[derive(Args, Debug)]
#[command(before_help = first(EXAMPLES), after_help = EXIT, after_long_help = ending(EXAMPLES, "", EXIT))]
pub(crate) struct Mounts {
    /// The directory to start from
    #[arg(default_value = "/", value_name = "ROOT")]
    pub(crate) root: OsString,

    /// Find mount points with this method
    #[arg(long, value_name = "METHOD", default_value = "auto")]
    #[arg(help_heading = "Method", value_parser = choice(METHODS, Method::ALL, Method::name))]
    pub(crate) by: MethodArg,
    /// Limit the search depth of getmnt1 to getmnt3; 0: no limit [default: 4]
    #[arg(long, value_name = "N", help_heading = "Method", value_parser = number(0..=usize::MAX))]
    pub(crate) depth: Option<usize>,
    /// Use hints: auto, none, ids, or a file of mount points
    ///
    /// A search checks the hints first, and then reads fewer directories. Wrong hints never change
    /// the result. auto uses the mount table. none uses no hints. ids (with --by search) uses the
    /// mount table without its paths. The file is an old mount table, or has one path per line.
    #[arg(long, value_name = "WHICH", default_value = "auto")]
    #[arg(help_heading = "Method")]
    pub(crate) hints: OsString,
    /// Run all methods on this tree, and compare their costs
    ///
    /// Each run is a separate process.
    #[arg(long, help_heading = "Method", conflicts_with_all = ["by", "check", "beneath", "boundaries", "servers", "names", "watch", "assert"])]
    pub(crate) compare: bool,
    /// Run N trials per method, with --compare
    #[arg(long, value_name = "N", default_value_t = 5, requires = "compare", help_heading = "Method",
          value_parser = number(1..=65_535_usize))]
    pub(crate) trials: usize,

    /// Check that each mount answers
    ///
    /// STATUS is ok, slow, hung (no answer within --deadline), stale (its server or device is
    /// gone), failing (an error was recorded, or made it read-only), denied (no permission) or
    /// hidden (covered by a later mount, and not checked). Child processes do the check and are
    /// killed if they hang, so that a hung mount does not block fathom.
    #[arg(long, help_heading = "Diagnosis")]
    pub(crate) check: bool,
    /// Wait this long for each mount, with --check: 500ms, 2s, 1m [default: 2s]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Diagnosis")]
    pub(crate) deadline: Option<Duration>,
    /// Count the files and bytes hidden under each mount point
    #[arg(long, help_heading = "Diagnosis")]
    pub(crate) beneath: bool,
    /// List subvolumes, snapshots and automounts missing from the mount table
    #[arg(long, help_heading = "Diagnosis")]
    pub(crate) boundaries: bool,
    /// Print the server of each network mount
    #[arg(long, help_heading = "Diagnosis")]
    pub(crate) servers: bool,
    /// Resolve the names of block devices from this source
    #[arg(long, value_name = "FROM", help_heading = "Diagnosis")]
    #[arg(value_parser = named(SOURCES, [NameSource::Dev, NameSource::Sys]))]
    pub(crate) names: Option<NameSource>,
    /// Check that each PATH is a mount point; exit status 1 if not
    #[arg(long, value_name = "PATH", num_args = 1.., help_heading = "Diagnosis",
          conflicts_with_all = ["by", "depth", "hints", "check", "beneath", "boundaries", "servers", "names", "watch"])]
    pub(crate) assert: Vec<OsString>,
    /// Print mounts and unmounts as they happen, until Ctrl-C
    #[arg(long, help_heading = "Diagnosis", conflicts_with_all = ["by", "depth", "hints", "check", "beneath", "boundaries", "servers", "names"])]
    pub(crate) watch: bool,

    /// Print the mount points in this format [default: table]
    #[arg(long, value_name = "FORMAT", help_heading = "Output")]
    #[arg(conflicts_with = "json")]
    pub(crate) format: Option<Format>,
    #[command(flatten)]
    pub(crate) monitor: MonitorArgs,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    /// A table; on a terminal, a tree
    Table,
    /// One JSON object, the same as --json
    Json,
    /// One path per line, without hidden mounts
    Paths,
    /// The same, separated by NUL characters
    Paths0,
    /// Lines for /etc/mtab
    Mnttab,
    /// Lines for /etc/fstab
    Fstab,
    /// Exclude patterns for fathom dump, tar, restic and borg: hung, stale and denied mounts (implies --check)
    Exclude,
}
