//! The catalogs of a dump: its base, and the one that it writes.

use super::options::{DumpOptions, Note};
use crate::error::Error;
use crate::increment::Base;
use crate::increment::levels::Level;

pub(super) struct Chain {
    pub(super) since: Option<Vec<u8>>,
    pub(super) base: Option<Base>,
    pub(super) catalog: Option<Vec<u8>>,
    level: Option<Level>,
    pub(super) note: Option<Note>,
}

impl Chain {
    /// Finds the catalogs, and opens the base.
    pub(super) fn open(options: &DumpOptions) -> Result<Chain, Error> {
        let (since, catalog) = match &options.level {
            Some(level) => (level.base()?, Some(level.catalog())),
            None => (options.since.clone(), options.catalog.clone()),
        };
        let base = since.as_deref();
        let base = base
            .map(|since| Base::open(since, &options.sources))
            .transpose()?;
        let level = options.level.iter().map(|level| level.number);
        let mut lacking = level.filter(|&number| number > 0 && since.is_none());
        let note = lacking.next().map(Note::NoLowerLevel);
        Ok(Chain {
            since,
            base,
            catalog,
            level: options.level.clone(),
            note,
        })
    }

    /// Removes the catalogs of higher levels.
    pub(super) fn remove_higher(&self) -> Result<(), Error> {
        self.level.as_ref().map_or(Ok(()), Level::remove_higher)
    }
}
