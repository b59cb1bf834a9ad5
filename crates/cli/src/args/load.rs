//! Flags that limit the load on a file system that others use, too.

use clap::Args;

use super::values::number;

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Load on the file system")]
pub(crate) struct LoadArgs {
    /// Make at most N system calls per second
    ///
    /// All calls of all threads count, as in --profile. Under mpirun, N is for the whole job: each rank
    /// makes at most an equal share, N divided by the number of ranks. With --shard, N is for each
    /// process.
    #[arg(long, value_name = "N", value_parser = number(1..=u64::MAX))]
    pub(crate) max_rate: Option<u64>,
}

impl LoadArgs {
    /// Limits the system calls of this process to an equal share of `--max-rate`, if `processes`
    /// processes share the limit.
    pub(crate) fn apply(&self, processes: usize) {
        if let Some(rate) = self.max_rate {
            gate::throttle::limit_rate(rate, processes);
        }
    }
}
