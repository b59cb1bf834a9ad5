//! The machine: its name and kernel, its memory, its processors, its terminal.

use std::ffi::c_char;
use std::os::fd::{AsFd, AsRawFd};

/// What the kernel says that it and its machine are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct System {
    /// Its name among machines.
    pub host: Vec<u8>,
    /// The kernel: `6.12.8-amd64`.
    pub kernel: String,
    /// The architecture: `x86_64`.
    pub machine: String,
}

/// What this system is. [uname(2)](https://man7.org/linux/man-pages/man2/uname.2.html)
pub fn uname() -> System {
    // SAFETY: zero is a valid utsname, and the pointer is to a live one.
    let (known, names) = unsafe {
        let mut names: libc::utsname = std::mem::zeroed();
        (libc::uname(&raw mut names) == 0, names)
    };
    let bytes = |field: &[c_char]| -> Vec<u8> {
        field
            .iter()
            .take_while(|c| **c != 0)
            .map(|c| c.to_ne_bytes()[0])
            .collect()
    };
    let text = |field: &[c_char]| String::from_utf8_lossy(&bytes(field)).into_owned();
    if !known {
        return System::default();
    }
    System {
        host: bytes(&names.nodename),
        kernel: text(&names.release),
        machine: text(&names.machine),
    }
}

/// Bytes of memory that the machine has.
/// [sysinfo(2)](https://man7.org/linux/man-pages/man2/sysinfo.2.html)
pub fn memory() -> Option<u64> {
    // SAFETY: zero is a valid sysinfo, and the pointer is to a live one.
    let (known, info) = unsafe {
        let mut info: libc::sysinfo = std::mem::zeroed();
        (libc::sysinfo(&raw mut info) == 0, info)
    };
    known.then(|| info.totalram.saturating_mul(u64::from(info.mem_unit)))
}

/// Processors that this process may run on; at least 1.
pub fn processors() -> usize {
    // SAFETY: zero is a valid cpu_set_t.
    let mut set = unsafe { std::mem::zeroed::<libc::cpu_set_t>() };
    // SAFETY: `set` is a live cpu_set_t of the size given.
    let known = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) } == 0;
    if known {
        // SAFETY: `set` is a live cpu_set_t.
        (unsafe { libc::CPU_COUNT(&set) } as usize).max(1)
    } else {
        1
    }
}

/// Width of the terminal that a descriptor is connected to, in columns; `None` when it is none, or
/// does not say. [ioctl_tty(2)](https://man7.org/linux/man-pages/man2/TIOCGWINSZ.2const.html)
pub fn terminal_width(fd: impl AsFd) -> Option<usize> {
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: `size` is a live winsize.
    let known =
        unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) } == 0;
    (known && size.ws_col > 0).then_some(usize::from(size.ws_col))
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
