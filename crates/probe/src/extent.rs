//! `extent`: how a file lies on the device.
//!
//! The paper writes a mebibyte at a time, waits for each with fsync(2), and takes the distance of
//! the longer waits for the length of an extent. The kernel says where the extents are (FIEMAP);
//! the paper's experiment is done all the same, and judged. A file that lies in many extents was
//! written where free space is in pieces.

use gate::cache::Aligned;
use gate::extent::fiemap;
use gate::extent::{Allocate, fallocate};
use gate::file::read_kernel;
use gate::fs::pread64;
use gate::{Errno, Fd, Gate};
use ondisk::fiemap::{Extent, merge, parse};

use crate::desk::{Desk, Trouble};
use crate::finding::{Experiment, Finding, Value};
use crate::infer::robust::{median, mode};
use crate::infer::series::judge;
use crate::place::{Place, Scratch};
use crate::samples::{Kind, Series};
use crate::work::{noise, sync, write_all};

/// What is written at a time.
const STEP: u64 = 1 << 20;
/// How often, where there is room: as often as in the paper.
const RUNS: u64 = 350;
/// With fewer there is nothing to be seen.
const FEWEST: u64 = 16;

/// All of it.
pub fn extent(
    place: &Place,
    desk: &mut Desk<'_>,
    series: &mut Vec<Series>,
) -> Result<Vec<Finding>, Trouble> {
    const ALL: [&str; 4] = [
        "extents",
        "extent-largest",
        "free-space-in-pieces",
        "extent-by-time",
    ];
    match measure(place, desk, series) {
        Err(Trouble::Interrupted) => Err(Trouble::Interrupted),
        Err(why) => Ok(ALL
            .map(|name| Finding::hindered(Experiment::Extent, name, unit(name), &why))
            .into()),
        Ok(found) => Ok(found),
    }
}

fn unit(name: &str) -> &'static str {
    match name {
        "extents" => "extents",
        "free-space-in-pieces" => "share",
        _ => "bytes",
    }
}

fn measure(
    place: &Place,
    desk: &mut Desk<'_>,
    series: &mut Vec<Series>,
) -> Result<Vec<Finding>, Trouble> {
    let scratch = place.scratch()?;
    let runs = RUNS.min(place.room() / STEP).min(desk.bytes_left() / STEP);
    if runs < FEWEST {
        return Err(Trouble::Hindered(format!(
            "there is no room for a file of {FEWEST} MiB"
        )));
    }
    desk.go_on(&format!(
        "extent: up to {runs} times a mebibyte is written and waited for, as in the paper"
    ))?;
    let file = &scratch.file;
    // As in the paper, room is made first; where that cannot be, the file grows as it is written.
    if let Err(e @ (Errno::ENOSPC | Errno::EDQUOT)) =
        fallocate(file, Allocate::Room, 0, runs * STEP)
    {
        return Err(Trouble::refused(
            "cannot make room for the file",
            Gate::Fallocate,
        )(e));
    }
    let mut bytes = vec![0; STEP as usize];
    let mut waits = Vec::new();
    // A third of the time at most: slow disks have fewer runs.
    let until = desk.time_left() * 2 / 3;
    for run in 0..runs {
        if run >= FEWEST && desk.time_left() < until {
            break;
        }
        desk.spend(0, STEP)?;
        noise(&mut bytes, run + 1);
        write_all(file, &bytes, run * STEP)?;
        let begun = desk.clock.now();
        sync(file)?;
        waits.push(desk.clock.since(begun));
    }
    let len = waits.len() as u64 * STEP;
    let samples = Series::one(Kind::Syncs, STEP, waits);
    let by_time = judge(&samples);
    series.push(samples);

    desk.go_on("extent: where the file lies on the device")?;
    let mut found = match extents(file) {
        Ok(extents) => lies(&merge(&before(extents, len)), len),
        Err(Errno::EINTR) => return Err(Trouble::Interrupted),
        Err(refused) => vec![device_reads(place, desk, &scratch, len, refused)?],
    };
    let largest = found
        .iter()
        .find(|finding| finding.name == "extent-largest")
        .and_then(|f| f.inferred.clone());
    let truth = largest.map(|largest| (largest, "FS_IOC_FIEMAP, the largest extent".to_owned()));
    found.extend(
        by_time
            .into_iter()
            .map(|finding| finding.beside(truth.clone(), 0.05)),
    );
    Ok(found)
}

/// The extents of a file, all of them.
fn extents(file: &Fd) -> Result<Vec<Extent>, Errno> {
    /// More than any file of ours has.
    const MOST: usize = 1 << 20;
    let mut buffer = vec![0; 4 + 7 * 512];
    let mut all: Vec<Extent> = Vec::new();
    let mut from = 0;
    while all.len() < MOST {
        fiemap(file, from, &mut buffer)?;
        let some = parse(&buffer);
        let Some(last) = some.last() else { break };
        let end = last.logical.saturating_add(last.length);
        let is_last = last.flags.is_last();
        all.extend(some);
        if is_last || end <= from {
            break;
        }
        from = end;
    }
    Ok(all)
}

/// What of the extents lies before a place in the file. Where the disk is slow, room was made for
/// more than was then written.
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

/// What the extents say.
fn lies(extents: &[Extent], len: u64) -> Vec<Finding> {
    // This is the kernel's own word: there is nothing to hold it against.
    let known = |name, value: Value, method: String| {
        Finding::known(
            Experiment::Extent,
            name,
            unit(name),
            value,
            1.0,
            method + " (FS_IOC_FIEMAP)",
        )
    };
    let placed: Vec<&Extent> = extents
        .iter()
        .filter(|extent| extent.flags.is_placed())
        .collect();
    let Some(largest) = placed.iter().map(|extent| extent.length).max() else {
        let why = "the file lies in no place that the file system would name";
        return ["extents", "extent-largest", "free-space-in-pieces"]
            .map(|name| Finding::unknown(Experiment::Extent, name, unit(name), why))
            .into();
    };
    let middle = median(placed.iter().map(|extent| extent.length as f64));
    let count = placed.len() as u64;
    let shared = 1.0 - largest as f64 / len.max(largest) as f64;
    let mib = len >> 20;
    vec![
        known(
            "extents",
            count.into(),
            format!(
                "what lies side by side on the device taken for one, {mib} MiB lie in {count} pieces"
            ),
        ),
        known(
            "extent-largest",
            largest.into(),
            format!("the largest of {count}; half of them are over {middle} bytes"),
        ),
        known(
            "free-space-in-pieces",
            ((shared * 1000.0).round() / 1000.0).into(),
            format!(
                "what share of {mib} MiB found no room beside its largest piece; 0 where free space is whole"
            ),
        ),
    ]
}

/// Where FIEMAP is refused: how many reads the device does for a mebibyte past the page cache. One
/// that lies in pieces takes more than one that does not.
fn device_reads(
    place: &Place,
    desk: &mut Desk<'_>,
    scratch: &Scratch<'_>,
    len: u64,
    refused: Errno,
) -> Result<Finding, Trouble> {
    const NAME: &str = "device-reads-per-mebibyte";
    const MOST: u64 = 64;
    let unknown = |why: String| {
        Ok(Finding::unknown(
            Experiment::Extent,
            NAME,
            "reads",
            format!("FS_IOC_FIEMAP says {refused}; {why}"),
        ))
    };
    let stat = std::ffi::CString::new(format!("/sys/dev/block/{}/stat", place.device()));
    let reads = || -> Option<u64> {
        let text = read_kernel(stat.as_ref().ok()?).ok()?;
        std::str::from_utf8(&text)
            .ok()?
            .split_whitespace()
            .next()?
            .parse()
            .ok()
    };
    let Some(mut before) = reads() else {
        return unknown("and there is no device whose reads could be counted".to_owned());
    };
    let reader = match scratch.reopen_direct() {
        Ok(reader) => reader,
        Err(e) => return unknown(format!("and there are no reads past the page cache: {e}")),
    };
    let mut memory = Aligned::new(STEP as usize, 0);
    let mut counts = Vec::new();
    for at in (0..len.min(MOST * STEP)).step_by(STEP as usize) {
        desk.spend(STEP, 0)?;
        if let Err(e) = pread64(&reader, memory.bytes(), at) {
            return unknown(format!("and a read past the page cache says {e}"));
        }
        let now = reads().unwrap_or(before);
        counts.push(now.saturating_sub(before));
        before = now;
    }
    let Some((usual, agree)) = mode(&counts) else {
        return unknown("and there was nothing to read".to_owned());
    };
    let method = format!(
        "FS_IOC_FIEMAP says {refused}; each of {} mebibytes past the page cache, and the device's own count of reads: {usual} \
         for {agree} of them (others that read from the device count too)",
        counts.len()
    );
    let sure = agree as f64 / counts.len() as f64;
    Ok(Finding::known(Experiment::Extent, NAME, "reads", usual, sure, method).tried(counts.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::fiemap::Flags;

    #[test]
    fn room_that_was_not_written_is_not_looked_at() {
        const MIB: u64 = 1 << 20;
        let extent = |logical: u64, physical: u64, length: u64| Extent {
            logical: logical * MIB,
            physical: physical * MIB,
            length: length * MIB,
            flags: Flags(0),
        };
        // Sixteen were written of 350: 12 and 4 of them lie apart.
        let made = vec![extent(0, 100, 12), extent(12, 300, 338)];
        let found = lies(&merge(&before(made, 16 * MIB)), 16 * MIB);
        let value = |name| {
            found
                .iter()
                .find(|finding| finding.name == name)
                .and_then(|finding| finding.inferred.clone())
        };
        assert_eq!(value("extents"), Some(2_u64.into()));
        assert_eq!(value("extent-largest"), Some((12 * MIB).into()));
        assert_eq!(value("free-space-in-pieces"), Some(0.25.into()));
    }
}
