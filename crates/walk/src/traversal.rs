//! Walks everything below some directories: one job, by the engine that suits it, for each mount
//! that the tree crosses.

use std::collections::VecDeque;

use gate::fs::{At, Attributes, Open, statx};
use gate::long::open_long;
use gate::sync::Mutex;
use gate::{Errno, Gate};
use mounts::table::read_either;
use mounts::{ErrorKind, Warning};
use ondisk::{Dev, Mount};

use crate::digest;
use crate::engine::{MountContext, engine};
use crate::entry::{Dir, Entry, Meta, append};
use crate::error::{Error, WarningKind};
use crate::filter::Filter;
use crate::job::{Below, Crossing, Diagnostics, Job, Place, Top, c_name, look_at};
use crate::kind::EngineKind;
use crate::plan::{Plan, PlanReason, plan};
use crate::sink::Sink;

/// What to walk, and how.
#[derive(Clone, Debug, Default)]
pub struct WalkOptions {
    /// The directories, as they were given.
    pub dirs: Vec<Vec<u8>>,
    /// The engine; `None` for the one that is best for each mount.
    pub engine: Option<EngineKind>,
    /// Engines in order of preference: each mount is walked by the first that can work there. It
    /// takes precedence over [`WalkOptions::engine`], unless it is empty.
    pub preferred: &'static [EngineKind],
    /// Threads; `None` for as many as are good.
    pub threads: Option<usize>,
    /// Stay on the device of each DIR.
    pub one_file_system: bool,
    /// What is left out.
    pub filter: Filter,
    /// Whether access times are to stay as they are, where that is permitted.
    pub noatime: bool,
    /// About how many entries there are below the one DIR, if that is known, as from a catalog: it
    /// need not be guessed then.
    pub expected: Option<u64>,
    /// Whether the sink has what is dirty written before anything is read: to have it written once
    /// more costs little.
    pub is_written: bool,
}

/// A mount that was walked.
#[derive(Clone, Debug)]
pub struct Part {
    /// Where it was entered, beginning with DIR as it was given.
    pub path: Vec<u8>,
    /// Type of the file system, where the mount table says.
    pub fstype: Option<Vec<u8>>,
    /// The engine that walked it.
    pub engine: EngineKind,
    /// Why that one.
    pub reason: PlanReason,
}

/// How the walk was done. The entries went to the sink.
#[derive(Clone, Debug, Default)]
pub struct WalkReport {
    /// The mounts that were walked, in order; the first one is DIR's.
    pub parts: Vec<Part>,
}

/// The mount table, in which the mount of a directory must be; empty if there is none that can be
/// read.
pub fn mounts_around(top: Option<&Top>) -> Vec<Mount> {
    let anchor = top.map(|top| top.meta.mount).filter(|&id| id != 0);
    read_either(false, anchor).map_or(Vec::new(), |(table, _)| table.mounts)
}

/// Opens a directory to be walked. A symlink to one is followed.
///
/// # Errors
/// What is wrong with it.
pub fn open_top(path: &[u8], nth: usize) -> Result<Top, mounts::Error> {
    let failed = |kind, gate| move |errno| mounts::Error::at(kind, path, gate, errno);
    let how = Open::DIRECTORY | Open::NONBLOCK;
    let fd = open_long(path, how).map_err(failed(ErrorKind::OpenDirectory, Gate::Openat))?;
    Top::new(fd, path.to_vec(), digest::top(nth), 0)
        .map_err(failed(ErrorKind::ReadAttributes, Gate::Statx))
}

/// Walks each directory. Its first entry is the directory itself.
///
/// # Errors
/// Before anything was handed over: a DIR that cannot be walked, or an engine that cannot work
/// there.
pub fn walk(
    options: &WalkOptions,
    sink: &dyn Sink,
    diagnostics: &Diagnostics,
) -> Result<WalkReport, Error> {
    let tops: Vec<Top> = options
        .dirs
        .iter()
        .enumerate()
        .map(|(nth, path)| open_top(path, nth))
        .collect::<Result<_, _>>()?;
    let mounts = mounts_around(tops.first());
    let mut report = WalkReport::default();
    for top in tops {
        let one_device = options.one_file_system.then_some(top.meta.dev);
        let traversal = Traversal {
            options,
            sink,
            diagnostics,
            mounts: &mounts,
            one_device,
        };
        traversal.go(top, &mut report)?;
    }
    Ok(report)
}

/// The walk of one DIR.
struct Traversal<'a> {
    options: &'a WalkOptions,
    sink: &'a dyn Sink,
    diagnostics: &'a Diagnostics,
    mounts: &'a [Mount],
    one_device: Option<Dev>,
}

impl Traversal<'_> {
    fn go(&self, top: Top, report: &mut WalkReport) -> Result<(), Error> {
        let from = Spot {
            path: top.path.clone(),
            hash: top.hash,
            depth: top.depth,
            name: Vec::new(),
        };
        let mut tops = VecDeque::from([(top, from)]);
        let mut is_first = true;
        while let Some((mut top, from)) = tops.pop_front() {
            if self.sink.is_closed() {
                break;
            }
            let crossings = self.one(&mut top, &from, is_first, report)?;
            is_first = false;
            for crossing in crossings {
                tops.extend(self.cross(&top, &crossing));
            }
        }
        Ok(())
    }

    /// Walks one mount, and gives the names at which others lie.
    fn one(
        &self,
        top: &mut Top,
        from: &Spot,
        is_first: bool,
        report: &mut WalkReport,
    ) -> Result<Vec<Crossing>, Error> {
        let mount = top.mount(self.mounts);
        let expected = self
            .options
            .expected
            .filter(|_| self.options.dirs.len() == 1 && top.depth == 0);
        let &WalkOptions {
            noatime,
            is_written,
            ..
        } = self.options;
        let context = MountContext {
            noatime,
            expected,
            is_written,
            ..MountContext::new(top, mount)
        };
        let (kind, reason) = self.choose(&context, is_first)?;
        self.sink.begin(&context, kind);
        // Looked at again, so that nothing that is handed over was read before the sink knew of the
        // mount.
        top.meta = statx(&top.fd, c"", At::EMPTY_PATH, Meta::WANT)
            .map_or(top.meta, |seen| Meta::from_statx(&seen));
        let top = &*top;
        let path = if self.sink.wants_paths() {
            &from.path[..]
        } else {
            b""
        };
        let dir = Dir {
            path,
            hash: from.hash,
            depth: from.depth,
        };
        self.sink.worker().take(
            &dir,
            &[Entry {
                name: &from.name,
                meta: top.meta,
            }],
        );
        let crossings = Mutex::new(Vec::new());
        let below = self.below(top, mount);
        let job = Job {
            top,
            mount,
            below: &below,
            sink: self.sink,
            filter: &self.options.filter,
            threads: self
                .options
                .threads
                .map(|threads| threads.clamp(1, Job::MOST_THREADS)),
            one_device: self.one_device,
            noatime: self.options.noatime,
            diagnostics: self.diagnostics,
            crossings: &crossings,
        };
        let mut part = Part {
            path: top.path.clone(),
            fstype: mount.map(|m| m.content.fstype.clone()),
            engine: kind,
            reason,
        };
        if self.options.filter.enters(top.depth)
            && let Err(refusal) = engine(kind).walk(&job)
        {
            if self.options.preferred.is_empty() && self.options.engine.is_some() && is_first {
                return Err(Error::Refused {
                    path: top.path.clone(),
                    engine: kind,
                    refusal,
                });
            }
            part.reason = PlanReason::GaveUp(kind, refusal);
            part.engine = EngineKind::Threads;
            if let Err(refusal) = engine(part.engine).walk(&job) {
                let kind = WarningKind::NotWalked(refusal);
                self.diagnostics.warn(Warning::about(&top.path, kind));
            }
        }
        report.parts.push(part);
        Ok(crossings.into_inner())
    }

    /// The engine for a mount, and why that one.
    fn choose(
        &self,
        context: &MountContext<'_>,
        is_first: bool,
    ) -> Result<(EngineKind, PlanReason), Error> {
        if !self.options.preferred.is_empty() {
            return Ok(first_possible(self.options.preferred, context));
        }
        let best = || {
            let Plan { engine, reason, .. } = plan(context);
            (engine, reason)
        };
        let Some(requested) = self.options.engine else {
            return Ok(best());
        };
        match engine(requested).possible(context) {
            Ok(()) => Ok((requested, PlanReason::Requested)),
            Err(refusal) if is_first => Err(Error::Refused {
                path: context.top.path.clone(),
                engine: requested,
                refusal,
            }),
            Err(refusal) => {
                let (chosen, instead) = best();
                let instead = Box::new(instead);
                let reason = PlanReason::RequestRefused {
                    requested,
                    refusal,
                    instead,
                };
                Ok((chosen, reason))
            }
        }
    }

    /// Where other mounts lie below a top, by the table.
    fn below(&self, top: &Top, mount: Option<&Mount>) -> Below {
        let Some(mount) = mount else {
            return Below::default();
        };
        let Ok(absolute) = mounts::root::name_of(&top.fd) else {
            return Below::default();
        };
        // What is mounted on another mount lies behind that one.
        let others = self
            .mounts
            .iter()
            .filter(|other| other.parent == mount.id && other.id != mount.id);
        let targets =
            others.filter_map(|other| mounts::path::below(&absolute, other.target.as_deref()?));
        Below::from_names(targets.filter(|name| !name.is_empty()))
    }

    /// Gives the directory that lies at a crossing, to be walked; or hands over what lies there, if
    /// that is all.
    fn cross(&self, from: &Top, crossing: &Crossing) -> Option<(Top, Spot)> {
        let Crossing { dir: place, name } = crossing;
        let mut dir_path = from.path.clone();
        if !place.rel.is_empty() {
            append(&mut dir_path, &place.rel);
        }
        let mut path = dir_path.clone();
        append(&mut path, name);
        let failed = |gate, errno, kind: WarningKind| {
            if errno != Errno::ENOENT {
                self.diagnostics
                    .warn(Warning::failed(&path, gate, errno, kind));
            }
        };
        let dir = Dir {
            path: &dir_path,
            hash: place.hash,
            depth: place.depth,
        };
        let fd_of_dir = match open_place(from, place) {
            Ok(fd) => fd,
            Err(e) => {
                failed(Gate::Openat2, e, WarningKind::OpenMountParent);
                return None;
            }
        };
        let c_name = c_name(name)?;
        let seen = match look_at(&fd_of_dir, &c_name) {
            Ok(seen) => seen,
            Err(e) => {
                failed(Gate::Statx, e, WarningKind::ReadMountAttributes);
                return None;
            }
        };
        let meta = Meta::from_statx(&seen);
        let hand_over = || self.sink.worker().take(&dir, &[Entry { name, meta }]);
        let hash = digest::below(place.hash, name);
        let depth = place.depth + 1;
        let is_same = self.one_device.is_none_or(|only| only == meta.dev);
        let waits = seen.attributes.contains(Attributes::AUTOMOUNT) && self.one_device.is_some();
        if !meta.is_dir() || !is_same || waits || !self.options.filter.enters(depth) {
            hand_over();
            return None;
        }
        let opened = gate::fs::openat(&fd_of_dir, &c_name, Open::SCAN);
        let fd = match opened {
            Ok(fd) => fd,
            Err(e) => {
                failed(Gate::Openat, e, WarningKind::OpenDirectory);
                hand_over();
                return None;
            }
        };
        // To open it may have set off an automount: what counts is what is there now.
        match Top::new(fd, path.clone(), hash, depth) {
            Ok(top) => {
                let from = Spot {
                    path: dir_path,
                    hash: place.hash,
                    depth: place.depth,
                    name: name.clone(),
                };
                Some((top, from))
            }
            Err(e) => {
                failed(Gate::Statx, e, WarningKind::ReadMountAttributes);
                hand_over();
                None
            }
        }
    }
}

/// The first engine that can work in a place. The reason is what keeps the file system's own
/// engine from it, or else the first one. `threads` always can.
fn first_possible(engines: &[EngineKind], context: &MountContext<'_>) -> (EngineKind, PlanReason) {
    let own = context
        .mount
        .and_then(|mount| EngineKind::for_fstype(&mount.content.fstype));
    let mut reason = PlanReason::Requested;
    for &kind in engines {
        match engine(kind).possible(context) {
            Ok(()) => return (kind, reason),
            Err(refusal) if reason == PlanReason::Requested || own == Some(kind) => {
                reason = PlanReason::Refused(kind, refusal);
            }
            Err(_) => {}
        }
    }
    (EngineKind::Threads, reason)
}

/// The directory in which the top of a mount is found, and its name there; DIR itself is found in
/// itself, without a name.
struct Spot {
    path: Vec<u8>,
    hash: u64,
    depth: u32,
    name: Vec<u8>,
}

/// Opens the directory that a crossing is in, through whatever mounts lie on the way by now.
fn open_place(from: &Top, place: &Place) -> Result<gate::Fd, Errno> {
    use std::os::fd::AsFd;
    let how = Open::PATH | Open::DIRECTORY;
    if place.rel.is_empty() {
        return gate::fs::openat(&from.fd, c".", how);
    }
    gate::long::open_long_no_symlinks(from.fd.as_fd(), &place.rel, how)
}
