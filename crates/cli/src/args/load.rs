//! The flags that spare a file system which others use as well.

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
    /// Wait between requests while their latency is doubled
    ///
    /// Requests are calls for metadata that take at least 100 µs. While the median latency of the last 32
    /// is at least twice the 10th percentile of the earlier medians, the load is halved after every 32, down
    /// to 1/16: a thread waits after each request for 1, 3, 7 or 15 times as long as it took, but at most 5 s.
    /// Each rank of an MPI job decides for itself.
    #[arg(long)]
    pub(crate) nice: bool,
}

impl LoadArgs {
    /// Limits the calls of this process, which is one of so many.
    pub(crate) fn apply(&self, processes: usize) {
        if let Some(rate) = self.max_rate {
            gate::throttle::limit_rate(rate, processes);
        }
        if self.nice {
            gate::throttle::back_off();
        }
    }
}
