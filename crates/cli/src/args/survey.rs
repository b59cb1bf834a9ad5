//! The flags of `fathom survey`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;

use super::values::duration;

#[derive(Args, Debug)]
#[command(
    after_help = concat!("Examples:\n  fathom survey\n  fathom survey /srv --json\n\n", exit!())
)]
pub(crate) struct Survey {
    /// Where to begin
    #[arg(default_value = "/", value_name = "DIR")]
    pub(crate) dir: OsString,
    /// How long one run of one method, and the experiments on one file system, may take before they are stopped
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub(crate) limit: Duration,
    /// Draw what the experiments on each file system measured into a directory, as SVG and PNG
    #[arg(long, value_name = "DIR")]
    pub(crate) plot: Option<OsString>,
}
