//! Archives and catalogs in object stores, with the feature `cloud`: on the S3 gateway of Versity or another
//! server, and through a proxy that makes faults.

mod patience;
mod reading;
mod recipes;
pub(crate) mod server;
mod state;
mod tls;
mod writing;
