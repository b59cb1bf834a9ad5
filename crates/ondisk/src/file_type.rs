//! File types.

crate::named! {
    /// A file type, as in `st_mode`.
    #[derive(PartialOrd, Ord, Hash)]
    FileType {
        Regular "file",
        Directory "directory",
        Symlink "symlink",
        Fifo "fifo",
        Socket "socket",
        Block "block",
        Char "char",
        /// The file system reports none of the known types.
        Unknown "unknown",
    }
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
}
