//! Reads the headers of an archive: takes blocks, returns members.

use super::field::{self, MAGIC, SIZE, TYPE, gnu, number, text};
use super::record::{Common, Global, Records};
use super::sparse::{self, Map};
use super::{
    BLOCK, Fault, Lineage, MOST_NAME, MOST_OTHER, MOST_RECORDS, Member, PartOfRun, dumpdir, padded,
};

mod header;
mod member;
#[cfg(test)]
mod tests;

use member::extents;

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
    /// The ids of the archive and of its base.
    Lineage(Lineage),
    /// The end of the archive. What follows is no part of it.
    End,
}

/// Parses the headers of an archive block by block. It never holds more than the headers of one
/// member (112 MiB at most) with the values in them, and the map of a sparse file (16 MiB).
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
    /// Those of the last extended header: other programs ignore earlier ones, too.
    records: Option<Records>,
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    acl: Option<Vec<u8>>,
    /// A long name was not read, so the name of the member is unknown.
    lost: Option<Fault>,
    /// The last extended header was not read.
    lost_records: Option<Fault>,
}

/// The longest extended header of a member, in bytes: a dumpdir, or a map, and other records.
const MOST_EXTENDED: usize = dumpdir::MOST + MOST_RECORDS;

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
            b'g' => (What::Global, MOST_OTHER),
            b'L' => (What::Path, MOST_NAME),
            b'K' => (What::Link, MOST_NAME),
            b'A' => (What::SolarisAcl, MOST_OTHER),
            _ => return self.member(block, size, at),
        };
        let is_global = matches!(what, What::Global);
        let is_extended = matches!(what, What::Extended);
        if !is_global {
            self.ahead.at.get_or_insert(at);
        }
        if is_extended {
            (self.ahead.records, self.ahead.lost_records) = (None, None);
        }
        if size <= most as u64 {
            return self.expect(what, size);
        }
        let what = "an extended header is too long";
        let fault = Fault { at, what };
        match () {
            () if is_global => self.fault(at, what),
            () if is_extended => self.ahead.lost_records = Some(fault),
            () => self.ahead.lost = Some(fault),
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
                let mut records = Records::new(self.common.clone());
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
                return Ok(match (global.blake3, global.part, global.lineage) {
                    (Some(sum), ..) => Event::Checksum(sum),
                    (None, Some(part), _) => Event::Part(part),
                    (None, None, Some(lineage)) => Event::Lineage(lineage),
                    (None, None, None) => Event::More,
                });
            }
        }
        Ok(Event::More)
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
