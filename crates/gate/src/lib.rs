//! The only crate that makes system calls for file-system work.
//!
//! Multics called an entry into ring zero a *gate*; here a gate is a system call, under the
//! kernel's own name. Every file-system call of the program is a function of this crate: typed,
//! safe, counted, and timed under [`meter::set_profiling`].
//!
//! | module | what is in it |
//! |---|---|
//! | `gates` | the [names and numbers of the gates](Gate) |
//! | `syscall` | the macro that makes a call through its gate |
//! | `flags` | flags of calls |
//! | `memory` | mapped memory |
//! | [`meter`] | counts and times each call |
//! | [`sync`] | locks without poison |
//! | [`tally`] | counts by gate: sums, differences, percentiles |
//! | [`throttle`] | a limit of the calls per second |
//! | `watch` | flags: whether calls are timed, charged, delayed |
//! | [`attribution`] | charges calls and CPU time to the functions of a dump |
//! | [`bpf`] | maps, programs and raw tracepoints of BPF |
//! | [`btrfs`] | btrfs's tree search and subvolumes |
//! | [`cache`] | pages of a file in the page cache: `cachestat`, `mincore` |
//! | [`clock`] | clocks, and the processors that a thread may run on |
//! | [`command`] | a child that waits before its execve(2) until its meter is ready |
//! | [`cpu_time`] | CPU time of this process and of its threads |
//! | [`create`] | creates files, directories and links, sets attributes: `mkdirat`, `fchownat`, `utimensat`, ... |
//! | [`errno`] | error numbers with their names |
//! | [`extent`] | allocation, holes, extents of a file: `fallocate`, `FS_IOC_FIEMAP` |
//! | [`fd`] | an owned file descriptor whose close is counted |
//! | [`file`](mod@file) | files that are replaced atomically, and read at any offset |
//! | [`fs`] | files and directories: `openat`, `statx`, `newfstatat`, `getdents64`, `readlinkat`, ... |
//! | [`heap`] | settings of the C library's allocator |
//! | [`interrupt`] | interruption by signals, for code that has to clean up |
//! | [`long`] | calls on names longer than `PATH_MAX` |
//! | [`lookup`] | lookups of names, at minimum cost |
//! | [`machine`] | the machine's kernel, memory, processors, terminal |
//! | [`mark`] | marks of processes, which other processes find in the list of locks |
//! | [`mount`] | `listmount`, `statmount`, `open_tree` |
//! | [`notify`] | `fanotify_init`, `fanotify_mark`, `poll`, and signals as a descriptor |
//! | [`perf`] | clocks of the CPU time of other threads: `perf_event_open` |
//! | [`process`] | children that can be killed, memory shared with them, limits and credentials |
//! | [`ptrace`] | the stops of traced processes: `ptrace`, `process_vm_readv` |
//! | [`scratch`] | temporary files for experiments |
//! | [`seccomp`] | a filter that stops a traced process at chosen calls |
//! | `signals` | dispositions of signals, temporary handlers |
//! | [`uring`] | statx through io_uring |
//! | [`usage`] | resources that processes have used |
//! | [`xattr`] | extended attributes: `listxattrat`, `getxattrat`, `flistxattr`, ... |
//! | [`xfs`] | bulkstat and the geometry of XFS |
//!
//! The functions return the kernel's error number ([`Errno`]). A gate that the kernel lacks returns
//! `ENOSYS`; functions for gates that are called often remember a missing gate
//! ([`mount::listmount`]).

#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    not(target_arch = "mips64")
)))]
compile_error!(
    "fathom is for 64-bit Linux; the numbers and layouts of its system calls are those of x86-64, arm64 and the like"
);

pub mod attribution;
pub mod bpf;
pub mod btrfs;
pub mod cache;
pub mod clock;
pub mod command;
pub mod cpu_time;
#[cfg(debug_assertions)]
pub mod crafted;
pub mod create;
pub mod errno;
pub mod extent;
pub mod fd;
pub mod file;
mod flags;
pub mod fs;
mod gates;
pub mod heap;
pub mod interrupt;
pub mod long;
pub mod lookup;
pub mod loop_device;
pub mod machine;
pub mod mark;
mod memory;
pub mod meter;
pub mod mount;
mod mount_id;
mod newer;
pub mod notify;
pub mod perf;
pub mod process;
pub mod ptrace;
pub mod quota;
mod requests;
pub mod resolve;
pub mod scratch;
pub mod seccomp;
mod signals;
#[cfg(test)]
#[path = "../../../tests/support/skip.rs"]
mod skip;
pub mod sync;
mod syscall;
pub mod tally;
pub mod throttle;
pub mod trust;
pub mod uring;
pub mod usage;
mod watch;
pub mod xattr;
pub mod xfs;

pub use errno::Errno;
pub use fd::Fd;
pub use gates::Gate;
pub use tally::Tally;

/// The result of a system call.
pub type Result<T> = std::result::Result<T, Errno>;
