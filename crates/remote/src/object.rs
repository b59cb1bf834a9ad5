//! An object opened for reading, at any offset or in order.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use catalog::StoreError;
use catalog::remote::{Object, ObjectStream};
use object_store::path::Path;

use crate::bucket::{Bucket, parse_key};
use crate::runtime::Pending;

/// The number of bytes at the end of an object that are read on opening. Most footers of catalogs,
/// and the index of an archive, fit into these bytes and need no further request.
const TAIL: u64 = 64 << 10;

/// The length of the first request of a stream; later ones grow up to `LONGEST_PIECE`.
const FIRST_PIECE: u64 = 256 << 10;
const LONGEST_PIECE: u64 = 8 << 20;

/// Maximum number of a stream's simultaneous requests.
const MOST_AT_ONCE: usize = 4;

/// An object opened for reading.
#[derive(Clone, Debug)]
pub(crate) struct OpenObject {
    bucket: Arc<Bucket>,
    path: Path,
    len: u64,
    /// The ETag that all range requests must match.
    version: Option<String>,
    modified: (i64, u32),
    tail: Bytes,
}

impl OpenObject {
    pub(crate) fn open(bucket: Arc<Bucket>, key: &str) -> Result<OpenObject, StoreError> {
        let (meta, tail) = bucket.tail(key, TAIL)?;
        Ok(OpenObject {
            bucket,
            path: parse_key(key)?,
            len: meta.size,
            version: meta.e_tag,
            modified: (
                meta.last_modified.timestamp(),
                meta.last_modified.timestamp_subsec_nanos(),
            ),
            tail,
        })
    }

    fn range(&self, from: u64, to: u64) -> Pending<Bytes> {
        self.bucket
            .range(&self.path, self.version.as_ref(), Some(from..to))
    }
}

impl Object for OpenObject {
    fn len(&self) -> u64 {
        self.len
    }

    fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    fn modified(&self) -> (i64, u32) {
        self.modified
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StoreError> {
        let len = (buffer.len() as u64).min(self.len.saturating_sub(offset));
        if len == 0 {
            return Ok(0);
        }
        let tail_at = self.len - self.tail.len() as u64;
        let bytes = match offset.checked_sub(tail_at) {
            Some(at) => self.tail.slice(at as usize..(at + len) as usize),
            None => self.range(offset, offset + len).wait()?,
        };
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn stream(&self, offset: u64) -> Box<dyn ObjectStream> {
        Box::new(RangeStream {
            object: self.clone(),
            current: Bytes::new(),
            pending: VecDeque::new(),
            skipped: 0,
            next: offset,
            len: FIRST_PIECE,
            most: 1,
        })
    }
}

/// Reads an object in order, by requests for ranges of growing length, so that few bytes are wasted
/// if the reader needs only the first bytes.
struct RangeStream {
    object: OpenObject,
    current: Bytes,
    /// The requested pieces after the current one, with their lengths.
    pending: VecDeque<(Pending<Bytes>, u64)>,
    /// Number of bytes to skip at the start of the first pending piece.
    skipped: u64,
    /// The offset after the last requested piece.
    next: u64,
    /// The length of the next range; at most `most` ranges are requested at the same time.
    len: u64,
    most: usize,
}

impl RangeStream {
    /// Requests more pieces, up to the limit.
    fn request(&mut self) {
        while self.pending.len() < self.most && self.next < self.object.len {
            let to = self.object.len.min(self.next + self.len);
            self.pending
                .push_back((self.object.range(self.next, to), to - self.next));
            self.next = to;
            self.len = (self.len * 2).min(LONGEST_PIECE);
        }
    }
}

impl Read for RangeStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.current.is_empty() {
            self.request();
            let Some((piece, len)) = self.pending.pop_front() else {
                return Ok(0);
            };
            self.current = piece.wait()?;
            if self.current.len() as u64 != len {
                return Err(StoreError::Changed.into());
            }
            self.current
                .advance(std::mem::take(&mut self.skipped) as usize);
            self.most = (self.most + 1).min(MOST_AT_ONCE);
            self.request();
        }
        let n = buffer.len().min(self.current.len());
        self.current.copy_to_slice(&mut buffer[..n]);
        Ok(n)
    }
}

impl ObjectStream for RangeStream {
    fn skip(&mut self, mut bytes: u64) {
        let here = bytes.min(self.current.len() as u64);
        self.current.advance(here as usize);
        bytes -= here;
        bytes += std::mem::take(&mut self.skipped);
        while let Some((_, len)) = self.pending.front() {
            if *len > bytes {
                self.skipped = bytes;
                return;
            }
            bytes -= len;
            self.pending.pop_front();
        }
        if bytes > 0 {
            self.next += bytes;
            (self.len, self.most) = (FIRST_PIECE, 1);
        }
    }
}
