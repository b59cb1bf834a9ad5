//! Path search as a load on a file system: what looking for a name in one directory after another
//! costs.
//!
//! | room | what is in it |
//! |---|---|
//! | [`bench`](mod@bench) | LLNL's benchmark pathwalk: a tree made for it, searched and removed |
//! | [`search`] | the path searches of a command |
#![forbid(unsafe_code)]

pub mod bench;
pub mod search;
