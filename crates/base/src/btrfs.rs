//! Searches of btrfs's trees.

use std::ops::RangeInclusive;
use std::os::fd::AsFd;

use gate::Errno;
use gate::btrfs::{SEARCH_HEAD, SearchKey, tree_search_v2};
use ondisk::btrfs::{Item, Items, Key, items};

/// Buffer size of a search for many items, in bytes. Sizes from 16 KiB to 1 MiB make no difference.
pub const BUFFER: usize = 128 << 10;

/// Searches a tree (0: the tree of the subvolume of `fd`) for up to `most` items in a range of
/// keys.
///
/// # Errors
/// Those of the ioctl.
pub fn search<'b>(
    fd: impl AsFd,
    tree: u64,
    keys: RangeInclusive<Key>,
    most: u32,
    buffer: &'b mut [u8],
) -> Result<Items<'b>, Errno> {
    let key = SearchKey {
        tree,
        first: *keys.start(),
        last: *keys.end(),
        min_transid: 0,
        items: most,
    };
    let count = tree_search_v2(fd, &key, buffer)?;
    let found = buffer.get(SEARCH_HEAD..).unwrap_or_default();
    // A key outside the range means a damaged tree: a search that continued after it might not end.
    let is_wanted = |item: &Item<'_>| keys.contains(&item.key);
    let count = items(found, count).take_while(is_wanted).count();
    Ok(items(found, count))
}

/// Calls `take` for each item of a tree with a key in a range.
///
/// # Errors
/// Those of the ioctl.
pub fn each_item(
    fd: impl AsFd,
    tree: u64,
    keys: RangeInclusive<Key>,
    mut take: impl FnMut(Item<'_>),
) -> Result<(), Errno> {
    let mut buffer = vec![0; BUFFER];
    let mut next = Some(*keys.start());
    while let Some(first) = next.filter(|first| first <= keys.end()) {
        let mut last = None;
        for item in search(&fd, tree, first..=*keys.end(), u32::MAX, &mut buffer)? {
            last = Some(item.key);
            take(item);
        }
        next = last.and_then(after);
    }
    Ok(())
}

/// The next key in the order of a tree; `None` after the last possible key.
fn after((object, kind, offset): Key) -> Option<Key> {
    match (offset.checked_add(1), kind.checked_add(1)) {
        (Some(offset), _) => Some((object, kind, offset)),
        (None, Some(kind)) => Some((object, kind, 0)),
        (None, None) => Some((object.checked_add(1)?, 0, 0)),
    }
}
