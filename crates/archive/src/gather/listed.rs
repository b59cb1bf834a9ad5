//! Collects the files and directories of a list, as rsync and restic do: the parent directories of
//! a listed name are dumped too, without their other entries. So all names are below one SRC, the
//! current directory or `/`, and an increment whose list has changed removes names no longer
//! listed.

use std::cmp::Ordering;
use std::os::fd::AsFd;
use std::sync::Arc;

use base::Warning;
use base::path::{components, or_dot};
use catalog::part::relative;
use catalog::rows::{Collector, Source};
use gate::fs::{AtFlags, Open, Resolve, statx};
use gate::long::{c_string, open_long, openat2_long};
use gate::{Errno, Fd, Gate};
use mounts::listed::{is_gone, is_removed};
use ondisk::Dev;
use walk::entry::append;
use walk::{
    Diagnostics, Dir, DirKey, EngineKind, Entry, FileType, Filter, Matcher, Meta, Moment,
    MountContext, ReachableMounts, Sink, Top, WalkOptions as Walk, WalkReport, Worker,
    mounts_around, walk,
};

use crate::error::{Action, Error, ErrorKind, Result};
use crate::warning::WarningKind;

/// Maximum number of directories open at the same time.
const OPEN_AT_ONCE: usize = 128;

/// Names below one directory, in the order of their components, each once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SortedNames {
    names: Vec<Vec<u8>>,
}

/// The SRC of a list, and the listed names; `None` if SRC itself is listed, with everything in it.
pub type ListedSource = (Vec<u8>, Option<SortedNames>);

impl SortedNames {
    /// Sorts the names in the file `list`, and those given as SRC. Absolute names are below `/`,
    /// and others below the current directory, whose path is empty here so that member names do not
    /// begin with `./`.
    ///
    /// # Errors
    /// There are no names, or not all of them are below the same directory.
    pub fn new(list: &[u8], names: &[Vec<u8>]) -> Result<ListedSource> {
        let refuse = |kind| Err(Error::new(Action::UseList, list, kind));
        let Some(first) = names.first() else {
            return refuse(ErrorKind::NoNames);
        };
        let is_absolute = |name: &[u8]| name.starts_with(b"/");
        if let Some(other) = names
            .iter()
            .find(|name| is_absolute(name) != is_absolute(first))
        {
            let names = if is_absolute(first) {
                (first, other)
            } else {
                (other, first)
            };
            return refuse(ErrorKind::MixedNames {
                absolute: names.0.clone(),
                relative: names.1.clone(),
            });
        }
        let mut sorted = Vec::with_capacity(names.len());
        for name in names {
            let mut parts = name.split(|&b| b == b'/');
            if parts.any(|part| part == b"..") {
                return refuse(ErrorKind::ParentInName { name: name.clone() });
            }
            let parts: Vec<&[u8]> = components(name).collect();
            sorted.push(parts.join(&b'/'));
        }
        sorted.sort_unstable_by(|a, b| components(a).cmp(components(b)));
        sorted.dedup();
        let is_whole = sorted.first().is_some_and(Vec::is_empty);
        Ok(match (is_absolute(first), is_whole) {
            (true, true) => (b"/".to_vec(), None),
            (false, true) => (b".".to_vec(), None),
            (true, false) => (b"/".to_vec(), Some(SortedNames { names: sorted })),
            (false, false) => (Vec::new(), Some(SortedNames { names: sorted })),
        })
    }

    /// The list without excluded names, and so without directories that contain only such names.
    pub(crate) fn without_excluded(mut self, filter: &Filter) -> SortedNames {
        let mut matcher = filter.matcher();
        self.names
            .retain(|name| !is_excluded(&mut matcher, b"/", name));
        self
    }

    /// The listed names, in the order of their components.
    pub(crate) fn names(&self) -> &[Vec<u8>] {
        &self.names
    }

    pub(crate) fn position(&self, name: &[u8]) -> Option<usize> {
        let order = |listed: &Vec<u8>| components(listed).cmp(components(name));
        self.names.binary_search_by(order).ok()
    }

    /// Whether the list includes a name: it is listed, in a listed directory, or above a listed
    /// name.
    pub fn has(&self, name: &[u8]) -> bool {
        let parts: Vec<&[u8]> = components(name).collect();
        let common = |parts: &[&[u8]], listed: &[u8]| {
            let pairs = parts.iter().copied().zip(components(listed));
            pairs.take_while(|(a, b)| a == b).count()
        };
        let before = |parts: &[&[u8]], orders: &[Ordering]| {
            let order = |listed: &[u8]| components(listed).cmp(parts.iter().copied());
            let names = &self.names;
            names.partition_point(|listed| orders.contains(&order(listed)))
        };
        let next = self.names.get(before(&parts, &[Ordering::Less]));
        if next.is_some_and(|next| common(&parts, next) == parts.len()) {
            return true;
        }
        // If an ancestor of the name is listed, the listed names sorted between them are below that
        // ancestor, too. So the ancestor is at or above the path that the name shares with the
        // nearest listed name before it: search again from that path.
        let mut above = &parts[..];
        while let Some(at) = before(above, &[Ordering::Less, Ordering::Equal]).checked_sub(1) {
            let (listed, shared) = (&self.names[at], common(above, &self.names[at]));
            if shared == 0 || shared == components(listed).count() {
                return shared > 0;
            }
            above = &above[..shared];
        }
        false
    }
}

/// Collects a list in any order; returns the walks of its directories. `source` is the common
/// parent of all names, and `options` are those of the walks, without directories.
///
/// # Errors
/// The current directory or `/` cannot be examined.
pub(super) fn collect_listed<'a>(
    listed: &SortedNames,
    source: Source,
    options: &Walk,
    for_catalog: Option<Moment>,
    diagnostics: &'a Diagnostics,
) -> std::result::Result<(Collector<'a>, Vec<WalkReport>), walk::Error> {
    let root = source.path.clone();
    let collector = Collector::new(vec![source], vec![0], for_catalog, diagnostics);
    let top = open_root(&root)?;
    let mounts = mounts_around(Some(&top));
    let context = MountContext::new(&top, top.mount(&mounts));
    collector.begin_listed(&context, Some(EngineKind::Threads));
    let mut options = options.clone();
    if let Some(around) = options.around.take() {
        options.filter = around.exclude_silent(options.filter, diagnostics);
        // The walks of listed directories must not repeat the warnings.
        options.around = Some(Arc::new(ReachableMounts::known(mounts)));
    }
    let mut examination = Examination {
        one_file_system: options.one_file_system,
        matcher: options.filter.matcher(),
        worker: collector.worker(),
        diagnostics,
        path: root.clone(),
        levels: vec![Level::root(&root, &top)],
        top: &top,
        open: None,
        directories: Vec::new(),
        has_found: false,
        first_failure: None,
    };
    examination.emit_root(&top);
    for name in &listed.names {
        examination.examine(name);
    }
    let directories = examination.finish()?;
    let sink = ListedSink {
        collector: &collector,
        root: &root,
    };
    let mut reports = Vec::new();
    for some in directories.chunks(OPEN_AT_ONCE) {
        reports.extend(walk_some(&options, some, &sink, diagnostics)?);
    }
    Ok((collector, reports))
}

/// Opens the common parent directory of all names.
fn open_root(root: &[u8]) -> std::result::Result<Top, walk::Error> {
    let path = or_dot(root);
    let fail =
        |errno| mounts::Error::at(mounts::ErrorKind::OpenDirectory, path, Gate::Openat, errno);
    // O_PATH is enough to look up names, but does not allow the ioctl for the file system's UUID,
    // so it is the second choice.
    let fd = open_long(path, Open::DIRECTORY | Open::NONBLOCK)
        .or_else(|_| open_long(path, Open::PATH | Open::DIRECTORY))
        .map_err(fail)?;
    Ok(Top::new(fd, root.to_vec(), DirKey::top(0)).map_err(fail)?)
}

/// Walks some directories. If one cannot be opened, the others are still walked.
fn walk_some(
    options: &Walk,
    some: &[ListedDirectory],
    sink: &ListedSink<'_, '_>,
    diagnostics: &Diagnostics,
) -> std::result::Result<Vec<WalkReport>, walk::Error> {
    let walk_dirs = |some: &[ListedDirectory]| {
        let options = Walk {
            dirs: some.iter().map(|(path, _)| path.clone()).collect(),
            identities: some.iter().map(|(_, identity)| *identity).collect(),
            ..options.clone()
        };
        walk(&options, sink, diagnostics)
    };
    match walk_dirs(some) {
        Ok(report) => return Ok(vec![report]),
        Err(walk::Error::Directory(_) | walk::Error::Replaced(_)) => {}
        Err(other) => return Err(other),
    }
    let mut reports = Vec::new();
    for dir in some {
        match walk_dirs(std::slice::from_ref(dir)) {
            Ok(report) => reports.push(report),
            Err(walk::Error::Replaced(path)) => {
                diagnostics.warn(Warning::about(&path, WarningKind::OtherSource));
            }
            Err(walk::Error::Directory(error)) => {
                let errno = error.errno.unwrap_or(Errno::EIO);
                let gate = error.gate.unwrap_or(Gate::Openat);
                diagnostics.warn(Warning::failed(
                    &dir.0,
                    gate,
                    errno,
                    WarningKind::Unreadable,
                ));
            }
            Err(other) => return Err(other),
        }
    }
    Ok(reports)
}

/// The path, device and inode number of a listed directory.
type ListedDirectory = (Vec<u8>, (Dev, u64));

/// A component of a listed path.
struct Level {
    /// The last component of the path.
    name: Vec<u8>,
    /// Length of the path of this level, a prefix of the path of the last name.
    end: usize,
    key: DirKey,
    found: ListedEntry,
}

#[derive(Clone, PartialEq, Eq)]
enum ListedEntry {
    /// A listed directory, or an entry in a listed directory; with the directory's device.
    Directory {
        covered: Option<Dev>,
    },
    Other(FileType),
    /// The name does not exist, which is no error of the file system.
    Missing,
    /// The name could not be examined; a warning was given.
    Failed,
}

impl Level {
    fn root(root: &[u8], top: &Top) -> Level {
        Level {
            name: Vec::new(),
            end: root.len(),
            key: top.key,
            found: ListedEntry::Directory { covered: None },
        }
    }
}

/// Whether a name, or a directory above it, matches an exclude pattern.
fn is_excluded(matcher: &mut Matcher<'_>, root: &[u8], name: &[u8]) -> bool {
    let mut dir = root.to_vec();
    name.split(|&b| b == b'/').any(|part| {
        matcher.enter(&dir);
        append(&mut dir, part);
        !matcher.keeps(part)
    })
}

/// Reads the attributes of the files in a list (`--files-from`) and of the directories above them,
/// with one system call each. Each directory is opened relative to its parent, so that a symlink
/// put in place meanwhile is not followed.
struct Examination<'a> {
    one_file_system: bool,
    matcher: Matcher<'a>,
    worker: Box<dyn Worker + 'a>,
    diagnostics: &'a Diagnostics,
    /// Path of the name examined last.
    path: Vec<u8>,
    /// The components of the path examined last, outermost first.
    levels: Vec<Level>,
    top: &'a Top,
    /// The open directory of one of the levels below the first, and its depth.
    open: Option<(usize, Fd)>,
    /// Listed directories, still to be walked.
    directories: Vec<ListedDirectory>,
    /// Whether any listed name exists.
    has_found: bool,
    /// The first listed name that could not be examined, and the error.
    first_failure: Option<(Vec<u8>, Errno)>,
}

impl Examination<'_> {
    /// Flushes emitted entries; returns the listed directories.
    ///
    /// # Errors
    /// No listed name exists, as for a SRC that does not exist: an increment would remove
    /// everything.
    fn finish(self) -> std::result::Result<Vec<ListedDirectory>, walk::Error> {
        match self.first_failure {
            Some((name, errno)) if !self.has_found => {
                let kind = mounts::ErrorKind::ReadAttributes;
                Err(mounts::Error::at(kind, &name, Gate::Statx, errno).into())
            }
            _ => Ok(self.directories),
        }
    }

    fn fail(&mut self, warning: Warning) {
        let errno = match warning.reason() {
            Some(WarningKind::BehindSymlink(_)) => Errno::ELOOP,
            _ => warning.errno.unwrap_or(Errno::ENOENT),
        };
        let path = warning.path.clone().unwrap_or_default();
        self.first_failure.get_or_insert((path, errno));
        self.diagnostics.warn(warning);
    }

    fn emit_root(&mut self, top: &Top) {
        let dir = Dir {
            path: &top.path,
            key: top.key,
        };
        let entry = Entry {
            name: b"",
            meta: top.meta,
        };
        self.worker.take(&dir, &[entry]);
    }

    fn examine(&mut self, name: &[u8]) {
        let root = &self.path[..self.levels[0].end];
        if is_excluded(&mut self.matcher, root, name) {
            return;
        }
        let parts: Vec<&[u8]> = name.split(|&b| b == b'/').collect();
        let known = self.levels.iter().skip(1).zip(&parts);
        let known = known.take_while(|(level, part)| level.name == **part);
        self.levels.truncate(1 + known.count());
        self.open.take_if(|(depth, _)| *depth > self.levels.len());
        self.path.truncate(self.levels[0].end);
        append(&mut self.path, name);
        for (depth, part) in parts.iter().enumerate().skip(self.levels.len() - 1) {
            let is_listed = depth + 1 == parts.len();
            let Some(above) = self.levels.last() else {
                return;
            };
            if !matches!(above.found, ListedEntry::Directory { .. }) {
                let warning = above.warning_below(&self.path);
                return warning.into_iter().for_each(|warning| self.fail(warning));
            }
            let end = above.end;
            if let Err(errno) = self.open_last() {
                let path = &self.path[..end];
                let kind = WarningKind::not_opened(errno, path, FileType::Directory);
                let warning = Warning::failed(path, Gate::Openat2, errno, kind);
                self.levels
                    .last_mut()
                    .into_iter()
                    .for_each(|level| level.found = ListedEntry::Failed);
                return self.fail(warning);
            }
            let level = self.enter(part, is_listed);
            self.levels.push(level);
        }
        match self.levels.last().map(|level| &level.found) {
            None | Some(ListedEntry::Directory { .. } | ListedEntry::Other(_)) => {
                self.has_found = true
            }
            Some(ListedEntry::Missing) => {
                self.fail(Warning::about(&self.path, WarningKind::DoesNotExist));
            }
            Some(ListedEntry::Failed) => {}
        }
    }

    /// Opens the directory of the last level, unless it is open. The directory of the first level
    /// always is open.
    fn open_last(&mut self) -> std::result::Result<(), Errno> {
        let depth = self.levels.len();
        if depth == 1 || self.open.as_ref().is_some_and(|(open, _)| *open == depth) {
            return Ok(());
        }
        let (from, below) = match &self.open {
            Some((open, fd)) => (fd, *open),
            None => (&*self.top.fd, 1),
        };
        let (start, end) = (self.levels[below - 1].end, self.levels[depth - 1].end);
        let name = relative(&self.path[..start], &self.path[..end]);
        let place = Open::PATH | Open::DIRECTORY;
        let fd = openat2_long(from.as_fd(), name, place, Resolve::NO_SYMLINKS)?;
        self.open = Some((depth, fd));
        Ok(())
    }

    /// Examines an entry of the last level's directory, which is open. Emits the entry, unless the
    /// walk of a listed directory will emit it.
    fn enter(&mut self, name: &[u8], is_listed: bool) -> Level {
        // A listed automount is triggered by the walk, so its target is examined.
        let itself = match is_listed {
            true => AtFlags::SYMLINK_NOFOLLOW,
            false => AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT,
        };
        let above = &self.levels[self.levels.len() - 1];
        let (dir, rest) = self.path.split_at(above.end);
        let slash = usize::from(rest.starts_with(b"/"));
        let mut level = Level {
            name: name.to_vec(),
            end: above.end + slash + name.len(),
            key: above.key.below(name),
            found: ListedEntry::Missing,
        };
        let path = &self.path[..level.end];
        let place = self
            .open
            .as_ref()
            .filter(|(depth, _)| *depth == self.levels.len());
        let place = place.map_or(&*self.top.fd, |(_, fd)| fd);
        let seen = c_string(name).and_then(|name| statx(place, &name, itself, Meta::WANT));
        let meta = match seen {
            Ok(seen) => Meta::from_statx(&seen),
            Err(errno) if is_gone(errno) && is_removed(path, false) => return level,
            // An unreadable directory may contain anything, listed or not.
            Err(errno) => {
                level.found = ListedEntry::Failed;
                let unreadable = WarningKind::Unreadable;
                let warning = Warning::failed(path, Gate::Statx, errno, unreadable);
                self.fail(warning);
                return level;
            }
        };
        let covered = match above.found {
            ListedEntry::Directory { covered } => covered,
            _ => None,
        };
        let covered = covered.filter(|dev| !self.one_file_system || *dev == meta.dev);
        if covered.is_none() {
            let dir = Dir {
                path: dir,
                key: above.key,
            };
            self.worker.take(&dir, &[Entry { name, meta }]);
        }
        let is_walked = is_listed && meta.is_dir() && covered.is_none();
        if is_walked {
            self.directories.push((path.to_vec(), (meta.dev, meta.ino)));
        }
        level.found = match meta.kind() {
            FileType::Directory => ListedEntry::Directory {
                covered: covered.or(is_walked.then_some(meta.dev)),
            },
            other => ListedEntry::Other(other),
        };
        level
    }
}

impl Level {
    /// The warning that nothing below a name can be dumped, unless already given.
    fn warning_below(&self, name: &[u8]) -> Option<Warning> {
        let kind = match self.found {
            ListedEntry::Directory { .. } | ListedEntry::Failed => return None,
            ListedEntry::Other(FileType::Symlink) => {
                WarningKind::BehindSymlink(name[..self.end].to_vec())
            }
            ListedEntry::Other(_) | ListedEntry::Missing => WarningKind::DoesNotExist,
        };
        Some(Warning::about(name, kind))
    }
}

/// Passes on the entries found in listed directories, with names relative to the common parent
/// directory.
struct ListedSink<'a, 'b> {
    collector: &'b Collector<'a>,
    root: &'b [u8],
}

impl Sink for ListedSink<'_, '_> {
    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(ListedWorker {
            to: self.collector.worker(),
            root: self.root,
        })
    }

    fn begin(&self, mount: &MountContext<'_>, _by: EngineKind) {
        self.collector.begin_listed(mount, None);
    }

    fn is_closed(&self) -> bool {
        self.collector.is_closed()
    }
}

struct ListedWorker<'a> {
    to: Box<dyn Worker + 'a>,
    root: &'a [u8],
}

impl Worker for ListedWorker<'_> {
    fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        let below = relative(self.root, dir.path);
        let dir = Dir {
            path: dir.path,
            key: DirKey::top(0).at(below),
        };
        // The walk emits the listed directory itself with an empty name, but that entry was emitted
        // before.
        for some in entries.split(|entry| entry.name.is_empty()) {
            if !some.is_empty() {
                self.to.take(&dir, some);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::SortedNames;

    proptest! {
        #[test]
        fn any_name_is_found_that_is_listed_or_below_or_above(
            names in proptest::collection::vec("[ab](/[ab]{1,2}){0,3}", 1..8),
            name in "[ab](/[ab]{1,2}){0,4}",
        ) {
            let names: Vec<Vec<u8>> = names.into_iter().map(String::into_bytes).collect();
            let (_, listed) = SortedNames::new(b"list", &names).unwrap();
            let is_below = |above: &[u8], name: &[u8]| {
                name.strip_prefix(above).is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
            };
            let name = name.as_bytes();
            let expected = names.iter().any(|listed| is_below(listed, name) || is_below(name, listed));
            prop_assert_eq!(listed.unwrap().has(name), expected);
        }
    }

    #[test]
    fn listed_names_are_those_below_and_above() {
        let names = ["a/b", "./a/b/c", "a-b", "d//e/f/"].map(|name| name.as_bytes().to_vec());
        let (source, listed) = SortedNames::new(b"list", &names).unwrap();
        let listed = listed.unwrap();
        assert!(source.is_empty());
        for (name, is_listed) in [
            ("a", true),
            ("a/b", true),
            ("a/b/c/d", true),
            ("a/b/x", true),
            ("a/bc", false),
            ("a/a", false),
            ("a/c", false),
            ("a-b", true),
            ("a-b/x", true),
            ("a-", false),
            ("d/e", true),
            ("d/e/f/g/h", true),
            ("d/f", false),
            ("e", false),
        ] {
            assert_eq!(listed.has(name.as_bytes()), is_listed, "{name}");
        }
    }
}
