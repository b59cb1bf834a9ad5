//! A part of a run that an earlier attempt has finished.

use gate::Errno;

use super::about::{Options, Root};
use super::read::Reader;
use crate::destination::remove;
use crate::error::{Action, Error, ErrorKind};

/// A finished part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finished {
    /// The name of the run.
    pub run: Option<String>,
    /// Nothing was skipped.
    pub complete: bool,
}

/// The part that a walk of `dir` with these options would write to `file`, if it is there already.
///
/// # Errors
/// It is a part of a walk of another directory, or with other options; it cannot be read.
pub fn finished_part(
    file: &[u8],
    dir: &[u8],
    options: &Options,
) -> Result<Option<Finished>, Error> {
    let reader = match Reader::open(file) {
        Err(error) if error.errno() == Some(Errno::ENOENT) => return Ok(None),
        reader => reader?,
    };
    let about = reader.about();
    let root = Root::new(dir);
    if about.roots != [root] || about.options.without_run() != options.without_run() {
        return Err(Error::new(Action::WriteCatalog, file, ErrorKind::OtherRun));
    }
    let part = about.options.shard.clone();
    Ok(Some(Finished {
        run: part.and_then(|part| part.run),
        complete: about.complete,
    }))
}

/// Removes a part, so that it is written again.
///
/// # Errors
/// It cannot be removed.
pub fn remove_part(file: &[u8]) -> Result<(), Error> {
    remove(file).map_err(|kind| Error::new(Action::WriteCatalog, file, kind))
}
