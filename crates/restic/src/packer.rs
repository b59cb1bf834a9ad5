//! Packs and index files. Blobs are appended to an open pack of their kind; a full pack is written,
//! and then listed in the next index file, so that an index names only packs that are on disk
//! (`doc/design.rst`, "Pack Format").

use std::io::Write;
use std::time::{Duration, Instant};

use gate::Errno;
use gate::sync::Mutex;

use crate::config::{Config, PackSizes};
use crate::error::{Action, Error};
use crate::id::Id;
use crate::index::Index;
use crate::repository::RepositoryFiles;
use crate::repository_file::{BlobKind, RepositoryFile};
use crate::seal::Cipher;

/// Maximum number of blobs in a pack.
const MOST_BLOBS: usize = 10_000;
/// The number of blobs at which an index file is written.
const INDEX_BLOBS: usize = 50_000;
/// Maximum age of an unwritten pack or index, so that little is lost if the process ends.
const OLDEST: Duration = Duration::from_secs(5 * 60);

/// Writes the blobs that the repository does not have.
pub(crate) struct Packer<'a> {
    repository: &'a RepositoryFiles,
    cipher: &'a Cipher,
    /// The zstd level of index files; `None` without compression.
    level: Option<i32>,
    /// The open packs of data and of trees.
    open: [Mutex<OpenPack>; 2],
    index: Mutex<OpenIndex>,
}

/// A blob in a pack.
#[derive(Clone, Copy)]
struct PackedBlob {
    id: Id,
    length: u32,
    /// The length before compression; 0 if the blob is not compressed.
    plain: u32,
}

/// Totals of the written blobs.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct WrittenBlobs {
    pub(crate) blobs: u64,
    /// Length of the written blobs before compression, in bytes.
    pub(crate) plain: u64,
    /// Length of the written blobs as stored, in bytes.
    pub(crate) stored: u64,
}

struct OpenPack {
    kind: BlobKind,
    bytes: Vec<u8>,
    blobs: Vec<PackedBlob>,
    /// The time when the first blob was added to the pack.
    begun: Instant,
    sizes: PackSizes,
    /// Stored bytes of this kind in the repository.
    stored: u64,
    written: WrittenBlobs,
}

struct OpenIndex {
    packs: Vec<FullPack>,
    blobs: usize,
    begun: Instant,
}

struct FullPack {
    id: Id,
    kind: BlobKind,
    blobs: Vec<PackedBlob>,
}

impl<'a> Packer<'a> {
    pub(crate) fn new(
        repository: &'a RepositoryFiles,
        cipher: &'a Cipher,
        config: &Config,
        index: &Index,
    ) -> Packer<'a> {
        let open = |kind| {
            Mutex::new(OpenPack {
                kind,
                bytes: Vec::new(),
                blobs: Vec::new(),
                begun: Instant::now(),
                sizes: config.pack_sizes(kind),
                stored: index.size(kind),
                written: WrittenBlobs::default(),
            })
        };
        Packer {
            repository,
            cipher,
            level: config.compression_level(),
            open: [open(BlobKind::Data), open(BlobKind::Tree)],
            index: Mutex::new(OpenIndex::new()),
        }
    }

    /// Adds an encrypted blob whose plaintext has `length` bytes. `is_compressed`: the plaintext
    /// was compressed before encryption.
    ///
    /// # Errors
    /// If a pack or an index file cannot be written.
    pub(crate) fn add(
        &self,
        kind: BlobKind,
        id: Id,
        sealed: &[u8],
        length: usize,
        is_compressed: bool,
    ) -> Result<(), Error> {
        let mut open = self.open[kind as usize].lock();
        open.add(id, sealed, length, is_compressed);
        if !open.is_full() {
            return Ok(());
        }
        let (bytes, blobs) = open.take();
        drop(open);
        self.write(kind, bytes, blobs)
    }

    /// Writes the open packs and the index. Returns the totals written, for data and for trees.
    ///
    /// # Errors
    /// If a pack or an index file cannot be written.
    pub(crate) fn finish(self) -> Result<[WrittenBlobs; 2], Error> {
        let mut written = [WrittenBlobs::default(); 2];
        for (open, written) in self.open.iter().zip(&mut written) {
            let mut open = open.lock();
            *written = open.written;
            if !open.blobs.is_empty() {
                let (bytes, blobs) = open.take();
                self.write(open.kind, bytes, blobs)?;
            }
        }
        let left = self.index.lock().take();
        self.write_index(&left)?;
        Ok(written)
    }

    fn write(
        &self,
        kind: BlobKind,
        mut bytes: Vec<u8>,
        blobs: Vec<PackedBlob>,
    ) -> Result<(), Error> {
        let begin = bytes.len();
        let sealed = self.cipher.seal(&header(kind, &blobs), &mut bytes);
        let file_type = RepositoryFile::Pack(kind);
        sealed.map_err(|e| self.failed(file_type, e))?;
        let length = (bytes.len() - begin) as u32;
        bytes.extend_from_slice(&length.to_le_bytes());
        let id = self.repository.write(file_type, bytes)?;
        let full = self.index.lock().add(FullPack { id, kind, blobs });
        self.write_index(&full)
    }

    fn write_index(&self, packs: &[FullPack]) -> Result<(), Error> {
        if packs.is_empty() {
            return Ok(());
        }
        let sealed = self.cipher.seal_file(&index_json(packs), self.level);
        let sealed = sealed.map_err(|e| self.failed(RepositoryFile::Index, e))?;
        self.repository
            .write(RepositoryFile::Index, sealed)
            .map(drop)
    }

    fn failed(&self, kind: RepositoryFile, errno: Errno) -> Error {
        let action = Action::Encrypt;
        self.repository.error_at(action, kind.dir(), errno.into())
    }
}

impl OpenPack {
    fn add(&mut self, id: Id, sealed: &[u8], length: usize, is_compressed: bool) {
        if self.blobs.is_empty() {
            self.begun = Instant::now();
        }
        self.bytes.extend_from_slice(sealed);
        self.blobs.push(PackedBlob {
            id,
            length: sealed.len() as u32,
            plain: if is_compressed { length as u32 } else { 0 },
        });
        self.written.blobs += 1;
        self.written.plain += length as u64;
        self.written.stored += sealed.len() as u64;
    }

    fn is_full(&self) -> bool {
        self.bytes.len() as u64 >= self.sizes.pack(self.stored)
            || self.blobs.len() >= MOST_BLOBS
            || self.begun.elapsed() >= OLDEST
    }

    fn take(&mut self) -> (Vec<u8>, Vec<PackedBlob>) {
        self.stored += self.bytes.len() as u64;
        (
            std::mem::take(&mut self.bytes),
            std::mem::take(&mut self.blobs),
        )
    }
}

impl OpenIndex {
    fn new() -> OpenIndex {
        OpenIndex {
            packs: Vec::new(),
            blobs: 0,
            begun: Instant::now(),
        }
    }

    /// Adds a full pack to the index. Returns all packs of the index if they suffice for an index
    /// file.
    fn add(&mut self, pack: FullPack) -> Vec<FullPack> {
        self.blobs += pack.blobs.len();
        self.packs.push(pack);
        match self.blobs >= INDEX_BLOBS || self.begun.elapsed() >= OLDEST {
            true => self.take(),
            false => Vec::new(),
        }
    }

    fn take(&mut self) -> Vec<FullPack> {
        std::mem::replace(self, OpenIndex::new()).packs
    }
}

/// The header at the end of a pack: the types, lengths and ids of its blobs.
fn header(kind: BlobKind, blobs: &[PackedBlob]) -> Vec<u8> {
    let mut header = Vec::with_capacity(blobs.len() * 41);
    for blob in blobs {
        let compressed = if blob.plain > 0 { 2 } else { 0 };
        header.push(kind as u8 | compressed);
        header.extend_from_slice(&blob.length.to_le_bytes());
        if blob.plain > 0 {
            header.extend_from_slice(&blob.plain.to_le_bytes());
        }
        header.extend_from_slice(blob.id.bytes());
    }
    header
}

/// The JSON of an index file.
fn index_json(packs: &[FullPack]) -> Vec<u8> {
    let mut json = b"{\"packs\":[".to_vec();
    for (nth, pack) in packs.iter().enumerate() {
        if nth > 0 {
            json.push(b',');
        }
        json.extend_from_slice(b"{\"id\":\"");
        pack.id.write_hex(&mut json);
        json.extend_from_slice(b"\",\"blobs\":[");
        let kind = match pack.kind {
            BlobKind::Data => "data",
            BlobKind::Tree => "tree",
        };
        let mut offset = 0;
        for (nth, blob) in pack.blobs.iter().enumerate() {
            json.extend_from_slice(if nth > 0 {
                b",{\"id\":\""
            } else {
                b"{\"id\":\""
            });
            blob.id.write_hex(&mut json);
            let length = blob.length;
            // Writing into a Vec cannot fail.
            let _ = write!(
                json,
                r#"","type":"{kind}","offset":{offset},"length":{length}"#
            );
            if blob.plain > 0 {
                let _ = write!(json, r#","uncompressed_length":{}"#, blob.plain);
            }
            json.push(b'}');
            offset += length;
        }
        json.extend_from_slice(b"]}");
    }
    json.extend_from_slice(b"]}");
    json
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn blobs() -> Vec<PackedBlob> {
        let blob = |byte: u8, length, plain| PackedBlob {
            id: Id::hash(&[byte]),
            length,
            plain,
        };
        vec![blob(1, 100, 0), blob(2, 60, 500)]
    }

    #[test]
    fn headers_are_those_of_the_format() {
        let blobs = blobs();
        let ids: Vec<&[u8; 32]> = blobs.iter().map(|blob| blob.id.bytes()).collect();
        let plain = |kind| [&[kind, 100, 0, 0, 0], &ids[0][..]].concat();
        let packed = |kind| [&[kind, 60, 0, 0, 0, 0xf4, 1, 0, 0], &ids[1][..]].concat();
        assert_eq!(
            header(BlobKind::Data, &blobs),
            [plain(0), packed(2)].concat()
        );
        assert_eq!(
            header(BlobKind::Tree, &blobs),
            [plain(1), packed(3)].concat()
        );
    }

    #[test]
    fn index_files_are_those_of_the_format() {
        let packs = [BlobKind::Tree, BlobKind::Data].map(|kind| FullPack {
            id: Id::hash(b"pack"),
            kind,
            blobs: blobs(),
        });
        let parsed: Value = serde_json::from_slice(&index_json(&packs)).unwrap();
        let [one, two] = [1, 2].map(|byte| Id::hash(&[byte]).to_string());
        let pack = |kind| {
            json!({ "id": Id::hash(b"pack").to_string(), "blobs": [
                { "id": one, "type": kind, "offset": 0, "length": 100 },
                { "id": two, "type": kind, "offset": 100, "length": 60, "uncompressed_length": 500 },
            ]})
        };
        assert_eq!(parsed, json!({ "packs": [pack("tree"), pack("data")] }));
    }
}
