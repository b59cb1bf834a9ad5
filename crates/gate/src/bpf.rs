//! BPF: maps, programs and raw tracepoints.
//! [bpf(2)](https://man7.org/linux/man-pages/man2/bpf.2.html)
//!
//! A program is a list of 64-bit instructions, which the kernel verifies. Programs, maps and
//! attachments live as long as their descriptors: nothing is left when the process ends. BPF calls
//! are not file-system work, so only closing a descriptor is counted.

mod map;
mod program;
mod ring;

use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd};

use libc::{c_long, syscall};

pub use self::map::{Kind, Map};
pub use self::program::{LoadError, Program, raw_tracepoint_open};
pub use self::ring::Ring;
use crate::errno::check;
use crate::memory::Mapped;
use crate::{Fd, Result};

/// Makes a bpf(2) call.
///
/// # Safety
/// `attr` must be the attributes that `command` reads; the kernel may access the memory that they
/// point to, as the command does.
unsafe fn bpf<T>(command: c_long, attr: &mut T) -> Result<usize> {
    let (attr, size) = (std::ptr::from_mut(attr), size_of::<T>());
    // SAFETY: as the caller promises; the kernel reads and writes at most `size` bytes of `attr`.
    check(unsafe { syscall(libc::SYS_bpf, command, attr, size) })
}

fn raw(fd: &Fd) -> u32 {
    fd.as_raw_fd() as u32
}

/// The first 15 bytes of a name, padded with NULs.
fn short(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (to, from) in bytes[..15].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    bytes
}

/// The kernel's description of its own types (BTF), mapped because it has several megabytes.
#[derive(Debug)]
pub struct Types(Mapped);

impl Types {
    /// Maps all `len` bytes of the open file /sys/kernel/btf/vmlinux.
    ///
    /// # Errors
    /// `ENODEV` before Linux 6.16, which only supports read(2).
    pub fn map(file: impl AsFd, len: usize) -> Result<Types> {
        Mapped::new(
            file.as_fd().as_raw_fd(),
            0,
            len,
            libc::PROT_READ,
            libc::MAP_PRIVATE,
        )
        .map(Types)
    }
}

impl Deref for Types {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the kernel never changes its BTF.
        unsafe { self.0.bytes(0, self.0.len()) }.unwrap_or_default()
    }
}

/// Makes a prctl(2) call with an option that no kernel knows, which has no effect: a BPF program at
/// `sys_enter` recognizes the call by its arguments. A child may make it between fork and execve.
pub fn prctl_unknown(option: u32, first: u64, second: u64) {
    // SAFETY: the kernel refuses an option that it does not know, whatever the arguments.
    unsafe { syscall(libc::SYS_prctl, c_long::from(option), first, second, 0, 0) };
}
