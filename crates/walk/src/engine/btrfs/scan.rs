//! Reads a range of a subvolume's tree, inode by inode.

use std::os::fd::AsFd;

use gate::Errno;
use gate::btrfs::{SEARCH_HEAD, SearchKey, tree_search_v2};
use ondisk::btrfs::{FIRST_INODE, Inode, Key, LAST_INODE, Link, items, kind, links, way_to_root};

/// The maximum length of an item with its header: a leaf has at most 64 KiB.
const ITEM_MAX: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Scan {
    tree: u64,
    at: Key,
    last: u64,
    min_transid: u64,
    items: u32,
    /// Whether to read directories to their ends, for the names of nested subvolumes.
    wants_subvolumes: bool,
    /// The inode at which the scan is, if it has more names than fit in the buffer.
    long: Option<(u64, Inode)>,
    is_over: bool,
}

pub(super) enum FoundItem<'s, 'b> {
    /// An inode, or some of its names.
    Inode(ScannedInode<'s, 'b>),
    /// The name of a subvolume: a link to another tree.
    Subvolume(Link<'b>),
}

/// An inode with its names. An inode with very many names is returned in several parts.
pub(super) struct ScannedInode<'s, 'b> {
    pub(super) ino: u64,
    /// Data of the inode; `None` for names without an inode, for example while a file is being
    /// removed.
    pub(super) inode: Option<Inode>,
    pub(super) links: &'s [Link<'b>],
    /// Whether the inode may have extended attributes.
    pub(super) xattrs: bool,
    /// Whether `links` are all names of the inode, as opposed to a part of them.
    pub(super) is_whole: bool,
}

impl<'b> ScannedInode<'_, 'b> {
    /// Passes the inode on, with its names.
    fn finish(self, links: &mut Vec<Link<'b>>, each: &mut impl FnMut(FoundItem<'_, 'b>)) {
        if !links.is_empty() || self.inode.is_some() {
            each(FoundItem::Inode(ScannedInode { links, ..self }));
            links.clear();
        }
    }
}

impl Scan {
    pub(super) fn new(tree: u64, first: u64, last: u64, wants_subvolumes: bool) -> Scan {
        Scan {
            tree,
            at: (first.max(FIRST_INODE), 0, 0),
            last: last.min(LAST_INODE),
            min_transid: 0,
            items: u32::MAX,
            wants_subvolumes,
            long: None,
            is_over: false,
        }
    }

    /// Skips leaves that were last written before transaction `min_transid`.
    pub(super) fn since(self, min_transid: u64) -> Scan {
        Scan {
            min_transid,
            ..self
        }
    }

    /// Reads an inode and its first name only: the items after them may be in an unreadable leaf.
    pub(super) fn head(self) -> Scan {
        Scan { items: 2, ..self }
    }

    pub(super) fn is_head(&self) -> bool {
        self.items < u32::MAX
    }

    /// Reads the next items, and returns how many are in the buffer, for [`Scan::rows`]; `None` at
    /// the end.
    pub(super) fn fill(
        &mut self,
        fd: impl AsFd,
        buffer: &mut [u8],
    ) -> Result<Option<usize>, Errno> {
        if self.is_over || self.at.0 > self.last {
            return Ok(None);
        }
        let key = SearchKey {
            tree: self.tree,
            first: self.at,
            last: (self.last, u8::MAX, u64::MAX),
            min_transid: self.min_transid,
            items: self.items,
        };
        tree_search_v2(fd, &key, buffer).map(Some)
    }

    /// The number of the next inode; `None` if the scan is in the middle of an inode.
    pub(super) fn between(&self) -> Option<u64> {
        (!self.is_over && self.at.1 == 0 && self.long.is_none()).then_some(self.at.0)
    }

    /// The number of the inode at which the scan is.
    pub(super) fn ino(&self) -> u64 {
        self.at.0
    }

    /// Calls `each` with the inodes and subvolumes that [`Scan::fill`] has read.
    pub(super) fn rows<'b>(
        &mut self,
        buffer: &'b [u8],
        count: usize,
        links_of_row: &mut Vec<Link<'b>>,
        mut each: impl FnMut(FoundItem<'_, 'b>),
    ) {
        let mut found = items(buffer.get(SEARCH_HEAD..).unwrap_or_default(), count);
        let mut open: Option<ScannedInode<'_, 'b>> = None;
        let mut is_first = true;
        let mut last = None;
        links_of_row.clear();
        for item in found.by_ref() {
            let (ino, kind, _) = item.key;
            last = Some(item.key);
            if open.as_ref().is_none_or(|open| open.ino != ino) {
                if let Some(before) = open.take() {
                    before.finish(links_of_row, &mut each);
                    is_first = false;
                }
                let long = self.long.take().filter(|&(long, _)| long == ino);
                let is_whole = long.is_none() && !self.is_head();
                open = Some(ScannedInode {
                    ino,
                    links: &[],
                    inode: long.map(|(_, inode)| inode),
                    xattrs: !is_whole, // the buffer may lack items of this inode
                    is_whole,
                });
            }
            let Some(open) = &mut open else { continue };
            match kind {
                kind::INODE_ITEM => open.inode = Inode::parse(item.data),
                kind::INODE_REF | kind::INODE_EXTREF => links_of_row.extend(links(item)),
                kind::XATTR_ITEM => open.xattrs = true,
                _ => {
                    if let Some(name) = way_to_root(item).filter(|_| self.wants_subvolumes) {
                        each(FoundItem::Subvolume(Link { dir: ino, name }));
                    }
                }
            }
        }
        let (Some(mut open), Some(last)) = (open, last) else {
            self.is_over = true;
            return;
        };
        if found.rest().len() >= ITEM_MAX {
            self.is_over = true;
            return open.finish(links_of_row, &mut each);
        }
        let after_last = match last.2.checked_add(1) {
            Some(offset) => (last.0, last.1, offset),
            None => (last.0, last.1.saturating_add(1), 0),
        };
        // Items are in the order of their kinds: this inode has no further names or attributes.
        let is_complete = last.1 > kind::XATTR_ITEM;
        let next = if is_complete {
            let next = if self.wants_subvolumes {
                after_last
            } else {
                (open.ino.saturating_add(1), 0, 0)
            };
            open.finish(links_of_row, &mut each);
            next
        } else if !is_first {
            (open.ino, 0, 0)
        } else {
            self.long = open.inode.map(|inode| (open.ino, inode));
            (open.is_whole, open.xattrs) = (false, true);
            open.finish(links_of_row, &mut each);
            after_last
        };
        // Descending keys mean a damaged tree, and would make this loop endless.
        self.is_over = next <= self.at;
        self.at = next;
    }
}
