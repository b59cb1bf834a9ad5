//! Damaged catalogs: whatever the bytes, there is an answer or an error.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use archive::catalog::Reader;

/// The inputs of the fuzz target `catalog`.
const SEEDS: [&[u8]; 3] = [
    include_bytes!("../../../fuzz/seeds/catalog/walk"),
    include_bytes!("../../../fuzz/seeds/catalog/cut"),
    include_bytes!("../../../fuzz/seeds/catalog/bits"),
];

/// How many columns could be read.
fn read(bytes: &[u8]) -> usize {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let Ok(reader) = Reader::open(file.path().as_os_str().as_bytes()) else {
        return 0;
    };
    let mut whole = 0;
    for group in 0..reader.groups().min(8) {
        whole += ["dir", "name"]
            .iter()
            .filter(|column| reader.names(group, column).is_ok())
            .count();
        whole += ["part", "mode", "top"]
            .iter()
            .filter(|column| reader.numbers32(group, column).is_ok())
            .count();
        whole += ["ino", "size", "ctime"]
            .iter()
            .filter(|column| reader.numbers64(group, column).is_ok())
            .count();
        whole += usize::from(reader.maybe64(group, "btime", 0).is_ok())
            + usize::from(reader.hashes(group).is_ok());
    }
    whole
}

#[test]
fn any_byte_may_be_another() {
    assert_eq!(read(SEEDS[0]), 10, "a sound one is read whole");
    for seed in SEEDS {
        for at in 0..seed.len() {
            for other in [0, 0x55, 0xff] {
                let mut bytes = seed.to_vec();
                bytes[at] ^= other;
                read(&bytes);
            }
        }
    }
}
