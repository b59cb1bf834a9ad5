//! Reads the headers of an archive: takes blocks, returns members.

use std::ops::Range;

use super::field::{
    self, GID, GNAME, GNU, LINK, MAGIC, MAJOR, MINOR, MODE, MTIME, NAME, PREFIX, SIZE, TYPE, UID,
    UNAME, gnu, number, text,
};
use super::record::{Common, Global, Records, Sparse, Wrong};
use super::sparse::{self, Map};
use super::{BLOCK, Kind, MOST, Member, dumpdir, padded};
use crate::{Dev, Time};

/// What is wrong with an archive, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what}, at byte {at}")]
pub struct Fault {
    /// Offset in the archive of the header or record.
    pub at: u64,
    /// What is wrong.
    pub what: &'static str,
}

/// A fault while a block is parsed. Without an offset, it is in that block.
struct Problem {
    at: Option<u64>,
    what: &'static str,
}

impl From<&'static str> for Problem {
    fn from(what: &'static str) -> Problem {
        Problem { at: None, what }
    }
}

/// The result of a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Nothing yet: the next block is needed.
    More,
    /// A member whose headers are complete.
    Member {
        /// The member.
        member: Box<Member>,
        /// Offset of its first header.
        at: u64,
        /// Bytes of its data that follow. The decoder must not get their blocks ([`padded`]), and
        /// has counted them.
        data: u64,
    },
    /// The checksum of the data of the previous member.
    Checksum([u8; 32]),
    /// The end of the archive. What follows is no part of it.
    End,
}

/// Parses the headers of an archive block by block. It never holds more than the headers of one
/// member (33 MiB at most) and the map of a sparse file (16 MiB).
///
/// After an error it must not be used again before [`Decoder::recover`].
#[derive(Debug, Default)]
pub struct Decoder {
    /// Offset of the next block.
    at: u64,
    state: State,
    /// Whether the last block was the first of the two that end an archive.
    is_ending: bool,
    /// Whether blocks that are no headers are skipped.
    is_lost: bool,
    common: Common,
    ahead: Ahead,
}

/// The meaning of the next block.
#[derive(Debug, Default)]
enum State {
    #[default]
    Header,
    /// The content of a header of another kind: bytes that are left, and those so far.
    Collect(What, u64, Vec<u8>),
    /// More extents of an old sparse file.
    Extents(Box<Member>, Map),
    /// The map of a sparse file, at the beginning of its data: bytes that are left.
    Map(Box<Member>, sparse::Text, u64),
}

/// The kind of content that is collected.
#[derive(Debug)]
enum What {
    Extended,
    Global,
    Path,
    Link,
    Dumpdir(Box<Member>),
}

/// The headers before a member's own.
#[derive(Debug, Default)]
struct Ahead {
    /// Offset of the first of them.
    at: Option<u64>,
    records: Option<Records>,
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
}

impl Decoder {
    /// A decoder for an archive that begins with the next block.
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Offset of the next block in bytes.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Whether the next block is stored data of the next member: its map.
    pub fn is_data(&self) -> bool {
        matches!(
            self.state,
            State::Map(..) | State::Collect(What::Dumpdir(_), ..)
        )
    }

    /// Whether the headers of a member are incomplete, so that the archive cannot end here.
    pub fn is_within(&self) -> bool {
        self.ahead.at.is_some() || !matches!(self.state, State::Header)
    }

    /// Whether it still looks for a header after [`Decoder::recover`].
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Continues after an error: skips all blocks up to the next that is certainly a header.
    pub fn recover(&mut self) {
        *self = Decoder {
            at: self.at,
            is_lost: true,
            ..Decoder::default()
        };
    }

    /// Takes the next block.
    ///
    /// # Errors
    /// What is wrong with it, or with the headers that it completes.
    pub fn push(&mut self, block: &[u8; BLOCK]) -> Result<Event, Fault> {
        let at = self.at;
        self.block(block).map_err(|problem| Fault {
            at: problem.at.unwrap_or(at),
            what: problem.what,
        })
    }

    fn block(&mut self, block: &[u8; BLOCK]) -> Result<Event, Problem> {
        let at = self.at;
        let next = at.checked_add(BLOCK as u64);
        self.at = next.ok_or("the archive is too large")?;
        match std::mem::take(&mut self.state) {
            State::Header => self.header(block, at),
            State::Collect(what, left, mut text) => {
                let taken = left.min(BLOCK as u64);
                text.extend_from_slice(&block[..taken as usize]);
                self.collect(what, left - taken, text)
            }
            State::Extents(member, mut map) => {
                extents(&block[gnu::MORE_EXTENTS], &mut map)?;
                self.old_sparse(member, map, block[gnu::IS_EXTENDED_FURTHER] != 0)
            }
            State::Map(member, mut text, left) => {
                let left = left
                    .checked_sub(BLOCK as u64)
                    .ok_or("the map of a sparse file is incomplete")?;
                if !text.take(block)? {
                    self.state = State::Map(member, text, left);
                    return Ok(Event::More);
                }
                self.sparse(member, text.into_map(), left)
            }
        }
    }

    fn header(&mut self, block: &[u8; BLOCK], at: u64) -> Result<Event, Problem> {
        let is_sound = field::sum_is_right(block);
        if self.is_lost {
            if !is_sound || !block[MAGIC].starts_with(b"ustar") {
                return Ok(Event::More);
            }
            self.is_lost = false;
        }
        if block.iter().all(|&byte| byte == 0) {
            if self.ahead.at.is_some() {
                return Err("the archive ends between an extended header and its member".into());
            }
            return Ok(if std::mem::replace(&mut self.is_ending, true) {
                Event::End
            } else {
                Event::More
            });
        }
        if std::mem::take(&mut self.is_ending) {
            return Err("a single block of zeros (the end has two)".into());
        }
        if !is_sound {
            return Err("wrong header checksum".into());
        }
        let size = number(&block[SIZE]).and_then(|size| u64::try_from(size).ok());
        let size = size.ok_or("invalid size in a header")?;
        let (what, most) = match block[TYPE] {
            b'x' | b'X' => (What::Extended, dumpdir::MOST + MOST),
            b'g' => (What::Global, MOST),
            b'L' => (What::Path, MOST),
            b'K' => (What::Link, MOST),
            _ => return self.member(block, size, at),
        };
        if matches!(what, What::Extended) && self.ahead.records.is_some() {
            return Err("an extended header before an extended header".into());
        }
        if !matches!(what, What::Global) {
            self.ahead.at.get_or_insert(at);
        }
        self.expect(what, size, most)
    }

    /// Starts collecting the content of a header.
    fn expect(&mut self, what: What, size: u64, most: usize) -> Result<Event, Problem> {
        if size > most as u64 {
            return Err("an extended header is too long".into());
        }
        // Pages are only allocated when they are filled, so that a wrong size costs nothing.
        self.collect(what, size, Vec::with_capacity(size as usize))
    }

    fn collect(&mut self, what: What, left: u64, text: Vec<u8>) -> Result<Event, Problem> {
        if left > 0 {
            self.state = State::Collect(what, left, text);
            return Ok(Event::More);
        }
        let start = self.at - padded(text.len() as u64).unwrap_or(0);
        let wrong = |(at, what): Wrong| Problem {
            at: Some(start + at as u64),
            what,
        };
        match what {
            What::Extended => self.ahead.records = Some(Records::parse(text).map_err(wrong)?),
            What::Path => self.ahead.path = Some(field::text(&text).to_vec()),
            What::Link => self.ahead.link = Some(field::text(&text).to_vec()),
            What::Dumpdir(mut member) => {
                member.dumpdir = Some(text);
                return self.done(member, 0);
            }
            What::Global => {
                let Global { common, blake3 } = Global::parse(&text).map_err(wrong)?;
                self.common = common.or(&self.common);
                return Ok(blake3.map_or(Event::More, Event::Checksum));
            }
        }
        Ok(Event::More)
    }

    /// Takes a member's own header.
    fn member(&mut self, block: &[u8; BLOCK], size: u64, at: u64) -> Result<Event, Problem> {
        self.ahead.at.get_or_insert(at);
        let mut records = self.ahead.records.take().unwrap_or_default();
        let mut sparse = std::mem::take(&mut records.sparse);
        records.path = sparse.name.take().or(records.path);
        let member = self.describe(Header(block), size, records)?;
        let stored = member.stored;
        match (block[TYPE], member.kind) {
            (b'D', _) => self.expect(What::Dumpdir(member), stored, dumpdir::MOST),
            (b'S', _) => self.old_sparse_header(member, block),
            (_, Kind::File)
                if sparse.major.is_some() || sparse.map.is_some() || sparse.size.is_some() =>
            {
                self.sparse_member(member, sparse)
            }
            _ => self.done(member, stored),
        }
    }

    /// Combines a member's header, the headers before it, and its records.
    fn describe(
        &mut self,
        header: Header<'_>,
        size: u64,
        records: Records,
    ) -> Result<Box<Member>, Problem> {
        let block = header.0;
        let common = records.common.or(&self.common);
        let path = records.path.or(self.ahead.path.take());
        let path = path.unwrap_or_else(|| header.name());
        let kind = kind(block[TYPE], &path);
        let link = match kind {
            Kind::Link | Kind::Symlink => {
                let link = records.link.or(self.ahead.link.take());
                link.unwrap_or_else(|| text(&block[LINK]).to_vec())
            }
            _ => Vec::new(),
        };
        let rdev = match kind {
            Kind::Char | Kind::Block => Dev {
                major: header.id(records.major, MAJOR)?,
                minor: header.id(records.minor, MINOR)?,
            },
            _ => Dev::default(),
        };
        let stored = match block[TYPE] {
            letter if Member::has_data(kind) || matches!(letter, 0 | b'0' | b'7' | b'D') => {
                records.size.unwrap_or(size)
            }
            _ => 0,
        };
        let mode = number(&block[MODE]).ok_or("invalid mode in a header")?;
        let xattrs = match records.coded_xattrs.is_empty() {
            true => records.xattrs,
            false => records.coded_xattrs,
        };
        let (mtime, atime, ctime) = (common.mtime, common.atime, common.ctime);
        Ok(Box::new(Member {
            kind,
            link,
            mode: mode as u32 & 0o7777,
            uid: header.id(common.uid, UID)?,
            gid: header.id(common.gid, GID)?,
            uname: common.uname.unwrap_or_else(|| header.owner(UNAME)),
            gname: common.gname.unwrap_or_else(|| header.owner(GNAME)),
            size: if Member::has_data(kind) { stored } else { 0 },
            stored,
            mtime: mtime.map_or_else(|| header.seconds(MTIME), Ok)?,
            atime: atime.map_or_else(|| header.gnu_time(gnu::ATIME), |time| Ok(Some(time)))?,
            ctime: ctime.map_or_else(|| header.gnu_time(gnu::CTIME), |time| Ok(Some(time)))?,
            rdev,
            acl_access: records.acl_access,
            acl_default: records.acl_default,
            xattrs: xattrs.into_iter().collect(),
            sparse: None,
            dumpdir: records.dumpdir,
            blake3: records.blake3,
            path,
        }))
    }

    /// Takes the header of a sparse file in the old format, which has the first extents.
    fn old_sparse_header(
        &mut self,
        mut member: Box<Member>,
        block: &[u8; BLOCK],
    ) -> Result<Event, Problem> {
        let size = number(&block[gnu::REAL_SIZE]).and_then(|size| u64::try_from(size).ok());
        member.size = size.ok_or("invalid size of a sparse file")?;
        let mut map = Map::default();
        extents(&block[gnu::EXTENTS], &mut map)?;
        self.old_sparse(member, map, block[gnu::IS_EXTENDED] != 0)
    }

    /// Takes a sparse file whose map is in its records or at the beginning of its data.
    fn sparse_member(&mut self, mut member: Box<Member>, sparse: Sparse) -> Result<Event, Problem> {
        let left = member.stored;
        member.size = sparse.size.ok_or("a sparse file has no size")?;
        if !sparse.map_is_in_data() {
            return self.sparse(member, sparse.map.unwrap_or_default(), left);
        }
        if (sparse.major, sparse.minor.unwrap_or(0)) != (Some(1), 0) {
            return Err("unknown format of a sparse file".into());
        }
        self.state = State::Map(member, sparse::Text::default(), left);
        Ok(Event::More)
    }

    /// Continues an old sparse file after some of its extents.
    fn old_sparse(
        &mut self,
        member: Box<Member>,
        map: Map,
        is_extended: bool,
    ) -> Result<Event, Problem> {
        if is_extended {
            self.state = State::Extents(member, map);
            return Ok(Event::More);
        }
        let stored = member.stored;
        self.sparse(member, map, stored)
    }

    /// Completes a sparse file with its map; `data` bytes of its data follow.
    fn sparse(&mut self, mut member: Box<Member>, map: Map, data: u64) -> Result<Event, Problem> {
        map.check(member.size, data)?;
        member.sparse = Some(map);
        self.done(member, data)
    }

    fn done(&mut self, member: Box<Member>, data: u64) -> Result<Event, Problem> {
        let at = std::mem::take(&mut self.ahead).at.unwrap_or(self.at);
        let end = padded(data).and_then(|data| self.at.checked_add(data));
        self.at = end.ok_or(Problem {
            at: Some(at),
            what: "a member is too large",
        })?;
        Ok(Event::Member { member, at, data })
    }
}

/// A member's own header.
struct Header<'a>(&'a [u8; BLOCK]);

impl Header<'_> {
    fn is_gnu(&self) -> bool {
        &self.0[MAGIC] == GNU
    }

    fn is_ustar(&self) -> bool {
        self.0[MAGIC].starts_with(b"ustar")
    }

    /// The name; GNU's headers have other fields in place of the prefix.
    fn name(&self) -> Vec<u8> {
        let (prefix, name) = (text(&self.0[PREFIX]), text(&self.0[NAME]));
        if self.is_ustar() && !self.is_gnu() && !prefix.is_empty() {
            [prefix, b"/", name].concat()
        } else {
            name.to_vec()
        }
    }

    /// An id or device number: that of a record, otherwise that of a field.
    fn id(&self, recorded: Option<u32>, field: Range<usize>) -> Result<u32, &'static str> {
        let in_field = || u32::try_from(number(&self.0[field])?).ok();
        recorded
            .or_else(in_field)
            .ok_or("invalid owner, group or device number in a header")
    }

    /// The name of a user or group; headers older than ustar have none.
    fn owner(&self, field: Range<usize>) -> Vec<u8> {
        match self.is_ustar() {
            true => text(&self.0[field]).to_vec(),
            false => Vec::new(),
        }
    }

    fn seconds(&self, field: Range<usize>) -> Result<Time, &'static str> {
        number(&self.0[field])
            .map(|sec| Time { sec, nsec: 0 })
            .ok_or("invalid time in a header")
    }

    /// A time that only GNU's headers have; zeros mean that it is not recorded.
    fn gnu_time(&self, field: Range<usize>) -> Result<Option<Time>, &'static str> {
        let is_recorded = self.0[field.clone()].iter().any(|&byte| byte != 0);
        match self.is_gnu() && is_recorded {
            true => self.seconds(field).map(Some),
            false => Ok(None),
        }
    }
}

/// The kind of a member. In archives older than ustar, a directory shows by its name only.
fn kind(letter: u8, path: &[u8]) -> Kind {
    match letter {
        0 | b'0' | b'7' if path.ends_with(b"/") => Kind::Directory,
        0 | b'0' | b'7' | b'S' => Kind::File,
        b'1' => Kind::Link,
        b'2' => Kind::Symlink,
        b'3' => Kind::Char,
        b'4' => Kind::Block,
        b'5' | b'D' => Kind::Directory,
        b'6' => Kind::Fifo,
        letter => Kind::Unknown(letter),
    }
}

/// The extents in an old header: pairs of numbers, up to the first that is blank.
fn extents(fields: &[u8], map: &mut Map) -> Result<(), &'static str> {
    for pair in fields.as_chunks::<{ gnu::EXTENT }>().0 {
        let (offset, len) = pair.split_at(gnu::EXTENT / 2);
        if len.first() == Some(&0) {
            break;
        }
        let size = |field| number(field).and_then(|n| u64::try_from(n).ok());
        let extent = size(offset)
            .zip(size(len))
            .ok_or("invalid number in the map of a sparse file")?;
        map.push(extent.0, extent.1)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
