//! Flags for monitoring: a JSON line for each run, and metrics.

use std::ffi::OsString;

use clap::Args;

/// Where the outcome of a run is written.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct MonitorArgs {
    /// Append one line of JSON about this run to FILE
    ///
    /// The line has the outcome, exit status and figures. It is written even if the run fails. If
    /// FILE does not exist, it is created for its owner only.
    #[arg(long, value_name = "FILE", help_heading = "Monitoring")]
    pub(crate) report: Option<OsString>,
    /// Write metrics about this run to FILE, for Prometheus
    ///
    /// FILE is OpenMetrics text for the textfile collector of node_exporter, which reads names that
    /// end in .prom. It is replaced atomically, even if the run fails, and all users may read it.
    #[arg(long, value_name = "FILE", help_heading = "Monitoring")]
    pub(crate) metrics: Option<OsString>,
}
