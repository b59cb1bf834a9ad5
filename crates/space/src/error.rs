//! Errors, and the reasons of warnings.

use std::borrow::Cow;
use std::time::Duration;

use base::WarningReason;
use base::runs::time_text;
use gate::Errno;
use mounts::namespace::OtherNamespace;

/// The reason why the space cannot be examined.
#[derive(Clone, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum Error {
    #[error(transparent)]
    Walk(#[from] walk::Error),
    #[error(transparent)]
    Mounts(#[from] mounts::Error),
    /// The file system does not answer within this time.
    #[error("'{}' does not answer within {}", String::from_utf8_lossy(.0), time_text(*.1))]
    Silent(Vec<u8>, Duration),
    /// The kernel generates the files of this file system when they are read.
    #[error("'{}' is on {}, which has no space of its own: the kernel makes its files when they are read", String::from_utf8_lossy(.0), String::from_utf8_lossy(.1))]
    KernelFileSystem(Vec<u8>, Vec<u8>),
    #[error("cannot read the size of the file system of '{}': {}", String::from_utf8_lossy(.0), .1)]
    Size(Vec<u8>, Errno),
}

fn plural(n: usize, one: &str, more: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { more })
}

/// The first of several paths, quoted, and the number of the others.
fn few(paths: &[Vec<u8>]) -> String {
    const MOST: usize = 3;
    let few = paths.iter().take(MOST);
    // Escape paths like names in a table: a control character must not reach the terminal.
    let few = few.map(|path| format!("'{}'", String::from_utf8_lossy(path).escape_debug()));
    let few = few.collect::<Vec<_>>().join(", ");
    match paths.len().saturating_sub(MOST) {
        0 => few,
        more => format!("{few} and {more} more"),
    }
}

/// Data that is missing in the result.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum WarningKind {
    #[error("the mount shows only '{}' of the file system", .0.escape_ascii())]
    PartOnly(Vec<u8>),
    #[error("the mount table has no entry for this mount")]
    UnknownMount,
    #[error("is in a different mount namespace, that of process {}", .0.pid)]
    OtherNamespace(OtherNamespace),
    /// The paths of the mount points.
    #[error("cannot look beneath {}: {}", plural(.0.len(), "mount point", "mount points"), few(.0))]
    Beneath(Vec<Vec<u8>>),
    #[error("cannot read the open files of {}", plural(*.0, "process", "processes"))]
    Processes(usize),
    /// Reading this process blocked: perhaps it waits for a dead server.
    #[error("cannot read the open files of process {0}, which does not answer")]
    Stuck(u32),
    #[error("cannot search the processes in /proc")]
    NoProcesses,
    #[error("cannot read the superblock on the device")]
    Superblock,
    #[error("cannot read who owns the blocks")]
    Owners,
    #[error("cannot read the kinds of block groups")]
    BlockGroups,
    #[error("cannot read the trees of the subvolumes")]
    Trees,
    /// Files and directories that cannot be read. The path of the warning is that of the first.
    #[error("cannot read {}", match .files {
        0 | 1 => "this".to_owned(),
        2 => "this and one other file or directory".to_owned(),
        files => format!("this and {} other files and directories", files - 1),
    })]
    Unread { files: u64 },
    #[error("the file system does not report its size")]
    NoSize,
}

impl WarningReason for WarningKind {
    fn consequence(&self) -> Option<Cow<'_, str>> {
        let text = match self {
            WarningKind::PartOnly(_) => "the rest is not accounted for",
            WarningKind::UnknownMount | WarningKind::OtherNamespace(_) => {
                "only files below DIR are accounted for"
            }
            WarningKind::Beneath(_) => "files hidden there are not accounted for",
            WarningKind::Stuck(_) => "deleted files that it holds open are not accounted for",
            WarningKind::Processes(_) | WarningKind::NoProcesses => {
                "deleted files that they hold open are not accounted for"
            }
            WarningKind::Superblock => "tables and journal are not shown",
            WarningKind::Owners => "metadata and shared blocks are not accounted for",
            WarningKind::BlockGroups => "metadata is not accounted for",
            WarningKind::Trees => "subvolumes, snapshots and shared extents are not told apart",
            WarningKind::Unread { files: 0 | 1 } => "its space is not accounted for",
            WarningKind::Unread { .. } => "their space is not accounted for",
            WarningKind::NoSize => "nothing can be compared with the sum of the files",
        };
        Some(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_names_the_first_mount_points() {
        let text = |names: &[&str]| {
            let paths = names.iter().map(|name| name.as_bytes().to_vec());
            WarningKind::Beneath(paths.collect()).to_string()
        };
        assert_eq!(
            text(&["/a\n"]),
            "cannot look beneath 1 mount point: '/a\\n'"
        );
        assert_eq!(
            text(&["/a", "/b", "/c", "/d", "/e"]),
            "cannot look beneath 5 mount points: '/a', '/b', '/c' and 2 more"
        );
    }
}
