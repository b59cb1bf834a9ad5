//! The open files of a process when a meter attaches to it.

use gate::fs::{CWD, readlinkat};

use super::inherited::{InheritedFiles, flags};
use super::kind::{is_file, links};
use crate::syscalls::O_CLOEXEC;

/// A process that was running before metering began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttachedProcess {
    /// The process id.
    pub pid: u32,
    /// The thread ids of the process.
    pub threads: Vec<u32>,
    /// The path of the executable.
    pub program: Vec<u8>,
    /// Working directory and open files of the process.
    pub(crate) open: OpenFiles,
}

/// Names of a process's open files, from /proc/PID.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpenFiles {
    cwd: Option<Vec<u8>>,
    /// Descriptors, the targets of their links in /proc/PID/fd, and whether they are close-on-exec.
    files: Vec<(u32, Vec<u8>, bool)>,
    /// The link targets of /proc/PID/root and /proc/PID/ns/mnt.
    root: Option<(Vec<u8>, Vec<u8>)>,
}

impl OpenFiles {
    pub(crate) fn read(pid: u32) -> OpenFiles {
        let link = |name: &str| {
            let path = format!("/proc/{pid}/{name}");
            readlinkat(CWD, &gate::long::c_string(path.as_bytes()).ok()?).ok()
        };
        let closes = |fd: u32| {
            let flags = flags(&pid.to_string(), fd).unwrap_or(O_CLOEXEC);
            flags & O_CLOEXEC != 0
        };
        let files = links(&format!("/proc/{pid}/fd"), |_| true).into_iter();
        OpenFiles {
            cwd: link("cwd").filter(|name| is_file(name)),
            files: files.map(|(fd, link)| (fd, link, closes(fd))).collect(),
            root: link("root").zip(link("ns/mnt")),
        }
    }

    /// The number of open descriptors.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// Keeps the files that are also in `before`. A file that changed between the two readings may
    /// have changed before or after the first metered call, so its name is unknown.
    pub(crate) fn since(mut self, before: &OpenFiles) -> OpenFiles {
        self.cwd = self.cwd.filter(|cwd| before.cwd.as_ref() == Some(cwd));
        self.files.retain(|file| before.files.contains(file));
        self
    }

    pub(super) fn inherited(&self) -> InheritedFiles {
        let links = self.files.iter().map(|(fd, link, _)| (*fd, link.clone()));
        InheritedFiles::from_links(self.cwd.clone(), links)
    }

    /// The descriptors with the flag close-on-exec.
    pub(super) fn closed_on_exec(&self) -> impl Iterator<Item = u32> {
        let files = self.files.iter();
        files.filter(|(.., closes)| *closes).map(|(fd, ..)| *fd)
    }

    /// The root and the mount namespace of fathom.
    pub(super) fn own_root() -> Option<(Vec<u8>, Vec<u8>)> {
        let link = |name| readlinkat(CWD, name).ok();
        link(c"/proc/self/root").zip(link(c"/proc/self/ns/mnt"))
    }

    pub(super) fn root(&self) -> Option<&(Vec<u8>, Vec<u8>)> {
        self.root.as_ref()
    }
}
