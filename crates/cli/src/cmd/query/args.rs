//! The flags of `fathom query`.

use std::ffi::OsString;

use clap::{ArgAction, Args};

use crate::args::help::{EXIT, ending, first};
use crate::args::mode::ModeArgs;
use crate::args::output::{Format, OutputArgs};
use crate::args::predicates::PredicateArgs;
use crate::args::values::{number, seekable};

const EXAMPLES: &str = "\
fathom walk /srv --catalog srv.parquet  # write the catalog first
fathom query srv.parquet  # count files, directories and bytes
fathom query srv.parquet --name '*.iso' --size +1G --format paths  # list large files by name
fathom query srv.parquet --group-by owner --changed-before 1y  # print the owners of old files
fathom query srv.parquet --type f --size 0 --print0 | xargs -0 ls -l  # pass paths to another program
fathom query srv.parquet home.parquet --group-by age  # add up two catalogs
fathom query PARTS/ --format du --max-depth 1  # read a catalog in parts
fathom query PARTS/ --compact srv.parquet  # merge the parts into one catalog
fathom query --diff old.parquet new.parquet --type f  # list the files that changed between two walks
fathom query --diff old.parquet new.parquet --group-by dir:2 --top 10  # list the directories that grew most";

const FORMATS: &str = "\
summary   The number of entries of each type, their size (each name counts), and a digest
du        The disk usage of each directory, as du counts it; SIZE is that of files and symlinks
paths     One path per line, as find prints it
paths0    The same, separated by NUL characters
ndjson    All metadata, one JSON object per line; with --diff, one change per line
csv       All metadata, as comma-separated values
ncdu      The tree as JSON that ncdu -f and gdu -f load
table     With --diff, one change per line (the default)
restic    With --diff, for restic backup --files-from-raw: the snapshot has only what changed
borg      With --diff, for borg create --paths-from-stdin --paths-delimiter '\\0': only what changed
rsync     With --diff, for rsync --from0 --files-from
tar       With --diff, for tar --no-recursion --null -T";

#[derive(Args, Debug)]
#[command(before_help = first(EXAMPLES), after_help = EXIT, after_long_help = ending(EXAMPLES, "", EXIT))]
pub(crate) struct Query {
    /// The catalogs, or directories with the parts of one
    ///
    /// They are one data set. Catalogs are written by fathom walk --catalog and fathom dump
    /// --catalog. A directory means all its files named *.parquet.
    #[arg(required_unless_present = "diff", value_name = "CATALOG")]
    pub(crate) catalogs: Vec<OsString>,
    /// Compare two catalogs of one directory, or of two directories
    ///
    /// Entries of two directories are compared by name, type, mode, owner, size and modification
    /// time, with a warning; renames are not found.
    ///
    /// OLD and NEW may also be directories, with the parts of one catalog, or with catalogs of the
    /// same DIRs; then paths begin with DIR.
    ///
    /// The output is that of fathom changed: the entries that were added, changed, removed or
    /// renamed. Predicates select removed entries by their metadata in OLD, and others by their
    /// metadata in NEW. With --group-by, the output has the differences of the totals of each
    /// group.
    #[arg(long, num_args = 2, action = ArgAction::Set, value_names = ["OLD", "NEW"], conflicts_with = "catalogs")]
    pub(crate) diff: Option<Vec<OsString>>,

    /// Also write the parts of a catalog as one catalog to FILE
    ///
    /// All entries are written, whatever the predicates.
    #[arg(long, value_name = "FILE", conflicts_with = "diff", help_heading = "Output", value_parser = seekable())]
    pub(crate) compact: Option<OsString>,
    #[command(flatten)]
    pub(crate) mode: ModeArgs,

    #[command(flatten)]
    pub(crate) predicates: PredicateArgs,
    /// Match entries at most N levels deep; DIR is level 0
    ///
    /// With --format du, deeper directories are counted, but not printed.
    #[arg(long, value_name = "N", value_parser = number(0..=u32::MAX))]
    #[arg(help_heading = "Predicates (all must hold)")]
    pub(crate) max_depth: Option<u32>,

    /// Print the result in this format
    #[arg(long, value_name = "FORMAT", default_value = "summary")]
    #[arg(help_heading = "Output", value_parser = Format::parser(FORMATS))]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Print paths separated by NUL characters; short for --format paths0
    #[arg(long, conflicts_with = "format", help_heading = "Output")]
    pub(crate) print0: bool,
}

impl Query {
    pub(crate) fn format(&self) -> Format {
        match self.print0 {
            true => Format::Paths0,
            false => self.format,
        }
    }
}
