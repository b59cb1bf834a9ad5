//! Dumps a tree into an archive, in full or as an increment. docs/dump.md has the guarantees.
//!
//! ```text
//! collect ─► plan ─► readers ─► window ─► writer ─► output ─────────────┬► archive, then catalog
//!   rows      step    chunk      order     results   file               │  (renamed into place)
//!                                          └──► catalog, rows at a time ┘
//! ```

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use base::Warning;
use base::pool::spawn;
use gate::attribution::{Function, with_function};
use gate::sync::Mutex;
use walk::{Diagnostics, FileType, Moment};

mod attributes;
mod chain;
mod contents;
mod copy;
mod estimate;
mod frames;
pub(crate) mod holes;
mod lineage;
mod load;
pub(crate) mod member;
mod options;
mod output;
mod own;
mod part;
mod pieces;
pub(crate) mod places;
mod progress;
mod read;
mod results;
mod sink;
mod updates;
pub(crate) mod users;
mod window;
mod write;

use crate::error::Error;
use crate::gather::{Gather, Gathered, gather};
use crate::increment::{
    self, Base, Collected, Planned, Unchanged, check_nested_sources, keep_unreadable,
    list_other_sources,
};
use crate::plan::{Plan, PlanStep, member_name};
pub use attributes::{AttributeFailure, AttributeReader, AttributesOf};
use catalog::hidden::Hidden;
use catalog::rows::Rows;
use catalog::since::GoneMount;
use catalog::{About, CatalogDraft, RowInclusion, SealedCatalog};
use chain::Chain;
use copy::Copy;
pub use estimate::{Estimate, Estimates, estimate};
use lineage::lineage;
pub use options::{Counts, DumpOptions, DumpSummary, Line, Map, Note};
use output::{Output, SyncedArchive};
use own::{leave_out_own, leave_out_root};
pub use part::{DumpPart, WrittenPart};
pub use pieces::DumpShare;
use pieces::OwnRows;
pub use places::{NotOpened, OpenAncestors, stat};
pub use progress::Progress;
pub use read::{is_unchanged, is_unchanged_as_read};
use results::ResultSender;
use updates::CatalogUpdates;

/// Dumps the tree. Once the archive is synced to disk, archive, map and catalog are renamed into
/// place, in this order.
///
/// # Errors
/// A SRC cannot be read, or a file cannot be written. No file is left behind, except those already
/// renamed into place.
pub fn dump(
    options: &DumpOptions,
    diagnostics: &Diagnostics,
    progress: &Progress,
    map: Option<&mut (dyn Map + 'static)>,
) -> Result<DumpSummary, Error> {
    let DumpPart {
        begun,
        mut chain,
        output,
        ..
    } = DumpPart::create(options)?;
    let collected = collect(options, &mut chain, begun, diagnostics)?;
    let mut dump = Dump {
        begun,
        options,
        chain: &chain,
        diagnostics,
        progress,
        map,
    };
    let mut summary = match collected {
        Collected::Unchanged(unchanged) => dump.write_sources(output, unchanged)?,
        Collected::Changed(planned) => {
            check_nested_sources(&planned.rows)?;
            dump.write(output, *planned)?
        }
        Collected::OtherSource(.., error) => return Err(error),
    };
    let automatic = options.automatic.as_ref();
    let unremoved = automatic.and_then(|automatic| automatic.unremoved.clone());
    summary.warnings.extend(unremoved);
    summary
        .warnings
        .extend(chain.keep_catalog(options.archive.as_deref()));
    let mut notes = stripped_prefixes(options);
    summary.level = chain.level();
    notes.extend(chain.note);
    notes.append(&mut summary.notes);
    summary.notes = notes;
    summary.since = chain.since;
    Ok(summary)
}

/// Collects the tree, and plans the archive.
fn collect(
    options: &DumpOptions,
    chain: &mut Chain,
    begun: Moment,
    diagnostics: &Diagnostics,
) -> Result<Collected, Error> {
    let for_catalog = chain.catalog.is_some().then_some(begun);
    let mut request = options.collect_options(for_catalog);
    let (rows, parts) = match &chain.base {
        None => gather(&request, diagnostics)?,
        Some(base) => {
            request.expected = Some(base.entries());
            match increment::collect(base, &request, &options.selection, diagnostics)? {
                Collected::OtherSource(rows, parts, e) if chain.may_become_full(&e) => {
                    chain.become_full(&e);
                    (*rows, parts)
                }
                Collected::Changed(mut planned) => {
                    planned.plan.gone = chain.gone_mounts(Some(&planned.rows))?;
                    return Ok(Collected::Changed(planned));
                }
                collected => return Ok(collected),
            }
        }
    };
    let mut plan = Plan::full(&rows);
    if chain.catalog.is_none() {
        leave_out_root(options, &mut plan);
    }
    plan.gone = chain.gone_mounts(Some(&rows))?;
    Ok(Collected::Changed(Box::new(Planned { rows, parts, plan })))
}

/// The note on skipped sockets, which tar cannot store.
fn note_of_sockets(rows: &Rows, plan: &Plan) -> Option<Note> {
    let is_skipped = |row: &usize| {
        rows.kind(*row) == FileType::Socket
            && matches!(plan.step(*row), PlanStep::Whole | PlanStep::Link)
    };
    let mut sockets = (0..rows.len()).filter(is_skipped);
    let path = rows.full_path(sockets.next()?);
    let more = sockets.count() as u64;
    Some(Note::SocketsLeftOut { path, more })
}

struct Dump<'a> {
    begun: Moment,
    options: &'a DumpOptions,
    chain: &'a Chain,
    diagnostics: &'a Diagnostics,
    progress: &'a Progress,
    map: Option<&'a mut (dyn Map + 'static)>,
}

impl Dump<'_> {
    /// Writes the archive, the map and the catalog.
    fn write(&mut self, output: Output, planned: Planned) -> Result<DumpSummary, Error> {
        let draft = self.chain.catalog.as_deref().map(CatalogDraft::create);
        let Planned { rows, parts, plan } = planned;
        let written = self.write_unnamed(
            output,
            (&rows, parts, plan),
            draft.transpose()?,
            OwnRows::All,
        )?;
        self.publish(written)
    }

    /// Writes the archive and the catalog, without renaming them into place.
    fn write_unnamed(
        &mut self,
        mut output: Output,
        (rows, parts, mut plan): (&Rows, Vec<Gathered>, Plan),
        draft: Option<CatalogDraft>,
        own: OwnRows<'_>,
    ) -> Result<WrittenPart, Error> {
        let skipped = self.diagnostics.take_warnings();
        keep_unreadable(rows, &Hidden::new(&skipped), &mut plan);
        for warning in skipped {
            self.diagnostics.warn(warning);
        }
        let mut notes = leave_out_own(self.options, self.chain, &output, rows, &mut plan);
        notes.extend(note_of_sockets(rows, &plan));
        let lineage = lineage(rows, &plan, own, self.chain.base.as_ref());
        output.begin(&lineage)?;
        let mut catalog = None;
        let (counts, archive) = match draft {
            Some(draft) => {
                let draft = draft.with_archive(lineage.id);
                let draft = draft.with_gone_mounts(plan.gone.clone());
                let updates = CatalogUpdates {
                    rows,
                    plan: &plan,
                    base: self.chain.base.as_ref(),
                    misses_checksums: AtomicBool::new(false),
                    error: Mutex::default(),
                };
                let (counts, archive, sealed) =
                    self.copy_with_catalog(output, &updates, draft, own)?;
                catalog = Some(sealed);
                if updates.misses_checksums.into_inner() {
                    notes.push(Note::ChecksumsMissing);
                }
                (counts, archive)
            }
            None => self.copy(output, rows, &plan, None)?,
        };
        let mut warnings = self.diagnostics.take_warnings();
        warnings.extend(plan.gone.iter().map(GoneMount::warning));
        let found = own.summary(rows);
        let summary = DumpSummary {
            parts,
            counts,
            removed: plan.removed,
            renamed: plan.renamed,
            unchanged: plan.unchanged(),
            notes,
            warnings,
            ..found
        };
        Ok(WrittenPart {
            archive: Some(archive),
            catalog,
            summary,
        })
    }

    /// Renames all files into place, the archive first, so that no catalog refers to a missing
    /// archive.
    fn publish(&mut self, mut written: WrittenPart) -> Result<DumpSummary, Error> {
        // Without its catalog a dump is not recorded, and an archive whose name fathom chose would
        // be unknown. So fail before the archive is renamed into place.
        if self.options.automatic.is_some() {
            written.check_catalog()?;
        }
        if let Some(Ok(sealed)) = &written.catalog {
            let id = sealed.about().archive.unwrap_or_default();
            self.chain.announce(self.options.archive.as_deref(), id)?;
        }
        written.publish_archive()?;
        written.check_catalog()?;
        self.publish_map()?;
        if let Some(Ok(sealed)) = &written.catalog {
            self.record(sealed.about(), &written.summary.warnings)?;
            self.chain.remove_higher()?;
        }
        written.publish_catalog()?;
        Ok(written.into_summary())
    }

    /// Writes the archive and the map, and the catalog at the same time. An error of the catalog is
    /// returned beside the archive.
    fn copy_with_catalog(
        &mut self,
        output: Output,
        updates: &CatalogUpdates<'_>,
        draft: CatalogDraft,
        own: OwnRows<'_>,
    ) -> Result<(Counts, SyncedArchive, Result<SealedCatalog, Error>), Error> {
        let &CatalogUpdates { rows, plan, .. } = updates;
        let diagnostics = self.diagnostics;
        let options = self.options.selection.clone();
        let (results, result_groups) = ResultSender::new(rows.len());
        let write_catalog = move || {
            let keep = |row| match () {
                () if !own.has(row) => RowInclusion::Elsewhere,
                () if plan.step(row) == PlanStep::LeftOut => RowInclusion::Nowhere,
                () => RowInclusion::Row,
            };
            // The error of the stopped catalog is never shown: the writer of the archive reports
            // its own.
            let stopped = |_| {
                let kind = catalog::ErrorKind::Stopped;
                catalog::Error::new(catalog::Action::WriteCatalog, b"", kind)
            };
            let next = move || result_groups.recv().map_err(stopped);
            let later = |rows, group| updates.for_rows(rows, group);
            let is_complete = || !diagnostics.has_warnings();
            draft.write(rows, options, keep, next, later, is_complete)
        };
        let (copied, sealed) = std::thread::scope(|scope| {
            let writing = spawn(scope, write_catalog);
            let copied = self.copy(output, rows, plan, Some(results));
            (copied, writing.join())
        });
        let (counts, archive) = copied?;
        let sealed = sealed.unwrap_or_else(|e| std::panic::resume_unwind(e));
        // Fail before the archive is renamed into place if the base cannot be read.
        if let Some(error) = updates.error.lock().take() {
            return Err(error.into());
        }
        Ok((counts, archive, sealed.map_err(Error::from)))
    }

    /// Writes only the SRC directories themselves, because nothing has changed since the base.
    fn write_sources(
        &mut self,
        mut output: Output,
        Unchanged {
            parts,
            looked_at,
            renewed,
        }: Unchanged,
    ) -> Result<DumpSummary, Error> {
        // The SRCs alone need one statx(2) each, so `combined` is as fast as any other method.
        let mut request = self.options.collect_options(None);
        request.selection.max_depth = Some(0);
        request.gather = Some(Gather::Combined);
        let (rows, _) = gather(&request, self.diagnostics)?;
        let mut plan = Plan::increment(rows.len());
        // Every increment contains each SRC with its list, also after a full comparison.
        let lists = self.chain.base.as_ref().map(Base::lists_of_sources);
        let lists = lists.transpose()?.unwrap_or_default();
        for (source, list) in rows.sources().iter().zip(lists) {
            plan.set(source.rows.start, PlanStep::Whole);
            plan.unread.insert(source.rows.start, list);
        }
        if let Some(base) = &self.chain.base {
            list_other_sources(base, &rows, &mut plan)?;
        }
        plan.is_unchanged = true;
        let lineage = lineage(&rows, &plan, OwnRows::All, self.chain.base.as_ref());
        output.begin(&lineage)?;
        let (counts, archive) = self.copy(output, &rows, &plan, None)?;
        self.chain
            .announce(self.options.archive.as_deref(), lineage.id)?;
        let archive_bytes = archive.publish()?;
        self.publish_map()?;
        let mut warnings = self.diagnostics.take_warnings();
        let gone = self.chain.gone_mounts(None)?;
        warnings.extend(gone.iter().map(GoneMount::warning));
        let entries = self.chain.base.as_ref().map_or(0, Base::entries);
        if let (Some(catalog), Some(base)) = (&self.chain.catalog, &self.chain.base) {
            self.record(base.about(), &warnings)?;
            self.chain.remove_higher()?;
            // Catalogs of older versions have no archive id, so set it.
            base.copy_to(catalog, &renewed, |about| {
                about.archive = Some(lineage.id);
                about.gone_mounts = gone;
            })?;
        }
        Ok(DumpSummary {
            parts,
            entries,
            gathered: looked_at.max(rows.len() as u64),
            directories: rows.directories().len() as u64,
            counts,
            archive_bytes,
            unchanged: entries.saturating_sub(rows.len() as u64),
            warnings,
            ..DumpSummary::default()
        })
    }

    /// Copies the planned entries into the archive, without renaming the archive into place.
    fn copy(
        &mut self,
        mut output: Output,
        rows: &Rows,
        plan: &Plan,
        results: Option<ResultSender>,
    ) -> Result<(Counts, SyncedArchive), Error> {
        let copy = Copy {
            rows,
            plan,
            diagnostics: self.diagnostics,
            progress: self.progress,
            threads: self.options.threads,
        };
        let counts = copy.write(&mut output, self.map.as_deref_mut(), results)?;
        Ok((counts, output.finish()?))
    }

    fn record(&self, written: &About, warnings: &[Warning]) -> Result<(), Error> {
        let archive = self.options.archive.as_deref();
        self.chain.record(self.begun, archive, written, warnings)
    }

    fn publish_map(&mut self) -> Result<(), Error> {
        match &mut self.map {
            Some(map) => with_function(Function::Map, || map.publish()),
            None => Ok(()),
        }
    }
}

/// Notes on the prefixes of sources that are stripped from member names.
fn stripped_prefixes(options: &DumpOptions) -> Vec<Note> {
    let sources = options.sources.iter();
    let prefixes = sources.map(|path| &path[..path.len() - member_name(path).len()]);
    let prefixes: BTreeSet<&[u8]> = prefixes.filter(|prefix| !prefix.is_empty()).collect();
    let notes = prefixes.into_iter().map(<[u8]>::to_vec);
    notes.map(Note::PrefixLeftOut).collect()
}
