//! The state of a restore, and its current directory.

use std::collections::{BTreeMap, HashMap};
use std::ffi::CStr;
use std::os::fd::AsFd;
use std::sync::Arc;

use base::path::names;
use catalog::tick::before_a_tick;
use gate::create::{fchmod, mkdirat, umask};
use gate::fs::{FileType, Open, Statx, StatxMask, Time, fstat};
use gate::long::{c_string, open_beneath};
use gate::{Errno, Fd, Gate};
use walk::Moment;
use walk::entry::joined;
use walk::moment::{Granularity, may_be_since};

use super::attributes::{DeferredAttributes, InheritedAttributes, change_mode};
use super::created::{CreatedPaths, OwnFiles};
use super::entry::{DirectoryState, NewEntry, OpenDirectory, UnresolvedLink};
use super::maker::{Maker, attributes};
use super::not_restored::{Failure, NotRestored};
use super::report::RestoreSummary;
use super::rights::ALL;
use super::room::DescriptorShares;
use super::selected::SelectedPaths;
use super::trail::DirectoryStack;
use super::workers::{Batch, Workers};
use crate::error::Error;

pub(super) struct Restorer<'a> {
    pub(super) maker: Maker<'a>,
    pub(super) workers: Workers<'a>,
    /// Entries still to be created in the current directory.
    batch: Option<Batch>,
    pub(super) top: Arc<Fd>,
    pub(super) top_state: DirectoryState,
    pub(super) trail: DirectoryStack<DirectoryState>,
    pub(super) chosen: SelectedPaths,
    pub(super) number: u64,
    /// Files with a ctime from this time on count as changed by this run.
    started: Time,
    /// The directory of the last hard link's target, kept open.
    pub(super) linked: Option<(Vec<u8>, Arc<Fd>)>,
    pub(super) created: CreatedPaths,
    /// Hard links of the current archive whose targets were not restored, by path: a later member
    /// may have the same path.
    pub(super) unlinked: BTreeMap<Vec<u8>, UnresolvedLink>,
    /// For each hard-link target that was not restored, the first name under which its contents
    /// were restored.
    pub(super) instead: HashMap<Vec<u8>, Vec<u8>>,
    /// Whether an archive was restored before the current one.
    pub(super) is_later: bool,
    /// Set when a directory could not be renamed: the archives no longer list it by its old name.
    /// From then on nothing is removed.
    pub(super) keeps_all: bool,
    /// Whether a file was not restored because its data is damaged.
    pub(super) has_damaged_data: bool,
}

impl Drop for Restorer<'_> {
    fn drop(&mut self) {
        umask(0o777 & !self.maker.rights.plain_directory);
    }
}

impl<'a> Restorer<'a> {
    pub(super) fn new(
        maker: Maker<'a>,
        workers: Workers<'a>,
        top: Arc<Fd>,
        room: DescriptorShares,
        chosen: SelectedPaths,
    ) -> Restorer<'a> {
        let created = CreatedPaths::new(&top);
        Restorer {
            maker,
            workers,
            batch: None,
            top_state: DirectoryState::new(None, InheritedAttributes::from_directory(&top)),
            trail: DirectoryStack::new(Arc::clone(&top), room.directories),
            top,
            chosen,
            number: 0,
            started: before_a_tick(Moment::now().time()),
            linked: None,
            created,
            unlinked: BTreeMap::new(),
            instead: HashMap::new(),
            is_later: false,
            keeps_all: false,
            has_damaged_data: false,
        }
    }

    pub(super) fn into_summary(mut self, stopped: Option<Error>) -> RestoreSummary {
        let mut remarks = std::mem::take(&mut self.maker.remarks);
        let mut counts = self.maker.counts;
        for (more, others) in self.workers.end() {
            counts.add(more);
            remarks.absorb(others);
        }
        remarks.set_member(u64::MAX);
        std::mem::take(&mut self.chosen).warn_of_missed(&mut remarks);
        remarks.into_summary(counts, stopped)
    }

    pub(super) fn own_files(&self) -> OwnFiles<'_> {
        OwnFiles {
            created: &self.created,
            failures: self.maker.failures,
        }
    }

    /// Runs an operation in the current directory.
    pub(super) fn in_place(
        &mut self,
        make: impl FnOnce(&mut Maker<'a>, OpenDirectory<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let here = self.here()?;
        let mut traits = self.directory_state().traits;
        let place = OpenDirectory {
            here: &here,
            traits: &mut traits,
        };
        let done = make(&mut self.maker, place);
        self.directory_state().traits = traits;
        done
    }

    /// Creates an entry of the current directory.
    pub(super) fn create(&mut self, entry: &NewEntry) -> Result<(), Failure> {
        self.in_place(|maker, place| maker.entry(place, entry))
    }

    /// Creates an entry of the current directory, in a worker if there are any.
    pub(super) fn defer(&mut self, entry: NewEntry) -> Result<(), Failure> {
        if self.workers.is_empty() {
            return self.create(&entry);
        }
        if self.batch.is_none() {
            self.batch = Some(self.new_batch()?);
        }
        let batch = self.batch.as_mut();
        if batch.is_some_and(|batch| {
            batch.push(entry);
            batch.is_full()
        }) {
            self.send_batch();
        }
        Ok(())
    }

    fn new_batch(&mut self) -> Result<Batch, Failure> {
        let (here, dir) = (self.here()?, self.trail.path().to_vec());
        Ok(Batch::new(here, dir, self.directory_state().traits))
    }

    /// Passes the batch of the current directory to a worker.
    fn send_batch(&mut self) {
        if let Some(batch) = self.batch.take() {
            self.workers.send(batch);
        }
    }

    /// Waits for all work in the current directory and below.
    pub(super) fn finish_here(&mut self) {
        self.send_batch();
        self.workers.wait_for_below(self.trail.path());
    }

    /// Waits for all work on a path, on its ancestors, and below it.
    pub(super) fn wait_for(&mut self, path: &[u8]) {
        if self
            .batch
            .as_ref()
            .is_some_and(|batch| batch.has_part_of(path))
        {
            self.send_batch();
        }
        self.workers.wait_for(path);
    }

    /// The current directory, open.
    pub(super) fn here(&mut self) -> Result<Arc<Fd>, Failure> {
        self.trail.here().map_err(Failure::above)
    }

    pub(super) fn directory_state(&mut self) -> &mut DirectoryState {
        self.trail.last().unwrap_or(&mut self.top_state)
    }

    /// Makes a new subdirectory the current directory.
    pub(super) fn push(&mut self, name: &[u8], fd: Fd, state: DirectoryState) {
        self.send_batch();
        self.trail.push(name, Arc::new(fd), state);
    }

    /// Changes the current directory, creating missing directories. Directories left on the way get
    /// their deferred attributes.
    pub(super) fn enter(&mut self, dir: &[u8]) -> Result<(), Failure> {
        if self.trail.path() == dir {
            return Ok(());
        }
        while self.trail.rest(dir).is_none() {
            self.leave();
        }
        let rest = self.trail.rest(dir).unwrap_or_default();
        for name in names(rest) {
            let (fd, state) = self.enter_next(name)?;
            self.push(name, fd, state);
        }
        let mut place = self.maker.progress.place.lock();
        place.clear();
        place.extend_from_slice(dir);
        Ok(())
    }

    fn enter_next(&mut self, name: &[u8]) -> Result<(Fd, DirectoryState), Failure> {
        let here = self.here()?;
        let c_name = c_string(name).map_err(Failure::above)?;
        let path = joined(self.trail.path(), name);
        self.wait_for(&path);
        match self.open_directory(&here, &c_name, false) {
            Ok((fd, seen, changed_mode)) => {
                let is_ours = self.is_of_this_run(&seen);
                let late =
                    is_ours.then(|| Box::new(DeferredAttributes::put_back(&seen, changed_mode)));
                let inherits = InheritedAttributes::from_directory(&fd);
                Ok((fd, DirectoryState::new(late, inherits)))
            }
            Err(Errno::ENOENT) => {
                let mode = self.maker.rights.plain_directory
                    | if self.maker.rights.is_root { 0 } else { ALL };
                match mkdirat(&here, &c_name, mode) {
                    Ok(()) => {
                        self.created.add_directory(&path);
                        // A member of a later archive counts only if it creates the directory.
                        self.maker.counts.directories += u64::from(self.is_later);
                    }
                    // Another rank of an MPI job may have created the directory meanwhile.
                    Err(Errno::EEXIST) => {}
                    Err(e) => {
                        return Err(Failure::call(Gate::Mkdirat, e, NotRestored::AboveNotMade));
                    }
                }
                let fd = open_beneath(here.as_fd(), name, Open::SCAN).map_err(Failure::above)?;
                Ok((
                    fd,
                    DirectoryState::new(None, self.directory_state().traits.inherits),
                ))
            }
            Err(e) => Err(Failure::above(e)),
        }
    }

    /// Leaves the current directory, and sets its deferred attributes.
    fn leave(&mut self) {
        self.end_directory();
        self.trail.pop();
    }

    fn end_directory(&mut self) {
        let late = self.directory_state().late.take();
        let Some(late) = late else {
            return self.send_batch();
        };
        let batch = match self.batch.take() {
            Some(batch) => Ok(batch),
            None => self.new_batch(),
        };
        match batch {
            Ok(mut batch) => {
                batch.end(self.number, late);
                match self.workers.is_empty() {
                    true => self.maker.batch(batch),
                    false => self.workers.send(batch),
                }
            }
            Err(failure) => self.maker.remarks.warn(self.trail.path(), failure),
        }
    }

    /// Leaves the current directory and all directories above it, up to DIR, and sets their
    /// deferred attributes.
    pub(super) fn leave_all(&mut self) {
        while !self.trail.path().is_empty() {
            self.leave();
        }
        self.end_directory();
    }

    /// Opens a directory. If its mode denies access to the user who owns it, and the directory is a
    /// member (`is_member`) or was changed by this run, the mode is changed first. Returns the
    /// previous attributes, and whether the mode was changed.
    pub(super) fn open_directory(
        &self,
        here: &Fd,
        name: &CStr,
        is_member: bool,
    ) -> gate::Result<(Fd, Statx, bool)> {
        let lets_in = |seen: &Statx| {
            let may = is_member || self.is_of_this_run(seen);
            !self.maker.rights.is_root
                && may
                && seen.uid == self.maker.rights.uid
                && seen.mode & ALL != ALL
        };
        let open = || open_beneath(here.as_fd(), name.to_bytes(), Open::SCAN);
        match open() {
            Err(Errno::EACCES) if !self.maker.rights.is_root => {
                let seen = attributes(here, name)?;
                if seen.file_type != FileType::Directory || !lets_in(&seen) {
                    return Err(Errno::EACCES);
                }
                change_mode(here, name, seen.mode | ALL)?;
                Ok((open()?, seen, true))
            }
            Err(e) => Err(e),
            Ok(fd) => {
                let seen = fstat(&fd, StatxMask::BASIC_STATS)?;
                let is_let_in = lets_in(&seen);
                if is_let_in {
                    fchmod(&fd, seen.mode | ALL)?;
                }
                Ok((fd, seen, is_let_in))
            }
        }
    }

    /// Whether a file was changed during this run, and so most likely by the restore itself. Allows
    /// for any timestamp granularity.
    fn is_of_this_run(&self, seen: &Statx) -> bool {
        may_be_since(seen.ctime, Granularity::TwoSeconds, self.started)
    }
}
