//! What is known of a file.

use gate::fs::{Attributes, Statx, Want};
use ondisk::Dev;

pub use gate::fs::Time;

/// A time of the disk's as the kernel's calls have it.
#[inline]
pub fn time(time: ondisk::Time) -> Time {
    Time {
        sec: time.sec,
        nsec: time.nsec,
    }
}

/// What kind of file, by `st_mode`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Type {
    /// A plain file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A fifo.
    Fifo,
    /// A socket.
    Socket,
    /// A block device.
    Block,
    /// A character device.
    Char,
    /// None of these: the file system said nothing, or nonsense.
    Unknown,
}

impl Type {
    /// The type in the upper bits of `st_mode`.
    pub fn from_mode(mode: u32) -> Type {
        match mode >> 12 & 0o17 {
            0o10 => Type::File,
            0o04 => Type::Directory,
            0o12 => Type::Symlink,
            0o01 => Type::Fifo,
            0o14 => Type::Socket,
            0o06 => Type::Block,
            0o02 => Type::Char,
            _ => Type::Unknown,
        }
    }

    /// Its name in what is printed.
    pub fn name(self) -> &'static str {
        match self {
            Type::File => "file",
            Type::Directory => "directory",
            Type::Symlink => "symlink",
            Type::Fifo => "fifo",
            Type::Socket => "socket",
            Type::Block => "block",
            Type::Char => "char",
            Type::Unknown => "unknown",
        }
    }
}

/// All that statx(2) says of a file, and what an engine gets for nothing besides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Meta {
    /// Inode number.
    pub ino: u64,
    /// Type and permission bits, as `st_mode`.
    pub mode: u32,
    /// Hard links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// What is allocated, in units of 512 bytes.
    pub blocks: u64,
    /// Last read. The walk itself may move it, so no digest and no comparison has it.
    pub atime: Time,
    /// Last change of the contents.
    pub mtime: Time,
    /// Last change of contents or attributes.
    pub ctime: Time,
    /// When it was made; `None` where the file system does not say.
    pub btime: Option<Time>,
    /// What a device file stands for; 0:0 for any other file.
    pub rdev: Dev,
    /// `st_dev`.
    pub dev: Dev,
    /// Id of the mount, as in /proc/self/mountinfo; 0 where the kernel does not say.
    pub mount: u64,
    /// Those of [`Meta::ATTRIBUTES`] that are set, as the bits of statx(2).
    pub attributes: u64,
    /// The inode's generation, where the engine sees it: it differs when an inode number is used
    /// again.
    pub generation: Option<u32>,
    /// `Some(false)` proves that there are no extended attributes, `Some(true)` means that there
    /// may be.
    pub xattrs: Option<bool>,
}

impl Meta {
    /// The attributes that belong to the file, not to how it is mounted.
    pub const ATTRIBUTES: Attributes = Attributes::COMPRESSED
        .union(Attributes::IMMUTABLE)
        .union(Attributes::APPEND)
        .union(Attributes::NODUMP)
        .union(Attributes::ENCRYPTED)
        .union(Attributes::VERITY);

    /// What statx(2) is asked for to fill this in.
    pub const WANT: Want = Want::BASIC_STATS.union(Want::BTIME).union(Want::MNT_ID);

    /// From an answer to [`Meta::WANT`].
    pub fn from_statx(s: &Statx) -> Meta {
        let kind = Type::from_mode(s.mode);
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
            rdev: if matches!(kind, Type::Block | Type::Char) {
                s.rdev.into()
            } else {
                Dev::default()
            },
            dev: s.dev.into(),
            mount: s.mnt_id.unwrap_or(0),
            attributes: (s.attributes & Meta::ATTRIBUTES).bits(),
            generation: None,
            xattrs: None,
        }
    }

    /// What kind of file it is.
    pub fn kind(&self) -> Type {
        Type::from_mode(self.mode)
    }

    /// Whether this is the placeholder directory that btrfs shows in a snapshot in place of a
    /// nested subvolume. The kernel creates its inode (number 2) in memory at each lookup, so its
    /// times carry no information. They need not even equal one another: a clock tick can fall
    /// between setting mtime and ctime.
    #[inline]
    pub fn is_stub(&self) -> bool {
        const BTRFS_EMPTY_SUBVOL_DIR_OBJECTID: u64 = 2;
        self.ino == BTRFS_EMPTY_SUBVOL_DIR_OBJECTID
            && (self.mode, self.nlink, self.size, self.blocks) == (0o040_755, 1, 0, 0)
    }

    /// It, as it can be compared later: what is [made anew](Meta::is_stub) whenever it is looked at
    /// has no times.
    #[inline]
    pub fn lasting(&self) -> Meta {
        let none = Time::default();
        if self.is_stub() {
            Meta {
                atime: none,
                mtime: none,
                ctime: none,
                ..*self
            }
        } else {
            *self
        }
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind() == Type::Directory
    }
}

/// A directory, as what is found in it is handed over.
#[derive(Clone, Copy, Debug)]
pub struct Dir<'a> {
    /// Its name, beginning with DIR as it was given; empty where the sink wants no paths
    /// ([`crate::Sink::wants_paths`]).
    pub path: &'a [u8],
    /// What stands for its name in digests ([`crate::digest::below`]).
    pub hash: u64,
    /// How deep it is: 0 for DIR itself.
    pub depth: u32,
}

/// Something in a directory.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Its name in the directory; empty for DIR itself, which comes as an entry of itself.
    pub name: &'a [u8],
    /// What is known of it.
    pub meta: Meta,
}

impl Entry<'_> {
    /// How deep it is, as find's `%d`.
    pub fn depth(&self, dir: &Dir<'_>) -> u32 {
        dir.depth + u32::from(!self.name.is_empty())
    }

    /// Puts its whole name into `path`, in the place of what is there.
    pub fn path(&self, dir: &Dir<'_>, path: &mut Vec<u8>) {
        path.clear();
        path.extend_from_slice(dir.path);
        if !self.name.is_empty() {
            append(path, self.name);
        }
    }
}

/// The name of something in a directory; without a name of its own, the directory's.
pub fn joined(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = dir.to_vec();
    if !name.is_empty() {
        append(&mut path, name);
    }
    path
}

/// Adds a component to a path, with a slash between unless there is one.
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
    fn placeholder_of_a_subvolume_needs_no_equal_times() {
        let at = |nsec| Time { sec: 1, nsec };
        let inode = Meta {
            ino: 2,
            mode: 0o040_755,
            nlink: 1,
            mtime: at(320),
            ctime: at(324),
            ..Meta::default()
        };
        assert!(inode.is_stub());
        assert_eq!(
            inode.lasting(),
            Meta {
                mtime: Time::default(),
                ctime: Time::default(),
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
