//! A job: what an engine is given to walk one mount from a directory down, and what it reports
//! besides entries.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use base::path::{self, below, split};
use base::{Warning, Warnings};
use gate::fs::{Attributes, Open, Resolve, Statx, lstatat};
use gate::long::{openat2_long, reach};
use gate::resolve::openat2;
use gate::sync::Mutex;
use gate::{Errno, Fd, Gate};
use mounts::listed::is_gone;
use ondisk::dirent::Entry as DirEntry;
use ondisk::{Dev, Mount};

use crate::entry::{Dir, Entry, Meta, append, joined};
use crate::error::{EngineRefusal, WarningKind};
use crate::filter::Filter;
use crate::key::DirKey;
use crate::sink::{Sink, Worker};
use crate::top::{MountContext, Top};

/// A way to find all entries of one mount.
pub trait Engine: Sync {
    /// Whether this engine can work on the mount; the check makes few and cheap calls.
    ///
    /// # Errors
    /// Why the engine cannot, and what would help.
    fn possible(&self, _context: &MountContext<'_>) -> Result<(), EngineRefusal> {
        Ok(())
    }

    /// Emits every entry below the job's top (but not the top itself) on the top's mount, each
    /// once.
    ///
    /// # Errors
    /// Only before anything has been emitted. Later failures are warnings.
    fn walk(&self, job: &Job<'_>) -> Result<(), EngineRefusal>;
}

/// A directory below a job's top.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobDirectory {
    /// Path relative to the top; empty for the top itself.
    pub(crate) rel: Vec<u8>,
    pub(crate) key: DirKey,
}

impl JobDirectory {
    pub(crate) fn below(&self, name: &[u8]) -> JobDirectory {
        let mut rel = self.rel.clone();
        append(&mut rel, name);
        JobDirectory {
            rel,
            key: self.key.below(name),
        }
    }
}

/// A name where another mount begins.
#[derive(Clone, Debug)]
pub(crate) struct Crossing {
    pub(crate) dir: JobDirectory,
    pub(crate) name: Vec<u8>,
    /// Whether the entry of the mount point has been emitted already.
    pub(crate) is_emitted: bool,
}

/// A file `name` in the directory `place`, or without a name `place` itself, which was listed but
/// not found.
#[derive(Clone, Debug)]
pub(crate) struct Missing {
    pub(crate) place: JobDirectory,
    pub(crate) name: Vec<u8>,
    pub(crate) gate: Gate,
    pub(crate) errno: Errno,
}

impl Missing {
    /// The directory that listed the missing file, relative to the top, and the file name there.
    pub(crate) fn listed(&self) -> (&[u8], &[u8]) {
        if !self.name.is_empty() {
            return (&self.place.rel, &self.name);
        }
        split(&self.place.rel)
    }
}

/// The paths below a job's top where other mounts begin, by the mount table: a hint for engines
/// that cannot see mounts.
#[derive(Clone, Debug, Default)]
pub(crate) struct MountHints {
    names: HashMap<Vec<u8>, MountHints>,
    is_mount: bool,
}

impl MountHints {
    /// Builds the tree of mount points from their paths, relative to the top.
    pub(crate) fn from_names<'a>(names: impl IntoIterator<Item = &'a [u8]>) -> MountHints {
        let mut root = MountHints::default();
        for name in names {
            let end = path::names(name).fold(&mut root, |at, part| {
                at.names.entry(part.to_vec()).or_default()
            });
            end.is_mount = true;
        }
        root
    }

    /// The mounts at or under `name` in this directory; `None` if there are none.
    pub(crate) fn step(&self, name: &[u8]) -> Option<&MountHints> {
        if self.names.is_empty() {
            None
        } else {
            self.names.get(name)
        }
    }

    /// Whether another mount begins at `name` in this directory.
    pub(crate) fn is_mount(this: Option<&MountHints>, name: &[u8]) -> bool {
        this.and_then(|below| below.step(name))
            .is_some_and(|below| below.is_mount)
    }
}

/// Warnings and progress of a walk.
#[derive(Debug, Default)]
pub struct Diagnostics {
    warnings: Mutex<Warnings>,
    entries: AtomicU64,
    /// Number of entries that other ranks have found.
    elsewhere: AtomicU64,
    dir: Mutex<Vec<u8>>,
    alias: Mutex<Option<Alias>>,
}

/// A directory that is walked by a different path than the one in messages.
#[derive(Debug)]
struct Alias {
    walked: Vec<u8>,
    shown: Vec<u8>,
}

impl Alias {
    fn apply(&self, path: &[u8]) -> Option<Vec<u8>> {
        below(&self.walked, path).map(|rest| joined(&self.shown, rest))
    }
}

impl Diagnostics {
    /// Maximum number of warnings that are kept; more are only counted.
    const MOST: usize = 10_000;

    /// Shows paths below `walked`, such as `/proc/self/fd/3`, as paths below `shown`.
    pub fn show_as(&self, walked: &[u8], shown: &[u8]) {
        let [walked, shown] = [walked, shown].map(<[u8]>::to_vec);
        *self.alias.lock() = Some(Alias { walked, shown });
    }

    /// The path to show in messages, for one that is walked.
    fn shown(&self, path: &[u8]) -> Option<Vec<u8>> {
        self.alias.lock().as_ref()?.apply(path)
    }

    /// Adds a warning.
    pub fn warn(&self, mut warning: Warning) {
        if let Some(shown) = warning.path.as_deref().and_then(|path| self.shown(path)) {
            warning.path = Some(shown);
        }
        self.warnings.lock().push(warning, Diagnostics::MOST);
    }

    /// Whether there are warnings that have not been taken.
    pub fn has_warnings(&self) -> bool {
        !self.warnings.lock().kept().is_empty()
    }

    /// Passes the warnings that have not been taken to `read`, and keeps them.
    pub fn with_warnings<T>(&self, read: impl FnOnce(&[Warning]) -> T) -> T {
        let all = self.take_warnings();
        let result = read(&all);
        self.warnings.lock().put_back(all);
        result
    }

    /// Takes the warnings so far, in chronological order.
    pub fn take_warnings(&self) -> Vec<Warning> {
        self.warnings.lock().take_all(WarningKind::More)
    }

    /// The approximate number of entries so far, and a recently read directory.
    pub fn progress(&self) -> (u64, Vec<u8>) {
        let dir = self.dir.lock().clone();
        let dir = self.shown(&dir).unwrap_or(dir);
        let elsewhere = self.elsewhere.load(Ordering::Relaxed);
        (self.own_entries() + elsewhere, dir)
    }

    /// The approximate number of entries that this process has found so far.
    pub(crate) fn own_entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// Sets the number of entries that other ranks have found, for progress messages.
    pub(crate) fn set_elsewhere(&self, entries: u64) {
        self.elsewhere.store(entries, Ordering::Relaxed);
    }
}

/// A job: one mount, from a directory down, to be walked by an engine.
pub struct Job<'a> {
    /// The directory where the walk of this mount begins. Its own entry has been emitted already.
    pub(crate) top: &'a Top,
    /// The entry of the mount table for this mount, if there is a table.
    pub(crate) mount: Option<&'a Mount>,
    /// Where other mounts begin below the top, by the mount table.
    pub(crate) below: &'a MountHints,
    pub(crate) sink: &'a dyn Sink,
    pub(crate) filter: &'a Filter,
    /// The requested number of threads, up to [`Job::MOST_THREADS`].
    pub(crate) threads: Option<usize>,
    /// With `-x`, the device of DIR: directories on other devices are emitted, but not entered.
    pub(crate) one_device: Option<Dev>,
    pub(crate) noatime: bool,
    /// Whether the sink needs names and types only.
    pub(crate) names_suffice: bool,
    pub(crate) diagnostics: &'a Diagnostics,
    pub(crate) crossings: &'a Mutex<Vec<Crossing>>,
    /// Files that a directory lists but the kernel did not find, up to [`Job::MOST_MISSING`], and
    /// how many more.
    pub(crate) missing: Mutex<(Vec<Missing>, u64)>,
}

impl Job<'_> {
    /// Maximum number of threads, whatever is requested.
    pub(crate) const MOST_THREADS: usize = 1024;
    /// Maximum number of missing files that are looked up again; more are only counted.
    const MOST_MISSING: usize = 1 << 16;

    pub(crate) fn place(&self) -> JobDirectory {
        JobDirectory {
            rel: Vec::new(),
            key: self.top.key,
        }
    }

    pub(crate) fn wants_paths(&self) -> bool {
        self.sink.wants_paths() || self.filter.wants_paths()
    }

    /// The path of a directory, beginning with DIR as given.
    pub(crate) fn path(&self, place: &JobDirectory) -> Vec<u8> {
        joined(&self.top.path, &place.rel)
    }

    /// The path of a directory for [`Dir::path`]: empty if no paths are needed.
    pub(crate) fn dir_path<D: Borrow<JobDirectory>>(&self, dir: impl FnOnce() -> D) -> Vec<u8> {
        if self.wants_paths() {
            self.path(dir().borrow())
        } else {
            Vec::new()
        }
    }

    pub(crate) fn emit(&self, worker: &mut dyn Worker, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        worker.take(dir, entries);
        let before = self
            .diagnostics
            .entries
            .fetch_add(entries.len() as u64, Ordering::Relaxed);
        // Every 4096 entries, publish the directory for the progress line.
        if before >> 12 != (before + entries.len() as u64) >> 12
            && let Some(mut at) = self.diagnostics.dir.try_lock()
        {
            at.clear();
            at.extend_from_slice(if dir.path.is_empty() {
                &self.top.path
            } else {
                dir.path
            });
        }
    }

    pub(crate) fn warn(&self, warning: Warning) {
        self.diagnostics.warn(warning);
    }

    /// Reports a failed call for `name` in `place`, or without a name for `place` itself. A file
    /// that was not found is looked up again at the end.
    pub(crate) fn failed(&self, place: &JobDirectory, name: &[u8], gate: Gate, errno: Errno) {
        if !is_gone(errno) || place.rel.is_empty() && name.is_empty() {
            return self.warn_failed(place, name, gate, errno);
        }
        let (noted, more) = &mut *self.missing.lock();
        if noted.len() >= Job::MOST_MISSING {
            *more += 1;
            return;
        }
        noted.push(Missing {
            place: place.clone(),
            name: name.to_vec(),
            gate,
            errno,
        });
    }

    /// Warns of a failed call for `name` in `place`.
    pub(crate) fn warn_failed(&self, place: &JobDirectory, name: &[u8], gate: Gate, errno: Errno) {
        let path = joined(&self.path(place), name);
        let kind = match gate {
            Gate::Openat | Gate::Openat2 => WarningKind::OpenDirectory,
            Gate::Getdents64 => WarningKind::ReadDirectory,
            _ => WarningKind::ReadAttributes,
        };
        self.warn(Warning::failed(&path, gate, errno, kind));
    }

    /// Reports a directory of this mount, already emitted, that cannot be opened: a mount may cover
    /// it by now.
    pub(crate) fn unopened(&self, place: &JobDirectory, errno: Errno) {
        match errno {
            Errno::EXDEV => self.warn(Warning::about(
                &self.path(place),
                WarningKind::MountedMeanwhile,
            )),
            errno => self.failed(place, b"", Gate::Openat2, errno),
        }
    }

    /// Reports a name where another mount begins. The traversal emits the name and walks that
    /// mount.
    pub(crate) fn cross(&self, dir: JobDirectory, name: &[u8]) {
        self.add_crossing(dir, name, false);
    }

    /// Like [`Job::cross`], for a directory that has been emitted already: only opening it has
    /// shown the mount.
    pub(crate) fn cross_emitted(&self, dir: JobDirectory, name: &[u8]) {
        self.add_crossing(dir, name, true);
    }

    fn add_crossing(&self, dir: JobDirectory, name: &[u8], is_emitted: bool) {
        let name = name.to_vec();
        self.crossings.lock().push(Crossing {
            dir,
            name,
            is_emitted,
        });
    }

    /// The metadata for a statx(2) result of a name on this mount. Reports a failure, and a name
    /// where another mount begins.
    #[inline]
    pub(crate) fn sort_out(
        &self,
        seen: Result<Statx, Errno>,
        place: impl FnOnce() -> JobDirectory,
        name: &[u8],
    ) -> Option<Meta> {
        match seen {
            Ok(seen) if self.is_crossing(&seen) => self.cross(place(), name),
            Ok(seen) => return Some(Meta::from_statx(&seen)),
            Err(errno) => self.failed(&place(), name, Gate::Statx, errno),
        }
        None
    }

    pub(crate) fn is_over(&self) -> bool {
        self.sink.is_closed()
    }

    /// Whether a statx(2) result shows that another mount begins at a name in this mount, or that
    /// an automount would be triggered.
    pub(crate) fn is_crossing(&self, s: &Statx) -> bool {
        let flags = Attributes::MOUNT_ROOT | Attributes::AUTOMOUNT;
        if s.attributes_known.contains(Attributes::MOUNT_ROOT) {
            return s.attributes.intersects(flags);
        }
        match s.mnt_id {
            Some(id) if self.top.meta.mount != 0 => id != self.top.meta.mount,
            _ => s.dev != self.top.meta.dev,
        }
    }

    /// Whether the walk enters directories with this `st_dev`.
    pub(crate) fn enters(&self, dev: Dev) -> bool {
        self.one_device.is_none_or(|only| only == dev)
    }

    /// Whether an entry is a directory that the walk enters.
    pub(crate) fn enters_entry(&self, meta: &Meta, dir: DirKey, name: &[u8]) -> bool {
        meta.is_dir()
            && self.filter.enters(dir.depth + 1)
            && self.enters(meta.dev)
            && self
                .filter
                .shard()
                .is_none_or(|shard| shard.enters(dir.below(name)))
    }

    /// Whether an entry belongs to a different shard, if its getdents64 type says that it is no
    /// directory.
    pub(crate) fn is_elsewhere(&self, dir: DirKey, entry: DirEntry<'_>) -> bool {
        self.filter.shard().is_some_and(|shard| {
            !entry.file_type.may_be_directory() && !shard.has_entry(dir, entry.name.to_bytes())
        })
    }

    /// Opens a directory below the top, never through a symlink, and never on another mount: the
    /// error is then `EXDEV`.
    pub(crate) fn open(&self, place: &JobDirectory) -> Result<Fd, Errno> {
        if place.rel.is_empty() {
            return match self.open_in(&self.top.fd, c".") {
                // A directory without search permission can be read, but not be opened by `.` from
                // itself.
                Err(Errno::EACCES) => self.top.open_again(),
                opened => opened,
            };
        }
        scan(self.noatime, |how| {
            openat2_long(self.top.fd.as_fd(), &place.rel, how, HERE)
        })
    }

    /// Opens a subdirectory by name, with the restrictions of [`Job::open`].
    pub(crate) fn open_in(&self, dir: impl AsFd, name: &CStr) -> Result<Fd, Errno> {
        scan(self.noatime, |how| openat2(&dir, name, how, HERE))
    }

    /// Calls statx(2) for `name` in `place`, by path from the top.
    pub(crate) fn look(&self, place: &JobDirectory, name: &[u8]) -> Result<Statx, Errno> {
        let mut rel = place.rel.clone();
        append(&mut rel, name);
        let reach = reach(self.top.fd.as_fd(), &rel)?;
        look_at(reach.dir(), reach.rest())
    }
}

/// Path resolution that never crosses into another mount, and never follows a symlink.
pub(crate) const HERE: Resolve = Resolve::NO_XDEV.union(Resolve::NO_SYMLINKS);

/// Opens a directory for reading; with `noatime` so that its access time does not change, where
/// permitted.
///
/// # Errors
/// Those of `open`.
pub fn scan(noatime: bool, open: impl Fn(Open) -> Result<Fd, Errno>) -> Result<Fd, Errno> {
    if noatime {
        match open(Open::SCAN | Open::NOATIME) {
            Err(Errno::EPERM) => {}
            other => return other,
        }
    }
    open(Open::SCAN)
}

pub(crate) fn look_at(dir: impl AsFd, name: &CStr) -> Result<Statx, Errno> {
    lstatat(dir, name, Meta::WANT)
}

/// A name with a NUL at its end; `None` for one that contains a NUL, which the kernel never
/// returns.
pub(crate) fn c_name(name: &[u8]) -> Option<CString> {
    CString::new(name).ok()
}
