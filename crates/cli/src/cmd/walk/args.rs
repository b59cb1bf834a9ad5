//! The flags of `fathom walk`.

use std::ffi::OsString;

use clap::builder::TypedValueParser;
use clap::{Args, ValueEnum};
use walk::EngineKind;

use crate::args::help::{EXIT, ending};
use crate::args::values::{choice, number, seekable};

const EXAMPLES: &str = "\
fathom walk /srv  # how much there is, and what it cost to find out
fathom walk /srv --top 10  # and the ten largest files
fathom walk /srv --format du --top 20  # the directories that hold most
fathom walk -x / --format paths0  # every name, for xargs -0
fathom walk /srv --format ndjson  # all that is known, an object a line
fathom walk /srv --exclude '*.o'  # without what ends in .o
fathom walk /srv --catalog srv.parquet  # and a table of it all, for fathom changed
fathom walk /srv --explain  # which engine, why, and why not another
fathom walk /srv --compare  # what each engine costs on this tree";

const ENGINES: &str = "\
auto      The cheapest for each mount
threads   statx(2) of every name, by threads that share the directories
bulkstat  XFS: many inodes a call, joined with the names
btrfs     btrfs: its trees, searched
ext4      ext2, ext3, ext4: its tables, read from the device
stat      statx(2) of every name, one after the other";

/// The engine that was asked for; `None` to choose one for each mount.
pub(crate) type Engine = Option<EngineKind>;

pub(crate) fn engine() -> impl TypedValueParser<Value = Engine> {
    choice(ENGINES, EngineKind::SELECTABLE, EngineKind::name)
}

#[derive(Args, Debug)]
#[command(after_help = EXIT, after_long_help = ending(EXAMPLES, "", EXIT))]
pub(crate) struct Walk {
    /// The directories to begin at; a symlink to one is followed
    #[arg(required = true, value_name = "DIR")]
    pub(crate) dirs: Vec<OsString>,

    /// Walk by this engine
    #[arg(long, value_name = "ENGINE", default_value = "auto")]
    #[arg(help_heading = "Walking", value_parser = engine())]
    pub(crate) engine: Engine,
    /// Work with N threads [default: as many as are good for the engine]
    #[arg(short, long, value_name = "N", help_heading = "Walking", value_parser = number(1..=65_535_usize))]
    pub(crate) jobs: Option<usize>,
    /// Stay on the file system (the device number) of each DIR
    #[arg(short = 'x', long, help_heading = "Walking")]
    pub(crate) one_file_system: bool,
    /// Go down N levels at most; DIR itself is at 0; with --format du, print no directory that is
    /// deeper, but count all
    #[arg(long, value_name = "N", help_heading = "Walking", value_parser = number(0..=u32::MAX))]
    pub(crate) max_depth: Option<u32>,
    /// Leave out what matches, and everything in it: by name, or by path if there is a slash in
    /// GLOB
    #[arg(long, value_name = "GLOB", help_heading = "Walking")]
    pub(crate) exclude: Vec<String>,

    /// Print in this form
    #[arg(long, value_name = "FORMAT", default_value = "summary")]
    #[arg(help_heading = "Output")]
    pub(crate) format: WalkFormat,
    /// Print the N largest plain files as well; with --format du, the N largest directories only
    #[arg(long, value_name = "N", help_heading = "Output", value_parser = number(1..=u32::MAX as usize))]
    pub(crate) top: Option<usize>,

    /// Write a Parquet catalog as well, a row for each entry: for fathom changed, DuckDB, pandas,
    /// Spark
    #[arg(long, value_name = "FILE", help_heading = "Output", value_parser = seekable())]
    pub(crate) catalog: Option<OsString>,

    /// Walk nothing: print which engine would, why, and whether the others could
    #[arg(long, help_heading = "Asking", conflicts_with_all = ["format", "top", "catalog", "compare"])]
    pub(crate) explain: bool,
    /// Walk by every engine that can work here, each in a process of its own, and compare them
    #[arg(long, help_heading = "Asking", conflicts_with_all = ["engine", "format", "top", "catalog"])]
    pub(crate) compare: bool,
    /// With --compare: walk by each engine so often
    #[arg(long, value_name = "N", default_value_t = 5, requires = "compare", help_heading = "Asking",
          value_parser = number(1..=65_535_usize))]
    pub(crate) trials: usize,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WalkFormat {
    /// How many entries of each kind, bytes, a hash over all
    Summary,
    /// A line for each directory, as du -k: KiB allocated, KiB in files and symlinks, name; a file
    /// with several names once
    Du,
    /// A path a line, as find prints it
    Paths,
    /// Paths ended by NUL
    Paths0,
    /// A JSON object a line, with all that is known
    Ndjson,
    /// The same as comma-separated values
    Csv,
}
