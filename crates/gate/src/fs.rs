//! System calls on files and directories.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use libc::c_int;

use crate::errno::check;
use crate::gates::Gate;
use crate::meter::pass;
use crate::newer::{ANY_NAME, NOT_OPEN, NewerCall};
use crate::syscall::syscall;
use crate::{Errno, Fd, Result};

pub use crate::flags::{AtFlags, Attributes, Open, Resolve, StatxMask};
pub use ondisk::{Dev, FileType, Time};

/// The current directory, for the `*at` calls.
// SAFETY: AT_FDCWD is not a descriptor that could be closed; the kernel takes it for the current
// directory.
pub const CWD: BorrowedFd<'static> = unsafe { BorrowedFd::borrow_raw(libc::AT_FDCWD) };

fn time(time: libc::statx_timestamp) -> Time {
    Time::new(time.tv_sec, time.tv_nsec)
}

/// The result of [`statx`]. Fields without a comment are those of `struct stat`, without the prefix
/// `st_`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "stat(2) describes the fields")]
pub struct Statx {
    /// The fields that the file system filled in (`stx_mask`).
    pub have: StatxMask,
    pub attributes: Attributes,
    /// The attributes that the kernel and the file system support (`stx_attributes_mask`).
    pub attributes_known: Attributes,
    /// File type, from the mode. File systems return it even if not requested, except some on a
    /// network.
    pub file_type: FileType,
    pub mode: u32,
    pub ino: u64,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    /// Allocated space, in units of 512 bytes.
    pub blocks: u64,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
    /// Birth time; `None` unless it was requested and the file system has it.
    pub btime: Option<Time>,
    pub dev: Dev,
    pub rdev: Dev,
    /// Mount id; `None` before Linux 5.8.
    pub mnt_id: Option<u64>,
}

/// Reads attributes of a file; flags say whether to wait for a server.
/// [statx(2)](https://man7.org/linux/man-pages/man2/statx.2.html)
///
/// With an empty `want` the kernel still returns the device, the mount id and the mount-root
/// attribute, and asks no server.
///
/// If a sandbox does not implement statx(2), or a seccomp filter does not permit it, newfstatat(2)
/// is called instead: without birth time, attributes and mount id. [`has_statx`] tells whether
/// statx(2) works.
///
/// # Errors
/// `ENOSYS` or `EPERM` in such a sandbox with [`AtFlags::STATX_DONT_SYNC`]: newfstatat may wait for
/// a server.
pub fn statx(dir: impl AsFd, name: &CStr, at: AtFlags, want: StatxMask) -> Result<Statx> {
    let dir = dir.as_fd();
    let has_substitute = !at.contains(AtFlags::STATX_DONT_SYNC);
    if has_substitute && !has_statx() {
        return stat_as_statx(dir, name, at);
    }
    let ask = || raw_statx(NOT_OPEN, ANY_NAME, 0, 0);
    match raw_statx(dir.as_raw_fd(), name, at.bits(), want.bits()) {
        Err(errno) if has_substitute && STATX.explains(errno, ask) => stat_as_statx(dir, name, at),
        seen => seen.map(Statx::from),
    }
}

/// Reads attributes of an open file, like fstat(2): calls [`statx`] with an empty name.
///
/// # Errors
/// Those of [`statx`].
pub fn fstat(file: impl AsFd, want: StatxMask) -> Result<Statx> {
    statx(file, c"", AtFlags::EMPTY_PATH, want)
}

/// Reads attributes of a file or of a symlink itself, like lstat(2): calls [`statx`] without
/// following the symlink or triggering an automount.
///
/// # Errors
/// Those of [`statx`].
pub fn lstatat(dir: impl AsFd, name: &CStr, want: StatxMask) -> Result<Statx> {
    let at = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    statx(dir, name, at, want)
}

static STATX: NewerCall = NewerCall::new();

/// Whether [`statx`] returns birth times, attributes and mount ids if the kernel and the file
/// system have them; `true` until statx(2) was found to be missing.
pub fn has_statx() -> bool {
    !STATX.is_missing()
}

impl From<libc::statx> for Statx {
    fn from(s: libc::statx) -> Statx {
        let have = StatxMask::from_bits_retain(s.stx_mask);
        Statx {
            have,
            attributes: Attributes::from_bits_retain(s.stx_attributes),
            attributes_known: Attributes::from_bits_retain(s.stx_attributes_mask),
            file_type: FileType::from_mode(u32::from(s.stx_mode)),
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
            btime: have.contains(StatxMask::BTIME).then(|| time(s.stx_btime)),
            dev: Dev::new(s.stx_dev_major, s.stx_dev_minor),
            rdev: Dev::new(s.stx_rdev_major, s.stx_rdev_minor),
            mnt_id: have
                .intersects(StatxMask::MNT_ID | StatxMask::MNT_ID_UNIQUE)
                .then_some(s.stx_mnt_id),
        }
    }
}

fn device(dev: libc::dev_t) -> Dev {
    Dev::new(libc::major(dev), libc::minor(dev))
}

/// Calls newfstatat(2), and converts the result to [`Statx`].
fn stat_as_statx(dir: BorrowedFd<'_>, name: &CStr, at: AtFlags) -> Result<Statx> {
    let s = raw_stat(dir, name, at)?;
    let time = |sec, nsec| Time::new(sec, nsec as u32);
    Ok(Statx {
        have: StatxMask::BASIC_STATS,
        attributes: Attributes::empty(),
        attributes_known: Attributes::empty(),
        file_type: FileType::from_mode(s.st_mode),
        mode: s.st_mode,
        ino: s.st_ino,
        nlink: s.st_nlink as u32,
        uid: s.st_uid,
        gid: s.st_gid,
        size: s.st_size as u64,
        blocks: s.st_blocks as u64,
        atime: time(s.st_atime, s.st_atime_nsec),
        mtime: time(s.st_mtime, s.st_mtime_nsec),
        ctime: time(s.st_ctime, s.st_ctime_nsec),
        btime: None,
        dev: device(s.st_dev),
        rdev: device(s.st_rdev),
        mnt_id: None,
    })
}

/// Calls statx(2), and returns its C structure.
pub(crate) fn raw_statx(dir: RawFd, name: &CStr, at: c_int, want: u32) -> Result<libc::statx> {
    let mut s = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: `name` is NUL-terminated and `s` has room for one struct statx.
    unsafe { syscall!(Gate::Statx, dir, name, at, want, s.as_mut_ptr()) }?;
    // SAFETY: zeroed above, and every bit pattern of the plain integers in it is valid.
    Ok(unsafe { s.assume_init() })
}

/// The fields of [`newfstatat`] that are used.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "stat(2) describes the fields")]
pub struct Stat {
    pub dev: Dev,
    pub ino: u64,
    pub file_type: FileType,
}

/// Attributes of a file, as older programs read them.
/// [newfstatat(2)](https://man7.org/linux/man-pages/man2/stat.2.html)
pub fn newfstatat(dir: impl AsFd, name: &CStr, at: AtFlags) -> Result<Stat> {
    let s = raw_stat(dir.as_fd(), name, at)?;
    Ok(Stat {
        dev: device(s.st_dev),
        ino: s.st_ino,
        file_type: FileType::from_mode(s.st_mode),
    })
}

/// Calls newfstatat(2), and returns its C structure.
fn raw_stat(dir: BorrowedFd<'_>, name: &CStr, at: AtFlags) -> Result<libc::stat> {
    let mut s = MaybeUninit::<libc::stat>::zeroed();
    // newfstatat(2) refuses the flags that only statx(2) has.
    let at = (at - (AtFlags::STATX_FORCE_SYNC | AtFlags::STATX_DONT_SYNC)).bits();
    // SAFETY: `name` is NUL-terminated and `s` has room for one struct stat.
    unsafe { syscall!(Gate::Newfstatat, dir, name, s.as_mut_ptr(), at) }?;
    // SAFETY: zeroed above, and every bit pattern of the plain integers in it is valid.
    Ok(unsafe { s.assume_init() })
}

/// Opens a file. [openat(2)](https://man7.org/linux/man-pages/man2/openat.2.html)
pub fn openat(dir: impl AsFd, name: &CStr, how: Open) -> Result<Fd> {
    create(dir, name, how.bits(), 0)
}

/// Opens or creates a file; a new one gets the permissions `mode`, less the umask.
pub(crate) fn create(dir: impl AsFd, name: &CStr, how: c_int, mode: u32) -> Result<Fd> {
    let how = how | libc::O_CLOEXEC;
    // SAFETY: `name` is NUL-terminated.
    unsafe { syscall!(Gate::Openat, dir.as_fd(), name, how, mode & 0o7777) }.map(Fd::take)
}

/// Reads directory entries into `buffer`; 0 at the end.
/// [getdents64(2)](https://man7.org/linux/man-pages/man2/getdents.2.html)
pub fn getdents64(dir: impl AsFd, buffer: &mut [u8]) -> Result<usize> {
    let (at, len) = (buffer.as_mut_ptr(), buffer.len());
    // SAFETY: the kernel writes at most `len` bytes into `buffer`.
    unsafe { syscall!(Gate::Getdents64, dir.as_fd(), at, len) }
}

/// Reads from a descriptor. [read(2)](https://man7.org/linux/man-pages/man2/read.2.html)
pub fn read(fd: impl AsFd, buffer: &mut [u8]) -> Result<usize> {
    let (at, len) = (buffer.as_mut_ptr(), buffer.len());
    // SAFETY: the kernel writes at most `len` bytes into `buffer`.
    unsafe { syscall!(Gate::Read, fd.as_fd(), at, len) }
}

/// Reads the target of a symlink, cut off at 64 KiB. An empty name means the descriptor itself.
/// [readlinkat(2)](https://man7.org/linux/man-pages/man2/readlink.2.html)
pub fn readlinkat(dir: impl AsFd, name: &CStr) -> Result<Vec<u8>> {
    let mut target = vec![0u8; 4096];
    loop {
        let (at, len) = (target.as_mut_ptr(), target.len());
        // SAFETY: `name` is NUL-terminated, and the kernel writes at most `len` bytes.
        let n = unsafe { syscall!(Gate::Readlinkat, dir.as_fd(), name, at, len) }?;
        if n < len || n >= 1 << 16 {
            target.truncate(n);
            return Ok(target);
        }
        target.resize(len * 2, 0);
    }
}

/// Reads at an offset of a file; 0 at its end.
/// [pread(2)](https://man7.org/linux/man-pages/man2/pread.2.html)
pub fn pread64(fd: impl AsFd, buffer: &mut [u8], offset: u64) -> Result<usize> {
    let (at, len) = (buffer.as_mut_ptr(), buffer.len());
    // SAFETY: the kernel writes at most `len` bytes into `buffer`.
    unsafe { syscall!(Gate::Pread64, fd.as_fd(), at, len, offset) }
}

/// The `SEEK_*` constant to pass to [`lseek`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "lseek(2) describes them")]
#[repr(i32)]
pub enum Whence {
    Data = libc::SEEK_DATA,
    /// The next hole; the end of the file counts as one.
    Hole = libc::SEEK_HOLE,
    Set = libc::SEEK_SET,
}

/// Sets the offset of an open file, and returns the new offset.
/// [lseek(2)](https://man7.org/linux/man-pages/man2/lseek.2.html)
///
/// # Errors
/// `ENXIO` at or after the end of the file, and for [`Whence::Data`] also if only a hole follows.
pub fn lseek(fd: impl AsFd, offset: u64, whence: Whence) -> Result<u64> {
    // SAFETY: no pointers.
    unsafe { syscall!(Gate::Lseek, fd.as_fd(), offset, whence as i32) }.map(|at| at as u64)
}

/// The `POSIX_FADV_*` constant to pass to [`fadvise64`].
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "posix_fadvise(2) describes them")]
#[repr(i32)]
pub enum Advice {
    WillNeed = libc::POSIX_FADV_WILLNEED,
    DontNeed = libc::POSIX_FADV_DONTNEED,
    Random = libc::POSIX_FADV_RANDOM,
}

/// Announces how a range of a file will be used.
/// [posix_fadvise(2)](https://man7.org/linux/man-pages/man2/posix_fadvise.2.html)
pub fn fadvise64(fd: impl AsFd, offset: u64, len: u64, advice: Advice) -> Result<()> {
    // SAFETY: no pointers.
    unsafe { syscall!(Gate::Fadvise64, fd.as_fd(), offset, len, advice as i32) }.map(drop)
}

/// Writes the dirty data of the file system that contains an open file, and waits until it is on
/// disk. [syncfs(2)](https://man7.org/linux/man-pages/man2/sync.2.html)
pub fn syncfs(fd: impl AsFd) -> Result<()> {
    // SAFETY: no pointers.
    unsafe { syscall!(Gate::Syncfs, fd.as_fd()) }.map(drop)
}

/// Writes to a descriptor. [write(2)](https://man7.org/linux/man-pages/man2/write.2.html)
pub fn write(fd: impl AsFd, bytes: &[u8]) -> Result<usize> {
    // SAFETY: the kernel reads at most `bytes.len()` bytes of `bytes`.
    unsafe { syscall!(Gate::Write, fd.as_fd(), bytes.as_ptr(), bytes.len()) }
}

/// Waits until a file's content, or a directory's entries, are on disk.
/// [fsync(2)](https://man7.org/linux/man-pages/man2/fsync.2.html)
pub fn fsync(fd: impl AsFd) -> Result<()> {
    // SAFETY: no pointers.
    unsafe { syscall!(Gate::Fsync, fd.as_fd()) }.map(drop)
}

/// Starts writing a range of a file to disk, without waiting. Unlike fsync(2), makes nothing
/// durable. [sync_file_range(2)](https://man7.org/linux/man-pages/man2/sync_file_range.2.html)
pub fn sync_file_range(fd: impl AsFd, offset: u64, len: u64) -> Result<()> {
    let fd = fd.as_fd().as_raw_fd();
    let (offset, len) = (offset.cast_signed(), len.cast_signed());
    pass(Gate::SyncFileRange, || {
        // SAFETY: no pointers. The C library knows the order of the arguments, which depends on the
        // architecture.
        check(unsafe { libc::sync_file_range(fd, offset, len, libc::SYNC_FILE_RANGE_WRITE) }.into())
    })
    .map(drop)
}

/// The UUID of the file system that contains an open file; `None` if it has no UUID.
/// [FS_IOC_GETFSUUID](https://docs.kernel.org/userspace-api/ioctl/ioctl-number.html), since Linux
/// 6.9
pub fn fs_uuid(fd: impl AsFd) -> Result<Option<[u8; 16]>> {
    let mut uuid2 = [0u8; 17]; // struct fsuuid2: length, UUID
    let request = libc::_IOR::<[u8; 17]>(0x15, 0);
    // SAFETY: the request's size field says 17 bytes, and `uuid2` has as many.
    unsafe { syscall!(Gate::FsGetfsuuid, fd.as_fd(), request, uuid2.as_mut_ptr()) }?;
    let [len, uuid @ ..] = uuid2;
    Ok((len == 16).then_some(uuid))
}

/// The `f_type` of ext2, ext3 and ext4.
pub const EXT4_SUPER_MAGIC: u64 = 0xef53;
/// The `f_type` of tmpfs.
pub const TMPFS_MAGIC: u64 = 0x0102_1994;
/// The `f_type` of procfs.
pub const PROC_SUPER_MAGIC: u64 = 0x9fa0;

/// The fields of [`fstatfs`] that are used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Statfs {
    /// Magic number of the file system type (`f_type`).
    pub magic: u64,
    /// Optimal transfer block size in bytes (`f_bsize`).
    pub block_size: u64,
    /// Fragment size in bytes (`f_frsize`).
    pub fragment_size: u64,
    /// Total size in bytes.
    pub size: u64,
    /// Free bytes, including those reserved for root.
    pub free: u64,
    /// Bytes available to unprivileged users.
    pub available: u64,
    /// Inodes that exist or can be created; 0 if the file system does not report it.
    pub files: u64,
    /// Free inodes.
    pub files_free: u64,
    /// File system id (`f_fsid`).
    pub fsid: [u32; 2],
}

/// Properties of the file system that contains an open file.
/// [fstatfs(2)](https://man7.org/linux/man-pages/man2/statfs.2.html)
pub fn fstatfs(fd: impl AsFd) -> Result<Statfs> {
    let mut s = MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: `s` has room for one struct statfs.
    unsafe { syscall!(Gate::Fstatfs, fd.as_fd(), s.as_mut_ptr()) }?;
    // SAFETY: zeroed above, and every bit pattern of the plain integers in it is valid.
    let s = unsafe { s.assume_init() };
    let (block_size, fragment_size) = (s.f_bsize as u64, s.f_frsize as u64);
    let unit = if s.f_frsize > 0 {
        fragment_size
    } else {
        block_size
    };
    Ok(Statfs {
        magic: s.f_type as u64,
        block_size,
        fragment_size: unit,
        size: s.f_blocks.saturating_mul(unit),
        free: s.f_bfree.saturating_mul(unit),
        available: s.f_bavail.saturating_mul(unit),
        files: s.f_files,
        files_free: s.f_ffree,
        // SAFETY: fsid_t is two plain integers, which the C library keeps private.
        fsid: unsafe { std::mem::transmute::<libc::fsid_t, [u32; 2]>(s.f_fsid) },
    })
}

/// Changes the current directory to an open directory.
/// [fchdir(2)](https://man7.org/linux/man-pages/man2/chdir.2.html)
pub fn fchdir(dir: impl AsFd) -> Result<()> {
    // SAFETY: no pointers.
    unsafe { syscall!(Gate::Fchdir, dir.as_fd()) }.map(drop)
}

/// Changes the current directory to a named directory.
/// [chdir(2)](https://man7.org/linux/man-pages/man2/chdir.2.html)
pub fn chdir(name: &CStr) -> Result<()> {
    // SAFETY: `name` is NUL-terminated.
    unsafe { syscall!(Gate::Chdir, name) }.map(drop)
}

/// The path of the current directory.
/// [getcwd(2)](https://man7.org/linux/man-pages/man2/getcwd.2.html)
///
/// # Errors
/// `ENOENT` also if the current directory cannot be reached from the root.
pub fn getcwd() -> Result<Vec<u8>> {
    let mut name = vec![0u8; libc::PATH_MAX as usize];
    // SAFETY: the kernel writes at most `name.len()` bytes into `name`.
    let n = unsafe { syscall!(Gate::Getcwd, name.as_mut_ptr(), name.len()) }?;
    name.truncate(n.saturating_sub(1)); // the count includes the NUL
    if name.first() == Some(&b'/') {
        Ok(name)
    } else {
        Err(Errno::ENOENT)
    }
}
