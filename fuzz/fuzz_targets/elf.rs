//! The beginning of a program's file, and its RUNPATH.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::elf::{Program, program, search_path};

fuzz_target!(|bytes: &[u8]| {
    if let Program::Dynamic { interpreter } | Program::Script { interpreter } = program(bytes) {
        assert!(!interpreter.is_empty() && interpreter.len() < bytes.len());
    }
    search_path(|from, most| {
        let rest = bytes.get(usize::try_from(from).ok()?..)?;
        Some(rest[..most.min(rest.len())].to_vec())
    });
});
