//! Loop devices: [loop(4)](https://man7.org/linux/man-pages/man4/loop.4.html).

use std::os::fd::AsFd;

use ondisk::Dev;

use crate::Result;
use crate::gates::Gate;
use crate::syscall::syscall;

/// The device and inode numbers of the file that a loop device is on, by LOOP_GET_STATUS64.
///
/// # Errors
/// `ENXIO` if the loop device has no file.
pub fn backing_file(fd: impl AsFd) -> Result<(Dev, u64)> {
    /// 64-bit words of `struct loop_info64`; the first two are `lo_device` and `lo_inode`.
    const WORDS: usize = 29;
    const LOOP_GET_STATUS64: u64 = 0x4c05;
    let mut info = [0_u64; WORDS];
    // SAFETY: the kernel writes one `struct loop_info64`, which has the size of `info`.
    unsafe {
        syscall!(
            Gate::LoopGetStatus64,
            fd.as_fd(),
            LOOP_GET_STATUS64,
            info.as_mut_ptr()
        )
    }?;
    let [device, inode, ..] = info;
    Ok((Dev::new(libc::major(device), libc::minor(device)), inode))
}
