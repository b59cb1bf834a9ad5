//! What the process that does the experiments is doing, for progress and for the message that a
//! file system has stopped answering.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::names::SeenBy;

/// A step of the check that the file system answers at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Check {
    /// Open the directory.
    Open,
    /// Create a file.
    Create,
    /// Write a byte.
    Write,
    /// Sync it to the disk.
    Sync,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Check::Open => "open it",
            Check::Create => "make a file in it",
            Check::Write => "write to a file in it",
            Check::Sync => "bring a file in it to the disk",
        })
    }
}

/// A step of an experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the text says it")]
pub enum Activity {
    Clocks,
    ByteInHole,
    SmallWrites,
    LeastHole,
    OneByteRead,
    SmallReads,
    DirectReads,
    ReadaheadFile {
        mebibytes: u64,
    },
    ReadaheadWindows {
        by: SeenBy,
    },
    ReadaheadTimes,
    FillCache {
        own_cgroup: bool,
        limit: u64,
        two_passes: bool,
    },
    Syncs {
        runs: u64,
    },
    Extents,
    EmptyCalls,
    CallsWithoutFiles {
        threads: usize,
    },
    ReadCalls,
    WarmCalls {
        threads: usize,
    },
    ChangingCalls {
        threads: usize,
    },
    SyncCalls,
    ColdCalls,
}

impl Activity {
    /// The text of a step without data.
    fn text(self) -> &'static str {
        match self {
            Activity::Clocks => "timer: what each clock costs, and whether they run alike",
            Activity::ByteInHole => {
                "block: one byte far into a hole, to see how much the file has then"
            }
            Activity::SmallWrites => "block: 256-byte writes into a hole, to see which take longer",
            Activity::LeastHole => "block: the least hole that gives something back",
            Activity::OneByteRead => "block: what a read of one byte brings into memory",
            Activity::SmallReads => {
                "block: the paper's reads of 256 and 512 bytes, without readahead and with it"
            }
            Activity::DirectReads => "block: reads past the page cache, ever less aligned",
            Activity::ReadaheadTimes => {
                "readahead: the time of each read; the one that has the next window fetched takes longer"
            }
            Activity::Extents => "extent: where the file lies on the device",
            Activity::EmptyCalls => "gates: what an empty call costs",
            Activity::ReadCalls => "gates: 4 KiB reads, from memory and from the disk",
            Activity::SyncCalls => "gates: waiting until a byte is on the disk",
            Activity::ColdCalls => {
                "gates: the same calls after the kernel has forgotten names and inodes"
            }
            _ => "",
        }
    }
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Activity::ReadaheadFile { mebibytes } => {
                write!(f, "readahead: writing a file of {mebibytes} MiB to read")
            }
            Activity::ReadaheadWindows { by } => write!(
                f,
                "readahead: {} after each read of a page shows every window",
                by.name()
            ),
            Activity::FillCache {
                own_cgroup,
                limit,
                two_passes,
            } => {
                let cgroup = cgroup_words(own_cgroup);
                let way = if two_passes {
                    "a file is read twice, at ever other lengths"
                } else {
                    "the holes of a file are read until no more of it stays in memory"
                };
                write!(
                    f,
                    "cache: in {cgroup}, limited to {} MiB, {way}",
                    limit >> 20
                )
            }
            Activity::Syncs { runs } => write!(
                f,
                "extent: up to {runs} times a mebibyte is written and waited for, as in the paper"
            ),
            Activity::CallsWithoutFiles { threads } => write!(
                f,
                "gates: each call that needs no file of our own, on {threads} of the processors"
            ),
            Activity::WarmCalls { threads } => write!(
                f,
                "gates: each call, its answer in memory, on {threads} of the processors"
            ),
            Activity::ChangingCalls { threads } => write!(
                f,
                "gates: making, renaming and taking away, on {threads} of the processors"
            ),
            fixed => f.write_str(fixed.text()),
        }
    }
}

/// The cgroup in which the cache is filled.
pub fn cgroup_words(own: bool) -> &'static str {
    if own {
        "a cgroup of its own"
    } else {
        "the cgroup that it is in"
    }
}
