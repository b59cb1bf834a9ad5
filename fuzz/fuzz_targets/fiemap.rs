//! FIEMAP: extents of any bytes, and the same with neighbours taken for one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::fiemap::{merge, parse};

fuzz_target!(|bytes: &[u8]| {
    let words: Vec<u64> = bytes
        .as_chunks::<8>()
        .0
        .iter()
        .map(|word| u64::from_ne_bytes(*word))
        .collect();
    let extents = parse(&words);
    assert!(merge(&extents).len() <= extents.len());
});
