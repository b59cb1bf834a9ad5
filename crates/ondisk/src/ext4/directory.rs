//! Parses the names in a directory of ext4.

use super::bytes::{crc32c, le16, le32};
use super::error::Error;
use super::superblock::Superblock;
use crate::FileType;

/// Length of a directory entry before its name.
const HEADER: usize = 8;
/// Length of the checksum at the end of a block, which is disguised as an unused entry.
const TAIL: usize = 12;
/// Length of the parent's inode number, at the beginning of inline directories.
const INLINE_PARENT: usize = 4;

/// A name in a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Name<'a> {
    /// Inode number, neither zero nor beyond the last inode of the file system.
    pub inode: u32,
    /// File name: not empty, without NUL and slash.
    pub name: &'a [u8],
    pub file_type: FileType,
}

/// Iterates over the names in a block of a directory, or in an inode, without `.` and `..`. Inner
/// blocks of an index look like blocks without names. The iterator ends early at bytes that the
/// kernel would refuse; [`Names::end`] then returns the error.
#[derive(Clone, Debug)]
pub struct Names<'a> {
    rest: &'a [u8],
    inodes: u32,
    typed: bool,
    error: Option<Error>,
}

impl<'a> Names<'a> {
    /// The names in a block of a directory.
    #[inline]
    pub fn in_block(block: &'a [u8], superblock: &Superblock) -> Names<'a> {
        Names {
            rest: block,
            inodes: superblock.inodes,
            typed: superblock.has_entry_types(),
            error: None,
        }
    }

    /// The names of an inline directory. `content` is [`Inode::body`](super::Inode::body), followed
    /// by the attribute `system.data`.
    pub fn inline(content: &'a [u8], superblock: &Superblock) -> Names<'a> {
        Names::in_block(content.get(INLINE_PARENT..).unwrap_or(&[]), superblock)
    }

    /// Returns the error that ended the iteration early, if any.
    pub fn end(&self) -> Result<(), Error> {
        self.error.map_or(Ok(()), Err)
    }
}

impl<'a> Iterator for Names<'a> {
    type Item = Name<'a>;

    #[inline]
    fn next(&mut self) -> Option<Name<'a>> {
        while let Some(header) = self.rest.first_chunk::<HEADER>() {
            // The low two bits of a record length, otherwise zero, hold the high two bits of a
            // length up to 256 KiB. A record that fills a block of 64 KiB has a length of 0 or
            // 0xffff.
            let length = match le16(header, 4) {
                0 | u16::MAX if self.rest.len() == 1 << 16 => 1 << 16,
                length => usize::from(length & !3) | usize::from(length & 3) << 16,
            };
            let inode = le32(header, 0);
            let name = self
                .rest
                .get(HEADER..HEADER + usize::from(header[6]))
                .unwrap_or(&[]);
            let fits = length >= HEADER + 4
                && length <= self.rest.len()
                && HEADER + usize::from(header[6]) <= length;
            if !fits || inode > self.inodes {
                return self.stop(Error::Entry);
            }
            self.rest = &self.rest[length..];
            if inode == 0 || matches!(name, b"." | b"..") {
                continue;
            }
            if name.is_empty() || name.iter().any(|&byte| byte == 0 || byte == b'/') {
                return self.stop(Error::EntryName);
            }
            let file_type = match header[7] & 0x7 {
                _ if !self.typed => FileType::Unknown,
                1 => FileType::Regular,
                2 => FileType::Directory,
                3 => FileType::Char,
                4 => FileType::Block,
                5 => FileType::Fifo,
                6 => FileType::Socket,
                7 => FileType::Symlink,
                _ => FileType::Unknown,
            };
            return Some(Name {
                inode,
                name,
                file_type,
            });
        }
        if !self.rest.is_empty() {
            return self.stop(Error::EntryCutOff);
        }
        None
    }
}

impl Names<'_> {
    #[cold]
    fn stop<T>(&mut self, error: Error) -> Option<T> {
        self.rest = &[];
        self.error = Some(error);
        None
    }
}

/// Whether the checksum of a directory block is right, by the directory's
/// [`Inode::seed`](super::Inode::seed). `first`: the block is the first one of an indexed
/// directory.
pub fn checksum_holds(block: &[u8], seed: u32, first: bool) -> bool {
    // The root block of an index contains the entries `.` and `..`, and the entry `..` spans the
    // rest of the block. An inner block of an index has one unused entry that spans the whole
    // block.
    let spans = |at: usize| {
        block.len() - at == usize::from(le16(block, at + 4)) || block.len() - at == 1 << 16
    };
    if block.len() < 2 * TAIL {
        return false;
    }
    if first && spans(TAIL) {
        return index_checksum_holds(block, seed, 2 * TAIL + 8);
    }
    if le32(block, 0) == 0 && spans(0) {
        return index_checksum_holds(block, seed, HEADER);
    }
    let (content, tail) = block.split_at(block.len() - TAIL);
    tail[..HEADER] == [0, 0, 0, 0, TAIL as u8, 0, 0, 0xde]
        && crc32c(seed, content) == le32(tail, HEADER)
}

/// Whether the checksum of an index block is right, whose entries begin at `start`. The first entry
/// has the maximum and the actual number of entries.
fn index_checksum_holds(block: &[u8], seed: u32, start: usize) -> bool {
    const ENTRY: usize = 8;
    let [room, used] = [start, start + 2].map(|at| usize::from(le16(block, at)));
    let tail = start + room * ENTRY;
    let entries = block.get(..start + used * ENTRY);
    let Some((entries, tail)) = entries.zip(block.get(tail..tail + ENTRY)) else {
        return false;
    };
    let crc = crc32c(crc32c(seed, entries), &tail[..4]);
    crc32c(crc, &[0; 4]) == le32(tail, 4)
}

#[cfg(test)]
mod tests {
    use super::super::superblock::tests::plain;
    use super::*;
    use proptest::prelude::*;

    fn entry(inode: u32, length: u16, name: &[u8], kind: u8) -> Vec<u8> {
        let mut bytes = inode.to_le_bytes().to_vec();
        bytes.extend(length.to_le_bytes());
        bytes.extend([name.len() as u8, kind]);
        bytes.extend(name);
        bytes.resize(usize::from(length).max(bytes.len()), 0);
        bytes
    }

    type OwnedName = (u32, Vec<u8>, FileType);

    fn names(block: &[u8]) -> (Vec<OwnedName>, Result<(), Error>) {
        let superblock = Superblock::parse(&plain()).unwrap();
        let mut names = Names::in_block(block, &superblock);
        let found = names
            .by_ref()
            .map(|n| (n.inode, n.name.to_vec(), n.file_type))
            .collect();
        (found, names.end())
    }

    #[test]
    fn names_without_dots_and_unused_entries() {
        let block = [
            entry(2, 12, b".", 2),
            entry(2, 12, b"..", 2),
            entry(12, 12, b"a", 1),
            entry(0, 16, b"gone", 1),
            entry(13, 12, b"dir", 2),
            entry(14, 1024 - 76, b"?", 0),
            entry(0, 12, b"", 0xde),
        ]
        .concat();
        let expected = [
            (12, b"a".to_vec(), FileType::Regular),
            (13, b"dir".to_vec(), FileType::Directory),
            (14, b"?".to_vec(), FileType::Unknown),
        ];
        assert_eq!(names(&block), (expected.to_vec(), Ok(())));
    }

    #[test]
    fn what_the_kernel_would_refuse_is_an_error() {
        let fails = |block: &[u8]| names(block).1.is_err();
        assert!(fails(&entry(12, 8, b"", 1)));
        assert!(fails(&entry(12, 12, b"12345", 1)));
        assert!(fails(&entry(65, 12, b"a", 1)), "beyond the last inode");
        assert!(fails(&entry(12, 12, b"", 1)));
        assert!(fails(&entry(12, 12, b"a/b", 1)));
        assert!(fails(&entry(12, 12, b"a\0b", 1)));
        assert!(fails(&entry(12, 16, b"a", 1)[..12]));
        assert!(fails(&[0; 1024]));
        assert!(fails(&[entry(12, 12, b"a", 1), vec![0; 4]].concat()));
        assert!(!fails(&[]));
    }

    #[test]
    fn a_block_of_64_kib_in_one_record() {
        for length in [0, u16::MAX] {
            let mut block = entry(0, length, b"", 0);
            block.resize(1 << 16, 0);
            assert_eq!(names(&block), (vec![], Ok(())));
        }
    }

    #[test]
    fn blocks_with_a_wrong_checksum_are_refused() {
        let mut block = entry(12, 1012, b"a", 1);
        block.extend([0, 0, 0, 0, 12, 0, 0, 0xde]);
        block.extend(crc32c(7, &block[..1012]).to_le_bytes());
        assert!(checksum_holds(&block, 7, false));
        assert!(!checksum_holds(&block, 8, false));
        block[9] = b'b';
        assert!(!checksum_holds(&block, 7, false));

        let mut root = [entry(12, 12, b".", 2), entry(2, 1012, b"..", 2)].concat();
        root[32..36].copy_from_slice(&[123, 0, 2, 0]); // maximum and actual number of entries
        let crc = crc32c(crc32c(7, &root[..48]), &[0; 8]);
        root[1020..].copy_from_slice(&crc.to_le_bytes());
        assert!(checksum_holds(&root, 7, true) && !checksum_holds(&root, 7, false));
        root[32] = 200;
        assert!(!checksum_holds(&root, 7, true));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(block in proptest::collection::vec(0u8..20, 0..200), seed: u32, first: bool) {
            let superblock = Superblock::parse(&plain()).unwrap();
            Names::in_block(&block, &superblock).for_each(drop);
            Names::inline(&block, &superblock).for_each(drop);
            checksum_holds(&block, seed, first);
        }
    }
}
