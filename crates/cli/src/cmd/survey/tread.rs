//! What `fathom survey` has accounted for: a walk that is no command of its own.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;

use crate::args::values::duration;

/// A walk of one directory, one entry after the other, without output.
#[derive(Args, Debug)]
pub(crate) struct Tread {
    /// Where to walk
    pub(crate) dir: OsString,
    /// What to leave out
    #[arg(long, value_name = "GLOB")]
    pub(crate) exclude: Vec<String>,
    /// When to be ended
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub(crate) limit: Duration,
}
