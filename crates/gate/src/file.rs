//! Regular files: written so that they appear completely or not at all, and read at any offset.

mod append;
mod held;
mod reader;
mod temporary;
mod writer;

pub use append::append;
pub use held::LockFile;
pub use reader::{
    Reader, kernel_field, read_full_at, read_kernel, read_kernel_in, read_kernel_up_to,
};
pub use writer::{NewFile, Permissions, Writer, is_planted, open_directory, set_private_mode};

pub use crate::create::{linkat, renameat2, unlinkat};
pub use crate::fs::{fsync, write};
