//! The archive and the catalog that one process writes: all of a dump, or a part of it as a rank of
//! an MPI job.
//!
//! Each step is one function, so that the ranks can agree after it that none has failed.

use catalog::{CatalogDraft, SealedCatalog};
use ondisk::pax::{PartOfRun, part_header};
use walk::{Diagnostics, Moment};

use super::chain::Chain;
use super::options::{DumpOptions, DumpSummary};
use super::output::{Output, SyncedArchive};
use super::own::check_outputs;
use super::pieces::DumpShare;
use super::progress::Progress;
use super::{Dump, stripped_prefixes};
use crate::error::{Action, Error};
use crate::gather::check_directories;

/// A dump, or a part of it.
pub struct DumpPart<'a> {
    options: &'a DumpOptions,
    pub(super) begun: Moment,
    pub(super) chain: Chain,
    pub(super) output: Output,
    draft: Option<CatalogDraft>,
}

impl<'a> DumpPart<'a> {
    /// Creates the output files, which have no names yet, so that an archive that cannot be written
    /// fails before hours of reading. If the selection has a shard, each SRC must be a directory.
    ///
    /// # Errors
    /// A file cannot be created, or a SRC is no directory.
    pub fn create(options: &'a DumpOptions) -> Result<DumpPart<'a>, Error> {
        let begun = Moment::now();
        if options.selection.shard.is_some() {
            check_directories(&options.sources)?;
        }
        let resolve = |archive: &Vec<u8>| {
            let format = options.compress.resolve(archive);
            format.map_err(|kind| Error::new(Action::WriteArchive, archive, kind))
        };
        let format = options.archive.as_ref().map(resolve).transpose()?.flatten();
        let chain = Chain::open(options)?;
        check_outputs(options, &chain)?;
        let mut output = Output::create(options.archive.as_deref(), format)?;
        if let Some(part) = &options.selection.shard {
            let part = PartOfRun {
                number: part.number,
                of: part.of,
                run: part.run.clone().unwrap_or_default(),
            };
            let mut header = Vec::new();
            part_header(&part, &mut header);
            output.write(&header)?;
        }
        // Create only the catalog of a shard now: other catalogs may still get a different path,
        // because an increment can become a full dump after the tree is read.
        let catalog = chain.catalog.as_deref();
        let catalog = catalog.filter(|_| options.selection.shard.is_some());
        let draft = catalog.map(CatalogDraft::create).transpose()?;
        Ok(DumpPart {
            options,
            begun,
            chain,
            output,
            draft,
        })
    }

    /// Writes the archive and the catalog of a piece.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(
        self,
        share: &DumpShare,
        piece: u32,
        diagnostics: &Diagnostics,
        progress: &Progress,
    ) -> Result<WrittenPart, Error> {
        let mut dump = Dump {
            begun: self.begun,
            options: self.options,
            chain: &self.chain,
            diagnostics,
            progress,
            map: None,
        };
        let planned = share.planned(piece);
        let own = share.own(piece);
        let mut written = dump.write_unnamed(self.output, planned, self.draft, own)?;
        written.check_catalog()?;
        let notes = stripped_prefixes(self.options);
        written.summary.notes.splice(..0, notes);
        Ok(written)
    }
}

/// A part of a dump whose files are synced to disk, but not yet renamed into place. Dropping it
/// removes them.
pub struct WrittenPart {
    pub(super) archive: Option<SyncedArchive>,
    /// The catalog, or the error of writing it. The archive may be renamed into place even without
    /// a catalog.
    pub(super) catalog: Option<Result<SealedCatalog, Error>>,
    pub(super) summary: DumpSummary,
}

impl WrittenPart {
    /// Returns the error of the catalog, if it could not be written.
    pub(super) fn check_catalog(&mut self) -> Result<(), Error> {
        match self.catalog.take_if(|catalog| catalog.is_err()) {
            Some(Err(error)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Renames the archive into place.
    ///
    /// # Errors
    /// The archive cannot be renamed.
    pub fn publish_archive(&mut self) -> Result<(), Error> {
        if let Some(archive) = self.archive.take() {
            self.summary.archive_bytes = archive.publish()?;
        }
        Ok(())
    }

    /// Renames the catalog into place.
    ///
    /// # Errors
    /// The catalog cannot be renamed.
    pub fn publish_catalog(&mut self) -> Result<(), Error> {
        if let Some(catalog) = self.catalog.take() {
            catalog?.publish()?;
        }
        Ok(())
    }

    /// The summary of the dump, for use after both files are renamed into place.
    pub fn into_summary(self) -> DumpSummary {
        self.summary
    }
}
