//! Capacity and state of the file systems that store files: one for each device.

use std::cmp::Reverse;
use std::collections::HashMap;

use base::path::below;
use mounts::check::Verdict;
use mounts::fault::Fault;
use mounts::{Point, is_pseudo, may_hang};
use ondisk::Dev;

/// Space and inodes of a file system, as statfs(2) states them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Capacity {
    /// Bytes in all.
    pub size: u64,
    /// Bytes in use.
    pub used: u64,
    /// Bytes that users may still write.
    pub available: u64,
    /// Inodes in all; 0 where the file system has no fixed number.
    pub inodes: u64,
    /// Inodes in use.
    pub inodes_used: u64,
}

impl Capacity {
    /// Percent of the space in use, as df(1) gives it: of what users may use.
    pub fn percent(&self) -> Option<f64> {
        percent(self.used, self.used.saturating_add(self.available))
    }

    /// Percent of the inodes in use.
    pub fn inodes_percent(&self) -> Option<f64> {
        percent(self.inodes_used, self.inodes)
    }

    /// Whether users can make no more files, though there may be space.
    pub fn lacks_inodes(&self) -> bool {
        self.inodes > 0 && self.inodes_used >= self.inodes
    }

    /// Whether users have no space, or no inodes, left.
    fn is_full(&self) -> bool {
        self.lacks_inodes() || self.used > 0 && self.available == 0
    }
}

fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}

/// The state of a file system, the worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FsState {
    /// It did not answer within the deadline.
    Hung,
    /// Its server or device is gone.
    Stale,
    /// No space or no inodes are left to users.
    Full,
    /// An error has made it read-only.
    ReadOnlyByError,
    /// It was shut down, or it has recorded errors.
    Failing,
    /// At least nine tenths of the space or of the inodes are in use.
    NearlyFull,
    /// It answered late.
    Slow,
    /// This user may not look at it.
    Denied,
    /// It may be on a server that does not answer, and was not asked.
    NotChecked,
    /// It is mounted read-only.
    ReadOnly,
    /// None of these.
    Ok,
}

impl FsState {
    /// Its name in tables and in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            FsState::Hung => "hung",
            FsState::Stale => "stale",
            FsState::Full => "full",
            FsState::ReadOnlyByError => "read-only by error",
            FsState::Failing => "failing",
            FsState::NearlyFull => "nearly full",
            FsState::Slow => "slow",
            FsState::Denied => "denied",
            FsState::NotChecked => "not checked",
            FsState::ReadOnly => "read-only",
            FsState::Ok => "ok",
        }
    }

    /// Whether it is known to be in order.
    pub fn is_ok(self) -> bool {
        matches!(self, FsState::Ok | FsState::ReadOnly)
    }

    /// Whether somebody should look at it.
    pub fn is_bad(self) -> bool {
        self <= FsState::Slow
    }
}

/// A file system that stores files.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct FileSystem {
    /// Where it is mounted; of several places the one that shows most of it.
    pub target: Vec<u8>,
    pub fstype: Vec<u8>,
    pub source: Option<Vec<u8>>,
    /// `None` where it was not asked, or did not say.
    pub capacity: Option<Capacity>,
    pub state: FsState,
}

/// The file systems that store files, the worst and fullest first, and how many mounts are pseudo
/// file systems.
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

/// The file systems that are full, each with its path.
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

/// One mount for each file system that stores files: of all of it rather than of a part, one that may
/// be written rather than one that may not, and with the shortest path.
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

/// The mounts of [`representatives`] that can be asked for their capacity without waiting for a
/// server: neither are they on one that has not answered, nor does their path lead through one.
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

/// Whether it is an image that is always full and read-only.
fn is_image(fstype: &[u8]) -> bool {
    [&b"squashfs"[..], b"iso9660", b"erofs", b"cramfs", b"udf"].contains(&fstype)
}

fn state(point: &Point, capacity: Option<Capacity>) -> FsState {
    const NEARLY: f64 = 90.0;
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
        (verdict, Some(percent)) if !is_read_only && percent >= NEARLY => match is_full {
            true => FsState::Full,
            false if verdict == Some(Verdict::Slow) => FsState::Slow,
            false => FsState::NearlyFull,
        },
        (Some(Verdict::Slow), _) => FsState::Slow,
        (None, None) if may_hang(fstype) => FsState::NotChecked,
        _ if is_read_only => FsState::ReadOnly,
        _ => FsState::Ok,
    }
}
