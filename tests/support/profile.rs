//! Simulates older kernels and sandboxes: seccomp filters make missing system calls fail, and parts
//! of the file system are hidden.
//!
//! A filter cannot change the result of a call that exists: an older statx(2) omits the mount id
//! (before 5.8) and ignores unknown fields, an older statmount(2) omits strings. A filter sees
//! neither structures in memory (types and flags of BPF maps, operations of io_uring) nor the
//! features of file systems. To test these, boot the kernel itself.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::restrict::{self, Calls, Rule};
use super::run::fathom_path;

/// A version of the kernel.
pub(crate) type Version = (u32, u32);

/// A system call, or some of its operations, with the version that added it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Added {
    /// The name in the manual pages; with the flag or operation, if only that was added.
    pub(crate) name: &'static str,
    pub(crate) since: Version,
    pub(crate) rule: Rule,
}

const fn call(name: &'static str, number: u32, since: Version) -> Added {
    Added {
        name,
        since,
        rule: Rule {
            number,
            calls: Calls::All,
            errno: libc::ENOSYS,
        },
    }
}

const fn kind(
    name: &'static str,
    since: Version,
    number: libc::c_long,
    calls: Calls,
    errno: i32,
) -> Added {
    Added {
        name,
        since,
        rule: Rule {
            number: number as u32,
            calls,
            errno,
        },
    }
}

/// System calls that Linux has added since 4.18, by the kernel's tables of system calls (from 5.1
/// on, a new call has the same number everywhere) and by VERSIONS and HISTORY of the manual pages.
pub(crate) const ADDED: &[Added] = &[
    call("pidfd_send_signal", 424, (5, 1)),
    call("io_uring_setup", 425, (5, 1)),
    call("io_uring_enter", 426, (5, 1)),
    call("io_uring_register", 427, (5, 1)),
    call("open_tree", 428, (5, 2)),
    call("move_mount", 429, (5, 2)),
    call("fsopen", 430, (5, 2)),
    call("fsconfig", 431, (5, 2)),
    call("fsmount", 432, (5, 2)),
    call("fspick", 433, (5, 2)),
    call("pidfd_open", 434, (5, 3)),
    call("clone3", 435, (5, 3)),
    call("close_range", 436, (5, 9)),
    call("openat2", 437, (5, 6)),
    call("pidfd_getfd", 438, (5, 6)),
    call("faccessat2", 439, (5, 8)),
    call("process_madvise", 440, (5, 10)),
    call("epoll_pwait2", 441, (5, 11)),
    call("mount_setattr", 442, (5, 12)),
    call("quotactl_fd", 443, (5, 14)),
    call("landlock_create_ruleset", 444, (5, 13)),
    call("landlock_add_rule", 445, (5, 13)),
    call("landlock_restrict_self", 446, (5, 13)),
    call("memfd_secret", 447, (5, 14)),
    call("process_mrelease", 448, (5, 15)),
    call("futex_waitv", 449, (5, 16)),
    call("set_mempolicy_home_node", 450, (5, 17)),
    call("cachestat", 451, (6, 5)),
    call("fchmodat2", 452, (6, 6)),
    call("map_shadow_stack", 453, (6, 6)),
    call("futex_wake", 454, (6, 7)),
    call("futex_wait", 455, (6, 7)),
    call("futex_requeue", 456, (6, 7)),
    call("statmount", 457, (6, 8)),
    call("listmount", 458, (6, 8)),
    call("lsm_get_self_attr", 459, (6, 8)),
    call("lsm_set_self_attr", 460, (6, 8)),
    call("lsm_list_modules", 461, (6, 8)),
    call("mseal", 462, (6, 10)),
    call("setxattrat", 463, (6, 13)),
    call("getxattrat", 464, (6, 13)),
    call("listxattrat", 465, (6, 13)),
    call("removexattrat", 466, (6, 13)),
    call("open_tree_attr", 467, (6, 15)),
    call("file_getattr", 468, (6, 17)),
    call("file_setattr", 469, (6, 17)),
    // Operations and flags, as far as they are arguments of the call.
    kind(
        "ptrace: PTRACE_GET_SYSCALL_INFO",
        (5, 3),
        libc::SYS_ptrace,
        Calls::With(0, 0x420e),
        libc::EIO,
    ),
    kind(
        "ioctl: XFS_IOC_BULKSTAT",
        (5, 3),
        libc::SYS_ioctl,
        Calls::With(1, 0x8040_587f),
        libc::ENOTTY,
    ),
    // The programs of the meter need a type of map, which is in memory where a filter cannot see
    // it. Without that type, no map can be created.
    kind(
        "bpf: BPF_MAP_TYPE_RINGBUF",
        (5, 8),
        libc::SYS_bpf,
        Calls::With(0, 0),
        libc::EINVAL,
    ),
    kind(
        "ioctl: FS_IOC_GETFSUUID",
        (6, 9),
        libc::SYS_ioctl,
        Calls::With(1, 0x8011_1500),
        libc::ENOTTY,
    ),
    kind(
        "fanotify_init: FAN_REPORT_MNT",
        (6, 15),
        libc::SYS_fanotify_init,
        Calls::WithBits(0, 0x4000),
        libc::EINVAL,
    ),
];

/// Numbers of calls that are newer than the list.
const NEWER: u32 = 470;
const NEWEST: u32 = 480;

/// Calls that Docker's default profile (`profiles/seccomp` of moby 24) forbids in a container
/// without capabilities: all calls that its list does not allow fail with EPERM.
const NOT_IN_DOCKER: &[libc::c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_get_mempolicy,
    libc::SYS_init_module,
    libc::SYS_kcmp,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_mbind,
    libc::SYS_migrate_pages,
    libc::SYS_mount,
    libc::SYS_move_pages,
    libc::SYS_nfsservctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_perf_event_open,
    libc::SYS_pivot_root,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_set_mempolicy,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];

/// The calls in [`ADDED`] that the profile of moby 24 allows.
const IN_DOCKER: &[&str] = &[
    "close_range",
    "epoll_pwait2",
    "faccessat2",
    "futex_waitv",
    "landlock_add_rule",
    "landlock_create_ruleset",
    "landlock_restrict_self",
    "memfd_secret",
    "openat2",
    "pidfd_open",
    "pidfd_send_signal",
    "process_mrelease",
];

/// The flags of clone(2) that make namespaces.
const CLONE_NAMESPACES: u32 = 0x7e02_0000;

/// A simulated environment to run a command in.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    pub(crate) name: &'static str,
    rules: Vec<Rule>,
    place: Place,
}

/// The part of the file system that is missing or read-only.
#[derive(Clone, Debug)]
enum Place {
    Whole,
    /// An empty tmpfs covers this directory.
    Without(&'static str),
    /// All mounts except this one are read-only.
    ReadOnly {
        except: PathBuf,
    },
    /// Landlock: files that are not at or below one of these paths can be neither opened nor
    /// changed; `true` allows changes.
    Confined(Vec<(PathBuf, bool)>),
}

fn all(number: u32, errno: i32) -> Rule {
    Rule {
        number,
        calls: Calls::All,
        errno,
    }
}

/// The kernels, with their names in the documentation.
pub(crate) const KERNELS: [(&str, Version); 6] = [
    ("4.18", (4, 18)),
    ("5.4", (5, 4)),
    ("5.10", (5, 10)),
    ("5.15", (5, 15)),
    ("6.1", (6, 1)),
    ("6.6", (6, 6)),
];

/// The calls that a kernel of this version lacks.
pub(crate) fn lacking(version: Version) -> impl Iterator<Item = &'static Added> {
    ADDED.iter().filter(move |added| added.since > version)
}

impl Profile {
    fn new(name: &'static str, rules: Vec<Rule>, place: Place) -> Profile {
        Profile { name, rules, place }
    }

    /// The machine as it is.
    pub(crate) fn none() -> Profile {
        Profile::new("none", Vec::new(), Place::Whole)
    }

    /// One profile for each of [`KERNELS`].
    pub(crate) fn kernels() -> Vec<Profile> {
        let newer = || (NEWER..NEWEST).map(|number| all(number, libc::ENOSYS));
        let rules = |version| lacking(version).map(|added| added.rule).chain(newer());
        KERNELS
            .map(|(name, version)| Profile::new(name, rules(version).collect(), Place::Whole))
            .to_vec()
    }

    /// Docker's default seccomp profile, and the one before it knew statx(2) and all later calls
    /// (Docker 18.03, and newer versions with an old libseccomp).
    pub(crate) fn docker() -> [Profile; 2] {
        let forbidden = |number: u32| all(number, libc::EPERM);
        let old = NOT_IN_DOCKER.iter().map(|&number| forbidden(number as u32));
        let namespaces = Rule {
            number: libc::SYS_clone as u32,
            calls: Calls::WithBits(0, CLONE_NAMESPACES),
            errno: libc::EPERM,
        };
        // The C library creates threads by clone3(2), and by clone(2) only after this error.
        let clone3 = all(435, libc::ENOSYS);
        let common: Vec<Rule> = old.chain([namespaces, clone3]).collect();
        let is_refused =
            |added: &&Added| added.rule.calls == Calls::All && !IN_DOCKER.contains(&added.name);
        let refused = ADDED
            .iter()
            .filter(is_refused)
            .map(|added| added.rule.number);
        let newer = refused.chain(NEWER..NEWEST).map(forbidden);
        let every = [libc::SYS_statx as u32]
            .into_iter()
            .chain(424..NEWEST)
            .map(forbidden);
        [
            Profile::new(
                "docker",
                common.iter().copied().chain(newer).collect(),
                Place::Whole,
            ),
            Profile::new(
                "docker-18.03",
                common.iter().copied().chain(every).collect(),
                Place::Whole,
            ),
        ]
    }

    /// gVisor's table of system calls (`pkg/sentry/syscalls/linux`), of a version without statx(2).
    pub(crate) fn gvisor() -> Profile {
        let missing = [
            libc::SYS_statx,
            libc::SYS_fanotify_init,
            libc::SYS_fanotify_mark,
            libc::SYS_copy_file_range,
            libc::SYS_userfaultfd,
            libc::SYS_vmsplice,
        ];
        let missing = missing.map(|number| number as u32).into_iter();
        let missing = missing
            .chain(425..=427)
            .chain([433, 440])
            .chain(442..NEWEST);
        let mut rules: Vec<Rule> = missing.map(|number| all(number, libc::ENOSYS)).collect();
        rules.extend([
            all(libc::SYS_bpf as u32, libc::EPERM),
            all(libc::SYS_perf_event_open as u32, libc::ENODEV),
            all(libc::SYS_name_to_handle_at as u32, libc::EOPNOTSUPP),
            all(libc::SYS_open_by_handle_at as u32, libc::EOPNOTSUPP),
        ]);
        Profile::new("gvisor", rules, Place::Whole)
    }

    /// An empty directory in place of `/proc` or `/sys`. The caller needs root.
    pub(crate) fn without(directory: &'static str) -> Profile {
        let name = match directory {
            "/proc" => "no /proc",
            _ => "no /sys",
        };
        Profile::new(name, Vec::new(), Place::Without(directory))
    }

    /// Every mount is read-only except that of `except`, which must be a mount point. The caller
    /// needs root.
    pub(crate) fn read_only(except: &Path) -> Profile {
        let except = except.to_owned();
        Profile::new("read-only", Vec::new(), Place::ReadOnly { except })
    }

    /// Landlock allows the command to read and execute the system's programs, to read `tree`, and
    /// to change files below `out`; nothing else.
    pub(crate) fn landlock(tree: &Path, out: &Path) -> Profile {
        let program = fathom_path();
        let system = ["/usr", "/lib", "/lib64", "/bin", "/proc", "/sys", "/etc"];
        let system = system.map(PathBuf::from).into_iter();
        let readable = system.chain([program.to_owned(), tree.to_owned()]);
        let readable = readable
            .filter(|path| path.exists())
            .map(|path| (path, false));
        let writable = [out.to_owned(), PathBuf::from("/dev")].map(|path| (path, true));
        let allowed = readable.chain(writable).collect();
        Profile::new("landlock", Vec::new(), Place::Confined(allowed))
    }

    /// Makes a command run under this profile.
    pub(crate) fn apply(&self, command: &mut Command) {
        match self.place.clone() {
            Place::Whole => {}
            Place::Without(directory) => cover(command, directory),
            Place::ReadOnly { except } => make_read_only(command, &except),
            Place::Confined(allowed) => confine(command, &allowed),
        }
        if !self.rules.is_empty() {
            restrict::apply(command, &self.rules);
        }
    }
}

fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Gives the calling process, which has a single thread between fork and exec, its own mount
/// namespace.
fn own_mounts() -> io::Result<()> {
    // SAFETY: both calls take numbers and NUL-terminated strings; nothing is allocated.
    unsafe {
        checked(libc::unshare(libc::CLONE_NEWNS).into())?;
        let flags = libc::MS_REC | libc::MS_PRIVATE;
        let none = std::ptr::null();
        checked(libc::mount(none, c"/".as_ptr(), none, flags, std::ptr::null()).into()).map(drop)
    }
}

fn cover(command: &mut Command, directory: &'static str) {
    let directory = CString::new(directory).unwrap();
    let install = move || {
        own_mounts()?;
        let (kind, none) = (c"tmpfs".as_ptr(), std::ptr::null());
        // SAFETY: the strings are NUL-terminated; nothing is allocated.
        checked(unsafe { libc::mount(kind, directory.as_ptr(), kind, 0, none) }.into()).map(drop)
    };
    // SAFETY: between fork and exec it makes system calls, and allocates nothing.
    unsafe { command.pre_exec(install) };
}

fn make_read_only(command: &mut Command, except: &Path) {
    const MOUNT_SETATTR: libc::c_long = 442;
    const MOUNT_ATTR_RDONLY: u64 = 1;
    let except = CString::new(except.as_os_str().as_bytes()).unwrap();
    let install = move || {
        own_mounts()?;
        // `struct mount_attr`: set, clear, propagation, user namespace.
        let set = [MOUNT_ATTR_RDONLY, 0, 0, 0];
        let clear = [0, MOUNT_ATTR_RDONLY, 0, 0];
        for (path, flags, attr) in [
            (c"/".as_ptr(), libc::AT_RECURSIVE, set),
            (except.as_ptr(), 0, clear),
        ] {
            // SAFETY: the path is NUL-terminated and `attr` has the given size.
            checked(unsafe {
                let (attr, size) = (attr.as_ptr(), size_of_val(&attr));
                libc::syscall(MOUNT_SETATTR, libc::AT_FDCWD, path, flags, attr, size)
            })?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec it makes system calls, and allocates nothing.
    unsafe { command.pre_exec(install) };
}

/// Whether the kernel has Landlock, as [`Profile::landlock`] uses it (Linux 5.19).
pub(crate) fn has_landlock() -> bool {
    const CREATE_RULESET: libc::c_long = 444;
    const VERSION: u32 = 1;
    // SAFETY: a null pointer of size 0 asks for the version.
    unsafe { libc::syscall(CREATE_RULESET, std::ptr::null::<u8>(), 0, VERSION) >= 2 }
}

fn confine(command: &mut Command, allowed: &[(PathBuf, bool)]) {
    const CREATE_RULESET: libc::c_long = 444;
    const ADD_RULE: libc::c_long = 445;
    const RESTRICT_SELF: libc::c_long = 446;
    const PATH_BENEATH: u32 = 1;
    // LANDLOCK_ACCESS_FS_*: execute, read files, read directories; all of the second version, which
    // can permit links and renames between directories.
    const READ: u64 = 0b1101;
    const ALL: u64 = (1 << 14) - 1;
    // Rights that apply to files.
    const FILE: u64 = 0b111;
    let allowed: Vec<(CString, u64)> = allowed
        .iter()
        .map(|(path, may_change)| {
            let access = if *may_change { ALL } else { READ };
            let access = if path.is_dir() { access } else { access & FILE };
            (CString::new(path.as_os_str().as_bytes()).unwrap(), access)
        })
        .collect();
    let install = move || {
        let handled = [ALL]; // `struct landlock_ruleset_attr`, its first version
        // SAFETY: pointers are to live structures of the given sizes and NUL-terminated paths;
        // nothing is allocated.
        unsafe {
            let size = size_of_val(&handled);
            let rules = checked(libc::syscall(CREATE_RULESET, handled.as_ptr(), size, 0))?;
            for (path, access) in &allowed {
                let fd = libc::open(path.as_ptr(), libc::O_PATH | libc::O_CLOEXEC);
                checked(fd.into())?;
                // `struct landlock_path_beneath_attr`, which is packed.
                let mut rule = [0_u8; 12];
                rule[..8].copy_from_slice(&access.to_ne_bytes());
                rule[8..].copy_from_slice(&fd.to_ne_bytes());
                let rule = rule.as_ptr();
                checked(libc::syscall(ADD_RULE, rules, PATH_BENEATH, rule, 0))?;
            }
            checked(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into())?;
            checked(libc::syscall(RESTRICT_SELF, rules, 0)).map(drop)
        }
    };
    // SAFETY: between fork and exec it makes system calls, and allocates nothing.
    unsafe { command.pre_exec(install) };
}
