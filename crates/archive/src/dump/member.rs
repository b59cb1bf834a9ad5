//! The headers of a tar member, and its name.

use std::cell::RefCell;

use base::path::or_dot;
use catalog::rows::Rows;
use ondisk::pax::{MOST_NAME, Member, MemberKind};
use walk::entry::append;
use walk::{FileType, Meta};

use super::users::Users;
use crate::plan::in_archive;

/// Member names of rows in the archive. The path of the last directory is cached, because most rows
/// are in it.
pub(crate) struct MemberNames<'a> {
    rows: &'a Rows,
    last: RefCell<Option<(usize, Vec<u8>)>>,
}

impl<'a> MemberNames<'a> {
    pub(crate) fn new(rows: &'a Rows) -> MemberNames<'a> {
        MemberNames {
            rows,
            last: RefCell::new(None),
        }
    }

    /// The member name, without a slash at the end.
    pub(crate) fn name(&self, row: usize) -> Vec<u8> {
        let mut name = Vec::new();
        self.add_name(row, &mut name);
        name
    }

    /// Turns a member into a hard link to another row. `None` if both have the same member name, as
    /// when one SRC is inside another; bsdtar rejects such a link.
    pub(super) fn link(&self, member: Member, to: usize) -> Option<Member> {
        let link = self.name(to);
        let is_itself = member.path == link;
        (!is_itself).then_some(Member {
            kind: MemberKind::Link,
            link,
            size: 0,
            stored: 0,
            ..member
        })
    }

    pub(super) fn add_name(&self, row: usize, name: &mut Vec<u8>) {
        let Some(parent) = self.rows.parent(row) else {
            return name.extend_from_slice(or_dot(self.source(row)));
        };
        let own = self.rows.name(row);
        self.in_directory(parent, |within| {
            name.reserve(within.len() + own.len() + 2);
            name.extend_from_slice(within);
            append(name, own);
        });
    }

    /// Whether the member name is longer than a reader of archives accepts.
    pub(super) fn is_too_long(&self, row: usize) -> bool {
        let len = match self.rows.parent(row) {
            None => self.source(row).len(),
            Some(parent) => self.in_directory(parent, |within| within.len()),
        };
        // Add two slashes: one before the file name, and one after the name of a directory.
        len + self.rows.name(row).len() + 2 > MOST_NAME
    }

    /// Calls `with` with the path prefix of the names in a directory.
    fn in_directory<T>(&self, dir: usize, with: impl FnOnce(&[u8]) -> T) -> T {
        let mut last = self.last.borrow_mut();
        match &mut *last {
            Some((known, within)) if *known == dir => with(within),
            other => with(&other.insert((dir, self.within(dir))).1),
        }
    }

    /// The member name of a SRC; empty for `/`.
    fn source(&self, row: usize) -> &'a [u8] {
        let source = &self.rows.sources()[self.rows.top(row)];
        in_archive(&source.path)
    }

    /// The path prefix of the names in a directory.
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

/// The kind of member for a file type; `None` for a type that cannot be stored in an archive.
pub(crate) fn member_kind(file_type: FileType) -> Option<MemberKind> {
    Some(match file_type {
        FileType::Regular => MemberKind::File,
        FileType::Directory => MemberKind::Directory,
        FileType::Symlink => MemberKind::Symlink,
        FileType::Fifo => MemberKind::Fifo,
        FileType::Block => MemberKind::Block,
        FileType::Char => MemberKind::Char,
        FileType::Socket | FileType::Unknown => return None,
    })
}

/// A member with the metadata of a row, reusing the memory of `spare`; `None` for a type that
/// cannot be stored in an archive.
pub(crate) fn member(
    row: usize,
    meta: &Meta,
    names: &MemberNames<'_>,
    users: &Users,
    spare: Member,
) -> Option<Member> {
    let kind = member_kind(meta.kind())?;
    let Member {
        mut path,
        mut uname,
        mut gname,
        ..
    } = spare;
    for name in [&mut path, &mut uname, &mut gname] {
        name.clear();
    }
    names.add_name(row, &mut path);
    uname.extend_from_slice(users.user(meta.uid));
    gname.extend_from_slice(users.group(meta.gid));
    if kind == MemberKind::Directory && path.last() != Some(&b'/') {
        path.push(b'/');
    }
    let has_atime = matches!(kind, MemberKind::File | MemberKind::Directory);
    let size = if kind == MemberKind::File {
        meta.size
    } else {
        0
    };
    Some(Member {
        path,
        kind,
        mode: meta.mode & 0o7777,
        uid: meta.uid,
        gid: meta.gid,
        uname,
        gname,
        size,
        stored: size,
        mtime: meta.mtime,
        atime: has_atime.then_some(meta.atime),
        ctime: Some(meta.ctime),
        rdev: meta.rdev,
        ..Member::default()
    })
}
