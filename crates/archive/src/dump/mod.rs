//! Dumps: a tree written into an archive, whole or what has changed of it. docs/dump.md says what
//! holds.
//!
//! ```text
//! gather ─► plan ─► readers ─► window ─► writer ─► output ─────────────┬► published: archive, then catalog
//!   rows     step    load       order     settled   file, zstd           │
//!                                         └──► catalog, rows at a time ──┘
//! ```
//!
//! | module | what is in it |
//! |---|---|
//! | `options` | what a dump is told, and what it reports |
//! | `chain` | the catalogs of a dump: its base, and the one that it writes |
//! | `own` | keeps the files that are written apart from those that are dumped |
//! | `copy` | reads and writes what the plan says, by one thread or several |
//! | `work` | what readers and writer share |
//! | `load` | what goes from the readers to the writer |
//! | `window` | reads ahead of the writer, and keeps the order |
//! | `read` | makes members of rows, reading their contents |
//! | `places` | opens the files of rows |
//! | `holes` | where in a file there is data |
//! | `member` | the headers of a member, and its name |
//! | `users` | names of users and groups |
//! | `write` | writes in order, and keeps account |
//! | `settled` | what became of rows, for the catalog |
//! | `known` | what the catalog says of rows besides what was gathered |
//! | `output` | the file, stream or device that the archive is written to |
//! | `progress` | how many entries and bytes are done |

use walk::{Diagnostics, Moment};

mod chain;
mod copy;
mod holes;
mod known;
mod load;
mod member;
mod options;
mod output;
mod own;
mod places;
mod progress;
mod read;
mod settled;
mod users;
mod window;
mod work;
mod write;

use crate::OnPanic;
use crate::attribution::{Function, with_function};
use crate::beside::begin;
use crate::catalog::Draft;
use crate::error::Error;
use crate::gather::{CollectOptions, Gather, Gathered, gather};
use crate::increment::{Base, Collected, Planned, spare_unseen};
use crate::plan::{Plan, Step, member_name};
use crate::rows::Rows;
use chain::Chain;
use copy::copy;
use known::Known;
pub use options::{Counts, DumpOptions, DumpSummary, Line, Map, Note};
use output::{Output, Whole};
use own::{leave_out_own, set_apart};
pub use progress::{Far, Progress};
use settled::Settling;

/// Dumps. The archive appears under its name when it is whole and durable; then the map, then the
/// catalog.
///
/// # Errors
/// Nothing is left behind then; if it is the map or the catalog that cannot get its name, what
/// comes before it is there.
pub fn dump(
    options: &DumpOptions,
    desk: &Diagnostics,
    progress: &Progress,
    map: Option<&mut (dyn Map + 'static)>,
) -> Result<DumpSummary, Error> {
    let begun = Moment::now();
    let chain = Chain::open(options)?;
    set_apart(options, &chain)?;
    // Before anything is gathered, so that what cannot be written is known before hours of reading.
    let output = Output::create(options.archive.as_deref())?;
    let mut dump = Dump {
        options,
        chain: &chain,
        desk,
        progress,
        map,
    };
    let mut summary = match dump.collect(begun)? {
        Collected::Unchanged { parts, looked_at } => {
            dump.write_sources(output, parts, looked_at)?
        }
        Collected::Changed(planned) => dump.write(output, *planned)?,
    };
    summary.notes.splice(
        0..0,
        stripped(options)
            .into_iter()
            .chain(uncompressed(options))
            .chain(chain.note.clone()),
    );
    summary.since = chain.since;
    Ok(summary)
}

/// A dump under way.
struct Dump<'a> {
    options: &'a DumpOptions,
    chain: &'a Chain,
    desk: &'a Diagnostics,
    progress: &'a Progress,
    map: Option<&'a mut (dyn Map + 'static)>,
}

impl Dump<'_> {
    /// Collects the tree, and plans what is to be written.
    fn collect(&self, begun: Moment) -> Result<Collected, Error> {
        let for_catalog = self.chain.catalog.is_some().then_some(begun);
        let request = self.options.collect_options(for_catalog);
        let Some(base) = &self.chain.base else {
            let (rows, gathered) = gather(&request, self.desk)?;
            return Ok(Collected::Changed(Box::new(Planned {
                plan: Plan::full(&rows),
                rows,
                parts: gathered.parts,
            })));
        };
        let request = CollectOptions {
            expected: Some(base.entries()),
            ..request
        };
        base.collect(&request, &self.options.selection, self.desk)
    }

    /// Writes the archive, the map and the catalog.
    fn write(&mut self, output: Output, planned: Planned) -> Result<DumpSummary, Error> {
        let Planned {
            ref rows,
            parts,
            mut plan,
        } = planned;
        let skipped = self.desk.take_warnings();
        spare_unseen(rows, &skipped, &mut plan);
        skipped
            .into_iter()
            .for_each(|warning| self.desk.warn(warning));
        let mut notes = leave_out_own(self.options, self.chain, &output, rows, &mut plan);
        let (counts, archive_bytes) = match &self.chain.catalog {
            Some(catalog) => {
                let known = Known::new(rows, &plan, self.chain.base.as_ref());
                let written = self.write_with_catalog(output, rows, &plan, &known, catalog)?;
                if known.lacks.into_inner() {
                    notes.push(Note::ChecksumsMissing);
                }
                written
            }
            None => {
                let (counts, whole) = self.copy(output, rows, &plan, None)?;
                let archive_bytes = whole.publish()?;
                self.publish_map()?;
                (counts, archive_bytes)
            }
        };
        Ok(DumpSummary {
            parts,
            entries: rows.len() as u64,
            gathered: rows.len() as u64,
            directories: rows.directories().len() as u64,
            counts,
            archive_bytes,
            removed: plan.removed,
            renamed: plan.renamed,
            unchanged: plan.unchanged(),
            notes,
            warnings: self.desk.take_warnings(),
            ..DumpSummary::default()
        })
    }

    /// Writes the archive, and the catalog while it is being written; publishes the archive first,
    /// so that no catalog ever names what no archive has.
    fn write_with_catalog(
        &mut self,
        output: Output,
        rows: &Rows,
        plan: &Plan,
        known: &Known<'_>,
        catalog: &[u8],
    ) -> Result<(Counts, u64), Error> {
        let (draft, desk) = (Draft::create(catalog)?, self.desk);
        let options = self.options.selection.clone();
        let write_catalog = || {
            let _watch = OnPanic(|| known.settled.leave());
            let is_kept = |row| plan.step(row) != Step::LeftOut;
            let is_complete = || !desk.has_warnings();
            let sealed = draft.write(
                rows,
                options,
                is_kept,
                |some| known.later(some),
                is_complete,
            );
            known.settled.leave();
            sealed
        };
        let (archived, sealed) = std::thread::scope(|scope| {
            let mut writing = begin(scope, write_catalog);
            let copied = self.copy(output, rows, plan, Some(Settling::new(&known.settled)));
            writing.now();
            let archived = copied.and_then(|(counts, whole)| {
                // A base that cannot be read fails the dump before the archive has its name.
                known.settled.wait_until_used();
                known.error().map_or(Ok(()), Err)?;
                Ok((counts, whole.publish()?))
            });
            let sealed = writing.join();
            (
                archived,
                sealed.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            )
        });
        let (archived, sealed) = (archived?, sealed?);
        self.publish_map()?;
        self.chain.forget_higher()?;
        sealed.publish()?;
        Ok(archived)
    }

    /// Writes nothing but each SRC itself, since nothing has changed since the base.
    fn write_sources(
        &mut self,
        output: Output,
        parts: Vec<Gathered>,
        looked_at: u64,
    ) -> Result<DumpSummary, Error> {
        // One call each: no way of gathering is faster.
        let request = CollectOptions {
            max_depth: Some(0),
            gather: Some(Gather::Combined),
            ..self.options.collect_options(None)
        };
        let (rows, _) = gather(&request, self.desk)?;
        // Without the names of what is in them: nothing is to be removed.
        let plan = Plan::full(&rows);
        let (counts, whole) = self.copy(output, &rows, &plan, None)?;
        let archive_bytes = whole.publish()?;
        self.publish_map()?;
        let entries = self.chain.base.as_ref().map_or(0, Base::entries);
        if let (Some(catalog), Some(base)) = (&self.chain.catalog, &self.chain.base) {
            self.chain.forget_higher()?;
            base.copy_to(catalog)?;
        }
        Ok(DumpSummary {
            parts,
            entries,
            gathered: looked_at.max(rows.len() as u64),
            directories: rows.directories().len() as u64,
            counts,
            archive_bytes,
            unchanged: entries.saturating_sub(rows.len() as u64),
            warnings: self.desk.take_warnings(),
            ..DumpSummary::default()
        })
    }

    /// Copies what the plan says into the archive, which is complete then, and has no name yet.
    fn copy(
        &mut self,
        mut output: Output,
        rows: &Rows,
        plan: &Plan,
        settling: Option<Settling<'_>>,
    ) -> Result<(Counts, Whole), Error> {
        let counts = copy(
            (rows, plan, self.desk),
            &mut output,
            (self.progress, self.map.as_deref_mut()),
            settling,
            self.options.threads,
        )?;
        Ok((counts, output.finish()?))
    }

    /// Gives the map its name.
    fn publish_map(&mut self) -> Result<(), Error> {
        self.map
            .as_deref_mut()
            .map_or(Ok(()), |map| with_function(Function::Map, || map.publish()))
    }
}

/// The prefixes of sources that names in the archive do not have.
fn stripped(options: &DumpOptions) -> Vec<Note> {
    let mut prefixes: Vec<&[u8]> = options
        .sources
        .iter()
        .map(|path| &path[..path.len() - member_name(path).len()])
        .filter(|prefix| !prefix.is_empty())
        .collect();
    prefixes.sort_unstable();
    prefixes.dedup();
    prefixes
        .into_iter()
        .map(|prefix| Note::PrefixLeftOut(prefix.to_vec()))
        .collect()
}

/// An archive whose name promises a compression that this program does not do.
fn uncompressed(options: &DumpOptions) -> Option<Note> {
    const OTHERS: [&[u8]; 9] = [
        b".gz", b".tgz", b".bz2", b".tbz2", b".xz", b".txz", b".lz4", b".lzma", b".tzst",
    ];
    let path = options.archive.as_deref()?;
    let is_meant = OTHERS.iter().any(|end| path.ends_with(end));
    is_meant.then(|| Note::Uncompressed(path.to_vec()))
}
