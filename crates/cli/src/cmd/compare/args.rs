//! The flags of `fathom compare`.

use std::ffi::OsString;

use clap::Args;

use crate::args::help::{ending, first};

const EXAMPLES: &str = "\
fathom compare runs.csv  # compare each program with the last one
fathom compare before.json after.json  # two files of one command: what has changed
fathom compare runs.csv --base new  # compare each program with new
fathom compare hosts/*.json --html fleet.html  # many machines, with an HTML page
fathom compare hosts/*.json --summary  # only mean, median and deviation
ssh web1 fathom walk /srv --compare --json | fathom compare -  # a run on a remote machine
fathom compare --json old.json new.json | jq -e 'all(.result.figures[]; .unit != \"calls\" or .verdict != \"changed\")'  # for CI: exit status 1 if a number of calls has changed
fathom compare --json runs.csv | jq '.result.comparisons[0].ratios[0].real.mean'  # one figure of the result";

const MORE: &str = "\
A CSV file of runs:
  host,old_real,old_user,old_sys,new_real,new_user,new_sys
  web1,295.23,12.76,66.86,40.03,1.48,15.10";

const EXIT: &str = "\
Exit status:
  0  done, whether figures changed or not
  1  done, but empty cells or times of 0 were skipped; a warning names each
  2  not done, or the command line was wrong";

/// The flags of `fathom compare`.
#[derive(Args, Debug)]
#[command(before_help = first(EXAMPLES), after_help = EXIT, after_long_help = ending(EXAMPLES, MORE, EXIT))]
pub(crate) struct Compare {
    /// The files with measurements: fathom's JSON or CSV (- for stdin)
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<OsString>,
    /// Compare the other programs with NAME [default: the last in the file]
    #[arg(long, value_name = "NAME")]
    pub(crate) base: Option<String>,
    /// Print only the statistics, not a row for each machine
    #[arg(long, conflicts_with = "json")]
    pub(crate) summary: bool,
    /// Also write the tables and a figure to FILE, as a self-contained page
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<OsString>,
}
