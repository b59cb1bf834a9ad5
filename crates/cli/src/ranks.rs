//! The ranks of an MPI job that a command works with.

use gate::machine::uname;
use serde::Serialize;
use serde::de::DeserializeOwned;
use team::{Team, launched_rank, share};

use crate::error::Error;
use crate::out::Out;

/// Joins the other ranks of the MPI job, if a launcher started this process as one of them.
#[cfg(feature = "mpi")]
pub(crate) fn join(_: &Out, _: &str) -> Result<Option<Box<dyn Team>>, Error> {
    if launched_rank().is_none() {
        return Ok(None);
    }
    match team::mpi::Ranks::join() {
        Some(ranks) => Ok(Some(Box::new(ranks))),
        None => Err(Error::new(
            "cannot join the MPI job: MPI is already initialized in this process",
        )),
    }
}

/// Does nothing. `alone` says what it means for each process that a launcher started.
#[cfg(not(feature = "mpi"))]
pub(crate) fn join(out: &Out, alone: &str) -> Result<Option<Box<dyn Team>>, Error> {
    if launched_rank() == Some(0) {
        out.note(format_args!(
            "{alone}: fathom was built without MPI (cargo build --features mpi)"
        ));
    }
    Ok(None)
}

/// The name of this host.
pub(crate) fn host() -> String {
    String::from_utf8_lossy(&uname().host).into_owned()
}

/// Continues only if no rank has failed. Otherwise the first error of any rank, with its host, becomes
/// the error of all; `None` is that of a rank that stopped because another one has failed.
pub(crate) fn agree<T>(team: &dyn Team, mine: Result<T, Option<Error>>) -> Result<T, Error> {
    let place = format!("rank {} on {}", team.rank(), host());
    let (mine, error) = match mine {
        Ok(mine) => (Some(mine), None),
        Err(error) => (None, error.map(|error| error.at_place(&place))),
    };
    let errors = share(team, error).into_iter();
    match (errors.flatten().next(), mine) {
        (None, Some(mine)) => Ok(mine),
        (Some(error), _) => Err(error),
        (None, None) => Err(Error::new("another rank has failed")),
    }
}

/// The value of rank 0.
pub(crate) fn of_first<T: Serialize + DeserializeOwned>(team: &dyn Team, mine: T) -> T {
    share(team, mine).swap_remove(0)
}
