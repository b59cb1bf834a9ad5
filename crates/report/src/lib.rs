//! Pure data in; tables, JSON and other formats out. Nothing here does I/O.
//!
//! | room | what is in it |
//! |---|---|
//! | [`probe`] | what the experiments on a file system have found |
//! | [`pathsearch`] | the path searches of a command |
//! | [`startup`] | what starting programs costs |
#![forbid(unsafe_code)]

pub mod pathsearch;
pub mod probe;
pub mod startup;
