//! The methods that find mount points by searching the file tree, one file each.
//!
//! | method | order and names | what prunes it | what it sees |
//! |---|---|---|---|
//! | [`naive`] | depth first, full names | nothing | changes of `st_dev` |
//! | [`getmnt1`] | depth first, relative names | the depth bound | likewise |
//! | [`getmnt2`] | likewise | + leaves of the table of device pairs | likewise |
//! | [`getmnt3`] | breadth first, bunched names, whole directories | + the tree of that table, /dev | likewise |
//! | [`search`] | the table's names first, then breadth first | ids and parents | roots of mounts: bind mounts and files too |
//!
//! `naive` to `getmnt3` are the programs of the papers of 1988; see docs/papers.md.

pub(crate) mod breadth;
mod context;
mod depth;
pub mod getmnt1;
pub mod getmnt2;
pub mod getmnt3;
pub mod naive;
pub mod search;

pub use context::{SearchContext, SearchProgress};
