//! `block`: the units in which a file system works, which differ.
//!
//! | finding | meaning | how |
//! |---|---|---|
//! | `allocation-block` | the smallest growth of a file on the disk, by its extent map | write a byte into a hole; length of the data around it |
//! | `allocation-block-by-time` | the same | 256-byte writes into a hole: the first in each block allocates it |
//! | `cluster` | the unit of allocation to a file | space occupied by a file with one byte; the smallest hole that frees space |
//! | `page-cache-granule` | the bytes cached by a read of one byte, without readahead | cachestat or mincore |
//! | `page-cache-granule-by-time` | the same | the paper's reads of 256 and 512 bytes, without readahead |
//! | `paper-reads` | the paper's own experiment, with readahead | as in the paper |
//! | `direct-io-alignment` | the alignment that reads with O_DIRECT need | by trial |

use gate::cache::{Aligned, page_size};
use gate::create::pwrite64;
use gate::extent::{Allocate, fallocate};
use gate::fs::{StatxMask, Whence, fstat, lseek, pread64};
use gate::scratch::direct_alignment;
use gate::{Errno, Fd};

use crate::activity::Activity;
use crate::context::Context;
use crate::dir::ProbeDir;
use crate::error::{Error, Purpose, Result};
use crate::finding::{Finding, Method, Note, Outcome, ReportedValue, Source, Value, or_unknown};
use crate::infer::robust::mode;
use crate::io::{extend, fill, read_at, reopen_random, sync, times, write_all};
use crate::names::{Kind, Quantity};
use crate::residency::{Residency, drop_cache};
use crate::samples::Series;

/// The size of the sparse file in bytes.
const SPARSE: u64 = 64 << 20;
/// The usual page size, which is the minimum block size of most file systems: a period of this size
/// in times is that of blocks.
const COMMON_PAGE: u64 = 4096;
/// Total bytes of the series of small reads and of small writes.
const SMALL: u64 = 1 << 20;

pub(crate) fn block(context: &mut Context<'_>) -> Result<Vec<Finding>> {
    let dir = context.dir;
    let (block, page) = (block_truth(dir), granule_truth(dir));
    let mut found = Vec::new();
    let mut add = |done: Result<Finding>, quantity: Quantity, truth: &Option<ReportedValue>| {
        let one = or_unknown(done.map(|finding| vec![finding]), &[quantity])?;
        found.extend(
            one.into_iter()
                .map(|finding| finding.compared_with(truth.clone(), 0.0)),
        );
        Ok(())
    };
    // Record the result of each step at once, so that findings remain if a later step runs out of
    // time.
    let done = context.begin(Activity::ByteInHole);
    let done = done.and_then(|()| allocation_block(context));
    add(done, Quantity::AllocationBlock, &block)?;
    let done = context.begin(Activity::SmallWrites);
    let done = done.and_then(|()| small_writes(context));
    add(done, Quantity::AllocationBlockByTime, &block)?;
    let done = context.begin(Activity::LeastHole);
    let done = done.and_then(|()| cluster(context));
    add(done, Quantity::Cluster, &cluster_truth(dir))?;
    let done = context.begin(Activity::OneByteRead);
    let done = done.and_then(|()| granule(context));
    add(done, Quantity::PageCacheGranule, &page)?;
    let begun = context.begin(Activity::SmallReads);
    let done = begun.and_then(|()| small_reads(context, Kind::Reads));
    add(done, Quantity::PageCacheGranuleByTime, &page)?;
    let done = small_reads(context, Kind::ReadsAhead);
    add(done, Quantity::PaperReads, &None)?;
    let done = context.begin(Activity::DirectReads);
    let done = done.and_then(|()| direct_reads(context));
    add(done, Quantity::DirectIoAlignment, &direct_truth(dir))?;
    Ok(found)
}

/// The allocation unit according to statfs(2). A tmpfs with huge pages allocates huge pages where
/// it can, but counts small ones; NFS, SMB and 9p report a transfer size.
fn block_truth(dir: &ProbeDir) -> Option<ReportedValue> {
    let block = dir.statfs.fragment_size;
    if dir.is(&[b"nfs", b"nfs4", b"cifs", b"smb3", b"9p"]) {
        return None;
    }
    let huge = |option: &[u8]| option.starts_with(b"huge=") && option != b"huge=never";
    let is_huge = dir.has_option(huge);
    (block > 0 && !is_huge).then(|| ReportedValue::new(block, Source::Statfs))
}

/// The expected unit of the page cache: the page size, or the file system's block size, if blocks
/// are larger than pages and are cached as a whole.
fn granule_truth(dir: &ProbeDir) -> Option<ReportedValue> {
    let page = page_size() as u64;
    let is_by_block = dir.is(&[b"xfs", b"ext4", b"btrfs"]);
    let block = if is_by_block {
        dir.statfs.fragment_size
    } else {
        0
    };
    Some(ReportedValue::new(page.max(block), Source::Page))
}

/// The cluster size of ext4, from its superblock on the device, which needs permission to read.
fn cluster_truth(dir: &ProbeDir) -> Option<ReportedValue> {
    if !dir.is(&[b"ext4", b"ext3", b"ext2"]) {
        return block_truth(dir).filter(|_| dir.is(&[b"xfs", b"btrfs", b"tmpfs"]));
    }
    /// The offset in the superblock of `s_log_cluster_size`, the logarithm of the cluster size in
    /// KiB.
    const LOG_CLUSTER: usize = 0x1c;
    let source = dir.mount.as_ref()?.content.source.as_deref()?;
    let device = gate::long::open_long(source, gate::fs::Open::NONBLOCK).ok()?;
    let stat = fstat(&device, StatxMask::BASIC_STATS).ok()?;
    if stat.rdev != dir.device() {
        return None;
    }
    let mut superblock = [0; 1024];
    let read = pread64(&device, &mut superblock, ondisk::ext4::superblock::OFFSET);
    read.ok().filter(|n| *n == superblock.len())?;
    let bytes = superblock.get(LOG_CLUSTER..)?.first_chunk()?;
    let cluster = 1024_u64.checked_shl(u32::from_le_bytes(*bytes))?;
    Some(ReportedValue::new(cluster, Source::Superblock))
}

/// Offsets in the sparse file that are far apart and aligned to no unit, with room after the last.
fn odd_offsets() -> impl Iterator<Item = u64> {
    const COUNT: u64 = 7;
    (1..=COUNT).map(|i| i * (SPARSE / (COUNT + 2)) / 8191 * 8191 + 12_345)
}

/// Writes one byte into a hole, and measures the length of the data around it.
fn allocation_block(context: &mut Context<'_>) -> Result<Finding> {
    let scratch = context.dir.scratch()?;
    let file = &scratch.file;
    // Extend the file first: a hole at the end of the file would be cut off.
    extend(file, SPARSE)?;
    let mut lengths = Vec::new();
    for at in odd_offsets() {
        context.spend(0, 1)?;
        write_all(file, b"x", at)?;
        sync(file)?;
        // The data that contains the byte begins after the last hole before the byte: search for
        // data from the 4 MiB boundary before.
        let from = match lseek(file, at - at % (4 << 20), Whence::Data) {
            Err(Errno::ENXIO) => None, // the range contains no data
            other => Some(other.map_err(Purpose::FindData.failed())?),
        };
        let to = lseek(file, at, Whence::Hole).map_err(Purpose::FindData.failed())?;
        let from = from.filter(|from| *from <= at);
        lengths.extend(from.map(|from| to.saturating_sub(from)));
    }
    let Some((length, agreeing)) = mode(&lengths) else {
        return Err(Error::NoData);
    };
    if length >= SPARSE / 16 || !length.is_power_of_two() {
        return Err(Error::NoHoles);
    }
    let places = lengths.len();
    let method = Method::DataLength {
        places,
        length,
        agreeing,
    };
    let sure = agreeing as f64 / places as f64;
    Ok(Finding::known(Quantity::AllocationBlock, length, sure, method).with_trials(places))
}

/// Times 256-byte writes into a hole.
fn small_writes(context: &mut Context<'_>) -> Result<Finding> {
    const STEP: usize = 256;
    const TRIALS: usize = 5;
    let bytes = [0x5a; STEP];
    let mut trials = Vec::new();
    for _ in 0..TRIALS {
        let scratch = context.dir.scratch()?;
        extend(&scratch.file, SPARSE)?;
        context.spend(0, SMALL)?;
        let write = |at| pwrite64(&scratch.file, &bytes, at);
        trials.push(times(
            context,
            Purpose::WriteHole,
            (SMALL, STEP),
            write,
            drop,
        )?);
    }
    let found = context.judge_one(Series::from_trials(Kind::Writes, STEP as u64, trials))?;
    let page = page_size() as u64;
    // If the file system allocates blocks later than the write, as btrfs does, the first write into
    // each page takes longest, and the measured period is the page size instead of the block size.
    if page > COMMON_PAGE && found.value() == Some(&Value::Number(page as f64)) {
        return Err(Error::HiddenByPages { page });
    }
    Ok(found)
}

fn allocated(file: &Fd) -> Result<u64> {
    let stat = fstat(file, StatxMask::BASIC_STATS);
    stat.map(|stat| stat.blocks * 512)
        .map_err(Purpose::StatFile.failed())
}

/// Compares the growth of a file by a byte in a hole with the smallest aligned hole that shrinks
/// it.
fn cluster(context: &mut Context<'_>) -> Result<Finding> {
    const LEAST: u64 = 512;
    /// Maximum cluster size in bytes; holes of up to half of this size are tried.
    const MOST: u64 = 4 << 20;
    let scratch = context.dir.scratch()?;
    let file = &scratch.file;
    extend(file, SPARSE)?;
    let mut growths = Vec::new();
    let mut before = allocated(file)?;
    for at in odd_offsets() {
        context.spend(0, 1)?;
        write_all(file, b"x", at)?;
        sync(file)?;
        let now = allocated(file)?;
        growths.push(now.saturating_sub(before));
        before = now;
    }
    growths.retain(|bytes| *bytes > 0);
    // The allocated space may also grow by a block of the file's extent map, so only the smallest
    // growth is the size of one cluster.
    let grown = growths.iter().copied().min();
    let is_least = |bytes: &&u64| Some(**bytes) == grown;
    let agreeing = growths.iter().filter(is_least).count();
    let most = MOST.min(1 << context.dir.room().min(context.bytes_left()).max(1).ilog2());
    let hole = if most < 2 * LEAST {
        None // too little free space for data to punch a hole into
    } else {
        least_hole(context, file, LEAST, most)?
    };
    let (value, sure) = match (grown, hole) {
        (None, None) => return Err(Error::NoClusters),
        (Some(grown), None) => (grown, agreeing as f64 / growths.len() as f64),
        (Some(grown), Some(hole)) if grown != hole => (hole, 0.5),
        (_, Some(hole)) => (hole, 1.0),
    };
    let method = Method::Cluster { grown, hole };
    Ok(Finding::known(Quantity::Cluster, value, sure, method).with_trials(growths.len()))
}

/// The length of the smallest aligned hole that reduces the file's blocks; `None` if none does.
fn least_hole(context: &mut Context<'_>, file: &Fd, least: u64, most: u64) -> Result<Option<u64>> {
    let from = SPARSE / 2;
    let solid = vec![0x5a; most as usize];
    context.spend(0, most)?;
    write_all(file, &solid, from)?;
    sync(file)?;
    let before = allocated(file)?;
    let mut len = least;
    while len <= most / 2 {
        match fallocate(file, Allocate::PunchHole, from + most / 2, len) {
            Ok(()) => {}
            Err(Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EINVAL) => return Ok(None),
            Err(e) => return Err(Purpose::PunchHole.failed()(e)),
        }
        sync(file)?;
        if allocated(file)? < before {
            return Ok(Some(len));
        }
        len *= 2;
    }
    Ok(None)
}

/// The bytes that a read of one byte brings into the page cache, without readahead.
fn granule(context: &mut Context<'_>) -> Result<Finding> {
    const TRIALS: u64 = 5;
    const LEN: u64 = 8 << 20;
    const LEAST: u64 = 64 << 10;
    let scratch = context.dir.scratch()?;
    let len = LEN.min(context.dir.room()) / LEAST * LEAST;
    if len == 0 {
        return Err(Error::NoRoom { bytes: LEAST });
    }
    fill(context, &scratch.file, len)?;
    let mut residency = Residency::new(&scratch, len)?.ok_or(Error::ResidencyUnknown)?;
    let page = page_size() as u64;
    let mut sizes = Vec::new();
    for trial in 0..TRIALS {
        if !drop_cache(&scratch.file, len, Some(&mut residency))? {
            return Err(Error::NotDropped);
        }
        let reader = reopen_random(&scratch)?;
        context.spend(page, 0)?;
        read_at(&reader, &mut [0], len / (TRIALS + 1) * trial + 777)?;
        sizes.push(residency.pages(0, len)? * page);
    }
    let (bytes, agreeing) = mode(&sizes).unwrap_or_default();
    let method = Method::OneByteRead {
        bytes,
        by: residency.seen_by(),
        agreeing,
        trials: TRIALS,
    };
    let sure = agreeing as f64 / TRIALS as f64;
    let finding = Finding::known(Quantity::PageCacheGranule, bytes, sure, method);
    Ok(finding.with_trials(sizes.len()))
}

/// The paper's first experiment, with 256 and with 512 bytes, whose results must agree.
fn small_reads(context: &mut Context<'_>, kind: Kind) -> Result<Finding> {
    const TRIALS: usize = 3;
    let scratch = context.dir.scratch()?;
    fill(context, &scratch.file, SMALL)?;
    let mut by_step = |step: usize| -> Result<Finding> {
        let mut buffer = vec![0; step];
        let mut trials = Vec::new();
        for _ in 0..TRIALS {
            drop_cache(&scratch.file, SMALL, None)?;
            let reader = match kind {
                Kind::Reads => reopen_random(&scratch)?,
                _ => scratch.reopen()?,
            };
            context.spend(SMALL, 0)?;
            let read = |at| pread64(&reader, &mut buffer, at);
            trials.push(times(context, Purpose::Read, (SMALL, step), read, drop)?);
        }
        context.judge_one(Series::from_trials(kind, step as u64, trials))
    };
    let (mut by_256, by_512) = (by_step(256)?, by_step(512)?);
    if by_256.value() != by_512.value() {
        by_256.outcome = Outcome::Disagree(Box::new([by_256.outcome, by_512.outcome]));
        return Ok(by_256);
    }
    let page = page_size() as f64;
    // The page cache has no unit smaller than a page, so a smaller period has another cause, such
    // as the address translation of an emulated processor.
    if kind == Kind::Reads
        && let Some(Value::Number(bytes)) = by_256.value()
        && *bytes < page
    {
        return Err(Error::ShorterThanPage {
            bytes: *bytes as u64,
        });
    }
    if let Outcome::Found { confidence, .. } = &mut by_256.outcome {
        *confidence = confidence.min(by_512.confidence());
    }
    Ok(by_256.with_note(Note::ConfirmedBy512))
}

fn direct_truth(dir: &ProbeDir) -> Option<ReportedValue> {
    let scratch = dir.scratch().ok()?;
    let (_, offset) = direct_alignment(&scratch.file).ok()??;
    (offset > 0).then(|| ReportedValue::new(u64::from(offset), Source::Statx))
}

/// The smallest alignment at which a read with O_DIRECT bypasses the page cache.
fn direct_reads(context: &mut Context<'_>) -> Result<Finding> {
    const LEN: u64 = 256 << 10;
    let scratch = context.dir.scratch()?;
    fill(context, &scratch.file, LEN)?;
    let reader = scratch.reopen_direct().map_err(Error::NoDirectIo)?;
    let mut residency = Residency::new(&scratch, LEN)?;
    let mut tried = 0;
    let mut align = 1_u64;
    while align <= LEN / 4 {
        let mut memory = Aligned::new(align as usize, 0);
        context.spend(align, 0)?;
        if !drop_cache(&scratch.file, LEN, residency.as_mut())? {
            return Err(Error::NoDirectReadFromMemory);
        }
        tried += 1;
        let done = matches!(pread64(&reader, memory.bytes(), align), Ok(n) if n as u64 == align);
        // Some file systems silently serve unaligned reads from the page cache.
        let bypassed = |residency: &mut Residency| residency.pages(0, LEN) == Ok(0);
        if done && residency.as_mut().is_none_or(bypassed) {
            let method = Method::DirectReads { align };
            let finding = Finding::known(Quantity::DirectIoAlignment, align, 1.0, method);
            return Ok(finding.with_trials(tried));
        }
        align *= 2;
    }
    Err(Error::NoDirectRead)
}
