//! The end-to-end tests of jobs of several ranks, with the feature `mpi`.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the tests build and check past the gate"
)]

mod mpi;
mod support;
