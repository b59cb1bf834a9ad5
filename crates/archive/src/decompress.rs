//! Decompresses an archive: one or more concatenated streams of one format, as gzip, xz or zstd
//! read them.

use std::io::{self, BufRead, Read};

use bzip2::bufread::BzDecoder;
use catalog::stream::Buffered;
use flate2::bufread::GzDecoder;
use lz4_flex::frame::FrameDecoder;
use lzma_rust2::XzReader;
use zstd::zstd_safe::zstd_sys::ZSTD_ErrorCode;
use zstd::zstd_safe::{self, DCtx, DParameter, ErrorCode, InBuffer, OutBuffer};

use crate::compression::Compression;

/// Largest accepted zstd window, as a power of two: 8 MiB, which levels up to 19 use.
const WINDOW_LOG: u32 = 23;

/// Memory limit for decompressing xz, in KiB: level 9 needs 64 MiB.
const XZ_MEMORY: u32 = 66 << 10;

/// A compressed file being read.
///
/// Read errors have the kind `UnexpectedEof` for a truncated file, `OutOfMemory` if decompression
/// needs more memory than permitted, and an error number if a system call fails.
pub(crate) struct Decompressor {
    format: Compression,
    state: DecoderState,
    /// Whether a compressed stream with data has begun, so that the format can no longer change.
    is_begun: bool,
    has_garbage: bool,
}

enum DecoderState {
    /// Between two compressed streams, or before the first.
    Between(Buffered),
    Within(Box<dyn Decoder>),
    Over,
}

/// The decoder of one stream; a read of 0 bytes means that the stream has ended.
trait Decoder: Read {
    fn into_rest(self: Box<Self>) -> Buffered;
}

impl Decompressor {
    pub(crate) fn new(format: Compression, input: Buffered) -> Decompressor {
        Decompressor {
            format,
            state: DecoderState::Between(input),
            is_begun: false,
            has_garbage: false,
        }
    }

    pub(crate) fn format(&self) -> Compression {
        self.format
    }

    /// Whether data other than zeros was found after the last stream; resets the flag.
    pub(crate) fn take_garbage(&mut self) -> bool {
        std::mem::take(&mut self.has_garbage)
    }

    /// Whether the format has skippable frames.
    fn has_frames(&self) -> bool {
        matches!(self.format, Compression::Lz4 | Compression::Zstd)
    }

    /// Begins the next stream, if there is one.
    fn begin(&mut self, mut input: Buffered) -> io::Result<DecoderState> {
        const LONGEST_MAGIC: usize = 6;
        loop {
            let head = input.peek(LONGEST_MAGIC)?;
            match head {
                [] => return Ok(DecoderState::Over),
                // Tape drives pad the last record with zeros.
                [0, ..] => {
                    let zeros = head.iter().take_while(|&&byte| byte == 0).count();
                    input.consume(zeros);
                }
                [0x50..0x60, 0x2a, 0x4d, 0x18, ..] if self.has_frames() => skip_frame(&mut input)?,
                head if Compression::from_magic(head) == Some(self.format) => break,
                // Skippable frames are the same in lz4 and zstd, so the first data frame decides
                // the format.
                [0x04, 0x22, 0x4d, 0x18, ..] if self.has_frames() && !self.is_begun => {
                    self.format = Compression::Lz4;
                }
                _ => {
                    self.has_garbage = true;
                    return Ok(DecoderState::Over);
                }
            }
        }
        self.is_begun = true;
        Ok(DecoderState::Within(match self.format {
            Compression::Gzip => Box::new(GzDecoder::new(input)),
            Compression::Bzip2 => Box::new(BzDecoder::new(input)),
            Compression::Xz => Box::new(XzReader::new_mem_limit(input, false, XZ_MEMORY)),
            Compression::Lz4 => Box::new(Lz4(FrameDecoder::new(input))),
            Compression::Zstd => Box::new(Zstd::new(input)?),
        }))
    }
}

impl Read for Decompressor {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.state = match std::mem::replace(&mut self.state, DecoderState::Over) {
                DecoderState::Over => return Ok(0),
                DecoderState::Between(input) => self.begin(input)?,
                DecoderState::Within(mut decoder) => match decoder.read(buffer)? {
                    0 => DecoderState::Between(decoder.into_rest()),
                    n => {
                        self.state = DecoderState::Within(decoder);
                        return Ok(n);
                    }
                },
            }
        }
    }
}

/// Skips a skippable frame: magic, length and content.
fn skip_frame(input: &mut Buffered) -> io::Result<()> {
    let mut head = [0; 8];
    input.read_exact(&mut head)?;
    let [.., a, b, c, d] = head;
    let len = u64::from(u32::from_le_bytes([a, b, c, d]));
    match io::copy(&mut input.take(len), &mut io::sink())? {
        skipped if skipped < len => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

impl Decoder for GzDecoder<Buffered> {
    fn into_rest(self: Box<Self>) -> Buffered {
        (*self).into_inner()
    }
}

impl Decoder for BzDecoder<Buffered> {
    fn into_rest(self: Box<Self>) -> Buffered {
        (*self).into_inner()
    }
}

impl Decoder for XzReader<Buffered> {
    fn into_rest(self: Box<Self>) -> Buffered {
        (*self).into_inner()
    }
}

/// `lz4_flex` reports a truncated frame as a normal end, so the end of the file is checked here.
struct Lz4(FrameDecoder<Buffered>);

impl Read for Lz4 {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 if self.0.get_ref().is_exhausted() => Err(io::ErrorKind::UnexpectedEof.into()),
            n => Ok(n),
        }
    }
}

impl Decoder for Lz4 {
    fn into_rest(self: Box<Self>) -> Buffered {
        self.0.into_inner()
    }
}

struct Zstd {
    context: DCtx<'static>,
    input: Buffered,
    is_over: bool,
}

impl Zstd {
    fn new(input: Buffered) -> io::Result<Zstd> {
        let no_memory = || io::Error::from(io::ErrorKind::OutOfMemory);
        let mut context = DCtx::try_create().ok_or_else(no_memory)?;
        let limit = DParameter::WindowLogMax(WINDOW_LOG);
        context.set_parameter(limit).map_err(|_| no_memory())?;
        Ok(Zstd {
            context,
            input,
            is_over: false,
        })
    }
}

impl Read for Zstd {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.is_over {
            let mut output = OutBuffer::around(&mut *buffer);
            let piece = self.input.peek(1)?;
            let is_end = piece.is_empty();
            let mut input = InBuffer::around(piece);
            let wanted = self.context.decompress_stream(&mut output, &mut input);
            let taken = input.pos;
            let wanted = wanted.map_err(zstd_error)?;
            self.input.consume(taken);
            self.is_over = wanted == 0;
            if output.pos() > 0 {
                return Ok(output.pos());
            }
            if is_end && wanted > 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(0)
    }
}

impl Decoder for Zstd {
    fn into_rest(self: Box<Self>) -> Buffered {
        self.input
    }
}

/// zstd returns the numbers of its errors as negated `size_t`s (`ZSTD_getErrorCode` in
/// zstd_errors.h).
fn zstd_error(code: ErrorCode) -> io::Error {
    const TOO_LARGE: ZSTD_ErrorCode = ZSTD_ErrorCode::ZSTD_error_frameParameter_windowTooLarge;
    match code == (TOO_LARGE as usize).wrapping_neg() {
        true => io::ErrorKind::OutOfMemory.into(),
        false => io::Error::other(zstd_safe::get_error_name(code)),
    }
}
