//! A directory entry still to be created, and its directory.

use std::ffi::CString;

use base::path::split;
use gate::Fd;
use ondisk::pax::Member;

use super::attributes::{DeferredAttributes, InheritedAttributes};

/// Maximum size of an entry passed to a worker; the reader creates larger ones itself.
const SMALL: u64 = 64 << 10;

/// An open directory, to create entries in.
pub(super) struct OpenDirectory<'a> {
    pub(super) here: &'a Fd,
    pub(super) traits: &'a mut DirectoryDefaults,
}

/// Properties that new entries get from their directory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DirectoryDefaults {
    pub(super) inherits: InheritedAttributes,
    /// Owner and group of new entries, if known: with the set-group-ID bit or the mount option
    /// `grpid`, the group is that of the directory.
    pub(super) owner: Option<(u32, u32)>,
}

/// The state of an open directory.
#[derive(Debug, Default)]
pub(super) struct DirectoryState {
    /// Attributes to set when the directory is complete.
    pub(super) late: Option<Box<DeferredAttributes>>,
    pub(super) traits: DirectoryDefaults,
}

impl DirectoryState {
    /// `inherits`: attributes that new entries inherit.
    pub(super) fn new(
        late: Option<Box<DeferredAttributes>>,
        inherits: InheritedAttributes,
    ) -> DirectoryState {
        let traits = DirectoryDefaults {
            inherits,
            owner: None,
        };
        DirectoryState { late, traits }
    }
}

/// A directory entry still to be created.
pub(super) struct NewEntry {
    /// The number of the member in the restore.
    pub(super) number: u64,
    pub(super) path: Vec<u8>,
    pub(super) name: CString,
    pub(super) member: Member,
    pub(super) data: Vec<u8>,
    /// Whether this restore may have created a file of the same path before.
    pub(super) is_replacement: bool,
    /// For a hard link in the directory of its target: the path of the target.
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
            is_replacement: false,
            target: Vec::new(),
        }
    }

    /// Whether the entry is small enough to be passed to a worker.
    pub(super) fn is_small(&self) -> bool {
        self.member.sparse.is_none() && self.member.size.saturating_add(self.size()) <= SMALL
    }

    /// Names in the directory on which the entry depends: the entry's own name, and that of a hard
    /// link's target.
    pub(super) fn names(&self) -> impl Iterator<Item = &[u8]> {
        let target = split(&self.target).1;
        [self.name.to_bytes(), target]
            .into_iter()
            .filter(|name| !name.is_empty())
    }

    /// Approximate memory use of the entry, in bytes.
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
pub(super) struct UnresolvedLink {
    pub(super) entry: NewEntry,
    pub(super) target: Vec<u8>,
    /// Offset of the link in the archive.
    pub(super) at: u64,
}
