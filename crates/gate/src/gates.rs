//! The gates: the system calls that do file-system work, by the names that strace prints.

macro_rules! gates {
    ($($variant:ident $name:literal,)*) => {
        /// A system call that does file-system work. An ioctl is named by what it does.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Gate {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl Gate {
            /// Every gate, in the order of the enum.
            pub const ALL: &'static [Gate] = &[$(Gate::$variant,)*];

            /// The name that strace prints; `ioctl:NAME` for an ioctl.
            pub const fn name(self) -> &'static str {
                match self { $(Gate::$variant => $name,)* }
            }
        }
    };
}

gates! {
    BtrfsGetSubvolInfo "ioctl:BTRFS_IOC_GET_SUBVOL_INFO",
    BtrfsGetSubvolRootref "ioctl:BTRFS_IOC_GET_SUBVOL_ROOTREF",
    BtrfsInoLookup "ioctl:BTRFS_IOC_INO_LOOKUP",
    BtrfsTreeSearchV2 "ioctl:BTRFS_IOC_TREE_SEARCH_V2",
    Cachestat "cachestat",
    Chdir "chdir",
    Close "close",
    Faccessat "faccessat",
    Fadvise64 "fadvise64",
    Fallocate "fallocate",
    FanotifyInit "fanotify_init",
    FanotifyMark "fanotify_mark",
    Fchdir "fchdir",
    Fchmod "fchmod",
    Fchmodat "fchmodat",
    Fchmodat2 "fchmodat2",
    Fchownat "fchownat",
    Fdatasync "fdatasync",
    Fgetxattr "fgetxattr",
    Flistxattr "flistxattr",
    Flock "flock",
    Fremovexattr "fremovexattr",
    FsIocFiemap "ioctl:FS_IOC_FIEMAP",
    FsGetfsuuid "ioctl:FS_IOC_GETFSUUID",
    Fsetxattr "fsetxattr",
    Fsync "fsync",
    Fstatfs "fstatfs",
    Ftruncate "ftruncate",
    Getcwd "getcwd",
    Getdents64 "getdents64",
    Getxattrat "getxattrat",
    IoUringEnter "io_uring_enter",
    IoUringSetup "io_uring_setup",
    Lgetxattr "lgetxattr",
    Linkat "linkat",
    Listmount "listmount",
    Listxattrat "listxattrat",
    Llistxattr "llistxattr",
    Lremovexattr "lremovexattr",
    Lsetxattr "lsetxattr",
    Mincore "mincore",
    Mkdirat "mkdirat",
    Mknodat "mknodat",
    Lseek "lseek",
    Mount "mount",
    Newfstatat "newfstatat",
    OpenTree "open_tree",
    Openat "openat",
    Openat2 "openat2",
    Pread64 "pread64",
    Pwrite64 "pwrite64",
    Read "read",
    Readlinkat "readlinkat",
    Renameat2 "renameat2",
    Statmount "statmount",
    Statx "statx",
    Symlinkat "symlinkat",
    SyncFileRange "sync_file_range",
    Syncfs "syncfs",
    Umask "umask",
    Umount2 "umount2",
    Unlinkat "unlinkat",
    Unshare "unshare",
    UringStatx "uring:STATX",
    Utimensat "utimensat",
    Write "write",
    XfsBulkstat "ioctl:XFS_IOC_BULKSTAT",
    XfsFsgeometry "ioctl:XFS_IOC_FSGEOMETRY",
}

/// The number of gates.
pub(crate) const GATES: usize = Gate::ALL.len();
