//! Having the kernel forget what it knows of a tree: names that are there (dentries), names that
//! are not (negative ones), inodes, and directories' blocks.
//!
//! Nothing in the kernel forgets the names of one tree alone. A remount would forget those of its
//! file system, and may change its options on the way (XFS would leave inode32). What can be asked
//! of it is to forget what a memory cgroup has in memory, and to forget everything of the host.

use gate::file::write;
use gate::fs::{Open, syncfs};
use gate::long::open_long;
use gate::{Errno, Gate};
use mounts::Warning;

/// What is to be forgotten.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cold {
    /// What this process's memory cgroup has in memory: the file that is written for it, and what
    /// is written.
    Group(Vec<u8>, &'static [u8]),
    /// This process is in no group of its own that could forget, or none is to be seen.
    NoGroup,
    /// All that the host has in memory and can read again.
    Host,
}

/// What was forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Forgot {
    /// What the kernel was asked to forget, and did; `None` when it would not.
    pub what: Option<&'static str>,
    /// What may still be known.
    pub kept: &'static str,
}

/// The file by which the host's caches are emptied.
/// [proc(5)](https://man7.org/linux/man-pages/man5/proc_sys_vm.5.html)
const DROP_CACHES: &[u8] = b"/proc/sys/vm/drop_caches";

/// Has it forgotten, and says what was. What is dirty is written first, since it cannot be
/// forgotten.
pub(crate) fn forget(cold: &Cold, root: &[u8], warnings: &mut Vec<Warning>) -> Forgot {
    if let Ok(root) = open_long(root, Open::DIRECTORY) {
        let _ = syncfs(&root); // what stays dirty stays known, no more
    }
    let nothing = Forgot {
        what: None,
        kept: "everything",
    };
    match cold {
        Cold::NoGroup => {
            let why = "nothing was forgotten before the search: this process is in no memory cgroup that could; run it in \
                       one (systemd-run --scope), or empty the whole host's caches with --cold=host";
            warnings.push(Warning::general(why));
            nothing
        }
        Cold::Group(file, value) => match tell(file, value) {
            // What cannot be forgotten is reported so: it is in use.
            Ok(()) | Err((_, Errno::EAGAIN | Errno::EBUSY)) => Forgot {
                what: Some(
                    "names, inodes and pages that this process's memory cgroup had in memory",
                ),
                kept: "what is in use, what other groups have looked up, and the caches of servers and disks",
            },
            Err((gate, e)) => {
                let why = format!(
                    "nothing was forgotten before the search: {e}; as root, or with --cold=host"
                );
                warnings.push(Warning::failed(file, gate, e, why));
                nothing
            }
        },
        Cold::Host => match tell(DROP_CACHES, b"3") {
            Ok(()) => Forgot {
                what: Some("names, inodes and pages that the host had in memory"),
                kept: "what is in use, and the caches of servers and disks",
            },
            Err((gate, e)) => {
                let why = format!(
                    "nothing was forgotten before the search: {e}; that takes root, outside a container"
                );
                warnings.push(Warning::failed(DROP_CACHES, gate, e, why));
                nothing
            }
        },
    }
}

fn tell(file: &[u8], value: &[u8]) -> Result<(), (Gate, Errno)> {
    let file = open_long(file, Open::WRONLY).map_err(|e| (Gate::Openat, e))?;
    write(&file, value).map(drop).map_err(|e| (Gate::Write, e))
}
