//! The buffer of getdents64: what is found lies in the buffer, and is found again when it is
//! written anew.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::dirent::{Entry, entries};

/// What stands before the name.
const HEADER: usize = 19;

fuzz_target!(|buffer: &[u8]| {
    let found: Vec<_> = entries(buffer).collect();
    assert!(
        found
            .iter()
            .all(|entry| !matches!(entry.name.to_bytes(), b"." | b".." | b""))
    );

    // Records do not overlap, so what is written anew is never longer.
    let anew: Vec<u8> = found.iter().flat_map(record).collect();
    assert!(anew.len() <= buffer.len());
    assert!(entries(&anew).eq(found.iter().copied()));

    // A buffer that ends too soon loses its last entries, and no others change.
    let half: Vec<_> = entries(&buffer[..buffer.len() / 2]).collect();
    assert!(found.starts_with(&half));
});

fn record(entry: &Entry) -> Vec<u8> {
    let name = entry.name.to_bytes_with_nul();
    let mut bytes = vec![0; HEADER];
    let length = u16::try_from(HEADER + name.len()).expect("a name lies in its record");
    bytes[16..18].copy_from_slice(&length.to_ne_bytes());
    // The values of d_type are those of S_IFMT, shifted.
    bytes[18] = (entry.file_type.mode() >> 12) as u8;
    bytes.extend(name);
    bytes
}
