//! The flags of `fathom dump`.

use std::ffi::OsString;

use archive::gather::Gather;
use clap::Args;

use crate::args::help::{EXIT, ending};
use crate::args::values::{choice, number, seekable};

const EXAMPLES: &str = "\
fathom dump /srv -o srv.tar  # everything, for fathom restore or any tar
fathom dump -x / -o root.tar.zst  # compressed, without other file systems
fathom dump /srv -o - | ssh HOST 'cat >srv.tar'  # to standard output
fathom dump /srv -o 0.tar --catalog c.parquet  # and a catalog, for increments
fathom dump /srv -o 1.tar --since c.parquet --catalog c.parquet  # what has changed since, and a new catalog
fathom dump /srv -o 1.tar --level 1 --state /var/lib/fathom  # levels, as dump(8) has them
fathom dump /srv -o srv.tar --map srv.txt  # and a list of what was dumped
fathom dump /srv --no-output --account  # where the time goes
fathom dump /srv --explain  # how it would be gathered, and why";

const WAYS: &str = "\
auto      The cheapest for each mount
percall   One call for each attribute of each file
combined  One statx(2) for each file
batched   Many files a call, where the file system offers that (XFS, btrfs); else combined
raw       The file system's own tables, read from the device (ext2, ext3, ext4); else batched";

/// The way of gathering that was asked for; `None` to choose one for each mount.
type Way = Option<Gather>;

#[derive(Args, Debug)]
#[command(after_help = EXIT, after_long_help = ending(EXAMPLES, "", EXIT))]
pub(crate) struct Dump {
    /// The directories, with all that is in them, and files to dump; a symlink is dumped itself,
    /// unless a slash follows it
    #[arg(required = true, value_name = "SRC")]
    pub(crate) sources: Vec<OsString>,

    /// Write the archive here, where it appears when it is whole and on the disk; - is standard
    /// output; a name that ends in .zst compresses
    #[arg(short, long, value_name = "ARCHIVE", required_unless_present_any = ["no_output", "explain"])]
    pub(crate) output: Option<OsString>,

    /// Write what has changed since this catalog
    #[arg(long, value_name = "CATALOG", help_heading = "Increments")]
    #[arg(conflicts_with = "level")]
    pub(crate) since: Option<OsString>,
    /// Write a catalog of what there is now, once the archive is on the disk; it may be the one of
    /// --since
    #[arg(long, value_name = "FILE", help_heading = "Increments", conflicts_with_all = ["level", "no_output"],
          value_parser = seekable())]
    pub(crate) catalog: Option<OsString>,
    /// Write what has changed since the last dump of a lower level; 0 is everything
    #[arg(long, value_name = "N", help_heading = "Increments", requires = "state", conflicts_with = "no_output",
          value_parser = number(0..=9_u8))]
    pub(crate) level: Option<u8>,
    /// Keep the catalogs of the levels in this directory
    #[arg(long, value_name = "DIR", help_heading = "Increments")]
    #[arg(requires = "level")]
    pub(crate) state: Option<OsString>,

    /// Gather what is known of the files in this way; all ways give the same archive
    #[arg(long, value_name = "HOW", default_value = "auto")]
    #[arg(help_heading = "Gathering", value_parser = choice(WAYS, Gather::ALL, Gather::name))]
    pub(crate) gather: Way,
    /// Work with N threads; with 1, gathering, reading and writing take turns [default: as many as
    /// are good]
    #[arg(short, long, value_name = "N", help_heading = "Gathering", value_parser = number(1..=65_535_usize))]
    pub(crate) jobs: Option<usize>,
    /// Stay on the file system (the device number) of each SRC
    #[arg(short = 'x', long, help_heading = "Gathering")]
    pub(crate) one_file_system: bool,
    /// Leave out what matches, and everything in it: by name, or by path if there is a slash in
    /// GLOB
    #[arg(long, value_name = "GLOB", help_heading = "Gathering")]
    pub(crate) exclude: Vec<String>,

    /// Write a readable list of what was dumped, a line each: type, mode, owner, size, time, name;
    /// - is standard error
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) map: Option<OsString>,
    /// Write no list, whatever --map says
    #[arg(long, help_heading = "Output")]
    pub(crate) no_map: bool,
    /// Do everything but write the archive; -o need not be given, and is not written if it is
    #[arg(long, help_heading = "Output")]
    pub(crate) no_output: bool,

    /// Print where the CPU time went, what each gate cost, and what each way of gathering costs
    /// here, by the model of the Multics memo of 1974 and measured: each gathers the tree once
    /// more; this works with one thread
    #[arg(long, help_heading = "Asking", conflicts_with_all = ["explain", "jobs"])]
    pub(crate) account: bool,
    /// Dump nothing: print how it would be gathered, why, and whether the other ways are possible
    #[arg(long, help_heading = "Asking", conflicts_with_all = ["catalog", "since", "level", "map"])]
    pub(crate) explain: bool,
}
