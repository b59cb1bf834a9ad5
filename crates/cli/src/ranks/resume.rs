//! The parts that earlier attempts of a run have finished, for `--resume`.

use std::collections::HashMap;

use catalog::{Finished, Options, ShardOfRun, Writer, catalogs_in, finished_part};
use walk::entry::joined;

use super::{WRITING_CATALOG, has_old_part};
use crate::error::Error;

/// Number of pieces with `--resume`: a failure loses at most one piece, but after each piece the
/// ranks wait for each other.
pub(crate) const PIECES: u32 = 16;

/// The parts of a catalog that earlier attempts have finished.
pub(crate) struct EarlierParts {
    /// The name of the run to which the parts belong.
    pub(crate) run: Option<String>,
    pub(crate) parts: Vec<EarlierPart>,
}

pub(crate) struct EarlierPart {
    pub(crate) number: u32,
    pub(crate) file: Vec<u8>,
    pub(crate) finished: Finished,
}

impl EarlierParts {
    /// Finds the parts in a directory. `options` are the options of an arbitrary part of the run;
    /// `run` is the name of the run, if the user gave one.
    ///
    /// # Errors
    /// The directory has catalogs of a different run, or a catalog cannot be read.
    pub(crate) fn find(
        dir: &[u8],
        (dirs, options, by): (&[Vec<u8>], &Options, Writer),
        run: Option<&String>,
    ) -> Result<EarlierParts, Error> {
        let any = options.shard.clone().unwrap_or_default();
        let part = |number| ShardOfRun {
            number,
            ..any.clone()
        };
        let names = (0..any.of).map(|number| (part(number).file_name().into_bytes(), number));
        let names: HashMap<Vec<u8>, u32> = names.collect();
        let mut found = EarlierParts {
            run: run.cloned(),
            parts: Vec::new(),
        };
        for name in catalogs_in(dir)?.unwrap_or_default() {
            let other = || has_old_part(WRITING_CATALOG, dir, &name);
            let number = *names.get(&name).ok_or_else(other)?;
            let file = joined(dir, &name);
            let options = Options {
                shard: Some(part(number)),
                ..options.clone()
            };
            if let Some(finished) = finished_part(&file, dirs, &options, by)? {
                let own = finished.run.clone().unwrap_or_default();
                if *found.run.get_or_insert_with(|| own.clone()) != own {
                    return Err(other());
                }
                found.parts.push(EarlierPart {
                    number,
                    file,
                    finished,
                });
            }
        }
        Ok(found)
    }
}
