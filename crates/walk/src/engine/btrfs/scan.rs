//! A range of a subvolume's tree, inode by inode.

use std::os::fd::AsFd;

use gate::Errno;
use gate::btrfs::{SEARCH_HEAD, SearchKey, tree_search_v2};
use ondisk::btrfs::{FIRST_INODE, Inode, Key, LAST_INODE, Link, items, kind, links, way_to_root};

/// Bytes that are read at a time. From 16 KiB to 1 MiB it makes no difference.
pub(super) const BUFFER: usize = 128 << 10;

/// No item is longer, with the header before it: leaves have 64 KiB at most.
const ITEM_MAX: usize = 64 << 10;

/// Goes through a range of a tree.
#[derive(Debug)]
pub(super) struct Scan {
    tree: u64,
    at: Key,
    last: u64,
    min_transid: u64,
    /// How many items are read at a time.
    items: u32,
    /// Directories are read to their ends, for names that lead to other trees.
    wants_ways: bool,
    /// An inode with more names than the buffer has room for.
    long: Option<(u64, Inode)>,
    is_over: bool,
}

/// An item that a scan finds.
pub(super) enum Found<'s, 'b> {
    /// An inode, or names of one.
    Inode(ScannedInode<'s, 'b>),
    /// The name of a subvolume: a link to another tree.
    Subvolume(Link<'b>),
}

/// An inode with its names. One with very many names comes in several parts.
pub(super) struct ScannedInode<'s, 'b> {
    /// The inode number.
    pub(super) ino: u64,
    /// What is known of it; `None` when there are names and no inode, as while it is being removed.
    pub(super) inode: Option<Inode>,
    /// Its names.
    pub(super) links: &'s [Link<'b>],
    /// Whether it may have extended attributes.
    pub(super) xattrs: bool,
    /// Whether these are all its names; an inode with very many comes in several rows.
    pub(super) is_whole: bool,
}

/// An inode whose items are being gone through.
struct Open {
    ino: u64,
    inode: Option<Inode>,
    xattrs: bool,
    is_whole: bool,
    /// All that belongs into its row has been seen.
    is_complete: bool,
}

impl Open {
    fn finish<'b>(self, links: &mut Vec<Link<'b>>, each: &mut impl FnMut(Found<'_, 'b>)) {
        if !links.is_empty() || self.inode.is_some() {
            let Open {
                ino,
                inode,
                xattrs,
                is_whole,
                ..
            } = self;
            each(Found::Inode(ScannedInode {
                ino,
                inode,
                links,
                xattrs,
                is_whole,
            }));
            links.clear();
        }
    }
}

impl Scan {
    /// Begins with the inode `first`, and ends with `last`.
    pub(super) fn new(tree: u64, first: u64, last: u64, wants_ways: bool) -> Scan {
        let (at, last) = ((first.max(FIRST_INODE), 0, 0), last.min(LAST_INODE));
        Scan {
            tree,
            at,
            last,
            min_transid: 0,
            items: u32::MAX,
            wants_ways,
            long: None,
            is_over: false,
        }
    }

    /// Leaves out what was last written before a transaction, as far as whole leaves go.
    pub(super) fn since(self, min_transid: u64) -> Scan {
        Scan {
            min_transid,
            ..self
        }
    }

    /// Reads an inode and its first name only: what follows them may lie in a leaf that cannot be
    /// read.
    pub(super) fn head(self) -> Scan {
        Scan { items: 2, ..self }
    }

    /// Whether it does so.
    pub(super) fn is_head(&self) -> bool {
        self.items < u32::MAX
    }

    /// Reads on: how many items there are in the buffer now, for [`Scan::rows`]; `None` at the end.
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

    /// The inode with which it goes on, when that is between two inodes.
    pub(super) fn between(&self) -> Option<u64> {
        (!self.is_over && self.at.1 == 0 && self.long.is_none()).then_some(self.at.0)
    }

    /// The inode at which it is.
    pub(super) fn ino(&self) -> u64 {
        self.at.0
    }

    /// Goes through what [`Scan::fill`] has read.
    pub(super) fn rows<'b>(
        &mut self,
        buffer: &'b [u8],
        count: usize,
        links_of_row: &mut Vec<Link<'b>>,
        mut each: impl FnMut(Found<'_, 'b>),
    ) {
        let mut found = items(buffer.get(SEARCH_HEAD..).unwrap_or_default(), count);
        let mut open: Option<Open> = None;
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
                let long = self
                    .long
                    .take()
                    .filter(|&(long, _)| long == ino)
                    .map(|(_, inode)| inode);
                let is_whole = long.is_none() && !self.is_head();
                let xattrs = !is_whole; // they are not looked for
                open = Some(Open {
                    ino,
                    inode: long,
                    xattrs,
                    is_whole,
                    is_complete: false,
                });
            }
            let Some(open) = &mut open else { continue };
            match kind {
                kind::INODE_ITEM => open.inode = Inode::parse(item.data),
                kind::INODE_REF | kind::INODE_EXTREF => links_of_row.extend(links(item)),
                kind::XATTR_ITEM => open.xattrs = true,
                _ => {
                    open.is_complete |= kind > kind::XATTR_ITEM;
                    if let Some(name) = way_to_root(item).filter(|_| self.wants_ways) {
                        each(Found::Subvolume(Link { dir: ino, name }));
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
        let next = if open.is_complete {
            let next = if self.wants_ways {
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
        // A tree whose keys do not rise is damaged, and could be gone through for ever.
        self.is_over = next <= self.at;
        self.at = next;
    }
}

/// The first inode number at or after `ino` that has anything in the tree.
pub(super) fn next_inode(
    fd: impl AsFd,
    tree: u64,
    ino: u64,
    buffer: &mut [u8],
) -> Result<Option<u64>, Errno> {
    let last = (LAST_INODE, u8::MAX, u64::MAX);
    let key = SearchKey {
        tree,
        first: (ino, 0, 0),
        last,
        min_transid: 0,
        items: 1,
    };
    let count = tree_search_v2(fd, &key, buffer)?;
    Ok(items(buffer.get(SEARCH_HEAD..).unwrap_or_default(), count)
        .next()
        .map(|item| item.key.0))
}

/// The first inode number after one that cannot be read from which on the tree can be read again.
/// Leaves hold what is close together, so that those that cannot be read are passed over soon.
pub(super) fn readable_after(
    fd: impl AsFd,
    tree: u64,
    unreadable: u64,
    buffer: &mut [u8],
) -> Option<u64> {
    let mut reads = |ino| next_inode(&fd, tree, ino, buffer).is_ok();
    let (mut bad, mut step) = (unreadable, 1_u64);
    let mut good = loop {
        let next = bad.checked_add(step).filter(|&next| next <= LAST_INODE)?;
        if reads(next) {
            break next;
        }
        (bad, step) = (next, step.saturating_mul(2));
    };
    while good - bad > 1 {
        let middle = bad + (good - bad) / 2;
        if reads(middle) {
            good = middle
        } else {
            bad = middle
        }
    }
    Some(good)
}

/// The directory that a directory is in, and its name there; `None` when it has none, or is no
/// directory.
pub(super) fn parent_of(
    fd: impl AsFd,
    tree: u64,
    ino: u64,
    buffer: &mut [u8],
) -> Result<Option<(u64, Vec<u8>)>, Errno> {
    const S_IFMT: u32 = 0o170_000;
    const S_IFDIR: u32 = 0o040_000;
    let last = (ino, kind::INODE_REF, u64::MAX);
    let key = SearchKey {
        tree,
        first: (ino, kind::INODE_ITEM, 0),
        last,
        min_transid: 0,
        items: 2,
    };
    let count = tree_search_v2(fd, &key, buffer)?;
    let (mut is_dir, mut parent) = (false, None);
    for item in items(buffer.get(SEARCH_HEAD..).unwrap_or_default(), count) {
        if item.key.1 == kind::INODE_ITEM {
            is_dir = Inode::parse(item.data).is_some_and(|inode| inode.mode & S_IFMT == S_IFDIR);
        }
        parent = parent.or(links(item)
            .next()
            .map(|link| (link.dir, link.name.to_vec())));
    }
    Ok(parent.filter(|_| is_dir))
}
