//! Plain reasons that errors, warnings and reports are made of.

use std::fmt;

/// Where a mount table is read from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableSource {
    /// listmount(2) and statmount(2).
    Kernel,
    /// /proc/self/mountinfo.
    Mountinfo,
}

/// What is lost when a directory cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// Mount points in it are not seen.
    MountPoints,
    /// Boundaries in it are not seen.
    Boundaries,
    /// Files in it are not counted.
    Count,
}

/// Why mount points may be missing from a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Incompleteness {
    /// The table has no row for the mount that the root is on.
    MissingRoot,
    /// statx(2) does not report roots of mounts.
    NoMountAttributes,
    /// The table changed each time it was compared with the tree.
    TableKeptChanging,
    /// Mount points of the table cannot be looked at.
    UnreadableMountPoints,
    /// Directories cannot be read.
    UnreadableDirectories,
    /// The depth bound kept the search out of directories.
    DepthBound {
        /// The bound.
        bound: usize,
        /// How many directories were not read.
        unread: u64,
    },
}

impl fmt::Display for Incompleteness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Incompleteness::MissingRoot => {
                "the table does not hold the mount that the root is on"
            }
            Incompleteness::NoMountAttributes => {
                "the kernel does not say where mounts begin: bind mounts and mounts on files are not seen"
            }
            Incompleteness::TableKeptChanging => {
                "the mount table kept changing during the search"
            }
            Incompleteness::UnreadableMountPoints => "some mount points may not be looked at",
            Incompleteness::UnreadableDirectories => "some directories could not be read",
            Incompleteness::DepthBound { bound, unread } => {
                return write!(
                    f,
                    "the depth bound of {bound} left {unread} directories unread"
                );
            }
        })
    }
}
