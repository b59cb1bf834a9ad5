//! BTF: whatever the types refer to, an extract ends, and is BTF again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::btf::Btf;

fuzz_target!(|bytes: &[u8]| {
    if let Some(btf) = Btf::parse(bytes)
        && let Some(extract) = btf.extract([b"task"])
    {
        assert!(Btf::parse(&extract).is_some());
    }
});
