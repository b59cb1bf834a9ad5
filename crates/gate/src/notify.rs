//! Events: mounts through fanotify, readiness of descriptors through poll, signals as a descriptor.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use libc::c_long;

use crate::errno::check;
use crate::gates::Gate;
use crate::signals::block;
use crate::syscall::syscall;
use crate::{Errno, Fd, Result};

/// Bit of a mount event's mask: a mount was attached.
pub const FAN_MNT_ATTACH: u64 = 0x0100_0000;
/// Bit of a mount event's mask: a mount was detached.
pub const FAN_MNT_DETACH: u64 = 0x0200_0000;
/// Bit of an event's mask: the queue overflowed and events were lost.
pub const FAN_Q_OVERFLOW: u64 = 0x4000;

/// Creates a fanotify group that reports mounts by their 64-bit ids; if `unlimited`, its queue
/// never overflows. [fanotify_init(2)](https://man7.org/linux/man-pages/man2/fanotify_init.2.html),
/// `FAN_REPORT_MNT` (Linux 6.15)
///
/// # Errors
/// `EINVAL` before Linux 6.15; `EPERM` for `unlimited` without `CAP_SYS_ADMIN`.
pub fn fanotify_init_mounts(unlimited: bool) -> Result<Fd> {
    const FAN_REPORT_MNT: u32 = 0x4000;
    let queue = if unlimited {
        libc::FAN_UNLIMITED_QUEUE
    } else {
        0
    };
    let flags = FAN_REPORT_MNT | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK | queue;
    let events = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: no pointers.
    unsafe { syscall!(Gate::FanotifyInit, flags, events) }.map(Fd::take)
}

/// Subscribes a fanotify group to attaches and detaches in a mount namespace, given by an open
/// `/proc/PID/ns/mnt`.
/// [fanotify_mark(2)](https://man7.org/linux/man-pages/man2/fanotify_mark.2.html), `FAN_MARK_MNTNS`
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN` in the namespace's user namespace.
pub fn fanotify_mark_mntns(group: impl AsFd, namespace: impl AsFd) -> Result<()> {
    const FAN_MARK_MNTNS: u32 = 0x110;
    let (group, flags) = (group.as_fd(), libc::FAN_MARK_ADD | FAN_MARK_MNTNS);
    let events = FAN_MNT_ATTACH | FAN_MNT_DETACH;
    let namespace = namespace.as_fd();
    // SAFETY: the path is null, which means the descriptor itself.
    unsafe { syscall!(Gate::FanotifyMark, group, flags, events, namespace, 0) }.map(drop)
}

/// The event to wait for at a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Event {
    /// Data can be read, or the other end is closed (`POLLIN`).
    Readable,
    Writable,
    /// `POLLPRI`: for /proc/self/mountinfo, the mount table has changed since it was last read.
    Priority,
}

/// Waits until one of the descriptors is ready, or `limit` has passed, and returns which are ready;
/// none after a signal. Not counted: it is not file-system work.
/// [poll(2)](https://man7.org/linux/man-pages/man2/poll.2.html)
pub fn poll<const N: usize>(
    wait: [(BorrowedFd<'_>, Event); N],
    limit: Option<Duration>,
) -> Result<[bool; N]> {
    let mut set = wait.map(|(fd, event)| libc::pollfd {
        fd: fd.as_raw_fd(),
        events: match event {
            Event::Readable => libc::POLLIN,
            Event::Writable => libc::POLLOUT,
            Event::Priority => libc::POLLPRI,
        },
        revents: 0,
    });
    let limit = limit.map_or(-1, |d| {
        i32::try_from(d.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
    });
    // SAFETY: `set` has N entries.
    match check(c_long::from(unsafe {
        libc::poll(set.as_mut_ptr(), N as libc::nfds_t, limit)
    })) {
        Ok(_) | Err(Errno::EINTR) => Ok(set.map(|fd| fd.revents != 0)),
        Err(e) => Err(e),
    }
}

/// Blocks SIGINT and SIGTERM; from now on they make the returned descriptor readable.
/// [signalfd(2)](https://man7.org/linux/man-pages/man2/signalfd.2.html)
pub fn stop_signals() -> Result<Fd> {
    let set = block(&[libc::SIGINT, libc::SIGTERM]);
    // SAFETY: the pointer is to a live set.
    let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC) };
    check(c_long::from(fd)).map(Fd::take)
}
