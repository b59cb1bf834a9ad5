//! The question itself: everything under some directories, with a job for each mount that the tree
//! crosses.

use std::collections::VecDeque;

use gate::fs::{At, Attributes, Open, statx};
use gate::long::open_long;
use gate::sync::Mutex;
use gate::{Errno, Gate};
use mounts::Warning;
use mounts::root::Unusable;
use mounts::table::read_either;
use ondisk::{Dev, Mount};

use crate::digest;
use crate::engine::{EngineKind, MountContext, Refusal};
use crate::entry::{Dir, Entry, Meta, append};
use crate::filter::Filter;
use crate::job::{Below, Crossing, Diagnostics, Job, Place, Top, c_name, look_at};
use crate::plan::{Plan, own_of, plan};
use crate::sink::Sink;

/// What is asked.
#[derive(Clone, Debug, Default)]
pub struct WalkOptions {
    /// The directories, as they were given.
    pub dirs: Vec<Vec<u8>>,
    /// The engine; `None` for the one that is best for each mount.
    pub by: Option<EngineKind>,
    /// Engines of which each mount is walked by the first that can work there. It goes before
    /// [`WalkOptions::by`], unless it is empty.
    pub in_turn: &'static [EngineKind],
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
    pub by: EngineKind,
    /// Why that one.
    pub why: String,
}

/// What came of it. The entries have gone to the sink.
#[derive(Clone, Debug, Default)]
pub struct WalkReport {
    /// The mounts that were walked, in order; the first one is DIR's.
    pub parts: Vec<Part>,
}

/// Why a walk was not begun.
#[derive(Clone, Debug)]
pub enum NoWalk {
    /// A directory that cannot be walked.
    Unusable(Unusable),
    /// A pattern that is none, and why.
    Pattern(String),
    /// The engine that was asked for cannot work in a directory.
    Refused {
        /// The directory.
        path: Vec<u8>,
        /// The engine.
        by: EngineKind,
        /// Why.
        refusal: Refusal,
    },
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
pub fn open_top(path: &[u8], nth: usize) -> Result<Top, Unusable> {
    let unusable = |doing, gate| {
        move |errno| Unusable {
            doing,
            path: path.to_vec(),
            gate,
            errno,
        }
    };
    let how = Open::DIRECTORY | Open::NONBLOCK;
    let fd = open_long(path, how).map_err(unusable("cannot open directory", Gate::Openat))?;
    Top::of(fd, path.to_vec(), digest::top(nth), 0)
        .map_err(unusable("cannot read the attributes of", Gate::Statx))
}

/// Walks. DIR itself is the first entry of each.
///
/// # Errors
/// Before anything was handed over: a DIR that cannot be walked, or an engine that cannot work
/// there.
pub fn walk(
    question: &WalkOptions,
    sink: &dyn Sink,
    desk: &Diagnostics,
) -> Result<WalkReport, NoWalk> {
    let tops: Vec<Top> = question
        .dirs
        .iter()
        .enumerate()
        .map(|(nth, path)| open_top(path, nth))
        .collect::<Result<_, _>>()
        .map_err(NoWalk::Unusable)?;
    let mounts = mounts_around(tops.first());
    let mut answer = WalkReport::default();
    for top in tops {
        let one_device = question.one_file_system.then_some(top.meta.dev);
        let tour = Traversal {
            question,
            sink,
            desk,
            mounts: &mounts,
            one_device,
        };
        tour.go(top, &mut answer)?;
    }
    Ok(answer)
}

/// The walk of one DIR.
struct Traversal<'a> {
    question: &'a WalkOptions,
    sink: &'a dyn Sink,
    desk: &'a Diagnostics,
    mounts: &'a [Mount],
    one_device: Option<Dev>,
}

impl Traversal<'_> {
    fn go(&self, top: Top, answer: &mut WalkReport) -> Result<(), NoWalk> {
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
            let crossings = self.one(&mut top, &from, is_first, answer)?;
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
        answer: &mut WalkReport,
    ) -> Result<Vec<Crossing>, NoWalk> {
        let mount = top.mount(self.mounts);
        let expected = self
            .question
            .expected
            .filter(|_| self.question.dirs.len() == 1 && top.depth == 0);
        let &WalkOptions {
            noatime,
            is_written,
            ..
        } = self.question;
        let ground = MountContext {
            noatime,
            expected,
            is_written,
            ..MountContext::of(top, mount)
        };
        let (by, why) = self.choose(&ground, is_first)?;
        self.sink.begin(&ground, by);
        // Looked at again, so that nothing that is handed over was read before the sink knew of the
        // mount.
        top.meta = statx(&top.fd, c"", At::EMPTY_PATH, Meta::WANT)
            .map_or(top.meta, |seen| Meta::of(&seen));
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
            filter: &self.question.filter,
            threads: self
                .question
                .threads
                .map(|threads| threads.clamp(1, Job::MOST_THREADS)),
            one_device: self.one_device,
            noatime: self.question.noatime,
            desk: self.desk,
            crossings: &crossings,
        };
        let mut part = Part {
            path: top.path.clone(),
            fstype: mount.map(|m| m.content.fstype.clone()),
            by,
            why,
        };
        if self.question.filter.enters(top.depth)
            && let Err(refusal) = by.engine().walk(&job)
        {
            if self.question.in_turn.is_empty() && self.question.by.is_some() && is_first {
                return Err(NoWalk::Refused {
                    path: top.path.clone(),
                    by,
                    refusal,
                });
            }
            part.why = format!("{} could not do it: {refusal}", by.name());
            part.by = EngineKind::Threads;
            if let Err(refusal) = part.by.engine().walk(&job) {
                self.desk.warn(Warning::about(
                    &top.path,
                    format!("cannot be walked: {refusal}"),
                ));
            }
        }
        answer.parts.push(part);
        Ok(crossings.into_inner())
    }

    /// The engine for a mount, and why that one.
    fn choose(
        &self,
        ground: &MountContext<'_>,
        is_first: bool,
    ) -> Result<(EngineKind, String), NoWalk> {
        if !self.question.in_turn.is_empty() {
            return Ok(first_of(self.question.in_turn, ground));
        }
        let best = || {
            let Plan { by, why, .. } = plan(ground);
            (by, why)
        };
        let Some(by) = self.question.by else {
            return Ok(best());
        };
        match by.engine().possible(ground) {
            Ok(()) => Ok((by, ASKED_FOR.to_owned())),
            Err(refusal) if is_first => Err(NoWalk::Refused {
                path: ground.top.path.clone(),
                by,
                refusal,
            }),
            Err(refusal) => {
                let (chosen, why) = best();
                Ok((
                    chosen,
                    format!("{} cannot work here ({refusal}); {why}", by.name()),
                ))
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
        Below::of(targets.filter(|name| !name.is_empty()))
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
        let failed = |gate, errno, doing: &str| {
            if errno != Errno::ENOENT {
                self.desk.warn(Warning::failed(&path, gate, errno, doing));
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
                failed(
                    Gate::Openat2,
                    e,
                    "cannot open the directory that a mount is in; it is left out",
                );
                return None;
            }
        };
        let c_name = c_name(name)?;
        let seen = match look_at(&fd_of_dir, &c_name) {
            Ok(seen) => seen,
            Err(e) => {
                failed(
                    Gate::Statx,
                    e,
                    "cannot read the attributes of what is mounted here; it is left out",
                );
                return None;
            }
        };
        let meta = Meta::of(&seen);
        let hand_over = || self.sink.worker().take(&dir, &[Entry { name, meta }]);
        let hash = digest::below(place.hash, name);
        let depth = place.depth + 1;
        let is_same = self.one_device.is_none_or(|only| only == meta.dev);
        let waits = seen.attributes.contains(Attributes::AUTOMOUNT) && self.one_device.is_some();
        if !meta.is_dir() || !is_same || waits || !self.question.filter.enters(depth) {
            hand_over();
            return None;
        }
        let opened = gate::fs::openat(&fd_of_dir, &c_name, Open::SCAN);
        let fd = match opened {
            Ok(fd) => fd,
            Err(e) => {
                failed(
                    Gate::Openat,
                    e,
                    "cannot open the directory; what is in it is left out",
                );
                hand_over();
                return None;
            }
        };
        // To open it may have set off an automount: what counts is what is there now.
        match Top::of(fd, path.clone(), hash, depth) {
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
                failed(
                    Gate::Statx,
                    e,
                    "cannot read the attributes of what is mounted here; it is left out",
                );
                hand_over();
                None
            }
        }
    }
}

const ASKED_FOR: &str = "it was asked for";

/// The first engine that can work in a place, and what keeps the file system's own from it, or else
/// the first. `threads` always can.
fn first_of(engines: &[EngineKind], ground: &MountContext<'_>) -> (EngineKind, String) {
    let own = ground.mount.and_then(|mount| own_of(&mount.content.fstype));
    let mut why: Option<String> = None;
    for &by in engines {
        match by.engine().possible(ground) {
            Ok(()) => return (by, why.unwrap_or_else(|| ASKED_FOR.to_owned())),
            Err(refusal) if why.is_none() || own == Some(by) => {
                why = Some(format!("{} cannot work here: {refusal}", by.name()));
            }
            Err(_) => {}
        }
    }
    (
        EngineKind::Threads,
        why.unwrap_or_else(|| ASKED_FOR.to_owned()),
    )
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
