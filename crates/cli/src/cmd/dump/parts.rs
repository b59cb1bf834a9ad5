//! The parts of an archive and of a catalog that the ranks of an MPI job write. With `--resume`,
//! the tree is divided into several pieces (slices), which are dumped one after the other.
//!
//! All ranks call these functions in the same order. If a function fails on one rank, it fails on
//! all ranks with the same error.

use std::collections::HashMap;

use archive::dump::{DumpOptions, DumpPart, DumpShare, DumpSummary, Progress, WrittenPart};
use archive::run::{archive_names_in, part_in};
use catalog::remote::as_prefix;
use catalog::{Options, ShardOfRun, Sums, Writer, catalogs_in, remove_part};
use team::Team;
use walk::Diagnostics;
use walk::entry::joined;

use crate::cmd::dump::args::Dump as Args;
use crate::cmd::dump::automatic::suffix;
use crate::error::Error;
use crate::out::{Messages, Out};
use crate::progress::watch_dump;
use crate::ranks::resume::{EarlierParts, PIECES};
use crate::ranks::{
    WRITING_CATALOG, agree, check_outside, create_on_all, create_output, has_old_part, of_first,
    part_of_run,
};

const WRITING: &str = "cannot write the archive to";

/// The counters of a summary that are added up over the ranks and pieces. The first is the number
/// of entries.
pub(super) fn numbers(summary: &mut DumpSummary) -> [&mut u64; 11] {
    let counts = &mut summary.counts;
    [
        &mut summary.entries,
        &mut summary.gathered,
        &mut summary.directories,
        &mut summary.archive_bytes,
        &mut counts.dumped,
        &mut counts.files,
        &mut counts.directories,
        &mut counts.symlinks,
        &mut counts.links,
        &mut counts.other,
        &mut counts.bytes,
    ]
}

pub(super) fn add(summary: &mut DumpSummary, words: [u64; 11]) {
    for (number, word) in numbers(summary).into_iter().zip(words) {
        *number += word;
    }
}

/// Refuses options that several ranks of an MPI job do not support.
pub(super) fn check(args: &Args) -> Result<(), Error> {
    args.excludes.globs.check_for_ranks()?;
    check_full(args)
}

/// Refuses options that a dump in parts does not support.
pub(super) fn check_full(args: &Args) -> Result<(), Error> {
    let full = "omit it: the ranks write a full dump";
    let (option, next) = match () {
        () if args.since.is_some() => ("--since", full),
        () if args.level.is_some() => ("--level", full),
        () if args.state.is_some() => ("--state", full),
        () if !args.files_from.is_empty() => ("--files-from", "give directories as SRC"),
        () if args.account => ("--account", "measure with one process"),
        () if args.map.is_some() => ("--map", "use fathom list on all parts"),
        () if args.output.as_deref() == Some("-".as_ref()) => ("-o -", "give a directory"),
        () => return Ok(()),
    };
    Err(Error::new(format!(
        "{option} cannot be used by the ranks of an MPI job"
    ))
    .with_hint(next))
}

/// The parts of an archive and its catalog that the ranks of an MPI job write.
pub(super) struct Parts {
    /// The options of the dump, in which archive and catalog are the directories of the parts.
    options: DumpOptions,
    /// The shard that this rank writes in the first piece.
    first: ShardOfRun,
    suffix: &'static str,
    ranks: u32,
    /// The pieces that earlier attempts have finished. Only rank 0 has the lists of files.
    earlier: EarlierPieces,
    is_kept: Vec<bool>,
}

/// The pieces that earlier attempts have finished.
#[derive(Default)]
struct EarlierPieces {
    /// The sums of each piece that is complete and whose files were readable and unchanged; `None`
    /// for all other pieces.
    sums: Vec<Option<Sums>>,
    /// Whether the parts of all pieces exist.
    is_complete: bool,
    /// The files of all archives, each with the number of its piece; then the same for catalogs.
    archives: Vec<(u32, Vec<u8>)>,
    catalogs: Vec<(u32, Vec<u8>)>,
}

/// The message from rank 0 about earlier attempts: the name of the run, the sums of each piece, and
/// whether all parts exist.
type AttemptsMessage = (Option<String>, Vec<Option<Sums>>, bool);

impl Parts {
    /// Creates the directories of the parts and, with `--resume`, finds the parts of earlier
    /// attempts.
    pub(super) fn prepare(
        mut options: DumpOptions,
        resume: bool,
        team: &dyn Team,
    ) -> Result<Parts, Error> {
        if let (true, Some(dir), None) = (resume, &options.archive, &options.catalog) {
            // `--resume` needs a catalog, which shows whether a piece has changed since.
            options.catalog = Some(joined(dir, b".catalog"));
        }
        for dir in [&mut options.archive, &mut options.catalog] {
            *dir = dir.as_deref().map(as_prefix);
        }
        let pieces = if resume { PIECES } else { 1 };
        let mut first = part_of_run(None, team);
        let mut parts = Parts {
            suffix: suffix(options.compress),
            ranks: first.of,
            first: ShardOfRun {
                of: first.of * pieces,
                ..first.clone()
            },
            earlier: EarlierPieces::default(),
            is_kept: vec![false; pieces as usize],
            options,
        };
        let sources = &parts.options.sources;
        for (dir, doing) in parts.directories() {
            if resume {
                agree(team, check_outside(dir, sources, doing))?;
            }
            let old = |dir: &[u8]| match () {
                () if resume => Ok(None),
                () if doing == WRITING => Ok(archive_names_in(dir)?),
                () => Ok(catalogs_in(dir)?),
            };
            create_output(dir, doing, team, old)?;
        }
        if resume {
            let found = match team.rank() {
                0 => parts.find(),
                _ => Ok((None, EarlierPieces::default())),
            };
            let (run, earlier) = agree(team, found)?;
            let told: AttemptsMessage = (run, earlier.sums.clone(), earlier.is_complete);
            let (run, sums, is_complete) = of_first(team, told);
            parts.earlier = EarlierPieces {
                sums,
                is_complete,
                ..earlier
            };
            first.run = run.or(first.run);
        }
        parts.first.run = first.run;
        for (dir, doing) in parts.directories() {
            create_on_all(dir, doing, team)?;
        }
        Ok(parts)
    }

    /// The directories for archives and catalogs, each with the beginning of its error messages.
    fn directories(&self) -> impl Iterator<Item = (&[u8], &'static str)> {
        let archive = self.options.archive.iter().map(|dir| (&dir[..], WRITING));
        let catalog = self.options.catalog.iter();
        archive.chain(catalog.map(|dir| (&dir[..], WRITING_CATALOG)))
    }

    /// Finds the pieces that earlier attempts have finished.
    fn find(&self) -> Result<(Option<String>, EarlierPieces), Error> {
        let (Some(archive), Some(catalog)) = (&self.options.archive, &self.options.catalog) else {
            return Ok((None, EarlierPieces::default()));
        };
        let selection = Options {
            shard: Some(self.first.clone()),
            ..self.options.selection.clone()
        };
        let of_dump = (&self.options.sources[..], &selection, Writer::Dump);
        let EarlierParts { run, parts } = EarlierParts::find(catalog, of_dump, None)?;
        let mut found = EarlierPieces::default();
        let (mut sums, mut at_rest) = ([Sums::default(); PIECES as usize], [0; PIECES as usize]);
        for part in parts {
            let piece = part.number / self.ranks;
            at_rest[piece as usize] += u32::from(part.finished.at_rest);
            sums[piece as usize].merge(&part.finished.sums.unwrap_or_default());
            found.catalogs.push((piece, part.file));
        }
        // The catalogs have the name of the run, which identifies the run's archives: an earlier
        // attempt never leaves archives without a catalog.
        let names = (0..self.first.of).map(|number| (self.part(number), number));
        let names = names.map(|(part, number)| (part.archive_name(self.suffix), number));
        let names: HashMap<Vec<u8>, u32> = names.map(|(name, nth)| (name.into(), nth)).collect();
        let mut archives = [0; PIECES as usize];
        for name in archive_names_in(archive)?.unwrap_or_default() {
            let file = joined(archive, &name);
            let part = part_in(&file)?;
            let part = part.filter(|part| Some(&part.run) == run.as_ref());
            match (part, names.get(&name)) {
                (Some(part), Some(number)) if part.number == *number => {
                    let piece = number / self.ranks;
                    archives[piece as usize] += 1;
                    found.archives.push((piece, file));
                }
                _ => return Err(has_old_part(WRITING, archive, &name)),
            }
        }
        let all = self.first.of as usize;
        found.is_complete = found.archives.len() == all && found.catalogs.len() == all;
        let all = self.ranks;
        let is_there = |piece: &usize| at_rest[*piece] == all && archives[*piece] == all;
        let sums = sums.iter().enumerate();
        found.sums = sums
            .map(|(piece, sums)| Some(*sums).filter(|_| is_there(&piece)))
            .collect();
        Ok((run, found))
    }

    /// Writes all pieces except those that are kept from earlier attempts.
    pub(super) fn write(&mut self, team: &dyn Team, out: &Out) -> Result<DumpSummary, Error> {
        let (diagnostics, progress) = (Diagnostics::default(), Progress::default());
        let wanted = Messages {
            progress: out.messages().progress && team.rank() == 0,
            ..out.messages()
        };
        watch_dump(wanted, &diagnostics, &progress, || {
            self.write_pieces(team, &diagnostics, &progress)
        })
    }

    fn write_pieces(
        &mut self,
        team: &dyn Team,
        diagnostics: &Diagnostics,
        progress: &Progress,
    ) -> Result<DumpSummary, Error> {
        let pieces = self.is_kept.len() as u32;
        let options = self.options_of(0);
        // Create the archive before the tree is read, so that an error is reported at once.
        let mut first = Some(agree(team, DumpPart::create(&options))?).filter(|_| pieces == 1);
        let share = DumpShare::collect(&options, pieces, team, diagnostics);
        let share = agree(team, share)?;
        self.keep(&share, team)?;
        share.begin(progress, |piece| self.is_kept[piece as usize]);
        let mut all = DumpSummary::default();
        for piece in 0..pieces {
            let summary = match self.is_kept[piece as usize] {
                true => share.found(piece),
                false => {
                    let options = self.options_of(piece);
                    let part = match first.take() {
                        Some(part) => part,
                        None => agree(team, DumpPart::create(&options))?,
                    };
                    let written = part.write(&share, piece, diagnostics, progress);
                    let written = agree(team, written)?;
                    let is_first = piece == 0 && !self.is_kept.contains(&true);
                    publish(written, is_first && pieces > 1, team)?
                }
            };
            merge(&mut all, summary);
        }
        // If all pieces were kept, the warnings from reading the tree are still in `diagnostics`.
        all.warnings.append(&mut diagnostics.take_warnings());
        Ok(all)
    }

    /// Keeps the pieces of earlier attempts whose sums equal those of the tree now, and removes the
    /// files of all other pieces.
    fn keep(&mut self, share: &DumpShare, team: &dyn Team) -> Result<(), Error> {
        if self.is_kept.len() == 1 {
            return Ok(());
        }
        let sums = share.sums(team).into_iter().map(Some);
        let is_kept = |(earlier, now): (&Option<Sums>, Option<Sums>)| *earlier == now;
        let kept = self.earlier.sums.iter().zip(sums).map(is_kept);
        for (is_kept, kept) in self.is_kept.iter_mut().zip(kept) {
            *is_kept = kept;
        }
        let changed = self.earlier.is_complete && self.is_kept.contains(&false);
        let mut done = Ok(());
        if changed {
            let dir = self.options.archive.as_deref().unwrap_or_default();
            let is_known = |(sums, is_kept): (&Option<Sums>, &bool)| sums.is_some() && !is_kept;
            let mut pieces = self.earlier.sums.iter().zip(&self.is_kept);
            let why = match pieces.any(is_known) {
                true => "it has a complete dump, and entries have changed since",
                false => {
                    "it has a complete dump, without entries that could not be read or changed meanwhile"
                }
            };
            done = Err(Error::write(WRITING, dir, why, "give another directory"));
        } else {
            // Remove archives before catalogs, so that an interruption leaves no archive without
            // catalogs.
            let EarlierPieces {
                archives, catalogs, ..
            } = &self.earlier;
            for (piece, file) in archives.iter().chain(catalogs) {
                if !self.is_kept[*piece as usize] && done.is_ok() {
                    done = remove_part(file).map_err(Error::from);
                }
            }
        }
        agree(team, done)
    }

    fn part(&self, number: u32) -> ShardOfRun {
        ShardOfRun {
            number,
            ..self.first.clone()
        }
    }

    /// The options for this rank's part of a piece.
    fn options_of(&self, piece: u32) -> DumpOptions {
        let part = self.part(self.first.number + piece * self.ranks);
        let file = |dir: &Option<Vec<u8>>, name: String| {
            let dir = dir.as_ref()?;
            Some(joined(dir, name.as_bytes()))
        };
        DumpOptions {
            archive: file(&self.options.archive, part.archive_name(self.suffix)),
            catalog: file(&self.options.catalog, part.file_name()),
            selection: Options {
                shard: Some(part),
                ..self.options.selection.clone()
            },
            ..self.options.clone()
        }
    }

    /// Number of kept parts, and of all parts.
    pub(super) fn kept(&self) -> (usize, usize) {
        let kept = self.is_kept.iter().filter(|is_kept| **is_kept).count();
        (kept * self.ranks as usize, self.first.of as usize)
    }
}

/// Renames the finished files of a piece after all ranks have written theirs. The archives are
/// renamed first, so that no catalog refers to an unfinished archive. In the first of several
/// pieces, the catalogs are first: they record the options of the run, by which `--resume`
/// identifies an archive.
fn publish(
    mut written: WrittenPart,
    catalog_first: bool,
    team: &dyn Team,
) -> Result<DumpSummary, Error> {
    let steps: [fn(&mut WrittenPart) -> _; 2] = match catalog_first {
        true => [WrittenPart::publish_catalog, WrittenPart::publish_archive],
        false => [WrittenPart::publish_archive, WrittenPart::publish_catalog],
    };
    for step in steps {
        let named = step(&mut written);
        agree(team, named)?;
    }
    Ok(written.into_summary())
}

/// Adds the summary of a piece to the total.
fn merge(all: &mut DumpSummary, mut piece: DumpSummary) {
    add(all, numbers(&mut piece).map(|number| *number));
    all.warnings.append(&mut piece.warnings);
    for note in piece.notes {
        if !all.notes.contains(&note) {
            all.notes.push(note);
        }
    }
    if all.parts.is_empty() {
        all.parts = piece.parts;
    }
}
