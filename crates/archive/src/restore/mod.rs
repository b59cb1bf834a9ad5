//! Restores a tree from archives, below one directory and nowhere else: see docs/restore.md.
//!
//! Members are read in order, so that memory does not grow with the archive. The reader thread
//! creates the directories and passes their entries to other threads (`workers`). A directory gets
//! its owner, mode and times when it is complete; until then only its creator can use it. A file
//! has no name until it is complete.
//!
//! Nothing outside DIR is touched, whatever the archive contains and whatever others do to the tree
//! meanwhile: every directory is opened from its parent by a name without `/` and `..`, symlinks
//! are never followed, and every file is used by name in an open directory, or by its own
//! descriptor.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use archives::Archives;
use base::path::{or_dot, split};
use created::Failures;
use gate::btrfs::BTRFS_SUPER_MAGIC;
use gate::fs::{Open, StatxMask, fstat, fstatfs, syncfs};
use gate::long::{c_string, open_long};
use gate::{Errno, Fd, Gate};
use maker::Maker;
use name::clean;
use not_restored::{Failure, RestoreFailure};
use ondisk::pax::{Member, MemberKind};
use owners::Owners;
use restorer::Restorer;
use rights::RestoringUser;
use room::DescriptorShares;
use selected::SelectedPaths;
use workers::Workers;

use crate::error::{Action, Error, ErrorKind};
use crate::increment::record::DumpRecord;
use crate::input::{ChecksumStatus, Input, is_regular};

pub use not_restored::NotRestored;
pub use one::write_file;
pub use rehearsal::RestoreStep;
pub use report::{Counts, Note, RestoreProgress, RestoreSummary};
pub use rights::RestoredAttributes;

mod archives;
mod assign;
mod attributes;
mod created;
mod entry;
mod further;
mod increment;
mod make;
mod maker;
mod name;
mod name_map;
mod name_tree;
mod not_restored;
mod one;
pub(crate) mod owners;
mod rehearsal;
mod remove;
mod report;
mod restorer;
mod rights;
mod room;
mod selected;
mod sequence;
mod trail;
mod workers;

/// The options of a restore.
#[derive(Clone, Debug, Default)]
pub struct RestoreOptions {
    /// The archives; `-` is standard input. Archives without an id must be given in the order in
    /// which they were made.
    pub archives: Vec<Vec<u8>>,
    /// Records of the archives in a state directory: files that do not match them are refused.
    pub recorded: Vec<DumpRecord>,
    /// An existing directory to restore into.
    pub dir: Vec<u8>,
    /// Mounts below the directory that do not answer, as paths relative to it. Nothing is restored
    /// there.
    pub silent: Vec<Vec<u8>>,
    /// Member names or patterns to restore, with everything below; all if empty.
    pub paths: Vec<Vec<u8>>,
    /// Number of leading components to remove from member names and hard link targets; members with
    /// no more components are skipped.
    pub strip_components: usize,
    /// Fail if a PATH is in no archive, since it may be a mistyped archive name.
    pub must_have_paths: bool,
    /// Identify owners by their numbers, even where their names are known.
    pub numeric_owner: bool,
    /// Attributes to restore, for archives that are not trusted.
    pub kept: RestoredAttributes,
    /// Restore increments even if the target of the first archive is not empty.
    pub overwrite: bool,
    /// Only report what would be done.
    pub dry_run: bool,
    /// Number of threads that create files; with 1, the reader creates them. Chosen by processors
    /// and file system if `None`.
    pub jobs: Option<usize>,
    /// Sync all files to disk at the end.
    pub sync: bool,
    /// The archives are the parts of one full dump, not a full dump and its increments.
    pub are_parts: bool,
    /// Restore the tree as of a given time: then even a full dump is not restored over existing
    /// files.
    pub as_it_was: bool,
}

/// Restores archives. In a dry run, `say` is called for each step.
///
/// # Errors
/// Why the restore could not begin. Nothing was touched.
pub fn restore(
    options: &RestoreOptions,
    progress: &RestoreProgress,
    say: &mut dyn FnMut(RestoreStep),
) -> Result<RestoreSummary, Error> {
    let mut chosen = SelectedPaths::new(&options.paths)?;
    chosen.stripped = options.strip_components;
    chosen.skips_devices = !options.kept.devices;
    chosen.silent.clone_from(&options.silent);
    let are_chain = options.archives.len() > 1 && !options.are_parts;
    if let ([first, ..], 1..) = (&options.archives[..], options.strip_components)
        && are_chain
    {
        return Err(Error::new(Action::Restore, first, ErrorKind::StrippedChain));
    }
    let dir = open_long(&options.dir, Open::DIRECTORY | Open::NONBLOCK)
        .and_then(|dir| {
            // A removed directory can still be open, but no entry can be created in it.
            let seen = fstat(&dir, StatxMask::BASIC_STATS)?;
            (seen.nlink > 0).then_some(dir).ok_or(Errno::ENOENT)
        })
        .map_err(|errno| Error::new(Action::RestoreInto, &options.dir, errno))?;
    // Check the archives before anything is touched: a chain with a missing archive cannot be
    // restored, and a member may replace an existing file.
    let archives = Archives::open(
        (&options.archives, &options.recorded),
        (are_chain, options.overwrite, !options.dry_run),
        &chosen,
    )?;
    if !chosen.is_all() {
        chosen.trace(increment::read_renames(archives.names()));
        if options.must_have_paths {
            chosen.check_paths(archives.names())?;
        }
    }
    if (are_chain || options.as_it_was) && !options.overwrite {
        check_empty(options, &archives, &mut chosen, &dir)?;
    }
    let top = Arc::new(dir);
    if are_chain && !options.overwrite {
        keep_existing(options, &mut chosen, &top)?;
    }
    if options.dry_run {
        return Ok(rehearsal::rehearse(archives, chosen, top, progress, say).0);
    }
    Ok(restore_all(options, archives, chosen, &top, progress))
}

fn restore_all(
    options: &RestoreOptions,
    mut archives: Archives,
    chosen: SelectedPaths,
    top: &Arc<Fd>,
    progress: &RestoreProgress,
) -> RestoreSummary {
    let rights = RestoringUser::take(options.kept);
    let owners = Owners::new(options.numeric_owner);
    let failures = Failures::default();
    let workers = match options.jobs {
        None => default_workers(top),
        Some(1) => 0,
        Some(jobs) => jobs,
    };
    let room = DescriptorShares::new();
    let mut summary = thread::scope(|scope| {
        let maker = || Maker::new(rights, &owners, progress, &failures);
        let workers = Workers::start(scope, workers, room, maker);
        let maker = maker();
        let mut restorer = Restorer::new(maker, workers, Arc::clone(top), room, chosen);
        let count = archives.names().len();
        let done = (0..count).try_for_each(|nth| {
            let done = restorer.archive(&mut archives, nth);
            restorer.leave_all();
            let is_last = !archives.are_chain || nth + 1 == count;
            done.or_else(|error| restorer.maker.remarks.end_of_archive(error, is_last))?;
            restorer.is_later = archives.are_chain;
            restorer.chosen.next_archive();
            Ok(())
        });
        restorer.into_summary(done.err())
    });
    summary.notes.append(&mut archives.take_notes());
    if options.sync
        && let Err(errno) = syncfs(top)
    {
        let failure = Failure::call(Gate::Syncfs, errno, NotRestored::NotSynced);
        summary.warnings.push(failure.into_warning(&options.dir));
    }
    summary
}

/// Default number of worker threads, besides the reader.
fn default_workers(top: &Fd) -> usize {
    /// Maximum number of threads: more would only wait for the journal of the file system.
    const MOST: usize = 8;
    let is_btrfs = fstatfs(top).is_ok_and(|statfs| statfs.magic == BTRFS_SUPER_MAGIC);
    match gate::machine::processors() {
        1 => 0,
        // On btrfs, two workers take longer than one: they wait for the same subvolume tree.
        _ if is_btrfs => 1,
        processors => processors.min(MOST),
    }
}

/// Refuses to restore a chain into a directory that is not empty: increments remove entries that
/// they do not list, and existing files would be taken for those of the first archive.
fn check_empty(
    options: &RestoreOptions,
    archives: &Archives,
    chosen: &mut SelectedPaths,
    dir: &Fd,
) -> Result<(), Error> {
    let Some(first) = archives.names().first() else {
        return Ok(());
    };
    let places = match options.paths.is_empty() {
        // With stripped names, members can be anywhere below DIR.
        _ if options.strip_components > 0 => vec![b".".to_vec()],
        false => chosen.trees().map(<[u8]>::to_vec).collect(),
        // A pipe cannot be read twice, so its first member is unknown and nothing is checked.
        true if !is_regular(first) => return Ok(()),
        true => Input::open(first)?
            .next()?
            .map(|member| member.path)
            .into_iter()
            .collect(),
    };
    let path = |place: &Vec<u8>| clean(place).map(|name| name.path).unwrap_or_default();
    let mut places: Vec<Vec<u8>> = places.iter().map(path).collect();
    places.retain(|path| chosen.is_filled(dir, path));
    if !places.is_empty()
        && options.strip_components == 0
        && chosen.has_wildcards()
        && let Some(known) = chosen.find_conflicts(archives.names(), dir)
    {
        places = known;
    }
    let Some(path) = places.into_iter().next() else {
        return Ok(());
    };
    let kind = ErrorKind::NotEmpty {
        entry: or_dot(&path).to_vec(),
        are_chain: archives.are_chain,
    };
    Err(Error::new(Action::RestoreInto, &options.dir, kind))
}

/// Deselects PATHs that exist and that the increments would remove, perhaps after replacing them.
///
/// # Errors
/// Wildcards match such an entry; or an archive cannot be read.
fn keep_existing(
    options: &RestoreOptions,
    chosen: &mut SelectedPaths,
    top: &Arc<Fd>,
) -> Result<(), Error> {
    chosen.keeps_existing = true;
    let are_regular = options.archives.iter().all(|path| is_regular(path));
    if !are_regular || !chosen.meets_existing(top) {
        return Ok(());
    }
    let mut unrestricted = chosen.clone();
    unrestricted.keeps_existing = false;
    let files = (&options.archives[..], &options.recorded[..]);
    let archives = Archives::open(files, (true, false, false), chosen)?;
    let progress = RestoreProgress::default();
    let top = Arc::clone(top);
    let (_, removed) = rehearsal::rehearse(archives, unrestricted, top, &progress, &mut |_| {});
    match removed.into_iter().find(|path| !chosen.keep(path)) {
        None => Ok(()),
        Some(path) => {
            let kind = ErrorKind::NotEmpty {
                entry: or_dot(split(&path).0).to_vec(),
                are_chain: true,
            };
            Err(Error::new(Action::RestoreInto, &options.dir, kind))
        }
    }
}

impl Restorer<'_> {
    fn archive(&mut self, archives: &mut Archives, nth: usize) -> Result<(), Error> {
        let mut input = archives.input(nth, &self.chosen)?;
        let done = self.members(&archives.names()[nth], &mut input);
        let linked = self.further_names(archives.names(), nth);
        // Archives of GNU tar list every directory, so the next one corrects the consequences of a
        // failed rename.
        self.keeps_all &= input.is_by_fathom();
        done.and(linked)
    }

    fn members(&mut self, archive: &[u8], input: &mut Input) -> Result<(), Error> {
        // Path of the last member, if it was restored.
        let mut before: Option<Vec<u8>> = None;
        let mut has_directory = false;
        loop {
            let next = input.next_or_resume();
            let is_wrong = input.checksum_status() == Some(ChecksumStatus::Wrong);
            if let Some(path) = before.take().filter(|_| is_wrong) {
                let wrong = NotRestored::WrongChecksum;
                self.maker.remarks.warn(&path, wrong);
            }
            let (chosen, remarks) = (&mut self.chosen, &mut self.maker.remarks);
            let may_rename = chosen.take_losses(input, archive, has_directory, remarks);
            chosen.is_incomplete |= next.is_err();
            if may_rename && self.is_later && !self.keeps_all {
                self.keeps_all = true;
                self.maker.remarks.warn(archive, NotRestored::RenamesLost);
            }
            let Some(member) = next? else {
                break;
            };
            has_directory |= member.kind == MemberKind::Directory;
            self.number += 1;
            self.maker.remarks.set_member(self.number);
            self.maker.progress.members.fetch_add(1, Relaxed);
            if member.kind == MemberKind::Label {
                continue;
            }
            let path = member.path.clone();
            match self.member(member, input) {
                Ok(()) => before = Some(path),
                Err(RestoreFailure::One(failure)) => {
                    self.maker.counts.skipped += 1;
                    self.maker.remarks.warn(&path, failure);
                }
                Err(RestoreFailure::All(error)) => {
                    if let Err(error) = input.skip_damage(error) {
                        self.chosen.is_incomplete = true;
                        return Err(error);
                    }
                    self.has_damaged_data = true;
                    self.maker.counts.skipped += 1;
                    self.maker.remarks.warn(&path, NotRestored::DamagedData);
                }
            }
        }
        Ok(())
    }

    fn member(&mut self, member: Member, input: &mut Input) -> Result<(), RestoreFailure> {
        let remarks = &mut self.maker.remarks;
        let Some(path) = self.chosen.take_member(&member, remarks)? else {
            // A directory that was not selected may list renames and removals of selected entries.
            if let Some(dumpdir) = member.dumpdir.as_deref().filter(|_| self.is_later) {
                self.pass_by(&member, dumpdir)?;
            }
            return Ok(());
        };
        if member.kind == MemberKind::Directory {
            return Ok(self.directory(&path, &member)?);
        }
        if path.is_empty() {
            return Err(Failure::from(NotRestored::NotDirectory).into());
        }
        let (dir, name) = split(&path);
        let name = c_string(name)
            .map_err(|e| Failure::call(Gate::Openat2, e, NotRestored::ImpossibleName))?;
        self.enter(dir)?;
        let is_replacement = self.created.has(&path);
        let done = self.entry(path.clone(), name, member, input);
        if done.is_err() {
            self.maker.failures.add(&path, is_replacement);
        }
        done
    }
}
