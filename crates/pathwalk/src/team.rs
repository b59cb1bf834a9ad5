//! The processes that work on one tree: a single one, or the ranks of an MPI job. All of them take
//! the same steps in the same order.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;

/// The processes that work on one tree. Rank 0 reports for all of them.
pub trait Team {
    /// The number of this process, from 0.
    fn rank(&self) -> usize;
    /// The number of processes; at least 1.
    fn size(&self) -> usize;
    /// Waits until all processes have called it.
    fn barrier(&self);
    /// Sends bytes to all processes, and returns those of each, in the order of the ranks.
    fn all_gather(&self, bytes: &[u8]) -> Vec<Vec<u8>>;
}

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

    fn barrier(&self) {}

    fn all_gather(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        vec![bytes.to_vec()]
    }
}

/// Sends a value to all ranks, and returns those of each, in the order of the ranks.
///
/// All ranks run the same program, so each can decode what the others encode.
pub(crate) fn share<T: Serialize + DeserializeOwned>(team: &dyn Team, mine: T) -> Vec<T> {
    if team.size() == 1 {
        return vec![mine];
    }
    let bytes = postcard::to_stdvec(&mine).unwrap_or_default();
    let decode = |bytes: &Vec<u8>| postcard::from_bytes(bytes).ok();
    team.all_gather(&bytes).iter().filter_map(decode).collect()
}

/// Continues only if no rank has failed: the first error, in the order of the ranks, becomes the
/// error of all.
pub(crate) fn agree<T>(team: &dyn Team, mine: Result<T, Error>) -> Result<T, Error> {
    let error = mine.as_ref().err().cloned();
    match share(team, error).into_iter().flatten().next() {
        Some(error) => Err(error),
        None => mine,
    }
}

#[cfg(test)]
mod tests {
    use gate::Errno;

    use super::*;
    use crate::error::{Aftermath, Operation};
    use crate::warning::{PathWarning, WarningKind};

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
    }

    #[test]
    fn an_error_of_one_rank_is_an_error_of_all() {
        let error = Error {
            aftermath: Some(Aftermath::FilesRemoved(7)),
            ..Error::new(Operation::Remove, b"/a\xff", Errno::ENOSPC)
        };
        assert_eq!(agree(&Alone, Ok(7)), Ok(7));
        assert_eq!(
            agree(&Alone, Err::<(), _>(error.clone())),
            Err(error.clone())
        );
        let sent = |error: Option<Error>| postcard::to_stdvec(&error).unwrap();
        let team = Others(vec![sent(None), sent(Some(error.clone()))]);
        assert_eq!(agree(&team, Ok(7)), Err(error));
    }

    #[test]
    fn each_rank_gets_the_values_of_all() {
        assert_eq!(share(&Alone, [1, u64::MAX]), [[1, u64::MAX]]);
        let warning = |path: &[u8], missing| PathWarning {
            path: path.to_vec(),
            kind: WarningKind::DirectoriesMissing { missing, length: 9 },
        };
        let sent = postcard::to_stdvec(&vec![warning(b"/b", 2)]).unwrap();
        let team = Others(vec![sent, postcard::to_stdvec(&vec![(); 0]).unwrap()]);
        let all = share(&team, vec![warning(b"/a", 1)]);
        assert_eq!(
            all,
            [vec![warning(b"/a", 1)], vec![warning(b"/b", 2)], vec![]]
        );
    }
}
