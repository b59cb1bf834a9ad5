//! The open files that a command inherits from fathom.

use gate::fs::getcwd;

use super::kind::{DescriptorKind, is_file, links};
use crate::syscalls::O_CLOEXEC;

/// Working directory and open files at the start of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InheritedFiles {
    /// The working directory of the command.
    pub cwd: Option<Vec<u8>>,
    /// Open descriptors with the absolute names of their files.
    pub files: Vec<(u32, Vec<u8>)>,
    /// Open descriptors without a path, and their kinds.
    pub unnamed: Vec<(u32, DescriptorKind)>,
}

impl InheritedFiles {
    /// The working directory of fathom, and its descriptors without the flag close-on-exec. The
    /// descriptors are unknown if /proc is not mounted.
    pub fn from_this_process() -> InheritedFiles {
        let cwd = getcwd().ok().filter(|name| name.first() == Some(&b'/'));
        InheritedFiles::from_links(cwd, links("/proc/self/fd", survives_exec).into_iter())
    }

    /// Sorts the links of /proc/PID/fd into files and descriptors without a path.
    pub(super) fn from_links(
        cwd: Option<Vec<u8>>,
        links: impl Iterator<Item = (u32, Vec<u8>)>,
    ) -> InheritedFiles {
        let (files, unnamed): (Vec<_>, Vec<_>) = links.partition(|(_, link)| is_file(link));
        let unnamed = unnamed.into_iter();
        InheritedFiles {
            cwd,
            files,
            unnamed: unnamed
                .map(|(fd, link)| (fd, DescriptorKind::of_link(&link)))
                .collect(),
        }
    }
}

/// Whether a descriptor of fathom lacks the flag close-on-exec.
fn survives_exec(fd: u32) -> bool {
    flags("self", fd).is_some_and(|flags| flags & O_CLOEXEC == 0) && !gate::command::was_closed(fd)
}

/// The flags of a descriptor, from /proc/PID/fdinfo.
pub(super) fn flags(process: &str, fd: u32) -> Option<u64> {
    let path = gate::long::c_string(format!("/proc/{process}/fdinfo/{fd}").as_bytes()).ok()?;
    let text = gate::file::read_kernel(&path).ok()?;
    u64::from_str_radix(gate::file::kernel_field(&text, "flags:")?, 8).ok()
}
