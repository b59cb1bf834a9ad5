//! Identifies the directories of a walk by hashes of their paths.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::path_id;

/// The path hash of the `nth` DIR of a walk.
pub fn top(nth: usize) -> u64 {
    nth as u64
}

/// The path hash of `name` in a directory, from that of the directory.
#[inline]
pub fn below(hash: u64, name: &[u8]) -> u64 {
    xxh3_64_with_seed(name, hash)
}

/// Identifies a directory of a walk. Two directories whose names an attacker has chosen to collide
/// in `hash` still differ in `id`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct DirKey {
    /// Depth below DIR: 0 for DIR itself.
    pub depth: u32,
    /// Path hash, the same in every process ([`crate::digest`]); for DIR itself, its number.
    pub hash: u64,
    /// Number of the path in this process ([`crate::path_id`]).
    pub id: u64,
}

impl DirKey {
    /// The key of the `nth` DIR of a walk.
    pub fn top(nth: usize) -> DirKey {
        DirKey {
            depth: 0,
            hash: top(nth),
            id: path_id::top(nth),
        }
    }

    /// The key of the subdirectory `name`.
    #[inline]
    #[must_use]
    pub fn below(self, name: &[u8]) -> DirKey {
        DirKey {
            depth: self.depth + 1,
            hash: below(self.hash, name),
            id: path_id::below(self.id, name),
        }
    }

    /// The key of a directory below this one, by its relative path.
    #[must_use]
    pub fn at(self, path: &[u8]) -> DirKey {
        base::path::names(path).fold(self, DirKey::below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// XXH3 of a short name is a bijection of the name XOR the seed, so colliding names are easy to
    /// construct.
    #[test]
    fn names_that_collide_in_the_digest_have_different_keys() {
        let top = DirKey::top(0);
        let one = top.below(b"aaaaaaaa").below(b"eszycidp");
        let other = top.below(b"bbbbbbbb").below(b"\x92-\xf5V#2\xd2\xa3");
        assert_eq!((one.depth, one.hash), (other.depth, other.hash));
        assert_ne!(one, other);
        let (one, other) = (DirKey::top(0).below(b"d10"), DirKey::top(1).below(b"d17"));
        assert!(one.hash != other.hash || one != other);
        assert_eq!(top.at(b"a//b/"), top.below(b"a").below(b"b"));
    }
}
