//! Catalogs: any bytes are refused, or read column by column, or found to be damaged.
#![no_main]

use archive::catalog::Reader;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // A file of its own for each process that fuzzes, in memory.
    let path = format!("/dev/shm/fathom-fuzz-{}", std::process::id());
    std::fs::write(&path, bytes).unwrap();
    let reader = Reader::open(path.as_bytes());
    let _ = std::fs::remove_file(&path);
    let Ok(reader) = reader else { return };
    // What claims to have more is not looked for: memory goes by that.
    const MOST: u64 = 1 << 20;
    if reader.about().entries > MOST {
        return;
    }
    for group in 0..reader.groups() {
        let rows = reader.rows(group);
        for column in ["dir", "name"] {
            assert!(
                reader
                    .names(group, column)
                    .map_or(true, |names| names.len() == rows)
            );
        }
        for column in ["part", "mode", "mtime_ns", "top"] {
            assert!(
                reader
                    .numbers32(group, column)
                    .map_or(true, |numbers| numbers.len() == rows)
            );
        }
        for column in ["ino", "size", "mtime", "ctime"] {
            assert!(
                reader
                    .numbers64(group, column)
                    .map_or(true, |numbers| numbers.len() == rows)
            );
        }
        assert!(
            reader
                .maybe32(group, "generation", 0)
                .map_or(true, |numbers| numbers.len() == rows)
        );
        assert!(
            reader
                .maybe64(group, "btime", 0)
                .map_or(true, |numbers| numbers.len() == rows)
        );
        assert!(
            reader
                .maybe_flags(group, "xattrs")
                .map_or(true, |flags| flags.len() == rows)
        );
        assert!(
            reader
                .hashes(group)
                .map_or(true, |hashes| hashes.len() == rows)
        );
    }
});
