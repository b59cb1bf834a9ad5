//! Decodes the headers of an archive: takes blocks of 512 bytes, returns members.

use super::field::{self, MAGIC, SIZE, TYPE, gnu, number, text};
use super::record::{Global, GlobalRecords, Records};
use super::sparse::{self, Map};
use super::{
    BLOCK, Fault, Lineage, MOST_NAME, MOST_OTHER, MOST_RECORDS, Member, PartOfRun, dumpdir, padded,
};

mod header;
mod member;
#[cfg(test)]
mod tests;

use member::extents;

/// A fault found while parsing a block. If `at` is `None`, the fault is in that block.
struct Problem {
    at: Option<u64>,
    what: &'static str,
}

impl From<&'static str> for Problem {
    fn from(what: &'static str) -> Problem {
        Problem { at: None, what }
    }
}

/// The result of parsing a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Headers are incomplete: the next block is needed.
    More,
    /// A member of the archive, after its last header.
    Member {
        /// Name and metadata of the member.
        member: Box<Member>,
        /// Offset of the member's first header in the archive.
        at: u64,
        /// Bytes of data that follow. The caller must skip their blocks ([`padded`]), which the
        /// decoder has counted already.
        data: u64,
    },
    /// BLAKE3 checksum of the data of the previous member.
    Checksum([u8; 32]),
    /// The number of the archive, if several processes wrote one dump.
    Part(PartOfRun),
    /// The ids of the archive and of its base.
    Lineage(Lineage),
    /// The end of the archive. Later bytes do not belong to it.
    End,
}

/// Parses the headers of an archive block by block. Memory is bounded by the headers of one member
/// (112 MiB at most), their values, and the map of a sparse file (16 MiB).
///
/// After an error, the decoder must not be used before [`Decoder::recover`].
#[derive(Debug, Default)]
pub struct Decoder {
    /// Offset of the next block in the archive.
    at: u64,
    state: State,
    /// Whether the last block was the first of the two blocks of zeros that end an archive.
    is_ending: bool,
    /// Whether blocks are skipped until one is certainly a header.
    is_lost: bool,
    /// Whether the last header had no magic, so that the next header may have no magic either.
    is_old: bool,
    /// Padded length of the data that follows the current block, if known.
    skip: Option<u64>,
    common: GlobalRecords,
    ahead: ExtraHeaders,
    /// Faults that did not prevent reading.
    faults: Vec<Fault>,
}

/// The meaning of the next block.
#[derive(Debug, Default)]
enum State {
    #[default]
    Header,
    /// The content of an additional header: the number of bytes left, and the bytes read so far.
    Collect(HeaderKind, u64, Vec<u8>),
    /// Blocks with more extents of a sparse file in an old format.
    Extents(Box<Member>, Map, SparseRemainder),
    /// The map of a sparse file, at the beginning of its data; with the number of bytes left.
    Map(Box<Member>, sparse::Text, u64),
    /// Content that is skipped: the number of bytes left.
    Skip(u64),
}

/// The remaining part of a sparse file in an old format whose extents are being read.
#[derive(Debug)]
struct SparseRemainder {
    layout: Layout,
    /// Bytes of data after the current block.
    left: u64,
}

/// The program whose format for old sparse files is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layout {
    Gnu,
    /// The format of star, in which blocks of extents count as data.
    Star,
}

/// The kind of header whose content is being collected.
#[derive(Debug)]
enum HeaderKind {
    Extended,
    Global,
    Path,
    Link,
    SolarisAcl,
    Dumpdir(Box<Member>),
}

/// Additional headers before the header of a member.
#[derive(Debug, Default)]
struct ExtraHeaders {
    /// Offset of the first additional header.
    at: Option<u64>,
    /// Records of the last extended header. Earlier extended headers are ignored, because other
    /// programs ignore them, too.
    records: Option<Records>,
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    acl: Option<Vec<u8>>,
    /// The fault in a long name that could not be read, so that the name of the member is unknown.
    lost: Option<Fault>,
    /// Fault of the last extended header, if it could not be read.
    lost_records: Option<Fault>,
}

/// Maximum length of a member's extended header in bytes: a dumpdir or a map, and other records.
const MOST_EXTENDED: usize = dumpdir::MOST + MOST_RECORDS;

const LONE_ZEROS: &str = "a single block of zeros ends the archive (the end has two)";

/// Maximum number of faults stored before the caller takes them: one per field and header of a
/// member.
const MOST_FAULTS: usize = 16;

/// Whether the first block of a file begins an archive, possibly with a damaged header.
pub fn begins_archive(block: &[u8; BLOCK]) -> bool {
    let is_empty = || block.iter().all(|&byte| byte == 0);
    block[MAGIC].starts_with(b"ustar") || field::sum_is_right(block) || is_empty()
}

impl Decoder {
    /// A decoder for an archive; the next block is its first one.
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// A decoder that starts at an offset of the archive, with the first header of a member.
    pub fn starting_at(at: u64) -> Decoder {
        Decoder {
            at,
            ..Decoder::default()
        }
    }

    /// Takes the faults since the last call that did not prevent reading.
    pub fn take_faults(&mut self) -> Vec<Fault> {
        std::mem::take(&mut self.faults)
    }

    fn fault(&mut self, at: u64, what: &'static str) {
        if self.faults.len() < MOST_FAULTS {
            self.faults.push(Fault { at, what });
        }
    }

    /// Whether the next block is data: the map of a sparse file.
    pub fn is_data(&self) -> bool {
        matches!(
            self.state,
            State::Map(..) | State::Collect(HeaderKind::Dumpdir(_), ..)
        )
    }

    /// Whether a member's headers are incomplete, so that the archive cannot end here.
    pub fn is_within(&self) -> bool {
        self.ahead.at.is_some() || !matches!(self.state, State::Header)
    }

    /// Whether the decoder still searches for a header after [`Decoder::recover`].
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Continues after an error. Returns the number of bytes of data to skip, like
    /// [`Event::Member`], if known; otherwise all blocks are skipped up to the next one that is
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

    /// Parses the next block.
    ///
    /// # Errors
    /// A fault in the block, or in the headers that it completes.
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
            b'x' | b'X' => (HeaderKind::Extended, MOST_EXTENDED),
            b'g' => (HeaderKind::Global, MOST_OTHER),
            b'L' => (HeaderKind::Path, MOST_NAME),
            b'K' => (HeaderKind::Link, MOST_NAME),
            b'A' => (HeaderKind::SolarisAcl, MOST_OTHER),
            _ => return self.member(block, size, at),
        };
        let is_global = matches!(what, HeaderKind::Global);
        let is_extended = matches!(what, HeaderKind::Extended);
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

    /// Handles a block of zeros in place of a header.
    fn zeros(&mut self, at: u64) -> Event {
        if self.ahead.at.is_some() {
            self.fault(
                at,
                "the archive ends between an extended header and its member",
            );
            self.ahead = ExtraHeaders::default();
        }
        match std::mem::replace(&mut self.is_ending, true) {
            true => Event::End,
            false => Event::More,
        }
    }

    /// Whether the archive may end here, after only one of the two blocks of zeros; records this as
    /// a fault.
    pub fn may_end(&mut self) -> bool {
        if self.is_ending {
            self.fault(self.at, LONE_ZEROS);
        }
        self.is_ending
    }

    /// Begins to collect the content of an additional header.
    fn expect(&mut self, what: HeaderKind, size: u64) -> Result<Event, Problem> {
        // The kernel allocates pages only when they are filled, so a wrong size costs nothing.
        self.collect(what, size, Vec::with_capacity(size as usize))
    }

    fn collect(&mut self, what: HeaderKind, left: u64, text: Vec<u8>) -> Result<Event, Problem> {
        if left > 0 {
            self.state = State::Collect(what, left, text);
            return Ok(Event::More);
        }
        let start = self.at - padded(text.len() as u64).unwrap_or(0);
        match what {
            HeaderKind::Extended => {
                let mut records = Records::new(self.common.clone());
                if let Some(Fault { at, what }) = records.add(text, start) {
                    self.fault(at, what);
                }
                self.ahead.records = Some(records);
            }
            HeaderKind::Path => self.ahead.path = Some(field::text(&text).to_vec()),
            HeaderKind::Link => self.ahead.link = Some(field::text(&text).to_vec()),
            HeaderKind::SolarisAcl => match solaris_acl(&text) {
                Ok(acl) => self.ahead.acl = Some(acl),
                Err(what) => self.fault(start, what),
            },
            HeaderKind::Dumpdir(mut member) => {
                member.dumpdir = Some(text);
                return self.done(member, 0);
            }
            HeaderKind::Global => {
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

/// Parses the access control list in a Solaris header: type and length in octal, a NUL, and the
/// text.
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
