//! What a dump knows of a tree before it reads it: the same by each of the four ways to gather it.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the tests build and check past the gate"
)]

#[path = "../support/mod.rs"]
mod support;

mod same;
mod sources;
