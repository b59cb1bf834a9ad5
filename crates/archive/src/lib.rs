//! Archives of a tree, its catalog, and what changed since a catalog was written.
//!
//! | module | contents |
//! |---|---|
//! | [`account`] | measures what each way of gathering costs |
//! | `background` | runs work in other threads |
//! | [`catalog`] | reads and writes catalogs: Parquet files with one row per entry |
//! | [`changed`](mod@changed) | what was added, changed, removed and renamed since a catalog |
//! | [`dump`](mod@dump) | writes trees into an archive |
//! | [`compression`] | the compressed formats of archives |
//! | [`compressor`] | compresses frames with zstd in one buffer |
//! | `decompress`, `stream` | read compressed archives |
//! | `destination` | a file or an object that is complete or absent |
//! | `error`, `warning` | why something was not done, or skipped |
//! | [`find`](mod@find) | finds files in all dumps of a state directory, by their catalogs |
//! | [`gather`](mod@gather) | collects the metadata of a tree before any file is read |
//! | `hidden` | entries that may exist although a walk has not found them |
//! | [`increment`] | what an incremental archive must contain |
//! | [`input`] | reads an archive from a file or a pipe |
//! | `linked` | finds files of which only a further name is wanted |
//! | [`list`] | lists the members of archives |
//! | [`names`] | reads names and patterns from files |
//! | [`nightly`] | estimates the cost of a nightly dump |
//! | [`part`] | the file systems of a tree, identified by source and subvolume |
//! | `passwd` | names and numbers of users and groups |
//! | `pattern` | PATHs with wildcards |
//! | [`plan`] | what a dump writes of each row |
//! | [`query`] | passes the entries of catalogs to a sink |
//! | `ranges` | a file or an object that is read at any offset |
//! | [`remote`] | objects of a store, named by a URL |
//! | [`restore`](mod@restore) | restores a tree from archives |
//! | [`rows`] | the metadata of a whole tree in memory, packed |
//! | `route` | the way through an archive to a few members, by its index |
//! | `seek` | reads the seek table and the index of an archive |
//! | [`run`] | the parts in a directory that several processes wrote in one run |
//! | [`since`] | the cheapest way to tell what has changed since a catalog |
//! | [`snapshot`] | the catalog of a tree whose snapshots are in a repository |
//! | `stored` | how values are stored in the footer of a catalog |
//! | [`tick`] | the ticks of a file system's clock |
//! | [`token`] | the state of a file system (a generation, a log position), to prove that nothing changed |
//! | [`verify`](mod@verify) | checks an archive, alone or against a tree |
#![forbid(unsafe_code)]

pub mod account;
pub mod catalog;
pub mod changed;
pub mod compression;
pub mod compressor;
mod decompress;
mod destination;
pub mod dump;
mod error;
pub mod find;
pub mod gather;
mod hidden;
pub mod increment;
pub mod input;
mod linked;
pub mod list;
pub mod names;
pub mod nightly;
pub mod part;
mod passwd;
mod pattern;
pub mod plan;
pub mod query;
mod ranges;
pub mod remote;
pub mod restore;
mod route;
pub mod rows;
pub mod run;
mod seek;
pub mod since;
pub mod snapshot;
mod stored;
mod stream;
pub mod tick;
pub mod token;
mod trusted;
pub mod verify;
mod warning;

pub use dump::users::Users;
pub use error::{
    Action, BadName, Damage, Defect, Error, ErrorKind, FileSystemId, MissingParts, NotArchive,
    Result,
};
pub use remote::StoreError;
pub use restore::owners::Owners;
pub use warning::WarningKind;

use base::path::split;
use gate::fs::Open;

/// The names in a path, without those that mean nothing: `.`, and what slashes before, after and behind
/// one another enclose.
fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let parts = path.split(|&byte| byte == b'/');
    parts.filter(|part| !matches!(*part, b"" | b"."))
}

/// A name as it appears in a message: on one line, and without control characters.
fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).escape_debug().to_string()
}

/// The first eight bytes of a name as a number, which decide the order of most pairs of names.
fn head(name: &[u8]) -> u64 {
    let mut head = [0; 8];
    let len = name.len().min(8);
    head[..len].copy_from_slice(&name[..len]);
    u64::from_be_bytes(head)
}

/// Calls a function if the thread panics while this value lives, so that no other thread waits for
/// it forever.
struct OnPanic<F: Fn()>(F);

impl<F: Fn()> Drop for OnPanic<F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.0)();
        }
    }
}

/// The absolute path of a file, if its directory has one.
fn absolute_file(path: &[u8]) -> Option<Vec<u8>> {
    let (dir, name) = split(path);
    let dir = match dir {
        b"" if path.starts_with(b"/") => b"/",
        b"" => b".",
        dir => dir,
    };
    Some(walk::entry::joined(&absolute(dir)?, name))
}

/// The absolute path of a directory, if it has one.
fn absolute(dir: &[u8]) -> Option<Vec<u8>> {
    mounts::root::name_of(&gate::long::open_long(dir, Open::PATH | Open::DIRECTORY).ok()?).ok()
}
