//! End-to-end tests of MPI jobs with several ranks, with the feature `mpi`.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the tests build and check past the gate"
)]

mod mpi;
#[cfg(feature = "cloud")]
#[path = "cloud/server.rs"]
#[allow(dead_code, reason = "the tests of stores use the rest of it")]
mod server;
mod support;
