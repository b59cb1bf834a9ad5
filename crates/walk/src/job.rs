//! What an engine is given: one mount, from a directory down; and where it says what it meets.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use gate::fs::{At, Attributes, Open, Resolve, Statx, openat2, statx};
use gate::long::{openat2_long, reach};
use gate::sync::Mutex;
use gate::{Errno, Fd, Gate};
use mounts::Warning;
use ondisk::{Dev, Mount};

use crate::digest::below;
use crate::entry::{Dir, Entry, Meta, append, joined};
use crate::error::WarningKind;
use crate::filter::Filter;
use crate::sink::{Sink, Worker};

/// The directory at which a job begins.
#[derive(Debug)]
pub struct Top {
    /// It, open for reading.
    pub fd: Fd,
    /// Its name, beginning with DIR as it was given.
    pub path: Vec<u8>,
    /// What is known of it.
    pub meta: Meta,
    /// Whether it is the root of its mount.
    pub is_mount_root: bool,
    /// What stands for its name in digests.
    pub hash: u64,
    /// How deep it is: 0 for DIR itself.
    pub depth: u32,
}

impl Top {
    /// An open directory.
    ///
    /// # Errors
    /// Those of statx(2).
    pub fn new(fd: Fd, path: Vec<u8>, hash: u64, depth: u32) -> Result<Top, Errno> {
        let seen = statx(&fd, c"", At::EMPTY_PATH, Meta::WANT)?;
        let is_mount_root = seen.attributes.contains(Attributes::MOUNT_ROOT);
        Ok(Top {
            fd,
            path,
            meta: Meta::from_statx(&seen),
            is_mount_root,
            hash,
            depth,
        })
    }

    /// The row of a mount table for the mount that it is on.
    pub fn mount<'a>(&self, mounts: &'a [Mount]) -> Option<&'a Mount> {
        mounts.iter().find(|mount| mount.id == self.meta.mount)
    }
}

/// A directory below a job's top, by name.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// Its name below the top; empty for the top itself.
    pub rel: Vec<u8>,
    /// What stands for its name in digests.
    pub hash: u64,
    /// How deep it is below DIR.
    pub depth: u32,
}

impl Place {
    /// A directory in this one.
    pub fn below(&self, name: &[u8]) -> Place {
        let mut rel = self.rel.clone();
        append(&mut rel, name);
        Place {
            rel,
            hash: below(self.hash, name),
            depth: self.depth + 1,
        }
    }
}

/// A name at which another mount lies.
#[derive(Clone, Debug)]
pub struct Crossing {
    /// The directory that the name is in.
    pub dir: Place,
    /// The name.
    pub name: Vec<u8>,
}

/// The names below a job's top at which other mounts lie, as the mount table has them: a hint for
/// engines that do not see mounts for themselves.
#[derive(Clone, Debug, Default)]
pub struct Below {
    names: HashMap<Vec<u8>, Below>,
    is_mount: bool,
}

impl Below {
    /// From names below the top.
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a [u8]>) -> Below {
        let mut root = Below::default();
        for name in names {
            let parts = name.split(|&b| b == b'/').filter(|part| !part.is_empty());
            let end = parts.fold(&mut root, |at, part| {
                at.names.entry(part.to_vec()).or_default()
            });
            end.is_mount = true;
        }
        root
    }

    /// What is known of a name in this directory; `None` when no mount is at or under it.
    pub fn step(&self, name: &[u8]) -> Option<&Below> {
        if self.names.is_empty() {
            None
        } else {
            self.names.get(name)
        }
    }

    /// Whether a mount lies here.
    pub fn is_mount(&self) -> bool {
        self.is_mount
    }
}

/// Where the engines of a walk say what they meet.
#[derive(Debug, Default)]
pub struct Diagnostics {
    warnings: Mutex<(Vec<Warning>, u64)>,
    entries: AtomicU64,
    at: Mutex<Vec<u8>>,
}

impl Diagnostics {
    /// Warnings beyond so many are only counted.
    const MOST: usize = 10_000;

    /// Something was skipped or found wrong.
    pub fn warn(&self, warning: Warning) {
        let mut warnings = self.warnings.lock();
        if warnings.0.len() < Diagnostics::MOST {
            warnings.0.push(warning)
        } else {
            warnings.1 += 1
        }
    }

    /// Whether there are any that have not been taken.
    pub fn has_warnings(&self) -> bool {
        !self.warnings.lock().0.is_empty()
    }

    /// The warnings so far, in the order in which they came; they are then forgotten here.
    pub fn take_warnings(&self) -> Vec<Warning> {
        let (mut all, more) = std::mem::take(&mut *self.warnings.lock());
        if more > 0 {
            all.push(Warning::general(WarningKind::More(more)));
        }
        all
    }

    /// Entries found so far, about; and a directory that was gone through not long ago.
    pub fn far(&self) -> (u64, Vec<u8>) {
        let at = self.at.lock().clone();
        (self.entries.load(Ordering::Relaxed), at)
    }
}

/// One mount, from a directory down.
pub struct Job<'a> {
    /// Where it begins. The top itself has been handed over already: the engine gives what is in
    /// it.
    pub top: &'a Top,
    /// The row of the mount table for this mount, where there is a table.
    pub mount: Option<&'a Mount>,
    /// Where other mounts lie below, by the table.
    pub below: &'a Below,
    /// Where entries go.
    pub sink: &'a dyn Sink,
    /// What is left out.
    pub filter: &'a Filter,
    /// How many threads were asked for, up to [`Job::MOST_THREADS`].
    pub threads: Option<usize>,
    /// With `-x`, the device of DIR: directories on another one are given, and not entered.
    pub one_device: Option<Dev>,
    /// Whether access times are to stay as they are.
    pub noatime: bool,
    pub(crate) diagnostics: &'a Diagnostics,
    pub(crate) crossings: &'a Mutex<Vec<Crossing>>,
}

impl Job<'_> {
    /// As many threads as are started, whatever is asked for.
    pub const MOST_THREADS: usize = 1024;

    /// The top, as a place.
    pub fn place(&self) -> Place {
        Place {
            rel: Vec::new(),
            hash: self.top.hash,
            depth: self.top.depth,
        }
    }

    /// Whether somebody looks at paths.
    pub fn wants_paths(&self) -> bool {
        self.sink.wants_paths() || self.filter.wants_paths()
    }

    /// The whole name of a place, beginning with DIR as it was given.
    pub fn path(&self, place: &Place) -> Vec<u8> {
        joined(&self.top.path, &place.rel)
    }

    /// Hands over entries of a directory.
    pub fn give(&self, worker: &mut dyn Worker, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        worker.take(dir, entries);
        let before = self
            .diagnostics
            .entries
            .fetch_add(entries.len() as u64, Ordering::Relaxed);
        // Now and then, the place is noted for whoever watches.
        if before >> 12 != (before + entries.len() as u64) >> 12
            && let Some(mut at) = self.diagnostics.at.try_lock()
        {
            at.clear();
            at.extend_from_slice(if dir.path.is_empty() {
                &self.top.path
            } else {
                dir.path
            });
        }
    }

    /// Something was skipped or found wrong.
    pub fn warn(&self, warning: Warning) {
        self.diagnostics.warn(warning);
    }

    /// A call that failed at `name` in a place (or at the place itself, without a name). That
    /// something is gone is no failure: it was not there throughout.
    pub fn failed(&self, place: &Place, name: &[u8], gate: Gate, errno: Errno) {
        // ESRCH: a process, in /proc. ENOTDIR, ELOOP: what was found to be a directory has made
        // room for something else.
        let is_gone = matches!(
            errno,
            Errno::ENOENT | Errno::ESRCH | Errno::ENOTDIR | Errno::ELOOP
        );
        if is_gone && !(place.rel.is_empty() && name.is_empty()) {
            return;
        }
        let path = joined(&self.path(place), name);
        let kind = match gate {
            Gate::Openat | Gate::Openat2 => WarningKind::OpenDirectory,
            Gate::Getdents64 => WarningKind::ReadDirectory,
            _ => WarningKind::ReadAttributes,
        };
        self.warn(Warning::failed(&path, gate, errno, kind));
    }

    /// Another mount lies at a name. It is given, and walked, by whoever is right for it.
    pub fn cross(&self, crossing: Crossing) {
        self.crossings.lock().push(crossing);
    }

    /// Whether there is no use in going on.
    pub fn is_over(&self) -> bool {
        self.sink.is_closed()
    }

    /// Whether what statx(2) said of a name in this mount shows that another mount lies there, or
    /// would, if it were entered.
    pub fn is_crossing(&self, s: &Statx) -> bool {
        let flags = Attributes::MOUNT_ROOT | Attributes::AUTOMOUNT;
        if s.attributes_known.contains(Attributes::MOUNT_ROOT) {
            return s.attributes.intersects(flags);
        }
        match s.mnt_id {
            Some(id) if self.top.meta.mount != 0 => id != self.top.meta.mount,
            _ => Dev::from(s.dev) != self.top.meta.dev,
        }
    }

    /// Whether a directory with this `st_dev` is to be entered.
    pub fn enters(&self, dev: Dev) -> bool {
        self.one_device.is_none_or(|only| only == dev)
    }

    /// Opens a directory below the top, never through a symlink, and never into another mount.
    ///
    /// # Errors
    /// `EXDEV` when another mount has come to lie there; those of openat2(2).
    pub fn open(&self, place: &Place) -> Result<Fd, Errno> {
        if place.rel.is_empty() {
            return self.open_in(&self.top.fd, c".");
        }
        scan(self.noatime, |how| {
            openat2_long(self.top.fd.as_fd(), &place.rel, how, HERE)
        })
    }

    /// Opens a directory by its name in another one, as [`Job::open`] does.
    ///
    /// # Errors
    /// As [`Job::open`].
    pub(crate) fn open_in(&self, dir: impl AsFd, name: &CStr) -> Result<Fd, Errno> {
        scan(self.noatime, |how| openat2(&dir, name, how, HERE))
    }

    /// What statx(2) says of a name in a place, by way of the top: for what is looked at singly.
    ///
    /// # Errors
    /// Those of statx(2), and of openat(2) where the name is longer than the kernel takes at a
    /// time.
    pub fn look(&self, place: &Place, name: &[u8]) -> Result<Statx, Errno> {
        let mut rel = place.rel.clone();
        append(&mut rel, name);
        let reach = reach(self.top.fd.as_fd(), &rel)?;
        look_at(reach.dir(), reach.rest())
    }
}

/// Never into another mount, and never through a symlink.
pub(crate) const HERE: Resolve = Resolve::NO_XDEV.union(Resolve::NO_SYMLINKS);

/// Opens a directory to be read; with `noatime` so that its access time stays as it is, if that is
/// permitted.
pub(crate) fn scan(noatime: bool, open: impl Fn(Open) -> Result<Fd, Errno>) -> Result<Fd, Errno> {
    match open(if noatime {
        Open::SCAN | Open::NOATIME
    } else {
        Open::SCAN
    }) {
        Err(Errno::EPERM) if noatime => open(Open::SCAN),
        other => other,
    }
}

/// [`Meta::WANT`] of a name.
pub(crate) fn look_at(dir: impl AsFd, name: &CStr) -> Result<Statx, Errno> {
    statx(
        dir,
        name,
        At::SYMLINK_NOFOLLOW | At::NO_AUTOMOUNT,
        Meta::WANT,
    )
}

/// A name as the kernel wants it; `None` for one that it could not have given.
pub(crate) fn c_name(name: &[u8]) -> Option<CString> {
    CString::new(name).ok()
}
