//! Mount points: the kernel's table of them, the tree that they make, and searches of the file tree
//! for them.
//!
//! | module | contents |
//! |---|---|
//! | [`table`] | the kernel's table, from listmount and statmount or from mountinfo, whichever is cheaper |
//! | [`tree`] | which mounts a path reaches, which are hidden, which are leaves |
//! | [`method`] | one file per method: `naive`, `getmnt1`, `getmnt2`, `getmnt3`, `search` |
//! | [`pairs`] | the papers' table of <device, parent device> pairs |
//! | [`namespace`] | directories in other mount namespaces |
//! | [`root`] | the directory at which a search begins |
//! | [`listed`] | whether a directory still lists a name that was not found |
//! | [`locate`](mod@locate) | every mount point at or under a directory |
//! | [`compare`] | every method on one tree, each in a process of its own |
//! | [`check`] | which mounts answer |
//! | [`doubt`] | which mounts may wait for a server |
//! | [`fault`] | what a file system itself says is wrong with it |
//! | [`beneath`] | the files hidden under a mount point |
//! | [`diagnosis`] | mounts that are hidden, unresponsive, duplicate or otherwise unusual |
//! | [`boundaries`] | changes of file system that the table does not name |
//! | [`servers`] | the machines behind network mounts |
//! | [`names`] | names of devices |
//! | [`watch`] | attaches and detaches as they happen |
#![forbid(unsafe_code)]

pub mod beneath;
pub mod boundaries;
pub mod check;
pub mod compare;
pub mod diagnosis;
pub mod doubt;
mod error;
pub mod fault;
mod kind;
pub mod listed;
pub mod locate;
pub mod method;
pub mod names;
pub mod namespace;
pub mod pairs;
pub mod point;
pub mod root;
pub mod servers;
pub mod table;
pub mod tree;
pub mod watch;

pub use error::{
    Error, ErrorKind, FanotifyRefusal, Incompleteness, MissingPart, TableSource, WarningKind,
};
pub use kind::{is_kernel_file_system, is_pseudo, is_read_only_image, is_system_path, may_hang};
pub use locate::{LocateOptions, LocateReport, Method, locate};
pub use method::search::Hints;
pub use point::{MountClass, Point, PointKind};
