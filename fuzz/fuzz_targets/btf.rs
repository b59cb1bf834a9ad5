//! BTF: whatever the types refer to, looking for a field ends.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::btf::Btf;

fuzz_target!(|bytes: &[u8]| {
    if let Some(btf) = Btf::parse(bytes) {
        if let [Some(task)] = btf.structures([b"task"]) {
            assert!(btf.size(task).is_some());
        }
        for number in 0..18 {
            let _ = btf.member(number, b"tgid");
        }
    }
});
