//! Capacity and state of the file systems that store files, one for each device.

use std::cmp::Reverse;
use std::collections::HashMap;

pub use base::Capacity;
use base::path::below;
use mounts::check::Verdict;
use mounts::fault::Fault;
use mounts::{Point, is_pseudo, may_hang};
use ondisk::Dev;

base::named! {
    /// The state of a file system, the worst first.
    #[derive(PartialOrd, Ord)]
    FsState {
        /// The file system did not answer within the deadline.
        Hung "hung",
        /// The server or device of the file system is gone.
        Stale "stale",
        /// Users have no space or no inodes left.
        Full "full",
        /// The kernel has made the file system read-only after an error.
        ReadOnlyByError "read-only by error",
        /// The file system was shut down, or has recorded errors.
        Failing "failing",
        /// At least 90 % of the space or of the inodes are used.
        NearlyFull "nearly full",
        /// The file system answered late.
        Slow "slow",
        /// This user has no permission to examine the file system.
        Denied "denied",
        /// The file system may be on a server that does not answer, so it was not examined.
        NotChecked "not checked",
        /// The file system is mounted read-only.
        ReadOnly "read-only",
        /// No problem is known.
        Ok "ok",
    }
}

impl FsState {
    /// Whether the state is known to be good.
    pub fn is_ok(self) -> bool {
        matches!(self, FsState::Ok | FsState::ReadOnly)
    }

    /// Whether the state needs attention.
    pub fn is_bad(self) -> bool {
        self <= FsState::Slow
    }
}

/// A file system that stores files.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct FileSystem {
    /// The mount point; if the file system is mounted several times, that of the mount which
    /// [`representatives`] chooses.
    pub target: Vec<u8>,
    pub fstype: Vec<u8>,
    pub source: Option<Vec<u8>>,
    /// `None` if the file system was not examined, or does not report its capacity.
    pub capacity: Option<Capacity>,
    pub state: FsState,
}

/// The file systems that store files, the worst state and fullest first, and the number of mounts
/// of pseudo file systems.
pub fn file_systems(
    points: &[&Point],
    capacities: &HashMap<Dev, Capacity>,
) -> (Vec<FileSystem>, usize) {
    let pseudo = points.iter().filter(|point| is_pseudo(point)).count();
    let mut found: Vec<FileSystem> = representatives(points)
        .into_iter()
        .map(|point| {
            let capacity = capacities.get(&point.dev).copied();
            FileSystem {
                target: point.target.clone(),
                fstype: point.fstype().unwrap_or_default().to_vec(),
                source: point.source().map(<[u8]>::to_vec),
                state: state(point, capacity),
                capacity,
            }
        })
        .collect();
    let fullness = |one: &FileSystem| {
        let capacity = one.capacity.filter(|_| !is_image(&one.fstype))?;
        let percents = [capacity.percent(), capacity.inodes_percent()];
        let highest = percents.into_iter().flatten().max_by(f64::total_cmp)?;
        Some((10.0 * highest) as u64)
    };
    let severity = |one: &FileSystem| match one.state {
        FsState::ReadOnly => FsState::Ok,
        state => state,
    };
    found.sort_by_cached_key(|one| (severity(one), Reverse(fullness(one)), one.target.clone()));
    (found, pseudo)
}

/// The full file systems with their mount points.
pub fn full<'a>(
    points: &[&'a Point],
    capacities: &HashMap<Dev, Capacity>,
) -> Vec<(&'a [u8], Capacity)> {
    let full = representatives(points).into_iter().filter_map(|point| {
        let capacity = *capacities.get(&point.dev)?;
        let is_full = state(point, Some(capacity)) == FsState::Full;
        is_full.then_some((&point.target[..], capacity))
    });
    full.collect()
}

/// One mount for each file system that stores files. Prefers mounts of the whole file system, then
/// writable mounts, then the shortest path.
pub fn representatives<'a>(points: &[&'a Point]) -> Vec<&'a Point> {
    let mut best: HashMap<Dev, &'a Point> = HashMap::new();
    let is_read_only = |point: &Point| point.content.as_ref().is_some_and(|it| it.mount_read_only);
    let rank = |point: &Point| {
        let is_part = point.fsroot() != Some(b"/");
        (is_part, is_read_only(point), point.target.len())
    };
    for &point in points {
        if point.hidden || point.fstype().is_none() || is_pseudo(point) {
            continue;
        }
        let known = best.entry(point.dev).or_insert(point);
        if rank(point) < rank(known) {
            *known = point;
        }
    }
    let is_best = |point: &&Point| {
        best.get(&point.dev)
            .is_some_and(|one| std::ptr::eq(*one, *point))
    };
    points.iter().copied().filter(is_best).collect()
}

/// The mounts of [`representatives`] whose capacity can be read without waiting for a server:
/// neither the mount nor its path depends on a server that did not answer.
pub fn answering<'a>(points: &[&'a Point]) -> Vec<&'a Point> {
    let is_doubtful = |point: &&Point| match point.verdict {
        Some(verdict) => !matches!(verdict, Verdict::Ok | Verdict::Failing),
        None => point.fstype().is_some_and(may_hang),
    };
    let visible = points.iter().copied().filter(|point| !point.hidden);
    let doubtful: Vec<_> = visible.filter(is_doubtful).collect();
    let leads_through =
        |point: &Point, other: &&Point| below(&other.target, &point.target).is_some();
    let mut found = representatives(points);
    found.retain(|point| !doubtful.iter().any(|other| leads_through(point, other)));
    found
}

/// Whether the file system is a read-only image, which is always full.
fn is_image(fstype: &[u8]) -> bool {
    [&b"squashfs"[..], b"iso9660", b"erofs", b"cramfs", b"udf"].contains(&fstype)
}

fn state(point: &Point, capacity: Option<Capacity>) -> FsState {
    let fstype = point.fstype().unwrap_or_default();
    let is_read_only = point
        .content
        .as_ref()
        .is_some_and(|content| content.mount_read_only || content.super_read_only);
    let is_full = capacity.is_some_and(|capacity| capacity.is_full());
    let highest = capacity.and_then(|capacity| {
        let percents = [capacity.percent(), capacity.inodes_percent()];
        percents.into_iter().flatten().max_by(f64::total_cmp)
    });
    match (point.verdict, highest) {
        (Some(Verdict::Hung), _) => FsState::Hung,
        (Some(Verdict::Stale), _) => FsState::Stale,
        (Some(Verdict::Denied), _) => FsState::Denied,
        _ if is_image(fstype) => FsState::Ok,
        _ if point.fault == Some(Fault::ReadOnly) => FsState::ReadOnlyByError,
        _ if point.fault.is_some() => FsState::Failing,
        (verdict, Some(percent)) if !is_read_only && percent >= Capacity::NEARLY_FULL => {
            match is_full {
                true => FsState::Full,
                false if verdict == Some(Verdict::Slow) => FsState::Slow,
                false => FsState::NearlyFull,
            }
        }
        (Some(Verdict::Slow), _) => FsState::Slow,
        (None, None) if may_hang(fstype) => FsState::NotChecked,
        _ if is_read_only => FsState::ReadOnly,
        _ => FsState::Ok,
    }
}
