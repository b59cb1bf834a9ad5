//! The output file of an archive, written in large pieces.
//!
//! From a certain size on, pieces bypass the page cache (O_DIRECT). Otherwise the cache would evict
//! the files still to be read, and cost a copy and a page per 4 KiB.

use std::io::{self, Write};

use catalog::destination::Destination;
use gate::Errno;
use gate::cache::Aligned;
use gate::fs::Statx;
use walk::FileType;

/// Record size of GNU tar: 20 blocks. Archives are padded to a multiple of a record, and a
/// character device, which may be a tape, gets each record as one write.
pub(super) const RECORD: usize = 10_240;

/// Size of a write: a multiple of the record, and of the alignment that every file system needs for
/// O_DIRECT.
const PIECE: usize = 100 * RECORD;

/// Archive size from which on the page cache is bypassed. A smaller archive is written back while
/// the rest is read, and stays cached for its next reader.
const LARGE: u64 = 4 << 20;

/// The output file or object of an archive.
pub(super) struct Sink {
    writer: Destination,
    piece: Aligned,
    size: usize,
    /// Number of bytes buffered for the next write.
    filled: usize,
    /// Whether each write must have exactly the size of a record, because the device may be a tape.
    is_exact: bool,
    written: u64,
    cache: Cache,
}

/// Whether the archive is written through the page cache.
#[derive(PartialEq)]
enum Cache {
    /// The archive is written through the page cache until it is large.
    Until,
    Bypassed,
    Used,
}

impl Sink {
    pub(super) fn new(writer: Destination, seen: Option<Statx>) -> Sink {
        let is = |kind| seen.is_some_and(|seen| FileType::from_mode(seen.mode) == kind);
        let is_exact = is(FileType::Char);
        let size = if is_exact { RECORD } else { PIECE };
        Sink {
            writer,
            piece: Aligned::new(size, 0),
            size,
            filled: 0,
            is_exact,
            written: 0,
            cache: match is(FileType::Regular) {
                true => Cache::Until,
                false => Cache::Used,
            },
        }
    }

    fn flush_piece(&mut self) -> io::Result<()> {
        if self.cache == Cache::Until && self.written >= LARGE {
            self.cache = match self.writer.bypass_cache(self.size) {
                true => Cache::Bypassed,
                false => Cache::Used,
            };
        }
        if self.filled < self.size {
            self.use_cache()?;
        }
        let mut from = 0;
        while from < self.filled {
            let rest = &self.piece.bytes()[from..self.filled];
            match self.writer.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => from += written,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // EINVAL: after a partial write the rest is unaligned, or the file system needs a
                // larger alignment.
                Err(e)
                    if e.raw_os_error() == Some(Errno::EINVAL.0)
                        && self.cache == Cache::Bypassed =>
                {
                    self.use_cache()?;
                }
                Err(e) => return Err(e),
            }
        }
        self.written += self.filled as u64;
        self.filled = 0;
        Ok(())
    }

    /// Writes through the page cache from here on.
    fn use_cache(&mut self) -> io::Result<()> {
        if self.cache == Cache::Bypassed {
            self.writer.use_cache()?;
        }
        self.cache = Cache::Used;
        Ok(())
    }

    /// Writes the buffered rest, and syncs the file to disk.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if self.filled > 0 {
            self.flush_piece()?;
        }
        self.writer.sync()
    }

    /// Renames the file into place, and returns its size.
    pub(super) fn publish(self) -> io::Result<u64> {
        self.writer.publish()?;
        Ok(self.written)
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let is_large = self.filled == 0 && bytes.len() >= self.size;
        if is_large && self.cache == Cache::Used && !self.is_exact {
            self.writer.write_all(bytes)?;
            self.written += bytes.len() as u64;
            return Ok(bytes.len());
        }
        let taken = bytes.len().min(self.size - self.filled);
        self.piece.bytes()[self.filled..][..taken].copy_from_slice(&bytes[..taken]);
        self.filled += taken;
        if self.filled == self.size {
            self.flush_piece()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
