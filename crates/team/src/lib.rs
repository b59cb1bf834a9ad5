//! The processes that work together: a single one, or the ranks of an MPI job. All of them take the
//! same steps in the same order.
//!
//! | module | contents |
//! |---|---|
//! | `mpi` | the ranks of an MPI job; with the feature of that name |
//! | `wake` | wakes ranks on the same machine; with that feature |
#![forbid(unsafe_code)]

use serde::Serialize;
use serde::de::DeserializeOwned;

#[cfg(feature = "mpi")]
pub mod mpi;
#[cfg(any(feature = "mpi", test))]
mod wake;

/// The processes that work together. Rank 0 reports for all of them.
pub trait Team {
    /// The number of this process, from 0.
    fn rank(&self) -> usize;
    /// The number of processes; at least 1.
    fn size(&self) -> usize;
    /// Whether it is a single process that no launcher started: there is no job, even of one rank.
    fn is_alone(&self) -> bool {
        false
    }
    /// Waits until all processes have called it.
    fn barrier(&self);
    /// Sends bytes to all processes, and returns those of each, in the order of the ranks.
    fn all_gather(&self, bytes: &[u8]) -> Vec<Vec<u8>>;
    /// Sends bytes, at most [`MOST_BYTES`], to one process, without waiting until it receives them.
    ///
    /// A process has at most [`MOST_UNDER_WAY`] messages under way to each of the others, and
    /// [`MOST_LARGE_UNDER_WAY`] large ones.
    fn send(&self, to: usize, bytes: &[u8]);
    /// The next message that has arrived, and the rank that sent it; `None` if there is none.
    /// Messages of one rank arrive in the order in which it sent them.
    fn receive(&self) -> Option<(usize, Vec<u8>)>;
    /// Whether a message unparks the thread that receives it. Otherwise that must look for messages at intervals.
    fn is_woken(&self) -> bool {
        false
    }
}

/// The size of the largest message for [`Team::send`].
pub const MOST_BYTES: usize = 16 << 10;

/// The number of messages from one process to another that may be under way, ...
pub const MOST_UNDER_WAY: usize = 7;

/// ... of which so many may be larger than 512 bytes.
pub const MOST_LARGE_UNDER_WAY: usize = 2;

/// The rank of this process, if an MPI launcher started it: mpirun of Open MPI, a launcher that
/// speaks PMI (MPICH's mpirun, srun, flux), or one that speaks PMIx (srun, prun).
pub fn launched_rank() -> Option<usize> {
    const RANK: [&str; 3] = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"];
    RANK.into_iter()
        .find_map(|name| std::env::var(name).ok()?.parse().ok())
}

/// A single process.
#[derive(Clone, Copy, Debug)]
pub struct Alone;

impl Team for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn is_alone(&self) -> bool {
        true
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

/// The bytes of a value. All ranks run the same program, so each can decode what the others encode.
pub fn encode(value: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(value).unwrap_or_default()
}

/// The value that [`encode`] has encoded.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    postcard::from_bytes(bytes).ok()
}

/// Sends a value to all ranks, and returns those of each, in the order of the ranks.
pub fn share<T: Serialize + DeserializeOwned>(team: &dyn Team, mine: T) -> Vec<T> {
    if team.size() == 1 {
        return vec![mine];
    }
    let all = team.all_gather(&encode(&mine));
    all.iter().filter_map(|bytes| decode(bytes)).collect()
}

/// Continues only if no rank has failed: the first error, in the order of the ranks, becomes the
/// error of all.
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

    /// A team whose other members send these bytes.
    struct Others(Vec<Vec<u8>>);

    impl Team for Others {
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
        assert_eq!(agree(&Alone, Failing::Ok(7)), Ok(7));
        assert_eq!(agree(&Alone, failed.clone()), failed);
        let sent = |failed: &Failing| encode(&failed.as_ref().err());
        let team = Others(vec![sent(&Ok(1)), sent(&failed)]);
        assert_eq!(agree(&team, Failing::Ok(7)), failed);
        // The first of several, in the order of the ranks.
        let other: Failing = Err((b"/b".to_vec(), 8));
        let team = Others(vec![sent(&failed), sent(&other)]);
        assert_eq!(agree(&team, Failing::Ok(7)), failed);
        assert_eq!(agree(&team, other.clone()), other);
    }

    #[test]
    fn each_rank_gets_the_values_of_all() {
        assert_eq!(share(&Alone, [1, u64::MAX]), [[1, u64::MAX]]);
        let value = |path: &[u8], n| (path.to_vec(), Some(n));
        let sent = encode(&vec![value(b"/b", 2)]);
        let team = Others(vec![sent, encode(&vec![(); 0])]);
        let all = share(&team, vec![value(b"/a", 1)]);
        assert_eq!(all, [vec![value(b"/a", 1)], vec![value(b"/b", 2)], vec![]]);
    }
}
