//! Types and functions that all crates share.
//!
//! | module | contents |
//! |---|---|
//! | [`path`] | paths as bytes |
//! | [`warning`] | warnings about skipped or inconsistent parts |
//! | [`runs`] | times of repeated runs, and their statistics |
//! | [`pool`] | work that threads share |
//! | [`child`] | work in a child process, within limits |
#![forbid(unsafe_code)]

pub mod child;
pub mod path;
pub mod pool;
pub mod runs;
pub mod warning;

pub use warning::{Warning, WarningReason, Warnings};
