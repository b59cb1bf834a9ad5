//! Access control lists: text and the kernel's form lead to each other.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::pax::acl::{to_binary, to_text};

fuzz_target!(|bytes: &[u8]| {
    if let Some(text) = to_text(bytes) {
        let again = to_binary(&text, |_, _, _| None).unwrap();
        assert_eq!(again.len(), bytes.len());
        assert_eq!(to_text(&again).map(|text| text.len()), Some(text.len()));
    }
    if let Some(binary) = to_binary(bytes, |_, name, _| u32::try_from(name.len()).ok()) {
        let text = to_text(&binary).unwrap();
        assert_eq!(to_binary(&text, |_, _, _| None), Some(binary));
    }
});
