//! The result of FS_IOC_FIEMAP: the extents of a file.
//! [fiemap](https://docs.kernel.org/filesystems/fiemap.html)

use crate::u32_at;

/// The `FIEMAP_EXTENT_*` flags of an extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags(pub u32);

impl Flags {
    /// Whether the extent is the last one of the file.
    pub fn is_last(self) -> bool {
        self.0 & 0x1 != 0
    }

    /// Whether the extent is compressed or encrypted: its length is then that of the data in the
    /// file.
    pub fn is_encoded(self) -> bool {
        self.0 & 0x8 != 0
    }

    /// Whether the extent is shared: other files or extents refer to the same blocks.
    pub fn is_shared(self) -> bool {
        self.0 & 0x2000 != 0
    }

    /// Whether the extent has a known address on the device of its own: allocation is not delayed,
    /// and the data is neither inline nor packed together with other data.
    pub fn is_placed(self) -> bool {
        const UNKNOWN: u32 = 0x2;
        const DELALLOC: u32 = 0x4;
        const DATA_INLINE: u32 = 0x200;
        const DATA_TAIL: u32 = 0x400;
        self.0 & (UNKNOWN | DELALLOC | DATA_INLINE | DATA_TAIL) == 0
    }
}

/// A `struct fiemap_extent`, with lengths in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Extent {
    /// Offset in the file.
    pub logical: u64,
    /// Offset on the device; for btrfs, in the logical address space.
    pub physical: u64,
    pub length: u64,
    pub flags: Flags,
}

/// Length of `struct fiemap` before its extents, in 64-bit words.
const HEAD: usize = 4;
/// Length of `struct fiemap_extent` in 64-bit words.
const EXTENT: usize = 7;

/// Parses the extents in a buffer that the kernel has filled, at most as many as fit.
pub fn parse(buffer: &[u64]) -> Vec<Extent> {
    let half = |word: u64, at| u32_at(&word.to_ne_bytes(), at).unwrap_or(0);
    let mapped = buffer.get(2).map_or(0, |&word| half(word, 4) as usize);
    let extents = buffer.get(HEAD..).unwrap_or_default().chunks_exact(EXTENT);
    extents
        .take(mapped)
        .map(|words| Extent {
            logical: words[0],
            physical: words[1],
            length: words[2],
            flags: Flags(half(words[5], 0)),
        })
        .collect()
}

/// Collects the extents of a file until at least `most` are collected or the file ends. `read`
/// fills the buffer with extents from an offset in the file on.
///
/// # Errors
/// The errors of `read`.
pub fn collect<E>(
    buffer: &mut [u64],
    most: usize,
    mut read: impl FnMut(u64, &mut [u64]) -> Result<(), E>,
) -> Result<Vec<Extent>, E> {
    let mut all: Vec<Extent> = Vec::new();
    let mut from = 0;
    while all.len() < most {
        read(from, buffer)?;
        let some = parse(buffer);
        let Some(last) = some.last() else { break };
        let end = last.logical.saturating_add(last.length);
        let is_last = last.flags.is_last();
        all.extend(some);
        if is_last || end <= from {
            break;
        }
        from = end;
    }
    Ok(all)
}

/// Merges extents that are adjacent both in the file and on the device: some file systems report
/// one range as several extents.
pub fn merge(extents: &[Extent]) -> Vec<Extent> {
    let mut merged: Vec<Extent> = Vec::new();
    for extent in extents {
        match merged.last_mut() {
            Some(last)
                if last.flags.is_placed()
                    && extent.flags.is_placed()
                    && last.logical.checked_add(last.length) == Some(extent.logical)
                    && last.physical.checked_add(last.length) == Some(extent.physical) =>
            {
                last.length = last.length.saturating_add(extent.length);
            }
            _ => merged.push(*extent),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A buffer as the kernel fills it on a little-endian machine.
    fn filled(extents: &[(u64, u64, u64, u32)]) -> Vec<u64> {
        let halves = |a: u32, b: u32| {
            let bytes: Vec<u8> = a.to_ne_bytes().into_iter().chain(b.to_ne_bytes()).collect();
            u64::from_ne_bytes(bytes.try_into().unwrap())
        };
        let mut words = vec![0, u64::MAX, halves(1, extents.len() as u32), halves(512, 0)];
        for (logical, physical, length, flags) in extents {
            words.extend([*logical, *physical, *length, 0, 0, halves(*flags, 0), 0]);
        }
        words
    }

    #[test]
    fn adjacent_extents_are_merged() {
        let buffer = filled(&[
            (0, 1000, 10, 0),
            (10, 1010, 5, 0),
            (15, 2000, 5, 0),
            (20, 2005, 1, 0x201),
        ]);
        let extents = parse(&buffer);
        assert_eq!(extents.len(), 4);
        assert!(extents[3].flags.is_last() && !extents[3].flags.is_placed());
        let lengths: Vec<u64> = merge(&extents).iter().map(|extent| extent.length).collect();
        assert_eq!(lengths, [15, 5, 1]);
    }

    proptest! {
        #[test]
        fn no_buffer_makes_it_panic(words in prop::collection::vec(any::<u64>(), 0..40)) {
            let extents = parse(&words);
            prop_assert!(merge(&extents).len() <= extents.len());
        }
    }
}
