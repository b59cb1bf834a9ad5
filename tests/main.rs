//! End-to-end tests of the program: a module for each command and each kind of document. Tests that
//! measure time are in `timed.rs`, and tests of MPI jobs in `jobs.rs`.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the tests build and check past the gate"
)]

mod changed;
#[cfg(feature = "cloud")]
mod cloud;
mod compare;
mod dump;
mod gather;
mod install;
mod list;
mod mounts;
mod page;
mod pathwalk;
mod profiles;
mod readme;
#[cfg(feature = "restic")]
mod restic;
mod restore;
mod space;
mod support;
mod survey;
mod usage;
mod verify;
mod voice;
mod walk;
