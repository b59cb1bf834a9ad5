//! Shared by the end-to-end tests: a private mount namespace, file systems to mount in it, the
//! program under test, and a reference implementation to compare it with.

#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "each test binary uses its own part"
)]

pub(crate) mod build;
pub(crate) mod clock;
pub(crate) mod concurrent;
pub(crate) mod disks;
pub(crate) mod effort;
pub(crate) mod fuse;
pub(crate) mod hold;
pub(crate) mod holder;
pub(crate) mod namespace;
pub(crate) mod need;
pub(crate) mod pack;
pub(crate) mod profile;
pub(crate) mod proxy;
pub(crate) mod recipe;
pub(crate) mod reference;
pub(crate) mod repeat;
pub(crate) mod restrict;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod skip;
pub(crate) mod slow_mirror;
pub(crate) mod snapshot;
pub(crate) mod strace;
pub(crate) mod synthetic;
pub(crate) mod terminal;
pub(crate) mod tool;
pub(crate) mod trees;
pub(crate) mod wait;

pub(crate) use namespace::in_namespace;
pub(crate) use need::{Need, require};
pub(crate) use run::{fathom, fathom_path, run};
