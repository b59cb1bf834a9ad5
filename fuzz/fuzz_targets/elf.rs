//! The beginning of a program's file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::elf::{Program, program};

fuzz_target!(|bytes: &[u8]| {
    if let Program::Dynamic { interpreter } | Program::Script { interpreter } = program(bytes) {
        assert!(!interpreter.is_empty() && interpreter.len() < bytes.len());
    }
});
