//! Objects of S3 stores, read by ranges and written in parts, and restic repositories on servers.
//!
//! | module | contents |
//! |---|---|
//! | `client` | opens objects, and knows the buckets that were used |
//! | `bucket` | a bucket: requests |
//! | `error` | the store's answers as `catalog::StoreError` |
//! | `object` | an object that is read, at any offset or in order |
//! | `repository` | the files of a restic repository in a bucket |
//! | `rest` | the files of a restic repository on a rest-server |
//! | `retry` | how long failed requests are repeated, and who is told |
//! | `runtime` | the thread that makes all requests |
//! | `settings` | credentials, endpoint, patience |
//! | `transport` | completes an upload on a condition, tells that a request is repeated |
//! | `upload` | an object that is written |
//! | `url` | the parts of a URL |
//!
//! All requests are made by one thread with a current-thread runtime; the functions here wait for it.
//! Nothing else in the program is asynchronous.
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
