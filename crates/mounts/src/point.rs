//! A mount point, and what the checks find out about it.

use std::sync::Arc;

use ondisk::{Content, Dev, Mount};

use base::path::{below, compare};

/// What is mounted on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PointKind {
    /// A directory.
    Dir,
    /// Anything else.
    File,
}

/// Whether anything is mounted on the mount in turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Class {
    Leaf,
    Internal,
}

/// Whether a mount answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// At once.
    Ok,
    /// Within the deadline, but after more than a tenth of it.
    Slow,
    /// Not within the deadline.
    Hung,
    /// With an error that says that server or device is gone.
    Stale,
    /// It answers, but the file system says that it has met an error.
    Failing,
    /// With `EACCES` or `EPERM`.
    Denied,
    /// It was not touched: no path reaches it.
    Hidden,
}

impl Verdict {
    /// Its name in tables and in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Slow => "slow",
            Verdict::Hung => "hung",
            Verdict::Stale => "stale",
            Verdict::Failing => "failing",
            Verdict::Denied => "denied",
            Verdict::Hidden => "hidden",
        }
    }
}

/// What is wrong with a file system, by what it says itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It was shut down, after an error or by request: nothing can be read or written.
    ShutDown,
    /// An error has made it read-only.
    ReadOnly,
    /// It has recorded so many errors since it was last checked by fsck(8).
    Errors(u64),
}

/// The files that a mount covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Beneath {
    /// Files other than directories; one with several names counts once.
    pub files: u64,
    /// Bytes in regular files, by their sizes.
    pub bytes: u64,
}

/// A mount point. Fields that the method cannot know, or that were not requested, are `None`.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Point {
    /// Id of the mount, as in /proc/self/mountinfo.
    pub id: Option<u64>,
    /// Id of the mount that it is on.
    pub parent: Option<u64>,
    pub target: Vec<u8>,
    /// Device: of the super block where the table is known, else `st_dev`.
    pub dev: Dev,
    /// What is mounted there, shared by mounts of the same.
    pub content: Option<Arc<Content>>,
    /// The name of the device, where it was found by [`crate::names`] and not in the table.
    pub named: Option<Vec<u8>>,
    pub kind: Option<PointKind>,
    pub class: Class,
    /// No path reaches it: another mount covers it, or a mount above it.
    pub hidden: bool,
    pub server: Option<String>,
    pub verdict: Option<Verdict>,
    /// What the file system itself says is wrong, where that was looked for.
    pub fault: Option<Fault>,
    pub beneath: Option<Beneath>,
}

impl Point {
    /// A mount point of which only path, device and kind are known.
    pub fn bare(target: Vec<u8>, dev: Dev, kind: Option<PointKind>) -> Point {
        Point {
            id: None,
            parent: None,
            target,
            dev,
            content: None,
            named: None,
            kind,
            class: Class::Leaf,
            hidden: false,
            server: None,
            verdict: None,
            fault: None,
            beneath: None,
        }
    }

    /// A row of the table, at the path where it was found.
    pub fn from_row(
        row: Mount,
        target: Vec<u8>,
        kind: Option<PointKind>,
        class: Class,
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

    /// The device or other source.
    pub fn source(&self) -> Option<&[u8]> {
        self.named
            .as_deref()
            .or_else(|| self.content.as_ref()?.source.as_deref())
    }

    /// The part of the file system that is mounted.
    pub fn fsroot(&self) -> Option<&[u8]> {
        Some(&self.content.as_ref()?.fsroot)
    }

    /// Options of the mount, then of the super block, comma-separated, with the kernel's escapes.
    pub fn options(&self) -> Option<&[u8]> {
        Some(&self.content.as_ref()?.options)
    }
}

/// Sets leaf or internal from the paths, for methods that know no ids.
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
            points[top].class = Class::Internal;
        }
        above.push(at);
    }
}
