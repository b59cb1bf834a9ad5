//! File types.

/// A file type, as in `st_mode`.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FileType {
    Regular,
    Directory,
    Symlink,
    Fifo,
    Socket,
    Block,
    Char,
    /// The file system reports none of the known types.
    Unknown,
}

impl FileType {
    /// Decodes the file type in the upper bits of `st_mode` (`S_IFMT`).
    pub fn from_mode(mode: u32) -> FileType {
        match mode >> 12 & 0o17 {
            0o10 => FileType::Regular,
            0o04 => FileType::Directory,
            0o12 => FileType::Symlink,
            0o01 => FileType::Fifo,
            0o14 => FileType::Socket,
            0o06 => FileType::Block,
            0o02 => FileType::Char,
            _ => FileType::Unknown,
        }
    }

    /// The bits in `st_mode`; 0 for [`FileType::Unknown`].
    pub fn mode(self) -> u32 {
        let bits = match self {
            FileType::Regular => 0o10,
            FileType::Directory => 0o04,
            FileType::Symlink => 0o12,
            FileType::Fifo => 0o01,
            FileType::Socket => 0o14,
            FileType::Block => 0o06,
            FileType::Char => 0o02,
            FileType::Unknown => 0,
        };
        bits << 12
    }

    /// Whether the file is a directory, or of unknown type.
    pub fn may_be_directory(self) -> bool {
        matches!(self, FileType::Directory | FileType::Unknown)
    }

    /// Name of the file type in output.
    pub fn name(self) -> &'static str {
        match self {
            FileType::Regular => "file",
            FileType::Directory => "directory",
            FileType::Symlink => "symlink",
            FileType::Fifo => "fifo",
            FileType::Socket => "socket",
            FileType::Block => "block",
            FileType::Char => "char",
            FileType::Unknown => "unknown",
        }
    }
}
