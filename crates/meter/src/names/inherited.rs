//! What a command inherits from this process.

use gate::fs::{CWD, Open, getcwd, getdents64, openat, readlinkat};

use crate::syscalls::O_CLOEXEC;

/// What a command begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inherited {
    /// Its working directory.
    pub cwd: Option<Vec<u8>>,
    /// Open descriptors, and the absolute names of their files.
    pub files: Vec<(u32, Vec<u8>)>,
}

impl Inherited {
    /// The working directory of this process, and the descriptors that execve(2) leaves open. The
    /// latter are unknown without /proc.
    pub fn from_this_process() -> Inherited {
        Inherited {
            cwd: getcwd().ok().filter(|name| name.first() == Some(&b'/')),
            files: open_files().unwrap_or_default(),
        }
    }
}

fn open_files() -> Option<Vec<(u32, Vec<u8>)>> {
    let dir = openat(CWD, c"/proc/self/fd", Open::DIRECTORY).ok()?;
    let mut buffer = vec![0; 8 << 10];
    let mut files = Vec::new();
    loop {
        let n = getdents64(&dir, &mut buffer).ok().filter(|n| *n > 0);
        let Some(entries) = n.and_then(|n| buffer.get(..n)) else {
            return Some(files);
        };
        for entry in ondisk::dirent::entries(entries) {
            let fd = entry.name.to_str().ok().and_then(|name| name.parse().ok());
            let name = readlinkat(&dir, entry.name).ok();
            let name = name.filter(|name| is_file(name));
            files.extend(fd.filter(|fd| survives_exec(*fd)).zip(name));
        }
    }
}

/// Whether the link of a descriptor in /proc is the name of an existing file.
fn is_file(name: &[u8]) -> bool {
    name.first() == Some(&b'/') && !name.ends_with(b" (deleted)")
}

/// Whether execve(2) leaves a descriptor of this process open.
fn survives_exec(fd: u32) -> bool {
    flags(fd).is_some_and(|flags| flags & O_CLOEXEC == 0) && !gate::command::was_closed(fd)
}

/// The flags of a descriptor, from /proc.
fn flags(fd: u32) -> Option<u64> {
    let path = gate::long::c_string(format!("/proc/self/fdinfo/{fd}").as_bytes()).ok()?;
    let text = gate::file::read_kernel(&path).ok()?;
    let mut lines = text.split(|&b| b == b'\n');
    let flags = lines.find_map(|line| line.strip_prefix(b"flags:"))?;
    u64::from_str_radix(str::from_utf8(flags).ok()?.trim(), 8).ok()
}
