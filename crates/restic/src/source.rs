//! The entries of a tree as restic has them: each directory before what is in it, sorted by name; and
//! the contents of files. As by restic, absolute SRCs have absolute paths in the snapshot, relative ones
//! relative paths, and what is in `.` is in its root.

use std::ffi::OsString;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::vec;

use archive::dump::{AttributeReader, AttributesOf, Places, Progress, is_unchanged, stat};
use archive::rows::Rows;
use archive::{Users, WarningKind};
use gate::fs::{At, getcwd, read, readlinkat};
use gate::long::statx_long;
use gate::sync::Mutex;
use gate::{Errno, Fd, Gate};
use mounts::Warning;
use rustic_core::repofile::{Node, SnapshotSummary};
use rustic_core::{
    ErrorKind, ReadSource, ReadSourceEntry, ReadSourceOpen, RusticError, RusticResult, TreeId,
};
use sha2::{Digest, Sha256};
use walk::{Meta, Type};

use crate::error::Error;
use crate::node::{Extra, node};
use crate::repository::hex;
use crate::reuse::{Reused, Search};

/// Directories that each thread keeps open.
const OPEN_DIRECTORIES: usize = 24;

/// A tree to be archived.
#[derive(Clone)]
pub(crate) struct Source(Arc<Shared>);

struct Shared {
    rows: Arc<Rows>,
    users: Users,
    parts: Vec<Part>,
    paths: Vec<PathBuf>,
    /// Rows that are skipped: the repository, if it is in the tree.
    own: Range<usize>,
    reused: Reused,
    warnings: Mutex<Vec<Warning>>,
    progress: Arc<Progress>,
    /// Open directories, for whichever thread opens the next file.
    places: Mutex<Vec<Places<Arc<Rows>>>>,
}

/// A part of the snapshot, in the order of paths.
#[derive(Clone)]
enum Part {
    /// A directory above a SRC, with its path in the file system.
    Above {
        path: Vec<u8>,
        real: Vec<u8>,
        meta: Box<Meta>,
    },
    /// A SRC; the path is empty if it is the root of the snapshot.
    Tree { path: Vec<u8>, rows: Range<usize> },
}

impl Source {
    /// The tree that was collected, without the directory with this device and inode number.
    ///
    /// # Errors
    /// A SRC has no absolute path, or lies below another one.
    pub(crate) fn new(
        rows: Arc<Rows>,
        own: Option<((u32, u32), u64)>,
        progress: Arc<Progress>,
    ) -> Result<Source, Error> {
        let sources = rows.sources().iter();
        let sources = sources.map(|source| (&source.path[..], source.rows.clone()));
        let Layout { parts, paths } = Layout::new(sources)?;
        let is_own = |row: &usize| {
            let meta = rows.meta(*row);
            own.is_some_and(|(dev, ino)| meta.ino == ino && meta.dev == dev.into())
        };
        let own = rows.directories().map(|row| row as usize).find(is_own);
        let own = own.map_or(0..0, |row| row..rows.end(row));
        Ok(Source(Arc::new(Shared {
            rows,
            users: Users::read(),
            parts,
            paths,
            own,
            reused: Reused::default(),
            warnings: Mutex::default(),
            progress,
            places: Mutex::default(),
        })))
    }

    /// Lets directories in which nothing has changed keep the trees of the last snapshot. `changed` says for each row
    /// whether the entry or anything below it has changed; `root` is the tree of the snapshot.
    pub(crate) fn reuse(
        &mut self,
        changed: &[bool],
        root: TreeId,
        read_tree: impl FnMut(&TreeId) -> Option<Vec<Node>>,
    ) {
        let Some(shared) = Arc::get_mut(&mut self.0) else {
            return;
        };
        let mut reused = Reused::default();
        let mut search = Search {
            rows: &shared.rows,
            users: &shared.users,
            changed,
            skipped: shared.own.clone(),
            read_tree,
        };
        for part in &shared.parts {
            if let Part::Tree { path, rows } = part
                && !rows.is_empty()
            {
                search.find(root, path, rows.start, &mut reused);
            }
        }
        shared.reused = reused;
    }

    /// Corrects what the engine says of the snapshot.
    pub(crate) fn correct(&self, summary: &mut SnapshotSummary) {
        self.0.reused.correct(summary);
    }

    /// The absolute paths of the sources, sorted.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.0.paths
    }

    /// See [`context`].
    pub(crate) fn context(&self) -> String {
        context(&self.0.parts, &self.0.users)
    }

    /// What was skipped or found wrong.
    pub(crate) fn take_warnings(&self) -> Vec<Warning> {
        std::mem::take(&mut self.0.warnings.lock())
    }

    /// Whether the repository is in the tree, and so was skipped.
    pub(crate) fn skips_repository(&self) -> bool {
        !self.0.own.is_empty()
    }
}

/// The name of a SRC, as restic makes it: lexically, so that `a/../b` is `b`.
struct SourceName {
    /// The directories above the current one that it begins with: `..`.
    up: usize,
    is_absolute: bool,
    components: Vec<Vec<u8>>,
}

impl SourceName {
    fn parse(path: &[u8]) -> SourceName {
        let is_absolute = path.starts_with(b"/");
        let mut name = SourceName {
            up: 0,
            is_absolute,
            components: Vec::new(),
        };
        for component in path.split(|&b| b == b'/') {
            match component {
                b"" | b"." => {}
                b".." if name.components.pop().is_none() && !is_absolute => name.up += 1,
                b".." => {}
                _ => name.components.push(component.to_vec()),
            }
        }
        name
    }

    /// The path of the first components in the file system.
    fn real(&self, components: usize) -> Vec<u8> {
        let parts = std::iter::repeat_n(&b".."[..], self.up);
        let parts = parts.chain(self.components[..components].iter().map(Vec::as_slice));
        let path = parts.collect::<Vec<&[u8]>>().join(&b'/');
        match self.is_absolute {
            true => [b"/", &path[..]].concat(),
            false => path,
        }
    }

    /// The path of the first components in the snapshot; empty for its root.
    fn in_snapshot(&self, components: usize) -> Vec<u8> {
        let parts = self.components[..components].iter();
        parts.flat_map(|part| [b"/", &part[..]].concat()).collect()
    }

    /// The absolute path, which tells snapshots of the same SRCs.
    fn absolute(&self) -> Result<Vec<u8>, Errno> {
        if self.is_absolute {
            return Ok(self.real(self.components.len()));
        }
        let path = [&getcwd()?, &b"/"[..], &self.real(self.components.len())].concat();
        let name = SourceName::parse(&path);
        Ok(name.real(name.components.len()))
    }
}

/// Where the sources are in the snapshot.
pub(crate) struct Layout {
    /// The sources in the order of their paths, each after the directories above it.
    parts: Vec<Part>,
    /// The absolute paths of the sources, sorted.
    pub(crate) paths: Vec<PathBuf>,
}

impl Layout {
    /// Of sources with their rows.
    ///
    /// # Errors
    /// A SRC has no absolute path, or lies below another one.
    pub(crate) fn new<'a>(
        sources: impl Iterator<Item = (&'a [u8], Range<usize>)>,
    ) -> Result<Layout, Error> {
        let mut sources: Vec<(SourceName, &[u8], Range<usize>)> = sources
            .map(|(path, rows)| (SourceName::parse(path), path, rows))
            .collect();
        sources.sort_by(|(a, ..), (b, ..)| a.components.cmp(&b.components));
        let (mut parts, mut paths): (Vec<Part>, Vec<PathBuf>) = (Vec::new(), Vec::new());
        let mut above: Vec<Vec<u8>> = Vec::new();
        for (nth, (name, source, rows)) in sources.iter().enumerate() {
            let last = nth.checked_sub(1).map(|last| &sources[last].0);
            if last.is_some_and(|last| name.components.starts_with(&last.components)) {
                return Err(Error::Nested(source.to_vec()));
            }
            for depth in 1..name.components.len() {
                let path = name.in_snapshot(depth);
                if above.contains(&path) {
                    continue;
                }
                if let Ok(seen) = statx_long(&name.real(depth), At::empty(), Meta::WANT) {
                    parts.push(Part::Above {
                        path: path.clone(),
                        real: name.real(depth),
                        meta: Box::new(Meta::from_statx(&seen)),
                    });
                }
                above.push(path);
            }
            let absolute = name.absolute();
            let absolute = absolute.map_err(|_| Error::NoPath(source.to_vec()))?;
            paths.push(path_buf(&absolute));
            parts.push(Part::Tree {
                path: name.in_snapshot(name.components.len()),
                rows: rows.clone(),
            });
        }
        paths.sort();
        Ok(Layout { parts, paths })
    }

    /// See [`context`].
    pub(crate) fn context(&self) -> String {
        context(&self.parts, &Users::read())
    }
}

/// A hash of what the trees of a snapshot depend on beside the entries of the sources: where the sources are in
/// it, the directories above them, the names of users and groups, and the version of this program.
fn context(parts: &[Part], users: &Users) -> String {
    let mut hash = Sha256::new();
    let mut add = |bytes: &[u8]| {
        hash.update(bytes.len().to_le_bytes());
        hash.update(bytes);
    };
    add(env!("CARGO_PKG_VERSION").as_bytes());
    for part in parts {
        match part {
            Part::Tree { path, .. } => add(path),
            // Attributes do not change without the time of the last change of the inode.
            Part::Above { path, meta, .. } => {
                add(path);
                let node = node(last_name(path), meta, Extra::default(), users);
                add(&serde_json::to_vec(&node).unwrap_or_default());
            }
        }
    }
    for names in users.all() {
        add(b"");
        for (number, name) in names {
            add(&number.to_le_bytes());
            add(name);
        }
    }
    hex(&hash.finalize())
}

impl ReadSource for Source {
    type Open = OpenFile;
    type Iter = Entries;

    fn size(&self) -> RusticResult<Option<u64>> {
        Ok(None)
    }

    fn entries(&self) -> Entries {
        self.0.begin_progress();
        Entries {
            places: Places::new(self.0.rows.clone(), OPEN_DIRECTORIES),
            parts: self.0.parts.clone().into_iter(),
            shared: self.0.clone(),
            rows: 0..0,
            top: Vec::new(),
            above: Vec::new(),
            attributes: AttributeReader::default(),
        }
    }
}

/// The entries, in the order of their paths.
pub(crate) struct Entries {
    shared: Arc<Shared>,
    parts: vec::IntoIter<Part>,
    /// The rows of a SRC that are left.
    rows: Range<usize>,
    /// The path of the SRC.
    top: Vec<u8>,
    /// The directories above the last entry, with their paths.
    above: Vec<(usize, Vec<u8>)>,
    places: Places<Arc<Rows>>,
    attributes: AttributeReader,
}

impl Iterator for Entries {
    type Item = RusticResult<ReadSourceEntry<OpenFile>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(row) = self.rows.next() {
                if self.shared.own.contains(&row) {
                    self.rows.start = self.rows.end.min(self.shared.own.end);
                    continue;
                }
                if let Some(kept) = self.kept(row) {
                    self.rows.start = self.shared.rows.end(row);
                    return Some(Ok(kept));
                }
                self.shared.progress.add_entry();
                match self.entry(row) {
                    Some(entry) => return Some(Ok(entry)),
                    None => continue,
                }
            }
            match self.parts.next()? {
                Part::Above { path, real, meta } => {
                    let extra = Extra {
                        attributes: self.attributes_above(&real, &meta),
                        ..Extra::default()
                    };
                    let node = node(last_name(&path), &meta, extra, &self.shared.users);
                    return Some(Ok(entry(&path, node, None)));
                }
                Part::Tree { path, rows } => {
                    (self.top, self.rows) = (path, rows);
                    self.above.clear();
                }
            }
        }
    }
}

impl Entries {
    /// The path of the directory that the next entry is in.
    fn path_above(&mut self, dir: usize) -> &[u8] {
        while self.above.last().is_some_and(|(above, _)| *above != dir) {
            self.above.pop();
        }
        self.above.last().map_or(&self.top, |(_, path)| path)
    }

    /// The entry of a directory that keeps its tree. The engine takes a directory for a new one if the path is its own;
    /// with the path of the directory above it adds the node as it is.
    fn kept(&mut self, row: usize) -> Option<ReadSourceEntry<OpenFile>> {
        let shared = self.shared.clone();
        let node = shared.reused.node(row)?;
        let above = self.path_above(shared.rows.parent(row)?);
        let path = if above.is_empty() { b"/" } else { above };
        Some(entry(path, node.clone(), None))
    }

    /// The entry of a row; `None` for the root of the snapshot, and if it cannot be read.
    fn entry(&mut self, row: usize) -> Option<ReadSourceEntry<OpenFile>> {
        let (shared, rows) = (self.shared.clone(), self.shared.rows.clone());
        let meta = rows.meta(row);
        let path = match rows.parent(row) {
            None => self.top.clone(),
            Some(parent) => [self.path_above(parent), b"/", rows.name(row)].concat(),
        };
        if meta.is_dir() {
            self.above.push((row, path.clone()));
        }
        if path.is_empty() {
            return None; // a snapshot has no metadata of its root
        }
        let mut extra = Extra::default();
        if meta.kind() == Type::Symlink {
            match self.places.at(row, |dir, name| readlinkat(dir, name)) {
                Ok(link) => extra.link = link,
                Err(e) => {
                    shared.failed(row, Gate::Readlinkat, e, WarningKind::not_opened(e));
                    return None;
                }
            }
        }
        if self.attributes.may_have(&meta) {
            extra.attributes = self.attributes(row, &meta);
        }
        let node = node(last_name(&path), &meta, extra, &shared.users);
        let open = (meta.kind() == Type::File).then(|| OpenFile {
            shared: shared.clone(),
            row,
        });
        Some(entry(&path, node, open))
    }

    fn attributes(&mut self, row: usize, meta: &Meta) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut found = Vec::new();
        let take = |name: &[u8], value: &[u8]| found.push((name.to_vec(), value.to_vec()));
        let (attributes, places) = (&mut self.attributes, &mut self.places);
        let failures = attributes.read_row(meta.dev, places, row, take);
        for (gate, errno, kind) in failures {
            self.shared.failed(row, gate, errno, kind);
        }
        found
    }

    /// The attributes of a directory above a SRC, as far as they can be read.
    fn attributes_above(&mut self, path: &[u8], meta: &Meta) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut found = Vec::new();
        if let Ok(reach) = gate::long::reach(gate::fs::CWD, path) {
            let of = AttributesOf::Named(reach.dir(), reach.rest());
            let take = |name: &[u8], value: &[u8]| found.push((name.to_vec(), value.to_vec()));
            self.attributes.read(meta.dev, of, take);
        }
        found
    }
}

fn entry(path: &[u8], node: Node, open: Option<OpenFile>) -> ReadSourceEntry<OpenFile> {
    ReadSourceEntry {
        path: path_buf(path),
        node,
        open,
    }
}

fn path_buf(path: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(path.to_vec()))
}

fn last_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&b| b == b'/').next().unwrap_or(path)
}

impl Shared {
    fn begin_progress(&self) {
        let rows = &self.rows;
        let files = (0..rows.len()).filter(|&row| rows.kind(row) == Type::File);
        let sizes = files.map(|row| rows.meta(row).size);
        let bytes = sizes.fold(0, u64::saturating_add);
        let (entries, kept) = self.reused.amount();
        let entries = (rows.len() as u64).saturating_sub(entries);
        self.progress
            .begin_with(entries, bytes.saturating_sub(kept));
    }

    fn path(&self, row: usize) -> Vec<u8> {
        let mut path = Vec::new();
        self.rows.path(row, &mut path);
        path
    }

    fn failed(&self, row: usize, gate: Gate, errno: Errno, kind: WarningKind) {
        let warning = Warning::failed(&self.path(row), gate, errno, kind);
        self.warnings.lock().push(warning);
    }

    fn warn(&self, row: usize, kind: WarningKind) {
        let warning = Warning::about(&self.path(row), kind);
        self.warnings.lock().push(warning);
    }

    /// Opens a file that was collected as `meta`.
    fn open(&self, row: usize, meta: &Meta) -> Result<Fd, Errno> {
        let pooled = self.places.lock().pop();
        let mut places = pooled.unwrap_or_else(|| Places::new(self.rows.clone(), OPEN_DIRECTORIES));
        let opened = places.open_file(row, meta.uid);
        self.places.lock().push(places);
        let fd = opened?;
        let now = stat(&fd)?;
        match (now.dev, now.ino, now.kind()) == (meta.dev, meta.ino, Type::File) {
            true => Ok(fd),
            false => Err(Errno::ELOOP),
        }
    }
}

/// A file to be opened.
pub(crate) struct OpenFile {
    shared: Arc<Shared>,
    row: usize,
}

impl ReadSourceOpen for OpenFile {
    type Reader = Contents;

    fn open(self) -> RusticResult<Contents> {
        let OpenFile { shared, row } = self;
        let meta = shared.rows.meta(row);
        match shared.open(row, &meta) {
            Ok(fd) => Ok(Contents {
                shared,
                row,
                fd,
                left: meta.size,
                meta,
                state: State::Reading,
            }),
            Err(e) => {
                shared.failed(row, Gate::Openat, e, WarningKind::not_opened(e));
                Err(RusticError::new(ErrorKind::InputOutput, e.to_string()))
            }
        }
    }
}

/// The contents of a file: as many bytes as it had when the tree was collected, so that they agree
/// with its metadata.
pub(crate) struct Contents {
    shared: Arc<Shared>,
    row: usize,
    meta: Meta,
    fd: Fd,
    /// Bytes still to be read.
    left: u64,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Reading,
    /// The file has become shorter: the rest is zeros.
    Short,
    Done,
}

impl Read for Contents {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            self.check();
            return Ok(0);
        }
        let most = buffer
            .len()
            .min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let part = &mut buffer[..most];
        let mut n = 0;
        if self.state == State::Reading {
            n = loop {
                match read(&self.fd, part) {
                    Err(Errno::EINTR) => {}
                    Ok(n) => break n,
                    Err(e) => {
                        let kind = WarningKind::Unreadable;
                        self.shared.failed(self.row, Gate::Read, e, kind);
                        return Err(io::Error::from_raw_os_error(e.0));
                    }
                }
            };
        }
        if n == 0 {
            self.state = State::Short;
            part.fill(0);
            n = most;
        }
        self.left -= n as u64;
        self.shared.progress.add_bytes(n as u64);
        Ok(n)
    }
}

impl Contents {
    /// Warns, once, if the file has changed since the tree was collected.
    fn check(&mut self) {
        if self.state == State::Done {
            return;
        }
        self.state = State::Done;
        match stat(&self.fd) {
            Ok(now) if is_unchanged(&now, &self.meta) => {}
            Ok(now) => self
                .shared
                .warn(self.row, WarningKind::changed(self.meta.size, now.size)),
            Err(e) => {
                let kind = WarningKind::NotCheckedAfterwards;
                self.shared.failed(self.row, Gate::Statx, e, kind);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_restic() {
        let names = |path: &str| {
            let name = SourceName::parse(path.as_bytes());
            let all = name.components.len();
            let text = |path: Vec<u8>| String::from_utf8(path).unwrap();
            (text(name.real(all)), text(name.in_snapshot(all)))
        };
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(names("/srv//a/./b/"), pair("/srv/a/b", "/srv/a/b"));
        assert_eq!(names("/../srv"), pair("/srv", "/srv"));
        assert_eq!(names("a/../b"), pair("b", "/b"));
        assert_eq!(names("../../c/d"), pair("../../c/d", "/c/d"));
        assert_eq!(names("."), pair("", ""));
        assert_eq!(names("/"), pair("/", ""));
    }
}
