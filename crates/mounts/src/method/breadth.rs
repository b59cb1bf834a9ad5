//! The queue of directories in a breadth-first search.
//!
//! A directory is stored as its name and the index of its parent, so that a million of them fit in
//! memory. It is opened by its path relative to the root of the search, in one call. This replaces
//! the papers' *path bunching*, in which one chdir looked up several components.

use std::os::fd::AsFd;

use base::path::join;
use gate::fs::Open;
use gate::long::open_long_no_symlinks;
use gate::{Errno, Fd, Result};

use crate::listed::is_unlinked;
use crate::root::Root;

pub(crate) struct QueueNode<T> {
    parent: u32,
    name_at: usize,
    name_len: u16,
    /// Depth below the root of the search.
    pub(crate) depth: u32,
    pub(crate) data: T,
}

/// The queue. Directories that were taken remain stored, because their subdirectories need their
/// names.
pub(crate) struct Queue<'r, T> {
    root: &'r Root,
    nodes: Vec<QueueNode<T>>,
    names: Vec<u8>,
    next: usize,
}

impl<'r, T: Copy> Queue<'r, T> {
    pub(crate) fn new(root: &'r Root, data: T) -> Queue<'r, T> {
        Queue {
            root,
            nodes: vec![QueueNode {
                parent: 0,
                name_at: 0,
                name_len: 0,
                depth: 0,
                data,
            }],
            names: Vec::new(),
            next: 0,
        }
    }

    /// Adds the directory `name` below `parent`. The queue ignores directories beyond 2^32.
    pub(crate) fn push(&mut self, parent: usize, name: &[u8], data: T) {
        let (Ok(parent), Ok(name_len)) = (u32::try_from(parent), u16::try_from(name.len())) else {
            return;
        };
        let depth = self.nodes[parent as usize].depth + 1;
        self.nodes.push(QueueNode {
            parent,
            name_at: self.names.len(),
            name_len,
            depth,
            data,
        });
        self.names.extend_from_slice(name);
    }

    pub(crate) fn pop(&mut self) -> Option<usize> {
        let at = self.next;
        self.next += usize::from(at < self.nodes.len());
        (at < self.nodes.len()).then_some(at)
    }

    pub(crate) fn node(&self, at: usize) -> &QueueNode<T> {
        &self.nodes[at]
    }

    /// Number of directories that have ever been in the queue.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.nodes.len() - self.next
    }

    /// The path of a directory relative to the root of the search; `.` for the root.
    fn relative_path(&self, mut at: usize) -> Vec<u8> {
        let mut parts = Vec::new();
        while at != 0 {
            let node = &self.nodes[at];
            parts.push(&self.names[node.name_at..node.name_at + usize::from(node.name_len)]);
            at = node.parent as usize;
        }
        parts.reverse();
        if parts.is_empty() {
            parts.push(b".");
        }
        parts.join(&b'/')
    }

    pub(crate) fn path(&self, at: usize) -> Vec<u8> {
        if at == 0 {
            self.root.path.clone()
        } else {
            join(&self.root.path, &self.relative_path(at))
        }
    }

    /// Opens a directory with `O_PATH`, which triggers no automount.
    pub(crate) fn open_path(&self, at: usize) -> Result<Fd> {
        open_long_no_symlinks(self.root.fd.as_fd(), &self.relative_path(at), Open::PATH)
    }

    pub(crate) fn open(&self, at: usize) -> Result<Fd> {
        open_long_no_symlinks(self.root.fd.as_fd(), &self.relative_path(at), Open::SCAN)
    }
}

/// Reads a whole directory, and calls `each` with getdents64 records, a buffer at a time. The
/// buffer grows if it is too small for one entry: some file systems have names of over 255 bytes.
pub(crate) fn read_whole(
    dir: &Fd,
    buffer: &mut Vec<u8>,
    mut each: impl FnMut(&[u8]),
) -> Result<()> {
    const LARGEST_ENTRY: usize = 64 << 10;
    loop {
        match gate::fs::getdents64(dir, buffer) {
            Ok(0) => return Ok(()),
            Err(Errno::ENOENT) if is_unlinked(dir) => return Ok(()),
            Ok(n) => each(&buffer[..n]),
            Err(Errno::EINVAL) if buffer.len() < LARGEST_ENTRY => buffer.resize(LARGEST_ENTRY, 0),
            Err(e) => return Err(e),
        }
    }
}
