//! A mount point, and the results of checks.

use std::sync::Arc;

use ondisk::{Content, Dev, Mount};

use base::path::{below, compare};

base::named! {
    /// Whether a mount point is a directory or a file.
    PointKind {
        /// The mount point is a directory.
        Dir "dir",
        /// The mount point is not a directory.
        File "file",
    }
}

base::named! {
    /// Whether other mounts are mounted on this one.
    #[derive(Default)]
    MountClass {
        #[default]
        Leaf "leaf",
        Internal "internal",
    }
}

base::named! {
    /// Whether a mount answers.
    Verdict {
        /// The mount answered at once.
        Ok "ok",
        /// The mount answered within the deadline, but after more than a tenth of it.
        Slow "slow",
        /// The mount did not answer within the deadline.
        Hung "hung",
        /// An error means that the server or device is gone.
        Stale "stale",
        /// The mount answered, but the file system reports an error of its own.
        Failing "failing",
        /// A call failed with `EACCES` or `EPERM`.
        Denied "denied",
        /// The mount was not touched: no path reaches it.
        Hidden "hidden",
    }
}

/// A fault that a file system itself reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The file system was shut down, after an error or by request: nothing can be read or written.
    ShutDown,
    /// An error has made the file system read-only.
    ReadOnly,
    /// The file system was mounted writable, and has been made read-only: by an error, or by a remount that left the mount writable.
    Unwritable,
    /// Number of errors that the file system has recorded since the last fsck(8).
    Errors(u64),
}

/// The files that a mount hides beneath its mount point.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HiddenFiles {
    /// Number of files except directories; a file with several names counts once.
    pub files: u64,
    /// Total size of the regular files in bytes.
    pub bytes: u64,
}

/// A mount point. A field is `None` if the method cannot find it, or if it was not requested.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Point {
    /// Id of the mount, as in /proc/self/mountinfo.
    pub id: Option<u64>,
    /// Id of the parent mount.
    pub parent: Option<u64>,
    pub target: Vec<u8>,
    /// Device number: that of the superblock if the table is known, otherwise `st_dev`.
    pub dev: Dev,
    /// The mounted file system, shared by mounts with the same content.
    pub content: Option<Arc<Content>>,
    /// Device name, if [`crate::names`] found it; it replaces the table's.
    pub named: Option<Vec<u8>>,
    pub kind: Option<PointKind>,
    pub class: MountClass,
    /// Whether no path reaches the mount: another mount covers it, or a mount above it.
    pub hidden: bool,
    pub server: Option<String>,
    pub verdict: Option<Verdict>,
    /// The fault that the file system itself reports, if it was examined.
    pub fault: Option<Fault>,
    pub beneath: Option<HiddenFiles>,
}

impl Point {
    /// A mount point with only path, device and kind.
    pub fn bare(target: Vec<u8>, dev: Dev, kind: Option<PointKind>) -> Point {
        Point {
            target,
            dev,
            kind,
            ..Point::default()
        }
    }

    /// Converts an entry of the mount table, found at `target`.
    pub fn from_row(
        row: Mount,
        target: Vec<u8>,
        kind: Option<PointKind>,
        class: MountClass,
        hidden: bool,
    ) -> Point {
        Point {
            id: Some(row.id),
            parent: Some(row.parent),
            content: Some(row.content),
            class,
            hidden,
            ..Point::bare(target, row.dev, kind)
        }
    }

    /// Type of the file system.
    pub fn fstype(&self) -> Option<&[u8]> {
        Some(&self.content.as_ref()?.fstype)
    }

    /// Device or other source.
    pub fn source(&self) -> Option<&[u8]> {
        self.named
            .as_deref()
            .or_else(|| self.content.as_ref()?.source.as_deref())
    }

    /// Path of the mounted part within the file system.
    pub fn fsroot(&self) -> Option<&[u8]> {
        Some(&self.content.as_ref()?.fsroot)
    }

    /// Options of the mount, then of the superblock, separated by commas, with the kernel's
    /// escapes.
    pub fn options(&self) -> Option<&[u8]> {
        Some(&self.content.as_ref()?.options)
    }
}

/// Determines from the paths which mounts are leaves, for methods that know no ids.
pub(crate) fn classify_by_name(points: &mut [Point]) {
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|&a, &b| compare(&points[a].target, &points[b].target));
    let mut above: Vec<usize> = Vec::new();
    for at in order {
        while above
            .pop_if(|top| below(&points[*top].target, &points[at].target).is_none())
            .is_some()
        {}
        if let Some(&top) = above.last() {
            points[top].class = MountClass::Internal;
        }
        above.push(at);
    }
}
