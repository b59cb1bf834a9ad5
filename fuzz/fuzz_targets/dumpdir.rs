//! What was in a directory: what is taken can be written, and is the same; names are such as can be
//! in a directory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::pax::dumpdir::{Code, encode, entries};

fuzz_target!(|bytes: &[u8]| {
    let Some(found) = entries(bytes) else { return };
    assert_eq!(encode(found.clone()), bytes);
    for (code, name) in found {
        assert!(!name.contains(&0));
        if matches!(code, Code::Y | Code::N | Code::D) {
            assert!(!name.is_empty() && !name.contains(&b'/') && name != b".." && name != b".");
        }
    }
});
