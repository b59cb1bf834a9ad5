//! What the process that does the experiments is doing, for progress and for the message that a
//! file system has stopped answering.

use serde::{Deserialize, Serialize};

use crate::names::SeenBy;

/// A step of the check that the file system answers at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the text says it")]
pub enum Check {
    #[error("open it")]
    Open,
    #[error("make a file in it")]
    Create,
    #[error("write to a file in it")]
    Write,
    #[error("bring a file in it to the disk")]
    Sync,
}

/// A step of an experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the text says it")]
pub enum Activity {
    #[error("timer: what each clock costs, and whether they run alike")]
    Clocks,
    #[error("block: one byte far into a hole, to see how much the file has then")]
    ByteInHole,
    #[error("block: 256-byte writes into a hole, to see which take longer")]
    SmallWrites,
    #[error("block: the least hole that gives something back")]
    LeastHole,
    #[error("block: what a read of one byte brings into memory")]
    OneByteRead,
    #[error("block: the paper's reads of 256 and 512 bytes, without readahead and with it")]
    SmallReads,
    #[error("block: reads past the page cache, ever less aligned")]
    DirectReads,
    #[error("readahead: writing a file of {mebibytes} MiB to read")]
    ReadaheadFile { mebibytes: u64 },
    #[error("readahead: {} after each read of a page shows every window", .by.name())]
    ReadaheadWindows { by: SeenBy },
    #[error(
        "readahead: the time of each read; the one that has the next window fetched takes longer"
    )]
    ReadaheadTimes,
    #[error(
        "cache: in {}, limited to {} MiB, {}",
        cgroup_words(*.own_cgroup), .limit >> 20, cache_method(*.two_passes)
    )]
    FillCache {
        own_cgroup: bool,
        limit: u64,
        two_passes: bool,
    },
    #[error("extent: up to {runs} times a mebibyte is written and waited for, as in the paper")]
    Syncs { runs: u64 },
    #[error("extent: where the file lies on the device")]
    Extents,
    #[error("gates: what an empty call costs")]
    EmptyCalls,
    #[error("gates: each call that needs no file of our own, on {threads} of the processors")]
    CallsWithoutFiles { threads: usize },
    #[error("gates: 4 KiB reads, from memory and from the disk")]
    ReadCalls,
    #[error("gates: each call, its answer in memory, on {threads} of the processors")]
    WarmCalls { threads: usize },
    #[error("gates: making, renaming and taking away, on {threads} of the processors")]
    ChangingCalls { threads: usize },
    #[error("gates: waiting until a byte is on the disk")]
    SyncCalls,
    #[error("gates: the same calls after the kernel has forgotten names and inodes")]
    ColdCalls,
}

fn cache_method(two_passes: bool) -> &'static str {
    if two_passes {
        "a file is read twice, at ever other lengths"
    } else {
        "the holes of a file are read until no more of it stays in memory"
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
