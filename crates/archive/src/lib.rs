//! What is kept of a tree, to be looked at later: archives of it, its catalog, and what has changed since.
//!
//! | room | what is in it |
//! |---|---|
//! | [`catalog`] | a Parquet file with a row for each entry: written, read |
//! | [`changed`](mod@changed) | what was added, changed, removed and renamed since one |
//! | [`input`] | reads an archive, from wherever it comes |
//! | [`part`] | the file systems that a tree is made of, by what stays when device numbers change |
//! | [`restore`](mod@restore) | a tree made from archives |
//! | [`token`] | what a file system says of itself that changes whenever anything in it does |
#![forbid(unsafe_code)]

pub mod catalog;
pub mod changed;
pub mod input;
pub mod part;
pub mod restore;
pub mod token;

use gate::fs::Open;

/// The absolute name of a directory, where there is one.
fn absolute(dir: &[u8]) -> Option<Vec<u8>> {
    mounts::root::name_of(&gate::long::open_long(dir, Open::PATH | Open::DIRECTORY).ok()?).ok()
}
