//! End-to-end tests of `fathom restore`: archives of other programs are restored, and the trees are
//! compared.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the tests build and check past the gate"
)]

#[path = "../support/mod.rs"]
mod support;

mod foreign;
mod hostile;
mod increments;
mod others;
mod safety;
mod strip;
mod threads;
mod usage;
