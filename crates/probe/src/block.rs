//! `block`: the units in which a file system works, which are not one.
//!
//! | finding | what it is | how |
//! |---|---|---|
//! | `allocation-block` | the least that a file grows by on the disk, as the file's map has it | one byte far into a hole, and how long the data is that is there then |
//! | `allocation-block-by-time` | the same | 256-byte writes into a hole: the first in each block has it made |
//! | `cluster` | what is given to a file at one time | what a file with one byte takes up; the least hole that gives something back |
//! | `page-cache-granule` | what a read of one byte brings into memory, without readahead | cachestat or mincore |
//! | `page-cache-granule-by-time` | the same | the paper's reads of 256 and 512 bytes, without readahead |
//! | `paper-reads` | the paper's own experiment, with readahead | as the paper says |
//! | `direct-io-alignment` | how reads past the page cache must be aligned | trying |

use std::os::fd::AsFd;

use gate::cache::{Aligned, page_size};
use gate::create::pwrite64;
use gate::extent::{Allocate, fallocate};
use gate::fs::{Advice, At, Want, Whence, fadvise64, lseek, pread64, statx};
use gate::scratch::direct_alignment;
use gate::{Errno, Fd, Gate};
use ondisk::split_options;

use crate::desk::{Desk, Trouble};
use crate::finding::{Experiment, Finding, Value};
use crate::infer::robust::mode;
use crate::infer::series::judge;
use crate::place::{Place, Scratch};
use crate::samples::{Kind, Series};
use crate::work::{Witness, extend, fill, forget, read_at, sync, times, write_all};

/// How long the sparse file is that bytes are put into.
const SPARSE: u64 = 64 << 20;
/// How much is written and read for the paper's small reads.
const SMALL: u64 = 1 << 20;

/// All of it.
pub fn block(
    place: &Place,
    desk: &mut Desk<'_>,
    series: &mut Vec<Series>,
) -> Result<Vec<Finding>, Trouble> {
    let mut found = Vec::new();
    let truth = block_truth(place);
    let or =
        |unit, name, truth: &Option<(Value, String)>, said: Result<Finding, Trouble>| match said {
            Err(Trouble::Interrupted) => Err(Trouble::Interrupted),
            Err(why) => {
                Ok(Finding::hindered(Experiment::Block, name, unit, &why)
                    .beside(truth.clone(), 0.0))
            }
            Ok(finding) => Ok(finding.beside(truth.clone(), 0.0)),
        };

    desk.go_on("block: one byte far into a hole, to see how much the file has then")?;
    found.push(or(
        "bytes",
        "allocation-block",
        &truth,
        allocation(place, desk),
    )?);
    desk.go_on("block: 256-byte writes into a hole, to see which take longer")?;
    found.push(or(
        "bytes",
        "allocation-block-by-time",
        &truth,
        writes(place, desk, series),
    )?);
    desk.go_on("block: the least hole that gives something back")?;
    found.push(or(
        "bytes",
        "cluster",
        &cluster_truth(place),
        cluster(place, desk),
    )?);
    desk.go_on("block: what a read of one byte brings into memory")?;
    let page = Some((
        Value::from(granule_truth(place)),
        "the page of memory, or the block where it is larger".to_owned(),
    ));
    found.push(or(
        "bytes",
        "page-cache-granule",
        &page,
        granule(place, desk),
    )?);
    desk.go_on("block: the paper's reads of 256 and 512 bytes, without readahead and with it")?;
    for (kind, name, truth) in [
        (Kind::Reads, "page-cache-granule-by-time", page),
        (Kind::ReadsAhead, "paper-reads", None),
    ] {
        found.push(or("bytes", name, &truth, reads(place, desk, series, kind))?);
    }
    desk.go_on("block: reads past the page cache, ever less aligned")?;
    found.push(or(
        "bytes",
        "direct-io-alignment",
        &direct_truth(place),
        direct(place, desk),
    )?);
    Ok(found)
}

/// What statfs(2) gives as the unit that it counts in. A tmpfs with huge pages takes these where it
/// can, and counts small ones.
fn block_truth(place: &Place) -> Option<(Value, String)> {
    let block = place.statfs.fragment_size;
    let huge = |option: &Vec<u8>| option.starts_with(b"huge=") && option != b"huge=never";
    let is_huge = place
        .mount
        .as_ref()
        .is_some_and(|mount| split_options(&mount.content.options).any(|o| huge(&o)));
    (block > 0 && !is_huge).then(|| (block.into(), "statfs(2), f_frsize".to_owned()))
}

/// A page, unless the file system's block is larger and kept whole in memory.
fn granule_truth(place: &Place) -> u64 {
    let page = page_size() as u64;
    if place.is(&[b"xfs", b"ext4", b"btrfs"]) {
        page.max(place.statfs.fragment_size)
    } else {
        page
    }
}

/// What ext4 gives to a file at one time stands in its superblock, which is read from the device
/// where that may be.
fn cluster_truth(place: &Place) -> Option<(Value, String)> {
    if !place.is(&[b"ext4", b"ext3", b"ext2"]) {
        return block_truth(place).filter(|_| place.is(&[b"xfs", b"btrfs", b"tmpfs"]));
    }
    /// Of the superblock: the logarithm of the cluster in KiB.
    const LOG_CLUSTER: usize = 0x1c;
    let source = place.mount.as_ref()?.content.source.as_deref()?;
    let device = gate::long::open_long(source, gate::fs::Open::NONBLOCK).ok()?;
    let rdev = statx(&device, c"", At::EMPTY_PATH, Want::BASIC_STATS)
        .ok()?
        .rdev;
    if ondisk::Dev::from(rdev) != place.device() {
        return None;
    }
    let mut superblock = [0; 1024];
    pread64(&device, &mut superblock, ondisk::ext4::superblock::OFFSET)
        .ok()
        .filter(|n| *n == superblock.len())?;
    let log = u32::from_le_bytes(
        superblock
            .get(LOG_CLUSTER..LOG_CLUSTER + 4)?
            .try_into()
            .ok()?,
    );
    Some((
        1024_u64.checked_shl(log)?.into(),
        "the superblock, s_log_cluster_size".to_owned(),
    ))
}

/// Places in a sparse file that lie apart, and at the beginning of no unit. The first lie before
/// the last that is used.
fn odd_places() -> impl Iterator<Item = u64> {
    const PLACES: u64 = 7;
    (1..=PLACES).map(|i| i * (SPARSE / (PLACES + 2)) / 8191 * 8191 + 12_345)
}

/// One byte far into a hole: how long is the data that is there then?
fn allocation(place: &Place, desk: &mut Desk<'_>) -> Result<Finding, Trouble> {
    const NAME: &str = "allocation-block";
    let scratch = place.scratch()?;
    let file = &scratch.file;
    extend(file, SPARSE)?; // first: where the file ends, a hole would be cut off
    let mut lengths = Vec::new();
    for at in odd_places() {
        desk.spend(0, 1)?;
        write_all(file, b"x", at)?;
        sync(file)?;
        let refused = |gate| Trouble::refused("cannot see where the data lies", gate);
        // The data that holds the byte: from the last hole before it on.
        let from = match lseek(file, at - at % (4 << 20), Whence::Data) {
            Err(Errno::ENXIO) => None, // nothing but a hole
            other => Some(other.map_err(refused(Gate::Lseek))?),
        };
        let to = lseek(file, at, Whence::Hole).map_err(refused(Gate::Lseek))?;
        lengths.extend(
            from.filter(|from| *from <= at)
                .map(|from| to.saturating_sub(from)),
        );
    }
    let unknown = |why: &str| Ok(Finding::unknown(Experiment::Block, NAME, "bytes", why));
    let Some((length, agree)) = mode(&lengths) else {
        return unknown("SEEK_DATA finds no data where some was written");
    };
    if length >= SPARSE / 16 || !length.is_power_of_two() {
        return unknown("the file system shows no holes: SEEK_HOLE takes all of the file for data");
    }
    let sure = agree as f64 / lengths.len() as f64;
    let method = format!(
        "one byte at each of {} odd places in a sparse file, brought to the disk: from SEEK_DATA to SEEK_HOLE it was \
         {length} bytes {agree} times",
        lengths.len()
    );
    Ok(Finding::known(Experiment::Block, NAME, "bytes", length, sure, method).tried(lengths.len()))
}

/// 256-byte writes into a hole, by time alone.
fn writes(
    place: &Place,
    desk: &mut Desk<'_>,
    series: &mut Vec<Series>,
) -> Result<Finding, Trouble> {
    const STEP: usize = 256;
    const TRIALS: usize = 5;
    let bytes = [0x5a; STEP];
    let mut trials = Vec::new();
    for _ in 0..TRIALS {
        let scratch = place.scratch()?;
        extend(&scratch.file, SPARSE)?;
        desk.spend(0, SMALL)?;
        let times = times(
            desk.clock,
            SMALL,
            STEP,
            |at| pwrite64(&scratch.file, &bytes, at),
            drop,
        );
        trials.push(times.map_err(Trouble::refused("cannot write into a hole", Gate::Pwrite64))?);
    }
    keep(Series::of(Kind::Writes, STEP as u64, trials), series)
}

/// Judges samples, and keeps them.
fn keep(samples: Series, series: &mut Vec<Series>) -> Result<Finding, Trouble> {
    let found = judge(&samples).into_iter().next();
    series.push(samples);
    found.ok_or_else(|| Trouble::Hindered("there were no samples".to_owned()))
}

/// What is allocated to a file, in bytes.
fn allocated(file: &Fd) -> Result<u64, Trouble> {
    let seen = statx(file.as_fd(), c"", At::EMPTY_PATH, Want::BASIC_STATS);
    seen.map(|s| s.blocks * 512).map_err(Trouble::refused(
        "cannot see what the file takes up",
        Gate::Statx,
    ))
}

/// What a file grows by when a byte is written into a hole; held against the least hole, aligned,
/// that gives something back.
fn cluster(place: &Place, desk: &mut Desk<'_>) -> Result<Finding, Trouble> {
    const NAME: &str = "cluster";
    const LEAST: u64 = 512;
    /// A hole of half of it is the largest that is tried.
    const MOST: u64 = 4 << 20;
    let scratch = place.scratch()?;
    let file = &scratch.file;
    extend(file, SPARSE)?;
    let mut grown = Vec::new();
    let mut before = allocated(file)?;
    for at in odd_places() {
        desk.spend(0, 1)?;
        write_all(file, b"x", at)?;
        sync(file)?;
        let now = allocated(file)?;
        grown.push(now.saturating_sub(before));
        before = now;
    }
    let grown: Vec<u64> = grown.into_iter().filter(|bytes| *bytes > 0).collect();
    // What a map of blocks takes for itself the file pays for as well: only the least is one
    // cluster's.
    let least = grown.iter().copied().min();
    let agree = grown.iter().filter(|bytes| Some(**bytes) == least).count();
    let most = MOST.min(1 << place.room().min(desk.bytes_left()).max(1).ilog2());
    // Where there is no room for a hole in something, none is punched.
    let punched = if most < 2 * LEAST {
        None
    } else {
        punch(desk, file, LEAST, most)?
    };
    let (value, sure, method) = match (least, punched) {
        (None, None) => {
            let why = "the file takes up nothing more when a byte is written into a hole (st_blocks), and holes give nothing back";
            return Ok(Finding::unknown(Experiment::Block, NAME, "bytes", why));
        }
        (Some(grown_by), None) => {
            let sure = agree as f64 / grown.len() as f64;
            (
                grown_by,
                sure,
                format!(
                    "a byte in a hole had the file take up {grown_by} bytes more (st_blocks); no hole gave anything back"
                ),
            )
        }
        (None, Some(hole)) => (
            hole,
            1.0,
            format!("the least hole that gives something back (st_blocks) is {hole} bytes long"),
        ),
        (Some(grown_by), Some(hole)) if grown_by == hole => (
            hole,
            1.0,
            format!(
                "a byte in a hole had the file take up {hole} bytes more (st_blocks), and so long is the least hole that gives something back"
            ),
        ),
        (Some(grown_by), Some(hole)) => (
            hole,
            0.5,
            format!(
                "the least hole that gives something back (st_blocks) is {hole} bytes long, but a byte in a hole took up {grown_by}"
            ),
        ),
    };
    Ok(Finding::known(Experiment::Block, NAME, "bytes", value, sure, method).tried(grown.len()))
}

/// The length of the least aligned hole that gives something back; `None` where none does.
fn punch(desk: &mut Desk<'_>, file: &Fd, least: u64, most: u64) -> Result<Option<u64>, Trouble> {
    let from = SPARSE / 2;
    let solid = vec![0x5a; most as usize];
    desk.spend(0, most)?;
    write_all(file, &solid, from)?;
    sync(file)?;
    let before = allocated(file)?;
    let mut len = least;
    while len <= most / 2 {
        match fallocate(file, Allocate::PunchHole, from + most / 2, len) {
            Ok(()) => {}
            Err(Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EINVAL) => return Ok(None),
            Err(e) => return Err(Trouble::refused("cannot punch a hole", Gate::Fallocate)(e)),
        }
        sync(file)?;
        if allocated(file)? < before {
            return Ok(Some(len));
        }
        len *= 2;
    }
    Ok(None)
}

/// What a read of one byte brings into memory, when no readahead is wanted.
fn granule(place: &Place, desk: &mut Desk<'_>) -> Result<Finding, Trouble> {
    const NAME: &str = "page-cache-granule";
    const TRIALS: u64 = 5;
    const LEN: u64 = 8 << 20;
    let scratch = place.scratch()?;
    let len = LEN.min(place.room()) >> 16 << 16;
    if len == 0 {
        return Err(Trouble::Hindered(
            "there is no room for a file of 64 KiB".to_owned(),
        ));
    }
    fill(desk, &scratch.file, len)?;
    let Some(mut witness) = Witness::of(&scratch, len)? else {
        return Ok(Finding::unknown(
            Experiment::Block,
            NAME,
            "bytes",
            "neither cachestat(2) nor mincore(2) sees what is in memory",
        ));
    };
    let page = page_size() as u64;
    let mut sizes = Vec::new();
    for trial in 0..TRIALS {
        if !forget(&scratch.file, len, Some(&mut witness))? {
            let why = "the kernel does not forget the file: it is kept in memory, and nowhere else";
            return Ok(Finding::unknown(Experiment::Block, NAME, "bytes", why));
        }
        let reader = random(&scratch)?;
        desk.spend(page, 0)?;
        read_at(&reader, &mut [0], len / (TRIALS + 1) * trial + 777)?;
        let pages = witness.pages(0, len).map_err(Trouble::refused(
            "cannot see what is in memory",
            Gate::Cachestat,
        ))?;
        sizes.push(pages * page);
    }
    let (size, agree) = mode(&sizes).unwrap_or_default();
    let method = format!(
        "a read of one byte had {size} bytes in memory, by {}, {agree} of {TRIALS} times",
        witness.name()
    );
    let sure = agree as f64 / TRIALS as f64;
    Ok(Finding::known(Experiment::Block, NAME, "bytes", size, sure, method).tried(sizes.len()))
}

/// Opens the file once more, for reads here and there.
fn random(scratch: &Scratch<'_>) -> Result<Fd, Trouble> {
    let reader = scratch.reopen()?;
    let told = fadvise64(&reader, 0, 0, Advice::Random);
    told.map_err(Trouble::refused(
        "cannot turn readahead off",
        Gate::Fadvise64,
    ))?;
    Ok(reader)
}

/// The paper's first experiment, with 256 and with 512 bytes: two findings that must be one.
fn reads(
    place: &Place,
    desk: &mut Desk<'_>,
    series: &mut Vec<Series>,
    kind: Kind,
) -> Result<Finding, Trouble> {
    const TRIALS: usize = 3;
    let scratch = place.scratch()?;
    fill(desk, &scratch.file, SMALL)?;
    let mut findings = Vec::new();
    for step in [256_usize, 512] {
        let mut buffer = vec![0; step];
        let mut trials = Vec::new();
        for _ in 0..TRIALS {
            forget(&scratch.file, SMALL, None)?;
            let reader = if kind == Kind::Reads {
                random(&scratch)?
            } else {
                scratch.reopen()?
            };
            desk.spend(SMALL, 0)?;
            let times = times(
                desk.clock,
                SMALL,
                step,
                |at| pread64(&reader, &mut buffer, at),
                drop,
            );
            trials.push(times.map_err(Trouble::refused("cannot read the file", Gate::Pread64))?);
        }
        findings.push(keep(Series::of(kind, step as u64, trials), series)?);
    }
    match &findings[..] {
        [by_256, by_512] if by_256.inferred == by_512.inferred => {
            let method = format!("{}; 512 bytes each time give the same", by_256.method);
            Ok(Finding {
                confidence: by_256.confidence.min(by_512.confidence),
                method,
                ..by_256.clone()
            })
        }
        [by_256, by_512] => {
            let why = format!(
                "reads of 256 and of 512 bytes do not say the same: {}; {}",
                by_256.method, by_512.method
            );
            let name = by_256.name;
            Ok(Finding::unknown(Experiment::Block, name, "bytes", why)
                .by_time()
                .tried(TRIALS))
        }
        _ => Err(Trouble::Hindered("there were no samples".to_owned())),
    }
}

/// What statx(2) gives as the alignment of reads past the page cache.
fn direct_truth(place: &Place) -> Option<(Value, String)> {
    let scratch = place.scratch().ok()?;
    let (_, offset) = direct_alignment(&scratch.file).ok()??;
    (offset > 0).then(|| (offset.into(), "statx(2), stx_dio_offset_align".to_owned()))
}

/// The least alignment at which a read past the page cache is done.
fn direct(place: &Place, desk: &mut Desk<'_>) -> Result<Finding, Trouble> {
    const NAME: &str = "direct-io-alignment";
    const LEN: u64 = 256 << 10;
    let scratch = place.scratch()?;
    fill(desk, &scratch.file, LEN)?;
    let reader = match scratch.reopen_direct() {
        Ok(reader) => reader,
        Err(e) => {
            let why = format!(
                "there are no reads past the page cache here: open(2) with O_DIRECT says {e}"
            );
            return Ok(Finding::unknown(Experiment::Block, NAME, "bytes", why));
        }
    };
    let mut witness = Witness::of(&scratch, LEN)?;
    let mut tried = 0;
    let mut align = 1_u64;
    while align <= LEN / 4 {
        let mut memory = Aligned::new(align as usize, 0);
        desk.spend(align, 0)?;
        if !forget(&scratch.file, LEN, witness.as_mut())? {
            let why = "the file is kept in memory, and nowhere else: no read goes past that";
            return Ok(Finding::unknown(Experiment::Block, NAME, "bytes", why));
        }
        tried += 1;
        let done = matches!(pread64(&reader, memory.bytes(), align), Ok(n) if n as u64 == align);
        // What cannot be done past the page cache some file systems do through it, without a word.
        if done
            && witness
                .as_mut()
                .is_none_or(|witness| witness.pages(0, LEN) == Ok(0))
        {
            let method = format!(
                "reads of {align} bytes at byte {align} are done past the page cache; of less, none was"
            );
            return Ok(
                Finding::known(Experiment::Block, NAME, "bytes", align, 1.0, method).tried(tried),
            );
        }
        align *= 2;
    }
    Ok(Finding::unknown(
        Experiment::Block,
        NAME,
        "bytes",
        "no read past the page cache is done, however it is aligned",
    ))
}
