//! Compresses zstd frames with a reused buffer.

use std::io::{Error, Result};

use zstd::bulk::Compressor;
use zstd::zstd_safe::compress_bound;

/// Compresses with zstd, into one buffer reused for all frames.
pub struct FrameCompressor {
    zstd: Compressor<'static>,
    frame: Vec<u8>,
}

impl FrameCompressor {
    /// A compressor with this zstd level.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(level: i32) -> Result<FrameCompressor> {
        Ok(FrameCompressor {
            zstd: Compressor::new(level)?,
            frame: Vec::new(),
        })
    }

    /// Compresses the bytes to one frame.
    ///
    /// # Errors
    /// Out of memory.
    pub fn compress(&mut self, bytes: &[u8]) -> Result<&[u8]> {
        self.frame.clear();
        let most = compress_bound(bytes.len());
        self.frame.try_reserve(most).map_err(Error::from)?;
        self.zstd.compress_to_buffer(bytes, &mut self.frame)?;
        Ok(&self.frame)
    }
}
