//! Archives of a tree: dump, restore, list and verify, and the dumps of a state directory.
//!
//! | module | contents |
//! |---|---|
//! | [`account`] | measures the cost of each gathering method |
//! | [`dump`](mod@dump) | writes trees into an archive |
//! | [`compression`] | the compression formats of archives |
//! | `decompress` | reads compressed archives |
//! | `error`, `warning` | why an operation failed, or an entry was skipped |
//! | [`find`](mod@find) | finds files in all dumps of a state directory, by their catalogs |
//! | [`gather`](mod@gather) | collects the metadata of a tree before any file is read |
//! | [`increment`] | plans the contents of an incremental archive |
//! | [`input`] | reads an archive from a file or a pipe |
//! | `linked` | finds the contents of files selected only by a further hard link |
//! | [`list`] | lists the members of archives |
//! | [`names`] | reads names and patterns from files |
//! | [`nightly`] | estimates the cost of a nightly dump |
//! | `passwd` | names and numbers of users and groups |
//! | `pattern` | PATHs: names and patterns |
//! | [`plan`] | what a dump writes of each row |
//! | [`restore`](mod@restore) | restores a tree from archives |
//! | `route` | finds some members of an archive by its index |
//! | `seek` | reads the seek table and the index of an archive |
//! | [`run`] | the parts in a directory that several processes wrote in one run |
//! | [`snapshot`] | the catalog of a tree whose snapshots are in a repository |
//! | [`verify`](mod@verify) | checks an archive, alone or against a tree |
#![forbid(unsafe_code)]

pub mod account;
pub mod compression;
mod decompress;
pub mod dump;
mod error;
pub mod find;
pub mod gather;
pub mod increment;
pub mod input;
mod linked;
pub mod list;
pub mod names;
pub mod nightly;
mod passwd;
mod pattern;
pub mod plan;
pub mod restore;
mod route;
pub mod run;
mod seek;
pub mod snapshot;
pub mod verify;
mod warning;

pub use dump::users::Users;
pub use error::{Action, BadName, Damage, Defect, Error, ErrorKind, NotArchive, Result};
pub use restore::owners::Owners;
pub use warning::WarningKind;
