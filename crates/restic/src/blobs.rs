//! Stores blobs, compressed and encrypted, unless the repository or this run has them already.

use catalog::compressor::FrameCompressor;
use gate::Errno;
use gate::sync::Mutex;
use zstd::bulk::Decompressor;

use crate::config::Config;
use crate::error::{Action, Error};
use crate::id::{Id, IdSet};
use crate::index::Index;
use crate::packer::{Packer, WrittenBlobs};
use crate::repository::RepositoryFiles;
use crate::repository_file::BlobKind;
use crate::seal::Cipher;

/// The blobs of a repository, existing and new.
pub(crate) struct BlobStore<'a> {
    index: &'a Index,
    cipher: &'a Cipher,
    packer: Packer<'a>,
    /// The ids of new data and tree blobs.
    new: [Mutex<IdSet>; 2],
    level: Option<i32>,
    /// Whether encrypted blobs are decrypted and compared before they are written. restic does the
    /// same, and has detected memory errors by this check.
    verifies: bool,
}

/// Compresses and encrypts blobs in one thread, reusing contexts and buffers.
pub(crate) struct BlobWriter<'a> {
    store: &'a BlobStore<'a>,
    compressor: Option<FrameCompressor>,
    decompressor: Decompressor<'static>,
    sealed: Vec<u8>,
    opened: Vec<u8>,
    plain: Vec<u8>,
}

impl<'a> BlobStore<'a> {
    pub(crate) fn new(
        repository: &'a RepositoryFiles,
        cipher: &'a Cipher,
        config: &Config,
        index: &'a Index,
    ) -> BlobStore<'a> {
        BlobStore {
            index,
            cipher,
            packer: Packer::new(repository, cipher, config, index),
            new: Default::default(),
            level: config.compression_level(),
            verifies: config.extra_verify(),
        }
    }

    /// Whether the caller must store a blob: the repository does not have it, and no other thread
    /// stores it.
    pub(crate) fn claim(&self, kind: BlobKind, id: Id) -> bool {
        !self.index.has(kind, &id) && self.new[kind as usize].lock().insert(id)
    }

    /// Whether the repository has a data blob.
    pub(crate) fn has_data(&self, id: &Id) -> bool {
        self.index.has(BlobKind::Data, id)
    }

    /// Writes open packs. Returns the totals written, for data and for trees.
    ///
    /// # Errors
    /// If the repository cannot be written.
    pub(crate) fn finish(self) -> Result<[WrittenBlobs; 2], Error> {
        self.packer.finish()
    }

    /// A writer for one thread.
    ///
    /// # Errors
    /// If memory allocation fails.
    pub(crate) fn writer(&'a self) -> Result<BlobWriter<'a>, Error> {
        let compressor = self.level.map(FrameCompressor::new).transpose();
        Ok(BlobWriter {
            store: self,
            compressor: compressor.map_err(|_| no_memory())?,
            decompressor: Decompressor::new().map_err(|_| no_memory())?,
            sealed: Vec::new(),
            opened: Vec::new(),
            plain: Vec::new(),
        })
    }
}

impl BlobWriter<'_> {
    /// Stores a blob that was claimed.
    ///
    /// # Errors
    /// If the repository cannot be written.
    pub(crate) fn write(&mut self, kind: BlobKind, id: Id, plain: &[u8]) -> Result<(), Error> {
        let is_compressed = self.compressor.is_some();
        let stored = match &mut self.compressor {
            Some(compressor) => compressor.compress(plain).map_err(|_| no_memory())?,
            None => plain,
        };
        self.sealed.clear();
        let sealed = self.store.cipher.seal(stored, &mut self.sealed);
        sealed.map_err(|errno| failed(Action::Encrypt, id, errno))?;
        if self.store.verifies && !self.is_sound(plain, is_compressed) {
            let action = Action::VerifyEncrypted;
            return Err(failed(action, id, Errno::EBADMSG));
        }
        let packer = &self.store.packer;
        packer.add(kind, id, &self.sealed, plain.len(), is_compressed)
    }

    /// Whether the encrypted blob decrypts to `plain`.
    fn is_sound(&mut self, plain: &[u8], is_compressed: bool) -> bool {
        self.opened.clear();
        self.opened.extend_from_slice(&self.sealed);
        let Some(opened) = self.store.cipher.open(&mut self.opened) else {
            return false;
        };
        if !is_compressed {
            return opened == plain;
        }
        self.plain.clear();
        self.plain.reserve(plain.len());
        let unpacked = self
            .decompressor
            .decompress_to_buffer(opened, &mut self.plain);
        unpacked.is_ok() && self.plain == plain
    }
}

fn failed(action: Action, id: Id, errno: Errno) -> Error {
    Error::File {
        action,
        path: id.to_string().into_bytes(),
        errno,
    }
}

fn no_memory() -> Error {
    Error::File {
        action: Action::Compress,
        path: Vec::new(),
        errno: Errno::ENOMEM,
    }
}
