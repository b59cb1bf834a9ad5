//! The flags of `fathom query`.

use std::ffi::OsString;

use clap::Args;

use crate::args::help::{EXIT, ending};
use crate::args::output::OutputArgs;
use crate::args::predicates::PredicateArgs;
use crate::args::values::number;

const EXAMPLES: &str = "\
fathom walk /srv --catalog srv.parquet  # write the catalog first
fathom query srv.parquet  # count files, directories and bytes
fathom query srv.parquet --name '*.iso' --size +1G --format paths  # list large files by name
fathom query srv.parquet --group-by owner --changed-before 1y  # print who has old files
fathom query srv.parquet --type f --size 0 --print0 | xargs -0 ls -l  # pass paths to another program
fathom query srv.parquet home.parquet --group-by age  # add up two catalogs
fathom query PARTS/ --format du --max-depth 1  # read a catalog in parts";

#[derive(Args, Debug)]
#[command(after_help = EXIT, after_long_help = ending(EXAMPLES, "", EXIT))]
pub(crate) struct Query {
    /// The catalogs, or directories with the parts of one
    ///
    /// They are one data set. Catalogs are written by fathom walk --catalog and fathom dump
    /// --catalog. Of a directory, all files named *.parquet are read.
    #[arg(required = true, value_name = "CATALOG")]
    pub(crate) catalogs: Vec<OsString>,

    #[command(flatten)]
    pub(crate) predicates: PredicateArgs,
    /// Match entries at most N levels deep; DIR is level 0
    ///
    /// With --format du, deeper directories are counted, but not printed.
    #[arg(long, value_name = "N", value_parser = number(0..=u32::MAX))]
    #[arg(help_heading = "Predicates (all must hold)")]
    pub(crate) max_depth: Option<u32>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Print paths separated by NUL characters; short for --format paths0
    #[arg(long, conflicts_with = "format", help_heading = "Output")]
    pub(crate) print0: bool,
}
