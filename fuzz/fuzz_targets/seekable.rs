//! The end of an archive that is compressed with zstd: its seek table, and the index of its members.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::members::{IndexReader, IndexWriter};
use ondisk::seekable::{SeekTable, index_frame};

fuzz_target!(|bytes: &[u8]| {
    if let Some(table) = SeekTable::parse(bytes) {
        let end = table.end();
        assert!(table.find(u64::MAX).file <= end.file);
        let again = table.encode().and_then(|frame| SeekTable::parse(&frame));
        assert_eq!(again, Some(table));
    }
    index_frame::parse(bytes);
    let Some(mut reader) = IndexReader::new(bytes) else {
        return;
    };
    let mut writer = IndexWriter::default();
    while let Some(member) = reader.next() {
        assert!(writer.push(member));
    }
    let mut again = IndexReader::new(bytes).expect("it was read before");
    let index = writer.finish(again.archive_len);
    let mut written = IndexReader::new(&index).expect("it was just written");
    while let Some(member) = again.next() {
        assert_eq!(written.next(), Some(member));
    }
    assert!(written.is_over());
});
