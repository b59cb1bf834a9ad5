//! What lies hidden under a mount point.
//!
//! The mount that it is on is copied, alone, into a tree that no path reaches (open_tree with
//! OPEN_TREE_CLONE): there, nothing is mounted over the directory. Nothing that anybody else sees
//! is changed, and the copy goes with its descriptor.
//!
//! Where that mount is itself covered, no name leads to it. Then a child process takes a mount
//! namespace of its own, a private copy of ours, and there takes off what lies over it, one mount
//! after another.
//!
//! Where that mount's server may be gone, a process that can be killed touches the copy first.

use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use gate::fs::{At, CWD, FileType, Open, Statx, Want, statx};
use gate::long::{c_string, open_long_no_symlinks, reach};
use gate::mount::{open_tree_clone, umount_detach, unshare_mounts};
use gate::process::{Child, Shared};
use gate::{Errno, Fd, Gate, Tally};
use ondisk::Mount;

use crate::boundaries::ANSWER_WITHIN;
use crate::kind::may_hang;
use crate::method::{Queue, SearchContext};
use crate::path::{below, join};
use crate::root::Root;
use crate::table::read_either;
use crate::tree::Tree;
use crate::{Error, Kind, Loss, Point, Warning, WarningKind};

/// What lies beneath.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Beneath {
    /// Files that are no directories; one with several names counts once.
    pub files: u64,
    /// Bytes in plain files, by their sizes.
    pub bytes: u64,
}

type Looked = Result<Beneath, (Gate, Errno)>;

/// Finds out what lies beneath each mount point.
///
/// # Errors
/// When there is no mount table, which says what each mount is on.
pub fn look(points: &mut [Point], hunt: &mut SearchContext<'_>) -> Result<(), Error> {
    let top = Root::open(b"/").ok().and_then(|root| root.anchor);
    let (table, _) = read_either(false, top)?;
    let tree = Tree::new(&table.mounts);
    let top = top.or_else(|| tree.anchor(b"/"));
    let uncovered = uncovered(&tree, &table.mounts, top);
    let mut copies = Copies::default();
    let mut covered = Vec::new();
    for (at, point) in points.iter_mut().enumerate() {
        let Some(parent) = point.parent.and_then(|parent| tree.row(parent)) else {
            if point.target != b"/" {
                let kind = WarningKind::UnreachableParent;
                hunt.warnings.push(Warning::about(&point.target, kind));
            }
            continue;
        };
        if uncovered.contains(&parent.id) {
            let looked = copies.look(parent, point, hunt);
            settle(point, looked, hunt);
        } else {
            covered.push(at);
        }
    }
    drop(copies);
    if !covered.is_empty() {
        look_under_covers(points, &covered, &table.mounts, top, hunt);
    }
    Ok(())
}

/// The ids of the mounts that a path reaches.
fn uncovered(tree: &Tree<'_>, rows: &[Mount], top: Option<u64>) -> HashSet<u64> {
    let visible = top.map(|top| tree.visible(b"/", top)).unwrap_or_default();
    rows.iter()
        .zip(visible)
        .filter(|(_, visible)| *visible)
        .map(|(row, _)| row.id)
        .collect()
}

/// Enters what was found beneath a mount point, or why nothing was.
fn settle(point: &mut Point, looked: Looked, hunt: &mut SearchContext<'_>) {
    match looked {
        Ok(beneath) => point.beneath = Some(beneath),
        Err((gate, errno)) => {
            let kind = WarningKind::LookBeneath;
            hunt.warnings
                .push(Warning::failed(&point.target, gate, errno, kind));
        }
    }
}

/// Copies of mounts without what is mounted on them, by the mount's id.
#[derive(Default)]
struct Copies(HashMap<u64, Result<Fd, Errno>>);

impl Copies {
    fn look(&mut self, parent: &Mount, point: &Point, hunt: &mut SearchContext<'_>) -> Looked {
        let missing = (Gate::OpenTree, Errno::ENOENT);
        let from = parent.target.as_deref().ok_or(missing)?;
        let rest = below(from, &point.target)
            .filter(|rest| !rest.is_empty())
            .unwrap_or(b".");
        let copy = self.0.entry(parent.id).or_insert_with(|| {
            if may_hang(&parent.content.fstype) && !answers(from, rest) {
                return Err(Errno::ETIMEDOUT);
            }
            copy(from)
        });
        count(
            copy.as_ref().map_err(|&errno| (Gate::OpenTree, errno))?,
            rest,
            point,
            hunt,
        )
    }
}

fn copy(from: &[u8]) -> gate::Result<Fd> {
    let reach = reach(CWD, from)?;
    open_tree_clone(reach.dir(), reach.rest())
}

/// Whether somebody answers, well or badly, who looks at the name `rest` of a copied mount.
fn answers(from: &[u8], rest: &[u8]) -> bool {
    const REAP: Duration = Duration::from_millis(500);
    let Ok(tally) = Shared::new(Tally::WORDS) else {
        return true;
    };
    let touch = || {
        let before = gate::meter::tally();
        let publish = || gate::meter::tally().since(&before).publish(&tally);
        let _ = gate::fs::chdir(c"/"); // a child that cannot be killed must not keep anybody's directory busy
        let place = copy(from).and_then(|copy| {
            publish();
            open_long_no_symlinks(copy.as_fd(), rest, Open::PATH)
        });
        publish();
        let _ = place.map(|place| {
            statx(
                &place,
                c"",
                At::EMPTY_PATH | At::STATX_FORCE_SYNC,
                Want::BASIC_STATS,
            )
        });
        publish();
    };
    let Ok(mut child) = Child::fork_detached(touch) else {
        return true;
    };
    let answered = child.wait(ANSWER_WITHIN).is_some();
    if !answered {
        child.kill();
        child.wait(REAP);
    }
    gate::meter::add(&Tally::collect(&tally));
    answered
}

/// The mount points whose parents are covered, in a child with a mount namespace of its own.
fn look_under_covers(
    points: &mut [Point],
    which: &[usize],
    rows: &[Mount],
    top: Option<u64>,
    hunt: &mut SearchContext<'_>,
) {
    /// For each mount point: 1 when it was looked at, and files, bytes and how many directories
    /// could not be read; or 2, and gate and error.
    const WORDS: usize = 4;
    const LONGEST: Duration = Duration::from_secs(24 * 3600);
    let unknown = (Gate::Unshare, Errno::EAGAIN);
    let shared = match Shared::new(which.len() * WORDS + Tally::WORDS) {
        Ok(shared) => shared,
        Err(errno) => {
            return which
                .iter()
                .for_each(|&at| settle(&mut points[at], Err((unknown.0, errno)), hunt));
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
            1 => Ok(Beneath { files: a, bytes: b }),
            2 => Err((
                Gate::ALL.get(a as usize).copied().unwrap_or(unknown.0),
                Errno(b as i32),
            )),
            _ => Err(ended
                .as_ref()
                .map_or_else(|&errno| (Gate::Unshare, errno), |_| unknown)),
        };
        settle(&mut points[point], looked, hunt);
        if unread > 0 {
            let kind = WarningKind::UnreadBeneath(unread);
            hunt.warnings
                .push(Warning::about(&points[point].target, kind));
        }
    }
}

/// What the child does: takes off what lies over a mount until a name leads to it, then looks
/// beneath what is on it.
fn uncover(
    points: &[Point],
    which: &[usize],
    rows: &[Mount],
    top: Option<u64>,
    mut found: impl FnMut(usize, Looked, usize),
) {
    if let Err(errno) = unshare_mounts() {
        return (0..which.len()).for_each(|at| found(at, Err((Gate::Unshare, errno)), 0));
    }
    let mut nobody = |_: &crate::method::Progress, _: &[u8]| {};
    let mut hunt = SearchContext::new(Loss::Count, &mut nobody);
    let mut rows = rows.to_vec();
    let parent_of = |at: usize| points[which[at]].parent;
    let mut left: Vec<usize> = (0..which.len()).collect();
    while !left.is_empty() {
        let reached = uncovered(&Tree::new(&rows), &rows, top);
        let mut copies = Copies::default();
        left.retain(|&at| {
            match rows.iter().find(|row| Some(row.id) == parent_of(at)) {
                None => found(at, Err((Gate::Umount2, Errno::ENOENT)), 0), // taken off with what it is on
                Some(parent) if reached.contains(&parent.id) => {
                    let looked = copies.look(parent, &points[which[at]], &mut hunt);
                    found(at, looked, std::mem::take(&mut hunt.warnings).len());
                }
                Some(_) => return true,
            }
            false
        });
        drop(copies);
        let Some(&next) = left.first() else { return };
        if let Err(failed) = take_off_a_cover(parent_of(next), &mut rows, &reached) {
            found(next, Err(failed), 0);
            left.remove(0);
        }
    }
}

/// Detaches one of the mounts that lie over a mount.
fn take_off_a_cover(
    covered: Option<u64>,
    rows: &mut Vec<Mount>,
    reached: &HashSet<u64>,
) -> Result<(), (Gate, Errno)> {
    let stuck = (Gate::Umount2, Errno::ENOENT);
    let row = |id: u64| rows.iter().find(|row| row.id == id);
    // The highest mount on the way to it that no name leads to.
    let mut hidden = covered.and_then(row).ok_or(stuck)?;
    while let Some(above) = row(hidden.parent).filter(|above| !reached.contains(&above.id)) {
        hidden = above;
    }
    let name = hidden.target.as_deref().ok_or(stuck)?;
    // What lies over it is the deepest mount that its name leads through.
    let over = |cover: &&Mount| {
        let through = cover
            .target
            .as_deref()
            .is_some_and(|target| below(target, name).is_some());
        through && reached.contains(&cover.id) && cover.id != hidden.parent
    };
    let cover = rows
        .iter()
        .filter(over)
        .max_by_key(|cover| cover.target.as_ref().map_or(0, Vec::len))
        .ok_or(stuck)?;
    let target =
        c_string(cover.target.as_deref().unwrap_or_default()).map_err(|e| (Gate::Umount2, e))?;
    umount_detach(&target).map_err(|e| (Gate::Umount2, e))?;
    let mut gone = HashSet::from([cover.id]);
    while let Some(next) = rows
        .iter()
        .find(|row| gone.contains(&row.parent) && !gone.contains(&row.id))
    {
        gone.insert(next.id);
    }
    rows.retain(|row| !gone.contains(&row.id));
    Ok(())
}

/// Counts what the name `rest` of a copied mount holds.
fn count(copy: &Fd, rest: &[u8], point: &Point, hunt: &mut SearchContext<'_>) -> Looked {
    let mut sum = Sum::default();
    if point.kind == Some(Kind::File) {
        let reach = reach(copy.as_fd(), rest).map_err(|e| (Gate::Openat, e))?;
        let seen = statx(
            reach.dir(),
            reach.rest(),
            At::SYMLINK_NOFOLLOW,
            Want::BASIC_STATS,
        );
        sum.add(&seen.map_err(|e| (Gate::Statx, e))?);
        return Ok(sum.beneath);
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
    while let Some(at) = queue.pop() {
        let path = queue.path(at);
        hunt.directory(&path);
        hunt.read(
            &path,
            queue.open(at),
            &mut buffer,
            |hunt, dir, entry| match statx(
                dir,
                entry.name,
                At::SYMLINK_NOFOLLOW | At::NO_AUTOMOUNT,
                Want::BASIC_STATS,
            ) {
                Ok(seen) if seen.file_type == FileType::Directory => {
                    queue.push(at, entry.name.to_bytes(), ())
                }
                Ok(seen) => sum.add(&seen),
                Err(errno) => hunt.failed(&join(&path, entry.name.to_bytes()), Gate::Statx, errno),
            },
        );
    }
    Ok(sum.beneath)
}

#[derive(Default)]
struct Sum {
    beneath: Beneath,
    linked: HashSet<((u32, u32), u64)>,
}

impl Sum {
    fn add(&mut self, seen: &Statx) {
        if seen.nlink > 1 && !self.linked.insert((seen.dev, seen.ino)) {
            return;
        }
        self.beneath.files += 1;
        if seen.file_type == FileType::Regular {
            self.beneath.bytes += seen.size;
        }
    }
}
