//! The current step of the child process that runs the experiments, for progress and for the
//! message that a file system does not answer.

use serde::{Deserialize, Serialize};

use crate::names::SeenBy;

/// A step of the check that the file system answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the text says it")]
pub enum Check {
    #[error("open it")]
    Open,
    #[error("create and lock a file in it")]
    Create,
    #[error("write to a file in it")]
    Write,
    #[error("sync a file in it")]
    Sync,
}

/// A step of an experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the text says it")]
pub enum Activity {
    #[error("timer: cost and drift of the clocks")]
    Clocks,
    #[error("block: write single bytes into holes")]
    ByteInHole,
    #[error("block: time 256-byte writes into a hole")]
    SmallWrites,
    #[error("block: find the smallest hole that frees space")]
    LeastHole,
    #[error("block: find what a read of one byte caches")]
    OneByteRead,
    #[error("block: time reads of 256 and 512 bytes")]
    SmallReads,
    #[error("block: direct reads with smaller and smaller alignment")]
    DirectReads,
    #[error("readahead: write a file of {mebibytes} MiB")]
    ReadaheadFile { mebibytes: u64 },
    #[error("readahead: read page by page, {} after each", .by.name())]
    ReadaheadWindows { by: SeenBy },
    #[error("readahead: time each read")]
    ReadaheadTimes,
    #[error(
        "cache: {2} in {0}, limit {1} MiB",
        cgroup_words(*.own_cgroup), .limit >> 20, cache_method(*.two_passes)
    )]
    FillCache {
        own_cgroup: bool,
        limit: u64,
        two_passes: bool,
    },
    #[error("extent: write and sync 1 MiB, up to {runs} times")]
    Syncs { runs: u64 },
    #[error("extent: read the extents of the file")]
    Extents,
    #[error("gates: time an empty call")]
    EmptyCalls,
    #[error("gates: time calls that need no temporary file, threads: {threads}")]
    CallsWithoutFiles { threads: usize },
    #[error("gates: time 4 KiB reads, cached and from disk")]
    ReadCalls,
    #[error("gates: time cached calls, threads: {threads}")]
    WarmCalls { threads: usize },
    #[error("gates: time create, rename and unlink, threads: {threads}")]
    ChangingCalls { threads: usize },
    #[error("gates: time fsync")]
    SyncCalls,
    #[error("gates: time calls that are not cached")]
    ColdCalls,
}

fn cache_method(two_passes: bool) -> &'static str {
    if two_passes {
        "read a file twice, at several lengths"
    } else {
        "read holes until no more stays cached"
    }
}

/// Names the cgroup in which the page cache is filled.
pub fn cgroup_words(own: bool) -> &'static str {
    if own {
        "a temporary cgroup"
    } else {
        "the current cgroup"
    }
}
