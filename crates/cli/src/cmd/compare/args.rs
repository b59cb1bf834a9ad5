//! The flags of `fathom compare`.

use std::ffi::OsString;

use clap::Args;

use crate::args::help::{EXIT, ending};

const EXAMPLES: &str = "\
fathom compare runs.csv  # each program against the last
fathom compare runs.csv --base new  # against the one that is called new
fathom compare hosts/*.json --html fleet.html  # of many machines, with a page
fathom compare hosts/*.json --summary  # without the rows of the machines
ssh web1 fathom walk /srv --compare --json | fathom compare -  # of a machine that is far away
fathom compare --json runs.csv | jq '.result.comparisons[0].ratios[0].real.mean'  # one figure of it";

const MORE: &str = "\
A table of runs:
  host,old_real,old_user,old_sys,new_real,new_user,new_sys
  web1,295.23,12.76,66.86,40.03,1.48,15.10";

/// The flags of `fathom compare`.
#[derive(Args, Debug)]
#[command(after_help = EXIT, after_long_help = ending(EXAMPLES, MORE, EXIT))]
pub(crate) struct Compare {
    /// The files with runs; - is standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<OsString>,
    /// Hold the others against this one [default: the last in the file]
    #[arg(long, value_name = "NAME")]
    pub(crate) base: Option<String>,
    /// Leave out the rows of the single machines
    #[arg(long, conflicts_with = "json")]
    pub(crate) summary: bool,
    /// Write a page as well: the tables and a figure, in one file that needs no other
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<OsString>,
}
