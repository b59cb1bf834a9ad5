//! Definitions that all crates share.
//!
//! | module | contents |
//! |---|---|
//! | [`btrfs`] | searches of btrfs's trees |
//! | [`capacity`] | space and inodes of a file system, and the percentages of df(1) |
//! | [`path`] | paths as bytes |
//! | [`warning`] | what was skipped or found wrong |
//! | [`directory`] | the entries of a directory |
//! | [`runs`] | times of the runs of a method or an engine, and their statistics |
//! | [`pool`] | work that threads share |
//! | [`child`] | work in a process of its own, within limits |
//! | [`log`] | a log that a child process writes and its parent reads |
#![forbid(unsafe_code)]

pub mod btrfs;
pub mod capacity;
pub mod child;
pub mod directory;
pub mod log;
pub mod path;
pub mod pool;
pub mod runs;
pub mod warning;

pub use capacity::Capacity;
pub use ondisk::named;
pub use warning::{Warning, WarningReason, Warnings};
