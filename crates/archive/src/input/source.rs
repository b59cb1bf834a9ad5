//! Where the bytes of an archive come from: a file, device, FIFO, standard input or object of a store,
//! plain or compressed; and whether they begin like an archive.

use std::io::{self, Read};
use std::sync::Arc;

use catalog::ranges::Ranges;
use catalog::remote::{self, ObjectStream};
use catalog::stream::{Buffered, Stream};
use gate::file::Reader;
use gate::fs::{FileType, Open, StatxMask, fstat, pread64};
use gate::long::open_long;
use gate::{Fd, Gate};
use ondisk::pax::{BLOCK, begins_archive};

use crate::compression::Compression;
use crate::decompress::Decompressor;
use crate::error::{Damage, ErrorKind, NotArchive};

pub(super) enum InputSource {
    File {
        fd: Arc<Fd>,
        at: u64,
        len: u64,
    },
    /// The stream of an object, and the number of bytes left in it.
    Object(Box<dyn ObjectStream>, u64),
    Stream(Stream),
    Compressed(Decompressor),
}

/// Opens an archive, and reads its first block (or less at the end). Also returns the file or
/// object, if it can be read at any offset.
pub(super) fn open_source(
    path: &[u8],
    open: Option<Arc<Fd>>,
) -> Result<(InputSource, Vec<u8>, Option<Ranges>), ErrorKind> {
    let mut file = None;
    let mut stream = if path == b"-" {
        Stream::Stdin
    } else if let Some(object) = remote::open(path)? {
        let stream = Stream::Object(object.stream(0));
        file = Some(Ranges::Object(object));
        stream
    } else {
        let fd = match open {
            Some(fd) => fd,
            None => {
                let fd = open_long(path, Open::empty());
                Arc::new(fd.map_err(catalog::ErrorKind::call(Gate::Openat))?)
            }
        };
        let seen = fstat(&*fd, StatxMask::BASIC_STATS);
        let seen = seen.map_err(catalog::ErrorKind::call(Gate::Statx))?;
        file = (seen.file_type == FileType::Regular)
            .then(|| Ranges::File(Reader::new(Arc::clone(&fd), seen.size)));
        Stream::File(fd)
    };
    let head = read_block(|buffer| Ok(stream.read(buffer)?))?;
    if let Some(format) = Compression::from_magic(&head) {
        let input = Buffered::new(stream, head);
        let mut source = InputSource::Compressed(Decompressor::new(format, input));
        let head = read_block(|buffer| source.read(buffer, 0))?;
        return Ok((source, head, file));
    }
    let at = head.len() as u64;
    let source = match (&file, stream) {
        (Some(Ranges::File(file)), _) => InputSource::File {
            fd: Arc::clone(file.fd()),
            at,
            len: file.len(),
        },
        (Some(Ranges::Object(object)), Stream::Object(stream)) => {
            InputSource::Object(stream, object.len() - at)
        }
        (_, stream) => InputSource::Stream(stream),
    };
    Ok((source, head, file))
}

fn read_block(
    mut read: impl FnMut(&mut [u8]) -> Result<usize, ErrorKind>,
) -> Result<Vec<u8>, ErrorKind> {
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

/// Whether a file begins like one of age, in binary or as text.
fn is_age(head: &[u8]) -> bool {
    head.starts_with(b"age-encryption.org/v1\n")
        || head.starts_with(b"-----BEGIN AGE ENCRYPTED FILE-----")
}

/// Whether a file begins like an encrypted message of OpenPGP (RFC 4880): with a session key packet
/// of tag 1 (version 3) or tag 3 (version 4) with an old header, or as text.
fn is_openpgp(head: &[u8]) -> bool {
    matches!(
        head,
        [0x84, _, 3, ..] | [0x85, _, _, 3, ..] | [0x8c, _, 4, ..]
    ) || head.starts_with(b"-----BEGIN PGP MESSAGE-----")
}

/// Checks that the first block of a file begins an archive.
pub(super) fn check_format(head: &[u8]) -> Result<(), NotArchive> {
    let block = head.first_chunk::<BLOCK>();
    if block.is_some_and(begins_archive) {
        return Ok(());
    }
    Err(match head {
        [] => NotArchive::Empty,
        [b'P', b'A', b'R', b'1', ..] => NotArchive::Parquet,
        [0x1f, 0x9d, ..] => NotArchive::Compressed("compress", "gzip -dc"),
        [0x02, 0x21, 0x4c, 0x18, ..] => NotArchive::Compressed("an old lz4", "lz4 -dc"),
        [b'L', b'Z', b'I', b'P', ..] => NotArchive::Compressed("lzip", "lzip -dc"),
        [0x89, b'L', b'Z', b'O', 0, ..] => NotArchive::Compressed("lzop", "lzop -dc"),
        [0x5d, 0, 0, _, _, 0xff, ..] => NotArchive::Compressed("lzma", "xz -dc"),
        head if is_age(head) => NotArchive::Encrypted("age", "age -d"),
        head if is_openpgp(head) => NotArchive::Encrypted("gpg", "gpg -d"),
        _ => NotArchive::Other,
    })
}

impl InputSource {
    pub(super) fn is_zstd(&self) -> bool {
        matches!(self, InputSource::Compressed(from) if from.format() == Compression::Zstd)
    }

    pub(super) fn read(&mut self, buffer: &mut [u8], place: u64) -> Result<usize, ErrorKind> {
        match self {
            InputSource::File { fd, at, .. } => {
                let n = pread64(&**fd, buffer, *at);
                let n = n.map_err(catalog::ErrorKind::call(Gate::Pread64))?;
                *at += n as u64;
                Ok(n)
            }
            InputSource::Object(stream, left) => {
                let n = stream.read(buffer)?;
                *left -= n as u64;
                Ok(n)
            }
            InputSource::Stream(stream) => Ok(stream.read(buffer)?),
            InputSource::Compressed(from) => {
                let format = from.format();
                from.read(buffer)
                    .map_err(|e| compression_error(format, place, e))
            }
        }
    }

    /// Skips up to this many bytes, if possible without reading. Returns the number skipped.
    pub(super) fn skip(&mut self, bytes: u64) -> u64 {
        match self {
            InputSource::File { at, len, .. } => {
                let skipped = bytes.min(len.saturating_sub(*at));
                *at += skipped;
                skipped
            }
            InputSource::Object(stream, left) => {
                let skipped = bytes.min(*left);
                stream.skip(skipped);
                *left -= skipped;
                skipped
            }
            InputSource::Stream(_) | InputSource::Compressed(_) => 0,
        }
    }
}

/// Converts an error of a decompressor; `at` is the uncompressed offset.
fn compression_error(format: Compression, at: u64, error: io::Error) -> ErrorKind {
    use catalog::ErrorKind as Read;
    let damage = match (error.kind(), Read::from(error)) {
        (_, Read::Call { errno, .. }) => return Read::call(Gate::Read)(errno).into(),
        (_, unread @ Read::Store(_)) => return unread.into(),
        (io::ErrorKind::OutOfMemory, _) => return ErrorKind::LargeWindow(format),
        (io::ErrorKind::UnexpectedEof, _) => Damage::CompressedCutShort(format),
        (_, kind) => Damage::Compressed(format, kind.to_string()),
    };
    ErrorKind::DamagedArchive { at, damage }
}
