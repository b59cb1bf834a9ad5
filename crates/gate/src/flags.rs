//! Flags of system calls under the kernel's names, without their prefix. Comments add only what the
//! manual pages of the calls do not say.
#![allow(missing_docs, reason = "the manual pages describe these flags")]

use bitflags::bitflags;

bitflags! {
    /// The `O_*` flags of [open(2)](https://man7.org/linux/man-pages/man2/open.2.html). `O_CLOEXEC`
    /// is always added.
    #[derive(Clone, Copy, Debug)]
    pub struct Open: i32 {
        const PATH = libc::O_PATH;
        const DIRECTORY = libc::O_DIRECTORY;
        const NOFOLLOW = libc::O_NOFOLLOW;
        const NONBLOCK = libc::O_NONBLOCK;
        /// `O_NOATIME`: `EPERM` unless the caller owns the file or is privileged.
        const NOATIME = libc::O_NOATIME;
        const WRONLY = libc::O_WRONLY;
        /// `O_EXCL` for a block device: `EBUSY` if it is mounted, or in use by the kernel otherwise.
        const EXCL = libc::O_EXCL;
        /// Flags for a directory to be read with getdents64(2).
        const SCAN = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_NONBLOCK;
    }

    /// The `RESOLVE_*` flags of [openat2(2)](https://man7.org/linux/man-pages/man2/openat2.2.html).
    #[derive(Clone, Copy, Debug)]
    pub struct Resolve: u64 {
        const NO_XDEV = 0x01;
        const NO_MAGICLINKS = 0x02;
        const NO_SYMLINKS = 0x04;
        const BENEATH = 0x08;
    }

    /// The `AT_*` flags of [statx(2)](https://man7.org/linux/man-pages/man2/statx.2.html),
    /// fstatat(2) and linkat(2).
    #[derive(Clone, Copy, Debug)]
    pub struct AtFlags: i32 {
        const SYMLINK_NOFOLLOW = libc::AT_SYMLINK_NOFOLLOW;
        const NO_AUTOMOUNT = libc::AT_NO_AUTOMOUNT;
        const EMPTY_PATH = libc::AT_EMPTY_PATH;
        const SYMLINK_FOLLOW = libc::AT_SYMLINK_FOLLOW;
        const STATX_FORCE_SYNC = libc::AT_STATX_FORCE_SYNC;
        const STATX_DONT_SYNC = libc::AT_STATX_DONT_SYNC;
    }

    /// The `STATX_*` flags of [statx(2)](https://man7.org/linux/man-pages/man2/statx.2.html).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct StatxMask: u32 {
        const TYPE = libc::STATX_TYPE;
        const MODE = libc::STATX_MODE;
        const NLINK = libc::STATX_NLINK;
        const UID = libc::STATX_UID;
        const GID = libc::STATX_GID;
        const ATIME = libc::STATX_ATIME;
        const MTIME = libc::STATX_MTIME;
        const CTIME = libc::STATX_CTIME;
        const INO = libc::STATX_INO;
        const SIZE = libc::STATX_SIZE;
        const BLOCKS = libc::STATX_BLOCKS;
        const BASIC_STATS = libc::STATX_BASIC_STATS;
        const BTIME = libc::STATX_BTIME;
        /// The kernel returns the mount id even if it is not requested (since 5.8).
        const MNT_ID = 0x1000;
        /// Replaces [`StatxMask::MNT_ID`] by an id that is never reused (since 6.8).
        const MNT_ID_UNIQUE = 0x4000;
        const _ = !0;
    }

    /// The `STATX_ATTR_*` flags of [statx(2)](https://man7.org/linux/man-pages/man2/statx.2.html).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Attributes: u64 {
        const COMPRESSED = 0x4;
        const IMMUTABLE = 0x10;
        const APPEND = 0x20;
        const NODUMP = 0x40;
        const ENCRYPTED = 0x800;
        const AUTOMOUNT = 0x1000;
        const MOUNT_ROOT = 0x2000;
        const VERITY = 0x10_0000;
        const _ = !0;
    }

    /// The `STATMOUNT_*` flags of
    /// [statmount(2)](https://man7.org/linux/man-pages/man2/statmount.2.html).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct StatmountMask: u64 {
        const SB_BASIC = 0x1;
        const MNT_BASIC = 0x2;
        const MNT_ROOT = 0x8;
        const MNT_POINT = 0x10;
        const FS_TYPE = 0x20;
        /// Options of the mount. Since Linux 6.11.
        const MNT_OPTS = 0x80;
        /// Subtype of the file system. Since Linux 6.11.
        const FS_SUBTYPE = 0x100;
        /// Source of the mount, such as a device. Since Linux 6.13.
        const SB_SOURCE = 0x200;
    }
}
