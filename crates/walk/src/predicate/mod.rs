//! Predicates: tests of entries that decide what a command prints and counts. All must hold, as in
//! find.
//!
//! | module | contents |
//! |---|---|
//! | [`glob`] | patterns for names |
//! | [`test`](mod@test) | tests of single fields of the metadata |
//! | [`select`] | the sink that passes on the selected entries |

pub mod glob;
pub mod select;
pub mod test;

use base::path::{split, trim_slashes};
use regex::bytes::Regex;

use crate::entry::{Dir, Entry, FileType, Meta};
use crate::sink::Fields;
use glob::Glob;
use test::{IdTest, NumberTest, PermTest, SizeTest, TimeField, TimeTest, Types};

/// The tests that an entry must pass. The default selects all entries.
#[derive(Clone, Debug, Default)]
pub struct Predicates {
    /// The accepted file types; none for any.
    pub types: Types,
    /// Only regular files of size 0, and directories without entries.
    pub empty: bool,
    /// Tests of the permission bits.
    pub perms: Vec<PermTest>,
    /// Tests of the owner's user id.
    pub users: Vec<IdTest>,
    /// Tests of the group id.
    pub groups: Vec<IdTest>,
    /// Tests of the number of hard links.
    pub links: Vec<NumberTest>,
    /// Tests of the size.
    pub sizes: Vec<SizeTest>,
    /// Limits of one of the file times.
    pub time: TimeTest,
    /// Minimum depth below DIR; DIR is at 0.
    pub min_depth: u32,
    /// Maximum depth below DIR.
    pub max_depth: Option<u32>,
    /// Patterns for the name, any of which must match, if there are any. `inames` and `extensions`
    /// are alike.
    pub names: Vec<Glob>,
    /// Patterns for the name that ignore case.
    pub inames: Vec<Glob>,
    /// Patterns for extensions.
    pub extensions: Vec<Glob>,
    /// Regular expressions, any of which must match somewhere in the path.
    pub paths: Vec<Regex>,
}

impl Predicates {
    /// Whether every entry is selected.
    pub fn is_all(&self) -> bool {
        self.types.is_any()
            && !self.empty
            && self.perms.is_empty()
            && self.users.is_empty()
            && self.groups.is_empty()
            && self.links.is_empty()
            && self.sizes.is_empty()
            && !self.time.is_limited()
            && self.min_depth == 0
            && self.max_depth.is_none()
            && !self.wants_names()
            && self.paths.is_empty()
    }

    /// The fields of an entry that the tests read.
    pub fn fields(&self) -> Fields {
        let when = |is_needed: bool, fields: Fields| match is_needed {
            true => fields,
            false => Fields::empty(),
        };
        let time = match self.time.field {
            TimeField::Mtime => Fields::MTIME,
            TimeField::Ctime => Fields::CTIME,
            TimeField::Atime => Fields::ATIME,
            TimeField::Btime => Fields::BTIME,
        };
        let by_mode = !self.perms.is_empty() || self.empty;
        let by_depth = self.min_depth > 0 || self.max_depth.is_some();
        let by_name = by_depth || self.wants_names() || !self.paths.is_empty() || self.empty;
        when(by_mode, Fields::MODE)
            | when(!self.types.is_any(), Fields::TYPE)
            | when(!self.users.is_empty(), Fields::UID)
            | when(!self.groups.is_empty(), Fields::GID)
            | when(!self.links.is_empty(), Fields::NLINK)
            | when(!self.sizes.is_empty() || self.empty, Fields::SIZE)
            | when(self.time.is_limited(), time)
            | when(by_name, Fields::NAME)
    }

    /// Whether an entry passes all tests, except that a directory is [empty](Predicates::empty),
    /// which its metadata does not show.
    pub fn accepts(&self, dir: &Dir<'_>, entry: &Entry<'_>, path: &mut Vec<u8>) -> bool {
        self.accepts_meta(&entry.meta)
            && self.accepts_depth(entry.depth(dir))
            && self.accepts_name(own_name(dir, entry))
            && (self.paths.is_empty() || {
                entry.path(dir, path);
                self.accepts_path(path)
            })
    }

    /// Whether the metadata passes all tests. The cheap tests of single numbers come first.
    #[inline]
    pub fn accepts_meta(&self, meta: &Meta) -> bool {
        self.accepts_mode(meta.mode)
            && self.users.iter().all(|test| test.accepts(meta.uid))
            && self.groups.iter().all(|test| test.accepts(meta.gid))
            && self.sizes.iter().all(|test| test.accepts(meta.size))
            && self
                .links
                .iter()
                .all(|test| test.accepts(meta.nlink.into()))
            && (!self.empty || is_empty_or_directory(meta.kind(), meta.size))
            && (!self.time.is_limited() || self.time.accepts(self.time.field.get(meta)))
    }

    /// Whether file type and permission bits pass their tests.
    #[inline]
    pub fn accepts_mode(&self, mode: u32) -> bool {
        self.types.accepts(FileType::from_mode(mode))
            && self.perms.iter().all(|test| test.accepts(mode))
    }

    /// Whether an entry at this depth passes.
    #[inline]
    pub fn accepts_depth(&self, depth: u32) -> bool {
        depth >= self.min_depth && self.max_depth.is_none_or(|max| depth <= max)
    }

    /// Whether a file name passes the tests of names.
    pub fn accepts_name(&self, name: &[u8]) -> bool {
        let any = |globs: &[Glob]| globs.is_empty() || globs.iter().any(|it| it.is_match(name));
        any(&self.names) && any(&self.inames) && any(&self.extensions)
    }

    /// Whether a path passes the regular expressions.
    pub fn accepts_path(&self, path: &[u8]) -> bool {
        self.paths.is_empty() || self.paths.iter().any(|regex| regex.is_match(path))
    }

    /// Whether any test reads the name.
    pub fn wants_names(&self) -> bool {
        !(self.names.is_empty() && self.inames.is_empty() && self.extensions.is_empty())
    }
}

/// Whether a file can be [empty](Predicates::empty), by type and size.
#[inline]
pub fn is_empty_or_directory(kind: FileType, size: u64) -> bool {
    kind == FileType::Directory || kind == FileType::Regular && size == 0
}

/// The name of an entry. For DIR itself, the last component of its path, as in find.
fn own_name<'a>(dir: &Dir<'a>, entry: &Entry<'a>) -> &'a [u8] {
    match entry.name {
        b"" => base_name(dir.path),
        name => name,
    }
}

/// The last component of a path without the slashes at its end; `/` for the root.
pub fn base_name(path: &[u8]) -> &[u8] {
    match trim_slashes(path) {
        b"" => &path[..path.len().min(1)],
        path => split(path).1,
    }
}

#[cfg(test)]
mod tests {
    use super::base_name;

    #[test]
    fn names_of_directories_as_given() {
        for (path, name) in [
            ("/", "/"),
            ("//", "/"),
            (".", "."),
            ("./", "."),
            ("/srv/x/", "x"),
            ("a/..", ".."),
            ("", ""),
        ] {
            assert_eq!(base_name(path.as_bytes()), name.as_bytes(), "{path}");
        }
    }
}
