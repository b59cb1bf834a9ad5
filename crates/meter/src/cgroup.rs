//! A cgroup: its processes and their CPU time.

use gate::file::{kernel_field, read_kernel_in};
use gate::fs::{CWD, Open, fstatfs, openat};
use gate::{Errno, Fd};

use crate::error::TargetError;
use crate::listing::list;

/// A directory in a cgroup file system.
#[derive(Debug)]
pub(crate) struct Cgroup {
    path: Vec<u8>,
    pub(crate) dir: Fd,
    /// The directory is in a cgroup2 file system.
    pub(crate) is_v2: bool,
}

impl Cgroup {
    /// Opens the directory of a cgroup.
    ///
    /// # Errors
    /// If the directory cannot be opened, or is not in a cgroup file system.
    pub(crate) fn open(path: &[u8]) -> Result<Cgroup, TargetError> {
        const CGROUP_SUPER_MAGIC: u64 = 0x27_e0eb;
        const CGROUP2_SUPER_MAGIC: u64 = 0x6367_7270;
        let cannot = |errno| TargetError::Unopened(path.to_vec(), errno);
        let no_cgroup = || TargetError::NotCgroup(path.to_vec());
        let dir = gate::long::c_string(path)
            .and_then(|path| openat(CWD, &path, Open::DIRECTORY))
            .map_err(|errno| match errno {
                Errno::ENOTDIR => no_cgroup(),
                errno => cannot(errno),
            })?;
        let magic = fstatfs(&dir).map_err(cannot)?.magic;
        match magic {
            CGROUP_SUPER_MAGIC | CGROUP2_SUPER_MAGIC => Ok(Cgroup {
                path: path.to_vec(),
                dir,
                is_v2: magic == CGROUP2_SUPER_MAGIC,
            }),
            _ => Err(no_cgroup()),
        }
    }

    /// The visible processes of this cgroup and of its descendants.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let mut processes = Vec::new();
        let mut cgroups = vec![self.path.clone()];
        while let Some(path) = cgroups.pop() {
            let members = read_kernel_in(&path, b"cgroup.procs").unwrap_or_default();
            let members = String::from_utf8_lossy(&members);
            let members = members.lines().filter_map(|pid| pid.parse::<u32>().ok());
            processes.extend(members.filter(|pid| *pid > 0));
            let _ = list(&path, |_, entry| {
                if entry.file_type == ondisk::FileType::Directory {
                    cgroups.push([&path[..], b"/", entry.name.to_bytes()].concat());
                }
            });
        }
        processes
    }

    /// `user_usec` and `system_usec` of cgroup2's `cpu.stat`, which include processes that have
    /// ended.
    pub(crate) fn cpu_time(&self) -> Option<[u64; 2]> {
        parse_cpu_time(&read_kernel_in(&self.path, b"cpu.stat").ok()?)
    }
}

fn parse_cpu_time(text: &[u8]) -> Option<[u64; 2]> {
    let value = |key| kernel_field(text, key)?.parse().ok();
    Some([value("user_usec ")?, value("system_usec ")?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_parsed() {
        let text = b"usage_usec 9\nuser_usec 5\nsystem_usec 4\ncore_sched.force_idle_usec 0\n";
        assert_eq!(parse_cpu_time(text), Some([5, 4]));
        assert_eq!(parse_cpu_time(b"usage_usec 9\n"), None);
    }

    #[test]
    fn other_directories_are_no_cgroups() {
        let refused = |path: &[u8]| Cgroup::open(path).unwrap_err();
        assert_eq!(refused(b"/proc"), TargetError::NotCgroup(b"/proc".to_vec()));
        assert_eq!(
            refused(b"/proc/self/status"),
            TargetError::NotCgroup(b"/proc/self/status".to_vec())
        );
        assert_eq!(
            refused(b"/no/such"),
            TargetError::Unopened(b"/no/such".to_vec(), Errno::ENOENT)
        );
    }
}
