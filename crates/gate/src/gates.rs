//! The gates: system calls that do file-system work, by the names that strace prints.

use libc::c_long;

macro_rules! gates {
    ($($variant:ident $name:literal $number:expr,)*) => {
        /// A system call that does file-system work. An ioctl is named by its request.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Gate {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl Gate {
            /// All gates, in the order of the enum.
            pub const ALL: &'static [Gate] = &[$(Gate::$variant,)*];

            /// The name that strace prints; `ioctl:NAME` for an ioctl.
            pub const fn name(self) -> &'static str {
                match self { $(Gate::$variant => $name,)* }
            }

            /// The gate for a system call number; `None` for calls that are no gate, and for
            /// ioctls.
            pub fn from_number(number: i64) -> Option<Gate> {
                let mut gates = Gate::ALL.iter().copied();
                gates.find(|gate| gate.number() == number && number != NO_NUMBER)
            }

            #[inline]
            pub(crate) const fn number(self) -> c_long {
                match self { $(Gate::$variant => $number,)* }
            }
        }
    };
}

/// Number of a gate that [`syscall!`](crate::syscall::syscall) does not call.
const NO_NUMBER: c_long = -1;

// Calls that some C libraries do not name have their number here: since Linux 5.1, a new call has
// the same number on every architecture.
gates! {
    BtrfsGetSubvolInfo "ioctl:BTRFS_IOC_GET_SUBVOL_INFO" libc::SYS_ioctl,
    BtrfsLogicalInoV2 "ioctl:BTRFS_IOC_LOGICAL_INO_V2" libc::SYS_ioctl,
    BtrfsSpaceInfo "ioctl:BTRFS_IOC_SPACE_INFO" libc::SYS_ioctl,
    BtrfsTreeSearchV2 "ioctl:BTRFS_IOC_TREE_SEARCH_V2" libc::SYS_ioctl,
    Cachestat "cachestat" 451,
    Chdir "chdir" libc::SYS_chdir,
    Close "close" libc::SYS_close,
    Faccessat "faccessat" libc::SYS_faccessat,
    Fadvise64 "fadvise64" libc::SYS_fadvise64,
    Fallocate "fallocate" libc::SYS_fallocate,
    FanotifyInit "fanotify_init" libc::SYS_fanotify_init,
    FanotifyMark "fanotify_mark" libc::SYS_fanotify_mark,
    Fchdir "fchdir" libc::SYS_fchdir,
    Fchmod "fchmod" libc::SYS_fchmod,
    Fchmodat "fchmodat" libc::SYS_fchmodat,
    Fchmodat2 "fchmodat2" 452,
    Fchownat "fchownat" libc::SYS_fchownat,
    Fcntl "fcntl" libc::SYS_fcntl,
    Fgetxattr "fgetxattr" libc::SYS_fgetxattr,
    Flistxattr "flistxattr" libc::SYS_flistxattr,
    Flock "flock" libc::SYS_flock,
    Fremovexattr "fremovexattr" libc::SYS_fremovexattr,
    FsIocFiemap "ioctl:FS_IOC_FIEMAP" libc::SYS_ioctl,
    FsIocGetfsmap "ioctl:FS_IOC_GETFSMAP" libc::SYS_ioctl,
    FsGetfsuuid "ioctl:FS_IOC_GETFSUUID" libc::SYS_ioctl,
    Fsetxattr "fsetxattr" libc::SYS_fsetxattr,
    Fsync "fsync" libc::SYS_fsync,
    Fstatfs "fstatfs" libc::SYS_fstatfs,
    Ftruncate "ftruncate" libc::SYS_ftruncate,
    Getcwd "getcwd" libc::SYS_getcwd,
    Getdents64 "getdents64" libc::SYS_getdents64,
    Getxattrat "getxattrat" 464,
    IoUringEnter "io_uring_enter" libc::SYS_io_uring_enter,
    IoUringSetup "io_uring_setup" libc::SYS_io_uring_setup,
    Lgetxattr "lgetxattr" libc::SYS_lgetxattr,
    Linkat "linkat" libc::SYS_linkat,
    Listmount "listmount" 458,
    Listxattrat "listxattrat" 465,
    Llistxattr "llistxattr" libc::SYS_llistxattr,
    Lremovexattr "lremovexattr" libc::SYS_lremovexattr,
    Lsetxattr "lsetxattr" libc::SYS_lsetxattr,
    LoopGetStatus64 "ioctl:LOOP_GET_STATUS64" libc::SYS_ioctl,
    Mincore "mincore" libc::SYS_mincore,
    Mkdirat "mkdirat" libc::SYS_mkdirat,
    Mknodat "mknodat" libc::SYS_mknodat,
    Lseek "lseek" libc::SYS_lseek,
    Mount "mount" libc::SYS_mount,
    Newfstatat "newfstatat" libc::SYS_newfstatat,
    OpenTree "open_tree" libc::SYS_open_tree,
    Openat "openat" libc::SYS_openat,
    Openat2 "openat2" libc::SYS_openat2,
    Pread64 "pread64" libc::SYS_pread64,
    Pwrite64 "pwrite64" libc::SYS_pwrite64,
    Read "read" libc::SYS_read,
    Readlinkat "readlinkat" libc::SYS_readlinkat,
    Renameat2 "renameat2" libc::SYS_renameat2,
    Statmount "statmount" 457,
    Statx "statx" libc::SYS_statx,
    Symlinkat "symlinkat" libc::SYS_symlinkat,
    SyncFileRange "sync_file_range" NO_NUMBER,
    Syncfs "syncfs" libc::SYS_syncfs,
    Umask "umask" libc::SYS_umask,
    Umount2 "umount2" libc::SYS_umount2,
    Unlinkat "unlinkat" libc::SYS_unlinkat,
    Unshare "unshare" libc::SYS_unshare,
    UringStatx "uring:STATX" NO_NUMBER,
    Utimensat "utimensat" libc::SYS_utimensat,
    Write "write" libc::SYS_write,
    XfsBulkstat "ioctl:XFS_IOC_BULKSTAT" libc::SYS_ioctl,
    XfsFscounts "ioctl:XFS_IOC_FSCOUNTS" libc::SYS_ioctl,
    XfsFsgeometry "ioctl:XFS_IOC_FSGEOMETRY" libc::SYS_ioctl,
}

pub(crate) const GATES: usize = Gate::ALL.len();
