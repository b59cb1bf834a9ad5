//! Files and directories.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use bitflags::bitflags;
use libc::{c_long, syscall};

use crate::errno::check;
use crate::gates::Gate;
use crate::meter::pass;
use crate::{Errno, Fd, Result};

/// The current directory, for the `*at` calls.
// SAFETY: AT_FDCWD is not a descriptor that could be closed; the kernel takes it for the current
// directory.
pub const CWD: BorrowedFd<'static> = unsafe { BorrowedFd::borrow_raw(libc::AT_FDCWD) };

bitflags! {
    /// How to open: the `O_*` of open(2). `O_CLOEXEC` is always added.
    #[derive(Clone, Copy, Debug)]
    pub struct Open: i32 {
        /// Only a place in the tree; nothing of the file itself.
        const PATH = libc::O_PATH;
        /// Fail with `ENOTDIR` unless it is a directory.
        const DIRECTORY = libc::O_DIRECTORY;
        /// Fail with `ELOOP` when the last component is a symlink.
        const NOFOLLOW = libc::O_NOFOLLOW;
        /// Do not wait for a fifo's other end or a device.
        const NONBLOCK = libc::O_NONBLOCK;
        /// Reading does not move the access time. For its owner and the superuser; `EPERM` for
        /// others.
        const NOATIME = libc::O_NOATIME;
        /// For writing only.
        const WRONLY = libc::O_WRONLY;
        /// Make it; a file that is there already is an error.
        const CREATE_NEW = libc::O_CREAT | libc::O_EXCL;
        /// A directory to be read: what getdents64 wants, never following a symlink.
        const SCAN = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_NONBLOCK;
    }

    /// The `AT_*` of statx(2) and fstatat(2).
    #[derive(Clone, Copy, Debug)]
    pub struct At: i32 {
        /// Take a symlink itself.
        const SYMLINK_NOFOLLOW = libc::AT_SYMLINK_NOFOLLOW;
        /// Do not trigger an automount at the last component.
        const NO_AUTOMOUNT = libc::AT_NO_AUTOMOUNT;
        /// An empty name means the descriptor itself.
        const EMPTY_PATH = libc::AT_EMPTY_PATH;
        /// Follow a symlink: linkat(2) does so only when told.
        const SYMLINK_FOLLOW = libc::AT_SYMLINK_FOLLOW;
        /// Ask the server for fresh attributes.
        const STATX_FORCE_SYNC = libc::AT_STATX_FORCE_SYNC;
        /// Answer from what is at hand; never wait for a server.
        const STATX_DONT_SYNC = libc::AT_STATX_DONT_SYNC;
    }

    /// What statx(2) is asked for, and what it says it has filled in.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Want: u32 {
        /// The file's type.
        const TYPE = libc::STATX_TYPE;
        /// Permission bits.
        const MODE = libc::STATX_MODE;
        /// Hard links.
        const NLINK = libc::STATX_NLINK;
        /// Owner.
        const UID = libc::STATX_UID;
        /// Group.
        const GID = libc::STATX_GID;
        /// Last read.
        const ATIME = libc::STATX_ATIME;
        /// Last change of the contents.
        const MTIME = libc::STATX_MTIME;
        /// Last change of contents or attributes.
        const CTIME = libc::STATX_CTIME;
        /// Inode number.
        const INO = libc::STATX_INO;
        /// Size.
        const SIZE = libc::STATX_SIZE;
        /// What is allocated.
        const BLOCKS = libc::STATX_BLOCKS;
        /// All that stat(2) gives.
        const BASIC_STATS = libc::STATX_BASIC_STATS;
        /// When the file was made.
        const BTIME = libc::STATX_BTIME;
        /// The mount's id as in /proc/self/mountinfo; the kernel fills it in unasked (since 5.8).
        const MNT_ID = 0x1000;
        /// In the place of [`Want::MNT_ID`], an id that no other mount ever gets (since 6.8).
        const MNT_ID_UNIQUE = 0x4000;
        const _ = !0;
    }

    /// The `STATX_ATTR_*` of statx(2).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Attributes: u64 {
        /// Compressed by the file system.
        const COMPRESSED = 0x4;
        /// Cannot be changed.
        const IMMUTABLE = 0x10;
        /// Can only be appended to.
        const APPEND = 0x20;
        /// Not to be dumped by dump(8).
        const NODUMP = 0x40;
        /// Needs a key to be read.
        const ENCRYPTED = 0x800;
        /// Protected by fs-verity.
        const VERITY = 0x10_0000;
        /// A directory at which an automount would be triggered.
        const AUTOMOUNT = 0x1000;
        /// The root of a mount.
        const MOUNT_ROOT = 0x2000;
        const _ = !0;
    }
}

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileType {
    /// A directory.
    Directory,
    /// A plain file.
    Regular,
    /// A symbolic link.
    Symlink,
    /// A block device.
    Block,
    /// A character device, fifo or socket.
    Other,
    /// The kernel did not say.
    Unknown,
}

impl FileType {
    fn of_mode(mode: u32) -> FileType {
        match mode & libc::S_IFMT {
            libc::S_IFDIR => FileType::Directory,
            libc::S_IFREG => FileType::Regular,
            libc::S_IFLNK => FileType::Symlink,
            libc::S_IFBLK => FileType::Block,
            0 => FileType::Unknown,
            _ => FileType::Other,
        }
    }
}

/// A time of a file: seconds since 1970, rounded down, and nanoseconds beyond them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time {
    /// Seconds since the beginning of 1970, UTC.
    pub sec: i64,
    /// Nanoseconds, 0 to 999,999,999.
    pub nsec: u32,
}

fn time(t: libc::statx_timestamp) -> Time {
    Time {
        sec: t.tv_sec,
        nsec: t.tv_nsec,
    }
}

/// What [`statx`] says of a file.
#[derive(Clone, Copy, Debug)]
pub struct Statx {
    /// Which of the fields the file system filled in.
    pub have: Want,
    /// The attributes that are set.
    pub attributes: Attributes,
    /// The attributes that the kernel and the file system know of.
    pub attributes_known: Attributes,
    /// Type, from the mode; file systems fill it in even when it was not asked for, save some on a
    /// network.
    pub file_type: FileType,
    /// Type and permission bits, as `st_mode`.
    pub mode: u32,
    /// Inode number.
    pub ino: u64,
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
    /// Last read.
    pub atime: Time,
    /// Last change of the contents.
    pub mtime: Time,
    /// Last change of contents or attributes.
    pub ctime: Time,
    /// When it was made; `None` where the file system does not say, or nobody asked.
    pub btime: Option<Time>,
    /// Device of the file system, major and minor number.
    pub dev: (u32, u32),
    /// The device that a special file stands for, major and minor number.
    pub rdev: (u32, u32),
    /// Id of the mount, as in /proc/self/mountinfo; `None` before Linux 5.8.
    pub mnt_id: Option<u64>,
}

/// Attributes of a file, with a choice of what to wait for.
/// [statx(2)](https://man7.org/linux/man-pages/man2/statx.2.html)
///
/// With an empty `want` the kernel still gives the device, the mount id and the mount-root
/// attribute, and no server is asked.
pub fn statx(dir: impl AsFd, name: &CStr, at: At, want: Want) -> Result<Statx> {
    let mut buffer = MaybeUninit::<libc::statx>::zeroed();
    pass(Gate::Statx, || {
        // SAFETY: `name` is NUL-terminated and `buffer` has room for one struct statx.
        check(unsafe {
            syscall(
                libc::SYS_statx,
                dir.as_fd().as_raw_fd(),
                name.as_ptr(),
                at.bits(),
                want.bits(),
                buffer.as_mut_ptr(),
            )
        })
    })?;
    // SAFETY: zeroed above, and every bit pattern of the plain integers in it is valid.
    let s = unsafe { buffer.assume_init() };
    let have = Want::from_bits_retain(s.stx_mask);
    Ok(Statx {
        have,
        attributes: Attributes::from_bits_retain(s.stx_attributes),
        attributes_known: Attributes::from_bits_retain(s.stx_attributes_mask),
        file_type: FileType::of_mode(u32::from(s.stx_mode)),
        mode: u32::from(s.stx_mode),
        ino: s.stx_ino,
        nlink: s.stx_nlink,
        uid: s.stx_uid,
        gid: s.stx_gid,
        size: s.stx_size,
        blocks: s.stx_blocks,
        atime: time(s.stx_atime),
        mtime: time(s.stx_mtime),
        ctime: time(s.stx_ctime),
        btime: have.contains(Want::BTIME).then(|| time(s.stx_btime)),
        dev: (s.stx_dev_major, s.stx_dev_minor),
        rdev: (s.stx_rdev_major, s.stx_rdev_minor),
        mnt_id: have
            .intersects(Want::MNT_ID | Want::MNT_ID_UNIQUE)
            .then_some(s.stx_mnt_id),
    })
}

/// What [`newfstatat`] says of a file.
#[derive(Clone, Copy, Debug)]
pub struct Stat {
    /// Device of the file system, major and minor number.
    pub dev: (u32, u32),
    /// Inode number.
    pub ino: u64,
    /// Type.
    pub file_type: FileType,
    /// The device that a special file stands for, major and minor number.
    pub rdev: (u32, u32),
}

/// Attributes of a file, as stat(2) of old.
/// [newfstatat(2)](https://man7.org/linux/man-pages/man2/stat.2.html)
pub fn newfstatat(dir: impl AsFd, name: &CStr, at: At) -> Result<Stat> {
    let mut buffer = MaybeUninit::<libc::stat>::zeroed();
    pass(Gate::Newfstatat, || {
        // SAFETY: `name` is NUL-terminated and `buffer` has room for one struct stat.
        check(unsafe {
            syscall(
                libc::SYS_newfstatat,
                dir.as_fd().as_raw_fd(),
                name.as_ptr(),
                buffer.as_mut_ptr(),
                at.bits(),
            )
        })
    })?;
    // SAFETY: zeroed above, and every bit pattern of the plain integers in it is valid.
    let s = unsafe { buffer.assume_init() };
    let split = |dev| (libc::major(dev), libc::minor(dev));
    Ok(Stat {
        dev: split(s.st_dev),
        ino: s.st_ino,
        file_type: FileType::of_mode(s.st_mode),
        rdev: split(s.st_rdev),
    })
}

/// Opens for reading. [openat(2)](https://man7.org/linux/man-pages/man2/openat.2.html)
pub fn openat(dir: impl AsFd, name: &CStr, how: Open) -> Result<Fd> {
    pass(Gate::Openat, || {
        // SAFETY: `name` is NUL-terminated.
        check(unsafe {
            syscall(
                libc::SYS_openat,
                dir.as_fd().as_raw_fd(),
                name.as_ptr(),
                how.bits() | libc::O_CLOEXEC,
                0,
            )
        })
    })
    .map(Fd::take)
}

bitflags! {
    /// The `RESOLVE_*` of openat2(2).
    #[derive(Clone, Copy, Debug)]
    pub struct Resolve: u64 {
        /// Fail with `EXDEV` where the name leads into another mount.
        const NO_XDEV = 0x01;
        /// Fail with `ELOOP` where any component is a link of /proc that leads by no name.
        const NO_MAGICLINKS = 0x02;
        /// Fail with `ELOOP` where any component is a symlink.
        const NO_SYMLINKS = 0x04;
        /// Fail with `EXDEV` where the name leads out of the directory that it begins at.
        const BENEATH = 0x08;
    }
}

/// Whether there is no openat2(2) here.
static NO_OPENAT2: AtomicBool = AtomicBool::new(false);

/// Opens for reading a name of several components, so that a tree that changes underneath cannot
/// lead elsewhere. Before Linux 5.6, where there is no openat2, only the last component is held to
/// being no symlink. [openat2(2)](https://man7.org/linux/man-pages/man2/openat2.2.html)
pub fn openat2(dir: impl AsFd, name: &CStr, how: Open, resolve: Resolve) -> Result<Fd> {
    if NO_OPENAT2.load(Ordering::Relaxed) {
        return openat(dir, name, how | Open::NOFOLLOW);
    }
    let request = [(how.bits() | libc::O_CLOEXEC) as u64, 0, resolve.bits()]; // struct open_how
    let opened = pass(Gate::Openat2, || {
        // SAFETY: `name` is NUL-terminated and `request` is a valid open_how.
        check(unsafe {
            let size = size_of_val(&request) as c_long;
            syscall(
                libc::SYS_openat2,
                dir.as_fd().as_raw_fd(),
                name.as_ptr(),
                request.as_ptr(),
                size,
            )
        })
    });
    match opened {
        // O_NOATIME is refused so: whoever asked for it is to know.
        Err(Errno::EPERM) if how.contains(Open::NOATIME) => Err(Errno::EPERM),
        Err(Errno::ENOSYS | Errno::EPERM) if !NO_OPENAT2.load(Ordering::Relaxed) => {
            // A filter that does not know openat2 answers EPERM; if openat is refused too, that is
            // the answer.
            let fallen_back = openat(dir, name, how | Open::NOFOLLOW)?;
            NO_OPENAT2.store(true, Ordering::Relaxed);
            Ok(fallen_back)
        }
        other => other.map(Fd::take),
    }
}

/// Whether [`openat2`] keeps its promises here; `true` until it was found missing.
pub fn has_openat2() -> bool {
    !NO_OPENAT2.load(Ordering::Relaxed)
}

/// Reads directory entries into `buffer`; 0 means that there are no more.
/// [getdents64(2)](https://man7.org/linux/man-pages/man2/getdents.2.html)
pub fn getdents64(dir: impl AsFd, buffer: &mut [u8]) -> Result<usize> {
    pass(Gate::Getdents64, || {
        // SAFETY: the kernel writes at most `buffer.len()` bytes into `buffer`.
        check(unsafe {
            syscall(
                libc::SYS_getdents64,
                dir.as_fd().as_raw_fd(),
                buffer.as_mut_ptr(),
                buffer.len() as c_long,
            )
        })
    })
}

/// Reads from a descriptor. [read(2)](https://man7.org/linux/man-pages/man2/read.2.html)
pub fn read(fd: impl AsFd, buffer: &mut [u8]) -> Result<usize> {
    pass(Gate::Read, || {
        // SAFETY: the kernel writes at most `buffer.len()` bytes into `buffer`.
        check(unsafe {
            syscall(
                libc::SYS_read,
                fd.as_fd().as_raw_fd(),
                buffer.as_mut_ptr(),
                buffer.len() as c_long,
            )
        })
    })
}

/// The target of a symlink, cut off at 64 KiB. An empty name means the descriptor itself.
/// [readlinkat(2)](https://man7.org/linux/man-pages/man2/readlink.2.html)
pub fn readlinkat(dir: impl AsFd, name: &CStr) -> Result<Vec<u8>> {
    let mut target = vec![0u8; 4096];
    loop {
        let n = pass(Gate::Readlinkat, || {
            // SAFETY: `name` is NUL-terminated, and the kernel writes at most `target.len()` bytes.
            check(unsafe {
                syscall(
                    libc::SYS_readlinkat,
                    dir.as_fd().as_raw_fd(),
                    name.as_ptr(),
                    target.as_mut_ptr(),
                    target.len() as c_long,
                )
            })
        })?;
        if n < target.len() || n >= 1 << 16 {
            target.truncate(n);
            return Ok(target);
        }
        target.resize(target.len() * 2, 0);
    }
}

/// Reads from a place in a file; 0 at its end.
/// [pread(2)](https://man7.org/linux/man-pages/man2/pread.2.html)
pub fn pread64(fd: impl AsFd, buffer: &mut [u8], offset: u64) -> Result<usize> {
    pass(Gate::Pread64, || {
        // SAFETY: the kernel writes at most `buffer.len()` bytes into `buffer`.
        check(unsafe {
            let fd = fd.as_fd().as_raw_fd();
            syscall(
                libc::SYS_pread64,
                fd,
                buffer.as_mut_ptr(),
                buffer.len() as c_long,
                offset as c_long,
            )
        })
    })
}

/// What [`lseek`] looks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whence {
    /// The next byte that is in no hole.
    Data,
    /// The next hole; the end of the file counts as one.
    Hole,
    /// The byte at the offset itself.
    Set,
}

/// Moves to a place in a file, and says where that is.
/// [lseek(2)](https://man7.org/linux/man-pages/man2/lseek.2.html)
///
/// # Errors
/// `ENXIO` at or after the end of the file, and for [`Whence::Data`] also when nothing but a hole
/// follows.
pub fn lseek(fd: impl AsFd, offset: u64, whence: Whence) -> Result<u64> {
    let whence = match whence {
        Whence::Data => libc::SEEK_DATA,
        Whence::Hole => libc::SEEK_HOLE,
        Whence::Set => libc::SEEK_SET,
    };
    pass(Gate::Lseek, || {
        // SAFETY: no pointers.
        check(unsafe {
            syscall(
                libc::SYS_lseek,
                fd.as_fd().as_raw_fd(),
                offset as c_long,
                c_long::from(whence),
            )
        })
    })
    .map(|at| at as u64)
}

/// What [`fadvise64`] is told.
#[derive(Clone, Copy, Debug)]
pub enum Advice {
    /// It will be read soon: the kernel begins to read it, and does not wait.
    WillNeed,
    /// It will not be read again soon: the kernel may forget it.
    DontNeed,
    /// It will be read here and there.
    Random,
}

/// Says how a part of a file will be used.
/// [posix_fadvise(2)](https://man7.org/linux/man-pages/man2/posix_fadvise.2.html)
pub fn fadvise64(fd: impl AsFd, offset: u64, len: u64, advice: Advice) -> Result<()> {
    let advice = match advice {
        Advice::WillNeed => libc::POSIX_FADV_WILLNEED,
        Advice::DontNeed => libc::POSIX_FADV_DONTNEED,
        Advice::Random => libc::POSIX_FADV_RANDOM,
    };
    pass(Gate::Fadvise64, || {
        // SAFETY: no pointers.
        check(unsafe {
            let fd = fd.as_fd().as_raw_fd();
            syscall(
                libc::SYS_fadvise64,
                fd,
                offset as c_long,
                len as c_long,
                c_long::from(advice),
            )
        })
    })
    .map(drop)
}

/// Writes what is dirty in the file system that an open file is on, and waits for it.
/// [syncfs(2)](https://man7.org/linux/man-pages/man2/sync.2.html)
pub fn syncfs(fd: impl AsFd) -> Result<()> {
    pass(Gate::Syncfs, || {
        // SAFETY: no pointers.
        check(unsafe { syscall(libc::SYS_syncfs, fd.as_fd().as_raw_fd()) })
    })
    .map(drop)
}

/// What kind of file system: the fields of statfs(2) that are used here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Statfs {
    /// Magic number of the file system's type.
    pub magic: u64,
    /// Its block, in bytes (`f_bsize`).
    pub block_size: u64,
    /// The unit in which it counts its room, in bytes (`f_frsize`).
    pub fragment_size: u64,
    /// Bytes in all.
    pub size: u64,
    /// Bytes that somebody other than the superuser could still write.
    pub available: u64,
    /// Inodes that there are or could be; 0 where the file system does not say.
    pub files: u64,
    /// Of them, free ones.
    pub files_free: u64,
    /// What the file system calls itself, in two parts that mean nothing else.
    pub fsid: [u32; 2],
}

/// The UUID of the file system that an open file is on; `None` where it has none.
/// [FS_IOC_GETFSUUID](https://docs.kernel.org/userspace-api/ioctl/ioctl-number.html), since Linux
/// 6.9
pub fn fs_uuid(fd: impl AsFd) -> Result<Option<[u8; 16]>> {
    // _IOR(0x15, 0, struct fsuuid2 of 17 bytes)
    const FS_IOC_GETFSUUID: c_long = 2 << 30 | 17 << 16 | 0x15 << 8;
    let mut answered = [0u8; 17];
    pass(Gate::FsGetfsuuid, || {
        // SAFETY: the request's size field says 17 bytes, and that is what `answered` has.
        check(unsafe {
            syscall(
                libc::SYS_ioctl,
                fd.as_fd().as_raw_fd(),
                FS_IOC_GETFSUUID,
                answered.as_mut_ptr(),
            )
        })
    })?;
    let [len, uuid @ ..] = answered;
    Ok((len == 16).then_some(uuid))
}

/// The `f_type` of ext2, ext3 and ext4.
pub const EXT4_SUPER_MAGIC: u64 = 0xef53;

/// The `f_type` of tmpfs.
pub const TMPFS_MAGIC: u64 = 0x0102_1994;

/// The `f_type` of procfs.
pub const PROC_SUPER_MAGIC: u64 = 0x9fa0;

/// The file system that an open file is on.
/// [fstatfs(2)](https://man7.org/linux/man-pages/man2/statfs.2.html)
pub fn fstatfs(fd: impl AsFd) -> Result<Statfs> {
    let mut buffer = MaybeUninit::<libc::statfs>::zeroed();
    pass(Gate::Fstatfs, || {
        // SAFETY: `buffer` has room for one struct statfs.
        check(unsafe {
            syscall(
                libc::SYS_fstatfs,
                fd.as_fd().as_raw_fd(),
                buffer.as_mut_ptr(),
            )
        })
    })?;
    // SAFETY: zeroed above, and every bit pattern of the plain integers in it is valid.
    let s = unsafe { buffer.assume_init() };
    // SAFETY: fsid_t is two plain integers, whose names the C library keeps to itself.
    let fsid = unsafe { std::mem::transmute::<libc::fsid_t, [u32; 2]>(s.f_fsid) };
    let (magic, block_size) = (s.f_type as u64, s.f_bsize as u64);
    let fragment_size = if s.f_frsize > 0 {
        s.f_frsize as u64
    } else {
        block_size
    };
    let [size, available] =
        [s.f_blocks, s.f_bavail].map(|blocks| blocks.saturating_mul(fragment_size));
    Ok(Statfs {
        magic,
        block_size,
        fragment_size,
        size,
        available,
        files: s.f_files,
        files_free: s.f_ffree,
        fsid,
    })
}

/// Makes an open directory the current one.
/// [fchdir(2)](https://man7.org/linux/man-pages/man2/chdir.2.html)
pub fn fchdir(dir: impl AsFd) -> Result<()> {
    pass(Gate::Fchdir, || {
        // SAFETY: no pointers.
        check(unsafe { syscall(libc::SYS_fchdir, dir.as_fd().as_raw_fd()) })
    })
    .map(drop)
}

/// Makes a named directory the current one.
/// [chdir(2)](https://man7.org/linux/man-pages/man2/chdir.2.html)
pub fn chdir(name: &CStr) -> Result<()> {
    pass(Gate::Chdir, || {
        // SAFETY: `name` is NUL-terminated.
        check(unsafe { syscall(libc::SYS_chdir, name.as_ptr()) })
    })
    .map(drop)
}

/// The name of the current directory.
/// [getcwd(2)](https://man7.org/linux/man-pages/man2/getcwd.2.html)
///
/// # Errors
/// `ENOENT` also when the current directory cannot be reached from the root.
pub fn getcwd() -> Result<Vec<u8>> {
    let mut name = vec![0u8; libc::PATH_MAX as usize];
    let n = pass(Gate::Getcwd, || {
        // SAFETY: the kernel writes at most `name.len()` bytes into `name`.
        check(unsafe { syscall(libc::SYS_getcwd, name.as_mut_ptr(), name.len() as c_long) })
    })?;
    name.truncate(n.saturating_sub(1)); // the count includes the NUL
    if name.first() == Some(&b'/') {
        Ok(name)
    } else {
        Err(Errno::ENOENT)
    }
}
