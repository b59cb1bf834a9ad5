//! The id of the mount that an open file is on.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd};

use crate::fs::{CWD, Open, StatxMask, fstat, openat, read};

/// The id of the mount that an open file is on, as in /proc/self/mountinfo. If statx(2) does not
/// return the id (before Linux 5.8), /proc/self/fdinfo does.
pub fn mount_id(file: impl AsFd) -> Option<u64> {
    let file = file.as_fd();
    let seen = fstat(file, StatxMask::MNT_ID).ok()?;
    seen.mnt_id.or_else(|| mount_id_in_proc(file.as_raw_fd()))
}

/// The mount id of a descriptor, from /proc/self/fdinfo.
pub(crate) fn mount_id_in_proc(fd: i32) -> Option<u64> {
    let path = CString::new(format!("/proc/self/fdinfo/{fd}")).ok()?;
    let file = openat(CWD, &path, Open::NONBLOCK).ok()?;
    // The line `mnt_id` is among the first ones, and the first read(2) of a fdinfo file returns
    // whole lines.
    let mut text = [0; 4096];
    let length = read(&file, &mut text).ok()?;
    let mut lines = text[..length].split(|&byte| byte == b'\n');
    let id = lines.find_map(|line| line.strip_prefix(b"mnt_id:"))?;
    str::from_utf8(id.trim_ascii()).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::{CWD, Open, openat};

    #[test]
    fn proc_and_statx_return_the_same_mount_id() {
        for path in [c"/", c"/proc", c"/proc/self/exe"] {
            let file = openat(CWD, path, Open::PATH).unwrap();
            let id = mount_id(&file);
            assert!(id.is_some());
            assert_eq!(mount_id_in_proc(file.as_raw_fd()), id, "{path:?}");
        }
        assert_eq!(mount_id_in_proc(-1), None);
    }
}
