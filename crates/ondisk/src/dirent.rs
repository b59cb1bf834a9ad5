//! The buffer of getdents64(2): `struct linux_dirent64`.
//! [getdents(2)](https://man7.org/linux/man-pages/man2/getdents.2.html)

use std::ffi::CStr;

use crate::{FileType, u16_at, u64_at};

/// A directory entry. At a mount point, inode number and type are those of the covered file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Entry<'a> {
    pub name: &'a CStr,
    pub ino: u64,
    pub file_type: FileType,
}

/// The entries of a getdents64 buffer, without `.` and `..`. Ends early at malformed bytes.
pub fn entries(buffer: &[u8]) -> Entries<'_> {
    Entries { rest: buffer }
}

/// Iterates over directory entries; see [`entries`].
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    rest: &'a [u8],
}

impl<'a> Entries<'a> {
    /// The bytes of the buffer that have not been parsed.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        const LENGTH: usize = 16;
        const TYPE: usize = 18;
        const NAME: usize = 19;
        loop {
            let length = usize::from(u16_at(self.rest, LENGTH)?);
            let record = self.rest.get(..length)?;
            let name = CStr::from_bytes_until_nul(record.get(NAME..)?).ok()?;
            let ino = u64_at(record, 0)?;
            self.rest = &self.rest[length..];
            // The values of d_type are those of S_IFMT, shifted.
            let file_type = FileType::from_mode(u32::from(record[TYPE]) << 12);
            if !matches!(name.to_bytes(), b"." | b".." | b"") {
                return Some(Entry {
                    name,
                    ino,
                    file_type,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(name: &[u8], d_type: u8) -> Vec<u8> {
        let length = (19 + name.len() + 1).next_multiple_of(8);
        let mut bytes = vec![0; length];
        bytes[16..18].copy_from_slice(&(length as u16).to_ne_bytes());
        bytes[18] = d_type;
        bytes[19..19 + name.len()].copy_from_slice(name);
        bytes
    }

    #[test]
    fn dot_entries_are_skipped() {
        let buffer = [
            record(b".", 4),
            record(b"a", 8),
            record(b"..", 4),
            record(b"\xff\n", 4),
            record(b"?", 0),
            record(b"whiteout", 14),
        ]
        .concat();
        let found: Vec<_> = entries(&buffer)
            .map(|e| (e.name.to_bytes(), e.file_type))
            .collect();
        let expected: [(&[u8], _); 4] = [
            (b"a", FileType::Regular),
            (b"\xff\n", FileType::Directory),
            (b"?", FileType::Unknown),
            (b"whiteout", FileType::Unknown),
        ];
        assert_eq!(found, expected);
    }

    proptest! {
        #[test]
        fn no_buffer_makes_it_panic(buffer in proptest::collection::vec(any::<u8>(), 0..300)) {
            entries(&buffer).for_each(drop);
        }
    }
}
