//! End-to-end tests of `fathom changed`, and of the catalogs that it goes by. Each builds what it
//! needs in a mount namespace of its own, which takes root.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the tests build and check past the gate"
)]

#[path = "../support/mod.rs"]
mod support;

mod catalogs;
mod diff;
mod kinds;
mod replay;
mod since;
mod times;
mod tools;
