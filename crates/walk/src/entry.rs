//! An entry of a walk and its metadata.

use gate::fs::{Attributes, Statx, StatxMask};

use crate::key::DirKey;

pub use ondisk::{Dev, FileType, Time};

/// The metadata of a file: the fields of statx(2), and more where an engine gets it without another
/// call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "the names are those of struct stat")]
pub struct Meta {
    pub ino: u64,
    /// Type and permission bits, as `st_mode`.
    pub mode: u32,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Allocated space, in units of 512 bytes.
    pub blocks: u64,
    /// Time of the last access. The walk itself may change it, so digests and comparisons ignore
    /// it.
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
    /// Time of creation; `None` where the file system does not report it.
    pub btime: Option<Time>,
    /// The device of a device file; 0:0 for any other file.
    pub rdev: Dev,
    pub dev: Dev,
    /// Mount id, as in /proc/self/mountinfo; 0 where the kernel does not report it.
    pub mount: u64,
    /// The set bits of [`Meta::ATTRIBUTES`], as in `stx_attributes`.
    pub attributes: u64,
    /// The inode generation, if the engine reads it: it differs after an inode number is reused.
    pub generation: Option<u32>,
    /// Whether the file has extended attributes: `Some(false)` proves that there are none;
    /// `Some(true)`: there may be.
    pub xattrs: Option<bool>,
}

impl Meta {
    /// The statx(2) attributes that belong to the file itself, not to its mount.
    pub const ATTRIBUTES: Attributes = Attributes::COMPRESSED
        .union(Attributes::IMMUTABLE)
        .union(Attributes::APPEND)
        .union(Attributes::NODUMP)
        .union(Attributes::ENCRYPTED)
        .union(Attributes::VERITY);

    /// The fields that are requested from statx(2).
    pub const WANT: StatxMask = StatxMask::BASIC_STATS
        .union(StatxMask::BTIME)
        .union(StatxMask::MNT_ID);

    /// Converts the result of statx(2) for [`Meta::WANT`].
    pub fn from_statx(s: &Statx) -> Meta {
        let is_device = matches!(
            FileType::from_mode(s.mode),
            FileType::Block | FileType::Char
        );
        Meta {
            ino: s.ino,
            mode: s.mode,
            nlink: s.nlink,
            uid: s.uid,
            gid: s.gid,
            size: s.size,
            blocks: s.blocks,
            atime: s.atime,
            mtime: s.mtime,
            ctime: s.ctime,
            btime: s.btime,
            rdev: if is_device { s.rdev } else { Dev::default() },
            dev: s.dev,
            mount: s.mnt_id.unwrap_or(0),
            attributes: (s.attributes & Meta::ATTRIBUTES).bits(),
            generation: None,
            xattrs: None,
        }
    }

    /// The estimated bytes of data of a regular file, without holes: its allocated space, at most
    /// its size. A small file counts as a whole, because its data may be in the inode.
    pub fn data_bytes(&self) -> u64 {
        /// Data that some file systems store without a block.
        const INLINE: u64 = 4096;
        match self.size {
            size @ ..=INLINE => size,
            size => size.min(self.blocks.saturating_mul(512)),
        }
    }

    /// The type of the file.
    pub fn kind(&self) -> FileType {
        FileType::from_mode(self.mode)
    }

    /// Whether this is a stub: the placeholder directory that btrfs shows in a snapshot in place of
    /// a nested subvolume. The kernel creates its inode (number 2) in memory at each lookup, so its
    /// times carry no information. They need not even equal one another: a clock tick can fall
    /// between setting mtime and ctime.
    #[inline]
    pub fn is_stub(&self) -> bool {
        const BTRFS_EMPTY_SUBVOL_DIR_OBJECTID: u64 = 2;
        self.ino == BTRFS_EMPTY_SUBVOL_DIR_OBJECTID
            && (self.mode, self.nlink, self.size, self.blocks) == (0o040_755, 1, 0, 0)
    }

    /// The metadata that can be compared later: a copy without the times of a
    /// [stub](Meta::is_stub).
    #[inline]
    pub fn lasting(&self) -> Meta {
        let mut meta = *self;
        if meta.is_stub() {
            (meta.atime, meta.mtime, meta.ctime) = Default::default();
            meta.btime = None;
        }
        meta
    }

    /// Whether the file is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind() == FileType::Directory
    }
}

/// A directory whose entries are passed to a sink.
#[derive(Clone, Copy, Debug)]
pub struct Dir<'a> {
    /// Path of the directory, beginning with DIR as given; empty if the sink needs no paths
    /// ([`crate::Sink::wants_paths`]), except for the entry of DIR itself.
    pub path: &'a [u8],
    /// Identifies the directory in this walk.
    pub key: DirKey,
}

impl DirKey {
    /// The directory, with its path from [`crate::job::Job::dir_path`].
    pub(crate) fn dir(self, path: &[u8]) -> Dir<'_> {
        Dir { path, key: self }
    }
}

/// An entry of a directory.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// File name in the directory; empty for DIR itself, which is emitted as an entry of itself.
    pub name: &'a [u8],
    /// Metadata of the file.
    pub meta: Meta,
}

impl Entry<'_> {
    /// Depth of the entry below DIR, as `%d` of find(1).
    pub fn depth(&self, dir: &Dir<'_>) -> u32 {
        dir.key.depth + u32::from(!self.name.is_empty())
    }

    /// Replaces `path` by the path of the entry.
    pub fn path(&self, dir: &Dir<'_>, path: &mut Vec<u8>) {
        path.clear();
        path.extend_from_slice(dir.path);
        if !self.name.is_empty() {
            append(path, self.name);
        }
    }
}

/// The path of an entry of `dir`; with an empty name, `dir` itself.
pub fn joined(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = dir.to_vec();
    if !name.is_empty() {
        append(&mut path, name);
    }
    path
}

/// The rest of a path that begins with `root`.
pub fn relative<'a>(root: &[u8], path: &'a [u8]) -> &'a [u8] {
    let mut rest = path.strip_prefix(root).unwrap_or(path);
    while let [b'/', tail @ ..] = rest {
        rest = tail;
    }
    rest
}

/// Appends a relative path to `path`, with a slash between unless `path` ends with one.
pub fn append(path: &mut Vec<u8>, name: &[u8]) {
    if !path.is_empty() && path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stub_is_recognised_whatever_its_times() {
        let at = |nsec| Time::new(1, nsec);
        let inode = Meta {
            ino: 2,
            mode: 0o040_755,
            nlink: 1,
            mtime: at(320),
            ctime: at(324),
            btime: Some(at(320)),
            ..Meta::default()
        };
        assert!(inode.is_stub());
        assert_eq!(
            inode.lasting(),
            Meta {
                mtime: Time::default(),
                ctime: Time::default(),
                btime: None,
                ..inode
            }
        );
        for other in [
            Meta { ino: 257, ..inode },
            Meta { nlink: 2, ..inode },
            Meta {
                size: 4096,
                ..inode
            },
        ] {
            assert!(!other.is_stub() && other.lasting() == other);
        }
    }
}
