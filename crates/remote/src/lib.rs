//! Objects of S3 stores, read by ranges and written in parts, and restic repositories on servers.
//!
//! | module | contents |
//! |---|---|
//! | `client` | opens objects, and caches clients of buckets |
//! | `bucket` | requests to a bucket |
//! | `error` | converts the store's responses to `catalog::StoreError` |
//! | `object` | an object opened for reading, at any offset or in order |
//! | `repository` | the files of a restic repository in a bucket |
//! | `rest` | the files of a restic repository on a rest-server |
//! | `retry` | how long failed requests are repeated, and notices about them |
//! | `runtime` | the thread that makes all requests |
//! | `settings` | credentials, endpoint, timeouts |
//! | `transport` | adds a condition to an upload's completion, and reports repeated requests |
//! | `upload` | an object opened for writing |
//! | `url` | the parts of a URL |
//!
//! One thread with a current-thread runtime makes all requests; the functions of this crate wait
//! for it. Nothing else in the program is asynchronous.
#![forbid(unsafe_code)]

#[cfg(feature = "cloud")]
mod bucket;
#[cfg(feature = "cloud")]
mod client;
#[cfg(feature = "cloud")]
mod error;
#[cfg(feature = "cloud")]
mod object;
#[cfg(feature = "cloud")]
mod repository;
#[cfg(feature = "cloud")]
mod rest;
#[cfg(feature = "cloud")]
mod retry;
#[cfg(feature = "cloud")]
mod runtime;
#[cfg(feature = "cloud")]
mod settings;
#[cfg(feature = "cloud")]
mod transport;
#[cfg(feature = "cloud")]
mod upload;
#[cfg(feature = "cloud")]
mod url;

#[cfg(feature = "cloud")]
pub use client::Client;
#[cfg(feature = "cloud")]
pub use retry::{Notice, OnNotice};
