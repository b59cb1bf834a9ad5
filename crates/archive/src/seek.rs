//! Reads the seek table and the member index from the end of an archive compressed with zstd.

use std::io::Read;

use catalog::ranges::Ranges;
use ondisk::members;
use ondisk::seekable::{SeekTable, index_frame};

/// Maximum size of a seek table: enough for an archive of 64 TiB.
const MOST: u64 = 256 << 20;
/// Maximum size of an index, compressed or not: compression can make a small index longer.
const MOST_INDEX: u64 = 2 * members::MOST as u64;

/// The seek table and the member index of an archive.
pub(crate) struct Seekable {
    pub(crate) table: SeekTable,
    /// The member index; `None` if missing or damaged.
    pub(crate) index: Option<Vec<u8>>,
    /// Whether there is a member index that cannot be used.
    pub(crate) has_bad_index: bool,
}

impl Seekable {
    /// Reads seek table and index; `None` if there is no table, or if the table does not cover the
    /// whole file, as after concatenating archives. Errors count as missing: the archive can then
    /// still be read from its beginning.
    pub(crate) fn read(file: &Ranges) -> Option<Seekable> {
        let len = file.len();
        let mut footer = [0; SeekTable::FOOTER];
        let at = len.checked_sub(footer.len() as u64)?;
        read_exact(file, at, &mut footer)?;
        let table_len = SeekTable::frame_len(&footer).filter(|&it| it <= MOST)?;
        let begin = len.checked_sub(table_len)?;
        let mut frame = vec![0; table_len as usize];
        read_exact(file, begin, &mut frame)?;
        let table = SeekTable::parse(&frame).filter(|table| table.end().file == begin)?;
        let mut seekable = Seekable {
            table,
            index: None,
            has_bad_index: false,
        };
        let last = seekable.table.last_skippable();
        if let Some((at, len)) = last.filter(|(_, len)| u64::from(*len) <= MOST_INDEX) {
            let mut frame = vec![0; len as usize];
            read_exact(file, at, &mut frame)?;
            if let Some(content) = index_frame::parse(&frame) {
                seekable.index = decompress(content);
                seekable.has_bad_index = seekable.index.is_none();
            }
        }
        Some(seekable)
    }
}

fn read_exact(file: &Ranges, at: u64, to: &mut [u8]) -> Option<()> {
    let have = file.read_at(at, to).ok()?;
    (have == to.len()).then_some(())
}

fn decompress(content: &[u8]) -> Option<Vec<u8>> {
    let mut index = Vec::new();
    let reader = zstd::Decoder::with_buffer(content).ok()?.single_frame();
    let len = reader.take(MOST_INDEX).read_to_end(&mut index).ok()?;
    ((len as u64) < MOST_INDEX).then_some(index)
}
