//! The paths of SRCs in a snapshot. Like in restic, absolute SRCs have absolute paths, relative
//! ones relative paths, and the contents of `.` are in the root.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use archive::Users;
use archive::dump::{AttributeReader, AttributesOf};
use base::path::split;
use catalog::rows::Rows;
use gate::Errno;
use gate::fs::getcwd;
use gate::long::stat_long;
use sha2::{Digest, Sha256};
use walk::Meta;

use crate::error::Error;
use crate::id::Id;
use crate::node::{DeviceIds, Extra, NodeEncoder, ReadAttributes, collect_attributes};
use crate::parent::TreeReader;
use crate::trees::Directory;

/// The version of fathom's tree encoding.
const VERSION: &[u8] = b"2";

/// A SRC's name, cleaned lexically like in restic, so that `a/../b` is `b`.
#[derive(PartialEq, Eq, Hash)]
struct SourceName {
    /// The number of leading `..` components.
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

    /// The directory that the components start from.
    fn root(&self) -> (usize, bool) {
        (self.up, self.is_absolute)
    }

    /// Whether this path is equal to the path of `other` in the snapshot, or below it.
    fn is_in(&self, other: &SourceName) -> bool {
        self.components.starts_with(&other.components)
    }

    /// The file-system path that consists of the first `components` components.
    fn real(&self, components: usize) -> Vec<u8> {
        let parts = std::iter::repeat_n(&b".."[..], self.up);
        let parts = parts.chain(self.components[..components].iter().map(Vec::as_slice));
        let path = parts.collect::<Vec<&[u8]>>().join(&b'/');
        match self.is_absolute {
            true => [b"/", &path[..]].concat(),
            false => path,
        }
    }

    /// The path in the snapshot that consists of the first `components` components; empty for the
    /// root.
    fn in_snapshot(&self, components: usize) -> Vec<u8> {
        let parts = self.components[..components].iter();
        parts.flat_map(|part| [b"/", &part[..]].concat()).collect()
    }

    /// The absolute path, by which snapshots of the same SRCs are identified.
    fn absolute(&self) -> Result<Vec<u8>, Errno> {
        if self.is_absolute {
            return Ok(self.real(self.components.len()));
        }
        let path = [&getcwd()?, &b"/"[..], &self.real(self.components.len())].concat();
        let name = SourceName::parse(&path);
        Ok(name.real(name.components.len()))
    }
}

/// The metadata of directories above SRCs, by path, each read once.
#[derive(Default)]
pub(crate) struct DirectoriesAbove(RefCell<HashMap<Vec<u8>, Box<Meta>>>);

impl DirectoriesAbove {
    fn examine(&self, path: &[u8]) -> Box<Meta> {
        let mut seen = self.0.borrow_mut();
        let meta = seen.entry(path.to_vec()).or_insert_with(|| {
            let seen = stat_long(path, Meta::WANT);
            Box::new(seen.map_or_else(|_| unknown_directory(), |it| Meta::from_statx(&it)))
        });
        meta.clone()
    }
}

/// The SRCs without duplicates.
pub fn distinct_sources(sources: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut seen = HashSet::new();
    let mut sources = sources;
    sources.retain(|path| seen.insert(SourceName::parse(path)));
    sources
}

/// The parsed path of a SRC, its path as given, and its rows.
type LayoutSource<'a> = (SourceName, &'a [u8], Range<usize>);

/// SRCs in the order of their paths.
fn sorted<'a>(sources: impl Iterator<Item = (&'a [u8], Range<usize>)>) -> Vec<LayoutSource<'a>> {
    let sources = sources.map(|(path, rows)| (SourceName::parse(path), path, rows));
    let mut sources: Vec<LayoutSource<'a>> = sources.collect();
    sources.sort_by(|(a, ..), (b, ..)| a.components.cmp(&b.components));
    sources
}

fn sorted_paths(sources: &[LayoutSource<'_>]) -> Result<Vec<Vec<u8>>, Error> {
    let absolute = |(name, source, _): &LayoutSource<'_>| {
        name.absolute().map_err(|_| Error::NoPath(source.to_vec()))
    };
    let paths: Result<Vec<_>, _> = sources.iter().map(absolute).collect();
    let mut paths = paths?;
    paths.sort();
    Ok(paths)
}

/// The arrangement of the SRCs in the snapshot.
pub(crate) struct Layout {
    /// The SRCs in order of their paths, each after the directories above it.
    parts: Vec<SnapshotPart>,
    /// The absolute paths of the SRCs, sorted.
    pub(crate) paths: Vec<Vec<u8>>,
    inner: Vec<InnerSource>,
}

/// A SRC inside another SRC.
struct InnerSource {
    path: Vec<u8>,
    rows: Range<usize>,
    /// The rows of the outer SRC, and the path relative to the outer SRC.
    outer: Range<usize>,
    below: Vec<Vec<u8>>,
}

/// A SRC in the snapshot, or a directory above a SRC.
struct SnapshotPart {
    /// The path in the snapshot; empty for its root.
    path: Vec<u8>,
    what: LayoutNode,
}

enum LayoutNode {
    /// A directory above a SRC, with its file-system path.
    Above { real: Vec<u8>, meta: Box<Meta> },
    /// A SRC with its rows.
    Source(Range<usize>),
    /// A SRC inside another SRC.
    Inner,
}

/// A SRC, and the directory of the snapshot that contains it.
pub(crate) struct SourceRoot<'a> {
    pub(crate) up: Arc<Directory>,
    /// The index of the SRC's node in that directory; `None` for the root, which has no node.
    pub(crate) place: Option<usize>,
    pub(crate) name: &'a [u8],
    pub(crate) rows: Range<usize>,
}

impl Layout {
    /// The layout of SRCs with their rows.
    ///
    /// # Errors
    /// If a SRC has no absolute path, or has the path of another SRC in the snapshot.
    pub(crate) fn new<'a>(
        sources: impl Iterator<Item = (&'a [u8], Range<usize>)>,
        directories: &DirectoriesAbove,
    ) -> Result<Layout, Error> {
        let sources = sorted(sources);
        let mut layout = Layout {
            parts: Vec::new(),
            paths: sorted_paths(&sources)?,
            inner: Vec::new(),
        };
        // The SRCs that contain the next SRC, outermost first.
        let mut outer: Vec<&LayoutSource<'a>> = Vec::new();
        for source in &sources {
            let (name, path, rows) = source;
            while outer.pop_if(|it| !name.is_in(&it.0)).is_some() {}
            let what = match outer.last() {
                None => {
                    layout.add_above(name, directories);
                    LayoutNode::Source(rows.clone())
                }
                Some((other, other_path, _)) if name.root() != other.root() => {
                    return Err(Error::SamePath(path.to_vec(), other_path.to_vec()));
                }
                Some((other, _, outer)) => {
                    layout.inner.push(InnerSource {
                        path: path.to_vec(),
                        rows: rows.clone(),
                        outer: outer.clone(),
                        below: name.components[other.components.len()..].to_vec(),
                    });
                    LayoutNode::Inner
                }
            };
            let path = name.in_snapshot(name.components.len());
            layout.parts.push(SnapshotPart { path, what });
            outer.push(source);
        }
        Ok(layout)
    }

    /// Adds the directories above a SRC that are not yet parts.
    fn add_above(&mut self, name: &SourceName, directories: &DirectoriesAbove) {
        for depth in 1..name.components.len() {
            let (path, real) = (name.in_snapshot(depth), name.real(depth));
            if !self.parts.iter().any(|part| part.path == path) {
                let meta = directories.examine(&real);
                let what = LayoutNode::Above { real, meta };
                self.parts.push(SnapshotPart { path, what });
            }
        }
    }

    /// The rows of entries that are SRCs themselves, with the first rows of those SRCs.
    ///
    /// # Errors
    /// If a SRC is below another SRC, but was excluded there.
    pub(crate) fn inner_rows(&self, rows: &Rows) -> Result<BTreeMap<usize, usize>, Error> {
        let mut found = BTreeMap::new();
        for inner in &self.inner {
            let named = |row, name: &Vec<u8>| rows.children(row).find(|&it| rows.name(it) == name);
            let mut below = inner.below.iter();
            let row = below.try_fold(inner.outer.start, named);
            let row = row.ok_or_else(|| Error::Nested(inner.path.clone()))?;
            found.insert(row, inner.rows.start);
        }
        Ok(found)
    }

    /// A hash of everything that trees depend on besides the entries of SRCs and the directories
    /// above them: the layout, the names of users and groups, and the version of the encoding.
    pub(crate) fn context(&self, users: &Users, device_ids: DeviceIds) -> String {
        let mut hash = Sha256::new();
        let mut add = |bytes: &[u8]| {
            hash.update(bytes.len().to_le_bytes());
            hash.update(bytes);
        };
        add(VERSION);
        if device_ids == DeviceIds::HardLinks {
            add(b"device-id-for-hardlinks");
        }
        self.parts.iter().for_each(|part| add(&part.path));
        for names in users.all() {
            add(b"");
            for (number, name) in names {
                add(&number.to_le_bytes());
                add(name);
            }
        }
        Id::from(hash).to_string()
    }

    /// A hash of the metadata of the directories above the SRCs. Extended attributes cannot change
    /// without the ctime.
    pub(crate) fn above(&self, encoder: &mut NodeEncoder<'_>) -> String {
        let (mut hash, mut node) = (Sha256::new(), Vec::new());
        for part in &self.parts {
            if let LayoutNode::Above { meta, .. } = &part.what {
                encoder.write(split(&part.path).1, meta, Extra::default(), &mut node);
                hash.update(&node);
                node.clear();
            }
        }
        Id::from(hash).to_string()
    }

    /// Creates the directories above the SRCs, root first, which the caller must release. `root` is
    /// the tree of the last snapshot.
    pub(crate) fn build_above(
        &self,
        root: Option<Id>,
        reader: &TreeReader<'_>,
        encoder: &mut NodeEncoder<'_>,
    ) -> (Vec<Arc<Directory>>, Vec<SourceRoot<'_>>) {
        let root = Directory::root(root);
        let (mut above, mut tops) = (vec![(&b""[..], root.clone())], Vec::new());
        for part in &self.parts {
            let (up_path, name) = split(&part.path);
            let up = above.iter().rfind(|(path, _)| *path == up_path);
            let up = up.map_or(&root, |(_, up)| up).clone();
            match &part.what {
                LayoutNode::Inner => {}
                LayoutNode::Source(rows) => tops.push(SourceRoot {
                    place: (!name.is_empty()).then(|| up.reserve(1)),
                    up,
                    name,
                    rows: rows.clone(),
                }),
                LayoutNode::Above { real, meta } => {
                    let attributes = read_attributes(real, meta);
                    let old = up.old_tree(reader).node(name);
                    let at = (&up, up.reserve(1));
                    let directory = Directory::at(at, name, meta, &attributes, old, encoder);
                    above.push((&part.path[..], directory));
                }
            }
        }
        let above = above.into_iter().map(|(_, directory)| directory);
        (above.collect(), tops)
    }
}

/// The extended attributes of a directory above a SRC, as far as they can be read.
fn read_attributes(path: &[u8], meta: &Meta) -> ReadAttributes {
    let Ok(reach) = gate::long::reach(gate::fs::CWD, path) else {
        return Vec::new();
    };
    let of = AttributesOf::Named(reach.dir(), reach.rest());
    collect_attributes(|take| AttributeReader::default().read(meta.dev, of, take)).0
}

/// Placeholder metadata of a directory for which statx(2) fails.
fn unknown_directory() -> Meta {
    Meta {
        mode: 0o040_000,
        ..Meta::default()
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

    #[test]
    fn sources_that_are_given_again_are_one() {
        let paths = |paths: &[&str]| paths.iter().map(|it| it.as_bytes().to_vec()).collect();
        let given: Vec<Vec<u8>> = paths(&["a", "b/../a/", "/a", "a/b", "../a", "./a//b", "/a/."]);
        let distinct: Vec<Vec<u8>> = paths(&["a", "/a", "a/b", "../a"]);
        assert_eq!(distinct_sources(given), distinct);
    }
}
