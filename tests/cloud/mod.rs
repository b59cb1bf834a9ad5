//! Tests of archives and catalogs in object stores, with the feature `cloud`: on the S3 gateway of
//! Versity or a different server, through a proxy that injects faults.

mod patience;
mod reading;
mod recipes;
pub(crate) mod server;
mod state;
mod tls;
mod writing;
