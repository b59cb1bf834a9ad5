//! Mount points: the kernel's table of them, the tree that they make, and the searches of the file
//! tree for them.
//!
//! | room | what is in it |
//! |---|---|
//! | [`table`] | reading the kernel's table: `kernel` (listmount, statmount), `mountinfo`, and which of the two is cheaper here |
//! | [`tree`] | which mounts a path reaches, which are hidden, which are leaves |
//! | [`method`] | one file per method: `naive`, `getmnt1`, `getmnt2`, `getmnt3`, `search` |
//! | [`pairs`] | the papers' table of <device, parent device> pairs |
//! | [`root`] | the directory at which a question begins |
//! | [`locate`](mod@locate) | the question itself: every mount point at or under a directory |
//! | [`compare`] | every method on one tree, each in a process of its own |
//! | [`check`] | which mounts answer |
//! | [`beneath`] | what lies hidden under a mount point |
//! | [`diagnosis`] | mounts that are hidden, unresponsive, duplicate or otherwise unusual |
//! | [`boundaries`] | where the file system changes and the table says nothing |
//! | [`servers`] | the machines behind network mounts |
//! | [`names`] | names of devices |
//! | [`watch`] | attaches and detaches as they happen |
//! | [`warning`] | what was skipped or found wrong |
#![forbid(unsafe_code)]

pub mod beneath;
pub mod boundaries;
pub mod check;
pub mod compare;
pub mod diagnosis;
mod error;
mod kind;
pub mod locate;
pub mod method;
pub mod names;
pub mod pairs;
pub mod path;
pub mod point;
mod reason;
pub mod root;
pub mod servers;
pub mod table;
pub mod tree;
pub mod warning;
pub mod watch;

pub use error::{Error, ErrorKind, FanotifyRefusal, WarningKind};
pub use kind::may_hang;
pub use locate::{Hints, LocateOptions, LocateReport, Method, locate};
pub use point::{Class, Kind, Point};
pub use reason::{Incompleteness, Loss, TableSource};
pub use warning::{Warning, WarningReason};
