//! End-to-end tests of `fathom mounts`. Each builds what it needs in a mount namespace of its own,
//! which takes root.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the tests build and check past the gate"
)]

#[path = "../support/mod.rs"]
mod support;

mod beneath;
mod boundaries;
mod check;
mod compare;
mod counts;
mod fire;
mod formats;
mod hints;
mod methods;
mod usage;
mod watch;
