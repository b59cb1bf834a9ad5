//! Catalogs: any bytes are refused, or read column by column, or found to be damaged.
#![no_main]

use catalog::Reader;
use catalog::columns::{
    BTIME_SEC, CTIME_SEC, DIR, GENERATION, INO, MODE, MTIME_NSEC, MTIME_SEC, NAME, PART, SIZE, TOP,
    XATTRS,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // A file of its own for each process that fuzzes, in memory.
    let path = format!("/dev/shm/fathom-fuzz-{}", std::process::id());
    std::fs::write(&path, bytes).unwrap();
    let reader = Reader::open(path.as_bytes());
    let _ = std::fs::remove_file(&path);
    let Ok(reader) = reader else { return };
    // Whatever is claimed, memory must be bounded; and here the time.
    const MOST: usize = 4;
    for group in 0..reader.groups().min(MOST) {
        let rows = reader.rows(group);
        for column in [DIR, NAME] {
            let read = reader.read(column, group);
            assert!(read.map_or(true, |names| names.len() == rows));
        }
        for column in [PART, MODE, MTIME_NSEC, TOP] {
            let read = reader.read(column, group);
            assert!(read.map_or(true, |numbers| numbers.len() == rows));
        }
        for column in [INO, SIZE] {
            let read = reader.read(column, group);
            assert!(read.map_or(true, |numbers| numbers.len() == rows));
        }
        for column in [MTIME_SEC, CTIME_SEC] {
            let read = reader.read(column, group);
            assert!(read.map_or(true, |numbers| numbers.len() == rows));
        }
        let generations = reader.read(GENERATION, group);
        assert!(generations.map_or(true, |numbers| numbers.len() == rows));
        let births = reader.read(BTIME_SEC, group);
        assert!(births.map_or(true, |numbers| numbers.len() == rows));
        let flags = reader.read(XATTRS, group);
        assert!(flags.map_or(true, |flags| flags.len() == rows));
        assert!(
            reader
                .hashes(group)
                .map_or(true, |hashes| hashes.len() == rows)
        );
    }
});
