//! `search`: ours. The names in the mount table are looked at first, one `statx` each; what they
//! leave open is searched breadth first, pruned and ended by the ids and parents of the table.
//!
//! A mount point is what `statx` says is the root of a mount, so bind mounts of the same device and
//! mounts on plain files are seen. It is asked for nothing else, not to trigger an automount and
//! not to wait for a server.
//!
//! What the table says is a hint. A name in it counts only when `statx` finds there the mount with
//! that id; a name that does not hold, a mount that the table lacks, or a table that has changed
//! meanwhile, and the search goes on: with a fresh table, and in the end with none, reading every
//! directory.

use std::collections::{HashMap, HashSet};
use std::fmt;

use gate::fs::{At, Attributes, FileType, Open, Statx, Want, fstatfs, openat, statx};
use gate::long::statx_long;
use gate::{Errno, Fd, Gate};
use ondisk::Mount;
use ondisk::dirent::EntryType;

use super::breadth::Queue;
use super::{SearchContext, depth};
use crate::path::{below, join};
use crate::root::Root;
use crate::table::{self, TableReason};
use crate::tree::Tree;
use crate::{Class, Error, Hints, Incompleteness, Kind, Point, Warning, WarningKind};

/// How often a table that changed is read again before the search gives up on it.
const ROUNDS: usize = 4;
/// How everything is looked at.
const LOOK: At = At::SYMLINK_NOFOLLOW
    .union(At::NO_AUTOMOUNT)
    .union(At::STATX_DONT_SYNC);

/// What a search went by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SearchReason {
    /// Changes of `st_dev`, because statx(2) does not report roots of mounts.
    NoMountAttributes,
    /// Nothing: there were no hints.
    NoHints,
    /// Nothing: no table can be read.
    NoTable(Error),
    /// The table, each name of which was confirmed.
    NamesHold(TableReason),
    /// The table, and directories where it leaves something open.
    TableLeavesOpen,
}

impl fmt::Display for SearchReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SearchReason::NoMountAttributes => f.write_str(
                "statx(2) does not tell mounts here, so changes of st_dev were searched for",
            ),
            SearchReason::NoHints => f.write_str("every directory was read, without hints"),
            SearchReason::NoTable(error) => {
                write!(f, "every directory was read: no mount table ({error})")
            }
            SearchReason::NamesHold(reason) => {
                write!(f, "every name in the mount table holds ({reason})")
            }
            SearchReason::TableLeavesOpen => {
                f.write_str("directories were read where the mount table leaves something open")
            }
        }
    }
}

/// What a search has found.
pub struct Found {
    /// Every visible mount at or below the root.
    pub points: Vec<Point>,
    /// What the search went by.
    pub reason: SearchReason,
    /// Type of the file system that the root is on, if a table said.
    pub root_fstype: Option<Vec<u8>>,
}

/// Every visible mount at or below `root`.
pub fn find(root: &Root, hints: &Hints, hunt: &mut SearchContext<'_>) -> Found {
    let (Some(anchor), Some(is_mount_root)) = (root.anchor, root.is_mount_root) else {
        let style = depth::Style {
            full_names: false,
            buffer: 64 << 10,
            bound: None,
            leaf: &|_| false,
        };
        hunt.mark_incomplete(Incompleteness::NoMountAttributes);
        return Found {
            points: depth::search(root, &style, hunt),
            reason: SearchReason::NoMountAttributes,
            root_fstype: None,
        };
    };
    let nameless = matches!(hints, Hints::Ids | Hints::File(_));
    let read = || table::read_either(nameless, root.anchor);
    let (warned, lacked) = (hunt.warnings.len(), hunt.incomplete.len());
    let mut search = Search::new(root, anchor, hunt);
    let mut table = if matches!(hints, Hints::None) {
        None
    } else {
        Some(read())
    };
    let mut rounds = 0;
    loop {
        rounds += 1;
        search.begin_again(warned, lacked);
        let (rows, mut reason) = match &table {
            None => (None, SearchReason::NoHints),
            Some(Ok((table, reason))) => (Some(table), SearchReason::NamesHold(reason.clone())),
            Some(Err(error)) => (None, SearchReason::NoTable(error.clone())),
        };
        let tree = rows.map(|table| Tree::new(&table.mounts));
        if is_mount_root {
            search.root(tree.as_ref());
        }
        if let Hints::File(names) = hints {
            search.try_names(names, tree.as_ref());
        }
        let named = rows.zip(tree.as_ref()).filter(|_| !nameless);
        let all_names_hold = named.is_some_and(|(table, tree)| search.verify(&table.mounts, tree));
        let mut contradicted = false;
        if all_names_hold {
            // Nothing is left open.
        } else if named.is_some_and(|(table, _)| table.has_changed()) && rounds < ROUNDS {
            table = Some(read()); // the names that do not hold may just be old
            continue;
        } else {
            if rows.is_some() {
                reason = SearchReason::TableLeavesOpen;
            }
            contradicted =
                search.breadth_first(rows.map(|table| table.mounts.as_slice()), tree.as_ref());
        }
        let root_fstype = tree
            .as_ref()
            .and_then(|tree| Some(tree.row(anchor)?.content.fstype.clone()));
        let fresh = rows.filter(|table| table.has_changed()).map(|_| read());
        let changed = match (rows, &fresh) {
            (_, None) => false,
            // Mounts elsewhere may come and go; that alters no answer of ours.
            (Some(old), Some(Ok((new, _)))) => {
                !relevant(root, &old.mounts).eq(relevant(root, &new.mounts))
            }
            _ => true,
        };
        if !changed && !contradicted {
            return Found {
                points: search.into_points(),
                reason,
                root_fstype,
            };
        }
        if rounds == ROUNDS {
            search
                .hunt
                .mark_incomplete(Incompleteness::TableKeptChanging);
            return Found {
                points: search.into_points(),
                reason,
                root_fstype,
            };
        }
        // A table that lacks a mount which is there, and not because that is new, is not to be
        // trusted.
        table = fresh;
    }
}

/// The rows at or below the root, by their ids and names; where names are not known, all.
fn relevant<'a>(
    root: &'a Root,
    rows: &'a [Mount],
) -> impl Iterator<Item = (u64, u64, Option<&'a [u8]>)> {
    let at_or_below = |row: &&Mount| {
        row.target
            .as_deref()
            .is_none_or(|target| below(&root.path, target).is_some())
    };
    rows.iter()
        .filter(at_or_below)
        .map(|row| (row.id, row.parent, row.target.as_deref()))
}

/// What a directory of the queue is known by.
#[derive(Clone, Copy)]
struct About {
    /// The mount that it is on.
    mount: u64,
    enter: Enter,
}

/// How to go into a directory without having anything mounted there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Enter {
    /// It triggers nothing.
    Directly,
    /// It is the root of a mount that may be autofs: first to its place, then in.
    Carefully,
    /// It is on autofs, and to open it would have it mounted.
    Never,
}

struct Search<'r, 'h, 'a> {
    root: &'r Root,
    anchor: u64,
    hunt: &'h mut SearchContext<'a>,
    found: HashMap<Vec<u8>, Point>,
    /// Mounts whose mount point may not be looked at: it is known that they are there, and that
    /// this process cannot see them.
    denied: HashSet<u64>,
    /// Mounts of autofs.
    autofs: HashSet<u64>,
}

impl<'r, 'h, 'a> Search<'r, 'h, 'a> {
    fn new(root: &'r Root, anchor: u64, hunt: &'h mut SearchContext<'a>) -> Self {
        Search {
            root,
            anchor,
            hunt,
            found: HashMap::new(),
            denied: HashSet::new(),
            autofs: HashSet::new(),
        }
    }

    /// Forgets what the last round has found.
    fn begin_again(&mut self, warned: usize, lacked: usize) {
        self.hunt.warnings.truncate(warned);
        self.hunt.incomplete.truncate(lacked);
        self.found.clear();
        self.denied.clear();
    }

    /// Enters the root of the search, which is the root of a mount.
    fn root(&mut self, tree: Option<&Tree<'_>>) {
        let path = self.root.path.clone();
        self.point(path.clone(), Kind::Dir, self.anchor, None, tree);
        if let Some(point) = self
            .found
            .get_mut(&path)
            .filter(|point| point.content.is_none())
        {
            point.dev = self.root.dev;
        }
    }

    /// Enters a mount that was found at `path`.
    fn point(
        &mut self,
        path: Vec<u8>,
        kind: Kind,
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
                ..Point::bare(path.clone(), ondisk::Dev::default(), Some(kind))
            },
        };
        self.found.insert(path, point);
    }

    /// Enters what `statx` has found at `path`.
    fn enter(
        &mut self,
        path: Vec<u8>,
        seen: &Statx,
        id: u64,
        on: Option<u64>,
        hint: Kind,
        tree: Option<&Tree<'_>>,
    ) {
        let kind = match seen.file_type {
            FileType::Directory => Kind::Dir,
            FileType::Unknown => hint,
            _ => Kind::File,
        };
        self.point(path.clone(), kind, id, on, tree);
        if let Some(found) = self.found.get_mut(&path)
            && found.content.is_none()
        {
            found.dev = seen.dev.into();
        }
    }

    /// Looks at every name that somebody gives; whatever is a mount point is entered.
    fn try_names(&mut self, names: &[Vec<u8>], tree: Option<&Tree<'_>>) {
        for name in names
            .iter()
            .filter(|name| below(&self.root.path, name).is_some_and(|rest| !rest.is_empty()))
        {
            self.hunt.progress.entries += 1;
            let canonical = Root::open(crate::path::parent(name))
                .is_ok_and(|dir| dir.path == crate::path::parent(name));
            if let Ok(seen) = statx_long(name, LOOK, Want::empty())
                && canonical
                && let Some(id) = mount_root(&seen)
            {
                self.enter(name.clone(), &seen, id, None, Kind::Dir, tree);
            }
        }
    }

    /// Looks at the name of every mount that ought to be visible. Says whether each holds, as far
    /// as this process may look.
    fn verify(&mut self, rows: &[Mount], tree: &Tree<'_>) -> bool {
        let anchor = self.anchor;
        let visible = tree.visible(&self.root.path, anchor);
        let mut all_hold = true;
        for (row, _) in rows
            .iter()
            .zip(visible)
            .filter(|(row, visible)| *visible && row.id != anchor)
        {
            let Some(target) = row
                .target
                .as_deref()
                .filter(|target| below(&self.root.path, target).is_some())
            else {
                continue;
            };
            self.hunt.progress.entries += 1;
            match statx_long(target, LOOK, Want::empty()) {
                Ok(seen) if mount_root(&seen) == Some(row.id) => {
                    let hint = if tree.has_mount_inside(row) || row.content.fsroot == b"/" {
                        Kind::Dir
                    } else {
                        Kind::File
                    };
                    self.enter(target.to_vec(), &seen, row.id, None, hint, Some(tree));
                }
                Err(errno @ (Errno::EACCES | Errno::EPERM)) => {
                    self.hunt.warnings.push(Warning::failed(
                        target,
                        Gate::Statx,
                        errno,
                        WarningKind::UnreadableMountPoint,
                    ));
                    self.hunt
                        .mark_incomplete(Incompleteness::UnreadableMountPoints);
                    self.denied.insert(row.id);
                }
                _ => all_hold = false,
            }
        }
        all_hold
    }

    /// Searches directory by directory. With a table, only on mounts on which something is still
    /// sought, directories first and the files only if those do not settle it. Says whether a mount
    /// was found that the table lacks.
    fn breadth_first(&mut self, rows: Option<&[Mount]>, tree: Option<&Tree<'_>>) -> bool {
        let mut sought = rows.map(|rows| Sought::new(rows, self.anchor));
        if let Some(sought) = &mut sought {
            let known = self
                .found
                .values()
                .filter_map(|point| point.id)
                .chain(self.denied.iter().copied());
            known.for_each(|id| {
                sought.found(id, None);
            });
        }
        let mut queue = Queue::new(
            self.root,
            About {
                mount: self.anchor,
                enter: Enter::Carefully,
            },
        );
        let mut buffer = vec![0u8; 64 << 10];
        let mut contradicted = false;
        while let Some(at) = queue.pop() {
            let about = queue.node(at).about;
            if about.enter == Enter::Never
                || sought
                    .as_ref()
                    .is_some_and(|sought| sought.nothing_on(about.mount))
            {
                self.hunt.progress.pruned += 1;
                continue;
            }
            let path = queue.path(at);
            self.hunt.directory(&path);
            let wanted = |t: EntryType| sought.is_none() || t != EntryType::Other;
            let looked = self.read_directory(&queue, at, &path, &mut buffer, wanted);
            for (name, entry_type, seen) in looked {
                let on = mount_root(&seen);
                if let Some(id) = on {
                    let hint = if entry_type == EntryType::Other {
                        Kind::File
                    } else {
                        Kind::Dir
                    };
                    self.enter(join(&path, &name), &seen, id, Some(about.mount), hint, tree);
                    if let Some(sought) = &mut sought {
                        contradicted |= !sought.found(id, Some(about.mount));
                    }
                }
                let directory = match seen.file_type {
                    FileType::Unknown => entry_type != EntryType::Other,
                    other => other == FileType::Directory,
                };
                if directory && !seen.attributes.contains(Attributes::AUTOMOUNT) {
                    let mount = on.unwrap_or(about.mount);
                    let enter = match on {
                        None if self.autofs.contains(&mount) => Enter::Never,
                        None => Enter::Directly,
                        Some(_) => match tree.and_then(|tree| tree.row(mount)) {
                            Some(row) if row.content.fstype != b"autofs" => Enter::Directly,
                            _ => Enter::Carefully,
                        },
                    };
                    queue.push(at, &name, About { mount, enter });
                }
            }
        }
        if let Some(mut sought) = sought.filter(|sought| !sought.is_empty()) {
            contradicted |= self.files(&queue, &mut sought, &mut buffer, tree);
        }
        contradicted
    }

    /// The second round of a search with a table: everything that is no directory, where something
    /// is still sought.
    fn files(
        &mut self,
        queue: &Queue<'_, About>,
        sought: &mut Sought,
        buffer: &mut Vec<u8>,
        tree: Option<&Tree<'_>>,
    ) -> bool {
        let mut contradicted = false;
        for at in 0..queue.len() {
            let about = queue.node(at).about;
            if about.enter == Enter::Never || sought.nothing_on(about.mount) {
                continue;
            }
            let path = queue.path(at);
            for (name, _, seen) in
                self.read_directory(queue, at, &path, buffer, |t| t == EntryType::Other)
            {
                if let Some(id) = mount_root(&seen) {
                    self.enter(
                        join(&path, &name),
                        &seen,
                        id,
                        Some(about.mount),
                        Kind::File,
                        tree,
                    );
                    contradicted |= !sought.found(id, Some(about.mount));
                }
            }
        }
        contradicted
    }

    /// Reads a directory and looks at those of its entries whose type is wanted.
    fn read_directory(
        &mut self,
        queue: &Queue<'_, About>,
        at: usize,
        path: &[u8],
        buffer: &mut Vec<u8>,
        wanted: impl Fn(EntryType) -> bool,
    ) -> Vec<(Vec<u8>, EntryType, Statx)> {
        let mut looked = Vec::new();
        let about = queue.node(at).about;
        let opened = if about.enter == Enter::Carefully {
            self.open_carefully(queue, at)
        } else {
            queue.open(at)
        };
        self.hunt.read(path, opened, buffer, |hunt, dir, entry| {
            if !wanted(entry.entry_type) {
                return;
            }
            match statx(dir, entry.name, LOOK, Want::empty()) {
                // What is neither directory nor mount is of no further use.
                Ok(seen) if mount_root(&seen).is_none() && !may_be_directory(&seen) => {}
                Ok(seen) => looked.push((entry.name.to_bytes().to_vec(), entry.entry_type, seen)),
                Err(errno) => hunt.failed(&join(path, entry.name.to_bytes()), Gate::Statx, errno),
            }
        });
        looked
    }

    /// Opens the root of a mount, and finds out whether it is autofs.
    fn open_carefully(&mut self, queue: &Queue<'_, About>, at: usize) -> gate::Result<Fd> {
        const AUTOFS_SUPER_MAGIC: u64 = 0x0187;
        let place = queue.open_place(at)?;
        if fstatfs(&place)?.magic == AUTOFS_SUPER_MAGIC {
            self.autofs.insert(queue.node(at).about.mount);
        }
        openat(&place, c".", Open::SCAN)
    }

    fn into_points(self) -> Vec<Point> {
        let mut points: Vec<Point> = self.found.into_values().collect();
        points.sort_by(|a, b| crate::path::compare(&a.target, &b.target));
        let parents: HashSet<u64> = points.iter().filter_map(|point| point.parent).collect();
        for point in &mut points {
            if point.content.is_none() && point.id.is_some_and(|id| parents.contains(&id)) {
                point.class = Class::Internal;
            }
        }
        points
    }
}

/// The id of the mount whose root this is, if it is one.
fn mount_root(seen: &Statx) -> Option<u64> {
    seen.attributes
        .contains(Attributes::MOUNT_ROOT)
        .then_some(seen.mnt_id)
        .flatten()
}

fn may_be_directory(seen: &Statx) -> bool {
    matches!(seen.file_type, FileType::Directory | FileType::Unknown)
}

/// What the table's ids and parents say is still to be found.
struct Sought {
    parents: HashMap<u64, u64>,
    /// How many mounts on each mount are not accounted for.
    on: HashMap<u64, usize>,
    accounted: HashSet<u64>,
}

impl Sought {
    /// Everything below the mount `anchor`.
    fn new(rows: &[Mount], anchor: u64) -> Sought {
        let tree = Tree::new(rows);
        let mut on = HashMap::new();
        let mut parents = HashMap::new();
        let mut reached = vec![anchor];
        while let Some(mount) = reached.pop() {
            for &child in tree.on(mount) {
                let id = rows[child].id;
                if id != anchor && parents.insert(id, mount).is_none() {
                    *on.entry(mount).or_default() += 1;
                    reached.push(id);
                }
            }
        }
        Sought {
            parents,
            on,
            accounted: HashSet::new(),
        }
    }

    /// A mount was found in a directory of the mount `from`: it, and those between the two, over
    /// which it lies, are accounted for. Says whether the table holds it.
    fn found(&mut self, id: u64, from: Option<u64>) -> bool {
        let mut mount = id;
        loop {
            let Some(&parent) = self.parents.get(&mount) else {
                return mount != id;
            };
            if self.accounted.insert(mount) {
                let left = self.on.entry(parent).or_default();
                *left = left.saturating_sub(1);
            }
            if from.is_none_or(|from| from == parent) || self.accounted.contains(&parent) {
                return true;
            }
            mount = parent;
        }
    }

    fn nothing_on(&self, mount: u64) -> bool {
        self.on.get(&mount).is_none_or(|&left| left == 0)
    }

    fn is_empty(&self) -> bool {
        self.on.values().all(|&left| left == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_under_a_mount_that_was_found_is_accounted_for() {
        let row = |id, parent| Mount {
            id,
            parent,
            ..Mount::default()
        };
        // 3 lies over 2, which is on 1; 4 is elsewhere on 1; 9 is on nothing of ours.
        let mut sought = Sought::new(&[row(1, 0), row(2, 1), row(3, 2), row(4, 1), row(9, 8)], 1);
        assert!(sought.found(3, Some(1)));
        assert!(!sought.nothing_on(1) && sought.nothing_on(2));
        assert!(sought.found(4, Some(1)) && sought.is_empty());
        assert!(!sought.found(77, Some(1)), "the table does not hold it");
    }
}
