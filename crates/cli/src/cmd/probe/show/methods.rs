//! How a finding was made, or why it was not, in words.

use std::borrow::Cow;

use gate::Errno;
use probe::Finding;
use probe::activity::cgroup_words;
use probe::error::Error;
use probe::finding::{
    CacheBound, ClockReason, Distrust, Method, Note, Outcome, PeriodBy, Source, WindowFigure,
};

/// How a finding was made, or why it was not.
pub(crate) fn method(finding: &Finding) -> String {
    let text = outcome(&finding.outcome);
    match finding.note {
        Some(note) => text + &note_text(note),
        None => text,
    }
}

/// An error and what to do about it.
pub(crate) fn hinted(why: &Error) -> String {
    format!("{why}{}", hint(why))
}

/// What to do about an error.
fn hint(why: &Error) -> &'static str {
    match why {
        Error::Call { errno, .. } => match *errno {
            Errno::ENOSPC => "; make room, or let it use less with --max-bytes",
            Errno::EDQUOT => "; the quota is used up: let it use less with --max-bytes",
            Errno::EROFS => "; nothing can be written here: it is read-only",
            Errno::EACCES | Errno::EPERM => "; give a directory that you may enter and write in",
            Errno::ENOENT | Errno::ESTALE => "; is the directory still there?",
            Errno::ENOTDIR => "; give a directory",
            _ => "",
        },
        Error::OutOfTime => "; --max-seconds gives more",
        Error::OutOfBytes => "; --max-bytes gives more",
        Error::PassesTooLarge { .. } => "; --max-bytes allows so many",
        Error::UnnamedOnly => ": fathom probe does, and takes it away again",
        Error::NoAnswer { .. } | Error::StoppedAnswering { .. } | Error::NotReleased { .. } => {
            "; fathom mounts --check says which mounts hang"
        }
        Error::NothingPriced(Some(why)) => hint(why),
        _ => "",
    }
}

fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Found { method, .. } => method_text(method),
        Outcome::LookedUp(bound) => {
            let why = match bound {
                CacheBound::Cgroup => {
                    "page cache counts in the limit of the cgroup that the process is in".to_owned()
                }
                CacheBound::Memory(available) => {
                    let now = available.map_or(String::new(), |bytes| {
                        format!(", {} MiB of it now (MemAvailable)", bytes >> 20)
                    });
                    format!(
                        "no cgroup limits it, so that the page cache may take all memory that is not in use{now}"
                    )
                }
            };
            format!("looked up, and not measured: {why}")
        }
        Outcome::Disagree(both) => {
            let [by_256, by_512] = both.each_ref().map(self::outcome);
            format!("reads of 256 and of 512 bytes do not say the same: {by_256}; {by_512}")
        }
        Outcome::Unknown(why) => hinted(why),
    }
}

fn note_text(note: Note) -> String {
    match note {
        Note::ConfirmedBy512 => "; 512 bytes each time give the same".to_owned(),
        Note::ContradictedByResidency => "; what was seen in memory says otherwise".to_owned(),
        Note::SeenBy(call) => format!(", by {}", call.name()),
        Note::OwnCgroup { available } => format!(
            "; this was in {}, whose limit was chosen: outside, {} MiB could be had (MemAvailable)",
            cgroup_words(true),
            available >> 20
        ),
        Note::CurrentCgroup { others } => {
            let cgroup = cgroup_words(false);
            format!("; with {others} bytes of other files, this was in {cgroup}")
        }
    }
}

fn method_text(method: &Method) -> String {
    clock_method(method)
        .or_else(|| block_method(method))
        .or_else(|| series_method(method))
        .unwrap_or_else(|| device_method(method))
}

/// The methods of `timer`.
fn clock_method(method: &Method) -> Option<String> {
    Some(match method {
        Method::QuickestBatch { batches, readings } => {
            format!("the quickest of {batches} times {readings} looks")
        }
        Method::LeastStep => {
            "the least that two looks in a row lay apart, if they were not the same".to_owned()
        }
        Method::Windows {
            windows,
            millis,
            figure,
        } => {
            let over = format!("the worst of {windows} windows of {millis} ms, against CLOCK_MONOTONIC_RAW");
            match figure {
                WindowFigure::Worst => over,
                WindowFigure::WorstOfSteered => format!("{over}; the clock on the wall is steered"),
                WindowFigure::Spread => format!("how far {over} of its speeds lie apart"),
            }
        }
        Method::TscChecked(reasons) if reasons.is_empty() => {
            "it runs at one speed, the kernel goes by it, and it never ran backwards".to_owned()
        }
        Method::TscChecked(reasons) => {
            let reasons: Vec<_> = reasons.iter().map(distrust).collect();
            reasons.join("; ")
        }
        Method::ClockChosen(reason) => match reason {
            ClockReason::TscCheaper => {
                "the counter may be trusted, and a look at it costs less than half".to_owned()
            }
            ClockReason::EntersKernel(ns) => format!(
                "a look costs {ns:.0} ns: it enters the kernel each time (no vDSO), and short calls look long"
            ),
            ClockReason::RawGoodEnough => {
                "it costs hardly more than the counter, is in nanoseconds, and is there on every machine".to_owned()
            }
        },
        _ => return None,
    })
}

fn distrust(reason: &Distrust) -> Cow<'static, str> {
    match reason {
        Distrust::NoCounter => "the processor has no counter that is read in order (rdtscp)".into(),
        Distrust::NotInvariant => "its speed may change with the processor's".into(),
        Distrust::ClockSource(name) => format!("the kernel goes by {name}").into(),
        Distrust::Drift { windows, ppm } => {
            format!("its speed in {windows} windows differed by {ppm:.0} millionths").into()
        }
        Distrust::Backwards => "it ran backwards from one processor to the next".into(),
    }
}

/// The methods of `block`, save those from samples.
fn block_method(method: &Method) -> Option<String> {
    Some(match method {
        Method::DataLength {
            places,
            length,
            agreeing,
        } => format!(
            "one byte at each of {places} odd places in a sparse file, brought to the disk: from SEEK_DATA to SEEK_HOLE it was \
             {length} bytes {agreeing} times"
        ),
        Method::Cluster {
            grown: Some(grown),
            hole: None,
        } => format!(
            "a byte in a hole had the file take up {grown} bytes more (st_blocks); no hole gave anything back"
        ),
        Method::Cluster {
            grown: Some(grown),
            hole: Some(hole),
        } if grown == hole => format!(
            "a byte in a hole had the file take up {hole} bytes more (st_blocks), and so long is the least hole that gives something back"
        ),
        Method::Cluster { grown, hole } => {
            let hole = hole.unwrap_or_default();
            let but = grown.map_or(String::new(), |grown| {
                format!(", but a byte in a hole took up {grown}")
            });
            format!(
                "the least hole that gives something back (st_blocks) is {hole} bytes long{but}"
            )
        }
        Method::OneByteRead {
            bytes,
            by,
            agreeing,
            trials,
        } => format!(
            "a read of one byte had {bytes} bytes in memory, by {}, {agreeing} of {trials} times",
            by.name()
        ),
        Method::DirectReads { align } => format!(
            "reads of {align} bytes at byte {align} are done past the page cache; of less, none was"
        ),
        _ => return None,
    })
}

/// The methods that judge samples.
fn series_method(method: &Method) -> Option<String> {
    Some(match method {
        Method::FirstOfGroup {
            kind,
            samples,
            step,
            runs,
        } => format!(
            "{samples} {} of {step} bytes each: the first of each {runs} takes longer, and {runs} x {step} = {}",
            kind.calls(),
            runs * step
        ),
        Method::EachNth {
            reads,
            step,
            by,
            n,
            first,
        } => {
            let by = match by {
                PeriodBy::Comb => "a comb laid over the times",
                PeriodBy::Peaks => "the distances of the peaks",
            };
            let odd = first.map_or(String::new(), |first| {
                format!(
                    ". Only the first distance is {first}: the first window is opened by a read that finds nothing, the others \
                     by one that comes upon the mark which the window before has set"
                )
            });
            format!(
                "{reads} reads of {step} bytes each, {by}: each {n}th takes longer; {n} x {step} = {} bytes come at one time{odd}",
                n * step
            )
        }
        Method::AllButFirst { fetched } => format!(
            "of the {fetched} that come at one time, 1 was asked for; the other {} are there before anybody asks",
            fetched - 1
        ),
        Method::AfterFirstRead => "what was in memory when the first page had been read".to_owned(),
        Method::EachRead => {
            "what each read had the kernel fetch, until it was always the same".to_owned()
        }
        Method::LaterWindows { alike, windows } => {
            format!("what each later window held: {alike} of {windows} were alike")
        }
        Method::UnreadAtFetch => {
            "how much was still unread when the next steady window was fetched".to_owned()
        }
        Method::SecondPass { bytes, step, run } => format!(
            "the second time through up to {bytes} bytes costs the same for each {step}; from run {run} on it costs more: \
             not all was still in memory"
        ),
        Method::HolesFilled { steps, step, after } => format!(
            "{steps} steps of {step} bytes of a file's holes were read; what stayed in memory no longer grew after step {after}"
        ),
        Method::LongSyncs {
            samples,
            step,
            waits,
            low,
            high,
        } => format!(
            "{samples} times {step} bytes were written and waited for; {waits} waits were long, {low} to {high} apart"
        ),
        _ => return None,
    })
}

/// The methods of `extent` and `gates`.
fn device_method(method: &Method) -> String {
    match method {
        Method::ExtentCount { mebibytes, count } => format!(
            "what lies side by side on the device taken for one, {mebibytes} MiB lie in {count} pieces (FS_IOC_FIEMAP)"
        ),
        Method::LargestExtent { count, median } => {
            format!("the largest of {count}; half of them are over {median} bytes (FS_IOC_FIEMAP)")
        }
        Method::OutsideLargest { mebibytes } => format!(
            "what share of {mebibytes} MiB found no room beside its largest piece; 0 where free space is whole (FS_IOC_FIEMAP)"
        ),
        Method::DeviceReads {
            errno,
            mebibytes,
            usual,
            agreeing,
        } => format!(
            "FS_IOC_FIEMAP says {errno}; each of {mebibytes} mebibytes past the page cache, and the device's own count of reads: \
             {usual} for {agreeing} of them (others that read from the device count too)"
        ),
        Method::EmptyCalls { calls, incomplete } => {
            let incomplete = incomplete.as_deref().map_or(String::new(), |why| {
                format!("; not all could be priced: {}", hinted(why))
            });
            format!(
                "getppid(2), which does nothing in the kernel, {calls} times: what every call costs at least{incomplete}"
            )
        }
        _ => String::new(),
    }
}

/// Where the kernel reports a value.
pub(crate) fn source(source: &Source) -> &str {
    match source {
        Source::Statfs => "statfs(2), f_frsize",
        Source::Page => "the page of memory, or the block where it is larger",
        Source::Superblock => "the superblock, s_log_cluster_size",
        Source::Statx => "statx(2), stx_dio_offset_align",
        Source::Sysinfo => "sysinfo(2)",
        Source::Fiemap => "FS_IOC_FIEMAP, the largest extent",
        Source::File(path) => path,
    }
}
