//! Reads the fields of a member's own header, in the formats of all tar programs.

use std::ops::Range;

use super::super::field::{GNU, MAGIC, NAME, PREFIX, number, star, text};
use super::super::{BLOCK, MemberKind};
use crate::Time;

/// A member's own header, with its offset in the archive.
pub(super) struct Header<'a> {
    pub(super) block: &'a [u8; BLOCK],
    pub(super) at: u64,
}

impl Header<'_> {
    pub(super) fn is_gnu(&self) -> bool {
        &self.block[MAGIC] == GNU
    }

    pub(super) fn is_ustar(&self) -> bool {
        self.block[MAGIC].starts_with(b"ustar")
    }

    /// The file name. GNU's headers have other fields in place of the prefix; star's headers have
    /// the map of a sparse file, or times, after a shorter prefix.
    pub(super) fn name(&self) -> Vec<u8> {
        let is_star = &self.block[star::MAGIC] == b"tar\0";
        let prefix = if is_star { star::PREFIX } else { PREFIX };
        let (prefix, name) = (text(&self.block[prefix]), text(&self.block[NAME]));
        if self.is_ustar() && !self.is_gnu() && !prefix.is_empty() {
            [prefix, b"/", name].concat()
        } else {
            name.to_vec()
        }
    }

    /// The user or group id in a record, or else in a header field. Negative ids of 32 bits come
    /// from old systems; -1 means no owner to the kernel.
    pub(super) fn id(&self, recorded: Option<u32>, field: Range<usize>) -> Option<u32> {
        let in_field = || {
            let id = number(&self.block[field])?;
            let negative = i32::try_from(id).ok().map(i32::cast_unsigned);
            u32::try_from(id).ok().or(negative)
        };
        recorded.or_else(in_field)
    }

    /// A device number; headers that are older than ustar have none.
    pub(super) fn device(
        &self,
        recorded: Option<u32>,
        field: Range<usize>,
    ) -> Result<u32, &'static str> {
        let in_field = || match self.is_ustar() {
            true => number(&self.block[field]).and_then(|number| u32::try_from(number).ok()),
            false => Some(0),
        };
        recorded
            .or_else(in_field)
            .ok_or("invalid device number in a header")
    }

    /// The name of a user or group; headers that are older than ustar have none.
    pub(super) fn owner(&self, field: Range<usize>) -> Vec<u8> {
        match self.is_ustar() {
            true => text(&self.block[field]).to_vec(),
            false => Vec::new(),
        }
    }

    pub(super) fn seconds(&self, field: Range<usize>) -> Result<Time, &'static str> {
        number(&self.block[field])
            .map(|sec| Time::new(sec, 0))
            .ok_or("invalid time in a header")
    }

    /// A time that only GNU's headers have; a field of zeros means that no time was recorded.
    pub(super) fn gnu_time(&self, field: Range<usize>) -> Result<Option<Time>, &'static str> {
        let is_recorded = self.block[field.clone()].iter().any(|&byte| byte != 0);
        match self.is_gnu() && is_recorded {
            true => self.seconds(field).map(Some),
            false => Ok(None),
        }
    }
}

/// The kind of a member. In archives that are older than ustar, only a slash at the end of the name
/// marks a directory. Unknown types are regular files, as POSIX requires.
pub(super) fn kind(letter: u8, path: &[u8]) -> MemberKind {
    match letter {
        0 | b'0' | b'7' if path.ends_with(b"/") => MemberKind::Directory,
        b'1' => MemberKind::Link,
        b'2' => MemberKind::Symlink,
        b'3' => MemberKind::Char,
        b'4' => MemberKind::Block,
        b'5' | b'D' => MemberKind::Directory,
        b'6' => MemberKind::Fifo,
        b'M' => MemberKind::Continuation,
        b'V' => MemberKind::Label,
        _ => MemberKind::File,
    }
}
