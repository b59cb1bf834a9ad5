//! `search`: fathom's own method. The paths in the mount table are checked first, by one `statx`
//! each; only if they are inconclusive, the tree is searched breadth first, pruned and ended by the
//! ids and parents in the table.
//!
//! A mount point is a file that `statx` reports as the root of a mount, so bind mounts of the same
//! device and mounts on regular files are found. No field is requested, so that `statx` neither
//! triggers an automount nor waits for a server.
//!
//! The table is only a hint. A path in it counts only if `statx` finds the mount with that id
//! there. If a path does not hold, a mount is missing from the table, or the table has changed
//! meanwhile, the search continues: with a fresh table, and finally without any, reading every
//! directory.

use std::collections::{HashMap, HashSet};

use base::path::{below, compare, join, parent};
use base::warning::Warning;
use gate::fs::{AtFlags, Attributes, FileType, Open, Statx, StatxMask, fstatfs, openat, statx};
use gate::long::statx_long;
use gate::{Errno, Fd, Gate};
use ondisk::{Dev, Mount};

use super::breadth::Queue;
use super::context::SearchContext;
use super::depth;
use crate::check::{ANSWER_WITHIN, find_silent};
use crate::doubt::doubtful;
use crate::error::{Error, Incompleteness, WarningKind};
use crate::kind::is_fuse;
use crate::point::{MountClass, Point, PointKind};
use crate::root::Root;
use crate::table::{Table, TableReason, read_either};
use crate::tree::Tree;

/// Maximum number of times that the table is read, before the search gives up on a table that keeps
/// changing.
const ROUNDS: usize = 4;
const LOOK: AtFlags = AtFlags::SYMLINK_NOFOLLOW
    .union(AtFlags::NO_AUTOMOUNT)
    .union(AtFlags::STATX_DONT_SYNC);

/// Information that getmnt2, getmnt3 and search have before they begin.
#[derive(Clone, Debug, Default)]
pub enum Hints {
    /// The kernel's mount table; for search, including its paths.
    #[default]
    Auto,
    /// No information.
    None,
    /// The kernel's mount table without its paths.
    Ids,
    /// Paths from a file, which are checked first; and the kernel's table without its paths.
    File(Vec<Vec<u8>>),
}

/// The source of information that the result of a search is based on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum SearchReason {
    #[error("statx(2) does not report mount points here, so st_dev was compared")]
    NoMountAttributes,
    #[error("all directories were read, without hints")]
    NoHints,
    #[error("all directories were read: no mount table ({0})")]
    NoTable(Error),
    #[error("all paths in the mount table were confirmed ({0})")]
    NamesHold(TableReason),
    #[error("directories were read where the mount table is ambiguous")]
    TableLeavesOpen,
}

pub(crate) struct SearchResult {
    pub(crate) points: Vec<Point>,
    pub(crate) reason: SearchReason,
    /// The mount that contains the root of the search, if a table has it.
    pub(crate) root_mount: Option<Mount>,
}

/// Finds every visible mount at or below `root`.
pub(crate) fn find(root: &Root, hints: &Hints, context: &mut SearchContext<'_>) -> SearchResult {
    let (Some(anchor), Some(is_mount_root)) = (root.anchor, root.is_mount_root) else {
        return find_by_device(root, context);
    };
    let nameless = matches!(hints, Hints::Ids | Hints::File(_));
    let read = || read_either(nameless, root.anchor);
    let (warnings, reasons) = (context.warnings.len(), context.incomplete.len());
    let mut search = Search {
        root,
        anchor,
        context,
        found: HashMap::new(),
        denied: HashSet::new(),
        doubtful: HashSet::new(),
        silent: HashMap::new(),
        silent_paths: HashSet::new(),
        autofs: HashSet::new(),
    };
    let mut table = (!matches!(hints, Hints::None)).then(read);
    let mut rounds = 0;
    loop {
        rounds += 1;
        search.context.warnings.truncate(warnings);
        search.context.incomplete.truncate(reasons);
        search.found.clear();
        search.denied.clear();
        search.silent_paths.clear();
        let (rows, mut reason) = match &table {
            None => (None, SearchReason::NoHints),
            Some(Ok((table, reason))) => (Some(table), SearchReason::NamesHold(reason.clone())),
            Some(Err(error)) => (None, SearchReason::NoTable(error.clone())),
        };
        search.doubtful = rows.map_or_else(HashSet::new, |table| doubtful(&table.mounts));
        let tree = rows.map(|table| Tree::new(&table.mounts));
        if is_mount_root {
            let path = root.path.clone();
            search.enter(path, PointKind::Dir, root.dev, anchor, None, tree.as_ref());
        }
        if let Hints::File(names) = hints {
            search.try_names(names, tree.as_ref());
        }
        let named = rows.zip(tree.as_ref()).filter(|_| !nameless);
        let all_names_hold = named.is_some_and(|(table, tree)| search.verify(&table.mounts, tree));
        let mut contradicted = false;
        if !all_names_hold {
            if named.is_some_and(|(table, _)| table.has_changed()) && rounds < ROUNDS {
                // paths that do not hold may be outdated, so read the table again
                table = Some(read());
                continue;
            }
            if rows.is_some() {
                reason = SearchReason::TableLeavesOpen;
            }
            let rows = rows.map(|table| table.mounts.as_slice());
            contradicted = search.breadth_first(rows, tree.as_ref());
        }
        let root_mount = tree.as_ref().and_then(|tree| tree.row(anchor).cloned());
        let fresh = rows.filter(|table| table.has_changed()).map(|_| read());
        let is_current = !contradicted && is_current(root, rows, fresh.as_ref());
        if is_current || rounds == ROUNDS {
            if !is_current {
                search
                    .context
                    .mark_incomplete(Incompleteness::TableKeptChanging);
            }
            return SearchResult {
                points: search.into_points(),
                reason,
                root_mount,
            };
        }
        // If the table has changed, use a fresh one. Otherwise it lacks an existing mount: search
        // without a table.
        table = fresh;
    }
}

/// Finds every visible directory where `st_dev` changes, for a statx(2) that does not report roots
/// of mounts.
fn find_by_device(root: &Root, context: &mut SearchContext<'_>) -> SearchResult {
    let style = depth::SearchStyle {
        full_names: false,
        buffer: 64 << 10,
        bound: None,
        is_leaf: &|_| false,
    };
    context.mark_incomplete(Incompleteness::NoMountAttributes);
    SearchResult {
        points: depth::search(root, &style, context),
        reason: SearchReason::NoMountAttributes,
        root_mount: None,
    }
}

/// Whether a table is still valid for the mounts at or below the root, given a newer table if it
/// has changed. (Changes elsewhere do not matter.)
fn is_current(
    root: &Root,
    table: Option<&Table>,
    newer: Option<&Result<(Table, TableReason), Error>>,
) -> bool {
    let relevant = |table: &Table| -> Vec<(u64, u64, Option<Vec<u8>>)> {
        let is_below = |target| below(&root.path, target).is_some();
        let rows = table.mounts.iter();
        rows.filter(|row| row.target.as_deref().is_none_or(is_below))
            .map(|row| (row.id, row.parent, row.target.clone()))
            .collect()
    };
    match (table, newer) {
        (_, None) => true,
        (Some(old), Some(Ok((new, _)))) => relevant(old) == relevant(new),
        _ => false,
    }
}

#[derive(Clone, Copy)]
struct Directory {
    mount: u64,
    enter: OpenMode,
}

/// How to open a directory without triggering an automount.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OpenMode {
    /// The directory can be opened, which triggers no automount.
    Directly,
    /// The directory is the root of a mount that may be autofs: open it with `O_PATH` first.
    Carefully,
    /// The directory is on autofs, and opening it would trigger a mount.
    Never,
}

struct Search<'r, 'h, 'a> {
    root: &'r Root,
    anchor: u64,
    context: &'h mut SearchContext<'a>,
    found: HashMap<Vec<u8>, Point>,
    /// Ids of mounts whose mount point this process has no permission to examine.
    denied: HashSet<u64>,
    /// Ids of mounts that were checked, and whether they do not answer.
    /// Ids of the mounts that may wait for a server.
    doubtful: HashSet<u64>,
    silent: HashMap<u64, bool>,
    /// Paths of the mounts that do not answer.
    silent_paths: HashSet<Vec<u8>>,
    autofs: HashSet<u64>,
}

impl Search<'_, '_, '_> {
    fn enter(
        &mut self,
        path: Vec<u8>,
        kind: PointKind,
        dev: Dev,
        id: u64,
        on: Option<u64>,
        tree: Option<&Tree<'_>>,
    ) {
        let point = match tree.and_then(|tree| Some((tree, tree.row(id)?))) {
            Some((tree, row)) => {
                Point::from_row(row.clone(), path.clone(), Some(kind), tree.class(id), false)
            }
            None => Point {
                id: Some(id),
                parent: on,
                ..Point::bare(path.clone(), dev, Some(kind))
            },
        };
        self.found.insert(path, point);
    }

    /// Checks the paths of [`Hints::File`], and adds the mount points among them.
    fn try_names(&mut self, names: &[Vec<u8>], tree: Option<&Tree<'_>>) {
        let root = self.root;
        let is_below = |name: &&Vec<u8>| below(&root.path, name).is_some_and(|n| !n.is_empty());
        for name in names.iter().filter(is_below) {
            self.context.progress.entries += 1;
            let is_canonical = Root::open(parent(name)).is_ok_and(|dir| dir.path == parent(name));
            if let Ok(seen) = statx_long(name, LOOK, StatxMask::empty())
                && is_canonical
                && let Some(id) = mount_root(&seen)
            {
                let kind = kind(&seen, true);
                self.enter(name.clone(), kind, seen.dev, id, None, tree);
            }
        }
    }

    /// Checks mounts whose server might not answer, each at its path, and warns of those that do
    /// not.
    fn check_mounts(&mut self, mounts: &[(&Mount, &[u8])]) {
        let unknown = mounts.iter().copied();
        let unknown: Vec<(&Mount, &[u8])> = unknown
            .filter(|(row, _)| {
                self.doubtful.contains(&row.id) && !self.silent.contains_key(&row.id)
            })
            .collect();
        if let Ok(silent) = find_silent(unknown.iter().copied(), ANSWER_WITHIN) {
            let ids = unknown.iter().map(|(row, _)| row.id);
            self.silent.extend(ids.zip(silent));
        }
        for (row, path) in mounts {
            if !self.is_silent(row.id) {
                continue;
            }
            let kind = WarningKind::NotSearched(ANSWER_WITHIN);
            self.context.warnings.push(Warning::about(path, kind));
            self.context.mark_incomplete(Incompleteness::SilentMounts);
            self.silent_paths.insert(path.to_vec());
        }
    }

    fn is_silent(&self, id: u64) -> bool {
        self.silent.get(&id).copied().unwrap_or_default()
    }

    /// Checks the path of every mount that should be visible. Returns whether all hold, as far as
    /// this process has permission. Mounts behind a server that does not answer are taken from the
    /// table.
    fn verify(&mut self, rows: &[Mount], tree: &Tree<'_>) -> bool {
        let visible = tree.visible(&self.root.path, self.anchor);
        let mut all_hold = true;
        let rows = rows.iter().zip(visible).filter_map(|(row, is_visible)| {
            let target = row.target.as_deref()?;
            let is_below = below(&self.root.path, target).is_some();
            (is_visible && row.id != self.anchor && is_below).then_some((row, target))
        });
        let rows: Vec<(&Mount, &[u8])> = rows.collect();
        // The root of a FUSE mount is found without asking its server.
        let waits = |row: &Mount| {
            !is_fuse(&row.content.fstype) || tree.class(row.id) == MountClass::Internal
        };
        let asked: Vec<_> = rows.iter().copied().filter(|(row, _)| waits(row)).collect();
        self.check_mounts(&asked);
        for (row, target) in rows {
            let mut silent = self.silent_paths.iter();
            if silent.any(|silent| below(silent, target).is_some()) {
                let dir = PointKind::Dir;
                self.enter(target.to_vec(), dir, row.dev, row.id, None, Some(tree));
                continue;
            }
            self.context.progress.entries += 1;
            match statx_long(target, LOOK, StatxMask::empty()) {
                Ok(seen) if mount_root(&seen) == Some(row.id) => {
                    let is_dir = tree.has_mount_inside(row) || row.content.fsroot == b"/";
                    let kind = kind(&seen, is_dir);
                    let dev = seen.dev;
                    self.enter(target.to_vec(), kind, dev, row.id, None, Some(tree));
                }
                Err(errno @ (Errno::EACCES | Errno::EPERM)) => {
                    let kind = WarningKind::UnreadableMountPoint;
                    let warning = Warning::failed(target, Gate::Statx, errno, kind);
                    self.context.warnings.push(warning);
                    self.context
                        .mark_incomplete(Incompleteness::UnreadableMountPoints);
                    self.denied.insert(row.id);
                }
                _ => all_hold = false,
            }
        }
        all_hold
    }

    /// Searches directory by directory. With a table, only mounts with missing submounts are
    /// searched: for directories first, and for files only if mounts are still missing. Returns
    /// whether a mount was found that the table lacks.
    fn breadth_first(&mut self, rows: Option<&[Mount]>, tree: Option<&Tree<'_>>) -> bool {
        let mut sought = rows.map(|rows| MissingMounts::new(rows, self.anchor));
        if let Some(sought) = &mut sought {
            for id in self.found.values().filter_map(|point| point.id) {
                sought.found(id, None);
            }
            for &id in &self.denied {
                sought.found(id, None);
            }
        }
        let top = Directory {
            mount: self.anchor,
            enter: OpenMode::Carefully,
        };
        let mut queue = Queue::new(self.root, top);
        let mut buffer = vec![0u8; 64 << 10];
        let mut contradicted = false;
        while let Some(at) = queue.pop() {
            let Directory { mount, enter } = queue.node(at).data;
            let is_done = sought.as_ref().is_some_and(|sought| sought.is_done(mount));
            if enter == OpenMode::Never || is_done {
                self.context.progress.pruned += 1;
                continue;
            }
            let path = queue.path(at);
            self.context.directory(&path);
            let is_wanted = |t: FileType| sought.is_none() || t.may_be_directory();
            for (name, entry_type, seen) in
                self.read_directory(&queue, at, &path, &mut buffer, is_wanted)
            {
                let new_mount = mount_root(&seen);
                if let Some(id) = new_mount {
                    let kind = kind(&seen, entry_type.may_be_directory());
                    let dev = seen.dev;
                    self.enter(join(&path, &name), kind, dev, id, Some(mount), tree);
                    if let Some(sought) = &mut sought {
                        contradicted |= !sought.found(id, Some(mount));
                    }
                }
                let is_directory = match seen.file_type {
                    FileType::Unknown => entry_type.may_be_directory(),
                    other => other == FileType::Directory,
                };
                if is_directory && !seen.attributes.contains(Attributes::AUTOMOUNT) {
                    let mount = new_mount.unwrap_or(mount);
                    let row = tree.and_then(|tree| tree.row(mount));
                    let at_mount = row.filter(|_| new_mount.is_some());
                    if let Some(row) = at_mount {
                        self.check_mounts(&[(row, &join(&path, &name))]);
                    }
                    let enter = match new_mount {
                        _ if self.is_silent(mount) => OpenMode::Never,
                        None if self.autofs.contains(&mount) => OpenMode::Never,
                        Some(_) if row.is_none_or(|row| row.content.fstype == b"autofs") => {
                            OpenMode::Carefully
                        }
                        _ => OpenMode::Directly,
                    };
                    queue.push(at, &name, Directory { mount, enter });
                }
            }
        }
        if let Some(mut sought) = sought.filter(|sought| !sought.is_empty()) {
            contradicted |= self.search_files(&queue, &mut sought, &mut buffer, tree);
        }
        contradicted
    }

    /// The second round of a search with a table: examines all files that are not directories, on
    /// mounts with missing submounts.
    fn search_files(
        &mut self,
        queue: &Queue<'_, Directory>,
        sought: &mut MissingMounts,
        buffer: &mut Vec<u8>,
        tree: Option<&Tree<'_>>,
    ) -> bool {
        let mut contradicted = false;
        for at in 0..queue.len() {
            let Directory { mount, enter } = queue.node(at).data;
            if enter == OpenMode::Never || sought.is_done(mount) {
                continue;
            }
            let path = queue.path(at);
            let is_file = |t: FileType| !t.may_be_directory();
            for (name, _, seen) in self.read_directory(queue, at, &path, buffer, is_file) {
                if let Some(id) = mount_root(&seen) {
                    let (kind, dev) = (kind(&seen, false), seen.dev);
                    self.enter(join(&path, &name), kind, dev, id, Some(mount), tree);
                    contradicted |= !sought.found(id, Some(mount));
                }
            }
        }
        contradicted
    }

    /// Reads a directory, and returns the entries that may be directories or mounts.
    fn read_directory(
        &mut self,
        queue: &Queue<'_, Directory>,
        at: usize,
        path: &[u8],
        buffer: &mut Vec<u8>,
        is_wanted: impl Fn(FileType) -> bool,
    ) -> Vec<(Vec<u8>, FileType, Statx)> {
        let mut entries = Vec::new();
        let opened = if queue.node(at).data.enter == OpenMode::Carefully {
            self.open_carefully(queue, at)
        } else {
            queue.open(at)
        };
        let silent = &self.silent_paths;
        self.context
            .read(path, opened, buffer, |context, dir, entry| {
                if !is_wanted(entry.file_type) {
                    return;
                }
                let name = entry.name.to_bytes();
                if !silent.is_empty() && silent.contains(&join(path, name)) {
                    return;
                }
                match statx(dir, entry.name, LOOK, StatxMask::empty()) {
                    Ok(seen)
                        if mount_root(&seen).is_none() && !seen.file_type.may_be_directory() => {}
                    Ok(seen) => entries.push((name.to_vec(), entry.file_type, seen)),
                    Err(errno) => context.failed(&join(path, name), Gate::Statx, errno),
                }
            });
        entries
    }

    /// Opens the root of a mount, and checks whether it is autofs.
    fn open_carefully(&mut self, queue: &Queue<'_, Directory>, at: usize) -> gate::Result<Fd> {
        const AUTOFS_SUPER_MAGIC: u64 = 0x0187;
        let place = queue.open_path(at)?;
        if fstatfs(&place)?.magic == AUTOFS_SUPER_MAGIC {
            self.autofs.insert(queue.node(at).data.mount);
        }
        openat(&place, c".", Open::SCAN)
    }

    fn into_points(self) -> Vec<Point> {
        let mut points: Vec<Point> = self.found.into_values().collect();
        points.sort_by(|a, b| compare(&a.target, &b.target));
        let parents: HashSet<u64> = points.iter().filter_map(|point| point.parent).collect();
        for point in &mut points {
            if point.content.is_none() && point.id.is_some_and(|id| parents.contains(&id)) {
                point.class = MountClass::Internal;
            }
        }
        points
    }
}

/// The kind of a file; if the kernel does not report it, `is_dir` decides.
fn kind(seen: &Statx, is_dir: bool) -> PointKind {
    match seen.file_type {
        FileType::Directory => PointKind::Dir,
        FileType::Unknown if is_dir => PointKind::Dir,
        _ => PointKind::File,
    }
}

/// The id of the mount whose root the file is, if it is one.
fn mount_root(seen: &Statx) -> Option<u64> {
    seen.attributes
        .contains(Attributes::MOUNT_ROOT)
        .then_some(seen.mnt_id)
        .flatten()
}

/// The mounts that are still missing, by the ids and parents of the table.
struct MissingMounts {
    parents: HashMap<u64, u64>,
    /// For each mount, how many of the mounts on it have not been found.
    left: HashMap<u64, usize>,
    found: HashSet<u64>,
}

impl MissingMounts {
    /// Marks every mount below the mount `anchor` as missing.
    fn new(rows: &[Mount], anchor: u64) -> MissingMounts {
        let tree = Tree::new(rows);
        let mut left = HashMap::new();
        let mut parents = HashMap::new();
        let mut reached = vec![anchor];
        while let Some(mount) = reached.pop() {
            for &child in tree.on(mount) {
                let id = rows[child].id;
                if id != anchor && parents.insert(id, mount).is_none() {
                    *left.entry(mount).or_default() += 1;
                    reached.push(id);
                }
            }
        }
        MissingMounts {
            parents,
            left,
            found: HashSet::new(),
        }
    }

    /// Records that a mount was found in a directory of the mount `from`, and with it the mounts
    /// between the two, which it covers. Returns whether the table has the mount.
    fn found(&mut self, id: u64, from: Option<u64>) -> bool {
        let mut mount = id;
        loop {
            let Some(&parent) = self.parents.get(&mount) else {
                return mount != id;
            };
            if self.found.insert(mount) {
                let left = self.left.entry(parent).or_default();
                *left = left.saturating_sub(1);
            }
            if from.is_none_or(|from| from == parent) || self.found.contains(&parent) {
                return true;
            }
            mount = parent;
        }
    }

    fn is_done(&self, mount: u64) -> bool {
        self.left.get(&mount).is_none_or(|&left| left == 0)
    }

    fn is_empty(&self) -> bool {
        self.left.values().all(|&left| left == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn covered_mounts_are_found_with_the_mount_that_covers_them() {
        let row = |id, parent| Mount {
            id,
            parent,
            ..Mount::default()
        };
        // Mount 3 covers 2, which is on 1; 4 is elsewhere on 1; 9 is in a different tree.
        let mut sought =
            MissingMounts::new(&[row(1, 0), row(2, 1), row(3, 2), row(4, 1), row(9, 8)], 1);
        assert!(sought.found(3, Some(1)));
        assert!(!sought.is_done(1) && sought.is_done(2));
        assert!(sought.found(4, Some(1)) && sought.is_empty());
        assert!(!sought.found(77, Some(1)), "the table does not hold it");
    }
}
