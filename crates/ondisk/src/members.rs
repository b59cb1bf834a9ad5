//! The index of an archive: names and offsets of a few members. The position of every other member
//! follows from it, because an archive has its members in the order of their names.
//!
//! A number is a varint (LEB128). The index has its version, the length of the archive before
//! compression, and for each indexed member: the distance from the previous indexed member, times
//! two, plus one if the member is the first of a source, where the order of names begins again; the
//! number of leading bytes that its name shares with the previous name; the number of remaining
//! bytes of the name; and the remaining bytes.

use crate::varint::{put, take};

const VERSION: u64 = 1;
/// Maximum length of an indexed name; members with longer names are not indexed.
const LONGEST: usize = 64 << 10;
/// Maximum length of an index in bytes. Members that do not fit are not indexed.
pub const MOST: usize = if cfg!(test) { 1 << 20 } else { 128 << 20 };
/// Maximum number of bytes for a member in the index, without its name; also a bound for the start
/// of the index.
const OVERHEAD: usize = 32;

/// A member in the index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Indexed<'a> {
    /// Offset of the member's first header in the archive, before compression.
    pub at: u64,
    /// Whether the member is the first one of a source: names are in order up to the next such
    /// member.
    pub begins_order: bool,
    /// Name of the member in the archive.
    pub name: &'a [u8],
}

/// Writes an index.
#[derive(Debug, Default)]
pub struct IndexWriter {
    entries: Vec<u8>,
    last: Vec<u8>,
    at: u64,
}

impl IndexWriter {
    /// Adds a member. False if it cannot be indexed, because its name or the index is too long.
    pub fn push(&mut self, member: Indexed<'_>) -> bool {
        let Indexed {
            at,
            begins_order,
            name,
        } = member;
        let end = self.entries.len() + name.len() + 2 * OVERHEAD;
        if name.len() > LONGEST || at < self.at || end > MOST {
            return false;
        }
        let pairs = name.iter().zip(&self.last);
        let common = pairs.take_while(|(new, old)| new == old).count();
        put(
            ((at - self.at) << 1) | u64::from(begins_order),
            &mut self.entries,
        );
        put(common as u64, &mut self.entries);
        put((name.len() - common) as u64, &mut self.entries);
        self.entries.extend(&name[common..]);
        self.last.truncate(common);
        self.last.extend(&name[common..]);
        self.at = at;
        true
    }

    /// The complete index, for an archive of this length.
    pub fn finish(self, archive_len: u64) -> Vec<u8> {
        let mut index = Vec::with_capacity(self.entries.len() + 16);
        put(VERSION, &mut index);
        put(archive_len, &mut index);
        index.extend(self.entries);
        index
    }
}

/// Reads an index, member by member.
#[derive(Clone, Debug)]
pub struct IndexReader<'a> {
    rest: &'a [u8],
    name: Vec<u8>,
    at: u64,
    /// Length of the archive before compression.
    pub archive_len: u64,
}

impl<'a> IndexReader<'a> {
    /// Reads the start of an index; `None` if it is damaged, or has a different version.
    pub fn new(index: &'a [u8]) -> Option<IndexReader<'a>> {
        let mut rest = index;
        if take(&mut rest)? != VERSION {
            return None;
        }
        let archive_len = take(&mut rest)?;
        Some(IndexReader {
            rest,
            name: Vec::new(),
            at: 0,
            archive_len,
        })
    }

    /// Whether all members of the index were read.
    pub fn is_over(&self) -> bool {
        self.rest.is_empty()
    }

    /// Reads the next member; `None` after the last one, or if the index is damaged.
    #[allow(
        clippy::should_implement_trait,
        reason = "the name lives until the next one is read"
    )]
    pub fn next(&mut self) -> Option<Indexed<'_>> {
        let mut rest = self.rest;
        let distance = take(&mut rest)?;
        let common = usize::try_from(take(&mut rest)?).ok()?;
        let len = usize::try_from(take(&mut rest)?).ok()?;
        let name_len = common.checked_add(len)?;
        if common > self.name.len() || name_len > LONGEST || len > rest.len() {
            return None;
        }
        let at = self.at.checked_add(distance >> 1)?;
        let (new, rest) = rest.split_at(len);
        self.name.truncate(common);
        self.name.extend(new);
        (self.rest, self.at) = (rest, at);
        Some(Indexed {
            at,
            begins_order: distance & 1 == 1,
            name: &self.name,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_index_is_read_as_it_was_written(
            members in proptest::collection::vec(
                (0..1u64 << 40, any::<bool>(), proptest::collection::vec(b'a'..b'd', 0..20)), 0..40,
            ),
            len: u64,
        ) {
            let (mut writer, mut at, mut expected) = (IndexWriter::default(), 0, Vec::new());
            for (distance, begins_order, name) in &members {
                at += distance;
                let member = Indexed { at, begins_order: *begins_order, name };
                prop_assert!(writer.push(member));
                expected.push(member);
            }
            let index = writer.finish(len);
            let mut reader = IndexReader::new(&index).unwrap();
            prop_assert_eq!(reader.archive_len, len);
            for member in expected {
                prop_assert_eq!(reader.next(), Some(member));
            }
            prop_assert!(reader.is_over() && reader.next().is_none());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some(mut reader) = IndexReader::new(&bytes) {
                while let Some(member) = reader.next() {
                    prop_assert!(member.name.len() <= LONGEST);
                }
            }
        }
    }

    #[test]
    fn a_name_that_is_too_long_is_refused() {
        let mut writer = IndexWriter::default();
        let long = vec![b'x'; LONGEST + 1];
        let at_start = |name| Indexed {
            at: 0,
            begins_order: true,
            name,
        };
        assert!(!writer.push(at_start(&long)));
        assert!(writer.push(at_start(&long[1..])));
    }

    #[test]
    fn no_index_is_longer_than_readers_accept() {
        let (mut writer, mut indexed) = (IndexWriter::default(), 0);
        for at in 0..2 * MOST / LONGEST {
            let name = vec![b'a' + (at % 2) as u8; LONGEST];
            let (at, begins_order) = (at as u64, false);
            indexed += usize::from(writer.push(Indexed {
                at,
                begins_order,
                name: &name,
            }));
        }
        let index = writer.finish(u64::MAX);
        assert!(
            index.len() <= MOST && indexed == MOST / LONGEST - 1,
            "{indexed}"
        );
    }
}
