//! An entry of a directory that is to be created, and the directory.

use std::ffi::CString;

use base::path::split;
use gate::Fd;
use ondisk::pax::Member;

use super::attributes::{Inherited, Late};

/// Bytes of an entry that is passed on; the reader creates larger ones itself.
const SMALL: u64 = 64 << 10;

/// An open directory in which entries are created.
pub(super) struct OpenDirectory<'a> {
    pub(super) here: &'a Fd,
    pub(super) traits: &'a mut Traits,
}

/// What new entries of a directory get from it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traits {
    pub(super) inherits: Inherited,
    /// Their owner and group, if that is known: with the set-group-ID bit or the mount option
    /// `grpid`, the group is that of the directory.
    pub(super) owner: Option<(u32, u32)>,
}

/// What is known of an open directory.
#[derive(Debug, Default)]
pub(super) struct DirectoryState {
    /// What it gets when it is left.
    pub(super) late: Option<Box<Late>>,
    pub(super) traits: Traits,
}

impl DirectoryState {
    /// `inherits` says what new entries get from it.
    pub(super) fn new(late: Option<Box<Late>>, inherits: Inherited) -> DirectoryState {
        let traits = Traits {
            inherits,
            owner: None,
        };
        DirectoryState { late, traits }
    }
}

/// An entry of a directory that is still to be created.
pub(super) struct NewEntry {
    /// The number of the member.
    pub(super) number: u64,
    pub(super) path: Vec<u8>,
    pub(super) name: CString,
    pub(super) member: Member,
    /// The data of a file.
    pub(super) data: Vec<u8>,
    /// The path of the file that a hard link in the same directory is a name of.
    pub(super) target: Vec<u8>,
}

impl NewEntry {
    pub(super) fn new(number: u64, path: Vec<u8>, name: CString, member: Member) -> NewEntry {
        NewEntry {
            number,
            path,
            name,
            member,
            data: Vec::new(),
            target: Vec::new(),
        }
    }

    /// Whether it can be passed on.
    pub(super) fn is_small(&self) -> bool {
        self.member.sparse.is_none() && self.member.size.saturating_add(self.size()) <= SMALL
    }

    /// The names in its directory on which it depends: its own, and that of a hard link's target.
    pub(super) fn names(&self) -> impl Iterator<Item = &[u8]> {
        let target = split(&self.target).1;
        [self.name.to_bytes(), target]
            .into_iter()
            .filter(|name| !name.is_empty())
    }

    /// Its bytes of memory, about.
    pub(super) fn size(&self) -> u64 {
        let member = &self.member;
        let lists = [&member.acl_access, &member.acl_default];
        let texts = [
            &self.path,
            &member.path,
            &member.link,
            &self.target,
            &self.data,
        ];
        let xattrs = member
            .xattrs
            .iter()
            .map(|(name, value)| name.len() + value.len());
        let lists = lists.into_iter().flatten().map(Vec::len);
        let texts = texts.into_iter().map(Vec::len);
        texts.chain(xattrs).chain(lists).sum::<usize>() as u64
    }
}

/// A hard link whose target was not restored.
pub(super) struct Unlinked {
    pub(super) entry: NewEntry,
    /// The path of the target.
    pub(super) target: Vec<u8>,
    /// The offset of the link in the archive.
    pub(super) at: u64,
}
