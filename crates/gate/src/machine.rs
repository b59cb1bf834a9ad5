//! The machine: host name and kernel, memory, processors, terminal.

use std::ffi::c_char;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::Fd;
use crate::clock::affinity;
use crate::file::{read_kernel, write};
use crate::flags::Open;
use crate::fs::{CWD, openat};
use crate::quota::{Quota, quota};

/// The fields of [`uname`] that are used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct System {
    /// The host name.
    pub host: Vec<u8>,
    /// Release of the kernel, such as `6.12.8-amd64`.
    pub kernel: String,
    /// Architecture, such as `x86_64`.
    pub machine: String,
}

/// Host name, kernel and architecture.
/// [uname(2)](https://man7.org/linux/man-pages/man2/uname.2.html)
pub fn uname() -> System {
    // SAFETY: zero is a valid utsname.
    let mut names: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live utsname. If the call fails, all names stay empty.
    unsafe { libc::uname(&raw mut names) };
    let bytes = |field: &[c_char]| -> Vec<u8> {
        let field = field.iter().take_while(|c| **c != 0);
        field.map(|c| c.to_ne_bytes()[0]).collect()
    };
    let text = |field| String::from_utf8_lossy(&bytes(field)).into_owned();
    System {
        host: bytes(&names.nodename),
        kernel: text(&names.release),
        machine: text(&names.machine),
    }
}

/// Size of the machine's memory in bytes.
/// [sysinfo(2)](https://man7.org/linux/man-pages/man2/sysinfo.2.html)
pub fn memory() -> Option<u64> {
    // SAFETY: zero is a valid sysinfo.
    let mut info: libc::sysinfo = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live sysinfo.
    let known = unsafe { libc::sysinfo(&raw mut info) } == 0;
    known.then(|| info.totalram.saturating_mul(info.mem_unit.into()))
}

/// The maximum set by [`limit_processors`]; 0 if there is none.
static PROCESSORS: AtomicUsize = AtomicUsize::new(0);

/// Number of processors that this process may run on, or its share of them; at least 1. A fraction
/// in a [`quota`] is rounded up.
pub fn processors() -> usize {
    static QUOTA: OnceLock<Option<Quota>> = OnceLock::new();
    match PROCESSORS.load(Relaxed) {
        0 => {
            let quota = QUOTA.get_or_init(quota).as_ref();
            let most = quota.map_or(usize::MAX, |quota| quota.processors.ceil() as usize);
            affinity().len().min(most).max(1)
        }
        limit => limit,
    }
}

/// Limits the result of [`processors`], for processes that share the machine.
pub fn limit_processors(limit: usize) {
    PROCESSORS.store(limit, Relaxed);
}

/// Calls `work` without the limit of [`limit_processors`]: the processes that share the machine
/// wait meanwhile.
pub fn with_all_processors<T>(work: impl FnOnce() -> T) -> T {
    let limit = PROCESSORS.swap(0, Relaxed);
    let done = work();
    limit_processors(limit);
    done
}

/// Keeps idle processors of a virtual machine from halting until the descriptor is closed: the host
/// takes tens of microseconds to wake one. `None` if the kernel is not that of a virtual machine
/// which polls when idle (cpuidle's governor `haltpoll`), or without the privilege. [PM
/// QoS](https://docs.kernel.org/power/pm_qos_interface.html)
pub fn keep_awake() -> Option<Fd> {
    let governor = read_kernel(c"/sys/devices/system/cpu/cpuidle/current_governor").ok()?;
    if governor.trim_ascii() != b"haltpoll" || processors() < 2 {
        return None;
    }
    let latency = openat(CWD, c"/dev/cpu_dma_latency", Open::WRONLY).ok()?;
    write(&latency, &0_i32.to_ne_bytes()).ok()?;
    Some(latency)
}

/// Width of the terminal at a descriptor, in columns; `None` if the descriptor is no terminal, or
/// the width is unknown.
/// [ioctl_tty(2)](https://man7.org/linux/man-pages/man2/TIOCGWINSZ.2const.html)
pub fn terminal_width(fd: impl AsFd) -> Option<usize> {
    // SAFETY: zero is a valid winsize.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: `size` is a live winsize, and stays zero if the call fails.
    unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_has_a_name_and_memory() {
        let system = uname();
        assert!(!system.kernel.is_empty() && !system.machine.is_empty());
        assert!(memory().is_some_and(|bytes| bytes > 1 << 20));
    }
}
