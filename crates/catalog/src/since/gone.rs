//! Finds mounts that a catalog has entries of, but that have disappeared.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use base::Warning;
use base::path::{below, components};
use gate::Errno;
use gate::btrfs::BTRFS_SUPER_MAGIC;
use gate::fs::{Attributes, Statx, StatxMask};
use gate::long::lstat_long;
use mounts::doubt::{covering, doubtful};
use mounts::listed::is_still;
use mounts::root::absolute;
use ondisk::{Dev, Mount};
use serde::{Deserialize, Serialize};
use walk::entry::joined;
use walk::{FileType, Meta, mounts_around};

use super::index::each_group;
use crate::error::Error;
use crate::format::columns::{DIR, NAME, PART};
use crate::format::{About, Reader};
use crate::part::{Part, relative};
use crate::rows::Rows;
use crate::stored;
use crate::warning::WarningKind;

/// A mount that has disappeared: it may have failed, or not been mounted in time.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct GoneMount {
    /// Number of entries below the mount point.
    pub entries: u64,
    /// Absolute path of the mount point, if known.
    #[serde(
        flatten,
        with = "stored::mount_point",
        skip_serializing_if = "Option::is_none"
    )]
    pub mount_point: Option<Vec<u8>>,
    /// Path of the mount point, or of the SRC if the SRC was inside the mount.
    #[serde(flatten, with = "stored::path")]
    pub path: Vec<u8>,
}

impl GoneMount {
    /// The warning about the mount.
    pub fn warning(&self) -> Warning {
        let entries = self.entries;
        Warning::about(&self.path, WarningKind::MountGone { entries })
    }

    /// Whether the mount was replaced on purpose: its directory now has at least as many entries.
    fn is_replaced(&self, rows: &Rows) -> bool {
        let found = self.find(rows);
        found.is_some_and(|row| (rows.end(row) - row) as u64 > self.entries)
    }

    /// Whether the mount is still missing in a later tree: its directory exists and is dumped,
    /// nothing is mounted there, and it was not replaced. `rows` is `None` if nothing has changed.
    fn is_missed(&self, rows: Option<&Rows>, mounts: &MountPoints) -> bool {
        let point = self.mount_point.as_ref().unwrap_or(&self.path);
        let is_dumped = |rows| self.find(rows).is_some() && !self.is_replaced(rows);
        // The directory is examined last: below a mount that was skipped, it could not be dumped,
        // and examining it would wait for the server.
        let is_here =
            || !mounts.is_mounted(point, None) && is_still(&self.path, FileType::Directory);
        rows.is_none_or(is_dumped) && is_here()
    }

    /// The row of the directory at the mount's path.
    fn find(&self, rows: &Rows) -> Option<usize> {
        let mut path = Vec::new();
        let mut dirs = rows.directories().map(|row| row as usize);
        dirs.find(|&row| {
            rows.path(row, &mut path);
            components(&path).eq(components(&self.path))
        })
    }
}

/// The current tree, in which mounts are searched.
#[derive(Clone, Copy)]
pub struct TreeNow<'a> {
    pub(crate) parts: &'a [Part],
    /// Absolute paths of the tree's DIRs, if known. `None` for a DIR that is compared with a
    /// catalog of any location.
    pub(crate) roots: Option<&'a [Option<Vec<u8>>]>,
}

/// Mounts in or around DIR that a catalog has and the current tree does not, if entries on them are
/// removed. DIRs of the catalog that are not in the tree do not count. `dir` returns the path of a
/// catalog's DIR by index; `is_removed` tests a row of the catalog, by its index, DIR and relative
/// path.
///
/// # Errors
/// The catalog cannot be read.
pub fn gone_mounts(
    reader: &Reader,
    now: TreeNow<'_>,
    dir: impl Fn(u32) -> Vec<u8>,
    is_removed: impl Fn(u32, u32, &[u8]) -> bool + Sync,
) -> Result<Vec<GoneMount>, Error> {
    let (about, mounts) = (reader.about(), MountPoints::default());
    let place = |part: &Part| {
        let root = about.roots.get(part.top as usize)?;
        Some(joined(root.absolute.as_ref()?, &part.path))
    };
    // A copy of DIR at a different path proves nothing about the mount.
    let is_here = |part: &Part| match now.roots {
        Some(roots) => place(part).is_some_and(|place| {
            let mut roots = roots.iter().flatten();
            roots.any(|root| below(root, &place).is_some())
        }),
        None => {
            let root = about.roots.get(part.top as usize);
            let dir = absolute(&dir(part.top));
            root.is_some_and(|root| root.absolute.is_some() && root.absolute == dir)
        }
    };
    let is_same_place = |old: &Part, part: &Part| match now.roots {
        Some(roots) => {
            let root = roots.get(part.top as usize).and_then(Option::as_ref);
            let now = root.map(|root| joined(root, &part.path));
            now.is_some() && now == place(old)
        }
        None => (old.top, &old.path) == (part.top, &part.path),
    };
    let is_wanted = |part: &Part| now.roots.is_none() || is_here(part);
    let path_of = |part: &Part| {
        let recorded = place(part).filter(|_| is_here(part));
        recorded.unwrap_or_else(|| {
            let dir = dir(part.top);
            joined(&absolute(&dir).unwrap_or(dir), &part.path)
        })
    };
    let is_placeholder = |part: &Part| {
        part.magic == BTRFS_SUPER_MAGIC && is_wanted(part) && mounts.is_stub(&path_of(part))
    };
    let is_bare = |part: &Part, point: &[u8]| {
        point != b"/" && is_here(part) && !mounts.is_mounted(point, None)
    };
    let gone = Part::find_missing(
        &about.parts,
        now.parts,
        is_same_place,
        is_placeholder,
        is_bare,
    );
    let gone = gone.into_iter().filter(|(_, part)| is_wanted(part));
    let gone = gone.map(|(number, part)| (number, part, joined(&dir(part.top), &part.path)));
    // An excluded mount, or one below an unreadable directory, may exist without being walked.
    let is_there = |part: &Part| match &part.mount_point {
        Some(point) if is_here(part) => mounts.is_mounted(point, Some(part.dev)),
        _ => mounts.is_mounted(&path_of(part), Some(part.dev)),
    };
    let gone: Vec<_> = gone.filter(|(_, part, _)| !is_there(part)).collect();
    if gone.is_empty() {
        return Ok(Vec::new());
    }
    let mut counts = vec![0; gone.len()];
    let read = |group: usize| {
        let (parts, first) = (reader.read(PART, group)?, reader.first(group));
        let (dirs, names) = (reader.read(DIR, group)?, reader.read(NAME, group)?);
        let nth = |at: usize| {
            let nth = gone.iter().position(|(number, ..)| *number == parts[at])?;
            let (part, path) = (gone[nth].1, joined(&dirs[at], &names[at]));
            // The mount point itself is no entry of the mount.
            let is_lost = path != part.path && is_removed(first + at as u32, part.top, &path);
            is_lost.then_some(nth)
        };
        let lost = (0..reader.rows(group)).filter_map(nth);
        Ok(lost.collect::<Vec<usize>>())
    };
    each_group(reader, read, |_, lost| {
        lost.into_iter().for_each(|nth| counts[nth] += 1);
    })?;
    let found = gone.into_iter().zip(counts);
    let found = found.map(|((_, part, path), entries)| GoneMount {
        entries,
        mount_point: part.mount_point.clone(),
        path,
    });
    Ok(found.filter(|gone| gone.entries > 0).collect())
}

/// Mounts that are missing in a tree: mounts that have disappeared since the catalog of the last
/// dump, and mounts that were missing at the last dump and still are. `rows` is `None` if the tree
/// is equal to the catalog `same`.
///
/// # Errors
/// The catalog cannot be read.
pub fn missed_mounts(
    last: &Reader,
    same: &About,
    rows: Option<&Rows>,
) -> Result<Vec<GoneMount>, Error> {
    let about = last.about();
    let dir = |top| {
        let root = about.roots.get(top as usize);
        root.map_or_else(Vec::new, |root| root.path.clone())
    };
    let sources = rows.map(|rows| rows.sources().iter().map(|source| &source.absolute));
    let same_roots = same.roots.iter().map(|root| &root.absolute);
    let roots: Vec<Option<Vec<u8>>> = match sources {
        Some(sources) => sources.cloned().collect(),
        None => same_roots.cloned().collect(),
    };
    let now = TreeNow {
        parts: rows.map_or(&same.parts[..], Rows::parts),
        roots: Some(&roots),
    };
    // Hashes of the tree's absolute paths, computed only when needed: mounts seldom disappear.
    let present = OnceLock::new();
    let hasher = RandomState::new();
    let paths = |rows: &Rows| {
        let mut path = Vec::new();
        let hash = |row| {
            rows.path(row, &mut path);
            let source = &rows.sources()[rows.top(row)];
            let above = source.absolute.as_deref().unwrap_or_default();
            hasher.hash_one(joined(above, relative(&source.path, &path)))
        };
        (0..rows.len()).map(hash).collect::<HashSet<u64>>()
    };
    let is_removed = |_, top: u32, path: &[u8]| {
        rows.is_none_or(|rows| {
            let root = about.roots.get(top as usize);
            let above = root.and_then(|root| root.absolute.as_deref());
            let path = joined(above.unwrap_or_default(), path);
            !present
                .get_or_init(|| paths(rows))
                .contains(&hasher.hash_one(path))
        })
    };
    let mut gone = gone_mounts(last, now, dir, is_removed)?;
    let already = about.gone_mounts.iter();
    let is_new = |one: &&GoneMount| gone.iter().all(|other| other.path != one.path);
    let mounts = MountPoints::default();
    let already = already.filter(|gone| is_new(gone) && gone.is_missed(rows, &mounts));
    let already: Vec<GoneMount> = already.cloned().collect();
    gone.extend(already);
    Ok(gone)
}

/// Finds the file systems at paths. A path that crosses a network or FUSE mount is only searched in
/// the mount table, because the server may not answer.
#[derive(Debug, Default)]
pub struct MountPoints {
    /// The mount table, and the ids of its doubtful mounts, once they are needed.
    mounts: OnceLock<(Vec<Mount>, HashSet<u64>)>,
}

impl MountPoints {
    /// The mount that a path is on, if the path crosses a mount that may wait for a server.
    fn find_doubtful(&self, path: &[u8]) -> Option<&Mount> {
        let path = base::path::absolute(path).ok()?;
        let (mounts, doubtful) = self.mounts.get_or_init(|| {
            let mounts = mounts_around(None);
            let doubtful = doubtful(&mounts);
            (mounts, doubtful)
        });
        let is_above = |mount: &Mount| {
            let target = mount.target.as_deref();
            target.is_some_and(|target| below(target, &path).is_some())
        };
        // fathom itself could not run if the server of the root directory did not answer.
        let is_root = |mount: &Mount| mount.target.as_deref() == Some(&b"/"[..]);
        let may_wait = mounts
            .iter()
            .any(|it| doubtful.contains(&it.id) && is_above(it) && !is_root(it));
        covering(&path, mounts).filter(|_| may_wait)
    }

    /// The device number of the file at a path; `None` if the file cannot be examined.
    pub fn device(&self, path: &[u8]) -> Option<Dev> {
        match self.find_doubtful(path) {
            Some(mount) => Some(mount.dev),
            None => examine(path, StatxMask::TYPE).ok().map(|seen| seen.dev),
        }
    }

    /// Whether a path leads to the placeholder of a btrfs subvolume.
    fn is_stub(&self, path: &[u8]) -> bool {
        let is_stub = |seen: Statx| Meta::from_statx(&seen).is_stub();
        self.find_doubtful(path).is_none() && examine(path, Meta::WANT).is_ok_and(is_stub)
    }

    /// Whether a file system is mounted at a path; with `dev`, whether it has this device number.
    /// True if the path cannot be examined.
    fn is_mounted(&self, path: &[u8], dev: Option<Dev>) -> bool {
        if let Some(mount) = self.find_doubtful(path) {
            // A server gives its file system a new device number with each mount.
            return mount.target == base::path::absolute(path).ok();
        }
        match examine(path, StatxMask::TYPE) {
            Ok(seen) => {
                let is_it = dev.is_none_or(|dev| dev == seen.dev);
                seen.attributes.contains(Attributes::MOUNT_ROOT) && is_it
            }
            Err(e) => !matches!(e, Errno::ENOENT | Errno::ENOTDIR),
        }
    }
}

/// Reads attributes of the file at a path, without following a symlink or triggering an automount.
fn examine(path: &[u8], want: StatxMask) -> gate::Result<Statx> {
    lstat_long(path, want)
}
