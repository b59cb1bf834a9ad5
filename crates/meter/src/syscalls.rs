//! The file-system system calls, by the kernel's numbers and names.
//!
//! The table has the calls of strace's `%file` and `%desc`, and the calls that write to disk or
//! change the mount tree (`sync`, `msync`, `statmount`, `unshare`, ...). It has no calls that only
//! wait (`poll`, `select`, `epoll_wait`), none on memory (`mmap`), and none on descriptors without
//! a file (sockets, `eventfd2`, `timerfd_create`, `memfd_create`, `pidfd_open`, message queues). Of
//! io_uring the table has `io_uring_enter`, but not the requests that it submits.

/// The purpose of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Reads a file's metadata.
    Stat,
    /// Checks permissions.
    Access,
    /// Reads a symbolic link, or the name of the working directory.
    Link,
    /// Lists a directory.
    List,
    /// Reads extended attributes.
    Xattr,
    /// Reads the state of a file system, a mount, cached pages or a file handle.
    Ask,
    /// Opens or creates a file.
    Open,
    /// Closes descriptors.
    Close,
    /// Reads data.
    Read,
    /// Writes data.
    Write,
    /// Copies data inside the kernel.
    Copy,
    /// Moves the file offset, or advises on future reads.
    Seek,
    /// Creates, duplicates or configures descriptors.
    Descriptor,
    /// ioctl(2), whose purpose depends on the request.
    Ioctl,
    /// Writes cached data to disk.
    Sync,
    /// Changes a file, a directory or their metadata.
    Change,
    /// Changes the working directory, root, mount namespace or umask of a process.
    Place,
    /// Changes mounts, swap areas, quotas.
    Mount,
    /// Watches for changes.
    Watch,
    /// Executes a program (execve(2)).
    Exec,
    /// Submits several requests at once (io_uring, Linux AIO).
    Batch,
}

/// The directory to which a relative path argument is relative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathBase {
    /// The path is relative to the working directory.
    Here,
    /// The path is relative to the directory in this descriptor argument; to the working directory
    /// if its low 32 bits are `AT_FDCWD` (-100).
    Fd(usize),
    /// No directory: the argument is no path (the text of a symbolic link, a device to mount).
    Nowhere,
}

/// An argument that points to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// The index of the argument, from 0.
    pub arg: usize,
    /// The directory that the path is relative to, unless it is absolute.
    pub at: PathBase,
}

/// A system call in the table of this architecture.
#[derive(Debug, PartialEq, Eq)]
pub struct Syscall {
    /// The system call number on this architecture.
    pub number: u32,
    /// The kernel's name of the call, which strace uses too.
    pub name: &'static str,
    /// The purpose of the call.
    pub kind: Kind,
    /// The path arguments, at most two, in their order.
    pub names: &'static [Name],
    /// The arguments that are descriptors of the files used; not the dirfd of a path.
    pub fds: &'static [usize],
}

/// The system call with this number, if the table has it.
pub fn by_number(number: u32) -> Option<&'static Syscall> {
    let index = INDEX.get(number as usize)?;
    TABLE.get(usize::from(*index))
}

/// The system call with this name, if the table has it.
pub fn by_name(name: &str) -> Option<&'static Syscall> {
    all().find(|call| call.name == name)
}

/// All system calls of the table that this architecture has.
pub fn all() -> impl Iterator<Item = &'static Syscall> {
    TABLE.iter().filter(|call| call.number != ABSENT)
}

/// All numbers in the table are below this one.
pub const NUMBERS: usize = 512;

// System calls that are not in the table.
pub(crate) const CLONE: u32 = if IS_X86_64 { 56 } else { 220 };
pub(crate) const CLONE3: u32 = 435;
pub(crate) const PRCTL: u32 = if IS_X86_64 { 157 } else { 167 };
pub(crate) const SECCOMP: u32 = if IS_X86_64 { 317 } else { 277 };
const IS_X86_64: bool = cfg!(target_arch = "x86_64");

/// A flag of open(2), with the same number on every known architecture.
pub(crate) const O_CLOEXEC: u64 = 0o2_000_000;

// Flags of clone(2).
pub(crate) const CLONE_FS: u64 = 0x200;
pub(crate) const CLONE_FILES: u64 = 0x400;
pub(crate) const CLONE_THREAD: u64 = 0x1_0000;
pub(crate) const CLONE_UNTRACED: u64 = 0x80_0000;
pub(crate) const CLONE_NEWNS: u64 = 0x2_0000;
pub(crate) const CLONE_NEWUSER: u64 = 0x1000_0000;

const fn here(arg: usize) -> Name {
    Name {
        arg,
        at: PathBase::Here,
    }
}

const fn below(fd: usize, arg: usize) -> Name {
    let at = PathBase::Fd(fd);
    Name { arg, at }
}

const TEXT: Name = Name {
    arg: 0,
    at: PathBase::Nowhere,
};

const NO_NAME: &[Name] = &[];
const PATH: &[Name] = &[here(0)];
const PATH_1: &[Name] = &[here(1)];
const PATH_AT: &[Name] = &[below(0, 1)];
const PATH_AT_3: &[Name] = &[below(3, 4)];
const TWO: &[Name] = &[here(0), here(1)];
const TWO_AT: &[Name] = &[below(0, 1), below(2, 3)];
const TEXT_AND_PATH: &[Name] = &[TEXT, here(1)];
const TEXT_AND_PATH_AT: &[Name] = &[TEXT, below(1, 2)];

const NO_FD: &[usize] = &[];
const FD: &[usize] = &[0];
const FDS: &[usize] = &[0, 1];
const FD_0_AND_2: &[usize] = &[0, 2];

/// The number for a system call that this architecture does not have.
const ABSENT: u32 = u32::MAX;

/// Makes the table of system calls. Each line has the numbers of a call on x86-64 and aarch64, or
/// `_`.
macro_rules! table {
    ($($x86:tt $arm:tt $name:ident $kind:ident $names:ident $fds:ident;)*) => {
        static TABLE: &[Syscall] = &[$(Syscall {
            number: number!($x86 $arm),
            name: stringify!($name),
            kind: Kind::$kind,
            names: $names,
            fds: $fds,
        },)*];
    };
}

#[cfg(target_arch = "x86_64")]
macro_rules! number {
    (_ $arm:tt) => {
        ABSENT
    };
    ($x86:tt $arm:tt) => {
        $x86
    };
}

// Every architecture added later to Linux uses the generic numbers, as aarch64 does.
#[cfg(not(target_arch = "x86_64"))]
macro_rules! number {
    ($x86:tt _) => {
        ABSENT
    };
    ($x86:tt $arm:tt) => {
        $arm
    };
}

table! {
    0 63 read Read NO_NAME FD;
    1 64 write Write NO_NAME FD;
    2 _ open Open PATH NO_FD;
    3 57 close Close NO_NAME FD;
    4 _ stat Stat PATH NO_FD;
    5 80 fstat Stat NO_NAME FD;
    6 _ lstat Stat PATH NO_FD;
    8 62 lseek Seek NO_NAME FD;
    16 29 ioctl Ioctl NO_NAME FD;
    17 67 pread64 Read NO_NAME FD;
    18 68 pwrite64 Write NO_NAME FD;
    19 65 readv Read NO_NAME FD;
    20 66 writev Write NO_NAME FD;
    21 _ access Access PATH NO_FD;
    22 _ pipe Descriptor NO_NAME NO_FD;
    26 227 msync Sync NO_NAME NO_FD;
    32 23 dup Descriptor NO_NAME FD;
    33 _ dup2 Descriptor NO_NAME FD;
    40 71 sendfile Copy NO_NAME FDS;
    59 221 execve Exec PATH NO_FD;
    72 25 fcntl Descriptor NO_NAME FD;
    73 32 flock Descriptor NO_NAME FD;
    74 82 fsync Sync NO_NAME FD;
    75 83 fdatasync Sync NO_NAME FD;
    76 45 truncate Change PATH NO_FD;
    77 46 ftruncate Change NO_NAME FD;
    78 _ getdents List NO_NAME FD;
    79 17 getcwd Link NO_NAME NO_FD;
    80 49 chdir Place PATH NO_FD;
    81 50 fchdir Place NO_NAME FD;
    82 _ rename Change TWO NO_FD;
    83 _ mkdir Change PATH NO_FD;
    84 _ rmdir Change PATH NO_FD;
    85 _ creat Open PATH NO_FD;
    86 _ link Change TWO NO_FD;
    87 _ unlink Change PATH NO_FD;
    88 _ symlink Change TEXT_AND_PATH NO_FD;
    89 _ readlink Link PATH NO_FD;
    90 _ chmod Change PATH NO_FD;
    91 52 fchmod Change NO_NAME FD;
    92 _ chown Change PATH NO_FD;
    93 55 fchown Change NO_NAME FD;
    94 _ lchown Change PATH NO_FD;
    95 166 umask Place NO_NAME NO_FD;
    132 _ utime Change PATH NO_FD;
    133 _ mknod Change PATH NO_FD;
    134 _ uselib Open PATH NO_FD;
    136 _ ustat Ask NO_NAME NO_FD;
    137 43 statfs Ask PATH NO_FD;
    138 44 fstatfs Ask NO_NAME FD;
    155 41 pivot_root Place TWO NO_FD;
    161 51 chroot Place PATH NO_FD;
    162 81 sync Sync NO_NAME NO_FD;
    163 89 acct Mount PATH NO_FD;
    165 40 mount Mount TEXT_AND_PATH NO_FD;
    166 39 umount2 Mount PATH NO_FD;
    167 224 swapon Mount PATH NO_FD;
    168 225 swapoff Mount PATH NO_FD;
    179 60 quotactl Mount PATH_1 NO_FD;
    187 213 readahead Seek NO_NAME FD;
    188 5 setxattr Change PATH NO_FD;
    189 6 lsetxattr Change PATH NO_FD;
    190 7 fsetxattr Change NO_NAME FD;
    191 8 getxattr Xattr PATH NO_FD;
    192 9 lgetxattr Xattr PATH NO_FD;
    193 10 fgetxattr Xattr NO_NAME FD;
    194 11 listxattr Xattr PATH NO_FD;
    195 12 llistxattr Xattr PATH NO_FD;
    196 13 flistxattr Xattr NO_NAME FD;
    197 14 removexattr Change PATH NO_FD;
    198 15 lremovexattr Change PATH NO_FD;
    199 16 fremovexattr Change NO_NAME FD;
    209 2 io_submit Batch NO_NAME NO_FD;
    217 61 getdents64 List NO_NAME FD;
    221 223 fadvise64 Seek NO_NAME FD;
    235 _ utimes Change PATH NO_FD;
    253 _ inotify_init Watch NO_NAME NO_FD;
    254 27 inotify_add_watch Watch PATH_1 FD;
    255 28 inotify_rm_watch Watch NO_NAME FD;
    257 56 openat Open PATH_AT NO_FD;
    258 34 mkdirat Change PATH_AT NO_FD;
    259 33 mknodat Change PATH_AT NO_FD;
    260 54 fchownat Change PATH_AT NO_FD;
    261 _ futimesat Change PATH_AT NO_FD;
    262 79 newfstatat Stat PATH_AT NO_FD;
    263 35 unlinkat Change PATH_AT NO_FD;
    264 38 renameat Change TWO_AT NO_FD;
    265 37 linkat Change TWO_AT NO_FD;
    266 36 symlinkat Change TEXT_AND_PATH_AT NO_FD;
    267 78 readlinkat Link PATH_AT NO_FD;
    268 53 fchmodat Change PATH_AT NO_FD;
    269 48 faccessat Access PATH_AT NO_FD;
    272 97 unshare Place NO_NAME NO_FD;
    275 76 splice Copy NO_NAME FD_0_AND_2;
    276 77 tee Copy NO_NAME FDS;
    277 84 sync_file_range Sync NO_NAME FD;
    278 75 vmsplice Copy NO_NAME FD;
    280 88 utimensat Change PATH_AT NO_FD;
    285 47 fallocate Change NO_NAME FD;
    292 24 dup3 Descriptor NO_NAME FD;
    293 59 pipe2 Descriptor NO_NAME NO_FD;
    294 26 inotify_init1 Watch NO_NAME NO_FD;
    295 69 preadv Read NO_NAME FD;
    296 70 pwritev Write NO_NAME FD;
    300 262 fanotify_init Watch NO_NAME NO_FD;
    301 263 fanotify_mark Watch PATH_AT_3 FD;
    303 264 name_to_handle_at Ask PATH_AT NO_FD;
    304 265 open_by_handle_at Open NO_NAME FD;
    306 267 syncfs Sync NO_NAME FD;
    308 268 setns Place NO_NAME FD;
    313 273 finit_module Read NO_NAME FD;
    316 276 renameat2 Change TWO_AT NO_FD;
    320 294 kexec_file_load Read NO_NAME FDS;
    322 281 execveat Exec PATH_AT NO_FD;
    326 285 copy_file_range Copy NO_NAME FD_0_AND_2;
    327 286 preadv2 Read NO_NAME FD;
    328 287 pwritev2 Write NO_NAME FD;
    332 291 statx Stat PATH_AT NO_FD;
    425 425 io_uring_setup Batch NO_NAME NO_FD;
    426 426 io_uring_enter Batch NO_NAME FD;
    427 427 io_uring_register Batch NO_NAME FD;
    428 428 open_tree Open PATH_AT NO_FD;
    429 429 move_mount Mount TWO_AT NO_FD;
    430 430 fsopen Mount NO_NAME NO_FD;
    431 431 fsconfig Mount NO_NAME FD;
    432 432 fsmount Mount NO_NAME FD;
    433 433 fspick Mount PATH_AT NO_FD;
    436 436 close_range Close NO_NAME NO_FD;
    437 437 openat2 Open PATH_AT NO_FD;
    439 439 faccessat2 Access PATH_AT NO_FD;
    442 442 mount_setattr Mount PATH_AT NO_FD;
    443 443 quotactl_fd Mount NO_NAME FD;
    451 451 cachestat Ask NO_NAME FD;
    452 452 fchmodat2 Change PATH_AT NO_FD;
    457 457 statmount Ask NO_NAME NO_FD;
    458 458 listmount Ask NO_NAME NO_FD;
    463 463 setxattrat Change PATH_AT NO_FD;
    464 464 getxattrat Xattr PATH_AT NO_FD;
    465 465 listxattrat Xattr PATH_AT NO_FD;
    466 466 removexattrat Change PATH_AT NO_FD;
    467 467 open_tree_attr Open PATH_AT NO_FD;
    468 468 file_getattr Stat PATH_AT NO_FD;
    469 469 file_setattr Change PATH_AT NO_FD;
}

/// Index into the table for each system call number; `u8::MAX`, beyond the table, for none.
static INDEX: [u8; NUMBERS] = {
    assert!(TABLE.len() < u8::MAX as usize);
    let mut index = [u8::MAX; NUMBERS];
    let mut line = 0;
    while line < TABLE.len() {
        if TABLE[line].number != ABSENT {
            index[TABLE[line].number as usize] = line as u8;
        }
        line += 1;
    }
    index
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_lead_to_the_same_line() {
        for call in all() {
            assert!((call.number as usize) < NUMBERS, "{}", call.name);
            assert_eq!(by_number(call.number), Some(call));
            assert_eq!(by_name(call.name), Some(call));
            assert!(
                call.names.len() <= 2 && call.names.iter().all(|name| name.arg < 6),
                "{}",
                call.name
            );
        }
        assert_eq!((by_number(u32::MAX), by_name("socket")), (None, None));
        assert_eq!(by_number(NUMBERS as u32 - 1), None);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_numbers_are_those_of_x86_64() {
        for (name, number) in [
            ("read", 0),
            ("openat", 257),
            ("statx", 332),
            ("listmount", 458),
            ("execve", 59),
        ] {
            assert_eq!(by_name(name).unwrap().number, number);
        }
    }

    #[test]
    #[cfg(target_arch = "aarch64")]
    fn the_numbers_are_those_of_aarch64() {
        for (name, number) in [
            ("read", 63),
            ("openat", 56),
            ("statx", 291),
            ("listmount", 458),
            ("execve", 221),
        ] {
            assert_eq!(by_name(name).unwrap().number, number);
        }
        assert_eq!(by_name("open"), None);
    }
}
