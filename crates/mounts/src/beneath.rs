//! Counts the files that a mount hides beneath its mount point.
//!
//! The parent mount is cloned, without the mounts on it, into a detached tree (open_tree with
//! OPEN_TREE_CLONE), in which nothing covers the directory. No other process sees a change, and the
//! kernel destroys the clone when its descriptor is closed.
//!
//! If the parent mount is itself covered, no path leads to it. A child process with its own mount
//! namespace then detaches the mounts that cover the parent there, one after another.
//!
//! If the parent mount's server may be gone, a child process, which can be killed, touches the
//! clone first.

use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use base::path::{below, join};
use base::warning::Warning;
use gate::fs::{AtFlags, CWD, FileType, Open, Statx, StatxMask, lstatat, statx};
use gate::long::{c_string, open_long_no_symlinks, reach};
use gate::mount::{open_tree_clone, umount_detach, unshare_mounts};
use gate::process::{Child, SharedWords};
use gate::{Errno, Fd, Gate, Tally};
use ondisk::{Dev, Mount};

use crate::check::{ANSWER_WITHIN, times_out_at};
use crate::doubt::doubtful;
use crate::error::{Error, MissingPart, WarningKind};
use crate::method::breadth::Queue;
use crate::method::{SearchContext, SearchProgress};
pub use crate::point::HiddenFiles;
use crate::point::{Point, PointKind};
use crate::root::Root;
use crate::table::read_either;
use crate::tree::Tree;

type HiddenFilesResult = Result<HiddenFiles, (Gate, Errno)>;

/// Counts the files beneath each mount point.
///
/// # Errors
/// The mount table cannot be read.
pub fn count_hidden_files(
    points: &mut [Point],
    context: &mut SearchContext<'_>,
) -> Result<(), Error> {
    let top = Root::open(b"/").ok().and_then(|root| root.anchor);
    let (table, _) = read_either(false, top)?;
    let tree = Tree::new(&table.mounts);
    let top = top.or_else(|| tree.anchor(b"/"));
    let uncovered = uncovered(&tree, &table.mounts, top);
    let mut copies = MountClones {
        clones: HashMap::new(),
        doubtful: doubtful(&table.mounts),
    };
    let mut covered = Vec::new();
    for (at, point) in points.iter_mut().enumerate() {
        let Some(parent) = point.parent.and_then(|parent| tree.row(parent)) else {
            if point.target != b"/" {
                let kind = WarningKind::UnreachableParent;
                context.warnings.push(Warning::about(&point.target, kind));
            }
            continue;
        };
        if uncovered.contains(&parent.id) {
            let looked = copies.look(parent, point, context);
            record(point, looked, context);
        } else {
            covered.push(at);
        }
    }
    drop(copies);
    if !covered.is_empty() {
        look_under_covers(points, &covered, &table.mounts, top, context);
    }
    Ok(())
}

fn uncovered(tree: &Tree<'_>, rows: &[Mount], top: Option<u64>) -> HashSet<u64> {
    let visible = top.map(|top| tree.visible(b"/", top)).unwrap_or_default();
    rows.iter()
        .zip(visible)
        .filter(|(_, visible)| *visible)
        .map(|(row, _)| row.id)
        .collect()
}

/// Records the files beneath a mount point, or why they cannot be counted.
fn record(point: &mut Point, looked: HiddenFilesResult, context: &mut SearchContext<'_>) {
    match looked {
        Ok(beneath) => point.beneath = Some(beneath),
        Err((gate, errno)) => {
            let kind = WarningKind::LookBeneath;
            let warning = Warning::failed(&point.target, gate, errno, kind);
            context.warnings.push(warning);
        }
    }
}

/// Clones of mounts, without the mounts on them, by mount id.
struct MountClones {
    clones: HashMap<u64, Result<Fd, Errno>>,
    /// Ids of the mounts that may wait for a server.
    doubtful: HashSet<u64>,
}

impl MountClones {
    fn look(
        &mut self,
        parent: &Mount,
        point: &Point,
        context: &mut SearchContext<'_>,
    ) -> HiddenFilesResult {
        let missing = (Gate::OpenTree, Errno::ENOENT);
        let from = parent.target.as_deref().ok_or(missing)?;
        let rest = below(from, &point.target)
            .filter(|rest| !rest.is_empty())
            .unwrap_or(b".");
        let copy = self.clones.entry(parent.id).or_insert_with(|| {
            if self.doubtful.contains(&parent.id) && !answers(parent.dev, from, rest) {
                return Err(Errno::ETIMEDOUT);
            }
            copy(from)
        });
        let copy = copy.as_ref().map_err(|&errno| (Gate::OpenTree, errno))?;
        count(copy, rest, point, context)
    }
}

fn copy(from: &[u8]) -> gate::Result<Fd> {
    let reach = reach(CWD, from)?;
    open_tree_clone(reach.dir(), reach.rest())
}

/// Whether statx(2) of the path `rest` in a clone of the mount at `from`, which has this device
/// number, returns in time, with success or an error.
fn answers(dev: Dev, from: &[u8], rest: &[u8]) -> bool {
    let Ok(tally) = SharedWords::new(Tally::WORDS) else {
        return true;
    };
    let touch = || {
        let before = gate::meter::tally();
        let publish = || gate::meter::tally().since(&before).publish(&tally);
        // A child that cannot be killed must not keep a directory busy.
        let _ = gate::fs::chdir(c"/");
        let place = copy(from).and_then(|copy| {
            publish();
            open_long_no_symlinks(copy.as_fd(), rest, Open::PATH)
        });
        publish();
        let at = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
        let _ = place.map(|place| statx(&place, c"", at, StatxMask::BASIC_STATS));
        publish();
    };
    let answered = !times_out_at(Some(dev), ANSWER_WITHIN, touch);
    gate::meter::add(&Tally::collect(&tally));
    answered
}

/// Counts the files beneath mount points whose parent mounts are covered, in a child with its own
/// mount namespace.
fn look_under_covers(
    points: &mut [Point],
    which: &[usize],
    rows: &[Mount],
    top: Option<u64>,
    context: &mut SearchContext<'_>,
) {
    /// Number of words of shared memory for the result of a mount point: 1, files, bytes and the
    /// number of unreadable directories; or 2, gate and errno.
    const WORDS: usize = 4;
    const LONGEST: Duration = Duration::from_secs(24 * 3600);
    let shared = match SharedWords::new(which.len() * WORDS + Tally::WORDS) {
        Ok(shared) => shared,
        Err(errno) => {
            for &at in which {
                record(&mut points[at], Err((Gate::Unshare, errno)), context);
            }
            return;
        }
    };
    let tally = &shared[which.len() * WORDS..];
    let work = || {
        let before = gate::meter::tally();
        uncover(points, which, rows, top, |at, looked, unread| {
            let words = &shared[at * WORDS..][..WORDS];
            let (state, a, b) = match looked {
                Ok(beneath) => (1, beneath.files, beneath.bytes),
                Err((gate, errno)) => (2, gate as u64, errno.0 as u64),
            };
            words[1].store(a, Relaxed);
            words[2].store(b, Relaxed);
            words[3].store(unread as u64, Relaxed);
            words[0].store(state, Relaxed);
        });
        gate::meter::tally().since(&before).publish(tally);
    };
    let ended = Child::fork(work).map(|mut child| child.wait(LONGEST));
    gate::meter::add(&Tally::collect(tally));
    for (at, &point) in which.iter().enumerate() {
        let [state, a, b, unread] = std::array::from_fn(|w| shared[at * WORDS + w].load(Relaxed));
        let looked = match state {
            1 => Ok(HiddenFiles { files: a, bytes: b }),
            2 => {
                let gate = Gate::ALL.get(a as usize).copied();
                Err((gate.unwrap_or(Gate::Unshare), Errno(b as i32)))
            }
            _ => Err((
                Gate::Unshare,
                ended.as_ref().err().copied().unwrap_or(Errno::EAGAIN),
            )),
        };
        record(&mut points[point], looked, context);
        if unread > 0 {
            let kind = WarningKind::UnreadBeneath(unread);
            let warning = Warning::about(&points[point].target, kind);
            context.warnings.push(warning);
        }
    }
}

/// The work of the child: detaches the mounts that cover a mount until a path leads to that mount,
/// then counts the files beneath the mounts on it.
fn uncover(
    points: &[Point],
    which: &[usize],
    rows: &[Mount],
    top: Option<u64>,
    mut found: impl FnMut(usize, HiddenFilesResult, usize),
) {
    if let Err(errno) = unshare_mounts() {
        return (0..which.len()).for_each(|at| found(at, Err((Gate::Unshare, errno)), 0));
    }
    let mut tick = |_: &SearchProgress, _: &[u8]| {};
    let mut context = SearchContext::new(MissingPart::Count, &mut tick);
    let mut rows = rows.to_vec();
    let parent_of = |at: usize| points[which[at]].parent;
    let mut left: Vec<usize> = (0..which.len()).collect();
    while !left.is_empty() {
        let reached = uncovered(&Tree::new(&rows), &rows, top);
        let mut copies = MountClones {
            clones: HashMap::new(),
            doubtful: doubtful(&rows),
        };
        left.retain(|&at| {
            match rows.iter().find(|row| Some(row.id) == parent_of(at)) {
                // The mount was detached with its parent.
                None => found(at, Err((Gate::Umount2, Errno::ENOENT)), 0),
                Some(parent) if reached.contains(&parent.id) => {
                    let looked = copies.look(parent, &points[which[at]], &mut context);
                    found(at, looked, std::mem::take(&mut context.warnings).len());
                }
                Some(_) => return true,
            }
            false
        });
        drop(copies);
        let Some(&next) = left.first() else { return };
        if let Err(failed) = detach_cover(parent_of(next), &mut rows, &reached) {
            found(next, Err(failed), 0);
            left.remove(0);
        }
    }
}

fn detach_cover(
    covered: Option<u64>,
    rows: &mut Vec<Mount>,
    reached: &HashSet<u64>,
) -> Result<(), (Gate, Errno)> {
    let stuck = (Gate::Umount2, Errno::ENOENT);
    let row = |id: u64| rows.iter().find(|row| row.id == id);
    // Of `covered` and its ancestors, take the mount nearest to the root that no path reaches.
    let mut hidden = covered.and_then(row).ok_or(stuck)?;
    while let Some(above) = row(hidden.parent).filter(|above| !reached.contains(&above.id)) {
        hidden = above;
    }
    let name = hidden.target.as_deref().ok_or(stuck)?;
    // The mount that covers `hidden`: the deepest visible one along its path.
    let covers = rows.iter().filter_map(|cover| {
        let target = cover.target.as_deref()?;
        below(target, name)?;
        (reached.contains(&cover.id) && cover.id != hidden.parent).then_some((cover.id, target))
    });
    let (cover, target) = covers.max_by_key(|(_, target)| target.len()).ok_or(stuck)?;
    c_string(target)
        .and_then(|target| umount_detach(&target))
        .map_err(|e| (Gate::Umount2, e))?;
    let mut gone = HashSet::from([cover]);
    while let Some(next) = rows
        .iter()
        .find(|row| gone.contains(&row.parent) && !gone.contains(&row.id))
    {
        gone.insert(next.id);
    }
    rows.retain(|row| !gone.contains(&row.id));
    Ok(())
}

/// Counts the files below the path `rest` of a cloned mount.
fn count(
    copy: &Fd,
    rest: &[u8],
    point: &Point,
    context: &mut SearchContext<'_>,
) -> HiddenFilesResult {
    let mut counted = HiddenFiles::default();
    let mut linked = HashSet::new();
    let mut add = |seen: &Statx| {
        if seen.nlink > 1 && !linked.insert((seen.dev, seen.ino)) {
            return;
        }
        counted.files += 1;
        if seen.file_type == FileType::Regular {
            counted.bytes = counted.bytes.saturating_add(seen.size);
        }
    };
    if point.kind == Some(PointKind::File) {
        let reach = reach(copy.as_fd(), rest).map_err(|e| (Gate::Openat, e))?;
        let seen = lstatat(reach.dir(), reach.rest(), StatxMask::BASIC_STATS);
        add(&seen.map_err(|e| (Gate::Statx, e))?);
        return Ok(counted);
    }
    let fd = open_long_no_symlinks(copy.as_fd(), rest, Open::PATH | Open::DIRECTORY)
        .map_err(|e| (Gate::Openat2, e))?;
    let top = Root {
        path: point.target.clone(),
        fd,
        dev: point.dev,
        anchor: None,
        is_mount_root: None,
    };
    let mut queue = Queue::new(&top, ());
    let mut buffer = vec![0u8; 64 << 10];
    while let Some(parent) = queue.pop() {
        let (path, opened) = (queue.path(parent), queue.open(parent));
        context.directory(&path);
        context.read(&path, opened, &mut buffer, |context, dir, entry| {
            let name = entry.name.to_bytes();
            match lstatat(dir, entry.name, StatxMask::BASIC_STATS) {
                Ok(seen) if seen.file_type == FileType::Directory => queue.push(parent, name, ()),
                Ok(seen) => add(&seen),
                Err(errno) => context.failed(&join(&path, name), Gate::Statx, errno),
            }
        });
    }
    Ok(counted)
}
