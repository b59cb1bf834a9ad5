//! Types of files.

/// The type of a file, by `st_mode`.
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
    /// The file system reports none of these.
    Unknown,
}

impl FileType {
    /// The type in the upper bits of `st_mode` (`S_IFMT`).
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

    /// Its bits in `st_mode`; 0 for [`FileType::Unknown`].
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

    /// Whether it is a directory, or may be one.
    pub fn may_be_directory(self) -> bool {
        matches!(self, FileType::Directory | FileType::Unknown)
    }

    /// Its name in the output.
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
