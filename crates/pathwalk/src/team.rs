//! Those that work together: one process, or the ranks of an MPI job. All of them go through the
//! same steps in the same order; what one of them has to say, all get to know.

use mounts::Warning;

use crate::Failure;

/// Processes that work on one tree. Rank 0 speaks for all.
pub trait Team {
    /// Which of them this process is, from 0 on.
    fn rank(&self) -> usize;
    /// How many there are; at least 1.
    fn size(&self) -> usize;
    /// Waits until all are here.
    fn barrier(&self);
    /// Tells all what this one has to say, and gives what each has said, in the order of the ranks.
    fn share(&self, words: &[u8]) -> Vec<Vec<u8>>;
}

/// Whether a launcher of MPI jobs has started this process, and as which rank, if it says so:
/// mpirun of Open MPI, whatever speaks PMI (MPICH's mpirun, srun, flux), and what speaks PMIx
/// (srun, prun).
pub fn launched() -> Option<usize> {
    const RANK: [&str; 3] = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"];
    RANK.into_iter()
        .find_map(|name| std::env::var(name).ok()?.parse().ok())
}

/// One process.
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

    fn share(&self, words: &[u8]) -> Vec<Vec<u8>> {
        vec![words.to_vec()]
    }
}

/// Goes on only if nobody has failed: what has failed first, in the order of the ranks, fails for
/// all.
pub(crate) fn agree<T>(team: &dyn Team, mine: Result<T, Failure>) -> Result<T, Failure> {
    let said = match &mine {
        Ok(_) => Vec::new(),
        Err(f) => [
            f.doing.as_bytes(),
            &f.path,
            f.error.as_bytes(),
            f.next.as_bytes(),
        ]
        .join(&0),
    };
    let failed = team.share(&said).into_iter().find(|said| !said.is_empty());
    match failed {
        None => mine,
        Some(said) => {
            let mut parts = said.split(|byte| *byte == 0);
            let mut part = || parts.next().unwrap_or_default();
            let words = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
            let (doing, path, error, next) =
                (words(part()), part().to_vec(), words(part()), words(part()));
            Err(Failure {
                doing,
                path,
                error,
                next,
            })
        }
    }
}

/// Tells all numbers that each has, and gives those of each.
pub(crate) fn share_words(team: &dyn Team, words: &[u64]) -> Vec<Vec<u64>> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
    team.share(&bytes)
        .iter()
        .map(|said| said.chunks_exact(8).map(word).collect())
        .collect()
}

/// Gives everybody's warnings in the place of one's own. They are about paths, and no failed calls.
pub(crate) fn share_warnings(team: &dyn Team, mine: Vec<Warning>) -> Vec<Warning> {
    if team.size() == 1 {
        return mine;
    }
    // A path has no NUL, and a message neither.
    let said: Vec<u8> = mine
        .iter()
        .flat_map(|warning| {
            let path = warning.path.as_deref().unwrap_or_default();
            [path, b"\0", warning.message().as_bytes(), b"\0"].concat()
        })
        .collect();
    let all = team.share(&said);
    let all = all.iter().flat_map(|said| {
        let parts: Vec<&[u8]> = said.split(|byte| *byte == 0).collect();
        let pairs: Vec<(Vec<u8>, String)> = parts
            .chunks_exact(2)
            .map(|pair| {
                (
                    pair[0].to_vec(),
                    String::from_utf8_lossy(pair[1]).into_owned(),
                )
            })
            .collect();
        pairs
    });
    all.map(|(path, message)| Warning::about(&path, message))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A team whose other members say what is set down here.
    struct Set(Vec<Vec<u8>>);

    impl Team for Set {
        fn rank(&self) -> usize {
            0
        }
        fn size(&self) -> usize {
            self.0.len() + 1
        }
        fn barrier(&self) {}
        fn share(&self, words: &[u8]) -> Vec<Vec<u8>> {
            [&[words.to_vec()][..], &self.0].concat()
        }
    }

    #[test]
    fn one_failure_fails_for_all() {
        let failure = Failure::new("cannot create", b"/a\xff", "no room", "make some");
        assert_eq!(agree(&Alone, Ok(7)), Ok(7));
        assert_eq!(
            agree(&Alone, Err::<(), _>(failure.clone())),
            Err(failure.clone())
        );
        let theirs = b"cannot create\0/a\xff\0no room\0make some".to_vec();
        assert_eq!(agree(&Set(vec![vec![], theirs]), Ok(7)), Err(failure));
    }

    #[test]
    fn numbers_and_warnings_of_all() {
        assert_eq!(share_words(&Alone, &[1, u64::MAX]), [[1, u64::MAX]]);
        let team = Set(vec![b"/b\0b's\0".to_vec(), vec![]]);
        let all = share_warnings(&team, vec![Warning::about(b"/a", "a's")]);
        let all: Vec<_> = all
            .iter()
            .map(|w| (w.path.clone().unwrap(), w.message()))
            .collect();
        assert_eq!(
            all,
            [
                (b"/a".to_vec(), "a's".to_owned()),
                (b"/b".to_vec(), "b's".to_owned())
            ]
        );
    }
}
