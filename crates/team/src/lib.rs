//! Cooperating processes: a single one, or the ranks of an MPI job. All of them take the same steps
//! in the same order.
//!
//! | module | contents |
//! |---|---|
//! | `mpi` | the ranks of an MPI job; with the feature `mpi` |
//! | `wake` | wakes ranks on the same machine; with the feature `mpi` |
#![forbid(unsafe_code)]

use serde::Serialize;
use serde::de::DeserializeOwned;

#[cfg(feature = "mpi")]
pub mod mpi;
#[cfg(any(feature = "mpi", test))]
mod wake;

/// A group of cooperating processes. Rank 0 reports for all of them.
pub trait Team {
    /// The number of this process, from 0.
    fn rank(&self) -> usize;
    /// The number of processes; at least 1.
    fn size(&self) -> usize;
    /// Whether this process does all of the work: no launcher started it, or the job has one rank.
    fn is_alone(&self) -> bool {
        self.size() == 1
    }
    /// Whether the processes are the ranks of an MPI job, which write parts to a directory. A job
    /// can have a single rank.
    fn is_job(&self) -> bool {
        true
    }
    /// Waits until all processes have called this function.
    fn barrier(&self);
    /// Sends bytes to all processes, and returns the bytes of each, in the order of ranks.
    fn all_gather(&self, bytes: &[u8]) -> Vec<Vec<u8>>;
    /// Sends bytes, at most [`MOST_BYTES`], to one process, without waiting until it receives them.
    ///
    /// At most [`MOST_UNDER_WAY`] messages may be under way from one process to another, of which
    /// [`MOST_LARGE_UNDER_WAY`] may be large.
    fn send(&self, to: usize, bytes: &[u8]);
    /// The next message that has arrived, and the rank that sent it; `None` if there is none.
    /// Messages from one rank arrive in order.
    fn receive(&self) -> Option<(usize, Vec<u8>)>;
    /// Whether an arriving message unparks the receiving thread. Otherwise that thread must poll
    /// for messages.
    fn is_woken(&self) -> bool {
        false
    }
}

/// The maximum size of a message for [`Team::send`] in bytes.
pub const MOST_BYTES: usize = 16 << 10;

/// The maximum number of messages under way from one process to another.
pub const MOST_UNDER_WAY: usize = 7;

/// The maximum number of messages under way that are larger than 512 bytes.
pub const MOST_LARGE_UNDER_WAY: usize = 2;

/// The rank of this process, if an MPI launcher started it: mpirun of Open MPI, a launcher with PMI
/// (MPICH's mpirun, srun, flux), or one with PMIx (srun, prun).
pub fn launched_rank() -> Option<usize> {
    rank_variable().map(|(_, rank)| rank)
}

/// The name of the environment variable that has the rank, and the rank; as [`launched_rank`].
pub fn rank_variable() -> Option<(&'static str, usize)> {
    const RANK: [&str; 3] = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"];
    let rank = |name: &'static str| Some((name, std::env::var(name).ok()?.parse::<usize>().ok()?));
    RANK.into_iter().find_map(rank)
}

/// The number of ranks of the MPI job, if the environment has it: Open MPI, PMI and Slurm set it. A
/// process that an interactive `srun --pty bash` starts is in a job of one rank.
pub fn launched_size() -> Option<usize> {
    let number = |name: &str| -> Option<usize> { std::env::var(name).ok()?.parse().ok() };
    launched_rank()?;
    let mut names = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"].into_iter();
    names.find_map(number).or_else(|| {
        // A PMIx launcher within a step of Slurm inherits the number of tasks of this step, which
        // is not the number of its own ranks.
        let namespace = std::env::var("PMIX_NAMESPACE").ok()?;
        let is_of_slurm = namespace.starts_with("slurm.");
        is_of_slurm.then(|| number("SLURM_STEP_NUM_TASKS"))?
    })
}

/// Whether the standard output of a rank goes to its launcher, even if it is a terminal: mpirun of
/// Open MPI gives each rank a pseudo-terminal, and copies its output into its own, which can be a
/// file. Programs in a shell of `srun --pty` are at the user's terminal.
pub fn writes_to_launcher() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some();
    is_set("OMPI_COMM_WORLD_RANK") || launched_rank().is_some() && !is_set("SLURM_PTY_PORT")
}

/// A team of a single process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SingleProcess {
    /// No launcher started the process.
    NoJob,
    /// The only rank of an MPI job. It does not call MPI, so several programs can run in such a job
    /// one after the other; a second `MPI_Init_thread` fails.
    OnlyRank,
}

impl Team for SingleProcess {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn is_job(&self) -> bool {
        *self == SingleProcess::OnlyRank
    }

    fn barrier(&self) {}

    fn all_gather(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        vec![bytes.to_vec()]
    }

    fn send(&self, _to: usize, _bytes: &[u8]) {}

    fn receive(&self) -> Option<(usize, Vec<u8>)> {
        None
    }
}

/// Serializes a value. All ranks run the same program, so each can decode the others' values.
pub fn encode(value: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(value).unwrap_or_default()
}

/// Deserializes a value from [`encode`].
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    postcard::from_bytes(bytes).ok()
}

/// Sends a value to all ranks, and returns the values of all, in the order of ranks.
pub fn share<T: Serialize + DeserializeOwned>(team: &dyn Team, mine: T) -> Vec<T> {
    if team.size() == 1 {
        return vec![mine];
    }
    let all = team.all_gather(&encode(&mine));
    all.iter().filter_map(|bytes| decode(bytes)).collect()
}

/// Combines the results of all ranks: the first error, in the order of ranks, becomes the error of
/// every rank.
pub fn agree<T, E>(team: &dyn Team, mine: Result<T, E>) -> Result<T, E>
where
    E: Clone + Serialize + DeserializeOwned,
{
    let error = mine.as_ref().err().cloned();
    match share(team, error).into_iter().flatten().next() {
        Some(error) => Err(error),
        None => mine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fake team for tests, whose other members send these bytes.
    struct FakeTeam(Vec<Vec<u8>>);

    impl Team for FakeTeam {
        fn rank(&self) -> usize {
            0
        }
        fn size(&self) -> usize {
            self.0.len() + 1
        }
        fn barrier(&self) {}
        fn all_gather(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
            [&[bytes.to_vec()][..], &self.0].concat()
        }
        fn send(&self, _to: usize, _bytes: &[u8]) {}
        fn receive(&self) -> Option<(usize, Vec<u8>)> {
            None
        }
    }

    #[test]
    fn an_error_of_one_rank_is_an_error_of_all() {
        type Failing = Result<u32, (Vec<u8>, u64)>;
        let error = (b"/a\xff".to_vec(), 7);
        let failed: Failing = Err(error.clone());
        assert_eq!(agree(&SingleProcess::NoJob, Failing::Ok(7)), Ok(7));
        assert_eq!(agree(&SingleProcess::NoJob, failed.clone()), failed);
        let sent = |failed: &Failing| encode(&failed.as_ref().err());
        let team = FakeTeam(vec![sent(&Ok(1)), sent(&failed)]);
        assert_eq!(agree(&team, Failing::Ok(7)), failed);
        // If several ranks fail, the result is the first error in the order of ranks.
        let other: Failing = Err((b"/b".to_vec(), 8));
        let team = FakeTeam(vec![sent(&failed), sent(&other)]);
        assert_eq!(agree(&team, Failing::Ok(7)), failed);
        assert_eq!(agree(&team, other.clone()), other);
    }

    #[test]
    fn each_rank_gets_the_values_of_all() {
        assert_eq!(share(&SingleProcess::NoJob, [1, u64::MAX]), [[1, u64::MAX]]);
        let value = |path: &[u8], n| (path.to_vec(), Some(n));
        let sent = encode(&vec![value(b"/b", 2)]);
        let team = FakeTeam(vec![sent, encode(&vec![(); 0])]);
        let all = share(&team, vec![value(b"/a", 1)]);
        assert_eq!(all, [vec![value(b"/a", 1)], vec![value(b"/b", 2)], vec![]]);
    }
}
