//! The answer of FS_IOC_FIEMAP: where a file lies.
//! [fiemap](https://docs.kernel.org/filesystems/fiemap.html)

/// What is said of an extent: the `FIEMAP_EXTENT_*` of linux/fiemap.h.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags(pub u32);

impl Flags {
    /// The last of the file.
    pub fn is_last(self) -> bool {
        self.0 & 0x1 != 0
    }

    /// Where it lies is known, and is a place on the device that it has for itself: not delayed,
    /// not within other data.
    pub fn is_placed(self) -> bool {
        const UNKNOWN: u32 = 0x2;
        const DELALLOC: u32 = 0x4;
        const DATA_INLINE: u32 = 0x200;
        const DATA_TAIL: u32 = 0x400;
        self.0 & (UNKNOWN | DELALLOC | DATA_INLINE | DATA_TAIL) == 0
    }
}

/// A part of a file that lies in one piece: a `struct fiemap_extent`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Where it begins in the file, in bytes.
    pub logical: u64,
    /// Where it begins on the device, in bytes; on btrfs, in its own space of addresses.
    pub physical: u64,
    /// How long it is, in bytes.
    pub length: u64,
    /// What else is said of it.
    pub flags: Flags,
}

/// 64-bit words of `struct fiemap` before its extents.
const HEAD: usize = 4;
/// 64-bit words of `struct fiemap_extent`.
const EXTENT: usize = 7;

/// The extents of a buffer that the kernel has filled; only as many as it says there are, and as
/// there is room for.
pub fn parse(buffer: &[u64]) -> Vec<Extent> {
    let second = |word: u64| u32::from_ne_bytes(std::array::from_fn(|i| word.to_ne_bytes()[4 + i]));
    let first = |word: u64| u32::from_ne_bytes(std::array::from_fn(|i| word.to_ne_bytes()[i]));
    let mapped = buffer.get(2).map_or(0, |word| second(*word) as usize);
    let extents = buffer
        .get(HEAD..)
        .unwrap_or_default()
        .chunks_exact(EXTENT)
        .take(mapped);
    extents
        .map(|words| Extent {
            logical: words[0],
            physical: words[1],
            length: words[2],
            flags: Flags(first(words[5])),
        })
        .collect()
}

/// The same with what lies side by side, in the file and on the device, taken for one: a file
/// system may have to describe one piece by several extents.
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

    /// As the kernel fills it on a little-endian machine.
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
    fn what_lies_side_by_side_is_one() {
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
