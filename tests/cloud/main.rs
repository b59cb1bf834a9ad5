//! Archives and catalogs in object stores, with the feature `cloud`: on the S3 gateway of Versity or another
//! server, and through a proxy that makes faults.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the tests build and check past the gate"
)]

#[path = "../support/mod.rs"]
mod support;

mod reading;
mod recipes;
mod server;
mod services;
mod state;
mod tls;
mod writing;
