//! Walking a tree: everything under a directory, with all that statx(2) says of it, by the cheapest
//! way there is.
//!
//! | room | what is in it |
//! |---|---|
//! | [`entry`] | what is known of a file |
//! | [`attribution`] | what kind of entry a call is made for |
//! | [`digest`] | a hash over a tree that does not depend on order or engine |
//! | [`sink`] | where entries go |
//! | [`filter`] | what is left out |
//! | [`job`] | what an engine is given: one mount, from a directory down |
//! | [`engine`] | one file per engine: `stat`, `threads`, `bulkstat`, `btrfs`, `ext4`, `percall` |
//! | [`moment`] | from when on nothing that was read is believed |
//! | [`plan`] | which engine, and why |
//! | [`traversal`] | the question itself, [`walk()`]: a job for each mount that the tree crosses |
//! | [`explain`](mod@explain) | which engine a walk would take, and why, without walking |
//! | [`compare`](mod@compare) | every engine on one tree, each in a process of its own |
//! | [`summary`] | totals and digest of a walk |
//! | `usage` | the disk usage of each directory |
//! | `largest` | the largest files |
#![forbid(unsafe_code)]

pub mod attribution;
pub mod compare;
pub mod digest;
pub mod engine;
pub mod entry;
mod error;
pub mod explain;
pub mod filter;
pub mod job;
mod kind;
mod largest;
pub mod moment;
pub mod plan;
pub mod sink;
pub mod summary;
pub mod traversal;
mod usage;

pub use digest::Digest;
pub use engine::{Engine, MountContext};
pub use entry::{Dir, Entry, Meta, Type};
pub use error::{EngineAction, EngineRefusal, Error, WarningKind};
pub use explain::{Explained, explain};
pub use filter::Filter;
pub use job::{Diagnostics, Job, Top};
pub use kind::EngineKind;
pub use largest::{LargeFile, Largest};
pub use moment::Moment;
pub use plan::{Plan, PlanReason, Scope};
pub use sink::{Both, Sink, Worker};
pub use summary::{Summary, Totals};
pub use traversal::{Part, WalkOptions, WalkReport, mounts_around, open_top, walk};
pub use usage::{DirectoryUsage, Sums, Usage, UsageSink};
