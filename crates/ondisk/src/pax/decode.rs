//! Blocks in, members out.

use std::fmt;
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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Offset in the archive, in bytes, of the header or record in which it is.
    pub at: u64,
    /// What is wrong.
    pub what: &'static str,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, at byte {}", self.what, self.at)
    }
}

impl std::error::Error for Fault {}

/// What a block has brought.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Nothing yet: the next block is needed.
    More,
    /// A member, whose headers are read.
    Member {
        /// What they say.
        member: Box<Member>,
        /// Where its first header begins, in bytes.
        at: u64,
        /// Bytes of its data that are still to come. They, and what fills them up to whole blocks
        /// ([`padded`]), are not for the decoder, which counts them as gone by.
        data: u64,
    },
    /// The checksum of the data of the member before.
    Checksum([u8; 32]),
    /// The end of the archive. What follows is no part of it.
    End,
}

/// Reads the headers of an archive: takes blocks, and gives members. It reads nothing itself, and
/// never holds more than one member's headers, of which there can be 33 MiB, and a map of a sparse
/// file, of 16 MiB.
///
/// After an error it is of no more use, unless it is told to look for the next header
/// ([`Decoder::recover`]).
#[derive(Debug, Default)]
pub struct Decoder {
    /// Offset of the next block.
    at: u64,
    state: State,
    /// Whether the last block was the first of the two that end an archive.
    is_ending: bool,
    /// Whether blocks that are no headers are passed over.
    is_lost: bool,
    common: Common,
    ahead: Ahead,
}

/// What is the next block?
#[derive(Debug, Default)]
enum State {
    /// A header.
    #[default]
    Header,
    /// What belongs to a header of another kind.
    Collect {
        what: What,
        left: u64,
        text: Vec<u8>,
    },
    /// More extents of an old sparse file.
    Extents { member: Box<Member>, map: Map },
    /// The map of a sparse file, at the beginning of its data.
    Map {
        member: Box<Member>,
        text: sparse::Text,
        left: u64,
    },
}

/// What is collected.
#[derive(Debug)]
enum What {
    Extended,
    Global,
    Path,
    Link,
    Dumpdir(Box<Member>),
}

/// What has been said ahead of a member.
#[derive(Debug, Default)]
struct Ahead {
    /// Where it began.
    at: Option<u64>,
    records: Option<Records>,
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
}

impl Decoder {
    /// Of an archive that begins with the next block.
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Offset of the next block in bytes.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Whether the next block is one of the stored data of the member to come: its map, at the
    /// beginning.
    pub fn is_data(&self) -> bool {
        matches!(
            self.state,
            State::Map { .. }
                | State::Collect {
                    what: What::Dumpdir(_),
                    ..
                }
        )
    }

    /// Whether a member or its headers are under way, so that this cannot be the end.
    pub fn is_within(&self) -> bool {
        self.ahead.at.is_some() || !matches!(self.state, State::Header)
    }

    /// Whether the header that it was told to look for has not come yet.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// After an error: forgets what was under way, and passes over all blocks up to the next that
    /// is a header beyond doubt.
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
    /// What is wrong with it, or with what it belongs to.
    pub fn push(&mut self, block: &[u8; BLOCK]) -> Result<Event, Fault> {
        let at = self.at;
        self.at = at.checked_add(BLOCK as u64).ok_or(Fault {
            at,
            what: "the archive is longer than any can be",
        })?;
        match std::mem::take(&mut self.state) {
            State::Header => self.header(block, at),
            State::Collect {
                what,
                left,
                mut text,
            } => {
                let taken = left.min(BLOCK as u64);
                text.extend_from_slice(&block[..taken as usize]);
                self.collect(what, left - taken, text)
            }
            State::Extents { member, mut map } => {
                extents(&block[gnu::MORE_EXTENTS], &mut map).map_err(|what| Fault { at, what })?;
                self.old_sparse(member, map, block[gnu::IS_EXTENDED_FURTHER] != 0, at)
            }
            State::Map {
                member,
                mut text,
                left,
            } => {
                let fault = |what| Fault { at, what };
                let left = left
                    .checked_sub(BLOCK as u64)
                    .ok_or(fault("a sparse file's map does not end"))?;
                if !text.take(block).map_err(fault)? {
                    self.state = State::Map { member, text, left };
                    return Ok(Event::More);
                }
                self.sparse(member, text.into_map(), left, at)
            }
        }
    }

    fn header(&mut self, block: &[u8; BLOCK], at: u64) -> Result<Event, Fault> {
        let fault = |what| Fault { at, what };
        let is_sound = field::sum_is_right(block);
        if self.is_lost {
            if !is_sound || !block[MAGIC].starts_with(b"ustar") {
                return Ok(Event::More);
            }
            self.is_lost = false;
        }
        if block.iter().all(|&byte| byte == 0) {
            if self.ahead.at.is_some() {
                return Err(fault(
                    "the archive ends after the header of a member, before the member",
                ));
            }
            return Ok(if std::mem::replace(&mut self.is_ending, true) {
                Event::End
            } else {
                Event::More
            });
        }
        if std::mem::take(&mut self.is_ending) {
            return Err(fault("a single block of zeros, where two would be the end"));
        }
        if !is_sound {
            return Err(fault("the checksum of a header is wrong"));
        }
        let size = number(&block[SIZE]).and_then(|size| u64::try_from(size).ok());
        let size = size.ok_or(fault(
            "a header has a size that is no number, or is too large",
        ))?;
        let (what, most) = match block[TYPE] {
            b'x' | b'X' => (What::Extended, dumpdir::MOST + MOST),
            b'g' => (What::Global, MOST),
            b'L' => (What::Path, MOST),
            b'K' => (What::Link, MOST),
            _ => return self.member(block, size, at),
        };
        if matches!(what, What::Extended) && self.ahead.records.is_some() {
            return Err(fault("an extended header for an extended header"));
        }
        if !matches!(what, What::Global) {
            self.ahead.at.get_or_insert(at);
        }
        self.expect(what, size, most, at)
    }

    /// Makes ready to collect what follows a header.
    fn expect(&mut self, what: What, size: u64, most: usize, at: u64) -> Result<Event, Fault> {
        if size > most as u64 {
            return Err(Fault {
                at,
                what: "an extended header is longer than is taken",
            });
        }
        // It is only touched as it is filled, so that a size that lies costs nothing.
        self.collect(what, size, Vec::with_capacity(size as usize))
    }

    fn collect(&mut self, what: What, left: u64, text: Vec<u8>) -> Result<Event, Fault> {
        if left > 0 {
            self.state = State::Collect { what, left, text };
            return Ok(Event::More);
        }
        let start = self.at - padded(text.len() as u64).unwrap_or(0);
        let wrong = |(at, what): Wrong| Fault {
            at: start + at as u64,
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

    /// Takes the header of a member itself.
    fn member(&mut self, block: &[u8; BLOCK], size: u64, at: u64) -> Result<Event, Fault> {
        self.ahead.at.get_or_insert(at);
        let mut records = self.ahead.records.take().unwrap_or_default();
        let mut sparse = std::mem::take(&mut records.sparse);
        records.path = sparse.name.take().or(records.path);
        let header = Header { block, at };
        let member = self.describe(&header, size, records)?;
        match (block[TYPE], member.kind) {
            (b'D', _) => {
                let stored = member.stored;
                self.expect(What::Dumpdir(member), stored, dumpdir::MOST, at)
            }
            (b'S', _) => self.old_sparse_header(member, &header),
            (_, Kind::File)
                if sparse.major.is_some() || sparse.map.is_some() || sparse.size.is_some() =>
            {
                self.sparse_member(member, sparse, at)
            }
            _ => {
                let stored = member.stored;
                self.done(member, stored)
            }
        }
    }

    /// Makes a member of its header, the headers before it, and its records.
    fn describe(
        &mut self,
        header: &Header<'_>,
        size: u64,
        records: Records,
    ) -> Result<Box<Member>, Fault> {
        let block = header.block;
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
        let mode =
            number(&block[MODE]).ok_or(header.fault("a header has a mode that is no number"))?;
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

    /// Takes the header of a sparse file in the old format, which has the first of its extents.
    fn old_sparse_header(
        &mut self,
        mut member: Box<Member>,
        header: &Header<'_>,
    ) -> Result<Event, Fault> {
        let (block, at) = (header.block, header.at);
        let size = number(&block[gnu::REAL_SIZE]).and_then(|size| u64::try_from(size).ok());
        member.size = size
            .ok_or(header.fault("a sparse file has a size that is no number, or is too large"))?;
        let mut map = Map::default();
        extents(&block[gnu::EXTENTS], &mut map).map_err(|what| header.fault(what))?;
        self.old_sparse(member, map, block[gnu::IS_EXTENDED] != 0, at)
    }

    /// Takes a sparse file whose records say so. Its map is in the records, or begins its data.
    fn sparse_member(
        &mut self,
        mut member: Box<Member>,
        sparse: Sparse,
        at: u64,
    ) -> Result<Event, Fault> {
        let fault = |what| Fault { at, what };
        let stored = member.stored;
        member.size = sparse
            .size
            .ok_or(fault("a sparse file does not say how large it is"))?;
        if !sparse.map_is_in_data() {
            return self.sparse(member, sparse.map.unwrap_or_default(), stored, at);
        }
        if (sparse.major, sparse.minor.unwrap_or(0)) != (Some(1), 0) {
            return Err(fault("a sparse file in a form that is not known"));
        }
        self.state = State::Map {
            member,
            text: sparse::Text::default(),
            left: stored,
        };
        Ok(Event::More)
    }

    /// Of an old sparse file, whose extents so far are read.
    fn old_sparse(
        &mut self,
        member: Box<Member>,
        map: Map,
        is_extended: bool,
        at: u64,
    ) -> Result<Event, Fault> {
        if is_extended {
            self.state = State::Extents { member, map };
            return Ok(Event::More);
        }
        let stored = member.stored;
        self.sparse(member, map, stored, at)
    }

    /// Of a sparse file whose map is read, with what is left of its data.
    fn sparse(
        &mut self,
        mut member: Box<Member>,
        map: Map,
        data: u64,
        at: u64,
    ) -> Result<Event, Fault> {
        map.check(member.size, data)
            .map_err(|what| Fault { at, what })?;
        member.sparse = Some(map);
        self.done(member, data)
    }

    fn done(&mut self, member: Box<Member>, data: u64) -> Result<Event, Fault> {
        let at = std::mem::take(&mut self.ahead).at.unwrap_or(self.at);
        let end = padded(data).and_then(|data| self.at.checked_add(data));
        self.at = end.ok_or(Fault {
            at,
            what: "a member is longer than any archive can be",
        })?;
        Ok(Event::Member { member, at, data })
    }
}

/// The block of a member's own header.
struct Header<'a> {
    block: &'a [u8; BLOCK],
    at: u64,
}

impl Header<'_> {
    fn fault(&self, what: &'static str) -> Fault {
        Fault { at: self.at, what }
    }

    fn is_gnu(&self) -> bool {
        &self.block[MAGIC] == GNU
    }

    fn is_ustar(&self) -> bool {
        self.block[MAGIC].starts_with(b"ustar")
    }

    /// The name; GNU's headers have other fields in the place of the prefix.
    fn name(&self) -> Vec<u8> {
        let (prefix, name) = (text(&self.block[PREFIX]), text(&self.block[NAME]));
        if self.is_ustar() && !self.is_gnu() && !prefix.is_empty() {
            [prefix, b"/", name].concat()
        } else {
            name.to_vec()
        }
    }

    /// An id or device number: that of a record, or else of a field.
    fn id(&self, recorded: Option<u32>, field: Range<usize>) -> Result<u32, Fault> {
        let id = recorded.or_else(|| {
            let id = number(&self.block[field])?;
            u32::try_from(id).ok()
        });
        id.ok_or(self.fault(
            "a header has an owner, group or device number that is no number, or is too large",
        ))
    }

    /// The name of a user or group; headers older than ustar have none.
    fn owner(&self, field: Range<usize>) -> Vec<u8> {
        match self.is_ustar() {
            true => text(&self.block[field]).to_vec(),
            false => Vec::new(),
        }
    }

    fn seconds(&self, field: Range<usize>) -> Result<Time, Fault> {
        number(&self.block[field])
            .map(|sec| Time { sec, nsec: 0 })
            .ok_or(self.fault("a header has a time that is no number"))
    }

    /// A time that only GNU's headers have; zeros mean that it is not recorded.
    fn gnu_time(&self, field: Range<usize>) -> Result<Option<Time>, Fault> {
        let is_recorded = self.block[field.clone()].iter().any(|&byte| byte != 0);
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

/// The extents in a header of old: pairs of numbers, up to the first that is blank.
fn extents(fields: &[u8], map: &mut Map) -> Result<(), &'static str> {
    for pair in fields.as_chunks::<{ gnu::EXTENT }>().0 {
        let (offset, len) = pair.split_at(gnu::EXTENT / 2);
        if len.first() == Some(&0) {
            break;
        }
        let size = |field| number(field).and_then(|n| u64::try_from(n).ok());
        let extent = size(offset)
            .zip(size(len))
            .ok_or("a sparse file's map has something that is no number")?;
        map.push(extent.0, extent.1)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use super::*;
    use crate::pax::{header, trailer};

    /// What comes of an archive: members with where they begin, and checksums, or what is wrong.
    fn read(archive: &[u8]) -> Result<Vec<Event>, Fault> {
        let mut decoder = Decoder::new();
        let mut events = Vec::new();
        while let Some(block) = archive
            .get(decoder.at() as usize..)
            .and_then(<[u8]>::first_chunk)
        {
            match decoder.push(block)? {
                Event::More => {}
                Event::End => return Ok(events),
                event => events.push(event),
            }
        }
        Err(Fault {
            at: decoder.at(),
            what: "cut",
        })
    }

    fn end(archive: &mut Vec<u8>) {
        archive.resize(archive.len().next_multiple_of(BLOCK) + 2 * BLOCK, 0);
    }

    /// The archive of one member and its data.
    fn archive_of(member: &Member) -> Vec<u8> {
        let mut archive = Vec::new();
        header(member, &mut archive);
        if let Some(map) = &member.sparse {
            map.encode(member.size, &mut archive);
            archive.resize(archive.len() + map.data() as usize, b'd');
        } else {
            archive.resize(archive.len() + member.stored as usize, b'd');
        }
        end(&mut archive);
        archive
    }

    /// A ustar header with a right sum.
    fn raw(letter: u8, size: u64, edit: impl FnOnce(&mut [u8; BLOCK])) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        block[..4].copy_from_slice(b"name");
        block[TYPE] = letter;
        block[MAGIC].copy_from_slice(field::POSIX);
        field::put(&mut block, SIZE, size);
        edit(&mut block);
        field::put_sum(&mut block);
        block
    }

    fn fault(archive: &[u8]) -> Fault {
        read(archive).unwrap_err()
    }

    fn bytes(range: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
        vec(
            prop_oneof![4 => b'a'..b'e', 1 => Just(b'/'), 1 => 1u8..],
            range,
        )
    }

    fn time() -> impl Strategy<Value = Time> {
        (prop_oneof![-9i64..9, any::<i64>()], 0..1_000_000_000u32)
            .prop_map(|(sec, nsec)| Time { sec, nsec })
    }

    prop_compose! {
        fn member()(
            kind in prop_oneof![
                3 => Just(Kind::File), 1 => Just(Kind::Link), 1 => Just(Kind::Symlink), 1 => Just(Kind::Char),
                1 => Just(Kind::Block), 1 => Just(Kind::Directory), 1 => Just(Kind::Fifo),
            ],
            path in prop_oneof![bytes(1..20), bytes(90..110), bytes(240..270), bytes(500..600)],
            link in prop_oneof![bytes(1..20), bytes(90..110)],
            names in (bytes(0..40), bytes(0..40)),
            ids in any::<[u32; 4]>(),
            mode in 0u32..0o10000,
            stored in 0u64..2000,
            steps in option::of(vec((1u64..1 << 40, 1u64..300), 0..30)),
            hole in any::<u32>(),
            times in (time(), option::of(time()), option::of(time())),
            acls in (option::of(bytes(1..30)), option::of(bytes(1..30))),
            xattrs in proptest::collection::btree_map(vec(1u8.., 1..20), vec(any::<u8>(), 0..30), 0..4),
            dumpdir in option::of(vec(any::<u8>(), 0..2000)),
            blake3 in option::of(any::<[u8; 32]>()),
        ) -> Member {
            let mut path = path;
            if path.last() == Some(&b'/') {
                path.push(b'x');
            }
            if kind == Kind::Directory {
                path.push(b'/');
            }
            let is_file = kind == Kind::File;
            let mut member = Member {
                path,
                kind,
                link: if matches!(kind, Kind::Link | Kind::Symlink) { link } else { Vec::new() },
                mode,
                uid: ids[0],
                gid: ids[1],
                uname: names.0,
                gname: names.1,
                size: if is_file { stored } else { 0 },
                stored: if is_file { stored } else { 0 },
                mtime: times.0,
                atime: times.1,
                ctime: times.2,
                rdev: if matches!(kind, Kind::Char | Kind::Block) { Dev { major: ids[2], minor: ids[3] } } else { Dev::default() },
                acl_access: acls.0,
                acl_default: acls.1,
                xattrs: xattrs.into_iter().collect(),
                sparse: None,
                dumpdir,
                blake3,
            };
            if let (true, Some(steps)) = (is_file, steps) {
                let mut map = Map::default();
                for (gap, len) in steps {
                    map.add(member.size + gap, len);
                    member.size += gap + len;
                }
                member.size += u64::from(hole);
                let mut text = Vec::new();
                map.encode(member.size, &mut text);
                member.stored = text.len() as u64 + map.data();
                member.sparse = Some(map);
            }
            member
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(members in vec(member(), 1..4)) {
            for wanted in members {
                let archive = archive_of(&wanted);
                prop_assert_eq!(archive.len() % BLOCK, 0);
                prop_assert_eq!(archive_of(&wanted), &archive[..]);
                let events = read(&archive);
                let Ok([Event::Member { member, at: 0, data }]) = events.as_deref() else { panic!("{events:?}") };
                prop_assert_eq!(&**member, &wanted);
                prop_assert_eq!(*data, wanted.sparse.as_ref().map_or(wanted.stored, Map::data));
            }
        }

        #[test]
        fn no_bytes_make_it_panic(member in member(), spoils in vec((any::<prop::sample::Index>(), any::<u8>()), 0..9), sound: bool) {
            let mut archive = archive_of(&member);
            for (at, byte) in spoils {
                let at = at.index(archive.len());
                archive[at] = byte;
            }
            if sound && let Some(block) = archive.first_chunk_mut() {
                field::put_sum(block);
            }
            let mut decoder = Decoder::new();
            for block in archive.as_chunks().0 {
                if decoder.push(block).is_err() {
                    decoder.recover();
                }
            }
        }
    }

    #[test]
    fn checksums_stand_before_or_behind() {
        let file = |path: &[u8], blake3| Member {
            path: path.to_vec(),
            stored: 3,
            size: 3,
            blake3,
            ..Member::default()
        };
        let mut archive = Vec::new();
        for (path, before) in [(b"a", Some([7; 32])), (b"b", None)] {
            header(&file(path, before), &mut archive);
            archive.extend_from_slice(&[b'x'; BLOCK]);
        }
        trailer(&[9; 32], &mut archive);
        end(&mut archive);
        let events = read(&archive).unwrap();
        let [
            Event::Member {
                member: a, at: 0, ..
            },
            Event::Member {
                member: b,
                at: 2048,
                ..
            },
            Event::Checksum(sum),
        ] = &events[..]
        else {
            panic!("{events:?}")
        };
        assert_eq!((a.blake3, b.blake3, *sum), (Some([7; 32]), None, [9; 32]));
    }

    #[test]
    fn what_is_hostile_is_named_with_its_place() {
        let with = |parts: &[&[u8]]| {
            let mut archive = parts.concat();
            end(&mut archive);
            archive
        };
        let file = raw(b'0', 0, |_| {});
        let records = |letter, text: &[u8]| {
            let mut block = [raw(letter, text.len() as u64, |_| {}).as_slice(), text].concat();
            block.resize(block.len().next_multiple_of(BLOCK), 0);
            block
        };
        let mut spoilt = file;
        spoilt[0] ^= 1;
        assert_eq!(
            fault(&with(&[&file, &spoilt])),
            Fault {
                at: 512,
                what: "the checksum of a header is wrong"
            }
        );
        assert_eq!(
            fault(&with(&[&records(b'x', b"10 path=\0\n"), &file])),
            Fault {
                at: 512,
                what: "a name has a NUL in it"
            }
        );
        assert_eq!(
            fault(&with(&[&file, &records(b'x', b"5 a=\n9 b=\n")])).at,
            512 + 512 + 5
        );
        assert_eq!(
            fault(&with(&[
                &records(b'x', b"5 a=\n"),
                &records(b'x', b"5 a=\n")
            ]))
            .at,
            1024
        );
        assert!(
            fault(&with(&[&records(b'x', b"5 a=\n")]))
                .what
                .contains("before the member")
        );
        assert!(
            fault(&with(&[&file, &[0; BLOCK], &file]))
                .what
                .contains("single block")
        );
        assert!(
            fault(&with(&[
                &records(b'x', b"28 size=9223372036854775807\n"),
                &file
            ]))
            .what
            .contains("cut")
        );
        assert!(
            fault(&with(&[
                &records(b'x', b"28 size=9223372036854775808\n"),
                &file
            ]))
            .what
            .contains("too large")
        );
        assert!(
            fault(&with(&[&records(b'g', b"8 path=a\n")]))
                .what
                .contains("record")
        );
        assert!(
            fault(&with(&[&records(b'g', b"9 path=a\n")]))
                .what
                .contains("global")
        );
        for huge in [b'x', b'g', b'L', b'K'] {
            let block = raw(huge, 8 << 30, |_| {});
            assert!(
                fault(&with(&[&block]))
                    .what
                    .contains("longer than is taken"),
                "{huge}"
            );
        }
        let negative = raw(b'0', 0, |block| block[SIZE].fill(0xff));
        assert!(fault(&with(&[&negative])).what.contains("size"));
        let sparse = |text: &[u8], size, data: &[u8]| {
            let mut archive = records(b'x', text);
            archive.extend_from_slice(&raw(b'0', size, |_| {}));
            archive.extend_from_slice(data);
            fault(&with(&[&archive])).what
        };
        let map = |text: &[u8]| [text, &vec![0; BLOCK - text.len()]].concat();
        let head = b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n28 GNU.sparse.realsize=1000\n";
        assert!(sparse(head, 512, &map(b"1\n1000\n1\n")).contains("beyond its size"));
        assert!(sparse(head, 512, &map(b"1\n0\n5\n")).contains("as much as is stored"));
        assert!(sparse(head, 512, &map(b"9999999\n")).contains("more extents"));
        assert!(sparse(head, 512, &[b'1'; BLOCK]).contains("too large"));
        assert!(sparse(head, 512, &[map(b"2\n1\n"), map(b"")].concat()).contains("no number"));
        assert!(
            sparse(head, 700, &[[b'0'; BLOCK], [b'0'; BLOCK]].concat()).contains("does not end")
        );
        assert!(
            sparse(
                b"22 GNU.sparse.major=2\n28 GNU.sparse.realsize=1000\n",
                0,
                b""
            )
            .contains("not known")
        );
        assert!(sparse(b"22 GNU.sparse.major=1\n", 0, b"").contains("how large"));
        let old = raw(b'S', 0, |block| {
            block[MAGIC].copy_from_slice(GNU);
            block[gnu::EXTENTS.start..][..24].copy_from_slice(b"00000000005\x0077777777777\0");
        });
        assert!(fault(&with(&[&old])).what.contains("beyond its size"));
    }

    #[test]
    fn the_next_sound_header_is_found() {
        let file = raw(b'0', 0, |_| {});
        let mut decoder = Decoder::new();
        assert!(decoder.push(&[1; BLOCK]).is_err());
        decoder.recover();
        for block in [[0; BLOCK], [2; BLOCK]] {
            assert_eq!(decoder.push(&block), Ok(Event::More));
            assert!(decoder.is_lost());
        }
        assert!(matches!(
            decoder.push(&file),
            Ok(Event::Member { at: 1536, .. })
        ));
        assert!(!decoder.is_lost());
    }

    #[test]
    fn names_of_old() {
        let long = vec![b'l'; 700];
        let mut archive = raw(b'L', 701, |_| {}).to_vec();
        archive.extend_from_slice(&long);
        archive.resize(3 * BLOCK, 0);
        archive.extend_from_slice(&raw(b'0', 0, |block| block[MAGIC].copy_from_slice(GNU)));
        archive.extend_from_slice(&raw(0, 0, |block| {
            block[MAGIC].fill(0);
            block[4] = b'/';
        }));
        archive.extend_from_slice(&raw(b'0', 0, |block| {
            block[PREFIX][..4].copy_from_slice(b"a/b ")
        }));
        end(&mut archive);
        let members: Vec<_> = read(&archive)
            .unwrap()
            .into_iter()
            .map(|event| match event {
                Event::Member { member, .. } => (member.path, member.kind),
                other => panic!("{other:?}"),
            })
            .collect();
        let expected = [
            (long, Kind::File),
            (b"name/".to_vec(), Kind::Directory),
            (b"a/b /name".to_vec(), Kind::File),
        ];
        assert_eq!(members, expected);
    }
}
