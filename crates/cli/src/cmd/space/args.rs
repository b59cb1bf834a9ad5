//! The flags of `fathom space`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;

use crate::args::help::{EXIT, ending, first};
use crate::args::monitor::MonitorArgs;
use crate::args::values::{duration, number, percent};

const EXAMPLES: &str = "\
fathom space  # account for the file system of the current directory
fathom space /var  # account for the file system that /var is on
fathom space / --top 30  # print the 30 largest items
fathom space /var --threshold 90 -q  # exit with status 1 if more than 90 % is used
fathom space / --json  # print all items, owners, ages and caches as JSON";

const MORE: &str = "\
Commands that free space are printed, but never run. Read them before you run them.";

#[derive(Args, Debug)]
#[command(before_help = first(EXAMPLES), after_help = EXIT, after_long_help = ending(EXAMPLES, MORE, EXIT))]
pub(crate) struct Space {
    /// The directory whose file system is examined
    #[arg(default_value = ".", value_name = "DIR")]
    pub(crate) dir: OsString,
    /// Print the N largest items
    ///
    /// The others are added up. The JSON has all of them.
    #[arg(long, value_name = "N", default_value_t = 8, help_heading = "Output", value_parser = number(1..=65_535_usize))]
    pub(crate) top: usize,
    /// Give up if DIR does not answer within DURATION [default: 30s]
    ///
    /// A child process accesses DIR first if it may be on a network or FUSE file system. Mounts
    /// below DIR are not entered.
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Selection")]
    pub(crate) deadline: Option<Duration>,
    /// Warn (exit status 1) if more than PERCENT of space or inodes is used
    ///
    /// The percentages are those of df(1): rounded up, and without reserved blocks. Files that cannot
    /// be read cause warnings, but not exit status 1. With -q, only the warnings about PERCENT are
    /// printed, and the files are not read.
    #[arg(long, value_name = "PERCENT", value_parser = percent, help_heading = "Monitoring")]
    pub(crate) threshold: Option<f64>,
    #[command(flatten)]
    pub(crate) monitor: MonitorArgs,
}
