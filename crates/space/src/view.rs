//! The mount through which a file system is read.
//!
//! Files beneath mounts are visible in a clone of the mount without the mounts on it: open_tree(2) with OPEN_TREE_CLONE,
//! which needs root. Otherwise files beneath mounts are skipped.

use std::sync::Arc;
use std::time::Duration;

use base::path::{below, join};
use base::{Capacity, Warning};
use gate::Gate;
use gate::fs::{Open, Statfs, fstatfs, syncfs};
use gate::long::open_long;
use gate::mount::mount_id;
use mounts::check::find_silent_paths;
use mounts::doubt::doubtful;
use mounts::{is_kernel_file_system, may_hang};
use ondisk::Mount;
use walk::{
    Diagnostics, EngineKind, Filter, ReachableMounts, Top, WalkOptions, mounts_around, open_top,
    walk,
};

use crate::bill::{Bill, Item, ItemKind, Remedy, sum};
use crate::deleted::OpenDeletedFiles;
use crate::error::{Error, WarningKind};
use crate::files::{FileSums, Files, MarkedPaths};
use crate::loop_images::{add_rest, deleted_images, is_image};
use crate::source::{TableSource, beneath, bind_target, copy_of, covered, signed};
use crate::{btrfs, deleted, ext4, xfs};

/// A mount of the examined file system.
#[derive(Debug)]
pub struct ExaminedMount {
    /// The root of the mount.
    top: Top,
    /// The absolute path of the mount point.
    mount_point: Vec<u8>,
    /// The mount's row in the mount table; mostly empty if there is no table.
    mount: Mount,
    /// The mount table.
    table: Vec<Mount>,
    /// Deleted files that are still open.
    deleted: OpenDeletedFiles,
    warnings: Vec<Warning>,
}

impl ExaminedMount {
    /// Finds the file system of DIR, the mount that shows most of it, and its deleted files that are open. Must be called
    /// before threads are started: if a server may be dead, a forked child process accesses DIR first.
    ///
    /// # Errors
    /// DIR does not answer within `deadline`, cannot be opened, or is on a file system of the kernel without a size.
    pub fn of_directory(dir: &[u8], deadline: Duration) -> Result<ExaminedMount, Error> {
        let table = mounts_if_answering(dir, deadline)?;
        let given = open_top(dir, 0).map_err(walk::Error::Directory)?;
        let Some(own) = given.mount(&table).cloned() else {
            let mount = Mount {
                id: given.meta.mount,
                dev: given.meta.dev,
                ..Mount::default()
            };
            let other = mounts::namespace::other_namespace(&given.fd);
            let kind = other.map_or(WarningKind::UnknownMount, WarningKind::OtherNamespace);
            return Ok(ExaminedMount::new(dir, given, mount, table, Some(kind)));
        };
        let has_no_size = || fstatfs(&given.fd).is_ok_and(|statfs| statfs.size == 0);
        if is_kernel_file_system(&own.content.fstype) && has_no_size() {
            let fstype = own.content.fstype.clone();
            return Err(Error::KernelFileSystem(dir.to_vec(), fstype));
        }
        let is_partial = !is_whole(&own) && own.content.fstype != b"btrfs";
        let whole = table
            .iter()
            .filter(|row| is_partial && row.dev == own.dev && is_whole(row));
        let candidates = std::iter::once(&own).chain(whole);
        // All candidates except DIR's own mount show the whole file system: prefer the last one
        // that can be opened.
        let mut opened = candidates
            .filter(|row| is_near(row, &table))
            .filter_map(|row| {
                let top = open_top(row.target.as_deref()?, 0).ok()?;
                (top.meta.mount == row.id).then_some((row.clone(), top))
            });
        let (mount, top) = opened.next_back().unwrap_or((own, given));
        let is_partial = !is_whole(&mount) && mount.content.fstype != b"btrfs";
        let kind = is_partial.then(|| WarningKind::PartOnly(mount.content.fsroot.clone()));
        Ok(ExaminedMount::new(dir, top, mount, table, kind))
    }

    /// `missing` is why a part of the file system is not accounted for.
    fn new(
        dir: &[u8],
        top: Top,
        mount: Mount,
        table: Vec<Mount>,
        missing: Option<WarningKind>,
    ) -> ExaminedMount {
        let mount_point = mounts::root::name_of(&top.fd).unwrap_or_else(|_| dir.to_vec());
        let missing = missing.into_iter();
        let mut warnings = missing
            .map(|kind| Warning::about(&mount_point, kind))
            .collect();
        ExaminedMount {
            deleted: deleted::find(mount.dev, &table, &mut warnings),
            top,
            mount_point,
            mount,
            table,
            warnings,
        }
    }

    /// Reads the file system, and accounts for its space.
    ///
    /// # Errors
    /// The files cannot be walked, or statfs(2) fails.
    pub fn examine(mut self, diagnostics: &Diagnostics) -> Result<Bill, Error> {
        let fstype = self.mount.content.fstype.clone();
        if matches!(&fstype[..], b"btrfs" | b"xfs") {
            // Call syncfs(2), because the ioctls that read trees do not see changes in memory.
            let _ = syncfs(&self.top.fd);
        }
        let trees = match &fstype[..] {
            b"btrfs" => {
                let mut warnings = std::mem::take(&mut self.warnings);
                let files = btrfs::read(&self.source(), &mut warnings);
                self.warnings = warnings;
                files
            }
            _ => None,
        };
        let (files, engine) = match trees {
            Some(files) => (files, EngineKind::Btrfs),
            None => self.walk(diagnostics)?,
        };
        let statfs = fstatfs(&self.top.fd);
        let statfs = statfs.map_err(|errno| Error::Size(self.mount_point.clone(), errno))?;
        let mut items = files.items;
        items.append(&mut self.deleted.items);
        let mut inodes = files.inodes;
        inodes.append(&mut self.deleted.inodes);
        inodes.retain(|sums| sums.inodes > 0);
        inodes.sort_by(|a, b| (b.inodes, &a.path).cmp(&(a.inodes, &b.path)));
        let mut warnings = std::mem::take(&mut self.warnings);
        let source = self.source();
        let mut images = deleted_images(&[self.mount.dev, self.top.meta.dev], &self.table);
        images.retain(|image| !items.iter().any(|item| is_image(item, image)));
        match &fstype[..] {
            b"xfs" => xfs::add_images(&source, &images, &mut items),
            b"btrfs" => items.extend(images.iter().filter_map(|image| {
                let bytes = files.deleted.get(&image.ino)?;
                Some(image.item(*bytes))
            })),
            _ => {}
        }
        match &fstype[..] {
            b"ext2" | b"ext3" | b"ext4" => ext4::add(&source, &statfs, &mut items, &mut warnings),
            b"xfs" => xfs::add(&source, &statfs, &mut items, &mut warnings),
            b"btrfs" => btrfs::add(&source, &statfs, &mut items, &mut warnings),
            _ => add_reserve(&statfs, &mut items),
        }
        let capacity = Capacity::from_statfs(&statfs);
        let missing =
            signed(capacity.used).saturating_sub(sum(items.iter().filter(|it| it.is_in_used)));
        if matches!(&fstype[..], b"ext2" | b"ext3" | b"ext4") {
            ext4::add_shared_xattrs(&source, missing, &mut items);
        }
        if fstype == b"ext4" {
            ext4::add_unnamed(&source, missing, &images, &mut items);
        }
        add_rest(&images, capacity.used, &mut items);
        if statfs.size == 0 {
            warnings.push(Warning::about(&self.mount_point, WarningKind::NoSize));
        }
        items.retain(|item| item.bytes != 0 || item.kind == ItemKind::Snapshot);
        items.sort_by(|a, b| {
            (b.is_in_used, b.bytes, &a.path).cmp(&(a.is_in_used, a.bytes, &b.path))
        });
        Ok(Bill {
            mount_point: self.mount_point,
            fstype,
            source: self.mount.content.source.clone(),
            capacity,
            engine,
            files: files.files,
            items,
            inodes,
            owners: files.owners,
            ages: files.ages,
            caches: files.caches,
            warnings,
        })
    }

    fn source(&self) -> TableSource<'_> {
        TableSource {
            top: &self.top,
            mount: &self.mount,
            mount_point: &self.mount_point,
            table: &self.table,
        }
    }

    /// Walks the files, and the files beneath mounts if the mount can be cloned.
    fn walk(&mut self, diagnostics: &Diagnostics) -> Result<(Files, EngineKind), Error> {
        let covered = covered(&self.mount, &self.mount_point, &self.table);
        let copy = copy_of(&self.top);
        let (dir, options) = match &copy {
            Some((_, path, id)) => {
                let row = Mount {
                    id: *id,
                    ..self.mount.clone()
                };
                let around =
                    (!self.table.is_empty()).then(|| Arc::new(ReachableMounts::known(vec![row])));
                (
                    path.clone(),
                    WalkOptions {
                        around,
                        ..WalkOptions::default()
                    },
                )
            }
            None => {
                if !covered.is_empty() {
                    let kind = beneath(&self.mount_point, &covered);
                    self.warnings.push(Warning::about(&self.mount_point, kind));
                }
                let paths: Vec<_> = covered
                    .iter()
                    .map(|rel| join(&self.mount_point, rel))
                    .collect();
                let none: [&[u8]; 0] = [];
                let options = WalkOptions {
                    filter: Filter::new(&none, None).without(&paths),
                    ..WalkOptions::default()
                };
                (self.mount_point.clone(), options)
            }
        };
        let options = WalkOptions {
            dirs: vec![dir.clone()],
            one_file_system: true,
            ..options
        };
        let marks = MarkedPaths::new(&covered, &self.mount_point);
        // Files on overlayfs can have the device numbers of the layers.
        let is_overlay = self.mount.content.fstype == b"overlay";
        let dev = (!is_overlay).then_some(self.top.meta.dev);
        let sums = FileSums::new(&dir, &self.mount_point, dev, marks);
        diagnostics.show_as(&dir, &self.mount_point);
        let report = walk(&options, &sums, diagnostics)?;
        let engine = report
            .parts
            .first()
            .map_or(EngineKind::Stat, |part| part.engine);
        let mut files = sums.finish();
        self.take_warnings(diagnostics);
        for item in files
            .items
            .iter_mut()
            .filter(|item| item.kind == ItemKind::Hidden)
        {
            let rel = item
                .path
                .as_deref()
                .and_then(|path| below(&self.mount_point, path));
            item.remedy = rel.map(|rel| Remedy::LookBeneath {
                mount_point: self.mount_point.clone(),
                target: bind_target(&self.mount_point, &self.table),
                rel: rel.to_vec(),
            });
        }
        Ok((files, engine))
    }

    /// Takes the warnings of a walk; those about unreadable files are merged into one.
    fn take_warnings(&mut self, diagnostics: &Diagnostics) {
        let (mut first, mut unread) = (None, 0);
        for warning in diagnostics.take_warnings() {
            match warning.gate {
                Some(_) => {
                    unread += match warning.reason::<walk::WarningKind>() {
                        Some(walk::WarningKind::More(more)) => *more,
                        _ => 1,
                    };
                    first.get_or_insert(warning);
                }
                None => self.warnings.push(warning),
            }
        }
        if let Some(first) = first {
            let kind = WarningKind::Unread { files: unread };
            self.warnings.push(Warning {
                reason: Arc::new(kind),
                ..first
            });
        }
    }
}

/// The mount table, once a file system that may hang has answered for a path.
fn mounts_if_answering(path: &[u8], deadline: Duration) -> Result<Vec<Mount>, Error> {
    let table = mounts_around(None);
    // If no child process can be started, assume that the path answers.
    let silent = find_silent_paths([path], &table, &doubtful(&table), deadline).unwrap_or_default();
    match silent == [true] {
        true => Err(Error::Silent(path.to_vec(), deadline)),
        false => Ok(table),
    }
}

/// Reads the capacity and the type of the file system of a file or directory, which need not be readable. The size of a file
/// system of the kernel is 0. Must be called before threads are started, like [`ExaminedMount::of_directory`].
///
/// # Errors
/// The path does not answer within `deadline`, or cannot be opened, or statfs(2) fails.
pub fn read_capacity(path: &[u8], deadline: Duration) -> Result<(Capacity, Vec<u8>), Error> {
    let table = mounts_if_answering(path, deadline)?;
    let fd = open_long(path, Open::PATH).map_err(|errno| {
        let kind = mounts::ErrorKind::OpenDirectory;
        mounts::Error::at(kind, path, Gate::Openat, errno)
    })?;
    let statfs = fstatfs(&fd).map_err(|errno| Error::Size(path.to_vec(), errno))?;
    let id = mount_id(&fd);
    let own = table.into_iter().find(|row| Some(row.id) == id);
    let fstype = own.map_or(Vec::new(), |row| row.content.fstype.clone());
    Ok((Capacity::from_statfs(&statfs), fstype))
}

/// Adds a reserve of which only the size is known.
fn add_reserve(statfs: &Statfs, items: &mut Vec<Item>) {
    let bytes = statfs.free.saturating_sub(statfs.available);
    items.push(Item {
        is_in_used: false,
        ..Item::new(ItemKind::Reserved, signed(bytes))
    });
}

/// Whether a mount shows the whole file system.
fn is_whole(mount: &Mount) -> bool {
    mount.content.fsroot == b"/"
}

/// Whether a path to the mount can be looked up without waiting for a server, except for the server
/// of the mount itself.
fn is_near(mount: &Mount, table: &[Mount]) -> bool {
    let mut above = mount;
    for _ in 0..table.len() {
        let Some(parent) = table
            .iter()
            .find(|row| row.id == above.parent && row.id != above.id)
        else {
            return true;
        };
        if may_hang(&parent.content.fstype) {
            return false;
        }
        above = parent;
    }
    true
}
