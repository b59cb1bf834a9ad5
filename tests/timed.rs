//! End-to-end tests of the commands that measure time: each runs alone.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the tests build and check past the gate"
)]

mod account;
mod pathsearch;
mod probe;
mod support;
