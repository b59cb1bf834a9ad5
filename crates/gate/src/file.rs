//! Plain files: written so that they appear whole or not at all, and read at any offset.

mod calls;
mod reader;
mod temporary;
mod writer;

pub use calls::{fsync, linkat, renameat2, sync_file_range, unlinkat, write};
pub use reader::{Reader, read_full_at, read_kernel};
pub use writer::{Fresh, Writer};
