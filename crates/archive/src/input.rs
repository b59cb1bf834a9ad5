//! Reads an archive from a file, a device, a fifo or standard input; plain, or compressed with
//! zstd, which shows by how it begins. What is in a plain file and not wanted is passed over, not
//! read.

use std::fmt;
use std::io::{self, BufReader, Read};

use gate::fs::{At, FileType, Open, Want, pread64, read, statx};
use gate::long::open_long;
use gate::{Errno, Fd, Gate};
use mounts::Warning;
use ondisk::pax::sparse::Extent;
use ondisk::pax::{BLOCK, Decoder, Event, Fault, Kind, Member, padded};

/// Bytes read at a time.
const CHUNK: usize = 256 << 10;

/// The largest window that what is compressed may want, as a power of two: 8 MiB, which is what
/// levels up to 19 have.
const WINDOW_LOG: u32 = 23;

/// Why an archive cannot be read, or not further.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// A call that failed.
    Call {
        /// Which.
        gate: Gate,
        /// How.
        errno: Errno,
    },
    /// It is none.
    NoArchive {
        /// What it is.
        what: &'static str,
        /// What would help; empty where nothing is known to.
        next: &'static str,
    },
    /// It is one, but it is damaged.
    Damaged {
        /// Offset in the archive, uncompressed, in bytes.
        at: u64,
        /// What is wrong.
        what: String,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Call { errno, .. } => errno.fmt(f),
            Failure::NoArchive { what, next: "" } => f.write_str(what),
            Failure::NoArchive { what, next } => write!(f, "{what}; {next}"),
            Failure::Damaged { at, what } => write!(f, "{what}, at byte {at}"),
        }
    }
}

impl Failure {
    fn call(gate: Gate) -> impl Fn(Errno) -> Failure {
        move |errno| Failure::Call { gate, errno }
    }

    /// As a warning: the archive can be read this far and no further.
    pub fn warning(&self, archive: &[u8]) -> Warning {
        match self {
            Failure::Call { gate, errno } => Warning::failed(
                archive,
                *gate,
                *errno,
                "cannot read the archive any further",
            ),
            other => Warning::about(
                archive,
                format!("cannot read the archive any further: {other}"),
            ),
        }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Failure {
        Failure::Damaged {
            at: fault.at,
            what: fault.what.to_owned(),
        }
    }
}

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
    Zstd(Box<zstd::stream::read::Decoder<'static, BufReader<Stream>>>),
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

/// A descriptor that is read from beginning to end, and what has been read of it already.
struct Stream {
    head: io::Cursor<Vec<u8>>,
    /// None for standard input.
    fd: Option<Fd>,
}

impl Stream {
    fn call(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        loop {
            let answer = match &self.fd {
                Some(fd) => read(fd, buffer),
                None => read(io::stdin(), buffer),
            };
            if answer != Err(Errno::EINTR) {
                return answer;
            }
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.head.read(buffer)? {
            0 => self
                .call(buffer)
                .map_err(|e| io::Error::from_raw_os_error(e.0)),
            n => Ok(n),
        }
    }
}

impl Input {
    /// Opens an archive by a name of any length; `-` is standard input.
    ///
    /// # Errors
    /// A call that fails, and what is no archive as far as can be told from how it begins.
    pub fn open(path: &[u8]) -> Result<Input, Failure> {
        let fd = match path {
            b"-" => None,
            _ => Some(open_long(path, Open::empty()).map_err(Failure::call(Gate::Openat))?),
        };
        let seen = fd
            .as_ref()
            .map(|fd| statx(fd, c"", At::EMPTY_PATH, Want::BASIC_STATS))
            .transpose();
        let seen = seen.map_err(Failure::call(Gate::Statx))?;
        let mut stream = Stream {
            head: io::Cursor::default(),
            fd,
        };
        let mut head = vec![0; BLOCK];
        let mut have = 0;
        while have < head.len() {
            match stream
                .call(&mut head[have..])
                .map_err(Failure::call(Gate::Read))?
            {
                0 => break,
                n => have += n,
            }
        }
        head.truncate(have);
        let source = if is_zstd(&head) {
            stream.head = io::Cursor::new(std::mem::take(&mut head));
            let mut source = Source::zstd(stream)?;
            head.resize(BLOCK, 0);
            let mut have = 0;
            while have < head.len() {
                match source.read(&mut head[have..], 0)? {
                    0 => break,
                    n => have += n,
                }
            }
            head.truncate(have);
            source
        } else {
            match (stream.fd, seen) {
                (Some(fd), Some(seen)) if seen.file_type == FileType::Regular => Source::File {
                    fd,
                    at: have as u64,
                    len: seen.size,
                },
                (fd, _) => Source::Stream(Stream { fd, ..stream }),
            }
        };
        is_archive(&head)?;
        Ok(Input {
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
    pub fn next(&mut self) -> Result<Option<Member>, Failure> {
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
    fn headers(&mut self) -> Result<Option<Member>, Failure> {
        while !self.is_over {
            let is_data = self.decoder.is_data();
            let Some(block) = self.block()? else {
                return self.ended_early();
            };
            let event = self.decoder.push(&block)?;
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

    /// After [`Failure::Damaged`]: makes [`Input::next`] look for the next header that is sound.
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
    pub fn data(&mut self, most: u64) -> Result<&[u8], Failure> {
        let wanted = self.left.min(most);
        if wanted > 0 && self.from == self.buffer.len() && self.fill()? == 0 {
            return Err(self.cut(self.left));
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
    fn pass_over(&mut self) -> Result<(), Failure> {
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
                return Err(self.cut(left));
            }
        }
        Ok(())
    }

    /// The next block; `None` where the archive ends.
    fn block(&mut self) -> Result<Option<[u8; BLOCK]>, Failure> {
        let mut block = [0; BLOCK];
        let mut have = 0;
        while have < BLOCK {
            if self.from == self.buffer.len() && self.fill()? == 0 {
                return match have {
                    0 => Ok(None),
                    _ => Err(self.cut((BLOCK - have) as u64)),
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
    fn fill(&mut self) -> Result<usize, Failure> {
        self.from = 0;
        self.buffer.resize(CHUNK, 0);
        let answer = self.source.read(&mut self.buffer, self.place);
        let have = *answer.as_ref().unwrap_or(&0);
        self.buffer.truncate(have);
        // Whatever is to come of it, nothing more can be read.
        self.is_over |= have == 0;
        answer
    }

    /// Reads what follows the end: what fills up the last record, so that whoever writes it can end
    /// in peace, and what the compression has at its own end. More than a mebibyte of it is none of
    /// ours.
    fn drain(&mut self) -> Result<(), Failure> {
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

    fn ended_early(&self) -> Result<Option<Member>, Failure> {
        if self.decoder.is_lost() {
            return Ok(None);
        }
        let what = match self.decoder.is_within() {
            true => "it is cut short, within the headers of a member",
            false => "it has no end: it may be cut short",
        };
        Err(Failure::Damaged {
            at: self.place,
            what: what.to_owned(),
        })
    }

    fn cut(&self, missing: u64) -> Failure {
        Failure::Damaged {
            at: self.place,
            what: format!("it is cut short, and at least {missing} bytes are missing"),
        }
    }
}

/// Whether something begins as what zstd writes does.
fn is_zstd(head: &[u8]) -> bool {
    matches!(
        head,
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..0x60, 0x2a, 0x4d, 0x18, ..]
    )
}

/// Sees whether something begins as an archive does.
fn is_archive(head: &[u8]) -> Result<(), Failure> {
    let block = head.first_chunk::<BLOCK>();
    if block.is_some_and(|block| Decoder::new().push(block).is_ok()) {
        return Ok(());
    }
    let (what, next) = match head {
        [] => (
            "it is empty",
            "give one that fathom dump or tar has written",
        ),
        [0x1f, 0x8b, ..] => (
            "it is compressed with gzip",
            "give it to fathom's standard input by gzip -dc",
        ),
        [b'B', b'Z', b'h', ..] => (
            "it is compressed with bzip2",
            "give it to fathom's standard input by bzip2 -dc",
        ),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => (
            "it is compressed with xz",
            "give it to fathom's standard input by xz -dc",
        ),
        _ => (
            "it is no tar archive",
            "give one that fathom dump or tar has written",
        ),
    };
    Err(Failure::NoArchive { what, next })
}

impl Source {
    fn zstd(stream: Stream) -> Result<Source, Failure> {
        let decoder = zstd::stream::read::Decoder::new(stream).and_then(|mut decoder| {
            decoder.window_log_max(WINDOW_LOG)?;
            Ok(Source::Zstd(Box::new(decoder)))
        });
        decoder.map_err(|_| Failure::Call {
            gate: Gate::Read,
            errno: Errno::ENOMEM,
        })
    }

    fn read(&mut self, buffer: &mut [u8], place: u64) -> Result<usize, Failure> {
        match self {
            Source::File { fd, at, .. } => {
                let n = pread64(fd, buffer, *at).map_err(Failure::call(Gate::Pread64))?;
                *at += n as u64;
                Ok(n)
            }
            Source::Stream(stream) => stream.call(buffer).map_err(Failure::call(Gate::Read)),
            Source::Zstd(decoder) => {
                decoder
                    .read(buffer)
                    .map_err(|e| match (e.raw_os_error(), e.kind()) {
                        (Some(errno), _) => Failure::Call {
                            gate: Gate::Read,
                            errno: Errno(errno),
                        },
                        (None, io::ErrorKind::UnexpectedEof) => Failure::Damaged {
                            at: place,
                            what: "what is compressed is cut short".to_owned(),
                        },
                        (None, _) if e.to_string().contains("too much memory") => {
                            Failure::NoArchive {
                                what: "what is compressed wants a window of over 8 MiB",
                                next: "give it to fathom's standard input by zstd -dc --long=31",
                            }
                        }
                        (None, _) => Failure::Damaged {
                            at: place,
                            what: format!("what is compressed cannot be read ({e})"),
                        },
                    })
            }
        }
    }
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
    pub fn next(&mut self) -> Result<Option<(u64, &[u8])>, Failure> {
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
