//! What is kept of a tree, to be looked at later: its catalog, and what has changed since.
//!
//! | room | what is in it |
//! |---|---|
//! | [`catalog`] | a Parquet file with a row for each entry: written, read |
//! | [`changed`](mod@changed) | what was added, changed, removed and renamed since one |
//! | [`part`] | the file systems that a tree is made of, by what stays when device numbers change |
//! | [`token`] | what a file system says of itself that changes whenever anything in it does |
#![forbid(unsafe_code)]

pub mod catalog;
pub mod changed;
pub mod increment;
pub mod part;
pub mod token;

use gate::fs::Open;

/// The absolute name of a directory, where there is one.
fn absolute(dir: &[u8]) -> Option<Vec<u8>> {
    mounts::root::name_of(&gate::long::open_long(dir, Open::PATH | Open::DIRECTORY).ok()?).ok()
}
