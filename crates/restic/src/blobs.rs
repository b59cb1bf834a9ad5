//! Stores blobs: each that neither the repository nor this run has yet, compressed and encrypted.

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

/// The blobs of a repository, old and new.
pub(crate) struct BlobStore<'a> {
    index: &'a Index,
    cipher: &'a Cipher,
    packer: Packer<'a>,
    /// The new data and trees.
    new: [Mutex<IdSet>; 2],
    level: Option<i32>,
    /// Encrypted blobs are decrypted and compared, as by restic: this has found errors of memory.
    verifies: bool,
}

/// Compresses and encrypts in a thread, with contexts and buffers that serve for many blobs.
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

    /// Whether the caller must store a blob: the repository does not have it, and no other thread stores it.
    pub(crate) fn claim(&self, kind: BlobKind, id: Id) -> bool {
        !self.index.has(kind, &id) && self.new[kind as usize].lock().insert(id)
    }

    /// Whether the repository has a blob of data.
    pub(crate) fn has_data(&self, id: &Id) -> bool {
        self.index.has(BlobKind::Data, id)
    }

    /// Writes what is left. Returns what was written in all, data and trees.
    ///
    /// # Errors
    /// The repository cannot be written.
    pub(crate) fn finish(self) -> Result<[WrittenBlobs; 2], Error> {
        self.packer.finish()
    }

    /// For one thread.
    ///
    /// # Errors
    /// There is no memory for it.
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
    /// The repository cannot be written.
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

    /// Whether what was encrypted can be read.
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
