//! The queue of directories of a breadth-first search.
//!
//! A directory is kept as its name and the directory it is in, so that a million of them fit in
//! memory; its whole name is put together when it is opened. It is opened by that whole name, as
//! seen from the root of the search, in one call: this is what the papers' *path bunching* comes to
//! where there are directory descriptors, one look-up of several components for several `chdir`s of
//! one.

use gate::fs::Open;
use gate::long::open_long_no_symlinks;
use gate::{Errno, Fd, Result};
use std::os::fd::AsFd;

use crate::root::Root;

/// A directory of the queue.
pub(crate) struct Node<T> {
    parent: u32,
    name_at: usize,
    name_len: u16,
    /// How deep it lies below the root of the search.
    pub(crate) depth: u32,
    /// What the search knows of it.
    pub(crate) about: T,
}

/// The queue; directories that were taken from it stay, because those in them need their names.
pub(crate) struct Queue<'r, T> {
    root: &'r Root,
    nodes: Vec<Node<T>>,
    names: Vec<u8>,
    next: usize,
}

impl<'r, T: Copy> Queue<'r, T> {
    /// A queue that holds the root.
    pub(crate) fn new(root: &'r Root, about: T) -> Queue<'r, T> {
        let node = Node {
            parent: 0,
            name_at: 0,
            name_len: 0,
            depth: 0,
            about,
        };
        Queue {
            root,
            nodes: vec![node],
            names: Vec::new(),
            next: 0,
        }
    }

    /// Adds the directory `name` in the directory `parent`. Of more than four thousand million, the
    /// rest is let go.
    pub(crate) fn push(&mut self, parent: usize, name: &[u8], about: T) {
        let (Ok(parent), Ok(name_len)) = (u32::try_from(parent), u16::try_from(name.len())) else {
            return;
        };
        let depth = self.nodes[parent as usize].depth + 1;
        self.nodes.push(Node {
            parent,
            name_at: self.names.len(),
            name_len,
            depth,
            about,
        });
        self.names.extend_from_slice(name);
    }

    /// The next directory, as a number for the other functions.
    pub(crate) fn pop(&mut self) -> Option<usize> {
        let at = self.next;
        self.next += usize::from(at < self.nodes.len());
        (at < self.nodes.len()).then_some(at)
    }

    /// What is known of a directory.
    pub(crate) fn node(&self, at: usize) -> &Node<T> {
        &self.nodes[at]
    }

    /// How many directories have ever been in it.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// How many directories are still to be taken.
    pub(crate) fn waiting(&self) -> usize {
        self.nodes.len() - self.next
    }

    /// The name of a directory as seen from the root; `.` for the root.
    fn name_from_root(&self, mut at: usize) -> Vec<u8> {
        let mut parts = Vec::new();
        while at != 0 {
            let node = &self.nodes[at];
            parts.push(&self.names[node.name_at..node.name_at + usize::from(node.name_len)]);
            at = node.parent as usize;
        }
        parts.reverse();
        if parts.is_empty() {
            b".".to_vec()
        } else {
            parts.join(&b'/')
        }
    }

    /// The absolute name of a directory.
    pub(crate) fn path(&self, at: usize) -> Vec<u8> {
        if at == 0 {
            self.root.path.clone()
        } else {
            crate::path::join(&self.root.path, &self.name_from_root(at))
        }
    }

    /// Opens a directory as a place in the tree, which triggers no automount.
    pub(crate) fn open_place(&self, at: usize) -> Result<Fd> {
        open_long_no_symlinks(self.root.fd.as_fd(), &self.name_from_root(at), Open::PATH)
    }

    /// Opens a directory for reading.
    pub(crate) fn open(&self, at: usize) -> Result<Fd> {
        open_long_no_symlinks(self.root.fd.as_fd(), &self.name_from_root(at), Open::SCAN)
    }
}

/// Reads a directory whole, and gives the bytes of its entries to `each`, a buffer at a time. The
/// buffer grows when it is too small for one entry: some file systems have names of over 255 bytes.
///
/// # Errors
/// Those of getdents64(2), save that of a directory that was removed while it was read, which is
/// then at its end.
pub(crate) fn read_whole(
    dir: &Fd,
    buffer: &mut Vec<u8>,
    mut each: impl FnMut(&[u8]),
) -> Result<()> {
    const LARGEST_ENTRY: usize = 64 << 10;
    loop {
        match gate::fs::getdents64(dir, buffer) {
            Ok(0) | Err(Errno::ENOENT) => return Ok(()),
            Ok(n) => each(&buffer[..n]),
            Err(Errno::EINVAL) if buffer.len() < LARGEST_ENTRY => buffer.resize(LARGEST_ENTRY, 0),
            Err(e) => return Err(e),
        }
    }
}
