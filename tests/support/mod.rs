//! What the end-to-end tests share: a private mount namespace, things to mount in it, the program
//! under test, and what it must find, worked out without it.

#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "each test binary uses its own part"
)]

pub(crate) mod build;
pub(crate) mod disks;
pub(crate) mod far;
pub(crate) mod fuse;
pub(crate) mod jail;
pub(crate) mod meanwhile;
pub(crate) mod namespace;
pub(crate) mod need;
pub(crate) mod pack;
pub(crate) mod reference;
pub(crate) mod remote;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod snapshot;
pub(crate) mod strace;
pub(crate) mod terminal;
pub(crate) mod trees;

pub(crate) use namespace::in_namespace;
pub(crate) use need::{Need, require};
pub(crate) use run::{fathom, run};
