//! Directories in a mount namespace that is not that of this process.

use std::collections::HashSet;
use std::os::fd::AsRawFd;

use base::directory::numbers;
use gate::Fd;
use gate::file::read_kernel_up_to;
use gate::fs::{CWD, Open};
use gate::long::c_string;
use gate::mount::mount_id;

/// A mount namespace that is not that of this process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OtherNamespace {
    /// A process in the namespace.
    pub pid: u32,
    /// The path of a directory in the namespace.
    pub path: Vec<u8>,
}

/// The different mount namespace that contains an open directory, such as /proc/PID/root of a container: the mount table of
/// this process lacks the id of its mount, and that of a process in the namespace has it. `None` for a mount that no table has,
/// such as a detached one, or one outside of a chroot.
pub fn other_namespace(dir: &Fd) -> Option<OtherNamespace> {
    const MOST: usize = 64 << 20;
    let id = mount_id(dir)?.to_string();
    let has_mount = |process: &str| {
        let table = c_string(format!("/proc/{process}/mountinfo").as_bytes());
        let table = table.and_then(|table| read_kernel_up_to(&table, MOST));
        let is_same = |line: &[u8]| line.split(|&b| b == b' ').next() == Some(id.as_bytes());
        table.is_ok_and(|table| table.split(|&b| b == b'\n').any(is_same))
    };
    let link = |path: String| {
        let path = c_string(path.as_bytes()).ok()?;
        gate::fs::readlinkat(CWD, &path).ok()
    };
    let namespace = |process: &str| link(format!("/proc/{process}/ns/mnt"));
    let mut examined = HashSet::from([namespace("self")?]);
    if has_mount("self") {
        return None;
    }
    let processes = gate::fs::openat(CWD, c"/proc", Open::DIRECTORY).ok()?;
    let pid = numbers(&processes).ok()?.into_iter().find(|pid| {
        let process = pid.to_string();
        namespace(&process).is_some_and(|found| examined.insert(found)) && has_mount(&process)
    })?;
    let path = link(format!("/proc/self/fd/{}", dir.as_raw_fd()))?;
    Some(OtherNamespace { pid, path })
}
