//! What a member's headers say: a row, its names, and what is asked for besides.

use std::cell::RefCell;

use ondisk::Time;
use ondisk::pax::{Kind, Member};
use walk::entry::append;
use walk::{Meta, Type};

use super::users::Users;
use crate::plan::member_name;
use crate::rows::Rows;

/// The names of rows in the archive. What is asked for is mostly in the directory that was asked
/// for last.
pub(crate) struct Names<'a> {
    rows: &'a Rows,
    last: RefCell<Option<(usize, Vec<u8>)>>,
}

impl<'a> Names<'a> {
    pub(crate) fn new(rows: &'a Rows) -> Names<'a> {
        Names {
            rows,
            last: RefCell::new(None),
        }
    }

    /// Without the slash at the end of a directory's.
    pub(crate) fn name(&self, row: usize) -> Vec<u8> {
        let Some(parent) = self.rows.parent(row) else {
            let name = self.source(row);
            return if name.is_empty() {
                b".".to_vec()
            } else {
                name.to_vec()
            };
        };
        let mut last = self.last.borrow_mut();
        let within = match &mut *last {
            Some((dir, within)) if *dir == parent => within,
            other => &mut other.insert((parent, self.within(parent))).1,
        };
        let own = self.rows.name(row);
        let mut name = Vec::with_capacity(within.len() + own.len() + 2);
        name.extend_from_slice(within);
        append(&mut name, own);
        name
    }

    /// The name of a SRC, which may be empty.
    fn source(&self, row: usize) -> &'a [u8] {
        let source = self.rows.sources().get(self.rows.top(row));
        source.map_or(b"", |source| trimmed(member_name(&source.path)))
    }

    /// What the names in a directory begin with: nothing in `/`.
    fn within(&self, mut row: usize) -> Vec<u8> {
        let mut names = Vec::new();
        while let Some(parent) = self.rows.parent(row) {
            names.push(self.rows.name(row));
            row = parent;
        }
        let mut path = self.source(row).to_vec();
        names.iter().rev().for_each(|name| append(&mut path, name));
        path
    }
}

fn trimmed(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&b| b != b'/').map_or(0, |at| at + 1);
    path.get(..end).unwrap_or_default()
}

/// A member with what is known of a file without reading it; `None` for what no archive can hold.
pub(crate) fn member(meta: &Meta, path: Vec<u8>, users: &Users) -> Option<Member> {
    let kind = match meta.kind() {
        Type::File => Kind::File,
        Type::Directory => Kind::Directory,
        Type::Symlink => Kind::Symlink,
        Type::Fifo => Kind::Fifo,
        Type::Block => Kind::Block,
        Type::Char => Kind::Char,
        Type::Socket | Type::Unknown => return None,
    };
    let mut path = path;
    if kind == Kind::Directory && path.last() != Some(&b'/') {
        path.push(b'/');
    }
    let has_atime = matches!(kind, Kind::File | Kind::Directory);
    Some(Member {
        path,
        kind,
        mode: meta.mode & 0o7777,
        uid: meta.uid,
        gid: meta.gid,
        uname: users.user(meta.uid).to_vec(),
        gname: users.group(meta.gid).to_vec(),
        size: if kind == Kind::File { meta.size } else { 0 },
        stored: if kind == Kind::File { meta.size } else { 0 },
        mtime: time(meta.mtime),
        atime: has_atime.then(|| time(meta.atime)),
        ctime: Some(time(meta.ctime)),
        rdev: meta.rdev,
        ..Member::default()
    })
}

fn time(time: walk::entry::Time) -> Time {
    Time {
        sec: time.sec,
        nsec: time.nsec,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_nowhere_else() {
        for (path, name) in [
            ("/", ""),
            ("/a/b", "a/b"),
            ("//a", "a"),
            ("../a", "a"),
            ("..", ""),
            ("a/../b", "b"),
            ("a/..", ""),
            ("a/...", "a/..."),
            ("..a/b", "..a/b"),
            ("./a", "./a"),
            ("../../a/../../b/c", "b/c"),
        ] {
            assert_eq!(member_name(path.as_bytes()), name.as_bytes(), "{path}");
        }
        assert_eq!(trimmed(b"a//"), b"a");
        assert_eq!(trimmed(b"/"), b"");
    }
}
