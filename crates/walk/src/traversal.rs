//! Walks everything below some directories: one job for each mount, by the engine that suits it.
//!
//! The ranks of a team walk one mount after the other together. The rank that has found a mount
//! (rank 0 for DIR) owns it: this owner chooses the engine and emits the directory where the mount
//! begins. With `threads` the other ranks take directories from the owner and from each other; any
//! other engine reads the whole file system, so the owner runs it alone. A rank that does not see
//! the same directory there stands by.
//!
//! All ranks take these steps in the same order, whatever fails, so that no rank waits for ever.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::Arc;

use base::Warning;
use gate::fs::{Attributes, Open, fstat, has_statx, openat};
use gate::long::open_long_no_symlinks;
use gate::machine::with_all_processors;
use gate::sync::Mutex;
use gate::{Errno, Fd, Gate};
use mounts::ErrorKind;
use mounts::listed::{is_gone, is_removed_from};
use ondisk::{Dev, Mount};
use serde::{Deserialize, Serialize};
use team::{SingleProcess, Team, share};

use crate::around::ReachableMounts;
use crate::engine::{engine, threads};
use crate::entry::{Dir, Entry, Meta, append, joined};
use crate::error::{Error, WarningKind};
use crate::filter::Filter;
use crate::job::{Crossing, Diagnostics, Job, MountHints, c_name, look_at};
use crate::key::DirKey;
use crate::kind::EngineKind;
use crate::plan::{Plan, PlanReason, plan};
use crate::shard::ShardSink;
use crate::sink::Sink;
use crate::top::{Identity, MountContext, Top, mounts_around, open_same};

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
    pub around: Option<Arc<ReachableMounts>>,
}

impl WalkOptions {
    /// The options of a walk that keeps out of the mounts which do not answer.
    fn careful(&self, silent: &[Vec<u8>]) -> Cow<'_, WalkOptions> {
        if silent.is_empty() {
            return Cow::Borrowed(self);
        }
        Cow::Owned(WalkOptions {
            filter: self.filter.clone().without(silent),
            ..self.clone()
        })
    }
}

/// A mount that was walked, and the engine that walked it.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct WalkedMount {
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
    pub parts: Vec<WalkedMount>,
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
    walk_together(options, sink, diagnostics, &SingleProcess::NoJob)
}

/// Walks each directory together with all ranks; the entries of each rank go to its own sink. The
/// report has the mounts in which this rank took part.
///
/// # Errors
/// The errors of [`walk`], and [`Error::OtherRank`] if another rank has failed: then all
/// ranks stop.
pub fn walk_together(
    options: &WalkOptions,
    sink: &dyn Sink,
    diagnostics: &Diagnostics,
    team: &dyn Team,
) -> Result<WalkReport, Error> {
    let tops = open_same(&options.dirs, &options.identities, team)?;
    let around = options.around.as_deref();
    let fresh;
    let mounts = match around {
        Some(around)
            if tops
                .first()
                .is_none_or(|top| around.contains_mount(top.meta.mount)) =>
        {
            &around.mounts
        }
        _ => {
            fresh = mounts_around(tops.first());
            &fresh
        }
    };
    let silent = around.map_or(Vec::new(), |around| around.silent(team));
    let options = &*options.careful(&silent);
    if let (0, Some(around)) = (team.rank(), around) {
        around.warn(&silent, diagnostics);
    }
    let sharded = ShardSink::new(options.filter.shard(), &options.dirs, sink);
    let sink = sharded.as_ref().map_or(sink, |sharded| sharded);
    let mut report = WalkReport::default();
    for top in tops {
        let traversal = Traversal {
            options,
            sink,
            diagnostics,
            mounts,
            one_device: options.one_file_system.then_some(top.meta.dev),
            team,
        };
        if !traversal.walk_dir(top, &mut report)? {
            break;
        }
    }
    if team.rank() == 0 && !has_statx() {
        diagnostics.warn(Warning::general(WarningKind::NoStatx));
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
    team: &'a dyn Team,
}

/// The entry of a top: its name and its parent. DIR itself is an entry of itself, without a name.
struct TopEntry {
    dir_path: Vec<u8>,
    dir: DirKey,
    name: Vec<u8>,
    is_emitted: bool,
}

impl TopEntry {
    /// An entry without a name, as of DIR itself; also for a top whose entry another rank emits.
    fn new(top: &Top, is_emitted: bool) -> TopEntry {
        TopEntry {
            dir_path: top.path.clone(),
            dir: top.key,
            name: Vec::new(),
            is_emitted,
        }
    }
}

/// The open directory where a mount begins, and the entry to emit for it.
type EnteredMount = (Top, TopEntry);

/// A mount to be walked; all ranks have the same list.
struct MountTask {
    owner: usize,
    /// Path of the mount point relative to DIR.
    rel: Vec<u8>,
    /// The open mount point: on all ranks for the mount of DIR, on the owner only for others.
    own: Option<EnteredMount>,
}

/// A rank's message to the others about a mount, before the walk of the mount.
#[derive(Serialize, Deserialize)]
struct MountMessage {
    identity: Option<Identity>,
    /// The chosen engine, in the message of the owner.
    engine: Option<EngineKind>,
}

#[derive(Serialize, Deserialize)]
struct RankResult {
    /// Paths relative to DIR where this rank found other mounts.
    found: Vec<Vec<u8>>,
    has_failed: bool,
    is_closed: bool,
}

impl Traversal<'_> {
    /// Returns whether all sinks take more entries.
    fn walk_dir(&self, top: Top, report: &mut WalkReport) -> Result<bool, Error> {
        let (rank, root) = (self.team.rank(), top.clone());
        let entry = TopEntry::new(&top, rank > 0);
        let mut mounts = VecDeque::from([MountTask {
            owner: 0,
            rel: Vec::new(),
            own: Some((top, entry)),
        }]);
        while let Some(mounted) = mounts.pop_front() {
            let walked = self.walk_mount(&root, mounted, report);
            let found = walked.as_ref().ok().into_iter().flatten();
            let mine = RankResult {
                found: found.map(|(rel, _)| rel.clone()).collect(),
                has_failed: walked.is_err(),
                is_closed: self.sink.is_closed(),
            };
            let all = share(self.team, mine);
            let mut own = walked?.into_iter().map(|(_, own)| own);
            if all.iter().any(|done| done.has_failed) {
                return Err(Error::OtherRank);
            }
            if all.iter().any(|done| done.is_closed) {
                return Ok(false);
            }
            for (owner, done) in all.into_iter().enumerate() {
                mounts.extend(done.found.into_iter().map(|rel| {
                    let own = (owner == rank).then(|| own.next()).flatten();
                    MountTask { owner, rel, own }
                }));
            }
        }
        Ok(true)
    }

    /// The properties of the mount of a top, for the plan.
    fn context<'t>(&'t self, top: &'t Top) -> MountContext<'t> {
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

    /// Walks one mount, and returns the mount points that this rank has found in it.
    fn walk_mount(
        &self,
        root: &Top,
        mounted: MountTask,
        report: &mut WalkReport,
    ) -> Result<Vec<(Vec<u8>, EnteredMount)>, Error> {
        let MountTask { owner, rel, own } = mounted;
        let is_owner = owner == self.team.rank();
        let opened = own.map_or_else(|| open(root, &rel), Ok);
        let context = opened.as_ref().ok().map(|(top, _)| self.context(top));
        let chosen = context.as_ref().filter(|_| is_owner);
        let chosen =
            chosen.map(|context| with_all_processors(|| self.choose(context, rel.is_empty())));
        let engine = chosen.as_ref().and_then(|it| Some(it.as_ref().ok()?.0));
        let identity = opened.as_ref().ok().map(|(top, _)| top.identity());
        let ready = share(self.team, MountMessage { identity, engine }).swap_remove(owner);
        let Some(engine) = ready.engine else {
            return match (opened, chosen) {
                (Err(error), _) | (_, Some(Err(error))) if is_owner => Err(error),
                _ => Err(Error::OtherRank),
            };
        };
        let same = context.filter(|_| ready.identity == identity);
        let (Ok((top, entry)), Some(context)) = (&opened, same) else {
            if self.options.filter.enters(root.key.at(&rel).depth) {
                threads::stand_by(self.team, owner);
            }
            return Ok(Vec::new());
        };
        let chosen = chosen.unwrap_or(Ok((engine, PlanReason::ChosenByRank(owner))))?;
        let crossings = self.walk_by(chosen, (&context, entry), owner, report)?;
        let cross = |crossing: &Crossing| {
            let mut path = rel.clone();
            append(&mut path, &joined(&crossing.dir.rel, &crossing.name));
            Some((path, self.cross(top, crossing)?))
        };
        Ok(crossings.iter().filter_map(cross).collect())
    }

    /// Walks one mount with an engine, and returns the names where other mounts begin.
    fn walk_by(
        &self,
        (kind, reason): (EngineKind, PlanReason),
        (context, entry): (&MountContext<'_>, &TopEntry),
        owner: usize,
        report: &mut WalkReport,
    ) -> Result<Vec<Crossing>, Error> {
        let options = self.options;
        let (top, mount) = (context.top, context.mount);
        self.sink.begin(context, kind);
        // Read the metadata again after `begin`: the sink must know of the mount before the
        // metadata of any entry is read.
        let seen = fstat(&top.fd, Meta::WANT);
        let meta = seen.map_or(top.meta, |seen| Meta {
            mount: top.meta.mount,
            ..Meta::from_statx(&seen)
        });
        let top = &Top {
            meta,
            ..top.clone()
        };
        if !entry.is_emitted {
            let name = &entry.name[..];
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
            // Only a mount table shows mounts on files: getdents64(2) does not.
            names_suffice: context.names_suffice && mount.is_some(),
            diagnostics: self.diagnostics,
            crossings: &crossings,
            missing: Mutex::default(),
        };
        let mut part = WalkedMount {
            path: top.path.clone(),
            fstype: mount.map(|m| m.content.fstype.clone()),
            engine: kind,
            reason,
        };
        if options.filter.enters(top.key.depth) {
            self.run(&job, &mut part, owner)?;
            job.look_again();
        }
        drop(job);
        report.parts.push(part);
        Ok(crossings.into_inner())
    }

    /// Runs the engine of a part, or `threads` if it gives up.
    fn run(&self, job: &Job<'_>, part: &mut WalkedMount, owner: usize) -> Result<(), Error> {
        let is_owner = owner == self.team.rank();
        let is_done = match is_owner && part.engine != EngineKind::Threads {
            true => with_all_processors(|| self.run_chosen(job, part)),
            false => Ok(false),
        };
        // Take part in the exchange even if this rank failed: the other ranks wait for its end.
        let is_over = !matches!(is_done, Ok(false));
        let walked = threads::walk_together(job, self.team, owner, is_over);
        is_done.and(walked.map_err(Error::Thread))
    }

    /// Runs the engine of a part; returns whether the engine has walked the mount. If not,
    /// `threads` takes its place in the part.
    fn run_chosen(&self, job: &Job<'_>, part: &mut WalkedMount) -> Result<bool, Error> {
        let Err(refusal) = engine(part.engine).walk(job) else {
            return Ok(true);
        };
        let path = part.path.clone();
        let is_first = job.top.key.depth == 0;
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

    /// The engine for a mount, and why this engine was chosen.
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
    fn below(&self, top: &Top, mount: Option<&Mount>) -> MountHints {
        let Some(mount) = mount else {
            return MountHints::default();
        };
        let Ok(absolute) = mounts::root::name_of(&top.fd) else {
            return MountHints::default();
        };
        // Mounts below other mounts are found in the walks of those mounts.
        let is_on_it = |other: &&Mount| other.parent == mount.id && other.id != mount.id;
        let others = self.mounts.iter().filter(is_on_it);
        let targets =
            others.filter_map(|other| base::path::below(&absolute, other.target.as_deref()?));
        MountHints::from_names(targets.filter(|name| !name.is_empty()))
    }

    /// Opens the directory at a crossing, to be walked; only emits the entry if the directory is
    /// not to be walked.
    fn cross(&self, from: &Top, crossing: &Crossing) -> Option<(Top, TopEntry)> {
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

/// Opens a directory where a mount begins that another rank has found, and whose entry that rank
/// emits.
fn open(root: &Top, rel: &[u8]) -> Result<EnteredMount, Error> {
    let path = joined(&root.path, rel);
    let failed = |kind, gate| {
        let path = path.clone();
        move |errno| mounts::Error::at(kind, &path, gate, errno)
    };
    let fd = open_place(root, rel, Open::SCAN)
        .map_err(failed(ErrorKind::OpenDirectory, Gate::Openat))?;
    let top = Top::new(fd, path.clone(), root.key.at(rel))
        .map_err(failed(ErrorKind::ReadAttributes, Gate::Statx))?;
    let entry = TopEntry::new(&top, true);
    Ok((top, entry))
}

#[cfg(test)]
mod tests;
