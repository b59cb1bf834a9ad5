//! Mounts that a catalog has entries of, and that are no longer there.

use gate::Errno;
use gate::btrfs::BTRFS_SUPER_MAGIC;
use gate::fs::{At, Attributes, Want};
use gate::long::statx_long;
use mounts::Warning;
use walk::Meta;
use walk::entry::joined;

use super::index::each_group;
use crate::catalog::Reader;
use crate::catalog::columns::{DIR, NAME, PART};
use crate::error::Result;
use crate::part::Part;
use crate::warning::WarningKind;

/// Warns of each mount below DIR that a catalog has, and that the tree with the parts `now` does not have,
/// if entries below it are removed: it may have failed, or was not mounted in time. `dir` gives the path of
/// a DIR by its number; `is_removed` tells of a row of the catalog, by its place.
///
/// # Errors
/// The catalog cannot be read.
pub(crate) fn gone_mounts(
    reader: &Reader,
    now: &[Part],
    dir: impl Fn(u32) -> Vec<u8>,
    is_removed: impl Fn(u32) -> bool + Sync,
) -> Result<Vec<Warning>> {
    let is_placeholder = |part: &Part| {
        let at = joined(&dir(part.top), &part.path);
        let seen = statx_long(&at, At::SYMLINK_NOFOLLOW | At::NO_AUTOMOUNT, Meta::WANT);
        part.magic == BTRFS_SUPER_MAGIC && seen.is_ok_and(|seen| Meta::from_statx(&seen).is_stub())
    };
    let gone = Part::gone(&reader.about().parts, now, is_placeholder).into_iter();
    let gone = gone.map(|(number, part)| (number, part, joined(&dir(part.top), &part.path)));
    let gone: Vec<_> = gone.filter(|(_, part, at)| !is_mounted(part, at)).collect();
    if gone.is_empty() {
        return Ok(Vec::new());
    }
    let mut counts = vec![0; gone.len()];
    let read = |group: usize| {
        let (parts, first) = (reader.read(PART, group)?, reader.first(group));
        let (dirs, names) = (reader.read(DIR, group)?, reader.read(NAME, group)?);
        // The mount point itself does not count.
        let is_below = |part: &Part, at: usize| joined(&dirs[at], &names[at]) != part.path;
        let nth = |at: usize| {
            let mut gone = gone.iter();
            gone.position(|(number, part, _)| *number == parts[at] && is_below(part, at))
        };
        let removed = (0..reader.rows(group)).filter(|&at| is_removed(first + at as u32));
        Ok(removed.filter_map(nth).collect::<Vec<usize>>())
    };
    each_group(reader, read, |_, removed| {
        removed.into_iter().for_each(|nth| counts[nth] += 1);
    })?;
    let warn = |((_, _, at), entries): (&(_, _, Vec<u8>), u64)| {
        Warning::about(at, WarningKind::MountGone { entries })
    };
    let counted = gone.iter().zip(counts).filter(|(_, entries)| *entries > 0);
    Ok(counted.map(warn).collect())
}

/// Whether a mount is still there, and only was not walked: it is excluded, or a directory above it cannot be
/// read.
fn is_mounted(part: &Part, at: &[u8]) -> bool {
    match statx_long(at, At::SYMLINK_NOFOLLOW | At::NO_AUTOMOUNT, Want::TYPE) {
        Ok(seen) => seen.attributes.contains(Attributes::MOUNT_ROOT) && part.dev == seen.dev.into(),
        Err(e) => !matches!(e, Errno::ENOENT | Errno::ENOTDIR),
    }
}
