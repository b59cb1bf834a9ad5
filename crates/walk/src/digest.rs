//! A hash over the path and metadata of every entry, the same for every order and engine.
//!
//! Each entry is hashed by itself (XXH3, 128 bits), and the hashes are added up. Included are the
//! path below DIR, inode number, mode, links, owner, group, size, blocks, mtime, ctime, btime, the
//! device number of a device file, and the attributes. Excluded are atime, which the walk itself
//! may change; device and mount numbers, which change at reboot; fields that only some engines see;
//! and the times of a [stub](Meta::is_stub). The digest detects changes, but not attacks: a user
//! who chooses the names can construct two trees with the same digest.

use std::fmt;

use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::entry::{Dir, Entry, Meta, Time};
pub use crate::key::{below, top};

/// The sum of the hashes of some entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Digest(u128);

impl Digest {
    /// Adds the hash of an entry.
    #[inline]
    pub fn add(&mut self, dir: &Dir<'_>, entry: &Entry<'_>) {
        let name = if entry.name.is_empty() {
            dir.key.hash
        } else {
            below(dir.key.hash, entry.name)
        };
        self.0 = self
            .0
            .wrapping_add(xxh3_128_with_seed(&bytes(&entry.meta), name));
    }

    /// Subtracts the hash of an entry that was added before.
    pub fn take_away(&mut self, dir: &Dir<'_>, entry: &Entry<'_>) {
        let mut one = Digest::default();
        one.add(dir, entry);
        self.0 = self.0.wrapping_sub(one.0);
    }

    /// The lower and the upper 64 bits of the digest.
    pub fn halves(self) -> [u64; 2] {
        [self.0 as u64, (self.0 >> 64) as u64]
    }

    /// The inverse of [`Digest::halves`].
    pub fn from_halves([lower, upper]: [u64; 2]) -> Digest {
        Digest(u128::from(lower) | u128::from(upper) << 64)
    }

    /// Adds the digest of other entries.
    pub fn merge(&mut self, other: Digest) {
        self.0 = self.0.wrapping_add(other.0);
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The metadata of an entry, as the bytes that are hashed.
#[inline]
fn bytes(meta: &Meta) -> [u8; 96] {
    const NO_TIME: Time = Time::new(i64::MIN, u32::MAX);
    let mut times = [meta.mtime, meta.ctime, meta.btime.unwrap_or(NO_TIME)];
    if meta.is_stub() {
        times = [NO_TIME; 3];
    }
    let [mtime, ctime, btime] = times;
    let pair = |a: u32, b: u32| u64::from(a) | u64::from(b) << 32;
    let words: [u64; 12] = [
        meta.ino,
        pair(meta.mode, meta.nlink),
        pair(meta.uid, meta.gid),
        meta.size,
        meta.blocks,
        mtime.sec.cast_unsigned(),
        ctime.sec.cast_unsigned(),
        btime.sec.cast_unsigned(),
        pair(mtime.nsec, ctime.nsec),
        // All attribute bits that are hashed are below bit 32.
        pair(btime.nsec, meta.attributes as u32),
        pair(meta.rdev.major, meta.rdev.minor),
        0,
    ];
    let mut out = [0; 96];
    for (to, word) in out.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *to = word.to_le_bytes();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_does_not_matter_but_every_included_field_does() {
        let dir = crate::key::DirKey::top(0).dir(b"");
        let meta = Meta {
            ino: 7,
            mode: 0o100_644,
            nlink: 1,
            size: 5,
            ..Meta::default()
        };
        let sum = |entries: &[(&[u8], Meta)]| {
            let mut digest = Digest::default();
            entries
                .iter()
                .for_each(|&(name, meta)| digest.add(&dir, &Entry { name, meta }));
            digest
        };
        let (a, b) = ((&b"a"[..], meta), (&b"b"[..], Meta { ino: 8, ..meta }));
        assert_eq!(sum(&[a, b]), sum(&[b, a]));
        let mut rest = sum(&[a, b]);
        rest.take_away(&dir, &Entry { name: b"a", meta });
        assert_eq!(rest, sum(&[b]));
        assert_ne!(sum(&[a, b]), sum(&[(b"a", b.1), (b"b", a.1)]));
        let atime = Meta {
            atime: Time::new(9, 9),
            mount: 3,
            generation: Some(1),
            xattrs: Some(true),
            ..meta
        };
        assert_eq!(sum(&[a]), sum(&[(b"a", atime)]));
        for other in [
            Meta {
                mode: 0o100_600,
                ..meta
            },
            Meta { size: 6, ..meta },
            Meta {
                mtime: Time::new(0, 1),
                ..meta
            },
            Meta {
                btime: Some(Time::default()),
                ..meta
            },
            Meta {
                attributes: 0x10,
                ..meta
            },
        ] {
            assert_ne!(sum(&[a]), sum(&[(b"a", other)]), "{other:?}");
        }
    }
}
