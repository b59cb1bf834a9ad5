//! What a command inherits from this process.

use gate::fs::getcwd;

use super::kind::{DescriptorKind, is_file, links};
use crate::syscalls::O_CLOEXEC;

/// What a command begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inherited {
    /// Its working directory.
    pub cwd: Option<Vec<u8>>,
    /// Open descriptors, and the absolute names of their files.
    pub files: Vec<(u32, Vec<u8>)>,
    /// Open descriptors without a name, and what they are.
    pub unnamed: Vec<(u32, DescriptorKind)>,
}

impl Inherited {
    /// The working directory of this process, and the descriptors that execve(2) leaves open. The
    /// latter are unknown without /proc.
    pub fn from_this_process() -> Inherited {
        let cwd = getcwd().ok().filter(|name| name.first() == Some(&b'/'));
        Inherited::from_links(cwd, links("/proc/self/fd", survives_exec).into_iter())
    }

    /// From the links of open descriptors.
    pub(super) fn from_links(
        cwd: Option<Vec<u8>>,
        links: impl Iterator<Item = (u32, Vec<u8>)>,
    ) -> Inherited {
        let (files, unnamed): (Vec<_>, Vec<_>) = links.partition(|(_, link)| is_file(link));
        let unnamed = unnamed.into_iter();
        Inherited {
            cwd,
            files,
            unnamed: unnamed
                .map(|(fd, link)| (fd, DescriptorKind::of_link(&link)))
                .collect(),
        }
    }
}

/// Whether execve(2) leaves a descriptor of this process open.
fn survives_exec(fd: u32) -> bool {
    flags("self", fd).is_some_and(|flags| flags & O_CLOEXEC == 0) && !gate::command::was_closed(fd)
}

/// The flags of a descriptor of a process, from /proc.
pub(super) fn flags(process: &str, fd: u32) -> Option<u64> {
    let path = gate::long::c_string(format!("/proc/{process}/fdinfo/{fd}").as_bytes()).ok()?;
    let text = gate::file::read_kernel(&path).ok()?;
    let mut lines = text.split(|&b| b == b'\n');
    let flags = lines.find_map(|line| line.strip_prefix(b"flags:"))?;
    u64::from_str_radix(str::from_utf8(flags).ok()?.trim(), 8).ok()
}
