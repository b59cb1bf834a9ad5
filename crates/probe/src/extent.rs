//! `extent`: the layout of a file on the device.
//!
//! The paper writes a mebibyte at a time, syncs each with fsync(2), and takes the distance of
//! longer fsyncs for the length of an extent. The kernel reports the extents themselves (FIEMAP);
//! the paper's experiment is done nevertheless, and judged. A file in many extents was written to
//! fragmented free space.

use gate::cache::Aligned;
use gate::extent::{Allocate, DelallocMode, fallocate, fiemap};
use gate::file::read_kernel;
use gate::fs::pread64;
use gate::{Errno, Fd};
use ondisk::fiemap::{Extent, collect, merge};

use crate::activity::Activity;
use crate::context::Context;
use crate::dir::Scratch;
use crate::error::{Error, NoDeviceReads, Purpose, Result};
use crate::finding::{Finding, Method, ReportedValue, Source, Value, find_value, or_unknown};
use crate::infer::robust::{median, mode};
use crate::infer::series::evaluate;
use crate::io::{noise, sync, write_all};
use crate::names::{Kind, Quantity};
use crate::samples::Series;

/// Bytes per write and fsync(2).
const STEP: u64 = 1 << 20;
/// Maximum number of writes, as in the paper.
const RUNS: u64 = 350;
/// Minimum number of writes that can show a period.
const FEWEST: u64 = 16;

const BY_FIEMAP: [Quantity; 3] = [
    Quantity::Extents,
    Quantity::ExtentLargest,
    Quantity::FreeSpaceInPieces,
];

pub(crate) fn extent(context: &mut Context<'_>) -> Result<Vec<Finding>> {
    let quantities = [&BY_FIEMAP[..], &[Quantity::ExtentByTime]].concat();
    or_unknown(measure(context), &quantities)
}

fn measure(context: &mut Context<'_>) -> Result<Vec<Finding>> {
    let dir = context.dir;
    let scratch = dir.scratch()?;
    let runs = RUNS.min(dir.room() / STEP).min(context.bytes_left() / STEP);
    if runs < FEWEST {
        return Err(Error::NoRoom {
            bytes: FEWEST * STEP,
        });
    }
    context.begin(Activity::Syncs { runs })?;
    let waits = write_and_sync(context, &scratch.file, runs)?;
    let len = waits.len() as u64 * STEP;
    let by_time = context.evaluate(Series::from_trial(Kind::Syncs, STEP, waits));

    context.begin(Activity::Extents)?;
    let mut found = match extents(&scratch.file) {
        Ok(extents) => by_fiemap(&merge(&before(extents, len)), len),
        Err(Errno::EINTR) => return Err(Error::Interrupted),
        Err(errno) => vec![device_reads(context, &scratch, len, errno)?],
    };
    let by_time = refute_by_overwriting(context, &scratch.file, len / STEP, by_time)?;
    let largest = find_value(&found, Quantity::ExtentLargest).cloned();
    let truth = largest.map(|largest| ReportedValue::new(largest, Source::Fiemap));
    let compared = |finding: Finding| finding.compared_with(truth.clone(), 0.05);
    found.extend(by_time.into_iter().map(compared));
    Ok(found)
}

/// Overwrites the file as a control: overwriting allocates nothing, so a period that persists is
/// not caused by extents.
fn refute_by_overwriting(
    context: &mut Context<'_>,
    file: &Fd,
    runs: u64,
    found: Vec<Finding>,
) -> Result<Vec<Finding>> {
    let Some(period) = find_value(&found, Quantity::ExtentByTime) else {
        return Ok(found);
    };
    let why = match write_and_sync(context, file, runs) {
        Ok(waits) => {
            let again = evaluate(&Series::from_trial(Kind::Syncs, STEP, waits));
            let again = find_value(&again, Quantity::ExtentByTime);
            if !again.is_some_and(|again| is_same_period(again, period)) {
                return Ok(found);
            }
            Error::NotExtents
        }
        Err(why) => why,
    };
    or_unknown(Err(why), &[Quantity::ExtentByTime])
}

/// Whether two periods overlap, within a tolerance of one sixteenth.
fn is_same_period(a: &Value, b: &Value) -> bool {
    let range = |value: &Value| match *value {
        Value::Number(period) => Some((period, period)),
        Value::Range(low, high) => Some((low, high)),
        _ => None,
    };
    let ranges = range(a).zip(range(b));
    ranges.is_some_and(|(a, b)| a.0 * 16.0 <= b.1 * 17.0 && b.0 * 16.0 <= a.1 * 17.0)
}

/// Writes and syncs a mebibyte at a time; returns the time of each fsync(2).
fn write_and_sync(context: &mut Context<'_>, file: &Fd, runs: u64) -> Result<Vec<f64>> {
    // Preallocate as in the paper. Where that is not supported, the file grows as it is written.
    if let Err(e @ (Errno::ENOSPC | Errno::EDQUOT)) =
        fallocate(file, Allocate::Room, 0, runs * STEP)
    {
        return Err(Purpose::Allocate.failed()(e));
    }
    let mut bytes = vec![0; STEP as usize];
    let mut waits = Vec::new();
    // Use at most a third of the remaining time: slow disks get fewer writes.
    let until = context.time_left() * 2 / 3;
    for run in 0..runs {
        if run >= FEWEST && context.time_left() < until {
            break;
        }
        context.spend(0, STEP)?;
        noise(&mut bytes, run + 1);
        write_all(file, &bytes, run * STEP)?;
        let begun = context.clock.now();
        sync(file)?;
        waits.push(context.clock.since(begun));
    }
    Ok(waits)
}

fn extents(file: &Fd) -> gate::Result<Vec<Extent>> {
    /// The maximum number of mebibytes in the file.
    const MOST: usize = 1 << 20;
    let mut buffer = vec![0; 4 + 7 * 512];
    collect(&mut buffer, MOST, |from, buffer| {
        fiemap(file, from, DelallocMode::Write, buffer)
    })
}

/// Cuts the list of extents at an offset in the file: on a slow disk, less is written than was
/// preallocated.
fn before(extents: Vec<Extent>, end: u64) -> Vec<Extent> {
    let cut = |extent: Extent| {
        let left = end.saturating_sub(extent.logical);
        (left > 0).then_some(Extent {
            length: extent.length.min(left),
            ..extent
        })
    };
    extents.into_iter().filter_map(cut).collect()
}

/// Findings from the extents. The kernel's own report needs no comparison.
fn by_fiemap(extents: &[Extent], len: u64) -> Vec<Finding> {
    let placed = extents.iter().filter(|extent| extent.flags.is_placed());
    let lengths: Vec<u64> = placed.map(|extent| extent.length).collect();
    let Some(&largest) = lengths.iter().max() else {
        let unknown = |quantity| Finding::unknown(quantity, Error::NoExtents);
        return BY_FIEMAP.map(unknown).into();
    };
    let median = median(lengths.iter().map(|length| *length as f64));
    let count = lengths.len() as u64;
    let outside = 1.0 - largest as f64 / len.max(largest) as f64;
    let outside = (outside * 1000.0).round() / 1000.0;
    let mebibytes = len >> 20;
    let values: [(Value, Method); 3] = [
        (count.into(), Method::ExtentCount { mebibytes, count }),
        (largest.into(), Method::LargestExtent { count, median }),
        (outside.into(), Method::OutsideLargest { mebibytes }),
    ];
    let known = |(quantity, (value, how))| Finding::known(quantity, value, 1.0, how);
    BY_FIEMAP.into_iter().zip(values).map(known).collect()
}

/// Counts the device reads for a mebibyte with O_DIRECT, in place of extents if FIEMAP failed. A
/// mebibyte in several extents takes more reads.
fn device_reads(
    context: &mut Context<'_>,
    scratch: &Scratch<'_>,
    len: u64,
    errno: Errno,
) -> Result<Finding> {
    const QUANTITY: Quantity = Quantity::DeviceReadsPerMebibyte;
    const MOST: u64 = 64;
    let unknown = |reason| Finding::unknown(QUANTITY, Error::NoFiemap { errno, reason });
    let stat = std::ffi::CString::new(format!("/sys/dev/block/{}/stat", context.dir.device()));
    let reads = || -> Option<u64> {
        let text = read_kernel(stat.as_ref().ok()?).ok()?;
        let text = std::str::from_utf8(&text).ok()?;
        text.split_whitespace().next()?.parse().ok()
    };
    let Some(mut before) = reads() else {
        return Ok(unknown(NoDeviceReads::NoDevice));
    };
    let reader = match scratch.reopen_direct() {
        Ok(reader) => reader,
        Err(e) => return Ok(unknown(NoDeviceReads::NoDirectIo(e))),
    };
    let mut memory = Aligned::new(STEP as usize, 0);
    let mut counts = Vec::new();
    for at in (0..len.min(MOST * STEP)).step_by(STEP as usize) {
        context.spend(STEP, 0)?;
        if let Err(e) = pread64(&reader, memory.bytes(), at) {
            return Ok(unknown(NoDeviceReads::ReadFailed(e)));
        }
        let now = reads().unwrap_or(before);
        counts.push(now.saturating_sub(before));
        before = now;
    }
    let Some((usual, agreeing)) = mode(&counts) else {
        return Ok(unknown(NoDeviceReads::NothingToRead));
    };
    let mebibytes = counts.len();
    let method = Method::DeviceReads {
        errno,
        mebibytes,
        usual,
        agreeing,
    };
    let sure = agreeing as f64 / mebibytes as f64;
    Ok(Finding::known(QUANTITY, usual, sure, method).with_trials(mebibytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::fiemap::Flags;

    #[test]
    fn periods_are_the_same_where_they_overlap() {
        let range = |low, high| Value::Range(low, high);
        assert!(is_same_period(&range(83.0, 84.0), &Value::Number(80.0)));
        assert!(!is_same_period(&range(83.0, 84.0), &range(60.0, 70.0)));
        assert!(!is_same_period(&Value::Number(5.0), &Value::Number(10.0)));
    }

    #[test]
    fn space_that_was_allocated_and_not_written_is_ignored() {
        const MIB: u64 = 1 << 20;
        let extent = |logical: u64, physical: u64, length: u64| Extent {
            logical: logical * MIB,
            physical: physical * MIB,
            length: length * MIB,
            flags: Flags(0),
        };
        // The file has 350 MiB allocated, of which 16 MiB were written: 12 MiB in the first extent,
        // and 4 MiB in the second.
        let made = vec![extent(0, 100, 12), extent(12, 300, 338)];
        let found = by_fiemap(&merge(&before(made, 16 * MIB)), 16 * MIB);
        let value = |quantity| {
            found
                .iter()
                .find(|finding| finding.quantity == quantity)
                .and_then(|finding| finding.value().cloned())
        };
        assert_eq!(value(Quantity::Extents), Some(2_u64.into()));
        assert_eq!(value(Quantity::ExtentLargest), Some((12 * MIB).into()));
        assert_eq!(value(Quantity::FreeSpaceInPieces), Some(0.25.into()));
    }
}
