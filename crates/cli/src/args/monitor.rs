//! Options for monitoring: a line for each run, and metrics.

use std::ffi::OsString;

use clap::Args;

/// Where the outcome of a run is written.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct MonitorArgs {
    /// Append one line of JSON about this run to FILE
    ///
    /// Its outcome, exit status and figures, also if it has failed. FILE is created for its owner only.
    #[arg(long, value_name = "FILE", help_heading = "Monitoring")]
    pub(crate) report: Option<OsString>,
    /// Write metrics about this run to FILE, for Prometheus
    ///
    /// OpenMetrics text, for the textfile collector of node_exporter: FILE ends in .prom, and is replaced atomically, also if
    /// the run has failed. Everybody may read it.
    #[arg(long, value_name = "FILE", help_heading = "Monitoring")]
    pub(crate) metrics: Option<OsString>,
}
