//! A mount point, as it is reported.

use std::sync::Arc;

use ondisk::{Content, Dev, Mount};

use crate::beneath::Beneath;
use crate::check::Verdict;

/// What is mounted on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A directory.
    Dir,
    /// Anything else.
    File,
}

/// Whether anything is mounted on the mount in turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Nothing is.
    Leaf,
    /// Something is.
    Internal,
}

/// A mount point. What the method cannot know, or nobody asked for, is `None`.
#[derive(Clone, Debug)]
pub struct Point {
    /// Id of the mount, as in /proc/self/mountinfo.
    pub id: Option<u64>,
    /// Id of the mount that it is on.
    pub parent: Option<u64>,
    /// Its absolute name.
    pub target: Vec<u8>,
    /// Device: of the super block where the table is known, else `st_dev`.
    pub dev: Dev,
    /// What is mounted there, shared by mounts that show the same.
    pub content: Option<Arc<Content>>,
    /// The source, where it was found out by other means than the table: a device's name.
    pub named: Option<Vec<u8>>,
    /// What is mounted on.
    pub kind: Option<Kind>,
    /// Leaf or internal node of the mount tree.
    pub class: Class,
    /// No path reaches it: another mount lies over it, or over one above it.
    pub hidden: bool,
    /// The machine behind it.
    pub server: Option<String>,
    /// Whether it answers.
    pub verdict: Option<Verdict>,
    /// What lies beneath it.
    pub beneath: Option<Beneath>,
}

impl Point {
    /// A mount point of which only name and device are known.
    pub fn bare(target: Vec<u8>, dev: Dev, kind: Option<Kind>) -> Point {
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
            beneath: None,
        }
    }

    /// A row of the table, at the name where it was found.
    pub fn from_row(
        row: Mount,
        target: Vec<u8>,
        kind: Option<Kind>,
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
}

impl Point {
    /// Type of the file system.
    pub fn fstype(&self) -> Option<&[u8]> {
        self.content
            .as_ref()
            .map(|content| content.fstype.as_slice())
    }

    /// The device or other source.
    pub fn source(&self) -> Option<&[u8]> {
        self.named
            .as_deref()
            .or_else(|| self.content.as_ref()?.source.as_deref())
    }

    /// The part of the file system that is mounted.
    pub fn fsroot(&self) -> Option<&[u8]> {
        self.content
            .as_ref()
            .map(|content| content.fsroot.as_slice())
    }

    /// Options of the mount, then of the super block, comma-separated, with the kernel's escapes.
    pub fn options(&self) -> Option<&[u8]> {
        self.content
            .as_ref()
            .map(|content| content.options.as_slice())
    }
}

/// Settles leaf or internal from the names alone, for methods that know no ids.
pub(crate) fn classify_by_name(points: &mut [Point]) {
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|&a, &b| crate::path::compare(&points[a].target, &points[b].target));
    let mut above: Vec<usize> = Vec::new();
    for at in order {
        while above.last().is_some_and(|&top| {
            crate::path::below(&points[top].target, &points[at].target).is_none()
        }) {
            above.pop();
        }
        if let Some(&top) = above.last() {
            points[top].class = Class::Internal;
        }
        above.push(at);
    }
}
