//! Reads the seek table and the index of an archive that is compressed with zstd, from the end of the file.

use std::io::Read;

use catalog::ranges::Ranges;
use ondisk::members;
use ondisk::seekable::{SeekTable, index_frame};

/// The longest seek table that is read: of an archive of 64 TiB.
const MOST: u64 = 256 << 20;
/// The longest index that is read, compressed or not: compression makes some longer.
const MOST_INDEX: u64 = 2 * members::MOST as u64;

/// Where the frames of an archive begin.
pub(crate) struct Seekable {
    pub(crate) table: SeekTable,
    /// The index of members; `None` if there is none, or if it is damaged.
    pub(crate) index: Option<Vec<u8>>,
    /// Whether there is one that cannot be used.
    pub(crate) has_bad_index: bool,
}

impl Seekable {
    /// Reads them; `None` if there is no table, or one that is not about the whole file, as after archives
    /// were concatenated. What a failed call does not give, a sequential reading does.
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
