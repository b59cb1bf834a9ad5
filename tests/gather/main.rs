//! The rows that a dump gathers before it reads files: the same by all four methods.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the tests build and check past the gate"
)]

#[path = "../support/mod.rs"]
mod support;

mod same;
mod sources;
