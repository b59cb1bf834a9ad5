//! A part of a run that an earlier attempt has finished.

use gate::Errno;

use super::about::{Options, Root};
use super::read::Reader;
use super::sums::Sums;
use crate::destination::remove;
use crate::error::{Action, Error, ErrorKind};
use crate::remote::StoreError;

/// A finished part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finished {
    /// The name of the run.
    pub run: Option<String>,
    /// Nothing was skipped.
    pub complete: bool,
    /// No row may change once more without a new ctime.
    pub at_rest: bool,
    /// The sums over the rows of a dump.
    pub sums: Option<Sums>,
}

/// What writes a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writer {
    /// `fathom walk`
    Walk,
    /// `fathom dump`
    Dump,
}

/// The part that a walk or a dump of `dirs` with these options would write to `file`, if it is there already.
///
/// # Errors
/// It is a part for other directories, or with other options, or by the other command; it cannot be read.
pub fn finished_part(
    file: &[u8],
    dirs: &[Vec<u8>],
    options: &Options,
    by: Writer,
) -> Result<Option<Finished>, Error> {
    let reader = match Reader::open(file) {
        Err(error) if error.errno() == Some(Errno::ENOENT) => return Ok(None),
        Err(error) if matches!(error.kind, ErrorKind::Store(StoreError::NotFound)) => {
            return Ok(None);
        }
        reader => reader?,
    };
    let about = reader.about();
    let roots: Vec<Root> = dirs.iter().map(|dir| Root::new(dir)).collect();
    let is_other = about.above.is_some() != (by == Writer::Dump)
        || about.roots != roots
        || about.options.without_run() != options.without_run();
    if is_other {
        return Err(Error::new(Action::WriteCatalog, file, ErrorKind::OtherRun));
    }
    let part = about.options.shard.clone();
    Ok(Some(Finished {
        run: part.and_then(|part| part.run),
        complete: about.complete,
        at_rest: about.racy == 0,
        sums: about.sums(),
    }))
}

/// Removes a part, so that it is written again.
///
/// # Errors
/// It cannot be removed.
pub fn remove_part(file: &[u8]) -> Result<(), Error> {
    remove(file).map_err(|kind| Error::new(Action::WriteCatalog, file, kind))
}
