//! Walks everything below some directories: one job for each mount, with the engine that suits the
//! mount.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::Arc;

use base::Warning;
use gate::fs::{At, Attributes, Open, has_statx, openat, statx};
use gate::long::{open_long, open_long_no_symlinks};
use gate::sync::Mutex;
use gate::{Errno, Fd, Gate};
use mounts::ErrorKind;
use mounts::listed::{is_gone, is_removed_from};
use ondisk::{Dev, Mount};

use crate::around::Around;
use crate::engine::engine;
use crate::entry::{Dir, Entry, Meta, joined};
use crate::error::{Error, WarningKind};
use crate::filter::Filter;
use crate::job::{Below, Crossing, Diagnostics, Job, c_name, look_at};
use crate::key::DirKey;
use crate::kind::EngineKind;
use crate::plan::{Plan, PlanReason, plan};
use crate::shard::Sharded;
use crate::sink::Sink;
use crate::top::{MountContext, Top, mounts_around};

/// The options of a walk.
#[derive(Clone, Debug, Default)]
pub struct WalkOptions {
    /// The directories, as given.
    pub dirs: Vec<Vec<u8>>,
    /// Device and inode number of each directory, if it was examined before: a user who may write
    /// to the parent directory may have replaced it since, for instance by a symlink. Empty if any
    /// directory will do.
    pub identities: Vec<(Dev, u64)>,
    /// The engine; `None`: the cheapest one for each mount.
    pub engine: Option<EngineKind>,
    /// Engines in order of preference: each mount is walked by the first one that can work there.
    /// If not empty, it takes precedence over [`WalkOptions::engine`].
    pub preferred: &'static [EngineKind],
    /// Number of threads; `None`: as many as are useful.
    pub threads: Option<usize>,
    /// Whether to stay on the device of each DIR.
    pub one_file_system: bool,
    /// Excluded entries.
    pub filter: Filter,
    /// Whether to keep access times, where permitted.
    pub noatime: bool,
    /// Approximate number of entries below the single DIR, if known, for example from a catalog.
    pub expected: Option<u64>,
    /// The sink calls syncfs(2) before reading, so a second syncfs is cheap.
    pub sink_syncs_first: bool,
    /// The mount table, and the mounts that do not answer. `None`: they were not checked, and a
    /// walk blocks at a dead server.
    pub around: Option<Arc<Around>>,
}

impl WalkOptions {
    /// The options for a walk that excludes the mounts which do not answer.
    pub(crate) fn careful(&self, around: &Around) -> Cow<'_, WalkOptions> {
        if around.silent().is_empty() {
            return Cow::Borrowed(self);
        }
        Cow::Owned(WalkOptions {
            filter: self.filter.clone().without(around.silent()),
            ..self.clone()
        })
    }
}

/// A mount that was walked, and the engine that walked it.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Part {
    /// The path of the mount point, beginning with DIR as given.
    pub path: Vec<u8>,
    /// Type of the file system; `None` if the mount table has none.
    pub fstype: Option<Vec<u8>>,
    pub engine: EngineKind,
    pub reason: PlanReason,
}

/// A report on the walk: mounts and engines. The entries went to the sink.
#[derive(Clone, Debug, Default)]
pub struct WalkReport {
    /// The mounts that were walked, in order; the first one is that of DIR.
    pub parts: Vec<Part>,
}

/// Opens a DIR, following it if it is a symlink.
///
/// # Errors
/// The errors of openat(2) and statx(2).
pub fn open_top(path: &[u8], nth: usize) -> Result<Top, mounts::Error> {
    let failed = |kind, gate| move |errno| mounts::Error::at(kind, path, gate, errno);
    let how = Open::DIRECTORY | Open::NONBLOCK;
    let fd = open_long(path, how).map_err(failed(ErrorKind::OpenDirectory, Gate::Openat))?;
    Top::new(fd, path.to_vec(), DirKey::top(nth))
        .map_err(failed(ErrorKind::ReadAttributes, Gate::Statx))
}

pub(crate) fn open_tops(dirs: &[Vec<u8>]) -> Result<Vec<Top>, mounts::Error> {
    let dirs = dirs.iter().enumerate();
    dirs.map(|(nth, path)| open_top(path, nth)).collect()
}

/// Walks each directory. The first entry is the directory itself.
///
/// # Errors
/// Before anything was emitted: a DIR cannot be walked, or an engine cannot work on its mount.
pub fn walk(
    options: &WalkOptions,
    sink: &dyn Sink,
    diagnostics: &Diagnostics,
) -> Result<WalkReport, Error> {
    let tops = open_tops(&options.dirs)?;
    for (top, identity) in tops.iter().zip(&options.identities) {
        // Without statx(2), the examination of DIR did not trigger an automount, so it may differ
        // now.
        if (top.meta.dev, top.meta.ino) != *identity && has_statx() {
            return Err(Error::Replaced(top.path.clone()));
        }
    }
    let around = options.around.as_deref();
    let fresh;
    let mounts = match around {
        Some(around) if tops.first().is_none_or(|top| around.holds(top.meta.mount)) => {
            &around.mounts
        }
        _ => {
            fresh = mounts_around(tops.first());
            &fresh
        }
    };
    let careful = around.map(|around| options.careful(around));
    let options = careful.as_deref().unwrap_or(options);
    around
        .into_iter()
        .for_each(|around| around.warn(diagnostics));
    let sharded = Sharded::new(options.filter.shard(), &options.dirs, sink);
    let sink = sharded.as_ref().map_or(sink, |sharded| sharded);
    let mut report = WalkReport::default();
    for top in tops {
        let traversal = Traversal::new(options, sink, diagnostics, mounts, &top);
        traversal.walk_dir(top, &mut report)?;
    }
    if !has_statx() {
        diagnostics.warn(Warning::general(WarningKind::NoStatx));
    }
    Ok(report)
}

/// The walk of one DIR over all mounts below it.
pub(crate) struct Traversal<'a> {
    options: &'a WalkOptions,
    sink: &'a dyn Sink,
    diagnostics: &'a Diagnostics,
    mounts: &'a [Mount],
    one_device: Option<Dev>,
}

/// The entry for a top: its name and parent directory. DIR itself is an entry of itself, without a
/// name.
pub(crate) struct TopEntry {
    dir_path: Vec<u8>,
    dir: DirKey,
    name: Vec<u8>,
    is_emitted: bool,
}

impl TopEntry {
    /// The entry to emit for DIR.
    pub(crate) fn new(top: &Top) -> TopEntry {
        TopEntry {
            dir_path: top.path.clone(),
            dir: top.key,
            name: Vec::new(),
            is_emitted: false,
        }
    }

    /// The entry of a top that another rank emits, so that this one does not.
    pub(crate) fn emitted(top: &Top) -> TopEntry {
        TopEntry {
            is_emitted: true,
            ..TopEntry::new(top)
        }
    }
}

impl<'a> Traversal<'a> {
    pub(crate) fn new(
        options: &'a WalkOptions,
        sink: &'a dyn Sink,
        diagnostics: &'a Diagnostics,
        mounts: &'a [Mount],
        top: &Top,
    ) -> Traversal<'a> {
        Traversal {
            options,
            sink,
            diagnostics,
            mounts,
            one_device: options.one_file_system.then_some(top.meta.dev),
        }
    }

    fn walk_dir(&self, top: Top, report: &mut WalkReport) -> Result<(), Error> {
        let entry = TopEntry::new(&top);
        let mut tops = VecDeque::from([(top, entry)]);
        let mut is_first = true;
        while let Some((mut top, entry)) = tops.pop_front() {
            if self.sink.is_closed() {
                break;
            }
            let crossings = self.walk_mount(
                &mut top,
                &entry,
                report,
                |context| self.choose(context, is_first),
                |job, part| self.run(job, part, is_first),
            )?;
            is_first = false;
            for crossing in crossings {
                tops.extend(self.cross(&top, &crossing));
            }
        }
        Ok(())
    }

    pub(crate) fn context<'t>(&'t self, top: &'t Top) -> MountContext<'t> {
        let options = self.options;
        let is_only_dir = options.dirs.len() == 1 && top.key.depth == 0;
        MountContext {
            noatime: options.noatime,
            expected: options.expected.filter(|_| is_only_dir),
            sink_syncs_first: options.sink_syncs_first,
            names_suffice: self.sink.fields().are_in_names(),
            ..MountContext::new(top, top.mount(self.mounts))
        }
    }

    /// Walks one mount by `run`, with the engine that `choose` returns, and returns the names where
    /// other mounts begin.
    pub(crate) fn walk_mount(
        &self,
        top: &mut Top,
        entry: &TopEntry,
        report: &mut WalkReport,
        choose: impl FnOnce(&MountContext<'_>) -> Result<(EngineKind, PlanReason), Error>,
        run: impl FnOnce(&Job<'_>, &mut Part) -> Result<(), Error>,
    ) -> Result<Vec<Crossing>, Error> {
        let options = self.options;
        let mount = top.mount(self.mounts);
        let context = self.context(top);
        let names_suffice = context.names_suffice;
        let (kind, reason) = choose(&context)?;
        self.sink.begin(&context, kind);
        // Read the metadata of the top only now: the sink's `begin` must come before that of any
        // entry.
        top.meta = statx(&top.fd, c"", At::EMPTY_PATH, Meta::WANT).map_or(top.meta, |seen| Meta {
            mount: top.meta.mount,
            ..Meta::from_statx(&seen)
        });
        let top = &*top;
        if !entry.is_emitted {
            let (name, meta) = (&entry.name[..], top.meta);
            let dir = entry.dir.dir(&entry.dir_path);
            self.sink.worker().take(&dir, &[Entry { name, meta }]);
        }
        let crossings = Mutex::new(Vec::new());
        let job = Job {
            top,
            mount,
            below: &self.below(top, mount),
            sink: self.sink,
            filter: &options.filter,
            threads: options
                .threads
                .map(|threads| threads.clamp(1, Job::MOST_THREADS)),
            one_device: self.one_device,
            noatime: options.noatime,
            // Only a mount table shows mounts on regular files.
            names_suffice: names_suffice && mount.is_some(),
            diagnostics: self.diagnostics,
            crossings: &crossings,
            missing: Mutex::default(),
        };
        let mut part = Part {
            path: top.path.clone(),
            fstype: mount.map(|m| m.content.fstype.clone()),
            engine: kind,
            reason,
        };
        if options.filter.enters(top.key.depth) {
            run(&job, &mut part)?;
            job.look_again();
        }
        drop(job);
        report.parts.push(part);
        Ok(crossings.into_inner())
    }

    /// Runs the engine of a part, or `threads` if that engine gives up.
    fn run(&self, job: &Job<'_>, part: &mut Part, is_first: bool) -> Result<(), Error> {
        if self.run_chosen(job, part, is_first)? {
            return Ok(());
        }
        let path = part.path.clone();
        if let Err(refusal) = engine(part.engine).walk(job) {
            let kind = WarningKind::NotWalked(refusal);
            self.diagnostics.warn(Warning::about(&path, kind));
        }
        Ok(())
    }

    /// Runs the engine of a part, and returns whether it has walked the mount. If not, changes the
    /// part's engine to `threads`.
    pub(crate) fn run_chosen(
        &self,
        job: &Job<'_>,
        part: &mut Part,
        is_first: bool,
    ) -> Result<bool, Error> {
        let Err(refusal) = engine(part.engine).walk(job) else {
            return Ok(true);
        };
        let path = part.path.clone();
        if self.options.preferred.is_empty() && self.options.engine.is_some() && is_first {
            return Err(Error::Refused {
                path,
                engine: part.engine,
                refusal,
            });
        }
        job.missing.lock().0.clear();
        part.reason = PlanReason::GaveUp(part.engine, refusal);
        part.engine = EngineKind::Threads;
        Ok(false)
    }

    /// Chooses the engine for a mount, and returns the reason, too.
    pub(crate) fn choose(
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
                let reason = PlanReason::RequestRefused {
                    requested,
                    refusal,
                    instead: Box::new(instead),
                };
                Ok((chosen, reason))
            }
        }
    }

    /// Whether the shard has a directory that an engine which reads the whole file system has
    /// found.
    fn is_in_shard(&self, dir: &Dir<'_>, name: &[u8]) -> bool {
        let root = self.options.dirs.first();
        let shard = self.options.filter.shard().zip(root);
        shard.is_none_or(|(shard, root)| {
            shard.enters_below(root, dir) && shard.enters(dir.key.below(name))
        })
    }

    /// The paths below a top where other mounts begin, by the mount table.
    fn below(&self, top: &Top, mount: Option<&Mount>) -> Below {
        let Some(mount) = mount else {
            return Below::default();
        };
        let Ok(absolute) = mounts::root::name_of(&top.fd) else {
            return Below::default();
        };
        // Mounts below other mounts are found in the walks of those mounts.
        let is_on_it = |other: &&Mount| other.parent == mount.id && other.id != mount.id;
        let others = self.mounts.iter().filter(is_on_it);
        let targets =
            others.filter_map(|other| base::path::below(&absolute, other.target.as_deref()?));
        Below::from_names(targets.filter(|name| !name.is_empty()))
    }

    /// Opens a mount point so that the mount is walked; or only emits its entry, if it is not to be
    /// walked.
    pub(crate) fn cross(&self, from: &Top, crossing: &Crossing) -> Option<(Top, TopEntry)> {
        let Crossing {
            dir: place,
            name,
            is_emitted,
        } = crossing;
        let dir_path = joined(&from.path, &place.rel);
        let path = joined(&dir_path, name);
        let open_dir = |rel: &[u8]| open_place(from, rel, Open::SCAN);
        let failed = |gate, errno, kind: WarningKind| {
            if !is_gone(errno) || !is_removed_from(&joined(&place.rel, name), false, open_dir) {
                let warning = Warning::failed(&path, gate, errno, kind);
                self.diagnostics.warn(warning);
            }
        };
        let parent = open_place(from, &place.rel, Open::PATH | Open::DIRECTORY)
            .map_err(|errno| failed(Gate::Openat2, errno, WarningKind::OpenMountParent))
            .ok()?;
        let c_name = c_name(name)?;
        let statx_failed = |errno| failed(Gate::Statx, errno, WarningKind::ReadMountAttributes);
        let seen = look_at(&parent, &c_name).map_err(statx_failed).ok()?;
        let meta = Meta::from_statx(&seen);
        let emit = || {
            if !is_emitted {
                let dir = place.key.dir(&dir_path);
                self.sink.worker().take(&dir, &[Entry { name, meta }]);
            }
        };
        let key = place.key.below(name);
        let is_entered = meta.is_dir()
            && self.one_device.is_none_or(|only| only == meta.dev)
            && self.options.filter.enters(key.depth)
            && self.is_in_shard(&place.key.dir(&dir_path), name);
        let is_trigger = seen.attributes.contains(Attributes::AUTOMOUNT);
        if !is_entered || is_trigger && self.one_device.is_some() {
            emit();
            return None;
        }
        // openat(2) may trigger an automount, so statx(2) comes after it.
        let opened = openat(&parent, &c_name, Open::SCAN)
            .map_err(|errno| failed(Gate::Openat, errno, WarningKind::OpenDirectory))
            .and_then(|fd| Top::new(fd, path.clone(), key).map_err(statx_failed));
        let Ok(top) = opened else {
            emit();
            return None;
        };
        let entry = TopEntry {
            dir_path,
            dir: place.key,
            name: name.clone(),
            is_emitted: *is_emitted,
        };
        Some((top, entry))
    }
}

/// The first engine that can work on a mount; `threads` always can. The reason is the refusal of
/// the engine for that type of file system, or else of the first engine.
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

/// Opens a directory below a top, including mounts that cover parts of the path by now.
fn open_place(from: &Top, rel: &[u8], how: Open) -> Result<Fd, Errno> {
    if rel.is_empty() {
        return openat(&from.fd, c".", how);
    }
    open_long_no_symlinks(from.fd.as_fd(), rel, how)
}
