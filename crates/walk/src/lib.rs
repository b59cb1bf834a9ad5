//! Walks a tree: lists every entry below a directory, with all that statx(2) returns for it, by the
//! engine that costs least there.
//!
//! | module | contents |
//! |---|---|
//! | [`entry`] | an entry and its metadata |
//! | [`digest`] | a hash over a tree, the same for every order and engine |
//! | `key` | identifies the directories of a walk |
//! | [`path_id`] | numbers of entries in one process, by their paths |
//! | `sink` | the receiver of the entries |
//! | [`group`] | totals by owner, extension, directory, age and so on |
//! | `exclusive` | what deleting a directory would free |
//! | `filter` | excluded names and the depth limit |
//! | `shard` | one of several parts of a tree, each walked by a process of its own |
//! | `tags` | files that mark directories whose contents are excluded |
//! | `around` | the mount table, and which mounts do not answer |
//! | `top` | the directory where a job begins, and what is known of its mount |
//! | `missing` | what a directory lists, but the kernel does not find: removed, or a fault |
//! | `job` | the work of an engine: one mount, from a directory down |
//! | [`engine`] | one file per engine: `stat`, `threads`, `bulkstat`, `btrfs`, `ext4`, `percall` |
//! | [`moment`] | a time to compare change times with |
//! | [`predicate`] | which entries are printed and counted |
//! | `owners` | which files share an extent |
//! | `plan` | chooses the engine of a mount, where none was requested, and says why |
//! | `blocked` | the files that threads wait for, for a message |
//! | `traversal` | [`walk()`], and [`walk_together()`] by all ranks: a job for each mount |
//! | [`explain`](mod@explain) | the engines that a walk would use, and why, without walking |
//! | [`compare`](mod@compare) | every engine on one tree, each in a process of its own |
//! | `directories` | entries by directory, to a depth of 2 |
//! | `summary` | totals and digest of a walk |
//! | `usage` | the disk usage of each directory |
//! | `largest` | the largest files |
#![forbid(unsafe_code)]

mod around;
mod blocked;
pub mod compare;
#[cfg(debug_assertions)]
pub mod crafted;
pub mod digest;
mod directories;
pub mod engine;
pub mod entry;
mod error;
mod exclusive;
pub mod explain;
mod filter;
pub mod group;
mod job;
mod key;
mod kind;
mod largest;
mod missing;
pub mod moment;
mod owners;
pub mod path_id;
mod plan;
pub mod predicate;
mod shard;
mod sink;
mod summary;
mod tags;
mod top;
mod trail;
mod traversal;
mod usage;

pub use around::{DEADLINE, ReachableMounts};
pub use blocked::blocked_paths;
pub use digest::Digest;
pub use directories::{DirectoryCount, DirectoryCounts};
pub use entry::{Dir, Entry, FileType, Meta};
pub use error::{EngineAction, EngineRefusal, Error, WarningKind};
pub use exclusive::{UnknownOwners, UnreadExtents};
pub use explain::{EngineChoice, ExplainedPlan, explain};
pub use filter::{Filter, Matcher};
pub use job::{Diagnostics, Engine, Job, scan};
pub use key::DirKey;
pub use kind::EngineKind;
pub use largest::{LargeFile, Largest, LargestFiles};
pub use moment::Moment;
pub use plan::{Plan, PlanReason, WalkScope};
pub use shard::Shard;
pub use sink::{Fields, Sink, SinkPair, Worker};
pub use summary::{Summary, Totals};
pub use tags::{FoundTags, Tags};
pub use top::{MountContext, Top, check_same_directory, mounts_around, open_top};
pub use trail::{KeptPath, PathTree};
pub use traversal::{WalkOptions, WalkReport, WalkedMount, walk, walk_together};
pub use usage::{DirectoryUsage, Sums, Usage, UsageOrder, UsageSink};
