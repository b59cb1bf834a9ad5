//! Records of perf: of any bytes, what is parsed lies within them; formats of tracepoints give
//! places, or nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::perf::{Record, Syscall, field, length, text, thread, tracepoint};

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Some(record) = length(rest).and_then(|length| rest.get(..length)) {
        let samples = [false, true].map(|ids| Record::parse(record, ids));
        for raw in samples.into_iter().flatten().filter_map(|record| {
            if let Record::Sample { raw, .. } = record {
                Some(raw)
            } else {
                None
            }
        }) {
            assert!(raw.len() <= record.len());
            let _ = (
                tracepoint(raw),
                thread(raw),
                Syscall::enter(raw),
                Syscall::exit(raw),
            );
            for at in 0..raw.len().min(64) {
                assert!(text(raw, at).is_none_or(|text| text.len() <= raw.len()));
            }
        }
        rest = &rest[record.len()..];
    }
    let _ = (
        Record::parse(bytes, true),
        field(bytes, b"comm"),
        field(bytes, b""),
    );
});
