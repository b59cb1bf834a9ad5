//! Identifies the entries of a walk by 64 bits: a hash of the path, with a random secret per
//! process. So an attacker cannot choose names such that two paths have the same number.
//! ([`crate::digest`] has no secret, because it must be the same everywhere.)

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use xxhash_rust::xxh3::xxh3_64_with_secret;

static SECRET: LazyLock<Vec<u8>> = LazyLock::new(|| {
    /// Length of the secret in 64-bit words: XXH3 needs at least 136 bytes.
    const WORDS: u64 = 24;
    let random = RandomState::new();
    let words = (0..WORDS).map(|nth| random.hash_one(nth));
    words.flat_map(u64::to_le_bytes).collect()
});

/// A hash with the secret of this process.
#[inline]
pub fn hashed(bytes: &[u8]) -> u64 {
    xxh3_64_with_secret(bytes, &SECRET)
}

/// The number of the `nth` DIR of a walk.
pub fn top(nth: usize) -> u64 {
    hashed(&(nth as u64).to_le_bytes())
}

/// The number of `name` in a directory, from that of the directory.
#[inline]
pub fn below(dir: u64, name: &[u8]) -> u64 {
    let mut words = [0; 16];
    words[..8].copy_from_slice(&dir.to_le_bytes());
    words[8..].copy_from_slice(&hashed(name).to_le_bytes());
    hashed(&words)
}
