//! LLNL's benchmark pathwalk: a tree made for it, searched and removed.
//!
//! A tree has `length` directories, `ROOT/0` and so on, and in directory `D` the empty files `D.0`, `D.1` and so on.

/// The shape of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Directories.
    pub length: u64,
    /// Files in each of them.
    pub files: u64,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape { length: 16, files: 10_000 }
    }
}
