//! End-to-end tests of `fathom restore`: archives that others wrote, restored and compared with
//! what they were made of.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the tests build and check past the gate"
)]

#[path = "../support/mod.rs"]
mod support;

mod hostile;
mod increments;
mod others;
mod usage;
