//! Reads file contents into archive chunks.

use blake3::Hasher;
use gate::file::read_full_at;
use gate::fs::{pread64, read};
use gate::{Errno, Fd};
use ondisk::pax::sparse::{Extent, Map};
use walk::Meta;

use super::load::{ArchiveChunk, EmitChunk, PIECE, WriterStopped};

pub(super) fn may_have_holes(meta: &Meta) -> bool {
    meta.blocks.saturating_mul(512) < meta.size
}

/// Appends a file's data, without holes. A file that ends before its recorded size is padded with
/// zeros; returns the offset of the padding.
pub(super) fn read_whole(
    fd: &Fd,
    meta: &Meta,
    map: Option<&Map>,
    out: &mut Vec<u8>,
) -> Result<Option<u64>, Errno> {
    if let Some(map) = map {
        let mut end = None;
        for extent in map.extents() {
            let at = out.len();
            out.resize(at + extent.len as usize, 0);
            let have = read_full_at(fd, extent.offset, &mut out[at..])? as u64;
            if have < extent.len {
                end.get_or_insert(extent.offset + have);
            }
        }
        return Ok(end);
    }
    let (start, size) = (out.len(), meta.size as usize);
    // The buffer has one extra byte, which detects a file that has grown, and saves a read(2) at
    // end of file.
    out.resize(start + size + 1, 0);
    let data = &mut out[start..];
    // SEEK_DATA and SEEK_HOLE move the file offset, so read(2) would start at the wrong place.
    let has_moved = may_have_holes(meta);
    let mut have = 0;
    while have < size.max(1) {
        let rest = &mut data[have..];
        let got = match has_moved {
            true => pread64(fd, rest, have as u64),
            false => read(fd, rest),
        };
        match got {
            Ok(0) => break,
            Ok(n) => have += n,
            Err(Errno::EINTR) => {}
            Err(e) => return Err(e),
        }
    }
    out.truncate(start + size);
    Ok((have < size).then_some(have as u64))
}

/// Copies extents of a file. After a failed read or end of file, the rest is zeros: returns where
/// the zeros begin, and the error if there was one.
#[allow(
    clippy::type_complexity,
    reason = "the offset of the end, and its error"
)]
pub(super) fn copy_extents(
    fd: &Fd,
    extents: &[Extent],
    hasher: &mut Hasher,
    load: &mut ArchiveChunk,
    emit: EmitChunk<'_>,
) -> Result<Option<(u64, Option<Errno>)>, WriterStopped> {
    let mut ended = None;
    for extent in extents {
        let mut at = extent.offset;
        while at < extent.end() {
            if load.bytes.len() >= PIECE {
                *load = emit(std::mem::take(load))?;
            }
            let from = load.bytes.len();
            let n = (extent.end() - at).min((PIECE - from) as u64) as usize;
            load.bytes.resize(from + n, 0);
            let piece = &mut load.bytes[from..];
            if ended.is_none() {
                match read_full_at(fd, at, piece) {
                    Ok(have) if have == n => {}
                    Ok(have) => ended = Some((at + have as u64, None)),
                    Err(e) => {
                        piece.fill(0);
                        ended = Some((at, Some(e)));
                    }
                }
            }
            hasher.update(piece);
            at += n as u64;
        }
    }
    Ok(ended)
}
