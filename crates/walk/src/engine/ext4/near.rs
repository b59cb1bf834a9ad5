//! Combines reads of neighbouring ranges of the device.

use std::ops::Range;

use super::device::Device;

/// Maximum number of bytes per read, unless a single block has more.
pub(super) const WINDOW: u64 = 256 << 10;

/// Reads the rows of some inodes, which must be sorted by number. `None` for a row that was never
/// used or cannot be read.
pub(super) fn each_row<'i, T>(
    device: &Device,
    items: &'i [T],
    number: impl Fn(&T) -> u32,
    buffer: &mut Vec<u8>,
    mut each: impl FnMut(&'i T, Option<&[u8]>),
) {
    /// Maximum gap in bytes between two rows in one read: to read a gap costs less than another
    /// call.
    const GAP: u64 = 1024;
    let size = u64::from(device.superblock.inode_size);
    let mut places = Vec::with_capacity(items.len());
    for item in items {
        match device.place_of(number(item)) {
            Some(place) => places.push((place, item)),
            None => each(item, None),
        }
    }
    let lies = |&(place, _): &(u64, _)| place..place + size;
    read_ahead(device, &places, lies, 1);
    let mut rest = &places[..];
    while !rest.is_empty() {
        let (count, window) = stretch(rest, lies, GAP, WINDOW);
        let (some, others) = rest.split_at(count);
        rest = others;
        buffer.resize((window.end - window.start) as usize, 0);
        let is_read = device.read(window.start, buffer).is_ok();
        for &(place, item) in some {
            let raw = &buffer[(place - window.start) as usize..][..size as usize];
            each(item, is_read.then_some(raw));
        }
    }
}

/// Returns how many items from the first on are close enough for a single read, and the range to
/// read.
pub(super) fn stretch<T>(
    items: &[T],
    lies: impl Fn(&T) -> Range<u64>,
    gap: u64,
    most: u64,
) -> (usize, Range<u64>) {
    let mut window = lies(&items[0]);
    let mut count = 1;
    for item in &items[1..] {
        let next = lies(item);
        if next.start < window.end
            || next.start - window.end > gap
            || next.end - window.start > most
        {
            break;
        }
        window.end = next.end;
        count += 1;
    }
    (count, window)
}

/// Starts readahead of items, and of small gaps between them, if the cache is cold.
pub(super) fn read_ahead<T>(
    device: &Device,
    items: &[T],
    lies: impl Fn(&T) -> Range<u64> + Copy,
    unit: u64,
) {
    const GAP: u64 = 64 << 10;
    const MOST: u64 = 4 << 20;
    let mut rest = items;
    while device.is_cold() && !rest.is_empty() {
        let (count, window) = stretch(rest, lies, GAP / unit, MOST / unit);
        device.will_need(window.start * unit, (window.end - window.start) * unit);
        rest = &rest[count..];
    }
}
