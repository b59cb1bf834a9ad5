//! The data extents of a sparse file. [GNU tar's sparse
//! formats](https://www.gnu.org/software/tar/manual/html_section/Sparse-Formats.html)

use super::field::BLOCK;

/// A range of a sparse file with stored data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extent {
    /// Offset in the file.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

impl Extent {
    /// Offset of the end of the extent in the file.
    pub fn end(&self) -> u64 {
        self.offset + self.len
    }
}

/// The extents of a file in ascending order. They do not overlap, none is empty, and all end below
/// 2^63.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Map(Vec<Extent>);

impl Map {
    /// Maximum number of extents in the map of a sparse file: 16 MiB of memory.
    pub const MOST: usize = 1 << 20;

    /// The extents, in ascending order.
    pub fn extents(&self) -> &[Extent] {
        &self.0
    }

    /// Total length of all extents in bytes.
    pub fn data(&self) -> u64 {
        // Extents do not overlap, so the sum is at most the end of the last one and cannot
        // overflow.
        self.0.iter().map(|extent| extent.len).sum()
    }

    fn end(&self) -> u64 {
        self.0.last().map_or(0, Extent::end)
    }

    /// Adds an extent after the others, for a file that is being stored. It is merged with the last
    /// extent if they touch, and also if the map is full, including the hole between them. A part
    /// before the end of the last extent is skipped.
    pub fn add(&mut self, offset: u64, len: u64) {
        let end = offset.saturating_add(len).min(i64::MAX.unsigned_abs());
        let (is_full, so_far) = (self.0.len() == Map::MOST, self.end());
        match self.0.last_mut() {
            _ if end <= so_far.max(offset) => {}
            Some(last) if offset <= so_far || is_full => last.len = end - last.offset,
            _ => self.0.push(Extent {
                offset,
                len: end - offset,
            }),
        }
    }

    /// Adds an extent from an archive; skips an empty one.
    pub(super) fn push(&mut self, offset: u64, len: u64) -> Result<(), &'static str> {
        let end = offset
            .checked_add(len)
            .filter(|&end| i64::try_from(end).is_ok());
        if end.is_none() {
            return Err("the map of a sparse file has an extent that is too large");
        }
        if offset < self.end() {
            return Err("the map of a sparse file has overlapping or unordered extents");
        }
        if len == 0 {
            return Ok(());
        }
        if self.0.len() == Map::MOST {
            return Err("the map of a sparse file has too many extents");
        }
        self.0.push(Extent { offset, len });
        Ok(())
    }

    /// Checks the extents against the size of the file and of its stored data.
    pub(super) fn check(&self, size: u64, stored: u64) -> Result<(), &'static str> {
        if self.end() > size {
            return Err("the map of a sparse file exceeds its size");
        }
        if self.data() != stored {
            return Err("the map of a sparse file does not match the stored size");
        }
        Ok(())
    }

    /// Appends the map in the format 1.0, which precedes the data: the number of extents, then
    /// offset and length of each, one number per line, padded with NULs to whole blocks. GNU tar
    /// takes the end of the last extent for the file size, so an empty extent ends a file that ends
    /// with a hole.
    pub fn encode(&self, size: u64, out: &mut Vec<u8>) {
        let end = (self.end() < size || self.0.is_empty()).then_some(Extent {
            offset: size,
            len: 0,
        });
        let start = out.len();
        let mut line = |number: u64| out.extend_from_slice(format!("{number}\n").as_bytes());
        line(self.0.len() as u64 + u64::from(end.is_some()));
        for extent in self.0.iter().chain(&end) {
            line(extent.offset);
            line(extent.len);
        }
        out.resize(start + (out.len() - start).next_multiple_of(BLOCK), 0);
    }
}

/// Parses the map of a sparse file in the text format 1.0, block by block.
#[derive(Debug, Default)]
pub(super) struct Text {
    map: Map,
    /// How many numbers of the map are left; `None` before the first one, which is the number of
    /// extents.
    left: Option<u64>,
    offset: Option<u64>,
    number: Option<u64>,
}

impl Text {
    /// Parses a block of the map; returns whether it was the last one.
    pub(super) fn take(&mut self, block: &[u8]) -> Result<bool, &'static str> {
        for &byte in block {
            if self.left == Some(0) {
                return Ok(true);
            }
            match byte {
                b'0'..=b'9' => {
                    let tens = self.number.unwrap_or(0).checked_mul(10);
                    let larger = tens.and_then(|n| n.checked_add((byte - b'0').into()));
                    self.number = Some(
                        larger.ok_or("the map of a sparse file has a number that is too large")?,
                    );
                }
                b'\n' => {
                    let number = self
                        .number
                        .take()
                        .ok_or("a sparse file's map has an empty line")?;
                    self.line(number)?;
                }
                _ => return Err("invalid number in the map of a sparse file"),
            }
        }
        Ok(self.left == Some(0))
    }

    fn line(&mut self, number: u64) -> Result<(), &'static str> {
        let Some(left) = self.left else {
            // Allow one extent more than the maximum: an empty one may end the file.
            if number > Map::MOST as u64 + 1 {
                return Err("the map of a sparse file has too many extents");
            }
            self.left = Some(number * 2);
            return Ok(());
        };
        self.left = Some(left.saturating_sub(1));
        match self.offset.take() {
            None => {
                self.offset = Some(number);
                Ok(())
            }
            Some(offset) => self.map.push(offset, number),
        }
    }

    /// The map of the sparse file, after its last block was parsed.
    pub(super) fn into_map(self) -> Map {
        self.map
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &[u8]) -> Result<Map, &'static str> {
        let mut reader = Text::default();
        for block in text.chunks(BLOCK) {
            if reader.take(block)? {
                return Ok(reader.into_map());
            }
        }
        Err("no end")
    }

    #[test]
    fn a_map_is_encoded_as_by_gnu_tar() {
        let mut map = Map::default();
        map.add(4096, 4096);
        map.add(1 << 20, 100);
        let mut text = Vec::new();
        map.encode(2 << 20, &mut text);
        assert_eq!(text.len(), BLOCK);
        assert!(text.starts_with(b"3\n4096\n4096\n1048576\n100\n2097152\n0\n\0"));
        assert_eq!(read(&text), Ok(map));
        let mut nothing = Vec::new();
        Map::default().encode(10, &mut nothing);
        assert!(nothing.starts_with(b"1\n10\n0\n\0"));
    }

    #[test]
    fn touching_extents_are_merged() {
        let mut map = Map::default();
        for (offset, len) in [
            (0, 10),
            (10, 10),
            (5, 2),
            (30, 0),
            (30, 5),
            (u64::MAX, 1),
            (i64::MAX as u64 - 1, 9),
        ] {
            map.add(offset, len);
        }
        let pairs: Vec<_> = map.extents().iter().map(|e| (e.offset, e.len)).collect();
        assert_eq!(pairs, [(0, 20), (30, 5), (i64::MAX as u64 - 1, 1)]);
        let mut full = Map::default();
        (0..Map::MOST as u64 + 3).for_each(|n| full.add(2 * n, 1));
        assert_eq!(full.extents().len(), Map::MOST);
        assert_eq!(full.end(), 2 * (Map::MOST as u64 + 2) + 1);
    }

    #[test]
    fn malformed_maps_are_refused() {
        for bad in [
            "1\n5\n",
            "x",
            "\n",
            "-1\n",
            "2\n10\n5\n12\n5\n",
            "2\n10\n5\n0\n5\n",
            "1\n9223372036854775807\n1\n",
            "1\n18446744073709551615\n18446744073709551615\n",
            "99999999999999999999\n",
            "1048578\n",
            "1\n1\n1 \n",
        ] {
            assert!(read(bad.as_bytes()).is_err(), "{bad}");
        }
        assert_eq!(read(b"0\n"), Ok(Map::default()));
        assert!(read(b"1\n3\n4\n").unwrap().check(6, 4).is_err());
        assert!(read(b"1\n3\n4\n").unwrap().check(7, 3).is_err());
        assert!(read(b"1\n3\n4\n").unwrap().check(7, 4).is_ok());
    }

    proptest! {
        #[test]
        fn an_encoded_map_is_read_back(steps in proptest::collection::vec((1u64..1 << 40, 1u64..1 << 40), 0..300), hole: u32) {
            let mut map = Map::default();
            let mut at = 0;
            for (gap, len) in steps {
                map.add(at + gap, len);
                at += gap + len;
            }
            let mut text = b"before".to_vec();
            map.encode(at + u64::from(hole), &mut text);
            prop_assert_eq!((text.len() - 6) % BLOCK, 0);
            prop_assert_eq!(read(&text[6..]), Ok(map));
        }

        #[test]
        fn no_text_makes_it_panic(text in "[0-9\n]{0,60}") {
            let _ = read(text.as_bytes());
        }
    }
}
