//! zstd frames in a buffer that is used again.

use std::io::{Error, Result};

use zstd::bulk::Compressor;
use zstd::zstd_safe::compress_bound;

/// Compresses with zstd, into a buffer that is used for each frame again.
pub struct FrameCompressor {
    zstd: Compressor<'static>,
    frame: Vec<u8>,
}

impl FrameCompressor {
    /// For a level of zstd.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn new(level: i32) -> Result<FrameCompressor> {
        Ok(FrameCompressor {
            zstd: Compressor::new(level)?,
            frame: Vec::new(),
        })
    }

    /// The bytes as one frame.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn compress(&mut self, bytes: &[u8]) -> Result<&[u8]> {
        self.frame.clear();
        let most = compress_bound(bytes.len());
        self.frame.try_reserve(most).map_err(Error::from)?;
        self.zstd.compress_to_buffer(bytes, &mut self.frame)?;
        Ok(&self.frame)
    }
}
