//! Reads the headers of an archive: takes blocks, returns members.

use std::ops::Range;

use super::acl;
use super::field::{
    self, GID, GNAME, GNU, LINK, MAGIC, MAJOR, MINOR, MODE, MTIME, NAME, PREFIX, SIZE, TYPE, UID,
    UNAME, gnu, number, star, text,
};
use super::record::{Common, Global, Records, Sparse};
use super::sparse::{self, Map};
use super::{BLOCK, Fault, Kind, MOST, Member, PartOfRun, dumpdir, padded};
use crate::{Dev, Time};

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
    /// The part of a dump that the archive is.
    Part(PartOfRun),
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
    /// Whether a header without a magic was read: the next one may have none either.
    is_old: bool,
    /// Padded length of the data that follows the block that is being parsed, where it is known.
    skip: Option<u64>,
    common: Common,
    ahead: Ahead,
    /// What was wrong and did not prevent reading.
    faults: Vec<Fault>,
}

/// The meaning of the next block.
#[derive(Debug, Default)]
enum State {
    #[default]
    Header,
    /// The content of a header of another kind: bytes that are left, and those so far.
    Collect(What, u64, Vec<u8>),
    /// More extents of an old sparse file.
    Extents(Box<Member>, Map, Rest),
    /// The map of a sparse file, at the beginning of its data: bytes that are left.
    Map(Box<Member>, sparse::Text, u64),
    /// Content that is not needed: bytes that are left.
    Skip(u64),
}

/// An old sparse file whose extents are being read.
#[derive(Debug)]
struct Rest {
    layout: Layout,
    /// Bytes of data after this block.
    left: u64,
}

/// Where an old sparse file has its extents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layout {
    Gnu,
    /// star counts the blocks of extents as data.
    Star,
}

/// The kind of content that is collected.
#[derive(Debug)]
enum What {
    Extended,
    Global,
    Path,
    Link,
    SolarisAcl,
    Dumpdir(Box<Member>),
}

/// The headers before a member's own.
#[derive(Debug, Default)]
struct Ahead {
    /// Offset of the first of them.
    at: Option<u64>,
    records: Option<Records>,
    /// Bytes of extended headers so far.
    len: u64,
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    acl: Option<Vec<u8>>,
    /// One of the headers was not read, so the member has not all that belongs to it.
    lost: Option<Fault>,
}

/// The user and group of what has an invalid owner: the kernel's overflowuid.
const NOBODY: u32 = 65_534;

/// The longest extended headers of a member, in bytes: a dumpdir, or a map, and other records.
const MOST_EXTENDED: usize = dumpdir::MOST + MOST;

const LONE_ZEROS: &str = "a single block of zeros ends the archive (the end has two)";

/// Faults that are kept until they are taken: one for each field and header of a member.
const MOST_FAULTS: usize = 16;

/// Whether the first block of a file begins an archive, though perhaps with a damaged header.
pub fn begins_archive(block: &[u8; BLOCK]) -> bool {
    let is_empty = || block.iter().all(|&byte| byte == 0);
    block[MAGIC].starts_with(b"ustar") || field::sum_is_right(block) || is_empty()
}

impl Decoder {
    /// A decoder for an archive that begins with the next block.
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// A decoder whose next block, at an offset of the archive, is the first header of a member.
    pub fn starting_at(at: u64) -> Decoder {
        Decoder {
            at,
            ..Decoder::default()
        }
    }

    /// Offset of the next block in bytes.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// What was wrong with the headers since the last call, and did not prevent reading them.
    pub fn take_faults(&mut self) -> Vec<Fault> {
        std::mem::take(&mut self.faults)
    }

    fn fault(&mut self, at: u64, what: &'static str) {
        if self.faults.len() < MOST_FAULTS {
            self.faults.push(Fault { at, what });
        }
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

    /// Continues after an error. Returns the length of the data to skip, as that of
    /// [`Event::Member`], if it is known; otherwise all blocks are skipped up to the next that is
    /// certainly a header.
    pub fn recover(&mut self) -> u64 {
        let skip = self.skip.take();
        let end = skip.and_then(|skip| self.at.checked_add(skip));
        *self = Decoder {
            at: end.unwrap_or(self.at),
            is_lost: end.is_none(),
            is_old: self.is_old,
            common: std::mem::take(&mut self.common),
            faults: std::mem::take(&mut self.faults),
            ..Decoder::default()
        };
        skip.filter(|_| end.is_some()).unwrap_or(0)
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
            State::Skip(left) => {
                self.state = match left.saturating_sub(BLOCK as u64) {
                    0 => State::Header,
                    left => State::Skip(left),
                };
                Ok(Event::More)
            }
            State::Extents(member, mut map, mut rest) => {
                if rest.layout == Layout::Star {
                    let left = rest.left.checked_sub(BLOCK as u64);
                    self.skip = padded(left.unwrap_or(0));
                    rest.left = left.ok_or("the map of a sparse file is incomplete")?;
                }
                extents(&block[gnu::MORE_EXTENTS], &mut map)?;
                self.old_sparse(member, map, rest, block[gnu::IS_EXTENDED_FURTHER] != 0)
            }
            State::Map(member, mut text, left) => {
                let left = left.checked_sub(BLOCK as u64);
                self.skip = padded(left.unwrap_or(0));
                let left = left.ok_or("the map of a sparse file is incomplete")?;
                if !text.take(block)? {
                    self.state = State::Map(member, text, left);
                    return Ok(Event::More);
                }
                self.sparse(member, text.into_map(), left)
            }
        }
    }

    fn header(&mut self, block: &[u8; BLOCK], at: u64) -> Result<Event, Problem> {
        self.skip = None;
        let is_sound = field::sum_is_right(block);
        let has_magic = block[MAGIC].starts_with(b"ustar");
        if self.is_lost {
            if !is_sound || !(has_magic || self.is_old) {
                return Ok(Event::More);
            }
            self.is_lost = false;
        }
        if block.iter().all(|&byte| byte == 0) {
            return Ok(self.zeros(at));
        }
        if std::mem::take(&mut self.is_ending) {
            self.fault(at, LONE_ZEROS);
            return Ok(Event::End);
        }
        if !is_sound {
            return Err("wrong header checksum".into());
        }
        self.is_old |= !has_magic;
        let size = number(&block[SIZE]).and_then(|size| u64::try_from(size).ok());
        let size = size.ok_or("invalid size in a header")?;
        let (what, most) = match block[TYPE] {
            b'x' | b'X' => (What::Extended, MOST_EXTENDED),
            b'g' => (What::Global, MOST),
            b'L' => (What::Path, MOST),
            b'K' => (What::Link, MOST),
            b'A' => (What::SolarisAcl, MOST),
            _ => return self.member(block, size, at),
        };
        let is_global = matches!(what, What::Global);
        let mut len = size;
        if !is_global {
            self.ahead.at.get_or_insert(at);
            if matches!(what, What::Extended) {
                // Several are read as one.
                len = self.ahead.len.saturating_add(size);
                self.ahead.len = len;
            }
        }
        if len <= most as u64 {
            return self.expect(what, size);
        }
        let what = "an extended header is too long";
        if is_global {
            self.fault(at, what);
        } else {
            self.ahead.lost.get_or_insert(Fault { at, what });
        }
        self.state = State::Skip(size);
        Ok(Event::More)
    }

    /// Takes a block of zeros in the place of a header.
    fn zeros(&mut self, at: u64) -> Event {
        if self.ahead.at.is_some() {
            self.fault(
                at,
                "the archive ends between an extended header and its member",
            );
            self.ahead = Ahead::default();
        }
        match std::mem::replace(&mut self.is_ending, true) {
            true => Event::End,
            false => Event::More,
        }
    }

    /// Whether the archive may end here: after the first of the two blocks of zeros. It is noted as
    /// a fault.
    pub fn may_end(&mut self) -> bool {
        if self.is_ending {
            self.fault(self.at, LONE_ZEROS);
        }
        self.is_ending
    }

    /// Starts collecting the content of a header.
    fn expect(&mut self, what: What, size: u64) -> Result<Event, Problem> {
        // Pages are only allocated when they are filled, so that a wrong size costs nothing.
        self.collect(what, size, Vec::with_capacity(size as usize))
    }

    fn collect(&mut self, what: What, left: u64, text: Vec<u8>) -> Result<Event, Problem> {
        if left > 0 {
            self.state = State::Collect(what, left, text);
            return Ok(Event::More);
        }
        let start = self.at - padded(text.len() as u64).unwrap_or(0);
        match what {
            What::Extended => {
                let records = self.ahead.records.take();
                let mut records = records.unwrap_or_else(|| Records::new(self.common.clone()));
                if let Some(Fault { at, what }) = records.add(text, start) {
                    self.fault(at, what);
                }
                self.ahead.records = Some(records);
            }
            What::Path => self.ahead.path = Some(field::text(&text).to_vec()),
            What::Link => self.ahead.link = Some(field::text(&text).to_vec()),
            What::SolarisAcl => match solaris_acl(&text) {
                Ok(acl) => self.ahead.acl = Some(acl),
                Err(what) => self.fault(start, what),
            },
            What::Dumpdir(mut member) => {
                member.dumpdir = Some(text);
                return self.done(member, 0);
            }
            What::Global => {
                let mut global = Global::new(std::mem::take(&mut self.common));
                if let Some(Fault { at, what }) = global.add(&text, start) {
                    self.fault(at, what);
                }
                self.common = global.common;
                return Ok(match (global.blake3, global.part) {
                    (Some(sum), _) => Event::Checksum(sum),
                    (None, Some(part)) => Event::Part(part),
                    (None, None) => Event::More,
                });
            }
        }
        Ok(Event::More)
    }

    /// Takes a member's own header.
    fn member(&mut self, block: &[u8; BLOCK], size: u64, at: u64) -> Result<Event, Problem> {
        let mut ahead = std::mem::take(&mut self.ahead);
        self.ahead.at = Some(ahead.at.unwrap_or(at));
        let records = ahead.records.take();
        let mut records = records.unwrap_or_else(|| Records::new(self.common.clone()));
        let mut sparse = std::mem::take(&mut records.sparse);
        let header = Header { block, at };
        let path = sparse.name.take().or(records.path.take()).or(ahead.path);
        let path = path.unwrap_or_else(|| header.name());
        let kind = kind(block[TYPE], &path);
        let stored = match Member::has_data(kind) || block[TYPE] == b'D' {
            true => records.size.unwrap_or(size),
            false => 0,
        };
        let is_size_known = records.unusable.is_none_or(|unusable| !unusable.is_size);
        self.skip = padded(stored).filter(|_| is_size_known);
        if let Some(Fault { at, what }) = ahead.lost.or(records.unusable.map(|it| it.fault)) {
            return Err(Problem { at: Some(at), what });
        }
        let star_size = records.star_size;
        records.acl(ahead.acl);
        records.link = records.link.or(ahead.link);
        let member = Member {
            path,
            kind,
            stored,
            size: if Member::has_data(kind) { stored } else { 0 },
            ..self.describe(&header, kind, records)?
        };
        let member = Box::new(member);
        match (block[TYPE], kind) {
            (b'D', _) if stored > dumpdir::MOST as u64 => {
                self.fault(at, "a dumpdir is too long; it is skipped");
                self.done(member, stored)
            }
            (b'D', _) => self.expect(What::Dumpdir(member), stored),
            (b'S', _) => self.old_sparse_header(member, block, star_size),
            (_, Kind::File)
                if sparse.major.is_some() || sparse.map.is_some() || sparse.size.is_some() =>
            {
                self.sparse_member(member, sparse)
            }
            _ => self.done(member, stored),
        }
    }

    /// The metadata of a member, from its header and its records. What a header has wrong is
    /// replaced by something harmless.
    fn describe(
        &mut self,
        header: &Header<'_>,
        kind: Kind,
        records: Records,
    ) -> Result<Member, Problem> {
        let (block, common) = (header.block, records.common);
        let link = match kind {
            Kind::Link | Kind::Symlink => {
                let link = records.link;
                link.unwrap_or_else(|| text(&block[LINK]).to_vec())
            }
            _ => Vec::new(),
        };
        let is_known = matches!(block[TYPE], 0 | b'0'..=b'7' | b'D' | b'M' | b'S' | b'V');
        if !is_known {
            self.fault(header.at, "unknown member type, read as a plain file");
        }
        let rdev = match kind {
            Kind::Char | Kind::Block => Dev {
                major: header.device(records.major, MAJOR)?,
                minor: header.device(records.minor, MINOR)?,
            },
            _ => Dev::default(),
        };
        let mut xattrs = match records.coded_xattrs.is_empty() {
            true => records.xattrs,
            false => records.coded_xattrs,
        };
        // GNU tar has access control lists as attributes if it was told to archive these only.
        let mut list = |recorded: Option<Vec<u8>>, name: &[u8]| {
            let text = xattrs.get(name).and_then(|binary| acl::to_text(binary));
            if text.is_some() {
                xattrs.remove(name);
            }
            recorded.or(text)
        };
        let acl_access = list(records.acl_access, b"system.posix_acl_access");
        let acl_default = list(records.acl_default, b"system.posix_acl_default");
        let (uid, gid, mode) = self.owner_and_mode(header, kind, &common);
        let time =
            |recorded: Option<Time>, field| recorded.map_or_else(|| header.seconds(field), Ok);
        let gnu_time = |recorded: Option<Time>, field| {
            recorded.map_or_else(|| header.gnu_time(field), |time| Ok(Some(time)))
        };
        Ok(Member {
            link,
            mode,
            uid,
            gid,
            uname: common.uname.unwrap_or_else(|| header.owner(UNAME)),
            gname: common.gname.unwrap_or_else(|| header.owner(GNAME)),
            mtime: self.or_default(header.at, time(common.mtime, MTIME), Time::default()),
            atime: self.or_default(header.at, gnu_time(common.atime, gnu::ATIME), None),
            ctime: self.or_default(header.at, gnu_time(common.ctime, gnu::CTIME), None),
            rdev,
            acl_access,
            acl_default,
            xattrs: xattrs.into_iter().collect(),
            dumpdir: records.dumpdir,
            blake3: records.blake3,
            ..Member::default()
        })
    }

    /// Owner, group and mode of a member.
    fn owner_and_mode(
        &mut self,
        header: &Header<'_>,
        kind: Kind,
        common: &Common,
    ) -> (u32, u32, u32) {
        let uid = header.id(common.uid, UID);
        let gid = header.id(common.gid, GID);
        // A program must not run in the name of the user who restores it: -1 changes no owner.
        let is_owner = |id: Option<u32>| id.is_some_and(|id| id != u32::MAX);
        let permitted = match is_owner(uid) && is_owner(gid) {
            true => 0o7777,
            false => 0o1777,
        };
        let private = match kind {
            Kind::Directory => 0o700,
            _ => 0o600,
        };
        let uid = uid.ok_or("invalid owner in a header; nobody is used");
        let gid = gid.ok_or("invalid group in a header; nogroup is used");
        let mode = number(&header.block[MODE]);
        let mode = mode.ok_or("invalid mode in a header; only the owner has access");
        let mode = self.or_default(header.at, mode, private) as u32 & permitted;
        (
            self.or_default(header.at, uid, NOBODY),
            self.or_default(header.at, gid, NOBODY),
            mode,
        )
    }

    /// A value, or in the place of one that is wrong a default.
    fn or_default<T>(&mut self, at: u64, value: Result<T, &'static str>, default: T) -> T {
        value.unwrap_or_else(|what| {
            self.fault(at, what);
            default
        })
    }

    /// Takes the header of a sparse file in an old format, which has the first extents.
    fn old_sparse_header(
        &mut self,
        mut member: Box<Member>,
        block: &[u8; BLOCK],
        recorded: Option<u64>,
    ) -> Result<Event, Problem> {
        let layout = match &block[MAGIC] == GNU {
            true => Layout::Gnu,
            false => Layout::Star,
        };
        let real_size = match layout {
            Layout::Gnu => gnu::REAL_SIZE,
            Layout::Star => star::REAL_SIZE,
        };
        let size = number(&block[real_size]).and_then(|size| u64::try_from(size).ok());
        member.size = recorded.or(size).ok_or("invalid size of a sparse file")?;
        let left = member.stored;
        let mut map = Map::default();
        let is_extended = match layout {
            Layout::Gnu => {
                extents(&block[gnu::EXTENTS], &mut map)?;
                block[gnu::IS_EXTENDED] != 0
            }
            // Before xstar, star has extents in the header, too, in the place of the prefix.
            Layout::Star if block[PREFIX.start] == 0 && block[star::EXTENTS.start + 10] != 0 => {
                extents(&block[star::EXTENTS], &mut map)?;
                block[star::IS_EXTENDED] != 0
            }
            Layout::Star => true,
        };
        self.old_sparse(member, map, Rest { layout, left }, is_extended)
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
        rest: Rest,
        is_extended: bool,
    ) -> Result<Event, Problem> {
        if is_extended {
            self.state = State::Extents(member, map, rest);
            return Ok(Event::More);
        }
        self.sparse(member, map, rest.left)
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

/// A member's own header, and its offset.
struct Header<'a> {
    block: &'a [u8; BLOCK],
    at: u64,
}

impl Header<'_> {
    fn is_gnu(&self) -> bool {
        &self.block[MAGIC] == GNU
    }

    fn is_ustar(&self) -> bool {
        self.block[MAGIC].starts_with(b"ustar")
    }

    /// The name; GNU's headers have other fields in place of the prefix, and star's have the map of
    /// a sparse file or times behind it.
    fn name(&self) -> Vec<u8> {
        let is_star = &self.block[star::MAGIC] == b"tar\0";
        let prefix = if is_star { star::PREFIX } else { PREFIX };
        let (prefix, name) = (text(&self.block[prefix]), text(&self.block[NAME]));
        if self.is_ustar() && !self.is_gnu() && !prefix.is_empty() {
            [prefix, b"/", name].concat()
        } else {
            name.to_vec()
        }
    }

    /// The id of a record, otherwise that of a field. Negative ids of 32 bits are those of old
    /// systems; -1 means no owner to the kernel.
    fn id(&self, recorded: Option<u32>, field: Range<usize>) -> Option<u32> {
        let in_field = || {
            let id = number(&self.block[field])?;
            let negative = i32::try_from(id).ok().map(i32::cast_unsigned);
            u32::try_from(id).ok().or(negative)
        };
        recorded.or_else(in_field)
    }

    /// A device number; headers older than ustar have none.
    fn device(&self, recorded: Option<u32>, field: Range<usize>) -> Result<u32, &'static str> {
        let in_field = || match self.is_ustar() {
            true => number(&self.block[field]).and_then(|number| u32::try_from(number).ok()),
            false => Some(0),
        };
        recorded
            .or_else(in_field)
            .ok_or("invalid device number in a header")
    }

    /// The name of a user or group; headers older than ustar have none.
    fn owner(&self, field: Range<usize>) -> Vec<u8> {
        match self.is_ustar() {
            true => text(&self.block[field]).to_vec(),
            false => Vec::new(),
        }
    }

    fn seconds(&self, field: Range<usize>) -> Result<Time, &'static str> {
        number(&self.block[field])
            .map(|sec| Time { sec, nsec: 0 })
            .ok_or("invalid time in a header")
    }

    /// A time that only GNU's headers have; zeros mean that it is not recorded.
    fn gnu_time(&self, field: Range<usize>) -> Result<Option<Time>, &'static str> {
        let is_recorded = self.block[field.clone()].iter().any(|&byte| byte != 0);
        match self.is_gnu() && is_recorded {
            true => self.seconds(field).map(Some),
            false => Ok(None),
        }
    }
}

/// The kind of a member. In archives older than ustar, a directory shows by its name only. Unknown
/// types are plain files, as POSIX says.
fn kind(letter: u8, path: &[u8]) -> Kind {
    match letter {
        0 | b'0' | b'7' if path.ends_with(b"/") => Kind::Directory,
        b'1' => Kind::Link,
        b'2' => Kind::Symlink,
        b'3' => Kind::Char,
        b'4' => Kind::Block,
        b'5' | b'D' => Kind::Directory,
        b'6' => Kind::Fifo,
        b'M' => Kind::Continuation,
        b'V' => Kind::Label,
        _ => Kind::File,
    }
}

/// The list of a Solaris header for the next member: its type and length in octal, a NUL, and the
/// text of the list.
fn solaris_acl(content: &[u8]) -> Result<Vec<u8>, &'static str> {
    const KINDS: i64 = 0o77_000_000;
    const POSIX: i64 = 0o1_000_000;
    let (head, list) = content.split_at(text(content).len());
    let kind = number(head)
        .filter(|_| !head.is_empty())
        .map(|head| head & KINDS);
    match kind.ok_or("invalid access control list of Solaris")? {
        POSIX => Ok(text(list.strip_prefix(b"\0").unwrap_or_default()).to_vec()),
        _ => Err("an access control list of NFSv4 is skipped"),
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
