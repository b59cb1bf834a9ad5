//! Dumps: a tree written into an archive, whole or what has changed of it. docs/dump.md says what
//! holds.
//!
//! ```text
//! gather ─► plan ─► readers ─► window ─► writer ─► output ─────────────┬► published: archive, then catalog
//!   rows     step    load       order     settled   file, zstd           │
//!                                         └──► catalog, rows at a time ──┘
//! ```
//!
//! | room | what is in it |
//! |---|---|
//! | [`plan`] | what is to be written, row by row |
//! | `own` | keeps apart what is written and what is dumped |
//! | `copy` | reads and writes what the plan says |
//! | `read` | makes members of rows, reading what they hold |
//! | `places` | opens what rows are of |
//! | `holes` | where in a file there is data |
//! | `member` | what a member's headers say, and its name |
//! | `users` | names of users and groups |
//! | `window` | reads ahead of the writer, and keeps the order |
//! | `write` | writes in order, and keeps account |
//! | `settled` | what has become of rows, for the catalog |
//! | `known` | what a catalog is to say of rows besides what was gathered |
//! | `output` | where an archive goes |
//! | `progress` | how far a dump is |

use crate::attribution::{Function, with_function};
use crate::error::Error;
use mounts::Warning;
use walk::{Diagnostics, Meta, Moment};

mod copy;
mod holes;
mod known;
mod member;
mod output;
mod own;
mod places;
pub mod plan;
mod progress;
mod read;
mod settled;
mod users;
mod window;
mod write;

use crate::beside::begin;
use crate::catalog::{Draft, Options};
use crate::gather::{self, Gather, Gathered, gather};
use crate::increment::levels::Level;
use crate::increment::{Base, Collected, Planned, spare_unseen};
use crate::rows::Rows;
use crate::{OnPanic, shown};
use copy::copy;
use known::Known;
pub use member::member_name;
use output::{Output, Whole};
use own::{leave_out_own, set_apart};
pub use plan::{Plan, Step};
pub use progress::{Far, Progress};
use settled::Settling;
pub use write::Map;

/// What is asked.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Directories and files, as they were given.
    pub sources: Vec<Vec<u8>>,
    /// Where the archive goes; `-` is standard output. `None` to do everything but write it.
    pub archive: Option<Vec<u8>>,
    /// The catalog that an increment goes on from.
    pub since: Option<Vec<u8>>,
    /// Where a catalog goes, if there is to be one.
    pub catalog: Option<Vec<u8>>,
    /// Says which catalogs these two are.
    pub level: Option<Level>,
    /// The way of gathering; `None` for what is best for each mount.
    pub gather: Option<Gather>,
    /// Threads; `None` for as many as are good.
    pub threads: Option<usize>,
    /// What is left out.
    pub options: Options,
    /// Files that are left out besides: what else is being written.
    pub own: Vec<Vec<u8>>,
}

/// What came of a dump.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The mounts that were gathered, or would have been.
    pub parts: Vec<Gathered>,
    /// The catalog that it goes on from.
    pub since: Option<Vec<u8>>,
    /// Entries that were found.
    pub entries: u64,
    /// Entries that were gathered.
    pub gathered: u64,
    /// Of them, directories.
    pub directories: u64,
    /// What came into the archive.
    pub counts: Counts,
    /// What was written, compressed if it is.
    pub archive_bytes: u64,
    /// Entries of the base that are gone.
    pub removed: u64,
    /// Directories of the base that have another name.
    pub renamed: u64,
    /// Entries that are as they were in the base.
    pub unchanged: u64,
    /// What is worth saying, and no warning.
    pub notes: Vec<String>,
    /// What was skipped or found wrong.
    pub warnings: Vec<Warning>,
}

/// Dumps. The archive appears under its name when it is whole and durable; then the map, then the
/// catalog.
///
/// # Errors
/// Nothing is left behind then; if it is the map or the catalog that cannot get its name, what
/// comes before it is there.
pub fn dump(
    question: &Question,
    desk: &Diagnostics,
    progress: &Progress,
    map: Option<&mut (dyn Map + 'static)>,
) -> Result<Answer, Error> {
    let begun = Moment::now();
    let chain = Chain::of(question)?;
    set_apart(question, &chain)?;
    // Before anything is gathered, so that what cannot be written is known before hours of reading.
    let output = Output::create(question.archive.as_deref())?;
    let mut dump = Dump {
        question,
        chain: &chain,
        desk,
        progress,
        map,
    };
    let mut answer = match dump.collect(begun)? {
        Collected::Unchanged { parts, looked_at } => {
            dump.write_sources(output, parts, looked_at)?
        }
        Collected::Changed(planned) => dump.write(output, *planned)?,
    };
    answer.notes.splice(
        0..0,
        stripped(question)
            .into_iter()
            .chain(uncompressed(question))
            .chain(chain.note.clone()),
    );
    answer.since = chain.since;
    Ok(answer)
}

/// A dump under way.
struct Dump<'a> {
    question: &'a Question,
    chain: &'a Chain,
    desk: &'a Diagnostics,
    progress: &'a Progress,
    map: Option<&'a mut (dyn Map + 'static)>,
}

impl Dump<'_> {
    /// Collects the tree, and plans what is to be written.
    fn collect(&self, begun: Moment) -> Result<Collected, Error> {
        let for_catalog = self.chain.catalog.is_some().then_some(begun);
        let request = asked(self.question, for_catalog);
        let Some(base) = &self.chain.base else {
            let (rows, gathered) = gather(&request, self.desk)?;
            return Ok(Collected::Changed(Box::new(Planned {
                plan: Plan::full(&rows),
                rows,
                parts: gathered.parts,
            })));
        };
        let request = gather::Question {
            expected: Some(base.entries()),
            ..request
        };
        base.collect(&request, &self.question.options, self.desk)
    }

    /// Writes the archive, the map and the catalog.
    fn write(&mut self, output: Output, planned: Planned) -> Result<Answer, Error> {
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
        let mut notes = leave_out_own(self.question, self.chain, &output, rows, &mut plan);
        let (counts, archive_bytes) = match &self.chain.catalog {
            Some(catalog) => {
                let known = Known::new(rows, &plan, self.chain.base.as_ref());
                let written = self.write_with_catalog(output, rows, &plan, &known, catalog)?;
                if known.lacks.into_inner() {
                    notes.push(
                        "the catalog has no checksums of some files, as it goes on from one that has none"
                            .to_owned(),
                    );
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
        Ok(Answer {
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
            ..Answer::default()
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
        let options = self.question.options.clone();
        let write_catalog = || {
            let _watch = OnPanic(|| known.settled.leave());
            let is_kept = |row| plan.step(row) != Step::LeftOut;
            let is_complete = || !desk.has_warnings();
            let sealed = draft.write(rows, options, is_kept, |some| known.of(some), is_complete);
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
    ) -> Result<Answer, Error> {
        // One call each: no way of gathering is faster.
        let request = gather::Question {
            max_depth: Some(0),
            gather: Some(Gather::Combined),
            ..asked(self.question, None)
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
        Ok(Answer {
            parts,
            entries,
            gathered: looked_at.max(rows.len() as u64),
            directories: rows.directories().len() as u64,
            counts,
            archive_bytes,
            unchanged: entries.saturating_sub(rows.len() as u64),
            warnings: self.desk.take_warnings(),
            ..Answer::default()
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
            self.question.threads,
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

/// The catalogs that a dump goes by.
struct Chain {
    since: Option<Vec<u8>>,
    base: Option<Base>,
    catalog: Option<Vec<u8>>,
    level: Option<Level>,
    note: Option<String>,
}

impl Chain {
    fn of(question: &Question) -> Result<Chain, Error> {
        let (since, catalog) = match &question.level {
            Some(level) => (level.base()?, Some(level.catalog())),
            None => (question.since.clone(), question.catalog.clone()),
        };
        let base = since
            .as_deref()
            .map(|since| Base::open(since, &question.sources))
            .transpose()?;
        let alone = question
            .level
            .as_ref()
            .filter(|level| level.number > 0 && since.is_none());
        let note = alone.map(|level| {
            format!(
                "there is no dump of a level below {}: everything is dumped",
                level.number
            )
        });
        Ok(Chain {
            since,
            base,
            catalog,
            level: question.level.clone(),
            note,
        })
    }

    fn forget_higher(&self) -> Result<(), Error> {
        self.level.as_ref().map_or(Ok(()), Level::forget_higher)
    }
}

/// What is asked of the gathering; for a catalog, since when.
pub fn asked(question: &Question, for_catalog: Option<Moment>) -> gather::Question {
    gather::Question {
        sources: question.sources.clone(),
        gather: question.gather,
        threads: question.threads,
        one_file_system: question.options.one_file_system,
        excludes: question.options.excludes.clone(),
        for_catalog,
        max_depth: question.options.max_depth,
        expected: None,
    }
}

/// Says whose names are not what they were given as.
fn stripped(question: &Question) -> Vec<String> {
    let mut prefixes: Vec<&[u8]> = question
        .sources
        .iter()
        .map(|path| &path[..path.len() - member_name(path).len()])
        .filter(|prefix| !prefix.is_empty())
        .collect();
    prefixes.sort_unstable();
    prefixes.dedup();
    prefixes
        .into_iter()
        .map(|prefix| format!("'{}' is left out of names in the archive", shown(prefix)))
        .collect()
}

/// Says that an archive is not what its name says.
fn uncompressed(question: &Question) -> Option<String> {
    const OTHERS: [&[u8]; 9] = [
        b".gz", b".tgz", b".bz2", b".tbz2", b".xz", b".txz", b".lz4", b".lzma", b".tzst",
    ];
    let path = question.archive.as_deref()?;
    let is_meant = OTHERS.iter().any(|end| path.ends_with(end));
    is_meant.then(|| {
        format!(
            "'{}' is not compressed: give it a name that ends in .tar.zst to have it so",
            shown(path)
        )
    })
}

/// What came into the archive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Members.
    pub dumped: u64,
    /// Of them, plain files,
    pub files: u64,
    /// directories,
    pub directories: u64,
    /// symlinks,
    pub symlinks: u64,
    /// further names of files,
    pub links: u64,
    /// and all else.
    pub other: u64,
    /// Sizes of the files together, holes included.
    pub bytes: u64,
}

/// A line of the map: what came into the archive, as it is there.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// What is known of it.
    pub meta: &'a Meta,
    /// Whether it is but another name.
    pub is_link: bool,
    /// Its name in the archive, without the slash at the end of a directory's.
    pub path: &'a [u8],
}
