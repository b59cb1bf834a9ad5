//! File operations that several experiments share.

use gate::Fd;
use gate::create::{ftruncate, pwrite64};
use gate::file::fsync;
use gate::fs::{Advice, fadvise64, pread64};

use crate::context::Context;
use crate::dir::Scratch;
use crate::error::{Error, Purpose, Result};

/// Writes all of `bytes` at an offset.
pub(crate) fn write_all(fd: &Fd, mut bytes: &[u8], mut offset: u64) -> Result<()> {
    while !bytes.is_empty() {
        match pwrite64(fd, bytes, offset).map_err(Purpose::Write.failed())? {
            0 => return Err(Error::ShortWrite),
            n => {
                bytes = &bytes[n..];
                offset += n as u64;
            }
        }
    }
    Ok(())
}

/// Fills a buffer with incompressible bytes from a seed.
pub(crate) fn noise(bytes: &mut [u8], seed: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for chunk in bytes.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chunk.copy_from_slice(&state.to_ne_bytes()[..chunk.len()]);
    }
}

/// Writes `len` bytes of noise to a file, and syncs it.
pub(crate) fn fill(context: &mut Context<'_>, fd: &Fd, len: u64) -> Result<()> {
    const CHUNK: u64 = 1 << 20;
    let mut chunk = vec![0; CHUNK as usize];
    let mut at = 0;
    while at < len {
        let n = CHUNK.min(len - at);
        context.spend(0, n)?;
        noise(&mut chunk, at + 1);
        write_all(fd, &chunk[..n as usize], at)?;
        at += n;
    }
    sync(fd)
}

pub(crate) fn sync(fd: &Fd) -> Result<()> {
    fsync(fd).map_err(Purpose::Sync.failed())
}

pub(crate) fn extend(fd: &Fd, len: u64) -> Result<()> {
    ftruncate(fd, len).map_err(Purpose::Extend.failed())
}

/// Reads at an offset by one call, which may return less.
pub(crate) fn read_at(fd: &Fd, buffer: &mut [u8], offset: u64) -> Result<usize> {
    pread64(fd, buffer, offset).map_err(Purpose::Read.failed())
}

/// Reopens the file with `FADV_RANDOM`, which turns readahead off.
pub(crate) fn reopen_random(scratch: &Scratch<'_>) -> Result<Fd> {
    let reader = scratch.reopen()?;
    fadvise64(&reader, 0, 0, Advice::Random).map_err(Purpose::DisableReadahead.failed())?;
    Ok(reader)
}

/// Times a series of calls, one per `step` bytes of `len`. `after` receives each time, and may
/// pause.
pub(crate) fn times(
    context: &Context<'_>,
    action: Purpose,
    (len, step): (u64, usize),
    mut call: impl FnMut(u64) -> gate::Result<usize>,
    mut after: impl FnMut(f64),
) -> Result<Vec<f64>> {
    let clock = context.clock;
    let timed = |at| {
        if at % CHECKED < step as u64 {
            context.check()?;
        }
        let begun = clock.now();
        call(at).map_err(action.failed())?;
        let took = clock.since(begun);
        after(took);
        Ok(took)
    };
    (0..len).step_by(step).map(timed).collect()
}

/// Number of bytes after which a series checks the remaining time.
pub(crate) const CHECKED: u64 = 1 << 18;
