//! The machine: its name and kernel, its memory, its processors, its terminal.

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

/// The fields of [`uname`] that are used here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct System {
    /// The host name.
    pub host: Vec<u8>,
    /// The kernel: `6.12.8-amd64`.
    pub kernel: String,
    /// The architecture: `x86_64`.
    pub machine: String,
}

/// The name of this system. [uname(2)](https://man7.org/linux/man-pages/man2/uname.2.html)
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

/// Bytes of memory that the machine has.
/// [sysinfo(2)](https://man7.org/linux/man-pages/man2/sysinfo.2.html)
pub fn memory() -> Option<u64> {
    // SAFETY: zero is a valid sysinfo.
    let mut info: libc::sysinfo = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live sysinfo.
    let known = unsafe { libc::sysinfo(&raw mut info) } == 0;
    known.then(|| info.totalram.saturating_mul(info.mem_unit.into()))
}

/// The limit of [`limit_processors`]; 0 if there is none.
static PROCESSORS: AtomicUsize = AtomicUsize::new(0);

/// Processors that this process may run on, or its share of them; at least 1. A part of one, which a
/// [`quota`] may end with, counts as one.
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

/// The number of processors that this process is to count with, because it shares them with others.
pub fn limit_processors(limit: usize) {
    PROCESSORS.store(limit, Relaxed);
}

/// Counts with all processors in `work`, during which the processes that share them wait.
pub fn with_all_processors<T>(work: impl FnOnce() -> T) -> T {
    let limit = PROCESSORS.swap(0, Relaxed);
    let done = work();
    limit_processors(limit);
    done
}

/// Keeps idle processors of a virtual machine from halting, until the descriptor is closed: the host
/// takes tens of microseconds to run one again. `None` if this is none whose kernel polls when idle
/// (cpuidle's governor `haltpoll`), or if this process may not do that.
/// [PM QoS](https://docs.kernel.org/power/pm_qos_interface.html)
pub fn keep_awake() -> Option<Fd> {
    let governor = read_kernel(c"/sys/devices/system/cpu/cpuidle/current_governor").ok()?;
    if governor.trim_ascii() != b"haltpoll" || processors() < 2 {
        return None;
    }
    let latency = openat(CWD, c"/dev/cpu_dma_latency", Open::WRONLY).ok()?;
    write(&latency, &0_i32.to_ne_bytes()).ok()?;
    Some(latency)
}

/// Width of the terminal that a descriptor is connected to, in columns; `None` when it is not a
/// terminal, or does not say. [ioctl_tty(2)](https://man7.org/linux/man-pages/man2/TIOCGWINSZ.2const.html)
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
