//! Reads an archive from a file, a device, a fifo or standard input; plain, or compressed with
//! zstd, which shows by how it begins. What is in a plain file and not wanted is passed over, not
//! read.

use std::fmt;
use std::io;

use gate::fs::{At, FileType, Open, Want, pread64, read, statx};
use gate::long::open_long;
use gate::{Errno, Fd, Gate};
use ondisk::pax::sparse::Extent;
use ondisk::pax::{BLOCK, Decoder, Event, Kind, Member, padded};
use zstd::zstd_safe::zstd_sys::ZSTD_ErrorCode;
use zstd::zstd_safe::{self, DCtx, DParameter, ErrorCode, InBuffer, OutBuffer};

use crate::error::{Action, Damage, Error, ErrorKind, NotArchive, Result};

/// Bytes read at a time.
const CHUNK: usize = 256 << 10;

/// The largest window that what is compressed may want, as a power of two: 8 MiB, which is what
/// levels up to 19 have.
const WINDOW_LOG: u32 = 23;

/// What came of a member's checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The data is what it was.
    Right,
    /// The data is not what it was.
    Wrong,
    /// There is none.
    Unsaid,
}

/// An archive being read.
#[derive(Debug)]
pub struct Input {
    /// Its name, as it was given.
    path: Vec<u8>,
    source: Source,
    /// What has been read: of it, from `from` on to be taken.
    buffer: Vec<u8>,
    from: usize,
    /// Offset in the archive of what is to be taken next.
    place: u64,
    decoder: Decoder,
    /// What is left of the current member's data.
    left: u64,
    /// What fills it up to whole blocks.
    filling: u64,
    /// Where the current member begins.
    at: u64,
    is_over: bool,
    is_followed: bool,
    check: Option<Check>,
}

/// The checksum of a member's data, while it is read.
#[derive(Debug, Default)]
struct Check {
    hasher: blake3::Hasher,
    /// Whether the current member is one that has a checksum, or may have.
    is_due: bool,
    /// That of the member before, once all of it was read.
    computed: Option<[u8; 32]>,
    said: Option<[u8; 32]>,
    verdict: Option<Verdict>,
}

/// Where it comes from.
enum Source {
    File { fd: Fd, at: u64, len: u64 },
    Stream(Stream),
    Zstd(Box<Zstd>),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::File { .. } => "File",
            Source::Stream(_) => "Stream",
            Source::Zstd(_) => "Zstd",
        })
    }
}

/// A descriptor that is read from beginning to end; `None` is standard input.
struct Stream(Option<Fd>);

/// A zstd stream being decompressed.
struct Zstd {
    context: DCtx<'static>,
    from: Stream,
    /// What has been read of it: of that, from `taken` on is not decompressed yet.
    piece: Vec<u8>,
    taken: usize,
    /// Whether a frame has begun, and not ended.
    is_within_frame: bool,
}

impl Input {
    /// Opens an archive by a name of any length; `-` is standard input.
    ///
    /// # Errors
    /// A call that fails, and what is no archive as far as can be told from how it begins.
    pub fn open(path: &[u8]) -> Result<Input> {
        let error = |kind| Error::new(Action::ReadArchive, path, kind);
        let (source, head) = open_source(path).map_err(error)?;
        check_format(&head).map_err(|what| error(ErrorKind::NotArchive(what)))?;
        Ok(Input {
            path: path.to_vec(),
            source,
            buffer: head,
            from: 0,
            place: 0,
            decoder: Decoder::new(),
            left: 0,
            filling: 0,
            at: 0,
            is_over: false,
            is_followed: false,
            check: None,
        })
    }

    /// From now on, reads all data and compares it with the checksums ([`Input::verdict`]).
    pub fn check(&mut self) {
        self.check = Some(Check::default());
    }

    /// Where the headers of the current member begin: offset in the archive, uncompressed, in
    /// bytes.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// How far the archive has been read: offset, uncompressed, in bytes.
    pub fn place(&self) -> u64 {
        self.place
    }

    /// Whether something other than zeros has been seen behind the end.
    pub fn is_followed(&self) -> bool {
        self.is_followed
    }

    /// What came of the checksum of the member **before** the one that [`Input::next`] gave last;
    /// of the last one, once that has given `None` or failed: the checksum of a large member stands
    /// after its data. `None` for what is no file, for what could not be read whole, and where
    /// nothing is checked.
    pub fn verdict(&self) -> Option<Verdict> {
        self.check.as_ref().and_then(|check| check.verdict)
    }

    /// The next member; `None` at the end of the archive. What is left of the data of the one
    /// before is passed over.
    ///
    /// # Errors
    /// What is wrong: nothing more can be read then, save after [`Input::recover`].
    #[allow(
        clippy::should_implement_trait,
        reason = "what is wrong stands beside the end, as for a reader"
    )]
    pub fn next(&mut self) -> Result<Option<Member>> {
        let passed = self.pass_over();
        if let Some(check) = &mut self.check {
            check.computed =
                (check.is_due && passed.is_ok()).then(|| check.hasher.finalize().into());
            check.hasher.reset();
        }
        let next = passed.and_then(|()| self.headers());
        if let Some(check) = &mut self.check {
            check.verdict = check.computed.map(|computed| match check.said {
                None => Verdict::Unsaid,
                Some(said) if said == computed => Verdict::Right,
                Some(_) => Verdict::Wrong,
            });
            let member = next.as_ref().ok().and_then(Option::as_ref);
            check.is_due = member.is_some_and(|member| member.kind == Kind::File);
            check.said = member.and_then(|member| member.blake3);
        }
        next
    }

    /// Reads headers until there is a member.
    fn headers(&mut self) -> Result<Option<Member>> {
        while !self.is_over {
            let is_data = self.decoder.is_data();
            let Some(block) = self.block()? else {
                return self.ended_early();
            };
            let event = self
                .decoder
                .push(&block)
                .map_err(|fault| self.damaged(fault.at, Damage::Header(fault)))?;
            if let Some(check) = self.check.as_mut().filter(|_| is_data) {
                check.hasher.update(&block);
            }
            match event {
                Event::More => {}
                Event::Checksum(sum) => {
                    if let Some(check) = self.check.as_mut().filter(|_| !self.decoder.is_within()) {
                        check.said = Some(sum);
                    }
                }
                Event::Member { member, at, data } => {
                    self.at = at;
                    self.left = data;
                    self.filling = padded(data).unwrap_or(data) - data;
                    return Ok(Some(*member));
                }
                Event::End => {
                    self.is_over = true;
                    self.drain()?;
                }
            }
        }
        Ok(None)
    }

    /// After [`ErrorKind::DamagedArchive`]: makes [`Input::next`] look for the next header that is sound.
    /// What lies between is lost, and what looks like a header there, in the data of a member that
    /// is an archive itself, is taken for one.
    pub fn recover(&mut self) {
        self.left = 0;
        self.filling = 0;
        self.decoder.recover();
    }

    /// The next piece of the current member's data as it is stored, at most `most` bytes; empty at
    /// its end.
    ///
    /// # Errors
    /// A call that fails, and an archive that ends too soon.
    pub fn data(&mut self, most: u64) -> Result<&[u8]> {
        let wanted = self.left.min(most);
        if wanted > 0 && self.from == self.buffer.len() && self.fill()? == 0 {
            return Err(self.cut_short(self.left));
        }
        let taken = wanted.min((self.buffer.len() - self.from) as u64);
        let piece = self.from..self.from + taken as usize;
        self.take(piece.len());
        self.left -= taken;
        let piece = &self.buffer[piece];
        if let Some(check) = &mut self.check {
            check.hasher.update(piece);
        }
        Ok(piece)
    }

    /// The contents of the current member, which is `member`: each piece of its data with its place
    /// in the file.
    pub fn contents<'a>(&'a mut self, member: &'a Member) -> Contents<'a> {
        let whole = Extent {
            offset: 0,
            len: self.left,
        };
        let extents = member.sparse.as_ref().map(|map| map.extents());
        Contents {
            input: self,
            current: if extents.is_none() {
                whole
            } else {
                Extent::default()
            },
            extents: extents.unwrap_or_default(),
        }
    }

    /// Passes over what is left of the current member's data.
    fn pass_over(&mut self) -> Result<()> {
        if self.check.is_some() {
            while !self.data(u64::MAX)?.is_empty() {}
        }
        let mut left = std::mem::take(&mut self.left) + std::mem::take(&mut self.filling);
        while left > 0 {
            let here = left.min((self.buffer.len() - self.from) as u64);
            self.take(here as usize);
            left -= here;
            if let (Source::File { at, len, .. }, true) = (&mut self.source, left > 0) {
                let passed = left.min(len.saturating_sub(*at));
                *at += passed;
                self.place += passed;
                left -= passed;
            }
            if left > 0 && self.from == self.buffer.len() && self.fill()? == 0 {
                return Err(self.cut_short(left));
            }
        }
        Ok(())
    }

    /// The next block; `None` where the archive ends.
    fn block(&mut self) -> Result<Option<[u8; BLOCK]>> {
        let mut block = [0; BLOCK];
        let mut have = 0;
        while have < BLOCK {
            if self.from == self.buffer.len() && self.fill()? == 0 {
                return match have {
                    0 => Ok(None),
                    _ => Err(self.cut_short((BLOCK - have) as u64)),
                };
            }
            let taken = (BLOCK - have).min(self.buffer.len() - self.from);
            block[have..have + taken].copy_from_slice(&self.buffer[self.from..self.from + taken]);
            self.take(taken);
            have += taken;
        }
        Ok(Some(block))
    }

    /// Counts bytes of the buffer as taken.
    fn take(&mut self, n: usize) {
        self.from += n;
        self.place += n as u64;
    }

    /// Reads more, once all that was read is taken; 0 at the end.
    fn fill(&mut self) -> Result<usize> {
        self.from = 0;
        self.buffer.resize(CHUNK, 0);
        let read = self.source.read(&mut self.buffer, self.place);
        let have = *read.as_ref().unwrap_or(&0);
        self.buffer.truncate(have);
        // At the end, and after an error, nothing more can be read.
        self.is_over |= have == 0;
        read.map_err(|kind| self.error(kind))
    }

    /// Reads what follows the end: what fills up the last record, so that whoever writes it can end
    /// in peace, and what the compression has at its own end. More than a mebibyte of it is none of
    /// ours.
    fn drain(&mut self) -> Result<()> {
        const MOST: usize = 1 << 20;
        let mut read = 0;
        loop {
            self.is_followed |= self.buffer[self.from..].iter().any(|&byte| byte != 0);
            match self.fill()? {
                0 => return Ok(()),
                _ if read >= MOST => return Ok(()),
                n => read += n,
            }
        }
    }

    fn ended_early(&self) -> Result<Option<Member>> {
        if self.decoder.is_lost() {
            return Ok(None);
        }
        let damage = match self.decoder.is_within() {
            true => Damage::CutShortInHeaders,
            false => Damage::NoEnd,
        };
        Err(self.damaged(self.place, damage))
    }

    fn cut_short(&self, missing: u64) -> Error {
        self.damaged(self.place, Damage::CutShort { missing })
    }

    fn damaged(&self, at: u64, damage: Damage) -> Error {
        self.error(ErrorKind::DamagedArchive { at, damage })
    }

    fn error(&self, kind: ErrorKind) -> Error {
        Error::new(Action::ReadArchive, &self.path, kind)
    }
}

/// Whether something begins as what zstd writes does.
fn is_zstd(head: &[u8]) -> bool {
    matches!(
        head,
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..0x60, 0x2a, 0x4d, 0x18, ..]
    )
}

/// Opens what an archive is read from, and reads its first block, or as much as there is.
fn open_source(path: &[u8]) -> std::result::Result<(Source, Vec<u8>), ErrorKind> {
    let fd = match path {
        b"-" => None,
        _ => Some(open_long(path, Open::empty()).map_err(ErrorKind::call(Gate::Openat))?),
    };
    let seen = fd
        .as_ref()
        .map(|fd| statx(fd, c"", At::EMPTY_PATH, Want::BASIC_STATS))
        .transpose()
        .map_err(ErrorKind::call(Gate::Statx))?;
    let stream = Stream(fd);
    let head = read_block(|buffer| stream.read(buffer))?;
    if is_zstd(&head) {
        let mut source = Source::Zstd(Box::new(Zstd::new(stream, head)?));
        let head = read_block(|buffer| source.read(buffer, 0))?;
        return Ok((source, head));
    }
    let source = match (stream, seen) {
        (Stream(Some(fd)), Some(seen)) if seen.file_type == FileType::Regular => Source::File {
            fd,
            at: head.len() as u64,
            len: seen.size,
        },
        (stream, _) => Source::Stream(stream),
    };
    Ok((source, head))
}

/// Reads a block, or less at the end.
fn read_block<E>(
    mut read: impl FnMut(&mut [u8]) -> std::result::Result<usize, E>,
) -> std::result::Result<Vec<u8>, E> {
    let mut block = vec![0; BLOCK];
    let mut have = 0;
    while have < block.len() {
        match read(&mut block[have..])? {
            0 => break,
            n => have += n,
        }
    }
    block.truncate(have);
    Ok(block)
}

/// Checks that the first block of a file begins an archive.
fn check_format(head: &[u8]) -> std::result::Result<(), NotArchive> {
    let block = head.first_chunk::<BLOCK>();
    if block.is_some_and(|block| Decoder::new().push(block).is_ok()) {
        return Ok(());
    }
    Err(match head {
        [] => NotArchive::Empty,
        [0x1f, 0x8b, ..] => NotArchive::Gzip,
        [b'B', b'Z', b'h', ..] => NotArchive::Bzip2,
        [0xfd, b'7', b'z', b'X', b'Z', ..] => NotArchive::Xz,
        _ => NotArchive::Other,
    })
}

impl Source {
    fn read(&mut self, buffer: &mut [u8], place: u64) -> std::result::Result<usize, ErrorKind> {
        match self {
            Source::File { fd, at, .. } => {
                let n = pread64(fd, buffer, *at).map_err(ErrorKind::call(Gate::Pread64))?;
                *at += n as u64;
                Ok(n)
            }
            Source::Stream(stream) => stream.read(buffer),
            Source::Zstd(zstd) => zstd.read(buffer, place),
        }
    }
}

impl Stream {
    fn read(&self, buffer: &mut [u8]) -> std::result::Result<usize, ErrorKind> {
        loop {
            let read = match &self.0 {
                Some(fd) => read(fd, buffer),
                None => read(io::stdin(), buffer),
            };
            if read != Err(Errno::EINTR) {
                return read.map_err(ErrorKind::call(Gate::Read));
            }
        }
    }
}

impl Zstd {
    /// Decompresses a stream, of which the beginning has been read already.
    fn new(from: Stream, head: Vec<u8>) -> std::result::Result<Zstd, ErrorKind> {
        let mut context = DCtx::try_create().ok_or(ErrorKind::from(Errno::ENOMEM))?;
        context
            .set_parameter(DParameter::WindowLogMax(WINDOW_LOG))
            .map_err(|_| Errno::ENOMEM)?;
        Ok(Zstd {
            context,
            from,
            piece: head,
            taken: 0,
            is_within_frame: false,
        })
    }

    fn read(&mut self, buffer: &mut [u8], place: u64) -> std::result::Result<usize, ErrorKind> {
        let damaged = |damage| ErrorKind::DamagedArchive { at: place, damage };
        loop {
            // Also without input: within a frame, output may be pending.
            if self.is_within_frame || self.taken < self.piece.len() {
                let mut output = OutBuffer::around(&mut *buffer);
                let mut input = InBuffer::around(&self.piece[self.taken..]);
                let wanted = self.context.decompress_stream(&mut output, &mut input);
                let wanted = wanted.map_err(|code| match is_window_too_large(code) {
                    true => ErrorKind::LargeWindow,
                    false => damaged(Damage::Compressed(zstd_safe::get_error_name(code))),
                })?;
                self.taken += input.pos;
                self.is_within_frame = wanted > 0;
                if output.pos() > 0 {
                    return Ok(output.pos());
                }
            }
            if self.taken == self.piece.len() {
                self.piece.resize(DCtx::in_size(), 0);
                let n = self.from.read(&mut self.piece);
                self.piece.truncate(*n.as_ref().unwrap_or(&0));
                self.taken = 0;
                match n? {
                    0 if self.is_within_frame => return Err(damaged(Damage::CompressedCutShort)),
                    0 => return Ok(0),
                    _ => {}
                }
            }
        }
    }
}

/// Whether an error of zstd is `ZSTD_error_frameParameter_windowTooLarge`. The library returns the
/// numbers of its errors as negated `size_t`s (`ZSTD_getErrorCode` in zstd_errors.h).
fn is_window_too_large(code: ErrorCode) -> bool {
    code == (ZSTD_ErrorCode::ZSTD_error_frameParameter_windowTooLarge as usize).wrapping_neg()
}

/// See [`Input::contents`].
#[derive(Debug)]
pub struct Contents<'a> {
    input: &'a mut Input,
    extents: &'a [Extent],
    /// What is left of the extent at hand.
    current: Extent,
}

impl Contents<'_> {
    /// The next piece: where in the file it is, and what; `None` at the end. No piece is empty, and
    /// they are in order.
    ///
    /// # Errors
    /// A call that fails, and an archive that ends too soon.
    #[allow(
        clippy::should_implement_trait,
        reason = "a piece lasts until the next"
    )]
    pub fn next(&mut self) -> Result<Option<(u64, &[u8])>> {
        if self.current.len == 0 {
            let Some((next, rest)) = self.extents.split_first() else {
                return Ok(None);
            };
            (self.current, self.extents) = (*next, rest);
        }
        let offset = self.current.offset;
        let piece = self.input.data(self.current.len)?;
        let len = piece.len() as u64;
        self.current = Extent {
            offset: offset + len,
            len: self.current.len - len,
        };
        Ok((len > 0).then_some((offset, piece)))
    }
}
