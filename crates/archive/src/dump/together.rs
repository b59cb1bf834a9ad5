//! The dump of one rank of an MPI job: one part of the archive and of the catalog.
//!
//! Each step is a separate function, after which the ranks agree that none has failed.

use catalog::{Draft, Sealed};
use ondisk::pax::{PartOfRun, part_header};
use walk::{Diagnostics, Moment};

use super::chain::Chain;
use super::options::{DumpOptions, DumpSummary};
use super::output::Output;
use super::own::check_outputs;
use super::pieces::DumpShare;
use super::progress::Progress;
use super::{Dump, UnnamedFiles, stripped_prefixes};
use crate::error::{Action, Error};
use crate::gather::check_directories;

/// One rank's part of a dump.
pub struct DumpPart<'a> {
    options: &'a DumpOptions,
    begun: Moment,
    chain: Chain,
    output: Output,
    draft: Option<Draft>,
}

impl<'a> DumpPart<'a> {
    /// Creates the files of a part, not yet renamed into place. The part number is that of the
    /// selection; each SRC must be a directory.
    ///
    /// # Errors
    /// A file cannot be created, or a SRC is no directory.
    pub fn create(options: &'a DumpOptions) -> Result<DumpPart<'a>, Error> {
        let begun = Moment::now();
        check_directories(&options.sources)?;
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
        let draft = chain.catalog.as_deref().map(Draft::create).transpose()?;
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
        let notes = stripped_prefixes(self.options);
        written.summary.notes.splice(..0, notes);
        let UnnamedFiles {
            archive,
            catalog,
            summary,
        } = written;
        Ok(WrittenPart {
            archive: Some(archive),
            catalog: catalog.transpose()?,
            summary,
        })
    }
}

/// A part of a dump whose files are synced to disk, but not yet renamed into place. Dropping it
/// removes them.
pub struct WrittenPart {
    archive: Option<super::output::Whole>,
    catalog: Option<Sealed>,
    summary: DumpSummary,
}

impl WrittenPart {
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
        self.catalog.take().map(Sealed::publish).transpose()?;
        Ok(())
    }

    /// The summary of the dump, for use after both files are renamed into place.
    pub fn into_summary(self) -> DumpSummary {
        self.summary
    }
}
