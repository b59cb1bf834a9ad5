//! The flags of `fathom mounts`.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, ValueEnum};
use mounts::Method;

use crate::args::help::{EXIT, ending};
use crate::args::values::{choice, duration, number};

const EXAMPLES: &str = "\
fathom mounts  # every mount point, as a tree
fathom mounts --by search --hints none  # found in the tree itself, by no table
fathom mounts --check  # which mounts answer within 2 seconds
fathom mounts --beneath /srv  # what lies hidden under the mounts in /srv
fathom mounts --format mnttab  # what rebuilds a lost /etc/mtab
fathom mounts --format exclude  # mounts that do not answer, for tar -X
fathom mounts --compare /usr  # what each method costs on this tree";

const MORE: &str =
    "--assert succeeds only if each PATH is a mount point; else the exit status is 1.";

const METHODS: &str = "\
auto       kernel or mountinfo, whichever is cheaper here, or search if there is neither
kernel     listmount(2) and statmount(2)
mountinfo  /proc/self/mountinfo
search     The file tree: the names in the table first, then directory by directory; sees bind mounts and mounts on files
getmnt3    The paper's third program: breadth first, the tree of mounted devices
getmnt2    The paper's second: depth first, leaves of the table of devices left out
getmnt1    The paper's first: depth first, relative names, a bound on the depth
naive      Full names, everything, as `find / -depth`";

/// The method that was asked for; `None` to choose one.
type By = Option<Method>;

#[derive(Args, Debug)]
#[command(after_help = EXIT, after_long_help = ending(EXAMPLES, MORE, EXIT))]
pub(crate) struct Mounts {
    /// The directory to begin at
    #[arg(default_value = "/", value_name = "ROOT")]
    pub(crate) root: OsString,

    /// Find them by this method
    #[arg(long, value_name = "METHOD", default_value = "auto")]
    #[arg(help_heading = "Finding", value_parser = choice(METHODS, Method::ALL, Method::name))]
    pub(crate) by: By,
    /// With --by getmnt1 to getmnt3: look at entries this deep at most; 0 is no bound [default: 4]
    #[arg(long, value_name = "N", help_heading = "Finding", value_parser = number(0..=usize::MAX))]
    pub(crate) depth: Option<usize>,
    /// Go by this extra information: auto (the mount table) or none; for search also ids (the table
    /// without its names) or a file (an old mount table, or paths: where to look first)
    #[arg(long, value_name = "WHICH", default_value = "auto")]
    #[arg(help_heading = "Finding")]
    pub(crate) hints: OsString,
    /// Run every method on this tree, each in a process of its own, and compare them
    #[arg(long, help_heading = "Finding", conflicts_with_all = ["by", "check", "beneath", "boundaries", "servers", "names", "watch", "assert"])]
    pub(crate) compare: bool,
    /// With --compare: run each method so often
    #[arg(long, value_name = "N", default_value_t = 5, requires = "compare", help_heading = "Finding",
          value_parser = number(1..=65_535_usize))]
    pub(crate) trials: usize,

    /// Touch each mount from a child that can be killed: ok, slow, hung, stale, denied, hidden
    #[arg(long, help_heading = "Asking")]
    pub(crate) check: bool,
    /// With --check: give each mount so long to answer, as 2s, 500ms, 1m [default: 2s]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Asking")]
    pub(crate) deadline: Option<Duration>,
    /// Count the files and bytes that lie hidden under each mount point
    #[arg(long, help_heading = "Asking")]
    pub(crate) beneath: bool,
    /// Find where the file system changes and the mount table says nothing: subvolumes, snapshots,
    /// automounts
    #[arg(long, help_heading = "Asking")]
    pub(crate) boundaries: bool,
    /// Name the machines behind network mounts
    #[arg(long, help_heading = "Asking")]
    pub(crate) servers: bool,
    /// Name block devices from a scan of /dev, or from sysfs
    #[arg(long, value_name = "FROM", help_heading = "Asking")]
    pub(crate) names: Option<Names>,
    /// Succeed only if each of these is a mount point
    #[arg(long, value_name = "PATH", num_args = 1.., help_heading = "Asking",
          conflicts_with_all = ["by", "depth", "hints", "check", "beneath", "boundaries", "servers", "names", "watch"])]
    pub(crate) assert: Vec<OsString>,
    /// Show attaches and detaches as they happen, until interrupted
    #[arg(long, help_heading = "Asking", conflicts_with_all = ["by", "depth", "hints", "check", "beneath", "boundaries", "servers", "names"])]
    pub(crate) watch: bool,

    /// Print them in this form
    #[arg(long, value_name = "FORMAT", conflicts_with = "json")]
    pub(crate) format: Option<Format>,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Names {
    /// A scan of /dev
    Dev,
    /// /sys/dev/block
    Sys,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    /// For people
    Table,
    /// As --json
    Json,
    /// A name a line; hidden mounts left out
    Paths,
    /// Names ended by NUL; hidden mounts left out
    Paths0,
    /// As /etc/mtab
    Mnttab,
    /// For /etc/fstab
    Fstab,
    /// Mounts that are hung, stale or denied, as patterns for tar, restic, borg (does --check)
    Exclude,
}
