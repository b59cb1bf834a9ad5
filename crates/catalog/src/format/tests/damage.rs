//! Tests that damaged catalogs never cause a panic.

#[path = "../../../../../tests/support/effort.rs"]
mod effort;

use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use effort::effort;

use crate::format::Reader;
use crate::format::columns::{BTIME_SEC, CTIME_SEC, DIR, INO, MODE, NAME, PART, SIZE, TOP};

/// The seed inputs of the fuzz target `catalog`.
const SEEDS: [&[u8]; 3] = [
    include_bytes!("../../../../../fuzz/seeds/catalog/walk"),
    include_bytes!("../../../../../fuzz/seeds/catalog/cut"),
    include_bytes!("../../../../../fuzz/seeds/catalog/bits"),
];

/// Reads all columns; returns how many were readable.
fn read(bytes: &[u8]) -> usize {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let Ok(reader) = Reader::open(file.path().as_os_str().as_bytes()) else {
        return 0;
    };
    let mut whole = 0;
    for group in 0..reader.groups().min(8) {
        let names = [DIR, NAME].map(|column| reader.read(column, group).is_ok());
        let narrow = [PART, MODE, TOP].map(|column| reader.read(column, group).is_ok());
        let wide = [INO, SIZE].map(|column| reader.read(column, group).is_ok());
        let others = [
            reader.read(CTIME_SEC, group).is_ok(),
            reader.read(BTIME_SEC, group).is_ok(),
            reader.hashes(group).is_ok(),
        ];
        let all = names.iter().chain(&narrow).chain(&wide).chain(&others);
        whole += all.filter(|is_ok| **is_ok).count();
    }
    whole
}

#[test]
fn any_byte_may_be_another() {
    assert_eq!(read(SEEDS[0]), 10, "a sound one is read whole");
    for seed in SEEDS {
        for at in (0..seed.len()).step_by(4 / effort(1, 4)) {
            for other in [0x55, 0xff] {
                let mut bytes = seed.to_vec();
                bytes[at] ^= other;
                read(&bytes);
            }
        }
    }
}
