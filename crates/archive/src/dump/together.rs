//! The dump of one rank of an MPI job: a part of the archive, and of the catalog.
//!
//! Each step is one function, so that the ranks can agree after it that none has failed.

use ondisk::pax::{PartOfRun, part_header};
use team::Team;
use walk::{Diagnostics, Moment};

use super::chain::Chain;
use super::options::{DumpOptions, DumpSummary};
use super::output::Output;
use super::own::check_outputs;
use super::progress::Progress;
use super::{Dump, Written, stripped_prefixes};
use crate::catalog::{Draft, Sealed};
use crate::error::{Action, Error};
use crate::gather::{Share, check_directories, collect_together};
use crate::increment::Planned;
use crate::plan::Plan;

/// A part of a dump.
pub struct DumpPart<'a> {
    options: &'a DumpOptions,
    begun: Moment,
    chain: Chain,
    output: Output,
    draft: Option<Draft>,
    share: Option<Share>,
}

impl<'a> DumpPart<'a> {
    /// Creates the files of a part, which have no names yet. The part is that of the selection; each SRC must be
    /// a directory.
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
            share: None,
        })
    }

    /// Collects what this rank dumps, together with all ranks.
    ///
    /// # Errors
    /// The tree cannot be walked; [`walk::Error::OtherRank`] if another rank has failed.
    pub fn collect(
        &mut self,
        team: &dyn Team,
        diagnostics: &Diagnostics,
    ) -> Result<(), walk::Error> {
        let for_catalog = self.draft.is_some().then_some(self.begun);
        let request = self.options.collect_options(for_catalog);
        self.share = Some(collect_together(&request, team, diagnostics)?);
        Ok(())
    }

    /// Writes the files.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(
        self,
        diagnostics: &Diagnostics,
        progress: &Progress,
    ) -> Result<WrittenPart, Error> {
        let Some(Share {
            rows,
            parts,
            borrowed,
        }) = self.share
        else {
            return Err(Error::new(Action::Walk, b"", crate::ErrorKind::Stopped));
        };
        let plan = Plan::full(&rows);
        let mut dump = Dump {
            begun: self.begun,
            options: self.options,
            chain: &self.chain,
            diagnostics,
            progress,
            map: None,
        };
        let planned = Planned { rows, parts, plan };
        let mut written = dump.write_unnamed(self.output, planned, self.draft, &borrowed)?;
        let notes = stripped_prefixes(self.options);
        written.summary.notes.splice(..0, notes);
        let Written {
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

/// A part of a dump whose files are on the disk, and have no names yet. Dropping it removes them.
pub struct WrittenPart {
    archive: Option<super::output::Whole>,
    catalog: Option<Sealed>,
    summary: DumpSummary,
}

impl WrittenPart {
    /// Gives the archive its name.
    ///
    /// # Errors
    /// It cannot be named.
    pub fn publish_archive(&mut self) -> Result<(), Error> {
        if let Some(archive) = self.archive.take() {
            self.summary.archive_bytes = archive.publish()?;
        }
        Ok(())
    }

    /// Gives the catalog its name, when all ranks have named their archives.
    ///
    /// # Errors
    /// It cannot be named.
    pub fn publish_catalog(self) -> Result<DumpSummary, Error> {
        self.catalog.map(Sealed::publish).transpose()?;
        Ok(self.summary)
    }
}
