//! The shape of the benchmark's tree.

use std::ffi::CString;
use std::sync::atomic::{AtomicU64, Ordering};

use gate::fs::Open;

/// The size of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The number of directories; at least 1.
    pub length: u64,
    /// The number of files in each directory.
    pub files: u64,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape {
            length: 16,
            files: 10_000,
        }
    }
}

impl Shape {
    /// The number of objects as LLNL's program counts them: the files, and ROOT. `None` if it does
    /// not fit into a signed 64-bit integer.
    pub fn objects(self) -> Option<u64> {
        self.length
            .checked_mul(self.files)?
            .checked_add(1)
            .filter(|objects| *objects <= i64::MAX as u64)
    }
}

/// The number of objects created or removed so far.
#[derive(Debug, Default)]
pub struct Progress(AtomicU64);

impl Progress {
    /// The number of objects so far.
    pub fn objects(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The flags for opening a directory of the tree. They refuse a symbolic link.
pub(crate) const DIRECTORY: Open = Open::PATH.union(Open::DIRECTORY).union(Open::NOFOLLOW);

/// The name of a file or directory of the tree, for a system call. It consists of digits and dots,
/// so it contains no NUL.
pub(crate) fn c_name(name: impl std::fmt::Display) -> CString {
    CString::new(name.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_the_files_and_the_root() {
        let objects = |length, files| Shape { length, files }.objects();
        assert_eq!(Shape::default().objects(), Some(160_001));
        assert_eq!(objects(3, 0), Some(1));
        assert_eq!(objects(1 << 40, 1 << 40), None);
    }
}
