//! Objects of S3 stores, read by ranges and written by multipart upload, and restic repositories on servers.
//!
//! | module | contents |
//! |---|---|
//! | `client` | opens objects, and knows the buckets that were used |
//! | `bucket` | a bucket: credentials, endpoint, requests |
//! | `conditional` | completes an upload on a condition |
//! | `error` | the store's answers as `archive::StoreError` |
//! | `object` | an object that is read, at any offset or in order |
//! | `repository` | the files of a restic repository in a bucket |
//! | `rest` | the files of a restic repository on a rest-server |
//! | `runtime` | the thread that makes all requests |
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
mod conditional;
#[cfg(feature = "cloud")]
mod error;
#[cfg(feature = "cloud")]
mod object;
#[cfg(feature = "cloud")]
mod repository;
#[cfg(feature = "cloud")]
mod rest;
#[cfg(feature = "cloud")]
mod runtime;
#[cfg(feature = "cloud")]
mod upload;
#[cfg(feature = "cloud")]
mod url;

#[cfg(feature = "cloud")]
pub use client::Client;
