//! The seek table of the zstd seekable format: the offset of each frame in the compressed file and
//! in its content. The table is in the last frame of the file, which every zstd decompressor skips
//! (contrib/seekable_format/zstd_seekable_compression_format.md in zstd's source).

use crate::le32;

/// Magic of the skippable frame with the seek table.
const SKIPPABLE: u32 = 0x184D_2A5E;
/// Magic at the end of the seek table.
const MAGIC: u32 = 0x8F92_EAB1;
/// Bit of the descriptor for a checksum in each entry. The next five bits are reserved.
const HAS_CHECKSUMS: u8 = 0x80;
const RESERVED: u8 = 0x7c;
/// Length of the header of a skippable frame: magic, and length of the content.
const HEADER: usize = 8;
/// Maximum number of frames in a seek table, by the zstd seekable format.
const MOST: usize = 0x800_0000;

/// The start of a frame, as two offsets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FrameStart {
    /// Offset in the compressed file.
    pub file: u64,
    /// Offset in the decompressed content.
    pub content: u64,
}

/// A seek table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SeekTable {
    /// Compressed and decompressed length of each zstd frame.
    frames: Vec<(u32, u32)>,
}

impl SeekTable {
    /// Length of the seek table's footer: the last bytes of the file.
    pub const FOOTER: usize = 9;

    /// Adds the next frame: its compressed length, and the length of its content (0 for a skippable
    /// frame).
    pub fn push(&mut self, file: u32, content: u32) {
        self.frames.push((file, content));
    }

    /// Encodes the table as a skippable frame; `None` if there are more frames than the format
    /// permits.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let count = self.frames.len();
        let len = 8 * count + Self::FOOTER;
        if count > MOST {
            return None;
        }
        let mut frame = skippable_header(SKIPPABLE, len)?.to_vec();
        for (file, content) in &self.frames {
            frame.extend(file.to_le_bytes());
            frame.extend(content.to_le_bytes());
        }
        frame.extend(u32::try_from(count).ok()?.to_le_bytes());
        frame.push(0);
        frame.extend(MAGIC.to_le_bytes());
        Some(frame)
    }

    /// Length of the skippable frame with the table, from the footer; `None` if the bytes are not a
    /// footer.
    pub fn frame_len(footer: &[u8; Self::FOOTER]) -> Option<u64> {
        let descriptor = footer[4];
        if le32(footer, 5) != Some(MAGIC) || descriptor & RESERVED != 0 {
            return None;
        }
        let count = le32(footer, 0).filter(|&count| count as usize <= MOST)?;
        let entry = 8 + 4 * u64::from(descriptor & HAS_CHECKSUMS != 0);
        Some(HEADER as u64 + u64::from(count) * entry + Self::FOOTER as u64)
    }

    /// Parses the whole skippable frame with the table.
    pub fn parse(frame: &[u8]) -> Option<SeekTable> {
        let footer = frame.last_chunk::<{ Self::FOOTER }>()?;
        if Self::frame_len(footer)? != frame.len() as u64 {
            return None;
        }
        if frame[..HEADER] != skippable_header(SKIPPABLE, frame.len() - HEADER)? {
            return None;
        }
        let entry = if footer[4] & HAS_CHECKSUMS != 0 {
            12
        } else {
            8
        };
        let entries = frame[HEADER..frame.len() - Self::FOOTER].chunks_exact(entry);
        let frames = entries.map(|entry| Some((le32(entry, 0)?, le32(entry, 4)?)));
        Some(SeekTable {
            frames: frames.collect::<Option<_>>()?,
        })
    }

    /// The end of the last frame: length of the compressed file without the table, and of its
    /// content.
    pub fn end(&self) -> FrameStart {
        self.starts()
            .last()
            .map_or(FrameStart::default(), |(_, end)| end)
    }

    /// Finds the last frame that begins at or before an offset of the content.
    pub fn find(&self, content: u64) -> FrameStart {
        let before = self.starts().map(|(start, _)| start);
        let before = before.take_while(|start| start.content <= content);
        before.last().unwrap_or_default()
    }

    /// Offset and length of the last frame, if it is skippable.
    pub fn last_skippable(&self) -> Option<(u64, u32)> {
        let (len, content) = *self.frames.last()?;
        (content == 0).then(|| (self.end().file - u64::from(len), len))
    }

    fn starts(&self) -> impl Iterator<Item = (FrameStart, FrameStart)> {
        let mut at = FrameStart::default();
        self.frames.iter().map(move |&(file, content)| {
            let start = at;
            at.file += u64::from(file);
            at.content += u64::from(content);
            (start, at)
        })
    }
}

/// The header of a skippable frame with `len` bytes of content.
fn skippable_header(magic: u32, len: usize) -> Option<[u8; HEADER]> {
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&magic.to_le_bytes());
    header[4..].copy_from_slice(&u32::try_from(len).ok()?.to_le_bytes());
    Some(header)
}

/// A skippable frame with a compressed index of members ([`crate::members`]).
pub mod index_frame {
    use super::{HEADER, skippable_header};

    /// One of the magics for skippable frames; [`TAG`] distinguishes this frame from those of other
    /// programs.
    const SKIPPABLE: u32 = 0x184D_2A5D;
    const TAG: &[u8; 8] = b"fathomix";

    /// Encodes a frame with this content; `None` if that is too long.
    pub fn encode(content: &[u8]) -> Option<Vec<u8>> {
        let mut frame = skippable_header(SKIPPABLE, TAG.len() + content.len())?.to_vec();
        frame.extend(TAG);
        frame.extend(content);
        Some(frame)
    }

    /// The content of the frame; `None` if the frame has a different magic or tag.
    pub fn parse(frame: &[u8]) -> Option<&[u8]> {
        let (header, content) = frame.split_first_chunk::<HEADER>()?;
        if *header != skippable_header(SKIPPABLE, content.len())? {
            return None;
        }
        content.strip_prefix(TAG)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_table_is_as_the_format_says() {
        let mut table = SeekTable::default();
        table.push(100, 1000);
        table.push(60, 500);
        table.push(20, 0);
        let frame = table.encode().unwrap();
        let words = |words: &[u32]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_le_bytes()).collect()
        };
        let mut expected = words(&[0x184D_2A5E, 33, 100, 1000, 60, 500, 20, 0, 3]);
        expected.push(0);
        expected.extend(words(&[0x8F92_EAB1]));
        assert_eq!(frame, expected);
        assert_eq!(SeekTable::parse(&frame), Some(table.clone()));
        assert_eq!((table.end().file, table.end().content), (180, 1500));
        assert_eq!(table.last_skippable(), Some((160, 20)));
        for (content, file) in [(0, 0), (999, 0), (1000, 100), (1499, 100), (1500, 160)] {
            assert_eq!(table.find(content).file, file, "{content}");
        }
    }

    #[test]
    fn checksums_in_entries_are_skipped() {
        let mut frame = skippable_header(SKIPPABLE, 12 + 9).unwrap().to_vec();
        for word in [7, 70, 0xdead_beef, 1u32] {
            frame.extend(word.to_le_bytes());
        }
        frame.push(HAS_CHECKSUMS);
        frame.extend(MAGIC.to_le_bytes());
        let end = SeekTable::parse(&frame).unwrap().end();
        assert_eq!((end.file, end.content), (7, 70));
    }

    proptest! {
        #[test]
        fn tables_are_parsed_as_they_were_written(
            frames in proptest::collection::vec(any::<(u32, u32)>(), 0..50), content: u64,
        ) {
            let table = SeekTable { frames };
            let frame = table.encode().unwrap();
            let footer = frame.last_chunk().unwrap();
            prop_assert_eq!(SeekTable::frame_len(footer), Some(frame.len() as u64));
            prop_assert_eq!(SeekTable::parse(&frame), Some(table.clone()));
            prop_assert!(table.find(content).content <= content);
            for len in 0..frame.len() {
                prop_assert_eq!(SeekTable::parse(&frame[..len]), None);
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100), at: u64) {
            if let Some(table) = SeekTable::parse(&bytes) {
                table.find(at);
                table.last_skippable();
            }
            if let Some(footer) = bytes.last_chunk() {
                SeekTable::frame_len(footer);
            }
            index_frame::parse(&bytes);
        }
    }
}
