//! What is kept of a tree, to be looked at later: archives of it, its catalog, and what has changed
//! since.
//!
//! | room | what is in it |
//! |---|---|
//! | [`account`] | what each way of gathering takes |
//! | [`attribution`] | what calls and CPU time are for |
//! | `beside` | work that is done in a thread of its own, where there can be one |
//! | [`catalog`] | a Parquet file with a row for each entry: written, read |
//! | [`changed`](mod@changed) | what was added, changed, removed and renamed since one |
//! | [`dump`](mod@dump) | trees into an archive |
//! | [`increment`] | what an archive needs hold, when there are older ones |
//! | [`input`] | reads an archive, from wherever it comes |
//! | `error` | the error of this crate |
//! | [`gather`](mod@gather) | everything that is to be known of a tree before any of it is read |
//! | [`list`] | goes through archives |
//! | [`nightly`] | what a nightly dump would cost |
//! | [`part`] | the file systems that a tree is made of, by what stays when device numbers change |
//! | [`plan`] | what is to be written, row by row |
//! | `passwd` | names and numbers of users and groups |
//! | [`restore`](mod@restore) | a tree made from archives |
//! | [`rows`] | a whole tree in memory, small |
//! | [`since`] | the cheapest way to tell what has changed since a catalog |
//! | `stored` | how values are stored in the footer of a catalog |
//! | [`tick`] | the ticks of a file system's clock |
//! | [`token`] | what a file system says of itself that changes whenever anything in it does |
//! | [`verify`](mod@verify) | whether an archive is whole, and whether a tree is as it says |
#![forbid(unsafe_code)]

pub mod account;
pub mod attribution;
mod beside;
pub mod catalog;
pub mod changed;
pub mod dump;
mod error;
pub mod gather;
pub mod increment;
pub mod input;
pub mod list;
pub mod nightly;
pub mod part;
mod passwd;
pub mod plan;
pub mod restore;
pub mod rows;
pub mod since;
mod stored;
pub mod tick;
pub mod token;
pub mod verify;

pub use error::{Action, BadName, Damage, Error, ErrorKind, FileSystemId, NotArchive, Result};

use gate::fs::Open;

/// A name within a message, which is one line and goes to terminals.
fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).escape_debug().to_string()
}

/// The first eight bytes of a name, as a number: what they say of the order of two names is mostly
/// all.
fn head(name: &[u8]) -> u64 {
    let mut head = [0; 8];
    let len = name.len().min(8);
    head[..len].copy_from_slice(&name[..len]);
    u64::from_be_bytes(head)
}

/// Does something if its thread dies while it is there, for others who would wait for that one.
struct OnPanic<F: Fn()>(F);

impl<F: Fn()> Drop for OnPanic<F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.0)();
        }
    }
}

/// The absolute name of a directory, where there is one.
fn absolute(dir: &[u8]) -> Option<Vec<u8>> {
    mounts::root::name_of(&gate::long::open_long(dir, Open::PATH | Open::DIRECTORY).ok()?).ok()
}
