//! An object opened for writing: small ones by one request, others by a multipart upload.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Instant;

use catalog::StoreError;
use catalog::remote::{Upload, Version};
use object_store::multipart::PartId;

use crate::bucket::{Bucket, UploadTarget};
use crate::runtime::{Pending, SETTLE};

const MIB: usize = 1 << 20;

/// The maximum number of parts that S3 permits.
const MOST_PARTS: usize = 10_000;

/// Maximum number of parts in flight.
const MOST_AT_ONCE: usize = 4;

/// Maximum bytes in flight. A single part is sent even if it is longer.
const MOST_BYTES: usize = 128 * MIB;

/// The length of a part: 8 MiB, growing to 64 MiB. So an archive needs little memory, and a large
/// archive not too many parts.
fn part_len(nth: usize) -> usize {
    (8 * MIB) << (nth / 500).min(3)
}

/// The maximum length of an object in GiB.
fn most_gib() -> u64 {
    let mib = (0..MOST_PARTS).map(|nth| part_len(nth) / MIB);
    mib.sum::<usize>() as u64 >> 10
}

/// An object being written.
#[derive(Debug)]
pub(crate) struct ObjectUpload {
    bucket: Arc<Bucket>,
    target: UploadTarget,
    /// The bytes after the last part.
    buffer: Vec<u8>,
    /// Parts in flight, oldest first, with their lengths.
    pending: VecDeque<(Pending<PartId>, usize)>,
    parts: Vec<PartId>,
    /// The id of the multipart upload once the upload has begun. Dropping this value aborts the
    /// upload.
    id: Option<String>,
}

impl ObjectUpload {
    pub(crate) fn begin(
        bucket: Arc<Bucket>,
        key: &str,
        replaces: &Version,
    ) -> Result<ObjectUpload, StoreError> {
        Ok(ObjectUpload {
            target: bucket.target(key, replaces)?,
            bucket,
            buffer: Vec::new(),
            pending: VecDeque::new(),
            parts: Vec::new(),
            id: None,
        })
    }

    /// The number of parts begun.
    fn begun(&self) -> usize {
        self.parts.len() + self.pending.len()
    }

    /// Starts to upload the buffer as a part.
    fn begin_part(&mut self) -> Result<(), StoreError> {
        let nth = self.begun();
        if nth == MOST_PARTS {
            return Err(StoreError::TooLarge(most_gib()));
        }
        let id = match &self.id {
            Some(id) => id,
            None => self.id.insert(self.bucket.begin_multipart(&self.target)?),
        };
        let part = std::mem::take(&mut self.buffer);
        let len = part.len();
        let on_their_way =
            |pending: &VecDeque<(_, usize)>| pending.iter().map(|(_, len)| len).sum::<usize>();
        while self.pending.len() >= MOST_AT_ONCE
            || !self.pending.is_empty() && on_their_way(&self.pending) + len > MOST_BYTES
        {
            let Some((part, _)) = self.pending.pop_front() else {
                break;
            };
            self.parts.push(part.wait()?);
        }
        let pending = self.bucket.put_part(&self.target, id, nth, part.into());
        self.pending.push_back((pending, len));
        Ok(())
    }

    /// Uploads the buffered bytes, and waits for all parts.
    fn finish_parts(&mut self) -> Result<(), StoreError> {
        if !self.buffer.is_empty() {
            self.begin_part()?;
        }
        self.wait_for_parts()
    }

    fn wait_for_parts(&mut self) -> Result<(), StoreError> {
        while let Some((part, _)) = self.pending.pop_front() {
            self.parts.push(part.wait()?);
        }
        Ok(())
    }
}

impl Write for ObjectUpload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let whole = part_len(self.begun());
        if self.buffer.capacity() == 0 {
            self.buffer.reserve_exact(whole.min(bytes.len().max(MIB)));
        }
        let taken = bytes.len().min(whole - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..taken]);
        if self.buffer.len() == whole {
            self.begin_part()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Upload for ObjectUpload {
    fn sync(&mut self) -> Result<(), StoreError> {
        match self.id {
            // A sync does not upload the rest of the buffer: S3 requires 5 MiB for every part
            // except the last, and more bytes may be written later.
            None => Ok(()),
            Some(_) if self.buffer.len() < 5 * MIB => self.wait_for_parts(),
            Some(_) => self.finish_parts(),
        }
    }

    fn publish(mut self: Box<Self>) -> Result<(), StoreError> {
        if self.id.is_none() {
            return self
                .bucket
                .put(&self.target, std::mem::take(&mut self.buffer).into());
        }
        self.finish_parts()?;
        let parts = std::mem::take(&mut self.parts);
        if let Some(id) = &self.id {
            self.bucket.complete(&self.target, id, parts)?;
        }
        self.id = None;
        Ok(())
    }
}

impl Drop for ObjectUpload {
    fn drop(&mut self) {
        // Wait first: a part that arrives after the abort may stay in the store.
        let until = Instant::now() + SETTLE;
        for (part, _) in self.pending.drain(..) {
            part.settle(until);
        }
        if let Some(id) = self.id.take() {
            self.bucket.abort(&self.target, &id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_grow_and_suffice() {
        assert_eq!(part_len(0), 8 * MIB);
        assert_eq!(part_len(MOST_PARTS - 1), 64 * MIB);
        assert_eq!(most_gib(), 558);
    }
}
