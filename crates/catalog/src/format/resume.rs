//! Finds parts of a run that an earlier attempt has finished (`--resume`).

use super::about::{Options, Root};
use super::read::Reader;
use super::sums::Sums;
use crate::destination::remove;
use crate::error::{Action, Error, ErrorKind};

/// A part that an earlier attempt has finished.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finished {
    /// Name of the run.
    pub run: Option<String>,
    /// Whether the walk skipped no entry.
    pub complete: bool,
    /// Whether no entry can change again without a new ctime.
    pub at_rest: bool,
    /// Sums over the rows, for a dump.
    pub sums: Option<Sums>,
}

/// The command that writes a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writer {
    /// `fathom walk`
    Walk,
    /// `fathom dump`
    Dump,
}

/// The part that a walk or dump of `dirs` with `options` would write to `file`, if the file exists
/// already.
///
/// # Errors
/// The part is of different directories, has different options, or was written by the other
/// command; or it cannot be read, or other users may have written it.
pub fn finished_part(
    file: &[u8],
    dirs: &[Vec<u8>],
    options: &Options,
    by: Writer,
) -> Result<Option<Finished>, Error> {
    let reader = match Reader::open(file) {
        Err(error) if error.kind.is_missing() => return Ok(None),
        reader => reader?,
    };
    let refused = |kind| Error::new(Action::ReadCatalog, file, kind);
    reader.check_trusted().map_err(refused)?;
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
/// The part cannot be removed.
pub fn remove_part(file: &[u8]) -> Result<(), Error> {
    remove(file).map_err(|kind| Error::new(Action::WriteCatalog, file, kind))
}
