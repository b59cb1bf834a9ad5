//! End-to-end tests of `fathom list`, and of the archives that it and others read: made by GNU tar
//! and bsdtar and read by us, made by our own layer and read by GNU tar, bsdtar and Python.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the tests build and check past the gate"
)]

#[path = "../support/mod.rs"]
mod support;

mod compressed;
mod hostile;
mod made;
mod usage;
mod written;
