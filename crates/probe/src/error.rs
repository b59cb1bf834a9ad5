//! Why an experiment failed or was inconclusive.

use std::fmt;

use gate::{Errno, Gate};
use serde::{Deserialize, Serialize};

use crate::activity::{Activity, Check};
use crate::names::{Call, SampleCount};

/// Serializes an `Errno` that one process sends to another.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Errno")]
pub(crate) struct ErrnoCode(i32);

macro_rules! actions {
    ($($action:ident $gate:ident $text:literal,)*) => {
        /// The purpose of a system call that failed.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
        pub enum Purpose {
            $(#[doc = concat!("`", $text, "`")] $action,)*
        }

        impl Purpose {
            pub(crate) fn gate(self) -> Gate {
                match self { $(Purpose::$action => Gate::$gate,)* }
            }
        }

        impl fmt::Display for Purpose {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Purpose::$action => $text,)* })
            }
        }
    };
}

actions! {
    OpenDirectory Openat "cannot open the directory",
    StatDirectory Statx "cannot stat the directory",
    StatFileSystem Fstatfs "cannot read the file-system attributes",
    CreateFile Openat "cannot create a temporary file",
    CreateDirectory Mkdirat "cannot create a temporary directory",
    OpenScratchDirectory Openat "cannot open a temporary directory",
    NameTemporary Openat "cannot name a temporary file",
    Reopen Openat "cannot reopen the file",
    Write Pwrite64 "cannot write to the file",
    WriteHole Pwrite64 "cannot write into a hole",
    Read Pread64 "cannot read the file",
    Sync Fsync "cannot sync the file",
    Extend Ftruncate "cannot extend the file",
    DropCache Fadvise64 "cannot drop the file from the page cache",
    DisableReadahead Fadvise64 "cannot disable readahead",
    ReadResidency Cachestat "cannot read the page-cache residency",
    FindData Lseek "cannot find the data in the file",
    StatFile Statx "cannot stat the file",
    PunchHole Fallocate "cannot punch a hole",
    Allocate Fallocate "cannot allocate space for the file",
    Fork Unshare "cannot create a child process",
    EnterCgroup Write "cannot join the cgroup",
    ReturnHome Fchdir "cannot return to the current directory",
}

impl Purpose {
    /// Converts an errno to the error of this action. EINTR after a signal that asks fathom to end
    /// becomes [`Error::Interrupted`].
    pub(crate) fn failed(self) -> impl Fn(Errno) -> Error {
        let action = self;
        move |errno| match errno {
            Errno::EINTR if gate::interrupt::pending_signal().is_some() => Error::Interrupted,
            errno => Error::Call { action, errno },
        }
    }
}

/// An error in a file of samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the text says it")]
pub enum SampleFault {
    #[error("not a text file")]
    NotText,
    #[error("unknown series; docs/probe.md lists them")]
    UnknownSeries,
    #[error("the step is not a number of bytes")]
    BadStep,
    #[error("expected the run number and a time for each trial")]
    BadLine,
    #[error("the number of trials differs from the line before")]
    TrialCount,
    #[error("the runs are not in order")]
    Order,
    #[error("the line '# series: NAME' is missing; docs/probe.md describes the format")]
    NoSeries,
    #[error("the line '# step: BYTES' is missing")]
    NoStep,
    #[error("it has no samples")]
    Empty,
    #[error("it has more runs than any experiment makes")]
    TooManyRuns,
}

/// Why counting the reads of the device could not replace a failed FIEMAP.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the text says it")]
pub enum NoDeviceReads {
    #[error("there is no device whose reads can be counted")]
    NoDevice,
    #[error("direct I/O is not supported: {0}")]
    NoDirectIo(#[serde(with = "ErrnoCode")] Errno),
    #[error("a direct read failed: {0}")]
    ReadFailed(#[serde(with = "ErrnoCode")] Errno),
    #[error("there was nothing to read")]
    NothingToRead,
}

/// Why an experiment failed or was inconclusive.
#[derive(Clone, PartialEq, Debug, thiserror::Error, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the text says it")]
pub enum Error {
    // Errors of the environment: failed calls, limits, interruption.
    #[error("{action}: {errno}")]
    Call {
        action: Purpose,
        #[serde(with = "ErrnoCode")]
        errno: Errno,
    },
    /// ENOENT from an existing directory, as procfs and sysfs return it.
    #[error("{action}: this file system does not allow it")]
    TakesNoFiles { action: Purpose },
    #[error("the time limit was reached")]
    OutOfTime,
    #[error("the byte limit was reached")]
    OutOfBytes,
    #[error("interrupted")]
    Interrupted,
    #[error("cannot write to the file: short write")]
    ShortWrite,
    #[error("short read: the file is shorter than was written")]
    ShortRead,
    #[error("not enough space for a file of {}", mebibytes(*.bytes))]
    NoRoom { bytes: u64 },
    #[error("it needs named temporary files, which this command does not create")]
    UnnamedOnly,

    // Errors of the child process that runs the experiments.
    #[error("the file system did not answer within {seconds} s when asked to {check}{}", stays(.stuck))]
    NoAnswer {
        check: Check,
        seconds: u64,
        /// The PID of the process that could not be killed.
        stuck: Option<i32>,
    },
    /// An NFS server refuses writes during its grace period, 90 s after its start.
    #[error(
        "the server answers, but did not {check} within {seconds} s; an NFS server accepts no locks and writes in its grace period{}",
        stays(.stuck)
    )]
    NotWritable {
        check: Check,
        seconds: u64,
        stuck: Option<i32>,
    },
    #[error("the file system stopped answering during '{activity}'{}", stays(.stuck))]
    StoppedAnswering {
        activity: Activity,
        stuck: Option<i32>,
    },
    /// The child process still used CPU time, so the file system answers.
    #[error("'{activity}' took too long: the machine or the disk is slow or busy")]
    TooSlow { activity: Activity },
    #[error("the child process is blocked in the file system{}", stays(.stuck))]
    NotReleased { stuck: Option<i32> },
    #[error("the child process {}", ended(.signal))]
    ProcessEnded { signal: Option<i32> },
    #[error("the process that filled the page cache was killed")]
    CacheProcessKilled,

    // Errors about the page cache.
    #[error("neither cachestat(2) nor mincore(2) works here")]
    ResidencyUnknown,
    #[error("the file cannot be dropped from memory: the file system is in memory")]
    NotDropped,
    #[error("the file system is in memory: its files are not cached")]
    InMemory,
    #[error(
        "windows of {} are too few in a file of {} to be found by time",
        mebibytes(*.window), mebibytes(*.len)
    )]
    WindowTooLong { window: u64, len: u64 },
    #[error("{why}; the byte limit allows no file larger than {}", mebibytes(*.len))]
    LimitedFile { len: u64, why: Box<Error> },
    #[error("holes are not kept in the page cache here, or it cannot be observed")]
    HolesNotCached,
    #[error(
        "no memory cgroup is available, and filling all memory would evict the page cache of other processes"
    )]
    NoCgroup,
    #[error(
        "cannot create a memory cgroup ({0}), and filling all memory would evict the page cache of other processes"
    )]
    CgroupRefused(#[serde(with = "ErrnoCode")] Errno),
    #[error(
        "a cgroup limit of {limit} bytes cannot be used: give at least {least}, and less than is free"
    )]
    CgroupLimit { limit: u64, least: u64 },
    #[error("two passes over {limit} bytes transfer about {} bytes", 16 * .limit)]
    PassesTooLarge { limit: u64 },
    #[error(
        "a read from the disk takes hardly longer than one from memory, so that times cannot tell them apart"
    )]
    DiskAsFastAsMemory,

    // Errors about blocks and direct I/O.
    #[error("SEEK_DATA finds no data where some was written")]
    NoData,
    #[error("the file system reports no holes (SEEK_HOLE)")]
    NoHoles,
    #[error("times have a period of {}, which is less than a page", mebibytes(*.bytes))]
    ShorterThanPage { bytes: u64 },
    #[error("times show pages of {}, which hide smaller blocks", mebibytes(*.page))]
    HiddenByPages { page: u64 },
    #[error("neither writing a byte into a hole nor punching a hole changes st_blocks")]
    NoClusters,
    #[error("direct I/O is not supported: open(2) with O_DIRECT failed: {0}")]
    NoDirectIo(#[serde(with = "ErrnoCode")] Errno),
    #[error("the file system is in memory: there is no direct I/O")]
    NoDirectReadFromMemory,
    #[error("direct reads fail at every alignment")]
    NoDirectRead,

    // Errors about extents.
    #[error("the file system reports no extents for the file")]
    NoExtents,
    #[error("FS_IOC_FIEMAP failed: {errno}; {reason}")]
    NoFiemap {
        #[serde(with = "ErrnoCode")]
        errno: Errno,
        reason: NoDeviceReads,
    },

    // Errors about the prices of calls.
    #[error("{} ({}) could not be measured: {errno}", .call.name(), .call.target())]
    NotPriced {
        call: Call,
        #[serde(with = "ErrnoCode")]
        errno: Errno,
    },
    #[error("no call could be measured{}", .0.as_ref().map_or(String::new(), |why| format!(": {why}")))]
    NothingPriced(Option<Box<Error>>),
    #[error("the file system is in memory: names and inodes cannot be dropped")]
    NamesInMemory,
    #[error(
        "names and inodes cannot be dropped without affecting other processes: no cgroup is available"
    )]
    NoColdCgroup,
    #[error(
        "names and inodes cannot be dropped without affecting other processes: no cgroup can be created ({0})"
    )]
    ColdCgroupRefused(#[serde(with = "ErrnoCode")] Errno),
    #[error("names and inodes cannot be dropped here without affecting other processes")]
    NamesNotForgotten,

    // Errors of inconclusive samples.
    #[error("there were no samples")]
    NoSamples,
    #[error("{0}: no power of two of calls begins with a slower one")]
    NoBlock(SampleCount),
    #[error("{0}: the slow calls are not periodic")]
    NoPeriod(SampleCount),
    #[error("no readahead: each read fetched only its own page or block")]
    NoReadahead,
    #[error("reads without readahead (FADV_RANDOM) have the same period of {}", mebibytes(*.period))]
    NotReadahead { period: u64 },
    #[error("the window size did not become constant: {windows} windows in {reads} reads")]
    NoSteadyWindow { reads: usize, windows: usize },
    #[error("the second pass takes the same time per step at each of {lengths} lengths")]
    NoKnee { lengths: usize },
    #[error("{0}: all of it stayed in memory")]
    NotFilled(SampleCount),
    #[error("{samples}: {waits} waits were long, but not periodic")]
    NoSyncPeriod { samples: SampleCount, waits: usize },

    #[error("overwriting, which allocates nothing, has the same period")]
    NotExtents,

    // Errors in a file of samples.
    #[error("{}{fault}", if *.line == 0 { String::new() } else { format!("line {line}: ") })]
    Samples {
        /// The line number, from 1; 0 for the file as a whole.
        line: usize,
        fault: SampleFault,
    },
}

/// The result of an experiment's step.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The system call that failed, and its errno.
    pub(crate) fn refusal(&self) -> Option<(Gate, Errno)> {
        match self {
            Error::Call { action, errno } => Some((action.gate(), *errno)),
            Error::TakesNoFiles { action } => Some((action.gate(), Errno::ENOENT)),
            Error::NotPriced { call, errno } => call.gate().map(|gate| (gate, *errno)),
            Error::NothingPriced(Some(why)) => why.refusal(),
            _ => None,
        }
    }
}

fn mebibytes(bytes: u64) -> String {
    match bytes >> 20 {
        0 => format!("{} KiB", bytes >> 10),
        mib => format!("{mib} MiB"),
    }
}

fn stays(stuck: &Option<i32>) -> String {
    stuck.map_or(String::new(), |process| {
        format!("; process {process} remains until the server answers or ends")
    })
}

fn ended(signal: &Option<i32>) -> String {
    let ended = |signal| format!("was killed by signal {signal}");
    signal.map_or("failed".to_owned(), ended)
}
