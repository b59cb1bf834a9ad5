//! The extents of btrfs subvolumes, and block groups.
//!
//! df(1) counts all copies of data and metadata as used, divided by the number of copies of data, and the global reserve. Files
//! share extents with other files, subvolumes and snapshots, so `st_blocks` does not add up. Instead all extents of all
//! subvolumes are read by BTRFS_IOC_TREE_SEARCH_V2 (root only), and each is counted once. Extents of several subvolumes or
//! directories are an item of their own, because deleting one of these does not free them.

mod extents;
mod subvolumes;
mod tree;

use std::collections::HashMap;

use base::Warning;
use base::path::below;
use gate::btrfs::{SPACE_HEAD, SPACE_RECORD, get_subvol_info, space_info};
use gate::fs::{Statfs, StatxMask, lstatat};
use gate::long::reach;
use gate::{Errno, Gate};
use ondisk::btrfs::{BlockGroups, Subvolume};
use walk::entry::joined;

use self::extents::{Extents, Holder};
use self::subvolumes::{KnownSubvolume, subvolumes};
use self::tree::{ExtentPlace, SeparateInodes, SubvolumeTree};
use crate::bill::{Item, ItemKind, ItemPart, Remedy, sum};
use crate::caches::CACHES;
use crate::error::WarningKind;
use crate::files::Files;
use crate::source::{TableSource, beneath, bind_target, copy_of, covered, signed};

/// Reads the extents of all subvolumes. `None` without the permission to read them: then the files
/// are walked.
pub(crate) fn read(source: &TableSource<'_>, warnings: &mut Vec<Warning>) -> Option<Files> {
    match read_trees(source, warnings) {
        Ok(files) => Some(files),
        Err(errno) => {
            let (path, kind) = (source.mount_point, WarningKind::Trees);
            warnings.push(Warning::failed(path, Gate::BtrfsTreeSearchV2, errno, kind));
            None
        }
    }
}

fn read_trees(source: &TableSource<'_>, warnings: &mut Vec<Warning>) -> Result<Files, Errno> {
    let fd = &source.top.fd;
    let own = Subvolume::parse(&get_subvol_info(fd)?)
        .ok_or(Errno::EIO)?
        .tree;
    let all = subvolumes(fd)?;
    let paths = Paths::new(source, &all);
    let claims = claims(source, warnings);
    let mut extents = Extents::default();
    let tree = SubvolumeTree::read(fd, own, claims)?;
    let root = paths.of_tree(own);
    let (mut files, places) = tree.count(&mut extents);
    for tree in all.keys().filter(|tree| **tree != own) {
        // A subvolume whose deletion is in progress may have no tree any more.
        let holder = Holder::Subvolume(*tree);
        match tree::read_extents(fd, *tree, |extent| {
            extents.add(extent, holder);
        }) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    let sums = extents.sums();
    let item = |kind, bytes| Item::new(kind, signed(bytes));
    for (nth, place) in places.iter().enumerate() {
        let bytes = sums.get(&Holder::Place(nth)).copied().unwrap_or(0);
        let (kind, rel) = match &place.place {
            ExtentPlace::Root => (ItemKind::Files, &b""[..]),
            ExtentPlace::Top(name) => (ItemKind::Files, &name[..]),
            ExtentPlace::Covered(rel) => (ItemKind::Hidden, &rel[..]),
        };
        let path = match kind {
            ItemKind::Hidden => joined(source.mount_point, rel),
            _ => paths.of_name(&root, rel),
        };
        let remedy = (kind == ItemKind::Hidden).then(|| Remedy::LookBeneath {
            mount_point: source.mount_point.to_vec(),
            target: bind_target(source.mount_point, source.table),
            rel: rel.to_vec(),
        });
        files.items.push(Item {
            path: Some(path),
            owner: place.owner,
            remedy,
            ..item(kind, bytes)
        });
    }
    for (tree, known) in all.iter().filter(|(tree, _)| **tree != own) {
        let bytes = sums.get(&Holder::Subvolume(*tree)).copied().unwrap_or(0);
        files
            .items
            .push(paths.subvolume(*tree, known, bytes, source));
    }
    for (holder, part) in [
        (Holder::Within, ItemPart::Within),
        (Holder::Between, ItemPart::Between),
    ] {
        let bytes = sums.get(&holder).copied().unwrap_or(0);
        files.items.push(item(ItemKind::Shared, bytes).part(part));
    }
    Ok(files)
}

/// The inodes whose contents count separately from the files around them: mount points and caches.
fn claims(source: &TableSource<'_>, warnings: &mut Vec<Warning>) -> SeparateInodes {
    let mut claims = SeparateInodes::default();
    let covered = covered(source.mount, source.mount_point, source.table);
    let copy = copy_of(source.top);
    if copy.is_none() && !covered.is_empty() {
        let kind = beneath(source.mount_point, &covered);
        warnings.push(Warning::about(source.mount_point, kind));
    }
    let dir = copy.as_ref().map_or(&*source.top.fd, |(fd, ..)| fd);
    let inode = |rel: &[u8]| {
        let reach = reach(std::os::fd::AsFd::as_fd(dir), rel).ok()?;
        let seen = lstatat(reach.dir(), reach.rest(), StatxMask::BASIC_STATS).ok()?;
        (seen.dev == source.top.meta.dev).then_some(seen.ino)
    };
    if copy.is_some() {
        for rel in covered {
            if let Some(ino) = inode(&rel) {
                claims.covered.insert(ino, rel);
            }
        }
    }
    for (nth, cache) in CACHES.iter().enumerate() {
        let rel = below(source.mount_point, cache.path.as_bytes());
        if let Some(ino) = rel.filter(|rel| !rel.is_empty()).and_then(inode) {
            claims.caches.insert(ino, nth);
        }
    }
    claims
}

/// Maps paths in the file system to paths under its mounts.
struct Paths<'a> {
    subvolumes: &'a HashMap<u64, KnownSubvolume>,
    /// The mounts of the file system: the directory that each shows, and its mount point.
    mounts: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> Paths<'a> {
    fn new(source: &TableSource<'a>, subvolumes: &'a HashMap<u64, KnownSubvolume>) -> Paths<'a> {
        let own = std::iter::once(source.mount);
        let rows = own.chain(
            source
                .table
                .iter()
                .filter(|row| row.dev == source.mount.dev),
        );
        let mounts = rows.filter_map(|row| Some((&row.content.fsroot[..], row.target.as_deref()?)));
        Paths {
            subvolumes,
            mounts: mounts.collect(),
        }
    }

    /// The path of a subvolume, from the top of the file system.
    fn of_tree(&self, tree: u64) -> Vec<u8> {
        let path = self
            .subvolumes
            .get(&tree)
            .and_then(|known| known.path.clone());
        path.unwrap_or_else(|| b"/".to_vec())
    }

    /// The path of a file `rel` in the subvolume `root`; absolute if a mount shows it.
    fn of_name(&self, root: &[u8], rel: &[u8]) -> Vec<u8> {
        let inside = joined(root, rel);
        self.visible(&inside)
            .unwrap_or_else(|| inside.strip_prefix(b"/").unwrap_or(&inside).to_vec())
    }

    fn visible(&self, inside: &[u8]) -> Option<Vec<u8>> {
        let shown = self.mounts.iter().filter_map(|(fsroot, target)| {
            let rest = below(fsroot, inside)?;
            Some((fsroot.len(), joined(target, rest)))
        });
        // Prefer the mount that shows the smallest part of the file system; among equal ones the
        // first, which is the mount of DIR.
        let shown = shown.reduce(|a, b| if b.0 > a.0 { b } else { a })?;
        Some(shown.1)
    }

    fn subvolume(
        &self,
        tree: u64,
        known: &KnownSubvolume,
        bytes: u64,
        source: &TableSource<'_>,
    ) -> Item {
        let visible = known.path.as_deref().and_then(|path| self.visible(path));
        let inside = known
            .path
            .as_deref()
            .map(|path| path.strip_prefix(b"/").unwrap_or(path));
        let path = visible.clone().or_else(|| inside.map(<[u8]>::to_vec));
        let kind = match known.root.is_snapshot {
            true => ItemKind::Snapshot,
            false => ItemKind::Subvolume,
        };
        let remedy = known.root.is_snapshot.then(|| Remedy::DeleteSnapshot {
            path: visible,
            id: tree,
            mount_point: source.mount_point.to_vec(),
        });
        Item {
            path: path.filter(|path| !path.is_empty()),
            since: Some(known.root.created).filter(|created| created.sec > 0),
            remedy,
            ..Item::new(kind, signed(bytes))
        }
    }
}

/// Adds metadata and reserves, from the space of block groups by type.
pub(crate) fn add(
    source: &TableSource<'_>,
    statfs: &Statfs,
    items: &mut Vec<Item>,
    warnings: &mut Vec<Warning>,
) {
    const RECORDS: usize = 64;
    let mut buffer = [0; SPACE_HEAD + RECORDS * SPACE_RECORD];
    let count = match space_info(&source.top.fd, &mut buffer) {
        Ok(count) => count,
        Err(errno) => {
            let (path, kind) = (source.mount_point, WarningKind::BlockGroups);
            return warnings.push(Warning::failed(path, Gate::BtrfsSpaceInfo, errno, kind));
        }
    };
    let records = buffer[SPACE_HEAD..]
        .as_chunks::<SPACE_RECORD>()
        .0
        .iter()
        .take(count);
    let groups: Vec<BlockGroups> = records.map(|record| BlockGroups::parse(*record)).collect();
    let data = groups.iter().find(|group| group.is_data());
    let copies_of_data = data.map_or(1, |group| group.copies());
    for group in &groups {
        let bytes = group.used.saturating_mul(group.copies()) / copies_of_data;
        // A size that is the rest of the used space absorbs all errors.
        let is_exact = !group.is_mixed();
        let (kind, part, bytes) = match group {
            group if group.is_global_reserve() => {
                (ItemKind::Reserved, ItemPart::FileSystem, group.total)
            }
            group if group.is_mixed() => {
                // In mixed block groups, the space that is not in files is metadata.
                let files = sum(items.iter());
                (
                    ItemKind::Metadata,
                    ItemPart::Trees,
                    bytes.saturating_sub(files.max(0).cast_unsigned()),
                )
            }
            group if group.is_data() => continue,
            group if group.is_system() => (ItemKind::Metadata, ItemPart::System, bytes),
            _ => (ItemKind::Metadata, ItemPart::Trees, bytes),
        };
        items.push(Item {
            is_exact,
            ..Item::new(kind, signed(bytes)).part(part)
        });
    }
    let kept = signed(statfs.free.saturating_sub(statfs.available));
    items.push(Item {
        is_in_used: false,
        ..Item::new(ItemKind::Reserved, kept).part(ItemPart::ForMetadata)
    });
}
