//! Why an experiment could not be done, or could not tell.

use std::fmt;

use gate::{Errno, Gate};
use serde::{Deserialize, Serialize};

use crate::activity::{Activity, Check};
use crate::names::{Call, SampleCount};

/// `Errno` as it is passed between processes.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Errno")]
pub(crate) struct ErrnoCode(i32);

macro_rules! actions {
    ($($action:ident $gate:ident $text:literal,)*) => {
        /// What a system call that failed was for.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
        pub enum Action {
            $(#[doc = concat!("`", $text, "`")] $action,)*
        }

        impl Action {
            pub(crate) fn gate(self) -> Gate {
                match self { $(Action::$action => Gate::$gate,)* }
            }
        }

        impl fmt::Display for Action {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Action::$action => $text,)* })
            }
        }
    };
}

actions! {
    OpenDirectory Openat "cannot open the directory",
    StatDirectory Statx "cannot look at the directory",
    StatFileSystem Fstatfs "cannot ask for the file system",
    CreateFile Openat "cannot make a file to experiment on",
    CreateDirectory Mkdirat "cannot make a directory to experiment in",
    OpenScratchDirectory Openat "cannot open a directory to experiment in",
    NameTemporary Openat "cannot name a temporary file",
    Reopen Openat "cannot open the file once more",
    Write Pwrite64 "cannot write to the file",
    WriteHole Pwrite64 "cannot write into a hole",
    Read Pread64 "cannot read the file",
    Sync Fsync "cannot bring the file to the disk",
    Extend Ftruncate "cannot make the file longer",
    DropCache Fadvise64 "cannot drop the file from memory",
    DisableReadahead Fadvise64 "cannot turn readahead off",
    ReadResidency Cachestat "cannot see what is in memory",
    FindData Lseek "cannot see where the data lies",
    StatFile Statx "cannot see what the file takes up",
    PunchHole Fallocate "cannot punch a hole",
    Allocate Fallocate "cannot make room for the file",
    Fork Unshare "cannot make a process for it",
    EnterCgroup Write "cannot enter the group",
    ReturnHome Fchdir "cannot go back to the current directory",
}

impl Action {
    /// Turns an errno into the error of this action. EINTR after a signal that asks the program to
    /// end is [`Error::Interrupted`].
    pub(crate) fn failed(self) -> impl Fn(Errno) -> Error {
        let action = self;
        move |errno| match errno {
            Errno::EINTR if gate::interrupt::asked().is_some() => Error::Interrupted,
            errno => Error::Call { action, errno },
        }
    }
}

/// What is wrong with a file of samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the text says it")]
pub enum SampleFault {
    #[error("it is not text")]
    NotText,
    #[error("no such series; see docs/probe.md")]
    UnknownSeries,
    #[error("the step is no number of bytes")]
    BadStep,
    #[error("a line is the number of the run and a time for each trial")]
    BadLine,
    #[error("it has not as many trials as the line before it")]
    TrialCount,
    #[error("the runs are not in order")]
    Order,
    #[error("a line '# series: NAME' must say what was measured; see docs/probe.md")]
    NoSeries,
    #[error("a line '# step: BYTES' must say how far apart the runs are")]
    NoStep,
    #[error("there are no samples in it")]
    Empty,
    #[error("there are more runs in it than any experiment makes")]
    TooManyRuns,
}

/// Why the device's own count of reads did not help where FIEMAP failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the text says it")]
pub enum NoDeviceReads {
    #[error("there is no device whose reads could be counted")]
    NoDevice,
    #[error("there are no reads past the page cache: {0}")]
    NoDirectIo(#[serde(with = "ErrnoCode")] Errno),
    #[error("a read past the page cache says {0}")]
    ReadFailed(#[serde(with = "ErrnoCode")] Errno),
    #[error("there was nothing to read")]
    NothingToRead,
}

/// Why an experiment could not be done, or could not tell.
#[derive(Clone, PartialEq, Debug, thiserror::Error, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the text says it")]
pub enum Error {
    // The environment: a call failed, a limit was reached, the program is to end.
    #[error("{action}: {errno}")]
    Call {
        action: Action,
        #[serde(with = "ErrnoCode")]
        errno: Errno,
    },
    /// ENOENT from a directory that exists, as procfs and sysfs say it.
    #[error("{action}: {errno}; its file system takes no files", errno = Errno::ENOENT)]
    TakesNoFiles { action: Action },
    #[error("there was no time left")]
    OutOfTime,
    #[error("it had read and written as much as it may")]
    OutOfBytes,
    #[error("interrupted")]
    Interrupted,
    #[error("cannot write to the file: it takes nothing more")]
    ShortWrite,
    #[error("the file is shorter than it was made")]
    ShortRead,
    #[error("there is no room for a file of {}", mebibytes(*.bytes))]
    NoRoom { bytes: u64 },
    #[error("nothing that has a name is made here unasked")]
    UnnamedOnly,

    // The process that does the experiments.
    #[error("its file system did not answer within {seconds} s when asked to {check}{}", stays(.stuck))]
    NoAnswer {
        check: Check,
        seconds: u64,
        /// The process that could not be killed.
        stuck: Option<i32>,
    },
    #[error("its file system stopped answering in the middle of '{activity}'{}", stays(.stuck))]
    StoppedAnswering {
        activity: Activity,
        stuck: Option<i32>,
    },
    #[error("its file system does not let go of the process that has asked it{}", stays(.stuck))]
    NotReleased { stuck: Option<i32> },
    #[error("the process that does the experiments {}", ended(.signal))]
    ProcessEnded { signal: Option<i32> },
    #[error("the process that filled the cache was killed")]
    CacheProcessKilled,

    // What the page cache does.
    #[error("neither cachestat(2) nor mincore(2) sees what is in memory")]
    ResidencyUnknown,
    #[error("the kernel does not forget the file: it is kept in memory, and nowhere else")]
    NotDropped,
    #[error("its files are in memory and nowhere else: there is no cache of them")]
    InMemory,
    #[error("holes that are read do not stay in memory here, or it is not to be seen")]
    HolesNotCached,
    #[error(
        "the process is in no group whose memory is limited, and to fill all memory would take from everybody else; no \
         memory cgroup is to be seen"
    )]
    NoCgroup,
    #[error(
        "the process is in no group whose memory is limited, and to fill all memory would take from everybody else; a group \
         with a limit of its own cannot be made ({0}): run as root, or in a container with a limit"
    )]
    CgroupRefused(#[serde(with = "ErrnoCode")] Errno),
    #[error(
        "a group with {limit} bytes of memory cannot be filled here: {least} or more, and less than is free"
    )]
    CgroupLimit { limit: u64, least: u64 },
    #[error("two passes around {limit} bytes move some {} bytes", 16 * .limit)]
    PassesTooLarge { limit: u64 },
    #[error(
        "a read from the disk takes hardly longer here than one from memory: times cannot tell them apart"
    )]
    DiskAsFastAsMemory,

    // Blocks and direct I/O.
    #[error("SEEK_DATA finds no data where some was written")]
    NoData,
    #[error("the file system shows no holes: SEEK_HOLE takes all of the file for data")]
    NoHoles,
    #[error(
        "the file takes up nothing more when a byte is written into a hole (st_blocks), and holes give nothing back"
    )]
    NoClusters,
    #[error("there are no reads past the page cache here: open(2) with O_DIRECT says {0}")]
    NoDirectIo(#[serde(with = "ErrnoCode")] Errno),
    #[error("the file is kept in memory, and nowhere else: no read goes past that")]
    NoDirectReadFromMemory,
    #[error("no read past the page cache is done, however it is aligned")]
    NoDirectRead,

    // Extents.
    #[error("the file lies in no place that the file system would name")]
    NoExtents,
    #[error("FS_IOC_FIEMAP says {errno}; and {reason}")]
    NoFiemap {
        #[serde(with = "ErrnoCode")]
        errno: Errno,
        reason: NoDeviceReads,
    },

    // The prices of calls.
    #[error("{} ({}) could not be priced: {errno}", .call.name(), .call.target())]
    NotPriced {
        call: Call,
        #[serde(with = "ErrnoCode")]
        errno: Errno,
    },
    #[error("no call could be priced{}", .0.as_ref().map_or(String::new(), |why| format!("; not all could be priced: {why}")))]
    NothingPriced(Option<Box<Error>>),
    #[error("its names and inodes are in memory and nowhere else: none are forgotten")]
    NamesInMemory,
    #[error("no group of its own can be had, to forget names and inodes in without harm to others")]
    NoColdCgroup,
    #[error(
        "no group of its own can be had, to forget names and inodes in without harm to others ({0})"
    )]
    ColdCgroupRefused(#[serde(with = "ErrnoCode")] Errno),
    #[error("names and inodes cannot be forgotten here, without harm to others")]
    NamesNotForgotten,

    // What samples do not say.
    #[error("there were no samples")]
    NoSamples,
    #[error("{0}: no power of two of them begins with one that takes longer")]
    NoBlock(SampleCount),
    #[error("{0}: those that take longer come at no one distance")]
    NoPeriod(SampleCount),
    #[error("each read had just its own page fetched: there is no readahead")]
    NoReadahead,
    #[error("in {reads} reads the windows did not come to one length: {windows} of them")]
    NoSteadyWindow { reads: usize, windows: usize },
    #[error("the second time through costs the same a step for each of {lengths} lengths")]
    NoKnee { lengths: usize },
    #[error("all of {0} stayed in memory")]
    NotFilled(SampleCount),
    #[error("no signal here: {samples}; {waits} waits were long, and at no one distance")]
    NoSyncPeriod { samples: SampleCount, waits: usize },

    // A file of samples.
    #[error("{}{fault}", if *.line == 0 { String::new() } else { format!("line {line}: ") })]
    Samples {
        /// From 1; 0 for the file as a whole.
        line: usize,
        fault: SampleFault,
    },
}

/// The result of an experiment's step.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The system call that failed, and how.
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
        format!("; process {process} waits for it in the kernel, and ends when its server answers or ends")
    })
}

fn ended(signal: &Option<i32>) -> String {
    let ended = |signal| format!("was ended by signal {signal}");
    signal.map_or("has failed".to_owned(), ended)
}
